// test_cases_offsets.c: offsets, batches and heads beyond 32 bits and beyond 65535. Cases C-064 and
// C-076 to C-085: README.md. The cases' tensors of many GiB are here sparse views with the same
// offsets: memory of which only touched pages exist, so the arithmetic is the same and the machine
// may be small.
#include "case_kit.h"
#include "case_memory.h"

#include <stdlib.h>

#define GIGA ((int64_t)1 << 30)

// ---- Strided views: every operand of a forward and backward pass with one huge stride

typedef enum wide_dim { WIDE_B, WIDE_S, WIDE_H } wide_dim_t;

// Makes room for `count` indexes of the wide dim at a distance of `stride` elements, everything
// else dense in between.
static void widen(attn_tensor_t *tensor, const attn_tensor_t *dense, wide_dim_t dim, int64_t stride)
{
    *tensor = *dense;
    *(dim == WIDE_B   ? &tensor->stride_b
      : dim == WIDE_S ? &tensor->stride_s
                      : &tensor->stride_h) = stride;
}

typedef struct wide_run {
    attn_desc_t desc;
    char *memory;
    size_t bytes;
} wide_run_t;

enum { WIDE_TENSORS = 8, WIDE_GAP = 1 << 16 };

static char *wide_place(const wide_run_t *run, int tensor)
{
    return run->memory + (int64_t)tensor * WIDE_GAP * 4;
}

static int64_t element_at(const attn_tensor_t *tensor, int64_t b, int64_t s, int64_t h, int64_t d)
{
    return b * tensor->stride_b + s * tensor->stride_s + h * tensor->stride_h +
           d * tensor->stride_d;
}

static void wide_store(const wide_run_t *run, int place, const attn_tensor_t *tensor,
                       const operand_t *from)
{
    for (operand_walk_t w = operand_walk(from); !w.done; operand_next(from, &w)) {
        test_number_set(tensor->dtype, wide_place(run, place),
                        element_at(tensor, w.at[0], w.at[1], w.at[2], w.at[3]),
                        operand_get(from, w.at[0], w.at[1], w.at[2], w.at[3]));
    }
}

static void wide_same_bits(const wide_run_t *run, int place, const attn_tensor_t *tensor,
                           const operand_t *expected)
{
    for (operand_walk_t w = operand_walk(expected); !w.done; operand_next(expected, &w)) {
        const double got = test_number_get(tensor->dtype, wide_place(run, place),
                                           element_at(tensor, w.at[0], w.at[1], w.at[2], w.at[3]));
        const double want = operand_get(expected, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (got != want) {
            fail_msg("%s[%lld][%lld][%lld][%lld] is %.9g, dense %.9g", expected->name,
                     (long long)w.at[0], (long long)w.at[1], (long long)w.at[2], (long long)w.at[3],
                     got, want);
        }
    }
}

// The dense problem p again, with every tensor's `dim` at a distance of stride elements: the same
// bits.
static void check_wide(problem_t *p, wide_dim_t dim, int64_t stride, int64_t count)
{
    const attn_desc_t *dense = &p->full;
    results_t expected = case_run_on_cpu(p);
    wide_run_t run = {.desc = *dense};
    attn_desc_t *desc = &run.desc;
    run.bytes = (size_t)((count - 1) * stride + (WIDE_TENSORS + 1) * WIDE_GAP) * 4;
    run.memory = sparse_create(run.bytes);
    attn_tensor_t *const tensors[WIDE_TENSORS] = {&desc->q, &desc->k,  &desc->v,  &desc->do_,
                                                  &desc->o, &desc->dq, &desc->dk, &desc->dv};
    const operand_t *const operands[WIDE_TENSORS] = {
        &p->q, &p->k, &p->v, &p->do_, &expected.o, &expected.dq, &expected.dk, &expected.dv};
    for (int n = 0; n < WIDE_TENSORS; n++) {
        const attn_tensor_t before = *tensors[n];
        widen(tensors[n], &before, dim, stride);
        if (n < 4) {
            wide_store(&run, n, tensors[n], operands[n]);
        }
    }
    results_t narrow = results_create(p, dense); // for its lse
    attn_backward_args_t args = problem_backward_args(p, &narrow);
    args.in.q = wide_place(&run, 0);
    args.in.k = wide_place(&run, 1);
    args.in.v = wide_place(&run, 2);
    args.do_ = wide_place(&run, 3);
    args.in.o = wide_place(&run, 4);
    args.dq = wide_place(&run, 5);
    args.dk = wide_place(&run, 6);
    args.dv = wide_place(&run, 7);
    case_run_plan(desc, ATTN_FORWARD, &args.in);
    case_run_plan(desc, ATTN_BACKWARD, &args);
    case_same_bits(&expected.lse, &narrow.lse);
    for (int n = 4; n < WIDE_TENSORS; n++) {
        wide_same_bits(&run, n, tensors[n], operands[n]);
    }
    results_destroy(&narrow);
    results_destroy(&expected);
    sparse_free(run.memory, run.bytes);
}

// C-076: the last batch entries lie beyond 2^31 and 2^32 elements, also with odd distances.
static void c076_batch_stride_beyond_32_bits(void **state)
{
    (void)state;
    const int64_t strides[] = {GIGA, 2 * GIGA, 4 * GIGA / 3 + 7, 28800LL * 15 * 16 * 72};
    for (int64_t n = 0; n < COUNT_OF(strides); n++) {
        attn_desc_t desc = case_desc(n % 2 ? ATTN_F32 : ATTN_BF16, 4, 15, 15, 2, 2, 72);
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 76, .backward = true));
        check_wide(p, WIDE_B, strides[n], 4);
        problem_destroy(p);
    }
}

