// test_cases_varlen.c: packed sequences, zero lengths, padding between and behind sequences. Cases
// C-020 to C-032: README.md. C-031 (chunks that hold padding only) is in test_cases_ring.c.
#include "case_kit.h"

#include <stdio.h>

// One packed self- or cross-attention problem.
static problem_t *packed_problem(attn_desc_t desc, const int32_t *cu_q, const int32_t *cu_kv,
                                 int64_t batch, uint64_t seed)
{
    case_pack_q(&desc, cu_q, batch);
    case_pack_kv(&desc, cu_kv, batch);
    return problem_create(&desc, OPTIONS(.seed = seed, .backward = true, .cu_seqlens_q = cu_q,
                                         .cu_seqlens_kv = cu_kv));
}

// ---- C-020: decode with an empty sequence

static void c020_empty_sequence_among_single_queries(void **state)
{
    (void)state;
    const int32_t cu_q[] = {0, 1, 1, 2};
    const int32_t cu_kv[] = {0, 3, 3, 8};
    attn_desc_t desc = case_desc(ATTN_BF16, 3, 1, 5, 9, 3, 64);
    desc.scale = 1.0f;
    desc.causal = 1;
    case_holds(packed_problem(desc, cu_q, cu_kv, 3, 20));
    // The upper bounds may be larger, and the totals too.
    case_pack_q(&desc, cu_q, 3);
    case_pack_kv(&desc, cu_kv, 3);
    desc.s_q = 4;
    desc.s_kv = 16;
    desc.total_q = 7;
    desc.total_kv = 9;
    case_desc_holds(
        &desc, OPTIONS(.seed = 21, .backward = true, .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv));
}

static void heads_copy_their_value(const problem_t *p, const results_t *r)
{
    for (int64_t h = 0; h < 21; h++) {
        for (int64_t c = 0; c < 120; c++) {
            assert_true(operand_get(&r->o, 0, 0, h, c) == operand_get(&p->v, 0, 0, h / 3, c));
        }
    }
}

static void c020_one_key_behind_empty_sequences(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 0, 0, 0, 1};
    attn_desc_t desc = case_desc(ATTN_BF16, 4, 1, 1, 21, 7, 120);
    desc.scale = (float)sqrt(120.0);
    desc.causal = 1;
    problem_t *p = packed_problem(desc, cu, cu, 4, 22);
    case_run_everywhere(p, heads_copy_their_value);
    case_holds(p);
}

// ---- C-022: keys without queries have zero gradients, not garbage

static void c022_keys_without_queries_have_zero_gradients(void **state)
{
    (void)state;
    const int32_t cu_q[] = {0, 150, 150, 300};
    const int32_t cu_kv[] = {0, 100, 200, 300};
    for (int causal = 0; causal < 2; causal++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 3, 150, 100, 2, 2, 64);
        desc.causal = causal;
        problem_t *p = packed_problem(desc, cu_q, cu_kv, 3, 22);
        results_t r = case_run(p);
        for (int64_t j = 100; j < 200; j++) {
            for (int64_t h = 0; h < 2; h++) {
                case_row_is(&r.dk, 0, j, h, 0.0, 0.0);
                case_row_is(&r.dv, 0, j, h, 0.0, 0.0);
            }
        }
        for (int64_t i = 0; causal && i < 50; i++) {
            case_row_is_empty(&r, 0, i, 0);
            case_row_is_empty(&r, 0, 150 + i, 1);
        }
        results_destroy(&r);
        case_holds(p);
    }
}

// ---- C-023: an empty query sequence and one key

static void c023_empty_query_sequence_and_one_key(void **state)
{
    (void)state;
    const int32_t cu_q[] = {0, 0, 0, 203};
    const int32_t cu_kv[] = {0, 0, 1, 406};
    case_watchdog(10);
    for (int causal = 0; causal < 2; causal++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 3, 203, 405, 2, 2, 128);
        desc.causal = causal;
        case_pack_q(&desc, cu_q, 3);
        case_pack_kv(&desc, cu_kv, 3);
        desc.total_q = 210; // the tensor is longer than the sequences
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 23, .backward = true,
                                                     .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv));
        results_t r = case_run(p);
        case_row_is(&r.dk, 0, 0, 0, 0.0, 0.0);
        case_row_is(&r.dv, 0, 0, 1, 0.0, 0.0);
        for (int64_t i = 203; i < 210; i++) {
            case_row_is(&r.o, 0, i, 0, 0.0, 0.0);
            case_row_is(&r.dq, 0, i, 1, 0.0, 0.0);
        }
        results_destroy(&r);
        case_holds_on_best(p);
    }
    case_watchdog(0);
}

