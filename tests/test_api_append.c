// attn_append: places in the cache (dense, chosen entries, pages, packed tokens), rotation of both
// kinds against fp64, room that is missing, 64-bit offsets, and that a refused call writes nothing.
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

// ---------------------------------------------------------------------------------------------
// A cache in guarded memory, with tokens to append

typedef struct append_run {
    attn_append_desc_t desc;
    attn_append_args_t args;
    operand_t k_new, v_new, k_cache, v_cache, q, q_out;
    float *cosines, *sines;
} append_run_t;

static operand_t dense_operand(const char *name, attn_dtype_t dtype, int64_t b, int64_t s,
                               int64_t h, int64_t d)
{
    const int64_t dims[4] = {b, s, h, d};
    const int64_t strides[4] = {s * h * d, h * d, d, 1};
    return operand_create(name, dtype, dims, strides, 1);
}

static void fill_random(operand_t *operand, test_rng_t *rng)
{
    for (operand_walk_t w = operand_walk(operand); !w.done; operand_next(operand, &w)) {
        operand_set(operand, w.at[0], w.at[1], w.at[2], w.at[3], test_rng_normal(rng));
    }
}

// desc is filled but for strides, which stay automatic. Caches start as 0.
static append_run_t append_create(const attn_append_desc_t *desc)
{
    append_run_t run = {.desc = *desc};
    test_rng_t rng = test_rng_at(62, (uint64_t)desc->d_qk);
    const int64_t new_b = desc->varlen_new ? 1 : desc->batch;
    const int64_t new_s = desc->varlen_new ? desc->total_new : desc->s_new;
    const int64_t cache_b = desc->paged_kv ? desc->num_pages : desc->cache_batch;
    const int64_t cache_s = desc->paged_kv ? desc->page_size : desc->capacity;
    const attn_dtype_t dtype = desc->k_new.dtype;
    run.k_new = dense_operand("k_new", dtype, new_b, new_s, desc->heads_kv, desc->d_qk);
    run.v_new = dense_operand("v_new", dtype, new_b, new_s, desc->heads_kv, desc->d_v);
    run.k_cache = dense_operand("k_cache", dtype, cache_b, cache_s, desc->heads_kv, desc->d_qk);
    run.v_cache = dense_operand("v_cache", dtype, cache_b, cache_s, desc->heads_kv, desc->d_v);
    run.q = dense_operand("q", dtype, new_b, new_s, desc->heads_q, desc->d_qk);
    run.q_out = dense_operand("q_out", dtype, new_b, new_s, desc->heads_q, desc->d_qk);
    fill_random(&run.k_new, &rng);
    fill_random(&run.v_new, &rng);
    fill_random(&run.q, &rng);
    operand_set_all(&run.k_cache, 0.0);
    operand_set_all(&run.v_cache, 0.0);
    const int64_t pairs = desc->rotary_dim / 2;
    run.cosines = calloc((size_t)(desc->rotary_positions * pairs + 1), sizeof(float));
    run.sines = calloc((size_t)(desc->rotary_positions * pairs + 1), sizeof(float));
    assert_non_null(run.cosines);
    assert_non_null(run.sines);
    for (int64_t i = 0; i < desc->rotary_positions * pairs; i++) {
        const double angle =
            (double)(i / pairs) * pow(10000.0, -(double)(i % pairs) / (double)pairs);
        run.cosines[i] = (float)cos(angle);
        run.sines[i] = (float)sin(angle);
    }
    attn_append_args_init(&run.args);
    run.args.k_new = operand_data(&run.k_new);
    run.args.v_new = operand_data(&run.v_new);
    run.args.k_cache = operand_data(&run.k_cache);
    run.args.v_cache = operand_data(&run.v_cache);
    if (desc->rotary != ATTN_ROTARY_NONE) {
        run.args.rotary_cos = run.cosines;
        run.args.rotary_sin = run.sines;
    }
    if (desc->heads_q > 0) {
        run.args.q = operand_data(&run.q);
        run.args.q_out = operand_data(&run.q_out);
    }
    return run;
}

