// tcgen05: Blackwell's tensor memory and the matrix instruction that works in it (PTX ISA,
// "TensorCore 5th Generation Family Instructions"; the sections named below are parts of it).
//
// Tensor memory: 128 lanes by 512 columns of 32 bits for each CTA; an address is lane << 16 |
// column. It is allocated in columns. Warp w of a warpgroup (its number mod 4) reads and writes
// lanes 32 w to 32 w + 31 only; the matrix instructions use all of them.
//
//   mma, cp, shift   one thread issues; done when a tcgen05_commit of that thread has arrived
//   ld, st           a whole warp; done after tcgen05_wait_ld, tcgen05_wait_st of the same warp
//
// All of it is asynchronous and none is ordered by an ordinary barrier alone: who hands tensor
// memory to another thread fences before the barrier (tcgen05_fence_before), who takes it fences
// after it (tcgen05_fence_after). A commit is itself the fence before. Instructions that end in
// _pair are cta_group::2: two CTAs of a cluster, ranks 2 i and 2 i + 1, work as one. All tcgen05
// instructions of a kernel must be of the same group.
//
// ld, st: r[i] of lane t of the warp is the word at (lane, column), relative to the address:
//
//   32x32b    x1 .. x128  num registers    (t, i)
//   16x64b    x1 .. x128  num registers    (t / 4 + 8 (t % 2), t / 2 % 2 + 2 i)
//   16x128b   x1 .. x64   2 num registers  (t / 4 + 8 (i % 2), t % 4 + 4 (i / 2))
//   16x256b   x1 .. x32   4 num registers  (t / 4 + 8 (i / 2 % 2), i % 2 + 2 (t % 4) + 8 (i / 4))
//   16x32bx2  x1 .. x128  num registers    (t % 16, i), lanes 16 .. 31 at column + offset
//
// num (and offset, wait counts) are literals on a GPU. 16-lane shapes begin at lane 0 or 16 of the
// warp's 32. The address is the same in all lanes of the warp.
#ifndef ATTN_PTX_TCGEN05_H
#define ATTN_PTX_TCGEN05_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)

// ---- "Tensor Memory Allocation and Management Instructions"

// tcgen05.alloc, by one whole warp: waits until `columns` (a power of two, 32 to 512) are free and
// writes their address to shared memory at dst. tcgen05.dealloc gives them back; everything must be
// given back before the CTA ends. tcgen05.relinquish_alloc_permit: this CTA allocates no more. The
// pair forms are executed by one warp of each of the two CTAs and wait for each other.
PTX void tcgen05_alloc(uint32_t dst, uint32_t columns) PTX_BODY(
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(dst),
                 "r"(columns)
                 : "memory"););
PTX void tcgen05_dealloc(uint32_t addr, uint32_t columns)
    PTX_BODY(asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(addr),
                          "r"(columns)
                          : "memory"););
PTX void tcgen05_relinquish(void)
    PTX_BODY(asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::
                              : "memory"););

PTX void tcgen05_alloc_pair(uint32_t dst, uint32_t columns) PTX_BODY(
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(dst),
                 "r"(columns)
                 : "memory"););
PTX void tcgen05_dealloc_pair(uint32_t addr, uint32_t columns)
    PTX_BODY(asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(addr),
                          "r"(columns)
                          : "memory"););
PTX void tcgen05_relinquish_pair(void)
    PTX_BODY(asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::
                              : "memory"););

// ---- "tcgen05 Special Synchronization Operations": tcgen05.fence, and the waits of ld and st

PTX void tcgen05_fence_before(void) PTX_BODY(asm volatile("tcgen05.fence::before_thread_sync;" ::
                                                              : "memory"););
PTX void tcgen05_fence_after(void) PTX_BODY(asm volatile("tcgen05.fence::after_thread_sync;" ::
                                                             : "memory"););
PTX void tcgen05_wait_ld(void) PTX_BODY(asm volatile("tcgen05.wait::ld.sync.aligned;" ::
                                                         : "memory"););
PTX void tcgen05_wait_st(void) PTX_BODY(asm volatile("tcgen05.wait::st.sync.aligned;" ::
                                                         : "memory"););

// ---- "tcgen05 Async Synchronization Operations": tcgen05.commit

// One arrival at the mbarrier when all mma, cp and shift that this thread issued before are done.
// multicast: at the mbarrier with the same offset in every CTA of the mask.
PTX void tcgen05_commit(uint32_t bar) PTX_BODY(
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar)
        : "memory"););
PTX void tcgen05_commit_multicast(uint32_t bar, uint32_t cta_mask)
    PTX_BODY(asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster."
                          "multicast::cluster.b64 [%0], %1;" ::"r"(bar),
                          "h"((uint16_t)cta_mask)
                          : "memory"););
PTX void tcgen05_commit_pair(uint32_t bar) PTX_BODY(
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar)
        : "memory"););
