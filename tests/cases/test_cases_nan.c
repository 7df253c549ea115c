// test_cases_nan.c: NaN and infinities, what lies behind the last key, and sums beyond fp16. Cases
// C-040 to C-044: README.md.
#include "case_kit.h"

// ---- C-040: NaN in what is hidden. Problems hold NaN in everything that nothing sees; with zeros
// in these places the results must be the same.

static void check_hidden_nans(const attn_desc_t *desc, const problem_options_t *options)
{
    problem_t *p = problem_create(desc, options);
    results_t with_nans = case_run(p);
    operand_t *const inputs[] = {&p->q, &p->k, &p->v, &p->do_};
    for (int n = 0; n < 4; n++) {
        case_replace_nans(inputs[n], 0.0);
    }
    results_t with_zeros = case_run(p);
    case_same_results(&with_nans, &with_zeros);
    case_all_finite(&with_nans.o);
    results_destroy(&with_nans);
    results_destroy(&with_zeros);
    problem_destroy(p);
    case_desc_holds(desc, options);
}

static bool only_key_zero(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    (void)i;
    return j == 0;
}

static bool every_third_key(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    (void)i;
    return j % 3 == 1;
}

static void c040_nan_in_hidden_keys(void **state)
{
    (void)state;
    const int32_t used[] = {1, 3};
    const attn_dtype_t dtypes[] = {ATTN_F16, ATTN_F32, ATTN_BF16};
    for (int64_t n = 0; n < COUNT_OF(dtypes); n++) {
        // (a) lengths
        attn_desc_t desc = case_desc(dtypes[n], 2, 3, 3, 1, 1, 64);
        desc.has_seqused_kv = 1;
        check_hidden_nans(&desc, OPTIONS(.seed = 40, .backward = true, .seqused_kv = used));
        // (b) the rest of a page
        attn_desc_t paged = case_desc(dtypes[n], 1, 1, 256, 2, 1, 64);
        const int32_t paged_used[] = {130};
        paged.has_seqused_kv = 1;
        case_page_kv(&paged, 128);
        check_hidden_nans(&paged, OPTIONS(.seed = 40, .seqused_kv = paged_used));
        paged.s_q = 30;
        paged.causal = 1;
        check_hidden_nans(&paged, OPTIONS(.seed = 40, .seqused_kv = paged_used));
        // (c) a mask
        attn_desc_t masked = case_desc(dtypes[n], 1, 2, 2, 1, 1, 4);
        masked.mask.present = 1;
        check_hidden_nans(&masked, OPTIONS(.seed = 40, .backward = true, .mask = only_key_zero));
        masked = case_desc(dtypes[n], 1, 70, 150, 2, 2, 24);
        masked.mask.present = 1;
        check_hidden_nans(&masked, OPTIONS(.seed = 40, .backward = true, .mask = every_third_key));
        // Left padding, a window, and both.
        attn_desc_t padded = case_desc(dtypes[n], 2, 5, 150, 2, 1, 40);
        const int32_t leftpad[] = {70, 149};
        padded.has_leftpad_kv = 1;
        check_hidden_nans(&padded, OPTIONS(.seed = 40, .backward = true, .leftpad_kv = leftpad));
        padded.window_left = 20;
        padded.window_right = 0;
        check_hidden_nans(&padded, OPTIONS(.seed = 40, .backward = true, .leftpad_kv = leftpad));
    }
}

static void c040_case_c_exactly(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 2, 2, 1, 1, 4);
    desc.mask.present = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 40, .mask = only_key_zero));
    operand_t *const inputs[] = {&p->q, &p->k, &p->v};
    for (int n = 0; n < 3; n++) {
        for (int64_t i = 0; i < 8; i++) {
            operand_set(inputs[n], 0, i / 4, 0, i % 4, (double)i);
        }
    }
    for (int step = 0; step < 3; step++) {
        results_t r = case_run(p);
        for (int64_t i = 0; i < 8; i++) {
            assert_true(operand_get(&r.o, 0, i / 4, 0, i % 4) == (double)(i % 4));
        }
        results_destroy(&r);
        operand_set(step ? &p->v : &p->k, 0, 1, 0, 0, (double)NAN);
    }
    problem_destroy(p);
}

// ---- C-041: fewer keys than one tile, memory ends behind them

