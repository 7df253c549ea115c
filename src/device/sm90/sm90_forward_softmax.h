// Online softmax of a warpgroup's scores in registers, base 2, rescaled only when it must be.
//
// A thread holds two rows, r = 0 and 1: elements i of a fragment with i / 2 % 2 == r, columns
// i / 4 * 8 + i % 2 from its own first one. Four lanes share a row.
//
// The anchor is what exponents are taken relative to. It follows the row's maximum only when a
// score rises more than RESCALE_THRESHOLD above it: weights are then at most 2^8, which 16-bit
// floats hold as exactly as smaller ones, and the sum uses the same anchor, so the result is exact
// (FlashAttention-4's conditional rescaling). Whether to look is a vote of the warp over each
// thread's own maximum: no shuffle where nothing rises. Each row moves for its own scores alone, so
// that its bits do not depend on its neighbours.
#ifndef ATTN_SM90_FORWARD_SOFTMAX_H
#define ATTN_SM90_FORWARD_SOFTMAX_H

#include "../ptx/math_ops.h"
#include "../ptx/warp.h"
#include "sm90_forward_tile.h"

#define RESCALE_THRESHOLD 8.0f
// The anchor of a row that has seen no key: finite, so that -inf - anchor stays -inf.
#define ANCHOR_NONE (-3.4028235e38f)

struct softmax {
    float anchor[2]; // in units of log2
    float sum[2];    // of this thread's columns
    float rescale[2];
};

// Keys that a thread's two rows see: columns begin .. end - 1, counted from the thread's first
// column of key block 0.
struct row_limits {
    int32_t begin[2];
    int32_t end[2];
};

DEVICE struct row_limits row_limits(const attn_mask_shape_t *shape, int32_t row)
{
    int32_t column = (int32_t)(thread_idx() % 4 * 2);
    struct row_limits limits;
    UNROLL
    for (int r = 0; r < 2; r++) {
        int32_t position = position_of_row(row + 8 * r);
        attn_range_t keys = attn_row_kv_range(shape, position);
        if (position >= shape->len_q) {
            keys.end = keys.begin; // behind the sequence: sees nothing
        }
        limits.begin[r] = (int32_t)keys.begin - column;
        limits.end[r] = (int32_t)keys.end - column;
    }
    return limits;
}

DEVICE void mask_scores(float *s, const struct row_limits *limits, int32_t block)
{
    UNROLL
    for (int r = 0; r < 2; r++) {
        int32_t begin = limits->begin[r] - block * BLOCK_N;
        int32_t end = limits->end[r] - block * BLOCK_N;
        UNROLL
        for (int i = 0; i < BLOCK_N / 2; i++) {
            int32_t column = i / 4 * 8 + i % 2;
            if (i / 2 % 2 == r) {
                if (column >= end || ((ATTN_CFG_MASK & MASK_LOWER) && column < begin)) {
                    s[i] = -INFINITY_F32;
                }
            }
        }
    }
}

// Keys of a block that have no page, a bit for each: rare, and only where operands are gathered.
struct hidden_keys {
    uint32_t words[HIDDEN_WORDS];
};

DEVICE struct hidden_keys read_hidden_keys(uint32_t smem_bits)
{
    struct hidden_keys hidden;
    UNROLL
    for (uint32_t i = 0; i < HIDDEN_WORDS; i++) {
        hidden.words[i] = ATTN_CFG_GATHER ? ld_shared_u32(smem_bits + 4 * i) : 0;
    }
    if (ATTN_CFG_GATHER) {
        warp_sync(); // all lanes have read it: the buffer may be given back
    }
    return hidden;
}

DEVICE void hide_keys(float *s, const struct hidden_keys *hidden)
{
    uint32_t column0 = thread_idx() % 4 * 2;
    uint32_t any = 0;
    UNROLL
    for (int i = 0; i < HIDDEN_WORDS; i++) {
        any |= hidden->words[i];
    }
    if (any) {
        UNROLL
        for (int i = 0; i < BLOCK_N / 2; i++) {
            int column = i / 4 * 8 + i % 2;
            if (hidden->words[column / 32] >> ((uint32_t)column % 32 + column0) & 1) {
                s[i] = -INFINITY_F32;
            }
        }
    }
}

DEVICE float thread_max(const float *s, int r)
{
    float even = s[2 * r];
    float odd = s[2 * r + 1];
    UNROLL
    for (int i = 4; i < BLOCK_N / 2; i += 4) {
        even = max_f32(even, s[i + 2 * r]);
        odd = max_f32(odd, s[i + 2 * r + 1]);
    }
    return max_f32(even, odd);
}

DEVICE float row_max(float x)
{
    x = max_f32(x, shuffle_xor_f32(x, 1));
    return max_f32(x, shuffle_xor_f32(x, 2));
}

// Exponentiates in place and adds to the sums.
DEVICE void exponentiate(float *s, struct softmax *state, float scale_log2)
{
    float even[2];
    float odd[2];
    UNROLL
    for (int r = 0; r < 2; r++) {
        even[r] = state->sum[r];
        odd[r] = 0.0f;
    }
    UNROLL
    for (int i = 0; i < BLOCK_N / 2; i++) {
        int r = i / 2 % 2;
        s[i] = ex2_approx(fma_f32(s[i], scale_log2, -state->anchor[r]));
        if (i % 2) {
            odd[r] += s[i];
        } else {
            even[r] += s[i];
        }
    }
    UNROLL
    for (int r = 0; r < 2; r++) {
        state->sum[r] = even[r] + odd[r];
    }
}

DEVICE void softmax_first(float *s, struct softmax *state, float scale_log2)
{
    UNROLL
    for (int r = 0; r < 2; r++) {
        state->anchor[r] = max_f32(row_max(thread_max(s, r)) * scale_log2, ANCHOR_NONE);
        state->sum[r] = 0.0f;
    }
    exponentiate(s, state, scale_log2);
}

// Moves the anchors if a score of the warp's rows rose too far; then O must be multiplied by
// `rescale`. The answer is the same in all lanes.
DEVICE uint32_t move_anchor(const float *s, struct softmax *state, float scale_log2)
{
    float max0 = thread_max(s, 0);
    float max1 = thread_max(s, 1);
    uint32_t rises = vote_any((fma_f32(max0, scale_log2, -state->anchor[0]) > RESCALE_THRESHOLD) |
                              (fma_f32(max1, scale_log2, -state->anchor[1]) > RESCALE_THRESHOLD));
    if (rises) {
        float max[2];
        max[0] = row_max(max0);
        max[1] = row_max(max1);
        UNROLL
        for (int r = 0; r < 2; r++) {
            uint32_t row_rises = fma_f32(max[r], scale_log2, -state->anchor[r]) > RESCALE_THRESHOLD;
            float anchor = row_rises ? max[r] * scale_log2 : state->anchor[r];
            state->rescale[r] = ex2_approx(state->anchor[r] - anchor);
            state->anchor[r] = anchor;
            state->sum[r] *= state->rescale[r];
        }
    }
    return rises;
}

// The accumulator layout of S is the A fragment layout of P: only pairs are packed.
DEVICE void pack_weights(uint32_t *weights, const float *s)
{
    UNROLL
    for (int i = 0; i < BLOCK_N / 4; i++) {
        weights[i] = PACK_X2(s[2 * i], s[2 * i + 1]);
    }
}

DEVICE void scale_output(float *o, const float *factor)
{
    UNROLL
    for (int i = 0; i < D_V / 2; i++) {
        o[i] *= factor[i / 2 % 2];
    }
}

#endif
