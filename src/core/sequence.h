// Where one sequence of a batch lies and how long it is: the one place that knows packed, dense,
// used and padded lengths.
#ifndef ATTN_CORE_SEQUENCE_H
#define ATTN_CORE_SEQUENCE_H

#include "../shared/block_range.h"
#include "attn.h"

typedef struct attn_sequence {
    int64_t q_row;   // first row within the stride_b entry (packed: within the pack)
    int64_t q_batch; // factor of stride_b: b, or 0 when packed
    int64_t rows_q;  // rows that outputs must be written for: seqused does not shorten it
    int64_t kv_row;
    int64_t kv_batch; // b, kv_batch_idx[b], or 0 when packed; paged: row of the page table
    int64_t rows_kv;  // rows of K and V that belong to the sequence, for the gradients
    attn_mask_shape_t mask;
} attn_sequence_t;

// desc is a plan's, args are checked.
static inline attn_sequence_t attn_sequence_at(const attn_desc_t *desc,
                                               const attn_forward_args_t *args, int64_t b)
{
    attn_sequence_t seq;
    seq.q_batch = desc->varlen_q ? 0 : b;
    seq.q_row = desc->varlen_q ? args->cu_seqlens_q[b] : 0;
    seq.rows_q = desc->varlen_q ? args->cu_seqlens_q[b + 1] - seq.q_row : desc->s_q;
    seq.kv_batch = desc->varlen_kv ? 0 : desc->has_kv_batch_idx ? args->kv_batch_idx[b] : b;
    seq.kv_row = desc->varlen_kv ? args->cu_seqlens_kv[b] : 0;
    seq.rows_kv = desc->varlen_kv ? args->cu_seqlens_kv[b + 1] - seq.kv_row : desc->s_kv;
    seq.mask.len_q = desc->has_seqused_q ? args->seqused_q[b] : seq.rows_q;
    seq.mask.len_kv = desc->has_seqused_kv ? args->seqused_kv[b] : seq.rows_kv;
    seq.mask.leftpad = desc->has_leftpad_kv ? args->leftpad_kv[b] : 0;
    seq.mask.offset = desc->align == ATTN_ALIGN_BOTTOM_RIGHT ? seq.mask.len_kv - seq.mask.len_q : 0;
    seq.mask.window_left = desc->window_left;
    seq.mask.window_right = desc->window_right;
    return seq;
}

#endif
