// bench_measure.c: see bench_measure.h.
#include "bench_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_check.h"
#include "bench_gpu.h"
#include "launch.h"

// A sample shorter than this is a loop over several runs: the clock's own steps must not show.
#define SAMPLE_SECONDS 1e-3

// ------------------------------------------------------------------------------------------------
// Work

// Pairs of a row and a key that it sees, of one head of one sequence; causal counts half a square.
static double count_pairs(const attn_desc_t *desc, int64_t s_q, int64_t s_kv)
{
    if (desc->window_left < 0 && desc->window_right < 0) {
        const double first = s_kv > s_q ? (double)(s_kv - s_q) : 0.0;
        return (double)s_q * (desc->causal ? (first + (double)s_kv) / 2.0 : (double)s_kv);
    }
    const int64_t offset = desc->align == ATTN_ALIGN_TOP_LEFT ? 0 : s_kv - s_q;
    const int64_t right = desc->causal ? 0 : desc->window_right;
    double sum = 0.0;
    for (int64_t i = 0; i < s_q; i++) {
        const int64_t position = i + offset;
        const int64_t low = desc->window_left < 0 ? 0 : position - desc->window_left;
        const int64_t high = right < 0 ? s_kv - 1 : position + right;
        const int64_t first = low > 0 ? low : 0;
        const int64_t last = high < s_kv - 1 ? high : s_kv - 1;
        sum += last >= first ? (double)(last - first + 1) : 0.0;
    }
    return sum;
}

// Operations of one run: 2 (d_qk + d_v) for each pair; 2.5 times that for the backward pass.
static double count_flops(const struct problem *problem, bool backward)
{
    const attn_desc_t *d = &problem->desc;
    const int32_t *cu_q = problem->args.in.cu_seqlens_q;
    const int32_t *cu_kv = problem->args.in.cu_seqlens_kv;
    double pairs = 0.0;
    for (int64_t b = 0; b < d->batch && cu_q && cu_kv; b++) {
        pairs += count_pairs(d, cu_q[b + 1] - cu_q[b], cu_kv[b + 1] - cu_kv[b]);
    }
    if (!cu_q || !cu_kv) {
        pairs = (double)d->batch * count_pairs(d, d->s_q, d->s_kv);
    }
    const double forward = 2.0 * pairs * (double)d->heads_q * (double)(d->d_qk + d->d_v);
    return backward ? 2.5 * forward : forward;
}

// Bytes of all operands and results, each counted once.
static double count_bytes(const attn_desc_t *desc, bool backward)
{
    const int64_t rows = desc->varlen_q ? desc->total_q : desc->batch * desc->s_q;
    const int64_t keys = desc->varlen_kv ? desc->total_kv : desc->batch * desc->s_kv;
    const double q_rows = (double)rows * (double)desc->heads_q;
    const double kv_rows = (double)keys * (double)desc->heads_kv;
    const double q = q_rows * (double)desc->d_qk * (double)attn_dtype_bytes(desc->q.dtype);
    const double o = q_rows * (double)desc->d_v * (double)attn_dtype_bytes(desc->o.dtype);
    const double k = kv_rows * (double)desc->d_qk * (double)attn_dtype_bytes(desc->k.dtype);
    const double v = kv_rows * (double)desc->d_v * (double)attn_dtype_bytes(desc->v.dtype);
    const double lse = q_rows * (double)sizeof(float);
    return backward ? 2.0 * (q + k + v + o) + lse : q + k + v + o + lse;
}

// ------------------------------------------------------------------------------------------------
// Time

// Seconds of one run, as the mean of `runs` in a row; negative on failure.
static double time_runs(const struct launch *launch, int64_t runs, struct io_error *err)
{
    const double start = launch_clock();
    for (int64_t i = 0; i < runs; i++) {
        if (launch_run(launch, err)) {
            return -1.0;
        }
    }
    return (launch_clock() - start) / (double)runs;
}

