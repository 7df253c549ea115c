// The forward pass: online softmax over tiles of keys (FlashAttention-2, arXiv:2307.08691, algorithm 1), with the query rows as
// vector lanes. Per panel of PANEL packed rows, everything is kept transposed:
//
//   Q^T (d_qk, PANEL)   S^T (keys, PANEL) = K Q^T   P^T = exp2(S^T - maximum)   O^T (d_v, PANEL) += V^T P^T
//
// so that maximum, sum and masks are lane-wise, K and V need no packing, and both products are gemm() of gemm_tmpl.h.
// Scores are in base 2: Q is multiplied by scale * log2(e) when loaded, so equal scores give a difference of exactly 0.
//
// A task loops over tiles of keys outside and its panels inside: a tile that must be converted is converted once per task.
// The running maximum of a lane is only moved when it grows by more than RESCALE_LOG2; the sum is consistent with the maximum
// in use, so the result is exact (FlashAttention-4 does the same per row).
//
// Hidden elements are selected away, never multiplied: their score is -inf whatever K holds. A row of V that is not finite
// is left out of the product in tiles with hidden elements and added to the lanes that see it alone.
#ifndef ATTN_CPU_FORWARD_TMPL_H
#define ATTN_CPU_FORWARD_TMPL_H

#include <math.h>

#include "../core/checked.h"
#include "gemm_tmpl.h"
#include "math_tmpl.h"
#include "score_tile.h"
#include "tile_tmpl.h"

// exp2(8) = 256 bounds the weights while the maximum is stale. 8-bit inputs take none of it.
#define RESCALE_LOG2 8.0f

typedef struct forward_panel {
    int64_t row_begin; // packed rows [row_begin, row_end) of the sequence
    int64_t row_end;
    int64_t seen_row_end; // packed rows in use: those behind it see nothing
    attn_range_t any;     // keys that some row sees, by the intervals alone
    attn_range_t all;     // keys that every row in use sees
    float *q;             // (d_qk, PANEL)
    float *o;             // (d_v, PANEL)
    float *maximum;       // (PANEL), base 2
    float *sum;           // (PANEL)
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
    float *memory; // of the panels, or of the rows when they are few
    float rescale_log2;
    int32_t modified; // scores or weights are changed element by element
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
    int32_t v_checked;    // whether the next field is known
    uint64_t v_nonfinite; // bit n: key keys.begin + n
} forward_tile_t;

// A panel's part of a tile: keys [begin, begin + count) and which V rows the product must leave out.
typedef struct forward_step {
    int64_t begin;
    int64_t count;
    int32_t partial; // some lane in use may not see some key
    uint64_t special;
    uint32_t visible[2]
                    [ATTN_CPU_TILE_KV]; // per special key: the lanes of either vector that see it
} forward_step_t;

static int64_t lane_head(const forward_state_t *state, int64_t packed)
{
    const int64_t group = state->run->layout.group;
    return state->h_kv * group + packed % group;
}

// ---------------------------------------------------------------------------------------------------------------------
// Setting up a task

// Scores leave the product in the unit that the next step wants: base 2, or the argument of tanh.
static float q_factor(const forward_state_t *state)
{
    const attn_desc_t *desc = state->desc;
    return desc->softcap > 0.0f ? desc->scale / desc->softcap : desc->scale * ATTN_LOG2_E;
}

// A row in use, multiplied, to state->row.
static void load_q_row(const forward_state_t *state, int64_t packed)
{
    const attn_desc_t *desc = state->desc;
    const attn_tensor_t *tensor = &desc->q;
    const int64_t i = packed / state->run->layout.group;
    const int64_t h = lane_head(state, packed);
    const int64_t at = state->seq.q_batch * tensor->stride_b +
                       (state->seq.q_row + i) * tensor->stride_s + h * tensor->stride_h;
    const float descale = descale_at(&desc->q_descale, state->run->args->q_descale, state->b, h, i);
    load_row(state->row, tensor,
             (const unsigned char *)state->run->args->q + at * attn_element_bytes(tensor->dtype),
             desc->d_qk, q_factor(state) * descale);
}

