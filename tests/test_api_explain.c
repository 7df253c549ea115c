// attn_explain, attn_supports and attn_tile_map: what the library says about a problem without
// running it.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

static attn_desc_t small_desc(void)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 300, 700, 4, 2, 16);
    return desc;
}

static const char *explained(const attn_desc_t *desc, attn_op_t op)
{
    static char text[8192];
    size_t needed = 0;
    assert_ok(attn_explain(NULL, desc, op, text, sizeof(text), &needed));
    assert_true(needed <= sizeof(text));
    assert_int_equal(needed, strlen(text) + 1);
    return text;
}

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

static void names_the_kernel_of_the_plan(void **state)
{
    (void)state;
    for (int op = ATTN_FORWARD; op <= ATTN_BACKWARD; op++) {
        const attn_desc_t desc = small_desc();
        attn_plan_t *plan = NULL;
        assert_ok(attn_plan_create(NULL, &desc, (attn_op_t)op, &plan));
        const char *text = explained(&desc, (attn_op_t)op);
        assert_says(text, attn_plan_kernel_name(plan));
        char workspace[64];
        snprintf(workspace, sizeof(workspace), "workspace: %zu bytes",
                 attn_plan_workspace_bytes(plan));
        assert_says(text, workspace);
        assert_says(text, "cuda: no: backend: cuda");
        assert_says(text, "reference: possible");
        attn_plan_destroy(plan);
    }
}

static void says_why_there_is_none(void **state)
{
    (void)state;
    attn_desc_t desc = small_desc();
    desc.backend = ATTN_BACKEND_CUDA;
    assert_says(explained(&desc, ATTN_FORWARD), "no kernel: backend: cuda");
    assert_says(explained(&desc, ATTN_FORWARD), "cpu: possible");
    desc = small_desc();
    desc.heads_q = 5;
    assert_says(explained(&desc, ATTN_FORWARD), "no kernel: heads_q: 5, expected a multiple");
    desc = small_desc();
    desc.q.dtype = desc.k.dtype = desc.v.dtype = desc.o.dtype = ATTN_F64;
    const char *text = explained(&desc, ATTN_FORWARD);
    assert_says(text, "cpu: no: q.dtype: f64");
    assert_says(text, "reference: possible");
}

static void says_what_the_mask_is(void **state)
{
    (void)state;
    attn_desc_t desc = small_desc();
    assert_says(explained(&desc, ATTN_FORWARD), "no window or causal bound hides a key");
    desc.causal = 1;
    desc.window_left = 40;
    desc.has_sink = 1;
    const char *text = explained(&desc, ATTN_FORWARD);
    assert_says(text, "keys from 40 left of the row's position to 0 right of it");
    assert_says(text, "aligned bottom right\noptions: sink\n");
}

static void names_every_option(void **state)
{
    (void)state;
    attn_desc_t desc = small_desc();
    assert_null(strstr(explained(&desc, ATTN_FORWARD), "options:"));
    desc.mask.present = desc.bias.present = 1;
    desc.block_sparse = 1;
    desc.block_q = desc.block_kv = 64;
    desc.blocks_per_row = 11;
    desc.softcap = 3.0f;
    desc.has_alibi = desc.has_sink = 1;
    desc.dropout_p = 0.1f;
    desc.varlen_q = desc.varlen_kv = 1;
    desc.total_q = 300;
    desc.total_kv = 700;
    desc.has_seqused_q = desc.has_seqused_kv = desc.has_leftpad_kv = 1;
    assert_says(
        explained(&desc, ATTN_FORWARD),
        "\noptions: mask tensor, bias, block lists, softcap, ALiBi, sink, dropout, packed q, "
        "packed k and v, used lengths of q, used lengths of k and v, left padding\n");
    desc = small_desc();
    desc.q.dtype = desc.k.dtype = desc.v.dtype = ATTN_F8_E4M3;
    desc.o.dtype = ATTN_F32;
    desc.has_kv_batch_idx = 1;
    desc.kv_batch = 2;
    desc.q_descale.present = desc.k_descale.present = desc.v_descale.present = 1;
    assert_says(
        explained(&desc, ATTN_FORWARD),
        "\noptions: chosen batch entries of k and v, descale factors of q, descale factors of "
        "k, descale factors of v\n");
    desc = small_desc();
    desc.paged_kv = 1;
    desc.page_size = 16;
    desc.num_pages = desc.pages_per_seq = 44;
    assert_says(explained(&desc, ATTN_FORWARD), "\noptions: pages\n");
}

static void fits_any_buffer(void **state)
{
    (void)state;
    const attn_desc_t desc = small_desc();
    size_t needed = 0;
    assert_ok(attn_explain(NULL, &desc, ATTN_FORWARD, NULL, 0, &needed));
    assert_true(needed > 100);
    char *whole = malloc(needed);
    assert_non_null(whole);
    assert_ok(attn_explain(NULL, &desc, ATTN_FORWARD, whole, needed, NULL));
    assert_int_equal(strlen(whole) + 1, needed);
    for (size_t bytes = 1; bytes <= needed; bytes++) {
        guard_buffer_t buffer = guard_buffer_create(bytes, 0);
        size_t again = 0;
        assert_ok(attn_explain(NULL, &desc, ATTN_FORWARD, (char *)buffer.data, bytes, &again));
        assert_int_equal(again, needed);
        assert_int_equal(strlen((char *)buffer.data), bytes - 1);
        assert_memory_equal(buffer.data, whole, bytes - 1);
        assert_true(guard_buffer_intact(&buffer));
        guard_buffer_destroy(&buffer);
    }
    free(whole);
    assert_fails(attn_explain(NULL, NULL, ATTN_FORWARD, NULL, 0, NULL), ATTN_INVALID_ARGUMENT,
                 "desc: NULL");
    assert_fails(attn_explain(NULL, &desc, ATTN_FORWARD, NULL, 9, NULL), ATTN_INVALID_ARGUMENT,
                 "text: NULL");
}

