// The reference's view of memory and of the mask: see reference.h. Where a key lies, whether a row
// sees it, what its score is. The passes themselves are in reference.c and reference_backward.c.
#include "reference.h"

#include <math.h>

#include "../../core/element.h"
#include "../../shared/philox.h"

reference_head_t reference_head_at(const attn_desc_t *desc, const attn_forward_args_t *args,
                                   int64_t b, int64_t h_q)
{
    return (reference_head_t){
        .desc = desc,
        .args = args,
        .seq = attn_sequence_at(desc, args, b),
        .b = b,
        .h_q = h_q,
        .h_kv = h_q / (desc->heads_q / desc->heads_kv),
    };
}

reference_scratch_t reference_scratch_of(const attn_desc_t *desc, void *workspace, int32_t worker)
{
    const int64_t per_worker = 3 * desc->d_qk + 4 * desc->d_v + desc->s_kv;
    reference_scratch_t scratch;
    scratch.q = (double *)workspace + worker * per_worker;
    scratch.k = scratch.q + desc->d_qk;
    scratch.sum_qk = scratch.k + desc->d_qk;
    scratch.v = scratch.sum_qk + desc->d_qk;
    scratch.o = scratch.v + desc->d_v;
    scratch.do_ = scratch.o + desc->d_v;
    scratch.sum_v = scratch.do_ + desc->d_v;
    scratch.row = scratch.sum_v + desc->d_v;
    return scratch;
}

double reference_dot(const double *x, const double *y, int64_t d)
{
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++) {
        sum += x[c] * y[c];
    }
    return sum;
}

// ---------------------------------------------------------------------------------------------
// Memory

static void load_row(const attn_tensor_t *tensor, const void *data, int64_t start, int64_t d,
                     double *out)
{
    for (int64_t c = 0; c < d; c++) {
        out[c] = attn_load_f64(tensor->dtype, data, start + c * tensor->stride_d);
    }
}

static void store_row(const attn_tensor_t *tensor, void *data, int64_t start, int64_t d,
                      const double *values)
{
    for (int64_t c = 0; c < d; c++) {
        attn_store_f64(tensor->dtype, data, start + c * tensor->stride_d, values[c]);
    }
}

static int64_t start_like_q(const reference_head_t *head, const attn_tensor_t *tensor, int64_t i)
{
    return head->seq.q_batch * tensor->stride_b + (head->seq.q_row + i) * tensor->stride_s +
           head->h_q * tensor->stride_h;
}

// The page that holds key j, or -1 for an id that names no page.
static int64_t page_of(const reference_head_t *head, int64_t j)
{
    const attn_desc_t *desc = head->desc;
    const int64_t slot = head->seq.kv_batch * desc->page_table_stride_b + j / desc->page_size;
    const int32_t page = head->args->page_table[slot];
    return page >= 0 && page < desc->num_pages ? page : -1;
}

static int64_t start_like_k(const reference_head_t *head, const attn_tensor_t *tensor, int64_t j)
{
    const int64_t in_head = head->h_kv * tensor->stride_h;
    if (head->desc->paged_kv) {
        return page_of(head, j) * tensor->stride_b + j % head->desc->page_size * tensor->stride_s +
               in_head;
    }
    return head->seq.kv_batch * tensor->stride_b + (head->seq.kv_row + j) * tensor->stride_s +
           in_head;
}

// Multiplies row s of the sequence by its stored factor, if there are factors.
static void descale_row(const attn_descale_t *descale, const float *factors, int64_t b, int64_t h,
                        int64_t s, int64_t d, double *row)
{
    if (!descale->present) {
        return;
    }
    const double factor = factors[b * descale->stride_b + h * descale->stride_h +
                                  s / descale->rows * descale->stride_s];
    for (int64_t c = 0; c < d; c++) {
        row[c] *= factor;
    }
}

void reference_load_q(const reference_head_t *head, int64_t i, double *out)
{
    const attn_desc_t *desc = head->desc;
    load_row(&desc->q, head->args->q, start_like_q(head, &desc->q, i), desc->d_qk, out);
    descale_row(&desc->q_descale, head->args->q_descale, head->b, head->h_q, i, desc->d_qk, out);
}

void reference_load_k(const reference_head_t *head, int64_t j, double *out)
{
    const attn_desc_t *desc = head->desc;
    load_row(&desc->k, head->args->k, start_like_k(head, &desc->k, j), desc->d_qk, out);
    descale_row(&desc->k_descale, head->args->k_descale, head->b, head->h_kv, j, desc->d_qk, out);
}

void reference_load_v(const reference_head_t *head, int64_t j, double *out)
{
    const attn_desc_t *desc = head->desc;
    load_row(&desc->v, head->args->v, start_like_k(head, &desc->v, j), desc->d_v, out);
    descale_row(&desc->v_descale, head->args->v_descale, head->b, head->h_kv, j, desc->d_v, out);
}

