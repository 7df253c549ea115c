// The GPUs of this process: what each is, and whose context its work runs in.
#ifndef ATTN_CUDA_GPU_DEVICE_H
#define ATTN_CUDA_GPU_DEVICE_H

#include "driver.h"

// More than any machine has (16 in the largest, 64 with virtual functions).
#define ATTN_GPUS_MAX 64

typedef struct attn_gpu {
    const attn_driver_t *driver;
    int32_t ordinal; // the driver's number, CUDA_VISIBLE_DEVICES applied
    cu_device handle;
    char name[128];
    int32_t compute; // capability: 90 is 9.0
    int32_t multiprocessors;
    int32_t shared_bytes; // that a block may ask for
    int32_t l2_bytes;
    int32_t clock_khz; // the highest, 0 if the driver does not say
    int32_t memory_clock_khz;
    int64_t memory_bytes;
} attn_gpu_t;

// Number of GPUs, from attn_driver_get's first call on the same. Errors: attn_driver_get's.
attn_status_t attn_gpu_count(int32_t *count_out);

// A GPU; lives as long as the process. Errors: attn_driver_get's, ATTN_NO_DEVICE for a number that
// is none.
attn_status_t attn_gpu_get(int32_t ordinal, const attn_gpu_t **gpu_out);

// Between enter and leave a context of the GPU is current in this thread: the caller's own if it is
// of this GPU, else the primary one, which the CUDA runtime shares and which is kept from the first
// use on. leave puts the caller's back. Contexts of other GPUs are never touched.
typedef struct attn_gpu_scope {
    const attn_gpu_t *gpu;
    int32_t was_pushed;
} attn_gpu_scope_t;
attn_status_t attn_gpu_enter(const attn_gpu_t *gpu, attn_gpu_scope_t *scope_out);
void attn_gpu_leave(const attn_gpu_scope_t *scope);

#endif
