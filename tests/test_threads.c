// Threads: every number of workers and every order of tasks gives the same bits, the library keeps
// to the contract of the caller's parallel-for, and one plan runs from many threads at once. Built
// under ThreadSanitizer too: the pools here are plain pthreads, which it understands.
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_problem.h"

#define THREADS_MAX 7

// ---------------------------------------------------------------------------------------------
// A parallel-for that runs tasks in a random order on threads of its own

typedef struct shuffled_pool {
    int32_t workers;
    uint64_t seed;
    atomic_int_fast64_t calls;
    atomic_int overlapping_workers; // a worker number used by two tasks at once: must stay 0
    atomic_int busy[THREADS_MAX];
} shuffled_pool_t;

typedef struct pool_job {
    shuffled_pool_t *pool;
    const int64_t *order;
    int64_t count;
    atomic_int_fast64_t next;
    attn_task_fn task;
    void *task_arg;
} pool_job_t;

typedef struct pool_thread {
    pool_job_t *job;
    int32_t worker;
    pthread_t thread;
} pool_thread_t;

static void *pool_main(void *arg)
{
    pool_thread_t *self = arg;
    pool_job_t *job = self->job;
    atomic_int *busy = &job->pool->busy[self->worker];
    for (int64_t n; (n = atomic_fetch_add(&job->next, 1)) < job->count;) {
        if (atomic_exchange(busy, 1) != 0) {
            atomic_store(&job->pool->overlapping_workers, 1);
        }
        job->task(job->task_arg, job->order[n], self->worker);
        atomic_store(busy, 0);
    }
    return NULL;
}

static int64_t *shuffled(int64_t count, uint64_t seed)
{
    test_rng_t rng = test_rng_at(seed, (uint64_t)count);
    int64_t *order = malloc((size_t)(count + 1) * sizeof(*order));
    if (order == NULL) {
        abort();
    }
    for (int64_t n = 0; n < count; n++) {
        order[n] = n;
    }
    for (int64_t n = count - 1; n > 0; n--) {
        const int64_t other = test_rng_range(&rng, 0, n);
        const int64_t swap = order[n];
        order[n] = order[other];
        order[other] = swap;
    }
    return order;
}

static void shuffled_parallel_for(void *user, int64_t count, attn_task_fn task, void *task_arg)
{
    shuffled_pool_t *pool = user;
    int64_t *order = shuffled(count, pool->seed);
    pool_job_t job = {
        .pool = pool, .order = order, .count = count, .task = task, .task_arg = task_arg};
    pool_thread_t threads[THREADS_MAX];
    atomic_fetch_add(&pool->calls, 1);
    for (int32_t n = 0; n < pool->workers; n++) {
        threads[n] = (pool_thread_t){.job = &job, .worker = n};
        if (pthread_create(&threads[n].thread, NULL, pool_main, &threads[n]) != 0) {
            abort();
        }
    }
    for (int32_t n = 0; n < pool->workers; n++) {
        pthread_join(threads[n].thread, NULL);
    }
    free(order);
}

// ---------------------------------------------------------------------------------------------
// Problems: many heads, one head, few queries with many keys, everything at random

static attn_desc_t shape(attn_dtype_t dtype, int64_t batch, int64_t s_q, int64_t s_kv,
                         int64_t heads_q, int64_t heads_kv, int64_t d)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, batch, s_q, s_kv, heads_q, heads_kv, d);
    desc.wants_lse = 1;
    return desc;
}

#define PROBLEMS 8

static problem_t *problem_number(int n)
{
    problem_options_t options = {.seed = (uint64_t)n, .backward = true};
    attn_desc_t desc;
    switch (n) {
    case 0: desc = shape(ATTN_F32, 2, 70, 90, 6, 2, 24); break;
    case 1: desc = shape(ATTN_F32, 1, 200, 200, 1, 1, 16); break;
    case 2:
        desc = shape(ATTN_BF16, 1, 1, 900, 4, 1, 32);
        options.backward = false;
        break;
    case 3:
        desc = shape(ATTN_BF16, 2, 130, 130, 4, 4, 40);
        desc.causal = 1;
        break;
    case 4:
        desc = shape(ATTN_F16, 3, 40, 60, 4, 2, 17);
        desc.bias.present = desc.dbias.present = 1;
        desc.bias.dtype = desc.dbias.dtype = ATTN_F32;
        desc.bias.stride_b = desc.dbias.stride_b = 0;
        desc.dbias.stride_h = 0;
        desc.has_sink = desc.wants_dsink = 1;
        break;
    default: {
        random_problem_t drawn = random_problem_draw(77, (uint64_t)n);
        desc = drawn.desc;
        options = drawn.options;
    }
    }
    return problem_create(&desc, &options);
}

