// TMA: boxes of a tensor of 2 to 5 dimensions between global and shared memory (PTX ISA, "Data
// Movement and Conversion Instructions: cp.async.bulk.tensor").
//
// Coordinates are in elements, innermost dimension first, and may lie outside: a load fills such
// elements with zero, a store leaves them out. The innermost one is a multiple of 16 bytes, those
// of a store are not negative: all else is an illegal instruction on Hopper. One thread issues. A
// load adds the bytes of the whole box to the transaction count of `bar`; a store is waited for
// with bulk_commit_group and bulk_wait_group (bulk.h). Shared addresses are 128-byte aligned.
#ifndef ATTN_PTX_TMA_H
#define ATTN_PTX_TMA_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// prefetch.tensormap: brings the map into the descriptor cache.
PTX void tma_prefetch_map(const tensor_map *map)
    PTX_BODY(asm volatile("prefetch.tensormap [%0];" ::"l"(map)
                          : "memory"););

// Into the own CTA; `bar` is there too.
PTX void tma_load_2d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1)
    PTX_BODY(asm volatile(
                 "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1)
                 : "memory"););
PTX void tma_load_3d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                     int32_t c2)
    PTX_BODY(asm volatile(
                 "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
                 : "memory"););
PTX void tma_load_4d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                     int32_t c2, int32_t c3)
    PTX_BODY(asm volatile(
                 "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory"););
PTX void tma_load_5d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                     int32_t c2, int32_t c3, int32_t c4)
    PTX_BODY(asm volatile(
                 "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory"););

// With an L2 cache policy (PTX ISA, "createpolicy"; the operand of .L2::cache_hint).
PTX void tma_load_4d_hint(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                          int32_t c2, int32_t c3, uint64_t policy)
    PTX_BODY(asm volatile(
                 "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
                 : "memory"););

// The same box to the same offset in every CTA of the mask; each CTA's own barrier at the offset of
// `bar` is told.
PTX void tma_load_multicast_2d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                               int32_t c0, int32_t c1)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
                          "complete_tx::bytes.multicast::cluster "
                          "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(dst),
                          "l"(map), "r"(bar), "h"((uint16_t)cta_mask), "r"(c0), "r"(c1)
                          : "memory"););
PTX void tma_load_multicast_3d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                               int32_t c0, int32_t c1, int32_t c2)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::"
                          "complete_tx::bytes.multicast::cluster "
                          "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(dst),
                          "l"(map), "r"(bar), "h"((uint16_t)cta_mask), "r"(c0), "r"(c1), "r"(c2)
                          : "memory"););
PTX void tma_load_multicast_4d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                               int32_t c0, int32_t c1, int32_t c2, int32_t c3)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::"
                          "complete_tx::bytes.multicast::cluster "
                          "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(dst),
                          "l"(map), "r"(bar), "h"((uint16_t)cta_mask), "r"(c0), "r"(c1), "r"(c2),
                          "r"(c3)
                          : "memory"););
PTX void tma_load_multicast_5d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                               int32_t c0, int32_t c1, int32_t c2, int32_t c3, int32_t c4)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::"
                          "complete_tx::bytes.multicast::cluster "
                          "[%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(dst),
                          "l"(map), "r"(bar), "h"((uint16_t)cta_mask), "r"(c0), "r"(c1), "r"(c2),
                          "r"(c3), "r"(c4)
                          : "memory"););

// Out of shared memory.
PTX void tma_store_2d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                          "[%0, {%2, %3}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1)
                          : "memory"););
PTX void tma_store_3d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                          "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1), "r"(c2)
                          : "memory"););
PTX void tma_store_4d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                      int32_t c3)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
                          "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                          : "memory"););
PTX void tma_store_5d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                      int32_t c3, int32_t c4)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
                          "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                          : "memory"););

// cp.reduce.async.bulk.tensor: adds to what is there, each element atomically, in no
// particular order.
PTX void tma_reduce_add_2d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1)
    PTX_BODY(asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
                          "[%0, {%2, %3}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1)
                          : "memory"););
PTX void tma_reduce_add_3d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2)
    PTX_BODY(asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
                          "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1), "r"(c2)
                          : "memory"););
PTX void tma_reduce_add_4d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                           int32_t c3)
    PTX_BODY(asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group "
                          "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                          : "memory"););
PTX void tma_reduce_add_5d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                           int32_t c3, int32_t c4)
    PTX_BODY(asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group "
                          "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
                          "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                          : "memory"););

#endif

#endif