PTX void tcgen05_commit_pair_multicast(uint32_t bar, uint32_t cta_mask)
    PTX_BODY(asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster."
                          "multicast::cluster.b64 [%0], %1;" ::"r"(bar),
                          "h"((uint16_t)cta_mask)
                          : "memory"););

// ---- "TensorCore 5th Generation Matrix Multiply and Accumulate Operations": tcgen05.mma
//
// D = A B (+ D). D lies at tensor memory address d; ss: A and B in shared memory, given by
// descriptors (common/tcgen05_descriptor.h); ts: A at tensor memory address a, k contiguous,
// packed. idesc is the instruction descriptor. accumulate == 0 overwrites D. k is 16 for kind f16,
// 32 for kind f8f6f4.

PTX void tcgen05_mma_f16_ss(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                            uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(d),
                          "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););
PTX void tcgen05_mma_f16_ts(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                            uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }" ::"r"(d),
                          "r"(a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););

PTX void tcgen05_mma_f16_ss_pair(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                                 uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(d),
                          "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););
PTX void tcgen05_mma_f16_ts_pair(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                                 uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::2.kind::f16 [%0], [%1], %2, %3, p; }" ::"r"(d),
                          "r"(a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););

PTX void tcgen05_mma_f8f6f4_ss(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                               uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p; }" ::"r"(d),
                          "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););
PTX void tcgen05_mma_f8f6f4_ts(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                               uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], [%1], %2, %3, p; }" ::"r"(d),
                          "r"(a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););

PTX void tcgen05_mma_f8f6f4_ss_pair(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                                    uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], %1, %2, %3, p; }" ::"r"(d),
                          "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););
PTX void tcgen05_mma_f8f6f4_ts_pair(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                                    uint32_t accumulate)
    PTX_BODY(asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; "
                          "tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], [%1], %2, %3, p; }" ::"r"(d),
                          "r"(a), "l"(desc_b), "r"(idesc), "r"(accumulate)
                          : "memory"););

// ---- "Tensor Memory Data Movement Instructions": tcgen05.cp, tcgen05.shift