static void load_q(forward_state_t *state, forward_panel_t *panel)
{
    const attn_desc_t *desc = state->desc;
    for (int64_t lane = 0; lane < PANEL; lane++) {
        const int64_t packed = panel->row_begin + lane;
        float *column = panel->q + lane;
        if (packed >= panel->seen_row_end) {
            for (int64_t e = 0; e < desc->d_qk; e++) {
                column[e * PANEL] = 0.0f;
            }
            continue;
        }
        load_q_row(state, packed);
        for (int64_t e = 0; e < desc->d_qk; e++) {
            column[e * PANEL] = state->row[e];
        }
    }
}

static void panel_start(forward_state_t *state, forward_panel_t *panel, int64_t row_begin,
                        int64_t row_end, float *memory)
{
    const attn_desc_t *desc = state->desc;
    const int64_t group = state->run->layout.group;
    const int64_t in_use = state->seq.mask.len_q * group;
    panel->row_begin = row_begin;
    panel->row_end = row_end;
    panel->seen_row_end = row_end < in_use ? row_end : in_use;
    panel->q = memory;
    panel->o = panel->q + desc->d_qk * PANEL;
    panel->maximum = panel->o + desc->d_v * PANEL;
    panel->sum = panel->maximum + PANEL;
    panel->any = (attn_range_t){0, 0};
    panel->all = panel->any;
    if (panel->seen_row_end > row_begin) {
        const int64_t i_begin = row_begin / group;
        const int64_t i_end = (panel->seen_row_end - 1) / group + 1;
        panel->any = attn_tile_kv_range(&state->seq.mask, i_begin, i_end);
        panel->all = attn_tile_full_kv_range(&state->seq.mask, i_begin, i_end);
        load_q(state, panel);
    }
    memset(panel->o, 0, (size_t)(desc->d_v * PANEL) * sizeof *panel->o);
    for (int64_t lane = 0; lane < PANEL; lane++) {
        panel->maximum[lane] = -INFINITY;
        panel->sum[lane] = 0.0f;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Scores of a tile

// Lanes of one vector of the panel that see each key, as [low, high) relative to the step's first key.
static void lane_limits(const forward_state_t *state, const forward_panel_t *panel,
                        const forward_step_t *step, int32_t *low, int32_t *high)
{
    const int64_t group = state->run->layout.group;
    for (int64_t lane = 0; lane < PANEL; lane++) {
        const int64_t packed = panel->row_begin + lane;
        attn_range_t seen = {0, 0};
        if (packed < panel->seen_row_end) {
            const attn_range_t row = attn_row_kv_range(&state->seq.mask, packed / group);
            seen = attn_range_make(row.begin - step->begin, row.end - step->begin, 0, step->count);
        }
        low[lane] = (int32_t)seen.begin;
        high[lane] = (int32_t)seen.end;
    }
}

static void hide_outside(const forward_state_t *state, const forward_panel_t *panel,
                         const forward_step_t *step)
{
    int32_t low[PANEL];
    int32_t high[PANEL];
    lane_limits(state, panel, step, low, high);
    const vf hidden = vf_set1(-INFINITY);
    for (int half = 0; half < 2; half++) {
        const vi first = vi_load(low + half * VF_LANES);
        const vi end = vi_load(high + half * VF_LANES);
        for (int64_t n = 0; n < step->count; n++) {
            float *at = state->score + n * PANEL + half * VF_LANES;
            const vi key = vi_set1((int32_t)n);
            const vm seen = vm_and(vm_not(vi_lt(key, first)), vi_lt(key, end));
            vf_store(at, vf_select(seen, vf_load(at), hidden));
        }
    }
}

// Fills the added terms (with -inf where an element is hidden) and the dropout factors of every lane.
static void load_modifiers(const forward_state_t *state, const forward_panel_t *panel,
                           const forward_step_t *step)
{
    const int64_t group = state->run->layout.group;
    const int has_keep = attn_cpu_score_has_keep(state->desc);
    for (int64_t lane = 0; lane < PANEL; lane++) {
        const int64_t packed = panel->row_begin + lane;
        if (packed >= panel->seen_row_end) {
            for (int64_t n = 0; n < step->count; n++) {
                state->add[n * PANEL + lane] = -INFINITY;
                state->keep[n * PANEL + lane] = 0.0f;
            }
            continue;
        }
        const attn_cpu_score_t score = attn_cpu_score_make(
            state->desc, state->run->args, &state->seq, state->b, lane_head(state, packed));
        const attn_cpu_score_out_t out = {.add = state->add + lane,
                                          .keep = has_keep ? state->keep + lane : NULL,
                                          .row_stride = 1,
                                          .key_stride = PANEL};
        attn_cpu_score_tile(&score, packed / group, 1, step->begin, step->count, &out);
    }
}

// score and add: count floats, a multiple of VF_LANES.
static void modify_scores(const forward_state_t *state, float *score, const float *add,
                          int64_t count)
{
    const vf cap = vf_set1(state->desc->softcap * ATTN_LOG2_E);
    const vf log2_e = vf_set1(ATTN_LOG2_E);
    const vf hidden = vf_set1(-INFINITY);
    const int capped = state->desc->softcap > 0.0f;
    for (int64_t at = 0; at < count; at += VF_LANES) {
        vf s = vf_load(score + at);
        const vf term = vf_load(add + at);
        if (capped) {
            s = vf_mul(vf_tanh(s), cap);
        }
        s = vf_fma(term, log2_e, s);
        vf_store(score + at, vf_select(vf_eq(term, hidden), hidden, s));
    }
}

// Which rows of V the product must leave out, and who sees them. Called when the scores are final.
static void find_special(const forward_state_t *state, forward_tile_t *tile, forward_step_t *step)
{
    if (!tile->v_checked) {
        tile->v_nonfinite = nonfinite_rows(tile->v, tile->v_stride,
                                           tile->keys.end - tile->keys.begin, state->desc->d_v);
        tile->v_checked = 1;
    }
    const uint64_t mine = ~0ull >> (64 - step->count);
    step->special = tile->v_nonfinite >> (step->begin - tile->keys.begin) & mine;
    const vf hidden = vf_set1(-INFINITY);
    for (int64_t n = 0; n < step->count; n++) {
        if (step->special >> n & 1u) {
            for (int half = 0; half < 2; half++) {
                const vf s = vf_load(state->score + n * PANEL + half * VF_LANES);
                step->visible[half][n] = vm_bits(vm_not(vf_eq(s, hidden)));
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Softmax of a tile

static void scale_output(float *o, int64_t d, vf factor0, vf factor1)
{
    for (int64_t e = 0; e < d; e++) {
        float *at = o + e * PANEL;
        vf_store(at, vf_mul(vf_load(at), factor0));
        vf_store(at + VF_LANES, vf_mul(vf_load(at + VF_LANES), factor1));
    }
}

// Moves the running maximum of the lanes that need it and gives the one to subtract, which is finite for empty lanes.
static vf move_maximum(float *maximum, float *sum, vf tile_maximum, vf threshold, vf *factor_out,
                       int *scales_out)
{
    const vf lowest = vf_set1(-INFINITY);
    const vf old = vf_load(maximum);
    const vm grows = vf_lt(vf_add(old, threshold), tile_maximum);
    const vf used = vf_select(grows, tile_maximum, old);
    vf_store(maximum, used);
    *factor_out = vf_set1(1.0f);
    *scales_out = 0;
    const vm started = vm_and(grows, vf_lt(lowest, old));
    if (vm_any(started)) {
        const vf factor = vf_exp2(vf_sub(old, used));
        *factor_out = vf_select(started, factor, vf_set1(1.0f));
        *scales_out = 1;
        vf_store(sum, vf_mul(vf_load(sum), *factor_out));
    }
    return vf_select(vf_eq(used, lowest), vf_set1(0.0f), used);
}

// Turns scores into weights in place; sums them before dropout.
static void softmax_tile(const forward_state_t *state, const forward_panel_t *panel,
                         const forward_step_t *step)
{
    float *score = state->score;
    vf max0 = vf_set1(-INFINITY);
    vf max1 = max0;
    for (int64_t n = 0; n < step->count; n++) {
        max0 = vf_max(vf_load(score + n * PANEL), max0);
        max1 = vf_max(vf_load(score + n * PANEL + VF_LANES), max1);
    }
    const vf threshold = vf_set1(state->rescale_log2);
    vf factor0;
    vf factor1;
    int scales0;
    int scales1;
    max0 = move_maximum(panel->maximum, panel->sum, max0, threshold, &factor0, &scales0);
    max1 = move_maximum(panel->maximum + VF_LANES, panel->sum + VF_LANES, max1, threshold, &factor1,
                        &scales1);
    if (scales0 || scales1) {
        scale_output(panel->o, state->desc->d_v, factor0, factor1);
    }
    vf sum0 = vf_load(panel->sum);
    vf sum1 = vf_load(panel->sum + VF_LANES);
    for (int64_t n = 0; n < step->count; n++) {
        float *at = score + n * PANEL;
        const vf p0 = vf_exp2(vf_sub(vf_load(at), max0));
        const vf p1 = vf_exp2(vf_sub(vf_load(at + VF_LANES), max1));
        sum0 = vf_add(sum0, p0);
        sum1 = vf_add(sum1, p1);
        vf_store(at, p0);
        vf_store(at + VF_LANES, p1);
    }
    vf_store(panel->sum, sum0);
    vf_store(panel->sum + VF_LANES, sum1);
}

static void apply_dropout(const forward_state_t *state, const forward_step_t *step)
{
    for (int64_t at = 0; at < step->count * PANEL; at += VF_LANES) {
        vf_store(state->score + at, vf_mul(vf_load(state->score + at), vf_load(state->keep + at)));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Output of a tile

static void multiply_v(const forward_state_t *state, const forward_panel_t *panel, const float *v,
                       int64_t v_stride, int64_t n_begin, int64_t n_end)
{
    const gemm_operands_t product = {.a = v + n_begin * v_stride,
                                     .a_row = 1,
                                     .a_col = v_stride,
                                     .b = state->score + n_begin * PANEL,
                                     .b_row = PANEL,
                                     .c = panel->o,
                                     .c_row = PANEL,
                                     .accumulate = 1};
    gemm(state->desc->d_v, n_end - n_begin, &product);
}

// O += p[n] * V[n] in the lanes that see key n alone.
static void add_special(const forward_state_t *state, const forward_panel_t *panel,
                        const forward_step_t *step, const float *v_row, int64_t n)
{
    for (int half = 0; half < 2; half++) {
        const vm seen = vm_from_bits(step->visible[half][n]);
        if (!step->visible[half][n]) {
            continue;
        }
        const vf p = vf_load(state->score + n * PANEL + half * VF_LANES);
        for (int64_t e = 0; e < state->desc->d_v; e++) {
            float *at = panel->o + e * PANEL + half * VF_LANES;
            const vf o = vf_load(at);
            vf_store(at, vf_select(seen, vf_fma(p, vf_set1(v_row[e]), o), o));
        }
    }
}

static void output_tile(const forward_state_t *state, const forward_panel_t *panel,
                        const forward_tile_t *tile, const forward_step_t *step)
{
    const float *v = tile->v + (step->begin - tile->keys.begin) * tile->v_stride;
    int64_t done = 0;
    for (int64_t n = 0; step->special && n < step->count; n++) {
        if (step->special >> n & 1u) {
            multiply_v(state, panel, v, tile->v_stride, done, n);
            add_special(state, panel, step, v + n * tile->v_stride, n);
            done = n + 1;
        }
    }
    multiply_v(state, panel, v, tile->v_stride, done, step->count);
}

// ---------------------------------------------------------------------------------------------------------------------
// A panel's step, and the loop over tiles

static int step_is_listed(const forward_state_t *state, const forward_panel_t *panel,
                          const forward_step_t *step)
{
    if (!state->desc->block_sparse) {
        return 1;
    }
    const int64_t group = state->run->layout.group;
    const int64_t i_begin = panel->row_begin / group;
    const int64_t i_end = (panel->seen_row_end - 1) / group + 1;
    for (int64_t g = 0; g < group; g++) {
        const attn_cpu_score_t score = attn_cpu_score_make(
            state->desc, state->run->args, &state->seq, state->b, state->h_kv * group + g);
        if (attn_cpu_score_tile_listed(&score, i_begin, i_end - i_begin, step->begin,
                                       step->count)) {
            return 1;
        }
    }
    return 0;
}

static void panel_step(const forward_state_t *state, const forward_panel_t *panel,
                       forward_tile_t *tile)
{
    const attn_range_t mine =
        attn_range_make(panel->any.begin, panel->any.end, tile->keys.begin, tile->keys.end);
    if (mine.begin >= mine.end) {
        return;
    }
    forward_step_t step;
    step.begin = mine.begin;
    step.count = mine.end - mine.begin;
    step.partial = state->modified || mine.begin < panel->all.begin || mine.end > panel->all.end;
    step.special = 0;
    if (!step_is_listed(state, panel, &step)) {
        return;
    }
    const gemm_operands_t product = {.a =
                                         tile->k + (mine.begin - tile->keys.begin) * tile->k_stride,
                                     .a_row = tile->k_stride,
                                     .a_col = 1,
                                     .b = panel->q,
                                     .b_row = PANEL,
                                     .c = state->score,
                                     .c_row = PANEL,
                                     .accumulate = 0};
    gemm(step.count, state->desc->d_qk, &product);
    if (state->modified) {
        load_modifiers(state, panel, &step);
        modify_scores(state, state->score, state->add, step.count * PANEL);
    } else if (step.partial) {
        hide_outside(state, panel, &step);
    }
    if (step.partial) {
        find_special(state, tile, &step);
    }
    softmax_tile(state, panel, &step);
    if (attn_cpu_score_has_keep(state->desc)) {
        apply_dropout(state, &step);
    }
    output_tile(state, panel, tile, &step);
}

static forward_tile_t load_tile(const forward_state_t *state, attn_range_t keys, int direct)
{
    const attn_cpu_forward_layout_t *layout = &state->run->layout;
    forward_tile_t tile = {
        .keys = keys, .k_stride = layout->k_stride, .v_stride = layout->v_stride};
    if (direct && kv_is_direct(&state->k)) {
        tile.k = (const float *)(const void *)kv_row(&state->k, keys.begin);
        tile.k_stride = state->k.tensor->stride_s;
    } else {
        load_kv(state->k_tile, layout->k_stride, &state->k, keys.begin, keys.end);
        tile.k = state->k_tile;
    }
    if (direct && kv_is_direct(&state->v)) {
        tile.v = (const float *)(const void *)kv_row(&state->v, keys.begin);
        tile.v_stride = state->v.tensor->stride_s;
    } else {
        load_kv(state->v_tile, layout->v_stride, &state->v, keys.begin, keys.end);
        tile.v = state->v_tile;
    }
    return tile;
}

static void forward_tiles(forward_state_t *state)
{
    attn_range_t seen = {INT64_MAX, 0};
    for (int32_t p = 0; p < state->panel_count; p++) {
        const attn_range_t any = state->panels[p].any;
        if (any.begin < any.end) {
            seen.begin = any.begin < seen.begin ? any.begin : seen.begin;
            seen.end = any.end > seen.end ? any.end : seen.end;
        }
    }
    seen = attn_range_make(seen.begin, seen.end, state->keys.begin, state->keys.end);
    // A copy of a tile costs about as much as a few rows of products: not worth it for one panel.
    const int direct = state->panel_count <= 1;
    for (int64_t j = seen.begin; j < seen.end;) {
        const int64_t tile_end = (j / ATTN_CPU_TILE_KV + 1) * ATTN_CPU_TILE_KV;
        const attn_range_t keys = {j, tile_end < seen.end ? tile_end : seen.end};
        forward_tile_t tile = load_tile(state, keys, direct);
        for (int32_t p = 0; p < state->panel_count; p++) {
            panel_step(state, &state->panels[p], &tile);
        }
        j = keys.end;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Results

typedef struct row_result {
    float factor; // of the accumulated output
    float lse;    // natural
} row_result_t;

// From the maximum (base 2) and the sum relative to it; has_sink adds exp(sink) to the sum.
static row_result_t finish_row(float maximum, float sum, int has_sink, float sink)
{
    row_result_t result = {0.0f, -INFINITY};
    const float sink_log2 = has_sink ? sink * ATTN_LOG2_E : -INFINITY;
    if (sum == 0.0f) {
        result.lse = has_sink ? sink : -INFINITY;
    } else if (sink_log2 == -INFINITY) {
        const float base = maximum == -INFINITY ? 0.0f : maximum;
        result.factor = 1.0f / sum;
        result.lse = base * ATTN_LN_2 + logf(sum);
    } else {
        const float base = maximum == -INFINITY ? 0.0f : maximum;
        const float top = base > sink_log2 ? base : sink_log2;
        const float weight = exp2f(base - top);
        const float total = sum * weight + exp2f(sink_log2 - top);
        result.factor = weight / total;
        result.lse = top * ATTN_LN_2 + logf(total);
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

// One finished row. o is (d_v) with the given stride and not yet divided by the sum: goes to the output, or as it is with
// maximum and sum to the partial results, of which an empty row has no o.
static void finish_output(const forward_state_t *state, int64_t packed, const float *o,
                          int64_t o_stride, float maximum, float sum)
{
    const attn_cpu_forward_t *run = state->run;
    const int64_t d_v = state->desc->d_v;
    const int64_t i = packed / run->layout.group;
    const int64_t h = lane_head(state, packed);
    float *row = state->row;
    row_result_t result = {1.0f, 0.0f};
    if (run->part_o) {
        const int64_t part = state->split * run->layout.part_rows +
                             attn_cpu_part_row(state->desc, state->b, h, state->seq.q_row, i);
        run->part_stat[part * 2] = maximum;
        run->part_stat[part * 2 + 1] = sum;
        row = run->part_o + part * d_v;
        if (sum == 0.0f) {
            return;
        }
    } else {
        const int has_sink = state->desc->has_sink && i < state->seq.mask.len_q;
        result = finish_row(maximum, sum, has_sink, has_sink ? run->args->sink[h] : 0.0f);
    }
    for (int64_t e = 0; e < d_v; e++) {
        row[e] = sum == 0.0f ? 0.0f : o[e * o_stride] * result.factor;
    }
    if (!run->part_o) {
        store_lse(state, h, i, result.lse);
        store_o_row(state, h, i, row);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Tasks

// Which block of which (sequence, K/V head, split) a task is. Later blocks of a sequence see more keys and come first.
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
    state->rescale_log2 = attn_element_bytes(desc->k.dtype) == 1 ? 0.0f : RESCALE_LOG2;
    state->modified =
        desc->softcap > 0.0f || attn_cpu_score_has_add(desc) || attn_cpu_score_has_keep(desc);
    state->panel_count = 0;
}

static void forward_task(const attn_cpu_forward_t *run, int64_t task, int32_t worker)
{
    const attn_cpu_forward_layout_t *layout = &run->layout;
    const forward_place_t place = find_place(run, task);
    forward_state_t state;
    task_start(&state, run, &place, worker);
    const int64_t rows = state.seq.rows_q * layout->group;
    const int64_t row_begin = place.block * layout->task_rows;
    for (int64_t row = row_begin; row < rows && row < row_begin + layout->task_rows; row += PANEL) {
        float *memory = state.memory + state.panel_count * layout->panel_stride;
        panel_start(&state, &state.panels[state.panel_count++], row,
                    row + PANEL < rows ? row + PANEL : rows, memory);
    }
    forward_tiles(&state);
    for (int32_t p = 0; p < state.panel_count; p++) {
        const forward_panel_t *panel = &state.panels[p];
        for (int64_t row = panel->row_begin; row < panel->row_end; row++) {
            const int64_t lane = row - panel->row_begin;
            const int in_use = row < panel->seen_row_end;
            finish_output(&state, row, panel->o + lane, PANEL, panel->maximum[lane],
                          in_use ? panel->sum[lane] : 0.0f);
        }
    }
}

#endif
