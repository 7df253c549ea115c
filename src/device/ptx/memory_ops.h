// Loads, stores and atomics of ordinary memory (PTX ISA, "Data Movement and Conversion
// Instructions": ld, st; "Parallel Synchronization and Communication Instructions": atom, red).
//
// Shared addresses are 32 bits and may lie in another CTA of the cluster only where the name says
// so. Vector forms need their natural alignment. Global pointers must be in a buffer that the
// launch registered with the emulator. Ordered accesses of global memory are in flags.h.
#ifndef ATTN_PTX_MEMORY_OPS_H
#define ATTN_PTX_MEMORY_OPS_H

#include "../common/kernel.h"
#include "flags.h"

// ld.shared, st.shared
PTX uint32_t ld_shared_u16(uint32_t addr)
    PTX_BODY(uint16_t r; asm volatile("ld.shared.u16 %0, [%1];"
                                      : "=h"(r)
                                      : "r"(addr)
                                      : "memory");
             return r;);
PTX void st_shared_u16(uint32_t addr, uint32_t value)
    PTX_BODY(asm volatile("st.shared.u16 [%0], %1;" ::"r"(addr), "h"((uint16_t)value)
                          : "memory"););
PTX uint32_t ld_shared_u32(uint32_t addr)
    PTX_BODY(uint32_t r; asm volatile("ld.shared.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "r"(addr)
                                      : "memory");
             return r;);
PTX void st_shared_u32(uint32_t addr, uint32_t value)
    PTX_BODY(asm volatile("st.shared.u32 [%0], %1;" ::"r"(addr), "r"(value)
                          : "memory"););
PTX float ld_shared_f32(uint32_t addr) PTX_BODY(float r; asm volatile("ld.shared.f32 %0, [%1];"
                                                                      : "=f"(r)
                                                                      : "r"(addr)
                                                                      : "memory");
                                                return r;);
PTX void st_shared_f32(uint32_t addr, float value)
    PTX_BODY(asm volatile("st.shared.f32 [%0], %1;" ::"r"(addr), "f"(value)
                          : "memory"););
PTX void ld_shared_v2_u32(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                          : "=r"(r[0]), "=r"(r[1])
                          : "r"(addr)
                          : "memory"););
PTX void st_shared_v2_u32(uint32_t addr, const uint32_t *r)
    PTX_BODY(asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(addr), "r"(r[0]), "r"(r[1])
                          : "memory"););
PTX void ld_shared_v4_u32(uint32_t *r, uint32_t addr)
    PTX_BODY(asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                          : "r"(addr)
                          : "memory"););
PTX void st_shared_v4_u32(uint32_t addr, const uint32_t *r)
    PTX_BODY(asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(addr), "r"(r[0]),
                          "r"(r[1]), "r"(r[2]), "r"(r[3])
                          : "memory"););

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// ld.shared::cluster, st.shared::cluster: the shared memory of any CTA of the cluster.
PTX uint32_t ld_cluster_u32(uint32_t addr)
    PTX_BODY(uint32_t r; asm volatile("ld.shared::cluster.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "r"(addr)
                                      : "memory");
             return r;);
PTX void st_cluster_u32(uint32_t addr, uint32_t value)
    PTX_BODY(asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(addr), "r"(value)
                          : "memory"););
#endif

// atom.shared.add
PTX uint32_t atom_shared_add_u32(uint32_t addr, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
                                        : "=r"(old)
                                        : "r"(addr), "r"(value)
                                        : "memory");
             return old;);

// ld.global, st.global
PTX uint32_t ld_global_u8(const void *p) PTX_BODY(uint32_t r; asm volatile("ld.global.u8 %0, [%1];"
                                                                           : "=r"(r)
                                                                           : "l"(p)
                                                                           : "memory");
                                                  return r;);
