// Launching: the last step of a run. No allocation, no lock, no synchronisation, and nothing that a
// stream under capture would refuse.
#ifndef ATTN_CUDA_GPU_LAUNCH_H
#define ATTN_CUDA_GPU_LAUNCH_H

#include "gpu_kernel.h"

typedef struct attn_gpu_grid {
    uint32_t ctas[3];
    uint32_t threads; // per CTA
    uint32_t cluster; // CTAs of a cluster along x; 0: no clusters
    uint32_t shared_bytes;
    // may start before the kernel ahead of it in the stream has ended: it waits for it itself
    int32_t is_programmatic;
} attn_gpu_grid_t;

// CTAs of `threads` threads whose warps walk over `units` pieces of work, for kernels that are
// bound by memory and need few registers.
attn_gpu_grid_t attn_gpu_warps_grid(const attn_gpu_t *gpu, int64_t units, uint32_t threads);

// Launches with one struct as the parameter. A grid without CTAs is no launch. stream is the
// caller's CUstream; without one (NULL, or one of the driver's two special values) the launch goes
// to the caller's current context if that is of gpu, else to the GPU's primary one.
// Errors: ATTN_DRIVER_ERROR, ATTN_OUT_OF_MEMORY.
attn_status_t attn_gpu_launch(const attn_gpu_t *gpu, const attn_gpu_kernel_t *kernel,
                              const attn_gpu_grid_t *grid, const void *params, void *stream);

// Sets 32-bit words of device memory to 0, in the same stream. Errors: as above.
attn_status_t attn_gpu_clear(const attn_gpu_t *gpu, void *words, size_t count, void *stream);

#endif
