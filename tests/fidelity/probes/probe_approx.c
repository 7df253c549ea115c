// The approximations of the special function unit.
#include "../../../src/device/ptx/math_ops.h"
#include "../probe.h"

KERNEL(128) probe_approx(const GRID_CONSTANT struct probe_params p)
{
    uint32_t i = block_idx_x() * 128 + thread_idx();
    float x = ld_global_f32(p.in + i);
    float y = 0.0f;
    switch (p.words[0]) {
    case 0: y = ex2_approx(x); break;
    case 1: y = lg2_approx(x); break;
    default: y = rcp_approx(x); break;
    }
    st_global_f32(p.out + i, y);
}
