// A kernel that uses every instruction wrapper that the architecture has, for the gate: what never
// runs on a GPU must at least assemble. It computes nothing, and nothing runs it. tcgen05 is in
// every_tcgen05.c.
#include "../../src/device/common/descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/cp_async.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/mma_sync.h"
#include "../../src/device/ptx/pdl.h"
#include "../../src/device/ptx/register.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/warp.h"
#include "../../src/device/ptx/wgmma.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define SINCE_SM90
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
#define SINCE_SM89
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
#define WITH_WGMMA // Hopper alone has it
#endif

struct every_params {
    tensor_map map;
    uint32_t *words;
};

DEVICE void use_barriers(uint32_t smem)
{
    mbarrier_init(smem, 1);
    cta_sync();
    mbarrier_arrive(smem);
    mbarrier_wait(smem, 0);
    mbarrier_inval(smem);
    barrier_arrive(1, 128);
    barrier_sync(1, 128);
    fence_acq_rel_cta();
    fence_acq_rel_gpu();
    fence_acq_rel_sys();
}

DEVICE void use_cp_async(const uint32_t *words, uint32_t smem)
{
    cp_async_4(smem, words);
    cp_async_8(smem, words);
    cp_async_16(smem, words);
    cp_async_4_zfill(smem, words, 2);
    cp_async_8_zfill(smem, words, 4);
    cp_async_16_zfill(smem, words, 0);
    cp_async_commit_group();
    cp_async_wait_group(1);
    cp_async_wait_all();
    cp_async_mbarrier_arrive_noinc(smem);
}

DEVICE void use_mma_sync(uint32_t *words)
{
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t a[4] = {words[0], words[1], words[2], words[3]};
    uint32_t b[2] = {words[4], words[5]};
    mma_m16n8k16_f16(d, a, b);
    mma_m16n8k16_bf16(d, a, b);
#ifdef SINCE_SM89
    mma_m16n8k32_e4m3(d, a, b);
    mma_m16n8k32_e5m2(d, a, b);
    mma_m16n8k32_e4m3_e5m2(d, a, b);
    mma_m16n8k32_e5m2_e4m3(d, a, b);
#endif
    st_global_f32(words, d[0] + d[1] + d[2] + d[3]);
}

#ifdef SINCE_SM90
DEVICE void use_cluster_barriers(uint32_t smem)
{
    fence_mbarrier_init();
    mbarrier_arrive_cluster(cluster_map(smem, 0));
    mbarrier_expect_tx(smem, 16);
    mbarrier_arrive_expect_tx(smem, 16);
    mbarrier_arrive_expect_tx_cluster(cluster_map(smem, 0), 16);
    mbarrier_wait_cluster(smem, mbarrier_try_wait_cluster(smem, 1));
    cluster_arrive();
    cluster_wait();
    cluster_arrive_relaxed();
    cluster_wait();
    fence_proxy_async();
    fence_proxy_async_global();
    fence_acq_rel_cluster();
    griddep_wait();
    griddep_launch_dependents();
    setmaxnreg_dec(24);
    setmaxnreg_inc(240);
}

DEVICE void use_tma(const tensor_map *map, uint32_t smem)
{
    tma_prefetch_map(map);
    tma_load_2d(smem, map, smem, 0, 1);
    tma_load_3d(smem, map, smem, 0, 1, 2);
    tma_load_4d(smem, map, smem, 0, 1, 2, 3);
    tma_load_5d(smem, map, smem, 0, 1, 2, 3, 4);
    tma_store_2d(map, smem, 0, 1);
    tma_store_3d(map, smem, 0, 1, 2);
    tma_store_4d(map, smem, 0, 1, 2, 3);
    tma_store_5d(map, smem, 0, 1, 2, 3, 4);
    tma_reduce_add_2d(map, smem, 0, 1);
    tma_reduce_add_3d(map, smem, 0, 1, 2);
    tma_reduce_add_4d(map, smem, 0, 1, 2, 3);
    tma_reduce_add_5d(map, smem, 0, 1, 2, 3, 4);
}

DEVICE void use_bulk(uint32_t *words, uint32_t smem)
{
    bulk_load(smem, words, 16, smem);
    bulk_copy_cluster(cluster_map(smem, 1), smem, 16, cluster_map(smem, 1));
    bulk_store(words, smem, 16);
    bulk_reduce_add_f32(words, smem, 16);
    bulk_reduce_add_f16(words, smem, 16);
    bulk_reduce_add_bf16(words, smem, 16);
    bulk_commit_group();
    bulk_wait_group_read(1);
    bulk_wait_group(0);
}

