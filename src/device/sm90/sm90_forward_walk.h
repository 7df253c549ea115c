// The key blocks that a tile goes through, last first: all of its range, or those that a tile map
// shows to some row. Load and every compute warpgroup walk for themselves, in the same order.
//
// Where registers or machine code are scarce, kernels without a map count blocks themselves.
#ifndef ATTN_SM90_FORWARD_WALK_H
#define ATTN_SM90_FORWARD_WALK_H

#include "sm90_forward_tile.h"

// A walk stands at `block`; it is over behind `begin`, which it always comes to: the ends of the
// range are blocks that are seen (tile_trim).
struct block_walk {
    int32_t block;
    int32_t begin;
    const uint32_t *words; // of the tile map
    uint32_t seen;         // of its word: blocks below `block` that are still to come
    uint32_t full;
};

DEVICE void walk_word(struct block_walk *walk, int32_t block)
{
    walk->seen = seen_word(walk->words, block) & bits_below(block % 32 + 1);
    walk->full = full_word(walk->words, block);
}

DEVICE struct block_walk block_walk_of(const attn_gpu_forward_params_t *p, const struct tile *tile)
{
    struct block_walk walk = {0};
    walk.block = tile->block_end - 1;
    walk.begin = tile->block_begin;
    if (HAS_TILE_MAP) {
        walk.words = tile_words(p, tile);
        walk_word(&walk, walk.block);
    }
    return walk;
}

DEVICE int walk_goes_on(const struct block_walk *walk)
{
    return walk->block >= walk->begin;
}

// Whether all rows of the tile see the block whole, as far as the map knows.
DEVICE int walk_is_full(const struct block_walk *walk)
{
    return !HAS_TILE_MAP || (walk->full >> walk->block % 32 & 1);
}

DEVICE void walk_advance(struct block_walk *walk)
{
    if (HAS_TILE_MAP && walk->block > walk->begin) {
        walk->seen &= bits_below(walk->block % 32);
        NO_UNROLL
        while (walk->seen == 0) {
            walk->block = (walk->block & ~31) - 1;
            walk_word(walk, walk->block);
        }
        walk->block = highest_block(walk->seen, walk->block);
    } else {
        walk->block--;
    }
}

#endif
