// Thread block clusters: who am I, where is the others' shared memory, the barrier of all (PTX ISA,
// "Data Movement and Conversion Instructions: mapa", "Parallel Synchronization and Communication
// Instructions: barrier.cluster").
#ifndef ATTN_PTX_CLUSTER_H
#define ATTN_PTX_CLUSTER_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Special registers %cluster_ctarank and %cluster_nctarank.
PTX uint32_t cluster_rank(void)
    PTX_BODY(uint32_t rank; asm volatile("mov.u32 %0, %%cluster_ctarank;"
                                         : "=r"(rank));
             return rank;);

PTX uint32_t cluster_size(void)
    PTX_BODY(uint32_t size; asm volatile("mov.u32 %0, %%cluster_nctarank;"
                                         : "=r"(size));
             return size;);

// mapa: the address, in the shared memory of the CTA with that rank, of what `addr` is
// here.
PTX uint32_t cluster_map(uint32_t addr, uint32_t rank)
    PTX_BODY(uint32_t mapped; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                                           : "=r"(mapped)
                                           : "r"(addr), "r"(rank));
             return mapped;);

// barrier.cluster: every thread of the cluster arrives (release) and waits (acquire).
PTX void cluster_arrive(void) PTX_BODY(asm volatile("barrier.cluster.arrive.release.aligned;" ::
                                                        : "memory"););

// Orders no memory: only for "everybody is alive".
PTX void cluster_arrive_relaxed(void)
    PTX_BODY(asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::
                              : "memory"););

PTX void cluster_wait(void) PTX_BODY(asm volatile("barrier.cluster.wait.acquire.aligned;" ::
                                                      : "memory"););

#endif

#endif
