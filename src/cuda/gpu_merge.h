// Joining partial results on a GPU: see attn_merge in attn.h.
#ifndef ATTN_CUDA_GPU_MERGE_H
#define ATTN_CUDA_GPU_MERGE_H

#include "gpu_device.h"

// desc is checked and resolved. Errors: those of attn_gpu_shared_launch.
attn_status_t attn_gpu_merge(const attn_context_t *context, const attn_gpu_t *gpu,
                             const attn_merge_desc_t *desc, const float *o_part,
                             const float *lse_part, void *o, float *lse, void *stream);

#endif
