// bench_check.c: see bench_check.h.
//
// A row of the result depends on its query and on all keys, and on no other row. So a few rows of q
// with all of k and v are a small problem of their own: with top-left alignment its first row
// stands at key 0, and what the true row may see beyond that becomes a wider window to the right.
#include "bench_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_truth.h"
#include "launch.h"

enum { SLICE_ROWS = 4, TWIN_LENGTH = 300 };

static int judge(const struct check_row *rows, int n, const char *where, bool *wrong_out,
                 struct io_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!rows[i].ok) {
            *wrong_out = true;
            return io_fail(err,
                           "%s: wrong result, %s: %s is off by %.2e, allowed %.2e, and %lld "
                           "NaN or inf are misplaced",
                           where, rows[i].kernel, rows[i].tensor, rows[i].stats.max_abs,
                           rows[i].tolerance, (long long)rows[i].stats.mismatches);
        }
    }
    return 0;
}

// ------------------------------------------------------------------------------------------------
// Rows

// Rows [first, first + n) of the last sequence of a dense (B, S, H, D) tensor.
static int copy_rows(const struct io_tensor *from, int64_t first, int64_t n, struct io_tensor *to,
                     struct io_error *err)
{
    const int64_t shape[4] = {1, n, from->shape[2], from->shape[3]};
    if (io_tensor_init(to, from->name, from->dtype, 4, shape, err)) {
        return -1;
    }
    const size_t row = (size_t)(shape[2] * shape[3]) * io_dtype_bytes(from->dtype);
    const int64_t start = (from->shape[0] - 1) * from->shape[1] + first;
    memcpy(to->data, (const char *)from->data + (size_t)start * row, (size_t)n * row);
    return 0;
}

// The last sequence of a tensor of several, which keeps the memory.
static struct io_tensor last_sequence(const struct io_tensor *from)
{
    struct io_tensor view = *from;
    view.shape[0] = 1;
    view.count = from->count / from->shape[0];
    view.bytes = from->bytes / (size_t)from->shape[0];
    view.data = (char *)from->data + (from->bytes - view.bytes);
    return view;
}

// The same rows of the lse, (B, H, S).
static void copy_lse(const struct problem *problem, int64_t first, struct problem *slice)
{
    const struct io_tensor *from = &problem->tensors[OPERAND_LSE];
    struct io_tensor *to = &slice->tensors[OPERAND_LSE];
    const int64_t skipped = (from->shape[0] - 1) * from->shape[1];
    for (int64_t i = 0; i < to->count; i++) {
        const int64_t row = skipped + i / to->shape[2];
        const int64_t at = row * from->shape[2] + first + i % to->shape[2];
        ((float *)to->data)[i] = ((const float *)from->data)[at];
    }
}

// The small problem of rows [first, first + n) of the last sequence, with the big one's results for
// them.
static int slice_rows(const struct problem *problem, bool backward, int64_t first, int64_t n,
                      struct problem *slice, struct io_error *err)
{
    const attn_desc_t *big = &problem->desc;
    *slice = *problem;
    memset(slice->tensors, 0, sizeof(slice->tensors));
    attn_desc_t *d = &slice->desc;
    struct io_tensor *t = slice->tensors;
    const int64_t position = first + (big->align == ATTN_ALIGN_TOP_LEFT ? 0 : big->s_kv - big->s_q);
    const int64_t right = big->causal ? 0 : big->window_right;
    d->causal = 0;
    d->align = ATTN_ALIGN_TOP_LEFT;
    d->window_right = right < 0 ? -1 : right + position;
    d->batch = 1;
    d->s_q = n;
    if (copy_rows(&problem->tensors[OPERAND_Q], first, n, &t[OPERAND_Q], err)) {
        return -1;
    }
    d->q.stride_b = n * d->q.stride_s;
    d->o.stride_b = d->do_.stride_b = n * d->o.stride_s;
    d->dq.stride_b = d->q.stride_b;
    d->lse_stride_h = n;
    d->lse_stride_b = d->heads_q * n;
    slice->args.in.q = t[OPERAND_Q].data;
    // k and v are the big problem's; the caller takes them out again.
    t[OPERAND_K] = last_sequence(&problem->tensors[OPERAND_K]);
    t[OPERAND_V] = last_sequence(&problem->tensors[OPERAND_V]);
    slice->args.in.k = t[OPERAND_K].data;
    slice->args.in.v = t[OPERAND_V].data;
    if (problem_add_forward_results(slice, err)) {
        return -1;
    }
    copy_lse(problem, first, slice);
    io_tensor_clear(&t[OPERAND_O]);
    if (copy_rows(&problem->tensors[OPERAND_O], first, n, &t[OPERAND_O], err)) {
        return -1;
    }
    slice->args.in.o = t[OPERAND_O].data;
    if (!backward) {
        return 0;
    }
    if (copy_rows(&problem->tensors[OPERAND_DO], first, n, &t[OPERAND_DO], err)) {
        return -1;
    }
    slice->args.do_ = t[OPERAND_DO].data;
    if (problem_add_backward_results(slice, err)) {
        return -1;
    }
    io_tensor_clear(&t[OPERAND_DQ]);
    return copy_rows(&problem->tensors[OPERAND_DQ], first, n, &t[OPERAND_DQ], err);
}

