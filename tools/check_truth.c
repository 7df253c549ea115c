// check_truth.c: see check_truth.h.
#include "check_truth.h"

#include <math.h>
#include <string.h>

#include "launch.h"
#include "plain.h"

static bool is_fp8(attn_dtype_t dtype)
{
    return dtype == ATTN_F8_E4M3 || dtype == ATTN_F8_E5M2;
}

// ------------------------------------------------------------------------------------------------
// The problem in fp64

// A copy that shares everything but q, k, v, do and the results, which are wide. fp8 operands stay,
// as their factors belong to them; beside them fp32 is the widest that is legal.
static int widen(struct problem *wide, const struct problem *source, bool backward,
                 struct io_error *err)
{
    *wide = *source;
    memset(wide->tensors, 0, sizeof(wide->tensors));
    attn_desc_t *d = &wide->desc;
    d->backend = ATTN_BACKEND_REFERENCE;
    d->device_index = 0;
    const bool has_fp8 = is_fp8(d->q.dtype) || is_fp8(d->k.dtype) || is_fp8(d->v.dtype);
    const attn_dtype_t widest = has_fp8 ? ATTN_F32 : ATTN_F64;
    attn_tensor_t *inputs[3] = {&d->q, &d->k, &d->v};
    for (int i = 0; i < 3; i++) {
        const struct io_tensor *from = &source->tensors[OPERAND_Q + i];
        inputs[i]->dtype = is_fp8(inputs[i]->dtype) ? inputs[i]->dtype : widest;
        if (io_tensor_convert(from, problem_io_dtype(inputs[i]->dtype),
                              &wide->tensors[OPERAND_Q + i], err)) {
            return -1;
        }
    }
    d->o.dtype = d->do_.dtype = d->dq.dtype = d->dk.dtype = d->dv.dtype = widest;
    wide->args.in.q = wide->tensors[OPERAND_Q].data;
    wide->args.in.k = wide->tensors[OPERAND_K].data;
    wide->args.in.v = wide->tensors[OPERAND_V].data;
    if (problem_add_forward_results(wide, err)) {
        return -1;
    }
    if (!backward) {
        return 0;
    }
    // A view of the bias, for the shape of its gradient; the caller's problem owns it.
    wide->tensors[OPERAND_BIAS] = source->tensors[OPERAND_BIAS];
    const int status = problem_add_backward_results(wide, err);
    memset(&wide->tensors[OPERAND_BIAS], 0, sizeof(wide->tensors[OPERAND_BIAS]));
    if (status || io_tensor_convert(&source->tensors[OPERAND_DO], problem_io_dtype(widest),
                                    &wide->tensors[OPERAND_DO], err)) {
        return -1;
    }
    wide->args.do_ = wide->tensors[OPERAND_DO].data;
    return 0;
}

// The reference's results, moved into tensors.
static int run_reference(const struct problem *problem, bool backward, struct io_tensor *tensors,
                         struct io_error *err)
{
    struct problem wide = {0};
    int status = widen(&wide, problem, backward, err);
    status = status ? status : launch_once(NULL, &wide, ATTN_FORWARD, NULL, err);
    if (!status && backward) {
        status = launch_once(NULL, &wide, ATTN_BACKWARD, NULL, err);
    }
    for (int which = 0; which < OPERAND_COUNT && !status; which++) {
        if (problem_is_result(which)) {
            tensors[which] = wide.tensors[which];
            memset(&wide.tensors[which], 0, sizeof(wide.tensors[which]));
        }
    }
    problem_destroy(&wide);
    return status;
}

// ------------------------------------------------------------------------------------------------
// The allowance

static void clear_all(struct io_tensor *tensors)
{
    for (int which = 0; which < OPERAND_COUNT; which++) {
        io_tensor_clear(&tensors[which]);
    }
}

// Errors of the plain implementation. It has no dropout, so with dropout both sides are computed
// without, and the errors scaled as the kept weights are.
static int measure_plain(struct check_truth *truth, const struct problem *problem,
                         struct io_error *err)
{
    struct io_tensor own[OPERAND_COUNT] = {{0}};
    const struct io_tensor *expected = truth->tensors;
    struct problem undropped = *problem; // shares all memory, and is not destroyed
    double scale = 1.0;
    if (problem->desc.dropout_p > 0) {
        scale = 1.0 / (1.0 - (double)problem->desc.dropout_p);
        undropped.desc.dropout_p = 0.0f;
        undropped.args.in.dropout_state = NULL;
        if (run_reference(&undropped, truth->backward, own, err)) {
            return -1;
        }
        expected = own;
    }
    struct plain_results plain;
    const int status = plain_create(&plain, &undropped, truth->backward, err);
    for (int which = 0; which < OPERAND_COUNT && !status; which++) {
        if (!problem_is_result(which) || !truth->tensors[which].data) {
            continue;
        }
        truth->plain[which] = compare_tensors(&plain.tensors[which], &expected[which]);
        truth->plain[which].max_abs *= scale;
        truth->plain[which].max_reference *= scale;
        const bool is_gradient = which >= OPERAND_DQ;
        truth->tolerance[which] =
            compare_tolerance(problem->tensors[which].dtype, &truth->plain[which],
                              is_gradient ? COMPARE_FACTOR_GRADIENT : COMPARE_FACTOR_FORWARD);
        if (which == OPERAND_LSE) {
            // A kernel may round weights to the inputs' type before it adds them up: a relative
            // error of the sum, hence an absolute one of its logarithm.
            truth->tolerance[which] += compare_unit_roundoff(problem->tensors[OPERAND_Q].dtype);
        }
    }
    if (!status) {
        plain_destroy(&plain);
    }
    clear_all(own);
    return status;
}

int check_truth_create(struct check_truth *truth, const struct problem *problem, bool backward,
                       struct io_error *err)
{
    memset(truth, 0, sizeof(*truth));
    truth->backward = backward;
    int status = run_reference(problem, backward, truth->tensors, err);
    status = status ? status : measure_plain(truth, problem, err);
    if (status) {
        check_truth_destroy(truth);
    }
    return status;
}

void check_truth_destroy(struct check_truth *truth)
{
    clear_all(truth->tensors);
}

// ------------------------------------------------------------------------------------------------
// Comparing

int check_compare(const struct check_truth *truth, const struct problem *problem,
                  const char *kernel, bool backward, struct check_row rows[CHECK_MAX_ROWS])
{
    int n = 0;
    for (int which = OPERAND_O; which <= OPERAND_DBIAS; which++) {
        const bool is_gradient = which >= OPERAND_DQ;
        const struct io_tensor *expected = &truth->tensors[which];
        if (!problem_is_result(which) || !expected->data || is_gradient != backward) {
            continue;
        }
        struct check_row *row = &rows[n++];
        row->kernel = kernel;
        row->tensor = expected->name;
        row->stats = compare_tensors(&problem->tensors[which], expected);
        row->plain_max = truth->plain[which].max_abs;
        row->tolerance = truth->tolerance[which];
        row->ok = row->stats.mismatches == 0 && row->stats.max_abs <= row->tolerance;
    }
    return n;
}

void check_spoil_results(struct problem *problem)
{
    for (int which = OPERAND_O; which <= OPERAND_DBIAS; which++) {
        struct io_tensor *t = &problem->tensors[which];
        if (problem_is_result(which) && t->data) {
            // All bits set is a NaN in every float type here.
            memset(t->data, 0xff, t->bytes);
        }
    }
}