static void assert_same_bits(const results_t *x, const results_t *y)
{
    const operand_t *all_x[] = {&x->o, &x->lse, &x->dq, &x->dk, &x->dv, &x->dsink, &x->dbias};
    const operand_t *all_y[] = {&y->o, &y->lse, &y->dq, &y->dk, &y->dv, &y->dsink, &y->dbias};
    for (size_t n = 0; n < sizeof(all_x) / sizeof(all_x[0]); n++) {
        if (!operand_equal_bits(all_x[n], all_y[n])) {
            fail_msg("%s has other bits", all_x[n]->name);
        }
    }
}

// ---------------------------------------------------------------------------------------------

static void test_workers_do_not_change_bits(void **state)
{
    (void)state;
    static const int32_t workers[] = {2, 3, 7};
    attn_isa_t isas[ATTN_ISA_COUNT];
    const int isa_count = problem_isas(isas);
    for (int n = 0; n < PROBLEMS; n++) {
        problem_t *p = problem_number(n);
        for (int isa = 0; isa < isa_count; isa++) {
            runner_t runner = {.backend = ATTN_BACKEND_CPU, .isa = isas[isa], .workers = 1};
            results_t alone = assert_problem_runs(p, &runner);
            for (int w = 0; w < 3; w++) {
                runner.workers = workers[w];
                results_t together = assert_problem_runs(p, &runner);
                assert_same_bits(&alone, &together);
                results_destroy(&together);
            }
            results_destroy(&alone);
        }
        problem_destroy(p);
    }
}

static void test_order_of_tasks_does_not_change_bits(void **state)
{
    (void)state;
    static const int32_t workers[] = {1, 3, 7};
    for (int n = 0; n < PROBLEMS; n++) {
        problem_t *p = problem_number(n);
        results_t alone =
            assert_problem_runs(p, &(runner_t){.backend = ATTN_BACKEND_CPU, .workers = 1});
        for (int w = 0; w < 3; w++) {
            shuffled_pool_t pool = {.workers = workers[w], .seed = (uint64_t)(n * 10 + w)};
            const runner_t runner = {.backend = ATTN_BACKEND_CPU,
                                     .workers = pool.workers,
                                     .parallel_for = shuffled_parallel_for,
                                     .parallel_for_user = &pool};
            results_t shuffled_results = assert_problem_runs(p, &runner);
            assert_same_bits(&alone, &shuffled_results);
            assert_int_equal(atomic_load(&pool.overlapping_workers), 0);
            // A single task may run without the pool; the first problem has many.
            assert_true(n > 0 || workers[w] == 1 || atomic_load(&pool.calls) > 0);
            results_destroy(&shuffled_results);
        }
        results_destroy(&alone);
        problem_destroy(p);
    }
}

static void test_reference_order_does_not_change_bits(void **state)
{
    (void)state;
    attn_desc_t desc = shape(ATTN_F64, 2, 9, 11, 4, 2, 5);
    problem_t *p = problem_create(&desc, &(problem_options_t){.seed = 5, .backward = true});
    results_t alone =
        assert_problem_runs(p, &(runner_t){.backend = ATTN_BACKEND_REFERENCE, .workers = 1});
    shuffled_pool_t pool = {.workers = 5, .seed = 9};
    results_t shuffled_results =
        assert_problem_runs(p, &(runner_t){.backend = ATTN_BACKEND_REFERENCE,
                                           .workers = 5,
                                           .parallel_for = shuffled_parallel_for,
                                           .parallel_for_user = &pool});
    assert_same_bits(&alone, &shuffled_results);
    results_destroy(&alone);
    results_destroy(&shuffled_results);
    problem_destroy(p);
}

// ---------------------------------------------------------------------------------------------
// One plan, many threads

