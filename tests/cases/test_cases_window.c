// test_cases_window.c: sliding windows. Cases C-011 to C-019: README.md.
#include "case_kit.h"

#include <stdio.h>
#include <stdlib.h>

// ---- C-011: the window is measured from the row's own key position

// Keys [first, last] that row i sees, from the definition.
static void window_of(const attn_desc_t *desc, int64_t i, int64_t *first_out, int64_t *last_out)
{
    const int64_t own = i + desc->s_kv - desc->s_q;
    const int64_t left = desc->window_left < 0 ? own : desc->window_left;
    *first_out = own - left > 0 ? own - left : 0;
    *last_out = desc->s_kv - 1;
    if (desc->window_right >= 0 && own + desc->window_right < *last_out) {
        *last_out = own + desc->window_right;
    }
}

static void rows_average_their_window(const problem_t *p, const results_t *r)
{
    for (int64_t i = 0; i < p->full.s_q; i++) {
        int64_t first;
        int64_t last;
        window_of(&p->full, i, &first, &last);
        if (first > last) {
            case_row_is_empty(r, 0, i, 0);
        } else {
            const double mean = (double)(first + last) / 2.0;
            case_row_is(&r->o, 0, i, 0, mean, 1e-5 * mean);
            case_lse_is(r, 0, 0, i, log((double)(last - first + 1)), 1e-5);
        }
    }
}

static void check_window(attn_dtype_t dtype, int64_t s_q, int64_t s_kv, int64_t left, int64_t right)
{
    attn_desc_t desc = case_desc(dtype, 1, s_q, s_kv, 1, 1, 64);
    desc.o.dtype = ATTN_F32;
    desc.window_left = left;
    desc.window_right = right;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 11, .fill = FILL_ZERO_Q));
    case_count_up(p, &p->v);
    case_run_everywhere(p, rows_average_their_window);
    problem_destroy(p);
}

static void c011_window_is_bottom_right(void **state)
{
    (void)state;
    check_window(ATTN_BF16, 129, 32, 32, 64); // rows 0..32 are empty, row 33 sees key 0
    const int64_t windows[][4] = {{129, 32, 0, 0},   {129, 32, 32, 0}, {129, 32, 0, 64},
                                  {32, 129, 32, 64}, {65, 65, 1, 1},   {64, 64, 63, 0},
                                  {64, 64, 64, 0},   {1, 200, 10, -1}, {200, 1, 5, 100},
                                  {100, 300, -1, 7}, {300, 100, -1, 7}};
    for (int64_t n = 0; n < COUNT_OF(windows); n++) {
        check_window(ATTN_F32, windows[n][0], windows[n][1], windows[n][2], windows[n][3]);
    }
}

// ---- C-013: negative windows other than -1

static void c013_negative_windows_are_refused(void **state)
{
    (void)state;
    const int64_t bad[][2] = {{-1, -3}, {-2, 0}, {0, -2}, {INT64_MIN, 0}, {0, INT64_MIN}};
    for (int64_t n = 0; n < COUNT_OF(bad); n++) {
        attn_desc_t desc = case_desc(ATTN_F16, 32, 1024, 1024, 8, 8, 128);
        desc.window_left = bad[n][0];
        desc.window_right = bad[n][1];
        const char *name = bad[n][0] < -1 ? "window_left" : "window_right";
        case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, name);
        case_refused(&desc, ATTN_BACKWARD, ATTN_INVALID_ARGUMENT, name);
    }
    // Also with causal, where the right bound would not matter.
    attn_desc_t desc = case_desc(ATTN_F16, 1, 64, 64, 1, 1, 64);
    desc.causal = 1;
    desc.window_right = -3;
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "window_right");
}

static void c013_zero_left_means_me_and_everything_right(void **state)
{
    (void)state;
    check_window(ATTN_F32, 70, 70, 0, -1);
    check_window(ATTN_F32, 20, 90, 0, -1);
    check_window(ATTN_F32, 90, 20, 0, -1);
}

// The largest window is no window: bounds must not overflow.
static void c013_huge_windows_do_not_overflow(void **state)
{
    (void)state;
    const int64_t huge[] = {INT64_MAX, INT64_MAX - 1, INT32_MAX, (int64_t)1 << 62};
    for (int64_t n = 0; n < COUNT_OF(huge); n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 1, 70, 90, 1, 1, 16);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 13, .backward = true));
        results_t plain = case_run(p);
        desc.window_left = huge[n];
        desc.window_right = huge[n];
        results_t wide = case_run_as(p, &desc);
        case_same_result_bits(&plain, &wide);
        results_destroy(&plain);
        results_destroy(&wide);
        problem_destroy(p);
    }
}

