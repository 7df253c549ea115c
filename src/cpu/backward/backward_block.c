// See backward_block.h.
#include "backward_block.h"

#include <math.h>
#include <string.h>

#include "../../core/checked.h"
#include "../score_tile.h"
#include "backward_nonfinite.h"

// -------------------------------------------------------------------------------------------------
// Keys

// Those of keys [n, n + panel) of the block that are in use.
static attn_range_t used_keys(const attn_cpu_backward_run_t *run, const attn_cpu_key_block_t *block,
                              int64_t n)
{
    const int64_t leftpad = block->seq.mask.leftpad - block->first;
    return attn_range_make(leftpad > n ? leftpad : n, n + run->kernels->panel, n, block->keys);
}

// Loads a panel of keys into the staging rows, zeros for those not in use.
static void stage_keys(const attn_cpu_backward_run_t *run, const attn_cpu_key_block_t *block,
                       const attn_tensor_t *tensor, const void *data, int64_t n, int64_t cols,
                       float *rows, int64_t stride)
{
    const attn_range_t used = used_keys(run, block, n);
    memset(rows, 0, (size_t)(run->kernels->panel * stride) * sizeof(float));
    if (used.begin < used.end) {
        const attn_cpu_rows_t from =
            attn_cpu_rows_like_k(&block->seq, tensor, data, block->h_kv, block->first + used.begin,
                                 used.end - used.begin, cols);
        run->kernels->load(&from, rows + (used.begin - n) * stride, stride);
    }
}

static void stage_pairs(const attn_cpu_backward_run_t *run, const attn_cpu_key_block_t *block,
                        const attn_tensor_t *tensor, const void *data, int64_t n, int64_t cols,
                        uint32_t *rows, int64_t stride)
{
    const attn_range_t used = used_keys(run, block, n);
    memset(rows, 0, (size_t)(run->kernels->panel * stride) * sizeof(uint32_t));
    if (used.begin < used.end) {
        const attn_cpu_rows_t from =
            attn_cpu_rows_like_k(&block->seq, tensor, data, block->h_kv, block->first + used.begin,
                                 used.end - used.begin, cols);
        run->kernels->load_pairs(&from, rows + (used.begin - n) * stride, stride);
    }
}

// Cuts rows of d_pad 4-byte elements into k_rows' panels of columns; they become rows [n, n +
// count) of panels of block_rows.
static void spread_rows(const void *rows, int64_t stride, int64_t count, int64_t d_pad,
                        int64_t panel, void *panels, int64_t block_rows, int64_t n)
{
    for (int64_t col = 0; col < d_pad; col += panel) {
        for (int64_t r = 0; r < count; r++) {
            memcpy((unsigned char *)panels + (col * block_rows + (n + r) * panel) * 4,
                   (const unsigned char *)rows + (r * stride + col) * 4, (size_t)panel * 4);
        }
    }
}

static void load_key_panel(const attn_cpu_backward_run_t *run,
                           const attn_cpu_backward_scratch_t *scratch, int64_t n,
                           attn_cpu_key_block_t *block)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_forward_args_t *in = &run->args->in;
    const attn_cpu_backward_layout_t *layout = &run->layout;
    const int64_t panel = run->kernels->panel;
    float *rows = scratch->rows;
    stage_keys(run, block, &desc->v, in->v, n, desc->d_v, rows, layout->dout_stride);
    run->kernels->transpose_in(rows, layout->dout_stride, panel, desc->d_v,
                               scratch->v_t + n * desc->d_v);
    stage_keys(run, block, &desc->k, in->k, n, desc->d_qk, rows, layout->q_stride);
    run->kernels->transpose_in(rows, layout->q_stride, panel, desc->d_qk,
                               scratch->k_t + n * desc->d_qk);
    for (int64_t r = 0; r < panel; r++) {
        float *row = rows + r * layout->q_stride;
        scratch->bad_key[n + r] = !attn_cpu_all_finite(row, desc->d_qk);
        if (scratch->bad_key[n + r]) {
            block->has_bad = 1;
            memset(row, 0, (size_t)layout->q_stride * sizeof(float));
        }
    }
    spread_rows(rows, layout->q_stride, panel, layout->d_pad, panel, scratch->k_rows,
                run->plan->tile_kv, n);
}

