// Attention as a framework would do it without a fused kernel, in the problem's own precision:
// whole rows, fp32 sums, and S, P, dP, dS and the results rounded to the dtype one after another.
// Its error against fp64 is what a kernel's error is measured by. On the way it adds up absolute
// values, which rounding errors are proportional to.
#include "test_problem.h"

#include <math.h>
#include <stdlib.h>

#include "test_number.h"

// One sequence and query head, gathered. Rows behind each other.
typedef struct eager_head {
    problem_t *p;
    problem_sequence_t seq;
    int64_t b, h, h_kv;
    float *q, *k, *v;          // (len_q, d_qk) (len_kv, d_qk) (len_kv, d_v)
    float *do_;                // (len_q, d_v)
    float *dk, *dv;            // (rows_kv, d): sums over the group
    double *dk_mass, *dv_mass; // (rows_kv)
    float *s, *by_dot, *z;     // (len_kv): one row
    bool *visible;             // (len_kv)
} eager_head_t;

static void *make(int64_t count, size_t bytes)
{
    void *memory = calloc((size_t)count + 1, bytes);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

// fp8 inputs are computed on in fp32.
static attn_dtype_t working_dtype(const problem_t *p)
{
    const attn_dtype_t dtype = p->full.q.dtype;
    return dtype == ATTN_F16 || dtype == ATTN_BF16 ? dtype : ATTN_F32;
}

static float round_working(const eager_head_t *e, float value)
{
    return (float)test_number_round(working_dtype(e->p), value);
}

static void raise_to(double *most, double value)
{
    if (value > *most && !isinf(value)) {
        *most = value;
    }
}

static float descale_at(const operand_t *factors, const attn_descale_t *descale, int64_t b,
                        int64_t h, int64_t s)
{
    return descale->present ? (float)operand_get(factors, b, h, s / descale->rows, 0) : 1.0f;
}

// ---------------------------------------------------------------------------------------------
// Gathering

static void gather_queries(eager_head_t *e)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    for (int64_t i = 0; i < e->seq.len_q; i++) {
        const float factor = descale_at(&p->q_descale, &desc->q_descale, e->b, e->h, i);
        for (int64_t c = 0; c < desc->d_qk; c++) {
            e->q[i * desc->d_qk + c] =
                factor * (float)operand_get(&p->q, e->seq.q_b, e->seq.q_row + i, e->h, c);
        }
        for (int64_t c = 0; p->options.backward && c < desc->d_v; c++) {
            e->do_[i * desc->d_v + c] =
                (float)operand_get(&p->do_, e->seq.q_b, e->seq.q_row + i, e->h, c);
        }
    }
}

static void gather_keys(eager_head_t *e)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    for (int64_t j = 0; j < e->seq.len_kv; j++) {
        int64_t kv_b;
        int64_t kv_s;
        problem_locate_key(p, e->b, j, &kv_b, &kv_s);
        const float k_factor = descale_at(&p->k_descale, &desc->k_descale, e->b, e->h_kv, j);
        const float v_factor = descale_at(&p->v_descale, &desc->v_descale, e->b, e->h_kv, j);
        for (int64_t c = 0; c < desc->d_qk; c++) {
            e->k[j * desc->d_qk + c] = k_factor * (float)operand_get(&p->k, kv_b, kv_s, e->h_kv, c);
        }
        for (int64_t c = 0; c < desc->d_v; c++) {
            e->v[j * desc->d_v + c] = v_factor * (float)operand_get(&p->v, kv_b, kv_s, e->h_kv, c);
        }
    }
}

