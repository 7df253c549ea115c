// test_cases_empty.c: rows that see no key, and where causal begins when queries and keys differ in
// number. Cases C-001 to C-010 of the failure catalogue: README.md.
#include "case_kit.h"

// ---- C-001: causal, more queries than keys

static void first_rows_are_empty(const problem_t *p, const results_t *r)
{
    const int64_t empty = p->full.s_q - p->full.s_kv;
    for (int64_t h = 0; h < p->full.heads_q; h++) {
        for (int64_t i = 0; i < p->full.s_q; i++) {
            if (i < empty) {
                case_row_is_empty(r, 0, i, h);
            }
        }
        // The first row that sees a key sees key 0 alone.
        for (int64_t c = 0; c < p->full.d_v; c++) {
            assert_true(operand_get(&r->o, 0, empty, h, c) == operand_get(&p->v, 0, 0, h, c));
        }
    }
}

static void c001_causal_more_queries_than_keys(void **state)
{
    (void)state;
    const struct {
        int64_t s_q, s_kv;
    } sizes[] = {{65, 1}, {129, 64}, {64, 63}, {66, 65}, {257, 128}, {2, 1}, {300, 17}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, sizes[n].s_q, sizes[n].s_kv, 2, 2, 128);
        desc.causal = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 1 + (uint64_t)n, .backward = true));
        case_run_everywhere(p, first_rows_are_empty);
        case_holds(p);
    }
}

static void c001_full_size(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 2048, 1024, 1, 1, 128);
    desc.causal = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 1, .backward = true));
    results_t r = case_run(p);
    first_rows_are_empty(p, &r);
    case_all_finite(&r.dk);
    case_all_finite(&r.dv);
    results_destroy(&r);
    case_holds_on_best(p);
}

// ---- C-002: causal is bottom-right

static void row_i_sees_its_share(const problem_t *p, const results_t *r)
{
    const int64_t offset = p->full.s_kv - p->full.s_q;
    for (int64_t i = 0; i < p->full.s_q; i++) {
        const int64_t seen = i + offset + 1;
        case_row_is(&r->o, 0, i, 0, (double)(seen - 1) / 2.0, 1e-6 * (double)seen);
        case_lse_is(r, 0, 0, i, log((double)seen), 1e-6);
    }
}

static void c002_causal_is_bottom_right(void **state)
{
    (void)state;
    const struct {
        int64_t s_q, s_kv;
    } sizes[] = {{2, 5}, {4, 8}, {1, 9}, {3, 64}, {5, 129}, {17, 17}};
    for (int64_t n = 0; n < 2 * COUNT_OF(sizes); n++) {
        const int64_t s_q = sizes[n / 2].s_q;
        const int64_t s_kv = sizes[n / 2].s_kv;
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F32, 1, s_q, s_kv, 1, 1, 16);
        desc.causal = 1;
        desc.o.dtype = ATTN_F32;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 2, .fill = FILL_ZERO_Q));
        case_count_up(p, &p->v);
        case_run_everywhere(p, row_i_sees_its_share);
        problem_destroy(p);
    }
}

static void first_rows_see_first_keys(const problem_t *p, const results_t *r)
{
    for (int64_t i = 0; i < p->full.s_q; i++) {
        const int64_t seen = i + 1 < p->full.s_kv ? i + 1 : p->full.s_kv;
        case_row_is(&r->o, 0, i, 0, (double)(seen - 1) / 2.0, 1e-6 * (double)seen);
        case_lse_is(r, 0, 0, i, log((double)seen), 1e-6);
    }
}

// The other alignment, which frameworks use, must not be what the default gives.
static void c002_top_left_on_request(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{2, 5}, {4, 8}, {5, 2}, {65, 130}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 1, sizes[n][0], sizes[n][1], 1, 1, 16);
        desc.causal = 1;
        desc.align = ATTN_ALIGN_TOP_LEFT;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 2, .fill = FILL_ZERO_Q));
        case_count_up(p, &p->v);
        case_run_everywhere(p, first_rows_see_first_keys);
        problem_destroy(p);
    }
}

// ---- C-004: varlen causal, one key per sequence

static const int32_t C004_CU_Q[] = {0, 76, 110, 256};
static const int32_t C004_CU_KV[] = {0, 1, 2, 3};

