// Memory of the backward pass: how a plan's workspace is cut, and where rows of an operand lie.
#ifndef ATTN_CPU_BACKWARD_LAYOUT_H
#define ATTN_CPU_BACKWARD_LAYOUT_H

#include "../../core/plan.h"
#include "../../core/sequence.h"
#include "backward_tile.h"

// Scratch of one worker, in the shapes of backward_tile.h.
typedef struct attn_cpu_backward_scratch {
    float *k_t;
    float *v_t;
    float *k_rows;
    float *dk_t;
    float *dv_t;
    float *q;
    float *dout;
    float *p;
    float *ds;
    float *add;
    float *keep;
    float *bias;      // sums of the bias gradient, like p
    float *rows;      // [max(tile_q, widest panel)][max(q_stride, dout_stride)]: on the way
    uint32_t *rows2;  // the same of pairs along d: [widest panel][max(q2_stride, dout2_stride)]
    uint32_t *paired; // [widest panel / 2][q_stride]: rows2's rows two by two
    attn_cpu_backward_pairs_t pairs;
    float *lse;
    float *delta;
    float *row_begin;
    float *row_end;
    attn_range_t *strip_keys;
    uint8_t *bad_key; // [tile_kv]
} attn_cpu_backward_scratch_t;

// How a plan's workspace is cut, in floats: delta, partial dq, then a piece per worker; dsink's
// parts are doubles.
typedef struct attn_cpu_backward_layout {
    int64_t d_pad;      // d_qk rounded up to the widest panel: row length of the partial dq
    int64_t all_rows;   // rows of q in one head: batch * s_q, or the pack
    int64_t row_blocks; // of tile_q rows in a sequence
    int64_t q_stride;
    int64_t dout_stride;
    int64_t tile_stride;
    int32_t is_paired; // bfloat16 operands on an instruction set with pairs
    size_t delta_bytes;
    size_t dq_bytes;
    size_t dsink_bytes;
    size_t scratch_bytes; // of one worker
    size_t total_bytes;   // SIZE_MAX: does not fit
} attn_cpu_backward_layout_t;

typedef struct attn_cpu_backward_run {
    const attn_plan_t *plan;
    const attn_backward_args_t *args;
    const attn_cpu_backward_kernels_t *kernels;
    attn_cpu_backward_layout_t layout;
    float *delta;  // [heads_q][all_rows]
    float *dq;     // [num_splits][heads_q][all_rows][d_pad], without rows that a split cannot reach
    double *dsink; // [batch][heads_q][row_blocks]
    unsigned char *scratch;
} attn_cpu_backward_run_t;

// Whether the plan's operands run as bfloat16 pairs.
int attn_cpu_backward_is_paired(const attn_plan_t *plan);
attn_cpu_backward_layout_t attn_cpu_backward_layout(const attn_plan_t *plan);
attn_cpu_backward_scratch_t attn_cpu_backward_scratch_of(const attn_cpu_backward_run_t *run,
                                                         int32_t worker);

// Index of row i of a sequence and head in delta, and in each split's dq.
int64_t attn_cpu_backward_row(const attn_cpu_backward_run_t *run, const attn_sequence_t *seq,
                              int64_t b, int64_t h, int64_t i);

// Rows [i, i + rows) of an operand laid out like q, or keys of one laid out like k.
attn_cpu_rows_t attn_cpu_rows_like_q(const attn_sequence_t *seq, const attn_tensor_t *tensor,
                                     const void *data, int64_t h, int64_t i, int64_t rows,
                                     int64_t cols);
attn_cpu_rows_t attn_cpu_rows_like_k(const attn_sequence_t *seq, const attn_tensor_t *tensor,
                                     const void *data, int64_t h_kv, int64_t j, int64_t keys,
                                     int64_t cols);

// Rows that keys [begin, end) can reach: none without a key in use.
attn_range_t attn_cpu_backward_reach(const attn_sequence_t *seq, int64_t begin, int64_t end);

#endif
