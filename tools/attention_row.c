// attention_row.c: see attention_row.h.
#include "attention_row.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "io/dtype.h"
#include "problem.h"

struct row_sequence row_sequence_at(const attn_desc_t *desc, const attn_forward_args_t *args,
                                    int64_t b)
{
    struct row_sequence s = {.b = b, .q_batch = b, .kv_batch = b};
    s.rows_q = desc->s_q;
    s.rows_kv = desc->s_kv;
    if (desc->varlen_q) {
        s.q_batch = 0;
        s.q_row = args->cu_seqlens_q[b];
        s.rows_q = args->cu_seqlens_q[b + 1] - s.q_row;
    }
    if (desc->varlen_kv) {
        s.kv_batch = 0;
        s.kv_row = args->cu_seqlens_kv[b];
        s.rows_kv = args->cu_seqlens_kv[b + 1] - s.kv_row;
    } else if (desc->has_kv_batch_idx) {
        s.kv_batch = args->kv_batch_idx[b];
    }
    s.len_q = desc->has_seqused_q ? args->seqused_q[b] : s.rows_q;
    s.len_kv = desc->has_seqused_kv ? args->seqused_kv[b] : s.rows_kv;
    s.leftpad = desc->has_leftpad_kv ? args->leftpad_kv[b] : 0;
    s.offset = desc->align == ATTN_ALIGN_TOP_LEFT ? 0 : s.len_kv - s.len_q;
    return s;
}

int64_t row_q_offset(const attn_tensor_t *tensor, const struct row_sequence *seq, int64_t i,
                     int64_t h)
{
    return seq->q_batch * tensor->stride_b + (seq->q_row + i) * tensor->stride_s +
           h * tensor->stride_h;
}

int64_t row_kv_offset(const attn_desc_t *desc, const attn_forward_args_t *args,
                      const attn_tensor_t *tensor, const struct row_sequence *seq, int64_t j,
                      int64_t h_kv)
{
    int64_t batch = seq->kv_batch;
    int64_t row = seq->kv_row + j;
    if (desc->paged_kv) {
        batch = args->page_table[seq->kv_batch * desc->page_table_stride_b + j / desc->page_size];
        row = j % desc->page_size;
        if (batch < 0 || batch >= desc->num_pages) {
            return -1;
        }
    }
    return batch * tensor->stride_b + row * tensor->stride_s + h_kv * tensor->stride_h;
}

int64_t row_lse_offset(const attn_desc_t *desc, const struct row_sequence *seq, int64_t i,
                       int64_t h)
{
    return seq->q_batch * desc->lse_stride_b + h * desc->lse_stride_h +
           (seq->q_row + i) * desc->lse_stride_s;
}

int64_t row_mask_offset(const attn_mask_tensor_t *mask, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return b * mask->stride_b + h * mask->stride_h + i * mask->stride_q + j * mask->stride_k;
}

void row_load(attn_dtype_t dtype, const void *data, int64_t offset, int64_t stride, int64_t n,
              float factor, float *out)
{
    const enum io_dtype io = problem_io_dtype(dtype);
    const size_t bytes = io_dtype_bytes(io);
    const unsigned char *at = (const unsigned char *)data + offset * (int64_t)bytes;
    for (int64_t i = 0; i < n; i++, at += stride * (int64_t)bytes) {
        if (dtype == ATTN_F32) {
            memcpy(&out[i], at, sizeof(out[i]));
        } else {
            out[i] = (float)io_dtype_decode(io, at);
        }
        out[i] *= factor;
    }
}

float row_descale(const attn_descale_t *descale, const float *factors, int64_t b, int64_t h,
                  int64_t s)
{
    if (!descale->present) {
        return 1.0f;
    }
    return factors[b * descale->stride_b + h * descale->stride_h +
                   s / descale->rows * descale->stride_s];
}

static bool block_is_listed(const attn_desc_t *desc, const attn_forward_args_t *args, int64_t b,
                            int64_t h, int64_t i, int64_t j)
{
    const int64_t list = b * desc->block_stride_b + h * desc->block_stride_h + i / desc->block_q;
    const int32_t *index = args->block_index + list * desc->blocks_per_row;
    for (int32_t n = 0; n < args->block_count[list]; n++) {
        if (index[n] == j / desc->block_kv) {
            return true;
        }
    }
    return false;
}