static void append_destroy(append_run_t *run)
{
    operand_t *const operands[] = {&run->k_new,   &run->v_new, &run->k_cache,
                                   &run->v_cache, &run->q,     &run->q_out};
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++) {
        assert_null(operand_damage(operands[i], false));
        operand_destroy(operands[i]);
    }
    free(run->cosines);
    free(run->sines);
}

static attn_status_t append_go(append_run_t *run)
{
    return attn_append(NULL, &run->desc, &run->args, NULL);
}

static bool is_zero(const operand_t *cache)
{
    for (operand_walk_t w = operand_walk(cache); !w.done; operand_next(cache, &w)) {
        if (operand_get(cache, w.at[0], w.at[1], w.at[2], w.at[3]) != 0.0) {
            return false;
        }
    }
    return true;
}

// Element d of a row that was rotated at a position, in fp64.
static double rotated(const append_run_t *run, const operand_t *from, int64_t b, int64_t s,
                      int64_t h, int64_t d, int64_t position)
{
    const int64_t dims = run->desc.rotary == ATTN_ROTARY_NONE ? 0 : run->desc.rotary_dim;
    if (d >= dims) {
        return operand_get(from, b, s, h, d);
    }
    const bool is_interleaved = run->desc.rotary == ATTN_ROTARY_INTERLEAVED;
    const int64_t pair = is_interleaved ? d / 2 : d % (dims / 2);
    const int64_t x_at = is_interleaved ? 2 * pair : pair;
    const int64_t y_at = is_interleaved ? 2 * pair + 1 : pair + dims / 2;
    const double x = operand_get(from, b, s, h, x_at);
    const double y = operand_get(from, b, s, h, y_at);
    const double c = (double)run->cosines[position * (dims / 2) + pair];
    const double n = (double)run->sines[position * (dims / 2) + pair];
    return d == x_at ? x * c - y * n : x * n + y * c;
}

// Where position p of sequence b lies in the caches.
typedef struct place {
    int64_t b;
    int64_t s;
} place_t;

static place_t place_of(const append_run_t *run, int64_t b, int64_t p)
{
    if (run->desc.paged_kv) {
        const int64_t at = b * run->desc.pages_per_seq + p / run->desc.page_size;
        return (place_t){run->args.page_table[at], p % run->desc.page_size};
    }
    return (place_t){run->desc.has_cache_batch_idx ? run->args.cache_batch_idx[b] : b, p};
}

static void assert_token(append_run_t *run, int64_t b, int64_t new_b, int64_t new_s, int64_t p)
{
    const attn_append_desc_t *desc = &run->desc;
    const double unit = 4.0 * test_number_unit(desc->k_new.dtype);
    const place_t at = place_of(run, b, p);
    for (int64_t h = 0; h < desc->heads_kv; h++) {
        for (int64_t d = 0; d < desc->d_qk; d++) {
            const double truth = rotated(run, &run->k_new, new_b, new_s, h, d, p);
            const double got = operand_get(&run->k_cache, at.b, at.s, h, d);
            assert_true(fabs(got - truth) <= unit * (1.0 + fabs(truth)));
            operand_set(&run->k_cache, at.b, at.s, h, d, 0.0);
        }
        for (int64_t d = 0; d < desc->d_v; d++) {
            assert_true(operand_get(&run->v_cache, at.b, at.s, h, d) ==
                        operand_get(&run->v_new, new_b, new_s, h, d));
            operand_set(&run->v_cache, at.b, at.s, h, d, 0.0);
        }
    }
    for (int64_t h = 0; h < desc->heads_q; h++) {
        for (int64_t d = 0; d < desc->d_qk; d++) {
            const double truth = rotated(run, &run->q, new_b, new_s, h, d, p);
            const double got = operand_get(&run->q_out, new_b, new_s, h, d);
            assert_true(fabs(got - truth) <= unit * (1.0 + fabs(truth)));
        }
    }
}