// C-077, C-080: head strides.
static void c077_head_stride_beyond_32_bits(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 20, 33, 4, 4, 32);
    desc.causal = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 77, .backward = true));
    check_wide(p, WIDE_H, 2149580800LL / 2, 4);
    check_wide(p, WIDE_H, 2123366400LL, 4);
    problem_destroy(p);
}

// C-082: the row stride fits in 32 bits, the product with the row does not.
static void c082_row_times_stride_beyond_32_bits(void **state)
{
    (void)state;
    const int64_t strides[] = {699 * 128 * 93, 700 * 128 * 93, GIGA / 64 + 8};
    for (int64_t n = 0; n < COUNT_OF(strides); n++) {
        attn_desc_t desc = case_desc(ATTN_BF16, 1, 258, 258, 1, 1, 128);
        desc.causal = n == 0;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 82, .backward = true));
        check_wide(p, WIDE_S, strides[n], 258);
        problem_destroy(p);
    }
    // Few queries take another kernel.
    attn_desc_t desc = case_desc(ATTN_F32, 1, 1, 600, 1, 1, 32);
    desc.num_splits = 3;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 82, .backward = true));
    check_wide(p, WIDE_S, 7654321, 600);
    problem_destroy(p);
}

// Strides whose products leave 64 bits are refused, not wrapped.
static void c082_strides_beyond_64_bits_are_refused(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 2, 5, 5, 2, 2, 8);
    attn_tensor_t *const tensors[] = {&desc.q, &desc.k, &desc.v, &desc.o};
    for (int n = 0; n < 4; n++) {
        const attn_tensor_t before = *tensors[n];
        tensors[n]->stride_s = INT64_MAX / 2;
        case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "stride");
        tensors[n]->stride_s = INT64_MAX / 16; // times 4 bytes
        case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "stride");
        *tensors[n] = before;
    }
}

// ---- C-064: entries of a cache beyond 2^31 elements

