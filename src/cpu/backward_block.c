// See backward_block.h.
//
// NaN and infinities: hidden elements have p = ds = 0, yet 0 * NaN is NaN, so a sum over keys or rows must not even multiply
// what is hidden. Sums over dims are safe (keys are lanes, a hidden lane is replaced). For the others, rows of q and dout and
// keys with a NaN or infinity are taken out of the matrix products, as zeros, wherever something is hidden from them, and
// what they give to the elements that are seen is added one by one. That path is slow and rare; finding out costs a look at
// masked tiles and at each key block once.
#include "backward_block.h"

#include <math.h>
#include <string.h>

#include "../core/element.h"
#include "score_tile.h"

// ---------------------------------------------------------------------------------------------------------------------
// Workspace

static int64_t round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Product of up to four counts, rounded up to a cache line; SIZE_MAX if it does not fit.
static size_t bytes_of(size_t element, int64_t n0, int64_t n1, int64_t n2, int64_t n3)
{
    const int64_t counts[4] = {n0, n1, n2, n3};
    size_t bytes = element;
    for (int i = 0; i < 4; i++) {
        if (counts[i] != 0 && bytes > (SIZE_MAX / 2) / (size_t)counts[i]) {
            return SIZE_MAX;
        }
        bytes *= (size_t)counts[i];
    }
    return (bytes + 63) / 64 * 64;
}

static size_t add_bytes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

// Hands out consecutive pieces; with memory NULL it only counts.
typedef struct carver {
    unsigned char *memory;
    size_t used;
} carver_t;

static void *carve(carver_t *carver, size_t bytes)
{
    unsigned char *piece = carver->memory ? carver->memory + carver->used : NULL;
    carver->used = add_bytes(carver->used, bytes);
    return piece;
}

static attn_cpu_backward_scratch_t
carve_scratch(const attn_plan_t *plan, const attn_cpu_backward_layout_t *layout, carver_t *carver)
{
    const attn_desc_t *desc = &plan->desc;
    const int64_t m = plan->tile_q;
    const int64_t n = plan->tile_kv;
    const size_t tile = bytes_of(sizeof(float), m, layout->tile_stride, 1, 1);
    const size_t column = bytes_of(sizeof(float), m, 1, 1, 1);
    attn_cpu_backward_scratch_t scratch;
    scratch.k_t = carve(carver, bytes_of(sizeof(float), n, desc->d_qk, 1, 1));
    scratch.v_t = carve(carver, bytes_of(sizeof(float), n, desc->d_v, 1, 1));
    scratch.k_rows = carve(carver, bytes_of(sizeof(float), n, layout->d_pad, 1, 1));
    scratch.dk_t = carve(carver, bytes_of(sizeof(float), n, desc->d_qk, 1, 1));
    scratch.dv_t = carve(carver, bytes_of(sizeof(float), n, desc->d_v, 1, 1));
    scratch.q = carve(carver, bytes_of(sizeof(float), m, layout->q_stride, 1, 1));
    scratch.dout = carve(carver, bytes_of(sizeof(float), m, layout->dout_stride, 1, 1));
    scratch.rows = carve(carver, bytes_of(sizeof(float), larger(m, ATTN_CPU_BACKWARD_PANEL_MAX),
                                          larger(layout->q_stride, layout->dout_stride), 1, 1));
    scratch.p = carve(carver, tile);
    scratch.ds = carve(carver, tile);
    scratch.add = carve(carver, attn_cpu_score_has_add(desc) ? tile : 0);
    scratch.keep = carve(carver, attn_cpu_score_has_keep(desc) ? tile : 0);
    scratch.bias = carve(carver, desc->dbias.present ? tile : 0);
    scratch.lse = carve(carver, column);
    scratch.delta = carve(carver, column);
    scratch.row_begin = carve(carver, column);
    scratch.row_end = carve(carver, column);
    scratch.strip_keys = carve(carver, bytes_of(sizeof(attn_range_t), m, 1, 1, 1));
    scratch.bad_key = carve(carver, bytes_of(1, n, 1, 1, 1));
    return scratch;
}

