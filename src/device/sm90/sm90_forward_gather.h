// The load role where TMA cannot do it (ATTN_CFG_GATHER): warps 2 and 3 bring Q, K and V in the
// same order by cp.async, or by plain loads, into the same panels.
//
// The tensor core reads through the async proxy, so that whoever copied must wait for its own
// copies and fence before it says so. To keep copies in flight all the same, an operand is told
// only when those of the next one are started: one is always under way. That never holds compute up
// with two stages or more: what it needs to give a buffer back is older than the one under way.
#ifndef ATTN_SM90_FORWARD_GATHER_H
#define ATTN_SM90_FORWARD_GATHER_H

#include "../common/pipe.h"
#include "../ptx/fence.h"
#include "../ptx/mbarrier.h"
#include "sm90_forward_rows.h"
#include "sm90_forward_walk.h"
#include "sm90_gather.h"

struct gather {
    const attn_gpu_forward_params_t *p;
    uint32_t smem;
    uint32_t warp; // of the two
    uint32_t slot; // of the tile, which stays there: few registers
    struct pipe k_pipe;
    struct pipe v_pipe;
    uint32_t q_phase;
    uint32_t untold; // barrier of the copies under way; 0: none
};

DEVICE void tell(uint32_t full)
{
    fence_proxy_async(); // copies and stores of mine, before wgmma reads them
    mbarrier_arrive(full);
}

DEVICE void tell_last(struct gather *g)
{
    if (g->untold) {
        cp_async_wait_group(0);
        tell(g->untold);
        g->untold = 0;
    }
}

// The copies for `full` are started.
DEVICE void tell_later(struct gather *g, uint32_t full)
{
    cp_async_commit_group();
    if (g->untold) {
        cp_async_wait_group(1);
        tell(g->untold);
    }
    g->untold = full;
}

DEVICE void gather_q(struct gather *g)
{
    const attn_gpu_forward_params_t *p = g->p;
    struct tile tile;
    tile_read(g->slot, &tile);
    NO_UNROLL
    for (uint32_t n = g->warp; n < BLOCK_M / GATHER_ROWS; n += GATHER_WARPS) {
        int32_t row = tile.row0 + (int32_t)(n * GATHER_ROWS + thread_idx() % 32);
        const uint16_t *q = row_is_there(p, &tile, row) ? query_row(p, &tile, row) : 0;
        gather_rows(g->smem + SMEM_QO + n / 2 * QO_GROUP_BYTES, ROWS_PANEL_BYTES,
                    n % 2 * GATHER_ROWS, q, &p->gather.q, p->d_qk, GATHER_ROWS,
                    D_QK / CHUNK_COLUMNS);
    }
    tell_later(g, g->smem + SMEM_Q_FULL);
}

// Where this lane's key of the block lies; NULL for what is behind the keys or hidden.
DEVICE const uint16_t *key_row(const struct kv_rows *rows, int32_t block, int32_t len_kv,
                               uint32_t row, uint32_t *is_hidden)
{
    int32_t key = block * BLOCK_N + (int32_t)row;
    const uint16_t *at = 0;
    *is_hidden = 0;
    if (row < BLOCK_N && key < len_kv) {
        at = kv_row_at(rows, key);
        *is_hidden = at == 0;
    }
    return at;
}

DEVICE void gather_k(struct gather *g, int32_t block)
{
    const attn_gpu_forward_params_t *p = g->p;
    struct tile tile;
    tile_read(g->slot, &tile);
    const struct kv_rows rows = kv_rows_of(p, &p->k, &tile);
    uint32_t stage = g->k_pipe.stage;
    mbarrier_wait(g->smem + SMEM_K_EMPTY + 8 * stage, g->k_pipe.phase ^ 1); // compute gave K back
    NO_UNROLL
    for (uint32_t n = g->warp; n < HIDDEN_WORDS; n += GATHER_WARPS) {
        uint32_t is_hidden;
        const uint16_t *row =
            key_row(&rows, block, tile.len_kv, n * GATHER_ROWS + thread_idx() % 32, &is_hidden);
        uint32_t hidden = vote_ballot(is_hidden);
        if (is_warp_leader()) {
            st_shared_u32(g->smem + SMEM_HIDDEN + stage * HIDDEN_BYTES + n * 4, hidden);
        }
        if (n * GATHER_ROWS < BLOCK_N) {
            uint32_t left = BLOCK_N - n * GATHER_ROWS;
            gather_rows(g->smem + SMEM_K + stage * K_BYTES, KEYS_PANEL_BYTES, n * GATHER_ROWS, row,
                        &p->gather.k, p->d_qk, left < GATHER_ROWS ? left : GATHER_ROWS,
                        D_QK / CHUNK_COLUMNS);
        }
    }
    tell_later(g, g->smem + SMEM_K_FULL + 8 * stage);
    pipe_advance(&g->k_pipe, STAGES);
}

