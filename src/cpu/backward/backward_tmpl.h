// The backward pass on vectors: compiled once per instruction set, after its simd_*.h, gemm_tmpl.h
// and math_tmpl.h. Shapes and meaning are in backward_tile.h. Keys are the lanes, so a row's lse
// and delta are broadcasts and no step adds across lanes.
#ifndef ATTN_CPU_BACKWARD_TMPL_H
#define ATTN_CPU_BACKWARD_TMPL_H

#include "../../core/element.h"
#include "../isa/gemm_tmpl.h"
#include "../isa/math_tmpl.h"
#include "../isa/row_tmpl.h"
#include "backward_tile.h"

// -------------------------------------------------------------------------------------------------
// Rows in and out of memory

static void backward_load(const attn_cpu_rows_t *from, float *values, int64_t stride)
{
    const int64_t row_bytes = from->tensor->stride_s * attn_element_bytes(from->tensor->dtype);
    for (int64_t row = 0; row < from->rows; row++) {
        load_row(values + row * stride, from->tensor, from->data + row * row_bytes, from->cols,
                 1.0f);
    }
}

static void backward_store(const attn_cpu_rows_t *to, const float *values, int64_t stride)
{
    const int64_t row_bytes = to->tensor->stride_s * attn_element_bytes(to->tensor->dtype);
    for (int64_t row = 0; row < to->rows; row++) {
        store_row(values + row * stride, to->tensor, to->data + row * row_bytes, to->cols);
    }
}

static void backward_transpose_in(const float *values, int64_t stride, int64_t rows, int64_t cols,
                                  float *transposed)
{
    for (int64_t col = 0; col < cols; col++) {
        for (int64_t row = 0; row < PANEL; row++) {
            transposed[col * PANEL + row] = row < rows ? values[row * stride + col] : 0.0f;
        }
    }
}

static void backward_transpose_out(const float *transposed, int64_t rows, int64_t cols,
                                   float *values, int64_t stride)
{
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++) {
            values[row * stride + col] = transposed[col * PANEL + row];
        }
    }
}

static void backward_row_dots(const float *a, const float *b, int64_t stride, int64_t rows,
                              int64_t cols, float *delta)
{
    for (int64_t row = 0; row < rows; row++) {
        const float *x = a + row * stride;
        const float *y = b + row * stride;
        vf sum = vf_set1(0.0f);
        int64_t col = 0;
        for (; col + VF_LANES <= cols; col += VF_LANES) {
            sum = vf_fma(vf_load(x + col), vf_load(y + col), sum);
        }
        sum = vf_fma(vf_load_n(x + col, cols - col), vf_load_n(y + col, cols - col), sum);
        delta[row] = vf_sum(sum);
    }
}

// -------------------------------------------------------------------------------------------------
// Scores to weights and their gradients

static inline vf backward_lanes(void)
{
    static const float lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vf_load(lanes);
}

// What a tile's variant needs; constants after inlining.
typedef struct backward_variant {
    int masked;   // something is hidden
    int modified; // softcap, add, keep or to_bias
    int coarse;   // p and ds are rounded to bfloat16 afterwards
} backward_variant_t;

typedef struct backward_weight {
    vf p;
    vf ds;
} backward_weight_t;

