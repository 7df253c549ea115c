// What the host hands to a GPU forward kernel: one struct by value. Lengths and windows are 32-bit
// here (the plan refuses larger ones), offsets and strides 64-bit, in elements.
#ifndef ATTN_SHARED_GPU_FORWARD_PARAMS_H
#define ATTN_SHARED_GPU_FORWARD_PARAMS_H

#include "gpu_lengths.h"
#include "tensor_map.h"

typedef struct attn_gpu_operand {
    const void *data;
    int64_t stride_b; // packed operands: 0
    int64_t stride_s;
    int64_t stride_h;
} attn_gpu_operand_t;

// How elements of a row lie, for kernels that gather.
typedef struct attn_gpu_elements {
    int64_t stride_d;
    int32_t copy_bytes; // 16 or 4: all rows can be copied in such pieces; 2: element by element
} attn_gpu_elements_t;

// What kernels that gather know beyond the rest.
typedef struct attn_gpu_gather {
    attn_gpu_elements_t q;
    attn_gpu_elements_t k;
    attn_gpu_elements_t v;
    attn_gpu_elements_t o;
    const int32_t *kv_batch_idx; // (batch), the entry of K and V; NULL: the sequence's own
    const int32_t *page_table;   // (batch, pages of a sequence); NULL: not paged
    int64_t page_table_stride_b;
    int32_t kv_batch; // entries of K and V
    int32_t page_size;
    int32_t num_pages;
} attn_gpu_gather_t;

// Tiles are numbered in sections of section_heads heads, so that the K and V of the heads that run
// at the same time stay in the L2 cache; within a section the query tiles with the most keys first.
typedef struct attn_gpu_tiles {
    int32_t m_tiles;       // query tiles of a sequence, by the bound s_q
    int32_t bh;            // batch * heads_q
    int32_t section_heads; // heads (of any batch entries) of a section
    uint32_t count;        // m_tiles * bh; count + CTAs fits into 32 bits
    uint32_t *counter;     // 0 at the start: CTAs take tiles as they come; NULL: dealt out
} attn_gpu_tiles_t;

// A (b, h, q, k) operand of the scores; strides in elements, 0 where it is broadcast.
typedef struct attn_gpu_score_tensor {
    const void *data;
    int64_t stride_b;
    int64_t stride_h;
    int64_t stride_q;
    int64_t stride_k;
    int32_t is_paired; // keys 2n and 2n + 1 of a row are one aligned access
} attn_gpu_score_tensor_t;

// What a mask tensor and block lists leave of tiles of BLOCK_M rows and BLOCK_N keys: of every 32
// key blocks two words, a bit for each block that some row may see, and one for each that all rows
// see whole. Strides in words, 0 where the tiles are alike.
typedef struct attn_gpu_tile_map {
    uint32_t *words;
    int64_t stride_b;
    int64_t stride_h;
    int64_t stride_m; // of a query tile
} attn_gpu_tile_map_t;

// What scores have beside the product; a kernel reads what it is compiled for.
typedef struct attn_gpu_score {
    float cap; // softcap, and what a product is multiplied by before it is capped: scale / softcap
    float cap_inner;
    const float *alibi_slopes; // of (b, h) at b * alibi_stride_b + h
    int64_t alibi_stride_b;
    attn_gpu_score_tensor_t bias;
    attn_gpu_score_tensor_t mask;
    attn_gpu_tile_map_t map;       // of mask and block lists
    const uint64_t *dropout_state; // seed, offset
    uint32_t dropout_threshold;
    float dropout_scale; // of kept weights
} attn_gpu_score_t;

typedef struct attn_gpu_forward_params {
    // (d, s, h, b), boxes of 64 columns: 64 rows of Q and O, BLOCK_N rows of K and V; 128-byte
    // swizzle. Packed operands have b = 1. Where heads share tiles, Q and O are (d, h, s, b), in
    // boxes of so many heads and 64 rows in all. Not set for kernels that gather.
    tensor_map q_map;
    tensor_map k_map;
    tensor_map v_map;
    tensor_map o_map;
    // The same operands for plain loads: rows that the tensor cores cannot be trusted with.
    attn_gpu_operand_t q;
    attn_gpu_operand_t k;
    attn_gpu_operand_t v;
    attn_gpu_operand_t o;
    float *lse; // NULL: not wanted
    int64_t lse_stride_b;
    int64_t lse_stride_h;
    int64_t lse_stride_s;
    int32_t d_qk;
    int32_t d_v;
    int32_t heads_q;
    int32_t group; // heads_q / heads_kv
    attn_gpu_lengths_t lengths;
    float scale; // > 0, but in kernels that modify scores
    int32_t align_top_left;
    int32_t window_left; // -1: unbounded
    int32_t window_right;
    const float *sink; // (heads_q); NULL: none
    attn_gpu_tiles_t tiles;
    attn_gpu_score_t score;
    attn_gpu_gather_t gather;
} attn_gpu_forward_params_t;

#endif
