// What the forward kernels share, whatever their lanes are: the state of a task, where it lies, its
// rows of Q, and what becomes of a finished row.
#ifndef ATTN_CPU_FORWARD_STATE_TMPL_H
#define ATTN_CPU_FORWARD_STATE_TMPL_H

#include <math.h>

#include "../../core/checked.h"
#include "../isa/math_tmpl.h"
#include "../score_tile.h"
#include "kv_source_tmpl.h"

// 2^8 bounds the weights while the maximum is stale. 8-bit inputs take none of it.
#define RESCALE_LOG2 8.0f
// Products of unscaled bfloat16 keep far from the ends of fp32 within these scales.
#define PAIRS_SCALE_MIN 0x1p-60f
#define PAIRS_SCALE_MAX 0x1p60f

typedef struct forward_panel {
    int64_t row_begin; // packed rows [row_begin, row_end) of the sequence
    int64_t row_end;
    int64_t seen_row_end; // packed rows in use: those behind it see nothing
    attn_range_t any;     // keys that some row sees, by the intervals alone
    attn_range_t all;     // keys that every row in use sees
    float *q;             // (d_qk, PANEL)
    float *o;             // (d_v, PANEL)
    float *maximum;       // (PANEL)
    float *sum;           // (PANEL), of the weights: what the lse is made of
    float *divisor;       // (PANEL), of o: the sum, unless V is multiplied by rounded weights
} forward_panel_t;

typedef struct forward_state {
    const attn_cpu_forward_t *run;
    const attn_desc_t *desc;
    attn_sequence_t seq;
    int64_t b;
    int64_t h_kv;
    int64_t split;
    attn_range_t keys; // of the split
    kv_source_t k;
    kv_source_t v;
    float *k_tile;
    float *v_tile;
    float *score;
    float *add;
    float *keep;
    float *row;
    float *memory;    // of the panels, or of the rows when they are few
    float q_factor;   // of Q when loaded: the sign and the power of two of the scale
    float raw_unit;   // of a product of Q and K: scale * dot = raw_unit * product, raw_unit > 0
    float unit;       // of the scores that softmax sees, and of the maximum
    float log2_unit;  // unit * log2(e)
    float rescale;    // growth of the maximum that moves it, in units
    int32_t has_add;  // terms are added to scores element by element, -inf hides
    int32_t has_keep; // weights are multiplied by 0 or 1 / keep
    int32_t pairs;    // products run on pairs of keys
    const struct forward_products *products;
    int32_t panel_count;
    forward_panel_t panels[ATTN_CPU_PANELS_MAX];
} forward_state_t;

// One tile of loaded keys.
typedef struct forward_tile {
    attn_range_t keys;
    const float *k; // row of key keys.begin
    int64_t k_stride;
    const float *v;
    int64_t v_stride;
    const uint32_t *k2; // the same as pairs of bfloat16, see forward_pairs_tmpl.h
    const uint32_t *v2;
    int32_t v_checked;    // whether the next field is known
    uint64_t v_nonfinite; // bit n: key keys.begin + n
} forward_tile_t;

// A panel's part of a tile: keys [begin, begin + count) and which V rows the product must leave
// out: bit n is key begin + n.
typedef struct forward_step {
    int64_t begin;
    int64_t count;
    int32_t partial; // some lane in use may not see some key
    uint64_t special;
    // per special key: the lanes of either vector that see it
    uint32_t visible[2][ATTN_CPU_TILE_KV];
} forward_step_t;

// The steps that depend on how products are computed.
typedef struct forward_products {
    void (*load_q)(const forward_state_t *state, forward_panel_t *panel);
    void (*load_tile)(const forward_state_t *state, forward_tile_t *tile);
    // Scores of a step, without softcap, added terms and masks.
    void (*score)(const forward_state_t *state, const forward_panel_t *panel,
                  const forward_tile_t *tile, const forward_step_t *step);
    // Rows of the V tile that hold NaN or an infinity.
    uint64_t (*nonfinite)(const forward_state_t *state, const forward_tile_t *tile);
    // Scores to weights; moves maximum, sum and, where the maximum moves, o.
    void (*softmax)(const forward_state_t *state, const forward_panel_t *panel,
                    const forward_step_t *step);
    void (*output)(const forward_state_t *state, const forward_panel_t *panel,
                   const forward_tile_t *tile, const forward_step_t *step);
} forward_products_t;