static void load_key_panel_pairs(const attn_cpu_backward_run_t *run,
                                 const attn_cpu_backward_scratch_t *scratch, int64_t n,
                                 attn_cpu_key_block_t *block)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_forward_args_t *in = &run->args->in;
    const attn_cpu_backward_layout_t *layout = &run->layout;
    const attn_cpu_backward_pairs_t *pairs = &scratch->pairs;
    const int64_t panel = run->kernels->panel;
    const int64_t d_qk2 = (desc->d_qk + 1) / 2;
    const int64_t d_v2 = (desc->d_v + 1) / 2;
    uint32_t *rows = scratch->rows2;
    stage_pairs(run, block, &desc->v, in->v, n, desc->d_v, rows, pairs->dout2_stride);
    run->kernels->transpose_pairs(rows, pairs->dout2_stride, d_v2, pairs->v_t2 + n * d_v2);
    stage_pairs(run, block, &desc->k, in->k, n, desc->d_qk, rows, pairs->q2_stride);
    run->kernels->transpose_pairs(rows, pairs->q2_stride, d_qk2, pairs->k_t2 + n * d_qk2);
    for (int64_t r = 0; r < panel; r++) {
        uint32_t *row = rows + r * pairs->q2_stride;
        scratch->bad_key[n + r] = !attn_cpu_all_finite_pairs(row, d_qk2);
        if (scratch->bad_key[n + r]) {
            block->has_bad = 1;
            memset(row, 0, (size_t)pairs->q2_stride * sizeof(uint32_t));
        }
    }
    run->kernels->pair_rows(rows, pairs->q2_stride, panel, layout->d_pad / 2, scratch->paired,
                            layout->q_stride);
    spread_rows(scratch->paired, layout->q_stride, panel / 2, layout->d_pad, panel, pairs->k_rows2,
                run->plan->tile_kv / 2, n / 2);
}

attn_cpu_key_block_t attn_cpu_backward_load_keys(const attn_cpu_backward_run_t *run,
                                                 const attn_cpu_backward_scratch_t *scratch,
                                                 const attn_sequence_t *seq, int64_t b,
                                                 int64_t h_kv, int64_t first, int is_paired)
{
    const int64_t keys = attn_smaller(run->plan->tile_kv, seq->mask.len_kv - first);
    attn_cpu_key_block_t block = {.seq = *seq, .b = b, .h_kv = h_kv, .first = first};
    block.keys = keys > 0 ? keys : 0;
    block.is_paired = is_paired;
    for (int64_t n = 0; n < block.keys; n += run->kernels->panel) {
        if (is_paired) {
            load_key_panel_pairs(run, scratch, n, &block);
        } else {
            load_key_panel(run, scratch, n, &block);
        }
    }
    return block;
}

// -------------------------------------------------------------------------------------------------
// Rows

static void load_operands(const attn_cpu_backward_run_t *run,
                          const attn_cpu_backward_scratch_t *scratch,
                          const attn_cpu_key_block_t *block, int64_t h, int64_t i, int64_t rows)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_cpu_backward_layout_t *layout = &run->layout;
    const attn_cpu_backward_pairs_t *pairs = &scratch->pairs;
    const attn_cpu_rows_t q =
        attn_cpu_rows_like_q(&block->seq, &desc->q, run->args->in.q, h, i, rows, desc->d_qk);
    const attn_cpu_rows_t dout =
        attn_cpu_rows_like_q(&block->seq, &desc->do_, run->args->do_, h, i, rows, desc->d_v);
    if (!block->is_paired) {
        run->kernels->load(&q, scratch->q, layout->q_stride);
        run->kernels->load(&dout, scratch->dout, layout->dout_stride);
        return;
    }
    run->kernels->load_pairs(&q, pairs->q2, pairs->q2_stride);
    run->kernels->load_pairs(&dout, pairs->dout2, pairs->dout2_stride);
    run->kernels->pair_rows(pairs->q2, pairs->q2_stride, rows, (desc->d_qk + 1) / 2, pairs->q_t2,
                            layout->q_stride);
    run->kernels->pair_rows(pairs->dout2, pairs->dout2_stride, rows, (desc->d_v + 1) / 2,
                            pairs->dout_t2, layout->dout_stride);
}

// q, dout, lse and delta of rows [i, i + rows). Returns whether a row's lse is -inf: it saw
// nothing.
static int load_rows(const attn_cpu_backward_run_t *run, const attn_cpu_backward_scratch_t *scratch,
                     const attn_cpu_key_block_t *block, int64_t h, int64_t i, int64_t rows)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_sequence_t *seq = &block->seq;
    load_operands(run, scratch, block, h, i, rows);
    memcpy(scratch->delta, run->delta + attn_cpu_backward_row(run, seq, block->b, h, i),
           (size_t)rows * sizeof(float));
    const float *lse =
        run->args->in.lse + seq->q_batch * desc->lse_stride_b + h * desc->lse_stride_h;
    int empty = 0;
    for (int64_t m = 0; m < rows; m++) {
        scratch->lse[m] = lse[(seq->q_row + i + m) * desc->lse_stride_s];
        empty |= scratch->lse[m] == -INFINITY;
    }
    return empty;
}

// -------------------------------------------------------------------------------------------------
// Masks

// A range of keys relative to the block.
static attn_range_t in_block(const attn_cpu_key_block_t *block, attn_range_t keys)
{
    const attn_range_t cut =
        attn_range_make(keys.begin - block->first, keys.end - block->first, 0, block->keys);
    return cut.begin < cut.end ? cut : (attn_range_t){0, 0};
}