static eager_head_t head_create(problem_t *p, int64_t b, int64_t h_kv)
{
    const attn_desc_t *desc = &p->full;
    eager_head_t e = {.p = p, .seq = problem_sequence(p, b), .b = b, .h_kv = h_kv};
    e.q = make(e.seq.len_q * desc->d_qk, sizeof(float));
    e.do_ = make(e.seq.len_q * desc->d_v, sizeof(float));
    e.k = make(e.seq.len_kv * desc->d_qk, sizeof(float));
    e.v = make(e.seq.len_kv * desc->d_v, sizeof(float));
    e.dk = make(e.seq.rows_kv * desc->d_qk, sizeof(float));
    e.dv = make(e.seq.rows_kv * desc->d_v, sizeof(float));
    e.dk_mass = make(e.seq.rows_kv, sizeof(double));
    e.dv_mass = make(e.seq.rows_kv, sizeof(double));
    e.s = make(e.seq.len_kv, sizeof(float));
    e.by_dot = make(e.seq.len_kv, sizeof(float));
    e.z = make(e.seq.len_kv, sizeof(float));
    e.visible = make(e.seq.len_kv, sizeof(bool));
    gather_keys(&e);
    return e;
}

static void head_destroy(eager_head_t *e)
{
    void *memory[] = {e->q,       e->do_,     e->k, e->v,      e->dk, e->dv,
                      e->dk_mass, e->dv_mass, e->s, e->by_dot, e->z,  e->visible};
    for (size_t n = 0; n < sizeof(memory) / sizeof(memory[0]); n++) {
        free(memory[n]);
    }
}

// ---------------------------------------------------------------------------------------------
// Forward

static float dot(const float *x, const float *y, int64_t d, double *mass_out)
{
    float sum = 0.0f;
    double mass = 0.0;
    for (int64_t c = 0; c < d; c++) {
        const float product = x[c] * y[c];
        sum += product;
        mass += fabsf(product);
    }
    *mass_out = mass;
    return sum;
}

// One score, rounded as it would be stored; its absolute terms go to the magnitudes.
static float score(eager_head_t *e, int64_t i, int64_t j)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    double mass;
    float s = desc->scale * dot(e->q + i * desc->d_qk, e->k + j * desc->d_qk, desc->d_qk, &mass);
    mass *= fabs((double)desc->scale);
    e->by_dot[j] = desc->scale;
    s = round_working(e, s);
    if (desc->softcap > 0.0f) {
        const float t = tanhf(s / desc->softcap);
        e->by_dot[j] *= 1.0f - t * t;
        s = round_working(e, desc->softcap * t);
    }
    if (desc->bias.present) {
        const double bias = operand_get(&p->bias, e->b, e->h, i, j);
        s = round_working(e, s + (float)bias);
        mass += fabs(bias);
    }
    if (desc->has_alibi) {
        const float slope = (float)operand_get(&p->alibi, e->b, e->h, 0, 0);
        const float term = slope * fabsf((float)(i + e->seq.offset - j));
        s = round_working(e, s - term);
        mass += fabsf(term);
    }
    raise_to(&p->magnitudes.score, mass);
    return s;
}

// Scores of row i into e->s, -inf where hidden. Returns the number of visible keys.
static int64_t score_row(eager_head_t *e, int64_t i)
{
    int64_t seen = 0;
    for (int64_t j = 0; j < e->seq.len_kv; j++) {
        e->visible[j] = problem_visible(e->p, e->b, e->h, i, j);
        e->s[j] = e->visible[j] ? score(e, i, j) : -INFINITY;
        e->z[j] = e->visible[j] ? (float)problem_dropout(e->p, e->b, e->h, i, j) : 0.0f;
        seen += e->visible[j];
    }
    return seen;
}

static float row_lse(const eager_head_t *e)
{
    const float sink =
        e->p->full.has_sink ? (float)operand_get(&e->p->sink, 0, e->h, 0, 0) : -INFINITY;
    float max = sink;
    for (int64_t j = 0; j < e->seq.len_kv; j++) {
        max = e->s[j] > max ? e->s[j] : max;
    }
    if (max == -INFINITY) {
        max = 0.0f;
    }
    float sum = expf(sink - max);
    for (int64_t j = 0; j < e->seq.len_kv; j++) {
        sum += e->visible[j] ? expf(e->s[j] - max) : 0.0f;
    }
    return max + logf(sum);
}

static void add_weighted(eager_head_t *e, int64_t j, float weight, float *sum)
{
    const int64_t d_v = e->p->full.d_v;
    const float *v = e->v + j * d_v;
    float most = 0.0f;
    for (int64_t c = 0; c < d_v; c++) {
        sum[c] += weight * e->z[j] * v[c];
        most = fabsf(v[c]) > most ? fabsf(v[c]) : most;
    }
    raise_to(&e->p->magnitudes.o, most * fmax(1.0, e->z[j]));
}

