// The schedule role: one thread of warp 1 finds the CTA's next tile and publishes it in a ring of
// TILE_SLOTS; with a shared counter only when load asks for it. A role of its own, because the
// arithmetic needs registers that load, with its pipelines, has not.
//
// The kernel that includes this has tile_publish_next, its own kernel_params_t with `tiles`, and
// the barriers SMEM_TILE_* of shared memory.
#ifndef ATTN_SM90_SCHEDULE_H
#define ATTN_SM90_SCHEDULE_H

#include "../common/pipe.h"
#include "../ptx/mbarrier.h"
#include "sm90_tile_list.h"

DEVICE void schedule_tiles(const kernel_params_t *p, uint32_t smem)
{
    struct pipe pipe = {0, 0};
    struct tile_cursor cursor = {0, 1};
    uint32_t wanted_phase = 1; // the first tile is wanted from the start
    int goes_on;
    do {
        if (p->tiles.counter) {
            mbarrier_wait(smem + SMEM_TILE_WANTED,
                          wanted_phase); // load has brought all of the last
            wanted_phase ^= 1;
        }
        mbarrier_wait(smem + SMEM_TILE_EMPTY + 8 * pipe.stage, pipe.phase ^ 1); // all have read it
        goes_on = tile_publish_next(p, &cursor, smem + SMEM_TILES + TILE_BYTES * pipe.stage);
        mbarrier_arrive(smem + SMEM_TILE_FULL + 8 * pipe.stage);
        pipe_advance(&pipe, TILE_SLOTS);
    } while (goes_on);
}

#endif
