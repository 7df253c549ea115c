// The forward pass: online softmax over tiles of keys (FlashAttention-2, arXiv:2307.08691,
// algorithm 1), with the query rows as vector lanes. Per panel of PANEL packed rows, everything is
// kept transposed:
//
//   Q^T (d_qk, PANEL)        S^T (keys, PANEL) = K Q^T
//   P^T = exp(S^T - max)     O^T (d_v, PANEL) += V^T P^T
//
// so that maximum, sum and masks are lane-wise, K and V need no packing, and both products are
// gemm() of gemm_tmpl.h. Equal scores give a difference of exactly 0 and so a weight of
// exactly 1.
//
// A task loops over tiles of keys outside and its panels inside: a tile that must be converted is
// converted once per task. The running maximum of a lane is only moved when it grows by more than
// RESCALE_LOG2; the sum is consistent with the maximum in use, so the result is exact
// (FlashAttention-4 does the same per row).
//
// Hidden elements are selected away, never multiplied: their score is -inf whatever K holds. A row
// of V that is not finite is left out of the product in tiles with hidden elements and added to the
// lanes that see it alone.
#ifndef ATTN_CPU_FORWARD_TMPL_H
#define ATTN_CPU_FORWARD_TMPL_H

#include "../isa/gemm_tmpl.h"
#include "softmax_tmpl.h"

// -------------------------------------------------------------------------------------------------
// Products in fp32

static void load_q(const forward_state_t *state, forward_panel_t *panel)
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

static void load_tile(const forward_state_t *state, forward_tile_t *tile)
{
    const attn_cpu_forward_layout_t *layout = &state->run->layout;
    const attn_range_t keys = tile->keys;
    tile->k = state->k_tile;
    tile->k_stride = layout->k_stride;
    tile->v = state->v_tile;
    tile->v_stride = layout->v_stride;
    if (kv_is_direct(&state->k)) {
        tile->k = (const float *)(const void *)kv_row(&state->k, keys.begin);
        tile->k_stride = state->k.tensor->stride_s;
    } else {
        load_kv(state->k_tile, layout->k_stride, &state->k, keys.begin, keys.end);
    }
    if (kv_is_direct(&state->v)) {
        tile->v = (const float *)(const void *)kv_row(&state->v, keys.begin);
        tile->v_stride = state->v.tensor->stride_s;
    } else {
        load_kv(state->v_tile, layout->v_stride, &state->v, keys.begin, keys.end);
    }
}

static void score_tile(const forward_state_t *state, const forward_panel_t *panel,
                       const forward_tile_t *tile, const forward_step_t *step)
{
    const gemm_operands_t product = {.a = tile->k +
                                          (step->begin - tile->keys.begin) * tile->k_stride,
                                     .a_row = tile->k_stride,
                                     .a_col = 1,
                                     .b = panel->q,
                                     .b_row = PANEL,
                                     .c = state->score,
                                     .c_row = PANEL,
                                     .accumulate = 0};
    gemm(step->count, state->desc->d_qk, &product);
}

static uint64_t nonfinite_tile(const forward_state_t *state, const forward_tile_t *tile)
{
    return nonfinite_rows(tile->v, tile->v_stride, tile->keys.end - tile->keys.begin,
                          state->desc->d_v);
}

// Turns scores into weights in place; sums them before dropout.
static void softmax_tile(const forward_state_t *state, const forward_panel_t *panel,
                         const forward_step_t *step)
{
    float *score = state->score;
    vf max0;
    vf max1;
    find_maximum(state, panel, step, &max0, &max1);
    const vf log2_unit = vf_set1(state->log2_unit);
    vf sum0 = vf_load(panel->sum);
    vf sum1 = vf_load(panel->sum + VF_LANES);
    for (int64_t n = 0; n < step->count; n++) {
        float *at = score + n * PANEL;
        const vf p0 = vf_exp2(vf_mul(vf_sub(vf_load(at), max0), log2_unit));
        const vf p1 = vf_exp2(vf_mul(vf_sub(vf_load(at + VF_LANES), max1), log2_unit));
        sum0 = vf_add(sum0, p0);
        sum1 = vf_add(sum1, p1);
        vf_store(at, p0);
        vf_store(at + VF_LANES, p1);
    }
    vf_store(panel->sum, sum0);
    vf_store(panel->sum + VF_LANES, sum1);
    if (state->has_keep) {
        for (int64_t at = 0; at < step->count * PANEL; at += VF_LANES) {
            vf_store(score + at, vf_mul(vf_load(score + at), vf_load(state->keep + at)));
        }
    }
}

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

static const forward_products_t forward_products_f32 = {
    .load_q = load_q,
    .load_tile = load_tile,
    .score = score_tile,
    .nonfinite = nonfinite_tile,
    .softmax = softmax_tile,
    .output = output_tile,
};

#ifdef VF_HAS_BF16_DOT
#include "forward_pairs_tmpl.h"
#endif

