// test_cases_decode.c: few queries against long caches: split keys, pages, the cache's own append.
// Cases C-056 to C-074: README.md. (C-064, a cache with strides beyond 32 bits, is in
// test_cases_offsets.c.)
#include "case_kit.h"
#include "case_memory.h"

// Runs desc forward over p's operands but with k and v at these places.
static results_t run_with_kv(const problem_t *p, const attn_desc_t *desc, const void *k,
                             const void *v)
{
    const attn_desc_t full = problem_resolve(desc);
    results_t r = results_create(p, &full);
    attn_plan_t *plan;
    assert_ok(attn_plan_create(NULL, desc, ATTN_FORWARD, &plan));
    guard_buffer_t workspace = guard_buffer_create(attn_plan_workspace_bytes(plan), 0);
    attn_forward_args_t args = problem_forward_args(p, &r);
    args.k = k;
    args.v = v;
    assert_ok(attn_forward(plan, &args, workspace.data, workspace.bytes, NULL));
    assert_null(operand_damage(&r.o, true));
    assert_true(guard_buffer_intact(&workspace));
    guard_buffer_destroy(&workspace);
    attn_plan_destroy(plan);
    return r;
}

static void assert_judged(problem_t *p, const results_t *r, const char *what, int64_t n)
{
    char why[1024];
    if (!problem_truth(p, why, sizeof(why)) || !problem_judge(p, r, why, sizeof(why))) {
        fail_msg("%s %lld: %s", what, (long long)n, why);
    }
}

// ---- C-056: splits with a remainder of one key

static void c056_every_split_count_at_odd_lengths(void **state)
{
    (void)state;
    const int64_t lengths[] = {256, 257, 258, 259, 260, 511, 512, 513, 514, 515, 1, 64, 65};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 1, lengths[n], 1, 1, 32);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 56));
        fenced_t k = fenced_copy(p->k.buffer.data, p->k.buffer.bytes);
        fenced_t v = fenced_copy(p->v.buffer.data, p->v.buffer.bytes);
        for (int splits = 0; splits <= 16; splits++) {
            desc.num_splits = splits;
            results_t r = run_with_kv(p, &desc, k.data, v.data);
            assert_judged(p, &r, "splits", splits);
            results_destroy(&r);
        }
        fenced_free(&k);
        fenced_free(&v);
        case_holds(p);
    }
}

// ---- C-058: packed queries, pages and splits together

static void c058_packed_paged_and_split(void **state)
{
    (void)state;
    const int32_t cu_ones[] = {0, 1, 2, 3, 4};
    const int32_t cu_mixed[] = {0, 5, 9, 10, 12};
    const int32_t used[] = {1024, 1024, 1000, 3};
    const int splits[] = {1, 2, 8, 0};
    int32_t table[16];
    for (int32_t n = 0; n < 16; n++) {
        table[n] = n;
    }
    for (int64_t batch = 1; batch <= 4; batch++) {
        for (int mixed = 0; mixed < 2; mixed++) {
            attn_desc_t desc = case_desc(ATTN_F16, batch, 1, 1024, 4, 4, 64);
            const int32_t *cu = mixed ? cu_mixed : cu_ones;
            case_pack_q(&desc, cu, batch);
            case_page_kv(&desc, 256);
            desc.has_seqused_kv = 1;
            problem_t *p = problem_create(&desc, OPTIONS(.seed = 58, .cu_seqlens_q = cu,
                                                         .seqused_kv = used, .page_table = table));
            for (int64_t n = 0; n < COUNT_OF(splits); n++) {
                desc.num_splits = splits[n];
                results_t r = case_run_as(p, &desc);
                assert_judged(p, &r, "splits", splits[n]);
                results_destroy(&r);
            }
            problem_destroy(p);
        }
    }
}

// ---- C-059: joining splits writes by the output's own strides

