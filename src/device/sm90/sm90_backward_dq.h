// The dQ role of the backward kernel: a warpgroup multiplies dS, which the key warpgroups leave in
// shared memory, by K, and adds the product to the sums in global memory, where all key tiles of a
// head meet. Additions are bulk reductions of whole units out of shared memory: measured against
// red.v4 from registers, 12 % of the kernel (29 Nov 2026, H200).
//
// Sums lie in the order of the accumulators: [unit][warp][4 columns of 8][lane] of 16 bytes. So
// staging has no bank conflicts, and nobody but postprocess must know which element is where.
#ifndef ATTN_SM90_BACKWARD_DQ_H
#define ATTN_SM90_BACKWARD_DQ_H

#include "../common/pipe.h"
#include "../ptx/barrier.h"
#include "../ptx/bulk.h"
#include "../ptx/fence.h"
#include "../ptx/flags.h"
#include "../ptx/warp.h"
#include "sm90_backward_tile.h"

// dq[64][64] = dS[64][BLOCK_N] K[BLOCK_N][64]: 16 keys a step, 32 bytes of a row of dS and 16 rows
// of K.
DEVICE void issue_dq(float *dq, uint64_t ds, uint64_t k)
{
    pin_f32(dq, 32);
    wgmma_fence();
    UNROLL
    for (int i = 0; i < BLOCK_N / 16; i++) {
        MMA_SS_N_MAJOR(64, dq, ds + i / 4 * (GROUP_DS_BYTES / 16) + i % 4 * 2,
                       k + i * (2 * PATTERN_BYTES / 16), i != 0);
    }
    wgmma_commit_group();
}

// A unit from the accumulators to its place in global memory, through a slot of shared memory.
DEVICE void add_unit(float *sum, uint32_t slot, const float *dq)
{
    uint32_t is_first = thread_idx() % WARPGROUP_THREADS == 0;
    uint32_t own =
        slot + thread_idx() % WARPGROUP_THREADS / 32 * (DQ_UNIT_BYTES / 4) + thread_idx() % 32 * 16;
    if (is_first) {
        bulk_wait_group_read(DQ_SLOTS - 1); // the slot's last unit is on its way
    }
    barrier_sync(BARRIER_DQ, WARPGROUP_THREADS);
    UNROLL
    for (int i = 0; i < 8; i++) {
        uint32_t words[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            words[j] = bits_of_f32(dq[4 * i + j]);
        }
        st_shared_v4_u32(own + i * 512, words);
    }
    fence_proxy_async(); // staging before the bulk reduction
    barrier_sync(BARRIER_DQ, WARPGROUP_THREADS);
    if (is_first) {
        bulk_reduce_add_f32(sum, slot, DQ_UNIT_BYTES);
        bulk_commit_group();
    }
}

struct dq_state {
    uint32_t smem;
    struct pipe ds_pipe;
    uint32_t slot;  // the next one for staging
    uint32_t *last; // the order of the last block, which this tile has not told yet
};

// A fixed order: tells the next key tile that this one has added to its last block. Nothing that
// waits for it can be waited for here: it has a later place in the list.
DEVICE void pass_order(struct dq_state *c)
{
    if (c->last) {
        bulk_wait_group(0);
        fence_proxy_async_global(); // the reductions before the release
        red_release_gpu_add_u32(c->last, 1);
        c->last = 0;
    }
}

// Waits until the key tiles before this one have added to the block; `order` is the block's.
DEVICE void await_order(struct dq_state *c, uint32_t *order, uint32_t tiles_before)
{
    pass_order(c);
    wait_equal_gpu_u32(order, tiles_before);
    fence_proxy_async_global(); // before the reductions
    c->last = order;
}

// Key tiles before this one that the block sees.
DEVICE uint32_t tiles_before(const kernel_params_t *p, const struct tile *tile, int32_t block)
{
    attn_mask_shape_t shape = mask_shape(p, tile->len_q, tile->len_kv, tile->leftpad);
    int32_t row0 = block * BLOCK_M;
    int32_t row_end = row0 + BLOCK_M < tile->len_q ? row0 + BLOCK_M : tile->len_q;
    attn_range_t keys = attn_tile_kv_range(&shape, row0, row_end);
    return (uint32_t)tile->key0 / BLOCK_N - (uint32_t)keys.begin / BLOCK_N;
}

// One block of one head.
DEVICE void dq_block(const kernel_params_t *p, struct dq_state *c, const struct tile *tile,
                     int64_t index, int32_t block)
{
    float *sum = block_dq_sum(p, index);
    uint64_t ds = swizzled_descriptor(c->smem + SMEM_DS + c->ds_pipe.stage * DS_BYTES, 0);
    uint64_t k = swizzled_descriptor(c->smem + SMEM_K, KEYS_PANEL_BYTES);
    float dq[32];
    mbarrier_wait(c->smem + SMEM_DS_FULL + 8 * c->ds_pipe.stage, c->ds_pipe.phase); // keys wrote dS
    UNROLL
    for (int unit = 0; unit < DQ_UNITS; unit++) {
        issue_dq(dq, ds + unit / QK_PANELS * (BOX_BYTES / 16),
                 k + unit % QK_PANELS * (KEYS_PANEL_BYTES / 16));
        wgmma_wait_group(0);
        pin_f32(dq, 32);
        if (unit == DQ_UNITS - 1) {
            give_back(c->smem + SMEM_DS_EMPTY + 8 * c->ds_pipe.stage);
        }
        if (ATTN_CFG_DETERMINISTIC && unit == 0 && thread_idx() % WARPGROUP_THREADS == 0) {
            await_order(c, block_order(p, index), tiles_before(p, tile, block));
        }
        add_unit(sum + unit * DQ_UNIT_FLOATS, c->smem + SMEM_DQ + c->slot * DQ_UNIT_BYTES, dq);
        c->slot = (c->slot + 1) % DQ_SLOTS;
    }
    pipe_advance(&c->ds_pipe, DS_STAGES);
}

DEVICE void dq_tiles(const kernel_params_t *p, uint32_t smem)
{
    struct dq_state c = {smem, {0, 0}, 0, 0};
    NO_UNROLL
    for (uint32_t count = 0;; count++) {
        uint32_t s = count % TILE_SLOTS;
        uint32_t slot = smem + SMEM_TILES + TILE_BYTES * s;
        // schedule published a tile
        mbarrier_wait(smem + SMEM_TILE_FULL + 8 * s, count / TILE_SLOTS & 1);
        int is_end = tile_is_end(slot);
        struct tile tile;
        if (!is_end) {
            tile_read(slot, &tile);
        }
        warp_sync(); // all lanes have read it
        give_back(smem + SMEM_TILE_EMPTY + 8 * s);
        if (is_end) {
            break;
        }
        NO_UNROLL
        for (int32_t i = 0; i < p->group; i++) {
            int64_t index = block_index(p, tile.h_kv * p->group + i, tile.block0);
            NO_UNROLL
            for (int32_t j = 0; j < tile.block_end - tile.block_begin; j++) {
                int32_t block = block_at(&tile, j);
                dq_block(p, &c, &tile, index + block, block);
            }
        }
        if (ATTN_CFG_DETERMINISTIC && thread_idx() % WARPGROUP_THREADS == 0) {
            pass_order(&c);
        }
    }
    if (thread_idx() % WARPGROUP_THREADS == 0) {
        bulk_wait_group(0); // shared memory must outlive the reductions
    }
}

#endif
