// One plan in many threads at once, contexts that come and go meanwhile, errors of each thread's
// own, and a worker pool that really runs in parallel. Results do not depend on any of it. Runs
// under ThreadSanitizer too.
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 20, S = 70, HEADS = 2, DIM = 16 };
enum { ELEMENTS = S * HEADS * DIM };

static float inputs[3][ELEMENTS];
static float expected[ELEMENTS];

static void forward(const attn_plan_t *plan, float *o)
{
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = inputs[0];
    args.k = inputs[1];
    args.v = inputs[2];
    args.o = o;
    const size_t bytes = attn_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    assert_non_null(workspace);
    assert_ok(attn_forward(plan, &args, workspace, bytes, NULL));
    free(workspace);
}

static attn_desc_t causal_desc(void)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, S, S, HEADS, HEADS, DIM);
    desc.causal = 1;
    return desc;
}

// ---------------------------------------------------------------------------------------------
// A pool: as many threads as workers, which take indices from a counter

typedef struct pool_call {
    attn_task_fn task;
    void *task_arg;
    int64_t count;
    atomic_int_fast64_t next;
} pool_call_t;

typedef struct pool_worker {
    pool_call_t *call;
    int32_t worker;
} pool_worker_t;

static void *pool_main(void *arg)
{
    const pool_worker_t *self = arg;
    int64_t i;
    while ((i = atomic_fetch_add(&self->call->next, 1)) < self->call->count) {
        self->call->task(self->call->task_arg, i, self->worker);
    }
    return NULL;
}

static void pool_for(void *user, int64_t count, attn_task_fn task, void *task_arg)
{
    const int32_t *workers = user;
    pool_call_t call = {.task = task, .task_arg = task_arg, .count = count};
    pthread_t threads[THREADS];
    pool_worker_t args[THREADS];
    for (int32_t w = 0; w < *workers; w++) {
        args[w] = (pool_worker_t){&call, w};
        assert_int_equal(pthread_create(&threads[w], NULL, pool_main, &args[w]), 0);
    }
    for (int32_t w = 0; w < *workers; w++) {
        assert_int_equal(pthread_join(threads[w], NULL), 0);
    }
}

static attn_context_t *pool_context(int32_t *workers)
{
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.workers = *workers;
    config.parallel_for = pool_for;
    config.parallel_for_user = workers;
    attn_context_t *context = NULL;
    assert_ok(attn_context_create(&config, &context));
    return context;
}

static void any_number_of_workers_gives_the_same_bits(void **state)
{
    (void)state;
    const attn_desc_t desc = causal_desc();
    for (int32_t workers = 1; workers <= THREADS; workers++) {
        attn_context_t *context = pool_context(&workers);
        attn_plan_t *plan = NULL;
        assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plan));
        attn_context_destroy(context);
        float o[ELEMENTS];
        forward(plan, o);
        assert_memory_equal(o, expected, sizeof(o));
        attn_plan_destroy(plan);
    }
}

// ---------------------------------------------------------------------------------------------

typedef struct shared_plan {
    const attn_plan_t *plan;
    int32_t number; // of the thread
} shared_plan_t;

static void *run_shared(void *arg)
{
    const shared_plan_t *shared = arg;
    float o[ELEMENTS];
    for (int round = 0; round < ROUNDS; round++) {
        memset(o, 0xff, sizeof(o));
        forward(shared->plan, o);
        assert_memory_equal(o, expected, sizeof(o));
    }
    return NULL;
}

// Makes plans on the default context and on its own, and errors that only it sees.
static void *make_and_break(void *arg)
{
    const shared_plan_t *shared = arg;
    attn_desc_t desc = causal_desc();
    for (int round = 0; round < ROUNDS; round++) {
        attn_context_t *context = NULL;
        assert_ok(attn_context_create(NULL, &context));
        attn_plan_t *plans[2] = {NULL, NULL};
        assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plans[0]));
        assert_ok(attn_plan_create(NULL, &desc, ATTN_BACKWARD, &plans[1]));
        attn_context_destroy(context);
        attn_desc_t bad = desc;
        bad.window_left = -100 - shared->number;
        char text[64];
        snprintf(text, sizeof(text), "window_left: %d,", -100 - (int)shared->number);
        assert_fails(attn_supports(NULL, &bad, ATTN_FORWARD), ATTN_INVALID_ARGUMENT, text);
        attn_plan_destroy(plans[0]);
        attn_plan_destroy(plans[1]);
    }
    return NULL;
}

static void in_threads(void *(*body)(void *), const attn_plan_t *plan)
{
    pthread_t threads[THREADS];
    shared_plan_t args[THREADS];
    for (int32_t t = 0; t < THREADS; t++) {
        args[t] = (shared_plan_t){plan, t};
        assert_int_equal(pthread_create(&threads[t], NULL, body, &args[t]), 0);
    }
    for (int32_t t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    }
}

static void one_plan_in_many_threads(void **state)
{
    (void)state;
    int32_t workers = 2;
    attn_context_t *context = pool_context(&workers);
    const attn_desc_t desc = causal_desc();
    attn_plan_t *plan = NULL;
    assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plan));
    attn_context_destroy(context);
    in_threads(run_shared, plan);
    attn_plan_destroy(plan);
}

// The first test of the program: the default context is made by all threads at once.
static void contexts_and_errors_in_many_threads(void **state)
{
    (void)state;
    in_threads(make_and_break, NULL);
}

static int prepare(void **state)
{
    (void)state;
    test_rng_t rng = test_rng_at(5, 0);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < ELEMENTS; i++) {
            inputs[t][i] = (float)test_rng_normal(&rng);
        }
    }
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.workers = 1;
    attn_context_t *context = NULL;
    assert_ok(attn_context_create(&config, &context));
    const attn_desc_t desc = causal_desc();
    attn_plan_t *plan = NULL;
    assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plan));
    forward(plan, expected);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_and_errors_in_many_threads),
        cmocka_unit_test(any_number_of_workers_gives_the_same_bits),
        cmocka_unit_test(one_plan_in_many_threads),
    };
    return cmocka_run_group_tests_name("api_threads", tests, prepare, NULL);
}
