// The role of a key warpgroup: its 64 keys of each tile against all query blocks that see them.
//
// S and dP share one array of accumulators, P and dS one of packed pairs: that is what makes dK,
// dV and the rest fit into the registers. Warpgroups take turns at the tensor core, a burst of
// products each: [dK of the last block, S], [dP, dV]; so that the exponentials of one fall into the
// products of the other (measured 29 Nov 2026 on an H200: 7 % at d 128, 14 % at d 64).
#ifndef ATTN_SM90_BACKWARD_KEYS_H
#define ATTN_SM90_BACKWARD_KEYS_H

#include "../../shared/exp2.h"
#include "../common/pipe.h"
#include "sm90_backward_mma.h"
#include "sm90_backward_softmax.h"
#include "sm90_backward_store.h"

struct keys {
    const kernel_params_t *p;
    uint32_t smem;
    uint32_t group;
    uint32_t step; // blocks done, of all tiles: gives stage and phase of Q, dO and dS
    float scale_log2;
};

// The accumulators and fragments of a warpgroup.
struct keys_registers {
    float dk[D_QK / 2];
    float dv[D_V / 2];
    float s[BLOCK_M / 2];          // S, then dP
    uint32_t weights[BLOCK_M / 4]; // P, then dS
};

DEVICE void take_turn(uint32_t group)
{
    barrier_sync(BARRIER_TURN + group, 2 * WARPGROUP_THREADS);
}

DEVICE void pass_turn(uint32_t group)
{
    barrier_arrive(BARRIER_TURN + (group + 1) % WARPGROUPS, 2 * WARPGROUP_THREADS);
}

