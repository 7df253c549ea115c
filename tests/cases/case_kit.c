// case_kit.c: see case_kit.h.
#include "case_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Between two orders of summation on a GPU: a step or two of bf16 results.
#define GPU_ROUNDING 0.02

attn_desc_t case_desc(attn_dtype_t dtype, int64_t batch, int64_t s_q, int64_t s_kv, int64_t heads_q,
                      int64_t heads_kv, int64_t d)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, batch, s_q, s_kv, heads_q, heads_kv, d);
    desc.backend = ATTN_BACKEND_CPU;
    desc.wants_lse = 1;
    desc.deterministic = 1; // bits are compared
    return desc;
}

static int64_t longest(const int32_t *cu_seqlens, int64_t batch)
{
    int64_t most = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t rows = cu_seqlens[b + 1] - cu_seqlens[b];
        most = rows > most ? rows : most;
    }
    return most;
}

void case_pack_q(attn_desc_t *desc, const int32_t *cu_seqlens, int64_t batch)
{
    desc->batch = batch;
    desc->varlen_q = 1;
    desc->s_q = longest(cu_seqlens, batch);
    desc->total_q = cu_seqlens[batch];
}

void case_pack_kv(attn_desc_t *desc, const int32_t *cu_seqlens, int64_t batch)
{
    desc->batch = batch;
    desc->varlen_kv = 1;
    desc->s_kv = longest(cu_seqlens, batch);
    desc->total_kv = cu_seqlens[batch];
}

void case_page_kv(attn_desc_t *desc, int64_t page_size)
{
    desc->paged_kv = 1;
    desc->page_size = page_size;
    desc->pages_per_seq = (desc->s_kv + page_size - 1) / page_size;
    desc->num_pages = desc->batch * desc->pages_per_seq;
}

// ---------------------------------------------------------------------------------------------

// The best instruction set, or the GPU where the tests are to use it and it has a kernel.
static runner_t best_runner(const problem_t *problem)
{
    runner_t runners[ATTN_ISA_COUNT];
    const int count = problem_runners(problem, runners);
    return count > 0 ? runners[count - 1] : (runner_t){.backend = ATTN_BACKEND_CPU};
}

void case_holds(problem_t *problem)
{
    assert_problem_holds(problem);
    problem_destroy(problem);
}

void case_holds_on_best(problem_t *problem)
{
    const runner_t runner = best_runner(problem);
    assert_problem_holds_on(problem, &runner);
    problem_destroy(problem);
}

void case_desc_holds(const attn_desc_t *desc, const problem_options_t *options)
{
    case_holds(problem_create(desc, options));
}

void case_run_everywhere(const problem_t *problem, case_check_fn check)
{
    runner_t runners[ATTN_ISA_COUNT + 1];
    int count = problem_runners(problem, runners);
    runners[count++] = (runner_t){.backend = ATTN_BACKEND_REFERENCE};
    for (int n = 0; n < count; n++) {
        results_t results = assert_problem_runs(problem, &runners[n]);
        check(problem, &results);
        results_destroy(&results);
    }
}

results_t case_run(const problem_t *problem)
{
    const runner_t runner = best_runner(problem);
    return assert_problem_runs(problem, &runner);
}

results_t case_run_on_cpu(const problem_t *problem)
{
    attn_isa_t isas[ATTN_ISA_COUNT];
    const runner_t runner = {.backend = ATTN_BACKEND_CPU, .isa = isas[problem_isas(isas) - 1]};
    return assert_problem_runs(problem, &runner);
}

results_t case_run_as(const problem_t *problem, const attn_desc_t *desc)
{
    problem_t other = *problem;
    other.desc = *desc;
    other.full = problem_resolve(desc);
    return case_run(&other);
}

// ---------------------------------------------------------------------------------------------

void case_run_plan(const attn_desc_t *desc, attn_op_t op, const void *args)
{
    attn_plan_t *plan;
    assert_ok(attn_plan_create(NULL, desc, op, &plan));
    guard_buffer_t workspace = guard_buffer_create(attn_plan_workspace_bytes(plan), 0);
    assert_ok(op == ATTN_FORWARD
                  ? attn_forward(plan, args, workspace.data, workspace.bytes, NULL)
                  : attn_backward(plan, args, workspace.data, workspace.bytes, NULL));
    assert_true(guard_buffer_intact(&workspace));
    guard_buffer_destroy(&workspace);
    attn_plan_destroy(plan);
}

