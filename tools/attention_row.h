// attention_row.h: the scores of one query row, in fp32, straight from the formula of attn.h.
//
// The tool's own, slow and plain reading of a descriptor: attn view draws it, and plain.c measures
// with it how much error a straightforward implementation makes. It shares no code with the
// library, so a slip in one shows against the other.
#ifndef ATTN_TOOLS_ATTENTION_ROW_H
#define ATTN_TOOLS_ATTENTION_ROW_H

#include "attn.h"

// Where sequence b lies and how long it is.
struct row_sequence {
    int64_t b;
    int64_t q_batch, q_row;   // add to the indices of q, o, lse
    int64_t kv_batch, kv_row; // likewise for k and v; paged: not used
    int64_t rows_q, len_q;    // rows there are, rows in use
    int64_t rows_kv, len_kv;
    int64_t leftpad;
    int64_t offset; // row i stands at key i + offset
};

struct row_sequence row_sequence_at(const attn_desc_t *desc, const attn_forward_args_t *args,
                                    int64_t b);

// Element offsets. Row i and key j count within the sequence. The K/V one is -1 for a bad page.
int64_t row_q_offset(const attn_tensor_t *tensor, const struct row_sequence *seq, int64_t i,
                     int64_t h);
int64_t row_kv_offset(const attn_desc_t *desc, const attn_forward_args_t *args,
                      const attn_tensor_t *tensor, const struct row_sequence *seq, int64_t j,
                      int64_t h_kv);
int64_t row_lse_offset(const attn_desc_t *desc, const struct row_sequence *seq, int64_t i,
                       int64_t h);
int64_t row_mask_offset(const attn_mask_tensor_t *mask, int64_t b, int64_t h, int64_t i, int64_t j);

// n elements from data[offset], `stride` apart, as fp32 times factor.
void row_load(attn_dtype_t dtype, const void *data, int64_t offset, int64_t stride, int64_t n,
              float factor, float *out);
// The descale factor of an operand's row, 1 without one.
float row_descale(const attn_descale_t *descale, const float *factors, int64_t b, int64_t h,
                  int64_t s);

// scores[j] for j in [0, len_kv): final scores, -inf where hidden. scratch holds 2 * d_qk floats.
// capped (may be NULL) gets the score after the softcap and before bias and ALiBi.
void row_scores(const attn_desc_t *desc, const attn_forward_args_t *args,
                const struct row_sequence *seq, int64_t h, int64_t i, float *scratch, float *scores,
                float *capped);

// From scores to weights in place; returns the lse (natural log). All 0 and -inf (or the sink) if
// nothing is seen. Dropout is not applied.
float row_softmax(const attn_desc_t *desc, const attn_forward_args_t *args, int64_t h, int64_t n,
                  float *scores);

// 1/sqrt(d_qk) for a NaN scale.
float row_scale(const attn_desc_t *desc);

#endif
