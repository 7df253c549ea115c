// See random_problem.h.
#include "random_problem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------
// Sizes

// Mostly small; sometimes around the edges of tiles.
static int64_t draw_rows(test_rng_t *rng)
{
    static const int64_t edges[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200};
    const int64_t kind = test_rng_range(rng, 0, 19);
    if (kind == 0) {
        return 0;
    }
    return kind < 14 ? test_rng_range(rng, 1, 24) : edges[test_rng_range(rng, 0, 14)];
}

static int64_t draw_dim(test_rng_t *rng)
{
    static const int64_t edges[] = {1, 2, 3, 8, 15, 16, 17, 32, 33, 64, 80, 96, 127, 128, 129, 192};
    return test_rng_chance(rng, 60) ? test_rng_range(rng, 1, 20)
                                    : edges[test_rng_range(rng, 0, 15)];
}

static void draw_shape(test_rng_t *rng, attn_desc_t *desc)
{
    const int64_t heads_kv = test_rng_range(rng, 1, 3);
    const int64_t group = test_rng_chance(rng, 50) ? 1 : test_rng_range(rng, 2, 5);
    const int64_t batch = test_rng_chance(rng, 3) ? 0 : test_rng_range(rng, 1, 3);
    int64_t s_q = test_rng_chance(rng, 25) ? 1 : draw_rows(rng);
    int64_t s_kv = test_rng_chance(rng, 10) ? 3 * draw_rows(rng) : draw_rows(rng);
    const int64_t d_qk = draw_dim(rng);
    const int64_t d_v = test_rng_chance(rng, 50) ? d_qk : draw_dim(rng);
    // Bounds the time of a draw.
    while (batch * heads_kv * group * s_q * s_kv * (d_qk + d_v) > 1500000) {
        s_q = s_q > 1 ? s_q / 2 : s_q;
        s_kv = s_kv > 1 ? s_kv / 2 : s_kv;
    }
    attn_desc_set_shape(desc, batch, s_q, s_kv, heads_kv * group, heads_kv, d_qk);
    desc->d_v = d_v;
}

// ---------------------------------------------------------------------------------------------
// Strides

// Dense strides of the dims in a random order with random gaps and signs. strides[n] belongs to
// dims[n]; `broadcast`: a dimension may have stride 0.
static void draw_strides(test_rng_t *rng, const int64_t dims[4], bool broadcast,
                         int64_t *strides[4])
{
    int order[4] = {3, 2, 1, 0};
    for (int n = 3; n > 0 && test_rng_chance(rng, 60); n--) {
        const int other = (int)test_rng_range(rng, 0, n);
        const int swap = order[n];
        order[n] = order[other];
        order[other] = swap;
    }
    int64_t extent = test_rng_chance(rng, 15) ? test_rng_range(rng, 2, 3) : 1;
    for (int n = 0; n < 4; n++) {
        const int64_t size = dims[order[n]] > 1 ? dims[order[n]] : 1;
        *strides[order[n]] = test_rng_chance(rng, 15) ? -extent : extent;
        extent *= size;
        extent += test_rng_chance(rng, 25) ? test_rng_range(rng, 1, 3) : 0;
        if (broadcast && test_rng_chance(rng, 8)) {
            *strides[order[n]] = 0;
        }
    }
}

static void draw_tensor(test_rng_t *rng, attn_tensor_t *tensor, int64_t batch, int64_t rows,
                        int64_t heads, int64_t d, bool is_input)
{
    if (test_rng_chance(rng, 50)) {
        return;
    }
    const int64_t dims[4] = {batch, rows, heads, d};
    int64_t *strides[4] = {&tensor->stride_b, &tensor->stride_s, &tensor->stride_h,
                           &tensor->stride_d};
    draw_strides(rng, dims, is_input, strides);
}

