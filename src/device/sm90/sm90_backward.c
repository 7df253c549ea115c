// Attention backward on Hopper (sm_90a), f16 and bf16: dq, dk and dv by tiles of BLOCK_N keys and
// BLOCK_M query rows, with five products a tile, P and dS never in memory but for dS in shared
// memory, on its way to dQ.
//
// It is the second of three kernels: sm90_backward_preprocess.c makes lse and delta ready and
// clears the sums of dQ, sm90_backward_postprocess.c turns these sums into dq. Each starts while
// the one before it ends, and waits for it.
//
// Roles (BACKWARD_THREADS threads, 128 to a warpgroup; the first is load's and schedule's)
//   load      a thread of warp 0        by TMA: K once a tile, Q block by block
//             a thread of warp 2        V and dO likewise
//   schedule  a thread of warp 1        which tile comes next
//   dq        the second warpgroup      dQ = dS K, added to global memory by bulk reductions
//   keys      WARPGROUPS more           64 keys each: S^T = K Q^T, P^T, dP^T = V dO^T, dS^T in
//                                       registers; dV += P^T dO, dK += dS^T Q from them
//   weights, gradients                  instead of keys, for head dims beyond 128: the former has
//                                       S, P and dV of 64 keys, the latter dP, dS and dK
//
// A CTA owns the keys of a tile and walks over the query blocks that see them, of one query head of
// the group after the other: dK and dV are sums over all of these and stay in registers. Two key
// warpgroups in turn at the tensor core, dq in the gaps:
//
//   keys 0   S0 | exp | dP0 dV0 | dS | dK0 S1 | exp | dP1 dV1 | dS | dK1 S2 ...
//   keys 1        | S0 | exp | dP0 dV0 | dS | dK0 S1 | exp | dP1 dV1 | dS ...
//   dq                                   | dQ0           | dQ1
//
// Shared memory: see sm90_backward_config.h. K; V; STAGES blocks of Q, dO and dS; two units of dQ;
// STAGES blocks of lse and delta; barriers. dK and dV leave through the places of K and V.
//
// Barriers               count            arrives                        waits
//   K V full             2                load (bytes, or the buffers    keys
//                                         alone, for the results)
//   K V empty            WARPGROUPS       keys, a thread each, stored    load
//   Q full, dO full [s]  1                load (bytes)                   keys
//   Q empty [s]          4 x WARPGROUPS   keys, a thread of a warp,      load
//                                         after dK (of Q and dO)
//   dS full [s]          4 x KEY_GROUPS   keys, a thread of a warp       dq
//   dS empty [s]         4                dq, a thread of a warp,        keys
//                                         after the last product
//   P full, P empty      4                of a pair, a thread of a warp: the other one
//   tile wanted          2                load, a tile's loads started   schedule
//   tile full [s]        1                schedule, a tile published     load, dq, keys
//   tile empty [s]       4 x WARPGROUPS   keys and dq, a thread of a     schedule
//                        + 4 + 2          warp, and load
//   barrier 1, 2         256              turn at the tensor core: the warpgroup before arrives
//   barrier 7            128              dq: a slot for staging is free; is filled
//   barrier 8, 9         128              a key warpgroup: hidden keys are cleared; results staged
//
// What is exact and what is not: results with a NaN or an infinity are done again by postprocess.
// A floor, d 128, cycles for 64 rows and 128 keys: products 2560, exponentials 512, shared memory
// 2944; measured with this structure 3263 (29 Nov 2026, H200).
#include "../common/kernel.h"
#include "../ptx/pdl.h"
#include "../ptx/register.h"
#include "sm90_backward_dq.h"
#include "sm90_backward_keys.h"
#include "sm90_backward_load.h"
#include "sm90_schedule.h"

DEVICE void init_barriers(uint32_t smem)
{
    mbarrier_init(smem + SMEM_KV_FULL, 2);
    mbarrier_init(smem + SMEM_KV_EMPTY, WARPGROUPS);
    for (uint32_t s = 0; s < STAGES; s++) {
        mbarrier_init(smem + SMEM_Q_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_DO_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_Q_EMPTY + 8 * s, 4 * WARPGROUPS);
    }
    for (uint32_t s = 0; s < DS_STAGES; s++) {
        mbarrier_init(smem + SMEM_DS_FULL + 8 * s, 4 * KEY_GROUPS);
        mbarrier_init(smem + SMEM_DS_EMPTY + 8 * s, 4);
    }
    if (ATTN_CFG_PAIR) {
        mbarrier_init(smem + SMEM_P_FULL, 4);
        mbarrier_init(smem + SMEM_P_EMPTY, 4);
    }
    for (uint32_t s = 0; s < TILE_SLOTS; s++) {
        mbarrier_init(smem + SMEM_TILE_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_TILE_EMPTY + 8 * s, 4 * WARPGROUPS + 6);
    }
    mbarrier_init(smem + SMEM_TILE_WANTED, 2);
    fence_mbarrier_init();
}

KERNEL((ATTN_CFG_WARPGROUPS + 2) * 128)
ATTN_CFG_KERNEL(const GRID_CONSTANT attn_gpu_backward_params_t p)
{
    uint32_t smem = dynamic_smem();
    // The same in all lanes, and the compiler should know it.
    uint32_t warpgroup = shuffle_idx_u32(thread_idx() / WARPGROUP_THREADS, 0);
    if (thread_idx() == 0) {
        init_barriers(smem);
    }
    cta_sync();
    griddep_wait(); // preprocess is over
    griddep_launch_dependents();
    if (warpgroup == 0) {
        setmaxnreg_dec(ATTN_CFG_LOAD_REGISTERS);
        if (thread_idx() == 0) {
            ROLE("load");
            load_tiles(&p, smem, q_stream(&p, smem));
        } else if (thread_idx() == 64) {
            ROLE("load");
            load_tiles(&p, smem, do_stream(&p, smem));
        } else if (thread_idx() == 32) {
            ROLE("schedule");
            schedule_tiles(&p, smem);
        }
    } else if (warpgroup == 1) {
        ROLE("dq");
        setmaxnreg_dec(DQ_REGISTERS);
        dq_tiles(&p, smem);
    } else {
        setmaxnreg_inc(ATTN_CFG_COMPUTE_REGISTERS);
        if (!ATTN_CFG_PAIR) {
            ROLE("keys");
            keys_tiles(&p, smem, warpgroup - 2, KEYS_WHOLE);
        } else if (warpgroup == 2) {
            ROLE("weights");
            keys_tiles(&p, smem, 0, KEYS_WEIGHTS);
        } else {
            ROLE("gradients");
            keys_tiles(&p, smem, 1, KEYS_GRADIENTS);
        }
    }
}
