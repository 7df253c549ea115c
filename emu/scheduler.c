// The scheduler: which fiber runs next, when asynchronous operations happen, and when nothing can
// go on any more.
//
// The unit is a warp: its lanes run until all of them block, at most QUANTUM rounds, then comes the
// next warp, in turn or at random. A blocked fiber says what it waits for; whether that has come is
// looked up, so there are no queues to keep. With lag, a lane that could go on is passed over now
// and then: lanes of a warp drift apart, as they may on the hardware.
#include "state.h"

enum { QUANTUM = 64 };

uint32_t random_next(void)
{
    uint32_t x = machine.random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    machine.random = x;
    return x;
}

void fiber_block(wait_kind kind, void *object, uint32_t value)
{
    struct fiber *fiber = machine.current;
    fiber->wait = kind;
    fiber->wait_object = object;
    fiber->wait_value = value;
    fiber_leave();
}

void fiber_yield(void)
{
    fiber_block(YIELDED, NULL, 0);
}

static bool is_ready(const struct fiber *fiber)
{
    switch (fiber->wait) {
    case RUNNABLE:
    case YIELDED: return true;
    case WAIT_MBARRIER:
        return (((const struct mbarrier *)fiber->wait_object)->phase & 1) != fiber->wait_value;
    case WAIT_NAMED_BARRIER:
        return ((const struct named_barrier *)fiber->wait_object)->generation != fiber->wait_value;
    case WAIT_WARP:
        return ((const struct rendezvous *)fiber->wait_object)->generation != fiber->wait_value;
    case WAIT_CLUSTER:
        return ((const struct cluster *)fiber->wait_object)->barrier.generation !=
               fiber->wait_value;
    case WAIT_REGISTERS: return fiber->cta->register_pool >= fiber->wait_value;
    case WAIT_GRID: return grid_is_complete(&machine.grids[0]);
    case WAIT_FLAG: return flag_is_there(fiber->wait_object);
    case WAIT_WGMMA: return wgmma_ready(fiber->wait_object, fiber->wait_value);
    case WAIT_TENSOR_ALLOC: return tmem_alloc_granted(fiber->cta);
    case WAIT_TENSOR_DEALLOC: return tmem_dealloc_met(fiber->wait_object, fiber->wait_value);
    case FINISHED: return false;
    }
    return false;
}

static void run_fiber(struct fiber *fiber)
{
    fiber->wait = RUNNABLE;
    fiber_run(fiber);
    if (fiber->wait == FINISHED) {
        fiber->cta->finished++;
        fiber->cta->cluster->unfinished--;
    }
}

static void run_warp(struct fiber *lanes)
{
    bool again = true;
    for (uint32_t round = 0; again && round < QUANTUM; round++) {
        again = false;
        for (uint32_t i = 0; i < LANES && !machine.failed; i++) {
            if (!is_ready(&lanes[i])) {
                continue;
            }
            if (machine.launch.lag && random_next() % 256 < machine.launch.lag) {
                machine.progress = true;
                continue;
            }
            if (lanes[i].wait != YIELDED) {
                machine.progress = again = true;
            }
            run_fiber(&lanes[i]);
        }
    }
}

static void fire_at_random(struct cluster *cluster)
{
    for (uint32_t r = 0; r < machine.cluster_size; r++) {
        wgmma_fire(&cluster->ctas[r]);
    }
    transfers_fire(cluster, false);
    copies_fire(cluster, false);
    tcgen05_fire(cluster, false);
}

static void run_cluster_once(struct cluster *cluster)
{
    uint32_t warps = machine.cluster_size * machine.warps;
    for (uint32_t i = 0; i < warps && !machine.failed; i++) {
        uint32_t warp = machine.launch.seed ? random_next() % warps : i;
        run_warp(&cluster->fibers[warp * LANES]);
        if (machine.launch.async == EMU_RANDOM) {
            fire_at_random(cluster);
        }
    }
}

// A random order may just have missed the warps that could go on.
static bool anybody_ready(void)
{
    for (uint32_t c = 0; c < machine.resident; c++) {
        const struct cluster *cluster = &machine.clusters[c];
        grid_select(cluster->grid);
        uint32_t fibers = machine.cluster_size * machine.launch.threads;
        for (uint32_t i = 0; cluster->active && i < fibers; i++) {
            if (cluster->fibers[i].wait != YIELDED && is_ready(&cluster->fibers[i])) {
                return true;
            }
        }
    }
    return false;
}

static bool fire_oldest(void)
{
    for (uint32_t c = 0; c < machine.resident; c++) {
        struct cluster *cluster = &machine.clusters[c];
        grid_select(cluster->grid);
        if (cluster->active && (transfers_fire(cluster, true) || copies_fire(cluster, true) ||
                                tcgen05_fire(cluster, true))) {
            return true;
        }
    }
    return false;
}

void run_clusters(void)
{
    uint32_t idle_rounds = 0;
    for (;;) {
        bool active = false;
        machine.progress = false;
        for (uint32_t c = 0; c < machine.resident && !machine.failed; c++) {
            struct cluster *cluster = &machine.clusters[c];
            grid_select(cluster->grid);
            if (cluster->active || next_cluster(cluster)) {
                active = true;
                run_cluster_once(cluster);
                if (cluster->unfinished == 0) {
                    finish_cluster(cluster);
                    machine.progress = true;
                }
            }
        }
        if (!active || machine.failed) {
            return;
        }
        // Polling threads get a few more rounds: another one may write what they look at.
        idle_rounds = machine.progress || fire_oldest() || anybody_ready() ? 0 : idle_rounds + 1;
        if (idle_rounds > 2) {
            report_deadlock();
            return;
        }
    }
}
