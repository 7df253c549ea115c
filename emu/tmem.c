// Tensor memory: who has which columns. Allocation, release, and what must be true at the end.
//
// An allocation waits until its columns are free, one of a pair also for the peer CTA, as the
// instructions do; one that can never be granted is a deadlock and reported as one. A release
// demands that every access to the columns is complete and known to be so: what is freed may belong
// to the next CTA at once.
#include "tmem.h"
#include "../src/device/ptx/tcgen05.h"
#include <stdio.h>
#include <stdlib.h>

static struct tmem *tmem_create(void)
{
    struct tmem *tmem = calloc(1, sizeof *tmem);
    if (!tmem) {
        return NULL;
    }
    tmem->reader_capacity = 65536;
    tmem->readers = malloc(tmem->reader_capacity * sizeof *tmem->readers);
    tmem->threads = calloc(machine.launch.threads, sizeof *tmem->threads);
    tmem->mma_threads = mma_threads_create();
    if (!tmem->readers || !tmem->threads || !tmem->mma_threads) {
        tmem_destroy(tmem);
        return NULL;
    }
    return tmem;
}

void tmem_destroy(struct tmem *tmem)
{
    if (tmem) {
        free(tmem->readers);
        free(tmem->threads);
        mma_threads_destroy(tmem->mma_threads);
        free(tmem);
    }
}

void tmem_reset(struct cta *cta)
{
    struct tmem *tmem = cta->tmem;
    if (!tmem) {
        return;
    }
    memset(tmem->owner, 0, sizeof tmem->owner);
    memset(&tmem->request, 0, sizeof tmem->request);
    tmem->allocations = tmem->pair_deallocs = 0;
    tmem->relinquished = false;
    tmem->reader_count = 1;
    tmem->free_readers = 0;
    for (uint32_t t = 0; t < machine.launch.threads; t++) {
        struct tensor_thread *thread = &tmem->threads[t];
        thread->loads_waited = thread->stores_waited = 0;
        thread->load_count = thread->store_count = 0;
    }
    mma_threads_reset(tmem->mma_threads);
}

struct tmem *tmem_begin(const char *instruction, uint32_t group)
{
    if (machine.launch.arch < 100) {
        emu_fail(EMU_FAULT, "%s: the launch is for sm_%u, which has no tensor memory", instruction,
                 machine.launch.arch ? machine.launch.arch : 90);
    }
    if (group && machine.cta_group && machine.cta_group != group) {
        emu_fail(EMU_FAULT,
                 "%s with cta_group::%u: all tcgen05 instructions of a kernel must have the same, "
                 "others have cta_group::%u",
                 instruction, group, machine.cta_group);
    }
    machine.cta_group = group ? group : machine.cta_group;
    if (group == 2 && machine.cluster_size % 2) {
        emu_fail(EMU_FAULT, "%s with cta_group::2: the cluster of %u has no CTA pairs", instruction,
                 machine.cluster_size);
    }
    struct cta *cta = current_cta();
    if (!cta->tmem) {
        cta->tmem = tmem_create();
        if (!cta->tmem) {
            emu_fail(EMU_NO_MEMORY, "no memory for the tensor memory of a CTA");
        }
        tmem_reset(cta);
    }
    return cta->tmem;
}

struct cta *tmem_peer(const struct cta *cta)
{
    return &cta->cluster->ctas[cta->rank ^ 1];
}

// ---- allocation

// The first run of free columns that is aligned to its size.
static bool find_columns(const struct tmem *tmem, const struct tmem *other, uint32_t columns,
                         uint32_t *first_out)
{
    uint32_t units = columns / TMEM_UNIT;
    for (uint32_t at = 0; at < TMEM_UNITS; at += units) {
        bool is_free = true;
        for (uint32_t i = at; i < at + units; i++) {
            is_free = is_free && !tmem->owner[i] && !(other && other->owner[i]);
        }
        if (is_free) {
            *first_out = at * TMEM_UNIT;
            return true;
        }
    }
    return false;
}