DEVICE void use_stmatrix(uint32_t smem)
{
    uint32_t r[4] = {1, 2, 3, 4};
    stmatrix_x4_trans(smem, r);
    stmatrix_x4(smem, r);
    stmatrix_x2_trans(smem, r);
    stmatrix_x2(smem, r);
    stmatrix_x1_trans(smem, r);
    stmatrix_x1(smem, r);
    st_cluster_u32(cluster_map(smem, 1), ld_cluster_u32(cluster_map(smem, 0)));
}
#endif

// sm_120 has multicast, but ptxas warns that it is slow there.
#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
#define WITH_MULTICAST
DEVICE void use_multicast(const tensor_map *map, uint32_t *words, uint32_t smem)
{
    tma_load_multicast_2d(smem, map, smem, 3, 0, 1);
    tma_load_multicast_3d(smem, map, smem, 3, 0, 1, 2);
    tma_load_multicast_4d(smem, map, smem, 3, 0, 1, 2, 3);
    tma_load_multicast_5d(smem, map, smem, 3, 0, 1, 2, 3, 4);
    bulk_load_multicast(smem, words, 16, smem, 3);
}
#endif

DEVICE void use_memory(uint32_t *words, uint32_t smem)
{
    uint32_t r[4];
    ld_shared_v4_u32(r, smem);
    st_shared_v4_u32(smem + 16, r);
    ld_shared_v2_u32(r, smem);
    st_shared_v2_u32(smem + 16, r);
    st_shared_u16(smem, ld_shared_u16(smem + 2));
    st_shared_u32(smem, ld_shared_u32(smem + 4));
    st_shared_f32(smem, ld_shared_f32(smem + 4));
    ld_global_v4_u32(r, words);
    st_global_v4_u32(words + 4, r);
    st_global_u16(words, ld_global_u16(words + 1));
    st_global_u32(words, ld_global_u32(words + 1));
    st_global_f32(words, ld_global_f32(words + 1));
    st_global_u8(words, ld_global_u8(words));
    st_global_v2_f32(words, 1.0f, 2.0f);
    words[2] = atom_global_add_u32(words, atom_shared_add_u32(smem, 1));
    words[3] = atom_global_cas_u32(words, 1, 2);
    red_global_add_f32(words, 1.0f);
}

DEVICE void use_flags(uint32_t *words)
{
    st_release_cta_u32(words, ld_acquire_cta_u32(words + 1));
    st_release_gpu_u32(words, ld_acquire_gpu_u32(words + 1));
    st_release_sys_u32(words, ld_acquire_sys_u32(words + 1));
    red_release_cta_add_u32(words, 1);
    red_release_gpu_add_u32(words, 1);
    red_release_sys_add_u32(words, 1);
    words[2] = atom_acq_rel_cta_add_u32(words, 1) + atom_acq_rel_gpu_add_u32(words, 1) +
               atom_acq_rel_sys_add_u32(words, 1);
    st_relaxed_gpu_u32(words, ld_relaxed_gpu_u32(words + 1));
    wait_equal_gpu_u32(words, 1);
    wait_at_least_gpu_u32(words, 1);
#ifdef SINCE_SM90
    st_release_cluster_u32(words, ld_acquire_cluster_u32(words + 1));
    red_release_cluster_add_u32(words, 1);
    words[3] = atom_acq_rel_cluster_add_u32(words, 1);
#endif
}

DEVICE uint32_t use_warp(uint32_t x)
{
    warp_sync();
    x += shuffle_xor_u32(x, 1) + shuffle_idx_u32(x, 0) + shuffle_up_u32(x, 1) +
         shuffle_down_u32(x, 1);
    x += vote_ballot(x) + vote_any(x) + vote_all(x) + reduce_add_u32(x);
    float f = shuffle_xor_f32(f32_of_bits(x), 1) + shuffle_idx_f32(f32_of_bits(x), 2);
    f = fma_f32(ex2_approx(f), lg2_approx(f), max_f32(rcp_approx(f), f));
    x = pack_bf16x2(f, 1.0f) + pack_f16x2(f, 1.0f);
#ifdef SINCE_SM89
    x += pack_e4m3x2(f, 1.0f) + pack_e5m2x2(f, 1.0f);
#endif
#ifdef SINCE_SM90
    x += elect_one() + cluster_rank() + cluster_size();
#endif
    return x + leading_zeros_u32(x) + bits_of_f32(f32_of_f16(x) + f32_of_bf16(x));
}

