// One query block of a key warpgroup. The two of a CTA take turns at the tensor core, a burst of
// products each, so that the exponentials of one fall into the products of the other (measured
// 29 Nov 2026 on an H200: 7 % at d 128, 14 % at d 64).
//
// Whole: S and dP share one array of accumulators, P and dS one of packed pairs: that is what makes
// dK, dV and the rest fit into the registers. Bursts: [dK of the last block, S], [dP, dV].
//
// Pair, for head dims whose dK and dV do not fit into the registers of one: one has S, P and dV,
// the other dP, dS and dK, and gets P through shared memory. Bursts: [S], [dV]; [dP], [dK].
#ifndef ATTN_SM90_BACKWARD_STEP_H
#define ATTN_SM90_BACKWARD_STEP_H

#include "../ptx/barrier.h"
#include "../ptx/fence.h"
#include "../ptx/mbarrier.h"
#include "../ptx/warp.h"
#include "sm90_backward_mma.h"
#include "sm90_backward_softmax.h"

// What a warpgroup does for its keys: everything, or half of it. A literal to the compiler.
enum keys_part { KEYS_WHOLE, KEYS_WEIGHTS, KEYS_GRADIENTS };

struct keys {
    const kernel_params_t *p;
    uint32_t smem;
    uint32_t group;     // place in the order of turns
    uint32_t key_group; // whose keys, 64 each
    uint32_t step;      // blocks done, of all tiles: gives stage and phase of Q, dO and dS
    float scale_log2;
    enum keys_part part;
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

// The places of dS in turn, and the phase that they are filled in.
DEVICE uint32_t ds_stage(const struct keys *c)
{
    return c->step % DS_STAGES;
}

DEVICE uint32_t ds_phase(const struct keys *c)
{
    return c->step / DS_STAGES & 1;
}

DEVICE void wait_ds_empty(const struct keys *c)
{
    // dQ has used the last one
    mbarrier_wait(c->smem + SMEM_DS_EMPTY + 8 * ds_stage(c), ds_phase(c) ^ 1);
}

// dS to its place in shared memory.
DEVICE void leave_ds(const struct keys *c, const uint32_t *ds)
{
    wait_ds_empty(c);
    store_ds(c->smem + SMEM_DS + ds_stage(c) * DS_BYTES + c->key_group * GROUP_DS_BYTES, ds);
}

// Tells dq of the dS of a step.
DEVICE void hand_ds(const struct keys *c, uint32_t step)
{
    fence_proxy_async(); // dS before dQ's products
    warp_sync();
    give_back(c->smem + SMEM_DS_FULL + 8 * (step % DS_STAGES));
}

// The end of the block before, if there was one, behind the burst with its dK: the fence takes its
// time, so dq learns of dS while products run (measured 1 Dec 2026 on an H200: 2 to 3 %).
DEVICE void end_last_block(const struct keys *c, struct keys_registers *x, int has_last)
{
    if (has_last) {
        hand_ds(c, c->step - 1);
    }
    wgmma_wait_group(0);
    pin_f32(x->dk, D_QK / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    if (has_last) {
        give_back(c->smem + SMEM_Q_EMPTY + 8 * ((c->step - 1) % STAGES));
    }
}

// One query block. It begins and ends in the warpgroup's turn; dK of the block before may be in
// flight at the beginning, its own is at the end, and dq does not know of its dS.
DEVICE void keys_block(struct keys *c, struct keys_registers *x, uint32_t slot, int32_t block,
                       int is_first, int is_masked)
{
    uint32_t stage = c->step % STAGES;
    uint32_t phase = c->step / STAGES & 1;
    uint32_t q = c->smem + SMEM_Q + stage * Q_BYTES;
    uint32_t d_o = c->smem + SMEM_DO + stage * DO_BYTES;
    // V's descriptor is this one's plus a constant. Built from an address of its own it would wait
    // in vector registers, 16 R2UR between a turn and its first product (counted in the SASS).
    uint64_t k = swizzled_descriptor(c->smem + SMEM_K + c->key_group * GROUP_KEYS_BYTES, 0);
    mbarrier_wait(c->smem + SMEM_Q_FULL + 8 * stage, phase); // load brought Q and lse
    issue_scores(x->s, k, swizzled_descriptor(q, 0), D_QK);
    pass_turn(c->group);
    end_last_block(c, x, !is_first);
    pin_f32(x->s, BLOCK_M / 2);
    if (is_masked) {
        mask_scores(c->p, x->s, slot, c->key_group, block);
    }
    pack_weights(x->weights, x->s, c->smem + SMEM_LSE + stage * STATS_BYTES, c->scale_log2);
    mbarrier_wait(c->smem + SMEM_DO_FULL + 8 * stage, phase); // load brought dO and delta
    pin_u32(x->weights, BLOCK_M / 4);
    take_turn(c->group);
    issue_scores(x->s, k + SMEM_V / 16, swizzled_descriptor(d_o, 0), D_V);
    issue_dv(x->dv, x->weights, swizzled_descriptor(d_o, ROWS_PANEL_BYTES));
    pass_turn(c->group);
    wgmma_wait_group(0);
    pin_f32(x->s, BLOCK_M / 2);
    pin_f32(x->dv, D_V / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    pack_gradients(x->weights, x->s, c->smem + SMEM_DELTA + stage * STATS_BYTES);
    leave_ds(c, x->weights);
    take_turn(c->group);
    issue_dk(x->dk, x->weights, swizzled_descriptor(q, ROWS_PANEL_BYTES));
    c->step++;
}

// A block that sees none of the warpgroup's keys, but some of the other's: all that the others wait
// for. Measured 29 Nov 2026 on an H200: 3.6 % of causal at d 128.
DEVICE void hidden_block(struct keys *c, struct keys_registers *x, int is_first)
{
    uint32_t stage = c->step % STAGES;
    uint32_t phase = c->step / STAGES & 1;
    pass_turn(c->group);
    end_last_block(c, x, !is_first);
    mbarrier_wait(c->smem + SMEM_Q_FULL + 8 * stage, phase); // to miss no phase
    mbarrier_wait(c->smem + SMEM_DO_FULL + 8 * stage, phase);
    take_turn(c->group);
    pass_turn(c->group);
    UNROLL
    for (int i = 0; i < BLOCK_M / 4; i++) {
        x->weights[i] = 0;
    }
    leave_ds(c, x->weights);
    take_turn(c->group);
    c->step++;
}

// Fragments of P from one of a pair to the other: 16 bytes of a thread and k step.
DEVICE uint32_t pair_address(const struct keys *c)
{
    return c->smem + SMEM_P + thread_idx() % WARPGROUP_THREADS * 16;
}

// S, P and dV. It begins and ends in the warpgroup's turn.
DEVICE void weights_block(struct keys *c, struct keys_registers *x, uint32_t slot, int32_t block,
                          int is_masked)
{
    uint32_t stage = c->step % STAGES;
    uint32_t phase = c->step / STAGES & 1;
    uint32_t d_o = c->smem + SMEM_DO + stage * DO_BYTES;
    mbarrier_wait(c->smem + SMEM_Q_FULL + 8 * stage, phase); // load brought Q and lse
    issue_scores(x->s, swizzled_descriptor(c->smem + SMEM_K, 0),
                 swizzled_descriptor(c->smem + SMEM_Q + stage * Q_BYTES, 0), D_QK);
    pass_turn(c->group);
    wgmma_wait_group(0);
    pin_f32(x->s, BLOCK_M / 2);
    if (is_masked) {
        mask_scores(c->p, x->s, slot, c->key_group, block);
    }
    pack_weights(x->weights, x->s, c->smem + SMEM_LSE + stage * STATS_BYTES, c->scale_log2);
    wait_ds_empty(c); // before P, which leads to the next phase: the end of the tile waits for it
    mbarrier_wait(c->smem + SMEM_P_EMPTY, (c->step & 1) ^ 1); // the other one has read the last P
    UNROLL
    for (int i = 0; i < BLOCK_M / 16; i++) {
        st_shared_v4_u32(pair_address(c) + i * (WARPGROUP_THREADS * 16), x->weights + 4 * i);
    }
    warp_sync();
    give_back(c->smem + SMEM_P_FULL);
    mbarrier_wait(c->smem + SMEM_DO_FULL + 8 * stage, phase); // load brought dO and delta
    take_turn(c->group);
    issue_dv(x->dv, x->weights, swizzled_descriptor(d_o, ROWS_PANEL_BYTES));
    wgmma_wait_group(0);
    pin_f32(x->dv, D_V / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    give_back(c->smem + SMEM_Q_EMPTY + 8 * stage);
    c->step++;
}

// dP, dS and dK. It begins and ends in the warpgroup's turn.
DEVICE void gradients_block(struct keys *c, struct keys_registers *x)
{
    uint32_t stage = c->step % STAGES;
    uint32_t phase = c->step / STAGES & 1;
    uint32_t d_o = c->smem + SMEM_DO + stage * DO_BYTES;
    mbarrier_wait(c->smem + SMEM_DO_FULL + 8 * stage, phase); // load brought dO and delta
    issue_scores(x->s, swizzled_descriptor(c->smem + SMEM_V, 0), swizzled_descriptor(d_o, 0), D_V);
    pass_turn(c->group);
    wgmma_wait_group(0);
    pin_f32(x->s, BLOCK_M / 2);
    mbarrier_wait(c->smem + SMEM_P_FULL, c->step & 1); // the other one wrote P
    UNROLL
    for (int i = 0; i < BLOCK_M / 16; i++) {
        ld_shared_v4_u32(x->weights + 4 * i, pair_address(c) + i * (WARPGROUP_THREADS * 16));
    }
    warp_sync();
    give_back(c->smem + SMEM_P_EMPTY);
    pack_gradients(x->weights, x->s, c->smem + SMEM_DELTA + stage * STATS_BYTES);
    leave_ds(c, x->weights);
    hand_ds(c, c->step);
    mbarrier_wait(c->smem + SMEM_Q_FULL + 8 * stage, phase); // load brought Q and lse
    take_turn(c->group);
    issue_dk(x->dk, x->weights,
             swizzled_descriptor(c->smem + SMEM_Q + stage * Q_BYTES, ROWS_PANEL_BYTES));
    wgmma_wait_group(0);
    pin_f32(x->dk, D_QK / 2);
    pin_u32(x->weights, BLOCK_M / 4);
    give_back(c->smem + SMEM_Q_EMPTY + 8 * stage);
    c->step++;
}

#endif
