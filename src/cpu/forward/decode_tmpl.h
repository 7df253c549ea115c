// The forward pass for few query rows (decode): memory bound, so K and V are streamed once for all
// heads of the group, in their own dtype, and the vectors run along the head dim. Rows of a task:
// up to ATTN_CPU_DECODE_ROWS_MAX packed rows.
//
//   score[r][n] = dot(q[r], k[n])      VF_LANES keys at a time: one tree sums across lanes
//   softmax per row, keys as lanes
//   o[r] += p[r][n] * v[n]             4 keys at a time: o is loaded and stored once for them
//
// Two vectors make a chunk. A chunk of bf16 is split into even and odd elements, which costs a
// shift and an and instead of two widening shuffles; q and o lie in that order too and are put
// right at the end.
#ifndef ATTN_CPU_DECODE_TMPL_H
#define ATTN_CPU_DECODE_TMPL_H

#include "../isa/gemm_tmpl.h"
#include "forward_state_tmpl.h"
#include "softmax_tmpl.h"

#define DECODE_KEYS 4
// Rows are asked for so many keys before they are used. More would not fit in the second cache when
// the distance between rows is a large power of two, as it is with many heads side by side.
#define DECODE_AHEAD 16

// Rows of K or V in whole chunks: where they are, or as loaded fp32.
typedef struct decode_rows {
    attn_dtype_t dtype;
    int64_t chunks;
    int64_t count;
    const unsigned char *at[ATTN_CPU_TILE_KV];
} decode_rows_t;

typedef struct decode_state {
    forward_state_t base;
    int64_t rows;
    float *q; // (rows, q_stride)
    int64_t q_stride;
    float *o; // (rows, o_stride)
    int64_t o_stride;
    float *maximum; // (rows)
    float *sum;     // (rows)
    attn_range_t seen[ATTN_CPU_DECODE_ROWS_MAX];
    uint64_t hidden[ATTN_CPU_DECODE_ROWS_MAX]; // of the tile: bit n is key n
} decode_state_t;

GEMM_INLINE void load_chunk(attn_dtype_t dtype, const unsigned char *at, int64_t chunk, vf *a,
                            vf *b)
{
    if (dtype == ATTN_F32) {
        const float *p = (const float *)(const void *)at + chunk * PANEL;
        *a = vf_load(p);
        *b = vf_load(p + VF_LANES);
    } else if (dtype == ATTN_F16) {
        const uint16_t *p = (const uint16_t *)(const void *)at + chunk * PANEL;
        *a = vf_load_f16(p);
        *b = vf_load_f16(p + VF_LANES);
    } else {
        vf_load_bf16_split((const uint16_t *)(const void *)at + chunk * PANEL, a, b);
    }
}

// Where element e of a row lies when rows are kept in the order of load_chunk.
static int64_t chunk_place(attn_dtype_t dtype, int64_t e)
{
    if (dtype != ATTN_BF16) {
        return e;
    }
    return e / PANEL * PANEL + e % PANEL / 2 + (e % 2) * VF_LANES;
}

// Whether the rows can be read where they are, without descale factors or incomplete chunks.
static int decode_is_direct(const kv_source_t *source)
{
    const attn_dtype_t dtype = source->tensor->dtype;
    return source->tensor->stride_d == 1 && source->d % PANEL == 0 && !source->descale->present &&
           (dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16);
}

static attn_dtype_t decode_dtype(const kv_source_t *source)
{
    return decode_is_direct(source) ? source->tensor->dtype : ATTN_F32;
}

static void find_rows(decode_rows_t *rows, const kv_source_t *source, float *tile, int64_t stride,
                      int64_t j_begin, int64_t count)
{
    const int direct = decode_is_direct(source);
    rows->dtype = decode_dtype(source);
    rows->count = count;
    rows->chunks = (source->d + PANEL - 1) / PANEL;
    if (direct) {
        kv_rows(source, j_begin, count, rows->at);
    } else {
        load_kv(tile, stride, source, j_begin, j_begin + count);
    }
    for (int64_t n = 0; n < count; n++) {
        float *copy = tile + n * stride;
        if (!direct) {
            rows->at[n] = (const unsigned char *)copy;
        } else if (!rows->at[n]) {
            load_kv(copy, stride, source, j_begin + n, j_begin + n + 1);
            rows->at[n] = (const unsigned char *)copy;
        }
    }
}

