// What the host hands to the GPU backward kernels, the same to all three of a run: preprocess, main
// kernel, postprocess. Lengths and windows are 32-bit (the plan refuses larger ones), offsets and
// strides 64-bit, in elements.
#ifndef ATTN_SHARED_GPU_BACKWARD_PARAMS_H
#define ATTN_SHARED_GPU_BACKWARD_PARAMS_H

#include "gpu_forward_params.h"

// Scratch memory of a run, in the caller's workspace. Query blocks are counted over the sequences
// of a head, each of which begins with a block of its own: `blocks` of them.
typedef struct attn_gpu_backward_scratch {
    // (heads_q, blocks, 2, block_m): lse in units of log2, delta. A row without weight has lse
    // +inf; one that the tensor cores cannot be trusted with NaN in both.
    float *stats;
    // (heads_q, blocks, block_m, d_qk rounded up to 64), fragments of the main kernel: sums of
    // dS K, not scaled
    float *dq_sum;
    // (batch, heads_q, block_m, d): the last rows of each sequence, zeros behind them; NULL where
    // nothing else lies behind them anyway
    uint16_t *q_edge;
    uint16_t *do_edge;
    uint32_t *order;    // (heads_q, blocks): key tiles that have added; NULL: in any order
    uint32_t *suspects; // of each tile and warp: its dk or dv is not finite
    uint32_t *counter;  // of the main kernel's tiles
} attn_gpu_backward_scratch_t;

typedef struct attn_gpu_backward_params {
    // (d, s, h, b), boxes of 64 columns and 64 rows; 128-byte swizzle. Packed operands have b = 1.
    tensor_map q_map;
    tensor_map k_map;
    tensor_map v_map;
    tensor_map do_map;
    tensor_map q_edge_map;
    tensor_map do_edge_map;
    tensor_map dk_map;
    tensor_map dv_map;
    // The same operands for plain loads and stores; a result that is not wanted is NULL.
    attn_gpu_operand_t q;
    attn_gpu_operand_t k;
    attn_gpu_operand_t v;
    attn_gpu_operand_t o;
    attn_gpu_operand_t do_;
    attn_gpu_operand_t dq;
    attn_gpu_operand_t dk;
    attn_gpu_operand_t dv;
    const float *lse;
    const float *dlse; // NULL: none; strides of lse
    const float *sink; // (heads_q); NULL: none, or its gradient is not wanted
    float *dsink;
    int64_t lse_stride_b;
    int64_t lse_stride_h;
    int64_t lse_stride_s;
    int32_t d_qk;
    int32_t d_v;
    int32_t heads_q;
    int32_t group;  // heads_q / heads_kv
    int32_t blocks; // query blocks of a head, over all sequences
    int32_t align_top_left;
    int32_t window_left; // -1: unbounded
    int32_t window_right;
    float scale; // > 0
    attn_gpu_lengths_t lengths;
    attn_gpu_tiles_t tiles; // key blocks of the K/V heads; the counter is the scratch's or NULL
    attn_gpu_backward_scratch_t scratch;
} attn_gpu_backward_params_t;

#endif
