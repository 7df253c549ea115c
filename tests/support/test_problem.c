// Builds and frees test problems: see test_problem.h. Resolves strides on its own, so that the
// library's resolution is checked too.
#include "test_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One dimension of an operand, for resolving strides.
typedef struct dimension {
    int64_t size;
    int64_t *stride;
} dimension_t;

// From the innermost dimension outward, an automatic stride starts behind what lies inside of it; a
// broadcast dimension takes no room.
static void resolve(const dimension_t *dims, int count)
{
    int64_t inside = 1;
    for (int n = 0; n < count; n++) {
        if (*dims[n].stride == ATTN_STRIDE_AUTO) {
            *dims[n].stride = inside;
        }
        const int64_t size = dims[n].size > 1 ? dims[n].size : 1;
        const int64_t stride = *dims[n].stride < 0 ? -*dims[n].stride : *dims[n].stride;
        inside = size * stride > inside ? size * stride : inside;
    }
}

static void resolve_tensor(attn_tensor_t *tensor, int64_t rows, int64_t heads, int64_t d)
{
    const dimension_t dims[] = {
        {d, &tensor->stride_d},
        {heads, &tensor->stride_h},
        {rows, &tensor->stride_s},
        {1, &tensor->stride_b},
    };
    resolve(dims, 4);
}

static void resolve_mask(attn_mask_tensor_t *mask, const attn_desc_t *desc)
{
    const dimension_t dims[] = {
        {desc->s_kv, &mask->stride_k},
        {desc->s_q, &mask->stride_q},
        {desc->heads_q, &mask->stride_h},
        {1, &mask->stride_b},
    };
    resolve(dims, 4);
}

static int64_t ceil_div(int64_t x, int64_t y)
{
    return (x + y - 1) / y;
}

static void resolve_descale(attn_descale_t *descale, int64_t heads, int64_t rows)
{
    const dimension_t dims[] = {
        {ceil_div(rows, descale->rows < 1 ? 1 : descale->rows), &descale->stride_s},
        {heads, &descale->stride_h},
        {1, &descale->stride_b},
    };
    resolve(dims, 3);
}

static void resolve_lists(attn_desc_t *desc, int64_t rows_q)
{
    int64_t one = 1;
    const int64_t lists = desc->block_q > 0 ? ceil_div(desc->s_q, desc->block_q) : 0;
    const dimension_t lse[] = {
        {rows_q, &desc->lse_stride_s},
        {desc->heads_q, &desc->lse_stride_h},
        {1, &desc->lse_stride_b},
    };
    const dimension_t pages[] = {{desc->pages_per_seq, &one}, {1, &desc->page_table_stride_b}};
    const dimension_t slopes[] = {{desc->heads_q, &one}, {1, &desc->alibi_stride_b}};
    const dimension_t blocks[] = {
        {lists, &one},
        {desc->heads_q, &desc->block_stride_h},
        {1, &desc->block_stride_b},
    };
    resolve(lse, 3);
    resolve(pages, 2);
    resolve(slopes, 2);
    resolve(blocks, 3);
}

static int64_t kv_rows(const attn_desc_t *desc)
{
    return desc->varlen_kv ? desc->total_kv : desc->paged_kv ? desc->page_size : desc->s_kv;
}

attn_desc_t problem_resolve(const attn_desc_t *given)
{
    attn_desc_t desc = *given;
    const int64_t rows_q = desc.varlen_q ? desc.total_q : desc.s_q;
    const int64_t rows_kv = kv_rows(&desc);
    resolve_tensor(&desc.q, rows_q, desc.heads_q, desc.d_qk);
    resolve_tensor(&desc.k, rows_kv, desc.heads_kv, desc.d_qk);
    resolve_tensor(&desc.v, rows_kv, desc.heads_kv, desc.d_v);
    resolve_tensor(&desc.o, rows_q, desc.heads_q, desc.d_v);
    resolve_tensor(&desc.dq, rows_q, desc.heads_q, desc.d_qk);
    resolve_tensor(&desc.dk, rows_kv, desc.heads_kv, desc.d_qk);
    resolve_tensor(&desc.dv, rows_kv, desc.heads_kv, desc.d_v);
    resolve_tensor(&desc.do_, rows_q, desc.heads_q, desc.d_v);
    resolve_lists(&desc, rows_q);
    resolve_mask(&desc.mask, &desc);
    resolve_mask(&desc.bias, &desc);
    resolve_mask(&desc.dbias, &desc);
    resolve_descale(&desc.q_descale, desc.heads_q, desc.s_q);
    resolve_descale(&desc.k_descale, desc.heads_kv, desc.s_kv);
    resolve_descale(&desc.v_descale, desc.heads_kv, desc.s_kv);
    if (isnan(desc.scale)) {
        desc.scale = (float)(1.0 / sqrt((double)desc.d_qk));
    }
    if (desc.causal && (desc.window_right < 0 || desc.window_right > 0)) {
        desc.window_right = 0;
    }
    return desc;
}

