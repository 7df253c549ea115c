// cp.async: copies that a thread starts for itself, their groups, and arrivals that follow them.
//
// Each thread has a queue of what has not happened yet: copies, and arrivals that wait for all
// copies before them. Late: copies move when their thread waits for them, or, when everybody is
// blocked, because an arrival behind them is due. Early: at issue. Random: each copy at some time,
// in any order.
#include "../src/device/ptx/cp_async.h"
#include "count.h"
#include "global.h"
#include <stdlib.h>

enum {
    GROUP_RING = sizeof(((struct fiber *)0)->copies.group_epoch) / sizeof(uint32_t),
    FIRE_CHANCE = 8
};

struct item {
    struct mbarrier *barrier; // of an arrival; NULL: a copy
    uint8_t *dst;
    const uint8_t *src;
    uint32_t bytes; // the rest of size is zeros
    uint32_t size;
    uint32_t epoch; // of the copy; of the last one before the arrival
    bool done;
};

struct copy_queue {
    struct item *items;
    uint32_t count;
    uint32_t capacity;
    uint32_t first; // not done
};

void copies_destroy(struct cluster *cluster)
{
    for (uint32_t i = 0; cluster->copies && i < machine.cluster_size * machine.launch.threads;
         i++) {
        free(cluster->copies[i].items);
    }
    free(cluster->copies);
}

void copies_reset(struct cluster *cluster)
{
    for (uint32_t i = 0; cluster->copies && i < machine.cluster_size * machine.launch.threads;
         i++) {
        cluster->copies[i].count = cluster->copies[i].first = 0;
    }
}

static struct copy_queue *own_queue(const struct fiber *fiber)
{
    struct cluster *cluster = fiber->cta->cluster;
    if (!cluster->copies) {
        cluster->copies =
            calloc((size_t)machine.cluster_size * machine.launch.threads, sizeof *cluster->copies);
        if (!cluster->copies) {
            emu_fail(EMU_NO_MEMORY, "no memory for cp.async");
            return NULL;
        }
    }
    return &cluster->copies[agent_thread(fiber->cta, fiber->thread)];
}

static void run_item(struct cluster *cluster, const struct fiber *fiber, struct item *item)
{
    item->done = true;
    machine.progress = true;
    if (item->barrier) {
        mbarrier_arrive_copies(cluster, item->barrier, fiber->copies.agent, item->epoch);
        return;
    }
    if (item->bytes) { // else there may be no source
        memcpy(item->dst, item->src, item->bytes);
    }
    memset(item->dst + item->bytes, 0, item->size - item->bytes);
}

static void skip_done(struct copy_queue *queue)
{
    while (queue->first < queue->count && queue->items[queue->first].done) {
        queue->first++;
    }
    if (queue->first == queue->count) {
        queue->first = queue->count = 0;
    }
}

// All copies up to that epoch, and the arrivals that become due.
static void run_until(struct cluster *cluster, const struct fiber *fiber, struct copy_queue *queue,
                      uint32_t epoch)
{
    while (queue->first < queue->count && queue->items[queue->first].epoch <= epoch) {
        if (!queue->items[queue->first].done) {
            run_item(cluster, fiber, &queue->items[queue->first]);
        }
        queue->first++;
    }
    skip_done(queue);
}

static void add_item(const struct fiber *fiber, struct item item)
{
    struct copy_queue *queue = own_queue(fiber);
    if (queue->count == queue->capacity) {
        uint32_t capacity = 2 * queue->capacity + 16;
        struct item *larger = realloc(queue->items, capacity * sizeof *larger);
        if (!larger) {
            emu_fail(EMU_NO_MEMORY, "no memory for %u cp.asyncs of a thread", capacity);
            return;
        }
        queue->items = larger;
        queue->capacity = capacity;
    }
    queue->items[queue->count++] = item;
    if (machine.launch.async == EMU_EARLY) {
        run_until(fiber->cta->cluster, fiber, queue, item.epoch);
    }
}

// The arrivals at the front of the queue, as far as their copies are done.
static void run_due_arrivals(struct cluster *cluster, const struct fiber *fiber,
                             struct copy_queue *queue)
{
    skip_done(queue);
    while (queue->first < queue->count && queue->items[queue->first].barrier) {
        run_item(cluster, fiber, &queue->items[queue->first]);
        skip_done(queue);
    }
}

static bool fire_random(struct cluster *cluster, const struct fiber *fiber,
                        struct copy_queue *queue)
{
    bool any = false;
    for (uint32_t i = queue->first; i < queue->count; i++) {
        struct item *item = &queue->items[i];
        if (!item->done && !item->barrier && random_next() % FIRE_CHANCE == 0) {
            run_item(cluster, fiber, item);
            any = true;
        }
    }
    run_due_arrivals(cluster, fiber, queue);
    return any;
}

static bool fire_first_arrival(struct cluster *cluster, const struct fiber *fiber,
                               struct copy_queue *queue)
{
    for (uint32_t i = queue->first; i < queue->count; i++) {
        if (queue->items[i].barrier) {
            run_until(cluster, fiber, queue, queue->items[i].epoch);
            return true;
        }
    }
    return false;
}