// -------------------------------------------------------------------------------------------------
// Panels and tiles

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
    panel->divisor = state->pairs ? panel->sum + PANEL : panel->sum;
    panel->any = (attn_range_t){0, 0};
    panel->all = panel->any;
    if (panel->seen_row_end > row_begin) {
        const int64_t i_begin = row_begin / group;
        const int64_t i_end = (panel->seen_row_end - 1) / group + 1;
        panel->any = attn_tile_kv_range(&state->seq.mask, i_begin, i_end);
        panel->all = attn_tile_full_kv_range(&state->seq.mask, i_begin, i_end);
        state->products->load_q(state, panel);
    }
    memset(panel->o, 0, (size_t)(desc->d_v * PANEL) * sizeof *panel->o);
    for (int64_t lane = 0; lane < PANEL; lane++) {
        panel->maximum[lane] = -INFINITY;
        panel->sum[lane] = 0.0f;
        panel->divisor[lane] = 0.0f;
    }
}

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
    const forward_products_t *products = state->products;
    attn_range_t mine =
        attn_range_make(panel->any.begin, panel->any.end, tile->keys.begin, tile->keys.end);
    if (mine.begin >= mine.end) {
        return;
    }
    if (state->pairs) {
        // Whole pairs, which begin at even keys; what that adds is hidden below.
        mine.begin -= mine.begin & 1;
        mine.end += mine.end & 1 && mine.end < tile->keys.end;
    }
    forward_step_t step;
    step.begin = mine.begin;
    step.count = mine.end - mine.begin;
    step.partial = state->has_add || mine.begin < panel->all.begin || mine.end > panel->all.end;
    step.special = 0;
    if (!step_is_listed(state, panel, &step)) {
        return;
    }
    products->score(state, panel, tile, &step);
    if (state->desc->softcap > 0.0f) {
        cap_scores(state, state->score, step.count * PANEL);
    }
    if (state->has_add || state->has_keep) {
        load_modifiers(state, panel, &step);
    }
    if (state->has_add) {
        add_terms(state, state->score, state->add, step.count * PANEL);
    } else if (step.partial) {
        hide_outside(state, panel, &step);
    }
    if (step.partial) {
        find_special(state, tile, &step);
    }
    products->softmax(state, panel, &step);
    products->output(state, panel, tile, &step);
}

// Asks for panel p's share of the next tile: all at once would stall.
static void prefetch_share(const forward_state_t *state, attn_range_t next, int32_t p)
{
    const int64_t count = next.end - next.begin;
    const int64_t begin = count * p / state->panel_count;
    const int64_t end = count * (p + 1) / state->panel_count;
    prefetch_kv(&state->k, next.begin + begin, end - begin);
    prefetch_kv(&state->v, next.begin + begin, end - begin);
}

static void forward_tiles(const forward_state_t *state)
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
    if (state->pairs && seen.begin < seen.end) {
        seen.begin -= seen.begin & 1;
    }
    for (int64_t j = seen.begin; j < seen.end;) {
        const int64_t tile_end = (j / ATTN_CPU_TILE_KV + 1) * ATTN_CPU_TILE_KV;
        forward_tile_t tile = {.keys = {j, tile_end < seen.end ? tile_end : seen.end}};
        const attn_range_t next =
            attn_range_make(tile.keys.end, tile.keys.end + ATTN_CPU_TILE_KV, 0, seen.end);
        state->products->load_tile(state, &tile);
        for (int32_t p = 0; p < state->panel_count; p++) {
            prefetch_share(state, next, p);
            panel_step(state, &state->panels[p], &tile);
        }
        j = tile.keys.end;
    }
}

// -------------------------------------------------------------------------------------------------
// Tasks

// O / divisor, lane by lane; a lane without keys stays 0. No product with a reciprocal: V of ones
// gives exactly 1.
static void divide_output(const forward_panel_t *panel, int64_t d_v)
{
    for (int half = 0; half < 2; half++) {
        const vf sum = vf_load(panel->divisor + half * VF_LANES);
        const vf zero = vf_set1(0.0f);
        const vf divisor = vf_select(vf_eq(sum, zero), vf_set1(1.0f), sum);
        for (int64_t e = 0; e < d_v; e++) {
            float *at = panel->o + e * PANEL + half * VF_LANES;
            vf_store(at, vf_div(vf_load(at), divisor));
        }
    }
}

static void finish_panel(const forward_state_t *state, const forward_panel_t *panel)
{
    if (!state->run->part_o) {
        divide_output(panel, state->desc->d_v);
    }
    for (int64_t row = panel->row_begin; row < panel->row_end; row++) {
        const int64_t lane = row - panel->row_begin;
        const int in_use = row < panel->seen_row_end;
        const float stats[ATTN_CPU_PART_STATS] = {panel->maximum[lane] * state->unit,
                                                  in_use ? panel->sum[lane] : 0.0f,
                                                  panel->divisor[lane]};
        finish_output(state, row, panel->o + lane, PANEL, stats);
    }
}

static void choose_products(forward_state_t *state)
{
    state->products = &forward_products_f32;
    state->pairs = 0;
#ifdef VF_HAS_BF16_DOT
    const attn_desc_t *desc = state->desc;
    if (desc->q.dtype == ATTN_BF16 && desc->k.dtype == ATTN_BF16 && desc->v.dtype == ATTN_BF16 &&
        fabsf(desc->scale) >= PAIRS_SCALE_MIN && fabsf(desc->scale) <= PAIRS_SCALE_MAX) {
        state->products = &forward_products_pairs;
        state->pairs = 1;
    }
#endif
}

static void forward_task(const attn_cpu_forward_t *run, int64_t task, int32_t worker)
{
    const attn_cpu_forward_layout_t *layout = &run->layout;
    const forward_place_t place = find_place(run, task);
    forward_state_t state;
    task_start(&state, run, &place, worker);
    choose_products(&state);
    choose_units(&state);
    const int64_t rows = state.seq.rows_q * layout->group;
    const int64_t row_begin = place.block * layout->task_rows;
    for (int64_t row = row_begin; row < rows && row < row_begin + layout->task_rows; row += PANEL) {
        float *memory = state.memory + state.panel_count * layout->panel_stride;
        panel_start(&state, &state.panels[state.panel_count++], row,
                    row + PANEL < rows ? row + PANEL : rows, memory);
    }
    forward_tiles(&state);
    for (int32_t p = 0; p < state.panel_count; p++) {
        finish_panel(&state, &state.panels[p]);
    }
}

#endif