static int64_t lane_head(const forward_state_t *state, int64_t packed)
{
    const int64_t group = state->run->layout.group;
    return state->h_kv * group + packed % group;
}

// -------------------------------------------------------------------------------------------------
// Tasks

// Which block of which (sequence, K/V head, split) a task is. Later blocks of a sequence see more
// keys and come first.
typedef struct forward_place {
    int64_t b;
    int64_t h_kv; // the first of the task
    int64_t block;
    int64_t split;
} forward_place_t;

static forward_place_t find_place(const attn_cpu_forward_t *run, int64_t task)
{
    const attn_desc_t *desc = run->desc;
    const int64_t splits = run->plan->num_splits;
    forward_place_t place;
    place.split = task % splits;
    const int64_t head_blocks = attn_ceil_div(desc->heads_kv, run->layout.heads);
    place.h_kv = task / splits % head_blocks * run->layout.heads;
    const int64_t rest = task / splits / head_blocks;
    if (!run->block_begin) {
        place.b = rest % desc->batch;
        place.block = run->layout.blocks - 1 - rest / desc->batch;
        return place;
    }
    int64_t low = 0;
    int64_t high = desc->batch;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (run->block_begin[middle] <= rest) {
            low = middle;
        } else {
            high = middle;
        }
    }
    place.b = low;
    place.block = run->block_begin[low + 1] - 1 - rest;
    return place;
}

// Everything of a task but its rows.
static void task_start(forward_state_t *state, const attn_cpu_forward_t *run,
                       const forward_place_t *place, int32_t worker)
{
    const attn_cpu_forward_layout_t *layout = &run->layout;
    const attn_desc_t *desc = run->desc;
    float *scratch = (float *)(void *)(run->scratch + (size_t)worker * layout->scratch_bytes);
    state->run = run;
    state->desc = desc;
    state->b = place->b;
    state->h_kv = place->h_kv;
    state->split = place->split;
    state->seq = attn_sequence_at(desc, run->args, place->b);
    state->keys.begin = place->split * run->plan->split_keys;
    state->keys.end = place->split + 1 < run->plan->num_splits
                          ? state->keys.begin + run->plan->split_keys
                          : INT64_MAX;
    state->k = kv_source_at(run, &state->seq, place->b, place->h_kv, 0);
    state->v = kv_source_at(run, &state->seq, place->b, place->h_kv, 1);
    state->k_tile = scratch + layout->tile_at;
    state->v_tile = scratch + layout->v_tile_at;
    state->score = scratch + layout->score_at;
    state->add = state->score + ATTN_CPU_TILE_KV * PANEL;
    state->keep = state->add + ATTN_CPU_TILE_KV * PANEL;
    state->row = scratch + layout->row_at;
    state->memory = scratch + layout->panel_at;
    state->has_add = attn_cpu_score_has_add(desc);
    state->has_keep = attn_cpu_score_has_keep(desc);
    state->pairs = 0;
    state->products = NULL;
    state->panel_count = 0;
}

// -------------------------------------------------------------------------------------------------
// Units and rows of Q

// Only what multiplies without rounding goes into Q, its sign and a power of two; the rest of the
// scale is the unit of the scores, applied to their difference from the maximum together with
// log2(e). So a sum of rounded products never adds up one factor's error, and the lse of large
// scores is as exact as the scores. Added terms and softcap need scores in the unit 1.
static void choose_units(forward_state_t *state)
{
    const attn_desc_t *desc = state->desc;
    const float scale = desc->scale;
    if (state->pairs) {
        state->q_factor = copysignf(1.0f, scale);
        state->raw_unit = fabsf(scale);
    } else if (scale == 0.0f) {
        state->q_factor = 0.0f;
        state->raw_unit = 1.0f;
    } else {
        int exponent;
        state->raw_unit = 2.0f * frexpf(fabsf(scale), &exponent);
        state->q_factor = copysignf(ldexpf(1.0f, exponent - 1), scale);
    }
    state->unit = state->has_add || desc->softcap > 0.0f ? 1.0f : state->raw_unit;
    state->log2_unit = state->unit * ATTN_LOG2_E;
    const int is_8_bit = attn_element_bytes(desc->k.dtype) == 1;
    state->rescale = is_8_bit ? 0.0f : RESCALE_LOG2 / state->log2_unit;
}

