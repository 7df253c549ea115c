// The survey of mask tensors and block lists on the emulator: every bit of the map, against a look
// at every element. The build compiles it for a tile, with a mask, lists, or both.
#include "../../src/device/common/mask_survey.c"

#include "survey_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { BATCH = 2, HEADS = 3 };

// What the mask is: strides as a caller would give them; 0 where it is broadcast.
struct survey_case {
    int32_t s_q;
    int32_t s_kv;
    int64_t stride_b;
    int64_t stride_h;
    int64_t stride_q;
    int64_t stride_k;
    bool is_wide;
    int32_t block_m;
    int32_t block_n;
};

static void entry(const void *params)
{
    ATTN_CFG_KERNEL(*(const attn_gpu_survey_params_t *)params);
}

static int64_t mask_elements(const struct survey_case *c)
{
    return (BATCH - 1) * c->stride_b + (HEADS - 1) * c->stride_h + (c->s_q - 1) * c->stride_q +
           (c->s_kv - 1) * c->stride_k + 1;
}

// Tile after tile shown, hidden, or with one element unlike the others, which may be its last.
static uint8_t element_of(int64_t head, int64_t i, int64_t j)
{
    int64_t kind = (head + i / BLOCK_M * 3 + j / BLOCK_N * 5) % 6;
    bool is_odd_one = (i % BLOCK_M * 7 + j % BLOCK_N) % (BLOCK_M * 4) == (head % 2 ? 0 : 5);
    bool is_shown = kind < 2 || (kind == 4 && !is_odd_one) || (kind == 5 && is_odd_one);
    return is_shown ? (uint8_t)(1 << (i + j) % 8) : 0;
}

static uint8_t *make_mask(const struct survey_case *c)
{
    uint8_t *mask = aligned_alloc(16, (size_t)(mask_elements(c) + 15) / 16 * 16);
    memset(mask, 1, (size_t)mask_elements(c));
    for (int64_t head = 0; head < BATCH * HEADS; head++) {
        for (int64_t i = 0; i < c->s_q; i++) {
            for (int64_t j = 0; j < c->s_kv; j++) {
                mask[head / HEADS * c->stride_b + head % HEADS * c->stride_h + i * c->stride_q +
                     j * c->stride_k] = element_of(head, i, j);
            }
        }
    }
    return mask;
}

// Bit 0: some row may see some key; bit 1: all see all.
static uint32_t expected_bits(const struct survey_case *c, const uint8_t *mask,
                              const struct block_lists *lists, int64_t head, int64_t m, int64_t n)
{
    bool is_in_list = is_listed(lists, head, m / c->block_m, n / c->block_n);
    bool shows = false;
    bool hides = false;
    for (int64_t i = m * BLOCK_M; i < (m + 1) * BLOCK_M && i < c->s_q; i++) {
        for (int64_t j = n * BLOCK_N; j < (n + 1) * BLOCK_N && j < c->s_kv; j++) {
            bool is_shown = !ATTN_CFG_BOOL_MASK ||
                            mask[head / HEADS * c->stride_b + head % HEADS * c->stride_h +
                                 i * c->stride_q + j * c->stride_k] != 0;
            shows = shows || is_shown;
            hides = hides || !is_shown;
        }
    }
    if (ATTN_CFG_BLOCK_LISTS && !is_in_list) {
        return 0;
    }
    return (shows ? 1u : 0u) | (shows && !hides ? 2u : 0u);
}

static void compare(const struct survey_case *c, const attn_gpu_survey_params_t *p,
                    const uint8_t *mask, const struct block_lists *lists)
{
    for (int64_t head = 0; head < BATCH * HEADS; head++) {
        for (int64_t m = 0; m < p->m_tiles; m++) {
            const uint32_t *words = tile_map_words(&p->map, head / HEADS, head % HEADS, m);
            for (int64_t n = 0; n * BLOCK_N < c->s_kv; n++) {
                uint32_t seen = words[n / 32 * 2] >> n % 32 & 1;
                uint32_t full = words[n / 32 * 2 + 1] >> n % 32 & 1;
                uint32_t expected = expected_bits(c, mask, lists, head, m, n);
                if ((seen | full << 1) != expected) {
                    fail_msg("head %d, tile %d, block %d: seen %u, full %u, expected %u", (int)head,
                             (int)m, (int)n, seen, full, expected);
                }
            }
        }
    }
}

