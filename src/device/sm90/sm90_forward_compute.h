// The compute role: a warpgroup takes its 64 rows of each tile through all key blocks.
#ifndef ATTN_SM90_FORWARD_COMPUTE_H
#define ATTN_SM90_FORWARD_COMPUTE_H

#include "../common/pipe.h"
#include "../ptx/barrier.h"
#include "../ptx/mbarrier.h"
#include "sm90_forward_mma.h"
#include "sm90_forward_score.h"
#include "sm90_forward_softmax.h"
#include "sm90_forward_store.h"
#include "sm90_forward_walk.h"

struct compute {
    const attn_gpu_forward_params_t *p;
    uint32_t smem;
    uint32_t group;
    struct pipe k_pipe;
    struct pipe v_pipe;
    uint32_t q_phase;
    uint64_t q; // descriptors of Q and of the first K and V buffers
    uint64_t k;
    uint64_t v;
    float scale_log2;
};

// Ping-pong: a warpgroup issues its products only in its turn, so that its softmax falls into the
// others' products.
DEVICE void take_turn(uint32_t group)
{
    if (ATTN_CFG_PING_PONG) {
        barrier_sync(BARRIER_TURN + group, 2 * WARPGROUP_THREADS);
    }
}

DEVICE void pass_turn(uint32_t group)
{
    if (ATTN_CFG_PING_PONG) {
        barrier_arrive(BARRIER_TURN + (group + 1) % WARPGROUPS, 2 * WARPGROUP_THREADS);
    }
}

// Where the block that K's stage holds says which of its keys have no page.
DEVICE uint32_t hidden_keys_at(const struct compute *c)
{
    return c->smem + SMEM_HIDDEN + HIDDEN_BYTES * c->k_pipe.stage;
}

// S of the first block: nothing to overlap with yet. is_partial: the mask tensor may hide some of
// it.
DEVICE void first_block(struct compute *c, float *s, uint32_t *weights, struct softmax *state,
                        const struct row_limits *limits, const struct score_rows *rows,
                        int32_t block, int is_partial)
{
    struct score_block extra;
    mbarrier_wait(c->smem + SMEM_K_FULL + 8 * c->k_pipe.stage, c->k_pipe.phase); // load brought K
    issue_scores(s, c->q, c->k + c->k_pipe.stage * (K_BYTES / 16));
    load_score_block(c->p, rows, block, is_partial, &extra);
    wgmma_wait_group(0);
    pin_f32(s, BLOCK_N / 2);
    struct hidden_keys hidden = read_hidden_keys(hidden_keys_at(c));
    give_back(c->smem + SMEM_K_EMPTY + 8 * c->k_pipe.stage);
    pipe_advance(&c->k_pipe, STAGES);
    modify_scores(c->p, rows, &extra, block, s);
    hide_keys(s, &hidden);
    mask_scores(s, limits, block);
    softmax_first(s, state, c->scale_log2);
    if (ATTN_CFG_DROPOUT) {
        drop_weights(c->p, rows, block, s);
    }
    pin_f32(s, BLOCK_N / 2);
    pack_weights(weights, s);
}

