// Instructions of a warp as a whole: shuffles, votes, election, syncwarp (PTX ISA, "Data
// Movement and Conversion Instructions: shfl.sync" and "Parallel Synchronization and Communication
// Instructions": bar.warp.sync, vote.sync, redux.sync, elect.sync).
//
// Except for warp_sync they order no memory. All 32 lanes take part.
#ifndef ATTN_PTX_WARP_H
#define ATTN_PTX_WARP_H

#include "../common/kernel.h"

// bar.warp.sync: the lanes meet, and see what each wrote before.
PTX void warp_sync(void) PTX_BODY(asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"););

// shfl.sync in its four forms; a lane without a partner keeps its own value.
PTX uint32_t shuffle_xor_u32(uint32_t value, uint32_t mask)
    PTX_BODY(return __shfl_xor_sync(0xffffffffu, value, (int)mask););
PTX uint32_t shuffle_idx_u32(uint32_t value, uint32_t lane)
    PTX_BODY(return __shfl_sync(0xffffffffu, value, (int)lane););
PTX uint32_t shuffle_up_u32(uint32_t value, uint32_t distance)
    PTX_BODY(return __shfl_up_sync(0xffffffffu, value, distance););
PTX uint32_t shuffle_down_u32(uint32_t value, uint32_t distance)
    PTX_BODY(return __shfl_down_sync(0xffffffffu, value, distance););
PTX float shuffle_xor_f32(float value, uint32_t mask)
    PTX_BODY(return __shfl_xor_sync(0xffffffffu, value, (int)mask););
PTX float shuffle_idx_f32(float value, uint32_t lane)
    PTX_BODY(return __shfl_sync(0xffffffffu, value, (int)lane););

// vote.sync: which lanes say yes, any, all.
PTX uint32_t vote_ballot(uint32_t predicate)
    PTX_BODY(return __ballot_sync(0xffffffffu, (int)predicate););
PTX uint32_t vote_any(uint32_t predicate)
    PTX_BODY(return (uint32_t)__any_sync(0xffffffffu, (int)predicate););
PTX uint32_t vote_all(uint32_t predicate)
    PTX_BODY(return (uint32_t)__all_sync(0xffffffffu, (int)predicate););

// redux.sync.add.
PTX uint32_t reduce_add_u32(uint32_t value) PTX_BODY(return __reduce_add_sync(0xffffffffu, value););

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// elect.sync: 1 in one lane, 0 in the others.
PTX uint32_t elect_one(void)
    PTX_BODY(uint32_t elected;
             asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                          : "=r"(elected));
             return elected;);
#endif

#endif
