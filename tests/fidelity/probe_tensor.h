// What probes of tensor memory begin and end with. All 512 columns are allocated; each of the four
// warps has its 32 lanes.
#ifndef FIDELITY_PROBE_TENSOR_H
#define FIDELITY_PROBE_TENSOR_H

#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/tcgen05.h"
#include "probe.h"

enum { TENSOR_COLUMNS = 512, TENSOR_STEP = 32, PROBE_TENSOR_ADDRESS = 64 };

// Between the CTAs of a pair too.
DEVICE void tensor_meet(uint32_t is_pair)
{
    tcgen05_fence_before();
    if (is_pair) {
        cluster_arrive();
        cluster_wait();
    } else {
        cta_sync();
    }
    tcgen05_fence_after();
}

// Gives the address.
DEVICE uint32_t tensor_allocate(uint32_t is_pair)
{
    uint32_t at = dynamic_smem() + PROBE_TENSOR_ADDRESS;
    if (thread_idx() < 32) {
        if (is_pair) {
            tcgen05_alloc_pair(at, TENSOR_COLUMNS);
            tcgen05_relinquish_pair();
        } else {
            tcgen05_alloc(at, TENSOR_COLUMNS);
            tcgen05_relinquish();
        }
    }
    tensor_meet(is_pair);
    return ld_shared_u32(at);
}

DEVICE void tensor_release(uint32_t tensor, uint32_t is_pair)
{
    tensor_meet(is_pair);
    if (thread_idx() < 32) {
        if (is_pair) {
            tcgen05_dealloc_pair(tensor, TENSOR_COLUMNS);
        } else {
            tcgen05_dealloc(tensor, TENSOR_COLUMNS);
        }
    }
}

// The address of this warp's first lane.
DEVICE uint32_t tensor_own_lanes(uint32_t tensor)
{
    return tensor + (thread_idx() / 32 * 32 << 16);
}

// (column, lane) to every lane's columns; count is a multiple of TENSOR_STEP.
DEVICE void tensor_fill(uint32_t tensor, const uint32_t *in, uint32_t count)
{
    for (uint32_t c = 0; c < count; c += TENSOR_STEP) {
        uint32_t r[TENSOR_STEP];
        UNROLL
        for (uint32_t i = 0; i < TENSOR_STEP; i++) {
            r[i] = ld_global_u32(in + 128 * (c + i) + thread_idx());
        }
        tcgen05_st_32x32b(32, tensor_own_lanes(tensor) + c, r);
        tcgen05_wait_st();
    }
}

DEVICE void tensor_show(uint32_t *out, uint32_t tensor, uint32_t count)
{
    for (uint32_t c = 0; c < count; c += TENSOR_STEP) {
        uint32_t r[TENSOR_STEP];
        tcgen05_ld_32x32b(32, r, tensor_own_lanes(tensor) + c);
        tcgen05_wait_ld();
        UNROLL
        for (uint32_t i = 0; i < TENSOR_STEP; i++) {
            st_global_u32(out + 128 * (c + i) + thread_idx(), r[i]);
        }
    }
}

#endif
