// Tensor maps: what TMA needs to know of an operand, encoded by the driver into 128 bytes that a
// kernel takes among its parameters. Encoding is arithmetic on the host; a run may do it.
#ifndef ATTN_CUDA_GPU_TENSOR_MAP_H
#define ATTN_CUDA_GPU_TENSOR_MAP_H

#include "gpu_device.h"

// Values of CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion.
enum {
    ATTN_TENSOR_U8 = 0,
    ATTN_TENSOR_F16 = 6,
    ATTN_TENSOR_F32 = 7,
    ATTN_TENSOR_BF16 = 9,
    ATTN_SWIZZLE_NONE = 0,
    ATTN_SWIZZLE_32 = 1,
    ATTN_SWIZZLE_64 = 2,
    ATTN_SWIZZLE_128 = 3,
    ATTN_L2_PROMOTION_NONE = 0,
    ATTN_L2_PROMOTION_128 = 2,
    ATTN_L2_PROMOTION_256 = 3,
};

#define ATTN_TENSOR_RANK_MAX 5

typedef struct attn_tensor_map_desc {
    const void *data; // 16-byte aligned device memory
    int32_t type;
    uint32_t rank;                                    // 3 to 5
    uint64_t dims[ATTN_TENSOR_RANK_MAX];              // elements, innermost first, >= 1
    uint64_t strides_bytes[ATTN_TENSOR_RANK_MAX - 1]; // of dims 1 .., multiples of 16, < 2^40
    uint32_t box[ATTN_TENSOR_RANK_MAX];               // elements that one instruction moves, <= 256
    int32_t swizzle;
    int32_t l2_promotion;
} attn_tensor_map_desc_t;

// Elements outside of dims read as zero. map_out: 128 bytes, 64-byte aligned. Errors:
// ATTN_DRIVER_ERROR (a rule above is broken).
attn_status_t attn_tensor_map_encode(const attn_gpu_t *gpu, const attn_tensor_map_desc_t *desc,
                                     void *map_out);

#endif
