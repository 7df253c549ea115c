// The options of common/score_options.h on a warpgroup's fragments: scores as softmax.h wants them,
// weights dropped. What a kernel is not compiled for leaves no code.
//
// Bias and mask come straight from global memory, a thread's own elements, while the tensor core
// makes the products that they belong to.
#ifndef ATTN_SM90_FORWARD_SCORE_H
#define ATTN_SM90_FORWARD_SCORE_H

#include "../common/score_options.h"
#include "sm90_forward_softmax.h"

#if ATTN_CFG_DROPOUT && ATTN_CFG_BLOCK_N % 32 && ATTN_CFG_BLOCK_N != 16
#error "a block must be whole groups of dropout numbers, or half a group"
#endif

#if ATTN_CFG_PACK_GQA && (ATTN_CFG_ALIBI || ATTN_CFG_BIAS || ATTN_CFG_BOOL_MASK ||                 \
                          ATTN_CFG_BLOCK_LISTS || ATTN_CFG_DROPOUT)
#error "what depends on the head is that of a tile with one head"
#endif

// A thread's two rows, `row` and the one 8 below. What can be worked out from this again is, once a
// block: registers are scarcer than instructions here.
struct score_rows {
    int32_t row;
    int32_t
        last_row; // of the sequence; rows behind it stand for it: nothing is read that is not there
    int32_t len_kv;
    int32_t offset;            // of a row's position against the keys
    const unsigned char *bias; // of (b, h, row 0) at the thread's first column
    const unsigned char *mask;
    float slope_log2;
    struct dropout dropout;
};

DEVICE int32_t score_row_of(const struct score_rows *rows, int r)
{
    int32_t row = rows->row + 8 * r;
    return row < rows->last_row ? row : rows->last_row;
}

// A block's part of bias and mask: of fragment element i, and its bit i / 4 * 2 + i % 2.
struct score_block {
    float bias[ATTN_CFG_BIAS ? BLOCK_N / 2 : 1];
    uint32_t seen[2];
};

DEVICE struct score_rows score_rows_of(const attn_gpu_forward_params_t *p, const struct tile *tile,
                                       const attn_mask_shape_t *shape, int32_t row)
{
    struct score_rows rows;
    int32_t column = (int32_t)(thread_idx() % 4 * 2);
    rows.row = row;
    rows.last_row = tile->len_q - 1;
    rows.len_kv = tile->len_kv;
    rows.offset = (int32_t)shape->offset;
    if (ATTN_CFG_BIAS) {
        rows.bias = score_tensor_row(&p->score.bias, tile->b, tile->h, 0, BIAS_BYTES) +
                    column * p->score.bias.stride_k * BIAS_BYTES;
    }
    if (ATTN_CFG_BOOL_MASK) {
        rows.mask = score_tensor_row(&p->score.mask, tile->b, tile->h, 0, 1) +
                    column * p->score.mask.stride_k;
    }
    if (ATTN_CFG_ALIBI) {
        rows.slope_log2 = alibi_slope(p, tile->b, tile->h) * ATTN_LOG2_E;
    }
    if (ATTN_CFG_DROPOUT) {
        rows.dropout = dropout_of(p, tile->b, tile->h);
    }
    return rows;
}

// keys: columns of the block that are there, from the thread's first one on. Keys in pairs have
// constant addresses from the first one on; others are walked, for addresses kept would be many
// registers.
DEVICE void load_bias_row(const attn_gpu_score_tensor_t *tensor, const unsigned char *element,
                          int32_t keys, int r, float *bias)
{
    if (tensor->is_paired) {
        UNROLL
        for (int n = 0; n < BLOCK_N / 8; n++) {
            const unsigned char *pair = element + 8 * n * BIAS_BYTES;
            float *out = bias + 4 * n + 2 * r;
            if (ATTN_CFG_BIAS != 1 && 8 * n + 1 < keys) {
                uint32_t both = ld_global_u32(pair);
                out[0] = bias_of_bits(both & 0xffff);
                out[1] = bias_of_bits(both >> 16);
            } else {
                out[0] = 8 * n < keys ? load_bias(pair) : 0.0f;
                out[1] = 8 * n + 1 < keys ? load_bias(pair + BIAS_BYTES) : 0.0f;
            }
        }
    } else {
        uint64_t step = kept_u64((uint64_t)tensor->stride_k * BIAS_BYTES);
        UNROLL
        for (int n = 0; n < BLOCK_N / 8; n++) {
            float *out = bias + 4 * n + 2 * r;
            out[0] = 8 * n < keys ? load_bias(element) : 0.0f;
            out[1] = 8 * n + 1 < keys ? load_bias(element + step) : 0.0f;
            element += kept_u64(8 * step);
        }
    }
}

DEVICE uint32_t seen_bits(uint32_t first, uint32_t second, int n)
{
    return (uint32_t)(first != 0) << (2 * n) | (uint32_t)(second != 0) << (2 * n + 1);
}

