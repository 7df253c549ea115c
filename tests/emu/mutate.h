// Breaks a kernel at one place: included before a kernel's source, it turns every synchronisation
// call into one that may be left out or given a wrong operand. One compiled program then runs all
// mutants.
//
// A place is a line of one of the kernel's files and, for arrivals in a helper, the barrier. The
// list of places is what a first run meets.
#ifndef EMU_MUTATE_H
#define EMU_MUTATE_H

#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/cp_async.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/flags.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/register.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/warp.h"
#include "../../src/device/ptx/wgmma.h"
#include <stdbool.h>
#include <string.h>

enum { MAX_PLACES = 128 };

// What a seeded bug does to the operand of the call it names.
enum mutation_kind { DELETE, CHANGE };

struct place {
    const char *file;
    int line;
    uint32_t key;
    const char *function; // NULL: not to be recorded
    const char *text;     // the call as written
    bool is_operand;      // can be changed, not deleted
};

enum { KEY_OPERAND = 1 };

static struct place places[MAX_PLACES];
static int place_count;
static bool place_recording;

static struct {
    bool active;
    enum mutation_kind kind;
    struct place place;
    int32_t delta;
} mutant;

static bool is_same_place(const struct place *a, const struct place *b)
{
    return a->line == b->line && a->key == b->key && strcmp(a->file, b->file) == 0;
}

static void record_place(struct place place)
{
    for (int i = 0; i < place_count; i++) {
        if (is_same_place(&places[i], &place)) {
            return;
        }
    }
    if (place_count < MAX_PLACES) {
        places[place_count++] = place;
    }
}

static bool hits(struct place place, enum mutation_kind kind)
{
    if (place_recording && place.function) {
        record_place(place);
    }
    return mutant.active && mutant.kind == kind && is_same_place(&mutant.place, &place);
}

static uint32_t changed(uint32_t operand, struct place place)
{
    return hits(place, CHANGE) ? operand + (uint32_t)mutant.delta : operand;
}

#define PLACE(text, key, call)                                                                     \
    do {                                                                                           \
        if (!hits((struct place){__FILE__, __LINE__, key, __func__, text, false}, DELETE)) {       \
            call;                                                                                  \
        }                                                                                          \
    } while (0)
// The operand of a call that is a place itself, and of one that is not.
#define CHANGED(operand) changed(operand, (struct place){__FILE__, __LINE__, 0, NULL, NULL, false})
#define OPERAND(text, operand)                                                                     \
    changed(operand, (struct place){__FILE__, __LINE__, KEY_OPERAND, __func__, text, true})

