// Attention over keys that are dealt out to several parts, as in context parallelism: the merged
// partial results are those of the whole, and the backward pass of each part with the merged o and
// lse gives its share of the whole's gradients. The merge is also compared with its own formula.
#include "support.h"

#include <math.h>
#include <stdlib.h>

#define PARTS 3

typedef struct dealing {
    int64_t parts; // 1: all keys
    int64_t part;
    uint64_t seed;
} dealing_t;

// The whole's mask at random, and of it the keys of one part.
static bool dealt_mask(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const dealing_t *dealing = user;
    test_rng_t rng = test_rng_at(dealing->seed, (uint64_t)(((b * 64 + h) * 1024 + i) * 1024 + j));
    return test_rng_chance(&rng, 40) && j % dealing->parts == dealing->part;
}

static problem_t *dealt_problem(attn_backend_t backend, dealing_t *dealing)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 2, 21, 34, 4, 2, 9);
    desc.backend = backend;
    desc.wants_lse = desc.has_dlse = desc.mask.present = 1;
    desc.softcap = 3.0f;
    const problem_options_t options = {.seed = dealing->seed,
                                       .backward = true,
                                       .no_nan_unseen = true,
                                       .mask = dealt_mask,
                                       .user = dealing};
    return problem_create(&desc, &options);
}

static void copy_data(const operand_t *from, operand_t *to)
{
    memcpy(to->buffer.data, from->buffer.data, from->buffer.bytes);
}

static void add_data(const operand_t *from, operand_t *to)
{
    for (int64_t n = 0; n < from->count; n++) {
        const double sum = test_number_get(ATTN_F32, from->buffer.data, n) +
                           test_number_get(ATTN_F32, to->buffer.data, n);
        test_number_set(ATTN_F32, to->buffer.data, n, sum);
    }
}

// The formula of attn.h in fp64 for one row: writes (d) values and returns the lse.
static double naive_merge(const float *o_part, const float *lse_part, int64_t part_rows,
                          int64_t row, int64_t lse_row, int64_t d, double *o)
{
    double sum = 0.0;
    for (int64_t p = 0; p < PARTS; p++) {
        const double lse = lse_part[p * part_rows + lse_row];
        sum += isinf(lse) ? 0.0 : exp(lse);
    }
    for (int64_t c = 0; c < d; c++) {
        o[c] = 0.0;
        for (int64_t p = 0; p < PARTS && sum > 0.0; p++) {
            const double lse = lse_part[p * part_rows + lse_row];
            if (!isinf(lse)) {
                o[c] += exp(lse) / sum * o_part[(p * part_rows + row) * d + c];
            }
        }
    }
    return log(sum);
}

static void check_naive(const problem_t *whole, const float *o_part, const float *lse_part,
                        const results_t *merged)
{
    const int64_t batch = whole->full.batch;
    const int64_t s_q = whole->full.s_q;
    const int64_t heads = whole->full.heads_q;
    const int64_t d = whole->full.d_v;
    double o[16];
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < s_q; i++) {
                const double lse =
                    naive_merge(o_part, lse_part, batch * s_q * heads, (b * s_q + i) * heads + h,
                                (b * heads + h) * s_q + i, d, o);
                const double got = operand_get(&merged->lse, b, h, i, 0);
                assert_true(got == lse || fabs(got - lse) <= 1e-6 * fmax(1.0, fabs(lse)));
                for (int64_t c = 0; c < d; c++) {
                    assert_true(fabs(operand_get(&merged->o, b, i, h, c) - o[c]) <= 1e-6);
                }
            }
        }
    }
}

