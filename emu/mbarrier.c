// mbarriers: phases, arrivals, transaction bytes, local and remote.
//
// An arrival releases what its thread knows; the last of a phase seals it, and who waits for the
// phase acquires that. A TMA load adds its bytes, and its own epoch only. A phase ends when
// arrivals and bytes are both at zero.
#include "../src/device/ptx/mbarrier.h"
#include "../src/device/ptx/fence.h"
#include "global.h"
#include <stdlib.h>

// PTX ISA, "Contents of the mbarrier object".
enum { MAX_COUNT = (1 << 20) - 1, MAX_TX_BYTES = (1 << 20) - 1, MAX_INITS = 65535 };

static struct cta *owner(const struct mbarrier *barrier)
{
    return &current_cta()->cluster->ctas[barrier->addr >> SMEM_RANK_SHIFT];
}

struct mbarrier *mbarrier_find(uint32_t addr, const char *instruction, bool async)
{
    struct cta *cta = cta_of_address(addr, instruction);
    uint32_t offset = addr & SMEM_OFFSET_MASK;
    uint32_t index =
        offset % 8 || offset >= SMEM_BASE + SMEM_MAX ? 0 : cta->mbarrier_at[offset / 8];
    if (index == 0) {
        emu_fail(EMU_FAULT, "%s on shared address 0x%x, which is not an initialised mbarrier",
                 instruction, addr);
    }
    if (cta->finished == machine.launch.threads) {
        emu_fail(EMU_FAULT,
                 "%s on mbarrier 0x%x of a CTA that has exited; a cluster barrier before the exit "
                 "is missing",
                 instruction, addr);
    }
    struct mbarrier *barrier = cta->mbarriers[index - 1];
    if (checking() && barrier->init_epoch > current_fiber()->clocks.before[barrier->init_agent]) {
        emu_fail(EMU_RACE,
                 "%s on mbarrier 0x%x races with its init by %s; no barrier orders the two",
                 instruction, addr, describe_agent(cta->cluster, barrier->init_agent));
    }
    bool far_away = async || cta != current_cta();
    if (checking() && far_away && !barrier->fenced) {
        emu_fail(EMU_RACE,
                 "%s on mbarrier 0x%x: its init by %s has no fence_mbarrier_init after it",
                 instruction, addr, describe_agent(cta->cluster, barrier->init_agent));
    }
    return barrier;
}

// They stay where they are while there are more and more of them: threads and transfers point to
// them. The CTA's next life uses them again.
static struct mbarrier *mbarrier_new(struct cta *cta)
{
    if (cta->mbarrier_count == MAX_INITS) {
        emu_fail(EMU_FAULT, "more than %d mbarrier.inits in a CTA: the emulator keeps no more",
                 MAX_INITS);
    }
    if (cta->mbarrier_count == cta->mbarrier_capacity) {
        uint32_t capacity = 2 * cta->mbarrier_capacity + 16;
        struct mbarrier **larger = realloc(cta->mbarriers, capacity * sizeof *larger);
        if (!larger) {
            emu_fail(EMU_NO_MEMORY, "no memory for %u mbarriers", capacity);
            return NULL;
        }
        memset(larger + cta->mbarrier_capacity, 0,
               (capacity - cta->mbarrier_capacity) * sizeof *larger);
        cta->mbarriers = larger;
        cta->mbarrier_capacity = capacity;
    }
    struct mbarrier **place = &cta->mbarriers[cta->mbarrier_count];
    *place = *place ? *place : malloc(sizeof **place);
    if (!*place) {
        emu_fail(EMU_NO_MEMORY, "no memory for an mbarrier");
        return NULL;
    }
    memset(*place, 0, sizeof **place);
    cta->mbarrier_count++;
    return *place;
}

void mbarriers_destroy(struct cta *cta)
{
    for (uint32_t i = 0; i < cta->mbarrier_capacity; i++) {
        free(cta->mbarriers[i]);
    }
    free(cta->mbarriers);
}

void mbarrier_init(uint32_t bar, uint32_t count)
{
    struct cta *cta = current_cta();
    uint32_t offset = bar & SMEM_OFFSET_MASK;
    if (cta_of_address(bar, "mbarrier.init") != cta || offset % 8 || offset < SMEM_BASE ||
        offset + 8 > SMEM_BASE + machine.launch.smem_bytes) {
        emu_fail(EMU_FAULT,
                 "mbarrier.init at shared address 0x%x: not 8 aligned bytes of the own CTA", bar);
    }
    if (count == 0 || count > MAX_COUNT) {
        emu_fail(EMU_FAULT, "mbarrier.init with count %u: 1 to %d", count, MAX_COUNT);
    }
    uint32_t index = cta->mbarrier_at[offset / 8];
    if (index) {
        emu_fail(EMU_FAULT, "mbarrier 0x%x is initialised twice", bar);
    }
    struct mbarrier *barrier = mbarrier_new(cta);
    barrier->addr = offset | cta->rank << SMEM_RANK_SHIFT;
    barrier->count = barrier->pending = count;
    struct access access = thread_access(ACCESS_ST);
    check_write(cta, bar, 8, access);
    barrier->init_agent = access.agent;
    barrier->init_epoch = access.epoch;
    cta->mbarrier_at[offset / 8] = (uint16_t)cta->mbarrier_count;
    shadow_mark_mbarrier(cta, offset, true);
}

