// A launch: checks what it asks for, makes the machine, and gives each slot of it one cluster of
// the grid after the other.
#include "count.h"
#include <assert.h>
#include <stdlib.h>

struct machine machine;

enum { MBARRIER_PLACES = (SMEM_BASE + SMEM_MAX) / 8 };

static bool bad_launch(const char *format, unsigned long long value, unsigned long long limit)
{
    emu_fail(EMU_BAD_LAUNCH, format, value, limit);
    return false;
}

// Limits of compute capability 9.0 (CUDA programming guide, technical specifications).
static bool check_launch(const struct emu_launch *l)
{
    if (!l->entry) {
        emu_fail(EMU_BAD_LAUNCH, "the launch has no entry function");
        return false;
    }
    if (l->arch != 0 && l->arch != 90 && l->arch != 100 && l->arch != 103) {
        return bad_launch("arch %llu: 90, 100 or 103; 0 is %llu", l->arch, 90);
    }
    if (l->threads == 0 || l->threads % LANES || l->threads > MAX_THREADS) {
        return bad_launch("%llu threads per CTA: a multiple of 32 up to %llu", l->threads,
                          MAX_THREADS);
    }
    if (l->smem_bytes > SMEM_MAX) {
        return bad_launch("%llu bytes of shared memory: a CTA has at most %llu", l->smem_bytes,
                          SMEM_MAX);
    }
    if (l->cluster > MAX_CLUSTER) {
        return bad_launch("clusters of %llu CTAs: at most %llu", l->cluster, MAX_CLUSTER);
    }
    if (l->resident > MAX_RESIDENT) {
        return bad_launch("%llu resident clusters: the emulator keeps at most %llu", l->resident,
                          MAX_RESIDENT);
    }
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0 || l->grid[0] > 0x7fffffff) {
        return bad_launch("an empty grid, or one of %llu CTAs along x: at most %llu", l->grid[0],
                          0x7fffffff);
    }
    if (l->grid[1] > 65535 || l->grid[2] > 65535) {
        return bad_launch("a grid of %llu CTAs along y or z: at most %llu",
                          l->grid[1] > l->grid[2] ? l->grid[1] : l->grid[2], 65535);
    }
    if ((uint64_t)l->grid[0] * l->grid[1] * l->grid[2] > UINT32_MAX) {
        return bad_launch("a grid of %llu CTAs: the emulator counts to %llu",
                          (unsigned long long)l->grid[0] * l->grid[1] * l->grid[2], UINT32_MAX);
    }
    if (l->cluster > 1 && l->grid[0] % l->cluster) {
        return bad_launch("a grid of %llu CTAs along x is not a multiple of the cluster of %llu",
                          l->grid[0], l->cluster);
    }
    return true;
}

static void cta_destroy(struct cta *cta)
{
    free(cta->smem);
    shadow_destroy(cta->shadow);
    mbarriers_destroy(cta);
    free(cta->mbarrier_at);
    free(cta->agents);
    free(cta->warpgroups);
    tmem_destroy(cta->tmem);
}

static bool cta_create(struct cta *cta, struct cluster *cluster, uint32_t rank)
{
    cta->cluster = cluster;
    cta->rank = rank;
    cta->smem = aligned_alloc(1024, (SMEM_BASE + SMEM_MAX + 1023) / 1024 * 1024);
    cta->shadow = shadow_create();
    cta->mbarrier_at = calloc(MBARRIER_PLACES, sizeof *cta->mbarrier_at);
    cta->agents = calloc(1, sizeof *cta->agents);
    cta->warpgroups = warpgroups_create();
    return cta->smem && cta->shadow && cta->mbarrier_at && cta->agents && cta->warpgroups;
}

static void cluster_destroy(struct cluster *cluster)
{
    for (uint32_t r = 0; cluster->ctas && r < machine.cluster_size; r++) {
        cta_destroy(&cluster->ctas[r]);
    }
    fibers_destroy(cluster);
    free(cluster->ctas);
    free(cluster->transfers);
    clocks_destroy(cluster);
    copies_destroy(cluster);
    free(cluster->agents);
    free(cluster->tensor_ordered);
}

enum {
    MAX_TRANSFERS_PER_CTA = 256,
    FIRST_AGENTS_PER_CTA = 24 // beside the threads, before clocks must grow
};