// The keys of each strip; returns whether there is any.
static int find_strips(const attn_cpu_key_block_t *block, int64_t i, int64_t rows,
                       attn_range_t *strip_keys)
{
    int any = 0;
    for (int64_t m = 0; m < rows; m += ATTN_CPU_BACKWARD_STRIP) {
        const int64_t end = attn_smaller(m + ATTN_CPU_BACKWARD_STRIP, rows);
        const attn_range_t keys =
            in_block(block, attn_tile_kv_range(&block->seq.mask, i + m, i + end));
        strip_keys[m / ATTN_CPU_BACKWARD_STRIP] = keys;
        any |= keys.begin < keys.end;
    }
    return any;
}

static void find_rows(const attn_cpu_key_block_t *block, int64_t i, int64_t rows,
                      const attn_cpu_backward_scratch_t *scratch)
{
    for (int64_t m = 0; m < rows; m++) {
        attn_range_t keys = in_block(block, attn_row_kv_range(&block->seq.mask, i + m));
        if (scratch->lse[m] == -INFINITY) {
            keys = (attn_range_t){0, 0};
        }
        scratch->row_begin[m] = (float)keys.begin;
        scratch->row_end[m] = (float)keys.end;
    }
}

static int sees_all(const attn_cpu_key_block_t *block, int64_t i, int64_t rows)
{
    const attn_range_t full = attn_tile_full_kv_range(&block->seq.mask, i, i + rows);
    return full.begin <= block->first && full.end >= block->first + block->keys;
}

// -------------------------------------------------------------------------------------------------
// A tile

int attn_cpu_backward_scores(const attn_cpu_backward_run_t *run,
                             const attn_cpu_backward_scratch_t *scratch,
                             const attn_cpu_key_block_t *block, int64_t h, int64_t i, int64_t rows,
                             int to_bias, attn_cpu_backward_tile_t *tile_out)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_cpu_score_t score =
        attn_cpu_score_make(desc, &run->args->in, &block->seq, block->b, h);
    if (!find_strips(block, i, rows, scratch->strip_keys) ||
        !attn_cpu_score_tile_listed(&score, i, rows, block->first, block->keys)) {
        return 0;
    }
    const int empty = load_rows(run, scratch, block, h, i, rows);
    find_rows(block, i, rows, scratch);
    const int has_add = attn_cpu_score_has_add(desc);
    const int has_keep = attn_cpu_score_has_keep(desc);
    *tile_out = (attn_cpu_backward_tile_t){
        .d_qk = desc->d_qk,
        .d_v = desc->d_v,
        .block_keys = run->plan->tile_kv,
        .keys = block->keys,
        .k_t = scratch->k_t,
        .v_t = scratch->v_t,
        .k_rows = scratch->k_rows,
        .rows = rows,
        .q = scratch->q,
        .q_stride = run->layout.q_stride,
        .dout = scratch->dout,
        .dout_stride = run->layout.dout_stride,
        .lse = scratch->lse,
        .delta = scratch->delta,
        .dq_stride = run->layout.d_pad,
        .p = scratch->p,
        .ds = scratch->ds,
        .pairs = block->is_paired ? &scratch->pairs : NULL,
        .tile_stride = run->layout.tile_stride,
        .scale = desc->scale,
        .softcap = desc->softcap,
        .to_bias = to_bias,
        .masked = has_add || empty || !sees_all(block, i, rows),
        .strip_keys = scratch->strip_keys,
        .row_begin = scratch->row_begin,
        .row_end = scratch->row_end,
        .add = has_add ? scratch->add : NULL,
        .keep = has_keep ? scratch->keep : NULL,
    };
    if (has_add || has_keep) {
        const attn_cpu_score_out_t out = {
            .add = has_add ? scratch->add : NULL,
            .keep = has_keep ? scratch->keep : NULL,
            .row_stride = run->layout.tile_stride,
            .key_stride = 1,
        };
        attn_cpu_score_tile(&score, i, rows, block->first, block->keys, &out);
    }
    if (block->is_paired) {
        run->kernels->scores_pairs(tile_out);
    } else {
        run->kernels->scores(tile_out);
    }
    return 1;
}

void attn_cpu_backward_accumulate(const attn_cpu_backward_run_t *run,
                                  const attn_cpu_backward_scratch_t *scratch,
                                  const attn_cpu_key_block_t *block, int64_t h, int64_t i,
                                  attn_cpu_backward_tile_t *tile)
{
    attn_cpu_backward_add_bad_rows(run, block, tile, h, i);
    if (tile->pairs) {
        run->kernels->accumulate_pairs(tile);
    } else {
        run->kernels->accumulate(tile);
    }
    attn_cpu_backward_add_bad_keys(run, block, scratch->bad_key, tile);
}
