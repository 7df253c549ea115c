// Counting: instructions per role, bank conflicts per line of the source.
//
// Lanes run one after the other, so the lanes of a warp come to a load at different times: the n-th
// time that each lane comes to the same line and instruction is taken for one instruction of the
// warp. (Where lanes branch differently this can pair wrongly; the sums stay right.) Shared memory
// has 32 banks of 4 bytes; a phase is a whole warp for up to 4 bytes, half a warp for 8, a quarter
// for 16, a tile of 8 rows for ldmatrix and stmatrix, and takes as many cycles as the busiest bank
// has different words.
#include "count.h"
#include <stdlib.h>

enum { BANKS = 32, BANK_BYTES = 4, TABLE = 1024 };

// One instruction of a warp that not all lanes have come to yet.
struct meeting_lanes {
    uint32_t lanes;
    uint32_t addr[LANES];
};

// A line as one warp meets it.
struct warp_site {
    struct meeting_lanes *waiting;
    uint32_t first; // number of executions that are evaluated
    uint32_t count; // of those waiting
    uint32_t capacity;
    uint32_t times[LANES]; // that each lane came
};

struct counter {
    // By file, line and instruction: the site's number plus 1.
    uint16_t table[TABLE];
    struct warp_site *warps[EMU_MAX_SITES]; // of each warp of the machine
    uint32_t bytes[EMU_MAX_SITES];          // of each lane
};

static bool counts(void)
{
    return machine.counter && machine.current;
}

// Room for each resident cluster: that of the grid with the most warps.
static uint32_t warps_of_cluster(void)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < machine.grid_count; g++) {
        const struct emu_launch *launch = &machine.grids[g].launch;
        uint32_t warps = launch->cluster * launch->threads / LANES;
        most = warps > most ? warps : most;
    }
    return most;
}

static uint32_t warps_of_machine(void)
{
    return machine.resident * warps_of_cluster();
}

bool counter_create(void)
{
    if (!machine.launch.report) {
        return true;
    }
    memset(machine.launch.report, 0, sizeof *machine.launch.report);
    machine.launch.report->role_count = 1;
    machine.counter = calloc(1, sizeof *machine.counter);
    return machine.counter != NULL;
}

void counter_destroy(void)
{
    for (uint32_t s = 0; machine.counter && s < EMU_MAX_SITES; s++) {
        for (uint32_t w = 0; machine.counter->warps[s] && w < warps_of_machine(); w++) {
            free(machine.counter->warps[s][w].waiting);
        }
        free(machine.counter->warps[s]);
    }
    free(machine.counter);
    machine.counter = NULL;
}

// ---- roles

void count_role(struct fiber *fiber)
{
    struct emu_report *report = machine.launch.report;
    if (!report) {
        return;
    }
    uint32_t i = 1;
    while (i < report->role_count &&
           strncmp(report->roles[i].role, fiber->role, EMU_ROLE_CHARS - 1) != 0) {
        i++;
    }
    if (i == report->role_count && i < EMU_MAX_ROLES) {
        report->role_count++;
        strncpy(report->roles[i].role, fiber->role, EMU_ROLE_CHARS - 1);
    }
    fiber->role_index = i < EMU_MAX_ROLES ? i : EMU_MAX_ROLES - 1;
}

static struct emu_counts *own_counts(void)
{
    return &machine.launch.report->roles[machine.current->role_index];
}

void count_mma(uint32_t flops, bool bits_8, uint32_t shared_bytes)
{
    if (counts()) {
        struct emu_counts *c = own_counts();
        *(bits_8 ? &c->mma_flops_8 : &c->mma_flops_16) += flops;
        c->mma_shared_bytes += shared_bytes;
    }
}

void count_mufu(void)
{
    if (counts()) {
        own_counts()->mufu++;
    }
}

void count_fma(uint32_t operations)
{
    if (counts()) {
        own_counts()->fma += operations;
    }
}

void count_conversion(void)
{
    if (counts()) {
        own_counts()->conversions++;
    }
}

void count_transfer(uint32_t bytes)
{
    if (counts()) {
        own_counts()->tma_bytes += bytes;
    }
}

void count_global(uint32_t bytes)
{
    if (counts()) {
        own_counts()->global_bytes += bytes;
    }
}

void count_shared(uint32_t bytes, bool write)
{
    if (counts()) {
        struct emu_counts *c = own_counts();
        *(write ? &c->shared_write_bytes : &c->shared_read_bytes) += bytes;
    }
}

// ---- sites

// EMU_MAX_SITES: no room, or the access has no site.
static uint32_t site_index(const char *instruction, uint32_t bytes)
{
    struct counter *counter = machine.counter;
    struct emu_report *report = machine.launch.report;
    const struct site *here = current_site();
    if (!here) {
        return EMU_MAX_SITES;
    }
    uint64_t hash =
        ((uintptr_t)here->file ^ (uintptr_t)instruction << 7 ^ (uint64_t)here->line << 20) *
            0x9e3779b97f4a7c15u >>
        32;
    for (;; hash++) {
        uint16_t *slot = &counter->table[hash % TABLE];
        struct emu_site *site = &report->sites[*slot ? *slot - 1 : 0];
        if (*slot && site->line == here->line && site->instruction == instruction &&
            strcmp(site->file, here->file) == 0) {
            return *slot - 1;
        }
        if (*slot) {
            continue;
        }
        if (report->site_count == EMU_MAX_SITES) {
            return EMU_MAX_SITES;
        }
        uint32_t index = report->site_count;
        counter->warps[index] = calloc(warps_of_machine(), sizeof *counter->warps[index]);
        if (!counter->warps[index]) {
            emu_fail(EMU_NO_MEMORY, "no memory to count bank conflicts");
            return EMU_MAX_SITES;
        }
        report->site_count++;
        *slot = (uint16_t)(index + 1);
        report->sites[index] =
            (struct emu_site){.file = here->file, .line = here->line, .instruction = instruction};
        counter->bytes[index] = bytes;
        return index;
    }
}