static bool cluster_create(struct cluster *cluster)
{
    uint32_t ctas = machine.cluster_size;
    size_t threads = (size_t)ctas * machine.launch.threads;
    cluster->ctas = calloc(ctas, sizeof *cluster->ctas);
    cluster->transfers = calloc((size_t)ctas * MAX_TRANSFERS_PER_CTA, sizeof *cluster->transfers);
    cluster->tensor_ordered = calloc(threads * machine.tensor_length + 1, sizeof(uint32_t));
    if (!cluster->ctas || !cluster->transfers || !cluster->tensor_ordered ||
        !fibers_create(cluster)) {
        return false;
    }
    for (uint32_t r = 0; r < ctas; r++) {
        if (!cta_create(&cluster->ctas[r], cluster, r)) {
            return false;
        }
    }
    return true;
}

static void fiber_reset(struct fiber *fiber, struct cta *cta, uint32_t thread)
{
    void *stack = fiber->stack;
    memset(fiber, 0, sizeof *fiber);
    fiber->stack = stack;
    fiber->cta = cta;
    fiber->thread = thread;
    fiber->lane = thread % LANES;
    fiber->warp = thread / LANES;
    fiber->agent = agent_thread(cta, thread);
    if (checking()) {
        clocks_allocate(cta->cluster, &fiber->clocks);
        if (machine.failed) {
            return;
        }
        fiber->clocks.before[fiber->agent] = fiber->clocks.reached[fiber->agent] = 1;
        fiber->tensor_ordered = cta->cluster->tensor_ordered +
                                (fiber - cta->cluster->fibers) * (ptrdiff_t)machine.tensor_length;
        memset(fiber->tensor_ordered, 0, machine.tensor_length * sizeof(uint32_t));
    }
    fiber_prepare(fiber);
}

static void cta_reset(struct cta *cta)
{
    cluster_blocks(cta->cluster->index, cta->rank, cta->block);
    memset(cta->smem, 0xff, SMEM_BASE + machine.launch.smem_bytes);
    shadow_reset(cta->shadow);
    cta->mbarrier_count = 0;
    memset(cta->mbarrier_at, 0, MBARRIER_PLACES * sizeof *cta->mbarrier_at);
    memset(cta->agents, 0, sizeof *cta->agents);
    memset(cta->named, 0, sizeof cta->named);
    memset(cta->warps, 0, sizeof cta->warps);
    warpgroups_reset(cta);
    tmem_reset(cta);
    cta->register_pool = 0;
    cta->finished = 0;
    cta->triggered = false;
    for (uint32_t w = 0; w < machine.warps; w++) {
        uint32_t share = REGISTERS / machine.launch.threads / 8 * 8;
        cta->warp_registers[w] = share > 255 ? 255 / 8 * 8 : share;
    }
    for (uint32_t t = 0; t < machine.launch.threads; t++) {
        fiber_reset(&cta->cluster->fibers[cta->rank * machine.launch.threads + t], cta, t);
    }
}

bool next_cluster(struct cluster *cluster)
{
    struct grid *grid = cluster->grid;
    if (grid->started == grid->cluster_count || !grid_may_start(grid)) {
        return false;
    }
    cluster->index = grid->first_cluster + grid->started++;
    clocks_reset(cluster);
    agents_reset(cluster);
    copies_reset(cluster);
    memset(&cluster->barrier, 0, sizeof cluster->barrier);
    cluster->transfer_count = 0;
    cluster->unfinished = machine.cluster_size * machine.launch.threads;
    cluster->active = true;
    for (uint32_t r = 0; r < machine.cluster_size; r++) {
        cta_reset(&cluster->ctas[r]);
    }
    return true;
}

static void mbarrier_end_checks(const struct cta *cta, const struct mbarrier *barrier)
{
    if (barrier->load_phase_plus_1 > barrier->waited_phases) {
        emu_fail(
            EMU_FAULT,
            "CTA (%u,%u,%u) ended, but nobody waited for the last load on mbarrier 0x%x; it may "
            "arrive in the shared memory of the next CTA",
            cta->block[0], cta->block[1], cta->block[2], barrier->addr);
    }
    if (barrier->tx_bytes) {
        emu_fail(EMU_FAULT, "CTA (%u,%u,%u) ended while mbarrier 0x%x expects %d bytes",
                 cta->block[0], cta->block[1], cta->block[2], barrier->addr, barrier->tx_bytes);
    }
}

static void cta_end_checks(const struct cta *cta)
{
    for (uint32_t i = 0; i < cta->mbarrier_count; i++) {
        mbarrier_end_checks(cta, cta->mbarriers[i]);
    }
    tmem_end_checks(cta);
    for (uint32_t i = 0; i < NAMED_BARRIERS; i++) {
        if (cta->named[i].arrived) {
            emu_fail(EMU_FAULT, "CTA (%u,%u,%u) ended with barrier %u at %u of %u threads",
                     cta->block[0], cta->block[1], cta->block[2], i, cta->named[i].arrived,
                     cta->named[i].expected);
        }
    }
}

