// The reference backend: the formula at the top of attn.h in fp64, row by row, with every option.
// It is what the fast kernels are checked against, so it is written to be compared with the formula
// by eye and shares no code with them. Slow on purpose; memory is one row of scores per worker.
// The backward pass is in reference_backward.c, memory and mask are in reference_head.c.
#include "reference.h"

#include <math.h>
#include <stdio.h>

#include "../../core/element.h"
#include "../../core/status.h"
#include "../append.h"
#include "../merge.h"

typedef struct forward_run {
    const attn_plan_t *plan;
    const attn_forward_args_t *args;
    void *workspace;
} forward_run_t;

// Scores of row i into row[], -inf where hidden. Returns whether the row sees any key.
static bool score_row(const reference_head_t *head, int64_t i, reference_scratch_t scratch)
{
    bool any = false;
    reference_load_q(head, i, scratch.q);
    for (int64_t j = 0; j < head->seq.rows_kv; j++) {
        scratch.row[j] = -INFINITY;
        if (reference_visible(head, i, j)) {
            any = true;
            reference_load_k(head, j, scratch.k);
            scratch.row[j] = reference_score(head, i, j, scratch.q, scratch.k).value;
        }
    }
    return any;
}

// sum = exp(sink - max) + sum_j exp(s[j] - max): with the maximum taken out exp cannot overflow.
typedef struct row_total {
    double max; // 0 if nothing counts
    double sum; // 0 if nothing counts
} row_total_t;

static row_total_t total_of(const reference_head_t *head, bool any, const double *row)
{
    const bool has_sink = head->desc->has_sink != 0;
    const double sink = has_sink ? head->args->sink[head->h_q] : -INFINITY;
    const int64_t keys = any ? head->seq.rows_kv : 0;
    row_total_t total = {.max = sink, .sum = 0.0};
    for (int64_t j = 0; j < keys; j++) {
        total.max = row[j] > total.max ? row[j] : total.max;
    }
    total.max = total.max == -INFINITY ? 0.0 : total.max;
    total.sum = has_sink ? exp(sink - total.max) : 0.0;
    for (int64_t j = 0; j < keys; j++) {
        total.sum += exp(row[j] - total.max);
    }
    return total;
}

// o[i] = sum_j exp(s[j] - lse) * v[j] over the keys that row i sees; exp(-lse) is exp(-max) / sum.
static void weigh_values(const reference_head_t *head, int64_t i, row_total_t total,
                         reference_scratch_t scratch)
{
    const attn_desc_t *desc = head->desc;
    for (int64_t j = 0; j < head->seq.rows_kv; j++) {
        if (!reference_visible(head, i, j)) {
            continue;
        }
        reference_load_v(head, j, scratch.v);
        const double p = exp(scratch.row[j] - total.max) / total.sum;
        const double weight = p * reference_dropout(head, i, j);
        for (int64_t c = 0; c < desc->d_v; c++) {
            scratch.o[c] += weight * scratch.v[c];
        }
    }
}

static void forward_row(const reference_head_t *head, int64_t i, reference_scratch_t scratch)
{
    const attn_desc_t *desc = head->desc;
    const bool in_use = i < head->seq.mask.len_q;
    double lse = -INFINITY;
    for (int64_t c = 0; c < desc->d_v; c++) {
        scratch.o[c] = 0.0;
    }
    if (in_use) {
        const bool any = score_row(head, i, scratch);
        const row_total_t total = total_of(head, any, scratch.row);
        lse = total.max + log(total.sum);
        // Keys whose scores are all -inf weigh nothing: the row is as good as empty.
        if (any && lse != -INFINITY) {
            weigh_values(head, i, total, scratch);
        }
    }
    reference_store_like_q(head, &desc->o, head->args->o, i, desc->d_v, scratch.o);
    if (desc->wants_lse) {
        head->args->lse[reference_lse_index(head, i)] = (float)lse;
    }
}

// One query head of one sequence.
static void forward_task(void *arg, int64_t task, int32_t worker)
{
    const forward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const reference_head_t head =
        reference_head_at(desc, run->args, task / desc->heads_q, task % desc->heads_q);
    const reference_scratch_t scratch = reference_scratch_of(desc, run->workspace, worker);
    for (int64_t i = 0; i < head.seq.rows_q; i++) {
        forward_row(&head, i, scratch);
    }
}

static void forward_tail(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    if (!desc->varlen_q) {
        return;
    }
    const int64_t begin = args->cu_seqlens_q[desc->batch];
    reference_zero_tail(&desc->o, args->o, begin, desc->total_q, desc->heads_q, desc->d_v);
    for (int64_t h = 0; desc->wants_lse && h < desc->heads_q; h++) {
        for (int64_t row = begin; row < desc->total_q; row++) {
            args->lse[h * desc->lse_stride_h + row * desc->lse_stride_s] = -INFINITY;
        }
    }
}

static attn_status_t reference_forward(const attn_plan_t *plan, const attn_forward_args_t *args,
                                       void *workspace, void *stream)
{
    (void)stream;
    forward_run_t run = {.plan = plan, .args = args, .workspace = workspace};
    attn_parallel_for(plan->context, plan->desc.batch * plan->desc.heads_q, forward_task, &run);
    forward_tail(&plan->desc, args);
    return ATTN_OK;
}

static attn_status_t reference_choose(attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    const int32_t workers = plan->context->workers;
    const uint64_t dims = 3u * (uint64_t)desc->d_qk + 4u * (uint64_t)desc->d_v;
    const uint64_t limit = SIZE_MAX / sizeof(double) / (uint64_t)workers;
    ATTN_RETURN_IF(dims > limit || (uint64_t)desc->s_kv > limit - dims, ATTN_INVALID_ARGUMENT,
                   "s_kv: %lld, too large for a row of scores", (long long)desc->s_kv);
    plan->workspace_bytes =
        (size_t)(dims + (uint64_t)desc->s_kv) * sizeof(double) * (size_t)workers;
    plan->isa = ATTN_ISA_SCALAR;
    plan->tile_q = 1;
    plan->tile_kv = 1;
    plan->num_splits = 1;
    plan->split_keys = desc->s_kv;
    plan->is_decode = 0;
    snprintf(plan->kernel_name, sizeof(plan->kernel_name), "reference_%s_f64",
             plan->op == ATTN_FORWARD ? "fwd" : "bwd");
    return ATTN_OK;
}

static void reference_explain(const attn_plan_t *plan, attn_text_t *text)
{
    attn_text_add(text, "reference: the formula in fp64, row by row, %d workers\n",
                  (int)plan->context->workers);
}

const attn_backend_ops_t attn_backend_reference = {
    .choose = reference_choose,
    .explain = reference_explain,
    .forward = reference_forward,
    .backward = reference_backward,
    .merge = attn_cpu_merge,
    .append = attn_cpu_append,
};
