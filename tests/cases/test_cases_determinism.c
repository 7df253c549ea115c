// test_cases_determinism.c: the same bits every time, whatever the threads, the neighbours in the
// batch and the bounds. Cases C-124 to C-131: README.md.
#include "case_kit.h"

static problem_t *repeat_and_judge(problem_t *p, int times)
{
    results_t first = case_run(p);
    for (int n = 1; n < times; n++) {
        results_t again = case_run(p);
        case_same_result_bits(&first, &again);
        results_destroy(&again);
    }
    results_destroy(&first);
    return p;
}

// ---- C-124: deterministic mode with blocks that have no work

static void c124_deterministic_with_empty_blocks(void **state)
{
    (void)state;
    const int32_t cu_q[] = {0, 0, 1, 501};
    const int32_t cu_kv[] = {0, 7, 7, 507};
    case_watchdog(20);
    attn_desc_t window = case_desc(ATTN_BF16, 1, 600, 600, 2, 1, 128);
    window.deterministic = 1;
    window.window_left = 128;
    window.window_right = 0;
    case_holds_on_best(
        repeat_and_judge(problem_create(&window, OPTIONS(.seed = 124, .backward = true)), 3));
    case_watchdog(20);
    attn_desc_t packed = case_desc(ATTN_BF16, 3, 1, 1, 4, 1, 128);
    packed.deterministic = 1;
    case_pack_q(&packed, cu_q, 3);
    case_pack_kv(&packed, cu_kv, 3);
    case_holds_on_best(repeat_and_judge(
        problem_create(&packed, OPTIONS(.seed = 124, .backward = true, .cu_seqlens_q = cu_q,
                                        .cu_seqlens_kv = cu_kv)),
        3));
    case_watchdog(20);
    attn_desc_t wide = case_desc(ATTN_BF16, 1, 64, 2048, 2, 1, 128);
    wide.deterministic = 1;
    wide.causal = 1;
    case_holds_on_best(
        repeat_and_judge(problem_create(&wide, OPTIONS(.seed = 124, .backward = true)), 3));
    case_watchdog(0);
}

// ---- C-125: backward a thousand times

static void c125_backward_repeats_its_bits(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 64, 64, 1, 1, 64);
    case_holds(
        repeat_and_judge(problem_create(&desc, OPTIONS(.seed = 125, .backward = true)), 300));
    desc = case_desc(ATTN_F32, 2, 300, 300, 4, 2, 64);
    desc.causal = 1;
    case_holds_on_best(
        repeat_and_judge(problem_create(&desc, OPTIONS(.seed = 125, .backward = true)), 10));
}

static void c125_full_size(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 64, 64, 1, 1, 64);
    problem_destroy(
        repeat_and_judge(problem_create(&desc, OPTIONS(.seed = 125, .backward = true)), 1000));
    desc = case_desc(ATTN_BF16, 1, 4096, 4096, 1, 1, 64);
    problem_destroy(
        repeat_and_judge(problem_create(&desc, OPTIONS(.seed = 125, .backward = true)), 3));
}

// The number of threads changes nothing: forward, split decode and backward.
static void c125_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    const attn_desc_t descs[] = {case_desc(ATTN_F32, 1, 300, 300, 2, 1, 64),
                                 case_desc(ATTN_BF16, 1, 1, 3000, 4, 1, 64),
                                 case_desc(ATTN_BF16, 2, 129, 257, 4, 2, 40)};
    attn_isa_t isas[ATTN_ISA_COUNT];
    const int count = problem_isas(isas);
    for (int64_t n = 0; n < COUNT_OF(descs); n++) {
        problem_t *p = problem_create(&descs[n], OPTIONS(.seed = 125, .backward = true));
        for (int isa = 0; isa < count; isa++) {
            runner_t runner = {.backend = ATTN_BACKEND_CPU, .isa = isas[isa], .workers = 1};
            results_t one = assert_problem_runs(p, &runner);
            for (int32_t workers = 2; workers <= 7; workers += 5) {
                runner.workers = workers;
                results_t more = assert_problem_runs(p, &runner);
                case_same_result_bits(&one, &more);
                results_destroy(&more);
            }
            results_destroy(&one);
        }
        problem_destroy(p);
    }
}

// ---- C-131: neighbours in the batch and upper bounds

