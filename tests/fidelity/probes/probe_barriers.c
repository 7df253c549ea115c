// Barriers: two halves of a CTA hand words to each other by named barriers, four times around a
// ring; the parity that an mbarrier shows after each arrival; its memory after its end.
#include "../../../src/device/ptx/math_ops.h"
#include "../probe.h"

enum { BARRIER_HALF = 128, BARRIER_ROUNDS = 4, BARRIER_FULL = 1, BARRIER_EMPTY = 2 };

DEVICE void produce(uint32_t data, const uint32_t *in)
{
    uint32_t t = thread_idx();
    for (uint32_t round = 0; round < BARRIER_ROUNDS; round++) {
        barrier_sync(BARRIER_EMPTY, 2 * BARRIER_HALF);
        st_shared_u32(data + 4 * t, ld_global_u32(in + BARRIER_HALF * round + t));
        barrier_arrive(BARRIER_FULL, 2 * BARRIER_HALF);
    }
}

DEVICE void consume(uint32_t data, uint32_t *out)
{
    uint32_t t = thread_idx() - BARRIER_HALF;
    barrier_arrive(BARRIER_EMPTY, 2 * BARRIER_HALF);
    for (uint32_t round = 0; round < BARRIER_ROUNDS; round++) {
        barrier_sync(BARRIER_FULL, 2 * BARRIER_HALF);
        st_global_u32(out + BARRIER_HALF * round + t, ld_shared_u32(data + 4 * (t ^ 37)));
        if (round + 1 < BARRIER_ROUNDS) {
            barrier_arrive(BARRIER_EMPTY, 2 * BARRIER_HALF);
        }
    }
}

// Bit 0: whether the phase of parity 0 is over; bit 1: of parity 1.
DEVICE uint32_t parities(uint32_t bar)
{
    return mbarrier_try_wait(bar, 0) | mbarrier_try_wait(bar, 1) << 1;
}

DEVICE void show_phases(uint32_t bar, uint32_t *out)
{
    mbarrier_init(bar, 2);
    for (uint32_t i = 0; i < 9; i++) {
        st_global_u32(out + i, parities(bar));
        mbarrier_arrive(bar);
    }
    mbarrier_inval(bar);
    st_shared_u32(bar, 7);
    st_global_u32(out + 9, ld_shared_u32(bar));
}

KERNEL(2 * BARRIER_HALF) probe_barriers(const GRID_CONSTANT struct probe_params p)
{
    uint32_t data = dynamic_smem() + PROBE_DATA;
    if (thread_idx() < BARRIER_HALF) {
        ROLE("produce");
        produce(data, p.in);
    } else {
        ROLE("consume");
        consume(data, p.out);
    }
    if (thread_idx() == 0) {
        show_phases(dynamic_smem() + PROBE_BARRIERS, p.out + BARRIER_ROUNDS * BARRIER_HALF);
    }
}