static void draw_all_strides(test_rng_t *rng, attn_desc_t *desc)
{
    const int64_t batch_q = desc->varlen_q ? 1 : desc->batch;
    const int64_t rows_q = desc->varlen_q ? desc->total_q : desc->s_q;
    const int64_t batch_kv = desc->varlen_kv          ? 1
                             : desc->paged_kv         ? desc->num_pages
                             : desc->has_kv_batch_idx ? desc->kv_batch
                                                      : desc->batch;
    const int64_t rows_kv = desc->varlen_kv  ? desc->total_kv
                            : desc->paged_kv ? desc->page_size
                                             : desc->s_kv;
    draw_tensor(rng, &desc->q, batch_q, rows_q, desc->heads_q, desc->d_qk, true);
    draw_tensor(rng, &desc->k, batch_kv, rows_kv, desc->heads_kv, desc->d_qk, true);
    draw_tensor(rng, &desc->v, batch_kv, rows_kv, desc->heads_kv, desc->d_v, true);
    draw_tensor(rng, &desc->do_, batch_q, rows_q, desc->heads_q, desc->d_v, true);
    draw_tensor(rng, &desc->o, batch_q, rows_q, desc->heads_q, desc->d_v, false);
    draw_tensor(rng, &desc->dq, batch_q, rows_q, desc->heads_q, desc->d_qk, false);
    draw_tensor(rng, &desc->dk, batch_kv, rows_kv, desc->heads_kv, desc->d_qk, false);
    draw_tensor(rng, &desc->dv, batch_kv, rows_kv, desc->heads_kv, desc->d_v, false);
    if (test_rng_chance(rng, 30)) {
        int64_t unused;
        const int64_t dims[4] = {batch_q, desc->heads_q, rows_q, 1};
        int64_t *strides[4] = {&desc->lse_stride_b, &desc->lse_stride_h, &desc->lse_stride_s,
                               &unused};
        draw_strides(rng, dims, false, strides);
    }
}

static void draw_mask_strides(test_rng_t *rng, const attn_desc_t *desc, attn_mask_tensor_t *mask)
{
    if (test_rng_chance(rng, 30)) {
        return;
    }
    int64_t dims[4] = {desc->batch, desc->heads_q, desc->s_q, desc->s_kv};
    int64_t *strides[4] = {&mask->stride_b, &mask->stride_h, &mask->stride_q, &mask->stride_k};
    bool shared[4];
    for (int n = 0; n < 4; n++) {
        shared[n] = test_rng_chance(rng, n < 2 ? 40 : 15);
        dims[n] = shared[n] ? 1 : dims[n];
    }
    draw_strides(rng, dims, false, strides);
    for (int n = 0; n < 4; n++) {
        *strides[n] = shared[n] ? 0 : *strides[n];
    }
}

// ---------------------------------------------------------------------------------------------
// Options

static void draw_dtypes(test_rng_t *rng, attn_desc_t *desc, bool backward)
{
    const int64_t kind = test_rng_range(rng, 0, 99);
    const attn_dtype_t fp8 = test_rng_chance(rng, 50) ? ATTN_F8_E4M3 : ATTN_F8_E5M2;
    const attn_dtype_t dtype = kind < 40 ? ATTN_F32 : kind < 70 ? ATTN_BF16 : ATTN_F16;
    attn_desc_init(desc, dtype);
    if (test_rng_chance(rng, 20)) {
        desc->o.dtype = desc->do_.dtype = ATTN_F32;
    }
    attn_tensor_t *gradients[] = {&desc->dq, &desc->dk, &desc->dv, &desc->do_};
    for (int n = 0; n < 4; n++) {
        gradients[n]->dtype = test_rng_chance(rng, 15) ? ATTN_F32 : gradients[n]->dtype;
    }
    if (backward || kind < 84) {
        return;
    }
    if (kind < 94) { // all 8 bit
        desc->q.dtype = fp8;
        desc->o.dtype = test_rng_chance(rng, 50) ? ATTN_BF16 : ATTN_F32;
    }
    desc->k.dtype = fp8;
    desc->v.dtype = test_rng_chance(rng, 70) ? fp8 : ATTN_F8_E4M3;
}

