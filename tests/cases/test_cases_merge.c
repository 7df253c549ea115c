// test_cases_merge.c: the log-sum-exp that the library writes and reads, and joining partial
// results. Cases C-046 to C-053: README.md.
#include "case_kit.h"

// ---- C-046: an empty row is -inf on every path

static void rows_see_their_share(const problem_t *p, const results_t *r)
{
    for (int64_t i = 0; i < p->full.s_q; i++) {
        const int64_t seen = i + p->full.s_kv - p->full.s_q + 1;
        for (int64_t h = 0; h < p->full.heads_q; h++) {
            if (p->full.s_kv == 0 || seen <= 0) {
                case_row_is_empty(r, 0, i, h);
            } else {
                case_lse_is(r, 0, h, i, log((double)seen), 1e-5);
            }
        }
    }
}

static void c046_lse_of_empty_rows_on_every_path(void **state)
{
    (void)state;
    const int splits[] = {0, 1, 2, 8};
    for (int64_t n = 0; n < COUNT_OF(splits); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 4, 0, 2, 1, 32);
        desc.num_splits = splits[n];
        desc.causal = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 46, .backward = true));
        case_run_everywhere(p, rows_see_their_share);
        problem_destroy(p);

        desc.s_kv = 2;
        p = problem_create(&desc, OPTIONS(.seed = 46, .fill = FILL_ZERO_Q, .backward = true));
        case_run_everywhere(p, rows_see_their_share);
        case_holds(p);

        attn_desc_t paged = case_desc(ATTN_BF16, 1, 8, 5, 8, 2, 128);
        paged.num_splits = splits[n];
        paged.causal = 1;
        case_page_kv(&paged, 16);
        p = problem_create(&paged, OPTIONS(.seed = 46, .fill = FILL_ZERO_Q));
        case_run_everywhere(p, rows_see_their_share);
        case_holds(p);
    }
}

// ---- C-047: the lse of packed queries is (heads, total_q)

static void check_packed_lse(const int32_t cu_q[5], bool is_paged)
{
    const int32_t cu_kv[] = {0, 100, 100, 613, 620};
    const int32_t used[] = {100, 0, 513, 7};
    const int splits[] = {1, 2, 4, 0};
    attn_desc_t desc = case_desc(ATTN_BF16, 4, 1, 513, 8, 2, 128);
    case_pack_q(&desc, cu_q, 4);
    if (is_paged) {
        desc.has_seqused_kv = 1;
        case_page_kv(&desc, 16);
    } else {
        case_pack_kv(&desc, cu_kv, 4);
    }
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 47, .cu_seqlens_q = cu_q,
                                                 .cu_seqlens_kv = cu_kv, .seqused_kv = used));
    char why[1024];
    for (int64_t n = 0; n < COUNT_OF(splits); n++) {
        desc.num_splits = splits[n];
        results_t r = case_run_as(p, &desc);
        for (int64_t i = 0; i < cu_q[4]; i++) {
            const bool is_empty = i >= cu_q[1] && i < cu_q[2];
            for (int64_t h = 0; h < 8; h++) {
                assert_true(is_empty == (operand_get(&r.lse, 0, h, i, 0) == -INFINITY));
            }
        }
        if (!problem_judge(p, &r, why, sizeof(why))) {
            fail_msg("num_splits %d: %s", splits[n], why);
        }
        results_destroy(&r);
    }
    case_holds(p);
}

static void c047_packed_lse_of_an_empty_sequence(void **state)
{
    (void)state;
    const int32_t ones[] = {0, 1, 2, 3, 4};
    const int32_t mixed[] = {0, 3, 4, 9, 11};
    for (int is_paged = 0; is_paged < 2; is_paged++) {
        check_packed_lse(ones, is_paged);
        check_packed_lse(mixed, is_paged);
    }
}

// ---- C-049, C-050: merging two states

typedef struct merged {
    float o, lse;
} merged_t;

// Merges two one-row states whose o are all x and all y, of dim 64.
static merged_t merge_two(float x, float lse_x, float y, float lse_y)
{
    float o_part[2][64];
    float o[64];
    float lse = (float)NAN;
    const float lse_part[2] = {lse_x, lse_y};
    attn_merge_desc_t desc;
    attn_merge_desc_init(&desc, ATTN_F32);
    desc.backend = ATTN_BACKEND_CPU;
    desc.parts = 2;
    desc.batch = desc.s_q = desc.heads_q = 1;
    desc.d_v = 64;
    for (int c = 0; c < 64; c++) {
        o_part[0][c] = x;
        o_part[1][c] = y;
        o[c] = (float)NAN;
    }
    assert_ok(attn_merge(NULL, &desc, o_part[0], lse_part, o, &lse, NULL));
    for (int c = 1; c < 64; c++) {
        assert_memory_equal(&o[c], &o[0], sizeof(o[0]));
    }
    return (merged_t){o[0], lse};
}

