// Memory that runs out: every allocation that a context's allocator is asked for fails once. The
// call reports it, gives back what it had, and works when tried again.
#include "support.h"

#include <stdlib.h>

typedef struct failing_heap {
    int64_t until_failure; // allocations that still succeed; negative: all
    int64_t made;
    int64_t live;
} failing_heap_t;

static void *heap_alloc(void *user, size_t bytes)
{
    failing_heap_t *heap = user;
    if (heap->until_failure == 0) {
        return NULL;
    }
    heap->until_failure--;
    heap->made++;
    heap->live++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void heap_free(void *user, void *ptr)
{
    failing_heap_t *heap = user;
    assert_non_null(ptr);
    heap->live--;
    free(ptr);
}

// A context, two plans and a run of each. The first failure ends it; everything made is given back.
static attn_status_t use_library(failing_heap_t *heap)
{
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.alloc = heap_alloc;
    config.free = heap_free;
    config.alloc_user = heap;
    attn_context_t *context = NULL;
    attn_plan_t *forward = NULL;
    attn_plan_t *backward = NULL;
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 4, 6, 2, 1, 8);
    desc.wants_lse = 1;
    attn_status_t status = attn_context_create(&config, &context);
    if (status == ATTN_OK) {
        status = attn_plan_create(context, &desc, ATTN_FORWARD, &forward);
    }
    if (status == ATTN_OK) {
        status = attn_plan_create(context, &desc, ATTN_BACKWARD, &backward);
    }
    if (status == ATTN_OK) {
        const int64_t made = heap->made;
        float q[4 * 2 * 8] = {0};
        float kv[6 * 8] = {0};
        float o[4 * 2 * 8];
        float lse[2 * 4];
        float dq[4 * 2 * 8];
        attn_backward_args_t args;
        attn_backward_args_init(&args);
        args.in.q = q;
        args.in.k = args.in.v = kv;
        args.in.o = o;
        args.in.lse = lse;
        args.do_ = q;
        args.dq = dq;
        const size_t forward_bytes = attn_plan_workspace_bytes(forward);
        const size_t backward_bytes = attn_plan_workspace_bytes(backward);
        void *workspace = malloc(forward_bytes + backward_bytes + 1);
        assert_non_null(workspace);
        assert_ok(attn_forward(forward, &args.in, workspace, forward_bytes, NULL));
        assert_ok(attn_backward(backward, &args, workspace, backward_bytes, NULL));
        free(workspace);
        assert_int_equal(heap->made, made); // a run asks for nothing
    }
    if (status != ATTN_OK) {
        assert_true(context == NULL || forward == NULL || backward == NULL);
    }
    attn_plan_destroy(backward);
    attn_plan_destroy(forward);
    attn_context_destroy(context);
    return status;
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    failing_heap_t heap = {.until_failure = -1};
    assert_ok(use_library(&heap));
    assert_int_equal(heap.live, 0);
    const int64_t allocations = heap.made;
    assert_true(allocations >= 3); // the context and two plans at least
    for (int64_t n = 0; n < allocations; n++) {
        heap = (failing_heap_t){.until_failure = n};
        assert_fails(use_library(&heap), ATTN_OUT_OF_MEMORY, "no memory for ");
        assert_int_equal(heap.made, n);
        assert_int_equal(heap.live, 0);
    }
    heap = (failing_heap_t){.until_failure = allocations};
    assert_ok(use_library(&heap));
    assert_int_equal(heap.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_once)};
    return cmocka_run_group_tests_name("alloc_failure", tests, NULL, NULL);
}
