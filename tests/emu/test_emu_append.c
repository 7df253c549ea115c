// The kernel that appends to a cache on the emulator: every place and nothing beside it, both
// rotations, types, layouts with aligned vectors and without, tokens without a place.
#include "small_kernel.h"

#include <math.h>
#include <stdlib.h>

#define ATTN_CFG_KERNEL append_tokens
#include "../../src/device/common/append_tokens.c"

enum {
    B = 3,
    S_NEW = 5,
    H_KV = 2,
    H_Q = 4,
    D = 48,
    D_V = 16,
    ENTRIES = 4,
    CAPACITY = 24, // or pages of 8: three for an entry's place
    PAGE = 8,
    CACHE_ROWS = ENTRIES * CAPACITY,
    TOKENS = B * S_NEW,
    ELEMENT_MAX = 4 // bytes
};

static _Alignas(16) unsigned char k_new[TOKENS * H_KV * D * ELEMENT_MAX];
static _Alignas(16) unsigned char v_new[TOKENS * H_KV * D_V * ELEMENT_MAX];
static _Alignas(16) unsigned char q[TOKENS * H_Q * D * ELEMENT_MAX];
static _Alignas(16) unsigned char q_out[TOKENS * H_Q * D * ELEMENT_MAX];
static _Alignas(16) unsigned char k_cache[CACHE_ROWS * H_KV * D * ELEMENT_MAX];
static _Alignas(16) unsigned char v_cache[CACHE_ROWS * H_KV * D_V * ELEMENT_MAX];
static float cosines[CAPACITY * D / 2];
static float sines[CAPACITY * D / 2];
static int32_t lengths[B];
static int32_t starts[B + 1];
static int32_t entries[B];
static int32_t pages[B * 3];

static void append_entry(const void *params)
{
    append_tokens(*(const attn_gpu_append_params_t *)params);
}

// Dense rows of all heads.
static attn_gpu_strides_t dense(int64_t rows, int64_t heads, int64_t d)
{
    return (attn_gpu_strides_t){rows * heads * d, heads * d, d, 1};
}

static attn_gpu_append_params_t params_of(int32_t type, int32_t rotated_dims)
{
    attn_gpu_append_params_t p = {
        .operands = {{.from = k_new,
                      .to = k_cache,
                      .from_strides = dense(S_NEW, H_KV, D),
                      .to_strides = dense(CAPACITY, H_KV, D),
                      .heads = H_KV,
                      .d = D,
                      .rotated_dims = rotated_dims,
                      .type = type,
                      .is_cached = 1,
                      .is_vector = 1},
                     {.from = v_new,
                      .to = v_cache,
                      .from_strides = dense(S_NEW, H_KV, D_V),
                      .to_strides = dense(CAPACITY, H_KV, D_V),
                      .heads = H_KV,
                      .d = D_V,
                      .type = type,
                      .is_cached = 1,
                      .is_vector = 1},
                     {.from = q,
                      .to = q_out,
                      .from_strides = dense(S_NEW, H_Q, D),
                      .to_strides = dense(S_NEW, H_Q, D),
                      .heads = H_Q,
                      .d = D,
                      .rotated_dims = rotated_dims,
                      .type = type}},
        .cache_seqlens = lengths,
        .rotary_cos = cosines,
        .rotary_sin = sines,
        .entries = ENTRIES,
        .positions = CAPACITY,
        .tokens = TOKENS,
        .s_new = S_NEW,
        .batch = B,
    };
    return p;
}

static void fill(unsigned char *x, size_t bytes, int32_t type)
{
    for (size_t i = 0; i < bytes / 4; i++) {
        const float low = (float)(rand() % 2001 - 1000) / 500.0f;
        const float high = (float)(rand() % 2001 - 1000) / 500.0f;
        const uint32_t word = type == ATTN_GPU_F32    ? bits_of_f32(low)
                              : type == ATTN_GPU_BYTE ? (uint32_t)rand()
                                                      : pack_16_bits(type, low, high);
        memcpy(x + 4 * i, &word, 4);
    }
}

static void fill_all(int32_t type)
{
    srand(5);
    fill(k_new, sizeof k_new, type);
    fill(v_new, sizeof v_new, type);
    fill(q, sizeof q, type);
    for (int i = 0; i < CAPACITY * D / 2; i++) {
        cosines[i] = cosf((float)i);
        sines[i] = sinf((float)i);
    }
    const int32_t given[B] = {0, 7, CAPACITY - S_NEW};
    memcpy(lengths, given, sizeof given);
}

