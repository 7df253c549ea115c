// What every probe kernel is given, and what it may use besides the instructions: the parameters,
// literals, and the copies between global memory and a raw image of shared memory. Kernels and host
// both include it.
#ifndef FIDELITY_PROBE_H
#define FIDELITY_PROBE_H

#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"

enum { PROBE_WORDS = 8, PROBE_LITERALS = 5, PROBE_SMEM_BYTES = 64 << 10 };

struct probe_params {
    tensor_map in_map; // of in and out, where the probe uses TMA
    tensor_map out_map;
    const uint32_t *in;
    uint32_t *out;
    int32_t load_at[5]; // coordinates in in_map and out_map
    int32_t store_at[5];
    uint32_t words[PROBE_WORDS]; // what the probe's host side and kernel agree on
};

// Immediate operands. On a GPU PROBE_0 and so on are numbers that the prologue defines.
#ifndef __CUDACC__
extern int32_t probe_literals[PROBE_LITERALS];
#define PROBE_0 probe_literals[0]
#define PROBE_1 probe_literals[1]
#define PROBE_2 probe_literals[2]
#define PROBE_3 probe_literals[3]
#define PROBE_4 probe_literals[4]
#endif

// Shared memory: mbarriers first, data behind them.
enum { PROBE_BARRIERS = 0, PROBE_DATA = 1024 };

// Words of global memory, by all threads of the CTA, and seen by all of them and by the async
// proxy. `count` is a multiple of 4.
DEVICE void probe_copy_in(uint32_t smem, const uint32_t *in, uint32_t count, uint32_t threads)
{
    for (uint32_t i = 4 * thread_idx(); i < count; i += 4 * threads) {
        uint32_t r[4];
        ld_global_v4_u32(r, in + i);
        st_shared_v4_u32(smem + 4 * i, r);
    }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    fence_proxy_async();
#endif
    cta_sync();
}

DEVICE void probe_copy_out(uint32_t *out, uint32_t smem, uint32_t count, uint32_t threads)
{
    for (uint32_t i = 4 * thread_idx(); i < count; i += 4 * threads) {
        uint32_t r[4];
        ld_shared_v4_u32(r, smem + 4 * i);
        st_global_v4_u32(out + i, r);
    }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// The first mbarrier, ready for use by this CTA's threads and by the async proxy.
DEVICE uint32_t probe_barrier(uint32_t count)
{
    uint32_t bar = dynamic_smem() + PROBE_BARRIERS;
    if (thread_idx() == 0) {
        mbarrier_init(bar, count);
        fence_mbarrier_init();
    }
    cta_sync();
    return bar;
}
#endif

#endif
