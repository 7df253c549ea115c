// test_cases_dims.c: head dims, ratios of query to K/V heads, and the shapes that backward passes
// got wrong. Cases C-086 to C-095: README.md.
#include "case_kit.h"

#include <stdio.h>

// ---- C-086, C-088: any head dim, nothing written beside it

static void c086_every_head_dim(void **state)
{
    (void)state;
    const int64_t dims[] = {1,   8,   33,  40,  64,  65,  72,  80,  88,  96,
                            104, 112, 120, 128, 136, 160, 192, 224, 256, 576};
    for (int64_t n = 0; n < COUNT_OF(dims); n++) {
        const int64_t d = dims[n];
        attn_desc_t desc = case_desc(n % 3 ? ATTN_BF16 : ATTN_F32, 1, 37, 70, 2, 1, d);
        // Rows with holes: what is written beside a row of d elements shows.
        attn_tensor_t *const tensors[] = {&desc.q,   &desc.k,  &desc.v,  &desc.o,
                                          &desc.do_, &desc.dq, &desc.dk, &desc.dv};
        for (int k = 0; k < 8; k++) {
            tensors[k]->stride_h = d + 3;
            tensors[k]->stride_s = 2 * (d + 3) + 5;
            tensors[k]->stride_b = 100 * (2 * (d + 3) + 5);
        }
        case_desc_holds(&desc, OPTIONS(.seed = (uint64_t)d, .backward = true));
    }
}

static void c086_value_dim_differs(void **state)
{
    (void)state;
    const int64_t dims[][2] = {{192, 128}, {64, 1}, {1, 64}, {72, 104}, {576, 512}, {33, 7}};
    for (int64_t n = 0; n < COUNT_OF(dims); n++) {
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F16, 1, 20, 40, 4, 2, dims[n][0]);
        desc.d_v = dims[n][1];
        desc.causal = 1;
        case_desc_holds(&desc, OPTIONS(.seed = 86, .backward = true));
    }
}

static void c086_packed_sequences_of_dim_104(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 75, 150};
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 1, 1, 4, 4, 104);
    case_pack_q(&desc, cu, 2);
    case_pack_kv(&desc, cu, 2);
    case_desc_holds(&desc,
                    OPTIONS(.seed = 86, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
}

// q, k and v are slices of one (1, 128, 3, 8, 256) tensor.
static void c088_slices_of_packed_qkv(void **state)
{
    (void)state;
    const int64_t dims[] = {256, 64};
    for (int64_t n = 0; n < COUNT_OF(dims); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 128, 128, 2, 2, dims[n]);
        desc.causal = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 88, .backward = true));
        results_t dense = case_run(p);
        attn_desc_t slices = desc;
        attn_tensor_t *const tensors[] = {&slices.q, &slices.k, &slices.v};
        for (int k = 0; k < 3; k++) {
            tensors[k]->stride_h = dims[n];
            tensors[k]->stride_s = 3 * 2 * dims[n];
            tensors[k]->stride_b = 128 * 3 * 2 * dims[n];
        }
        problem_t *sliced = problem_create(&slices, OPTIONS(.seed = 88, .backward = true));
        for (int64_t i = 0; i < 128; i++) {
            case_copy_row(&sliced->q, 0, i, &p->q, 0, i);
            case_copy_row(&sliced->k, 0, i, &p->k, 0, i);
            case_copy_row(&sliced->v, 0, i, &p->v, 0, i);
            case_copy_row(&sliced->do_, 0, i, &p->do_, 0, i);
        }
        results_t r = case_run(sliced);
        case_same_result_bits(&dense, &r);
        results_destroy(&r);
        results_destroy(&dense);
        problem_destroy(sliced);
        case_holds_on_best(p);
    }
}

// ---- C-089: correlated activations, a second batch entry, GQA, D = 256

static double dot(const operand_t *x, const operand_t *y, int64_t b)
{
    double sum = 0.0;
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        if (w.at[0] == b) {
            sum += operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]) *
                   operand_get(y, w.at[0], w.at[1], w.at[2], w.at[3]);
        }
    }
    return sum;
}