static void c064_cache_entries_beyond_32_bits(void **state)
{
    (void)state;
    enum { ENTRIES = 5, HEADS = 4, DIM = 32, NEW = 3 };
    const size_t bytes = (size_t)((ENTRIES - 1) * GIGA + (1 << 20)) * 2;
    uint16_t *cache = sparse_create(bytes);
    uint16_t rows[4][NEW][HEADS][DIM];
    const int32_t seqlens[4] = {0, 0, 0, 0};
    attn_append_desc_t desc;
    attn_append_args_t args;
    attn_append_desc_init(&desc, ATTN_F16);
    attn_append_args_init(&args);
    desc.backend = ATTN_BACKEND_CPU;
    desc.heads_kv = HEADS;
    desc.d_qk = desc.d_v = DIM;
    desc.cache_batch = ENTRIES;
    desc.capacity = 64;
    desc.has_cache_batch_idx = 1;
    desc.k_cache.stride_b = desc.v_cache.stride_b = GIGA;
    for (int64_t n = 0; n < (int64_t)(sizeof(rows) / 2); n++) {
        test_number_set(ATTN_F16, rows, n, 1.0);
    }
    args.k_new = args.v_new = rows;
    args.k_cache = cache;
    args.v_cache = cache + (1 << 16); // behind the 64 rows of K
    args.cache_seqlens = seqlens;
    const int32_t first[] = {0};
    const int32_t others[] = {1, 2, 3, 4};
    desc.batch = 1;
    desc.s_new = 2;
    args.cache_batch_idx = first;
    assert_ok(attn_append(NULL, &desc, &args, NULL));
    for (int64_t n = 0; n < (int64_t)(sizeof(rows) / 2); n++) {
        test_number_set(ATTN_F16, rows, n, 2.0);
    }
    desc.batch = 4;
    desc.s_new = NEW;
    args.cache_batch_idx = others;
    assert_ok(attn_append(NULL, &desc, &args, NULL));
    for (int64_t entry = 0; entry < ENTRIES; entry++) {
        const int64_t used = entry == 0 ? 2 : NEW;
        for (int64_t row = 0; row < 5; row++) {
            for (int64_t c = 0; c < HEADS * DIM; c++) {
                const int64_t at = entry * GIGA + row * HEADS * DIM + c;
                const double expected = row >= used ? 0.0 : entry == 0 ? 1.0 : 2.0;
                assert_true(test_number_get(ATTN_F16, cache, at) == expected);
                assert_true(test_number_get(ATTN_F16, cache + (1 << 16), at) == expected);
            }
        }
    }
    sparse_free(cache, bytes);
}

// Attention reads such a cache, through kv_batch_idx.
static void c064_attention_over_such_a_cache(void **state)
{
    (void)state;
    const size_t bytes = (size_t)(4 * GIGA + (1 << 20)) * 2;
    uint16_t *cache = sparse_create(bytes);
    const int32_t index[] = {4, 1, 3};
    attn_desc_t desc = case_desc(ATTN_F16, 3, 1, 40, 2, 2, 32);
    desc.has_kv_batch_idx = 1;
    desc.kv_batch = 5;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 64, .kv_batch_idx = index));
    results_t expected = case_run_on_cpu(p);
    for (int64_t b = 0; b < 5; b++) {
        const size_t entry_bytes = 40 * 2 * 32 * 2;
        memcpy(cache + b * GIGA, p->k.buffer.data + (size_t)b * entry_bytes, entry_bytes);
        memcpy(cache + b * GIGA + (1 << 16), p->v.buffer.data + (size_t)b * entry_bytes,
               entry_bytes);
    }
    desc.k.stride_b = desc.v.stride_b = GIGA;
    results_t r = results_create(p, &p->full);
    attn_forward_args_t args = problem_forward_args(p, &r);
    args.k = cache;
    args.v = cache + (1 << 16);
    case_run_plan(&desc, ATTN_FORWARD, &args);
    case_same_bits(&expected.o, &r.o);
    results_destroy(&r);
    results_destroy(&expected);
    problem_destroy(p);
    sparse_free(cache, bytes);
}

// ---- C-083: pages beyond 2^31 elements

static void check_far_pages(int64_t page_size, int64_t heads_kv, int64_t d_qk, int64_t d_v,
                            int64_t stride_b, const int32_t *ids, int64_t count)
{
    attn_desc_t desc =
        case_desc(ATTN_BF16, 1, 1, page_size * count - 3, 2 * heads_kv, heads_kv, d_qk);
    desc.d_v = d_v;
    case_page_kv(&desc, page_size);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 83));
    results_t expected = case_run_on_cpu(p);
    int64_t most = 0;
    for (int64_t n = 0; n < count; n++) {
        most = ids[n] > most ? ids[n] : most;
    }
    // Pages of K, then V behind each page of K if stride_b leaves room, else in memory of its own.
    const size_t bytes = (size_t)((most + 1) * stride_b) * 2;
    uint16_t *k = sparse_create(bytes);
    uint16_t *v = sparse_create(bytes);
    int32_t table[16];
    assert_true(count <= 16);
    for (int64_t n = 0; n < count; n++) {
        const int64_t from = case_list(&p->page_table)[n];
        const int64_t k_elements = page_size * heads_kv * d_qk;
        const int64_t v_elements = page_size * heads_kv * d_v;
        memcpy(k + ids[n] * stride_b, (uint16_t *)(void *)p->k.buffer.data + from * k_elements,
               (size_t)k_elements * 2);
        memcpy(v + ids[n] * stride_b, (uint16_t *)(void *)p->v.buffer.data + from * v_elements,
               (size_t)v_elements * 2);
        table[n] = ids[n];
    }
    desc.num_pages = most + 1;
    desc.k.stride_b = desc.v.stride_b = stride_b;
    const int splits[] = {0, 1, 3};
    for (int64_t n = 0; n < COUNT_OF(splits); n++) {
        desc.num_splits = p->desc.num_splits = splits[n];
        results_destroy(&expected);
        expected = case_run_on_cpu(p);
        results_t r = results_create(p, &p->full);
        attn_forward_args_t args = problem_forward_args(p, &r);
        args.k = k;
        args.v = v;
        args.page_table = table;
        case_run_plan(&desc, ATTN_FORWARD, &args);
        case_same_result_bits(&expected, &r);
        results_destroy(&r);
    }
    results_destroy(&expected);
    problem_destroy(p);
    sparse_free(k, bytes);
    sparse_free(v, bytes);
}