// ---------------------------------------------------------------------------------------------

typedef enum side { SIDE_Q, SIDE_KV } side_t;

static operand_t create_tensor(const char *name, const attn_tensor_t *tensor,
                               const attn_desc_t *desc, side_t side, int64_t d, int64_t misalign)
{
    int64_t dims[4] = {desc->varlen_q ? 1 : desc->batch, desc->varlen_q ? desc->total_q : desc->s_q,
                       desc->heads_q, d};
    if (side == SIDE_KV) {
        dims[0] = desc->varlen_kv          ? 1
                  : desc->paged_kv         ? desc->num_pages
                  : desc->has_kv_batch_idx ? desc->kv_batch
                                           : desc->batch;
        dims[1] = kv_rows(desc);
        dims[2] = desc->heads_kv;
    }
    const int64_t strides[4] = {
        (side == SIDE_Q ? desc->varlen_q : desc->varlen_kv) ? 0 : tensor->stride_b,
        tensor->stride_s, tensor->stride_h, tensor->stride_d};
    return operand_create(name, tensor->dtype, dims, strides, misalign);
}

static operand_t create_lse(const char *name, const attn_desc_t *desc, int64_t misalign)
{
    const int64_t dims[4] = {desc->varlen_q ? 1 : desc->batch, desc->heads_q,
                             desc->varlen_q ? desc->total_q : desc->s_q, 1};
    const int64_t strides[4] = {desc->varlen_q ? 0 : desc->lse_stride_b, desc->lse_stride_h,
                                desc->lse_stride_s, 0};
    return operand_create(name, ATTN_F32, dims, strides, misalign);
}

static operand_t create_mask_like(const char *name, const attn_mask_tensor_t *mask,
                                  const attn_desc_t *desc, bool bytes, int64_t misalign)
{
    const int64_t dims[4] = {desc->batch, desc->heads_q, desc->s_q, desc->s_kv};
    const int64_t strides[4] = {mask->stride_b, mask->stride_h, mask->stride_q, mask->stride_k};
    return bytes ? operand_create_mask(name, dims, strides)
                 : operand_create(name, mask->dtype, dims, strides, misalign);
}

static operand_t create_descale(const char *name, const attn_descale_t *descale, int64_t batch,
                                int64_t heads, int64_t rows)
{
    const int64_t dims[4] = {batch, heads, ceil_div(rows, descale->rows), 1};
    const int64_t strides[4] = {descale->stride_b, descale->stride_h, descale->stride_s, 0};
    return operand_create(name, ATTN_F32, dims, strides, 0);
}

static void create_optional(problem_t *p)
{
    const attn_desc_t *desc = &p->full;
    const int64_t misalign = p->options.misalign;
    if (desc->mask.present) {
        p->mask = create_mask_like("mask", &desc->mask, desc, true, 0);
    }
    if (desc->bias.present) {
        p->bias = create_mask_like("bias", &desc->bias, desc, false, misalign);
    }
    if (desc->has_alibi) {
        p->alibi =
            operand_create("alibi_slopes", ATTN_F32, (int64_t[4]){desc->batch, desc->heads_q, 1, 1},
                           (int64_t[4]){desc->alibi_stride_b, 1, 0, 0}, 0);
    }
    if (desc->has_sink) {
        p->sink = operand_create("sink", ATTN_F32, (int64_t[4]){1, desc->heads_q, 1, 1},
                                 (int64_t[4]){0, 1, 0, 0}, 0);
    }
    if (desc->q_descale.present) {
        p->q_descale =
            create_descale("q_descale", &desc->q_descale, desc->batch, desc->heads_q, desc->s_q);
    }
    if (desc->k_descale.present) {
        p->k_descale =
            create_descale("k_descale", &desc->k_descale, desc->batch, desc->heads_kv, desc->s_kv);
    }
    if (desc->v_descale.present) {
        p->v_descale =
            create_descale("v_descale", &desc->v_descale, desc->batch, desc->heads_kv, desc->s_kv);
    }
    if (p->options.backward) {
        p->do_ = create_tensor("do", &desc->do_, desc, SIDE_Q, desc->d_v, misalign);
        if (desc->has_dlse) {
            p->dlse = create_lse("dlse", desc, misalign);
        }
    }
}

