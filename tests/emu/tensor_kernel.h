// What the small kernels on tensor memory begin and end with.
#ifndef EMU_TENSOR_KERNEL_H
#define EMU_TENSOR_KERNEL_H

#include "small_kernel.h"

#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/warp.h"

enum { SMEM_BARRIER = 0, SMEM_ADDRESS = 8, SMEM_A = 1024, SMEM_B = SMEM_A + 8192 };

static inline struct emu_launch tensor_launch(void (*entry)(const void *), uint32_t threads)
{
    struct emu_launch launch = small_launch(entry, threads);
    launch.arch = 100;
    return launch;
}

static inline void expect_tensor_ok(void (*entry)(const void *), uint32_t threads)
{
    expect_ok_launch(tensor_launch(entry, threads));
}

static inline void expect_tensor_error(void (*entry)(const void *), uint32_t threads,
                                       emu_status status, const char *words)
{
    expect_error_launch(tensor_launch(entry, threads), status, words);
}

// `columns` of tensor memory, an mbarrier for one arrival, and tiles A (64 rows) and B (16 rows) of
// bf16 ones; gives the
// address.
static inline uint32_t tensor_begin(uint32_t columns)
{
    uint32_t smem = dynamic_smem();
    if (thread_idx() == 0) {
        mbarrier_init(smem + SMEM_BARRIER, 1);
        fence_mbarrier_init();
    }
    for (uint32_t i = thread_idx(); i < 2560; i += 32) {
        if (thread_idx() < 32) {
            st_shared_u32(smem + SMEM_A + 4 * i, 0x3f803f80);
        }
    }
    fence_proxy_async();
    if (thread_idx() < 32) {
        tcgen05_alloc(smem + SMEM_ADDRESS, columns);
    }
    cta_sync();
    return ld_shared_u32(smem + SMEM_ADDRESS);
}

static inline void tensor_end(uint32_t tensor, uint32_t columns)
{
    cta_sync();
    if (thread_idx() < 32) {
        tcgen05_dealloc(tensor, columns);
    }
}

// d[64][16] (+)= ones: 16 where it overwrites.
static inline void tensor_multiply(uint32_t d, uint32_t accumulate)
{
    uint32_t smem = dynamic_smem();
    tcgen05_mma_f16_ss(d, tcgen05_matrix_descriptor(smem + SMEM_A, 0, 1024, TCGEN05_SWIZZLE_128),
                       tcgen05_matrix_descriptor(smem + SMEM_B, 0, 1024, TCGEN05_SWIZZLE_128),
                       tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, 64, 16, 0, 0), accumulate);
}

#endif
