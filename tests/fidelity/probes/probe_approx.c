// The approximations of the special function unit; literal 0 says which.
#include "../../../src/device/ptx/math_ops.h"
#include "../probe.h"
#include "../probe_words.h"

KERNEL(128) probe_approx(const GRID_CONSTANT struct probe_params p)
{
    uint32_t i = block_idx_x() * 128 + thread_idx();
    float x = ld_global_f32(p.in + i);
    float y = 0.0f;
    switch (PROBE_0) {
    case APPROX_EX2: y = ex2_approx(x); break;
    case APPROX_LG2: y = lg2_approx(x); break;
    default: y = rcp_approx(x); break;
    }
    st_global_f32(p.out + i, y);
}