static void only_last_rows_see_a_key(const problem_t *p, const results_t *r)
{
    for (int64_t b = 0; b < 3; b++) {
        for (int64_t i = C004_CU_Q[b]; i < C004_CU_Q[b + 1]; i++) {
            if (i + 1 < C004_CU_Q[b + 1]) {
                case_row_is_empty(r, 0, i, 0);
                continue;
            }
            for (int64_t c = 0; c < p->full.d_v; c++) {
                assert_true(operand_get(&r->o, 0, i, 0, c) == operand_get(&p->v, 0, b, 0, c));
            }
            case_row_is(&r->dq, 0, i, 0, 0.0, 0.02);
        }
        case_row_is(&r->dk, 0, b, 0, 0.0, 0.02);
        case_row_is(&r->dv, 0, b, 0, 1.0, 0.0);
    }
}

static void c004_varlen_causal_one_key_each(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F16, 3, 256, 3, 1, 1, 32);
    case_pack_q(&desc, C004_CU_Q, 3);
    case_pack_kv(&desc, C004_CU_KV, 3);
    desc.causal = 1;
    problem_t *p =
        problem_create(&desc, OPTIONS(.seed = 4, .backward = true, .cu_seqlens_q = C004_CU_Q,
                                      .cu_seqlens_kv = C004_CU_KV));
    case_set_normal(&p->q, 5, 0.0, 3.0);
    case_set_normal(&p->k, 6, 0.0, 3.0);
    case_set_normal(&p->v, 7, 0.0, 3.0);
    operand_set_all(&p->do_, 1.0);
    case_run_everywhere(p, only_last_rows_see_a_key);
    case_holds(p);
}

// ---- C-005: everything is 1

static void one_key_has_no_gradient(const problem_t *p, const results_t *r)
{
    for (int64_t c = 0; c < p->full.d_v; c++) {
        assert_true(operand_get(&r->o, 0, 0, 0, c) == operand_get(&p->v, 0, 0, 0, c));
    }
    case_all_are(&r->dq, 0.0, 0.01);
    case_all_are(&r->dk, 0.0, 0.01);
    case_all_are(&r->dv, 1.0, 5e-5); // exp(s - lse), both rounded
}

static void c005_one_row_one_key(void **state)
{
    (void)state;
    const int64_t dims[] = {1, 16, 32, 40, 64, 128, 256};
    const attn_dtype_t dtypes[] = {ATTN_F16, ATTN_F32, ATTN_BF16};
    for (int64_t n = 0; n < COUNT_OF(dims) * COUNT_OF(dtypes); n++) {
        attn_desc_t desc = case_desc(dtypes[n % 3], 1, 1, 1, 1, 1, dims[n / 3]);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 352 + (uint64_t)n, .backward = true));
        case_set_normal(&p->q, 352, 0.0, 3.0);
        case_set_normal(&p->k, 353, 0.0, 3.0);
        case_set_normal(&p->v, 354, 0.0, 3.0);
        operand_set_all(&p->do_, 1.0);
        case_run_everywhere(p, one_key_has_no_gradient);
        problem_destroy(p);
    }
}

// ---- C-007: one row that sees nothing must not poison the gradients

static bool c007_mask(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)h;
    return (j == i || j + 1 == i) && (b == 0 || j < 2);
}

static void c007_only_row_three_of_batch_one_is_empty(const problem_t *p, const results_t *r)
{
    (void)p;
    case_row_is_empty(r, 1, 3, 0);
    assert_true(operand_get(&r->lse, 1, 0, 2, 0) > -INFINITY);
    case_all_finite(&r->o);
    case_all_finite(&r->dq);
    case_all_finite(&r->dk);
    case_all_finite(&r->dv);
}

static void c007_empty_row_does_not_poison_gradients(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    for (int64_t n = 0; n < COUNT_OF(dtypes); n++) {
        attn_desc_t desc = case_desc(dtypes[n], 2, 4, 4, 1, 1, 1);
        desc.mask.present = 1;
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 7, .backward = true, .mask = c007_mask));
        for (int64_t b = 0; b < 2; b++) {
            for (int64_t i = 0; i < 4; i++) {
                operand_set(&p->do_, b, i, 0, 0, i < 2 ? 1.0 : 0.0);
            }
        }
        case_run_everywhere(p, c007_only_row_three_of_batch_one_is_empty);
        case_holds(p);
    }
}

// ---- C-008: an empty row is 0, not the mean of what is hidden

static bool row_two_is_hidden(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    (void)j;
    return i != 2;
}

static double row_two_is_minus_infinity(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return row_two_is_hidden(user, b, h, i, j) ? 0.0 : -INFINITY;
}