static void draw_lengths(test_rng_t *rng, attn_desc_t *desc, bool backward)
{
    if (test_rng_chance(rng, 25)) {
        desc->varlen_q = 1;
        desc->total_q = test_rng_range(rng, desc->s_q, desc->batch * desc->s_q + desc->s_q);
    }
    if (test_rng_chance(rng, 25)) {
        desc->varlen_kv = 1;
        desc->total_kv = test_rng_range(rng, desc->s_kv, desc->batch * desc->s_kv + desc->s_kv);
    }
    desc->has_seqused_q = test_rng_chance(rng, 15);
    desc->has_seqused_kv = test_rng_chance(rng, 25);
    desc->has_leftpad_kv = test_rng_chance(rng, 15);
    if (backward || desc->varlen_kv) {
        return;
    }
    if (test_rng_chance(rng, 25)) {
        desc->paged_kv = 1;
        desc->page_size = test_rng_range(rng, 1, 20);
        const int64_t pages = (desc->s_kv + desc->page_size - 1) / desc->page_size;
        desc->pages_per_seq = pages + test_rng_range(rng, 0, 2);
        desc->num_pages = 1 + (test_rng_chance(rng, 80) ? pages * desc->batch : pages);
        if (test_rng_chance(rng, 30)) {
            desc->page_table_stride_b = desc->pages_per_seq + test_rng_range(rng, 0, 3);
        }
    } else if (test_rng_chance(rng, 15)) {
        desc->has_kv_batch_idx = 1;
        desc->kv_batch = test_rng_range(rng, 1, 4);
    }
}

static int64_t draw_window(test_rng_t *rng, int64_t most)
{
    const int64_t kind = test_rng_range(rng, 0, 9);
    return kind < 4 ? -1 : kind < 6 ? 0 : test_rng_range(rng, 0, most + 2);
}

static void draw_blocks(test_rng_t *rng, attn_desc_t *desc)
{
    desc->block_sparse = 1;
    desc->block_q = test_rng_range(rng, 1, 20);
    desc->block_kv = test_rng_range(rng, 1, 20);
    const int64_t blocks = (desc->s_kv + desc->block_kv - 1) / desc->block_kv;
    desc->blocks_per_row = test_rng_chance(rng, 70) ? blocks : test_rng_range(rng, 0, blocks);
    if (test_rng_chance(rng, 30)) {
        desc->block_stride_h = 0;
        desc->block_stride_b = test_rng_chance(rng, 50) ? 0 : desc->s_q + 1;
    }
}

static void draw_masks(test_rng_t *rng, attn_desc_t *desc, bool backward)
{
    desc->causal = test_rng_chance(rng, 35);
    desc->align = test_rng_chance(rng, 50) ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
    if (test_rng_chance(rng, 30)) {
        desc->window_left = draw_window(rng, desc->s_kv);
        desc->window_right = draw_window(rng, desc->s_q);
    }
    if (test_rng_chance(rng, 20)) {
        desc->mask.present = 1;
        draw_mask_strides(rng, desc, &desc->mask);
    }
    if (test_rng_chance(rng, 25)) {
        static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
        desc->bias.present = 1;
        desc->bias.dtype = dtypes[test_rng_range(rng, 0, 2)];
        draw_mask_strides(rng, desc, &desc->bias);
        if (backward && test_rng_chance(rng, 70)) {
            desc->dbias.present = 1;
            desc->dbias.dtype = test_rng_chance(rng, 50) ? ATTN_F32 : desc->bias.dtype;
            draw_mask_strides(rng, desc, &desc->dbias);
        }
    }
    if (test_rng_chance(rng, 15)) {
        draw_blocks(rng, desc);
    }
}

// Without a stride drawn here a factor serves the whole tensor.
static void draw_descale(test_rng_t *rng, attn_descale_t *descale, attn_dtype_t dtype)
{
    if (attn_dtype_bytes(dtype) != 1 || test_rng_chance(rng, 30)) {
        return;
    }
    descale->present = 1;
    descale->rows = (int32_t)(test_rng_chance(rng, 50) ? test_rng_range(rng, 1, 5)
                                                       : test_rng_range(rng, 1, 70));
    if (test_rng_chance(rng, 70)) {
        descale->stride_s = ATTN_STRIDE_AUTO;
        descale->stride_h = test_rng_chance(rng, 80) ? ATTN_STRIDE_AUTO : 0;
        descale->stride_b = test_rng_chance(rng, 80) ? ATTN_STRIDE_AUTO : 0;
    }
}