static void c083_pages_beyond_32_bits(void **state)
{
    (void)state;
    const int32_t ids[] = {0, 65535, 65536, 65539};
    check_far_pages(16, 8, 128, 128, 2 * 16 * 8 * 128, ids, COUNT_OF(ids));
    const int32_t latent_ids[] = {7767, 7768, 0};
    check_far_pages(48, 1, 576, 512, 480 * 576, latent_ids, COUNT_OF(latent_ids));
}

// ---- C-085: masks, biases and their gradient beyond 2^31 elements

static bool is_causal(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    return j <= i;
}

static void c085_mask_rows_beyond_32_bits(void **state)
{
    (void)state;
    const int64_t s = 46; // of 46341 rows: the same offsets from a stride a thousand times as long
    const int64_t stride = 46341LL * 1007;
    const size_t bytes = (size_t)(stride * 2 * s + s);
    unsigned char *mask = sparse_create(bytes);
    attn_desc_t desc = case_desc(ATTN_BF16, 1, s, s, 2, 2, 64);
    desc.causal = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 85, .backward = true));
    results_t expected = case_run_on_cpu(p);
    for (int64_t h = 0; h < 2; h++) {
        for (int64_t i = 0; i < s; i++) {
            for (int64_t j = 0; j <= i; j++) {
                mask[h * s * stride + i * stride + j] = 1;
            }
        }
    }
    desc.causal = 0;
    desc.mask = (attn_mask_tensor_t){
        .present = 1, .stride_b = 0, .stride_h = s * stride, .stride_q = stride, .stride_k = 1};
    results_t r = results_create(p, &p->full);
    attn_backward_args_t args = problem_backward_args(p, &r);
    args.in.mask = mask;
    case_run_plan(&desc, ATTN_FORWARD, &args.in);
    case_run_plan(&desc, ATTN_BACKWARD, &args);
    const operand_t *const got[] = {&r.o, &r.lse, &r.dq, &r.dk, &r.dv};
    const operand_t *const want[] = {&expected.o, &expected.lse, &expected.dq, &expected.dk,
                                     &expected.dv};
    for (int n = 0; n < 5; n++) {
        assert_true(case_distance(got[n], want[n]) <= 1e-2);
    }
    results_destroy(&r);
    results_destroy(&expected);
    problem_destroy(p);
    sparse_free(mask, bytes);
}

static void c085_bias_and_its_gradient_beyond_32_bits(void **state)
{
    (void)state;
    enum { S = 20, HEADS = 3 };
    const int64_t stride_h = 2 * GIGA + 64; // of (1, 32, 8192, 8192) and two of them
    const int64_t stride_q = GIGA / 16;
    attn_desc_t desc = case_desc(ATTN_F32, 1, S, S, HEADS, HEADS, 16);
    desc.bias = (attn_mask_tensor_t){.present = 1,
                                     .dtype = ATTN_F32,
                                     .stride_b = 0,
                                     .stride_h = S * S,
                                     .stride_q = S,
                                     .stride_k = 1};
    desc.dbias = desc.bias;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 86, .backward = true));
    results_t expected = case_run_on_cpu(p);
    const size_t bytes = (size_t)(2 * stride_h + S * stride_q + 2 * S) * 4;
    float *bias = sparse_create(bytes);
    float *dbias = bias + S; // between the rows of the bias
    for (int64_t n = 0; n < HEADS * S * S; n++) {
        bias[n / (S * S) * stride_h + n / S % S * stride_q + n % S] =
            (float)operand_get(&p->bias, 0, n / (S * S), n / S % S, n % S);
    }
    desc.bias.stride_h = desc.dbias.stride_h = stride_h;
    desc.bias.stride_q = desc.dbias.stride_q = stride_q;
    results_t r = results_create(p, &p->full);
    attn_backward_args_t args = problem_backward_args(p, &r);
    args.in.bias = bias;
    args.dbias = dbias;
    case_run_plan(&desc, ATTN_FORWARD, &args.in);
    case_run_plan(&desc, ATTN_BACKWARD, &args);
    case_same_bits(&expected.o, &r.o);
    case_same_bits(&expected.dq, &r.dq);
    for (int64_t n = 0; n < HEADS * S * S; n++) {
        const double got = (double)dbias[n / (S * S) * stride_h + n / S % S * stride_q + n % S];
        assert_true(got == operand_get(&expected.dbias, 0, n / (S * S), n / S % S, n % S));
    }
    results_destroy(&r);
    results_destroy(&expected);
    sparse_free(bias, bytes);
    case_holds(p);
}

