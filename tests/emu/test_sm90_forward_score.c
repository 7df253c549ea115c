// The Hopper forward kernel with options of the scores on the emulator against fp64. The build
// compiles it for sets of them; a problem has what its kernel has.
#include <stdio.h>

#include "../../src/device/sm90/sm90_forward.c"

#include "forward_fixture.h"
#include "survey_fixture.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TOLERANCE (ATTN_CFG_BF16 ? 4.0 / 128.0 : 4.0 / 1024.0)
#define LSE_TOLERANCE 1e-4

enum { B = 2, H_Q = 4, H_KV = 2, S_MAX = 700, DROPOUT_THRESHOLD = 16384 };
enum { BLOCK_Q = BLOCK_M, BLOCK_KV = 2 * BLOCK_N }; // of block lists

// forward_survey.c
void survey_entry(const void *params);

struct options {
    float scale;
    float cap;
    float slopes[B * H_Q];
    unsigned char *mask; // (B, H_Q, s_q, s_kv), row after row of `pitch`
    int64_t mask_heads;  // of which there are so many
    struct block_lists lists;
    uint32_t *map;
    bool skips_nothing; // the map is as if every tile hid and showed something
    void *bias;         // the same, one for all b
    int64_t pitch;
    uint64_t dropout[2];
    float *o32;
};

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static double bias_at(const struct options *x, const struct forward_case *c, int32_t h, int64_t i,
                      int64_t j)
{
    int64_t at = (h * c->s_q + i) * x->pitch + j;
    if (ATTN_CFG_BIAS == 1) {
        return (double)((const float *)x->bias)[at];
    }
    return (double)bias_of_bits(((const uint16_t *)x->bias)[at]);
}

static void set_bias(const struct options *x, int64_t at, float value)
{
    if (ATTN_CFG_BIAS == 1) {
        ((float *)x->bias)[at] = value;
    } else {
        uint32_t bits = ATTN_CFG_BIAS == 2 ? pack_f16x2(value, 0.0f) : pack_bf16x2(value, 0.0f);
        ((uint16_t *)x->bias)[at] = (uint16_t)bits;
    }
}

// Tiles of the mask that hide everything, and such that show everything.
static bool tile_hides(int64_t head, int64_t row, int64_t key)
{
    return (head + row / BLOCK_M * 3 + key / BLOCK_N * 5) % 4 < 2;
}

static bool tile_shows(int64_t head, int64_t row, int64_t key)
{
    return (head + row / BLOCK_M * 3 + key / BLOCK_N * 5) % 4 == 2;
}

// In the other tiles a tenth of the keys is hidden by each of the two; row 5 of every head sees
// nothing at all, row 9 nothing in the last blocks. Behind the keys lies NaN, and so it does in
// hidden elements.
static struct options make_options(const struct forward_case *c, bool is_odd, int64_t mask_heads)
{
    uint32_t state = 5;
    struct options x = {.scale = ATTN_CFG_ANY_SCALE ? -0.2f : 0.3f,
                        .cap = 3.0f,
                        .pitch = is_odd ? c->s_kv | 1 : c->s_kv + c->s_kv % 2,
                        .mask_heads = mask_heads,
                        .dropout = {0x123456789abcdefull, 0x1000000000000003ull}};
    int64_t rows = (int64_t)B * H_Q * c->s_q;
    x.mask = malloc((size_t)(rows * x.pitch));
    x.bias = malloc((size_t)(rows * x.pitch) * BIAS_BYTES);
    x.o32 = malloc((size_t)(rows * c->d_v) * sizeof *x.o32);
    x.lists = make_lists(B * H_Q, (c->s_q - 1) / BLOCK_Q + 1, (c->s_kv - 1) / BLOCK_KV + 1, 40);
    for (int64_t n = 0; n < rows * x.pitch; n++) {
        int64_t row = n / x.pitch % c->s_q;
        int64_t j = n % x.pitch;
        int64_t head = n / x.pitch / c->s_q;
        bool is_hidden = draw(&state) % 10 == 0 || row == 5 || (row == 9 && j > 60);
        if (ATTN_CFG_BOOL_MASK) {
            is_hidden = tile_hides(head, row, j) || (is_hidden && !tile_shows(head, row, j));
        }
        is_hidden = is_hidden || j + 1 == c->nan_key;
        x.mask[n] = j >= c->s_kv || !is_hidden ? (unsigned char)(1 + n % 255) : 0;
        float value = (float)(draw(&state) % 2048) / 512.0f - 2.0f;
        bool is_minus_infinity = !ATTN_CFG_BOOL_MASK && is_hidden;
        set_bias(&x, n, j >= c->s_kv ? NAN : is_minus_infinity ? -INFINITY : value);
    }
    for (int32_t n = 0; n < B * H_Q; n++) {
        x.slopes[n] = 0.02f * (float)n;
    }
    return x;
}

