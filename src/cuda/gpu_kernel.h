// Kernels that are loaded: one table for the process, whichever context or plan asks. A kernel is
// found, compiled and loaded by the first who needs it, while others who need the same one wait.
#ifndef ATTN_CUDA_GPU_KERNEL_H
#define ATTN_CUDA_GPU_KERNEL_H

#include "gpu_device.h"
#include "kernel_image.h"

typedef struct attn_gpu_kernel {
    cu_kernel kernel; // of no context: a launch takes the stream's, or the current one
    attn_kernel_origin_t origin;
    _Atomic int32_t registers;   // per thread, as the driver says
    _Atomic int32_t local_bytes; // per thread: stack and spills
} attn_gpu_kernel_t;

// The kernel, ready to be launched on gpu with so much dynamic shared memory. It lives as long as
// the process. Two requests mean the same kernel if name, architecture and prologue are equal.
// Errors: those of attn_kernel_image_get, ATTN_DRIVER_ERROR, ATTN_OUT_OF_MEMORY.
attn_status_t attn_gpu_kernel_get(const attn_context_t *context, const attn_gpu_t *gpu,
                                  const attn_kernel_request_t *request, int32_t shared_bytes,
                                  const attn_gpu_kernel_t **kernel_out);

#endif
