// What the Hopper kernels share about operands: their element type, panels in shared memory, matrix
// descriptors, and the pins that keep registers and tensor core apart.
//
// Tiles lie in panels of 64 columns: 128 bytes a row, swizzled, 8 rows to a pattern. TMA writes
// them so, fills columns beyond the head dim with zeros and leaves them out again.
#ifndef ATTN_SM90_OPERAND_H
#define ATTN_SM90_OPERAND_H

#include "../../shared/sm90_forward_layout.h"
#include "../common/descriptor.h"
#include "../ptx/math_ops.h"
#include "../ptx/mbarrier.h"
#include "../ptx/memory_ops.h"
#include "../ptx/wgmma.h"

enum {
    WARPGROUP_THREADS = ATTN_SM90_WARPGROUP_THREADS,
    PANEL_COLUMNS = ATTN_SM90_PANEL_COLUMNS,
    PANEL_ROW_BYTES = ATTN_SM90_PANEL_ROW_BYTES,
    PATTERN_BYTES = 1024
};

// Products of shared operands have k contiguous on both sides, or n in B; those with A in registers
// add, and have n contiguous in B.
#if ATTN_CFG_BF16
#define MMA_SS(n, d, desc_a, desc_b, accumulate)                                                   \
    wgmma_ss_bf16(n, d, desc_a, desc_b, accumulate, 0, 0)
#define MMA_SS_N_MAJOR(n, d, desc_a, desc_b, accumulate)                                           \
    wgmma_ss_bf16(n, d, desc_a, desc_b, accumulate, 0, 1)
#define MMA_RS(n, d, a, desc_b) wgmma_rs_bf16(n, d, a, desc_b, 1, 1)
#define PACK_X2(low, high) pack_bf16x2(low, high)
#define F32_OF_ELEMENT(bits) f32_of_bf16(bits)
#else
#define MMA_SS(n, d, desc_a, desc_b, accumulate)                                                   \
    wgmma_ss_f16(n, d, desc_a, desc_b, accumulate, 0, 0)
#define MMA_SS_N_MAJOR(n, d, desc_a, desc_b, accumulate)                                           \
    wgmma_ss_f16(n, d, desc_a, desc_b, accumulate, 0, 1)
#define MMA_RS(n, d, a, desc_b) wgmma_rs_f16(n, d, a, desc_b, 1, 1)
#define PACK_X2(low, high) pack_f16x2(low, high)
#define F32_OF_ELEMENT(bits) f32_of_f16(bits)
#endif

DEVICE uint64_t swizzled_descriptor(uint32_t addr, uint32_t leading_bytes)
{
    return matrix_descriptor(addr, leading_bytes, PATTERN_BYTES, DESC_SWIZZLE_128);
}

// Accumulators and fragments are pinned on both sides of a product, so that the compiler moves no
// access to them into the time when the tensor core owns them.
DEVICE void pin_f32(float *x, int count)
{
    UNROLL
    for (int i = 0; i < count; i++) {
        WGMMA_PIN(x[i]);
    }
}

DEVICE void pin_u32(uint32_t *x, int count)
{
    UNROLL
    for (int i = 0; i < count; i++) {
        WGMMA_PIN_U32(x[i]);
    }
}

// The first of a thread's two rows of an accumulator; the other is 8 below.
DEVICE int32_t row_of_thread(void)
{
    return (int32_t)(thread_idx() / 32 % 4 * 16 + thread_idx() % 32 / 4);
}

DEVICE uint32_t is_warp_leader(void)
{
    return thread_idx() % 32 == 0;
}

// The warps of a warpgroup give a buffer back each for itself, once its own wait is over.
DEVICE void give_back(uint32_t bar)
{
    if (is_warp_leader()) {
        mbarrier_arrive(bar);
    }
}

// 0, or NaN if one of a thread's values of accumulator row r is NaN or infinite. `count` is that of
// the thread's values in both rows.
DEVICE float not_finite(const float *o, int count, int r)
{
    float even = 0.0f;
    float odd = 0.0f;
    UNROLL
    for (int i = 2 * r; i < count; i += 4) {
        even = fma_f32(o[i], 0.0f, even);
        odd = fma_f32(o[i + 1], 0.0f, odd);
    }
    return even + odd;
}

#endif