static void ones_give_one(const problem_t *p, const results_t *r)
{
    const double s_q = (double)p->full.s_q;
    const double s_kv = (double)p->full.s_kv;
    case_all_are(&r->o, 1.0, 0.0);
    // Equal terms round alike: the sum may lose half an ulp with every dim.
    const double score = (double)p->full.d_qk * (double)p->full.scale;
    case_all_are(&r->lse, score + log(s_kv), score * (double)p->full.d_qk * 0x1p-24 + 2e-6);
    if (r->dq.buffer.memory != NULL) {
        case_all_are(&r->dq, 0.0, 1e-3);
        case_all_are(&r->dk, 0.0, 1e-3);
        case_all_are(&r->dv, s_q / s_kv, 2e-3 * s_q / s_kv);
    }
}

static void c041_few_keys_at_the_end_of_memory(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {{9, 20, 12}, {1, 20, 9}}; // batch, heads, rows
    for (int64_t n = 0; n < COUNT_OF(shapes); n++) {
        attn_desc_t desc = case_desc(ATTN_F16, shapes[n][0], shapes[n][2], shapes[n][2],
                                     shapes[n][1], shapes[n][1], 128);
        assert_ok(attn_desc_set_bhsd(&desc));
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 41, .fill = FILL_ONES));
        case_run_everywhere(p, ones_give_one);
        problem_destroy(p);
    }
    const int64_t lengths[] = {8, 16, 32, 64, 128, 1, 3, 63, 65};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        attn_desc_t desc = case_desc(ATTN_F16, 1, lengths[n], lengths[n], 1, 1, 128);
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 41, .fill = FILL_ONES, .backward = true));
        case_run_everywhere(p, ones_give_one);
        problem_destroy(p);
    }
}

// ---- C-043: NaN and infinity that are seen come out

static bool row_is_nan(const operand_t *x, int64_t b, int64_t s, int64_t h)
{
    for (int64_t c = 0; c < x->dims[3]; c++) {
        if (!isnan(operand_get(x, b, s, h, c))) {
            return false;
        }
    }
    return true;
}

static bool row_is_finite(const operand_t *x, int64_t b, int64_t s, int64_t h)
{
    for (int64_t c = 0; c < x->dims[3]; c++) {
        if (!isfinite(operand_get(x, b, s, h, c))) {
            return false;
        }
    }
    return true;
}

static void everything_is_nan(const problem_t *p, const results_t *r)
{
    (void)p;
    for (operand_walk_t w = operand_walk(&r->o); !w.done; operand_next(&r->o, &w)) {
        assert_true(isnan(operand_get(&r->o, w.at[0], w.at[1], w.at[2], w.at[3])));
    }
}

// Head 0 of batch entry 0 has a bad key 3, causal.
static void rows_from_three_on_are_nan(const problem_t *p, const results_t *r)
{
    for (int64_t b = 0; b < p->full.batch; b++) {
        for (int64_t h = 0; h < p->full.heads_q; h++) {
            for (int64_t i = 0; i < p->full.s_q; i++) {
                const bool sees = b == 0 && h == 0 && i >= 3;
                assert_true(sees ? row_is_nan(&r->o, b, i, h) : row_is_finite(&r->o, b, i, h));
            }
        }
    }
}

// Row 5 of head 1 of batch entry 0 has a bad query.
static void row_five_is_nan(const problem_t *p, const results_t *r)
{
    for (int64_t b = 0; b < p->full.batch; b++) {
        for (int64_t h = 0; h < p->full.heads_q; h++) {
            for (int64_t i = 0; i < p->full.s_q; i++) {
                const bool is_bad = b == 0 && h == 1 && i == 5;
                assert_true(is_bad ? row_is_nan(&r->o, b, i, h) : row_is_finite(&r->o, b, i, h));
            }
        }
    }
}

static void c043_nan_in_gives_nan_out(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    const int64_t lengths[] = {16, 100};
    for (int64_t n = 0; n < COUNT_OF(dtypes) * COUNT_OF(lengths); n++) {
        const int64_t s = lengths[n / 3];
        attn_desc_t desc = case_desc(dtypes[n % 3], 2, s, s, 4, 4, 8);
        desc.causal = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 43));
        operand_set(&p->k, 0, 3, 0, 0, (double)NAN);
        case_run_everywhere(p, rows_from_three_on_are_nan);
        case_holds(p);

        p = problem_create(&desc, OPTIONS(.seed = 43));
        for (int64_t c = 0; c < 8; c++) {
            operand_set(&p->v, 0, 3, 0, c, (double)NAN);
        }
        case_run_everywhere(p, rows_from_three_on_are_nan);
        case_holds(p);

        p = problem_create(&desc, OPTIONS(.seed = 43));
        operand_set(&p->q, 0, 5, 1, 2, (double)NAN);
        case_run_everywhere(p, row_five_is_nan);
        operand_set(&p->q, 0, 5, 1, 2, (double)INFINITY);
        case_run_everywhere(p, row_five_is_nan);
        operand_set(&p->q, 0, 5, 1, 2, (double)-INFINITY);
        case_run_everywhere(p, row_five_is_nan);
        problem_destroy(p);

        p = problem_create(&desc, OPTIONS(.seed = 43));
        operand_set_all(&p->q, (double)NAN);
        case_run_everywhere(p, everything_is_nan);
        case_holds(p);
    }
}

