// The backward pass on a GPU against fp64, by the tolerance rule: problems drawn from all that the
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

enum { PROBLEMS = 100, WHY_BYTES = 512 };

// A problem that the kernels have: every mask by intervals, every length, GQA, head dims.
static attn_desc_t draw(test_rng_t *rng)
{
    static const int64_t dims[] = {8, 16, 40, 64, 72, 96, 128, 128, 136, 192, 256};
    const int64_t last = (int64_t)(sizeof(dims) / sizeof(dims[0])) - 1;
    attn_desc_t desc;
    attn_desc_init(&desc, test_rng_chance(rng, 50) ? ATTN_BF16 : ATTN_F16);
    const int64_t heads_kv = test_rng_range(rng, 1, 3);
    const int64_t longest = test_rng_chance(rng, 20) ? 700 : 250;
    attn_desc_set_shape(&desc, test_rng_range(rng, 1, 4), test_rng_range(rng, 1, longest),
                        test_rng_range(rng, 1, longest), heads_kv * test_rng_range(rng, 1, 4),
                        heads_kv, dims[test_rng_range(rng, 0, last)]);
    desc.d_v = test_rng_chance(rng, 30) ? dims[test_rng_range(rng, 0, last)] : desc.d_qk;
    desc.wants_lse = 1;
    desc.has_dlse = test_rng_chance(rng, 30);
    desc.causal = test_rng_chance(rng, 40);
    desc.align = test_rng_chance(rng, 30) ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
    desc.window_left = test_rng_chance(rng, 30) ? test_rng_range(rng, 0, 300) : -1;
    desc.window_right = test_rng_chance(rng, 20) ? test_rng_range(rng, 0, 300) : -1;
    desc.has_sink = test_rng_chance(rng, 30);
    desc.wants_dsink = desc.has_sink && test_rng_chance(rng, 70);
    desc.deterministic = test_rng_chance(rng, 30);
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
    }
    return desc;
}

static void expect_same_bits(const problem_t *problem, const runner_t *runner)
{
    results_t first;
    results_t second;
    char why[WHY_BYTES];
    if (problem_run(problem, runner, &first, why, sizeof(why)) != ATTN_OK ||
        problem_run(problem, runner, &second, why, sizeof(why)) != ATTN_OK) {
        fail_msg("%s", why);
    }
    assert_true(operand_equal_bits(&first.dq, &second.dq));
    assert_true(operand_equal_bits(&first.dk, &second.dk));
    assert_true(operand_equal_bits(&first.dv, &second.dv));
    assert_true(operand_equal_bits(&first.dsink, &second.dsink));
    results_destroy(&first);
    results_destroy(&second);
}

static void test_drawn(void **state)
{
    (void)state;
    const runner_t runner = {.backend = ATTN_BACKEND_CUDA};
    for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
        test_rng_t rng = test_rng_at(seed, 0);
        const attn_desc_t desc = draw(&rng);
        const problem_options_t options = {.seed = seed,
                                           .backward = true,
                                           .no_dq = test_rng_chance(&rng, 5),
                                           .no_dk = test_rng_chance(&rng, 5),
                                           .no_dv = test_rng_chance(&rng, 5),
                                           .fill = test_rng_chance(&rng, 30) ? FILL_CORRELATED
                                                                             : FILL_NORMAL,
                                           .visible_nans = test_rng_chance(&rng, 10) ? 2 : 0};
        problem_t *const problem = problem_create(&desc, &options);
        char why[WHY_BYTES];
        assert_true(problem_has_gpu_kernel(problem, ATTN_BACKWARD));
        if (!problem_holds_on(problem, &runner, why, sizeof(why))) {
            print_error("seed %llu, b %lld, s %lld/%lld, h %lld/%lld, d %lld/%lld: %s\n",
                        (unsigned long long)seed, (long long)desc.batch, (long long)desc.s_q,
                        (long long)desc.s_kv, (long long)desc.heads_q, (long long)desc.heads_kv,
                        (long long)desc.d_qk, (long long)desc.d_v, why);
            fail();
        }
        if (desc.deterministic) {
            expect_same_bits(problem, &runner);
        }
        problem_destroy(problem);
    }
}

int main(void)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 1, 64, 64, 1, 1, 64);
    desc.backend = ATTN_BACKEND_CUDA;
    desc.wants_lse = 1;
    if (attn_supports(NULL, &desc, ATTN_BACKWARD) != ATTN_OK) {
        print_message("skipped: %s\n", attn_last_error());
        return 77;
    }
    gpu_copy_open(0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn)};
    return cmocka_run_group_tests_name("gpu_backward", tests, NULL, NULL);
}