PTX void st_global_u8(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX uint32_t ld_global_u16(const void *p)
    PTX_BODY(uint16_t r; asm volatile("ld.global.u16 %0, [%1];"
                                      : "=h"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_global_u16(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"((uint16_t)value)
                          : "memory"););
PTX uint32_t ld_global_u32(const void *p)
    PTX_BODY(uint32_t r; asm volatile("ld.global.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_global_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX float ld_global_f32(const void *p) PTX_BODY(float r; asm volatile("ld.global.f32 %0, [%1];"
                                                                      : "=f"(r)
                                                                      : "l"(p)
                                                                      : "memory");
                                                return r;);
PTX void st_global_f32(void *p, float value)
    PTX_BODY(asm volatile("st.global.f32 [%0], %1;" ::"l"(p), "f"(value)
                          : "memory"););
PTX void st_global_v2_f32(void *p, float x, float y)
    PTX_BODY(asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(x), "f"(y)
                          : "memory"););
PTX void ld_global_v4_u32(uint32_t *r, const void *p)
    PTX_BODY(asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                          : "l"(p)
                          : "memory"););
PTX void st_global_v4_u32(void *p, const uint32_t *r)
    PTX_BODY(asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(r[0]), "r"(r[1]),
                          "r"(r[2]), "r"(r[3])
                          : "memory"););

// atom.global and red.global, relaxed at GPU scope: they order nothing (flags.h has those that do).
// atom gives the old value.
PTX uint32_t atom_global_add_u32(void *p, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                                        : "=r"(old)
                                        : "l"(p), "r"(value)
                                        : "memory");
             return old;);
PTX uint32_t atom_global_cas_u32(void *p, uint32_t expected, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                                        : "=r"(old)
                                        : "l"(p), "r"(expected), "r"(value)
                                        : "memory");
             return old;);
PTX void red_global_add_f32(void *p, float value)
    PTX_BODY(asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p), "f"(value)
                          : "memory"););

#if !defined(__CUDACC__) && !defined(KERNEL_WITHOUT_SITES)
#define ld_shared_u16(addr) (KERNEL_SITE, ld_shared_u16(addr))
#define ld_shared_u32(addr) (KERNEL_SITE, ld_shared_u32(addr))
#define ld_shared_f32(addr) (KERNEL_SITE, ld_shared_f32(addr))
#define ld_shared_v2_u32(r, addr) (KERNEL_SITE, ld_shared_v2_u32(r, addr))
#define ld_shared_v4_u32(r, addr) (KERNEL_SITE, ld_shared_v4_u32(r, addr))
#define st_shared_u16(addr, value) (KERNEL_SITE, st_shared_u16(addr, value))
#define st_shared_u32(addr, value) (KERNEL_SITE, st_shared_u32(addr, value))
#define st_shared_f32(addr, value) (KERNEL_SITE, st_shared_f32(addr, value))
#define st_shared_v2_u32(addr, r) (KERNEL_SITE, st_shared_v2_u32(addr, r))
#define st_shared_v4_u32(addr, r) (KERNEL_SITE, st_shared_v4_u32(addr, r))
#define ld_cluster_u32(addr) (KERNEL_SITE, ld_cluster_u32(addr))
#define st_cluster_u32(addr, value) (KERNEL_SITE, st_cluster_u32(addr, value))
#define ld_global_u16(p) (KERNEL_SITE, ld_global_u16(p))
#define ld_global_u32(p) (KERNEL_SITE, ld_global_u32(p))
#define ld_global_f32(p) (KERNEL_SITE, ld_global_f32(p))
#define ld_global_v4_u32(r, p) (KERNEL_SITE, ld_global_v4_u32(r, p))
#define st_global_u8(p, value) (KERNEL_SITE, st_global_u8(p, value))
#define st_global_u16(p, value) (KERNEL_SITE, st_global_u16(p, value))
#define st_global_u32(p, value) (KERNEL_SITE, st_global_u32(p, value))
#define st_global_f32(p, value) (KERNEL_SITE, st_global_f32(p, value))
#define st_global_v4_u32(p, r) (KERNEL_SITE, st_global_v4_u32(p, r))
#define atom_global_add_u32(p, value) (KERNEL_SITE, atom_global_add_u32(p, value))
#define atom_global_cas_u32(p, expected, value)                                                    \
    (KERNEL_SITE, atom_global_cas_u32(p, expected, value))
#define red_global_add_f32(p, value) (KERNEL_SITE, red_global_add_f32(p, value))
#endif

#endif
