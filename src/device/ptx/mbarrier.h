// mbarrier: barriers in shared memory that count arrivals and bytes (PTX ISA, "Parallel
// Synchronization and Communication Instructions: mbarrier").
//
// A phase ends when `count` arrivals came and the transaction count is 0; then the next begins. A
// wait names the parity of the phase it waits for: 0 for the first. A fresh barrier thus lets a
// wait for parity 1 pass, which is what a producer uses for buffers that were never filled.
#ifndef ATTN_PTX_MBARRIER_H
#define ATTN_PTX_MBARRIER_H

#include "../common/kernel.h"

// mbarrier.init: 8 bytes at `bar`, 8-byte aligned. Others see it after a
// fence_mbarrier_init and a barrier.
PTX void mbarrier_init(uint32_t bar, uint32_t count)
    PTX_BODY(asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count)
                          : "memory"););

// mbarrier.inval: the bytes are ordinary memory again.
PTX void mbarrier_inval(uint32_t bar)
    PTX_BODY(asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar)
                          : "memory"););

// mbarrier.arrive, one arrival with release semantics at CTA scope.
PTX void mbarrier_arrive(uint32_t bar)
    PTX_BODY(asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar)
                          : "memory"););

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// The same for the barrier of any CTA of the cluster (an address from cluster_map), release at
// cluster scope.
PTX void mbarrier_arrive_cluster(uint32_t bar)
    PTX_BODY(asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar)
                          : "memory"););

// mbarrier.expect_tx: the phase waits for `bytes` more; no arrival.
PTX void mbarrier_expect_tx(uint32_t bar, uint32_t bytes)
    PTX_BODY(asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar),
                          "r"(bytes)
                          : "memory"););

// mbarrier.arrive.expect_tx: expect_tx, then one arrival.
PTX void mbarrier_arrive_expect_tx(uint32_t bar, uint32_t bytes) PTX_BODY(
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                 "r"(bytes)
                 : "memory"););

PTX void mbarrier_arrive_expect_tx_cluster(uint32_t bar, uint32_t bytes) PTX_BODY(
    asm volatile(
        "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(bar),
        "r"(bytes)
        : "memory"););
#endif

// mbarrier.try_wait.parity: 1 if the phase of that parity is over; may sleep a while before it says
// 0. Before sm_90 mbarrier.test_wait.parity, which does not sleep. The second form acquires at
// cluster scope: for phases that threads of other CTAs complete.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define MBARRIER_TRY_WAIT "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"
#else
#define MBARRIER_TRY_WAIT "mbarrier.test_wait.parity.shared::cta.b64"
#endif
PTX uint32_t mbarrier_try_wait(uint32_t bar, uint32_t parity)
    PTX_BODY(uint32_t done; asm volatile("{ .reg .pred p; " MBARRIER_TRY_WAIT
                                         " p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                                         : "=r"(done)
                                         : "r"(bar), "r"(parity)
                                         : "memory");
             return done;);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
PTX uint32_t mbarrier_try_wait_cluster(uint32_t bar, uint32_t parity) PTX_BODY(
    uint32_t done; asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done;);
#endif

// Waits until it is over: the loop that PTX leaves to the caller, in one piece, so that the
// predicate is branched on where it is made.
PTX void mbarrier_wait(uint32_t bar, uint32_t parity)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    PTX_BODY(while (!mbarrier_try_wait(bar, parity)){});
#else
    PTX_BODY(asm volatile("{ .reg .pred p; WAIT: "
                          "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], %1; "
                          "@!p bra WAIT; }" ::"r"(bar),
                          "r"(parity)
                          : "memory"););
PTX void mbarrier_wait_cluster(uint32_t bar, uint32_t parity)
    PTX_BODY(asm volatile("{ .reg .pred p; WAIT: "
                          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; "
                          "@!p bra WAIT; }" ::"r"(bar),
                          "r"(parity)
                          : "memory"););
#endif

#endif