static int take_samples(const struct launch *launch, const struct bench_protocol *protocol,
                        double *samples, size_t *n_out, struct io_error *err)
{
    double estimate = time_runs(launch, 1, err);
    for (int64_t i = 0; i < protocol->warmup && estimate >= 0.0; i++) {
        const double again = time_runs(launch, 1, err);
        estimate = again < estimate ? again : estimate;
        if ((double)(i + 1) * estimate > protocol->max_seconds / 4.0) {
            break;
        }
    }
    if (estimate < 0.0) {
        return -1;
    }
    const double wanted = SAMPLE_SECONDS / (estimate > 1e-9 ? estimate : 1e-9);
    const int64_t runs = wanted > 1.0 ? (int64_t)wanted + 1 : 1;
    const double start = launch_clock();
    size_t n = 0;
    while (n < (size_t)protocol->samples && n < BENCH_MAX_SAMPLES) {
        if (n >= BENCH_MIN_SAMPLES && launch_clock() - start > protocol->max_seconds) {
            break;
        }
        samples[n] = time_runs(launch, runs, err);
        if (samples[n++] < 0.0) {
            return -1;
        }
    }
    *n_out = n;
    return 0;
}

// Forward results, and for the backward pass its inputs and results; runs forward once.
static int prepare(const struct bench_case *c, attn_context_t *context, struct problem *problem,
                   struct io_error *err)
{
    if (problem_create(problem, &c->options, false, err) ||
        problem_add_forward_results(problem, err) ||
        launch_once(context, problem, ATTN_FORWARD, NULL, err)) {
        return -1;
    }
    if (!c->backward) {
        return 0;
    }
    if (problem_add_gradient_inputs(problem, NULL, NULL, c->options.random_seed, err) ||
        problem_add_backward_results(problem, err)) {
        return -1;
    }
    return launch_once(context, problem, ATTN_BACKWARD, NULL, err);
}

static int measure_cpu(struct launch *launch, const struct problem *problem,
                       const struct bench_protocol *protocol, int round,
                       struct bench_result *result, struct io_error *err)
{
    double samples[BENCH_MAX_SAMPLES];
    size_t n = 0;
    return launch_load(launch, problem, err) || take_samples(launch, protocol, samples, &n, err)
               ? -1
               : bench_result_add(result, round, samples, n, err);
}

// Plans, and times what is planned.
static int measure_result(const struct bench_case *c, attn_context_t *context,
                          const struct bench_gpu *gpu, const struct problem *problem,
                          const struct bench_protocol *protocol, struct bench_set *set,
                          struct io_error *err)
{
    struct launch launch;
    const attn_op_t op = c->backward ? ATTN_BACKWARD : ATTN_FORWARD;
    int status = launch_create(&launch, context, &problem->desc, op, err);
    struct bench_result *result = status ? NULL : bench_set_result(set, c->series, c->s);
    if (result) {
        snprintf(result->kernel, sizeof(result->kernel), "%s", attn_plan_kernel_name(launch.plan));
        result->flops = count_flops(problem, c->backward);
        result->bytes = count_bytes(&problem->desc, c->backward);
        status =
            gpu ? bench_gpu_measure(gpu, &launch, problem, protocol, set->n_rounds, result, err)
                : measure_cpu(&launch, problem, protocol, set->n_rounds, result, err);
    } else if (!status) {
        status = io_fail(err, "out of memory");
    }
    launch_destroy(&launch);
    return status;
}

// Whether a GPU has no kernel for the case, which is said then.
static bool is_refused(const struct bench_case *c, attn_context_t *context)
{
    struct problem problem = {0};
    struct io_error err;
    const attn_op_t op = c->backward ? ATTN_BACKWARD : ATTN_FORWARD;
    const bool refused = problem_create(&problem, &c->options, true, &err) == 0 &&
                         attn_supports(context, &problem.desc, op) == ATTN_UNSUPPORTED;
    if (refused) {
        fprintf(stderr, "attn bench: left out: %s/%lld: %s\n", c->series, (long long)c->s,
                attn_last_error());
    }
    problem_destroy(&problem);
    return refused;
}

int bench_measure(const struct bench_case *c, attn_context_t *context, const struct bench_gpu *gpu,
                  const struct bench_protocol *protocol, struct bench_set *set, bool *wrong_out,
                  struct io_error *err)
{
    struct problem problem = {0};
    struct io_error inner = {{0}};
    *wrong_out = false;
    if (gpu && is_refused(c, context)) {
        return 0;
    }
    int status = prepare(c, context, &problem, &inner);
    if (!status && protocol->check) {
        status = bench_check(c, &problem, context, wrong_out, &inner);
    }
    status = status ? status : measure_result(c, context, gpu, &problem, protocol, set, &inner);
    if (status) {
        io_fail(err, "%s/%lld: %s", c->series, (long long)c->s, inner.text);
    }
    problem_destroy(&problem);
    return status;
}