// One query block. It begins and ends in the warpgroup's turn; dK of the block before may be in
// flight at the beginning, its own is at the end.
DEVICE void keys_block(struct keys *c, struct keys_registers *x, uint32_t slot, int32_t block,
                       int is_first, int is_masked)
{
    uint32_t stage = c->step % STAGES;
    uint32_t phase = c->step / STAGES & 1;
    uint32_t q = c->smem + SMEM_Q + stage * Q_BYTES;
    uint32_t d_o = c->smem + SMEM_DO + stage * DO_BYTES;
    mbarrier_wait(c->smem + SMEM_Q_FULL + 8 * stage, phase); // load brought Q and lse
    issue_scores(x->s, swizzled_descriptor(c->smem + SMEM_K + c->group * GROUP_KEYS_BYTES, 0),
                 swizzled_descriptor(q, 0), D_QK);
    pass_turn(c->group);
    wgmma_wait_group(0); // dK of the last block and S are done
    pin_f32(x->s, BLOCK_M / 2);
    pin_f32(x->dk, D_QK / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    if (!is_first) {
        give_back(c->smem + SMEM_Q_EMPTY + 8 * ((c->step - 1) % STAGES));
    }
    if (is_masked) {
        mask_scores(c->p, x->s, slot, c->group, block);
    }
    pack_weights(x->weights, x->s, c->smem + SMEM_LSE + stage * STATS_BYTES, c->scale_log2);
    mbarrier_wait(c->smem + SMEM_DO_FULL + 8 * stage, phase); // load brought dO and delta
    pin_u32(x->weights, BLOCK_M / 4);
    take_turn(c->group);
    issue_scores(x->s, swizzled_descriptor(c->smem + SMEM_V + c->group * GROUP_KEYS_BYTES, 0),
                 swizzled_descriptor(d_o, 0), D_V);
    issue_dv(x->dv, x->weights, swizzled_descriptor(d_o, ROWS_PANEL_BYTES));
    pass_turn(c->group);
    wgmma_wait_group(0);
    pin_f32(x->s, BLOCK_M / 2);
    pin_f32(x->dv, D_V / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    pack_gradients(x->weights, x->s, c->smem + SMEM_DELTA + stage * STATS_BYTES);
    mbarrier_wait(c->smem + SMEM_DS_EMPTY + 8 * stage, phase ^ 1); // dQ has used the last one
    store_ds(c->smem + SMEM_DS + stage * DS_BYTES + c->group * GROUP_DS_BYTES, x->weights);
    fence_proxy_async(); // dS before dQ's products
    warp_sync();
    give_back(c->smem + SMEM_DS_FULL + 8 * stage);
    take_turn(c->group);
    issue_dk(x->dk, x->weights, swizzled_descriptor(q, ROWS_PANEL_BYTES));
    c->step++;
}

// Rows of K and V that are not in use may hold anything, and 0 * NaN is NaN.
DEVICE void clear_hidden_keys(const struct keys *c, const struct tile *tile, int32_t key0)
{
    if (key0 >= tile->leftpad && key0 + WARPGROUP_N <= tile->len_kv) {
        return;
    }
    const uint32_t zeros[4] = {0, 0, 0, 0};
    uint32_t first = c->smem + SMEM_K + c->group * GROUP_KEYS_BYTES;
    for (uint32_t i = thread_idx() % WARPGROUP_THREADS;
         i < (QK_PANELS + V_PANELS) * WARPGROUP_N * 8; i += WARPGROUP_THREADS) {
        uint32_t row = i / 8 % WARPGROUP_N;
        int32_t key = key0 + (int32_t)row;
        if (key < tile->leftpad || key >= tile->len_kv) {
            st_shared_v4_u32(first + i / 8 / WARPGROUP_N * KEYS_PANEL_BYTES +
                                 row * PANEL_ROW_BYTES + i % 8 * 16,
                             zeros); // V lies behind K, in panels of the same size
        }
    }
    fence_proxy_async(); // before the products of all roles
    barrier_sync(BARRIER_GROUP + c->group, WARPGROUP_THREADS);
}

// Blocks that lie inside [begin, end) see all of the warpgroup's keys. Behind the last row of the
// sequence lse hides what there is.
struct full_blocks {
    int32_t begin;
    int32_t end;
};

DEVICE struct full_blocks full_blocks(const kernel_params_t *p, const struct tile *tile,
                                      int32_t key0)
{
    attn_mask_shape_t shape = mask_shape(p, tile->len_q, tile->len_kv, tile->leftpad);
    attn_range_t rows = attn_tile_full_q_range(&shape, key0, key0 + WARPGROUP_N);
    struct full_blocks full;
    full.begin = (int32_t)(((uint32_t)rows.begin + BLOCK_M - 1) / BLOCK_M);
    full.end = rows.end == tile->len_q && rows.begin < rows.end
                   ? tile->block_end
                   : (int32_t)((uint32_t)rows.end / BLOCK_M);
    return full;
}

// All blocks of a tile, of one query head after the other.
DEVICE void keys_blocks(struct keys *c, struct keys_registers *x, uint32_t slot)
{
    struct tile tile;
    tile_read(slot, &tile);
    int32_t key0 = tile.key0 + (int32_t)c->group * WARPGROUP_N;
    struct full_blocks full = full_blocks(c->p, &tile, key0);
    int32_t begin = tile.block_begin;
    int32_t end = tile.block_end;
    int32_t count = (end - begin) * c->p->group;
    int32_t block = begin;
    clear_hidden_keys(c, &tile, key0);
    take_turn(c->group);
    NO_UNROLL
    for (int32_t i = 0; i < count; i++) {
        keys_block(c, x, slot, block, i == 0, block < full.begin || block >= full.end);
        block = block + 1 == end ? begin : block + 1;
    }
    pass_turn(c->group);
    wgmma_wait_group(0);
    pin_f32(x->dk, D_QK / 2);
    pin_f32(x->dv, D_V / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    uint32_t last = c->step - 1;
    give_back(c->smem + SMEM_Q_EMPTY + 8 * (last % STAGES));
    mbarrier_wait(c->smem + SMEM_DS_EMPTY + 8 * (last % STAGES), last / STAGES & 1); // dQ is done
}

// A tile from its slot of the ring to the results. Returns 0 at the end of the list.
DEVICE int keys_tile(struct keys *c, uint32_t slot, uint32_t kv_phase)
{
    struct keys_registers x;
    if (tile_is_end(slot)) {
        return 0;
    }
    UNROLL
    for (int i = 0; i < D_QK / 2; i++) {
        x.dk[i] = 0.0f;
    }
    UNROLL
    for (int i = 0; i < D_V / 2; i++) {
        x.dv[i] = 0.0f;
    }
    mbarrier_wait(c->smem + SMEM_KV_FULL, kv_phase); // load brought K and V, or gave their buffers
    if (tile_has_blocks(slot)) {
        keys_blocks(c, &x, slot);
    }
    struct tile tile;
    tile_read(slot, &tile);
    store_tile(c->p, c->smem, c->group, &tile, x.dk, x.dv);
    return 1;
}

DEVICE void keys_tiles(const kernel_params_t *p, uint32_t smem_base, uint32_t group)
{
    struct keys c = {p, kept_u32(smem_base), group, 0, p->scale * ATTN_LOG2_E};
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