static void draw_scores(test_rng_t *rng, attn_desc_t *desc, bool backward)
{
    if (test_rng_chance(rng, 25)) {
        desc->scale = (float)(0.5 * test_rng_normal(rng));
    }
    if (test_rng_chance(rng, 20)) {
        desc->softcap = (float)(0.5 + 30.0 * test_rng_unit(rng));
    }
    desc->has_alibi = test_rng_chance(rng, 15);
    desc->alibi_stride_b = test_rng_chance(rng, 50) ? 0 : desc->heads_q + 1;
    desc->has_sink = test_rng_chance(rng, 20);
    if (test_rng_chance(rng, 15)) {
        desc->dropout_p = (float)(0.9 * test_rng_unit(rng));
    }
    draw_descale(rng, &desc->q_descale, desc->q.dtype);
    draw_descale(rng, &desc->k_descale, desc->k.dtype);
    draw_descale(rng, &desc->v_descale, desc->v.dtype);
    desc->wants_lse = backward || test_rng_chance(rng, 70);
    desc->has_dlse = backward && test_rng_chance(rng, 30);
    desc->wants_dsink = backward && desc->has_sink && test_rng_chance(rng, 80);
    desc->num_splits = test_rng_chance(rng, 30) ? (int32_t)test_rng_range(rng, 1, 7) : 0;
    desc->batch_invariant = test_rng_chance(rng, 15);
    desc->deterministic = test_rng_chance(rng, 20);
}

random_problem_t random_problem_draw(uint64_t seed, uint64_t index)
{
    test_rng_t rng = test_rng_at(seed, index);
    random_problem_t r;
    memset(&r, 0, sizeof(r));
    r.options.seed = test_rng_next(&rng);
    const bool backward = test_rng_chance(&rng, 55);
    r.options.backward = backward;
    const int64_t fill = test_rng_range(&rng, 0, 19);
    r.options.fill = fill < 12   ? FILL_NORMAL
                     : fill < 14 ? FILL_NEGATIVE_LSE
                     : fill < 17 ? FILL_CORRELATED
                     : fill < 18 ? FILL_ONES
                                 : FILL_ZERO_Q;
    r.options.no_nan_unseen = test_rng_chance(&rng, 30);
    r.options.visible_nans = test_rng_chance(&rng, 10) ? (int)test_rng_range(&rng, 1, 3) : 0;
    r.options.no_dq = test_rng_chance(&rng, 10);
    r.options.no_dk = test_rng_chance(&rng, 10);
    r.options.no_dv = test_rng_chance(&rng, 10);
    r.options.misalign = test_rng_chance(&rng, 50) ? test_rng_range(&rng, 1, 15) : 0;
    r.workers = (int32_t)test_rng_range(&rng, 1, 3);
    draw_dtypes(&rng, &r.desc, backward);
    draw_shape(&rng, &r.desc);
    draw_lengths(&rng, &r.desc, backward);
    draw_masks(&rng, &r.desc, backward);
    draw_scores(&rng, &r.desc, backward);
    draw_all_strides(&rng, &r.desc);
    return r;
}

// ---------------------------------------------------------------------------------------------
// Simplifying

static void dense(attn_tensor_t *tensor)
{
    tensor->stride_b = tensor->stride_s = tensor->stride_h = tensor->stride_d = ATTN_STRIDE_AUTO;
}

static void dense_mask(attn_mask_tensor_t *mask)
{
    mask->stride_b = mask->stride_h = mask->stride_q = mask->stride_k = ATTN_STRIDE_AUTO;
}

static void dense_all(attn_desc_t *desc)
{
    attn_tensor_t *tensors[] = {&desc->q,  &desc->k,  &desc->v,  &desc->o,
                                &desc->dq, &desc->dk, &desc->dv, &desc->do_};
    for (size_t n = 0; n < sizeof(tensors) / sizeof(tensors[0]); n++) {
        dense(tensors[n]);
    }
    desc->lse_stride_b = desc->lse_stride_h = desc->lse_stride_s = ATTN_STRIDE_AUTO;
}

static void no_fp8(attn_desc_t *desc)
{
    desc->k.dtype = desc->v.dtype = desc->q.dtype = ATTN_F32;
    desc->q_descale.present = desc->k_descale.present = desc->v_descale.present = 0;
}

static void all_f32(attn_desc_t *desc)
{
    no_fp8(desc);
    desc->o.dtype = desc->do_.dtype = ATTN_F32;
    desc->dq.dtype = desc->dk.dtype = desc->dv.dtype = ATTN_F32;
}

