// mma.sync: D = A B + D from fragments as they come.
//
// Literal 0 is the type.
#include "../../../src/device/ptx/math_ops.h"
#include "../../../src/device/ptx/mma_sync.h"
#include "../probe.h"
#include "../probe_words.h"

DEVICE void mma_of_type(float *d, const uint32_t *a, const uint32_t *b)
{
    switch (PROBE_0) {
    case TYPE_F16: mma_m16n8k16_f16(d, a, b); break;
    case TYPE_BF16: mma_m16n8k16_bf16(d, a, b); break;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
    case TYPE_E4M3: mma_m16n8k32_e4m3(d, a, b); break;
    case TYPE_E5M2: mma_m16n8k32_e5m2(d, a, b); break;
    case TYPE_E4M3_E5M2: mma_m16n8k32_e4m3_e5m2(d, a, b); break;
    case TYPE_E5M2_E4M3: mma_m16n8k32_e5m2_e4m3(d, a, b); break;
#endif
    }
}

// in: A, then B, of each thread; D behind them.
KERNEL(128) probe_mma_sync(const GRID_CONSTANT struct probe_params p)
{
    uint32_t i = block_idx_x() * 128 + thread_idx();
    uint32_t count = grid_dim_x() * 128;
    uint32_t a[4];
    uint32_t b[4];
    uint32_t d_bits[4];
    float d[4];
    ld_global_v4_u32(a, p.in + 8 * i);
    ld_global_v4_u32(b, p.in + 8 * i + 4);
    ld_global_v4_u32(d_bits, p.in + 8 * count + 4 * i);
    UNROLL
    for (int j = 0; j < 4; j++) {
        d[j] = f32_of_bits(d_bits[j]);
    }
    mma_of_type(d, a, b);
    UNROLL
    for (int j = 0; j < 4; j++) {
        st_global_f32(p.out + 4 * i + j, d[j]);
    }
}