// S of `block` and O of the block before it run together; the softmax of S runs while O does.
DEVICE void next_block(struct compute *c, float *s, float *o, uint32_t *weights,
                       struct softmax *state, const struct row_limits *limits,
                       const struct score_rows *rows, int32_t block, int is_masked)
{
    struct score_block extra;
    mbarrier_wait(c->smem + SMEM_K_FULL + 8 * c->k_pipe.stage, c->k_pipe.phase); // load brought K
    take_turn(c->group);
    issue_scores(s, c->q, c->k + c->k_pipe.stage * (K_BYTES / 16));
    mbarrier_wait(c->smem + SMEM_V_FULL + 8 * c->v_pipe.stage, c->v_pipe.phase); // load brought V
    issue_output(o, weights, c->v + c->v_pipe.stage * (V_BYTES / 16));
    pass_turn(c->group);
    load_score_block(c->p, rows, block, is_masked, &extra);
    wgmma_wait_group(1); // S is done, O still runs
    pin_f32(s, BLOCK_N / 2);
    struct hidden_keys hidden = read_hidden_keys(hidden_keys_at(c));
    give_back(c->smem + SMEM_K_EMPTY + 8 * c->k_pipe.stage);
    pipe_advance(&c->k_pipe, STAGES);
    modify_scores(c->p, rows, &extra, block, s);
    hide_keys(s, &hidden);
    if (is_masked) {
        mask_scores(s, limits, block);
    }
    uint32_t rises = move_anchor(s, state, c->scale_log2);
    exponentiate(s, state, c->scale_log2);
    if (ATTN_CFG_DROPOUT) {
        drop_weights(c->p, rows, block, s);
    }
    pin_f32(s, BLOCK_N / 2);
    wgmma_wait_group(0); // O is done: it and the weights may be changed
    pin_f32(o, D_V / 2);
    pin_u32(weights, BLOCK_N / 4);
    give_back(c->smem + SMEM_V_EMPTY + 8 * c->v_pipe.stage);
    pipe_advance(&c->v_pipe, STAGES);
    pack_weights(weights, s);
    if (rises) {
        scale_output(o, state->rescale);
    }
}

DEVICE void last_output(struct compute *c, float *o, uint32_t *weights)
{
    mbarrier_wait(c->smem + SMEM_V_FULL + 8 * c->v_pipe.stage, c->v_pipe.phase); // load brought V
    issue_output(o, weights, c->v + c->v_pipe.stage * (V_BYTES / 16));
    wgmma_wait_group(0);
    pin_f32(o, D_V / 2);
    give_back(c->smem + SMEM_V_EMPTY + 8 * c->v_pipe.stage);
    pipe_advance(&c->v_pipe, STAGES);
}

// Blocks that lie inside [begin, end) are seen whole by all of the warpgroup's rows.
struct block_range {
    int32_t begin;
    int32_t end;
};

DEVICE struct block_range full_blocks(const attn_mask_shape_t *shape, int32_t row0)
{
    int32_t begin = position_of_row(row0);
    attn_range_t keys = attn_tile_full_kv_range(shape, begin, begin + WARPGROUP_M / PACK_HEADS);
    struct block_range blocks;
    blocks.begin = (int32_t)(((uint32_t)keys.begin + BLOCK_N - 1) / BLOCK_N);
    blocks.end = (int32_t)((uint32_t)keys.end / BLOCK_N);
    return blocks;
}

// Load brought Q, or gave its buffer for O.
DEVICE void wait_q_full(struct compute *c)
{
    mbarrier_wait(c->smem + SMEM_Q_FULL, c->q_phase);
    c->q_phase ^= 1;
}

DEVICE void compute_blocks(struct compute *c, float *o, struct softmax *state, uint32_t slot)
{
    float s[BLOCK_N / 2];
    uint32_t weights[BLOCK_N / 4];
    struct tile tile;
    tile_read(slot, &tile);
    attn_mask_shape_t shape = mask_shape(c->p, &tile);
    int32_t row0 = tile.row0 + (int32_t)c->group * WARPGROUP_M;
    struct block_range full = full_blocks(&shape, row0);
    struct row_limits limits = row_limits(&shape, row0 + row_of_thread());
    struct score_rows rows = score_rows_of(c->p, &tile, &shape, row0 + row_of_thread());
    struct block_walk walk = block_walk_of(c->p, &tile);
    int32_t block = tile.block_end - 1;

    wait_q_full(c);
    first_block(c, s, weights, state, &limits, &rows, block, !walk_is_full(&walk));
    block--;
    if (HAS_TILE_MAP) {
        NO_UNROLL
        for (walk_advance(&walk); walk_goes_on(&walk); walk_advance(&walk)) {
            if (walk_is_full(&walk) && walk.block >= full.begin && walk.block < full.end) {
                next_block(c, s, o, weights, state, &limits, &rows, walk.block, 0);
            } else {
                next_block(c, s, o, weights, state, &limits, &rows, walk.block, 1);
            }
        }
    } else if (ATTN_CFG_MASK) {
        while (block >= tile.block_begin) {
            NO_UNROLL
            for (; block >= tile.block_begin && (block >= full.end || block < full.begin);
                 block--) {
                next_block(c, s, o, weights, state, &limits, &rows, block, 1);
            }
            NO_UNROLL
            for (; block >= tile.block_begin && block >= full.begin && block < full.end; block--) {
                next_block(c, s, o, weights, state, &limits, &rows, block, 0);
            }
        }
    } else {
        NO_UNROLL
        for (; block >= 0; block--) {
            next_block(c, s, o, weights, state, &limits, &rows, block, 0);
        }
    }
    if (ATTN_CFG_SEPARATE_O && thread_idx() % WARPGROUP_THREADS == 0) {
        mbarrier_arrive(c->smem + SMEM_Q_EMPTY);
    }
    last_output(c, o, weights);
}