void mbarrier_inval(uint32_t bar)
{
    struct mbarrier *barrier = mbarrier_find(bar, "mbarrier.inval", false);
    if (barrier->tx_bytes) {
        emu_fail(EMU_FAULT, "mbarrier.inval of 0x%x, which expects %d bytes", bar,
                 barrier->tx_bytes);
    }
    struct cta *cta = owner(barrier);
    uint32_t offset = bar & SMEM_OFFSET_MASK;
    cta->mbarrier_at[offset / 8] = 0;
    shadow_mark_mbarrier(cta, offset, false);
}

static void fence_inits(void)
{
    struct cta *cta = current_cta();
    for (uint32_t i = 0; i < cta->mbarrier_count; i++) {
        if (cta->mbarriers[i]->init_agent == current_fiber()->agent) {
            cta->mbarriers[i]->fenced = true;
        }
    }
}

void fence_mbarrier_init(void)
{
    fence_inits();
}

void fence_proxy_async(void)
{
    fence_inits();
    clock_fence_async();
}

void fence_proxy_async_global(void)
{
    if (checking()) {
        global_shadow_fence_async();
        clock_tick();
    }
}

// A wait by parity sees only two phases: one more may end only after every regular waiter has seen
// the one before. A lone lane is ordered by what it does next; the rule is for warps that wait as a
// whole.
static void check_nobody_misses(const struct mbarrier *barrier, const struct cta *cta)
{
    if (machine.launch.check < EMU_CHECK_STRICT || !barrier->meeting.arriving.before) {
        return;
    }
    for (uint32_t t = 0; t < machine.launch.threads; t++) {
        bool waited = barrier->seen[t].phase_plus_1 == barrier->phase + 1 &&
                      barrier->seen[t ^ 1].phase_plus_1;
        uint32_t agent = agent_thread(cta, t);
        if (waited && barrier->seen[t].epoch > barrier->meeting.arriving.reached[agent]) {
            emu_fail(EMU_RACE,
                     "mbarrier 0x%x ends phase %u, which is not ordered after thread %u saw the "
                     "phase before; if that "
                     "lane is late it misses this one and waits for ever",
                     barrier->addr, barrier->phase, t);
            return;
        }
    }
}

static void end_phase_if_complete(struct mbarrier *barrier, const struct cta *cta)
{
    if (barrier->pending == 0 && barrier->tx_bytes == 0) {
        check_nobody_misses(barrier, cta);
        barrier->phase++;
        barrier->pending = barrier->count;
        clock_complete(&barrier->meeting);
        machine.progress = true;
    }
}

static void add_tx(struct mbarrier *barrier, int64_t bytes)
{
    int64_t sum = barrier->tx_bytes + bytes;
    if (sum > MAX_TX_BYTES || sum < -MAX_TX_BYTES) {
        emu_fail(EMU_FAULT, "mbarrier 0x%x: a transaction count of %lld bytes; at most %d",
                 barrier->addr, (long long)sum, MAX_TX_BYTES);
    }
    barrier->tx_bytes = (int32_t)sum;
}

static void arrive(uint32_t bar, uint32_t tx_bytes, const char *instruction, bool remote)
{
    struct mbarrier *barrier = mbarrier_find(bar, instruction, false);
    struct cta *cta = owner(barrier);
    if (!remote && cta != current_cta()) {
        emu_fail(EMU_FAULT,
                 "%s on mbarrier 0x%x of CTA rank %u: another CTA's needs the form for clusters",
                 instruction, bar, cta->rank);
    }
    if (barrier->pending == 0) {
        emu_fail(EMU_FAULT,
                 "%s on mbarrier 0x%x beyond its count of %u (%d bytes are still expected)",
                 instruction, bar, barrier->count, barrier->tx_bytes);
    }
    clock_release(cta->cluster, &barrier->meeting);
    add_tx(barrier, tx_bytes);
    barrier->pending--;
    end_phase_if_complete(barrier, cta);
}

void mbarrier_arrive(uint32_t bar)
{
    arrive(bar, 0, "mbarrier.arrive", false);
}

void mbarrier_arrive_cluster(uint32_t bar)
{
    arrive(bar, 0, "mbarrier.arrive", true);
}

void mbarrier_arrive_expect_tx(uint32_t bar, uint32_t bytes)
{
    arrive(bar, bytes, "mbarrier.arrive.expect_tx", false);
}

