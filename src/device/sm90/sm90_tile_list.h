// How the CTAs of a Hopper kernel share its tiles out: a list in sections of heads, dealt out round
// by round or taken from a counter.
#ifndef ATTN_SM90_TILE_LIST_H
#define ATTN_SM90_TILE_LIST_H

#include "../../shared/gpu_forward_params.h"
#include "../ptx/memory_ops.h"

// Where a CTA is in its list.
struct tile_cursor {
    uint32_t number;
    uint32_t is_first;
};

// The CTA's next place in the list. With a counter, which starts at 0, whoever is free takes the
// next tile; without, the list is dealt out round by round. Called when the operands of the tile
// before are loaded whole, not earlier: a CTA with a long tile must not hold a next one back
// (measured 29 Nov 2026 on an H200: 5 % of causal).
DEVICE void tile_advance(const attn_gpu_tiles_t *tiles, struct tile_cursor *cursor)
{
    if (cursor->is_first) {
        cursor->number = block_idx_x();
        cursor->is_first = 0;
    } else if (tiles->counter) {
        cursor->number = grid_dim_x() + atom_global_add_u32(tiles->counter, 1);
    } else {
        cursor->number += grid_dim_x();
    }
}

// A place in the list: a block of a head, which is one of batch * heads.
struct tile_place {
    int32_t block;
    int32_t bh;
};

DEVICE struct tile_place tile_place_of(const attn_gpu_tiles_t *tiles, uint32_t number)
{
    uint32_t per_section = (uint32_t)tiles->m_tiles * (uint32_t)tiles->section_heads;
    uint32_t section = number / per_section;
    int32_t in_section = (int32_t)(number - section * per_section);
    int32_t bh0 = (int32_t)section * tiles->section_heads;
    int32_t heads = tiles->bh - bh0;
    heads = heads < tiles->section_heads ? heads : tiles->section_heads;
    struct tile_place place;
    place.block = in_section / heads;
    place.bh = bh0 + in_section - place.block * heads;
    return place;
}

// A part of a tile's slot in shared memory: schedule writes it, the others read.
DEVICE void publish(uint32_t addr, int32_t a, int32_t b, int32_t c, int32_t d)
{
    uint32_t words[4];
    words[0] = (uint32_t)a;
    words[1] = (uint32_t)b;
    words[2] = (uint32_t)c;
    words[3] = (uint32_t)d;
    st_shared_v4_u32(addr, words);
}

// What every kernel's slot has in common: its second part begins with a length, negative at the end
// of the list, where nothing else is written; its third part ends with the tile's first block and
// the one behind its last.
DEVICE void publish_end(uint32_t slot)
{
    publish(slot + 16, -1, 0, 0, 0);
}

DEVICE int tile_is_end(uint32_t slot)
{
    return (int32_t)ld_shared_u32(slot + 16) < 0;
}

DEVICE int tile_has_blocks(uint32_t slot)
{
    return ld_shared_u32(slot + 40) != ld_shared_u32(slot + 44);
}

#endif
