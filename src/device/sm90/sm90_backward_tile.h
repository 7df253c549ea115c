// Which work a CTA of the backward kernels does, in which order, and what a tile of it sees.
#ifndef ATTN_SM90_BACKWARD_TILE_H
#define ATTN_SM90_BACKWARD_TILE_H

#include "../../shared/block_range.h"
#include "../common/gpu_sequence.h"
#include "sm90_backward_config.h"
#include "sm90_tile_list.h"

// BLOCK_N keys of one K/V head. The query blocks block_begin .. block_end - 1, counted from row 0
// of the sequence, are walked for each query head of the group. keys is -1 at the end of the list.
struct tile {
    int32_t number; // in the list
    int32_t b;
    int32_t h_kv;
    int32_t key0; // in the sequence
    int32_t keys; // of the sequence, in use or not
    int32_t kv_start;
    int32_t len_kv;
    int32_t leftpad;
    int32_t q_start;
    int32_t len_q;
    int32_t block_begin;
    int32_t block_end;
    int32_t block0; // the sequence's first among the blocks of a head
};

DEVICE attn_mask_shape_t mask_shape(const kernel_params_t *p, int32_t len_q, int32_t len_kv,
                                    int32_t leftpad)
{
    attn_mask_shape_t shape;
    shape.len_q = len_q;
    shape.len_kv = len_kv;
    shape.leftpad = leftpad;
    shape.offset = p->align_top_left ? 0 : len_kv - len_q;
    shape.window_left = ATTN_CFG_MASK & MASK_LOWER ? p->window_left : -1;
    shape.window_right = ATTN_CFG_MASK & MASK_UPPER ? p->window_right : -1;
    return shape;
}

// Sequences of a pack begin with a block of their own: at most one more each than the rows fill.
DEVICE int32_t first_block_of(const kernel_params_t *p, int32_t b, int32_t q_start)
{
    return p->lengths.cu_seqlens_q ? q_start / BLOCK_M + b
                                   : b * ((p->lengths.s_q + BLOCK_M - 1) / BLOCK_M);
}

// A block of one query head in the scratch memory.
DEVICE int64_t block_index(const kernel_params_t *p, int32_t h, int32_t block)
{
    return (int64_t)h * p->blocks + block;
}

DEVICE const float *block_stats(const kernel_params_t *p, int64_t block)
{
    return p->scratch.stats + block * (2 * BLOCK_M);
}

DEVICE float *block_dq_sum(const kernel_params_t *p, int64_t block)
{
    return p->scratch.dq_sum + block * DQ_BLOCK_FLOATS;
}

// How many key tiles have added to a block, where they do so in order.
DEVICE uint32_t *block_order(const kernel_params_t *p, int64_t block)
{
    return p->scratch.order + block;
}

// The i-th query block that a tile walks to, of each head. In a fixed order from the last to the
// first: below an upper limit the tiles, of which the first are the longest, then start as they
// come and each follows the one before it at a block's distance.
DEVICE int32_t block_at(const struct tile *tile, int32_t i)
{
    return ATTN_CFG_DETERMINISTIC ? tile->block_end - 1 - i : tile->block_begin + i;
}

// Whether rows of something else may lie behind the last ones of a block that begins at row0.
DEVICE uint32_t is_edge_block(const kernel_params_t *p, int32_t row0, int32_t len_q)
{
    return p->scratch.q_edge != 0 && row0 + BLOCK_M > len_q;
}

// Query blocks with rows that see any of the keys.
DEVICE void tile_blocks(const kernel_params_t *p, const struct gpu_sequence *s, int32_t key0,
                        int32_t *begin, int32_t *end)
{
    attn_mask_shape_t shape = mask_shape(p, s->len_q, s->len_kv, s->leftpad);
    attn_range_t keys = attn_range_make(key0, key0 + BLOCK_N, s->leftpad, s->len_kv);
    *begin = 0;
    *end = 0;
    if (keys.begin < keys.end) {
        attn_range_t rows = attn_tile_q_range(&shape, keys.begin, keys.end);
        if (rows.begin < rows.end) {
            *begin = (int32_t)((uint32_t)rows.begin / BLOCK_M);
            *end = (int32_t)(((uint32_t)rows.end + BLOCK_M - 1) / BLOCK_M);
        }
    }
}

// Writes the next tile with keys in it to its slot, a part as soon as it is known: few registers.
// Returns 0 at the end of the list.
DEVICE int tile_publish_next(const kernel_params_t *p, struct tile_cursor *cursor, uint32_t slot)
{
    struct gpu_sequence s;
    int32_t key0;
    int32_t b;
    for (;;) {
        tile_advance(&p->tiles, cursor);
        if (cursor->number >= p->tiles.count) {
            publish_end(slot);
            return 0;
        }
        // In order of keys: below an upper limit the first ones are seen by the most rows.
        struct tile_place place = tile_place_of(&p->tiles, cursor->number);
        int32_t heads_kv = p->heads_q / p->group;
        b = place.bh / heads_kv;
        key0 = place.block * BLOCK_N;
        publish(slot, (int32_t)cursor->number, b, place.bh - b * heads_kv, key0);
        s = sequence_at(&p->lengths, b);
        if (key0 < s.keys) {
            break;
        }
    }
    int32_t begin;
    int32_t end;
    publish(slot + 16, s.keys, s.kv_start, s.len_kv, s.leftpad);
    tile_blocks(p, &s, key0, &begin, &end);
    publish(slot + 32, s.q_start, s.len_q, begin, end);
    st_shared_u32(slot + 48, (uint32_t)first_block_of(p, b, s.q_start));
    return 1;
}

DEVICE void tile_read(uint32_t slot, struct tile *tile)
{
    uint32_t words[4];
    ld_shared_v4_u32(words, slot);
    tile->number = (int32_t)words[0];
    tile->b = (int32_t)words[1];
    tile->h_kv = (int32_t)words[2];
    tile->key0 = (int32_t)words[3];
    ld_shared_v4_u32(words, slot + 16);
    tile->keys = (int32_t)words[0];
    tile->kv_start = (int32_t)words[1];
    tile->len_kv = (int32_t)words[2];
    tile->leftpad = (int32_t)words[3];
    ld_shared_v4_u32(words, slot + 32);
    tile->q_start = (int32_t)words[0];
    tile->len_q = (int32_t)words[1];
    tile->block_begin = (int32_t)words[2];
    tile->block_end = (int32_t)words[3];
    tile->block0 = (int32_t)ld_shared_u32(slot + 48);
}

#endif