static void take_columns(struct tmem *tmem, uint32_t first)
{
    uint32_t columns = tmem->request.columns;
    tmem->allocations++;
    for (uint32_t i = first / TMEM_UNIT; i < (first + columns) / TMEM_UNIT; i++) {
        tmem->owner[i] = tmem->allocations;
    }
    tensor_shadow_clear(tmem, first, columns);
    tmem->request.first = first;
    tmem->request.granted = true;
}

// Grants what the CTA asks for, if it can be granted now.
static void grant(const struct cta *cta)
{
    struct tmem *tmem = cta->tmem;
    struct tmem *other = machine.cta_group == 2 ? tmem_peer(cta)->tmem : NULL;
    uint32_t columns = tmem->request.columns;
    uint32_t first;
    if (!columns || tmem->request.granted) {
        return;
    }
    if (machine.cta_group == 2) {
        if (!other || !other->request.columns || other->request.granted) {
            return;
        }
        if (other->request.columns != columns) {
            emu_fail(EMU_FAULT, "tcgen05.alloc of %u columns, but the peer CTA asks for %u",
                     columns, other->request.columns);
        }
    }
    if (find_columns(tmem, other, columns, &first)) {
        take_columns(tmem, first);
        if (other) {
            take_columns(other, first);
        }
        machine.progress = true;
    }
}

bool tmem_alloc_granted(const struct cta *cta)
{
    return cta->tmem->request.granted;
}

static void check_columns(const char *instruction, uint32_t columns)
{
    if (columns < TMEM_UNIT || columns > TMEM_COLUMNS || (columns & (columns - 1))) {
        emu_fail(EMU_FAULT, "%s of %u columns: a power of two from %d to %d", instruction, columns,
                 TMEM_UNIT, TMEM_COLUMNS);
    }
}