static double score_at(const struct forward_case *c, const struct options *x, int32_t b, int32_t h,
                       int64_t i, int64_t j, double product)
{
    double score = product * (double)x->scale;
    if (ATTN_CFG_SOFTCAP) {
        score = (double)x->cap * tanh(score / (double)x->cap);
    }
    if (ATTN_CFG_BIAS) {
        score += bias_at(x, c, h, i, j);
    }
    if (ATTN_CFG_ALIBI) {
        double distance = (double)(i + c->s_kv - c->s_q - j);
        score -= (double)x->slopes[b * H_Q + h] * fabs(distance);
    }
    int64_t head = b * H_Q + h;
    if (ATTN_CFG_BOOL_MASK && !x->mask[(head % x->mask_heads * c->s_q + i) * x->pitch + j]) {
        score = -INFINITY;
    }
    if (ATTN_CFG_BLOCK_LISTS && !is_listed(&x->lists, head, i / BLOCK_Q, j / BLOCK_KV)) {
        score = -INFINITY;
    }
    return score;
}

// o of a row, and its lse.
static double option_row(const struct forward_case *c, const struct forward_data *data,
                         const struct options *x, int32_t b, int32_t h, int64_t i, double *o)
{
    double scores[S_MAX];
    double max = -INFINITY;
    double sum = 0.0;
    int64_t h_kv = h / (H_Q / H_KV);
    for (int64_t j = 0; j < c->s_kv; j++) {
        double dot = 0.0;
        for (int32_t d = 0; d < c->d_qk; d++) {
            dot += data->q64[((b * c->s_q + i) * H_Q + h) * c->d_qk + d] *
                   data->k64[((b * c->s_kv + j) * H_KV + h_kv) * c->d_qk + d];
        }
        scores[j] = sees(c, b, i, j) ? score_at(c, x, b, h, i, j, dot) : -INFINITY;
        max = fmax(max, scores[j]);
    }
    memset(o, 0, (size_t)c->d_v * sizeof *o);
    for (int64_t j = 0; j < c->s_kv && max > -INFINITY; j++) {
        double weight = exp(scores[j] - max);
        sum += weight;
        if (ATTN_CFG_DROPOUT) {
            weight *= attn_dropout_keep(x->dropout[0], x->dropout[1], b * H_Q + h, i, j,
                                        DROPOUT_THRESHOLD)
                          ? (double)attn_dropout_scale(DROPOUT_THRESHOLD)
                          : 0.0;
        }
        for (int32_t d = 0; d < c->d_v && scores[j] > -INFINITY; d++) {
            o[d] += weight * data->v64[((b * c->s_kv + j) * H_KV + h_kv) * c->d_v + d];
        }
    }
    for (int32_t d = 0; d < c->d_v && sum > 0.0; d++) {
        o[d] /= sum;
    }
    return max + log(sum);
}

// heads: all, those of one b, or 1.
static attn_gpu_score_tensor_t tensor_of(const struct forward_case *c, const struct options *x,
                                         const void *data, int64_t heads)
{
    return (attn_gpu_score_tensor_t){.data = data,
                                     .stride_b = heads > H_Q ? H_Q * c->s_q * x->pitch : 0,
                                     .stride_h = heads > 1 ? c->s_q * x->pitch : 0,
                                     .stride_q = x->pitch,
                                     .stride_k = 1,
                                     .is_paired = x->pitch % 2 == 0};
}

