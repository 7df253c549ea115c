// The reference's gradients. With p[i,j] = exp(s[i,j] - lse[i]), z[i,j] the dropout factor and
// dP[i,j] = z[i,j] * dot(do[i], v[j]) the derivative of the loss is
//
//   delta[i] = dot(do[i], o[i]) - dlse[i]
//   dS[i,j]  = p[i,j] * (dP[i,j] - delta[i])           also the gradient of the bias
//   dq[i]    = sum_j dS[i,j] * (ds/ddot)[i,j] * k[j]
//   dk[j]    = sum_i dS[i,j] * (ds/ddot)[i,j] * q[i]    i: rows of all query heads of the K/V head
//   dv[j]    = sum_i z[i,j] * p[i,j] * do[i]
//   dsink    = sum_i exp(sink - lse[i]) * -delta[i]
//
// o and lse are the caller's, not computed again: with the o and lse of a merge over several sets
// of keys, the gradients are those of the whole. A row with lse -inf saw no key: no gradient.
#include "reference.h"

#include <math.h>

#include "../../core/element.h"

typedef struct backward_run {
    const attn_plan_t *plan;
    const attn_backward_args_t *args;
    void *workspace;
} backward_run_t;

// What row i brings to the gradients of all its pairs; q and do are in the scratch.
typedef struct gradient_row {
    double lse;
    double delta;
    bool counts; // in use, and it saw something
} gradient_row_t;

typedef struct gradient_pair {
    double weight;  // z * p
    double d_score; // dS
    double d_dot;   // dS * ds/ddot
} gradient_pair_t;

static void fill_zero(double *values, int64_t count)
{
    for (int64_t c = 0; c < count; c++) {
        values[c] = 0.0;
    }
}

// values += factor * x
static void add_scaled(double *values, double factor, const double *x, int64_t count)
{
    for (int64_t c = 0; c < count; c++) {
        values[c] += factor * x[c];
    }
}

static gradient_row_t row_begin(const reference_head_t *head, const attn_backward_args_t *args,
                                int64_t i, reference_scratch_t scratch)
{
    const attn_desc_t *desc = head->desc;
    gradient_row_t row = {.lse = -INFINITY, .delta = 0.0, .counts = false};
    if (i >= head->seq.mask.len_q) {
        return row;
    }
    const int64_t at = reference_lse_index(head, i);
    row.lse = args->in.lse[at];
    if (row.lse == -INFINITY) {
        return row;
    }
    row.counts = true;
    reference_load_q(head, i, scratch.q);
    reference_load_like_q(head, &desc->do_, args->do_, i, desc->d_v, scratch.do_);
    reference_load_like_q(head, &desc->o, args->in.o, i, desc->d_v, scratch.o);
    row.delta = reference_dot(scratch.do_, scratch.o, desc->d_v);
    if (desc->has_dlse) {
        row.delta -= args->dlse[at];
    }
    return row;
}

// Needs row i's q and do and key j's k and v in the scratch, and that row i sees key j.
static gradient_pair_t pair_at(const reference_head_t *head, const gradient_row_t *row, int64_t i,
                               int64_t j, reference_scratch_t scratch)
{
    const reference_score_t score = reference_score(head, i, j, scratch.q, scratch.k);
    // lse is fp32: where it was rounded to below a huge score, the weight is still at most 1.
    const double exponent = score.value - row->lse;
    const double p = exp(exponent > 0.0 ? 0.0 : exponent);
    const double z = reference_dropout(head, i, j);
    const double dp = z * reference_dot(scratch.do_, scratch.v, head->desc->d_v);
    gradient_pair_t pair;
    pair.weight = z * p;
    pair.d_score = p * (dp - row->delta);
    pair.d_dot = pair.d_score * score.by_dot;
    return pair;
}

// ---------------------------------------------------------------------------------------------
// One task per result, so that no two tasks add to the same number.