void reference_load_like_q(const reference_head_t *head, const attn_tensor_t *tensor,
                           const void *data, int64_t i, int64_t d, double *out)
{
    load_row(tensor, data, start_like_q(head, tensor, i), d, out);
}

void reference_store_like_q(const reference_head_t *head, const attn_tensor_t *tensor, void *data,
                            int64_t i, int64_t d, const double *values)
{
    store_row(tensor, data, start_like_q(head, tensor, i), d, values);
}

void reference_store_like_k(const reference_head_t *head, const attn_tensor_t *tensor, void *data,
                            int64_t j, int64_t d, const double *values)
{
    store_row(tensor, data, start_like_k(head, tensor, j), d, values);
}

int64_t reference_lse_index(const reference_head_t *head, int64_t i)
{
    const attn_desc_t *desc = head->desc;
    return head->seq.q_batch * desc->lse_stride_b + head->h_q * desc->lse_stride_h +
           (head->seq.q_row + i) * desc->lse_stride_s;
}

void reference_zero_tail(const attn_tensor_t *tensor, void *data, int64_t begin, int64_t end,
                         int64_t heads, int64_t d)
{
    for (int64_t row = begin; row < end; row++) {
        for (int64_t h = 0; h < heads; h++) {
            const int64_t start = row * tensor->stride_s + h * tensor->stride_h;
            for (int64_t c = 0; c < d; c++) {
                attn_store_f64(tensor->dtype, data, start + c * tensor->stride_d, 0.0);
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Mask

static int64_t mask_tensor_index(const reference_head_t *head, const attn_mask_tensor_t *tensor,
                                 int64_t i, int64_t j)
{
    return head->b * tensor->stride_b + head->h_q * tensor->stride_h + i * tensor->stride_q +
           j * tensor->stride_k;
}

static double bias_at(const reference_head_t *head, int64_t i, int64_t j)
{
    const attn_mask_tensor_t *bias = &head->desc->bias;
    return attn_load_f64(bias->dtype, head->args->bias, mask_tensor_index(head, bias, i, j));
}

// Whether key j's block is in the list of row i's block.
static bool block_listed(const reference_head_t *head, int64_t i, int64_t j)
{
    const attn_desc_t *desc = head->desc;
    const int64_t list =
        head->b * desc->block_stride_b + head->h_q * desc->block_stride_h + i / desc->block_q;
    const int32_t *blocks = head->args->block_index + list * desc->blocks_per_row;
    for (int32_t n = 0; n < head->args->block_count[list]; n++) {
        if (blocks[n] == j / desc->block_kv) {
            return true;
        }
    }
    return false;
}

bool reference_visible(const reference_head_t *head, int64_t i, int64_t j)
{
    const attn_desc_t *desc = head->desc;
    const attn_mask_shape_t *shape = &head->seq.mask;
    if (i < 0 || i >= shape->len_q || j < shape->leftpad || j < 0 || j >= shape->len_kv) {
        return false;
    }
    const int64_t to_the_right = j - (i + shape->offset);
    if (shape->window_right >= 0 && to_the_right > shape->window_right) {
        return false;
    }
    if (shape->window_left >= 0 && -to_the_right > shape->window_left) {
        return false;
    }
    if (desc->mask.present && head->args->mask[mask_tensor_index(head, &desc->mask, i, j)] == 0) {
        return false;
    }
    if (desc->bias.present && bias_at(head, i, j) == -INFINITY) {
        return false;
    }
    if (desc->block_sparse && !block_listed(head, i, j)) {
        return false;
    }
    return !desc->paged_kv || page_of(head, j) >= 0;
}

// ---------------------------------------------------------------------------------------------
// Score

double reference_dropout(const reference_head_t *head, int64_t i, int64_t j)
{
    const uint32_t threshold = attn_dropout_threshold(head->desc->dropout_p);
    if (threshold == 0) {
        return 1.0;
    }
    const uint64_t *state = head->args->dropout_state;
    const int64_t bh = head->b * head->desc->heads_q + head->h_q;
    if (!attn_dropout_keep(state[0], state[1], bh, i, j, threshold)) {
        return 0.0;
    }
    return 65536.0 / (65536.0 - threshold);
}

reference_score_t reference_score(const reference_head_t *head, int64_t i, int64_t j,
                                  const double *q, const double *k)
{
    const attn_desc_t *desc = head->desc;
    reference_score_t score;
    score.value = desc->scale * reference_dot(q, k, desc->d_qk);
    score.by_dot = desc->scale;
    if (desc->softcap > 0.0f) {
        const double tanh_s = tanh(score.value / desc->softcap);
        score.value = desc->softcap * tanh_s;
        score.by_dot *= 1.0 - tanh_s * tanh_s;
    }
    if (desc->bias.present) {
        score.value += bias_at(head, i, j);
    }
    if (desc->has_alibi) {
        const double slope = head->args->alibi_slopes[head->b * desc->alibi_stride_b + head->h_q];
        score.value -= slope * fabs((double)(i + head->seq.mask.offset - j));
    }
    return score;
}
