// Arithmetic on two floats at once, and the maximum of three.
#include "../../../src/device/ptx/math_ops.h"
#include "../probe.h"

enum { PACKED_ANSWERS = 11 };

DEVICE uint32_t *show_pair(uint32_t *out, struct f32x2 x)
{
    st_global_f32(out, x.x);
    st_global_f32(out + 1, x.y);
    return out + 2;
}

KERNEL(128) probe_packed_math(const GRID_CONSTANT struct probe_params p)
{
    uint32_t i = 128 * block_idx_x() + thread_idx();
    const uint32_t *in = p.in + 6 * i;
    struct f32x2 a = {ld_global_f32(in), ld_global_f32(in + 1)};
    struct f32x2 b = {ld_global_f32(in + 2), ld_global_f32(in + 3)};
    struct f32x2 c = {ld_global_f32(in + 4), ld_global_f32(in + 5)};
    uint32_t *out = p.out + PACKED_ANSWERS * i;
    out = show_pair(out, add_f32x2(a, b));
    out = show_pair(out, sub_f32x2(a, b));
    out = show_pair(out, mul_f32x2(a, b));
    out = show_pair(out, fma_f32x2(a, b, c));
    out = show_pair(out, add_rm_f32x2(a, b));
    st_global_f32(out, max3_f32(a.x, b.x, c.x));
}
