// Breaks a kernel at one place: included before a kernel's source, it turns every synchronisation
// call into one that may be left out or given a wrong operand. One compiled program then runs all
// mutants.
//
// A place is a line of the kernel and, for arrivals in a helper, the barrier. The list of places is
// what a first run meets.
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
    const char *function;
    const char *text; // the call as written
    int line;
    uint32_t key;
    bool is_operand; // can be changed, not deleted
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

static void record_place(struct place place)
{
    for (int i = 0; i < place_count; i++) {
        if (places[i].line == place.line && places[i].key == place.key) {
            return;
        }
    }
    if (place_count < MAX_PLACES) {
        places[place_count++] = place;
    }
}

static bool hits(const struct place *place)
{
    return mutant.active && mutant.place.line == place->line && mutant.place.key == place->key;
}

static bool is_deleted(const char *function, const char *text, int line, uint32_t key)
{
    struct place place = {function, text, line, key, false};
    if (place_recording) {
        record_place(place);
    }
    return hits(&place) && mutant.kind == DELETE;
}

static uint32_t changed(uint32_t operand, int line, uint32_t key)
{
    struct place place = {NULL, NULL, line, key, false};
    return hits(&place) && mutant.kind == CHANGE ? operand + (uint32_t)mutant.delta : operand;
}

static inline uint32_t changed_operand(const char *function, const char *text, int line,
                                       uint32_t operand)
{
    if (place_recording) {
        record_place((struct place){function, text, line, KEY_OPERAND, true});
    }
    return changed(operand, line, KEY_OPERAND);
}

#define PLACE(text, key, call)                                                                     \
    do {                                                                                           \
        if (!is_deleted(__func__, text, __LINE__, key)) {                                          \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

#define mbarrier_init(bar, count)                                                                  \
    PLACE("mbarrier_init(" #bar ")", 0, mbarrier_init(bar, changed(count, __LINE__, 0)))
#define mbarrier_arrive(bar) PLACE("mbarrier_arrive(" #bar ")", bar, mbarrier_arrive(bar))
#define mbarrier_arrive_expect_tx(bar, bytes)                                                      \
    PLACE("mbarrier_arrive_expect_tx(" #bar ")", 0,                                                \
          mbarrier_arrive_expect_tx(bar, changed(bytes, __LINE__, 0)))
// A changed parity is the other one.
#define mbarrier_wait(bar, parity)                                                                 \
    PLACE("mbarrier_wait(" #bar ")", 0, mbarrier_wait(bar, changed(parity, __LINE__, 0) & 1))
#define fence_proxy_async() PLACE("fence_proxy_async", 0, fence_proxy_async())
#define fence_mbarrier_init() PLACE("fence_mbarrier_init", 0, fence_mbarrier_init())
#define wgmma_fence() PLACE("wgmma_fence", 0, wgmma_fence())
#define wgmma_commit_group() PLACE("wgmma_commit_group", 0, wgmma_commit_group())
#define wgmma_wait_group(n)                                                                        \
    PLACE("wgmma_wait_group(" #n ")", 0, wgmma_wait_group(changed(n, __LINE__, 0)))
#define barrier_sync(id, threads)                                                                  \
    PLACE("barrier_sync(" #id ")", 0, barrier_sync(id, changed(threads, __LINE__, 0)))
#define cta_sync() PLACE("cta_sync", 0, cta_sync())
#define bulk_commit_group() PLACE("bulk_commit_group", 0, bulk_commit_group())
#define bulk_wait_group_read(n) PLACE("bulk_wait_group_read(" #n ")", 0, bulk_wait_group_read(n))
#define mbarrier_arrive_cluster(bar)                                                               \
    PLACE("mbarrier_arrive_cluster(" #bar ")", 0,                                                  \
          mbarrier_arrive_cluster(changed(bar, __LINE__, 0)))
#define mbarrier_wait_cluster(bar, parity)                                                         \
    PLACE("mbarrier_wait_cluster(" #bar ")", 0,                                                    \
          mbarrier_wait_cluster(bar, changed(parity, __LINE__, 0) & 1))
#define cluster_arrive() PLACE("cluster_arrive", 0, cluster_arrive())
#define cluster_wait() PLACE("cluster_wait", 2, cluster_wait())
#define warp_sync() PLACE("warp_sync", 0, warp_sync())
#define tcgen05_alloc(dst, columns)                                                                \
    PLACE("tcgen05_alloc", 0, tcgen05_alloc(dst, changed(columns, __LINE__, 0)))
#define tcgen05_alloc_pair(dst, columns)                                                           \
    PLACE("tcgen05_alloc", 0, tcgen05_alloc_pair(dst, changed(columns, __LINE__, 0)))
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
    PLACE("tcgen05_commit(" #bar ")", 0,                                                           \
          tcgen05_commit_pair_multicast(bar, changed(mask, __LINE__, 0)))
#define tcgen05_instruction(...)                                                                   \
    changed_operand(__func__, "tcgen05_instruction", __LINE__, tcgen05_instruction(__VA_ARGS__))
#define tcgen05_ld_32x32b(num, r, addr)                                                            \
    tcgen05_ld_32x32b(num, r, changed_operand(__func__, "tcgen05_ld_32x32b", __LINE__, addr))
#define cp_async_commit_group() PLACE("cp_async_commit_group", 0, cp_async_commit_group())
#define cp_async_wait_group(n)                                                                     \
    PLACE("cp_async_wait_group(" #n ")", 0, cp_async_wait_group(changed(n, __LINE__, 0)))
#define wait_equal_gpu_u32(p, value)                                                               \
    PLACE("wait_equal_gpu_u32(" #p ")", 0, wait_equal_gpu_u32(p, changed(value, __LINE__, 0)))
#define st_release_gpu_u32(p, value)                                                               \
    PLACE("st_release_gpu_u32(" #p ")", 0, st_release_gpu_u32(p, changed(value, __LINE__, 0)))
#define setmaxnreg_inc(n) PLACE("setmaxnreg_inc", 0, setmaxnreg_inc(changed(n, __LINE__, 0)))
#define setmaxnreg_dec(n) PLACE("setmaxnreg_dec", 0, setmaxnreg_dec(changed(n, __LINE__, 0)))

#endif
