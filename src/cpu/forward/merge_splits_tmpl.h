// Second pass of a forward run with split keys: joins the partial results of each row in the order
// of the splits, so the bits do not depend on who computed what.
#ifndef ATTN_CPU_MERGE_SPLITS_TMPL_H
#define ATTN_CPU_MERGE_SPLITS_TMPL_H

#include "forward_state_tmpl.h"

// The sequence that packed row belongs to: the last that begins at or before it.
static int64_t sequence_of_row(const attn_cpu_forward_t *run, int64_t row)
{
    int64_t low = 0;
    int64_t high = run->desc->batch;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (run->args->cu_seqlens_q[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Gives row = the joined output and returns its LSE.
static float merge_row(const attn_cpu_forward_t *run, int64_t part, float *row, int has_sink,
                       float sink)
{
    const int64_t d_v = run->desc->d_v;
    const int64_t splits = run->plan->num_splits;
    const int64_t rows = run->layout.part_rows;
    float top = -INFINITY;
    for (int64_t s = 0; s < splits; s++) {
        const float maximum = run->part_stat[(s * rows + part) * ATTN_CPU_PART_STATS];
        top = maximum > top ? maximum : top;
    }
    const float base = top == -INFINITY ? 0.0f : top;
    float total = 0.0f;
    float divisor = 0.0f;
    memset(row, 0, (size_t)d_v * sizeof *row);
    for (int64_t s = 0; s < splits; s++) {
        const float *stat = run->part_stat + (s * rows + part) * ATTN_CPU_PART_STATS;
        if (stat[1] == 0.0f) {
            continue;
        }
        // A sum of NaN alone has no maximum.
        const float weight = stat[0] == -INFINITY ? 1.0f : expf(stat[0] - base);
        const float *o = run->part_o + (s * rows + part) * d_v;
        total += weight * stat[1];
        divisor += weight * stat[2];
        for (int64_t e = 0; e < d_v; e++) {
            row[e] += weight * o[e];
        }
    }
    const row_result_t result = finish_row(top, total, has_sink, sink);
    for (int64_t e = 0; e < d_v; e++) {
        row[e] = total == 0.0f ? 0.0f : row[e] / divisor * result.share;
    }
    return result.lse;
}

static void merge_splits_task(const attn_cpu_forward_t *run, int64_t task, int32_t worker)
{
    const attn_desc_t *desc = run->desc;
    const attn_cpu_forward_layout_t *layout = &run->layout;
    float *scratch = (float *)(void *)(run->scratch + (size_t)worker * layout->scratch_bytes);
    forward_state_t state;
    state.run = run;
    state.desc = desc;
    state.row = scratch + layout->row_at;
    const int64_t begin = task * ATTN_CPU_MERGE_ROWS;
    for (int64_t part = begin; part < begin + ATTN_CPU_MERGE_ROWS && part < layout->part_rows;
         part++) {
        const int64_t rows_per_head = desc->varlen_q ? desc->total_q : desc->s_q;
        const int64_t head = part / rows_per_head;
        const int64_t row = part % rows_per_head;
        const int64_t h = desc->varlen_q ? head : head % desc->heads_q;
        if (desc->varlen_q && row >= run->args->cu_seqlens_q[desc->batch]) {
            continue;
        }
        state.b = desc->varlen_q ? sequence_of_row(run, row) : head / desc->heads_q;
        state.seq = attn_sequence_at(desc, run->args, state.b);
        const int64_t i = row - state.seq.q_row;
        const int has_sink = desc->has_sink && i < state.seq.mask.len_q;
        const float lse =
            merge_row(run, part, state.row, has_sink, has_sink ? run->args->sink[h] : 0.0f);
        store_o_row(&state, h, i, state.row);
        store_lse(&state, h, i, lse);
    }
}

#endif