// ---- C-014: four spellings of causal

static void c014_spellings_of_causal_agree(void **state)
{
    (void)state;
    const int64_t s = 700;
    const attn_dtype_t dtypes[] = {ATTN_F16, ATTN_F32, ATTN_BF16};
    for (int64_t n = 0; n < COUNT_OF(dtypes); n++) {
        attn_desc_t desc = case_desc(dtypes[n], 1, s, s, 2, 2, 128);
        desc.causal = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 14, .backward = true));
        results_t causal = case_run(p);
        const int64_t lefts[] = {-1, s, s - 1};
        for (int64_t k = 0; k < COUNT_OF(lefts); k++) {
            attn_desc_t window = desc;
            window.causal = 0;
            window.window_left = lefts[k];
            window.window_right = 0;
            results_t r = case_run_as(p, &window);
            case_same_result_bits(&causal, &r);
            results_destroy(&r);
        }
        // One less: only the last row loses a key, and it loses key 0.
        attn_desc_t window = desc;
        window.causal = 0;
        window.window_left = s - 2;
        window.window_right = 0;
        results_t r = case_run_as(p, &window);
        for (int64_t i = 0; i < s; i++) {
            const bool same =
                operand_get(&causal.lse, 0, 0, i, 0) == operand_get(&r.lse, 0, 0, i, 0);
            assert_true(same == (i < s - 1));
        }
        results_destroy(&r);
        results_destroy(&causal);
        problem_destroy(p);
    }
}

// ---- C-016, C-017: a right bound of 0 is a bound

static void c016_left_window_does_not_see_the_future(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 64, 64, 2, 2, 64);
    desc.window_left = 4;
    desc.window_right = 0;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 16, .backward = true));
    results_t before = case_run(p);
    attn_desc_t causal = desc;
    causal.causal = 1;
    causal.window_right = -1;
    results_t same = case_run_as(p, &causal);
    case_same_result_bits(&before, &same);
    causal.window_right = 3; // causal wins
    results_t wide = case_run_as(p, &causal);
    case_same_result_bits(&before, &wide);
    // Later values do not reach earlier rows by one bit.
    for (int64_t c = 0; c < 64; c++) {
        operand_set(&p->v, 0, 40, 0, c, 1000.0);
        operand_set(&p->k, 0, 40, 0, c, 1000.0);
    }
    results_t after = case_run(p);
    for (int64_t i = 0; i < 64; i++) {
        const bool sees = i >= 40 && i <= 44;
        const double x = operand_get(&before.o, 0, i, 0, 3);
        const double y = operand_get(&after.o, 0, i, 0, 3);
        assert_true(sees ? x != y : x == y);
    }
    results_destroy(&before);
    results_destroy(&same);
    results_destroy(&wide);
    results_destroy(&after);
    case_holds(p);
}

static void c016_causal_window_and_lengths_together(void **state)
{
    (void)state;
    const int32_t used[] = {40};
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 64, 64, 2, 2, 64);
    desc.causal = 1;
    desc.window_left = 4;
    desc.window_right = 3;
    desc.has_seqused_kv = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 16, .backward = true, .seqused_kv = used));
    results_t r = case_run(p);
    desc.window_right = 0;
    results_t same = case_run_as(p, &desc);
    case_same_result_bits(&r, &same);
    results_destroy(&r);
    results_destroy(&same);
    case_holds(p);
}

static void last_keys_average(const problem_t *p, const results_t *r)
{
    const double n = (double)p->full.window_left + 1.0;
    for (int64_t h = 0; h < p->full.heads_q; h++) {
        const double mean = (double)p->full.s_kv - 1.0 - (n - 1.0) / 2.0;
        case_row_is(&r->o, 0, 0, h, mean, 1e-6 * mean);
        case_lse_is(r, 0, h, 0, log(n), 1e-5);
    }
}

static void c017_right_window_zero_is_set(void **state)
{
    (void)state;
    const int64_t s_kv = 5000;
    const int64_t lefts[] = {255, 0, 1, 63, 64};
    for (int64_t n = 0; n < COUNT_OF(lefts); n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 1, 1, s_kv, 8, 1, 128);
        desc.window_left = lefts[n];
        desc.window_right = 0;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 17, .fill = FILL_ZERO_Q));
        case_count_up(p, &p->v);
        case_run_everywhere(p, last_keys_average);
        problem_destroy(p);
    }
}