// Asks for rows that are DECODE_AHEAD behind [n, n + count), as far as the tile has them.
static void prefetch_ahead(const decode_rows_t *rows, int64_t n, int64_t count)
{
    const int64_t bytes = rows->chunks * PANEL * attn_element_bytes(rows->dtype);
    for (int64_t m = n + DECODE_AHEAD; m < n + DECODE_AHEAD + count && m < rows->count; m++) {
        for (int64_t byte = 0; byte < bytes; byte += 64) {
            __builtin_prefetch(rows->at[m] + byte, 0, 2);
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Scores

// rows is a constant: score[r][n .. n + VF_LANES) for rows rows from r, of which the first count
// keys exist.
GEMM_INLINE void dot_keys(const int rows, const decode_state_t *state, const decode_rows_t *keys,
                          attn_dtype_t dtype, int64_t r, int64_t n, int64_t count)
{
    vf sums[4][VF_LANES];
    const float *q = state->q + r * state->q_stride;
    for (int64_t l = 0; l < VF_LANES; l++) {
        const unsigned char *at = keys->at[n + (l < count ? l : 0)];
        vf s[4];
        GEMM_UNROLL
        for (int i = 0; i < rows; i++) {
            s[i] = vf_set1(0.0f);
        }
        for (int64_t c = 0; c < keys->chunks; c++) {
            vf a;
            vf b;
            load_chunk(dtype, at, c, &a, &b);
            GEMM_UNROLL
            for (int i = 0; i < rows; i++) {
                const float *q_chunk = q + i * state->q_stride + c * PANEL;
                s[i] = vf_fma(a, vf_load(q_chunk), s[i]);
                s[i] = vf_fma(b, vf_load(q_chunk + VF_LANES), s[i]);
            }
        }
        GEMM_UNROLL
        for (int i = 0; i < rows; i++) {
            sums[i][l] = s[i];
        }
    }
    for (int i = 0; i < rows; i++) {
        vf_store(state->base.score + (r + i) * ATTN_CPU_TILE_KV + n, vf_sum_each(sums[i]));
    }
}

GEMM_INLINE void dot_rows(const decode_state_t *state, const decode_rows_t *keys,
                          attn_dtype_t dtype, int64_t n, int64_t count)
{
    int64_t r = 0;
    for (; r + 4 <= state->rows; r += 4) {
        dot_keys(4, state, keys, dtype, r, n, count);
    }
    if (r + 2 <= state->rows) {
        dot_keys(2, state, keys, dtype, r, n, count);
        r += 2;
    }
    if (r < state->rows) {
        dot_keys(1, state, keys, dtype, r, n, count);
    }
}

static void dot_tile(const decode_state_t *state, const decode_rows_t *keys)
{
    for (int64_t n = 0; n < keys->count; n += VF_LANES) {
        const int64_t left = keys->count - n;
        prefetch_ahead(keys, n, VF_LANES);
        if (keys->dtype == ATTN_F32) {
            dot_rows(state, keys, ATTN_F32, n, left);
        } else if (keys->dtype == ATTN_F16) {
            dot_rows(state, keys, ATTN_F16, n, left);
        } else {
            dot_rows(state, keys, ATTN_BF16, n, left);
        }
    }
}

// Softcap, added terms and masks; sets hidden, and -inf behind the last key.
static void finish_scores(decode_state_t *state, int64_t j_begin, int64_t count)
{
    const forward_state_t *base = &state->base;
    const int64_t group = base->run->layout.group;
    for (int64_t r = 0; r < state->rows; r++) {
        float *score = base->score + r * ATTN_CPU_TILE_KV;
        float *add = base->add + r * ATTN_CPU_TILE_KV;
        const attn_range_t seen =
            attn_range_make(state->seen[r].begin - j_begin, state->seen[r].end - j_begin, 0, count);
        const int64_t whole = (count + VF_LANES - 1) / VF_LANES * VF_LANES;
        if (base->desc->softcap > 0.0f) {
            cap_scores(base, score, whole);
        }
        if ((base->has_add || base->has_keep) && seen.begin < seen.end) {
            const attn_cpu_score_t terms = attn_cpu_score_make(
                base->desc, base->run->args, &base->seq, base->b, lane_head(base, r));
            const attn_cpu_score_out_t out = {
                .add = base->has_add ? add : NULL,
                .keep = base->has_keep ? base->keep + r * ATTN_CPU_TILE_KV : NULL,
                .row_stride = ATTN_CPU_TILE_KV,
                .key_stride = 1};
            attn_cpu_score_tile(&terms, r / group, 1, j_begin, count, &out);
        }
        if (base->has_add && seen.begin < seen.end) {
            add_terms(base, score, add, whole);
        }
        state->hidden[r] = 0;
        for (int64_t n = 0; n < ATTN_CPU_TILE_KV; n += VF_LANES) {
            int32_t key[VF_LANES];
            for (int32_t l = 0; l < VF_LANES; l++) {
                key[l] = (int32_t)n + l;
            }
            const vi keys = vi_load(key);
            const vm inside = vm_and(vm_not(vi_lt(keys, vi_set1((int32_t)seen.begin))),
                                     vi_lt(keys, vi_set1((int32_t)seen.end)));
            const vf s = vf_select(inside, vf_load(score + n), vf_set1(-INFINITY));
            vf_store(score + n, s);
            state->hidden[r] |= (uint64_t)vm_bits(vf_eq(s, vf_set1(-INFINITY))) << n;
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Softmax and output

static void softmax_rows(decode_state_t *state)
{
    const forward_state_t *base = &state->base;
    for (int64_t r = 0; r < state->rows; r++) {
        float *score = base->score + r * ATTN_CPU_TILE_KV;
        vf top = vf_set1(-INFINITY);
        for (int64_t n = 0; n < ATTN_CPU_TILE_KV; n += VF_LANES) {
            top = vf_max(vf_load(score + n), top);
        }
        const float tile_top = vf_max_lane(top);
        float used = state->maximum[r];
        if (tile_top > used + base->rescale) {
            float *o = state->o + r * state->o_stride;
            const float factor = used == -INFINITY ? 0.0f : expf((used - tile_top) * base->unit);
            for (int64_t e = 0; used != -INFINITY && e < state->o_stride; e += VF_LANES) {
                vf_store(o + e, vf_mul(vf_load(o + e), vf_set1(factor)));
            }
            state->sum[r] *= used == -INFINITY ? 1.0f : factor;
            used = tile_top;
        }
        state->maximum[r] = used;
        const vf subtract = vf_set1(used == -INFINITY ? 0.0f : used);
        vf sum = vf_set1(0.0f);
        for (int64_t n = 0; n < ATTN_CPU_TILE_KV; n += VF_LANES) {
            const vf p =
                vf_exp2(vf_mul(vf_sub(vf_load(score + n), subtract), vf_set1(base->log2_unit)));
            sum = vf_add(sum, p);
            const float *keep = base->keep + r * ATTN_CPU_TILE_KV + n;
            vf_store(score + n, base->has_keep ? vf_mul(p, vf_load(keep)) : p);
        }
        state->sum[r] += vf_sum(sum);
    }
}

// keys and rows are constants: o[r ..] += the weights of keys from n times their V rows.
GEMM_INLINE void add_keys(const int keys, const int rows, const decode_state_t *state,
                          const decode_rows_t *v, attn_dtype_t dtype, int64_t r, int64_t n)
{
    vf p[DECODE_KEYS][4];
    GEMM_UNROLL
    for (int k = 0; k < keys; k++) {
        GEMM_UNROLL
        for (int i = 0; i < rows; i++) {
            p[k][i] = vf_set1(state->base.score[(r + i) * ATTN_CPU_TILE_KV + n + k]);
        }
    }
    for (int64_t c = 0; c < v->chunks; c++) {
        vf a[DECODE_KEYS];
        vf b[DECODE_KEYS];
        GEMM_UNROLL
        for (int k = 0; k < keys; k++) {
            load_chunk(dtype, v->at[n + k], c, &a[k], &b[k]);
        }
        GEMM_UNROLL
        for (int i = 0; i < rows; i++) {
            float *o = state->o + (r + i) * state->o_stride + c * PANEL;
            vf o0 = vf_load(o);
            vf o1 = vf_load(o + VF_LANES);
            GEMM_UNROLL
            for (int k = 0; k < keys; k++) {
                o0 = vf_fma(p[k][i], a[k], o0);
                o1 = vf_fma(p[k][i], b[k], o1);
            }
            vf_store(o, o0);
            vf_store(o + VF_LANES, o1);
        }
    }
}

GEMM_INLINE void add_rows(const int keys, const decode_state_t *state, const decode_rows_t *v,
                          attn_dtype_t dtype, int64_t n)
{
    int64_t r = 0;
    for (; r + 4 <= state->rows; r += 4) {
        add_keys(keys, 4, state, v, dtype, r, n);
    }
    if (r + 2 <= state->rows) {
        add_keys(keys, 2, state, v, dtype, r, n);
        r += 2;
    }
    if (r < state->rows) {
        add_keys(keys, 1, state, v, dtype, r, n);
    }
}

GEMM_INLINE void add_tile(const decode_state_t *state, const decode_rows_t *v, attn_dtype_t dtype,
                          int64_t count)
{
    int64_t n = 0;
    for (; n + DECODE_KEYS <= count; n += DECODE_KEYS) {
        prefetch_ahead(v, n, DECODE_KEYS);
        add_rows(DECODE_KEYS, state, v, dtype, n);
    }
    for (; n < count; n++) {
        add_rows(1, state, v, dtype, n);
    }
}

// The same where some key is hidden from some row: its V must not be multiplied, since it may be
// NaN.
GEMM_INLINE void add_tile_seen(const decode_state_t *state, const decode_rows_t *v,
                               attn_dtype_t dtype, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        for (int64_t r = 0; r < state->rows; r++) {
            if (!(state->hidden[r] >> n & 1u)) {
                add_keys(1, 1, state, v, dtype, r, n);
            }
        }
    }
}

GEMM_INLINE void output_keys(const decode_state_t *state, const decode_rows_t *v,
                             attn_dtype_t dtype, int64_t count)
{
    const uint64_t tile = ~0ull >> (ATTN_CPU_TILE_KV - count);
    uint64_t hidden = 0;
    for (int64_t r = 0; r < state->rows; r++) {
        hidden |= state->hidden[r] & tile;
    }
    if (hidden) {
        add_tile_seen(state, v, dtype, count);
    } else {
        add_tile(state, v, dtype, count);
    }
}

// next is the K that the next call reads, from key next_key.
static void decode_tile(decode_state_t *state, int64_t j_begin, int64_t count,
                        const kv_source_t *next, int64_t next_key)
{
    const attn_cpu_forward_layout_t *layout = &state->base.run->layout;
    decode_rows_t rows;
    find_rows(&rows, &state->base.k, state->base.k_tile, layout->k_stride, j_begin, count);
    dot_tile(state, &rows);
    prefetch_kv(&state->base.v, j_begin, count < DECODE_AHEAD ? count : DECODE_AHEAD);
    finish_scores(state, j_begin, count);
    softmax_rows(state);
    find_rows(&rows, &state->base.v, state->base.v_tile, layout->v_stride, j_begin, count);
    if (rows.dtype == ATTN_F32) {
        output_keys(state, &rows, ATTN_F32, count);
    } else if (rows.dtype == ATTN_F16) {
        output_keys(state, &rows, ATTN_F16, count);
    } else {
        output_keys(state, &rows, ATTN_BF16, count);
    }
    const int64_t left = state->base.seq.mask.len_kv - next_key;
    prefetch_kv(next, next_key, left < DECODE_AHEAD ? left : DECODE_AHEAD);
}

// -------------------------------------------------------------------------------------------------
// Tasks

static void decode_start(decode_state_t *state)
{
    forward_state_t *base = &state->base;
    const int64_t group = base->run->layout.group;
    const attn_dtype_t dtype = decode_dtype(&base->k);
    state->rows = base->seq.rows_q * group;
    state->q_stride = (base->desc->d_qk + PANEL - 1) / PANEL * PANEL;
    state->o_stride = (base->desc->d_v + PANEL - 1) / PANEL * PANEL;
    state->q = base->memory;
    state->o = state->q + state->rows * state->q_stride;
    state->maximum = state->o + state->rows * state->o_stride;
    state->sum = state->maximum + ATTN_CPU_DECODE_ROWS_MAX;
    memset(state->q, 0,
           (size_t)(state->rows * (state->q_stride + state->o_stride)) * sizeof *state->q);
    for (int64_t r = 0; r < state->rows; r++) {
        state->maximum[r] = -INFINITY;
        state->sum[r] = 0.0f;
        state->seen[r] = (attn_range_t){0, 0};
        if (r / group >= base->seq.mask.len_q) {
            continue;
        }
        const attn_range_t seen = attn_row_kv_range(&base->seq.mask, r / group);
        state->seen[r] = attn_range_make(seen.begin, seen.end, base->keys.begin, base->keys.end);
        load_q_row(base, r);
        for (int64_t e = 0; e < base->desc->d_qk; e++) {
            state->q[r * state->q_stride + chunk_place(dtype, e)] = base->row[e];
        }
    }
}

// Keys that any row of the task sees: the heads of a task differ in nothing that intervals know.
static attn_range_t decode_keys(const decode_state_t *state)
{
    attn_range_t any = {INT64_MAX, 0};
    for (int64_t r = 0; r < state->rows; r++) {
        if (state->seen[r].begin < state->seen[r].end) {
            any.begin = state->seen[r].begin < any.begin ? state->seen[r].begin : any.begin;
            any.end = state->seen[r].end > any.end ? state->seen[r].end : any.end;
        }
    }
    return any.end ? any : (attn_range_t){0, 0};
}

static void decode_finish(const decode_state_t *state)
{
    const attn_dtype_t dtype = decode_dtype(&state->base.v);
    float *o = state->base.v_tile;
    for (int64_t r = 0; r < state->rows; r++) {
        const float sum = state->sum[r];
        const float divisor = state->base.run->part_o || sum == 0.0f ? 1.0f : sum;
        for (int64_t e = 0; e < state->base.desc->d_v; e++) {
            o[e] = state->o[r * state->o_stride + chunk_place(dtype, e)] / divisor;
        }
        const float stats[ATTN_CPU_PART_STATS] = {state->maximum[r] * state->base.unit, sum, sum};
        finish_output(&state->base, r, o, 1, stats);
    }
}

static void decode_task(const attn_cpu_forward_t *run, int64_t task, int32_t worker)
{
    const attn_cpu_forward_layout_t *layout = &run->layout;
    forward_place_t place = find_place(run, task);
    decode_state_t states[ATTN_CPU_HEADS_MAX];
    int64_t heads = run->desc->heads_kv - place.h_kv;
    heads = heads < layout->heads ? heads : layout->heads;
    attn_range_t keys = {0, 0};
    for (int64_t h = 0; h < heads; h++, place.h_kv++) {
        task_start(&states[h].base, run, &place, worker);
        choose_units(&states[h].base);
        states[h].base.memory += h * layout->panel_stride;
        decode_start(&states[h]);
        keys = decode_keys(&states[h]);
    }
    for (int64_t j = keys.begin; j < keys.end;) {
        const int64_t tile_end = (j / ATTN_CPU_TILE_KV + 1) * ATTN_CPU_TILE_KV;
        const int64_t end = tile_end < keys.end ? tile_end : keys.end;
        for (int64_t h = 0; h < heads; h++) {
            const int wraps = h + 1 == heads;
            const int64_t next_key = wraps ? (end < keys.end ? end : j) : j;
            decode_tile(&states[h], j, end - j, &states[wraps ? 0 : h + 1].base.k, next_key);
        }
        j = end;
    }
    for (int64_t h = 0; h < heads; h++) {
        decode_finish(&states[h]);
    }
}

#endif