// Every new token is in its place, and nothing else was written: what is found is set back to 0.
static void assert_appended(append_run_t *run)
{
    const attn_append_desc_t *desc = &run->desc;
    const int32_t *cu = run->args.cu_seqlens_new;
    for (int64_t b = 0; b < desc->batch; b++) {
        const int64_t count = desc->varlen_new ? cu[b + 1] - cu[b] : desc->s_new;
        for (int64_t t = 0; t < count; t++) {
            assert_token(run, b, desc->varlen_new ? 0 : b, desc->varlen_new ? cu[b] + t : t,
                         run->args.cache_seqlens[b] + t);
        }
    }
    assert_true(is_zero(&run->k_cache));
    assert_true(is_zero(&run->v_cache));
}

static attn_append_desc_t dense_desc(attn_dtype_t dtype)
{
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, dtype);
    desc.batch = 2;
    desc.s_new = 19; // more than one task's tokens
    desc.heads_kv = 3;
    desc.d_qk = 10;
    desc.d_v = 7;
    desc.cache_batch = 4;
    desc.capacity = 40;
    return desc;
}

// ---------------------------------------------------------------------------------------------
// Places and rotation

static void every_rotation_and_dtype(void **state)
{
    (void)state;
    static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    for (int rotary = ATTN_ROTARY_NONE; rotary <= ATTN_ROTARY_HALF; rotary++) {
        for (int64_t rotary_dim = 2; rotary_dim <= 10; rotary_dim += 4) {
            for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++) {
                attn_append_desc_t desc = dense_desc(dtypes[t]);
                desc.rotary = (attn_rotary_t)rotary;
                desc.rotary_dim = rotary_dim;
                desc.rotary_positions = 40;
                desc.heads_q = 6;
                append_run_t run = append_create(&desc);
                const int32_t lengths[2] = {0, 21};
                run.args.cache_seqlens = lengths;
                assert_ok(append_go(&run));
                assert_appended(&run);
                append_destroy(&run);
            }
        }
    }
}

static void pages_in_any_order(void **state)
{
    (void)state;
    attn_append_desc_t desc = dense_desc(ATTN_F32);
    desc.paged_kv = 1;
    desc.page_size = 3;
    desc.num_pages = 20;
    desc.pages_per_seq = 9;
    append_run_t run = append_create(&desc);
    const int32_t lengths[2] = {8, 2};
    // Pages before the new tokens are not looked at.
    const int32_t table[18] = {-1, 99, 19, 0, 17, 4, 6, 5, 1, 2, 3, 7, 8, 9, 10, 11, -1, -1};
    run.args.cache_seqlens = lengths;
    run.args.page_table = table;
    assert_ok(append_go(&run));
    assert_appended(&run);
    int32_t bad[18];
    memcpy(bad, table, sizeof(bad));
    bad[4] = 20;
    run.args.page_table = bad;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "page_table[0][4]: 20, expected a page below num_pages (20)");
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    append_destroy(&run);
}

static void packed_tokens(void **state)
{
    (void)state;
    attn_append_desc_t desc = dense_desc(ATTN_BF16);
    desc.batch = 4;
    desc.varlen_new = 1;
    desc.total_new = 30;
    desc.rotary = ATTN_ROTARY_HALF;
    desc.rotary_dim = 10;
    desc.rotary_positions = 40;
    desc.heads_q = 3;
    append_run_t run = append_create(&desc);
    const int32_t lengths[4] = {0, 40, 7, 39}; // the second is full and gets nothing
    const int32_t cu[5] = {0, 18, 18, 29, 30};
    run.args.cache_seqlens = lengths;
    run.args.cu_seqlens_new = cu;
    assert_ok(append_go(&run));
    assert_appended(&run);
    run.desc.s_new = INT64_C(1) << 40; // a bound; the pack bounds the work
    assert_ok(append_go(&run));
    assert_appended(&run);
    append_destroy(&run);
}