static void c059_split_results_in_any_layout(void **state)
{
    (void)state;
    const int64_t rows[] = {1, 2, 5, 16};
    for (int64_t n = 0; n < COUNT_OF(rows); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, rows[n], 2048, 8, 8, 64);
        desc.num_splits = 4;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 59));
        results_t dense = case_run(p);
        desc.o = (attn_tensor_t){.dtype = ATTN_BF16,
                                 .stride_b = 8 * rows[n] * 64,
                                 .stride_h = rows[n] * 64,
                                 .stride_s = 64,
                                 .stride_d = 1};
        desc.lse_stride_b = 8 * rows[n];
        desc.lse_stride_h = 1;
        desc.lse_stride_s = 8;
        results_t other = case_run_as(p, &desc);
        assert_true(case_distance(&dense.o, &other.o) == 0.0);
        assert_true(case_distance(&dense.lse, &other.lse) == 0.0);
        // Rows with holes between them: the holes stay (results are checked for that).
        desc.o.stride_s = 70;
        desc.o.stride_h = rows[n] * 70 + 3;
        results_t holes = case_run_as(p, &desc);
        assert_true(case_distance(&dense.o, &holes.o) == 0.0);
        assert_judged(p, &dense, "rows", rows[n]);
        results_destroy(&dense);
        results_destroy(&other);
        results_destroy(&holes);
        problem_destroy(p);
    }
}

// ---- C-061: splits beyond the keys, on dirty workspaces

static void check_dirty_splits(int64_t page_size, int splits, uint64_t seed)
{
    test_rng_t rng = test_rng_at(seed, 61);
    int32_t used[] = {1, 17, 300, 1500};
    for (int n = 0; seed > 0 && n < 4; n++) {
        used[n] = (int32_t)test_rng_range(&rng, 0, 1500);
    }
    attn_desc_t desc = case_desc(ATTN_BF16, 4, 1, 1500, 8, 2, 128);
    desc.has_seqused_kv = 1;
    desc.num_splits = splits;
    case_page_kv(&desc, page_size);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = seed, .seqused_kv = used));
    results_t first = case_run(p);
    case_all_finite(&first.o);
    for (int n = 0; n < 5; n++) {
        results_t again = case_run(p);
        case_same_result_bits(&first, &again);
        results_destroy(&again);
    }
    assert_judged(p, &first, "splits", splits);
    results_destroy(&first);
    problem_destroy(p);
}

static void c061_more_splits_than_pages(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        check_dirty_splits(16, 0, seed);
        check_dirty_splits(16, 64, seed);
        check_dirty_splits(256, 0, seed);
        check_dirty_splits(256, 64, seed);
    }
}

// ---- C-062: appending behind the end of the cache

typedef struct append_case {
    attn_append_desc_t desc;
    attn_append_args_t args;
    operand_t k_new, v_new, k_cache, v_cache;
    int32_t seqlens[1];
    int32_t table[3];
} append_case_t;

static void append_case_init(append_case_t *a, int64_t s_new, int32_t seqlen, bool is_paged)
{
    memset(a, 0, sizeof(*a));
    attn_append_desc_init(&a->desc, ATTN_F16);
    attn_append_args_init(&a->args);
    a->desc.backend = ATTN_BACKEND_CPU;
    a->desc.batch = 1;
    a->desc.s_new = s_new;
    a->desc.heads_kv = 4;
    a->desc.d_qk = a->desc.d_v = 128;
    a->desc.cache_batch = 1;
    a->desc.capacity = 64;
    int64_t cache_dims[4] = {1, 64, 4, 128};
    if (is_paged) {
        a->desc.paged_kv = 1;
        a->desc.page_size = cache_dims[1] = 256;
        a->desc.num_pages = a->desc.pages_per_seq = cache_dims[0] = 3;
    }
    const int64_t cache_strides[4] = {cache_dims[1] * 512, 512, 128, 1};
    const int64_t new_dims[4] = {1, s_new, 4, 128};
    const int64_t new_strides[4] = {s_new * 512, 512, 128, 1};
    a->k_new = operand_create("k_new", ATTN_F16, new_dims, new_strides, 0);
    a->v_new = operand_create("v_new", ATTN_F16, new_dims, new_strides, 0);
    a->k_cache = operand_create("k_cache", ATTN_F16, cache_dims, cache_strides, 0);
    a->v_cache = operand_create("v_cache", ATTN_F16, cache_dims, cache_strides, 0);
    operand_set_all(&a->k_new, 1.0);
    operand_set_all(&a->v_new, 2.0);
    a->seqlens[0] = seqlen;
    for (int32_t n = 0; n < 3; n++) {
        a->table[n] = 2 - n;
    }
    a->args.k_new = operand_data(&a->k_new);
    a->args.v_new = operand_data(&a->v_new);
    a->args.k_cache = operand_data(&a->k_cache);
    a->args.v_cache = operand_data(&a->v_cache);
    a->args.cache_seqlens = a->seqlens;
    a->args.page_table = is_paged ? a->table : NULL;
}