static void row_two_is_zero(const problem_t *p, const results_t *r)
{
    const double mean = (double)(p->full.s_kv + 1) / 2.0;
    for (int64_t i = 0; i < p->full.s_q; i++) {
        if (i == 2) {
            case_row_is_empty(r, 0, i, 0);
        } else {
            case_row_is(&r->o, 0, i, 0, mean, 1e-5 * mean);
        }
    }
}

static void c008_empty_row_is_not_mean_of_v(void **state)
{
    (void)state;
    const int64_t lengths[] = {4, 1, 63, 64, 65, 200};
    for (int64_t n = 0; n < 4 * COUNT_OF(lengths); n++) {
        const int64_t s_kv = lengths[n / 4];
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F32, 1, 4, s_kv, 1, 1, 8);
        const bool by_bias = n / 2 % 2;
        desc.o.dtype = ATTN_F32;
        desc.mask.present = !by_bias;
        desc.bias.present = by_bias;
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 8, .fill = FILL_ZERO_Q, .mask = row_two_is_hidden,
                                          .bias = row_two_is_minus_infinity));
        for (int64_t j = 0; j < s_kv; j++) {
            for (int64_t c = 0; c < 8; c++) {
                operand_set(&p->v, 0, j, 0, c, (double)(j + 1));
            }
        }
        case_run_everywhere(p, row_two_is_zero);
        problem_destroy(p);
    }
}

// The bias constant that other kernels use for "hidden" is a number like others: all scores equal
// to it means equal weights.
static void c008_finite_constant_stays_finite(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 3, 4, 1, 1, 8);
    desc.bias = (attn_mask_tensor_t){.present = 1,
                                     .dtype = ATTN_F32,
                                     .stride_b = 0,
                                     .stride_h = 0,
                                     .stride_q = 0,
                                     .stride_k = 1};
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 8, .fill = FILL_ZERO_Q));
    operand_set_all(&p->bias, -1e30);
    operand_set_all(&p->v, 2.5);
    results_t r = case_run(p);
    case_all_are(&r.o, 2.5, 1e-6);
    case_all_are(&r.lse, -1e30, 1e24);
    results_destroy(&r);
    problem_destroy(p);
}

// ---- C-010: outer product of two padding masks

static bool c010_mask(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)h;
    return b == 1 || (i < 7 && j < 7);
}

static void c010_row_seven_is_empty(const problem_t *p, const results_t *r)
{
    (void)p;
    for (int64_t h = 0; h < 4; h++) {
        case_row_is_empty(r, 0, 7, h);
    }
    for (int64_t j = 7; j < 16; j++) {
        for (int64_t h = 0; h < 4; h++) {
            case_row_is(&r->dk, 0, j, h, 0.0, 0.0);
            case_row_is(&r->dv, 0, j, h, 0.0, 0.0);
        }
    }
    case_all_finite(&r->o);
    case_all_finite(&r->dq);
}

static void c010_cross_attention_padding_masks(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        attn_desc_t desc = case_desc(n ? ATTN_BF16 : ATTN_F32, 2, 8, 16, 4, 4, 128);
        assert_ok(attn_desc_set_bhsd(&desc));
        desc.mask = (attn_mask_tensor_t){
            .present = 1, .stride_b = 8 * 16, .stride_h = 0, .stride_q = 16, .stride_k = 1};
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 10, .backward = true, .mask = c010_mask));
        const double deviation = 1.0 / sqrt(512.0 * 128.0);
        case_set_normal(&p->q, 11, 0.0, deviation);
        case_set_normal(&p->k, 12, 0.0, deviation);
        case_set_normal(&p->v, 13, 0.0, deviation);
        case_run_everywhere(p, c010_row_seven_is_empty);
        case_holds(p);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c001_causal_more_queries_than_keys),
        cmocka_unit_test(c001_full_size),
        cmocka_unit_test(c002_causal_is_bottom_right),
        cmocka_unit_test(c002_top_left_on_request),
        cmocka_unit_test(c004_varlen_causal_one_key_each),
        cmocka_unit_test(c005_one_row_one_key),
        cmocka_unit_test(c007_empty_row_does_not_poison_gradients),
        cmocka_unit_test(c008_empty_row_is_not_mean_of_v),
        cmocka_unit_test(c008_finite_constant_stays_finite),
        cmocka_unit_test(c010_cross_attention_padding_masks),
    };
    return case_main("cases_empty", tests, COUNT_OF(tests), argc, argv);
}