static void queries_in_place(void **state)
{
    (void)state;
    attn_append_desc_t desc = dense_desc(ATTN_F32);
    desc.rotary = ATTN_ROTARY_HALF;
    desc.rotary_dim = 6;
    desc.rotary_positions = 40;
    desc.heads_q = 3;
    append_run_t run = append_create(&desc);
    const int32_t lengths[2] = {3, 4};
    run.args.cache_seqlens = lengths;
    assert_ok(append_go(&run));
    run.args.q_out = operand_data(&run.q);
    assert_ok(append_go(&run));
    assert_true(operand_equal_bits(&run.q, &run.q_out));
    run.desc.q_out.stride_h = 12;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT, "q_out: the same memory as q");
    append_destroy(&run);
}

// 8-bit rows are copied whatever their bits mean.
static void bytes_of_small_types_are_kept(void **state)
{
    (void)state;
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, ATTN_F8_E4M3);
    desc.batch = desc.s_new = desc.heads_kv = 1;
    desc.d_qk = desc.d_v = 256;
    desc.cache_batch = desc.capacity = 1;
    uint8_t bytes[256];
    uint8_t k_cache[256];
    uint8_t v_cache[512];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
    }
    desc.v_cache.stride_d = 2;
    const int32_t length = 0;
    attn_append_args_t args;
    attn_append_args_init(&args);
    args.k_new = args.v_new = bytes;
    args.k_cache = k_cache;
    args.v_cache = v_cache;
    args.cache_seqlens = &length;
    assert_ok(attn_append(NULL, &desc, &args, NULL));
    assert_memory_equal(k_cache, bytes, 256);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(v_cache[2 * i], i);
    }
    desc.rotary = ATTN_ROTARY_HALF;
    desc.rotary_dim = 2;
    assert_fails(attn_append(NULL, &desc, &args, NULL), ATTN_UNSUPPORTED, "k_new.dtype: e4m3");
}

// ---------------------------------------------------------------------------------------------
// Room

static void c062_dense_cache_is_full(void **state)
{
    (void)state;
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, ATTN_F16);
    desc.batch = desc.s_new = desc.cache_batch = 1;
    desc.heads_kv = 32;
    desc.d_qk = desc.d_v = 128;
    desc.capacity = 64;
    append_run_t run = append_create(&desc);
    int32_t length = 64;
    run.args.cache_seqlens = &length;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "cache_seqlens[0] + 1 new = 65, capacity 64");
    length = -1;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT, "cache_seqlens[0]: -1, expected >= 0");
    length = INT32_MAX;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT, "= 2147483648, capacity 64");
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    length = 63;
    assert_ok(append_go(&run));
    assert_appended(&run);
    append_destroy(&run);
}

static void c062_pages_are_full(void **state)
{
    (void)state;
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, ATTN_F16);
    desc.batch = desc.s_new = 1;
    desc.heads_kv = 1;
    desc.d_qk = desc.d_v = 8;
    desc.paged_kv = 1;
    desc.page_size = 256;
    desc.num_pages = desc.pages_per_seq = 3;
    const int32_t table[3] = {2, 0, 1};
    append_run_t run = append_create(&desc);
    run.args.page_table = table;
    int32_t length = 768;
    run.args.cache_seqlens = &length;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "cache_seqlens[0] + 1 new = 769, capacity 768");
    length = 767;
    assert_ok(append_go(&run));
    assert_appended(&run);
    append_destroy(&run);
    desc.s_new = 2;
    run = append_create(&desc);
    run.args.page_table = table;
    run.args.cache_seqlens = &length;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "cache_seqlens[0] + 2 new = 769, capacity 768");
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    append_destroy(&run);
}

