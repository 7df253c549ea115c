// Vector clocks: the order that synchronisation creates, independent of the order in which things
// happened to run.
//
// Each agent counts its own epochs. A thread knows, for every agent of its cluster, up to which
// epoch that one's accesses happened before its own (`before`), and up to which they are also
// fenced towards the async proxy (`fenced`). Whoever synchronises passes its knowledge on: an
// arrival merges it into the meeting, the waiters merge the meeting into theirs. An access at epoch
// e of agent a is ordered before me exactly if before[a] >= e.
#include "state.h"
#include <assert.h>

static uint32_t first_agent(const struct cta *cta)
{
    return cta->rank * machine.agents_per_cta;
}

uint32_t agent_bulk(const struct cta *cta, uint32_t slot)
{
    return first_agent(cta) + machine.launch.threads + slot;
}

uint32_t agent_wgmma(const struct cta *cta, uint32_t warpgroup)
{
    return first_agent(cta) + machine.launch.threads + MAX_BULK_THREADS + warpgroup;
}

uint32_t agent_mbarrier(const struct cta *cta, uint32_t index)
{
    return first_agent(cta) + machine.launch.threads + MAX_BULK_THREADS + machine.warpgroups +
           index;
}

uint32_t agent_mma(const struct cta *cta, uint32_t slot)
{
    return agent_mbarrier(cta, MAX_MBARRIERS) + slot;
}

size_t clock_words(void)
{
    return 3 * (size_t)machine.clock_length + 2 * (size_t)machine.tensor_length;
}

// Clocks live in one block per cluster; a meeting takes its own when it is first used, for most
// never are. The block is large enough for all that a cluster can have (run_grid.c).
void clocks_allocate(struct cluster *cluster, struct clocks *clocks)
{
    assert(cluster->clock_count < cluster->clock_capacity);
    uint32_t *words = cluster->clock_memory + cluster->clock_count++ * clock_words();
    memset(words, 0, clock_words() * sizeof *words);
    clocks->before = words;
    clocks->fenced = words + machine.clock_length;
    clocks->reached = words + 2 * (size_t)machine.clock_length;
    clocks->tensor_done = words + 3 * (size_t)machine.clock_length;
    clocks->tensor_fenced = clocks->tensor_done + machine.tensor_length;
}

void clocks_reset(struct cluster *cluster)
{
    cluster->clock_count = 0;
}

static void join(uint32_t *restrict to, const uint32_t *restrict from, uint32_t length)
{
    length &= ~7u;
    for (uint32_t i = 0; i < length; i++) {
        to[i] = to[i] > from[i] ? to[i] : from[i];
    }
}

static void clock_join(uint32_t *to, const uint32_t *from)
{
    join(to, from, machine.clock_length);
}

void clock_join_tensor(uint32_t *to, const uint32_t *from)
{
    join(to, from, machine.tensor_length);
}

void clock_merge(struct clocks *to, const struct clocks *from)
{
    clock_join(to->before, from->before);
    clock_join(to->fenced, from->fenced);
    clock_join(to->reached, from->reached);
    clock_join_tensor(to->tensor_done, from->tensor_done);
    clock_join_tensor(to->tensor_fenced, from->tensor_fenced);
}

void clock_snapshot(struct clocks *copy)
{
    memcpy(copy->before, machine.current->clocks.before, clock_words() * sizeof(uint32_t));
}

void clock_tick(void)
{
    if (checking()) {
        const struct fiber *fiber = machine.current;
        fiber->clocks.reached[fiber->agent] = ++fiber->clocks.before[fiber->agent];
    }
}

void clock_meeting_create(struct cluster *cluster, struct meeting *meeting)
{
    if (!meeting->arriving.before) {
        clocks_allocate(cluster, &meeting->arriving);
        clocks_allocate(cluster, &meeting->complete);
    }
}

void clock_release(struct cluster *cluster, struct meeting *meeting)
{
    if (!checking()) {
        return;
    }
    clock_meeting_create(cluster, meeting);
    clock_merge(&meeting->arriving, &machine.current->clocks);
    clock_tick();
}

void clock_complete(struct meeting *meeting)
{
    if (checking() && meeting->arriving.before) {
        memcpy(meeting->complete.before, meeting->arriving.before,
               clock_words() * sizeof(uint32_t));
    }
}

void clock_acquire(const struct meeting *meeting)
{
    if (checking() && meeting->complete.before) {
        clock_merge(&machine.current->clocks, &meeting->complete);
    }
}

void clock_release_reached(struct cluster *cluster, struct meeting *meeting)
{
    if (checking()) {
        clock_meeting_create(cluster, meeting);
        clock_join(meeting->arriving.reached, machine.current->clocks.reached);
    }
}

void clock_acquire_reached(const struct meeting *meeting)
{
    if (checking() && meeting->complete.before) {
        clock_join(machine.current->clocks.reached, meeting->complete.reached);
    }
}

void clock_know(uint32_t agent, uint32_t epoch)
{
    if (checking() && machine.current->clocks.before[agent] < epoch) {
        machine.current->clocks.before[agent] = epoch;
    }
}

// By the letter a fence covers all that its thread knows of; strictly, only what it wrote itself.
void clock_fence_async(void)
{
    if (!checking()) {
        return;
    }
    struct fiber *fiber = machine.current;
    if (machine.launch.check >= EMU_CHECK_STRICT) {
        fiber->clocks.fenced[fiber->agent] = fiber->clocks.before[fiber->agent];
    } else {
        clock_join(fiber->clocks.fenced, fiber->clocks.before);
    }
    clock_tick();
}
