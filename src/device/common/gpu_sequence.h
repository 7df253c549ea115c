// The lengths of one sequence, from whatever arrays give them.
#ifndef ATTN_DEVICE_GPU_SEQUENCE_H
#define ATTN_DEVICE_GPU_SEQUENCE_H

#include "../../shared/gpu_lengths.h"
#include "../ptx/memory_ops.h"

struct gpu_sequence {
    int32_t rows;     // of queries, in use or not
    int32_t keys;     // likewise
    int32_t q_start;  // row of the pack at which the sequence starts; 0 if not packed
    int32_t kv_start; // likewise
    int32_t len_q;    // rows in use
    int32_t len_kv;   // keys in use
    int32_t leftpad;
};

// An entry of an array of lengths, kept within the bounds that the descriptor promises: no load
// leaves its buffer, whatever the arrays hold.
DEVICE int32_t length_at(const int32_t *lengths, int32_t b, int32_t high)
{
    int32_t n = (int32_t)ld_global_u32(lengths + b);
    return n < 0 ? 0 : n > high ? high : n;
}

// Where sequence b starts in its pack; gives its length in *length.
DEVICE int32_t packed_start(const int32_t *cu_seqlens, int32_t b, int32_t total, int32_t longest,
                            int32_t *length)
{
    int32_t start = length_at(cu_seqlens, b, total);
    int32_t n = length_at(cu_seqlens, b + 1, total) - start;
    *length = n < 0 ? 0 : n > longest ? longest : n;
    return start;
}

DEVICE struct gpu_sequence sequence_at(const attn_gpu_lengths_t *l, int32_t b)
{
    struct gpu_sequence s;
    s.rows = l->s_q;
    s.keys = l->s_kv;
    s.q_start = 0;
    s.kv_start = 0;
    if (l->cu_seqlens_q) {
        s.q_start = packed_start(l->cu_seqlens_q, b, l->total_q, l->s_q, &s.rows);
    }
    if (l->cu_seqlens_kv) {
        s.kv_start = packed_start(l->cu_seqlens_kv, b, l->total_kv, l->s_kv, &s.keys);
    }
    s.len_q = l->seqused_q ? length_at(l->seqused_q, b, s.rows) : s.rows;
    s.len_kv = l->seqused_kv ? length_at(l->seqused_kv, b, s.keys) : s.keys;
    s.leftpad = l->leftpad_kv ? length_at(l->leftpad_kv, b, s.len_kv) : 0;
    return s;
}

#endif