// Forward of every part into (parts, ...) memory, merged into the results.
static void run_forward_parts(const problem_t *whole, problem_t *const parts[PARTS],
                              results_t *merged)
{
    const size_t o_bytes = merged->o.buffer.bytes;
    const size_t lse_bytes = merged->lse.buffer.bytes;
    guard_buffer_t o_part = guard_buffer_create(PARTS * o_bytes, 0);
    guard_buffer_t lse_part = guard_buffer_create(PARTS * lse_bytes, 0);
    for (int n = 0; n < PARTS; n++) {
        problem_t forward_only = *parts[n];
        forward_only.options.backward = false;
        results_t r =
            assert_problem_runs(&forward_only, &(runner_t){.backend = whole->desc.backend});
        memcpy(o_part.data + (size_t)n * o_bytes, r.o.buffer.data, o_bytes);
        memcpy(lse_part.data + (size_t)n * lse_bytes, r.lse.buffer.data, lse_bytes);
        results_destroy(&r);
    }
    attn_merge_desc_t desc;
    attn_merge_desc_init(&desc, ATTN_F32);
    desc.backend = whole->desc.backend;
    desc.parts = PARTS;
    desc.batch = whole->full.batch;
    desc.s_q = whole->full.s_q;
    desc.heads_q = whole->full.heads_q;
    desc.d_v = whole->full.d_v;
    const float *o_parts = (const float *)(const void *)o_part.data;
    const float *lse_parts = (const float *)(const void *)lse_part.data;
    assert_ok(attn_merge(NULL, &desc, o_parts, lse_parts, operand_data(&merged->o),
                         operand_data(&merged->lse), NULL));
    check_naive(whole, o_parts, lse_parts, merged);
    guard_buffer_destroy(&o_part);
    guard_buffer_destroy(&lse_part);
}

// Adds the gradients that a part gives with the merged o and lse.
static void add_backward_part(const problem_t *part, results_t *merged)
{
    attn_plan_t *plan = NULL;
    results_t r = results_create(part, &part->full);
    copy_data(&merged->o, &r.o);
    copy_data(&merged->lse, &r.lse);
    assert_ok(attn_plan_create(NULL, &part->desc, ATTN_BACKWARD, &plan));
    guard_buffer_t workspace = guard_buffer_create(attn_plan_workspace_bytes(plan), 0);
    const attn_backward_args_t args = problem_backward_args(part, &r);
    assert_ok(attn_backward(plan, &args, workspace.data, workspace.bytes, NULL));
    add_data(&r.dq, &merged->dq);
    add_data(&r.dk, &merged->dk);
    add_data(&r.dv, &merged->dv);
    guard_buffer_destroy(&workspace);
    attn_plan_destroy(plan);
    results_destroy(&r);
}

static void check_backend(attn_backend_t backend, uint64_t seed)
{
    dealing_t all = {.parts = 1, .part = 0, .seed = seed};
    dealing_t dealt[PARTS];
    problem_t *parts[PARTS];
    char why[1024];
    problem_t *whole = dealt_problem(backend, &all);
    for (int n = 0; n < PARTS; n++) {
        dealt[n] = (dealing_t){.parts = PARTS, .part = n, .seed = seed};
        parts[n] = dealt_problem(backend, &dealt[n]);
        copy_data(&whole->q, &parts[n]->q);
        copy_data(&whole->k, &parts[n]->k);
        copy_data(&whole->v, &parts[n]->v);
        copy_data(&whole->do_, &parts[n]->do_);
        copy_data(&whole->dlse, &parts[n]->dlse);
    }
    results_t merged = results_create(whole, &whole->full);
    operand_set_all(&merged.dq, 0.0);
    operand_set_all(&merged.dk, 0.0);
    operand_set_all(&merged.dv, 0.0);
    run_forward_parts(whole, parts, &merged);
    for (int n = 0; n < PARTS; n++) {
        add_backward_part(parts[n], &merged);
        problem_destroy(parts[n]);
    }
    if (!problem_judge(whole, &merged, why, sizeof(why))) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, why);
    }
    results_destroy(&merged);
    problem_destroy(whole);
}

static void test_parts_make_the_whole_on_the_cpu(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        check_backend(ATTN_BACKEND_CPU, seed);
    }
}

static void test_parts_make_the_whole_on_the_reference(void **state)
{
    (void)state;
    check_backend(ATTN_BACKEND_REFERENCE, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_make_the_whole_on_the_cpu),
        cmocka_unit_test(test_parts_make_the_whole_on_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
