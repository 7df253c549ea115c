// test_cases_range.c: very large and very small numbers, NaN and infinities, and what lies behind
// the last key. Cases C-034 to C-044: README.md.
#include "case_kit.h"

// ---- C-034: identical huge scores

static double g_value; // what v holds

// v's value to the bit in 16 bits; fp32 shows the roundings of two sums.
static void output_is_v(const problem_t *p, const results_t *r)
{
    const double tolerance = p->full.o.dtype == ATTN_F32 ? 0x1p-20 * fabs(g_value) : 0.0;
    case_all_are(&r->o, g_value, tolerance);
}

// Rounding of such an lse may turn a weight into 0 or 1, never into infinity.
static void output_is_v_and_gradients_are_finite(const problem_t *p, const results_t *r)
{
    output_is_v(p, r);
    case_all_are(&r->dq, 0.0, 0.0);
    case_all_are(&r->dk, 0.0, 0.0);
    case_all_finite(&r->dv);
}

static void output_is_v_and_gradients_are_exact(const problem_t *p, const results_t *r)
{
    output_is_v_and_gradients_are_finite(p, r);
    if (p->full.s_kv == 1) {
        case_all_are(&r->dv, 1.0, 0.0);
    }
}

static void check_huge(attn_desc_t desc, double q, double k, double v, case_check_fn check)
{
    for (int causal = 0; causal < 2; causal++) {
        desc.causal = causal;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 34, .backward = true));
        operand_set_all(&p->q, q);
        operand_set_all(&p->k, k);
        operand_set_all(&p->v, v);
        operand_set_all(&p->do_, 1.0);
        g_value = operand_get(&p->v, 0, 0, 0, 0);
        case_run_everywhere(p, check);
        results_t r = case_run(p);
        const double score = operand_get(&p->q, 0, 0, 0, 0) * operand_get(&p->k, 0, 0, 0, 0) * 8.0;
        const double lse = score + log((double)desc.s_kv);
        case_lse_is(&r, 0, 0, 0, lse, fabs(score) * 0x1p-20 + 1e-5);
        results_destroy(&r);
        problem_destroy(p);
    }
}

static void c034_identical_huge_inputs(void **state)
{
    (void)state;
    const int64_t lengths[] = {1, 129, 2, 64, 65, 2000};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 1, lengths[n], 1, 1, 64);
        desc.num_splits = lengths[n] == 2000 ? 4 : 0;
        check_huge(desc, 133120.0, 133120.0, 133120.0, output_is_v_and_gradients_are_exact);
    }
}

static void c034_other_identical_huge_inputs(void **state)
{
    (void)state;
    const struct {
        attn_dtype_t dtype;
        double q, k, v;
    } inputs[] = {{ATTN_BF16, -133120.0, 133120.0, 133120.0}, {ATTN_F32, 1.3e6, 1.1e6, 3.0},
                  {ATTN_F32, 12345.678, -7654.321, 1.0},      {ATTN_F16, 60000.0, 60000.0, 1024.0},
                  {ATTN_F16, -60000.0, 60000.0, 1024.0},      {ATTN_BF16, 1000.0, -1000.0, 5.0}};
    const int64_t lengths[] = {1, 2, 65, 129, 2000};
    for (int64_t n = 0; n < COUNT_OF(lengths) * COUNT_OF(inputs); n++) {
        const int64_t s_kv = lengths[n / COUNT_OF(inputs)];
        const int64_t k = n % COUNT_OF(inputs);
        attn_desc_t desc = case_desc(inputs[k].dtype, 1, 1, s_kv, 1, 1, 64);
        desc.num_splits = s_kv == 2000 ? 4 : 0;
        check_huge(desc, inputs[k].q, inputs[k].k, inputs[k].v,
                   output_is_v_and_gradients_are_finite);
    }
}

// Rows of one tile with scores of every size: each is exact on its own.
static void c034_huge_and_small_rows_together(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 40, 129, 1, 1, 64);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 34));
    operand_set_all(&p->k, 3.0e5);
    operand_set_all(&p->v, 7.0);
    for (int64_t i = 0; i < 40; i++) {
        case_set_row(&p->q, 0, i, 0, (i % 2 ? -1.0 : 1.0) * pow(10.0, (double)i / 8.0 - 4.0));
    }
    g_value = 7.0;
    case_run_everywhere(p, output_is_v);
    problem_destroy(p);
}

