// Compares results with the fp64 reference. The tolerance of a result is
//
//   2 x (gradients 3 x) the largest error of the plain implementation (eager.c)
//   + roundings that no kernel can avoid, each relative to the sum of absolute terms it applies
//     to: P, dS and the stored o once each in the dtype, dot products in fp32, the result in its
//     own dtype.
//
// NaN and infinities must be where the reference has them; rows that see nothing and keys that
// nobody sees must be exactly 0.
#include "test_problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test_number.h"

typedef struct verdict {
    char *why;
    size_t bytes;
    const problem_t *p;
} verdict_t;

typedef struct comparison {
    const operand_t *got;
    const operand_t *truth;
    const operand_t *eager;
    double magnitude;
    double factor; // of the plain implementation's error
    int roundings; // in the problem's dtype
    int scores;    // times that scores were computed: the backward pass does it again
} comparison_t;

// ---------------------------------------------------------------------------------------------
// The truth: the reference backend on the inputs in fp64

static bool is_fp8(attn_dtype_t dtype)
{
    return attn_dtype_bytes(dtype) == 1;
}

static attn_desc_t truth_desc(const problem_t *p)
{
    attn_desc_t desc = p->full;
    desc.backend = ATTN_BACKEND_REFERENCE;
    // 8-bit operands stay, since their factors do; beside them fp32 is the widest that is legal.
    const bool has_fp8 = is_fp8(desc.q.dtype) || is_fp8(desc.k.dtype) || is_fp8(desc.v.dtype);
    const attn_dtype_t wide = has_fp8 ? ATTN_F32 : ATTN_F64;
    attn_tensor_t *inputs[] = {&desc.q, &desc.k, &desc.v};
    attn_tensor_t *others[] = {&desc.o, &desc.dq, &desc.dk, &desc.dv, &desc.do_};
    for (int n = 0; n < 3; n++) {
        inputs[n]->dtype = is_fp8(inputs[n]->dtype) ? inputs[n]->dtype : wide;
    }
    for (int n = 0; n < 5; n++) {
        others[n]->dtype = wide;
    }
    if (desc.dbias.present) {
        desc.dbias.dtype = ATTN_F32;
    }
    return desc;
}

bool problem_truth(problem_t *p, char *why_out, size_t why_bytes)
{
    if (p->has_truth) {
        return true;
    }
    problem_t wide = *p; // shares what is not fp64
    wide.desc = truth_desc(p);
    wide.full = wide.desc;
    wide.q = operand_convert(&p->q, wide.full.q.dtype);
    wide.k = operand_convert(&p->k, wide.full.k.dtype);
    wide.v = operand_convert(&p->v, wide.full.v.dtype);
    if (p->options.backward) {
        wide.do_ = operand_convert(&p->do_, ATTN_F64);
    }
    const runner_t runner = {.backend = ATTN_BACKEND_REFERENCE};
    char why[512];
    const attn_status_t status = problem_run(&wide, &runner, &p->truth, why, sizeof(why));
    operand_destroy(&wide.q);
    operand_destroy(&wide.k);
    operand_destroy(&wide.v);
    if (p->options.backward) {
        operand_destroy(&wide.do_);
    }
    if (status != ATTN_OK) {
        snprintf(why_out, why_bytes, "reference: %s", why);
        return false;
    }
    eager_run(p);
    p->has_truth = true;
    return true;
}

// ---------------------------------------------------------------------------------------------
// Comparing

static double get(const operand_t *operand, const operand_walk_t *w)
{
    return operand_get(operand, w->at[0], w->at[1], w->at[2], w->at[3]);
}

static bool same_kind(double x, double truth)
{
    if (isnan(truth) || isnan(x)) {
        return isnan(truth) && isnan(x);
    }
    return !isinf(truth) && !isinf(x) ? true : x == truth;
}

// Largest error of the plain implementation over what is finite, and the largest finite truth.
static void measure(const comparison_t *c, double *eager_error_out, double *largest_out)
{
    *eager_error_out = 0.0;
    *largest_out = 0.0;
    for (operand_walk_t w = operand_walk(c->truth); !w.done; operand_next(c->truth, &w)) {
        const double truth = get(c->truth, &w);
        const double error = fabs(get(c->eager, &w) - truth);
        if (isfinite(truth) && isfinite(error)) {
            *eager_error_out = fmax(*eager_error_out, error);
            *largest_out = fmax(*largest_out, fabs(truth));
        }
    }
}

// How the roundings of a dot product of d terms add up: like a random walk if the terms have random
// signs, all in one direction if they are alike.
static double dot_growth(const problem_t *p)
{
    const double d = (double)p->full.d_qk;
    const bool random_signs = p->options.fill == FILL_NORMAL || p->options.fill == FILL_ZERO_Q;
    return random_signs ? sqrt(d) : d;
}

static double tolerance_of(const problem_t *p, const comparison_t *c)
{
    double eager_error;
    double largest;
    measure(c, &eager_error, &largest);
    const attn_dtype_t dtype = p->full.q.dtype;
    const bool small = dtype == ATTN_F16 || dtype == ATTN_BF16;
    const double in_dtype = c->roundings * test_number_unit(small ? dtype : ATTN_F32);
    const double in_scores =
        test_number_unit(ATTN_F32) * (4.0 + c->scores * dot_growth(p) * p->magnitudes.score);
    return c->factor * eager_error + c->magnitude * (in_dtype + in_scores) +
           largest * test_number_unit(c->got->dtype);
}