// N(0, 1) + 4 u with a unit vector u of the head's own, shared by q and k.
static void set_correlated(operand_t *x, uint64_t seed, int64_t group)
{
    test_rng_t rng = test_rng_at(seed, 89);
    for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
        test_rng_t direction = test_rng_at(890 + (uint64_t)(w.at[2] / group), (uint64_t)w.at[3]);
        const double u = test_rng_normal(&direction) / sqrt((double)x->dims[3]);
        operand_set(x, w.at[0], w.at[1], w.at[2], w.at[3], test_rng_normal(&rng) + 4.0 * u);
    }
}

static void check_correlated(int64_t s, int64_t heads_q, int64_t heads_kv)
{
    attn_desc_t desc = case_desc(ATTN_BF16, 2, s, s, heads_q, heads_kv, 256);
    desc.causal = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 89, .backward = true));
    set_correlated(&p->q, 1, heads_q / heads_kv);
    set_correlated(&p->k, 2, 1);
    results_t r = case_run(p);
    char why[1024];
    assert_true(problem_truth(p, why, sizeof(why)));
    const operand_t *const got[] = {&r.dq, &r.dk, &r.dv};
    const operand_t *const want[] = {&p->truth.dq, &p->truth.dk, &p->truth.dv};
    for (int n = 0; n < 3; n++) {
        for (int64_t b = 0; b < 2; b++) {
            const double norms = sqrt(dot(got[n], got[n], b) * dot(want[n], want[n], b));
            const double ratio = sqrt(dot(got[n], got[n], b) / dot(want[n], want[n], b));
            assert_true(dot(got[n], want[n], b) / norms > 0.999);
            assert_true(ratio > 0.99 && ratio < 1.01);
        }
    }
    results_destroy(&r);
    case_holds_on_best(p);
}

static void c089_correlated_activations_in_two_batch_entries(void **state)
{
    (void)state;
    check_correlated(130, 8, 1);
}

static void c089_full_size(void **state)
{
    (void)state;
    check_correlated(512, 16, 2);
}

// ---- C-091, C-092: query head h uses K/V head h / (heads_q / heads_kv)

// v is h + 1 in head h, do is 2^-h in head h: sums over a group are as different as can be.
static void heads_map_in_order(const problem_t *p, const results_t *r)
{
    const int64_t group = p->full.heads_q / p->full.heads_kv;
    const bool is_fp32 = p->full.o.dtype == ATTN_F32;
    for (int64_t h = 0; h < p->full.heads_q; h++) {
        case_row_is(&r->o, 1, 3, h, (double)(h / group + 1), is_fp32 ? 1e-4 : 0.0);
    }
    for (int64_t h_kv = 0; h_kv < p->full.heads_kv; h_kv++) {
        double expected = 0.0;
        double got = 0.0;
        for (int64_t h = h_kv * group; h < (h_kv + 1) * group; h++) {
            expected += ldexp((double)p->full.s_q, (int)-h);
        }
        for (int64_t j = 0; j < p->full.s_kv; j++) {
            got += operand_get(&r->dv, 1, j, h_kv, 0);
        }
        assert_true(fabs(got - expected) <= 0.01 * expected);
    }
}

static void c091_group_ratios(void **state)
{
    (void)state;
    const int64_t ratios[][2] = {{8, 2},  {6, 3},  {12, 2}, {28, 4}, {24, 4},
                                 {56, 8}, {64, 4}, {7, 1},  {16, 16}};
    for (int64_t n = 0; n < COUNT_OF(ratios); n++) {
        attn_desc_t desc =
            case_desc(n % 3 ? ATTN_BF16 : ATTN_F32, 2, 40, 40, ratios[n][0], ratios[n][1], 16);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 91, .backward = true));
        case_holds_on_best(p);
        p = problem_create(&desc, OPTIONS(.seed = 91, .backward = true));
        for (operand_walk_t w = operand_walk(&p->v); !w.done; operand_next(&p->v, &w)) {
            operand_set(&p->v, w.at[0], w.at[1], w.at[2], w.at[3], (double)(w.at[2] + 1));
        }
        for (operand_walk_t w = operand_walk(&p->do_); !w.done; operand_next(&p->do_, &w)) {
            operand_set(&p->do_, w.at[0], w.at[1], w.at[2], w.at[3], ldexp(1.0, (int)-w.at[2]));
        }
        case_run_everywhere(p, heads_map_in_order);
        problem_destroy(p);
    }
}