static void c023_full_size(void **state)
{
    (void)state;
    const int32_t cu_q[] = {0, 0, 0, 1023};
    const int32_t cu_kv[] = {0, 0, 1, 2046};
    attn_desc_t desc = case_desc(ATTN_BF16, 3, 1023, 2045, 32, 32, 128);
    desc.causal = 1;
    problem_t *p = packed_problem(desc, cu_q, cu_kv, 3, 23);
    case_watchdog(60);
    results_t r = case_run(p);
    case_watchdog(0);
    case_all_finite(&r.dq);
    case_row_is(&r.dk, 0, 0, 31, 0.0, 0.0);
    results_destroy(&r);
    problem_destroy(p);
}

// ---- C-025: padding between sequences

static const int32_t C025_CU[] = {0, 3, 7, 9};
static const int32_t C025_USED[] = {2, 3, 1};
static const int32_t C025_PACKED_CU[] = {0, 2, 5, 6};

static void check_padding(int causal, bool is_nan)
{
    attn_desc_t desc = case_desc(ATTN_BF16, 3, 4, 4, 2, 2, 64);
    desc.causal = causal;
    problem_t *packed = packed_problem(desc, C025_PACKED_CU, C025_PACKED_CU, 3, 25);
    operand_set_all(&packed->do_, 1.0);
    results_t expected = case_run(packed);

    case_pack_q(&desc, C025_CU, 3);
    case_pack_kv(&desc, C025_CU, 3);
    desc.has_seqused_q = 1;
    desc.has_seqused_kv = 1;
    problem_t *padded = problem_create(
        &desc, OPTIONS(.seed = 25, .backward = true, .cu_seqlens_q = C025_CU,
                       .cu_seqlens_kv = C025_CU, .seqused_q = C025_USED, .seqused_kv = C025_USED));
    operand_t *const inputs[] = {&padded->q, &padded->k, &padded->v};
    const operand_t *const sources[] = {&packed->q, &packed->k, &packed->v};
    operand_set_all(&padded->do_, 1.0);
    for (int n = 0; n < 3; n++) {
        operand_set_all(inputs[n], is_nan ? (double)NAN : 1e4);
        for (int64_t b = 0; b < 3; b++) {
            for (int64_t i = 0; i < C025_USED[b]; i++) {
                case_copy_row(inputs[n], 0, C025_CU[b] + i, sources[n], 0, C025_PACKED_CU[b] + i);
            }
        }
    }
    results_t r = case_run(padded);
    // A GPU computes rows beside a NaN in another order.
    const double tolerance = r.backend == ATTN_BACKEND_CUDA ? 0.02 : 0.0;
    for (int64_t b = 0; b < 3; b++) {
        for (int64_t i = 0; i < C025_CU[b + 1] - C025_CU[b]; i++) {
            const int64_t row = C025_CU[b] + i;
            const bool is_real = i < C025_USED[b];
            const operand_t *const got[] = {&r.o, &r.dq, &r.dk, &r.dv};
            const operand_t *const want[] = {&expected.o, &expected.dq, &expected.dk, &expected.dv};
            for (int n = 0; n < 4; n++) {
                for (int64_t h = 0; h < 2; h++) {
                    const int64_t real_row = C025_PACKED_CU[b] + (is_real ? i : 0);
                    const double wanted = is_real ? operand_get(want[n], 0, real_row, h, 5) : 0.0;
                    const double difference = operand_get(got[n], 0, row, h, 5) - wanted;
                    assert_true(fabs(difference) <= (is_real ? tolerance : 0.0));
                }
            }
        }
    }
    results_destroy(&r);
    results_destroy(&expected);
    case_holds(padded);
    case_holds(packed);
}

static void c025_padding_between_sequences_is_not_there(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        check_padding(n / 2, n % 2);
    }
}

// ---- C-026: cu_seqlens ends where its memory ends