// Whether row i of head h sees key j: lengths, windows, mask tensor and blocks, not the bias.
static bool row_sees(const attn_desc_t *desc, const attn_forward_args_t *args,
                     const struct row_sequence *seq, int64_t h, int64_t i, int64_t j)
{
    const int64_t distance = j - (i + seq->offset);
    const int64_t right = desc->causal ? 0 : desc->window_right;
    if (i >= seq->len_q || j < seq->leftpad || j >= seq->len_kv) {
        return false;
    }
    if ((right >= 0 && distance > right) ||
        (desc->window_left >= 0 && -distance > desc->window_left)) {
        return false;
    }
    if (desc->mask.present && !args->mask[row_mask_offset(&desc->mask, seq->b, h, i, j)]) {
        return false;
    }
    return !desc->block_sparse || block_is_listed(desc, args, seq->b, h, i, j);
}

float row_scale(const attn_desc_t *desc)
{
    return isnan(desc->scale) ? 1.0f / sqrtf((float)desc->d_qk) : desc->scale;
}

// The score of a seen pair before bias and ALiBi. q is loaded; k is scratch.
static float score_of(const attn_desc_t *desc, const attn_forward_args_t *args,
                      const struct row_sequence *seq, int64_t h_kv, int64_t j, const float *q,
                      float *k)
{
    const int64_t at = row_kv_offset(desc, args, &desc->k, seq, j, h_kv);
    if (at < 0 && desc->paged_kv) {
        return -INFINITY;
    }
    const float factor = row_descale(&desc->k_descale, args->k_descale, seq->b, h_kv, j);
    row_load(desc->k.dtype, args->k, at, desc->k.stride_d, desc->d_qk, factor, k);
    float sum = 0.0f;
    for (int64_t d = 0; d < desc->d_qk; d++) {
        sum += q[d] * k[d];
    }
    sum *= row_scale(desc);
    return desc->softcap > 0.0f ? desc->softcap * tanhf(sum / desc->softcap) : sum;
}

void row_scores(const attn_desc_t *desc, const attn_forward_args_t *args,
                const struct row_sequence *seq, int64_t h, int64_t i, float *scratch, float *scores,
                float *capped)
{
    const int64_t h_kv = h / (desc->heads_q / desc->heads_kv);
    float *q = scratch;
    float *k = scratch + desc->d_qk;
    row_load(desc->q.dtype, args->q, row_q_offset(&desc->q, seq, i, h), desc->q.stride_d,
             desc->d_qk, row_descale(&desc->q_descale, args->q_descale, seq->b, h, i), q);
    for (int64_t j = 0; j < seq->len_kv; j++) {
        float s = -INFINITY;
        if (row_sees(desc, args, seq, h, i, j)) {
            s = score_of(desc, args, seq, h_kv, j, q, k);
        }
        if (capped) {
            capped[j] = s;
        }
        if (desc->bias.present && s != -INFINITY) {
            float bias;
            row_load(desc->bias.dtype, args->bias, row_mask_offset(&desc->bias, seq->b, h, i, j), 0,
                     1, 1.0f, &bias);
            // An additive -inf hides, whatever the score is.
            s = bias == -INFINITY ? -INFINITY : s + bias;
        }
        if (desc->has_alibi && s != -INFINITY) {
            const float slope = args->alibi_slopes[seq->b * desc->alibi_stride_b + h];
            s -= slope * fabsf((float)(i + seq->offset - j));
        }
        scores[j] = s;
    }
}

float row_softmax(const attn_desc_t *desc, const attn_forward_args_t *args, int64_t h, int64_t n,
                  float *scores)
{
    float largest = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        largest = fmaxf(largest, scores[j]);
    }
    const float sink = desc->has_sink ? args->sink[h] : -INFINITY;
    const float base = fmaxf(largest, sink);
    if (largest == -INFINITY) {
        bool has_nan = false;
        for (int64_t j = 0; j < n; j++) {
            has_nan = has_nan || isnan(scores[j]);
            scores[j] = isnan(scores[j]) ? scores[j] : 0.0f;
        }
        return has_nan ? NAN : sink;
    }
    float sum = desc->has_sink ? expf(sink - base) : 0.0f;
    for (int64_t j = 0; j < n; j++) {
        scores[j] = expf(scores[j] - base);
        sum += scores[j];
    }
    for (int64_t j = 0; j < n; j++) {
        scores[j] /= sum;
    }
    return base + logf(sum);
}