// Where a row in use lies.
static const unsigned char *q_row(const forward_state_t *state, int64_t packed)
{
    const attn_tensor_t *tensor = &state->desc->q;
    const int64_t i = packed / state->run->layout.group;
    const int64_t at = state->seq.q_batch * tensor->stride_b +
                       (state->seq.q_row + i) * tensor->stride_s +
                       lane_head(state, packed) * tensor->stride_h;
    return (const unsigned char *)state->run->args->q + at * attn_element_bytes(tensor->dtype);
}

// The row, multiplied by q_factor, to state->row.
static void load_q_row(const forward_state_t *state, int64_t packed)
{
    const attn_desc_t *desc = state->desc;
    const float descale = descale_at(&desc->q_descale, state->run->args->q_descale, state->b,
                                     lane_head(state, packed), packed / state->run->layout.group);
    load_row(state->row, &desc->q, q_row(state, packed), desc->d_qk, state->q_factor * descale);
}

// -------------------------------------------------------------------------------------------------
// Results

typedef struct row_result {
    float share; // of the keys: 1 without a sink
    float lse;   // natural
} row_result_t;

// From the maximum and the sum relative to it; has_sink adds exp(sink) to the sum.
static row_result_t finish_row(float maximum, float sum, int has_sink, float sink)
{
    row_result_t result = {1.0f, -INFINITY};
    const float base = maximum == -INFINITY ? 0.0f : maximum;
    if (sum == 0.0f) {
        result.lse = has_sink ? sink : -INFINITY;
    } else if (!has_sink || sink == -INFINITY) {
        result.lse = base + logf(sum);
    } else {
        const float top = base > sink ? base : sink;
        const float keys = sum * expf(base - top);
        const float total = keys + expf(sink - top);
        result.share = keys / total;
        result.lse = top + logf(total);
    }
    return result;
}

static void store_o_row(const forward_state_t *state, int64_t h, int64_t i, const float *row)
{
    const attn_tensor_t *tensor = &state->desc->o;
    const int64_t at = state->seq.q_batch * tensor->stride_b +
                       (state->seq.q_row + i) * tensor->stride_s + h * tensor->stride_h;
    store_row(row, tensor,
              (unsigned char *)state->run->args->o + at * attn_element_bytes(tensor->dtype),
              state->desc->d_v);
}

static void store_lse(const forward_state_t *state, int64_t h, int64_t i, float lse)
{
    const attn_desc_t *desc = state->desc;
    if (desc->wants_lse) {
        const int64_t batch = desc->varlen_q ? 0 : state->b * desc->lse_stride_b;
        state->run->args
            ->lse[batch + h * desc->lse_stride_h + (state->seq.q_row + i) * desc->lse_stride_s] =
            lse;
    }
}

// One finished row. o is (d_v) with the given stride: divided for the output, not divided for
// partial results, of which an empty row has no o. stats are those of a partial result.
static void finish_output(const forward_state_t *state, int64_t packed, const float *o,
                          int64_t o_stride, const float *stats)
{
    const attn_cpu_forward_t *run = state->run;
    const int64_t d_v = state->desc->d_v;
    const int64_t i = packed / run->layout.group;
    const int64_t h = lane_head(state, packed);
    const float maximum = stats[0];
    const float sum = stats[1];
    float *row = state->row;
    row_result_t result = {1.0f, 0.0f};
    if (run->part_o) {
        const int64_t part = state->split * run->layout.part_rows +
                             attn_cpu_part_row(state->desc, state->b, h, state->seq.q_row, i);
        memcpy(run->part_stat + part * ATTN_CPU_PART_STATS, stats,
               ATTN_CPU_PART_STATS * sizeof *stats);
        row = run->part_o + part * d_v;
        if (sum == 0.0f) {
            return;
        }
    } else {
        const int has_sink = state->desc->has_sink && i < state->seq.mask.len_q;
        result = finish_row(maximum, sum, has_sink, has_sink ? run->args->sink[h] : 0.0f);
    }
    for (int64_t e = 0; e < d_v; e++) {
        row[e] = sum == 0.0f ? 0.0f : o[e * o_stride] * result.share;
    }
    if (!run->part_o) {
        store_lse(state, h, i, result.lse);
        store_o_row(state, h, i, row);
    }
}

#endif
