// Arithmetic of a thread, exact: conversions, fma, maximum.
#include "../../../src/device/ptx/math_ops.h"
#include "../probe.h"

enum { MATH_ANSWERS = 9 };

KERNEL(128) probe_math(const GRID_CONSTANT struct probe_params p)
{
    uint32_t i = block_idx_x() * 128 + thread_idx();
    uint32_t bits = ld_global_u32(p.in + 3 * i);
    float x = f32_of_bits(bits);
    float y = ld_global_f32(p.in + 3 * i + 1);
    float z = ld_global_f32(p.in + 3 * i + 2);
    uint32_t *out = p.out + MATH_ANSWERS * i;
    st_global_u32(out + 0, pack_bf16x2(x, y));
    st_global_u32(out + 1, pack_f16x2(x, y));
    uint32_t narrow = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
    narrow = pack_e4m3x2(x, y) | pack_e5m2x2(x, y) << 16;
#endif
    st_global_u32(out + 2, narrow);
    st_global_f32(out + 3, f32_of_f16(bits & 0xffff));
    st_global_f32(out + 4, f32_of_bf16(bits >> 16));
    st_global_f32(out + 5, max_f32(x, y));
    st_global_f32(out + 6, fma_f32(x, y, z));
    st_global_u32(out + 7, bits_of_f32(x) ^ bits_of_f32(z));
    st_global_u32(out + 8, leading_zeros_u32(bits >> i % 32));
}