#define mbarrier_init(bar, count)                                                                  \
    PLACE("mbarrier_init(" #bar ")", 0, mbarrier_init(bar, CHANGED(count)))
#define mbarrier_arrive(bar) PLACE("mbarrier_arrive(" #bar ")", bar, mbarrier_arrive(bar))
#define mbarrier_arrive_expect_tx(bar, bytes)                                                      \
    PLACE("mbarrier_arrive_expect_tx(" #bar ")", 0, mbarrier_arrive_expect_tx(bar, CHANGED(bytes)))
// A changed parity is the other one.
#define mbarrier_wait(bar, parity)                                                                 \
    PLACE("mbarrier_wait(" #bar ")", 0, mbarrier_wait(bar, CHANGED(parity) & 1))
#define fence_proxy_async() PLACE("fence_proxy_async", 0, fence_proxy_async())
#define fence_mbarrier_init() PLACE("fence_mbarrier_init", 0, fence_mbarrier_init())
#define wgmma_fence() PLACE("wgmma_fence", 0, wgmma_fence())
#define wgmma_commit_group() PLACE("wgmma_commit_group", 0, wgmma_commit_group())
#define wgmma_wait_group(n) PLACE("wgmma_wait_group(" #n ")", 0, wgmma_wait_group(CHANGED(n)))
#define barrier_sync(id, threads)                                                                  \
    PLACE("barrier_sync(" #id ")", 0, barrier_sync(id, CHANGED(threads)))
#define barrier_arrive(id, threads)                                                                \
    PLACE("barrier_arrive(" #id ")", 0, barrier_arrive(id, CHANGED(threads)))
#define cta_sync() PLACE("cta_sync", 0, cta_sync())
#define bulk_commit_group() PLACE("bulk_commit_group", 0, bulk_commit_group())
#define bulk_wait_group_read(n) PLACE("bulk_wait_group_read(" #n ")", 0, bulk_wait_group_read(n))
#define mbarrier_arrive_cluster(bar)                                                               \
    PLACE("mbarrier_arrive_cluster(" #bar ")", 0, mbarrier_arrive_cluster(CHANGED(bar)))
#define mbarrier_wait_cluster(bar, parity)                                                         \
    PLACE("mbarrier_wait_cluster(" #bar ")", 0, mbarrier_wait_cluster(bar, CHANGED(parity) & 1))
#define cluster_arrive() PLACE("cluster_arrive", 0, cluster_arrive())
#define cluster_wait() PLACE("cluster_wait", 2, cluster_wait())
#define warp_sync() PLACE("warp_sync", 0, warp_sync())
#define tcgen05_alloc(dst, columns) PLACE("tcgen05_alloc", 0, tcgen05_alloc(dst, CHANGED(columns)))
#define tcgen05_alloc_pair(dst, columns)                                                           \
    PLACE("tcgen05_alloc", 0, tcgen05_alloc_pair(dst, CHANGED(columns)))
#define tcgen05_dealloc(addr, columns) PLACE("tcgen05_dealloc", 0, tcgen05_dealloc(addr, columns))
#define tcgen05_dealloc_pair(addr, columns)                                                        \
    PLACE("tcgen05_dealloc", 0, tcgen05_dealloc_pair(addr, columns))
#define tcgen05_relinquish() PLACE("tcgen05_relinquish", 0, tcgen05_relinquish())
#define tcgen05_relinquish_pair() PLACE("tcgen05_relinquish", 0, tcgen05_relinquish_pair())
#define tcgen05_fence_before() PLACE("tcgen05_fence_before", 0, tcgen05_fence_before())
#define tcgen05_fence_after() PLACE("tcgen05_fence_after", 0, tcgen05_fence_after())
#define tcgen05_wait_ld() PLACE("tcgen05_wait_ld", 0, tcgen05_wait_ld())
#define tcgen05_wait_st() PLACE("tcgen05_wait_st", 0, tcgen05_wait_st())
#define tcgen05_commit(bar) PLACE("tcgen05_commit(" #bar ")", 0, tcgen05_commit(bar))
#define tcgen05_commit_pair_multicast(bar, mask)                                                   \
    PLACE("tcgen05_commit(" #bar ")", 0, tcgen05_commit_pair_multicast(bar, CHANGED(mask)))
#define tcgen05_instruction(...) OPERAND("tcgen05_instruction", tcgen05_instruction(__VA_ARGS__))
#define tcgen05_ld_32x32b(num, r, addr)                                                            \
    tcgen05_ld_32x32b(num, r, OPERAND("tcgen05_ld_32x32b", addr))
#define cp_async_commit_group() PLACE("cp_async_commit_group", 0, cp_async_commit_group())
#define cp_async_wait_group(n)                                                                     \
    PLACE("cp_async_wait_group(" #n ")", 0, cp_async_wait_group(CHANGED(n)))
#define wait_equal_gpu_u32(p, value)                                                               \
    PLACE("wait_equal_gpu_u32(" #p ")", 0, wait_equal_gpu_u32(p, CHANGED(value)))
#define st_release_gpu_u32(p, value)                                                               \
    PLACE("st_release_gpu_u32(" #p ")", 0, st_release_gpu_u32(p, CHANGED(value)))
#define setmaxnreg_inc(n) PLACE("setmaxnreg_inc", 0, setmaxnreg_inc(CHANGED(n)))
#define setmaxnreg_dec(n) PLACE("setmaxnreg_dec", 0, setmaxnreg_dec(CHANGED(n)))

#endif