DEVICE void use_ldmatrix(uint32_t *words, uint32_t smem)
{
    uint32_t r[4];
    uint32_t sum = 0;
    ldmatrix_x4(r, smem);
    sum += r[3];
    ldmatrix_x4_trans(r, smem);
    sum += r[3];
    ldmatrix_x2(r, smem);
    sum += r[1];
    ldmatrix_x2_trans(r, smem);
    sum += r[1];
    ldmatrix_x1(r, smem);
    sum += r[0];
    ldmatrix_x1_trans(r, smem);
    st_global_u32(words, sum + r[0]);
}

#ifdef WITH_WGMMA
#define USE_N(n)                                                                                   \
    wgmma_ss_bf16(n, d, desc, desc, 1, 0, 1);                                                      \
    wgmma_rs_bf16(n, d, a, desc, 1, 0)

DEVICE void use_wgmma(uint32_t *words, uint32_t smem)
{
    float d[128];
    uint32_t a[4] = {1, 2, 3, 4};
    uint64_t desc = matrix_descriptor(smem, 0, 1024, DESC_SWIZZLE_128);
    UNROLL
    for (int i = 0; i < 128; i++) {
        d[i] = 0.0f;
        WGMMA_PIN(d[i]);
    }
    wgmma_fence();
    USE_N(8);
    USE_N(16);
    USE_N(24);
    USE_N(32);
    USE_N(40);
    USE_N(48);
    USE_N(56);
    USE_N(64);
    USE_N(72);
    USE_N(80);
    USE_N(88);
    USE_N(96);
    USE_N(104);
    USE_N(112);
    USE_N(120);
    USE_N(128);
    USE_N(136);
    USE_N(144);
    USE_N(152);
    USE_N(160);
    USE_N(168);
    USE_N(176);
    USE_N(184);
    USE_N(192);
    USE_N(200);
    USE_N(208);
    USE_N(216);
    USE_N(224);
    USE_N(232);
    USE_N(240);
    USE_N(248);
    USE_N(256);
    wgmma_ss_f16(64, d, desc, desc, 1, 1, 0);
    wgmma_rs_f16(64, d, a, desc, 1, 1);
    wgmma_ss_e4m3(64, d, desc, desc, 1);
    wgmma_rs_e4m3(64, d, a, desc, 1);
    wgmma_ss_e5m2(64, d, desc, desc, 1);
    wgmma_rs_e5m2(64, d, a, desc, 1);
    wgmma_ss_e4m3_e5m2(64, d, desc, desc, 1);
    wgmma_rs_e4m3_e5m2(64, d, a, desc, 1);
    wgmma_ss_e5m2_e4m3(64, d, desc, desc, 1);
    wgmma_rs_e5m2_e4m3(64, d, a, desc, 1);
    wgmma_commit_group();
    wgmma_wait_group(0);
    UNROLL
    for (int i = 0; i < 128; i++) {
        st_global_f32(words + i * 128 + thread_idx(), d[i]);
    }
}
#endif

#ifdef SINCE_SM90
KERNEL_CLUSTER(128, 2) every_instruction(const GRID_CONSTANT struct every_params p)
#else
KERNEL(128) every_instruction(const GRID_CONSTANT struct every_params p)
#endif
{
    uint32_t smem = dynamic_smem();
    uint32_t where =
        block_idx_x() + block_idx_y() + block_idx_z() + grid_dim_x() + grid_dim_y() + grid_dim_z();
    ROLE("all");
    use_barriers(smem);
    use_cp_async(p.words, smem);
    use_mma_sync(p.words);
    use_memory(p.words, smem);
    use_flags(p.words);
    use_ldmatrix(p.words, smem);
    st_global_u32(p.words, use_warp(thread_idx() + where));
#ifdef SINCE_SM90
    use_cluster_barriers(smem);
    use_tma(&p.map, smem);
    use_bulk(p.words, smem);
    use_stmatrix(smem);
#endif
#ifdef WITH_MULTICAST
    use_multicast(&p.map, p.words, smem);
#endif
#ifdef WITH_WGMMA
    use_wgmma(p.words, smem);
#endif
}