// The tile map of mask and lists: `map_words` of them, at x->map.
static attn_gpu_tile_map_t survey(const struct forward_case *c, struct options *x,
                                  const attn_gpu_score_tensor_t *mask, uint64_t *map_words)
{
    bool is_shared = !ATTN_CFG_BLOCK_LISTS && x->mask_heads == 1;
    int32_t m_tiles = (c->s_q - 1) / BLOCK_M + 1;
    int32_t row_words = ((c->s_kv - 1) / BLOCK_N + 1 + 31) / 32;
    int64_t head_words = is_shared ? 0 : 2 * (int64_t)m_tiles * row_words;
    attn_gpu_survey_params_t p = {.mask_is_wide = x->pitch % 16 == 0,
                                  .lists = {.count = x->lists.count,
                                            .index = x->lists.index,
                                            .stride_b = (int64_t)H_Q * x->lists.query_blocks,
                                            .stride_h = x->lists.query_blocks,
                                            .per_row = x->lists.per_row,
                                            .key_blocks = x->lists.key_blocks,
                                            .block_m = BLOCK_Q / BLOCK_M,
                                            .block_n = BLOCK_KV / BLOCK_N},
                                  .batch = is_shared ? 1 : B,
                                  .heads = is_shared ? 1 : H_Q,
                                  .m_tiles = m_tiles,
                                  .rows = c->s_q,
                                  .s_kv = c->s_kv,
                                  .row_words = row_words};
    if (ATTN_CFG_BOOL_MASK) {
        p.mask = *mask;
    }
    *map_words = (uint64_t)p.batch * (uint64_t)p.heads * 2 * (uint64_t)(m_tiles * row_words);
    x->map = malloc(*map_words * sizeof *x->map);
    p.map = (attn_gpu_tile_map_t){.words = x->map,
                                  .stride_b = H_Q * head_words,
                                  .stride_h = head_words,
                                  .stride_m = 2 * row_words};
    struct emu_result result;
    if (launch_survey(&p, survey_entry, (uint64_t)(B * H_Q * c->s_q * x->pitch), &x->lists,
                      *map_words, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
    for (uint64_t i = 0; i < *map_words && x->skips_nothing; i++) {
        x->map[i] = i % 2 ? 0 : 0xffffffffu;
    }
    return p.map;
}

static void run(const struct forward_case *c, const struct forward_data *data, struct options *x,
                emu_async async)
{
    attn_gpu_forward_params_t p = make_params(c, data);
    size_t rows = (size_t)B * H_Q * (size_t)c->s_q;
    size_t o_bytes = rows * (size_t)c->d_v * ATTN_CFG_O_BYTES;
    void *o = ATTN_CFG_O_BYTES == 4 ? (void *)x->o32 : (void *)data->o;
    struct layout_data layout = {.table = NULL};
    p.o.data = o;
    if (ATTN_CFG_GATHER) {
        layout = make_layout(c, data);
        use_layout(&p, c, &layout);
    }
    p.scale = x->scale;
    p.score = (attn_gpu_score_t){.cap = x->cap,
                                 .cap_inner = x->scale / x->cap,
                                 .alibi_slopes = x->slopes,
                                 .alibi_stride_b = H_Q,
                                 .bias = tensor_of(c, x, x->bias, H_Q),
                                 .mask = tensor_of(c, x, x->mask, x->mask_heads),
                                 .dropout_state = x->dropout,
                                 .dropout_threshold = DROPOUT_THRESHOLD,
                                 .dropout_scale = attn_dropout_scale(DROPOUT_THRESHOLD)};
    uint64_t map_words = 0;
    if (HAS_TILE_MAP) {
        p.score.map = survey(c, x, &p.score.mask, &map_words);
    }
    memset(o, 0xff, o_bytes);
    const struct emu_buffer buffers[] = {
        {"q", data->q, rows * (size_t)c->d_qk * 2, 0},
        {"k", data->k, (size_t)(B * H_KV * c->s_kv * c->d_qk) * 2, 0},
        {"v", data->v, (size_t)(B * H_KV * c->s_kv * c->d_v) * 2, 0},
        {"o", o, o_bytes, 1},
        {"lse", data->lse, rows * sizeof(float), 1},
        {"slopes", (void *)(uintptr_t)x->slopes, sizeof x->slopes, 0},
        {"bias", x->bias, (size_t)(H_Q * c->s_q * x->pitch) * BIAS_BYTES, 0},
        {"mask", x->mask, rows * (size_t)x->pitch, 0},
        {"map", x->map, map_words * sizeof *x->map, 0},
        {"dropout", (void *)(uintptr_t)x->dropout, sizeof x->dropout, 0},
        {"q spread", layout.q.memory, (size_t)layout.q.bytes, 0},
        {"k spread", layout.k.memory, (size_t)layout.k.bytes, 0},
        {"v spread", layout.v.memory, (size_t)layout.v.bytes, 0},
        {"o spread", layout.o.memory, (size_t)layout.o.bytes, 1},
        {"page_table", layout.given, table_bytes(c, &layout), 0}};
    const struct emu_launch launch = {.name = "sm90_forward",
                                      .entry = forward_entry,
                                      .params = &p,
                                      .grid = {2, 1, 1},
                                      .threads = FORWARD_THREADS,
                                      .smem_bytes = FORWARD_SMEM_BYTES,
                                      .resident = 2,
                                      .buffers = buffers,
                                      .buffer_count = sizeof buffers / sizeof buffers[0],
                                      .async = async,
                                      .check = EMU_CHECK_STRICT,
                                      .seed = 3};
    struct emu_result result;
    if (emu_launch(&launch, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
    if (ATTN_CFG_GATHER) {
        gather_spread(&layout.o, o, data->q_rows, c->h_q, c->d_v);
        free_layout(&layout);
    }
}

static double output_at(const struct forward_data *data, const struct options *x, int64_t at)
{
    return ATTN_CFG_O_BYTES == 4 ? (double)x->o32[at] : (double)F32_OF_ELEMENT(data->o[at]);
}

static void compare(const struct forward_case *c, const struct forward_data *data,
                    const struct options *x)
{
    double o[256];
    for (int32_t b = 0; b < B; b++) {
        for (int32_t h = 0; h < H_Q; h++) {
            for (int64_t i = 0; i < c->s_q; i++) {
                double lse = option_row(c, data, x, b, h, i, o);
                double got = (double)data->lse[h * data->q_rows + b * c->s_q + i];
                if (!(difference(got, lse) <= LSE_TOLERANCE)) {
                    fail_msg("lse[%d][%d][%d] is %g, expected %g", b, h, (int)i, got, lse);
                }
                for (int32_t d = 0; d < c->d_v; d++) {
                    double value = output_at(data, x, ((b * c->s_q + i) * H_Q + h) * c->d_v + d);
                    if (!(difference(value, o[d]) <= TOLERANCE)) {
                        fail_msg("o[%d][%d][%d][%d] is %g, expected %g", b, (int)i, h, d, value,
                                 o[d]);
                    }
                }
            }
        }
    }
}

static void free_options(struct options *x)
{
    free(x->mask);
    free(x->bias);
    free(x->o32);
    free(x->map);
    free_lists(&x->lists);
}

static void check(struct forward_case given, bool is_odd, int64_t mask_heads)
{
    struct forward_case c = whole_case(given);
    struct forward_data data = make_data(&c);
    struct options x = make_options(&c, is_odd, mask_heads);
    run(&c, &data, &x, EMU_RANDOM);
    compare(&c, &data, &x);
    free_options(&x);
    free_data(&data);
}

static void test_full(void **state)
{
    (void)state;
    check((struct forward_case){.b = B, .h_q = H_Q, .h_kv = H_KV, .s_q = 70, .s_kv = 150}, false,
          H_Q);
}

#if ATTN_CFG_BOOL_MASK || ATTN_CFG_BLOCK_LISTS
#if !ATTN_CFG_BLOCK_LISTS && ATTN_CFG_O_BYTES == 2
// What is hidden adds nothing, to the last bit: whether tiles are skipped does not show.
static void test_bits_without_skipping(void **state)
{
    (void)state;
    struct forward_case c = whole_case(
        (struct forward_case){.b = B, .h_q = H_Q, .h_kv = H_KV, .s_q = 40, .s_kv = 9 * BLOCK_N});
    struct forward_data data = make_data(&c);
    struct options x = make_options(&c, false, H_Q);
    size_t o_bytes = (size_t)(B * H_Q * c.s_q * c.d_v) * 2;
    uint16_t *o = malloc(o_bytes);
    run(&c, &data, &x, EMU_RANDOM);
    memcpy(o, data.o, o_bytes);
    free(x.map);
    x.skips_nothing = true;
    run(&c, &data, &x, EMU_RANDOM);
    assert_memory_equal(o, data.o, o_bytes);
    free(o);
    free_options(&x);
    free_data(&data);
}
#endif

// Several query tiles, and more key blocks than a word of the map has where blocks are narrow; rows
// of the mask that are read 16 bytes at a time.
static void test_tiles(void **state)
{
    (void)state;
    struct forward_case c = {
        .b = B, .h_q = H_Q, .h_kv = H_KV, .s_q = BLOCK_M + 21, .s_kv = 41 * 16 + 16, .ctas = 3};
    check(c, false, B * H_Q);
    check(c, false, 1);
}
#endif

// Rows of bias and mask that begin at odd elements; the keys end in the middle of a pair.
static void test_odd(void **state)
{
    (void)state;
    check((struct forward_case){.b = B, .h_q = H_Q, .h_kv = H_KV, .s_q = 33, .s_kv = 77}, true,
          B * H_Q);
    check((struct forward_case){.b = B, .h_q = H_Q, .h_kv = H_KV, .s_q = 33, .s_kv = 77}, false, 1);
}

#if ATTN_CFG_MASK & MASK_UPPER
static void test_causal(void **state)
{
    (void)state;
    check((struct forward_case){.b = B,
                                .h_q = H_Q,
                                .h_kv = H_KV,
                                .s_q = 150,
                                .s_kv = 130,
                                .has_windows = true,
                                .window_left = -1},
          false, B * H_Q);
}
#endif

// A NaN in V: rows are computed again by the careful path, options and all. Where keys are picked,
// no row sees it.
static void test_careful(void **state)
{
    (void)state;
    check(
        (struct forward_case){
            .b = B, .h_q = H_Q, .h_kv = H_KV, .s_q = 20, .s_kv = 90, .nan_key = 31},
        false, B * H_Q);
}

#if ATTN_CFG_GATHER
// Every layout with pages and without, a page without a number and a NaN here and there; row 5 sees
// nothing but for its options, and a page that is none must hide its keys from the tensor cores
// after all of them.
static void test_gathered(void **state)
{
    (void)state;
    uint32_t drawn = 17;
    for (int i = 0; i < 3 * LAYOUTS; i++) {
        int32_t s_kv = 20 + (int32_t)(draw(&drawn) % 130);
        struct forward_case c = {.b = B,
                                 .h_q = H_Q,
                                 .h_kv = H_KV,
                                 .s_q = 6 + (int32_t)(draw(&drawn) % 90),
                                 .s_kv = s_kv,
                                 .d_qk = D_QK - narrower(i % LAYOUTS),
                                 .d_v = D_V - narrower(i % LAYOUTS),
                                 .nan_key = i % 4 == 3 ? 1 + (int32_t)(draw(&drawn) % 20) : 0,
                                 .layout = layout_of(i % LAYOUTS)};
        if (i >= LAYOUTS) {
            c.page_size = 1 + (int32_t)(draw(&drawn) % 40);
            c.bad_page = i % 2 + (int32_t)(draw(&drawn) % 3);
        }
        check(c, i % 2, B * H_Q);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
#if ATTN_CFG_BOOL_MASK || ATTN_CFG_BLOCK_LISTS
        cmocka_unit_test(test_tiles),
#if !ATTN_CFG_BLOCK_LISTS && ATTN_CFG_O_BYTES == 2
        cmocka_unit_test(test_bits_without_skipping),
#endif
#endif
        cmocka_unit_test(test_odd),
#if ATTN_CFG_MASK & MASK_UPPER
        cmocka_unit_test(test_causal),
#endif
        cmocka_unit_test(test_careful),
#if ATTN_CFG_GATHER
        cmocka_unit_test(test_gathered),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