// p and ds of one vector of keys, [n, n + VF_LANES) of row m. exp(s - lse) is taken of the
// difference, which one fma rounds once: lse may be -120 or 10000, the difference is what the
// weight depends on.
GEMM_INLINE backward_weight_t backward_weight_at(const attn_cpu_backward_tile_t *tile, int64_t m,
                                                 int64_t n, vf dot, vf dp,
                                                 const backward_variant_t variant)
{
    const int64_t at = m * tile->tile_stride + n;
    const vf lse = vf_set1(tile->lse[m]);
    const vf scale = vf_set1(tile->scale);
    vf by_dot = scale;
    vf keep = vf_set1(1.0f);
    vf difference;
    if (variant.modified) {
        const vf add = tile->add ? vf_load(tile->add + at) : vf_set1(0.0f);
        if (tile->softcap > 0.0f) {
            // Finite, so that 0 times it is 0.
            const vf per_cap = vf_set1(fminf(1.0f / tile->softcap, FLT_MAX));
            const vf t = vf_tanh(vf_mul(vf_mul(dot, scale), per_cap));
            const vf s = vf_mul(vf_set1(tile->softcap), t);
            by_dot = vf_mul(scale, vf_fma(vf_sub(vf_set1(0.0f), t), t, vf_set1(1.0f)));
            difference = vf_sub(vf_add(s, add), lse);
        } else {
            difference = vf_fma(dot, scale, vf_sub(add, lse));
        }
        if (tile->keep) {
            keep = vf_load(tile->keep + at);
            dp = vf_mul(dp, keep);
        }
        if (tile->to_bias) {
            by_dot = vf_set1(1.0f);
        }
    } else {
        difference = vf_fma(dot, scale, vf_sub(vf_set1(0.0f), lse));
    }
    // No weight is above 1: with scores so large that lse is rounded by more than they differ, the
    // difference alone would say so.
    const vf x = vf_mul(vf_min(vf_set1(0.0f), difference), vf_set1(ATTN_LOG2_E));
    vf p = variant.coarse ? vf_exp2_coarse(x) : vf_exp2(x);
    vf ds = vf_mul(vf_mul(p, vf_sub(dp, vf_set1(tile->delta[m]))), by_dot);
    if (variant.modified) {
        p = vf_mul(p, keep);
    }
    if (variant.masked) {
        const vf zero = vf_set1(0.0f);
        const vf key = vf_add(vf_set1((float)n), backward_lanes());
        vm seen = vm_and(vf_lt(key, vf_set1(tile->row_end[m])),
                         vm_not(vf_lt(key, vf_set1(tile->row_begin[m]))));
        if (variant.modified && tile->add) {
            seen = vm_and(seen, vm_not(vf_eq(vf_load(tile->add + at), vf_set1(-INFINITY))));
        }
        p = vf_select(seen, p, zero);
        ds = vf_select(seen, ds, zero);
    }
    return (backward_weight_t){p, ds};
}

GEMM_INLINE void backward_rows(const attn_cpu_backward_tile_t *tile, attn_range_t rows, int64_t n,
                               const backward_variant_t variant)
{
    for (int64_t m = rows.begin; m < rows.end; m++) {
        float *p = tile->p + m * tile->tile_stride + n;
        float *ds = tile->ds + m * tile->tile_stride + n;
        for (int v = 0; v < PANEL; v += VF_LANES) {
            const backward_weight_t weight =
                backward_weight_at(tile, m, n + v, vf_load(p + v), vf_load(ds + v), variant);
            vf_store(p + v, weight.p);
            vf_store(ds + v, weight.ds);
        }
    }
}

static int backward_is_modified(const attn_cpu_backward_tile_t *tile)
{
    return tile->add || tile->keep || tile->softcap > 0.0f || tile->to_bias;
}

// Rows of the tile that have work in the panel of keys [n, n + PANEL): whole strips.
static attn_range_t backward_panel_rows(const attn_cpu_backward_tile_t *tile, int64_t n)
{
    attn_range_t rows = {tile->rows, 0};
    for (int64_t m = 0; m < tile->rows; m += ATTN_CPU_BACKWARD_STRIP) {
        const attn_range_t keys = tile->strip_keys[m / ATTN_CPU_BACKWARD_STRIP];
        if (keys.begin < keys.end && keys.begin < n + PANEL && n < keys.end) {
            rows.begin = m < rows.begin ? m : rows.begin;
            rows.end = m + ATTN_CPU_BACKWARD_STRIP;
        }
    }
    rows.end = rows.end > tile->rows ? tile->rows : rows.end;
    return rows;
}