static void check(struct survey_case c)
{
    uint8_t *mask = make_mask(&c);
    int32_t m_tiles = (c.s_q - 1) / BLOCK_M + 1;
    int32_t n_blocks = (c.s_kv - 1) / BLOCK_N + 1;
    struct block_lists lists = make_lists(BATCH * HEADS, (m_tiles - 1) / c.block_m + 1,
                                          (n_blocks - 1) / c.block_n + 1, 50);
    uint32_t counter = 1;
    // What a map is broadcast over, as the host says it.
    bool by_b = ATTN_CFG_BLOCK_LISTS || c.stride_b != 0;
    bool by_h = ATTN_CFG_BLOCK_LISTS || c.stride_h != 0;
    bool by_m = ATTN_CFG_BLOCK_LISTS || c.stride_q != 0;
    attn_gpu_survey_params_t p = {.mask_is_wide = c.is_wide,
                                  .lists = {.count = lists.count,
                                            .index = lists.index,
                                            .stride_b = (int64_t)HEADS * lists.query_blocks,
                                            .stride_h = lists.query_blocks,
                                            .per_row = lists.per_row,
                                            .key_blocks = lists.key_blocks,
                                            .block_m = c.block_m,
                                            .block_n = c.block_n},
                                  .batch = by_b ? BATCH : 1,
                                  .heads = by_h ? HEADS : 1,
                                  .m_tiles = by_m ? m_tiles : 1,
                                  .rows = by_m ? c.s_q : 1,
                                  .s_kv = c.s_kv,
                                  .row_words = (n_blocks - 1) / 32 + 1,
                                  .counter = &counter};
    if (ATTN_CFG_BOOL_MASK) {
        p.mask = (attn_gpu_score_tensor_t){.data = mask,
                                           .stride_b = c.stride_b,
                                           .stride_h = c.stride_h,
                                           .stride_q = c.stride_q,
                                           .stride_k = c.stride_k};
    }
    uint64_t head_words = 2 * (uint64_t)(p.m_tiles * p.row_words);
    uint64_t words = (uint64_t)(p.batch * p.heads) * head_words;
    p.map = (attn_gpu_tile_map_t){.words = malloc(words * sizeof(uint32_t)),
                                  .stride_b = by_b ? (int64_t)head_words * p.heads : 0,
                                  .stride_h = by_h ? (int64_t)head_words : 0,
                                  .stride_m = by_m ? 2 * p.row_words : 0};
    struct emu_result result;
    if (launch_survey(&p, entry, (uint64_t)mask_elements(&c), &lists, words, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
    compare(&c, &p, mask, &lists);
    assert_int_equal(counter, 0);
    free(p.map.words);
    free_lists(&lists);
    free(mask);
}

// Rows of 16 bytes; the last row ends with the mask, behind which nothing may be read.
static void test_wide(void **state)
{
    (void)state;
    int64_t pitch = 35 * BLOCK_N + 16;
    int32_t s_q = 2 * BLOCK_M + 3;
    check((struct survey_case){.s_q = s_q,
                               .s_kv = (int32_t)pitch - 3,
                               .stride_b = HEADS * s_q * pitch,
                               .stride_h = s_q * pitch,
                               .stride_q = pitch,
                               .stride_k = 1,
                               .is_wide = true,
                               .block_m = 1,
                               .block_n = 2});
}

static void test_narrow(void **state)
{
    (void)state;
    int64_t pitch = 3 * BLOCK_N + 5;
    check((struct survey_case){.s_q = BLOCK_M + 1,
                               .s_kv = (int32_t)pitch,
                               .stride_b = HEADS * (BLOCK_M + 1) * pitch,
                               .stride_h = (BLOCK_M + 1) * pitch,
                               .stride_q = pitch,
                               .stride_k = 1,
                               .block_m = 2,
                               .block_n = 1});
}

// Keys first: as a transposed mask has them.
static void test_transposed(void **state)
{
    (void)state;
    int64_t pitch = BLOCK_M + 9;
    check((struct survey_case){.s_q = (int32_t)pitch,
                               .s_kv = BLOCK_N + 7,
                               .stride_h = pitch * (BLOCK_N + 7),
                               .stride_q = 1,
                               .stride_k = pitch,
                               .block_m = 1,
                               .block_n = 3});
}

// A mask of keys, the same for all rows and heads.
static void test_keys_alone(void **state)
{
    (void)state;
    int64_t keys = 4 * BLOCK_N;
    check((struct survey_case){.s_q = 2 * BLOCK_M,
                               .s_kv = (int32_t)keys,
                               .stride_b = keys,
                               .stride_k = 1,
                               .is_wide = true,
                               .block_m = 5,
                               .block_n = 40});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_keys_alone),
    };
    return cmocka_run_group_tests_name("mask_survey", tests, NULL, NULL);
}
