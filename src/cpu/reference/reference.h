// The parts that the reference's forward and backward pass share: one query head of one sequence,
// which keys a row sees, and the score of one pair. Everything is stated directly from the formula
// in attn.h, so that it can contradict the tiled kernels: no interval of keys, no tile, no fp32.
#ifndef ATTN_CPU_REFERENCE_H
#define ATTN_CPU_REFERENCE_H

#include <stdbool.h>

#include "../../core/plan.h"
#include "../../core/sequence.h"

// One query head of one batch entry, with the K/V head that it uses.
typedef struct reference_head {
    const attn_desc_t *desc;
    const attn_forward_args_t *args;
    attn_sequence_t seq;
    int64_t b;
    int64_t h_q;
    int64_t h_kv;
} reference_head_t;

// What one worker may write to: a piece of the run's workspace.
typedef struct reference_scratch {
    double *q;      // (d_qk)
    double *k;      // (d_qk)
    double *sum_qk; // (d_qk)
    double *v;      // (d_v)
    double *o;      // (d_v)
    double *do_;    // (d_v)
    double *sum_v;  // (d_v)
    double *row;    // (s_kv): the scores of a row
} reference_scratch_t;

// A score and what the chain rule needs of it.
typedef struct reference_score {
    double value;  // the final s[j]
    double by_dot; // d value / d dot(q, k)
} reference_score_t;

reference_head_t reference_head_at(const attn_desc_t *desc, const attn_forward_args_t *args,
                                   int64_t b, int64_t h_q);
reference_scratch_t reference_scratch_of(const attn_desc_t *desc, void *workspace, int32_t worker);

// Whether row i sees key j. Any i and j; q, k and v are not read.
bool reference_visible(const reference_head_t *head, int64_t i, int64_t j);
// q and k are row i's and key j's values, (d_qk). Needs: row i sees key j.
reference_score_t reference_score(const reference_head_t *head, int64_t i, int64_t j,
                                  const double *q, const double *k);
// What the weight of the pair is multiplied by: 1, or 0 or 1/keep with dropout.
double reference_dropout(const reference_head_t *head, int64_t i, int64_t j);

double reference_dot(const double *x, const double *y, int64_t d);

// Copy row i or key j out of memory, descaled.
void reference_load_q(const reference_head_t *head, int64_t i, double *out);
void reference_load_k(const reference_head_t *head, int64_t j, double *out);
void reference_load_v(const reference_head_t *head, int64_t j, double *out);

// Copy between a tensor laid out like q (o, do, dq) or like k (dk, dv) and a row of d values.
void reference_load_like_q(const reference_head_t *head, const attn_tensor_t *tensor,
                           const void *data, int64_t i, int64_t d, double *out);
void reference_store_like_q(const reference_head_t *head, const attn_tensor_t *tensor, void *data,
                            int64_t i, int64_t d, const double *values);
void reference_store_like_k(const reference_head_t *head, const attn_tensor_t *tensor, void *data,
                            int64_t j, int64_t d, const double *values);
// Element of lse or dlse that belongs to row i.
int64_t reference_lse_index(const reference_head_t *head, int64_t i);

// Rows of the pack behind the last sequence belong to no sequence: results there are zero.
void reference_zero_tail(const attn_tensor_t *tensor, void *data, int64_t begin, int64_t end,
                         int64_t heads, int64_t d);

attn_status_t reference_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                 void *workspace, void *stream);

#endif