// Writes o and lse of row i; s, z, visible and by_dot hold the row.
static float forward_row(eager_head_t *e, int64_t i)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    const int64_t seen = score_row(e, i);
    const float lse = row_lse(e);
    const int64_t row = e->seq.q_row + i;
    float *sum = make(desc->d_v, sizeof(float));
    for (int64_t j = 0; j < e->seq.len_kv && seen > 0 && lse != -INFINITY; j++) {
        if (e->visible[j]) {
            add_weighted(e, j, round_working(e, expf(e->s[j] - lse)), sum);
        }
    }
    for (int64_t c = 0; c < desc->d_v; c++) {
        operand_set(&p->eager.o, e->seq.q_b, row, e->h, c, sum[c]);
    }
    free(sum);
    if (desc->wants_lse) {
        operand_set(&p->eager.lse, e->seq.q_b, e->h, row, 0, lse);
        raise_to(&p->magnitudes.lse, fabs((double)lse));
    }
    return lse;
}

// ---------------------------------------------------------------------------------------------
// Backward

// The row's o as stored, so that delta carries its rounding; and its absolute terms.
static float row_delta(const eager_head_t *e, int64_t i, double *mass_out)
{
    const problem_t *p = e->p;
    const int64_t row = e->seq.q_row + i;
    float delta = 0.0f;
    *mass_out = 0.0;
    for (int64_t c = 0; c < p->full.d_v; c++) {
        const float o = (float)operand_get(&p->eager.o, e->seq.q_b, row, e->h, c);
        const float term = e->do_[i * p->full.d_v + c] * o;
        delta += term;
        *mass_out += fabsf(term);
    }
    if (p->full.has_dlse) {
        const float dlse = (float)operand_get(&p->dlse, e->seq.q_b, e->h, row, 0);
        delta -= dlse;
        *mass_out += fabsf(dlse);
    }
    return delta;
}

typedef struct row_gradient {
    float *dq; // (d_qk)
    double dq_mass;
    float lse;
    float delta;
    double delta_mass;
} row_gradient_t;

// What the pair (i, j) brings to all gradients.
static void backward_pair(eager_head_t *e, int64_t i, int64_t j, row_gradient_t *row)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    const float *do_ = e->do_ + i * desc->d_v;
    double mass;
    const float weight = round_working(e, expf(e->s[j] - row->lse));
    const float dp = round_working(e, dot(do_, e->v + j * desc->d_v, desc->d_v, &mass)) * e->z[j];
    const float ds = round_working(e, weight * (dp - row->delta));
    const double ds_mass = weight * (mass * e->z[j] + row->delta_mass);
    double most_q = 0.0;
    double most_k = 0.0;
    double most_do = 0.0;
    for (int64_t c = 0; c < desc->d_qk; c++) {
        const float q = e->q[i * desc->d_qk + c];
        const float k = e->k[j * desc->d_qk + c];
        row->dq[c] += ds * e->by_dot[j] * k;
        e->dk[j * desc->d_qk + c] += ds * e->by_dot[j] * q;
        raise_to(&most_q, fabsf(q));
        raise_to(&most_k, fabsf(k));
    }
    for (int64_t c = 0; c < desc->d_v; c++) {
        e->dv[j * desc->d_v + c] += weight * e->z[j] * do_[c];
        raise_to(&most_do, fabsf(do_[c]));
    }
    const double scale = fabs((double)desc->scale);
    row->dq_mass += ds_mass * scale * most_k;
    e->dk_mass[j] += ds_mass * scale * most_q;
    e->dv_mass[j] += weight * e->z[j] * most_do;
    if (desc->dbias.present) {
        const double sum = operand_get(&p->eager.dbias, e->b, e->h, i, j);
        operand_set(&p->eager.dbias, e->b, e->h, i, j, sum + ds);
        // All that is added up in one stored element is at most all there is.
        const bool broadcast = desc->dbias.stride_b == 0 || desc->dbias.stride_h == 0 ||
                               desc->dbias.stride_q == 0 || desc->dbias.stride_k == 0;
        raise_to(&p->magnitudes.dbias, broadcast ? p->magnitudes.dbias + ds_mass : ds_mass);
    }
}