static void c092_odd_group_sizes(void **state)
{
    (void)state;
    const int64_t ratios[][2] = {{5, 1}, {24, 4}, {28, 4}, {64, 4}, {71, 1}, {12, 12}};
    for (int64_t n = 0; n < COUNT_OF(ratios); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 1, 777, ratios[n][0], ratios[n][1], 128);
        case_page_kv(&desc, 16);
        case_holds_on_best(problem_create(&desc, OPTIONS(.seed = 92)));
        attn_desc_t prefill = case_desc(ATTN_BF16, 1, 9, 77, ratios[n][0], ratios[n][1], 128);
        prefill.causal = 1;
        case_holds(problem_create(&prefill, OPTIONS(.seed = 92)));
    }
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 4, 4, 6, 4, 64);
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "heads");
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "6");
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "4");
}

// ---- C-094: lengths that do not divide any block

static void check_three_calls(attn_desc_t desc)
{
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 94, .backward = true));
    results_t first = case_run(p);
    for (int n = 0; n < 2; n++) {
        results_t again = case_run(p);
        case_same_result_bits(&first, &again);
        results_destroy(&again);
    }
    results_destroy(&first);
    case_holds_on_best(p);
}

static void c094_lengths_that_divide_no_block(void **state)
{
    (void)state;
    check_three_calls(case_desc(ATTN_BF16, 1, 192, 192, 4, 4, 16));
    check_three_calls(case_desc(ATTN_BF16, 1, 764, 764, 2, 2, 32));
    const int64_t sizes[][2] = {{100, 300}, {300, 100}, {1, 300}, {300, 1}, {127, 129}, {63, 257}};
    for (int64_t n = 0; n < 2 * COUNT_OF(sizes); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, sizes[n / 2][0], sizes[n / 2][1], 2, 1, 16);
        desc.causal = n % 2;
        check_three_calls(desc);
    }
}

static void c094_full_size(void **state)
{
    (void)state;
    check_three_calls(case_desc(ATTN_BF16, 1, 4092, 4092, 1, 1, 32));
}

// ---- C-095: each batch entry has its own K/V length

static const int32_t C095_LENS[] = {24, 125, 53, 28, 77, 96, 13, 114};

static void keys_behind_the_length_have_no_gradient(const problem_t *p, const results_t *r)
{
    for (int64_t b = 0; b < p->full.batch; b++) {
        for (int64_t j = C095_LENS[b]; j < p->full.s_kv; j++) {
            case_row_is(&r->dk, b, j, 1, 0.0, 0.0);
            case_row_is(&r->dv, b, j, 0, 0.0, 0.0);
        }
    }
    case_all_finite(&r->o);
    case_all_finite(&r->dq);
}

static void c095_lengths_per_batch_entry(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 8, 128, 128, 2, 2, 16);
        desc.has_seqused_kv = 1;
        desc.causal = n / 2;
        // What lies behind the length is NaN, or a large number.
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 95, .backward = true, .no_nan_unseen = n % 2,
                                          .seqused_kv = C095_LENS));
        case_run_everywhere(p, keys_behind_the_length_have_no_gradient);
        case_holds_on_best(p);
    }
    const int32_t cu[] = {0, 128};
    attn_desc_t packed = case_desc(ATTN_BF16, 1, 128, 128, 2, 2, 16);
    packed.has_seqused_kv = 1;
    case_pack_q(&packed, cu, 1);
    case_pack_kv(&packed, cu, 1);
    case_desc_holds(&packed, OPTIONS(.seed = 95, .backward = true, .cu_seqlens_q = cu,
                                     .cu_seqlens_kv = cu, .seqused_kv = C095_LENS));
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c086_every_head_dim),
    cmocka_unit_test(c086_value_dim_differs),
    cmocka_unit_test(c086_packed_sequences_of_dim_104),
    cmocka_unit_test(c088_slices_of_packed_qkv),
    cmocka_unit_test(c089_correlated_activations_in_two_batch_entries),
    cmocka_unit_test(c091_group_ratios),
    cmocka_unit_test(c092_odd_group_sizes),
    cmocka_unit_test(c094_lengths_that_divide_no_block),
    cmocka_unit_test(c095_lengths_per_batch_entry),
};

static const struct CMUnitTest SLOW_TESTS[] = {
    cmocka_unit_test(c089_full_size),
    cmocka_unit_test(c094_full_size),
};

int main(int argc, char **argv)
{
    return case_main_tiers("cases_dims", TESTS, COUNT_OF(TESTS), SLOW_TESTS, COUNT_OF(SLOW_TESTS),
                           argc, argv);
}