problem_t *problem_create(const attn_desc_t *desc, const problem_options_t *options)
{
    problem_t *p = calloc(1, sizeof(*p));
    if (p == NULL || desc->batch < 0 || desc->s_q < 0 || desc->s_kv < 0) {
        fprintf(stderr, "problem_create: no memory or negative lengths\n");
        abort();
    }
    p->desc = *desc;
    p->full = problem_resolve(desc);
    p->options = *options;
    p->rng = test_rng_at(options->seed, 0);
    const int64_t misalign = options->misalign;
    p->q = create_tensor("q", &p->full.q, &p->full, SIDE_Q, desc->d_qk, misalign);
    p->k = create_tensor("k", &p->full.k, &p->full, SIDE_KV, desc->d_qk, misalign);
    p->v = create_tensor("v", &p->full.v, &p->full, SIDE_KV, desc->d_v, misalign);
    create_optional(p);
    problem_fill_lists(p);
    problem_fill_values(p);
    return p;
}

void problem_destroy(problem_t *p)
{
    if (p == NULL) {
        return;
    }
    operand_t *operands[] = {&p->q,    &p->k,         &p->v,         &p->do_,
                             &p->dlse, &p->mask,      &p->bias,      &p->alibi,
                             &p->sink, &p->q_descale, &p->k_descale, &p->v_descale};
    guard_buffer_t *lists[] = {&p->cu_seqlens_q, &p->cu_seqlens_kv, &p->seqused_q,  &p->seqused_kv,
                               &p->leftpad_kv,   &p->kv_batch_idx,  &p->page_table, &p->block_count,
                               &p->block_index,  &p->dropout_state};
    for (size_t n = 0; n < sizeof(operands) / sizeof(operands[0]); n++) {
        operand_destroy(operands[n]);
    }
    for (size_t n = 0; n < sizeof(lists) / sizeof(lists[0]); n++) {
        guard_buffer_destroy(lists[n]);
    }
    results_destroy(&p->truth);
    results_destroy(&p->eager);
    free(p);
}

// ---------------------------------------------------------------------------------------------

results_t results_create(const problem_t *p, const attn_desc_t *full)
{
    const int64_t misalign = p->options.misalign;
    results_t r;
    memset(&r, 0, sizeof(r));
    r.o = create_tensor("o", &full->o, full, SIDE_Q, full->d_v, misalign);
    if (full->wants_lse) {
        r.lse = create_lse("lse", full, misalign);
    }
    if (!p->options.backward) {
        return r;
    }
    if (!p->options.no_dq) {
        r.dq = create_tensor("dq", &full->dq, full, SIDE_Q, full->d_qk, misalign);
    }
    if (!p->options.no_dk) {
        r.dk = create_tensor("dk", &full->dk, full, SIDE_KV, full->d_qk, misalign);
    }
    if (!p->options.no_dv) {
        r.dv = create_tensor("dv", &full->dv, full, SIDE_KV, full->d_v, misalign);
    }
    if (full->wants_dsink) {
        r.dsink = operand_create("dsink", ATTN_F32, (int64_t[4]){1, full->heads_q, 1, 1},
                                 (int64_t[4]){0, 1, 0, 0}, 0);
    }
    if (full->dbias.present) {
        r.dbias = create_mask_like("dbias", &full->dbias, full, false, misalign);
    }
    return r;
}

void results_destroy(results_t *r)
{
    operand_t *operands[] = {&r->o, &r->lse, &r->dq, &r->dk, &r->dv, &r->dsink, &r->dbias};
    for (size_t n = 0; n < sizeof(operands) / sizeof(operands[0]); n++) {
        operand_destroy(operands[n]);
    }
}