bool random_problem_simplify(random_problem_t *r, int step)
{
    attn_desc_t *desc = &r->desc;
    switch (step) {
    case 0: desc->mask.present = 0; return true;
    case 1: desc->bias.present = desc->dbias.present = 0; return true;
    case 2: desc->dbias.present = 0; return true;
    case 3: desc->block_sparse = 0; return true;
    case 4: desc->dropout_p = 0.0f; return true;
    case 5: desc->has_sink = desc->wants_dsink = 0; return true;
    case 6: desc->has_alibi = 0; return true;
    case 7: desc->softcap = 0.0f; return true;
    case 8: desc->scale = NAN; return true;
    case 9: desc->has_leftpad_kv = 0; return true;
    case 10: desc->has_seqused_q = 0; return true;
    case 11: desc->has_seqused_kv = 0; return true;
    case 12: desc->varlen_q = 0; return true;
    case 13: desc->varlen_kv = 0; return true;
    case 14: desc->paged_kv = 0; return true;
    case 15: desc->has_kv_batch_idx = 0; return true;
    case 16: desc->window_left = -1; return true;
    case 17: desc->window_right = -1; return true;
    case 18: desc->causal = 0; return true;
    case 19: desc->align = ATTN_ALIGN_BOTTOM_RIGHT; return true;
    case 20: desc->num_splits = 1; return true;
    case 21: desc->batch_invariant = desc->deterministic = 0; return true;
    case 22: desc->has_dlse = 0; return true;
    case 23: r->options.backward = false; return true;
    case 24: r->options.visible_nans = 0; return true;
    case 25: r->options.no_nan_unseen = true; return true;
    case 26: r->options.fill = FILL_NORMAL; return true;
    case 27: r->options.no_dq = r->options.no_dk = r->options.no_dv = false; return true;
    case 28: r->options.misalign = 0; return true;
    case 29: r->workers = 1; return true;
    case 30: dense_all(desc); return true;
    case 31: dense_mask(&desc->mask); return true;
    case 32: dense_mask(&desc->bias); return true;
    case 33: dense_mask(&desc->dbias); return true;
    case 34: all_f32(desc); return true;
    case 35: desc->batch = desc->batch > 1 ? 1 : desc->batch; return true;
    case 36: desc->heads_q = desc->heads_kv; return true;
    case 37: desc->heads_q = desc->heads_kv = 1; return true;
    case 38: desc->d_v = desc->d_qk; return true;
    case 39: desc->d_qk = desc->d_qk > 1 ? desc->d_qk / 2 : 1; return true;
    case 40: desc->d_v = desc->d_v > 1 ? desc->d_v / 2 : 1; return true;
    case 41: desc->s_q = desc->s_q > 1 ? desc->s_q / 2 : desc->s_q; return true;
    case 42: desc->s_kv = desc->s_kv > 1 ? desc->s_kv / 2 : desc->s_kv; return true;
    case 43: desc->s_q -= desc->s_q > 1; return true;
    case 44: desc->s_kv -= desc->s_kv > 1; return true;
    default: return false;
    }
}

// ---------------------------------------------------------------------------------------------

typedef struct line {
    char *text;
    size_t bytes;
    size_t used;
} line_t;

__attribute__((format(printf, 2, 3))) static void add(line_t *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t left = line->bytes - line->used;
    const int written = vsnprintf(line->text + line->used, left, format, arguments);
    va_end(arguments);
    if (written > 0) {
        line->used += (size_t)written < left ? (size_t)written : left - 1;
    }
}

static void add_flag(line_t *line, const char *name, int64_t value)
{
    if (value != 0) {
        add(line, value == 1 ? " %s" : " %s=%lld", name, (long long)value);
    }
}

static const char *dtype_name(attn_dtype_t dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "e4m3", "e5m2", "f64"};
    return names[dtype];
}

static void add_tensor(line_t *line, const char *name, const attn_tensor_t *tensor)
{
    add(line, " %s:%s", name, dtype_name(tensor->dtype));
    if (tensor->stride_d != ATTN_STRIDE_AUTO) {
        add(line, "[%lld,%lld,%lld,%lld]", (long long)tensor->stride_b, (long long)tensor->stride_s,
            (long long)tensor->stride_h, (long long)tensor->stride_d);
    }
}

