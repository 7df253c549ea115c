// Weights and their gradients of a key warpgroup, in registers: P^T = exp2(S^T - lse), which needs
// no maximum as the forward pass left the lse, and dS^T = P^T (dP^T - delta).
//
// A thread holds two keys, r = 0 and 1: elements i of a fragment with i / 2 % 2 == r, rows of Q
// i / 4 * 8 + i % 2 from its own first one. Rows of lse and delta lie in shared memory.
#ifndef ATTN_SM90_BACKWARD_SOFTMAX_H
#define ATTN_SM90_BACKWARD_SOFTMAX_H

#include "../ptx/math_ops.h"
#include "../ptx/matrix.h"
#include "sm90_backward_tile.h"

// The first of the thread's rows in a block.
DEVICE uint32_t first_row_of_thread(void)
{
    return thread_idx() % 4 * 2;
}

// Hides what the thread's keys must not see in a block. Limits are worked out anew from the tile's
// slot: masked blocks are few, registers fewer.
DEVICE void mask_scores(const kernel_params_t *p, float *s, uint32_t slot, uint32_t group,
                        int32_t block)
{
    struct tile tile;
    tile_read(slot, &tile);
    attn_mask_shape_t shape = mask_shape(p, tile.len_q, tile.len_kv, tile.leftpad);
    int32_t key = tile.key0 + (int32_t)group * WARPGROUP_N + row_of_thread();
    int32_t row0 = block * BLOCK_M + (int32_t)first_row_of_thread();
    UNROLL
    for (int r = 0; r < 2; r++) {
        attn_range_t rows = attn_tile_full_q_range(&shape, key + 8 * r, key + 8 * r + 1);
        int32_t begin = (int32_t)rows.begin - row0;
        int32_t end = (int32_t)rows.end - row0;
        UNROLL
        for (int i = 0; i < BLOCK_M / 2; i++) {
            int32_t row = i / 4 * 8 + i % 2;
            if (i / 2 % 2 == r && (row < begin || row >= end)) {
                s[i] = -INFINITY_F32;
            }
        }
    }
}

// lse: address of the block's. The accumulator layout of S^T is the A fragment layout of P^T: only
// pairs are packed.
DEVICE void pack_weights(uint32_t *weights, const float *s, uint32_t lse, float scale_log2)
{
    UNROLL
    for (int j = 0; j < BLOCK_M / 8; j++) {
        uint32_t row_lse[2];
        ld_shared_v2_u32(row_lse, lse + 4 * first_row_of_thread() + 32 * (uint32_t)j);
        UNROLL
        for (int r = 0; r < 2; r++) {
            const float *pair = s + 4 * j + 2 * r;
            float low = ex2_approx(fma_f32(pair[0], scale_log2, -f32_of_bits(row_lse[0])));
            float high = ex2_approx(fma_f32(pair[1], scale_log2, -f32_of_bits(row_lse[1])));
            weights[2 * j + r] = PACK_X2(low, high);
        }
    }
}

// The two weights of a pair. f16: by shifts, as conversions of halves would spill. A NaN comes out
// as a number, but then delta is NaN.
DEVICE float low_weight(uint32_t pair)
{
    return ATTN_CFG_BF16 ? f32_of_bits(pair << 16) : f32_of_bits(pair << 13 & 0xfffe000) * 0x1p112f;
}

DEVICE float high_weight(uint32_t pair)
{
    return ATTN_CFG_BF16 ? f32_of_bits(pair & 0xffff0000u)
                         : f32_of_bits(pair >> 3 & 0xfffe000) * 0x1p112f;
}

// dS^T in place of P^T; dp: dP^T.
DEVICE void pack_gradients(uint32_t *weights, const float *dp, uint32_t delta)
{
    UNROLL
    for (int j = 0; j < BLOCK_M / 8; j++) {
        uint32_t row_delta[2];
        ld_shared_v2_u32(row_delta, delta + 4 * first_row_of_thread() + 32 * (uint32_t)j);
        UNROLL
        for (int r = 0; r < 2; r++) {
            const float *pair = dp + 4 * j + 2 * r;
            uint32_t weight = weights[2 * j + r];
            float low = (pair[0] - f32_of_bits(row_delta[0])) * low_weight(weight);
            float high = (pair[1] - f32_of_bits(row_delta[1])) * high_weight(weight);
            weights[2 * j + r] = PACK_X2(low, high);
        }
    }
}

// dS^T from the fragment to dS in shared memory: a panel of the warpgroup's 64 keys, rows of Q
// below each other.
DEVICE void store_ds(uint32_t panel, const uint32_t *ds)
{
    uint32_t lane = thread_idx() % 32;
    uint32_t row = lane % 8 + lane / 16 * 8;
    uint32_t chunk = thread_idx() / 32 % 4 * 2 + lane / 8 % 2;
    uint32_t addr = panel + row * PANEL_ROW_BYTES + ((chunk ^ (row & 7)) << 4);
    UNROLL
    for (int k = 0; k < BLOCK_M / 16; k++) {
        stmatrix_x4_trans(addr + (uint32_t)k * 2 * PATTERN_BYTES, ds + 4 * k);
    }
}

#endif
