// What the portable part of the backward pass (backward_block.c) and its code per instruction set
// (backward_tmpl.h) share: one tile of rows x keys with everything it reads and adds to. Scratch
// memory is laid out for the one matrix product, which wants its right operand in panels of `panel`
// columns:
//
//   key block, loaded once per block             row block, loaded once per tile
//   k_t    [block_keys/panel][d_qk][panel]       q      [rows][q_stride]
//   v_t    [block_keys/panel][d_v][panel]        dout   [rows][dout_stride]
//   k_rows [d_pad/panel][block_keys][panel]      lse    [rows], delta [rows]
//
// Bfloat16 inputs run on pairs where the instruction set has them: the same operands as uint32, two
// bfloat16 each, the even one in the low half, along the dimension that the product sums over:
//
//   k_t2    [block_keys/panel][d_qk/2][panel]    q2     [rows][q2_stride]             along d
//   v_t2    [block_keys/panel][d_v/2][panel]     dout2  [rows][dout2_stride]          along d
//   k_rows2 [d_pad/panel][block_keys/2][panel]   ds_rows2 [rows][tile_stride/2]       along keys
//   p2, ds2 [rows/2][tile_stride]                q_t2, dout_t2 [rows/2][q_stride]     along rows
//
// Odd ends are filled with zeros.
//
//   S  = q x k_t        dP = dout x v_t      p = exp(S - lse), ds = p * (dP - delta)
//   dv_t += dout^T x p  dk_t += q^T x ds     dq += ds x k_rows; shaped like v_t, k_t, q
#ifndef ATTN_CPU_BACKWARD_TILE_H
#define ATTN_CPU_BACKWARD_TILE_H

#include <stddef.h>
#include <stdint.h>

#include "../../shared/block_range.h"
#include "attn.h"

// Masks cut the work of a tile in strips of so many rows by panels of keys.
#define ATTN_CPU_BACKWARD_STRIP 16
// The widest panel of any instruction set: block sizes and padded dims are multiples of it.
#define ATTN_CPU_BACKWARD_PANEL_MAX 32

// The operands as pairs.
typedef struct attn_cpu_backward_pairs {
    uint32_t *k_t2;
    uint32_t *v_t2;
    uint32_t *k_rows2;
    uint32_t *q2;
    uint32_t *q_t2;
    uint32_t *dout2;
    uint32_t *dout_t2;
    uint32_t *p2;
    uint32_t *ds2;
    uint32_t *ds_rows2;
    int64_t q2_stride;
    int64_t dout2_stride;
} attn_cpu_backward_pairs_t;

typedef struct attn_cpu_backward_tile {
    int64_t d_qk;
    int64_t d_v;
    int64_t block_keys; // room for keys in the key block
    int64_t keys;       // keys in use, <= block_keys
    const float *k_t;
    const float *v_t;
    const float *k_rows;
    float *dk_t; // NULL: dk is not wanted
    float *dv_t; // NULL: dv is not wanted

    int64_t rows;
    float *q;
    int64_t q_stride;
    float *dout;
    int64_t dout_stride;
    const float *lse;
    const float *delta;
    float *dq; // [rows][dq_stride], whole panels are written; NULL: dq is not wanted
    int64_t dq_stride;

    float *p; // [rows][tile_stride]; on pairs p and ds are of one panel and only pass through
    float *ds;
    const attn_cpu_backward_pairs_t *pairs; // NULL: fp32
    int64_t tile_stride;

    float scale;
    float softcap;   // 0: off
    int32_t to_bias; // 1: ds is the bias's gradient, without scale and softcap's derivative
    // 0: every row sees every key and nothing below is read but strip_keys
    int32_t masked;
    const attn_range_t *strip_keys; // keys that any row of a strip sees, from the block's first key
    const float *row_begin;         // [rows] the keys that a row sees, from the block's first key
    const float *row_end;
    const float *add;  // [rows][tile_stride] of score_tile.h, or NULL
    const float *keep; // [rows][tile_stride] of score_tile.h, or NULL
} attn_cpu_backward_tile_t;

// Rows of an operand in memory, of the tensor's dtype, stride_s and stride_d.
typedef struct attn_cpu_rows {
    const attn_tensor_t *tensor;
    unsigned char *data; // element (0, 0)
    int64_t rows;
    int64_t cols;
} attn_cpu_rows_t;

typedef struct attn_cpu_backward_kernels {
    int32_t panel;
    // Copy between memory and fp32 rows at values[row * stride + col].
    void (*load)(const attn_cpu_rows_t *from, float *values, int64_t stride);
    void (*store)(const attn_cpu_rows_t *to, const float *values, int64_t stride);
    // Rows [cols of panel] to columns and back: transposed[col][panel], rows <= panel; missing rows
    // become 0.
    void (*transpose_in)(const float *values, int64_t stride, int64_t rows, int64_t cols,
                         float *transposed);
    void (*transpose_out)(const float *transposed, int64_t rows, int64_t cols, float *values,
                          int64_t stride);
    // delta[row] = dot(a[row], b[row])
    void (*row_dots)(const float *a, const float *b, int64_t stride, int64_t rows, int64_t cols,
                     float *delta);
    // Fills p and ds where strip_keys says so; hidden elements become exactly 0.
    void (*scores)(const attn_cpu_backward_tile_t *tile);
    // Adds p and ds to dv_t, dk_t, dq.
    void (*accumulate)(const attn_cpu_backward_tile_t *tile);
    // The same on pairs; all NULL where the instruction set has none.
    void (*load_pairs)(const attn_cpu_rows_t *from, uint32_t *pairs, int64_t stride);
    void (*transpose_pairs)(const uint32_t *pairs, int64_t stride, int64_t cols2,
                            uint32_t *transposed);
    // Rows 2r and 2r + 1, pairs along d, to row r of pairs along rows; an odd last row is paired
    // with zeros.
    void (*pair_rows)(const uint32_t *pairs, int64_t stride, int64_t rows, int64_t cols2,
                      uint32_t *paired, int64_t paired_stride);
    void (*scores_pairs)(const attn_cpu_backward_tile_t *tile);
    void (*accumulate_pairs)(const attn_cpu_backward_tile_t *tile);
} attn_cpu_backward_kernels_t;

#endif