static void backward_row(eager_head_t *e, int64_t i, float lse)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    row_gradient_t row = {.dq = make(desc->d_qk, sizeof(float)), .lse = lse};
    row.delta = row_delta(e, i, &row.delta_mass);
    for (int64_t j = 0; j < e->seq.len_kv && lse != -INFINITY; j++) {
        if (e->visible[j]) {
            backward_pair(e, i, j, &row);
        }
    }
    raise_to(&p->magnitudes.dq, row.dq_mass);
    for (int64_t c = 0; c < desc->d_qk && !p->options.no_dq; c++) {
        operand_set(&p->eager.dq, e->seq.q_b, e->seq.q_row + i, e->h, c, row.dq[c]);
    }
    if (desc->wants_dsink && lse != -INFINITY) {
        const float sink = (float)operand_get(&p->sink, 0, e->h, 0, 0);
        const float weight = expf(sink - lse);
        const double sum = operand_get(&p->eager.dsink, 0, e->h, 0, 0);
        operand_set(&p->eager.dsink, 0, e->h, 0, 0, sum - (double)(weight * row.delta));
        raise_to(&p->magnitudes.dsink, p->magnitudes.dsink + weight * row.delta_mass);
    }
    free(row.dq);
}

static void store_key_gradients(const eager_head_t *e)
{
    problem_t *p = e->p;
    const attn_desc_t *desc = &p->full;
    for (int64_t j = 0; j < e->seq.rows_kv; j++) {
        for (int64_t c = 0; c < desc->d_qk && !p->options.no_dk; c++) {
            operand_set(&p->eager.dk, e->seq.kv_b, e->seq.kv_row + j, e->h_kv, c,
                        e->dk[j * desc->d_qk + c]);
        }
        for (int64_t c = 0; c < desc->d_v && !p->options.no_dv; c++) {
            operand_set(&p->eager.dv, e->seq.kv_b, e->seq.kv_row + j, e->h_kv, c,
                        e->dv[j * desc->d_v + c]);
        }
        raise_to(&p->magnitudes.dk, e->dk_mass[j]);
        raise_to(&p->magnitudes.dv, e->dv_mass[j]);
    }
}

// ---------------------------------------------------------------------------------------------

static void run_group(problem_t *p, int64_t b, int64_t h_kv)
{
    const int64_t group = p->full.heads_q / p->full.heads_kv;
    eager_head_t e = head_create(p, b, h_kv);
    for (int64_t n = 0; n < group; n++) {
        e.h = h_kv * group + n;
        gather_queries(&e);
        for (int64_t i = 0; i < e.seq.len_q; i++) {
            const float lse = forward_row(&e, i);
            if (p->options.backward) {
                backward_row(&e, i, lse);
            }
        }
    }
    if (p->options.backward) {
        store_key_gradients(&e);
    }
    head_destroy(&e);
}

void eager_run(problem_t *p)
{
    // The bias gradient is summed in fp32: rounding every addition would excuse too much.
    attn_desc_t layout = p->full;
    layout.dbias.dtype = ATTN_F32;
    p->eager = results_create(p, &layout);
    operand_t *zeroed[] = {&p->eager.o,  &p->eager.dq,    &p->eager.dk,
                           &p->eager.dv, &p->eager.dsink, &p->eager.dbias};
    for (size_t n = 0; n < sizeof(zeroed) / sizeof(zeroed[0]); n++) {
        if (zeroed[n]->buffer.memory != NULL) {
            operand_set_all(zeroed[n], 0.0);
        }
    }
    if (p->full.wants_lse) {
        operand_set_all(&p->eager.lse, -INFINITY);
    }
    for (int64_t b = 0; b < p->full.batch; b++) {
        for (int64_t h_kv = 0; h_kv < p->full.heads_kv; h_kv++) {
            run_group(p, b, h_kv);
        }
    }
}
