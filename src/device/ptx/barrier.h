// Named barriers of a CTA, ids 0 to 15 (PTX ISA, "Parallel Synchronization and Communication
// Instructions: bar, barrier"). Id 0 is the one of the whole CTA. `threads` is a multiple of 32 and
// counts those that sync and those that only arrive.
#ifndef ATTN_PTX_BARRIER_H
#define ATTN_PTX_BARRIER_H

#include "../common/kernel.h"

PTX void barrier_sync(uint32_t id, uint32_t threads)
    PTX_BODY(asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads)
                          : "memory"););

PTX void barrier_arrive(uint32_t id, uint32_t threads)
    PTX_BODY(asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(threads)
                          : "memory"););

// All threads of the CTA, id 0.
PTX void cta_sync(void) PTX_BODY(asm volatile("barrier.cta.sync.aligned 0;" ::: "memory"););

#endif