// ---- C-035: all scores far below any finite starting maximum

static void lse_is_far_below(const problem_t *p, const results_t *r)
{
    case_all_are(&r->o, 1.0, 0.0);
    const double s_kv = (double)p->full.s_kv;
    case_all_are(&r->lse, -46340.950 + log(s_kv), 0.05);
}

static void check_far_below(attn_desc_t desc, const problem_options_t *options)
{
    problem_t *p = problem_create(&desc, options);
    operand_set_all(&p->q, 64.0);
    operand_set_all(&p->k, -64.0);
    operand_set_all(&p->v, 1.0);
    case_run_everywhere(p, lse_is_far_below);
    problem_destroy(p);
}

static void c035_scores_below_any_sentinel(void **state)
{
    (void)state;
    const int64_t lengths[] = {1, 2, 300};
    const int splits[] = {0, 1, 4};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        const int32_t s_kv = (int32_t)lengths[n];
        const int32_t cu_q[] = {0, 3, 4};
        const int32_t cu_kv[] = {0, s_kv, 2 * s_kv};
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 3, s_kv, 8, 1, 128);
        check_far_below(desc, OPTIONS(.seed = 35));
        desc.heads_kv = 8;
        case_pack_q(&desc, cu_q, 2);
        case_pack_kv(&desc, cu_kv, 2);
        check_far_below(desc, OPTIONS(.seed = 35, .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv));
        for (int64_t k = 0; k < COUNT_OF(splits); k++) {
            attn_desc_t paged = case_desc(ATTN_BF16, 2, 1, s_kv, 32, 4, 128);
            paged.num_splits = splits[k];
            case_page_kv(&paged, 16);
            check_far_below(paged, OPTIONS(.seed = 35));
        }
    }
}

// ---- C-037, C-038: LSE below -88.72 in the backward pass

// Column 0 shifts every score by `shift`; the rest is small noise.
static void set_shifted(problem_t *p, double shift, double q0)
{
    case_set_normal(&p->q, 371, 0.0, 0.1);
    case_set_normal(&p->k, 372, 0.0, 0.1);
    for (operand_walk_t w = operand_walk(&p->q); !w.done; operand_next(&p->q, &w)) {
        if (w.at[3] == 0) {
            operand_set(&p->q, w.at[0], w.at[1], w.at[2], 0, q0);
        }
    }
    for (operand_walk_t w = operand_walk(&p->k); !w.done; operand_next(&p->k, &w)) {
        if (w.at[3] == 0) {
            operand_set(&p->k, w.at[0], w.at[1], w.at[2], 0, shift / (q0 * (double)p->full.scale));
        }
    }
}

static void all_gradients_are_finite(const problem_t *p, const results_t *r)
{
    (void)p;
    case_all_finite(&r->o);
    case_all_finite(&r->dq);
    case_all_finite(&r->dk);
    case_all_finite(&r->dv);
    case_all_finite(&r->lse);
    assert_true(operand_get(&r->lse, 0, 0, 0, 0) < -88.72);
}

typedef enum seen_by { SEEN_ALL, SEEN_MASK_ALL, SEEN_MASK_TRIL, SEEN_CAUSAL } seen_by_t;

static bool is_lower(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    return j <= i;
}

static bool is_anything(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    (void)i;
    (void)j;
    return true;
}

static void check_negative_lse(attn_dtype_t dtype, int64_t length, int64_t d, seen_by_t seen_by)
{
    attn_desc_t desc = case_desc(dtype, 1, length, length, 1, 1, d);
    desc.mask.present = seen_by == SEEN_MASK_ALL || seen_by == SEEN_MASK_TRIL;
    desc.causal = seen_by == SEEN_CAUSAL;
    problem_t *p =
        problem_create(&desc, OPTIONS(.seed = 37, .backward = true,
                                      .mask = seen_by == SEEN_MASK_TRIL ? is_lower : is_anything));
    set_shifted(p, -120.0, 1.0);
    results_t r = case_run(p);
    all_gradients_are_finite(p, &r);
    results_destroy(&r);
    if (length < 200) {
        case_holds(p);
    } else {
        case_holds_on_best(p);
    }
}

