// The backward pass on bfloat16 pairs: backward_tmpl.h's steps with every product two terms at a
// time, p and ds rounded to bfloat16 between them. Part of backward_tmpl.h; empty without a pair
// dot product.
#ifndef ATTN_CPU_BACKWARD_PAIRS_TMPL_H
#define ATTN_CPU_BACKWARD_PAIRS_TMPL_H

#include "../isa/gemm_pairs_tmpl.h"

#ifdef VF_HAS_BF16_DOT

// -------------------------------------------------------------------------------------------------
// Operands: bits move, nothing is rounded

static void backward_load_pairs(const attn_cpu_rows_t *from, uint32_t *pairs, int64_t stride)
{
    const attn_tensor_t *tensor = from->tensor;
    const int64_t even = from->cols / 2 * 2;
    for (int64_t row = 0; row < from->rows; row++) {
        const unsigned char *at = from->data + row * tensor->stride_s * 2;
        uint32_t *out = pairs + row * stride;
        uint16_t half[2] = {0, 0};
        if (tensor->stride_d == 1) {
            memcpy(out, at, (size_t)even * 2);
        }
        for (int64_t col = 0; col < even && tensor->stride_d != 1; col += 2) {
            memcpy(&half[0], at + col * tensor->stride_d * 2, 2);
            memcpy(&half[1], at + (col + 1) * tensor->stride_d * 2, 2);
            out[col / 2] = half[0] | (uint32_t)half[1] << 16;
        }
        if (even < from->cols) {
            memcpy(&half[0], at + even * tensor->stride_d * 2, 2);
            out[even / 2] = half[0];
        }
    }
}

// PANEL rows to columns.
static void backward_transpose_pairs(const uint32_t *pairs, int64_t stride, int64_t cols2,
                                     uint32_t *transposed)
{
    for (int64_t col = 0; col < cols2; col++) {
        for (int64_t row = 0; row < PANEL; row++) {
            transposed[col * PANEL + row] = pairs[row * stride + col];
        }
    }
}