static void c043_nan_gradients_stay_where_they_belong(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        attn_desc_t desc = case_desc(seed % 2 ? ATTN_F32 : ATTN_BF16, 2, 33, 70, 2, 1, 8);
        desc.causal = seed % 4 > 1;
        case_desc_holds(&desc, OPTIONS(.seed = seed, .backward = true, .visible_nans = 2));
    }
}

static void first_row_is_empty(const problem_t *p, const results_t *r)
{
    (void)p;
    case_row_is_empty(r, 0, 0, 0);
    assert_true(row_is_nan(&r->o, 0, 1, 0));
}

static void c043_empty_row_stays_zero_with_nan_query(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 3, 2, 1, 1, 8);
    desc.causal = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 43, .backward = true));
    operand_set_all(&p->q, (double)NAN);
    case_run_everywhere(p, first_row_is_empty);
    problem_destroy(p);
}

// ---- C-044: nothing is accumulated in fp16

static const int SPLITS[] = {0, 1, 7, 64};

static void c044_row_sum_beyond_fp16(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F16, 1, 1, 65536, 1, 1, 128);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 44, .fill = FILL_ONES));
    operand_set_all(&p->q, 0.0);
    for (int64_t n = 0; n < COUNT_OF(SPLITS); n++) {
        desc.num_splits = SPLITS[n];
        results_t r = case_run_as(p, &desc);
        case_all_are(&r.o, 1.0, 0.0);
        case_lse_is(&r, 0, 0, 0, 11.0904, 1e-4);
        results_destroy(&r);
    }
    problem_destroy(p);
}

static void output_is_mean_of_v(const problem_t *p, const results_t *r)
{
    for (int64_t c = 0; c < p->full.d_v; c++) {
        double sum = 0.0;
        for (int64_t j = 0; j < p->full.s_kv; j++) {
            sum += operand_get(&p->v, 0, j, 0, c);
        }
        const double mean = sum / (double)p->full.s_kv;
        for (int64_t i = 0; i < p->full.s_q; i++) {
            const double got = operand_get(&r->o, 0, i, 0, c);
            assert_true(fabs(got - mean) <= 2e-3 * fabs(mean) + 2e-3);
        }
    }
    case_all_are(&r->lse, 11585.238 + log((double)p->full.s_kv), 0.005);
}

static void c044_scores_beyond_fp16(void **state)
{
    (void)state;
    for (int64_t n = 0; n < COUNT_OF(SPLITS); n++) {
        attn_desc_t desc = case_desc(ATTN_F16, 1, n % 2 ? 1 : 5, 1000, 1, 1, 128);
        desc.num_splits = SPLITS[n];
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 44));
        operand_set_all(&p->q, 32.0);
        operand_set_all(&p->k, 32.0);
        case_run_everywhere(p, output_is_mean_of_v);
        problem_destroy(p);
    }
}

static void output_is_sixty_thousand(const problem_t *p, const results_t *r)
{
    (void)p;
    case_all_are(&r->o, 60000.0, 0.0);
}

static void c044_values_near_the_largest_fp16(void **state)
{
    (void)state;
    for (int64_t n = 0; n < COUNT_OF(SPLITS); n++) {
        attn_desc_t desc = case_desc(ATTN_F16, 1, n % 2 ? 1 : 5, 4096, 1, 1, 16);
        desc.num_splits = SPLITS[n];
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 44, .fill = FILL_ZERO_Q));
        operand_set_all(&p->v, 60000.0);
        case_run_everywhere(p, output_is_sixty_thousand);
        problem_destroy(p);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c040_nan_in_hidden_keys),
    cmocka_unit_test(c040_case_c_exactly),
    cmocka_unit_test(c041_few_keys_at_the_end_of_memory),
    cmocka_unit_test(c043_nan_in_gives_nan_out),
    cmocka_unit_test(c043_nan_gradients_stay_where_they_belong),
    cmocka_unit_test(c043_empty_row_stays_zero_with_nan_query),
    cmocka_unit_test(c044_row_sum_beyond_fp16),
    cmocka_unit_test(c044_scores_beyond_fp16),
    cmocka_unit_test(c044_values_near_the_largest_fp16),
};

int main(int argc, char **argv)
{
    return case_main("cases_nan", TESTS, COUNT_OF(TESTS), argc, argv);
}