// dq of one query head of one sequence.
static void dq_task(void *arg, int64_t task, int32_t worker)
{
    const backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const reference_scratch_t scratch = reference_scratch_of(desc, run->workspace, worker);
    const reference_head_t head =
        reference_head_at(desc, &run->args->in, task / desc->heads_q, task % desc->heads_q);
    for (int64_t i = 0; i < head.seq.rows_q; i++) {
        const gradient_row_t row = row_begin(&head, run->args, i, scratch);
        fill_zero(scratch.sum_qk, desc->d_qk);
        for (int64_t j = 0; row.counts && j < head.seq.rows_kv; j++) {
            if (reference_visible(&head, i, j)) {
                reference_load_k(&head, j, scratch.k);
                reference_load_v(&head, j, scratch.v);
                const gradient_pair_t pair = pair_at(&head, &row, i, j, scratch);
                add_scaled(scratch.sum_qk, pair.d_dot, scratch.k, desc->d_qk);
            }
        }
        reference_store_like_q(&head, &desc->dq, run->args->dq, i, desc->d_qk, scratch.sum_qk);
    }
}

// Adds what the rows of one query head give to key j, whose k and v are in the scratch.
static void add_rows_to_key(const reference_head_t *head, const attn_backward_args_t *args,
                            int64_t j, reference_scratch_t scratch)
{
    for (int64_t i = 0; i < head->seq.mask.len_q; i++) {
        if (!reference_visible(head, i, j)) {
            continue;
        }
        const gradient_row_t row = row_begin(head, args, i, scratch);
        if (row.counts) {
            const gradient_pair_t pair = pair_at(head, &row, i, j, scratch);
            add_scaled(scratch.sum_qk, pair.d_dot, scratch.q, head->desc->d_qk);
            add_scaled(scratch.sum_v, pair.weight, scratch.do_, head->desc->d_v);
        }
    }
}

// dk and dv of one K/V head of one sequence.
static void dkv_task(void *arg, int64_t task, int32_t worker)
{
    const backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const reference_scratch_t scratch = reference_scratch_of(desc, run->workspace, worker);
    const int64_t group = desc->heads_q / desc->heads_kv;
    const int64_t b = task / desc->heads_kv;
    const int64_t h_first = task % desc->heads_kv * group;
    const int64_t rows_kv = attn_sequence_at(desc, &run->args->in, b).rows_kv;
    for (int64_t j = 0; j < rows_kv; j++) {
        fill_zero(scratch.sum_qk, desc->d_qk);
        fill_zero(scratch.sum_v, desc->d_v);
        reference_head_t head = reference_head_at(desc, &run->args->in, b, h_first);
        reference_load_k(&head, j, scratch.k);
        reference_load_v(&head, j, scratch.v);
        for (int64_t h_q = h_first; h_q < h_first + group; h_q++) {
            head = reference_head_at(desc, &run->args->in, b, h_q);
            add_rows_to_key(&head, run->args, j, scratch);
        }
        if (run->args->dk != NULL) {
            reference_store_like_k(&head, &desc->dk, run->args->dk, j, desc->d_qk, scratch.sum_qk);
        }
        if (run->args->dv != NULL) {
            reference_store_like_k(&head, &desc->dv, run->args->dv, j, desc->d_v, scratch.sum_v);
        }
    }
}

// dsink of one query head, over all sequences.
static void dsink_task(void *arg, int64_t h_q, int32_t worker)
{
    const backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const reference_scratch_t scratch = reference_scratch_of(desc, run->workspace, worker);
    double sum = 0.0;
    for (int64_t b = 0; b < desc->batch; b++) {
        const reference_head_t head = reference_head_at(desc, &run->args->in, b, h_q);
        for (int64_t i = 0; i < head.seq.mask.len_q; i++) {
            const gradient_row_t row = row_begin(&head, run->args, i, scratch);
            if (row.counts) {
                sum += exp(run->args->in.sink[h_q] - row.lse) * -row.delta;
            }
        }
    }
    run->args->dsink[h_q] = (float)sum;
}

// ---------------------------------------------------------------------------------------------
// The bias gradient: every stored element is the sum over the elements that were broadcast from it.
// A problem without scores has no bias and so no gradient of it.

typedef struct index_range {
    int64_t begin;
    int64_t end;
} index_range_t;

// Indexes of a dimension that share the stored index n: itself, or all with a stride of 0.
static index_range_t sharing(int64_t stride, int64_t n, int64_t size)
{
    return stride == 0 ? (index_range_t){0, size} : (index_range_t){n, n + 1};
}

static int64_t stored_size(int64_t stride, int64_t size)
{
    return stride == 0 ? 1 : size;
}