static int64_t block_of(int64_t i)
{
    return i / 64;
}

static bool is_same_block(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    return block_of(i) == block_of(j);
}

// A 64-block-diagonal mask is what packed sequences of 64 are.
static void c085_block_mask_equals_packed_sequences(void **state)
{
    (void)state;
    const int32_t cu[] = {0, 64, 128, 192, 256};
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 256, 256, 2, 2, 80);
    desc.mask.present = 1;
    desc.mask.stride_h = 0;
    problem_t *p =
        problem_create(&desc, OPTIONS(.seed = 85, .backward = true, .mask = is_same_block));
    results_t masked = case_run(p);
    attn_desc_t packed = case_desc(ATTN_BF16, 4, 64, 64, 2, 2, 80);
    case_pack_q(&packed, cu, 4);
    case_pack_kv(&packed, cu, 4);
    problem_t *sequences = problem_create(
        &packed, OPTIONS(.seed = 85, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
    memcpy(sequences->q.buffer.data, p->q.buffer.data, p->q.buffer.bytes);
    memcpy(sequences->k.buffer.data, p->k.buffer.data, p->k.buffer.bytes);
    memcpy(sequences->v.buffer.data, p->v.buffer.data, p->v.buffer.bytes);
    memcpy(sequences->do_.buffer.data, p->do_.buffer.data, p->do_.buffer.bytes);
    results_t r = case_run(sequences);
    assert_true(case_distance(&masked.o, &r.o) <= 0.02);
    assert_true(case_distance(&masked.dk, &r.dk) <= 0.05);
    results_destroy(&r);
    results_destroy(&masked);
    case_holds_on_best(sequences);
    case_holds_on_best(p);
}

static void c085_tril_mask_equals_causal(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 300, 300, 1, 1, 64);
    desc.mask.present = 1;
    case_holds_on_best(
        problem_create(&desc, OPTIONS(.seed = 85, .backward = true, .mask = is_causal)));
}

// ---- C-079, C-080: more batch entries, heads and tiles than 65535

// Rows of a few entries equal those of a call with this entry alone.
static void entry_equals_own_call(const problem_t *p, const results_t *r, int64_t b, int64_t q_row,
                                  int64_t kv_row, int64_t h)
{
    attn_desc_t desc = case_desc(p->full.q.dtype, 1, p->full.s_q, p->full.s_kv, 1, 1, p->full.d_qk);
    desc.num_splits = 1;
    problem_t *own = problem_create(&desc, OPTIONS(.seed = 79));
    for (int64_t c = 0; c < desc.d_qk; c++) {
        for (int64_t i = 0; i < desc.s_q; i++) {
            operand_set(&own->q, 0, i, 0, c, operand_get(&p->q, b, q_row + i, h, c));
        }
        for (int64_t j = 0; j < desc.s_kv; j++) {
            operand_set(&own->k, 0, j, 0, c, operand_get(&p->k, b, kv_row + j, h, c));
            operand_set(&own->v, 0, j, 0, c, operand_get(&p->v, b, kv_row + j, h, c));
        }
    }
    char why[1024];
    results_t part = results_create(own, &own->full);
    for (int64_t i = 0; i < desc.s_q; i++) {
        operand_set(&part.lse, 0, 0, i, 0, operand_get(&r->lse, b, h, q_row + i, 0));
        for (int64_t c = 0; c < desc.d_v; c++) {
            operand_set(&part.o, 0, i, 0, c, operand_get(&r->o, b, q_row + i, h, c));
        }
    }
    if (!problem_truth(own, why, sizeof(why)) || !problem_judge(own, &part, why, sizeof(why))) {
        fail_msg("entry %lld, row %lld, head %lld: %s", (long long)b, (long long)q_row,
                 (long long)h, why);
    }
    results_destroy(&part);
    problem_destroy(own);
}

