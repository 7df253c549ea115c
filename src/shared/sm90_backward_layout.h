// Sizes of the Hopper backward kernels that the host must know as well: shared memory, which it
// asks for before the kernel lays it out, and scratch memory.
#ifndef ATTN_SHARED_SM90_BACKWARD_LAYOUT_H
#define ATTN_SHARED_SM90_BACKWARD_LAYOUT_H

#include "sm90_forward_layout.h"

enum {
    ATTN_SM90_WARPGROUP_N = 64,                   // keys of a warpgroup
    ATTN_SM90_DQ_UNIT_BYTES = 64 * 64 * 4,        // of dQ that is added at a time
    ATTN_SM90_BACKWARD_TILE_BYTES = 64,           // a tile's slot
    ATTN_SM90_BACKWARD_PREPROCESS_THREADS = 128,  // as of postprocess
    ATTN_SM90_BACKWARD_POSTPROCESS_THREADS = 128, // 16 rows of dQ a warp
};

// What the sizes of the main kernel depend on.
typedef struct attn_sm90_backward_tile {
    int32_t d_qk;
    int32_t d_v;
    int32_t block_m;
    int32_t warpgroups;
    int32_t pair; // 1: two warpgroups share 64 keys
    int32_t stages;
} attn_sm90_backward_tile_t;

// K and V of a tile; `stages` of Q and dO and of their statistics, and of dS unless a pair needs
// the room; dQ on its way out, and the weights of a pair.
ATTN_SHARED int32_t attn_sm90_backward_operand_bytes(const attn_sm90_backward_tile_t *tile)
{
    const int32_t block_n = (tile->pair ? 1 : tile->warpgroups) * ATTN_SM90_WARPGROUP_N;
    const int32_t panels = attn_sm90_panels(tile->d_qk) + attn_sm90_panels(tile->d_v);
    const int32_t row_bytes = panels * ATTN_SM90_PANEL_ROW_BYTES;
    const int32_t ds_bytes = tile->block_m * block_n * 2;
    const int32_t slots = tile->pair ? 1 : 2;
    return block_n * row_bytes + tile->stages * tile->block_m * (row_bytes + 2 * 4) +
           (tile->pair ? 2 : tile->stages) * ds_bytes + slots * ATTN_SM90_DQ_UNIT_BYTES;
}

// Barriers (8 bytes each: K and V 2, weights 2, Q and dO 3 a stage, dS 2 a stage, tiles 2 a slot
// and 1), and the tiles' slots.
ATTN_SHARED int32_t attn_sm90_backward_barrier_bytes(const attn_sm90_backward_tile_t *tile)
{
    const int32_t barriers = 2 + 2 + 3 * tile->stages + 2 * (tile->pair ? 1 : tile->stages) +
                             2 * ATTN_SM90_TILE_SLOTS + 1;
    return (8 * barriers + 15) / 16 * 16 + ATTN_SM90_TILE_SLOTS * ATTN_SM90_BACKWARD_TILE_BYTES;
}

// Postprocess: the 16 rows of each warp.
ATTN_SHARED int32_t attn_sm90_postprocess_bytes(int32_t d_qk)
{
    return ATTN_SM90_BACKWARD_POSTPROCESS_THREADS / 2 * ATTN_SM90_PANEL_ROW_BYTES *
           attn_sm90_panels(d_qk);
}

#endif