static void add_mask(line_t *line, const char *name, const attn_mask_tensor_t *mask)
{
    if (mask->present && mask->stride_k == ATTN_STRIDE_AUTO) {
        add(line, " %s", name);
    } else if (mask->present) {
        add(line, " %s[%lld,%lld,%lld,%lld]", name, (long long)mask->stride_b,
            (long long)mask->stride_h, (long long)mask->stride_q, (long long)mask->stride_k);
    }
}

static void add_masks(line_t *line, const attn_desc_t *desc)
{
    add_flag(line, "causal", desc->causal);
    add_flag(line, "top_left", desc->align == ATTN_ALIGN_TOP_LEFT);
    if (desc->window_left >= 0 || desc->window_right >= 0) {
        add(line, " window=%lld,%lld", (long long)desc->window_left, (long long)desc->window_right);
    }
    add_mask(line, "mask", &desc->mask);
    add_mask(line, "bias", &desc->bias);
    add_mask(line, "dbias", &desc->dbias);
    if (desc->block_sparse) {
        add(line, " blocks=%lldx%lld,%lld", (long long)desc->block_q, (long long)desc->block_kv,
            (long long)desc->blocks_per_row);
    }
}

static void add_lengths(line_t *line, const attn_desc_t *desc)
{
    add_flag(line, "total_q", desc->varlen_q ? desc->total_q : 0);
    add_flag(line, "varlen_q", desc->varlen_q);
    add_flag(line, "total_kv", desc->varlen_kv ? desc->total_kv : 0);
    add_flag(line, "varlen_kv", desc->varlen_kv);
    add_flag(line, "seqused_q", desc->has_seqused_q);
    add_flag(line, "seqused_kv", desc->has_seqused_kv);
    add_flag(line, "leftpad_kv", desc->has_leftpad_kv);
    add_flag(line, "kv_batch_idx", desc->has_kv_batch_idx);
    add_flag(line, "paged_kv", desc->paged_kv);
    add_flag(line, "page_size", desc->paged_kv ? desc->page_size : 0);
}

void random_problem_describe(const random_problem_t *r, char *text, size_t bytes)
{
    const attn_desc_t *desc = &r->desc;
    line_t line = {text, bytes, 0};
    add(&line, "%s b=%lld s_q=%lld s_kv=%lld h_q=%lld h_kv=%lld d_qk=%lld d_v=%lld",
        r->options.backward ? "backward" : "forward", (long long)desc->batch, (long long)desc->s_q,
        (long long)desc->s_kv, (long long)desc->heads_q, (long long)desc->heads_kv,
        (long long)desc->d_qk, (long long)desc->d_v);
    add_tensor(&line, "q", &desc->q);
    add_tensor(&line, "k", &desc->k);
    add_tensor(&line, "v", &desc->v);
    add_tensor(&line, "o", &desc->o);
    if (r->options.backward) {
        add_tensor(&line, "do", &desc->do_);
        add_tensor(&line, "dq", &desc->dq);
        add_tensor(&line, "dk", &desc->dk);
        add_tensor(&line, "dv", &desc->dv);
    }
    add_lengths(&line, desc);
    add_masks(&line, desc);
    if (!isnan(desc->scale)) {
        add(&line, " scale=%g", (double)desc->scale);
    }
    if (desc->softcap > 0.0f) {
        add(&line, " softcap=%g", (double)desc->softcap);
    }
    if (desc->dropout_p > 0.0f) {
        add(&line, " dropout=%g", (double)desc->dropout_p);
    }
    add_flag(&line, "alibi", desc->has_alibi);
    add_flag(&line, "sink", desc->has_sink);
    add_flag(&line, "dlse", desc->has_dlse);
    add_flag(&line, "dsink", desc->wants_dsink);
    add_flag(&line, "num_splits", desc->num_splits);
    add_flag(&line, "batch_invariant", desc->batch_invariant);
    add_flag(&line, "deterministic", desc->deterministic);
    add_flag(&line, "fill", (int64_t)r->options.fill);
    add_flag(&line, "visible_nans", r->options.visible_nans);
    add_flag(&line, "finite_padding", r->options.no_nan_unseen);
    add_flag(&line, "misalign", r->options.misalign);
    add_flag(&line, "workers", r->workers);
}
