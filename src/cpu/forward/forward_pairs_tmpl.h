// The products of forward_tmpl.h on pairs of bfloat16, when Q, K and V are all bfloat16 and the
// processor has a dot product of pairs: twice the rate of fp32. Included by forward_tmpl.h.
//
//   Q   [d/2][PANEL]    pairs of elements (2c, 2c + 1) of a row, with the sign of the scale
//   K   [keys][d/2]     rows as stored, copied so that odd dims and strides do not matter
//   P   [keys/2][PANEL] weights of keys (2m, 2m + 1), rounded; they replace the scores in place
//   V   [keys/2][d_v]   elements of rows (2m, 2m + 1)
//
// The divisor of O is the sum of the rounded weights, made by the same instruction in the same
// order as O: with V = 1, O equals it. The lse is made of the weights before rounding.
#ifndef ATTN_CPU_FORWARD_PAIRS_TMPL_H
#define ATTN_CPU_FORWARD_PAIRS_TMPL_H

#include "../isa/gemm_pairs_tmpl.h"
#include "softmax_tmpl.h"

// Pairs per row of a loaded K tile; an odd number of cache lines, and never more than the fp32
// tile's row.
static int64_t pair_stride(int64_t d)
{
    return ((d + 1) / 2 + 31) / 32 * 32 + 16;
}

// A row's bits without gaps: where they are, or copied to room. NULL, a page out of range, gives
// zeros.
static const uint16_t *plain_row(const attn_tensor_t *tensor, const unsigned char *at, int64_t d,
                                 uint16_t *room)
{
    if (at && tensor->stride_d == 1) {
        return (const uint16_t *)(const void *)at;
    }
    for (int64_t e = 0; e < d; e++) {
        room[e] = 0;
        if (at) {
            memcpy(&room[e], at + e * tensor->stride_d * 2, sizeof *room);
        }
    }
    return room;
}

static void load_q_pairs(const forward_state_t *state, forward_panel_t *panel)
{
    const attn_desc_t *desc = state->desc;
    const int64_t pairs = (desc->d_qk + 1) / 2;
    const uint32_t flip = state->q_factor < 0.0f ? 0x80008000u : 0;
    uint16_t *room = (uint16_t *)(void *)state->row;
    uint32_t *row = (uint32_t *)(void *)state->k_tile;
    uint32_t *columns = (uint32_t *)(void *)panel->q;
    for (int64_t lane = 0; lane < PANEL; lane++) {
        const int64_t packed = panel->row_begin + lane;
        memset(row, 0, (size_t)pairs * sizeof *row);
        if (packed < panel->seen_row_end) {
            const uint16_t *bits = plain_row(&desc->q, q_row(state, packed), desc->d_qk, room);
            memcpy(row, bits, (size_t)desc->d_qk * sizeof *bits);
        }
        for (int64_t c = 0; c < pairs; c++) {
            columns[c * PANEL + lane] = row[c] ^ flip;
        }
    }
}

static void interleave_rows(uint32_t *out, const uint16_t *even, const uint16_t *odd, int64_t d)
{
    int64_t e = 0;
    for (; e + PANEL <= d; e += PANEL) {
        vb_interleave(out + e, even + e, odd + e);
    }
    for (; e < d; e++) {
        uint16_t low;
        uint16_t high;
        memcpy(&low, even + e, sizeof low);
        memcpy(&high, odd + e, sizeof high);
        out[e] = (uint32_t)high << 16 | low;
    }
}

static void load_tile_pairs(const forward_state_t *state, forward_tile_t *tile)
{
    const int64_t d_qk = state->desc->d_qk;
    const int64_t d_v = state->desc->d_v;
    const int64_t count = tile->keys.end - tile->keys.begin;
    const unsigned char *rows[ATTN_CPU_TILE_KV];
    uint16_t *room = (uint16_t *)(void *)state->row;
    uint32_t *k2 = (uint32_t *)(void *)state->k_tile;
    uint32_t *v2 = (uint32_t *)(void *)state->v_tile;
    tile->k2 = k2;
    tile->k_stride = pair_stride(d_qk);
    kv_rows(&state->k, tile->keys.begin, count, rows);
    for (int64_t n = 0; n < count; n++) {
        uint32_t *row = k2 + n * tile->k_stride;
        row[(d_qk - 1) / 2] = 0;
        memcpy(row, plain_row(&state->desc->k, rows[n], d_qk, room),
               (size_t)d_qk * sizeof(uint16_t));
    }
    tile->v2 = v2;
    tile->v_stride = state->run->layout.v_stride;
    kv_rows(&state->v, tile->keys.begin, count, rows);
    for (int64_t n = 0; n < count; n += 2) {
        const uint16_t *even = plain_row(&state->desc->v, rows[n], d_v, room);
        const uint16_t *odd = room + d_v;
        if (n + 1 < count) {
            odd = plain_row(&state->desc->v, rows[n + 1], d_v, room + d_v);
        } else {
            memset(room + d_v, 0, (size_t)d_v * sizeof *room);
        }
        interleave_rows(v2 + n / 2 * tile->v_stride, even, odd, d_v);
    }
}

static void score_tile_pairs(const forward_state_t *state, const forward_panel_t *panel,
                             const forward_tile_t *tile, const forward_step_t *step)
{
    const gemm_pairs_operands_t product = {.a = tile->k2 +
                                                (step->begin - tile->keys.begin) * tile->k_stride,
                                           .a_row = tile->k_stride,
                                           .a_col = 1,
                                           .b = (const uint32_t *)(const void *)panel->q,
                                           .b_row = PANEL,
                                           .c = state->score,
                                           .c_row = PANEL,
                                           .accumulate = 0};
    gemm_pairs(step->count, (state->desc->d_qk + 1) / 2, &product);
}