static void c026_nothing_is_read_behind_cu_seqlens(void **state)
{
    (void)state;
    // The list lies before a guard band that AddressSanitizer does not allow to be read.
    const int32_t cu[] = {0, 1, 66, 66, 193};
    const int32_t cu_tile[] = {0, 64, 128, 192, 256};
    attn_desc_t desc = case_desc(ATTN_BF16, 4, 127, 127, 11, 11, 128);
    case_holds_on_best(packed_problem(desc, cu, cu, 4, 26));
    desc.heads_q = desc.heads_kv = 1;
    case_holds(packed_problem(desc, cu, cu, 4, 26));
    case_holds(packed_problem(desc, cu_tile, cu_tile, 4, 26));
}

// ---- C-028: ragged lengths write their own rows only

static void check_against_dense(problem_t *p, const int32_t *cu, int64_t batch)
{
    results_t r = case_run(p);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t s = cu[b + 1] - cu[b];
        attn_desc_t desc =
            case_desc(p->full.q.dtype, 1, s, s, p->full.heads_q, p->full.heads_kv, p->full.d_qk);
        desc.causal = p->desc.causal;
        desc.batch_invariant = 1;
        problem_t *dense = problem_create(&desc, OPTIONS(.seed = 28));
        for (int64_t i = 0; i < s; i++) {
            case_copy_row(&dense->q, 0, i, &p->q, 0, cu[b] + i);
            case_copy_row(&dense->k, 0, i, &p->k, 0, cu[b] + i);
            case_copy_row(&dense->v, 0, i, &p->v, 0, cu[b] + i);
        }
        results_t own = case_run(dense);
        for (int64_t i = 0; i < s; i++) {
            for (int64_t h = 0; h < desc.heads_q; h++) {
                for (int64_t c = 0; c < desc.d_v; c++) {
                    assert_true(operand_get(&own.o, 0, i, h, c) ==
                                operand_get(&r.o, 0, cu[b] + i, h, c));
                }
                assert_true(operand_get(&own.lse, 0, h, i, 0) ==
                            operand_get(&r.lse, 0, h, cu[b] + i, 0));
            }
        }
        results_destroy(&own);
        problem_destroy(dense);
    }
    results_destroy(&r);
}

static void check_ragged(const int32_t cu[8], int64_t heads_q, int64_t heads_kv)
{
    for (int causal = 0; causal < 2; causal++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 7, 1, 1, heads_q, heads_kv, 128);
        desc.causal = causal;
        desc.batch_invariant = 1;
        case_pack_q(&desc, cu, 7);
        case_pack_kv(&desc, cu, 7);
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 28, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
        check_against_dense(p, cu, 7);
        problem_destroy(p);
    }
}

static void c028_each_ragged_sequence_equals_its_dense_call(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 159, 321, 489, 649, 812, 980, 1024};
    const int32_t short_cu[] = {0, 1, 3, 3, 67, 68, 197, 198};
    check_ragged(cu, 4, 1);
    check_ragged(short_cu, 8, 2);
}

static void c028_full_size(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 1274, 2568, 3915, 5194, 6498, 7839, 8192};
    check_ragged(cu, 8, 2);
}

// ---- C-029: lists that contradict the bounds