static void merge_is(float x, float lse_x, float y, float lse_y, float o, float lse)
{
    for (int swapped = 0; swapped < 2; swapped++) {
        const merged_t got =
            swapped ? merge_two(y, lse_y, x, lse_x) : merge_two(x, lse_x, y, lse_y);
        if (got.o != o || got.lse != lse) {
            fail_msg("merge of (%g, %g) and (%g, %g) is (%.9g, %.9g), expected (%.9g, %.9g)",
                     (double)x, (double)lse_x, (double)y, (double)lse_y, (double)got.o,
                     (double)got.lse, (double)o, (double)lse);
        }
    }
}

static void c049_merging_empty_states(void **state)
{
    (void)state;
    const float nan = (float)NAN;
    const float inf = (float)INFINITY;
    merge_is(0.0f, -inf, 0.0f, -inf, 0.0f, -inf);
    merge_is(nan, -inf, nan, -inf, 0.0f, -inf);
    merge_is(nan, -inf, 3.25f, 0.5f, 3.25f, 0.5f);
    merge_is(inf, -inf, -7.0f, -300.0f, -7.0f, -300.0f);
    // +inf is how some libraries mark an empty row.
    merge_is(nan, inf, 3.25f, 0.5f, 3.25f, 0.5f);
    merge_is(1.0f, inf, nan, -inf, 0.0f, -inf);
    merge_is(1.0f, inf, 2.0f, inf, 0.0f, -inf);
}

static void c049_nan_that_counts_stays(void **state)
{
    (void)state;
    merged_t got = merge_two((float)NAN, 1.0f, 3.0f, 0.5f);
    assert_true(isnan(got.o));
    got = merge_two(2.0f, (float)NAN, 3.0f, 0.5f);
    assert_true(isnan(got.o) && isnan(got.lse));
}

static void c050_lse_update_does_not_overflow(void **state)
{
    (void)state;
    merge_is(1.0f, -100.0f, 2.0f, 100.0f, 2.0f, 100.0f);
    merge_is(1.0f, 0.0f, 2.0f, 89.0f, 2.0f, 89.0f);
    merge_is(1.0f, -(float)INFINITY, 2.0f, 3.0f, 2.0f, 3.0f);
    merge_is(2.0f, 3.0f, 1.0f, -(float)INFINITY, 2.0f, 3.0f);
    merge_is(1.0f, 1e5f, 2.0f, -1e5f, 1.0f, 1e5f);
    merge_is(1.0f, 3e38f, 2.0f, -3e38f, 1.0f, 3e38f);
    // Equal weights, also far away from 0.
    const float places[] = {0.0f, -100.0f, 100.0f, -46340.0f};
    for (int64_t n = 0; n < COUNT_OF(places); n++) {
        const merged_t got = merge_two(1.0f, places[n], 2.0f, places[n]);
        assert_true(fabs((double)got.o - 1.5) < 1e-6);
        assert_true(fabs((double)got.lse - ((double)places[n] + log(2.0))) < 0.004);
    }
}

// ---- C-052: backward reads the packed lse as (heads, total_q)

static void c052_backward_reads_packed_lse_by_head(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 37, 128, 256};
    attn_desc_t desc = case_desc(ATTN_BF16, 3, 1, 1, 4, 2, 64);
    case_pack_q(&desc, cu, 3);
    case_pack_kv(&desc, cu, 3);
    problem_t *p = problem_create(
        &desc, OPTIONS(.seed = 52, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
    for (operand_walk_t w = operand_walk(&p->q); !w.done; operand_next(&p->q, &w)) {
        const double factor = 1.0 + (double)(w.at[1] % 7);
        const double value = operand_get(&p->q, 0, w.at[1], w.at[2], w.at[3]);
        operand_set(&p->q, 0, w.at[1], w.at[2], w.at[3], factor * value);
    }
    results_t r = case_run(p);
    char why[1024];
    assert_true(problem_truth(p, why, sizeof(why)));
    assert_true(problem_judge(p, &r, why, sizeof(why)));
    // This data would show a transposed lse: with one the gradients are wrong.
    results_t copy = results_create(p, &p->full);
    memcpy(copy.o.buffer.data, r.o.buffer.data, r.o.buffer.bytes);
    for (int64_t n = 0; n < 4 * 256; n++) {
        operand_set(&copy.lse, 0, n / 256, n % 256, 0, operand_get(&r.lse, 0, n % 4, n / 4, 0));
    }
    attn_plan_t *plan;
    assert_ok(attn_plan_create(NULL, &p->desc, ATTN_BACKWARD, &plan));
    guard_buffer_t workspace = guard_buffer_create(attn_plan_workspace_bytes(plan), 0);
    const attn_backward_args_t args = problem_backward_args(p, &copy);
    assert_ok(attn_backward(plan, &args, workspace.data, workspace.bytes, NULL));
    memcpy(copy.lse.buffer.data, r.lse.buffer.data, r.lse.buffer.bytes);
    assert_false(problem_judge(p, &copy, why, sizeof(why)));
    guard_buffer_destroy(&workspace);
    attn_plan_destroy(plan);
    results_destroy(&copy);
    results_destroy(&r);
    case_holds(p);
}

// ---- C-053: the gradient that comes in through the lse

static attn_desc_t c053_desc(attn_dtype_t dtype, bool has_sink, bool has_empty_rows)
{
    attn_desc_t desc = case_desc(dtype, 1, has_empty_rows ? 8 : 3, 6, 2, 2, 8);
    desc.has_dlse = 1;
    desc.has_sink = has_sink;
    desc.wants_dsink = has_sink;
    desc.causal = has_empty_rows;
    return desc;
}

static void c053_gradient_through_lse(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_BF16};
    for (int n = 0; n < 16; n++) {
        const attn_desc_t desc = c053_desc(dtypes[n % 2], n / 2 % 2, n / 4 % 2);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 53, .backward = true));
        operand_set_all(&p->dlse, 0.7);
        operand_set_all(&p->do_, n / 8 ? 0.0 : 1.0);
        case_holds(p);
    }
}

