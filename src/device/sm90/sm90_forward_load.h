// The load role: one thread of warp 0 brings Q once a tile and K and V block by block, last block
// first. V comes one block behind K, as the products need it one step later.
#ifndef ATTN_SM90_FORWARD_LOAD_H
#define ATTN_SM90_FORWARD_LOAD_H

#include "../common/pipe.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tma.h"
#include "sm90_forward_walk.h"

// K and V are read by the other query tiles of the head: keep them. Q is read once.
#define POLICY_EVICT_LAST 0x14f0000000000000u
#define POLICY_EVICT_FIRST 0x12f0000000000000u

// Compute is done with the last tile's Q.
DEVICE void wait_q_empty(uint32_t smem, uint32_t *phase)
{
    mbarrier_wait(smem + SMEM_Q_EMPTY, *phase ^ 1);
    *phase ^= 1;
}

DEVICE void load_q(const attn_gpu_forward_params_t *p, uint32_t smem, uint32_t slot)
{
    struct tile tile;
    tile_read(slot, &tile);
    mbarrier_arrive_expect_tx(smem + SMEM_Q_FULL, Q_BYTES);
    UNROLL
    for (int group = 0; group < WARPGROUPS; group++) {
        int32_t position = tile.q_start + position_of_row(tile.row0 + group * WARPGROUP_M);
        UNROLL
        for (int panel = 0; panel < QK_PANELS; panel++) {
            tma_load_4d_hint(smem + SMEM_QO + group * QO_GROUP_BYTES + panel * ROWS_PANEL_BYTES,
                             &p->q_map, smem + SMEM_Q_FULL, panel * PANEL_COLUMNS,
                             PACK_HEADS > 1 ? tile.h : position, PACK_HEADS > 1 ? position : tile.h,
                             p->lengths.cu_seqlens_q ? 0 : tile.b, POLICY_EVICT_FIRST);
        }
    }
}

// Where the keys of a tile are in memory: rows row_begin .. row, a block each. V follows K by one.
struct key_rows {
    int32_t row;
    int32_t row_begin;
    int32_t h;
    int32_t b;
    struct block_walk walk; // with a tile map
    int32_t v_row;          // likewise; else the block behind K's
};

DEVICE struct key_rows key_rows_of(const attn_gpu_forward_params_t *p, uint32_t slot)
{
    struct tile tile;
    tile_read(slot, &tile);
    struct key_rows keys;
    keys.walk = block_walk_of(p, &tile);
    keys.row = tile.kv_start + (tile.block_end - 1) * BLOCK_N;
    keys.row_begin = tile.kv_start + tile.block_begin * BLOCK_N;
    keys.h = tile.h_kv;
    keys.b = p->lengths.cu_seqlens_kv ? 0 : tile.b;
    return keys;
}

DEVICE void key_rows_advance(struct key_rows *keys)
{
    if (HAS_TILE_MAP) {
        int32_t block = keys->walk.block;
        walk_advance(&keys->walk);
        keys->v_row = keys->row;
        keys->row -= (block - keys->walk.block) * BLOCK_N;
    } else {
        keys->row -= BLOCK_N;
    }
}

DEVICE void load_k(const attn_gpu_forward_params_t *p, uint32_t smem, struct pipe *pipe,
                   const struct key_rows *keys)
{
    uint32_t full = smem + SMEM_K_FULL + 8 * pipe->stage;
    mbarrier_wait(smem + SMEM_K_EMPTY + 8 * pipe->stage, pipe->phase ^ 1); // compute gave K back
    mbarrier_arrive_expect_tx(full, K_BYTES);
    UNROLL
    for (int panel = 0; panel < QK_PANELS; panel++) {
        tma_load_4d_hint(smem + SMEM_K + pipe->stage * K_BYTES + panel * KEYS_PANEL_BYTES,
                         &p->k_map, full, panel * PANEL_COLUMNS, keys->row, keys->h, keys->b,
                         POLICY_EVICT_LAST);
    }
    pipe_advance(pipe, STAGES);
}

DEVICE void load_v(const attn_gpu_forward_params_t *p, uint32_t smem, struct pipe *pipe,
                   const struct key_rows *keys)
{
    uint32_t full = smem + SMEM_V_FULL + 8 * pipe->stage;
    mbarrier_wait(smem + SMEM_V_EMPTY + 8 * pipe->stage, pipe->phase ^ 1); // compute gave V back
    mbarrier_arrive_expect_tx(full, V_BYTES);
    UNROLL
    for (int panel = 0; panel < V_PANELS; panel++) {
        tma_load_4d_hint(smem + SMEM_V + pipe->stage * V_BYTES + panel * KEYS_PANEL_BYTES,
                         &p->v_map, full, panel * PANEL_COLUMNS,
                         HAS_TILE_MAP ? keys->v_row : keys->row + BLOCK_N, keys->h, keys->b,
                         POLICY_EVICT_LAST);
    }
    pipe_advance(pipe, STAGES);
}

DEVICE void load_blocks(const attn_gpu_forward_params_t *p, uint32_t smem, struct pipe *k_pipe,
                        struct pipe *v_pipe, struct key_rows *keys)
{
    NO_UNROLL
    for (key_rows_advance(keys); keys->row >= keys->row_begin; key_rows_advance(keys)) {
        load_k(p, smem, k_pipe, keys);
        load_v(p, smem, v_pipe, keys);
    }
    mbarrier_arrive(smem + SMEM_TILE_WANTED);
    load_v(p, smem, v_pipe, keys);
}

DEVICE void load_tiles(const attn_gpu_forward_params_t *p, uint32_t smem)
{
    struct pipe k_pipe = {0, 0};
    struct pipe v_pipe = {0, 0};
    uint32_t q_phase = 0;
    NO_UNROLL
    for (uint32_t count = 0;; count++) {
        uint32_t s = count % TILE_SLOTS;
        uint32_t slot = smem + SMEM_TILES + TILE_BYTES * s;
        // schedule published a tile
        mbarrier_wait(smem + SMEM_TILE_FULL + 8 * s, count / TILE_SLOTS & 1);
        if (tile_is_end(slot)) {
            return;
        }
        if (tile_has_blocks(slot)) {
            struct key_rows keys = key_rows_of(p, slot);
            load_k(p, smem, &k_pipe, &keys);
            wait_q_empty(smem, &q_phase);
            load_q(p, smem, slot);
            mbarrier_arrive(smem + SMEM_TILE_EMPTY + 8 * s);
            load_blocks(p, smem, &k_pipe, &v_pipe, &keys);
        } else {
            mbarrier_arrive(smem + SMEM_TILE_EMPTY + 8 * s);
            mbarrier_arrive(smem + SMEM_TILE_WANTED);
            if (!ATTN_CFG_SEPARATE_O) { // compute needs the buffer for O all the same
                wait_q_empty(smem, &q_phase);
                mbarrier_arrive(smem + SMEM_Q_FULL);
            }
        }
    }
}

#endif
