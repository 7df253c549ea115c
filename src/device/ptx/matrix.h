// ldmatrix and stmatrix: a warp moves 8x8 tiles of 16-bit elements between shared memory and
// fragments (PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "Warp-level matrix store
// instruction: stmatrix").
//
// Lane 8 i + j gives the address (16-byte aligned) of row j of tile i. Register i of a lane holds,
// of tile i, row lane / 4, columns 2 (lane % 4) and the next; transposed: rows 2 (lane % 4) and the
// next of column lane / 4.
#ifndef ATTN_PTX_MATRIX_H
#define ATTN_PTX_MATRIX_H

#include "../common/kernel.h"

PTX void ldmatrix_x1(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                          : "=r"(r[0])
                          : "r"(addr)
                          : "memory"););
PTX void ldmatrix_x2(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                          : "=r"(r[0]), "=r"(r[1])
                          : "r"(addr)
                          : "memory"););
PTX void ldmatrix_x4(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                          : "r"(addr)
                          : "memory"););
PTX void ldmatrix_x1_trans(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                          : "=r"(r[0])
                          : "r"(addr)
                          : "memory"););
PTX void ldmatrix_x2_trans(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                          : "=r"(r[0]), "=r"(r[1])
                          : "r"(addr)
                          : "memory"););
PTX void ldmatrix_x4_trans(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                          : "r"(addr)
                          : "memory"););

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
PTX void stmatrix_x1(uint32_t addr, const uint32_t *r)
    PTX_BODY(asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(addr),
                          "r"(r[0])
                          : "memory"););
PTX void stmatrix_x2(uint32_t addr, const uint32_t *r)
    PTX_BODY(asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(addr),
                          "r"(r[0]), "r"(r[1])
                          : "memory"););
PTX void stmatrix_x4(uint32_t addr, const uint32_t *r) PTX_BODY(
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(addr),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory"););
PTX void stmatrix_x1_trans(uint32_t addr, const uint32_t *r)
    PTX_BODY(asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(addr),
                          "r"(r[0])
                          : "memory"););
PTX void stmatrix_x2_trans(uint32_t addr, const uint32_t *r) PTX_BODY(
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(addr),
                 "r"(r[0]), "r"(r[1])
                 : "memory"););
PTX void stmatrix_x4_trans(uint32_t addr, const uint32_t *r) PTX_BODY(
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(addr),
        "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
        : "memory"););
#endif

#if !defined(__CUDACC__) && !defined(KERNEL_WITHOUT_SITES)
#define ldmatrix_x1(r, addr) (KERNEL_SITE, ldmatrix_x1(r, addr))
#define ldmatrix_x1_trans(r, addr) (KERNEL_SITE, ldmatrix_x1_trans(r, addr))
#define ldmatrix_x2(r, addr) (KERNEL_SITE, ldmatrix_x2(r, addr))
#define ldmatrix_x2_trans(r, addr) (KERNEL_SITE, ldmatrix_x2_trans(r, addr))
#define ldmatrix_x4(r, addr) (KERNEL_SITE, ldmatrix_x4(r, addr))
#define ldmatrix_x4_trans(r, addr) (KERNEL_SITE, ldmatrix_x4_trans(r, addr))
#define stmatrix_x1(addr, r) (KERNEL_SITE, stmatrix_x1(addr, r))
#define stmatrix_x1_trans(addr, r) (KERNEL_SITE, stmatrix_x1_trans(addr, r))
#define stmatrix_x2(addr, r) (KERNEL_SITE, stmatrix_x2(addr, r))
#define stmatrix_x2_trans(addr, r) (KERNEL_SITE, stmatrix_x2_trans(addr, r))
#define stmatrix_x4(addr, r) (KERNEL_SITE, stmatrix_x4(addr, r))
#define stmatrix_x4_trans(addr, r) (KERNEL_SITE, stmatrix_x4_trans(addr, r))
#endif

#endif