attn_cpu_backward_layout_t attn_cpu_backward_layout(const attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    attn_cpu_backward_layout_t layout = {0};
    // One more cache line per row, so that rows of 2^n bytes do not all fall on one cache set.
    layout.d_pad = round_up(desc->d_qk, ATTN_CPU_BACKWARD_PANEL_MAX);
    layout.q_stride = layout.d_pad + 16;
    layout.dout_stride = round_up(desc->d_v, ATTN_CPU_BACKWARD_PANEL_MAX) + 16;
    layout.tile_stride = plan->tile_kv + 16;
    layout.row_blocks = (desc->s_q + plan->tile_q - 1) / plan->tile_q;
    const size_t packed_rows = bytes_of(1, desc->batch, desc->s_q, 1, 1);
    if (!desc->varlen_q && packed_rows >= INT64_MAX) {
        layout.total_bytes = SIZE_MAX;
        return layout;
    }
    layout.all_rows = desc->varlen_q ? desc->total_q : desc->batch * desc->s_q;
    layout.delta_bytes = bytes_of(sizeof(float), desc->heads_q, layout.all_rows, 1, 1);
    layout.dq_bytes =
        bytes_of(sizeof(float), plan->num_splits, desc->heads_q, layout.all_rows, layout.d_pad);
    layout.dsink_bytes = desc->wants_dsink ? bytes_of(sizeof(double), desc->batch, desc->heads_q,
                                                      layout.row_blocks, 1)
                                           : 0;
    carver_t carver = {0};
    carve_scratch(plan, &layout, &carver);
    layout.scratch_bytes = carver.used;
    const size_t all_scratch =
        layout.scratch_bytes == SIZE_MAX
            ? SIZE_MAX
            : bytes_of(layout.scratch_bytes, plan->context->workers, 1, 1, 1);
    layout.total_bytes = add_bytes(add_bytes(layout.delta_bytes, layout.dq_bytes),
                                   add_bytes(layout.dsink_bytes, all_scratch));
    return layout;
}