DEVICE uint32_t load_mask_row(const attn_gpu_score_tensor_t *tensor, const unsigned char *element,
                              int32_t keys)
{
    uint32_t seen = 0;
    if (tensor->is_paired) {
        UNROLL
        for (int n = 0; n < BLOCK_N / 8; n++) {
            if (8 * n + 1 < keys) {
                uint32_t both = ld_global_u16(element + 8 * n);
                seen |= seen_bits(both & 0xff, both >> 8, n);
            } else if (8 * n < keys) {
                seen |= seen_bits(ld_global_u8(element + 8 * n), 0, n);
            }
        }
    } else {
        uint64_t step = kept_u64((uint64_t)tensor->stride_k);
        UNROLL
        for (int n = 0; n < BLOCK_N / 8; n++) {
            uint32_t first = 8 * n < keys ? ld_global_u8(element) : 0;
            uint32_t second = 8 * n + 1 < keys ? ld_global_u8(element + step) : 0;
            seen |= seen_bits(first, second, n);
            element += kept_u64(8 * step);
        }
    }
    return seen;
}

// is_masked: not all of the block is known to be shown by the mask tensor.
DEVICE void load_score_block(const attn_gpu_forward_params_t *p, const struct score_rows *rows,
                             int32_t block, int is_masked, struct score_block *out)
{
    const attn_gpu_score_tensor_t *bias = &p->score.bias;
    const attn_gpu_score_tensor_t *mask = &p->score.mask;
    int64_t key = (int64_t)block * BLOCK_N;
    int32_t keys = rows->len_kv - block * BLOCK_N - (int32_t)(thread_idx() % 4 * 2);
    UNROLL
    for (int r = 0; r < 2; r++) {
        int64_t row = score_row_of(rows, r);
        if (ATTN_CFG_BIAS) {
            load_bias_row(bias,
                          rows->bias + (row * bias->stride_q + key * bias->stride_k) * BIAS_BYTES,
                          keys, r, out->bias);
        }
        if (ATTN_CFG_BOOL_MASK) {
            out->seen[r] =
                is_masked
                    ? load_mask_row(mask, rows->mask + row * mask->stride_q + key * mask->stride_k,
                                    keys)
                    : 0xffffffffu;
        }
    }
}

// Products become scores in units of log2.
DEVICE void modify_scores(const attn_gpu_forward_params_t *p, const struct score_rows *rows,
                          const struct score_block *extra, int32_t block, float *s)
{
    int32_t first_column = block * BLOCK_N + (int32_t)(thread_idx() % 4 * 2);
    float position = (float)(rows->row + rows->offset - first_column); // row 0's
    UNROLL
    for (int i = 0; i < BLOCK_N / 2; i++) {
        int r = i / 2 % 2;
        int column = i / 4 * 8 + i % 2;
        if (SCORES_ARE_MODIFIED) {
            s[i] = scaled_product(p, s[i], ATTN_LOG2_E);
        }
        if (ATTN_CFG_ALIBI) {
            float distance = abs_f32(position + (float)(8 * r - column));
            s[i] = fma_f32(-rows->slope_log2, distance, s[i]);
        }
        if (ATTN_CFG_BIAS) {
            float bias = extra->bias[i];
            s[i] = bias == -INFINITY_F32 ? bias : fma_f32(bias, ATTN_LOG2_E, s[i]);
        }
        if (ATTN_CFG_BOOL_MASK && !(extra->seen[r] >> (i / 4 * 2 + i % 2) & 1)) {
            s[i] = -INFINITY_F32;
        }
    }
}

// Weights that are dropped become 0; the factor of the others is the row's (end_rows). A call's
// eight numbers are those of a thread's columns among 32 (src/shared/philox.h); a block of 16 uses
// four.
DEVICE void drop_weights(const attn_gpu_forward_params_t *p, const struct score_rows *rows,
                         int32_t block, float *s)
{
    enum { GROUPS = (BLOCK_N + 31) / 32, NUMBERS = BLOCK_N % 32 ? 4 : 8 };
    int32_t first = BLOCK_N % 32 ? block % 2 * 4 : 0;
    UNROLL
    for (int n = 0; n < GROUPS * 2; n++) {
        int r = n % 2;
        attn_philox_t bits = attn_dropout_call(
            rows->dropout.seed, rows->dropout.offset, rows->dropout.bh, rows->row + 8 * r,
            (int64_t)block * BLOCK_N / 32 + n / 2, (int32_t)(thread_idx() % 4));
        UNROLL
        for (int e = 0; e < NUMBERS; e++) {
            int i = n / 2 * 16 + e / 2 * 4 + 2 * r + e % 2;
            if (attn_dropout_number(bits, first + e) < p->score.dropout_threshold) {
                s[i] = 0.0f;
            }
        }
    }
}

#endif