static void backward_pair_rows(const uint32_t *pairs, int64_t stride, int64_t rows, int64_t cols2,
                               uint32_t *paired, int64_t paired_stride)
{
    for (int64_t row = 0; row < rows; row += 2) {
        const uint32_t has_odd = row + 1 < rows ? 0xffffffffu : 0u;
        const uint32_t *even = pairs + row * stride;
        const uint32_t *odd = row + 1 < rows ? even + stride : even;
        uint32_t *out = paired + row / 2 * paired_stride;
        for (int64_t col = 0; col < cols2; col++) {
            const uint32_t other = odd[col] & has_odd;
            out[2 * col] = (even[col] & 0xffffu) | other << 16;
            out[2 * col + 1] = even[col] >> 16 | (other & 0xffff0000u);
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Scores to weights and their gradients

// Rows m and m + 1 of a panel whose dot products are in tile->p and tile->ds, [rows][PANEL] from
// row m_first on.
GEMM_INLINE void backward_two_rows(const attn_cpu_backward_tile_t *tile, int64_t m, int64_t m_first,
                                   const int has_odd, int64_t n, const backward_variant_t variant)
{
    const attn_cpu_backward_pairs_t *pairs = tile->pairs;
    const vf zero = vf_set1(0.0f);
    backward_weight_t weights[2][2] = {{{zero, zero}, {zero, zero}}, {{zero, zero}, {zero, zero}}};
    GEMM_UNROLL
    for (int r = 0; r <= has_odd; r++) {
        const float *dot = tile->p + (m + r - m_first) * PANEL;
        const float *dp = tile->ds + (m + r - m_first) * PANEL;
        weights[r][0] = backward_weight_at(tile, m + r, n, vf_load(dot), vf_load(dp), variant);
        weights[r][1] = backward_weight_at(tile, m + r, n + VF_LANES, vf_load(dot + VF_LANES),
                                           vf_load(dp + VF_LANES), variant);
        uint32_t *row = pairs->ds_rows2 + ((m + r) * tile->tile_stride + n) / 2;
        vb_store((uint16_t *)(void *)row, vb_round(weights[r][0].ds, weights[r][1].ds));
    }
    GEMM_UNROLL
    for (int v = 0; v < 2; v++) {
        const int64_t at = m / 2 * tile->tile_stride + n + v * VF_LANES;
        vb_store_pairs((uint16_t *)(void *)(pairs->p2 + at), weights[0][v].p, weights[1][v].p);
        vb_store_pairs((uint16_t *)(void *)(pairs->ds2 + at), weights[0][v].ds, weights[1][v].ds);
    }
}

GEMM_INLINE void backward_rows_pairs(const attn_cpu_backward_tile_t *tile, attn_range_t rows,
                                     int64_t n, const backward_variant_t variant)
{
    int64_t m = rows.begin;
    for (; m + 2 <= rows.end; m += 2) {
        backward_two_rows(tile, m, rows.begin, 1, n, variant);
    }
    if (m < rows.end) {
        backward_two_rows(tile, m, rows.begin, 0, n, variant);
    }
}

static void backward_scores_pairs(const attn_cpu_backward_tile_t *tile)
{
    const attn_cpu_backward_pairs_t *pairs = tile->pairs;
    const int64_t d_qk2 = (tile->d_qk + 1) / 2;
    const int64_t d_v2 = (tile->d_v + 1) / 2;
    for (int64_t n = 0; n < tile->keys; n += PANEL) {
        const attn_range_t rows = backward_panel_rows(tile, n);
        if (rows.begin >= rows.end) {
            continue;
        }
        const gemm_pairs_operands_t s = {
            .a = pairs->q2 + rows.begin * pairs->q2_stride,
            .a_row = pairs->q2_stride,
            .a_col = 1,
            .b = pairs->k_t2 + n * d_qk2,
            .b_row = PANEL,
            .c = tile->p,
            .c_row = PANEL,
        };
        gemm_pairs(rows.end - rows.begin, d_qk2, &s);
        const gemm_pairs_operands_t dp = {
            .a = pairs->dout2 + rows.begin * pairs->dout2_stride,
            .a_row = pairs->dout2_stride,
            .a_col = 1,
            .b = pairs->v_t2 + n * d_v2,
            .b_row = PANEL,
            .c = tile->ds,
            .c_row = PANEL,
        };
        gemm_pairs(rows.end - rows.begin, d_v2, &dp);
        // Sums over keys take them two by two: idle lanes behind the last key must be zeros.
        if (backward_is_modified(tile)) {
            backward_rows_pairs(tile, rows, n, (backward_variant_t){1, 1, 1});
        } else if (tile->masked || n + PANEL > tile->keys) {
            backward_rows_pairs(tile, rows, n, (backward_variant_t){1, 0, 1});
        } else {
            backward_rows_pairs(tile, rows, n, (backward_variant_t){0, 0, 1});
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Sums over rows and keys

static void backward_add_transposed_pairs(const attn_cpu_backward_tile_t *tile, attn_range_t rows,
                                          int64_t n, const uint32_t *values, int64_t stride,
                                          int64_t cols, const uint32_t *weights, float *sums_t)
{
    const gemm_pairs_operands_t sum = {
        .a = values + rows.begin / 2 * stride,
        .a_row = 1,
        .a_col = stride,
        .b = weights + rows.begin / 2 * tile->tile_stride + n,
        .b_row = tile->tile_stride,
        .c = sums_t + n * cols,
        .c_row = PANEL,
        .accumulate = 1,
    };
    gemm_pairs(cols, (rows.end + 1) / 2 - rows.begin / 2, &sum);
}

static void backward_add_dq_pairs(const attn_cpu_backward_tile_t *tile)
{
    const attn_cpu_backward_pairs_t *pairs = tile->pairs;
    for (int64_t m = 0; m < tile->rows; m += ATTN_CPU_BACKWARD_STRIP) {
        const attn_range_t keys = tile->strip_keys[m / ATTN_CPU_BACKWARD_STRIP];
        const int64_t rest = tile->rows - m;
        const int64_t begin = keys.begin / 2;
        const int64_t end = (keys.end + 1) / 2;
        for (int64_t col = 0; col < tile->d_qk && begin < end; col += PANEL) {
            const gemm_pairs_operands_t sum = {
                .a = pairs->ds_rows2 + m * tile->tile_stride / 2 + begin,
                .a_row = tile->tile_stride / 2,
                .a_col = 1,
                .b = pairs->k_rows2 + col * tile->block_keys / 2 + begin * PANEL,
                .b_row = PANEL,
                .c = tile->dq + m * tile->dq_stride + col,
                .c_row = tile->dq_stride,
                .accumulate = 1,
            };
            gemm_pairs(rest < ATTN_CPU_BACKWARD_STRIP ? rest : ATTN_CPU_BACKWARD_STRIP, end - begin,
                       &sum);
        }
    }
}

static void backward_accumulate_pairs(const attn_cpu_backward_tile_t *tile)
{
    const attn_cpu_backward_pairs_t *pairs = tile->pairs;
    for (int64_t n = 0; n < tile->keys; n += PANEL) {
        const attn_range_t rows = backward_panel_rows(tile, n);
        if (rows.begin >= rows.end) {
            continue;
        }
        if (tile->dv_t) {
            backward_add_transposed_pairs(tile, rows, n, pairs->dout_t2, tile->dout_stride,
                                          tile->d_v, pairs->p2, tile->dv_t);
        }
        if (tile->dk_t) {
            backward_add_transposed_pairs(tile, rows, n, pairs->q_t2, tile->q_stride, tile->d_qk,
                                          pairs->ds2, tile->dk_t);
        }
    }
    if (tile->dq) {
        backward_add_dq_pairs(tile);
    }
}

#endif
#endif