void case_count_up(problem_t *problem, operand_t *x)
{
    for (int64_t b = 0; b < problem->full.batch; b++) {
        const int64_t len = problem_sequence(problem, b).len_kv;
        for (int64_t j = 0; j < len; j++) {
            int64_t kv_b;
            int64_t kv_s;
            problem_locate_key(problem, b, j, &kv_b, &kv_s);
            for (int64_t h = 0; h < x->dims[2]; h++) {
                for (int64_t c = 0; c < x->dims[3]; c++) {
                    operand_set(x, kv_b, kv_s, h, c, (double)j);
                }
            }
        }
    }
}

void case_set_normal(operand_t *x, uint64_t seed, double base, double deviation)
{
    test_rng_t rng = test_rng_at(seed, 1);
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        operand_set(x, w.at[0], w.at[1], w.at[2], w.at[3],
                    base + deviation * test_rng_normal(&rng));
    }
}

void case_set_row(operand_t *x, int64_t b, int64_t s, int64_t h, double value)
{
    for (int64_t c = 0; c < x->dims[3]; c++) {
        operand_set(x, b, s, h, c, value);
    }
}

void case_copy_row(operand_t *to, int64_t to_b, int64_t to_s, const operand_t *from, int64_t from_b,
                   int64_t from_s)
{
    for (int64_t h = 0; h < to->dims[2]; h++) {
        for (int64_t c = 0; c < to->dims[3]; c++) {
            operand_set(to, to_b, to_s, h, c, operand_get(from, from_b, from_s, h, c));
        }
    }
}

void case_replace_nans(operand_t *x, double value)
{
    for (int64_t n = 0; n < x->count; n++) {
        if (isnan(test_number_get(x->dtype, x->buffer.data, n))) {
            test_number_set(x->dtype, x->buffer.data, n, value);
        }
    }
}

int32_t *case_list(guard_buffer_t *list)
{
    return (int32_t *)(void *)list->data;
}

static void element_is(const operand_t *x, const int64_t at[4], double value, double tolerance)
{
    const double got = operand_get(x, at[0], at[1], at[2], at[3]);
    if (got != value && !(fabs(got - value) <= tolerance)) {
        fail_msg("%s[%lld][%lld][%lld][%lld] is %.9g, expected %.9g within %g", x->name,
                 (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3], got, value,
                 tolerance);
    }
}

void case_row_is(const operand_t *x, int64_t b, int64_t s, int64_t h, double value,
                 double tolerance)
{
    for (int64_t c = 0; c < x->dims[3]; c++) {
        element_is(x, (int64_t[4]){b, s, h, c}, value, tolerance);
    }
}

void case_all_are(const operand_t *x, double value, double tolerance)
{
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        element_is(x, w.at, value, tolerance);
    }
}

void case_all_finite(const operand_t *x)
{
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        const double got = operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (!isfinite(got)) {
            fail_msg("%s[%lld][%lld][%lld][%lld] is %g", x->name, (long long)w.at[0],
                     (long long)w.at[1], (long long)w.at[2], (long long)w.at[3], got);
        }
    }
}

void case_lse_is(const results_t *results, int64_t b, int64_t h, int64_t s, double value,
                 double tolerance)
{
    element_is(&results->lse, (int64_t[4]){b, h, s, 0}, value, tolerance);
}

void case_row_is_empty(const results_t *results, int64_t b, int64_t s, int64_t h)
{
    case_row_is(&results->o, b, s, h, 0.0, 0.0);
    case_lse_is(results, b, h, s, -INFINITY, 0.0);
    if (results->dq.buffer.memory != NULL) {
        case_row_is(&results->dq, b, s, h, 0.0, 0.0);
    }
}

void case_same_bits(const operand_t *x, const operand_t *y)
{
    if (operand_equal_bits(x, y)) {
        return;
    }
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        const double a = operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]);
        const double b = operand_get(y, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (a != b && !(isnan(a) && isnan(b))) {
            fail_msg("%s[%lld][%lld][%lld][%lld] is %.9g in one run, %.9g in the other", x->name,
                     (long long)w.at[0], (long long)w.at[1], (long long)w.at[2], (long long)w.at[3],
                     a, b);
        }
    }
    fail_msg("%s: the values are equal, the bits are not", x->name);
}