static void append_case_free(append_case_t *a)
{
    operand_destroy(&a->k_new);
    operand_destroy(&a->v_new);
    operand_destroy(&a->k_cache);
    operand_destroy(&a->v_cache);
}

static void append_is_refused(int64_t s_new, int32_t seqlen, bool is_paged, const char *text)
{
    append_case_t a;
    append_case_init(&a, s_new, seqlen, is_paged);
    assert_fails(attn_append(NULL, &a.desc, &a.args, NULL), ATTN_INVALID_ARGUMENT, text);
    const operand_t *caches[] = {&a.k_cache, &a.v_cache};
    for (int n = 0; n < 2; n++) {
        assert_true(guard_buffer_intact(&caches[n]->buffer));
        assert_true(guard_buffer_is_fill(&caches[n]->buffer, 0, caches[n]->buffer.bytes));
    }
    assert_int_equal(a.seqlens[0], seqlen);
    append_case_free(&a);
}

static void c062_append_beyond_the_end_is_refused(void **state)
{
    (void)state;
    append_is_refused(1, 64, false, "64");
    append_is_refused(65, 0, false, "64");
    append_is_refused(2, 63, false, "64");
    append_is_refused(1, 768, true, "768");
    append_is_refused(2, 767, true, "768");
    append_is_refused(1, -1, false, "cache_seqlens");
    append_is_refused(1, INT32_MAX, false, "64");
    append_is_refused(1, INT32_MAX, true, "768");
    append_is_refused(1, INT32_MIN, true, "cache_seqlens");
}

static void c062_append_up_to_the_end_works(void **state)
{
    (void)state;
    append_case_t a;
    append_case_init(&a, 1, 767, true);
    assert_ok(attn_append(NULL, &a.desc, &a.args, NULL));
    for (int64_t h = 0; h < 4; h++) {
        case_row_is(&a.k_cache, 0, 255, h, 1.0, 0.0); // page 2 of the sequence has id 0
        case_row_is(&a.v_cache, 0, 255, h, 2.0, 0.0);
    }
    const size_t row_bytes = 4 * 128 * 2;
    assert_true(guard_buffer_is_fill(&a.k_cache.buffer, 0, 255 * row_bytes));
    assert_true(guard_buffer_is_fill(&a.k_cache.buffer, 256 * row_bytes, 512 * row_bytes));
    append_case_free(&a);
}

// ---- C-065: used length in a longer allocation

static void c065_allocated_length_does_not_matter(void **state)
{
    (void)state;
    const int64_t allocated[] = {640, 1664, 2688, 4096};
    const int32_t used[] = {640};
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 1, 640, 8, 8, 128);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 65));
    results_t expected = {0};
    for (int64_t n = 0; n < 2 * COUNT_OF(allocated); n++) {
        attn_desc_t longer = desc;
        longer.s_kv = allocated[n / 2];
        longer.has_seqused_kv = 1;
        longer.num_splits = n % 2 ? 0 : 1;
        problem_t *cache = problem_create(&longer, OPTIONS(.seed = 65, .seqused_kv = used));
        case_copy_row(&cache->q, 0, 0, &p->q, 0, 0);
        for (int64_t j = 0; j < 640; j++) {
            case_copy_row(&cache->k, 0, j, &p->k, 0, j);
            case_copy_row(&cache->v, 0, j, &p->v, 0, j);
        }
        results_t r = case_run(cache);
        assert_judged(p, &r, "allocated", allocated[n / 2]);
        problem_destroy(cache);
        if (n == 0) {
            expected = r;
            continue;
        }
        if (n % 2 == 0) {
            case_same_result_bits(&expected, &r);
        }
        results_destroy(&r);
    }
    results_destroy(&expected);
    problem_destroy(p);
}

// ---- C-067: left padding

static void left_padding_is_skipped(const problem_t *p, const results_t *r)
{
    (void)p;
    case_row_is(&r->o, 0, 0, 0, 49.5, 1e-4);
    case_row_is(&r->o, 1, 0, 0, 69.5, 1e-4);
    case_lse_is(r, 0, 0, 0, log(100.0), 1e-5);
    case_lse_is(r, 1, 0, 0, log(60.0), 1e-5);
}

