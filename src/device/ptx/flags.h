// Flags and counters in global memory, by which CTAs wait for each other: loads that acquire,
// stores, additions and exchanges that release, at a scope (PTX ISA, "Memory Consistency Model:
// Scope", "Release and Acquire Patterns"; "Data Movement and Conversion Instructions: ld, st";
// "Parallel Synchronization and Communication Instructions: atom, red").
//
// What a thread wrote before a release is seen by whoever acquires the value that it released, or
// one that later atomics made of it. The scope says whose threads that may be: those of the CTA,
// the cluster, the GPU, or the system; both sides' scopes must reach the other. Relaxed ones order
// nothing, unless fences (fence.h) stand before the store and after the load.
//
// A loop that waits must use a wait_ function, or load with one of these: in the emulator they let
// the others run.
#ifndef ATTN_PTX_FLAGS_H
#define ATTN_PTX_FLAGS_H

#include "../common/kernel.h"

// ld.acquire, st.release, red.release.add, atom.acq_rel.add (gives the old value).
PTX uint32_t ld_acquire_cta_u32(const void *p)
    PTX_BODY(uint32_t r; asm volatile("ld.acquire.cta.global.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_release_cta_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.release.cta.global.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX void red_release_cta_add_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("red.release.cta.global.add.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX uint32_t atom_acq_rel_cta_add_u32(void *p, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.acq_rel.cta.global.add.u32 %0, [%1], %2;"
                                        : "=r"(old)
                                        : "l"(p), "r"(value)
                                        : "memory");
             return old;);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
PTX uint32_t ld_acquire_cluster_u32(const void *p)
    PTX_BODY(uint32_t r; asm volatile("ld.acquire.cluster.global.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_release_cluster_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.release.cluster.global.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX void red_release_cluster_add_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("red.release.cluster.global.add.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX uint32_t atom_acq_rel_cluster_add_u32(void *p, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.acq_rel.cluster.global.add.u32 %0, [%1], %2;"
                                        : "=r"(old)
                                        : "l"(p), "r"(value)
                                        : "memory");
             return old;);
#endif
PTX uint32_t ld_acquire_gpu_u32(const void *p)
    PTX_BODY(uint32_t r; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_release_gpu_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX void red_release_gpu_add_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX uint32_t atom_acq_rel_gpu_add_u32(void *p, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                                        : "=r"(old)
                                        : "l"(p), "r"(value)
                                        : "memory");
             return old;);
PTX uint32_t ld_acquire_sys_u32(const void *p)
    PTX_BODY(uint32_t r; asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_release_sys_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX void red_release_sys_add_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););
PTX uint32_t atom_acq_rel_sys_add_u32(void *p, uint32_t value)
    PTX_BODY(uint32_t old; asm volatile("atom.acq_rel.sys.global.add.u32 %0, [%1], %2;"
                                        : "=r"(old)
                                        : "l"(p), "r"(value)
                                        : "memory");
             return old;);

// ld.relaxed, st.relaxed at GPU scope.
PTX uint32_t ld_relaxed_gpu_u32(const void *p)
    PTX_BODY(uint32_t r; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                                      : "=r"(r)
                                      : "l"(p)
                                      : "memory");
             return r;);
PTX void st_relaxed_gpu_u32(void *p, uint32_t value)
    PTX_BODY(asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value)
                          : "memory"););

// Waits until the word is (at least) `value`, and acquires at GPU scope.
PTX void wait_equal_gpu_u32(const void *p, uint32_t value)
    PTX_BODY(while (ld_acquire_gpu_u32(p) != value){});
PTX void wait_at_least_gpu_u32(const void *p, uint32_t value)
    PTX_BODY(while (ld_acquire_gpu_u32(p) < value){});

#endif
