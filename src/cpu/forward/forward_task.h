// What a forward run hands to the code of an instruction set: the problem, how it is cut into
// tasks, and scratch memory.
//
// Query heads that share a K/V head form a group, and their rows are packed: packed row r of a
// group is query row r / group of the group's head r % group. A panel is as many packed rows as the
// matrix product has lanes; a task is a few panels of one (sequence, K/V head) that share each
// loaded tile of keys, or with split keys one piece of the keys of them.
#ifndef ATTN_CPU_FORWARD_TASK_H
#define ATTN_CPU_FORWARD_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "../../core/plan.h"

// Most panels of a task, and most rows of a decode task, whose lanes are dims.
#define ATTN_CPU_PANELS_MAX 8
#define ATTN_CPU_DECODE_ROWS_MAX 8
// Most K/V heads of such a task: heads that lie side by side are read together.
#define ATTN_CPU_HEADS_MAX 8
// Keys per tile; tiles begin at multiples of it, so that bits do not depend on where a window or a
// split begins.
#define ATTN_CPU_TILE_KV 64

// Sizes in floats unless named otherwise; every part begins at a multiple of 64 bytes.
typedef struct attn_cpu_forward_layout {
    int64_t group;     // query heads per K/V head
    int64_t panel;     // packed rows per panel
    int64_t panels;    // panels per task
    int64_t task_rows; // packed rows per task
    int64_t heads;     // K/V heads per task: 1, unless rows are few
    int64_t blocks;    // tasks per (sequence, K/V head, split) if no sequence is packed
    int64_t k_stride;  // row of a loaded K tile
    int64_t v_stride;
    int64_t tile_at; // offsets in a worker's scratch: K tile, then V tile
    int64_t v_tile_at;
    int64_t score_at; // scores, added terms, dropout factors: (ATTN_CPU_TILE_KV, panel) each
    int64_t row_at;   // one converted row
    // per panel: Q (d_qk, panel), O (d_v, panel), maximum, sum and divisor (panel)
    int64_t panel_at;
    int64_t panel_stride;
    size_t scratch_bytes; // per worker
    int64_t part_rows;    // rows of all partial results of one split; 0 with one split
} attn_cpu_forward_layout_t;

// What a partial result has beside its o: the maximum, and relative to it the sum of the
// weights and the divisor of o, which differ where the weights were rounded before they met V.
#define ATTN_CPU_PART_STATS 3

typedef struct attn_cpu_forward {
    const attn_plan_t *plan;
    const attn_desc_t *desc;
    const attn_forward_args_t *args;
    attn_cpu_forward_layout_t layout;
    int64_t tasks;
    // (batch + 1): first block of each packed sequence; NULL if none is packed
    const int64_t *block_begin;
    unsigned char *scratch; // (workers, scratch_bytes)
    float *part_o;    // (num_splits, part_rows, d_v), not divided by the sum; NULL with one split
    float *part_stat; // (num_splits, part_rows, ATTN_CPU_PART_STATS)
} attn_cpu_forward_t;

// Rows that one task of the second pass merges.
#define ATTN_CPU_MERGE_ROWS 16

// Row of the partial results, of (b, h, i): the order of the outputs' heads, then rows.
static inline int64_t attn_cpu_part_row(const attn_desc_t *desc, int64_t b, int64_t h,
                                        int64_t q_row, int64_t i)
{
    return desc->varlen_q ? h * desc->total_q + q_row + i : (b * desc->heads_q + h) * desc->s_q + i;
}

#endif
