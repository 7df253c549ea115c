// Identity of a thread, addresses across the cluster, and the cluster's barrier.
#include "../src/device/ptx/cluster.h"
#include "count.h"

uint32_t thread_idx(void)
{
    return current_fiber()->thread;
}

uint32_t block_idx_x(void)
{
    return current_cta()->block[0];
}

uint32_t block_idx_y(void)
{
    return current_cta()->block[1];
}

uint32_t block_idx_z(void)
{
    return current_cta()->block[2];
}

uint32_t grid_dim_x(void)
{
    return machine.launch.grid[0];
}

uint32_t grid_dim_y(void)
{
    return machine.launch.grid[1];
}

uint32_t grid_dim_z(void)
{
    return machine.launch.grid[2];
}

void kernel_role(const char *name)
{
    current_fiber()->role = name;
    count_role(current_fiber());
}

void kernel_site(const char *file, int line)
{
    struct fiber *fiber = current_fiber();
    fiber->sites[fiber->site_depth++ % MAX_SITE_DEPTH] = (struct site){file, line};
}

uint32_t kept_u32(uint32_t x)
{
    return x;
}

uint64_t kept_u64(uint64_t x)
{
    return x;
}

uint32_t dynamic_smem(void)
{
    return current_cta()->rank << SMEM_RANK_SHIFT | SMEM_BASE;
}

uint32_t cluster_rank(void)
{
    return current_cta()->rank;
}

uint32_t cluster_size(void)
{
    return machine.cluster_size;
}

uint32_t cluster_map(uint32_t addr, uint32_t rank)
{
    if (rank >= machine.cluster_size) {
        emu_fail(EMU_FAULT, "mapa to CTA rank %u: the cluster has %u CTAs", rank,
                 machine.cluster_size);
    }
    return (addr & SMEM_OFFSET_MASK) | rank << SMEM_RANK_SHIFT;
}

struct cta *cta_of_address(uint32_t addr, const char *instruction)
{
    uint32_t rank = addr >> SMEM_RANK_SHIFT;
    if (rank >= machine.cluster_size) {
        emu_fail(EMU_FAULT, "%s: address 0x%x is in no shared memory of the cluster", instruction,
                 addr);
    }
    return &current_cta()->cluster->ctas[rank];
}

static void arrive(bool release)
{
    struct fiber *fiber = current_fiber();
    struct cluster *cluster = fiber->cta->cluster;
    if (fiber->cluster_arrived) {
        emu_fail(EMU_FAULT, "barrier.cluster.arrive twice without a wait between");
    }
    fiber->cluster_arrived = true;
    fiber->cluster_generation = cluster->barrier.generation;
    if (release) {
        clock_release(cluster, &cluster->barrier.meeting);
    }
    if (++cluster->barrier.arrived == machine.launch.threads * machine.cluster_size) {
        cluster->barrier.arrived = 0;
        cluster->barrier.generation++;
        clock_complete(&cluster->barrier.meeting);
        machine.progress = true;
    }
}

void cluster_arrive(void)
{
    arrive(true);
}

void cluster_arrive_relaxed(void)
{
    arrive(false);
}

void cluster_wait(void)
{
    struct fiber *fiber = current_fiber();
    struct cluster *cluster = fiber->cta->cluster;
    if (!fiber->cluster_arrived) {
        emu_fail(EMU_FAULT, "barrier.cluster.wait without an arrive before");
    }
    if (cluster->barrier.generation == fiber->cluster_generation) {
        fiber_block(WAIT_CLUSTER, cluster, fiber->cluster_generation);
    }
    fiber->cluster_arrived = false;
    clock_acquire(&cluster->barrier.meeting);
}
