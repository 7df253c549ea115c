// The role of a key warpgroup: 64 keys of each tile against all query blocks that see them.
#ifndef ATTN_SM90_BACKWARD_KEYS_H
#define ATTN_SM90_BACKWARD_KEYS_H

#include "../../shared/exp2.h"
#include "../common/pipe.h"
#include "sm90_backward_step.h"
#include "sm90_backward_store.h"

// Rows of K and V that are not in use may hold anything, and 0 * NaN is NaN.
DEVICE void clear_hidden_keys(const struct keys *c, const struct tile *tile, int32_t key0)
{
    if (key0 >= tile->leftpad && key0 + WARPGROUP_N <= tile->len_kv) {
        return;
    }
    const uint32_t zeros[4] = {0, 0, 0, 0};
    // V lies behind K, in panels of the same size. Of a pair each clears what it multiplies first.
    uint32_t panel0 = c->part == KEYS_GRADIENTS ? QK_PANELS : 0;
    uint32_t panels =
        (c->part != KEYS_GRADIENTS ? QK_PANELS : 0) + (c->part != KEYS_WEIGHTS ? V_PANELS : 0);
    uint32_t first = c->smem + SMEM_K + panel0 * KEYS_PANEL_BYTES + c->key_group * GROUP_KEYS_BYTES;
    for (uint32_t i = thread_idx() % WARPGROUP_THREADS; i < panels * WARPGROUP_N * 8;
         i += WARPGROUP_THREADS) {
        uint32_t row = i / 8 % WARPGROUP_N;
        int32_t key = key0 + (int32_t)row;
        if (key < tile->leftpad || key >= tile->len_kv) {
            st_shared_v4_u32(first + i / 8 / WARPGROUP_N * KEYS_PANEL_BYTES +
                                 row * PANEL_ROW_BYTES + i % 8 * 16,
                             zeros);
        }
    }
    fence_proxy_async(); // before the products of all roles
    barrier_sync(BARRIER_GROUP + c->group, WARPGROUP_THREADS);
}

struct block_range {
    int32_t begin;
    int32_t end;
};

// Blocks that see all of the warpgroup's keys. Behind the last row of the sequence lse hides what
// there is.
DEVICE struct block_range full_blocks(const kernel_params_t *p, const struct tile *tile,
                                      int32_t key0)
{
    attn_mask_shape_t shape = mask_shape(p, tile->len_q, tile->len_kv, tile->leftpad);
    attn_range_t rows = attn_tile_full_q_range(&shape, key0, key0 + WARPGROUP_N);
    struct block_range full;
    full.begin = (int32_t)(((uint32_t)rows.begin + BLOCK_M - 1) / BLOCK_M);
    full.end = rows.end == tile->len_q && rows.begin < rows.end
                   ? tile->block_end
                   : (int32_t)((uint32_t)rows.end / BLOCK_M);
    return full;
}

// Blocks that see any of the warpgroup's keys: with a mask not all of the tile's do.
DEVICE struct block_range seen_blocks(const kernel_params_t *p, const struct tile *tile,
                                      int32_t key0)
{
    attn_mask_shape_t shape = mask_shape(p, tile->len_q, tile->len_kv, tile->leftpad);
    attn_range_t rows = attn_tile_q_range(&shape, key0, key0 + WARPGROUP_N);
    struct block_range seen;
    seen.begin = (int32_t)((uint32_t)rows.begin / BLOCK_M);
    seen.end = (int32_t)(((uint32_t)rows.end + BLOCK_M - 1) / BLOCK_M);
    return seen;
}

// All blocks of a tile, of one query head after the other.
DEVICE void keys_blocks(struct keys *c, struct keys_registers *x, uint32_t slot)
{
    struct tile tile;
    tile_read(slot, &tile);
    int32_t key0 = tile.key0 + (int32_t)c->key_group * WARPGROUP_N;
    struct block_range full = full_blocks(c->p, &tile, key0);
    struct block_range seen = seen_blocks(c->p, &tile, key0);
    // As block_at has it, head by head.
    int32_t blocks = tile.block_end - tile.block_begin;
    int32_t first = block_at(&tile, 0);
    int32_t last = block_at(&tile, blocks - 1);
    int32_t count = blocks * c->p->group;
    int32_t block = first;
    clear_hidden_keys(c, &tile, key0);
    take_turn(c->group);
    NO_UNROLL
    for (int32_t i = 0; i < count; i++) {
        int is_masked = block < full.begin || block >= full.end;
        if (SKIPS_BLOCKS && (block < seen.begin || block >= seen.end)) {
            hidden_block(c, x, i == 0);
        } else if (c->part == KEYS_WHOLE) {
            keys_block(c, x, slot, block, i == 0, is_masked);
        } else if (c->part == KEYS_WEIGHTS) {
            weights_block(c, x, slot, block, is_masked);
        } else {
            gradients_block(c, x);
        }
        block = block == last ? first : ATTN_CFG_DETERMINISTIC ? block - 1 : block + 1;
    }
    pass_turn(c->group);
    if (c->part == KEYS_WHOLE) {
        end_last_block(c, x, 1);
    }
    uint32_t step = c->step - 1;
    // dQ is done with K
    mbarrier_wait(c->smem + SMEM_DS_EMPTY + 8 * (step % DS_STAGES), step / DS_STAGES & 1);
}

// A tile from its slot of the ring to the results. Returns 0 at the end of the list.
DEVICE int keys_tile(struct keys *c, uint32_t slot, uint32_t kv_phase)
{
    struct keys_registers x;
    if (tile_is_end(slot)) {
        return 0;
    }
    UNROLL
    for (int i = 0; i < D_QK / 2 && c->part != KEYS_WEIGHTS; i++) {
        x.dk[i] = 0.0f;
    }
    UNROLL
    for (int i = 0; i < D_V / 2 && c->part != KEYS_GRADIENTS; i++) {
        x.dv[i] = 0.0f;
    }
    mbarrier_wait(c->smem + SMEM_KV_FULL, kv_phase); // load brought K and V, or gave their buffers
    if (tile_has_blocks(slot)) {
        keys_blocks(c, &x, slot);
    }
    struct tile tile;
    tile_read(slot, &tile);
    store_tile(c, &tile, &x);
    return 1;
}

DEVICE void keys_tiles(const kernel_params_t *p, uint32_t smem_base, uint32_t group,
                       enum keys_part part)
{
    uint32_t key_group = part == KEYS_WHOLE ? group : 0;
    struct keys c = {p, kept_u32(smem_base), group, key_group, 0, p->scale * ATTN_LOG2_E, part};
    struct pipe tile_pipe = {0, 0};
    int goes_on = 1;
    if (group == WARPGROUPS - 1) {
        pass_turn(group);
    }
    NO_UNROLL
    for (uint32_t count = 0; goes_on; count++) {
        // schedule published a tile
        mbarrier_wait(c.smem + SMEM_TILE_FULL + 8 * tile_pipe.stage, tile_pipe.phase);
        goes_on = keys_tile(&c, c.smem + SMEM_TILES + TILE_BYTES * tile_pipe.stage, count & 1);
        warp_sync(); // all lanes have read it
        give_back(c.smem + SMEM_TILE_EMPTY + 8 * tile_pipe.stage);
        pipe_advance(&tile_pipe, TILE_SLOTS);
    }
    if (group == 0) {
        take_turn(group); // the last one passed on
    }
}

#endif