static void c037_negative_lse_with_half_full_last_tile(void **state)
{
    (void)state;
    check_negative_lse(ATTN_BF16, 704, 64, SEEN_MASK_TRIL);
    check_negative_lse(ATTN_BF16, 704, 64, SEEN_ALL);
    const int64_t lengths[] = {64, 192, 1, 33, 65, 100};
    const attn_dtype_t dtypes[] = {ATTN_BF16, ATTN_F16, ATTN_F32};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        for (int seen_by = SEEN_ALL; seen_by <= SEEN_CAUSAL; seen_by++) {
            check_negative_lse(dtypes[n % 3], lengths[n], n % 2 ? 32 : 64, (seen_by_t)seen_by);
        }
    }
    check_negative_lse(ATTN_F16, 1000, 32, SEEN_CAUSAL);
    check_negative_lse(ATTN_F16, 333, 128, SEEN_ALL);
}

static void c037_full_size(void **state)
{
    (void)state;
    const int64_t lengths[] = {704, 1000, 1216, 1280};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        check_negative_lse(ATTN_BF16, lengths[n], 64, SEEN_MASK_ALL);
        check_negative_lse(ATTN_F16, lengths[n], 128, SEEN_ALL);
    }
}

static void c037_negative_lse_packed(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 65, 66, 66, 257};
    attn_desc_t desc = case_desc(ATTN_BF16, 4, 1, 1, 2, 1, 64);
    case_pack_q(&desc, cu, 4);
    case_pack_kv(&desc, cu, 4);
    problem_t *p = problem_create(
        &desc, OPTIONS(.seed = 37, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
    set_shifted(p, -120.0, 1.0);
    case_run_everywhere(p, all_gradients_are_finite);
    case_holds(p);
}

static void c037_negative_lse_paged(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 3, 200, 2, 1, 64);
    case_page_kv(&desc, 48);
    case_desc_holds(&desc, OPTIONS(.seed = 37, .fill = FILL_NEGATIVE_LSE));
    desc.num_splits = 3;
    case_desc_holds(&desc, OPTIONS(.seed = 38, .fill = FILL_NEGATIVE_LSE));
}

static void c038_decode_shaped_backward(void **state)
{
    (void)state;
    const struct {
        int64_t s_q, s_kv;
        double shift;
    } sizes[] = {
        {1, 128, -128.0}, {1, 97, -128.0}, {1, 128, 0.0}, {3, 130, -128.0}, {1, 1, -128.0}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, sizes[n].s_q, sizes[n].s_kv, 2, 2, 64);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 38, .backward = true));
        set_shifted(p, sizes[n].shift, 8.0);
        results_t r = case_run(p);
        case_all_finite(&r.dk);
        case_all_finite(&r.dv);
        results_destroy(&r);
        case_holds(p);
    }
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 1, 128, 2, 2, 64);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 38, .backward = true));
    operand_set_all(&p->q, 0.0);
    operand_set_all(&p->k, 0.0);
    for (int64_t h = 0; h < 2; h++) {
        operand_set(&p->q, 0, 0, h, 0, 8.0);
        for (int64_t j = 0; j < 128; j++) {
            operand_set(&p->k, 0, j, h, 0, -128.0);
        }
    }
    results_t r = case_run(p);
    case_lse_is(&r, 0, 1, 0, -123.148, 0.0005);
    results_destroy(&r);
    case_holds(p);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c034_identical_huge_inputs),
    cmocka_unit_test(c034_other_identical_huge_inputs),
    cmocka_unit_test(c034_huge_and_small_rows_together),
    cmocka_unit_test(c035_scores_below_any_sentinel),
    cmocka_unit_test(c037_negative_lse_with_half_full_last_tile),
    cmocka_unit_test(c037_negative_lse_packed),
    cmocka_unit_test(c037_negative_lse_paged),
    cmocka_unit_test(c038_decode_shaped_backward),
};

static const struct CMUnitTest SLOW_TESTS[] = {cmocka_unit_test(c037_full_size)};

int main(int argc, char **argv)
{
    return case_main_tiers("cases_range", TESTS, COUNT_OF(TESTS), SLOW_TESTS, COUNT_OF(SLOW_TESTS),
                           argc, argv);
}
