// A kernel that uses every wrapper of Blackwell's own instructions, for the gate: none of them ever
// ran on a GPU here, so all must at least assemble. Without a definition it uses the cta_group::1
// forms, with -DPAIR the cta_group::2 forms: a kernel may have only one of them.
#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/tma_pair.h"

#ifdef PAIR
#define every_tcgen05 every_tcgen05_pair
#endif

struct every_tcgen05_params {
    tensor_map map;
    uint32_t *words;
};

DEVICE void use_mma(uint32_t tmem, uint32_t smem)
{
    uint64_t desc = tcgen05_matrix_descriptor(smem, 0, 1024, TCGEN05_SWIZZLE_128);
    uint32_t f16 = tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, 128, 64, 0, 0);
    uint32_t f8 = tcgen05_instruction(TCGEN05_E4M3, TCGEN05_E5M2, 128, 64, 0, 0);
#ifdef PAIR
    tcgen05_mma_f16_ss_pair(tmem, desc, desc, f16, 0);
    tcgen05_mma_f16_ts_pair(tmem, tmem + 256, desc, f16, 1);
    tcgen05_mma_f8f6f4_ss_pair(tmem, desc, desc, f8, 0);
    tcgen05_mma_f8f6f4_ts_pair(tmem, tmem + 256, desc, f8, 1);
    tcgen05_cp_128x256b_pair(tmem, desc);
    tcgen05_cp_4x256b_pair(tmem, desc);
    tcgen05_cp_128x128b_pair(tmem, desc);
    tcgen05_cp_64x128b_02_13_pair(tmem, desc);
    tcgen05_cp_64x128b_01_23_pair(tmem, desc);
    tcgen05_cp_32x128b_pair(tmem, desc);
    tcgen05_shift_down_pair(tmem);
    tcgen05_commit_pair(smem);
    tcgen05_commit_pair_multicast(smem, 3);
#else
    tcgen05_mma_f16_ss(tmem, desc, desc, f16, 0);
    tcgen05_mma_f16_ts(tmem, tmem + 256, desc, f16, 1);
    tcgen05_mma_f8f6f4_ss(tmem, desc, desc, f8, 0);
    tcgen05_mma_f8f6f4_ts(tmem, tmem + 256, desc, f8, 1);
    tcgen05_cp_128x256b(tmem, desc);
    tcgen05_cp_4x256b(tmem, desc);
    tcgen05_cp_128x128b(tmem, desc);
    tcgen05_cp_64x128b_02_13(tmem, desc);
    tcgen05_cp_64x128b_01_23(tmem, desc);
    tcgen05_cp_32x128b(tmem, desc);
    tcgen05_shift_down(tmem);
    tcgen05_commit(smem);
    tcgen05_commit_multicast(smem, 3);
#endif
}

#define USE_NUM(shape, num)                                                                        \
    tcgen05_ld_##shape(num, r, tmem);                                                              \
    tcgen05_wait_ld();                                                                             \
    tcgen05_st_##shape(num, tmem, r);                                                              \
    tcgen05_wait_st()
#define USE_SPLIT(num)                                                                             \
    tcgen05_ld_16x32bx2(num, r, tmem, 16);                                                         \
    tcgen05_wait_ld();                                                                             \
    tcgen05_st_16x32bx2(num, tmem, 16, r);                                                         \
    tcgen05_wait_st()

DEVICE void use_shapes(uint32_t *words, uint32_t tmem)
{
    uint32_t r[128];
    UNROLL
    for (int i = 0; i < 128; i++) {
        r[i] = 0;
    }
    USE_NUM(32x32b, 1);
    USE_NUM(32x32b, 2);
    USE_NUM(32x32b, 4);
    USE_NUM(32x32b, 8);
    USE_NUM(32x32b, 16);
    USE_NUM(32x32b, 32);
    USE_NUM(32x32b, 64);
    USE_NUM(32x32b, 128);
    USE_NUM(16x64b, 1);
    USE_NUM(16x64b, 2);
    USE_NUM(16x64b, 4);
    USE_NUM(16x64b, 8);
    USE_NUM(16x64b, 16);
    USE_NUM(16x64b, 32);
    USE_NUM(16x64b, 64);
    USE_NUM(16x64b, 128);
    USE_NUM(16x128b, 1);
    USE_NUM(16x128b, 2);
    USE_NUM(16x128b, 4);
    USE_NUM(16x128b, 8);
    USE_NUM(16x128b, 16);
    USE_NUM(16x128b, 32);
    USE_NUM(16x128b, 64);
    USE_NUM(16x256b, 1);
    USE_NUM(16x256b, 2);
    USE_NUM(16x256b, 4);
    USE_NUM(16x256b, 8);
    USE_NUM(16x256b, 16);
    USE_NUM(16x256b, 32);
    USE_SPLIT(1);
    USE_SPLIT(2);
    USE_SPLIT(4);
    USE_SPLIT(8);
    USE_SPLIT(16);
    USE_SPLIT(32);
    USE_SPLIT(64);
    USE_SPLIT(128);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 1030
    float extreme[2];
    tcgen05_ld_max_32x32b(2, r, &extreme[0], tmem);
    tcgen05_ld_min_32x32b(64, r, &extreme[1], tmem);
    tcgen05_wait_ld();
    st_global_f32(words, extreme[0] + extreme[1]);
#endif
    UNROLL
    for (int i = 0; i < 128; i++) {
        st_global_u32(words + i * 128 + thread_idx(), r[i]);
    }
}

DEVICE float use_packed_math(float x)
{
    struct f32x2 a = {x, x + 1.0f};
    struct f32x2 b = add_f32x2(a, mul_f32x2(a, a));
    b = fma_f32x2(sub_f32x2(b, a), a, add_rm_f32x2(a, b));
    return max3_f32(b.x, b.y, x);
}

KERNEL_CLUSTER(128, 2) every_tcgen05(const GRID_CONSTANT struct every_tcgen05_params p)
{
    uint32_t smem = dynamic_smem();
#ifdef PAIR
    tma_load_pair_2d(smem, &p.map, cluster_map(smem, 0), 0, 1);
    tma_load_pair_3d(smem, &p.map, cluster_map(smem, 0), 0, 1, 2);
    tma_load_pair_4d(smem, &p.map, cluster_map(smem, 0), 0, 1, 2, 3);
    tma_load_pair_5d(smem, &p.map, cluster_map(smem, 0), 0, 1, 2, 3, 4);
    tcgen05_alloc_pair(smem, 512);
    tcgen05_relinquish_pair();
#else
    tcgen05_alloc(smem, 512);
    tcgen05_relinquish();
#endif
    tcgen05_fence_before();
    cluster_arrive();
    cluster_wait();
    tcgen05_fence_after();
    uint32_t tmem = ld_shared_u32(smem);
    use_mma(tmem, smem);
    use_shapes(p.words, tmem);
    st_global_f32((float *)p.words, use_packed_math((float)thread_idx()));
#ifdef PAIR
    tcgen05_dealloc_pair(tmem, 512);
#else
    tcgen05_dealloc(tmem, 512);
#endif
}
