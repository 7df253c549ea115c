// Attention forward on Hopper (sm_90a), f16 and bf16: o = softmax(scale * q k^T) v and its
// log-sum-exp, by tiles of BLOCK_M query rows and BLOCK_N keys, never more of the scores than one
// tile in registers.
//
// Roles (FORWARD_THREADS threads, 128 to a warpgroup; the first is load's and schedule's)
//   load      a thread of warp 0        Q once a tile, K and V blocks by TMA, last block first;
//             or warps 2 and 3          by copies, where TMA cannot (ATTN_CFG_GATHER)
//   schedule  a thread of warp 1        which tile comes next
//   compute   1 to 3 warpgroups         64 query rows each: S = Q K^T, softmax in registers,
//                                       O += P V with P straight from the registers
//
// A CTA lives as long as the grid and takes tile after tile from a list (sm90_forward_tile.h); load
// works one tile ahead of compute. The
// pipeline of a compute warpgroup; with ping-pong, the softmax of one warpgroup falls into the
// products of the others:
//
//   tensor core   S0 |      S1  O0 |      S2  O1 |    ...   O(n-1)
//   threads          | softmax S0  | softmax S1  |    ...          | sums, store
//
// Blocks that all rows of a warpgroup see whole run a loop without mask code.
//
// Shared memory: see sm90_forward_config.h. Per compute warpgroup Q and, with a buffer of its own,
// O; STAGES blocks of K; STAGES blocks of V; barriers.
//
// Barriers               count            arrives                        waits
//   Q full               1                load (bytes of Q, or the       compute
//                                         buffer alone, for O)
//   Q empty              WARPGROUPS       compute, a thread each, after  load
//                                         the last S (or its store)
//   K full, V full [s]   1                load (bytes)                   compute
//   K empty, V empty [s] 4 x WARPGROUPS   compute, a thread of a warp,   load
//                                         after the product is done
//   tile wanted          1                load, a tile's loads started   schedule
//   tile full [s]        1                schedule, a tile published     load, compute
//   tile empty [s]       4 x WARPGROUPS   compute, a thread of a warp,   schedule
//                        + 1              and load
//   With ATTN_CFG_GATHER each of load's 64 threads arrives at the full barriers for itself, and its
//   two warps at those of tiles.
//   barrier 1, 2, 3      256              turn at the tensor core: the warpgroup before arrives
//   barrier 8, 9, 10     128              a warpgroup: staging of O is free; is filled
//
// What is exact and what is not: tensor-core rows with a NaN, an infinity or scores beyond 2^20 are
// done again by careful_row.h. Everything else follows docs/semantics.md.
#include "../common/kernel.h"
#include "../ptx/pdl.h"
#include "../ptx/register.h"
#include "sm90_forward_compute.h"
#include "sm90_forward_gather.h"
#include "sm90_forward_load.h"
#include "sm90_schedule.h"

DEVICE void init_barriers(uint32_t smem)
{
    mbarrier_init(smem + SMEM_Q_FULL, LOAD_ARRIVALS);
    mbarrier_init(smem + SMEM_Q_EMPTY, WARPGROUPS);
    for (uint32_t s = 0; s < STAGES; s++) {
        mbarrier_init(smem + SMEM_K_FULL + 8 * s, LOAD_ARRIVALS);
        mbarrier_init(smem + SMEM_K_EMPTY + 8 * s, 4 * WARPGROUPS);
        mbarrier_init(smem + SMEM_V_FULL + 8 * s, LOAD_ARRIVALS);
        mbarrier_init(smem + SMEM_V_EMPTY + 8 * s, 4 * WARPGROUPS);
    }
    for (uint32_t s = 0; s < TILE_SLOTS; s++) {
        mbarrier_init(smem + SMEM_TILE_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_TILE_EMPTY + 8 * s, 4 * WARPGROUPS + LOAD_WARPS);
    }
    mbarrier_init(smem + SMEM_TILE_WANTED, LOAD_WARPS);
    fence_mbarrier_init();
}

KERNEL_CTAS((ATTN_CFG_WARPGROUPS + 1) * 128, ATTN_CFG_CTAS)
ATTN_CFG_KERNEL(const GRID_CONSTANT attn_gpu_forward_params_t p)
{
    uint32_t smem = dynamic_smem();
    // The same in all lanes, and the compiler should know it.
    uint32_t warpgroup = shuffle_idx_u32(thread_idx() / WARPGROUP_THREADS, 0);
    if (thread_idx() == 0) {
        init_barriers(smem);
    }
    cta_sync();
    if (HAS_TILE_MAP) {
        griddep_wait(); // the survey is over
    }
    if (warpgroup == 0) {
        setmaxnreg_dec(ATTN_CFG_LOAD_REGISTERS);
        if (ATTN_CFG_GATHER && thread_idx() >= GATHER_WARP * 32) {
            ROLE("gather");
            gather_tiles(&p, smem);
        } else if (!ATTN_CFG_GATHER && thread_idx() == 0) {
            ROLE("load");
            load_tiles(&p, smem);
        } else if (thread_idx() == 32) {
            ROLE("schedule");
            schedule_tiles(&p, smem);
        }
    } else {
        ROLE("compute");
        setmaxnreg_inc(ATTN_CFG_COMPUTE_REGISTERS);
        compute_tiles(&p, smem, ATTN_CFG_GATHER && WARPGROUPS == 1 ? 0 : warpgroup - 1);
    }
}
