// TMA loads of a CTA pair (PTX ISA, "Data Movement and Conversion Instructions:
// cp.async.bulk.tensor", the .cta_group::2 form; sm_100a and later). The box lands in the own CTA;
// `bar` may be the mbarrier of either CTA of the pair: the one that issues the matrix instructions
// for both (an address from cluster_map) expects the bytes of both. The rest is as in tma.h.
#ifndef ATTN_PTX_TMA_PAIR_H
#define ATTN_PTX_TMA_PAIR_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)

PTX void tma_load_pair_2d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile."
                          "mbarrier::complete_tx::bytes "
                          "[%0], [%1, {%3, %4}], [%2];" ::"r"(dst),
                          "l"(map), "r"(bar), "r"(c0), "r"(c1)
                          : "memory"););
PTX void tma_load_pair_3d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                          int32_t c2)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.tile."
                          "mbarrier::complete_tx::bytes "
                          "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(dst),
                          "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
                          : "memory"););
PTX void tma_load_pair_4d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                          int32_t c2, int32_t c3)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.4d.cta_group::2.shared::cluster.global.tile."
                          "mbarrier::complete_tx::bytes "
                          "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(dst),
                          "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                          : "memory"););
PTX void tma_load_pair_5d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                          int32_t c2, int32_t c3, int32_t c4)
    PTX_BODY(asm volatile("cp.async.bulk.tensor.5d.cta_group::2.shared::cluster.global.tile."
                          "mbarrier::complete_tx::bytes "
                          "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(dst),
                          "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                          : "memory"););

#endif

#endif