// A tile from its slot of the ring to the output. Returns 0 at the end of the list.
DEVICE int compute_tile(struct compute *c, uint32_t slot)
{
    float o[D_V / 2];
    struct softmax state = {{ANCHOR_NONE, ANCHOR_NONE}, {0.0f, 0.0f}, {1.0f, 1.0f}};
    uint32_t staging = c->smem + SMEM_QO + c->group * QO_GROUP_BYTES + O_OFFSET_BYTES;
    if (tile_is_end(slot)) {
        return 0;
    }
    UNROLL
    for (int i = 0; i < D_V / 2; i++) {
        o[i] = 0.0f;
    }
    int has_blocks = tile_has_blocks(slot);
    if (has_blocks) {
        compute_blocks(c, o, &state, slot);
    } else if (!ATTN_CFG_SEPARATE_O) {
        wait_q_full(c);
    }
    store_tile(c->p, staging, c->group, slot, o, &state);
    if (!ATTN_CFG_SEPARATE_O && thread_idx() % WARPGROUP_THREADS == 0) {
        bulk_wait_group_read(0);
        mbarrier_arrive(c->smem + SMEM_Q_EMPTY);
    }
    return 1;
}

DEVICE void compute_tiles(const attn_gpu_forward_params_t *p, uint32_t smem_base, uint32_t group)
{
    uint32_t smem = kept_u32(smem_base);
    struct compute c;
    struct pipe tile_pipe = {0, 0};
    int goes_on = 1;
    c.p = p;
    c.smem = smem;
    c.group = group;
    c.k_pipe.stage = c.k_pipe.phase = 0;
    c.v_pipe.stage = c.v_pipe.phase = 0;
    c.q_phase = 0;
    c.q = swizzled_descriptor(smem + SMEM_QO + group * QO_GROUP_BYTES, 0);
    c.k = swizzled_descriptor(smem + SMEM_K, 0);
    c.v = swizzled_descriptor(smem + SMEM_V, KEYS_PANEL_BYTES);
    c.scale_log2 = SCORES_ARE_MODIFIED ? 1.0f : p->scale * ATTN_LOG2_E;
    if (group == WARPGROUPS - 1) {
        pass_turn(group);
    }
    NO_UNROLL
    while (goes_on) {
        // load published a tile
        mbarrier_wait(smem + SMEM_TILE_FULL + 8 * tile_pipe.stage, tile_pipe.phase);
        goes_on = compute_tile(&c, smem + SMEM_TILES + TILE_BYTES * tile_pipe.stage);
        warp_sync(); // all lanes have read it
        give_back(smem + SMEM_TILE_EMPTY + 8 * tile_pipe.stage);
        pipe_advance(&tile_pipe, TILE_SLOTS);
    }
    if (group == 0) {
        take_turn(group); // the last one passed on
    }
    if (p->lengths.cu_seqlens_q) {
        store_padding(p, thread_idx() - WARPGROUP_THREADS, WARPGROUPS * WARPGROUP_THREADS);
    }
    if (thread_idx() % WARPGROUP_THREADS == 0) {
        bulk_wait_group_read(0); // shared memory must outlive the stores
    }
}

#endif
