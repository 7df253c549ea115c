// The forward pass on a GPU against fp64, by the tolerance rule: problems drawn from all that the
// kernels have. Says so and exits with 77 where there is no GPU that has one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_problem.h"

enum { PROBLEMS = 150, WHY_BYTES = 512 };

// Twice, and the bits must be the same.
static void run(const problem_t *p, results_t *results)
{
    attn_desc_t desc = p->desc;
    desc.backend = ATTN_BACKEND_CUDA;
    attn_plan_t *plan;
    if (attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan) != ATTN_OK) {
        fail_msg("%s", attn_last_error());
    }
    const size_t bytes = attn_plan_workspace_bytes(plan);
    gpu_copy_t workspace = gpu_copy_create(NULL, bytes);
    results_t first = results_create(p, &p->full);
    *results = results_create(p, &p->full);
    for (int i = 0; i < 2; i++) {
        gpu_problem_t gpu = gpu_problem_create(p, i == 0 ? &first : results);
        if (attn_forward(plan, &gpu.forward, workspace.data, bytes, NULL) != ATTN_OK) {
            fail_msg("%s: %s", attn_plan_kernel_name(plan), attn_last_error());
        }
        gpu_copy_wait();
        assert_true(gpu_problem_fetch(&gpu));
        gpu_problem_destroy(&gpu);
    }
    assert_true(operand_equal_bits(&first.o, &results->o));
    assert_true(operand_equal_bits(&first.lse, &results->lse));
    results_destroy(&first);
    gpu_copy_destroy(&workspace);
    attn_plan_destroy(plan);
}

// A problem that the kernels have: every mask by intervals, every length, GQA, sinks, head dims,
// pages.
static attn_desc_t draw(test_rng_t *rng)
{
    static const int64_t dims[] = {8, 16, 37, 64, 72, 96, 128, 128, 136, 192, 256};
    attn_desc_t desc;
    attn_desc_init(&desc, test_rng_chance(rng, 50) ? ATTN_BF16 : ATTN_F16);
    const int64_t heads_kv = test_rng_range(rng, 1, 3);
    const int64_t longest = test_rng_chance(rng, 20) ? 1500 : 400;
    attn_desc_set_shape(&desc, test_rng_range(rng, 1, 4), test_rng_range(rng, 1, longest),
                        test_rng_range(rng, 1, longest), heads_kv * test_rng_range(rng, 1, 4),
                        heads_kv, dims[test_rng_range(rng, 0, 10)]);
    desc.d_v = test_rng_chance(rng, 30) ? dims[test_rng_range(rng, 0, 10)] : desc.d_qk;
    desc.wants_lse = 1;
    desc.causal = test_rng_chance(rng, 40);
    desc.align = test_rng_chance(rng, 30) ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
    desc.window_left = test_rng_chance(rng, 30) ? test_rng_range(rng, 0, 300) : -1;
    desc.window_right = test_rng_chance(rng, 20) ? test_rng_range(rng, 0, 300) : -1;
    desc.has_sink = test_rng_chance(rng, 30);
    desc.has_seqused_q = test_rng_chance(rng, 20);
    desc.has_seqused_kv = test_rng_chance(rng, 30);
    desc.has_leftpad_kv = test_rng_chance(rng, 20);
    desc.scale = test_rng_chance(rng, 20) ? 0.5f : desc.scale;
    if (test_rng_chance(rng, 30)) {
        desc.varlen_q = 1;
        desc.total_q = desc.batch * desc.s_q;
    }
    if (test_rng_chance(rng, 30)) {
        desc.varlen_kv = 1;
        desc.total_kv = desc.batch * desc.s_kv;
    } else if (test_rng_chance(rng, 30)) {
        desc.paged_kv = 1;
        desc.page_size = test_rng_range(rng, 1, 100);
        desc.pages_per_seq = desc.s_kv / desc.page_size + 1;
        desc.num_pages = desc.batch * desc.pages_per_seq;
    } else if (test_rng_chance(rng, 20)) {
        desc.has_kv_batch_idx = 1;
        desc.kv_batch = desc.batch + 2;
    }
    if (test_rng_chance(rng, 10)) {
        desc.q.stride_d = test_rng_range(rng, 2, 3);
    }
    return desc;
}

static void test_drawn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
        test_rng_t rng = test_rng_at(seed, 0);
        const attn_desc_t desc = draw(&rng);
        const problem_options_t options = {.seed = seed,
                                           .fill = test_rng_chance(&rng, 30) ? FILL_CORRELATED
                                                                             : FILL_NORMAL,
                                           .visible_nans = test_rng_chance(&rng, 10) ? 2 : 0};
        problem_t *const problem = problem_create(&desc, &options);
        results_t results;
        char why[WHY_BYTES];
        run(problem, &results);
        if (!problem_judge(problem, &results, why, sizeof(why))) {
            print_error("seed %llu, b %lld, s %lld/%lld, h %lld/%lld, d %lld/%lld: %s\n",
                        (unsigned long long)seed, (long long)desc.batch, (long long)desc.s_q,
                        (long long)desc.s_kv, (long long)desc.heads_q, (long long)desc.heads_kv,
                        (long long)desc.d_qk, (long long)desc.d_v, why);
            fail();
        }
        results_destroy(&results);
        problem_destroy(problem);
    }
}

int main(void)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 1, 64, 64, 1, 1, 64);
    desc.backend = ATTN_BACKEND_CUDA;
    if (attn_supports(NULL, &desc, ATTN_FORWARD) != ATTN_OK) {
        print_message("skipped: %s\n", attn_last_error());
        return 77;
    }
    gpu_copy_open(0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn)};
    return cmocka_run_group_tests_name("gpu_forward", tests, NULL, NULL);
}