void mbarrier_arrive_expect_tx_cluster(uint32_t bar, uint32_t bytes)
{
    arrive(bar, bytes, "mbarrier.arrive.expect_tx", true);
}

void mbarrier_expect_tx(uint32_t bar, uint32_t bytes)
{
    add_tx(mbarrier_find(bar, "mbarrier.expect_tx", false), bytes);
}

static void release_epoch(struct cluster *cluster, struct mbarrier *barrier, uint32_t agent,
                          uint32_t epoch)
{
    if (checking()) {
        clock_meeting_create(cluster, &barrier->meeting);
        if (barrier->meeting.arriving.before && barrier->meeting.arriving.before[agent] < epoch) {
            barrier->meeting.arriving.before[agent] = epoch;
        }
    }
}

// Called when a load has moved its bytes, from any fiber or from none.
void mbarrier_complete_tx(struct cluster *cluster, struct mbarrier *barrier, uint32_t agent,
                          uint32_t epoch, uint32_t bytes)
{
    release_epoch(cluster, barrier, agent, epoch);
    add_tx(barrier, -(int64_t)bytes);
    end_phase_if_complete(barrier, &cluster->ctas[barrier->addr >> SMEM_RANK_SHIFT]);
}

void mbarrier_arrive_copies(struct cluster *cluster, struct mbarrier *barrier, uint32_t agent,
                            uint32_t epoch)
{
    if (barrier->pending == 0) {
        emu_fail(EMU_FAULT, "cp.async.mbarrier.arrive on mbarrier 0x%x beyond its count of %u",
                 barrier->addr, barrier->count);
        return;
    }
    release_epoch(cluster, barrier, agent, epoch);
    barrier->pending--;
    end_phase_if_complete(barrier, &cluster->ctas[barrier->addr >> SMEM_RANK_SHIFT]);
}

void mbarrier_arrive_async(struct cluster *cluster, struct mbarrier *barrier,
                           const struct clocks *known, const char *instruction)
{
    const struct cta *cta = &cluster->ctas[barrier->addr >> SMEM_RANK_SHIFT];
    if (cta->finished == machine.launch.threads && cluster->unfinished) {
        emu_fail(
            EMU_FAULT,
            "%s arrives on mbarrier 0x%x of a CTA that has exited; a cluster barrier before the "
            "exit is missing",
            instruction, barrier->addr);
        return;
    }
    if (barrier->pending == 0) {
        emu_fail(EMU_FAULT, "%s arrives on mbarrier 0x%x beyond its count of %u", instruction,
                 barrier->addr, barrier->count);
        return;
    }
    if (checking()) {
        clock_meeting_create(cluster, &barrier->meeting);
        clock_merge(&barrier->meeting.arriving, known);
    }
    barrier->pending--;
    end_phase_if_complete(barrier, cta);
}

static struct mbarrier *wait_begin(uint32_t bar, uint32_t parity)
{
    struct mbarrier *barrier = mbarrier_find(bar, "mbarrier.try_wait", false);
    if (parity > 1) {
        emu_fail(EMU_FAULT, "mbarrier.try_wait with parity %u: 0 or 1", parity);
    }
    if (owner(barrier) != current_cta()) {
        emu_fail(EMU_FAULT,
                 "mbarrier.try_wait on mbarrier 0x%x of another CTA: only the own CTA's can be "
                 "waited for",
                 bar);
    }
    return barrier;
}

static void wait_end(struct mbarrier *barrier)
{
    struct fiber *fiber = current_fiber();
    clock_acquire(&barrier->meeting);
    barrier->waited_phases = barrier->phase;
    if (checking()) {
        barrier->seen[fiber->thread].phase_plus_1 = barrier->phase + 1;
        barrier->seen[fiber->thread].epoch = fiber->clocks.before[fiber->agent];
        clock_tick();
    }
}

uint32_t mbarrier_try_wait(uint32_t bar, uint32_t parity)
{
    struct mbarrier *barrier = wait_begin(bar, parity);
    if ((barrier->phase & 1) == parity) {
        fiber_yield();
    }
    if ((barrier->phase & 1) == parity) {
        return 0;
    }
    wait_end(barrier);
    return 1;
}

uint32_t mbarrier_try_wait_cluster(uint32_t bar, uint32_t parity)
{
    return mbarrier_try_wait(bar, parity);
}

void mbarrier_wait(uint32_t bar, uint32_t parity)
{
    struct mbarrier *barrier = wait_begin(bar, parity);
    if ((barrier->phase & 1) == parity) {
        fiber_block(WAIT_MBARRIER, barrier, parity);
    }
    wait_end(barrier);
}

void mbarrier_wait_cluster(uint32_t bar, uint32_t parity)
{
    mbarrier_wait(bar, parity);
}