static bool agrees(const verdict_t *verdict, const comparison_t *c)
{
    if (c->got->buffer.memory == NULL) {
        return true;
    }
    const double tolerance = tolerance_of(verdict->p, c);
    for (operand_walk_t w = operand_walk(c->got); !w.done; operand_next(c->got, &w)) {
        const double got = get(c->got, &w);
        const double truth = get(c->truth, &w);
        if (same_kind(got, truth) && !(fabs(got - truth) > tolerance)) {
            continue;
        }
        snprintf(verdict->why, verdict->bytes,
                 "%s[%lld,%lld,%lld,%lld] = %.9g, reference %.9g, plain %.9g, tolerance %.3g",
                 c->got->name, (long long)w.at[0], (long long)w.at[1], (long long)w.at[2],
                 (long long)w.at[3], got, truth, get(c->eager, &w), tolerance);
        return false;
    }
    return true;
}

// ---------------------------------------------------------------------------------------------
// Exact zeros

static bool row_is_zero(const verdict_t *verdict, const operand_t *x, int64_t b, int64_t s,
                        int64_t h)
{
    for (int64_t c = 0; x->buffer.memory != NULL && c < x->dims[3]; c++) {
        const double value = operand_get(x, b, s, h, c);
        if (value != 0.0) {
            snprintf(verdict->why, verdict->bytes,
                     "%s[%lld,%lld,%lld,%lld] = %.9g, expected exactly 0: nothing is seen", x->name,
                     (long long)b, (long long)s, (long long)h, (long long)c, value);
            return false;
        }
    }
    return true;
}

static bool empty_rows_are_zero(const verdict_t *verdict, const results_t *r, int64_t b)
{
    const problem_t *p = verdict->p;
    const problem_sequence_t seq = problem_sequence(p, b);
    for (int64_t h = 0; h < p->full.heads_q; h++) {
        for (int64_t i = 0; i < seq.rows_q; i++) {
            if (problem_row_sees_any(p, b, h, i)) {
                continue;
            }
            if (!row_is_zero(verdict, &r->o, seq.q_b, seq.q_row + i, h) ||
                !row_is_zero(verdict, &r->dq, seq.q_b, seq.q_row + i, h)) {
                return false;
            }
        }
    }
    return true;
}

static bool unseen_keys_are_zero(const verdict_t *verdict, const results_t *r, int64_t b)
{
    const problem_t *p = verdict->p;
    const problem_sequence_t seq = problem_sequence(p, b);
    for (int64_t h = 0; p->options.backward && h < p->full.heads_kv; h++) {
        for (int64_t j = 0; j < seq.rows_kv; j++) {
            if (problem_key_is_seen(p, b, h, j)) {
                continue;
            }
            if (!row_is_zero(verdict, &r->dk, seq.kv_b, seq.kv_row + j, h) ||
                !row_is_zero(verdict, &r->dv, seq.kv_b, seq.kv_row + j, h)) {
                return false;
            }
        }
    }
    return true;
}

// ---------------------------------------------------------------------------------------------

bool problem_judge(problem_t *p, const results_t *r, char *why_out, size_t why_bytes)
{
    const verdict_t verdict = {why_out, why_bytes, p};
    if (!problem_truth(p, why_out, why_bytes)) {
        return false;
    }
    const results_t *t = &p->truth;
    const results_t *e = &p->eager;
    const magnitudes_t *m = &p->magnitudes;
    const comparison_t comparisons[] = {
        {&r->lse, &t->lse, &e->lse, fmax(1.0, m->lse), 2.0, 0, 1},
        {&r->o, &t->o, &e->o, m->o, 2.0, 1, 1},
        {&r->dq, &t->dq, &e->dq, m->dq, 3.0, 3, 2},
        {&r->dk, &t->dk, &e->dk, m->dk, 3.0, 3, 2},
        {&r->dv, &t->dv, &e->dv, m->dv, 3.0, 1, 2},
        {&r->dsink, &t->dsink, &e->dsink, m->dsink, 3.0, 2, 2},
        {&r->dbias, &t->dbias, &e->dbias, m->dbias, 3.0, 2, 2},
    };
    for (size_t n = 0; n < sizeof(comparisons) / sizeof(comparisons[0]); n++) {
        if (!agrees(&verdict, &comparisons[n])) {
            return false;
        }
    }
    for (int64_t b = 0; b < p->full.batch; b++) {
        if (!empty_rows_are_zero(&verdict, r, b) || !unseen_keys_are_zero(&verdict, r, b)) {
            return false;
        }
    }
    return true;
}

static const char *runner_name(const runner_t *runner)
{
    return runner->backend == ATTN_BACKEND_CUDA ? "cuda" : attn_isa_name(runner->isa);
}

bool problem_holds_on(problem_t *p, const runner_t *runner, char *why_out, size_t why_bytes)
{
    results_t results;
    char why[768];
    if (problem_run(p, runner, &results, why, sizeof(why)) != ATTN_OK) {
        snprintf(why_out, why_bytes, "%s: %s", runner_name(runner), why);
        return false;
    }
    const bool holds = problem_judge(p, &results, why, sizeof(why));
    if (!holds) {
        snprintf(why_out, why_bytes, "%s: %s", runner_name(runner), why);
    }
    results_destroy(&results);
    return holds;
}

bool problem_holds(problem_t *p, char *why_out, size_t why_bytes)
{
    if (problem_wants_gpu() && !problem_has_gpu_kernel(p, ATTN_BACKWARD)) {
        p->options.backward = false;
    }
    runner_t runners[ATTN_ISA_COUNT];
    const int count = problem_runners(p, runners);
    for (int n = 0; n < count; n++) {
        if (!problem_holds_on(p, &runners[n], why_out, why_bytes)) {
            return false;
        }
    }
    return true;
}