// The most different words in a bank, of the lanes in the mask.
static uint32_t phase_cycles(const uint32_t *addr, uint32_t lanes, uint32_t bytes)
{
    uint32_t words[LANES * 4];
    uint32_t count = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        for (uint32_t at = 0; lanes >> i & 1 && at < bytes; at += BANK_BYTES) {
            uint32_t word = (addr[i] + at) / BANK_BYTES;
            uint32_t j = 0;
            while (j < count && words[j] != word) {
                j++;
            }
            words[j] = word;
            count += j == count;
        }
    }
    uint32_t in_bank[BANKS] = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = ++in_bank[words[i] % BANKS];
        most = n > most ? n : most;
    }
    return most;
}

static void evaluate(uint32_t site, const uint32_t *addr, uint32_t lanes, uint32_t bytes)
{
    struct emu_site *s = &machine.launch.report->sites[site];
    uint32_t phase_lanes = bytes <= BANK_BYTES ? LANES : BANKS * BANK_BYTES / bytes;
    s->executions++;
    for (uint32_t first = 0; first < LANES; first += phase_lanes) {
        uint32_t mask = phase_lanes == LANES ? lanes : lanes & ((1u << phase_lanes) - 1) << first;
        uint32_t cycles = phase_cycles(addr, mask, bytes);
        if (cycles) {
            s->wavefronts += cycles;
            s->conflicts += cycles - 1;
            if (machine.current) {
                own_counts()->shared_wavefronts += cycles;
            }
        }
    }
}

static struct warp_site *own_warp_site(uint32_t site)
{
    const struct fiber *fiber = machine.current;
    size_t cluster = (size_t)(fiber->cta->cluster - machine.clusters);
    size_t warp = cluster * warps_of_cluster() + fiber->cta->rank * machine.warps + fiber->warp;
    return &machine.counter->warps[site][warp];
}

void count_lane(const char *instruction, uint32_t addr, uint32_t bytes, bool write)
{
    if (!counts()) {
        return;
    }
    count_shared(bytes, write);
    uint32_t site = site_index(instruction, bytes);
    if (site == EMU_MAX_SITES) {
        return;
    }
    struct warp_site *w = own_warp_site(site);
    uint32_t lane = machine.current->lane;
    uint32_t index = w->times[lane]++ - w->first;
    if (index == w->capacity) {
        uint32_t capacity = 2 * w->capacity + 4;
        struct meeting_lanes *larger = realloc(w->waiting, capacity * sizeof *larger);
        if (!larger) {
            emu_fail(EMU_NO_MEMORY, "no memory to count bank conflicts");
            return;
        }
        w->waiting = larger;
        w->capacity = capacity;
    }
    if (index == w->count) {
        w->waiting[w->count++].lanes = 0;
    }
    w->waiting[index].lanes |= 1u << lane;
    w->waiting[index].addr[lane] = addr;
    if (w->waiting[0].lanes == 0xffffffffu) {
        evaluate(site, w->waiting[0].addr, 0xffffffffu, bytes);
        w->first++;
        w->count--;
        memmove(w->waiting, w->waiting + 1, w->count * sizeof *w->waiting);
    }
}

// Called by every lane; lane 0 counts for all. Row j of tile i: rows[8 i + j].
void count_tiles(const char *instruction, const uint64_t *rows, uint32_t tiles, bool write)
{
    if (!counts()) {
        return;
    }
    count_shared(4 * tiles, write);
    if (machine.current->lane != 0) {
        return;
    }
    uint32_t site = site_index(instruction, 16);
    if (site != EMU_MAX_SITES) {
        uint32_t addr[LANES] = {0};
        for (uint32_t i = 0; i < 8 * tiles; i++) {
            addr[i] = (uint32_t)rows[i];
        }
        evaluate(site, addr, tiles == 4 ? 0xffffffffu : (1u << 8 * tiles) - 1, 16);
    }
}

// What is left when a cluster ends: instructions that only some lanes came to.
void count_cluster_end(const struct cluster *cluster)
{
    if (!machine.counter) {
        return;
    }
    machine.launch.report->ctas += machine.cluster_size;
    size_t first = (size_t)(cluster - machine.clusters) * warps_of_cluster();
    for (uint32_t s = 0; s < machine.launch.report->site_count; s++) {
        for (uint32_t i = 0; i < machine.cluster_size * machine.warps; i++) {
            struct warp_site *w = &machine.counter->warps[s][first + i];
            machine.current = &cluster->fibers[i * LANES]; // whose role it is counted for
            for (uint32_t k = 0; k < w->count; k++) {
                evaluate(s, w->waiting[k].addr, w->waiting[k].lanes, machine.counter->bytes[s]);
            }
            w->first = w->count = 0;
            memset(w->times, 0, sizeof w->times);
        }
    }
    machine.current = NULL;
}
