// Sizes in shared memory of the Hopper forward kernel that the host must know as well: it asks for
// the memory before the kernel lays it out.
#ifndef ATTN_SHARED_SM90_FORWARD_LAYOUT_H
#define ATTN_SHARED_SM90_FORWARD_LAYOUT_H

#include "shared_types.h"

enum {
    // Tiles lie in panels of 64 columns: 128 bytes a row, swizzled.
    ATTN_SM90_PANEL_COLUMNS = 64,
    ATTN_SM90_PANEL_ROW_BYTES = 128,
    ATTN_SM90_WARPGROUP_M = 64, // query rows of a warpgroup
    ATTN_SM90_WARPGROUP_THREADS = 128,
    ATTN_SM90_TILE_SLOTS = 2, // at compute, and at load, which works ahead
    ATTN_SM90_TILE_BYTES = 48,
    ATTN_SM90_HIDDEN_BYTES = 16 // where operands are gathered: of a stage, a bit for each key
};

ATTN_SHARED int32_t attn_sm90_panels(int32_t d)
{
    return (d + ATTN_SM90_PANEL_COLUMNS - 1) / ATTN_SM90_PANEL_COLUMNS;
}

// Of a warpgroup's Q and O: one behind the other, or both in the larger one's place.
ATTN_SHARED int32_t attn_sm90_qo_bytes(int32_t d_qk, int32_t d_v, int32_t separate_o)
{
    const int32_t panel_bytes = ATTN_SM90_WARPGROUP_M * ATTN_SM90_PANEL_ROW_BYTES;
    const int32_t q = attn_sm90_panels(d_qk) * panel_bytes;
    const int32_t o = attn_sm90_panels(d_v) * panel_bytes;
    if (separate_o) {
        return q + o;
    }
    return q > o ? q : o;
}

// Of a block of K and one of V.
ATTN_SHARED int32_t attn_sm90_kv_bytes(int32_t d_qk, int32_t d_v, int32_t block_n)
{
    return (attn_sm90_panels(d_qk) + attn_sm90_panels(d_v)) * block_n * ATTN_SM90_PANEL_ROW_BYTES;
}

// Barriers (8 bytes each: Q 2, K and V 2 a stage, tiles 2 a slot and 1), and the tiles' slots.
ATTN_SHARED int32_t attn_sm90_barrier_bytes(int32_t stages)
{
    const int32_t barriers = 2 + 4 * stages + 2 * ATTN_SM90_TILE_SLOTS + 1;
    return (8 * barriers + 15) / 16 * 16 + ATTN_SM90_TILE_SLOTS * ATTN_SM90_TILE_BYTES;
}

#endif