DEVICE void gather_v(struct gather *g, int32_t block)
{
    const attn_gpu_forward_params_t *p = g->p;
    struct tile tile;
    tile_read(g->slot, &tile);
    const struct kv_rows rows = kv_rows_of(p, &p->v, &tile);
    uint32_t stage = g->v_pipe.stage;
    mbarrier_wait(g->smem + SMEM_V_EMPTY + 8 * stage, g->v_pipe.phase ^ 1); // compute gave V back
    NO_UNROLL
    for (uint32_t n = g->warp; n * GATHER_ROWS < BLOCK_N; n += GATHER_WARPS) {
        uint32_t is_hidden;
        uint32_t left = BLOCK_N - n * GATHER_ROWS;
        const uint16_t *row =
            key_row(&rows, block, tile.len_kv, n * GATHER_ROWS + thread_idx() % 32, &is_hidden);
        gather_rows(g->smem + SMEM_V + stage * V_BYTES, KEYS_PANEL_BYTES, n * GATHER_ROWS, row,
                    &p->gather.v, p->d_v, left < GATHER_ROWS ? left : GATHER_ROWS,
                    D_V / CHUNK_COLUMNS);
    }
    tell_later(g, g->smem + SMEM_V_FULL + 8 * stage);
    pipe_advance(&g->v_pipe, STAGES);
}

// Compute is done with the last tile's Q.
DEVICE void await_q_buffer(struct gather *g)
{
    mbarrier_wait(g->smem + SMEM_Q_EMPTY, g->q_phase ^ 1);
    g->q_phase ^= 1;
}

DEVICE void gather_tile(struct gather *g)
{
    struct tile tile;
    tile_read(g->slot, &tile);
    struct block_walk walk = block_walk_of(g->p, &tile);
    int32_t block = walk.block;
    gather_k(g, block);
    await_q_buffer(g);
    gather_q(g);
    NO_UNROLL
    for (walk_advance(&walk); walk_goes_on(&walk); walk_advance(&walk)) {
        gather_k(g, walk.block);
        gather_v(g, block);
        block = walk.block;
    }
    give_back(g->smem + SMEM_TILE_WANTED);
    gather_v(g, block);
    tell_last(g);
}

// A tile without keys. Where O lies over Q, compute needs the buffer all the same.
DEVICE void gather_nothing(struct gather *g)
{
    give_back(g->smem + SMEM_TILE_WANTED);
    if (!ATTN_CFG_SEPARATE_O) {
        await_q_buffer(g);
        mbarrier_arrive(g->smem + SMEM_Q_FULL);
    }
}

DEVICE void gather_tiles(const attn_gpu_forward_params_t *p, uint32_t smem)
{
    struct gather g = {p, smem, thread_idx() / 32 - GATHER_WARP, 0, {0, 0}, {0, 0}, 0, 0};
    NO_UNROLL
    for (uint32_t count = 0;; count++) {
        uint32_t s = count % TILE_SLOTS;
        g.slot = smem + SMEM_TILES + TILE_BYTES * s;
        // schedule published a tile
        mbarrier_wait(smem + SMEM_TILE_FULL + 8 * s, count / TILE_SLOTS & 1);
        if (tile_is_end(g.slot)) {
            return;
        }
        if (tile_has_blocks(g.slot)) {
            gather_tile(&g);
        } else {
            gather_nothing(&g);
        }
        warp_sync(); // all lanes have read it
        give_back(smem + SMEM_TILE_EMPTY + 8 * s);
    }
}

#endif