static uint64_t nonfinite_tile_pairs(const forward_state_t *state, const forward_tile_t *tile)
{
    const int64_t count = tile->keys.end - tile->keys.begin;
    uint64_t bits = 0;
    for (int64_t n = 0; n < count; n++) {
        const uint32_t *row = tile->v2 + n / 2 * tile->v_stride;
        for (int64_t e = 0; e < state->desc->d_v; e++) {
            const uint32_t exponent = (n & 1 ? row[e] >> 16 : row[e]) & 0x7f80u;
            bits |= (uint64_t)(exponent == 0x7f80u) << n;
        }
    }
    return bits;
}

static void softmax_tile_pairs(const forward_state_t *state, const forward_panel_t *panel,
                               const forward_step_t *step)
{
    const int has_keep = state->has_keep;
    const vb ones = vb_set1_pair(0x3f803f80u);
    const vf log2_unit = vf_set1(state->log2_unit);
    vf max[2];
    find_maximum(state, panel, step, &max[0], &max[1]);
    vf sum[2] = {vf_load(panel->sum), vf_load(panel->sum + VF_LANES)};
    vf divisor[2] = {vf_load(panel->divisor), vf_load(panel->divisor + VF_LANES)};
    uint32_t *weights = (uint32_t *)(void *)state->score;
    for (int64_t n = 0; n < step->count; n += 2) {
        const int has_odd = n + 1 < step->count;
        GEMM_UNROLL
        for (int half = 0; half < 2; half++) {
            const int64_t at = n * PANEL + half * VF_LANES;
            const vf even =
                vf_exp2_coarse(vf_mul(vf_sub(vf_load(state->score + at), max[half]), log2_unit));
            vf odd = vf_set1(0.0f);
            if (has_odd) {
                odd = vf_exp2_coarse(
                    vf_mul(vf_sub(vf_load(state->score + at + PANEL), max[half]), log2_unit));
            }
            vb pairs = vb_round_pairs(even, odd);
            sum[half] = vf_add(sum[half], vf_add(even, odd));
            divisor[half] = vb_dot(divisor[half], pairs, ones);
            if (has_keep) {
                const vf keep_odd = has_odd ? vf_load(state->keep + at + PANEL) : odd;
                pairs = vb_round_pairs(vf_mul(vb_even(pairs), vf_load(state->keep + at)),
                                       vf_mul(vb_odd(pairs), keep_odd));
            }
            vb_store((uint16_t *)(void *)(weights + n / 2 * PANEL + half * VF_LANES), pairs);
        }
    }
    vf_store(panel->sum, sum[0]);
    vf_store(panel->sum + VF_LANES, sum[1]);
    vf_store(panel->divisor, divisor[0]);
    vf_store(panel->divisor + VF_LANES, divisor[1]);
}

static void multiply_v_pairs(const forward_state_t *state, const forward_panel_t *panel,
                             const uint32_t *v, int64_t v_stride, int64_t begin, int64_t end)
{
    const gemm_pairs_operands_t product = {.a = v + begin * v_stride,
                                           .a_row = 1,
                                           .a_col = v_stride,
                                           .b = (const uint32_t *)(const void *)state->score +
                                                begin * PANEL,
                                           .b_row = PANEL,
                                           .c = panel->o,
                                           .c_row = PANEL,
                                           .accumulate = 1};
    gemm_pairs(state->desc->d_v, end - begin, &product);
}

// One pair of keys in fp32, each for the lanes that see it alone.
static void add_special_pair(const forward_state_t *state, const forward_panel_t *panel,
                             const forward_step_t *step, const uint32_t *v_row, int64_t m)
{
    const uint16_t *weights = (const uint16_t *)(const void *)state->score;
    for (int64_t n = 2 * m; n < 2 * m + 2 && n < step->count; n++) {
        for (int half = 0; half < 2; half++) {
            const vm seen = vm_from_bits(step->visible[half][n]);
            const vb pairs = vb_load(weights + 2 * (m * PANEL + half * VF_LANES));
            const vf p = n & 1 ? vb_odd(pairs) : vb_even(pairs);
            for (int64_t e = 0; e < state->desc->d_v; e++) {
                float *at = panel->o + e * PANEL + half * VF_LANES;
                const vf o = vf_load(at);
                const uint16_t bits = (uint16_t)(n & 1 ? v_row[e] >> 16 : v_row[e]);
                const vf v = vf_set1(attn_bf16_to_f32(bits));
                vf_store(at, vf_select(seen, vf_fma(p, v, o), o));
            }
        }
    }
}

static void output_tile_pairs(const forward_state_t *state, const forward_panel_t *panel,
                              const forward_tile_t *tile, const forward_step_t *step)
{
    const uint32_t *v = tile->v2 + (step->begin - tile->keys.begin) / 2 * tile->v_stride;
    int64_t done = 0;
    for (int64_t m = 0; step->special && 2 * m < step->count; m++) {
        if (step->special >> (2 * m) & 3u) {
            multiply_v_pairs(state, panel, v, tile->v_stride, done, m);
            add_special_pair(state, panel, step, v + m * tile->v_stride, m);
            done = m + 1;
        }
    }
    multiply_v_pairs(state, panel, v, tile->v_stride, done, (step->count + 1) / 2);
}

static const forward_products_t forward_products_pairs = {
    .load_q = load_q_pairs,
    .load_tile = load_tile_pairs,
    .score = score_tile_pairs,
    .nonfinite = nonfinite_tile_pairs,
    .softmax = softmax_tile_pairs,
    .output = output_tile_pairs,
};

#endif