// A load still in flight was not waited for, and a store would have failed its thread.
void finish_cluster(struct cluster *cluster)
{
    for (uint32_t r = 0; r < machine.cluster_size; r++) {
        cta_end_checks(&cluster->ctas[r]);
        grid_trigger(&cluster->ctas[r]);
    }
    cluster->grid->finished++;
    assert(machine.failed || cluster->transfer_count == 0);
    count_cluster_end(cluster);
    cluster->active = false;
}

// The second of a pair runs under the first one's check, schedule and buffers.
static void add_grid(const struct emu_launch *launch)
{
    const struct emu_launch *first = machine.grid_count ? &machine.grids[0].launch : launch;
    struct grid *grid = &machine.grids[machine.grid_count++];
    grid->launch = *launch;
    grid->launch.cluster = launch->cluster ? launch->cluster : 1;
    grid->launch.buffers = first->buffers;
    grid->launch.buffer_count = first->buffer_count;
    grid->launch.async = first->async;
    grid->launch.check = first->check;
    grid->launch.seed = first->seed;
    grid->launch.lag = first->lag;
    grid->launch.report = first->report;
    grid->first_cluster = machine.cluster_count;
    grid->cluster_count =
        launch->grid[0] / grid->launch.cluster * launch->grid[1] * launch->grid[2];
    machine.cluster_count += grid->cluster_count;
    uint32_t resident = launch->resident ? launch->resident : 1;
    grid->launch.resident = resident < grid->cluster_count ? resident : grid->cluster_count;
    machine.resident += grid->launch.resident;
    grid_select(grid);
    uint32_t length = machine.cluster_size * (launch->threads + FIRST_AGENTS_PER_CTA);
    uint32_t tensor_length =
        launch->arch < 100 ? 0 : machine.tensor_agents_per_cta * machine.cluster_size;
    machine.clock_length =
        length > machine.clock_length ? (length + 7) & ~7u : machine.clock_length;
    machine.tensor_length =
        tensor_length > machine.tensor_length ? (tensor_length + 7) & ~7u : machine.tensor_length;
}

static bool create_grid_clusters(struct grid *grid, struct cluster *clusters)
{
    grid_select(grid);
    for (uint32_t c = 0; c < grid->launch.resident; c++) {
        clusters[c].grid = grid;
        if (!cluster_create(&clusters[c])) {
            return false;
        }
    }
    return true;
}

static bool machine_create(void)
{
    machine.clusters = calloc(machine.resident, sizeof *machine.clusters);
    machine.fences = calloc(machine.cluster_count, sizeof *machine.fences);
    if (!machine.clusters || !machine.fences || !global_shadow_create() || !counter_create()) {
        return false;
    }
    struct cluster *clusters = machine.clusters;
    for (uint32_t g = 0; g < machine.grid_count; g++) {
        if (!create_grid_clusters(&machine.grids[g], clusters)) {
            return false;
        }
        clusters += machine.grids[g].launch.resident;
    }
    return true;
}

static void machine_destroy(void)
{
    for (uint32_t c = 0; machine.clusters && c < machine.resident; c++) {
        if (machine.clusters[c].grid) {
            grid_select(machine.clusters[c].grid);
            cluster_destroy(&machine.clusters[c]);
        }
    }
    counter_destroy();
    free(machine.clusters);
    machine.clusters = NULL;
    global_shadow_destroy();
    locations_destroy();
    arena_destroy();
    free(machine.fences);
}

static emu_status run(const struct emu_launch *const *launches, uint32_t count,
                      struct emu_result *result_out)
{
    memset(&machine, 0, sizeof machine);
    memset(result_out, 0, sizeof *result_out);
    machine.result = result_out;
    for (uint32_t i = 0; i < count; i++) {
        machine.launch.name = launches[i]->name;
        if (!check_launch(launches[i])) {
            return result_out->status;
        }
    }
    machine.random = launches[0]->seed ? launches[0]->seed : 1;
    for (uint32_t i = 0; i < count; i++) {
        add_grid(launches[i]);
    }
    if (machine_create()) {
        run_clusters();
    } else {
        emu_fail(EMU_NO_MEMORY, "no memory for %u clusters of %u CTAs of %u threads",
                 machine.resident, machine.cluster_size, machine.launch.threads);
    }
    machine_destroy();
    return result_out->status;
}

emu_status emu_launch(const struct emu_launch *launch, struct emu_result *result_out)
{
    return run(&launch, 1, result_out);
}

emu_status emu_launch_pair(const struct emu_launch *first, const struct emu_launch *second,
                           struct emu_result *result_out)
{
    return run((const struct emu_launch *const[]){first, second}, 2, result_out);
}
