// Kernels without a configuration, which need no plan: one of a kind serves all problems on an
// architecture.
#ifndef ATTN_CUDA_GPU_SHARED_KERNEL_H
#define ATTN_CUDA_GPU_SHARED_KERNEL_H

#include "gpu_launch.h"
#include "kernel_config.h"

typedef enum attn_gpu_shared {
    ATTN_GPU_MERGE,
    ATTN_GPU_APPEND,
    ATTN_GPU_SHARED_COUNT
} attn_gpu_shared_t;

// Launches the kernel. The first launch on a GPU finds, compiles and loads it, which a stream under
// capture forbids; later ones only launch. Errors: those of attn_gpu_kernel_get and
// attn_gpu_launch.
attn_status_t attn_gpu_shared_launch(const attn_context_t *context, const attn_gpu_t *gpu,
                                     attn_gpu_shared_t which, const attn_gpu_grid_t *grid,
                                     const void *params, void *stream);

// The text of the kernel for an architecture, to be compiled.
typedef struct attn_gpu_shared_text {
    char name[ATTN_KERNEL_NAME_BYTES];
    char arch[ATTN_ARCH_BYTES];
    char prologue[ATTN_KERNEL_PROLOGUE_BYTES];
    attn_kernel_request_t request; // points into the rest
} attn_gpu_shared_text_t;
void attn_gpu_shared_text_fill(attn_gpu_shared_text_t *text, attn_gpu_shared_t which,
                               int32_t compute);

#endif
