// Bulk copies and reductions of plain byte ranges, and the groups that all bulk stores are waited
// for by (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy"). One thread
// issues; addresses and sizes are multiples of 16.
#ifndef ATTN_PTX_BULK_H
#define ATTN_PTX_BULK_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// cp.async.bulk, global to shared memory of the own CTA; counts its bytes on `bar`.
PTX void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar) PTX_BODY(
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(dst),
        "l"(src), "r"(bytes), "r"(bar)
        : "memory"););

// The same to every CTA of the mask.
PTX void bulk_load_multicast(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar,
                             uint32_t cta_mask)
    PTX_BODY(asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
                          "multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(dst),
                          "l"(src), "r"(bytes), "r"(bar), "h"((uint16_t)cta_mask)
                          : "memory"););

// Own shared memory to that of a CTA of the cluster; `bar` is in the destination's CTA.
PTX void bulk_copy_cluster(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar)
    PTX_BODY(asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
                          "bytes [%0], [%1], %2, [%3];" ::"r"(dst),
                          "r"(src), "r"(bytes), "r"(bar)
                          : "memory"););

// Shared to global memory.
PTX void bulk_store(void *dst, uint32_t src, uint32_t bytes)
    PTX_BODY(asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst),
                          "r"(src), "r"(bytes)
                          : "memory"););

// cp.reduce.async.bulk.add, shared to global memory, each element atomically.
PTX void bulk_reduce_add_f32(void *dst, uint32_t src, uint32_t bytes) PTX_BODY(
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst),
        "r"(src), "r"(bytes)
        : "memory"););
PTX void bulk_reduce_add_f16(void *dst, uint32_t src, uint32_t bytes) PTX_BODY(
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(
            dst),
        "r"(src), "r"(bytes)
        : "memory"););
PTX void bulk_reduce_add_bf16(void *dst, uint32_t src, uint32_t bytes) PTX_BODY(
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(
            dst),
        "r"(src), "r"(bytes)
        : "memory"););

// cp.async.bulk.commit_group: the bulk stores since the last commit become a group.
// cp.async.bulk.wait_group: waits until at
// most n of my groups are not done; _read only until their source may be overwritten. n is an
// immediate.
PTX void bulk_commit_group(void) PTX_BODY(asm volatile("cp.async.bulk.commit_group;" ::
                                                           : "memory"););

#ifdef __CUDACC__
#define bulk_wait_group(n) asm volatile("cp.async.bulk.wait_group %0;" ::"n"((int)(n)) : "memory")
#define bulk_wait_group_read(n)                                                                    \
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"((int)(n)) : "memory")
#else
void bulk_wait_group(uint32_t n);
void bulk_wait_group_read(uint32_t n);
#endif

#endif

#endif