static void backward_scores(const attn_cpu_backward_tile_t *tile)
{
    for (int64_t n = 0; n < tile->keys; n += PANEL) {
        const attn_range_t rows = backward_panel_rows(tile, n);
        if (rows.begin >= rows.end) {
            continue;
        }
        const gemm_operands_t s = {
            .a = tile->q + rows.begin * tile->q_stride,
            .a_row = tile->q_stride,
            .a_col = 1,
            .b = tile->k_t + n * tile->d_qk,
            .b_row = PANEL,
            .c = tile->p + rows.begin * tile->tile_stride + n,
            .c_row = tile->tile_stride,
        };
        gemm(rows.end - rows.begin, tile->d_qk, &s);
        const gemm_operands_t dp = {
            .a = tile->dout + rows.begin * tile->dout_stride,
            .a_row = tile->dout_stride,
            .a_col = 1,
            .b = tile->v_t + n * tile->d_v,
            .b_row = PANEL,
            .c = tile->ds + rows.begin * tile->tile_stride + n,
            .c_row = tile->tile_stride,
        };
        gemm(rows.end - rows.begin, tile->d_v, &dp);
        if (backward_is_modified(tile)) {
            backward_rows(tile, rows, n, (backward_variant_t){1, 1, 0});
        } else if (tile->masked) {
            backward_rows(tile, rows, n, (backward_variant_t){1, 0, 0});
        } else {
            backward_rows(tile, rows, n, (backward_variant_t){0, 0, 0});
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Sums over rows and keys

// sums_t[col][n..] += sum over rows of values[row][col] * weights[row][n..]
static void backward_add_transposed(const attn_cpu_backward_tile_t *tile, attn_range_t rows,
                                    int64_t n, const float *values, int64_t stride, int64_t cols,
                                    const float *weights, float *sums_t)
{
    const gemm_operands_t sum = {
        .a = values + rows.begin * stride,
        .a_row = 1,
        .a_col = stride,
        .b = weights + rows.begin * tile->tile_stride + n,
        .b_row = tile->tile_stride,
        .c = sums_t + n * cols,
        .c_row = PANEL,
        .accumulate = 1,
    };
    gemm(cols, rows.end - rows.begin, &sum);
}

// dq += ds x k, strip by strip over the keys that the strip sees.
static void backward_add_dq(const attn_cpu_backward_tile_t *tile)
{
    for (int64_t m = 0; m < tile->rows; m += ATTN_CPU_BACKWARD_STRIP) {
        const attn_range_t keys = tile->strip_keys[m / ATTN_CPU_BACKWARD_STRIP];
        const int64_t rest = tile->rows - m;
        if (keys.begin >= keys.end) {
            continue;
        }
        for (int64_t col = 0; col < tile->d_qk; col += PANEL) {
            const gemm_operands_t sum = {
                .a = tile->ds + m * tile->tile_stride + keys.begin,
                .a_row = tile->tile_stride,
                .a_col = 1,
                .b = tile->k_rows + col * tile->block_keys + keys.begin * PANEL,
                .b_row = PANEL,
                .c = tile->dq + m * tile->dq_stride + col,
                .c_row = tile->dq_stride,
                .accumulate = 1,
            };
            gemm(rest < ATTN_CPU_BACKWARD_STRIP ? rest : ATTN_CPU_BACKWARD_STRIP,
                 keys.end - keys.begin, &sum);
        }
    }
}

static void backward_accumulate(const attn_cpu_backward_tile_t *tile)
{
    for (int64_t n = 0; n < tile->keys; n += PANEL) {
        const attn_range_t rows = backward_panel_rows(tile, n);
        if (rows.begin >= rows.end) {
            continue;
        }
        if (tile->dv_t) {
            backward_add_transposed(tile, rows, n, tile->dout, tile->dout_stride, tile->d_v,
                                    tile->p, tile->dv_t);
        }
        if (tile->dk_t) {
            backward_add_transposed(tile, rows, n, tile->q, tile->q_stride, tile->d_qk, tile->ds,
                                    tile->dk_t);
        }
    }
    if (tile->dq) {
        backward_add_dq(tile);
    }
}

#include "backward_pairs_tmpl.h"

static const attn_cpu_backward_kernels_t backward_kernels = {
    .panel = PANEL,
    .load = backward_load,
    .store = backward_store,
    .transpose_in = backward_transpose_in,
    .transpose_out = backward_transpose_out,
    .row_dots = backward_row_dots,
    .scores = backward_scores,
    .accumulate = backward_accumulate,
#ifdef VF_HAS_BF16_DOT
    .load_pairs = backward_load_pairs,
    .transpose_pairs = backward_transpose_pairs,
    .pair_rows = backward_pair_rows,
    .scores_pairs = backward_scores_pairs,
    .accumulate_pairs = backward_accumulate_pairs,
#endif
};

#endif
