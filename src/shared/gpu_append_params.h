// What the host hands to the kernel that appends tokens to a K/V cache. Strides count elements.
#ifndef ATTN_SHARED_GPU_APPEND_PARAMS_H
#define ATTN_SHARED_GPU_APPEND_PARAMS_H

#include "gpu_element_type.h"
#include "shared_types.h"

typedef struct attn_gpu_strides {
    int64_t b;
    int64_t s;
    int64_t h;
    int64_t d;
} attn_gpu_strides_t;

// Rows that are moved for each token: the keys, the values, or the queries.
typedef struct attn_gpu_append_operand {
    const void *from;
    void *to;
    attn_gpu_strides_t from_strides; // of new tokens
    attn_gpu_strides_t to_strides;   // of the cache, or of new tokens
    int32_t heads;                   // 0: not wanted
    int32_t d;
    int32_t rotated_dims; // the first dims, in pairs; the others are copied
    int32_t type;         // ATTN_GPU_*
    int32_t is_cached;    // it goes to the token's place in the cache
    int32_t is_vector;    // 16 bytes of a row are one aligned access, on both sides
} attn_gpu_append_operand_t;

enum { ATTN_GPU_APPEND_OPERANDS = 3 };

typedef struct attn_gpu_append_params {
    attn_gpu_append_operand_t operands[ATTN_GPU_APPEND_OPERANDS];
    const int32_t *cache_seqlens;   // (batch)
    const int32_t *cu_seqlens_new;  // (batch + 1); NULL: not packed
    const int32_t *cache_batch_idx; // (batch); NULL: sequence b has entry b
    const int32_t *page_table;      // (batch, pages_per_seq); NULL: not paged
    const float *rotary_cos;        // (rotary_positions, rotary_dim / 2)
    const float *rotary_sin;
    int64_t page_table_stride_b;
    int64_t page_size;
    int64_t entries;   // of the cache: pages or batch entries
    int64_t positions; // that a sequence has room for, and the rotation tables
    int64_t tokens;    // batch * s_new, or rows of the pack
    int64_t s_new;
    int64_t batch;
    int32_t is_interleaved; // pairs are neighbours; else half of the rotated dims apart
} attn_gpu_append_params_t;

#endif
