// Fences between the generic proxy (ld, st) and the async proxy (TMA, bulk copies, wgmma reading
// shared memory): PTX ISA, "Parallel Synchronization and Communication Instructions: membar/fence".
// The fence of wgmma's registers is in wgmma.h.
#ifndef ATTN_PTX_FENCE_H
#define ATTN_PTX_FENCE_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// fence.proxy.async: my earlier generic accesses to shared memory come before later async ones.
// Belongs to the writer, before the barrier that tells whoever starts the async operation.
PTX void fence_proxy_async(void) PTX_BODY(asm volatile("fence.proxy.async.shared::cta;" ::
                                                           : "memory"););

// The same for my earlier generic accesses to global memory: before another thread, told by a
// release, loads them by TMA or a bulk copy.
PTX void fence_proxy_async_global(void) PTX_BODY(asm volatile("fence.proxy.async.global;" ::
                                                                  : "memory"););

// fence.mbarrier_init: my mbarrier_init calls become visible to the cluster and to the async proxy.
PTX void fence_mbarrier_init(void) PTX_BODY(asm volatile("fence.mbarrier_init.release.cluster;" ::
                                                             : "memory"););
#endif

// fence.acq_rel at CTA, cluster, GPU and system scope: relaxed accesses (flags.h) after it release
// what came before it, and what came before it acquires for what follows.
PTX void fence_acq_rel_cta(void) PTX_BODY(asm volatile("fence.acq_rel.cta;" ::: "memory"););
PTX void fence_acq_rel_gpu(void) PTX_BODY(asm volatile("fence.acq_rel.gpu;" ::: "memory"););
PTX void fence_acq_rel_sys(void) PTX_BODY(asm volatile("fence.acq_rel.sys;" ::: "memory"););
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
PTX void fence_acq_rel_cluster(void) PTX_BODY(asm volatile("fence.acq_rel.cluster;" ::: "memory"););
#endif

#endif
