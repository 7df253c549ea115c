// What the host hands to the kernel that surveys a mask tensor and block lists before a forward
// kernel.
#ifndef ATTN_SHARED_GPU_SURVEY_PARAMS_H
#define ATTN_SHARED_GPU_SURVEY_PARAMS_H

#include "gpu_forward_params.h"

enum {
    ATTN_SURVEY_MASK_THREADS = 512, // with a mask tensor; else a warp
    ATTN_SURVEY_BLOCKS = 32,        // key blocks of a word
};

// Lists of key blocks, one for each query block of each (b, h).
typedef struct attn_gpu_block_lists {
    const int32_t *count; // of the list numbered b * stride_b + h * stride_h + query block
    const int32_t *index; // per_row entries a list
    int64_t stride_b;
    int64_t stride_h;
    int64_t per_row;
    int32_t key_blocks; // there are
    int32_t block_m;    // query tiles that share a list
    int32_t block_n;    // tiles' key blocks of one of the lists'
} attn_gpu_block_lists_t;

typedef struct attn_gpu_survey_params {
    attn_gpu_score_tensor_t mask;
    int32_t mask_is_wide; // its rows are aligned to 16 bytes, keys lie side by side
    attn_gpu_block_lists_t lists;
    attn_gpu_tile_map_t map;
    // Tiles that the map tells apart: 1 where a stride of it is 0.
    int32_t batch;
    int32_t heads;
    int32_t m_tiles;
    int32_t rows; // likewise: s_q, or 1
    int32_t s_kv;
    int32_t row_words; // pairs of words of a query tile
    uint32_t *counter; // of the main kernel, to be 0; NULL: it has none
} attn_gpu_survey_params_t;

#endif
