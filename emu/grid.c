// Grids: one, or two of which the second is a programmatic dependent of the first.
//
// The machine works for one grid at a time: what is in `machine` about a launch is that of the grid
// selected, which is always the one whose cluster runs. Clusters are numbered through both grids.
#include "../src/device/ptx/pdl.h"
#include "global.h"

void grid_select(struct grid *grid)
{
    if (machine.grid == grid) {
        return;
    }
    if (machine.grid) {
        machine.grid->cta_group = machine.cta_group;
    }
    machine.grid = grid;
    machine.launch = grid->launch;
    machine.cluster_size = grid->launch.cluster;
    machine.warps = grid->launch.threads / LANES;
    machine.warpgroups = (machine.warps + 3) / 4;
    machine.tensor_agents_per_cta = 2 * grid->launch.threads + MAX_MMA_THREADS;
    machine.cta_group = grid->cta_group;
}

const struct grid *grid_of(uint32_t cluster)
{
    return &machine.grids[machine.grid_count > 1 && cluster >= machine.grids[1].first_cluster];
}

void cluster_blocks(uint32_t cluster, uint32_t rank, uint32_t block_out[3])
{
    const struct grid *grid = grid_of(cluster);
    uint32_t along_x = grid->launch.grid[0] / grid->launch.cluster;
    uint32_t index = cluster - grid->first_cluster;
    block_out[0] = index % along_x * grid->launch.cluster + rank;
    block_out[1] = index / along_x % grid->launch.grid[1];
    block_out[2] = index / along_x / grid->launch.grid[1];
}

bool grid_is_complete(const struct grid *grid)
{
    return grid->finished == grid->cluster_count;
}

static bool is_dependent(const struct grid *grid)
{
    return grid == &machine.grids[1];
}

// The second grid may start when every CTA of the first has said so or ended. Late: it starts when
// the first is complete; early: at once; at random: at some time between.
bool grid_may_start(const struct grid *grid)
{
    const struct grid *first = &machine.grids[0];
    if (!is_dependent(grid) || grid_is_complete(first)) {
        return true;
    }
    if (first->triggered < first->cluster_count * first->launch.cluster) {
        return false;
    }
    return machine.launch.async == EMU_EARLY ||
           (machine.launch.async == EMU_RANDOM && random_next() % 4 == 0);
}

void grid_trigger(struct cta *cta)
{
    if (!cta->triggered) {
        cta->triggered = true;
        cta->cluster->grid->triggered++;
        machine.progress = true;
    }
}

void griddep_launch_dependents(void)
{
    grid_trigger(current_cta());
}

void griddep_wait(void)
{
    if (!is_dependent(machine.grid)) {
        return;
    }
    if (!grid_is_complete(&machine.grids[0])) {
        fiber_block(WAIT_GRID, NULL, 0);
    }
    knowledge_acquire(knowledge_of_predecessor());
}
