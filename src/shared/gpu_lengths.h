// The lengths of the sequences of a problem, as GPU kernels get them. 32-bit: the plan refuses
// larger ones.
#ifndef ATTN_SHARED_GPU_LENGTHS_H
#define ATTN_SHARED_GPU_LENGTHS_H

#include "shared_types.h"

// Arrays are NULL where all sequences are alike.
typedef struct attn_gpu_lengths {
    int32_t batch;
    int32_t s_q; // bounds, where lengths are given
    int32_t s_kv;
    int32_t total_q; // rows of a packed Q
    int32_t total_kv;
    const int32_t *cu_seqlens_q; // NULL: not packed
    const int32_t *cu_seqlens_kv;
    const int32_t *seqused_q;
    const int32_t *seqused_kv;
    const int32_t *leftpad_kv;
} attn_gpu_lengths_t;

#endif
