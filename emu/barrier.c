// Named barriers, and the barrier of the whole CTA, which is number 0.
#include "../src/device/ptx/barrier.h"
#include "state.h"

// Gives the generation that the arrival belongs to.
static uint32_t arrive(uint32_t id, uint32_t threads)
{
    struct cta *cta = current_cta();
    if (id >= NAMED_BARRIERS) {
        emu_fail(EMU_FAULT, "barrier %u: ids are 0 to %d", id, NAMED_BARRIERS - 1);
    }
    if (threads == 0 || threads % LANES || threads > machine.launch.threads) {
        emu_fail(EMU_FAULT, "barrier %u with %u threads: a multiple of 32 up to the CTA's %u", id,
                 threads, machine.launch.threads);
    }
    struct named_barrier *barrier = &cta->named[id];
    if (barrier->arrived && barrier->expected != threads) {
        emu_fail(EMU_FAULT, "barrier %u with %u threads, while others use it with %u", id, threads,
                 barrier->expected);
    }
    barrier->expected = threads;
    clock_release(cta->cluster, &barrier->meeting);
    uint32_t generation = barrier->generation;
    if (++barrier->arrived == threads) {
        barrier->arrived = 0;
        barrier->generation++;
        clock_complete(&barrier->meeting);
        machine.progress = true;
    }
    return generation;
}

void barrier_arrive(uint32_t id, uint32_t threads)
{
    arrive(id, threads);
}

void barrier_sync(uint32_t id, uint32_t threads)
{
    uint32_t generation = arrive(id, threads);
    struct named_barrier *barrier = &current_cta()->named[id];
    if (barrier->generation == generation) {
        fiber_block(WAIT_NAMED_BARRIER, barrier, generation);
    }
    clock_acquire(&barrier->meeting);
}

void cta_sync(void)
{
    barrier_sync(0, machine.launch.threads);
}