// ---------------------------------------------------------------------------------------------
// Tiles

typedef struct tiles {
    attn_tile_map_t map;
    uint8_t *data;
} tiles_t;

static tiles_t tiles_of(const attn_desc_t *desc)
{
    tiles_t tiles = {0};
    assert_ok(attn_tile_map(NULL, desc, &tiles.map, NULL, 0));
    const size_t bytes = (size_t)(tiles.map.rows * tiles.map.cols);
    tiles.data = malloc(bytes + 1);
    assert_non_null(tiles.data);
    if (bytes > 0) {
        attn_tile_map_t map;
        assert_fails(attn_tile_map(NULL, desc, &map, tiles.data, bytes - 1), ATTN_INVALID_ARGUMENT,
                     "tiles_bytes: ");
    }
    assert_ok(attn_tile_map(NULL, desc, &tiles.map, tiles.data, bytes));
    return tiles;
}

// The same from the definition of the mask, key by key.
static uint8_t tile_by_hand(const attn_desc_t *desc, const attn_tile_map_t *map, int64_t row,
                            int64_t col)
{
    const int64_t offset = desc->align == ATTN_ALIGN_BOTTOM_RIGHT ? desc->s_kv - desc->s_q : 0;
    int64_t seen = 0;
    int64_t all = 0;
    for (int64_t i = row * map->tile_q; i < (row + 1) * map->tile_q && i < desc->s_q; i++) {
        for (int64_t j = col * map->tile_kv; j < (col + 1) * map->tile_kv && j < desc->s_kv; j++) {
            const int64_t right = desc->causal ? 0 : desc->window_right;
            const int is_seen = (right < 0 || j <= i + offset + right) &&
                                (desc->window_left < 0 || j >= i + offset - desc->window_left);
            seen += is_seen;
            all++;
        }
    }
    return seen == 0 ? 0 : seen < all ? 1 : 2;
}

static void tiles_agree_with_the_mask(void **state)
{
    (void)state;
    static const struct {
        int64_t s_q, s_kv, left, right;
        int32_t causal;
        attn_align_t align;
    } masks[] = {
        {300, 700, -1, -1, 0, ATTN_ALIGN_BOTTOM_RIGHT},
        {300, 700, -1, -1, 1, ATTN_ALIGN_BOTTOM_RIGHT},
        {300, 300, 100, -1, 1, ATTN_ALIGN_TOP_LEFT},
        {700, 300, 90, 20, 0, ATTN_ALIGN_BOTTOM_RIGHT},
        {300, 700, 0, 0, 0, ATTN_ALIGN_TOP_LEFT},
        {65, 1, -1, -1, 1, ATTN_ALIGN_BOTTOM_RIGHT},
        {0, 64, -1, -1, 1, ATTN_ALIGN_BOTTOM_RIGHT},
        {64, 0, -1, -1, 1, ATTN_ALIGN_BOTTOM_RIGHT},
    };
    for (size_t m = 0; m < sizeof(masks) / sizeof(masks[0]); m++) {
        attn_desc_t desc = small_desc();
        desc.s_q = masks[m].s_q;
        desc.s_kv = masks[m].s_kv;
        desc.window_left = masks[m].left;
        desc.window_right = masks[m].right;
        desc.causal = masks[m].causal;
        desc.align = masks[m].align;
        tiles_t tiles = tiles_of(&desc);
        for (int64_t row = 0; row < tiles.map.rows; row++) {
            for (int64_t col = 0; col < tiles.map.cols; col++) {
                assert_int_equal(tiles.data[row * tiles.map.cols + col],
                                 tile_by_hand(&desc, &tiles.map, row, col));
            }
        }
        free(tiles.data);
    }
}

static void mask_tensors_make_tiles_partial(void **state)
{
    (void)state;
    attn_desc_t desc = small_desc();
    desc.mask.present = 1;
    tiles_t tiles = tiles_of(&desc);
    assert_true(tiles.map.rows > 0 && tiles.map.cols > 0);
    for (int64_t i = 0; i < tiles.map.rows * tiles.map.cols; i++) {
        assert_int_equal(tiles.data[i], 1);
    }
    free(tiles.data);
    assert_fails(attn_tile_map(NULL, &desc, NULL, NULL, 0), ATTN_INVALID_ARGUMENT, "map_out: NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_kernel_of_the_plan),
        cmocka_unit_test(says_why_there_is_none),
        cmocka_unit_test(says_what_the_mask_is),
        cmocka_unit_test(names_every_option),
        cmocka_unit_test(fits_any_buffer),
        cmocka_unit_test(tiles_agree_with_the_mask),
        cmocka_unit_test(mask_tensors_make_tiles_partial),
    };
    return cmocka_run_group_tests_name("api_explain", tests, NULL, NULL);
}