static void run(const attn_gpu_append_params_t *params, uint32_t ctas)
{
    memset(k_cache, 0xa5, sizeof k_cache);
    memset(v_cache, 0xa5, sizeof v_cache);
    memset(q_out, 0xa5, sizeof q_out);
    const struct emu_buffer buffers[] = {{"k_new", k_new, sizeof k_new, EMU_READ_ONLY},
                                         {"v_new", v_new, sizeof v_new, EMU_READ_ONLY},
                                         {"q", q, sizeof q, EMU_READ_WRITE},
                                         {"q_out", q_out, sizeof q_out, EMU_OUTPUT},
                                         {"k_cache", k_cache, sizeof k_cache, EMU_OUTPUT},
                                         {"v_cache", v_cache, sizeof v_cache, EMU_OUTPUT},
                                         {"cos", cosines, sizeof cosines, EMU_READ_ONLY},
                                         {"sin", sines, sizeof sines, EMU_READ_ONLY},
                                         {"lengths", lengths, sizeof lengths, EMU_READ_ONLY},
                                         {"starts", starts, sizeof starts, EMU_READ_ONLY},
                                         {"entries", entries, sizeof entries, EMU_READ_ONLY},
                                         {"pages", pages, sizeof pages, EMU_READ_ONLY}};
    const struct emu_launch launch = {.name = "append",
                                      .entry = append_entry,
                                      .params = params,
                                      .grid = {ctas, 1, 1},
                                      .threads = APPEND_THREADS,
                                      .buffers = buffers,
                                      .buffer_count = sizeof buffers / sizeof buffers[0],
                                      .check = EMU_CHECK_STRICT};
    struct emu_result result;
    if (emu_launch(&launch, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
}

// ---- what must come out, row by row, with the rounding that docs/semantics.md promises

static void want_row(const attn_gpu_append_params_t *p, const attn_gpu_append_operand_t *operand,
                     unsigned char *want, int64_t to, int64_t from, int64_t position)
{
    const int64_t bytes = element_bytes(operand->type);
    const int64_t row_bytes = operand->d * bytes;
    const unsigned char *in = (const unsigned char *)operand->from + from * row_bytes;
    unsigned char *out = want + to * row_bytes;
    memcpy(out, in, (size_t)row_bytes);
    const int64_t pairs = operand->rotated_dims / 2;
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t d_x = p->is_interleaved ? 2 * i : i;
        const int64_t d_y = p->is_interleaved ? 2 * i + 1 : i + pairs;
        float x = 0.0f;
        float y = 0.0f;
        uint16_t half[2];
        memcpy(half, in + d_x * bytes, 2);
        memcpy(half + 1, in + d_y * bytes, 2);
        memcpy(&x, in + d_x * bytes, (size_t)bytes);
        memcpy(&y, in + d_y * bytes, (size_t)bytes);
        if (operand->type != ATTN_GPU_F32) {
            x = operand->type == ATTN_GPU_F16 ? f32_of_f16(half[0]) : f32_of_bf16(half[0]);
            y = operand->type == ATTN_GPU_F16 ? f32_of_f16(half[1]) : f32_of_bf16(half[1]);
        }
        const float c = cosines[position * pairs + i];
        const float n = sines[position * pairs + i];
        const volatile float products[4] = {x * c, y * n, x * n, y * c};
        const float rotated[2] = {products[0] - products[1], products[2] + products[3]};
        const uint32_t packed = pack_16_bits(operand->type, rotated[0], rotated[1]);
        half[0] = (uint16_t)packed;
        half[1] = (uint16_t)(packed >> 16);
        const int is_f32 = operand->type == ATTN_GPU_F32;
        memcpy(out + d_x * bytes, is_f32 ? (const void *)&rotated[0] : &half[0], (size_t)bytes);
        memcpy(out + d_y * bytes, is_f32 ? (const void *)&rotated[1] : &half[1], (size_t)bytes);
    }
}

// Where token t of sequence b goes, as a row of the cache's memory; -1: nowhere.
static int64_t place_of(const attn_gpu_append_params_t *p, int64_t b, int64_t position)
{
    if (position < 0 || lengths[b] < 0 || position >= p->positions) {
        return -1;
    }
    if (p->page_table) {
        const int32_t page = pages[b * 3 + position / PAGE];
        return page < 0 || page >= p->entries ? -1 : page * PAGE + position % PAGE;
    }
    const int64_t entry = p->cache_batch_idx ? entries[b] : b;
    return entry < 0 || entry >= p->entries ? -1 : entry * CAPACITY + position;
}

static void expect(const attn_gpu_append_params_t *p)
{
    static unsigned char want_k[sizeof k_cache];
    static unsigned char want_v[sizeof v_cache];
    static unsigned char want_q[sizeof q_out];
    memset(want_k, 0xa5, sizeof want_k);
    memset(want_v, 0xa5, sizeof want_v);
    memset(want_q, 0xa5, sizeof want_q);
    for (int64_t b = 0; b < B; b++) {
        const int64_t tokens = p->cu_seqlens_new ? starts[b + 1] - starts[b] : S_NEW;
        for (int64_t t = 0; t < tokens; t++) {
            const int64_t row = (p->cu_seqlens_new ? starts[b] : b * S_NEW) + t;
            const int64_t position = (int64_t)lengths[b] + t;
            const int64_t place = place_of(p, b, position);
            for (int64_t h = 0; h < H_KV && place >= 0; h++) {
                want_row(p, &p->operands[0], want_k, place * H_KV + h, row * H_KV + h, position);
                want_row(p, &p->operands[1], want_v, place * H_KV + h, row * H_KV + h, position);
            }
            for (int64_t h = 0; h < p->operands[2].heads && place >= 0; h++) {
                want_row(p, &p->operands[2], want_q, row * H_Q + h, row * H_Q + h, position);
            }
        }
    }
    assert_memory_equal(k_cache, want_k, sizeof want_k);
    assert_memory_equal(v_cache, want_v, sizeof want_v);
    assert_memory_equal(q_out, want_q, sizeof want_q);
}

// ---- tests

static void test_rotations_and_types(void **state)
{
    (void)state;
    for (int32_t type = ATTN_GPU_F32; type <= ATTN_GPU_BF16; type++) {
        for (int32_t interleaved = 0; interleaved <= 1; interleaved++) {
            for (int32_t rotated = 0; rotated <= D; rotated += D / 2) {
                attn_gpu_append_params_t params = params_of(type, rotated);
                params.is_interleaved = interleaved;
                fill_all(type);
                run(&params, 3);
                expect(&params);
            }
        }
    }
}

// Bytes are moved as they are, element by element or in vectors.
static void test_bytes(void **state)
{
    (void)state;
    attn_gpu_append_params_t params = params_of(ATTN_GPU_BYTE, 0);
    fill_all(ATTN_GPU_BYTE);
    run(&params, 2);
    expect(&params);
    params.operands[0].is_vector = params.operands[1].is_vector = 0;
    run(&params, 2);
    expect(&params);
}

static void test_entries(void **state)
{
    (void)state;
    attn_gpu_append_params_t params = params_of(ATTN_GPU_BF16, 16);
    params.cache_batch_idx = entries;
    fill_all(ATTN_GPU_BF16);
    const int32_t given[B] = {3, 0, 2};
    memcpy(entries, given, sizeof given);
    run(&params, 3);
    expect(&params);
}

static void use_pages(attn_gpu_append_params_t *params)
{
    const int32_t given[B * 3] = {11, 2, 5, 0, 4, 1, 9, 8, 3};
    memcpy(pages, given, sizeof given);
    params->page_table = pages;
    params->page_table_stride_b = 3;
    params->page_size = PAGE;
    params->entries = ENTRIES * CAPACITY / PAGE;
    params->operands[0].to_strides = dense(PAGE, H_KV, D);
    params->operands[1].to_strides = dense(PAGE, H_KV, D_V);
}

static void test_pages(void **state)
{
    (void)state;
    attn_gpu_append_params_t params = params_of(ATTN_GPU_F16, 32);
    use_pages(&params);
    fill_all(ATTN_GPU_F16);
    run(&params, 2);
    expect(&params);
}

// Sequences of 4, 0 and 9 tokens, and rows behind them.
static void test_packed(void **state)
{
    (void)state;
    attn_gpu_append_params_t params = params_of(ATTN_GPU_F32, 16);
    params.cu_seqlens_new = starts;
    for (int i = 0; i < ATTN_GPU_APPEND_OPERANDS; i++) {
        params.operands[i].from_strides.b = 0;
    }
    params.operands[2].to_strides.b = 0;
    fill_all(ATTN_GPU_F32);
    const int32_t given[B + 1] = {0, 4, 4, 13};
    memcpy(starts, given, sizeof given);
    lengths[2] = 3;
    run(&params, 3);
    expect(&params);
}

// What the host could not look at: nothing is written where there is no place for it.
static void test_tokens_without_place(void **state)
{
    (void)state;
    attn_gpu_append_params_t params = params_of(ATTN_GPU_F32, 16);
    fill_all(ATTN_GPU_F32);
    lengths[0] = -2;
    lengths[1] = INT32_MAX;
    lengths[2] = CAPACITY - 2;
    run(&params, 2);
    expect(&params);
    params.cache_batch_idx = entries;
    const int32_t given[B] = {ENTRIES, -1, 1};
    memcpy(entries, given, sizeof given);
    fill_all(ATTN_GPU_F32);
    run(&params, 2);
    expect(&params);
    params.cache_batch_idx = NULL;
    use_pages(&params);
    pages[0] = -1;
    pages[4] = ENTRIES * CAPACITY / PAGE;
    run(&params, 2);
    expect(&params);
}

// The queries may be rotated where they are.
static void test_in_place(void **state)
{
    (void)state;
    static unsigned char rotated[sizeof q];
    attn_gpu_append_params_t params = params_of(ATTN_GPU_BF16, 32);
    fill_all(ATTN_GPU_BF16);
    run(&params, 2);
    memcpy(rotated, q_out, sizeof rotated);
    params.operands[2].to = q;
    run(&params, 2);
    assert_memory_equal(q, rotated, TOKENS * H_Q * D * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotations_and_types),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_tokens_without_place),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