static int check_rows(const struct bench_case *c, const struct problem *problem, int64_t first,
                      int64_t n, bool *wrong_out, struct io_error *err)
{
    struct problem slice = {0};
    struct check_truth truth = {0};
    struct check_row rows[CHECK_MAX_ROWS];
    char where[128];
    snprintf(where, sizeof(where), "%s/%lld, rows from %lld", c->series, (long long)c->s,
             (long long)first);
    int status = slice_rows(problem, c->backward, first, n, &slice, err);
    status = status ? status : check_truth_create(&truth, &slice, c->backward, err);
    if (!status) {
        status = judge(rows, check_compare(&truth, &slice, "forward", false, rows), where,
                       wrong_out, err);
    }
    if (!status && c->backward) {
        // Only dq is complete: dk and dv are sums over all rows. It is the first of them.
        check_compare(&truth, &slice, "backward", true, rows);
        status = judge(rows, 1, where, wrong_out, err);
    }
    check_truth_destroy(&truth);
    memset(&slice.tensors[OPERAND_K], 0, sizeof(struct io_tensor));
    memset(&slice.tensors[OPERAND_V], 0, sizeof(struct io_tensor));
    problem_destroy(&slice);
    return status;
}

// ------------------------------------------------------------------------------------------------
// The twin: the same case, short enough for the reference

// "0,8192,10240" with each sequence cut to a few tiles: "0,300,600".
static void shorten_packed(const char *text, char out[BENCH_CU_SEQLENS_BYTES])
{
    int64_t begin = 0;
    int64_t total = 0;
    int used = snprintf(out, BENCH_CU_SEQLENS_BYTES, "0");
    for (const char *at = strchr(text, ','); at; at = strchr(at + 1, ',')) {
        const int64_t end = strtoll(at + 1, NULL, 10);
        total += end - begin < TWIN_LENGTH ? end - begin : TWIN_LENGTH;
        begin = end;
        used += snprintf(out + used, (size_t)(BENCH_CU_SEQLENS_BYTES - used), ",%lld",
                         (long long)total);
    }
}

static int check_twin(const struct bench_case *c, attn_context_t *context, bool *wrong_out,
                      struct io_error *err)
{
    struct problem_options options = c->options;
    struct problem twin = {0};
    struct check_truth truth = {0};
    struct check_row rows[CHECK_MAX_ROWS];
    char kernel[LAUNCH_NAME_BYTES];
    char cu_seqlens[BENCH_CU_SEQLENS_BYTES];
    options.batch = options.batch < 2 ? options.batch : 2;
    for (int i = 0; i < 2; i++) {
        options.seqlen[i] = options.seqlen[i] < TWIN_LENGTH ? options.seqlen[i] : TWIN_LENGTH;
    }
    if (*c->cu_seqlens) {
        shorten_packed(c->cu_seqlens, cu_seqlens);
        options.cu_seqlens_q = options.cu_seqlens_kv = cu_seqlens;
        // The rows of the pack are the last of its starts.
        options.seqlen[0] = options.seqlen[1] = strtoll(strrchr(cu_seqlens, ',') + 1, NULL, 10);
    }
    // One K/V head suffices, with all the query heads that share it.
    if (c->options.heads[1] > 0 && c->options.heads[0] % c->options.heads[1] == 0) {
        options.heads[0] = c->options.heads[0] / c->options.heads[1];
        options.heads[1] = 1;
    }
    int status = problem_create(&twin, &options, false, err);
    status = status ? status : problem_add_forward_results(&twin, err);
    if (!status && c->backward) {
        status = problem_add_gradient_inputs(&twin, NULL, NULL, options.random_seed, err);
        status = status ? status : problem_add_backward_results(&twin, err);
    }
    status = status ? status : check_truth_create(&truth, &twin, c->backward, err);
    check_spoil_results(&twin);
    status = status ? status : launch_once(context, &twin, ATTN_FORWARD, kernel, err);
    if (!status) {
        status = judge(rows, check_compare(&truth, &twin, kernel, false, rows), c->series,
                       wrong_out, err);
    }
    if (!status && c->backward) {
        status = launch_once(context, &twin, ATTN_BACKWARD, kernel, err);
        if (!status) {
            status = judge(rows, check_compare(&truth, &twin, kernel, true, rows), c->series,
                           wrong_out, err);
        }
    }
    check_truth_destroy(&truth);
    problem_destroy(&twin);
    return status;
}

int bench_check(const struct bench_case *c, const struct problem *problem, attn_context_t *context,
                bool *wrong_out, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    int status = check_twin(c, context, wrong_out, err);
    // With a window to the left the rows' own problem would need other keys, packed sequences other
    // starts, a mask tensor other rows: the twin has to do.
    if (status || d->window_left >= 0 || d->varlen_q || d->mask.present || d->s_kv < d->s_q ||
        d->batch == 0) {
        return status;
    }
    if (d->s_q <= 3 * SLICE_ROWS) {
        return d->s_q ? check_rows(c, problem, 0, d->s_q, wrong_out, err) : 0;
    }
    const int64_t firsts[3] = {0, d->s_q / 2, d->s_q - SLICE_ROWS};
    for (int i = 0; i < 3 && !status; i++) {
        status = check_rows(c, problem, firsts[i], SLICE_ROWS, wrong_out, err);
    }
    return status;
}