static void same_rows(const results_t *x, const results_t *y, int64_t b, int64_t row, int64_t heads,
                      int64_t d)
{
    for (int64_t h = 0; h < heads; h++) {
        assert_true(operand_get(&x->lse, b, h, row, 0) == operand_get(&y->lse, b, h, row, 0));
        for (int64_t c = 0; c < d; c++) {
            assert_true(operand_get(&x->o, b, row, h, c) == operand_get(&y->o, b, row, h, c));
        }
    }
}

// A prefill of 9 or 10 rows next to a decode row.
static void c131_longer_neighbour_changes_nothing(void **state)
{
    (void)state;
    const int32_t cu_nine[] = {0, 1, 10};
    const int32_t cu_ten[] = {0, 1, 11};
    const int32_t used[] = {1980, 1980};
    for (int invariant = 0; invariant < 2; invariant++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 2, 1, 1980, 14, 2, 64);
        desc.causal = 1;
        desc.num_splits = 1;
        desc.batch_invariant = invariant;
        desc.has_seqused_kv = 1;
        case_page_kv(&desc, 16);
        case_pack_q(&desc, cu_ten, 2);
        problem_t *ten =
            problem_create(&desc, OPTIONS(.seed = 131, .cu_seqlens_q = cu_ten, .seqused_kv = used));
        results_t x = case_run(ten);
        case_pack_q(&desc, cu_nine, 2);
        problem_t *nine = problem_create(
            &desc, OPTIONS(.seed = 131, .cu_seqlens_q = cu_nine, .seqused_kv = used));
        memcpy(nine->k.buffer.data, ten->k.buffer.data, ten->k.buffer.bytes);
        memcpy(nine->v.buffer.data, ten->v.buffer.data, ten->v.buffer.bytes);
        memcpy(nine->page_table.data, ten->page_table.data, ten->page_table.bytes);
        for (int64_t i = 0; i < 10; i++) {
            case_copy_row(&nine->q, 0, i, &ten->q, 0, i > 0 ? i + 1 : i);
        }
        results_t y = case_run(nine);
        same_rows(&x, &y, 0, 0, 14, 64); // the decode row
        results_destroy(&x);
        results_destroy(&y);
        problem_destroy(nine);
        problem_destroy(ten);
    }
}

static void c131_other_lengths_change_nothing(void **state)
{
    (void)state;
    const int32_t lens[] = {900, 1000, 120, 500};
    const int32_t other_lens[] = {800, 1000, 120, 500};
    for (int invariant = 0; invariant < 2; invariant++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 4, 1, 1024, 32, 8, 64);
        desc.num_splits = 1;
        desc.batch_invariant = invariant;
        desc.has_seqused_kv = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 131, .seqused_kv = lens));
        results_t x = case_run(p);
        memcpy(p->seqused_kv.data, other_lens, sizeof(other_lens));
        results_t y = case_run(p);
        for (int64_t b = 1; b < 4; b++) {
            same_rows(&x, &y, b, 0, 32, 64);
        }
        assert_true(case_distance(&x.o, &y.o) > 0.0);
        results_destroy(&x);
        results_destroy(&y);
        problem_destroy(p);
    }
}

// batch_invariant: the row's bits also do not depend on how many others there are.
static void c131_invariant_rows_in_any_batch(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 6, 20, 700, 4, 2, 64);
    desc.batch_invariant = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 131));
    results_t all = case_run(p);
    const int64_t sizes[][3] = {{1, 20, 4}, {2, 20, 4}, {6, 1, 4}, {6, 7, 4}, {1, 1, 4}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t fewer = p->full; // keeps the strides
        fewer.batch = sizes[n][0];
        fewer.s_q = sizes[n][1];
        results_t some = case_run_as(p, &fewer);
        for (int64_t i = 0; i < fewer.s_q; i++) {
            same_rows(&all, &some, fewer.batch - 1, i, 4, 64);
        }
        results_destroy(&some);
    }
    results_destroy(&all);
    case_holds_on_best(p);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c124_deterministic_with_empty_blocks),
    cmocka_unit_test(c125_backward_repeats_its_bits),
    cmocka_unit_test(c125_bits_do_not_depend_on_threads),
    cmocka_unit_test(c131_longer_neighbour_changes_nothing),
    cmocka_unit_test(c131_other_lengths_change_nothing),
    cmocka_unit_test(c131_invariant_rows_in_any_batch),
};

static const struct CMUnitTest SLOW_TESTS[] = {cmocka_unit_test(c125_full_size)};

int main(int argc, char **argv)
{
    return case_main_tiers("cases_determinism", TESTS, COUNT_OF(TESTS), SLOW_TESTS,
                           COUNT_OF(SLOW_TESTS), argc, argv);
}