static void c067_left_padding_is_not_ignored(void **state)
{
    (void)state;
    const int32_t used[] = {100, 100};
    const int32_t leftpad[] = {0, 40};
    for (int causal = 0; causal < 2; causal++) {
        attn_desc_t desc = case_desc(ATTN_F32, 2, 1, 128, 1, 1, 64);
        desc.causal = causal;
        desc.has_seqused_kv = desc.has_leftpad_kv = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 67, .fill = FILL_ZERO_Q,
                                                     .seqused_kv = used, .leftpad_kv = leftpad));
        case_count_up(p, &p->v);
        case_run_everywhere(p, left_padding_is_skipped);
        case_holds(p);
        // As far as the end: nothing is left.
        const int32_t all[] = {100, 0};
        desc.s_q = 3;
        case_desc_holds(
            &desc, OPTIONS(.seed = 67, .backward = true, .seqused_kv = used, .leftpad_kv = all));
    }
}

// ---- C-068, C-070: pages of any size

static void c068_tiles_that_straddle_pages(void **state)
{
    (void)state;
    const int32_t used[] = {300, 512};
    const int32_t interleaved[] = {0, 2, 1, 3};
    attn_desc_t desc = case_desc(ATTN_F16, 2, 1, 512, 12, 2, 128);
    desc.has_seqused_kv = 1;
    case_page_kv(&desc, 256);
    case_desc_holds(&desc, OPTIONS(.seed = 68, .seqused_kv = used, .page_table = interleaved));
    const int64_t sizes[] = {1, 3, 7, 16, 63, 64, 65, 96, 160, 511, 512, 513, 1000};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        case_page_kv(&desc, sizes[n]);
        desc.s_q = n % 2 ? 1 : 19;
        desc.causal = n % 2;
        desc.num_splits = n % 3 ? 0 : 3;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 68, .seqused_kv = used));
        case_holds_on_best(p);
    }
}

// Page tables are checked where the host sees them; entries behind the used length may hold
// anything.
static void c068_bad_page_ids_are_refused(void **state)
{
    (void)state;
    const int32_t used[] = {33};
    const int32_t bad[] = {-1, 8, INT32_MAX, INT32_MIN};
    attn_desc_t desc = case_desc(ATTN_F32, 1, 1, 128, 1, 1, 16);
    desc.has_seqused_kv = 1;
    case_page_kv(&desc, 16);
    for (int64_t n = 0; n < COUNT_OF(bad); n++) {
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 68, .seqused_kv = used));
        case_list(&p->page_table)[3] = bad[n]; // keys 48 and up
        results_t r = case_run(p);
        assert_judged(p, &r, "unused id", bad[n]);
        results_destroy(&r);
        case_list(&p->page_table)[2] = bad[n]; // key 32
        case_run_refused(p, "page_table");
        problem_destroy(p);
    }
}

static void c070_page_sizes_agree(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 16, 64, 200};
    attn_desc_t desc = case_desc(ATTN_BF16, 8, 33, 200, 8, 2, 128);
    desc.causal = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 70));
    results_t dense = case_run(p);
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t paged = desc;
        case_page_kv(&paged, sizes[n]);
        problem_t *other = problem_create(&paged, OPTIONS(.seed = 70));
        memcpy(other->q.buffer.data, p->q.buffer.data, p->q.buffer.bytes);
        for (int64_t b = 0; b < 8; b++) {
            for (int64_t j = 0; j < 200; j++) {
                int64_t page;
                int64_t row;
                problem_locate_key(other, b, j, &page, &row);
                case_copy_row(&other->k, page, row, &p->k, b, j);
                case_copy_row(&other->v, page, row, &p->v, b, j);
            }
        }
        results_t r = case_run(other);
        case_same_result_bits(&dense, &r);
        results_destroy(&r);
        problem_destroy(other);
    }
    results_destroy(&dense);
    problem_destroy(p);
}

// ---- C-071: a row without keys as padding of the batch

