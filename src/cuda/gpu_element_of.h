// The kernels' name of a dtype (src/shared/gpu_element_type.h).
#ifndef ATTN_CUDA_GPU_ELEMENT_OF_H
#define ATTN_CUDA_GPU_ELEMENT_OF_H

#include "../shared/gpu_element_type.h"
#include "attn.h"

static inline int32_t attn_gpu_element_of(attn_dtype_t dtype)
{
    switch (dtype) {
    case ATTN_F32: return ATTN_GPU_F32;
    case ATTN_F16: return ATTN_GPU_F16;
    case ATTN_BF16: return ATTN_GPU_BF16;
    case ATTN_F64: return ATTN_GPU_F64;
    case ATTN_F8_E4M3:
    case ATTN_F8_E5M2: break;
    }
    return ATTN_GPU_BYTE;
}

#endif