static void c029_bad_cu_seqlens_are_refused(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 10, 200};
    attn_desc_t desc = case_desc(ATTN_F32, 2, 1, 1, 1, 1, 16);
    case_pack_q(&desc, cu, 2);
    case_pack_kv(&desc, cu, 2);
    const struct {
        int entry;
        int32_t value;
    } bad[] = {{0, 1},   {0, -1}, {1, 201},       {1, -5},
               {2, 201}, {2, 9},  {2, INT32_MAX}, {1, INT32_MIN}};
    for (int64_t n = 0; n < 2 * COUNT_OF(bad); n++) {
        problem_t *p =
            problem_create(&desc, OPTIONS(.seed = 29, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
        const bool is_kv = n % 2;
        case_list(is_kv ? &p->cu_seqlens_kv : &p->cu_seqlens_q)[bad[n / 2].entry] =
            bad[n / 2].value;
        case_run_refused(p, is_kv ? "cu_seqlens_kv" : "cu_seqlens_q");
        problem_destroy(p);
    }
    // A maximum smaller than a real sequence would cut its tail off.
    for (int is_kv = 0; is_kv < 2; is_kv++) {
        attn_desc_t small = desc;
        *(is_kv ? &small.s_kv : &small.s_q) = 64;
        problem_t *p =
            problem_create(&small, OPTIONS(.seed = 29, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
        case_run_refused(p, is_kv ? "cu_seqlens_kv" : "cu_seqlens_q");
        problem_destroy(p);
    }
}

static void c029_upper_bound_gives_the_same_bits(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 10, 200};
    for (int invariant = 0; invariant < 2; invariant++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 2, 1, 1, 2, 1, 64);
        desc.causal = 1;
        desc.num_splits = invariant ? 0 : 1;
        desc.batch_invariant = invariant;
        case_pack_q(&desc, cu, 2);
        case_pack_kv(&desc, cu, 2);
        problem_t *p = problem_create(
            &desc, OPTIONS(.seed = 29, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
        results_t exact = case_run(p);
        desc.s_q = 4096;
        desc.s_kv = 4096;
        results_t loose = case_run_as(p, &desc);
        case_same_result_bits(&exact, &loose);
        results_destroy(&exact);
        results_destroy(&loose);
        case_holds(p);
    }
}

// Work is cut by the pack, not by a bound that somebody set to "any length".
static void c029_upper_bound_costs_nothing(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 10, 200};
    attn_desc_t desc = case_desc(ATTN_F32, 2, 1, 1, 2, 1, 16);
    case_pack_q(&desc, cu, 2);
    case_pack_kv(&desc, cu, 2);
    problem_t *p = problem_create(
        &desc, OPTIONS(.seed = 29, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
    results_t exact = case_run(p);
    desc.s_q = INT64_C(1) << 40;
    desc.s_kv = INT64_C(1) << 20;
    case_watchdog(60);
    results_t loose = case_run_as(p, &desc);
    case_watchdog(0);
    assert_true(case_distance(&exact.o, &loose.o) < 1e-5);
    assert_true(case_distance(&exact.dq, &loose.dq) < 1e-5);
    assert_true(case_distance(&exact.dk, &loose.dk) < 1e-5);
    results_destroy(&exact);
    results_destroy(&loose);
    problem_destroy(p);
}

// ---- C-032: no queries at all

static void c032_empty_queries(void **state)
{
    (void)state;
    const struct {
        int64_t batch, s_q, s_kv;
    } sizes[] = {{2, 0, 4096}, {0, 64, 4096}, {0, 0, 0}, {2, 0, 0}, {2, 3, 0}};
    for (int64_t n = 0; n < 2 * COUNT_OF(sizes); n++) {
        attn_desc_t desc =
            case_desc(ATTN_BF16, sizes[n / 2].batch, sizes[n / 2].s_q, sizes[n / 2].s_kv, 2, 2, 32);
        desc.causal = n % 2;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 32, .backward = true));
        results_t r = case_run(p);
        case_all_are(&r.dk, 0.0, 0.0);
        case_all_are(&r.dv, 0.0, 0.0);
        results_destroy(&r);
        case_holds(p);
    }
    const int32_t cu_q[] = {0, 0, 0};
    const int32_t cu_kv[] = {0, 30, 70};
    for (int causal = 0; causal < 2; causal++) {
        attn_desc_t desc = case_desc(ATTN_F16, 2, 0, 40, 2, 2, 32);
        desc.causal = causal;
        case_holds(packed_problem(desc, cu_q, cu_kv, 2, 32));
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c020_empty_sequence_among_single_queries),
    cmocka_unit_test(c020_one_key_behind_empty_sequences),
    cmocka_unit_test(c022_keys_without_queries_have_zero_gradients),
    cmocka_unit_test(c023_empty_query_sequence_and_one_key),
    cmocka_unit_test(c025_padding_between_sequences_is_not_there),
    cmocka_unit_test(c026_nothing_is_read_behind_cu_seqlens),
    cmocka_unit_test(c028_each_ragged_sequence_equals_its_dense_call),
    cmocka_unit_test(c029_bad_cu_seqlens_are_refused),
    cmocka_unit_test(c029_upper_bound_gives_the_same_bits),
    cmocka_unit_test(c029_upper_bound_costs_nothing),
    cmocka_unit_test(c032_empty_queries),
};

static const struct CMUnitTest SLOW_TESTS[] = {
    cmocka_unit_test(c023_full_size),
    cmocka_unit_test(c028_full_size),
};

int main(int argc, char **argv)
{
    return case_main_tiers("cases_varlen", TESTS, COUNT_OF(TESTS), SLOW_TESTS, COUNT_OF(SLOW_TESTS),
                           argc, argv);
}