static void c071_row_without_keys_changes_no_other(void **state)
{
    (void)state;
    const int32_t used[] = {5, 1000, 33, 0};
    const int splits[] = {1, 8};
    for (int64_t n = 0; n < COUNT_OF(splits); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 4, 1, 1000, 8, 2, 128);
        desc.has_seqused_kv = 1;
        desc.num_splits = splits[n];
        case_page_kv(&desc, 16);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 71, .seqused_kv = used));
        results_t four = case_run(p);
        attn_desc_t fewer = desc;
        fewer.batch = 3;
        results_t three = case_run_as(p, &fewer);
        for (int64_t h = 0; h < 8; h++) {
            case_row_is_empty(&four, 3, 0, h);
            for (int64_t b = 0; b < 3; b++) {
                assert_true(operand_get(&four.lse, b, h, 0, 0) ==
                            operand_get(&three.lse, b, h, 0, 0));
                for (int64_t c = 0; c < 128; c++) {
                    assert_true(operand_get(&four.o, b, 0, h, c) ==
                                operand_get(&three.o, b, 0, h, c));
                }
            }
        }
        results_destroy(&four);
        results_destroy(&three);
        case_holds(p);
    }
}

// ---- C-073: planning always ends

static void c073_every_plan_returns(void **state)
{
    (void)state;
    case_watchdog(10);
    const int64_t lengths[] = {1, 2, 31, 32, 33, 63, 64, 100, 511, 512, 513, 1000, 4095, 4096};
    for (int64_t batch = 1; batch <= 64; batch++) {
        for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
            attn_desc_t desc = case_desc(ATTN_BF16, batch, 1, lengths[n], 64, 8, 128);
            case_page_kv(&desc, 32);
            attn_plan_t *plan;
            assert_ok(attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan));
            attn_plan_destroy(plan);
        }
    }
    case_watchdog(0);
}

static void c073_decode_returns(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{2, 512}, {1, 1}, {3, 33}, {7, 100}, {64, 65}, {1, 4096}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, sizes[n][0], 1, sizes[n][1], 64, 8, 32);
        case_page_kv(&desc, 32);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 73));
        case_watchdog(10);
        results_t r = case_run(p);
        case_watchdog(0);
        assert_judged(p, &r, "batch", sizes[n][0]);
        results_destroy(&r);
        problem_destroy(p);
    }
}

// ---- C-074: a window is read alone. What lies before it cannot be read at all here.

static void c074_keys_before_the_window_are_not_read(void **state)
{
    (void)state;
    const int64_t s_kv = 16384;
    const int64_t row = 2 * 64 * (int64_t)sizeof(float);
    attn_desc_t desc = case_desc(ATTN_F32, 1, 1, s_kv, 8, 2, 64);
    desc.window_left = 511;
    desc.window_right = 0;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 74));
    fenced_t k = fenced_copy(p->k.buffer.data, p->k.buffer.bytes);
    fenced_t v = fenced_copy(p->v.buffer.data, p->v.buffer.bytes);
    // Up to one tile more than the window may be looked at.
    fenced_close(&k, (size_t)((s_kv - 512 - 64) * row));
    fenced_close(&v, (size_t)((s_kv - 512 - 64) * row));
    results_t r = run_with_kv(p, &desc, k.data, v.data);
    // The same as the last 512 keys alone.
    attn_desc_t last = desc;
    last.s_kv = 512;
    last.window_left = -1;
    results_t alone =
        run_with_kv(p, &last, k.data + (s_kv - 512) * row, v.data + (s_kv - 512) * row);
    assert_true(case_distance(&r.o, &alone.o) < 1e-6);
    results_destroy(&r);
    results_destroy(&alone);
    fenced_free(&k);
    fenced_free(&v);
    case_holds_on_best(p);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c056_every_split_count_at_odd_lengths),
    cmocka_unit_test(c058_packed_paged_and_split),
    cmocka_unit_test(c059_split_results_in_any_layout),
    cmocka_unit_test(c061_more_splits_than_pages),
    cmocka_unit_test(c062_append_beyond_the_end_is_refused),
    cmocka_unit_test(c062_append_up_to_the_end_works),
    cmocka_unit_test(c065_allocated_length_does_not_matter),
    cmocka_unit_test(c067_left_padding_is_not_ignored),
    cmocka_unit_test(c068_tiles_that_straddle_pages),
    cmocka_unit_test(c068_bad_page_ids_are_refused),
    cmocka_unit_test(c070_page_sizes_agree),
    cmocka_unit_test(c071_row_without_keys_changes_no_other),
    cmocka_unit_test(c073_every_plan_returns),
    cmocka_unit_test(c073_decode_returns),
    cmocka_unit_test(c074_keys_before_the_window_are_not_read),
};

int main(int argc, char **argv)
{
    return case_main("cases_decode", TESTS, COUNT_OF(TESTS), argc, argv);
}