static void alloc(uint32_t dst, uint32_t columns, uint32_t group)
{
    struct fiber *fiber = current_fiber();
    struct cta *cta = fiber->cta;
    struct tmem *tmem = tmem_begin("tcgen05.alloc", group);
    check_columns("tcgen05.alloc", columns);
    if (dst % 4 || cta_of_address(dst, "tcgen05.alloc") != cta) {
        emu_fail(EMU_FAULT,
                 "tcgen05.alloc to shared address 0x%x: not 4 aligned bytes of the own CTA", dst);
    }
    if (tmem->relinquished) {
        emu_fail(EMU_FAULT, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    }
    warp_exchange("tcgen05.alloc", (uint64_t)dst << 32 | columns, 0);
    if (fiber->lane == 0) {
        if (tmem->request.columns) {
            emu_fail(EMU_FAULT,
                     "tcgen05.alloc by two warps of a CTA at once: the emulator has room "
                     "for one");
        }
        if (tmem->allocations && columns > tmem->last_columns) {
            emu_fail(EMU_FAULT,
                     "tcgen05.alloc of %u columns after one of %u: sizes must not increase",
                     columns, tmem->last_columns);
        }
        tmem->request.columns = columns;
        tmem->request.granted = false;
        tmem->last_columns = columns;
        grant(cta);
        if (!tmem->request.granted) {
            fiber_block(WAIT_TENSOR_ALLOC, cta, columns);
        }
        tmem->request.columns = 0;
        check_write(cta, dst, 4, thread_access(ACCESS_TENSOR_ALLOC));
        memcpy(cta->smem + (dst & SMEM_OFFSET_MASK), &tmem->request.first, 4);
    }
    warp_exchange("tcgen05.alloc", (uint64_t)dst << 32 | columns, 0);
}

void tcgen05_alloc(uint32_t dst, uint32_t columns)
{
    alloc(dst, columns, 1);
}

void tcgen05_alloc_pair(uint32_t dst, uint32_t columns)
{
    alloc(dst, columns, 2);
}

// ---- release

bool tmem_dealloc_met(const struct cta *peer, uint32_t count)
{
    return peer->tmem && peer->tmem->pair_deallocs >= count;
}

static void check_allocation(const struct tmem *tmem, uint32_t addr, uint32_t columns)
{
    uint32_t first = addr / TMEM_UNIT;
    uint32_t units = columns / TMEM_UNIT;
    bool matches = addr % TMEM_UNIT == 0 && addr + columns <= TMEM_COLUMNS && tmem->owner[first];
    uint32_t owner = matches ? tmem->owner[first] : 0;
    uint32_t owned = 0;
    for (uint32_t i = 0; matches && i < TMEM_UNITS; i++) {
        owned += tmem->owner[i] == owner;
    }
    for (uint32_t i = first; matches && i < first + units; i++) {
        matches = tmem->owner[i] == owner;
    }
    if (!matches || owned != units) {
        emu_fail(EMU_FAULT, "tcgen05.dealloc of %u columns at 0x%x, which is no allocation",
                 columns, addr);
    }
}

static void dealloc(uint32_t addr, uint32_t columns, uint32_t group)
{
    struct fiber *fiber = current_fiber();
    struct cta *cta = fiber->cta;
    struct tmem *tmem = tmem_begin("tcgen05.dealloc", group);
    check_columns("tcgen05.dealloc", columns);
    warp_exchange("tcgen05.dealloc", (uint64_t)addr << 32 | columns, 0);
    if (fiber->lane == 0) {
        check_allocation(tmem, addr, columns);
        tensor_check_free(cta, addr, columns);
        if (group == 2) {
            struct cta *peer = tmem_peer(cta);
            uint32_t count = ++tmem->pair_deallocs;
            if (!tmem_dealloc_met(peer, count)) {
                fiber_block(WAIT_TENSOR_DEALLOC, peer, count);
            }
        }
        for (uint32_t i = addr / TMEM_UNIT; i < (addr + columns) / TMEM_UNIT; i++) {
            tmem->owner[i] = 0;
        }
        grant(cta);
        machine.progress = true;
    }
    warp_exchange("tcgen05.dealloc", (uint64_t)addr << 32 | columns, 0);
}

void tcgen05_dealloc(uint32_t addr, uint32_t columns)
{
    dealloc(addr, columns, 1);
}

void tcgen05_dealloc_pair(uint32_t addr, uint32_t columns)
{
    dealloc(addr, columns, 2);
}

static void relinquish(uint32_t group)
{
    struct tmem *tmem = tmem_begin("tcgen05.relinquish_alloc_permit", group);
    warp_exchange("tcgen05.relinquish_alloc_permit", 0, 0);
    tmem->relinquished = true;
}

void tcgen05_relinquish(void)
{
    relinquish(1);
}

void tcgen05_relinquish_pair(void)
{
    relinquish(2);
}

void tmem_end_checks(const struct cta *cta)
{
    for (uint32_t i = 0; cta->tmem && i < TMEM_UNITS; i++) {
        if (cta->tmem->owner[i]) {
            emu_fail(EMU_FAULT,
                     "CTA (%u,%u,%u) ended with tensor memory columns %u to %u not deallocated",
                     cta->block[0], cta->block[1], cta->block[2], i * TMEM_UNIT,
                     (i + 1) * TMEM_UNIT - 1);
        }
    }
}

int tmem_text_wait(char *text, size_t size, const struct fiber *fiber)
{
    if (fiber->wait == WAIT_TENSOR_DEALLOC) {
        return snprintf(text, size, "tcgen05.dealloc: the peer CTA has not come");
    }
    const struct tmem *other = machine.cta_group == 2 ? tmem_peer(fiber->cta)->tmem : NULL;
    if (machine.cta_group == 2 && (!other || !other->request.columns)) {
        return snprintf(text, size, "tcgen05.alloc: the peer CTA has not come");
    }
    return snprintf(text, size, "tcgen05.alloc: needs %u free columns", fiber->wait_value);
}