bool copies_fire(struct cluster *cluster, bool one)
{
    bool any = false;
    for (uint32_t i = 0; cluster->copies && i < machine.cluster_size * machine.launch.threads;
         i++) {
        struct copy_queue *queue = &cluster->copies[i];
        if (queue->count == 0) {
            continue;
        }
        const struct fiber *fiber = &cluster->fibers[i];
        any |= one ? fire_first_arrival(cluster, fiber, queue) : fire_random(cluster, fiber, queue);
        if (one && any) {
            break;
        }
    }
    return any;
}

static void copy(uint32_t dst, const void *src, uint32_t size, uint32_t bytes)
{
    struct fiber *fiber = current_fiber();
    struct cta *cta = cta_of_address(dst, "cp.async");
    if (cta != fiber->cta) {
        emu_fail(EMU_FAULT, "cp.async to 0x%x: the destination must be in the own CTA", dst);
    }
    if (dst % size || (bytes && (uintptr_t)src % size)) {
        emu_fail(EMU_FAULT,
                 "cp.async of %u bytes from %p to shared address 0x%x: not aligned to it", size,
                 src, dst);
    }
    if (bytes > size) {
        emu_fail(EMU_FAULT, "cp.async of %u bytes that reads %u", size, bytes);
    }
    uint32_t agent = agent_copies(cta, fiber->thread);
    uint32_t epoch = ++fiber->copies.epoch;
    check_write(cta, dst, size, (struct access){ACCESS_CP_ASYNC, agent, epoch, false});
    if (bytes) {
        check_global_access(
            src, bytes,
            (struct global_access){ACCESS_CP_ASYNC, agent, epoch, GLOBAL_READ, SCOPE_CTA, false});
    }
    count_shared(size, true);
    count_global(bytes);
    add_item(fiber, (struct item){.dst = cta->smem + (dst & SMEM_OFFSET_MASK),
                                  .src = src,
                                  .bytes = bytes,
                                  .size = size,
                                  .epoch = epoch});
}

void cp_async_4(uint32_t dst, const void *src)
{
    copy(dst, src, 4, 4);
}

void cp_async_8(uint32_t dst, const void *src)
{
    copy(dst, src, 8, 8);
}

void cp_async_16(uint32_t dst, const void *src)
{
    copy(dst, src, 16, 16);
}

void cp_async_4_zfill(uint32_t dst, const void *src, uint32_t bytes)
{
    copy(dst, src, 4, bytes);
}

void cp_async_8_zfill(uint32_t dst, const void *src, uint32_t bytes)
{
    copy(dst, src, 8, bytes);
}

void cp_async_16_zfill(uint32_t dst, const void *src, uint32_t bytes)
{
    copy(dst, src, 16, bytes);
}

void cp_async_commit_group(void)
{
    struct fiber *fiber = current_fiber();
    if (fiber->copies.committed - fiber->copies.complete >= GROUP_RING) {
        emu_fail(EMU_FAULT,
                 "more than %zu cp.async groups not waited for: the emulator keeps no more",
                 (size_t)GROUP_RING);
    }
    fiber->copies.group_epoch[fiber->copies.committed++ % GROUP_RING] = fiber->copies.epoch;
}

static void wait_until(struct fiber *fiber, uint32_t epoch)
{
    if (fiber->copies.agent) {
        run_until(fiber->cta->cluster, fiber, own_queue(fiber), epoch);
        clock_know(fiber->copies.agent, epoch);
        fiber->copies.waited = epoch;
    }
}

void cp_async_wait_group(uint32_t n)
{
    struct fiber *fiber = current_fiber();
    uint32_t groups = fiber->copies.committed > n ? fiber->copies.committed - n : 0;
    if (groups > fiber->copies.complete) {
        wait_until(fiber, fiber->copies.group_epoch[(groups - 1) % GROUP_RING]);
        fiber->copies.complete = groups;
    }
}

void cp_async_wait_all(void)
{
    struct fiber *fiber = current_fiber();
    wait_until(fiber, fiber->copies.epoch);
    fiber->copies.complete = fiber->copies.committed;
}

void cp_async_mbarrier_arrive_noinc(uint32_t bar)
{
    struct fiber *fiber = current_fiber();
    struct mbarrier *barrier = mbarrier_find(bar, "cp.async.mbarrier.arrive", false);
    if (cta_of_address(bar, "cp.async.mbarrier.arrive") != fiber->cta) {
        emu_fail(EMU_FAULT, "cp.async.mbarrier.arrive on mbarrier 0x%x: it must be in the own CTA",
                 bar);
    }
    barrier->load_phase_plus_1 = barrier->phase + 1;
    agent_copies(fiber->cta, fiber->thread);
    clock_release_reached(fiber->cta->cluster, &barrier->meeting);
    fiber->copies.waited = fiber->copies.epoch; // by whoever waits for the mbarrier
    add_item(fiber, (struct item){.barrier = barrier, .epoch = fiber->copies.epoch});
}

void copies_thread_end(void)
{
    const struct fiber *fiber = current_fiber();
    if (fiber->copies.waited != fiber->copies.epoch) {
        emu_fail(EMU_FAULT, "the thread ended with %u cp.asyncs that it never waited for",
                 fiber->copies.epoch - fiber->copies.waited);
    }
}
