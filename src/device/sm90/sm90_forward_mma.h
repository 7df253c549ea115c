// The two products of a compute warpgroup.
#ifndef ATTN_SM90_FORWARD_MMA_H
#define ATTN_SM90_FORWARD_MMA_H

#include "sm90_forward_config.h"

// s[64][BLOCK_N] = Q K^T. A k step of 16 is 32 bytes within a swizzled row; four steps fill it,
// then comes the next panel. q and k: descriptors of the tiles, whose unit is 16 bytes.
DEVICE void issue_scores(float *s, uint64_t q, uint64_t k)
{
    pin_f32(s, BLOCK_N / 2);
    wgmma_fence();
    UNROLL
    for (int i = 0; i < D_QK / 16; i++) {
        MMA_SS(ATTN_CFG_BLOCK_N, s, q + i / 4 * (ROWS_PANEL_BYTES / 16) + i % 4 * 2,
               k + i / 4 * (KEYS_PANEL_BYTES / 16) + i % 4 * 2, i != 0);
    }
    wgmma_commit_group();
}

// o[64][D_V] += P V: P from registers; V as it lies, keys by dims, its contiguous side is n.
DEVICE void issue_output(float *o, uint32_t *weights, uint64_t v)
{
    pin_f32(o, D_V / 2);
    pin_u32(weights, BLOCK_N / 4);
    wgmma_fence();
    UNROLL
    for (int i = 0; i < BLOCK_N / 16; i++) {
        MMA_RS(ATTN_CFG_D_V, o, weights + 4 * i, v + i * (2 * PATTERN_BYTES / 16));
    }
    wgmma_commit_group();
}

#endif
