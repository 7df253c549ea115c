// plain.c: see plain.h.
#include "plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_row.h"

// What one row needs; arrays of floats, lengths in the comments.
struct row_state {
    const attn_desc_t *desc;
    const attn_backward_args_t *args;
    struct row_sequence seq;
    int64_t h, h_kv, i;
    float *scratch; // 2 * d_qk
    float *weights; // s_kv
    float *capped;  // s_kv, scores after the softcap
    float *v;       // d_v
    float *do_;     // d_v
    float *q, *k;   // d_qk
};

static float *floats(struct plain_results *results, enum problem_operand which)
{
    return results->tensors[which].data;
}

// The type that weights are rounded to. fp8 inputs: a framework would widen them to bf16.
static attn_dtype_t weight_dtype(const attn_desc_t *desc)
{
    const bool is_fp8 = desc->q.dtype == ATTN_F8_E4M3 || desc->q.dtype == ATTN_F8_E5M2;
    return is_fp8 ? ATTN_BF16 : desc->q.dtype;
}

static float rounded(attn_dtype_t dtype, float value)
{
    if (dtype == ATTN_F32 || dtype == ATTN_F64) {
        return value;
    }
    unsigned char element[8];
    io_dtype_encode(problem_io_dtype(dtype), value, element);
    return (float)io_dtype_decode(problem_io_dtype(dtype), element);
}

static void load_v(const struct row_state *r, int64_t j, float *out)
{
    const attn_desc_t *d = r->desc;
    const attn_forward_args_t *in = &r->args->in;
    const int64_t at = row_kv_offset(d, in, &d->v, &r->seq, j, r->h_kv);
    row_load(d->v.dtype, in->v, at, d->v.stride_d, d->d_v,
             row_descale(&d->v_descale, in->v_descale, r->seq.b, r->h_kv, j), out);
}

// ------------------------------------------------------------------------------------------------
// Forward

static void forward_row(const struct row_state *r, struct plain_results *results)
{
    const attn_desc_t *d = r->desc;
    const attn_forward_args_t *in = &r->args->in;
    float *o = floats(results, OPERAND_O) + row_q_offset(&d->o, &r->seq, r->i, r->h);
    float *lse = floats(results, OPERAND_LSE) + row_lse_offset(d, &r->seq, r->i, r->h);
    for (int64_t c = 0; c < d->d_v; c++) {
        o[c] = 0.0f;
    }
    if (r->i >= r->seq.len_q) {
        *lse = -INFINITY;
        return;
    }
    row_scores(d, in, &r->seq, r->h, r->i, r->scratch, r->weights, NULL);
    *lse = row_softmax(d, in, r->h, r->seq.len_kv, r->weights);
    for (int64_t j = 0; j < r->seq.len_kv; j++) {
        // Zero weights of hidden keys must not meet a NaN of theirs.
        const float w = rounded(weight_dtype(d), r->weights[j]);
        if (w != 0.0f) {
            load_v(r, j, r->v);
            for (int64_t c = 0; c < d->d_v; c++) {
                o[c] += w * r->v[c];
            }
        }
    }
    for (int64_t c = 0; c < d->d_v; c++) {
        o[c] = rounded(d->o.dtype, o[c]);
    }
}

// ------------------------------------------------------------------------------------------------
// Backward

// delta = do . o - dlse, which every gradient of the row needs. Loads do.
static float row_delta(const struct row_state *r, struct plain_results *results)
{
    const attn_desc_t *d = r->desc;
    const float *o = floats(results, OPERAND_O) + row_q_offset(&d->o, &r->seq, r->i, r->h);
    row_load(d->do_.dtype, r->args->do_, row_q_offset(&d->do_, &r->seq, r->i, r->h),
             d->do_.stride_d, d->d_v, 1.0f, r->do_);
    float delta = 0.0f;
    for (int64_t c = 0; c < d->d_v; c++) {
        delta += r->do_[c] * o[c];
    }
    return d->has_dlse ? delta - r->args->dlse[row_lse_offset(d, &r->seq, r->i, r->h)] : delta;
}

// One key of one row: adds to dv, dbias, dk and dq.
static void backward_pair(const struct row_state *r, int64_t j, float delta,
                          struct plain_results *results)
{
    const attn_desc_t *d = r->desc;
    const attn_forward_args_t *in = &r->args->in;
    const float w = r->weights[j];
    load_v(r, j, r->v);
    float dp = 0.0f;
    float *dv = floats(results, OPERAND_DV) + row_kv_offset(d, in, &d->dv, &r->seq, j, r->h_kv);
    const float w_rounded = rounded(weight_dtype(d), w);
    for (int64_t c = 0; c < d->d_v; c++) {
        dp += r->do_[c] * r->v[c];
        dv[c] += w_rounded * r->do_[c];
    }
    float ds = w * (dp - delta);
    if (d->dbias.present) {
        floats(results, OPERAND_DBIAS)[row_mask_offset(&d->dbias, r->seq.b, r->h, r->i, j)] += ds;
    }
    if (d->softcap > 0.0f) {
        const float t = r->capped[j] / d->softcap;
        ds *= 1.0f - t * t;
    }
    ds = rounded(weight_dtype(d), ds * row_scale(d));
    row_load(d->k.dtype, in->k, row_kv_offset(d, in, &d->k, &r->seq, j, r->h_kv), d->k.stride_d,
             d->d_qk, 1.0f, r->k);
    float *dq = floats(results, OPERAND_DQ) + row_q_offset(&d->dq, &r->seq, r->i, r->h);
    float *dk = floats(results, OPERAND_DK) + row_kv_offset(d, in, &d->dk, &r->seq, j, r->h_kv);
    for (int64_t c = 0; c < d->d_qk; c++) {
        dq[c] += ds * r->k[c];
        dk[c] += ds * r->q[c];
    }
}