// Adds row i's dS to the scratch's row.
static void add_bias_row(const reference_head_t *head, const attn_backward_args_t *args, int64_t i,
                         reference_scratch_t scratch)
{
    const gradient_row_t row = row_begin(head, args, i, scratch);
    for (int64_t j = 0; row.counts && j < head->seq.rows_kv; j++) {
        if (reference_visible(head, i, j)) {
            reference_load_k(head, j, scratch.k);
            reference_load_v(head, j, scratch.v);
            scratch.row[j] += pair_at(head, &row, i, j, scratch).d_score;
        }
    }
}

static void store_bias_row(const attn_desc_t *desc, void *dbias, int64_t start, const double *row)
{
    double sum = 0.0;
    for (int64_t j = 0; j < desc->s_kv; j++) {
        sum += row[j];
        if (desc->dbias.stride_k != 0) {
            attn_store_f64(desc->dbias.dtype, dbias, start + j * desc->dbias.stride_k, row[j]);
        }
    }
    if (desc->dbias.stride_k == 0) {
        attn_store_f64(desc->dbias.dtype, dbias, start, sum);
    }
}

// One row of the stored bias gradient.
static void dbias_task(void *arg, int64_t task, int32_t worker)
{
    const backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const attn_mask_tensor_t *dbias = &desc->dbias;
    const reference_scratch_t scratch = reference_scratch_of(desc, run->workspace, worker);
    const int64_t rows = stored_size(dbias->stride_q, desc->s_q);
    const int64_t heads = stored_size(dbias->stride_h, desc->heads_q);
    const int64_t stored_i = task % rows;
    const int64_t stored_h = task / rows % heads;
    const int64_t stored_b = task / rows / heads;
    const index_range_t batches = sharing(dbias->stride_b, stored_b, desc->batch);
    const index_range_t query_heads = sharing(dbias->stride_h, stored_h, desc->heads_q);
    fill_zero(scratch.row, desc->s_kv);
    for (int64_t b = batches.begin; b < batches.end; b++) {
        for (int64_t h_q = query_heads.begin; h_q < query_heads.end; h_q++) {
            const reference_head_t head = reference_head_at(desc, &run->args->in, b, h_q);
            const index_range_t is = sharing(dbias->stride_q, stored_i, head.seq.rows_q);
            for (int64_t i = is.begin; i < is.end; i++) {
                add_bias_row(&head, run->args, i, scratch);
            }
        }
    }
    const int64_t start =
        stored_b * dbias->stride_b + stored_h * dbias->stride_h + stored_i * dbias->stride_q;
    store_bias_row(desc, run->args->dbias, start, scratch.row);
}

// ---------------------------------------------------------------------------------------------

static void backward_tails(const attn_desc_t *desc, const attn_backward_args_t *args)
{
    if (desc->varlen_q && args->dq != NULL) {
        reference_zero_tail(&desc->dq, args->dq, args->in.cu_seqlens_q[desc->batch], desc->total_q,
                            desc->heads_q, desc->d_qk);
    }
    if (desc->varlen_kv && args->dk != NULL) {
        reference_zero_tail(&desc->dk, args->dk, args->in.cu_seqlens_kv[desc->batch],
                            desc->total_kv, desc->heads_kv, desc->d_qk);
    }
    if (desc->varlen_kv && args->dv != NULL) {
        reference_zero_tail(&desc->dv, args->dv, args->in.cu_seqlens_kv[desc->batch],
                            desc->total_kv, desc->heads_kv, desc->d_v);
    }
}

attn_status_t reference_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                 void *workspace, void *stream)
{
    (void)stream;
    const attn_desc_t *desc = &plan->desc;
    const attn_context_t *context = plan->context;
    backward_run_t run = {.plan = plan, .args = args, .workspace = workspace};
    if (args->dq != NULL) {
        attn_parallel_for(context, desc->batch * desc->heads_q, dq_task, &run);
    }
    if (args->dk != NULL || args->dv != NULL) {
        attn_parallel_for(context, desc->batch * desc->heads_kv, dkv_task, &run);
    }
    if (desc->wants_dsink) {
        attn_parallel_for(context, desc->heads_q, dsink_task, &run);
    }
    if (desc->dbias.present && desc->s_kv > 0 && desc->s_q > 0 && desc->batch > 0) {
        const int64_t stored_rows = stored_size(desc->dbias.stride_b, desc->batch) *
                                    stored_size(desc->dbias.stride_h, desc->heads_q) *
                                    stored_size(desc->dbias.stride_q, desc->s_q);
        attn_parallel_for(context, stored_rows, dbias_task, &run);
    }
    backward_tails(desc, args);
    return ATTN_OK;
}
