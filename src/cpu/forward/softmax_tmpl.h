// The steps between the two products of a panel: masks and added terms on its scores, which keys of
// V need care, and the running maximum. Lanes are query rows.
#ifndef ATTN_CPU_SOFTMAX_TMPL_H
#define ATTN_CPU_SOFTMAX_TMPL_H

#include "forward_state_tmpl.h"

// Lanes of one vector of the panel that see each key, as [low, high) relative to the step's first
// key.
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

// Fills the added terms (with -inf where an element is hidden) and the dropout factors of every
// lane, as far as the problem has them.
static void load_modifiers(const forward_state_t *state, const forward_panel_t *panel,
                           const forward_step_t *step)
{
    const int64_t group = state->run->layout.group;
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
        const attn_cpu_score_out_t out = {.add = state->has_add ? state->add + lane : NULL,
                                          .keep = state->has_keep ? state->keep + lane : NULL,
                                          .row_stride = 1,
                                          .key_stride = PANEL};
        attn_cpu_score_tile(&score, packed / group, 1, step->begin, step->count, &out);
    }
}

// From products to capped scores. count is a multiple of VF_LANES. The factor stays finite for caps
// near 0: a product of 0 is capped to 0.
static void cap_scores(const forward_state_t *state, float *score, int64_t count)
{
    const vf cap = vf_set1(state->desc->softcap);
    const vf factor = vf_set1(fminf(state->raw_unit / state->desc->softcap, FLT_MAX));
    for (int64_t at = 0; at < count; at += VF_LANES) {
        vf_store(score + at, vf_mul(vf_tanh(vf_mul(vf_load(score + at), factor)), cap));
    }
}

// From products, or capped scores, to scores with their added terms.
static void add_terms(const forward_state_t *state, float *score, const float *add, int64_t count)
{
    const vf unit = vf_set1(state->desc->softcap > 0.0f ? 1.0f : state->raw_unit);
    const vf hidden = vf_set1(-INFINITY);
    for (int64_t at = 0; at < count; at += VF_LANES) {
        const vf term = vf_load(add + at);
        const vf s = vf_fma(vf_load(score + at), unit, term);
        vf_store(score + at, vf_select(vf_eq(term, hidden), hidden, s));
    }
}

// Which rows of V the product must leave out, and who sees them. Called when the scores are final.
static void find_special(const forward_state_t *state, forward_tile_t *tile, forward_step_t *step)
{
    if (!tile->v_checked) {
        tile->v_nonfinite = state->products->nonfinite(state, tile);
        tile->v_checked = 1;
    }
    const uint64_t mine = ~0ull >> (64 - step->count);
    step->special = tile->v_nonfinite >> (step->begin - tile->keys.begin) & mine;
    if (state->pairs) {
        // Both keys of a pair are left out together.
        const uint64_t even = 0x5555555555555555ull;
        step->special |= ((step->special & even) << 1 | (step->special >> 1 & even)) & mine;
    }
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

// -------------------------------------------------------------------------------------------------
// The running maximum

static void scale_output(float *o, int64_t d, vf factor0, vf factor1)
{
    for (int64_t e = 0; e < d; e++) {
        float *at = o + e * PANEL;
        vf_store(at, vf_mul(vf_load(at), factor0));
        vf_store(at + VF_LANES, vf_mul(vf_load(at + VF_LANES), factor1));
    }
}

// Moves the running maximum of the lanes that need it and gives the one to subtract, which is
// finite for empty lanes.
static vf move_maximum(const forward_state_t *state, float *maximum, vf tile_maximum,
                       vf *factor_out, int *scales_out)
{
    const vf lowest = vf_set1(-INFINITY);
    const vf old = vf_load(maximum);
    const vm grows = vf_lt(vf_add(old, vf_set1(state->rescale)), tile_maximum);
    const vf used = vf_select(grows, tile_maximum, old);
    vf_store(maximum, used);
    *factor_out = vf_set1(1.0f);
    *scales_out = 0;
    const vm started = vm_and(grows, vf_lt(lowest, old));
    if (vm_any(started)) {
        const vf factor = vf_exp2(vf_mul(vf_sub(old, used), vf_set1(state->log2_unit)));
        *factor_out = vf_select(started, factor, vf_set1(1.0f));
        *scales_out = 1;
    }
    return vf_select(vf_eq(used, lowest), vf_set1(0.0f), used);
}

// Maximum of a step's scores; gives what to subtract from them.
static void find_maximum(const forward_state_t *state, const forward_panel_t *panel,
                         const forward_step_t *step, vf *max0_out, vf *max1_out)
{
    vf max0 = vf_set1(-INFINITY);
    vf max1 = max0;
    for (int64_t n = 0; n < step->count; n++) {
        max0 = vf_max(vf_load(state->score + n * PANEL), max0);
        max1 = vf_max(vf_load(state->score + n * PANEL + VF_LANES), max1);
    }
    vf factor0;
    vf factor1;
    int scales0;
    int scales1;
    *max0_out = move_maximum(state, panel->maximum, max0, &factor0, &scales0);
    *max1_out = move_maximum(state, panel->maximum + VF_LANES, max1, &factor1, &scales1);
    if (scales0 || scales1) {
        scale_output(panel->o, state->desc->d_v, factor0, factor1);
        scale_output(panel->sum, 1, factor0, factor1);
        if (state->pairs) {
            scale_output(panel->divisor, 1, factor0, factor1);
        }
    }
}

#endif
