// Writing new keys and values into a cache on a GPU: see attn_append in attn.h.
#ifndef ATTN_CUDA_GPU_APPEND_H
#define ATTN_CUDA_GPU_APPEND_H

#include "gpu_device.h"

// desc is checked and resolved, the pointers are there. Errors: those of attn_gpu_shared_launch.
attn_status_t attn_gpu_append(const attn_context_t *context, const attn_gpu_t *gpu,
                              const attn_append_desc_t *desc, const attn_append_args_t *args,
                              void *stream);

#endif