static void c079_eighty_thousand_sequences(void **state)
{
    (void)state;
    enum { SEQUENCES = 80000, ROWS = 4 };
    int32_t *cu = malloc((SEQUENCES + 1) * sizeof(*cu));
    assert_non_null(cu);
    for (int32_t n = 0; n <= SEQUENCES; n++) {
        cu[n] = n * ROWS;
    }
    attn_desc_t desc = case_desc(ATTN_F16, SEQUENCES, ROWS, ROWS, 1, 1, 4);
    case_pack_q(&desc, cu, SEQUENCES);
    case_pack_kv(&desc, cu, SEQUENCES);
    problem_t *p = problem_create(
        &desc, OPTIONS(.seed = 79, .backward = true, .cu_seqlens_q = cu, .cu_seqlens_kv = cu));
    results_t r = case_run(p);
    const int64_t entries[] = {0, 1, 32767, 32768, 65535, 65536, 79999};
    for (int64_t n = 0; n < COUNT_OF(entries); n++) {
        entry_equals_own_call(p, &r, 0, entries[n] * ROWS, entries[n] * ROWS, 0);
    }
    case_all_finite(&r.dq);
    case_all_finite(&r.dk);
    results_destroy(&r);
    problem_destroy(p);
    free(cu);
}

static void check_many(attn_desc_t desc, int64_t rows_per_check)
{
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 80));
    results_t r = case_run(p);
    const int64_t places[] = {0, 32768, 65535, 65536, INT64_MAX};
    for (int64_t n = 0; n < COUNT_OF(places); n++) {
        const int64_t b = places[n] < desc.batch ? places[n] : desc.batch - 1;
        const int64_t h = places[n] < desc.heads_q ? places[n] : desc.heads_q - 1;
        const int64_t s = places[n] < desc.s_q / rows_per_check ? places[n] * rows_per_check
                                                                : desc.s_q - rows_per_check;
        problem_t rows = *p;
        rows.full.s_q = rows_per_check;
        entry_equals_own_call(&rows, &r, b, s, 0, h);
    }
    results_destroy(&r);
    problem_destroy(p);
}

static void c080_many_batch_entries_heads_and_rows(void **state)
{
    (void)state;
    check_many(case_desc(ATTN_F16, 65536, 4, 4, 2, 2, 4), 4);
    check_many(case_desc(ATTN_F16, 65535, 4, 4, 1, 1, 4), 4);
    check_many(case_desc(ATTN_F32, 1, 10, 10, 65536, 65536, 2), 10);
    check_many(case_desc(ATTN_BF16, 1, 10, 10, 65536, 65536, 2), 10);
    check_many(case_desc(ATTN_BF16, 1, 3, 3, 71280, 71280, 4), 3);
    check_many(case_desc(ATTN_F32, 1, 64 * 65535 + 1, 2, 1, 1, 2), 1);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c064_cache_entries_beyond_32_bits),
    cmocka_unit_test(c064_attention_over_such_a_cache),
    cmocka_unit_test(c076_batch_stride_beyond_32_bits),
    cmocka_unit_test(c077_head_stride_beyond_32_bits),
    cmocka_unit_test(c079_eighty_thousand_sequences),
    cmocka_unit_test(c080_many_batch_entries_heads_and_rows),
    cmocka_unit_test(c082_row_times_stride_beyond_32_bits),
    cmocka_unit_test(c082_strides_beyond_64_bits_are_refused),
    cmocka_unit_test(c083_pages_beyond_32_bits),
    cmocka_unit_test(c085_mask_rows_beyond_32_bits),
    cmocka_unit_test(c085_bias_and_its_gradient_beyond_32_bits),
    cmocka_unit_test(c085_block_mask_equals_packed_sequences),
    cmocka_unit_test(c085_tril_mask_equals_causal),
};

int main(int argc, char **argv)
{
    return case_main("cases_offsets", TESTS, COUNT_OF(TESTS), argc, argv);
}
