// Which work a CTA does, in which order, and what a tile of it sees.
#ifndef ATTN_SM90_FORWARD_TILE_H
#define ATTN_SM90_FORWARD_TILE_H

#include "../../shared/block_range.h"
#include "../common/gpu_sequence.h"
#include "../common/score_options.h"
#include "sm90_forward_config.h"
#include "sm90_tile_list.h"

typedef attn_gpu_forward_params_t kernel_params_t;

// BLOCK_M query rows of one head, or of PACK_HEADS heads that share keys: row r is position
// r / PACK_HEADS of the sequence and head h + r % PACK_HEADS. Heads beyond the group's last have
// rows that nobody reads. Blocks are counted from key 0 of the sequence and walked from
// block_end - 1 down to block_begin. rows is -1 at the end of the list.
struct tile {
    int32_t row0;
    int32_t b;
    int32_t h; // the first
    int32_t h_kv;
    int32_t rows;     // positions of the sequence, in use or not
    int32_t q_start;  // row of the pack at which the sequence starts; 0 if not packed
    int32_t kv_start; // likewise
    int32_t len_q;    // positions in use
    int32_t len_kv;   // keys in use
    int32_t leftpad;
    int32_t block_begin;
    int32_t block_end;
};

DEVICE int32_t position_of_row(int32_t row)
{
    return (int32_t)((uint32_t)row / PACK_HEADS);
}

DEVICE int32_t head_of_row(const struct tile *tile, int32_t row)
{
    return tile->h + (int32_t)((uint32_t)row % PACK_HEADS);
}

// Whether there is memory for a row.
DEVICE int row_is_there(const attn_gpu_forward_params_t *p, const struct tile *tile, int32_t row)
{
    return position_of_row(row) < tile->rows &&
           (PACK_HEADS == 1 || head_of_row(tile, row) < (tile->h_kv + 1) * p->group);
}

DEVICE attn_mask_shape_t mask_shape(const attn_gpu_forward_params_t *p, const struct tile *tile)
{
    attn_mask_shape_t shape;
    shape.len_q = tile->len_q;
    shape.len_kv = tile->len_kv;
    shape.leftpad = tile->leftpad;
    shape.offset = p->align_top_left ? 0 : tile->len_kv - tile->len_q;
    shape.window_left = ATTN_CFG_MASK & MASK_LOWER ? p->window_left : -1;
    shape.window_right = ATTN_CFG_MASK & MASK_UPPER ? p->window_right : -1;
    return shape;
}

DEVICE void tile_lengths(const attn_gpu_forward_params_t *p, struct tile *tile)
{
    struct gpu_sequence sequence = sequence_at(&p->lengths, tile->b);
    tile->rows = sequence.rows;
    tile->q_start = sequence.q_start;
    tile->kv_start = sequence.kv_start;
    tile->len_q = sequence.len_q;
    tile->len_kv = sequence.len_kv;
    tile->leftpad = sequence.leftpad;
}

// Key blocks that any of the tile's rows sees.
DEVICE void tile_blocks(const attn_gpu_forward_params_t *p, struct tile *tile)
{
    attn_mask_shape_t shape = mask_shape(p, tile);
    int32_t begin = position_of_row(tile->row0);
    int32_t end = begin + BLOCK_M / PACK_HEADS;
    end = end < tile->len_q ? end : tile->len_q;
    tile->block_begin = 0;
    tile->block_end = 0;
    if (begin < end) {
        attn_range_t keys = attn_tile_kv_range(&shape, begin, end);
        if (keys.begin < keys.end) {
            tile->block_begin = (int32_t)((uint32_t)keys.begin / BLOCK_N);
            tile->block_end = (int32_t)(((uint32_t)keys.end + BLOCK_N - 1) / BLOCK_N);
        }
    }
}

// Of the tile map.
DEVICE const uint32_t *tile_words(const attn_gpu_forward_params_t *p, const struct tile *tile)
{
    return tile_map_words(&p->score.map, tile->b, tile->h, tile->row0 / BLOCK_M);
}

DEVICE void tile_of_number(const attn_gpu_forward_params_t *p, uint32_t number, struct tile *tile)
{
    struct tile_place place = tile_place_of(&p->tiles, number);
    int32_t m = place.block;
    if (ATTN_CFG_MASK & MASK_UPPER) {
        m = p->tiles.m_tiles - 1 - m; // the longest first
    }
    // Heads in runs of PACK_HEADS, none of which spans two groups.
    int32_t runs = (p->group + PACK_HEADS - 1) / PACK_HEADS; // of a group
    int32_t all_runs = PACK_HEADS == 1 ? p->heads_q : p->heads_q / p->group * runs;
    tile->b = place.bh / all_runs;
    int32_t run = place.bh - tile->b * all_runs;
    tile->h_kv = run / runs;
    tile->h = tile->h_kv * p->group + (run - tile->h_kv * runs) * PACK_HEADS;
    tile->row0 = m * BLOCK_M;
}

// Without blocks at its ends that a mask tensor or block lists hide from all rows; those between
// are left out by sm90_forward_walk.h.
DEVICE void tile_trim(const attn_gpu_forward_params_t *p, struct tile *tile)
{
    if (tile->block_begin < tile->block_end &&
        !tile_map_trim(tile_words(p, tile), &tile->block_begin, &tile->block_end)) {
        tile->block_begin = tile->block_end = 0;
    }
}

// Writes the next tile with rows in it to its slot, a part as soon as it is known: few registers.
// Returns 0 at the end of the list.
DEVICE int tile_publish_next(const attn_gpu_forward_params_t *p, struct tile_cursor *cursor,
                             uint32_t slot)
{
    struct tile tile;
    for (;;) {
        tile_advance(&p->tiles, cursor);
        if (cursor->number >= p->tiles.count) {
            publish_end(slot);
            return 0;
        }
        tile_of_number(p, cursor->number, &tile);
        publish(slot, tile.row0, tile.b, tile.h, tile.h_kv);
        tile_lengths(p, &tile);
        if (position_of_row(tile.row0) < tile.rows) {
            break;
        }
    }
    publish(slot + 16, tile.rows, tile.q_start, tile.kv_start, tile.len_q);
    tile_blocks(p, &tile);
    if (HAS_TILE_MAP) {
        tile_trim(p, &tile);
    }
    publish(slot + 32, tile.len_kv, tile.leftpad, tile.block_begin, tile.block_end);
    return 1;
}

DEVICE void tile_read(uint32_t slot, struct tile *tile)
{
    uint32_t words[4];
    ld_shared_v4_u32(words, slot);
    tile->row0 = (int32_t)words[0];
    tile->b = (int32_t)words[1];
    tile->h = (int32_t)words[2];
    tile->h_kv = (int32_t)words[3];
    ld_shared_v4_u32(words, slot + 16);
    tile->rows = (int32_t)words[0];
    tile->q_start = (int32_t)words[1];
    tile->kv_start = (int32_t)words[2];
    tile->len_q = (int32_t)words[3];
    ld_shared_v4_u32(words, slot + 32);
    tile->len_kv = (int32_t)words[0];
    tile->leftpad = (int32_t)words[1];
    tile->block_begin = (int32_t)words[2];
    tile->block_end = (int32_t)words[3];
}

#endif
