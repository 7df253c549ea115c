// cp.async: copies of 4, 8 or 16 bytes from global to shared memory that each thread starts for
// itself, on every architecture from sm_80 (PTX ISA, "Data Movement and Conversion Instructions:
// Asynchronous copy: cp.async").
//
// A copy is like a store by the thread that happens at some time: it belongs to the generic proxy
// (wgmma and TMA need a fence after it), and not even the own thread sees it before it has waited.
// Then a barrier tells the others. Addresses are aligned to the size.
#ifndef ATTN_PTX_CP_ASYNC_H
#define ATTN_PTX_CP_ASYNC_H

#include "../common/kernel.h"

// 4 and 8 bytes go through L1 (.ca), 16 past it (.cg).
PTX void cp_async_4(uint32_t dst, const void *src)
    PTX_BODY(asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(dst), "l"(src)
                          : "memory"););
PTX void cp_async_8(uint32_t dst, const void *src)
    PTX_BODY(asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(dst), "l"(src)
                          : "memory"););
PTX void cp_async_16(uint32_t dst, const void *src)
    PTX_BODY(asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src)
                          : "memory"););

// Reads only the first `bytes` (0: none, and the source may be any address) and writes zeros for
// the rest.
PTX void cp_async_4_zfill(uint32_t dst, const void *src, uint32_t bytes)
    PTX_BODY(asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src),
                          "r"(bytes)
                          : "memory"););
PTX void cp_async_8_zfill(uint32_t dst, const void *src, uint32_t bytes)
    PTX_BODY(asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src),
                          "r"(bytes)
                          : "memory"););
PTX void cp_async_16_zfill(uint32_t dst, const void *src, uint32_t bytes)
    PTX_BODY(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
                          "r"(bytes)
                          : "memory"););

// cp.async.commit_group: my copies since the last commit become a group. cp.async.wait_group: waits
// until at most n of my groups are not done; n is an immediate. cp.async.wait_all: for every copy
// of mine, committed or not.
PTX void cp_async_commit_group(void) PTX_BODY(asm volatile("cp.async.commit_group;" ::: "memory"););
PTX void cp_async_wait_all(void) PTX_BODY(asm volatile("cp.async.wait_all;" ::: "memory"););
#ifdef __CUDACC__
#define cp_async_wait_group(n) asm volatile("cp.async.wait_group %0;" ::"n"((int)(n)) : "memory")
#else
void cp_async_wait_group(uint32_t n);
#endif

// cp.async.mbarrier.arrive.noinc: one arrival at `bar` of the own CTA, counted in its init, when
// all copies that I have started are done. Tells of those copies, of nothing else that I did.
PTX void cp_async_mbarrier_arrive_noinc(uint32_t bar)
    PTX_BODY(asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar)
                          : "memory"););

#endif