// Rows of shared memory (a descriptor, k contiguous), 32 or 16 bytes each, into 8 or 4 columns: row
// r of 128 into lane r; of 4 into lane 32 r; of 64 into lanes r and r + 64 (02_13), or r / 32 * 64
// + r % 32 and that + 32 (01_23); of 32 into lanes r, r + 32, r + 64, r + 96.
PTX void tcgen05_cp_128x256b(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_128x256b_pair(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::2.128x256b [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_4x256b(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::1.4x256b [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_4x256b_pair(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::2.4x256b [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_128x128b(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_128x128b_pair(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::2.128x128b [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_64x128b_02_13(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [%0], %1;" ::"r"(addr),
                          "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_64x128b_02_13_pair(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::2.64x128b.warpx2::02_13 [%0], %1;" ::"r"(addr),
                          "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_64x128b_01_23(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [%0], %1;" ::"r"(addr),
                          "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_64x128b_01_23_pair(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [%0], %1;" ::"r"(addr),
                          "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_32x128b(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););
PTX void tcgen05_cp_32x128b_pair(uint32_t addr, uint64_t desc)
    PTX_BODY(asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(addr), "l"(desc)
                          : "memory"););

// Moves 8 columns from the address on, in all lanes from its own (a multiple of 32) to the last,
// down by one lane: each lane but the first takes what the one before it had. A pair: in both CTAs.
PTX void tcgen05_shift_down(uint32_t addr)
    PTX_BODY(asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(addr)
                          : "memory"););
PTX void tcgen05_shift_down_pair(uint32_t addr)
    PTX_BODY(asm volatile("tcgen05.shift.cta_group::2.down [%0];" ::"r"(addr)
                          : "memory"););

// ---- "Tensor Memory Data Movement Instructions": tcgen05.ld, tcgen05.st

#ifdef __CUDACC__

#include "tcgen05_lists.h"

#define TCGEN05_LD(shape, num, count, r, addr)                                                     \
    asm volatile("tcgen05.ld.sync.aligned." shape ".x" #num ".b32 {" TCGEN05_R_##count             \
                 "}, [" TCGEN05_NEXT_##count "];"                                                  \
                 : TCGEN05_OUT_##count(r)                                                          \
                 : "r"(addr)                                                                       \
                 : "memory")
#define TCGEN05_ST(shape, num, count, addr, r)                                                     \
    asm volatile("tcgen05.st.sync.aligned." shape ".x" #num ".b32 [" TCGEN05_NEXT_##count          \
                 "], {" TCGEN05_R_##count "};" ::TCGEN05_IN_##count(r),                            \
                 "r"(addr)                                                                         \
                 : "memory")
#define TCGEN05_LD_SPLIT(num, count, r, addr, offset)                                              \
    asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x" #num ".b32 {" TCGEN05_R_##count              \
                 "}, [" TCGEN05_NEXT_##count "], " TCGEN05_LAST_##count ";"                        \
                 : TCGEN05_OUT_##count(r)                                                          \
                 : "r"(addr), "n"((int)(offset))                                                   \
                 : "memory")
#define TCGEN05_ST_SPLIT(num, count, addr, offset, r)                                              \
    asm volatile("tcgen05.st.sync.aligned.16x32bx2.x" #num ".b32 [" TCGEN05_NEXT_##count           \
                 "], " TCGEN05_LAST_##count ", {" TCGEN05_R_##count "};" ::TCGEN05_IN_##count(r),  \
                 "r"(addr), "n"((int)(offset))                                                     \
                 : "memory")
#define TCGEN05_LD_REDUCE(op, num, count, r, reduced, addr)                                        \
    asm volatile("tcgen05.ld.red.sync.aligned.32x32b.x" #num "." op ".f32 {" TCGEN05_R_##count     \
                 "}, " TCGEN05_NEXT_##count ", [" TCGEN05_LAST_##count "];"                        \
                 : TCGEN05_OUT_##count(r), "=f"(*(reduced))                                        \
                 : "r"(addr)                                                                       \
                 : "memory")

// One step more, so that num and the count of registers may be macros.
#define TCGEN05_LD_COUNT(shape, num, count, r, addr) TCGEN05_LD(shape, num, count, r, addr)
#define TCGEN05_ST_COUNT(shape, num, count, addr, r) TCGEN05_ST(shape, num, count, addr, r)

#define tcgen05_ld_32x32b(num, r, addr) TCGEN05_LD_COUNT("32x32b", num, num, r, addr)
#define tcgen05_ld_16x64b(num, r, addr) TCGEN05_LD_COUNT("16x64b", num, num, r, addr)
#define tcgen05_ld_16x128b(num, r, addr)                                                           \
    TCGEN05_LD_COUNT("16x128b", num, TCGEN05_TWICE_##num, r, addr)
#define tcgen05_ld_16x256b(num, r, addr)                                                           \
    TCGEN05_LD_COUNT("16x256b", num, TCGEN05_FOUR_TIMES_##num, r, addr)
#define tcgen05_ld_16x32bx2(num, r, addr, offset) TCGEN05_LD_SPLIT(num, num, r, addr, offset)
#define tcgen05_st_32x32b(num, addr, r) TCGEN05_ST_COUNT("32x32b", num, num, addr, r)
#define tcgen05_st_16x64b(num, addr, r) TCGEN05_ST_COUNT("16x64b", num, num, addr, r)
#define tcgen05_st_16x128b(num, addr, r)                                                           \
    TCGEN05_ST_COUNT("16x128b", num, TCGEN05_TWICE_##num, addr, r)
#define tcgen05_st_16x256b(num, addr, r)                                                           \
    TCGEN05_ST_COUNT("16x256b", num, TCGEN05_FOUR_TIMES_##num, addr, r)
#define tcgen05_st_16x32bx2(num, addr, offset, r) TCGEN05_ST_SPLIT(num, num, addr, offset, r)

#else

void tcgen05_ld_32x32b(uint32_t num, uint32_t *r, uint32_t addr);
void tcgen05_ld_16x64b(uint32_t num, uint32_t *r, uint32_t addr);
void tcgen05_ld_16x128b(uint32_t num, uint32_t *r, uint32_t addr);
void tcgen05_ld_16x256b(uint32_t num, uint32_t *r, uint32_t addr);
void tcgen05_ld_16x32bx2(uint32_t num, uint32_t *r, uint32_t addr, uint32_t offset);
void tcgen05_st_32x32b(uint32_t num, uint32_t addr, const uint32_t *r);
void tcgen05_st_16x64b(uint32_t num, uint32_t addr, const uint32_t *r);
void tcgen05_st_16x128b(uint32_t num, uint32_t addr, const uint32_t *r);
void tcgen05_st_16x256b(uint32_t num, uint32_t addr, const uint32_t *r);
void tcgen05_st_16x32bx2(uint32_t num, uint32_t addr, uint32_t offset, const uint32_t *r);

#endif

// tcgen05.ld.red, sm_103a alone: 32x32b (num from x2), and the largest or the smallest of the
// thread's num floats besides, after the wait as the rest.
#if !defined(__CUDACC__)
void tcgen05_ld_max_32x32b(uint32_t num, uint32_t *r, float *max_out, uint32_t addr);
void tcgen05_ld_min_32x32b(uint32_t num, uint32_t *r, float *min_out, uint32_t addr);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 1030
#define tcgen05_ld_max_32x32b(num, r, max_out, addr)                                               \
    TCGEN05_LD_REDUCE("max", num, num, r, max_out, addr)
#define tcgen05_ld_min_32x32b(num, r, min_out, addr)                                               \
    TCGEN05_LD_REDUCE("min", num, num, r, min_out, addr)
#endif

#endif

#endif