// sum(out) + 0.7 * sum(lse) over rows that see something, in fp64 by the reference.
static double c053_loss(const problem_t *p)
{
    const runner_t runner = {.backend = ATTN_BACKEND_REFERENCE};
    results_t r = assert_problem_runs(p, &runner);
    double loss = 0.0;
    for (operand_walk_t w = operand_walk(&r.o); !w.done; operand_next(&r.o, &w)) {
        loss += operand_get(&r.o, w.at[0], w.at[1], w.at[2], w.at[3]);
    }
    for (operand_walk_t w = operand_walk(&r.lse); !w.done; operand_next(&r.lse, &w)) {
        const double lse = operand_get(&r.lse, w.at[0], w.at[1], w.at[2], 0);
        loss += lse == -INFINITY ? 0.0 : 0.7 * lse;
    }
    results_destroy(&r);
    return loss;
}

// Central differences of the loss against a gradient. The lse is fp32: steps are wide, the
// tolerance is what its rounding allows.
static void check_differences(problem_t *p, operand_t *x, const operand_t *gradient)
{
    const double step = 0.02;
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        const double value = operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (isnan(value)) {
            continue; // nothing sees it
        }
        double loss[2];
        for (int n = 0; n < 2; n++) {
            operand_set(x, w.at[0], w.at[1], w.at[2], w.at[3], value + (n ? step : -step));
            loss[n] = c053_loss(p);
        }
        operand_set(x, w.at[0], w.at[1], w.at[2], w.at[3], value);
        const double expected = (loss[1] - loss[0]) / (2.0 * step);
        const double got = operand_get(gradient, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (!(fabs(got - expected) <= 2e-3 * (1.0 + fabs(expected)))) {
            fail_msg("d%s[%lld][%lld][%lld][%lld] is %.9g, differences say %.9g", x->name,
                     (long long)w.at[0], (long long)w.at[1], (long long)w.at[2], (long long)w.at[3],
                     got, expected);
        }
    }
}

static void c053_gradient_through_lse_by_differences(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        const attn_desc_t desc = c053_desc(ATTN_F32, n % 2, n / 2);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 54, .backward = true));
        if (n % 2) {
            operand_set(&p->sink, 0, 0, 0, 0, 0.3);
            operand_set(&p->sink, 0, 1, 0, 0, -1.2);
        }
        operand_set_all(&p->dlse, 0.7);
        operand_set_all(&p->do_, 1.0);
        results_t r = case_run(p);
        check_differences(p, &p->q, &r.dq);
        check_differences(p, &p->k, &r.dk);
        check_differences(p, &p->v, &r.dv);
        if (n % 2) {
            check_differences(p, &p->sink, &r.dsink);
        }
        results_destroy(&r);
        problem_destroy(p);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c046_lse_of_empty_rows_on_every_path),
    cmocka_unit_test(c047_packed_lse_of_an_empty_sequence),
    cmocka_unit_test(c049_merging_empty_states),
    cmocka_unit_test(c049_nan_that_counts_stays),
    cmocka_unit_test(c050_lse_update_does_not_overflow),
    cmocka_unit_test(c052_backward_reads_packed_lse_by_head),
    cmocka_unit_test(c053_gradient_through_lse),
    cmocka_unit_test(c053_gradient_through_lse_by_differences),
};

int main(int argc, char **argv)
{
    return case_main("cases_merge", TESTS, COUNT_OF(TESTS), argc, argv);
}
