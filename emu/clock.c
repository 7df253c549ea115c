// Vector clocks: the order that synchronisation creates, independent of the order in which things
// happened to run.
//
// Each agent counts its own epochs. A thread knows, for every agent of its cluster, up to which
// epoch that one's accesses happened before its own (`before`), and up to which they are also
// fenced towards the async proxy (`fenced`). Whoever synchronises passes its knowledge on: an
// arrival merges it into the meeting, the waiters merge the meeting into theirs. An access at epoch
// e of agent a is ordered before me exactly if before[a] >= e.
#include "state.h"
#include <stdlib.h>

size_t clock_words(void)
{
    return 3 * (size_t)machine.clock_length + 2 * (size_t)machine.tensor_length;
}

static void place(struct clocks *clocks, uint32_t *words)
{
    clocks->before = words;
    clocks->fenced = words + machine.clock_length;
    clocks->reached = words + 2 * (size_t)machine.clock_length;
    clocks->tensor_done = words + 3 * (size_t)machine.clock_length;
    clocks->tensor_fenced = clocks->tensor_done + machine.tensor_length;
}

// Moves a cluster's clocks to a block for `capacity` of them, whose parts were `old_length` long.
static bool move_clocks(struct cluster *cluster, size_t capacity, uint32_t old_length)
{
    uint32_t *memory =
        aligned_alloc(64, (capacity * clock_words() * sizeof(uint32_t) + 63) / 64 * 64);
    struct clocks **owners = realloc(cluster->clock_owners, capacity * sizeof(struct clocks *));
    if (owners) {
        cluster->clock_owners = owners;
    }
    if (!memory || !owners) {
        free(memory);
        emu_fail(EMU_NO_MEMORY, "no memory for %zu clocks of %u agents", capacity,
                 machine.clock_length);
        return false;
    }
    for (size_t i = 0; i < cluster->clock_count; i++) {
        const struct clocks old = *cluster->clock_owners[i];
        struct clocks *clocks = cluster->clock_owners[i];
        memset(memory + i * clock_words(), 0, clock_words() * sizeof(uint32_t));
        place(clocks, memory + i * clock_words());
        memcpy(clocks->before, old.before, old_length * sizeof(uint32_t));
        memcpy(clocks->fenced, old.fenced, old_length * sizeof(uint32_t));
        memcpy(clocks->reached, old.reached, old_length * sizeof(uint32_t));
        memcpy(clocks->tensor_done, old.tensor_done,
               2 * (size_t)machine.tensor_length * sizeof(uint32_t));
    }
    free(cluster->clock_memory);
    cluster->clock_memory = memory;
    cluster->clock_capacity = capacity;
    return true;
}

void clocks_destroy(struct cluster *cluster)
{
    free(cluster->clock_memory);
    free(cluster->clock_owners);
}

// Clocks live in one block per cluster; a meeting takes its own when it is first used, for most
// never are. The block grows when it is full and when there are more agents, and the clocks move:
// their owners stay where they are, but nobody may keep a pointer into a clock.
void clocks_allocate(struct cluster *cluster, struct clocks *clocks)
{
    if (cluster->clock_count == cluster->clock_capacity &&
        !move_clocks(cluster,
                     2 * cluster->clock_capacity +
                         2 * (size_t)machine.cluster_size * machine.launch.threads,
                     machine.clock_length)) {
        return;
    }
    uint32_t *words = cluster->clock_memory + cluster->clock_count * clock_words();
    memset(words, 0, clock_words() * sizeof *words);
    place(clocks, words);
    clocks->foreign = NULL;
    cluster->clock_owners[cluster->clock_count++] = clocks;
}

void clocks_hold(uint32_t agents)
{
    uint32_t old_length = machine.clock_length;
    if (agents <= old_length) {
        return;
    }
    machine.clock_length = (agents + agents / 2 + 7) & ~7u;
    for (uint32_t c = 0; checking() && c < machine.resident; c++) {
        struct cluster *cluster = &machine.clusters[c];
        if (cluster->clock_count && !move_clocks(cluster, cluster->clock_capacity, old_length)) {
            return;
        }
        if (!cluster->clock_count) { // its block is for shorter clocks
            cluster->clock_capacity = 0;
        }
    }
}

void clocks_reset(struct cluster *cluster)
{
    cluster->clock_count = 0;
}

// The innermost loop of all: without AddressSanitizer, which would keep it from being vectorised.
__attribute__((no_sanitize_address)) static void
join(uint32_t *restrict to, const uint32_t *restrict from, uint32_t length)
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
    to->foreign = knowledge_join(to->foreign, from->foreign);
    to->heard = true;
}

void clock_snapshot(struct clocks *copy)
{
    memcpy(copy->before, machine.current->clocks.before, clock_words() * sizeof(uint32_t));
    copy->foreign = machine.current->clocks.foreign;
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
    if (checking() && meeting->complete.before) {
        memcpy(meeting->complete.before, meeting->arriving.before,
               clock_words() * sizeof(uint32_t));
        meeting->complete.foreign = meeting->arriving.foreign;
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
        machine.current->clocks.heard = true;
    }
}

// Shuffles are many. All lanes have what was reached at the warp's last meeting; a lane that has
// heard nobody since brings only its own epoch, and where all do so only those are passed on.
void clock_release_lane(struct cluster *cluster, struct rendezvous *r)
{
    if (!checking()) {
        return;
    }
    const struct fiber *fiber = machine.current;
    clock_meeting_create(cluster, &r->meeting);
    if (fiber->clocks.heard) {
        clock_join(r->meeting.arriving.reached, fiber->clocks.reached);
        r->heard[r->generation & 1] = true;
    } else {
        r->meeting.arriving.reached[fiber->agent] = fiber->clocks.reached[fiber->agent];
    }
}

static void copy_lanes(uint32_t *to, const uint32_t *from, bool heard)
{
    uint32_t first = heard ? 0 : machine.current->agent - machine.current->lane;
    uint32_t count = heard ? machine.clock_length : LANES;
    memcpy(to + first, from + first, count * sizeof *to);
}

void clock_complete_lanes(struct rendezvous *r)
{
    if (checking()) {
        copy_lanes(r->meeting.complete.reached, r->meeting.arriving.reached,
                   r->heard[r->generation & 1]);
    }
}

void clock_acquire_lanes(const struct rendezvous *r, uint32_t generation)
{
    if (checking()) {
        copy_lanes(machine.current->clocks.reached, r->meeting.complete.reached,
                   r->heard[generation & 1]);
        machine.current->clocks.heard = false;
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
        uint32_t copies = fiber->copies.agent;
        fiber->clocks.fenced[fiber->agent] = fiber->clocks.before[fiber->agent];
        if (copies) {
            fiber->clocks.fenced[copies] = fiber->clocks.before[copies];
        }
    } else {
        clock_join(fiber->clocks.fenced, fiber->clocks.before);
    }
    clock_tick();
}