typedef struct shared_plan {
    const problem_t *problem;
    const attn_plan_t *forward;
    const attn_plan_t *backward;
    const results_t *expected;
    atomic_int failures;
} shared_plan_t;

static bool same_bits(const results_t *x, const results_t *y)
{
    return operand_equal_bits(&x->o, &y->o) && operand_equal_bits(&x->lse, &y->lse) &&
           operand_equal_bits(&x->dq, &y->dq) && operand_equal_bits(&x->dk, &y->dk) &&
           operand_equal_bits(&x->dv, &y->dv);
}

static void *run_shared_plan(void *arg)
{
    shared_plan_t *shared = arg;
    for (int n = 0; n < 4; n++) {
        char why[512];
        results_t results;
        if (problem_run_plans(shared->problem, shared->forward, shared->backward,
                              &shared->problem->full, &results, why, sizeof(why)) != ATTN_OK) {
            atomic_fetch_add(&shared->failures, 1);
            continue;
        }
        if (!same_bits(&results, shared->expected)) {
            atomic_fetch_add(&shared->failures, 1);
        }
        results_destroy(&results);
    }
    return NULL;
}

static void test_one_plan_from_many_threads(void **state)
{
    (void)state;
    static const int numbers[] = {0, 3, 4};
    for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
        problem_t *p = problem_number(numbers[n]);
        const runner_t runner = {.backend = ATTN_BACKEND_CPU, .workers = 1};
        results_t expected = assert_problem_runs(p, &runner);
        attn_context_t *context = runner_context(&runner);
        shared_plan_t shared = {.problem = p, .expected = &expected};
        attn_plan_t *forward = NULL;
        attn_plan_t *backward = NULL;
        attn_desc_t desc = p->desc;
        desc.backend = ATTN_BACKEND_CPU;
        assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &forward));
        assert_ok(attn_plan_create(context, &desc, ATTN_BACKWARD, &backward));
        attn_context_destroy(context); // the plans keep it alive
        shared.forward = forward;
        shared.backward = backward;
        pthread_t threads[THREADS_MAX];
        for (int t = 0; t < THREADS_MAX; t++) {
            assert_int_equal(pthread_create(&threads[t], NULL, run_shared_plan, &shared), 0);
        }
        for (int t = 0; t < THREADS_MAX; t++) {
            pthread_join(threads[t], NULL);
        }
        assert_int_equal(atomic_load(&shared.failures), 0);
        attn_plan_destroy(forward);
        attn_plan_destroy(backward);
        results_destroy(&expected);
        problem_destroy(p);
    }
}

// The default context, made at first use, and the error text, which is per thread.
static void *use_default_context(void *arg)
{
    atomic_int *failures = arg;
    for (int n = 0; n < 20; n++) {
        attn_desc_t desc = shape(ATTN_F32, 1, 3, 3, 1, 1, 4);
        attn_plan_t *plan = NULL;
        desc.backend = ATTN_BACKEND_CPU;
        if (attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan) != ATTN_OK) {
            atomic_fetch_add(failures, 1);
        }
        attn_plan_destroy(plan);
        plan = NULL;
        desc.s_q = -1 - n;
        char expected[32];
        snprintf(expected, sizeof(expected), "s_q: %d", -1 - n);
        if (attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan) != ATTN_INVALID_ARGUMENT ||
            strstr(attn_last_error(), expected) == NULL) {
            atomic_fetch_add(failures, 1);
        }
    }
    return NULL;
}

static void test_default_context_from_many_threads(void **state)
{
    (void)state;
    atomic_int failures = 0;
    pthread_t threads[THREADS_MAX];
    for (int t = 0; t < THREADS_MAX; t++) {
        assert_int_equal(pthread_create(&threads[t], NULL, use_default_context, &failures), 0);
    }
    for (int t = 0; t < THREADS_MAX; t++) {
        pthread_join(threads[t], NULL);
    }
    assert_int_equal(atomic_load(&failures), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_context_from_many_threads),
        cmocka_unit_test(test_workers_do_not_change_bits),
        cmocka_unit_test(test_order_of_tasks_does_not_change_bits),
        cmocka_unit_test(test_reference_order_does_not_change_bits),
        cmocka_unit_test(test_one_plan_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