// What the kernel looks at: the tiles of the window, not of the context.
static void c017_plan_loads_the_window_only(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 1, 65536, 8, 1, 128);
    const int64_t lefts[] = {255, 0, 511};
    for (int64_t n = 0; n < COUNT_OF(lefts); n++) {
        desc.window_left = lefts[n];
        desc.window_right = 0;
        attn_tile_map_t map;
        assert_ok(attn_tile_map(NULL, &desc, &map, NULL, 0));
        const size_t bytes = (size_t)(map.rows * map.cols);
        uint8_t *tiles = malloc(bytes);
        assert_non_null(tiles);
        assert_ok(attn_tile_map(NULL, &desc, &map, tiles, bytes));
        int64_t loaded = 0;
        for (size_t t = 0; t < bytes; t++) {
            loaded += tiles[t] != 0;
        }
        free(tiles);
        assert_true(loaded >= 1);
        assert_true(loaded <= map.rows * ((lefts[n] + map.tile_kv) / map.tile_kv + 1));
    }
}

// ---- C-019: the window counts logical positions

typedef enum page_order { PAGES_IN_A_ROW, PAGES_INTERLEAVED, PAGES_REVERSED } page_order_t;

static void fill_page_table(int32_t *table, int64_t batch, int64_t pages, page_order_t order)
{
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t n = 0; n < pages; n++) {
            int64_t id = b * pages + n;
            if (order == PAGES_INTERLEAVED) {
                id = n * batch + b;
            } else if (order == PAGES_REVERSED) {
                id = batch * pages - 1 - (n * batch + b);
            }
            table[b * pages + n] = (int32_t)id;
        }
    }
}

// K and V of p by logical position from one seed, whatever the pages.
static void fill_logical(problem_t *p)
{
    for (int64_t b = 0; b < p->full.batch; b++) {
        for (int64_t j = 0; j < p->full.s_kv; j++) {
            test_rng_t rng = test_rng_at(19, (uint64_t)(b * p->full.s_kv + j));
            int64_t kv_b;
            int64_t kv_s;
            problem_locate_key(p, b, j, &kv_b, &kv_s);
            for (int64_t h = 0; h < p->full.heads_kv; h++) {
                for (int64_t c = 0; c < p->full.d_qk; c++) {
                    operand_set(&p->k, kv_b, kv_s, h, c, test_rng_normal(&rng));
                    operand_set(&p->v, kv_b, kv_s, h, c, test_rng_normal(&rng));
                }
            }
        }
    }
}

static void c019_window_is_logical_not_physical(void **state)
{
    (void)state;
    enum { BATCH = 4, S_KV = 1024, PAGE = 16, PAGES = S_KV / PAGE };
    int32_t table[BATCH * PAGES];
    attn_desc_t desc = case_desc(ATTN_F16, BATCH, 1, S_KV, 8, 2, 128);
    desc.window_left = 511;
    desc.window_right = 0;
    problem_t *dense = problem_create(&desc, OPTIONS(.seed = 19));
    fill_logical(dense);
    results_t expected = case_run(dense);
    case_page_kv(&desc, PAGE);
    for (int order = PAGES_IN_A_ROW; order <= PAGES_REVERSED; order++) {
        fill_page_table(table, BATCH, PAGES, (page_order_t)order);
        problem_t *paged = problem_create(&desc, OPTIONS(.seed = 19, .page_table = table));
        fill_logical(paged);
        results_t r = case_run(paged);
        case_same_result_bits(&expected, &r);
        results_destroy(&r);
        problem_destroy(paged);
    }
    results_destroy(&expected);
    case_holds(dense);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c011_window_is_bottom_right),
        cmocka_unit_test(c013_negative_windows_are_refused),
        cmocka_unit_test(c013_zero_left_means_me_and_everything_right),
        cmocka_unit_test(c013_huge_windows_do_not_overflow),
        cmocka_unit_test(c014_spellings_of_causal_agree),
        cmocka_unit_test(c016_left_window_does_not_see_the_future),
        cmocka_unit_test(c016_causal_window_and_lengths_together),
        cmocka_unit_test(c017_right_window_zero_is_set),
        cmocka_unit_test(c017_plan_loads_the_window_only),
        cmocka_unit_test(c019_window_is_logical_not_physical),
    };
    return case_main("cases_window", tests, COUNT_OF(tests), argc, argv);
}
