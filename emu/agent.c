// Agents: the numbers by which clocks and shadows know who accessed memory.
//
// Threads come first: rank * threads + thread. Everything else that accesses memory on its own gets
// the cluster's next number when it is first asked for, so clocks are only as long as a kernel
// needs.
#include "state.h"
#include <stdlib.h>

enum { MAX_AGENTS = 65535 }; // the shadows keep 16 bits

static uint32_t thread_count(void)
{
    return machine.cluster_size * machine.launch.threads;
}

uint32_t agent_thread(const struct cta *cta, uint32_t thread)
{
    return cta->rank * machine.launch.threads + thread;
}

void agents_reset(struct cluster *cluster)
{
    cluster->agent_count = 0;
}

static uint32_t agent_new(const struct cta *cta, agent_kind kind, uint32_t index)
{
    struct cluster *cluster = cta->cluster;
    if (cluster->agent_count == cluster->agent_capacity) {
        uint32_t capacity = 2 * cluster->agent_capacity + 16;
        struct agent *larger = realloc(cluster->agents, capacity * sizeof *larger);
        if (!larger) {
            emu_fail(EMU_NO_MEMORY, "no memory for %u agents", capacity);
            return 0;
        }
        cluster->agents = larger;
        cluster->agent_capacity = capacity;
    }
    uint32_t agent = thread_count() + cluster->agent_count;
    if (agent > MAX_AGENTS) {
        emu_fail(EMU_FAULT,
                 "more than %d agents (threads, mbarriers with loads, threads with bulk "
                 "stores or cp.async) in a cluster: the emulator keeps no more",
                 MAX_AGENTS);
        return 0;
    }
    cluster->agents[cluster->agent_count++] = (struct agent){kind, (uint16_t)cta->rank, index};
    clocks_hold(agent + 1);
    return agent;
}

// Number 0 is a thread: an agent that is 0 has no number yet.
static uint32_t numbered(const struct cta *cta, uint32_t *agent, agent_kind kind, uint32_t index)
{
    if (*agent == 0) {
        *agent = agent_new(cta, kind, index);
    }
    return *agent;
}

uint32_t agent_bulk(const struct cta *cta, uint32_t thread)
{
    struct fiber *fiber = &cta->cluster->fibers[agent_thread(cta, thread)];
    return numbered(cta, &fiber->bulk.agent, AGENT_BULK, thread);
}

uint32_t agent_bulk_write(const struct cta *cta, uint32_t thread)
{
    struct fiber *fiber = &cta->cluster->fibers[agent_thread(cta, thread)];
    return numbered(cta, &fiber->bulk.write_agent, AGENT_BULK_WRITE, thread);
}

uint32_t agent_copies(const struct cta *cta, uint32_t thread)
{
    struct fiber *fiber = &cta->cluster->fibers[agent_thread(cta, thread)];
    return numbered(cta, &fiber->copies.agent, AGENT_COPIES, thread);
}

uint32_t agent_wgmma(const struct cta *cta, uint32_t warpgroup)
{
    return numbered(cta, &cta->agents->wgmma[warpgroup], AGENT_WGMMA, warpgroup);
}

uint32_t agent_mma(const struct cta *cta, uint32_t slot)
{
    return numbered(cta, &cta->agents->mma[slot], AGENT_MMA, slot);
}

uint32_t agent_mbarrier(struct mbarrier *barrier)
{
    const struct cta *cta = &current_cta()->cluster->ctas[barrier->addr >> SMEM_RANK_SHIFT];
    return numbered(cta, &barrier->agent, AGENT_MBARRIER, barrier->addr);
}

struct agent agent_describe(const struct cluster *cluster, uint32_t agent)
{
    uint32_t threads = machine.launch.threads;
    if (agent < thread_count()) {
        return (struct agent){AGENT_THREAD, (uint16_t)(agent / threads), agent % threads};
    }
    return cluster->agents[agent - thread_count()];
}
