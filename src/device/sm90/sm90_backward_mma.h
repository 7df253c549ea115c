// The products of a key warpgroup. All have its 64 keys as rows: scores and dP transposed, so that
// what the softmax leaves in registers is the A operand of dV and dK as it stands.
#ifndef ATTN_SM90_BACKWARD_MMA_H
#define ATTN_SM90_BACKWARD_MMA_H

#include "sm90_backward_config.h"

// s[64][BLOCK_M] = A B^T over `columns` columns: K Q^T, or V dO^T. A k step of 16 is 32 bytes
// within a swizzled row; four steps fill it, then comes the next panel.
DEVICE void issue_scores(float *s, uint64_t keys, uint64_t rows, int columns)
{
    pin_f32(s, BLOCK_M / 2);
    wgmma_fence();
    UNROLL
    for (int i = 0; i < columns / 16; i++) {
        MMA_SS(ATTN_CFG_BLOCK_M, s, keys + i / 4 * (KEYS_PANEL_BYTES / 16) + i % 4 * 2,
               rows + i / 4 * (ROWS_PANEL_BYTES / 16) + i % 4 * 2, i != 0);
    }
    wgmma_commit_group();
}

// A head dim beyond 128 is two products: ptxas refuses n 256 to a kernel of 512 threads.
#define REST_144 16
#define REST_160 32
#define REST_176 48
#define REST_192 64
#define REST_208 80
#define REST_224 96
#define REST_240 112
#define REST_256 128
#define REST_OF_TEXT(d) REST_##d
#define REST_OF(d) REST_OF_TEXT(d)

// dv[64][D_V] += P^T dO and dk[64][D_QK] += dS^T Q: A from registers; rows as they lie, their
// contiguous side is n.
DEVICE void issue_dv(float *dv, uint32_t *weights, uint64_t rows)
{
    pin_f32(dv, D_V / 2);
    pin_u32(weights, BLOCK_M / 4);
    wgmma_fence();
    UNROLL
    for (int i = 0; i < BLOCK_M / 16; i++) {
        uint64_t step = rows + i * (2 * PATTERN_BYTES / 16);
#if ATTN_CFG_D_V > 128
        MMA_RS(128, dv, weights + 4 * i, step);
        MMA_RS(REST_OF(ATTN_CFG_D_V), dv + 64, weights + 4 * i, step + 2 * ROWS_PANEL_BYTES / 16);
#else
        MMA_RS(ATTN_CFG_D_V, dv, weights + 4 * i, step);
#endif
    }
    wgmma_commit_group();
}

DEVICE void issue_dk(float *dk, uint32_t *ds, uint64_t rows)
{
    pin_f32(dk, D_QK / 2);
    pin_u32(ds, BLOCK_M / 4);
    wgmma_fence();
    UNROLL
    for (int i = 0; i < BLOCK_M / 16; i++) {
        uint64_t step = rows + i * (2 * PATTERN_BYTES / 16);
#if ATTN_CFG_D_QK > 128
        MMA_RS(128, dk, ds + 4 * i, step);
        MMA_RS(REST_OF(ATTN_CFG_D_QK), dk + 64, ds + 4 * i, step + 2 * ROWS_PANEL_BYTES / 16);
#else
        MMA_RS(ATTN_CFG_D_QK, dk, ds + 4 * i, step);
#endif
    }
    wgmma_commit_group();
}

#endif