attn_cpu_backward_scratch_t attn_cpu_backward_scratch_of(const attn_cpu_backward_run_t *run,
                                                         int32_t worker)
{
    carver_t carver = {.memory = run->scratch + (size_t)worker * run->layout.scratch_bytes};
    return carve_scratch(run->plan, &run->layout, &carver);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operands

int64_t attn_cpu_backward_row(const attn_cpu_backward_run_t *run, const attn_sequence_t *seq,
                              int64_t b, int64_t h, int64_t i)
{
    const attn_desc_t *desc = &run->plan->desc;
    return h * run->layout.all_rows + (desc->varlen_q ? seq->q_row : b * desc->s_q) + i;
}

static attn_cpu_rows_t rows_at(const attn_tensor_t *tensor, const void *data, int64_t element,
                               int64_t rows, int64_t cols)
{
    return (attn_cpu_rows_t){
        .tensor = tensor,
        .data = (unsigned char *)data + element * attn_element_bytes(tensor->dtype),
        .rows = rows,
        .cols = cols,
    };
}

attn_cpu_rows_t attn_cpu_rows_like_q(const attn_sequence_t *seq, const attn_tensor_t *tensor,
                                     const void *data, int64_t h, int64_t i, int64_t rows,
                                     int64_t cols)
{
    const int64_t element = seq->q_batch * tensor->stride_b + (seq->q_row + i) * tensor->stride_s +
                            h * tensor->stride_h;
    return rows_at(tensor, data, element, rows, cols);
}

attn_cpu_rows_t attn_cpu_rows_like_k(const attn_sequence_t *seq, const attn_tensor_t *tensor,
                                     const void *data, int64_t h_kv, int64_t j, int64_t keys,
                                     int64_t cols)
{
    const int64_t element = seq->kv_batch * tensor->stride_b +
                            (seq->kv_row + j) * tensor->stride_s + h_kv * tensor->stride_h;
    return rows_at(tensor, data, element, keys, cols);
}

attn_range_t attn_cpu_backward_reach(const attn_sequence_t *seq, int64_t begin, int64_t end)
{
    const attn_range_t used = attn_range_make(begin, end, seq->mask.leftpad, seq->mask.len_kv);
    if (used.begin >= used.end) {
        return (attn_range_t){0, 0};
    }
    return attn_tile_q_range(&seq->mask, used.begin, used.end);
}

static int is_finite_row(const float *row, int64_t cols)
{
    uint32_t bad = 0;
    for (int64_t col = 0; col < cols; col++) {
        uint32_t bits;
        memcpy(&bits, row + col, sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

// Loads keys [n, n + panel) of the block into the staging rows; those outside [begin, end) become zeros.
static void stage_keys(const attn_cpu_backward_run_t *run, const attn_cpu_key_block_t *block,
                       const attn_tensor_t *tensor, const void *data, int64_t n, int64_t cols,
                       float *rows, int64_t stride)
{
    const int64_t panel = run->kernels->panel;
    const int64_t leftpad = block->seq.mask.leftpad - block->first;
    const attn_range_t used = attn_range_make(leftpad > n ? leftpad : n, n + panel, n, block->keys);
    memset(rows, 0, (size_t)(panel * stride) * sizeof(float));
    if (used.begin < used.end) {
        const attn_cpu_rows_t from =
            attn_cpu_rows_like_k(&block->seq, tensor, data, block->h_kv, block->first + used.begin,
                                 used.end - used.begin, cols);
        run->kernels->load(&from, rows + (used.begin - n) * stride, stride);
    }
}

// Copies a panel of staged keys to k_rows, leaving bad keys zero.
static void spread_keys(const attn_cpu_backward_run_t *run,
                        const attn_cpu_backward_scratch_t *scratch, int64_t n,
                        attn_cpu_key_block_t *block)
{
    const int64_t panel = run->kernels->panel;
    const int64_t stride = run->layout.q_stride;
    for (int64_t r = 0; r < panel; r++) {
        float *row = scratch->rows + r * stride;
        scratch->bad_key[n + r] = !is_finite_row(row, run->plan->desc.d_qk);
        if (scratch->bad_key[n + r]) {
            block->has_bad = 1;
            memset(row, 0, (size_t)stride * sizeof(float));
        }
    }
    for (int64_t col = 0; col < run->layout.d_pad; col += panel) {
        float *to = scratch->k_rows + col * run->plan->tile_kv + n * panel;
        for (int64_t r = 0; r < panel; r++) {
            memcpy(to + r * panel, scratch->rows + r * stride + col, (size_t)panel * sizeof(float));
        }
    }
}

attn_cpu_key_block_t attn_cpu_backward_load_keys(const attn_cpu_backward_run_t *run,
                                                 const attn_cpu_backward_scratch_t *scratch,
                                                 const attn_sequence_t *seq, int64_t b,
                                                 int64_t h_kv, int64_t first)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_forward_args_t *in = &run->args->in;
    const int64_t panel = run->kernels->panel;
    const int64_t keys = smaller(run->plan->tile_kv, seq->mask.len_kv - first);
    attn_cpu_key_block_t block = {
        .seq = *seq, .b = b, .h_kv = h_kv, .first = first, .keys = larger(keys, 0)};
    for (int64_t n = 0; n < block.keys; n += panel) {
        stage_keys(run, &block, &desc->v, in->v, n, desc->d_v, scratch->rows,
                   run->layout.dout_stride);
        run->kernels->transpose_in(scratch->rows, run->layout.dout_stride, panel, desc->d_v,
                                   scratch->v_t + n * desc->d_v);
        stage_keys(run, &block, &desc->k, in->k, n, desc->d_qk, scratch->rows,
                   run->layout.q_stride);
        run->kernels->transpose_in(scratch->rows, run->layout.q_stride, panel, desc->d_qk,
                                   scratch->k_t + n * desc->d_qk);
        spread_keys(run, scratch, n, &block);
    }
    return block;
}

// q, dout, lse and delta of rows [i, i + rows). Returns whether a row's lse is -inf: it saw nothing.
static int load_rows(const attn_cpu_backward_run_t *run, const attn_cpu_backward_scratch_t *scratch,
                     const attn_cpu_key_block_t *block, int64_t h, int64_t i, int64_t rows)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_sequence_t *seq = &block->seq;
    const attn_cpu_rows_t q =
        attn_cpu_rows_like_q(seq, &desc->q, run->args->in.q, h, i, rows, desc->d_qk);
    const attn_cpu_rows_t dout =
        attn_cpu_rows_like_q(seq, &desc->do_, run->args->do_, h, i, rows, desc->d_v);
    run->kernels->load(&q, scratch->q, run->layout.q_stride);
    run->kernels->load(&dout, scratch->dout, run->layout.dout_stride);
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

// ---------------------------------------------------------------------------------------------------------------------
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
        const int64_t end = smaller(m + ATTN_CPU_BACKWARD_STRIP, rows);
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

int attn_cpu_backward_sees(const attn_cpu_backward_tile_t *tile, int64_t m, int64_t n)
{
    if (!tile->masked) {
        return 1;
    }
    const int inside = (float)n >= tile->row_begin[m] && (float)n < tile->row_end[m];
    return inside && !(tile->add && tile->add[m * tile->tile_stride + n] == -INFINITY);
}

// ---------------------------------------------------------------------------------------------------------------------
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
    run->kernels->scores(tile_out);
    return 1;
}

// sums_t (as dk_t and dv_t) += weights[n] * row, for the keys that row m sees.
static void add_row_by_hand(const attn_cpu_backward_tile_t *tile, int64_t m, const float *row,
                            int64_t cols, const float *weights, int64_t panel, float *sums_t)
{
    for (int64_t n = 0; n < tile->keys; n++) {
        if (!attn_cpu_backward_sees(tile, m, n)) {
            continue;
        }
        float *sum = sums_t + n / panel * panel * cols + n % panel;
        for (int64_t col = 0; col < cols; col++) {
            sum[col * panel] += weights[n] * row[col];
        }
    }
}

// Takes rows that are not finite out of q or dout (values).
static void add_bad_rows(const attn_cpu_backward_tile_t *tile, float *values, int64_t stride,
                         int64_t cols, const float *weights, int64_t panel, float *sums_t)
{
    for (int64_t m = 0; m < tile->rows; m++) {
        float *row = values + m * stride;
        if (!is_finite_row(row, cols)) {
            add_row_by_hand(tile, m, row, cols, weights + m * tile->tile_stride, panel, sums_t);
            memset(row, 0, (size_t)cols * sizeof(float));
        }
    }
}

// What keys that are zeros in k_rows give to dq; k_t has their values.
static void add_bad_keys(const attn_cpu_backward_tile_t *tile, const uint8_t *bad_key,
                         int64_t panel)
{
    for (int64_t n = 0; n < tile->keys; n++) {
        const float *key = tile->k_t + n / panel * panel * tile->d_qk + n % panel;
        for (int64_t m = 0; bad_key[n] && m < tile->rows; m++) {
            if (!attn_cpu_backward_sees(tile, m, n)) {
                continue;
            }
            const float ds = tile->ds[m * tile->tile_stride + n];
            for (int64_t col = 0; col < tile->d_qk; col++) {
                tile->dq[m * tile->dq_stride + col] += ds * key[col * panel];
            }
        }
    }
}

void attn_cpu_backward_accumulate(const attn_cpu_backward_run_t *run,
                                  const attn_cpu_backward_scratch_t *scratch,
                                  const attn_cpu_key_block_t *block, attn_cpu_backward_tile_t *tile)
{
    const int64_t panel = run->kernels->panel;
    if (tile->masked && tile->dv_t) {
        add_bad_rows(tile, scratch->dout, tile->dout_stride, tile->d_v, tile->p, panel, tile->dv_t);
    }
    if (tile->masked && tile->dk_t) {
        add_bad_rows(tile, scratch->q, tile->q_stride, tile->d_qk, tile->ds, panel, tile->dk_t);
    }
    run->kernels->accumulate(tile);
    if (block->has_bad && tile->dq) {
        add_bad_keys(tile, scratch->bad_key, panel);
    }
}