// All or nothing: the last sequence does not fit, so the first is not written either.
static void one_that_does_not_fit_stops_all(void **state)
{
    (void)state;
    attn_append_desc_t desc = dense_desc(ATTN_F32);
    desc.rotary = ATTN_ROTARY_HALF;
    desc.rotary_dim = 4;
    desc.rotary_positions = 30;
    append_run_t run = append_create(&desc);
    int32_t lengths[2] = {0, 22};
    run.args.cache_seqlens = lengths;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "cache_seqlens[1] + 19 new = 41, capacity 40");
    lengths[1] = 12;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "cache_seqlens[1] + 19 new = 31, rotary_positions 30");
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    append_destroy(&run);
}

// ---------------------------------------------------------------------------------------------
// Two tokens with one place

static void sequences_that_share_an_entry(void **state)
{
    (void)state;
    attn_append_desc_t desc = dense_desc(ATTN_F32);
    desc.has_cache_batch_idx = 1;
    desc.batch = 3;
    desc.s_new = 4;
    append_run_t run = append_create(&desc);
    int32_t lengths[3] = {0, 9, 3};
    const int32_t entries[3] = {2, 1, 2};
    run.args.cache_seqlens = lengths;
    run.args.cache_batch_idx = entries;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "cache_batch_idx: sequences 0 and 2 both append to row 3 of entry 2");
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    lengths[2] = 4; // behind the other's tokens
    assert_ok(append_go(&run));
    assert_appended(&run);
    append_destroy(&run);
}

static void sequences_that_share_a_page(void **state)
{
    (void)state;
    attn_append_desc_t desc = dense_desc(ATTN_F32);
    desc.paged_kv = 1;
    desc.page_size = 4;
    desc.num_pages = 8;
    desc.pages_per_seq = 3;
    desc.s_new = 5;
    append_run_t run = append_create(&desc);
    int32_t lengths[2] = {4, 5};
    int32_t table[6] = {7, 3, 4, 7, 5, 4}; // page 7 is in use by both, which is no fault
    run.args.cache_seqlens = lengths;
    run.args.page_table = table;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "page_table: sequences 0 and 1 both append to row 0 of page 4");
    table[5] = 3;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT, "append to row 0 of page 3");
    table[2] = 3; // a sequence meets itself
    table[5] = 6;
    assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT,
                 "sequences 0 and 0 both append to row 0 of page 3");
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    table[2] = table[4] = 5; // rows 0 of page 5, and rows 1, 2, 3
    assert_ok(append_go(&run));
    assert_appended(&run);
    append_destroy(&run);
}

// Every pair of 1300 sequences is compared, wherever the two stand.
static void any_two_of_many_sequences(void **state)
{
    (void)state;
    enum { BATCH = 1300 };
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, ATTN_F32);
    desc.batch = desc.cache_batch = BATCH;
    desc.s_new = desc.heads_kv = desc.d_qk = desc.d_v = 1;
    desc.capacity = 3;
    desc.has_cache_batch_idx = 1;
    append_run_t run = append_create(&desc);
    static int32_t lengths[BATCH];
    static int32_t entries[BATCH];
    for (int32_t b = 0; b < BATCH; b++) {
        lengths[b] = b % 2; // neighbours share an entry and not a row
        entries[b] = b / 2;
    }
    run.args.cache_seqlens = lengths;
    run.args.cache_batch_idx = entries;
    assert_ok(append_go(&run));
    assert_appended(&run);
    test_rng_t rng = test_rng_at(63, 0);
    for (int n = 0; n < 300; n++) {
        const int32_t one = (int32_t)test_rng_range(&rng, 0, BATCH - 1);
        const int32_t other = (int32_t)test_rng_range(&rng, 0, BATCH - 1);
        const int32_t kept = entries[other];
        if (one == other || lengths[one] != lengths[other]) {
            continue;
        }
        entries[other] = entries[one];
        assert_fails(append_go(&run), ATTN_INVALID_ARGUMENT, "both append to row");
        entries[other] = kept;
    }
    assert_true(is_zero(&run.k_cache) && is_zero(&run.v_cache));
    append_destroy(&run);
}

