// Sizes of the Hopper backward kernels that the host must know as well: shared memory, which it
// asks for before the kernel lays it out, and scratch memory.
#ifndef ATTN_SHARED_SM90_BACKWARD_LAYOUT_H
#define ATTN_SHARED_SM90_BACKWARD_LAYOUT_H

#include "sm90_forward_layout.h"

enum {
    ATTN_SM90_WARPGROUP_N = 64,                   // keys of a warpgroup
    ATTN_SM90_DQ_UNIT_BYTES = 64 * 64 * 4,        // of dQ that is added at a time
    ATTN_SM90_DQ_SLOTS = 2,                       // units on their way out
    ATTN_SM90_BACKWARD_TILE_BYTES = 64,           // a tile's slot
    ATTN_SM90_BACKWARD_PREPROCESS_THREADS = 128,  // as of postprocess
    ATTN_SM90_BACKWARD_POSTPROCESS_THREADS = 128, // 16 rows of dQ a warp
};

// K and V of a tile; Q and dO and their statistics, dS: `stages` of each; dQ on its way out.
ATTN_SHARED int32_t attn_sm90_backward_operand_bytes(int32_t d_qk, int32_t d_v, int32_t block_m,
                                                     int32_t warpgroups, int32_t stages)
{
    const int32_t block_n = warpgroups * ATTN_SM90_WARPGROUP_N;
    const int32_t row_bytes =
        (attn_sm90_panels(d_qk) + attn_sm90_panels(d_v)) * ATTN_SM90_PANEL_ROW_BYTES;
    return block_n * row_bytes + stages * block_m * (row_bytes + 2 * 4 + block_n * 2) +
           ATTN_SM90_DQ_SLOTS * ATTN_SM90_DQ_UNIT_BYTES;
}

// Barriers (8 bytes each: K and V 2, stages 5 each, tiles 2 a slot and 1), and the tiles' slots.
ATTN_SHARED int32_t attn_sm90_backward_barrier_bytes(int32_t stages)
{
    const int32_t barriers = 2 + 5 * stages + 2 * ATTN_SM90_TILE_SLOTS + 1;
    return (8 * barriers + 15) / 16 * 16 + ATTN_SM90_TILE_SLOTS * ATTN_SM90_BACKWARD_TILE_BYTES;
}

// Postprocess: the 16 rows of each warp.
ATTN_SHARED int32_t attn_sm90_postprocess_bytes(int32_t d_qk)
{
    return ATTN_SM90_BACKWARD_POSTPROCESS_THREADS / 2 * ATTN_SM90_PANEL_ROW_BYTES *
           attn_sm90_panels(d_qk);
}

#endif