bool case_is_comparable(const results_t *x, const results_t *y)
{
    return (x->backend == ATTN_BACKEND_CUDA) == (y->backend == ATTN_BACKEND_CUDA);
}

void case_same_result_bits(const results_t *x, const results_t *y)
{
    if (!case_is_comparable(x, y)) {
        return;
    }
    case_same_bits(&x->o, &y->o);
    case_same_bits(&x->lse, &y->lse);
    case_same_bits(&x->dq, &y->dq);
    case_same_bits(&x->dk, &y->dk);
    case_same_bits(&x->dv, &y->dv);
    case_same_bits(&x->dsink, &y->dsink);
    case_same_bits(&x->dbias, &y->dbias);
}

void case_same_results(const results_t *x, const results_t *y)
{
    if (x->backend != ATTN_BACKEND_CUDA) {
        case_same_result_bits(x, y);
        return;
    }
    const operand_t *const a[] = {&x->o, &x->lse, &x->dq, &x->dk, &x->dv};
    const operand_t *const b[] = {&y->o, &y->lse, &y->dq, &y->dk, &y->dv};
    for (size_t n = 0; n < sizeof(a) / sizeof(a[0]); n++) {
        assert_true(a[n]->buffer.memory == NULL || case_distance(a[n], b[n]) <= GPU_ROUNDING);
    }
}

double case_distance(const operand_t *x, const operand_t *y)
{
    double most = 0.0;
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        const double a = operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]);
        const double b = operand_get(y, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (isnan(a) != isnan(b)) {
            return (double)NAN;
        }
        if (a != b && !isnan(a)) {
            most = fmax(most, fabs(a - b));
        }
    }
    return most;
}

// ---------------------------------------------------------------------------------------------

void case_refused(const attn_desc_t *desc, attn_op_t op, attn_status_t status, const char *text)
{
    attn_plan_t *plan = NULL;
    const attn_status_t got = attn_plan_create(NULL, desc, op, &plan);
    attn_plan_destroy(plan);
    assert_fails(got, status, text);
    assert_fails(attn_supports(NULL, desc, op), status, text);
}

void case_run_refused(const problem_t *problem, const char *text)
{
    attn_plan_t *plan;
    assert_ok(attn_plan_create(NULL, &problem->desc, ATTN_FORWARD, &plan));
    guard_buffer_t workspace = guard_buffer_create(attn_plan_workspace_bytes(plan), 0);
    results_t results = results_create(problem, &problem->full);
    const attn_forward_args_t args = problem_forward_args(problem, &results);
    assert_fails(attn_forward(plan, &args, workspace.data, workspace.bytes, NULL),
                 ATTN_INVALID_ARGUMENT, text);
    const operand_t *written[] = {&results.o, &results.lse};
    for (int n = 0; n < 2; n++) {
        assert_true(guard_buffer_intact(&written[n]->buffer));
        assert_true(guard_buffer_is_fill(&written[n]->buffer, 0, written[n]->buffer.bytes));
    }
    results_destroy(&results);
    guard_buffer_destroy(&workspace);
    attn_plan_destroy(plan);
}

void case_watchdog(unsigned seconds)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    seconds *= 6;
#endif
    alarm(seconds);
}

int case_main(const char *group, const struct CMUnitTest *tests, int64_t count, int argc,
              char **argv)
{
    return case_main_tiers(group, tests, count, NULL, 0, argc, argv);
}

int case_main_tiers(const char *group, const struct CMUnitTest *tests, int64_t count,
                    const struct CMUnitTest *slow_tests, int64_t slow_count, int argc, char **argv)
{
    const bool is_slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    const bool is_filter = argc > 1 && !is_slow;
    int failed = 0;
    if (problem_wants_missing_gpu()) {
        return 77;
    }
    if (is_filter) {
        cmocka_set_test_filter(argv[1]);
    }
    if (!is_slow) {
        failed += _cmocka_run_group_tests(group, tests, (size_t)count, NULL, NULL);
    }
    if (slow_count > 0 && (is_slow || is_filter)) {
        failed += _cmocka_run_group_tests(group, slow_tests, (size_t)slow_count, NULL, NULL);
    }
    if (failed != 0) {
        printf("rerun one test: %s NAME ('*' and '?' match)\n", argv[0]);
    }
    return failed == 0 ? 0 : 1;
}