// Entries 2^30 elements apart in 8 GiB of addresses, of which only the rows themselves are ever
// touched.
static void c064_entries_far_apart(void **state)
{
    (void)state;
    enum { HEADS = 2, DIM = 16, CAPACITY = 8, ENTRIES = 5 };
    const int64_t stride = INT64_C(1) << 30;
    const size_t bytes = (size_t)((ENTRIES - 1) * stride + CAPACITY * HEADS * DIM) * 2;
    uint16_t *cache = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(cache != MAP_FAILED);
    uint16_t ones[4 * 3 * HEADS * DIM];
    for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
        ones[i] = 0x3c00;
    }
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, ATTN_F16);
    desc.batch = 4;
    desc.s_new = 3;
    desc.heads_kv = HEADS;
    desc.d_qk = desc.d_v = DIM;
    desc.cache_batch = ENTRIES;
    desc.capacity = CAPACITY;
    desc.has_cache_batch_idx = 1;
    desc.k_cache.stride_b = stride;
    uint16_t v_cache[ENTRIES * CAPACITY * HEADS * DIM];
    const int32_t lengths[4] = {2, 2, 2, 5};
    int32_t entries[4] = {1, 2, 3, 4};
    attn_append_args_t args;
    attn_append_args_init(&args);
    args.k_new = args.v_new = ones;
    args.k_cache = cache;
    args.v_cache = v_cache;
    args.cache_seqlens = lengths;
    args.cache_batch_idx = entries;
    assert_ok(attn_append(NULL, &desc, &args, NULL));
    for (int64_t e = 0; e < ENTRIES; e++) {
        for (int64_t i = 0; i < CAPACITY * HEADS * DIM; i++) {
            const int64_t row = i / (HEADS * DIM);
            const int64_t begin = e == 4 ? 5 : 2;
            const bool is_new = e > 0 && row >= begin && row < begin + 3;
            assert_int_equal(cache[e * stride + i], is_new ? 0x3c00 : 0);
        }
    }
    entries[2] = 5;
    assert_fails(attn_append(NULL, &desc, &args, NULL), ATTN_INVALID_ARGUMENT,
                 "cache_batch_idx[2]: 5, expected 0 .. 4");
    assert_int_equal(munmap(cache, bytes), 0);
}

// ---------------------------------------------------------------------------------------------

