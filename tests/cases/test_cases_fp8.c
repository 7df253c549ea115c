// test_cases_fp8.c: 8-bit inputs, and weights that are rounded before they are summed. Cases C-118
// to C-122: README.md.
#include "case_kit.h"

#include <stdio.h>

static attn_desc_t fp8_desc(attn_dtype_t dtype, int64_t batch, int64_t s_q, int64_t s_kv,
                            int64_t heads_q, int64_t heads_kv, int64_t d)
{
    attn_desc_t desc = case_desc(dtype, batch, s_q, s_kv, heads_q, heads_kv, d);
    desc.o.dtype = attn_dtype_bytes(dtype) == 1 ? ATTN_BF16 : dtype;
    return desc;
}

// |x - truth| / |truth| over all elements.
static double relative_error(const operand_t *x, const operand_t *truth)
{
    double error = 0.0;
    double norm = 0.0;
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        const double want = operand_get(truth, w.at[0], w.at[1], w.at[2], w.at[3]);
        const double got = operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]);
        error += (got - want) * (got - want);
        norm += want * want;
    }
    return sqrt(error / norm);
}

// ---- C-118: small and large weights both survive

static void c118_error_at_every_spread_of_scores(void **state)
{
    (void)state;
    const double deviations[] = {0.25, 0.5, 1.0, 1.5, 2.0};
    for (int64_t n = 0; n < 2 * COUNT_OF(deviations); n++) {
        attn_desc_t desc = fp8_desc(n % 2 ? ATTN_F8_E5M2 : ATTN_F8_E4M3, 1, 4, 2048, 1, 1, 128);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 118));
        const double each = sqrt(deviations[n / 2]);
        case_set_normal(&p->q, 1, 0.0, each);
        case_set_normal(&p->k, 2, 0.0, each);
        case_set_normal(&p->v, 3, 1.0, 1.0);
        char why[1024];
        assert_true(problem_truth(p, why, sizeof(why)));
        results_t r = case_run(p);
        assert_true(relative_error(&r.o, &p->truth.o) <= 0.03);
        results_destroy(&r);
        case_holds(p);
    }
}

static void c118_uniform_attention_is_the_mean(void **state)
{
    (void)state;
    const int64_t lengths[] = {256, 65536};
    for (int64_t n = 0; n < 2 * COUNT_OF(lengths); n++) {
        attn_desc_t desc =
            fp8_desc(n % 2 ? ATTN_F8_E5M2 : ATTN_F8_E4M3, 1, 1, lengths[n / 2], 1, 1, 16);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 118, .fill = FILL_ZERO_Q));
        case_set_normal(&p->v, 3, 1.0, 1.0);
        results_t r = case_run(p);
        for (int64_t c = 0; c < 16; c++) {
            double mean = 0.0;
            for (int64_t j = 0; j < desc.s_kv; j++) {
                mean += operand_get(&p->v, 0, j, 0, c) / (double)desc.s_kv;
            }
            assert_true(fabs(operand_get(&r.o, 0, 0, 0, c) - mean) <= 0.01 * fabs(mean));
        }
        results_destroy(&r);
        problem_destroy(p);
    }
}

// ---- C-119: V = 1 gives 1. The rule here: the sum is of the weights as they multiply V.

static void output_is_one(const problem_t *p, const results_t *r)
{
    // 16-bit results show no rounding at all, fp32 results those of one division.
    case_all_are(&r->o, 1.0, p->full.o.dtype == ATTN_F32 ? 1e-6 : 0.0);
}

static void c119_ones_give_exactly_one(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F8_E4M3, ATTN_F8_E5M2, ATTN_BF16, ATTN_F16, ATTN_F32};
    const int64_t lengths[] = {1, 2, 100, 1000};
    for (int64_t n = 0; n < COUNT_OF(dtypes) * COUNT_OF(lengths); n++) {
        for (int kind = 0; kind < 3; kind++) {
            const int64_t s_q = kind == 0 ? 1 : 33;
            attn_desc_t desc = fp8_desc(dtypes[n / 4], 1, s_q, lengths[n % 4], 2, 1, 128);
            desc.align = ATTN_ALIGN_TOP_LEFT; // every row sees a key
            desc.causal = kind == 1;
            desc.num_splits = kind == 2 ? 1 : 4;
            problem_t *p = problem_create(&desc, OPTIONS(.seed = 119));
            case_replace_nans(&p->v, 1.0);
            operand_set_all(&p->v, 1.0);
            case_run_everywhere(p, output_is_one);
            problem_destroy(p);
        }
    }
}

// ---- C-121: decode equals prefill

