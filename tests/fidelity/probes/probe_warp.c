// Shuffles, votes, the warp's sum, election: every lane's answer, for several warps.
#include "../../../src/device/ptx/math_ops.h"
#include "../../../src/device/ptx/warp.h"
#include "../probe.h"

enum { WARP_ANSWERS = 16 };

KERNEL(128) probe_warp(const GRID_CONSTANT struct probe_params p)
{
    uint32_t x = ld_global_u32(p.in + thread_idx());
    uint32_t lane = ld_global_u32(p.in + 128 + thread_idx()) % 32;
    float f = f32_of_bits(x);
    uint32_t *out = p.out + WARP_ANSWERS * thread_idx();
    st_global_u32(out + 0, shuffle_xor_u32(x, 5));
    st_global_u32(out + 1, shuffle_xor_u32(x, 16));
    st_global_u32(out + 2, shuffle_up_u32(x, 3));
    st_global_u32(out + 3, shuffle_up_u32(x, 31));
    st_global_u32(out + 4, shuffle_down_u32(x, 3));
    st_global_u32(out + 5, shuffle_down_u32(x, 16));
    st_global_u32(out + 6, shuffle_idx_u32(x, lane));
    st_global_f32(out + 7, shuffle_xor_f32(f, 1));
    st_global_f32(out + 8, shuffle_idx_f32(f, lane));
    st_global_u32(out + 9, vote_ballot(x & 1));
    st_global_u32(out + 10, vote_any(x % 64 == 0));
    st_global_u32(out + 11, vote_all(x % 64 != 0));
    st_global_u32(out + 12, reduce_add_u32(x));
    st_global_u32(out + 13, vote_all(lane < 32));
    uint32_t elected = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    elected = elect_one();
#endif
    st_global_u32(out + 14, elected);
    st_global_u32(out + 15, block_idx_x() + block_idx_y() + block_idx_z() + grid_dim_x() +
                                grid_dim_y() + grid_dim_z());
}