static void wrong_descriptors_are_refused(void **state)
{
    (void)state;
    attn_append_args_t args;
    attn_append_args_init(&args);
#define REFUSED(status, text, ...)                                                                 \
    do {                                                                                           \
        attn_append_desc_t d = dense_desc(ATTN_F32);                                               \
        __VA_ARGS__;                                                                               \
        assert_fails(attn_append(NULL, &d, &args, NULL), status, text);                            \
    } while (0)
    REFUSED(ATTN_INVALID_ARGUMENT, "desc.struct_size: 3", d.struct_size = 3);
    REFUSED(ATTN_INVALID_ARGUMENT, "batch: -1", d.batch = -1);
    REFUSED(ATTN_INVALID_ARGUMENT, "s_new: -1", d.s_new = -1);
    REFUSED(ATTN_INVALID_ARGUMENT, "heads_kv: 0", d.heads_kv = 0);
    REFUSED(ATTN_INVALID_ARGUMENT, "heads_q: -1", d.heads_q = -1);
    REFUSED(ATTN_INVALID_ARGUMENT, "d_qk: 0", d.d_qk = 0);
    REFUSED(ATTN_INVALID_ARGUMENT, "d_v: 65537", d.d_v = 65537);
    REFUSED(ATTN_INVALID_ARGUMENT, "capacity: -1", d.capacity = -1);
    REFUSED(ATTN_INVALID_ARGUMENT, "cache_batch: 1, expected >= 2", d.cache_batch = 1);
    REFUSED(ATTN_INVALID_ARGUMENT, "paged_kv: 7", d.paged_kv = 7);
    REFUSED(ATTN_INVALID_ARGUMENT, "page_size: 0", d.paged_kv = 1);
    REFUSED(ATTN_INVALID_ARGUMENT, "has_cache_batch_idx: 1, expected 0 with paged_kv",
            d.paged_kv = d.has_cache_batch_idx = 1);
    REFUSED(ATTN_INVALID_ARGUMENT, "rotary: 3", d.rotary = (attn_rotary_t)3);
    REFUSED(ATTN_INVALID_ARGUMENT, "rotary_dim: 0, expected >= 2", d.rotary = ATTN_ROTARY_HALF);
    REFUSED(ATTN_INVALID_ARGUMENT, "rotary_dim: 12, expected <= 10", d.rotary = ATTN_ROTARY_HALF;
            d.rotary_dim = 12);
    REFUSED(ATTN_INVALID_ARGUMENT, "rotary_dim: 3, expected an even number",
            d.rotary = ATTN_ROTARY_HALF;
            d.rotary_dim = 3);
    REFUSED(ATTN_INVALID_ARGUMENT, "k_cache.dtype: f32, expected f16 like k_new",
            d.k_new.dtype = ATTN_F16);
    REFUSED(ATTN_INVALID_ARGUMENT, "v_new.dtype: 9", d.v_new.dtype = (attn_dtype_t)9);
    REFUSED(ATTN_INVALID_ARGUMENT, "k_cache: stride 0", d.k_cache.stride_s = 0);
    REFUSED(ATTN_INVALID_ARGUMENT, "q_out: stride 0", d.heads_q = 3; d.q_out.stride_h = 0);
    REFUSED(ATTN_INVALID_ARGUMENT, "total_new: -1", d.varlen_new = 1; d.total_new = -1);
    REFUSED(ATTN_NO_DEVICE, "backend: cuda", d.backend = ATTN_BACKEND_CUDA; d.batch = 0);
    REFUSED(ATTN_INVALID_ARGUMENT, "k_new: NULL", d.heads_q = 0);
#undef REFUSED
    const attn_append_desc_t d = dense_desc(ATTN_F32);
    assert_fails(attn_append(NULL, NULL, &args, NULL), ATTN_INVALID_ARGUMENT, "desc: NULL");
    assert_fails(attn_append(NULL, &d, NULL, NULL), ATTN_INVALID_ARGUMENT, "args: NULL");
    args.rotary_cos = (const float *)&d;
    args.k_new = args.v_new = &d;
    args.k_cache = args.v_cache = &args;
    args.cache_seqlens = (const int32_t *)&d;
    assert_fails(attn_append(NULL, &d, &args, NULL), ATTN_INVALID_ARGUMENT, "rotary_cos: given");
    attn_append_desc_init(NULL, ATTN_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rotation_and_dtype),
        cmocka_unit_test(pages_in_any_order),
        cmocka_unit_test(packed_tokens),
        cmocka_unit_test(queries_in_place),
        cmocka_unit_test(bytes_of_small_types_are_kept),
        cmocka_unit_test(c062_dense_cache_is_full),
        cmocka_unit_test(c062_pages_are_full),
        cmocka_unit_test(one_that_does_not_fit_stops_all),
        cmocka_unit_test(sequences_that_share_an_entry),
        cmocka_unit_test(sequences_that_share_a_page),
        cmocka_unit_test(any_two_of_many_sequences),
        cmocka_unit_test(c064_entries_far_apart),
        cmocka_unit_test(wrong_descriptors_are_refused),
    };
    return cmocka_run_group_tests_name("api_append", tests, NULL, NULL);
}