static void check_decode_against_prefill(attn_dtype_t dtype, int64_t s_kv, bool invariant)
{
    attn_desc_t desc = fp8_desc(dtype, 1, s_kv, s_kv, 4, 1, 128);
    desc.causal = 1;
    desc.batch_invariant = invariant;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 121));
    results_t prefill = case_run(p);
    attn_desc_t last = desc;
    last.s_q = 1;
    problem_t *decode = problem_create(&last, OPTIONS(.seed = 121));
    memcpy(decode->k.buffer.data, p->k.buffer.data, p->k.buffer.bytes);
    memcpy(decode->v.buffer.data, p->v.buffer.data, p->v.buffer.bytes);
    case_copy_row(&decode->q, 0, 0, &p->q, 0, s_kv - 1);
    results_t row = case_run(decode);
    for (operand_walk_t w = operand_walk(&row.o); !w.done; operand_next(&row.o, &w)) {
        const double x = operand_get(&row.o, 0, 0, w.at[2], w.at[3]);
        const double y = operand_get(&prefill.o, 0, s_kv - 1, w.at[2], w.at[3]);
        if (invariant ? x != y : !(fabs(x - y) <= 8e-3 * fmax(1.0, fabs(y)))) {
            fail_msg("%s%d keys: o %.9g, prefill has %.9g", invariant ? "batch_invariant, " : "",
                     (int)s_kv, x, y);
        }
    }
    for (int64_t h = 0; h < 4; h++) {
        const double x = operand_get(&row.lse, 0, h, 0, 0);
        const double y = operand_get(&prefill.lse, 0, h, s_kv - 1, 0);
        if (invariant ? x != y : !(fabs(x - y) <= 4e-3)) {
            fail_msg("%s%d keys: lse %.9g, prefill has %.9g", invariant ? "batch_invariant, " : "",
                     (int)s_kv, x, y);
        }
    }
    results_destroy(&row);
    results_destroy(&prefill);
    problem_destroy(decode);
    problem_destroy(p);
}

static void c121_decode_equals_prefill(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F8_E4M3, ATTN_BF16, ATTN_F32, ATTN_F16};
    const int64_t lengths[] = {88, 96, 97, 128, 129, 192, 255, 256};
    for (int64_t n = 0; n < COUNT_OF(dtypes) * COUNT_OF(lengths); n++) {
        check_decode_against_prefill(dtypes[n % 4], lengths[n / 4], true);
        check_decode_against_prefill(dtypes[n % 4], lengths[n / 4], false);
    }
}

// ---- C-122: what the backward pass cannot do it says at plan time

static void c122_backward_of_fp8_is_refused(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F8_E4M3, ATTN_F8_E5M2};
    for (int64_t n = 0; n < COUNT_OF(dtypes); n++) {
        const attn_desc_t desc = fp8_desc(dtypes[n], 2, 128, 128, 4, 4, 64);
        attn_plan_t *plan = NULL;
        const attn_status_t status = attn_plan_create(NULL, &desc, ATTN_BACKWARD, &plan);
        assert_true(status == ATTN_UNSUPPORTED || status == ATTN_INVALID_ARGUMENT);
        assert_null(plan);
        assert_non_null(strstr(attn_last_error(), "dtype"));
    }
}

// Mixed dtypes are either done right or refused with both named.
static void c122_mixed_dtypes_are_right_or_refused(void **state)
{
    (void)state;
    const attn_dtype_t pairs[][2] = {{ATTN_BF16, ATTN_F8_E4M3},
                                     {ATTN_F8_E4M3, ATTN_BF16},
                                     {ATTN_F8_E4M3, ATTN_F8_E5M2},
                                     {ATTN_F32, ATTN_BF16}};
    for (int64_t n = 0; n < COUNT_OF(pairs); n++) {
        attn_desc_t desc = fp8_desc(pairs[n][0], 2, 40, 70, 4, 2, 64);
        desc.k.dtype = desc.v.dtype = pairs[n][1];
        if (attn_supports(NULL, &desc, ATTN_FORWARD) == ATTN_OK) {
            case_desc_holds(&desc, OPTIONS(.seed = 122));
        } else {
            case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "k.dtype");
        }
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c118_error_at_every_spread_of_scores),
    cmocka_unit_test(c118_uniform_attention_is_the_mean),
    cmocka_unit_test(c119_ones_give_exactly_one),
    cmocka_unit_test(c121_decode_equals_prefill),
    cmocka_unit_test(c122_backward_of_fp8_is_refused),
    cmocka_unit_test(c122_mixed_dtypes_are_right_or_refused),
};

int main(int argc, char **argv)
{
    return case_main("cases_fp8", TESTS, COUNT_OF(TESTS), argc, argv);
}