static void backward_row(const struct row_state *r, struct plain_results *results)
{
    const attn_desc_t *d = r->desc;
    const attn_forward_args_t *in = &r->args->in;
    if (r->i >= r->seq.len_q) {
        return;
    }
    row_scores(d, in, &r->seq, r->h, r->i, r->scratch, r->weights, r->capped);
    const float lse = row_softmax(d, in, r->h, r->seq.len_kv, r->weights);
    const float delta = row_delta(r, results);
    if (d->wants_dsink && lse != -INFINITY) {
        floats(results, OPERAND_DSINK)[r->h] -= expf(in->sink[r->h] - lse) * delta;
    }
    row_load(d->q.dtype, in->q, row_q_offset(&d->q, &r->seq, r->i, r->h), d->q.stride_d, d->d_qk,
             1.0f, r->q);
    for (int64_t j = 0; j < r->seq.len_kv; j++) {
        if (r->weights[j] != 0.0f) {
            backward_pair(r, j, delta, results);
        }
    }
}

// ------------------------------------------------------------------------------------------------
// The whole problem

static void round_tensor(struct io_tensor *t, attn_dtype_t dtype)
{
    for (int64_t i = 0; i < t->count; i++) {
        ((float *)t->data)[i] = rounded(dtype, ((const float *)t->data)[i]);
    }
}

static void run_rows(struct row_state *r, struct plain_results *results, bool backward)
{
    const attn_desc_t *d = r->desc;
    for (int64_t b = 0; b < d->batch; b++) {
        r->seq = row_sequence_at(d, &r->args->in, b);
        for (r->h = 0; r->h < d->heads_q; r->h++) {
            r->h_kv = r->h / (d->heads_q / d->heads_kv);
            for (r->i = 0; r->i < r->seq.rows_q; r->i++) {
                forward_row(r, results);
                if (backward) {
                    backward_row(r, results);
                }
            }
        }
    }
    if (backward) {
        round_tensor(&results->tensors[OPERAND_DQ], d->dq.dtype);
        round_tensor(&results->tensors[OPERAND_DK], d->dk.dtype);
        round_tensor(&results->tensors[OPERAND_DV], d->dv.dtype);
    }
}

// Zeroed f32 tensors shaped like the problem's results. Rows behind the packed sequences stay
// lse = -inf, o = 0.
static int create_tensors(struct plain_results *results, const struct problem *problem,
                          struct io_error *err)
{
    for (int which = OPERAND_O; which <= OPERAND_DBIAS; which++) {
        const struct io_tensor *like = &problem->tensors[which];
        const bool is_result = which != OPERAND_DO && which != OPERAND_DLSE;
        if (is_result && like->data &&
            io_tensor_init(&results->tensors[which], like->name, IO_F32, like->ndim, like->shape,
                           err)) {
            return -1;
        }
    }
    struct io_tensor *lse = &results->tensors[OPERAND_LSE];
    for (int64_t i = 0; i < lse->count; i++) {
        ((float *)lse->data)[i] = -INFINITY;
    }
    return 0;
}

int plain_create(struct plain_results *results, const struct problem *problem, bool backward,
                 struct io_error *err)
{
    memset(results, 0, sizeof(*results));
    const attn_desc_t *d = &problem->desc;
    const size_t n = (size_t)(2 * d->d_qk + 2 * d->s_kv + 2 * d->d_v + 2 * d->d_qk);
    float *memory = malloc(n * sizeof(float));
    if (!memory) {
        return io_fail(err, "out of memory for a row of %lld keys", (long long)d->s_kv);
    }
    struct row_state r = {.desc = d, .args = &problem->args};
    r.scratch = memory;
    r.weights = r.scratch + 2 * d->d_qk;
    r.capped = r.weights + d->s_kv;
    r.v = r.capped + d->s_kv;
    r.do_ = r.v + d->d_v;
    r.q = r.do_ + d->d_v;
    r.k = r.q + d->d_qk;
    const int status = create_tensors(results, problem, err);
    if (status) {
        plain_destroy(results);
    } else {
        run_rows(&r, results, backward);
    }
    free(memory);
    return status;
}

void plain_destroy(struct plain_results *results)
{
    for (int which = OPERAND_O; which <= OPERAND_DBIAS; which++) {
        io_tensor_clear(&results->tensors[which]);
    }
}
