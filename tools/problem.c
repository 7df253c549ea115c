// problem.c: operands and results of a problem; see problem.h.
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array_load.h"
#include "random_fill.h"

struct dtype_pair {
    attn_dtype_t attn;
    enum io_dtype io;
};

static const struct dtype_pair dtype_pairs[] = {
    {ATTN_F32, IO_F32},        {ATTN_F16, IO_F16},        {ATTN_BF16, IO_BF16},
    {ATTN_F8_E4M3, IO_F8E4M3}, {ATTN_F8_E5M2, IO_F8E5M2}, {ATTN_F64, IO_F64},
};
enum { N_DTYPE_PAIRS = sizeof(dtype_pairs) / sizeof(dtype_pairs[0]) };

int problem_attn_dtype(enum io_dtype dtype)
{
    for (int i = 0; i < N_DTYPE_PAIRS; i++) {
        if (dtype_pairs[i].io == dtype) {
            return (int)dtype_pairs[i].attn;
        }
    }
    return -1;
}

enum io_dtype problem_io_dtype(attn_dtype_t dtype)
{
    for (int i = 0; i < N_DTYPE_PAIRS; i++) {
        if (dtype_pairs[i].attn == dtype) {
            return dtype_pairs[i].io;
        }
    }
    return IO_DTYPE_NONE;
}

// ------------------------------------------------------------------------------------------------
// q, k, v

// The dims of an operand by meaning. b is 1 for 3 dims.
struct axes {
    int64_t b, s, h, d;
};

static struct axes tensor_axes(const struct io_tensor *t, enum problem_layout layout)
{
    const int64_t *dims = t->shape + (t->ndim == 4);
    return (struct axes){
        .b = t->ndim == 4 ? t->shape[0] : 1,
        .s = dims[layout == LAYOUT_BSHD ? 0 : 1],
        .h = dims[layout == LAYOUT_BSHD ? 1 : 0],
        .d = dims[2],
    };
}

// Dense strides in the file's order.
static attn_tensor_t tensor_strides(const struct io_tensor *t, enum problem_layout layout)
{
    const struct axes a = tensor_axes(t, layout);
    return (attn_tensor_t){
        .dtype = (attn_dtype_t)problem_attn_dtype(t->dtype),
        .stride_b = a.s * a.h * a.d,
        .stride_s = layout == LAYOUT_BSHD ? a.h * a.d : a.d,
        .stride_h = layout == LAYOUT_BSHD ? a.d : a.s * a.d,
        .stride_d = 1,
    };
}

// Converts in place unless the choice (an index of DTYPE_CHOICES) is "stored".
static int convert_to_choice(struct io_tensor *t, int choice, struct io_error *err)
{
    if (choice == 0 || t->dtype == problem_io_dtype((attn_dtype_t)(choice - 1))) {
        return 0;
    }
    struct io_tensor converted;
    if (io_tensor_convert(t, problem_io_dtype((attn_dtype_t)(choice - 1)), &converted, err)) {
        return -1;
    }
    io_tensor_clear(t);
    *t = converted;
    return 0;
}

// Checks what the library cannot see: the dims and dtype of a file.
static int check_operand(const struct io_tensor *t, const char *operand, const char *spec,
                         struct io_error *err)
{
    char shape[128];
    if (t->ndim != 3 && t->ndim != 4) {
        return io_fail(err, "%s: %s: shape %s, expected 3 dims (S, H, D) or 4 (B, S, H, D)",
                       operand, spec, io_shape_format(t->ndim, t->shape, shape, sizeof(shape)));
    }
    if (problem_attn_dtype(t->dtype) < 0) {
        return io_fail(err, "%s: %s: dtype %s, expected f32, f16, bf16, f8e4m3, f8e5m2 or f64",
                       operand, spec, io_dtype_name(t->dtype));
    }
    return 0;
}

static int load_operand(struct problem *problem, enum problem_operand which, const char *operand,
                        const char *spec, const struct problem_options *options,
                        struct io_error *err)
{
    struct io_tensor *t = &problem->tensors[which];
    const bool is_e5m2 = options->dtype == 1 + ATTN_F8_E5M2;
    const bool is_fp8 = is_e5m2 || options->dtype == 1 + ATTN_F8_E4M3;
    const enum io_dtype void1 = is_e5m2 ? IO_F8E5M2 : is_fp8 ? IO_F8E4M3 : IO_DTYPE_NONE;
    if (array_load(spec, operand, void1, t, err) || check_operand(t, operand, spec, err)) {
        return -1;
    }
    return convert_to_choice(t, options->dtype, err);
}

// "FILE:PREFIX" and "q" to "FILE:PREFIXq".
static int load_from_input(struct problem *problem, enum problem_operand which, const char *operand,
                           const struct problem_options *options, struct io_error *err)
{
    char spec[4096];
    const char *separator = strstr(options->input, ".safetensors:") ? "" : ":";
    const int n = snprintf(spec, sizeof(spec), "%s%s%s", options->input, separator, operand);
    if (n >= (int)sizeof(spec)) {
        return io_fail(err, "--input: longer than %zu characters", sizeof(spec) - 1);
    }
    if (!strstr(options->input, ".safetensors")) {
        return io_fail(err, "--input: %s: expected a .safetensors file, perhaps with :PREFIX",
                       options->input);
    }
    return load_operand(problem, which, operand, spec, options, err);
}

static int load_qkv(struct problem *problem, const struct problem_options *options,
                    struct io_error *err)
{
    static const char *const names[3] = {"q", "k", "v"};
    const char *const specs[3] = {options->q, options->k, options->v};
    for (int i = 0; i < 3; i++) {
        const enum problem_operand which = (enum problem_operand)(OPERAND_Q + i);
        int status;
        if (specs[i]) {
            status = load_operand(problem, which, names[i], specs[i], options, err);
        } else if (options->input) {
            status = load_from_input(problem, which, names[i], options, err);
        } else {
            status = io_fail(err, "%s: missing; give --%s FILE", names[i], names[i]);
        }
        if (status) {
            return status;
        }
    }
    return 0;
}

// A tensor with a shape, filled with normal numbers unless only described.
static int make_random(struct problem *problem, enum problem_operand which, const char *operand,
                       const struct problem_options *options, int ndim, const int64_t *shape,
                       struct io_error *err)
{
    struct io_tensor *t = &problem->tensors[which];
    const attn_dtype_t dtype = options->dtype ? (attn_dtype_t)(options->dtype - 1) : ATTN_F32;
    int64_t count;
    size_t bytes;
    if (io_shape_check(operand, problem_io_dtype(dtype), ndim, shape, &count, &bytes, err)) {
        return -1;
    }
    if (problem->describe_only) {
        t->dtype = problem_io_dtype(dtype);
        t->ndim = ndim;
        memcpy(t->shape, shape, sizeof(shape[0]) * (size_t)ndim);
        return 0;
    }
    if (io_tensor_init(t, operand, problem_io_dtype(dtype), ndim, shape, err)) {
        return -1;
    }
    random_fill(t, options->random_seed, operand, 1.0, 0.5);
    return 0;
}

// Last entry of cumulated lengths given by an option; -1 with err filled if there is none.
static int64_t packed_total(const char *spec, const char *operand, struct io_error *err)
{
    struct io_tensor cu;
    if (array_load_i32(spec, operand, &cu, err)) {
        return -1;
    }
    const int64_t total = cu.count ? (int64_t)io_tensor_get(&cu, cu.count - 1) : -1;
    io_tensor_clear(&cu);
    if (total < 0) {
        io_fail(err, "%s: %s: expected batch + 1 numbers that start at 0 and do not decrease",
                operand, spec);
    }
    return total;
}

// Shapes of random q, k, v: dense, or packed where cumulated lengths are given, or pages.
static int make_qkv(struct problem *problem, const struct problem_options *options,
                    struct io_error *err)
{
    int64_t total_q = -1;
    int64_t total_kv = -1;
    if (options->cu_seqlens_q &&
        (total_q = packed_total(options->cu_seqlens_q, "cu-seqlens-q", err)) < 0) {
        return -1;
    }
    if (options->cu_seqlens_kv &&
        (total_kv = packed_total(options->cu_seqlens_kv, "cu-seqlens-kv", err)) < 0) {
        return -1;
    }
    if (options->page_table) {
        return io_fail(err, "page-table: pages need k and v from files (--k, --v)");
    }
    for (int i = 0; i < 3; i++) {
        static const char *const names[3] = {"q", "k", "v"};
        const int is_kv = i > 0;
        const int64_t total = is_kv ? total_kv : total_q;
        const int64_t s = total >= 0 ? total : options->seqlen[is_kv];
        const int64_t h = options->heads[is_kv];
        const bool bshd = problem->layout == LAYOUT_BSHD;
        const int64_t shape[4] = {options->batch, bshd ? s : h, bshd ? h : s, options->dim[i == 2]};
        const int ndim = total >= 0 ? 3 : 4;
        if (make_random(problem, (enum problem_operand)(OPERAND_Q + i), names[i], options, ndim,
                        shape + (4 - ndim), err)) {
            return -1;
        }
    }
    return 0;
}

// ------------------------------------------------------------------------------------------------
// The descriptor's shape

static int fail_axis(const char *axis, int64_t k, int64_t v, struct io_error *err)
{
    return io_fail(err, "v: %lld %s, k has %lld: they must be equal", (long long)v, axis,
                   (long long)k);
}

// Fills shape and strides; packed and paged operands are corrected by problem_add_lengths.
static int describe_shape(struct problem *problem, const struct problem_options *options,
                          struct io_error *err)
{
    const struct io_tensor *t = problem->tensors;
    const struct axes q = tensor_axes(&t[OPERAND_Q], problem->layout);
    const struct axes k = tensor_axes(&t[OPERAND_K], problem->layout);
    const struct axes v = tensor_axes(&t[OPERAND_V], problem->layout);
    if (k.b != v.b || t[OPERAND_K].ndim != t[OPERAND_V].ndim) {
        return fail_axis("batch entries", k.b, v.b, err);
    }
    if (k.s != v.s) {
        return fail_axis("rows", k.s, v.s, err);
    }
    if (k.h != v.h) {
        return fail_axis("heads", k.h, v.h, err);
    }
    if (q.d != k.d) {
        return io_fail(err, "k: head dim %lld, q has %lld: they must be equal", (long long)k.d,
                       (long long)q.d);
    }
    attn_desc_t *d = &problem->desc;
    attn_desc_init(d, (attn_dtype_t)problem_attn_dtype(t[OPERAND_Q].dtype));
    d->batch = q.b;
    d->s_q = q.s;
    d->s_kv = k.s;
    d->heads_q = q.h;
    d->heads_kv = k.h;
    d->d_qk = q.d;
    d->d_v = v.d;
    d->q = tensor_strides(&t[OPERAND_Q], problem->layout);
    d->k = tensor_strides(&t[OPERAND_K], problem->layout);
    d->v = tensor_strides(&t[OPERAND_V], problem->layout);
    problem->args.in.q = t[OPERAND_Q].data;
    problem->args.in.k = t[OPERAND_K].data;
    problem->args.in.v = t[OPERAND_V].data;
    const bool separate_kv = options->page_table || options->kv_batch_idx ||
                             options->cu_seqlens_q || options->cu_seqlens_kv;
    if (q.b != k.b && !separate_kv) {
        return io_fail(err, "k: batch %lld, q has %lld: they must be equal", (long long)k.b,
                       (long long)q.b);
    }
    return 0;
}

// The strides of a result shaped like `like` but with another head dim.
static attn_tensor_t result_strides(const struct problem *problem, enum problem_operand like,
                                    int64_t d, attn_dtype_t dtype)
{
    struct io_tensor shaped = problem->tensors[like];
    shaped.shape[shaped.ndim - 1] = d;
    shaped.dtype = problem_io_dtype(dtype);
    return tensor_strides(&shaped, problem->layout);
}

static void describe_results(struct problem *problem, const struct problem_options *options)
{
    attn_desc_t *d = &problem->desc;
    const bool is_fp8 = d->q.dtype == ATTN_F8_E4M3 || d->q.dtype == ATTN_F8_E5M2;
    const attn_dtype_t o = options->out_dtype ? (attn_dtype_t)(options->out_dtype - 1)
                           : is_fp8           ? ATTN_F32
                                              : d->q.dtype;
    const int grad = options->grad_dtype - 1;
    d->o = result_strides(problem, OPERAND_Q, d->d_v, o);
    d->do_ = d->o;
    d->dq = result_strides(problem, OPERAND_Q, d->d_qk, d->q.dtype);
    d->dk = result_strides(problem, OPERAND_K, d->d_qk, d->k.dtype);
    d->dv = result_strides(problem, OPERAND_V, d->d_v, d->v.dtype);
    if (grad >= 0) {
        d->dq.dtype = d->dk.dtype = d->dv.dtype = (attn_dtype_t)grad;
    }
    const int64_t rows = d->varlen_q ? d->total_q : d->s_q;
    d->lse_stride_b = d->varlen_q ? 0 : d->heads_q * rows;
    d->lse_stride_h = rows;
    d->lse_stride_s = 1;
}

static void describe_choices(struct problem *problem, const struct problem_options *options)
{
    attn_desc_t *d = &problem->desc;
    d->backend = (attn_backend_t)options->backend;
    d->device_index = (int32_t)options->device;
    d->num_splits = (int32_t)options->splits;
    d->deterministic = options->deterministic;
    d->batch_invariant = options->batch_invariant;
}

int problem_create(struct problem *problem, const struct problem_options *options,
                   bool describe_only, struct io_error *err)
{
    memset(problem, 0, sizeof(*problem));
    attn_backward_args_init(&problem->args);
    attn_forward_args_init(&problem->args.in);
    problem->layout = (enum problem_layout)options->layout;
    problem->describe_only = describe_only;
    const bool has_files = options->q || options->k || options->v || options->input;
    int status = has_files ? load_qkv(problem, options, err) : make_qkv(problem, options, err);
    if (!status) {
        status = describe_shape(problem, options, err);
    }
    if (!status) {
        status = problem_add_lengths(problem, options, err);
    }
    if (!status) {
        describe_results(problem, options);
        describe_choices(problem, options);
        status = problem_add_scores(problem, options, err);
    }
    if (status) {
        problem_destroy(problem);
    }
    return status;
}

void problem_destroy(struct problem *problem)
{
    for (int i = 0; i < OPERAND_COUNT; i++) {
        io_tensor_clear(&problem->tensors[i]);
    }
    memset(problem, 0, sizeof(*problem));
}

// ------------------------------------------------------------------------------------------------
// Results and gradients

// A zeroed tensor shaped like another one, with its last dim set to d.
static int add_like(struct problem *problem, enum problem_operand which, const char *name,
                    enum problem_operand like, int64_t d, attn_dtype_t dtype, struct io_error *err)
{
    int64_t shape[IO_MAX_DIMS];
    const struct io_tensor *source = &problem->tensors[like];
    memcpy(shape, source->shape, sizeof(shape));
    shape[source->ndim - 1] = d;
    io_tensor_clear(&problem->tensors[which]);
    return io_tensor_init(&problem->tensors[which], name, problem_io_dtype(dtype), source->ndim,
                          shape, err);
}

static int add_lse_like(struct problem *problem, enum problem_operand which, const char *name,
                        struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    const int64_t shape[3] = {d->batch, d->heads_q, d->varlen_q ? d->total_q : d->s_q};
    const int ndim = problem->tensors[OPERAND_Q].ndim == 4 ? 3 : 2;
    io_tensor_clear(&problem->tensors[which]);
    return io_tensor_init(&problem->tensors[which], name, IO_F32, ndim, shape + (3 - ndim), err);
}

int problem_add_forward_results(struct problem *problem, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    if (add_like(problem, OPERAND_O, "o", OPERAND_Q, d->d_v, d->o.dtype, err) ||
        add_lse_like(problem, OPERAND_LSE, "lse", err)) {
        return -1;
    }
    problem->desc.wants_lse = 1;
    problem->args.in.o = problem->tensors[OPERAND_O].data;
    problem->args.in.lse = problem->tensors[OPERAND_LSE].data;
    return 0;
}

int problem_add_backward_results(struct problem *problem, struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    struct io_tensor *t = problem->tensors;
    if (add_like(problem, OPERAND_DQ, "dq", OPERAND_Q, d->d_qk, d->dq.dtype, err) ||
        add_like(problem, OPERAND_DK, "dk", OPERAND_K, d->d_qk, d->dk.dtype, err) ||
        add_like(problem, OPERAND_DV, "dv", OPERAND_V, d->d_v, d->dv.dtype, err)) {
        return -1;
    }
    problem->args.dq = t[OPERAND_DQ].data;
    problem->args.dk = t[OPERAND_DK].data;
    problem->args.dv = t[OPERAND_DV].data;
    if (d->has_sink) {
        io_tensor_clear(&t[OPERAND_DSINK]);
        if (io_tensor_init(&t[OPERAND_DSINK], "dsink", IO_F32, 1, &d->heads_q, err)) {
            return -1;
        }
        d->wants_dsink = 1;
        problem->args.dsink = t[OPERAND_DSINK].data;
    }
    if (d->bias.present) {
        const struct io_tensor *bias = &t[OPERAND_BIAS];
        io_tensor_clear(&t[OPERAND_DBIAS]);
        if (io_tensor_init(&t[OPERAND_DBIAS], "dbias", IO_F32, bias->ndim, bias->shape, err)) {
            return -1;
        }
        d->dbias = d->bias;
        d->dbias.dtype = ATTN_F32;
        problem->args.dbias = t[OPERAND_DBIAS].data;
    }
    return 0;
}

static int check_same_shape(const struct io_tensor *t, const char *operand,
                            const struct io_tensor *like, struct io_error *err)
{
    if (t->ndim == like->ndim && !memcmp(t->shape, like->shape, sizeof(t->shape))) {
        return 0;
    }
    char got[128];
    char expected[128];
    return io_fail(err, "%s: shape %s, expected %s like %s", operand,
                   io_shape_format(t->ndim, t->shape, got, sizeof(got)),
                   io_shape_format(like->ndim, like->shape, expected, sizeof(expected)),
                   like->name);
}

int problem_add_gradient_inputs(struct problem *problem, const char *do_spec, const char *dlse_spec,
                                uint64_t random_seed, struct io_error *err)
{
    struct io_tensor *t = problem->tensors;
    attn_desc_t *d = &problem->desc;
    if (!do_spec) {
        if (add_like(problem, OPERAND_DO, "do", OPERAND_O, d->d_v, d->o.dtype, err)) {
            return -1;
        }
        random_fill(&t[OPERAND_DO], random_seed, "do", 1.0, 0.5);
    } else if (array_load(do_spec, "do", IO_DTYPE_NONE, &t[OPERAND_DO], err) ||
               check_operand(&t[OPERAND_DO], "do", do_spec, err) ||
               check_same_shape(&t[OPERAND_DO], "do", &t[OPERAND_O], err) ||
               convert_to_choice(&t[OPERAND_DO], 1 + (int)d->o.dtype, err)) {
        return -1;
    }
    d->do_.dtype = d->o.dtype;
    problem->args.do_ = t[OPERAND_DO].data;
    if (dlse_spec) {
        if (array_load_f32(dlse_spec, "dlse", &t[OPERAND_DLSE], err) ||
            check_same_shape(&t[OPERAND_DLSE], "dlse", &t[OPERAND_LSE], err)) {
            return -1;
        }
        d->has_dlse = 1;
        problem->args.dlse = t[OPERAND_DLSE].data;
    }
    return 0;
}

bool problem_is_result(int which)
{
    return which >= OPERAND_O && which <= OPERAND_DBIAS && which != OPERAND_DO &&
           which != OPERAND_DLSE;
}

void problem_title(const struct problem *problem, char *text, size_t text_bytes)
{
    const attn_desc_t *d = &problem->desc;
    int n = snprintf(text, text_bytes, "B %lld, S %lld/%lld, H %lld/%lld, D %lld/%lld, %s",
                     (long long)d->batch, (long long)d->s_q, (long long)d->s_kv,
                     (long long)d->heads_q, (long long)d->heads_kv, (long long)d->d_qk,
                     (long long)d->d_v, io_dtype_name(problem_io_dtype(d->q.dtype)));
    const struct {
        int on;
        const char *text;
    } extras[] = {
        {d->causal, ", causal"},
        {d->window_left >= 0 || d->window_right >= 0, ", window"},
        {d->align == ATTN_ALIGN_TOP_LEFT, ", top-left"},
        {d->softcap > 0, ", softcap"},
        {d->has_alibi, ", alibi"},
        {d->bias.present, ", bias"},
        {d->mask.present, ", mask"},
        {d->has_sink, ", sink"},
        {d->dropout_p > 0, ", dropout"},
        {d->varlen_q || d->varlen_kv, ", packed"},
        {d->has_seqused_q || d->has_seqused_kv, ", used lengths"},
        {d->has_leftpad_kv, ", left padding"},
        {d->paged_kv, ", paged"},
        {d->block_sparse, ", blocks"},
    };
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        if (extras[i].on && n >= 0 && (size_t)n < text_bytes) {
            n += snprintf(text + n, text_bytes - (size_t)n, "%s", extras[i].text);
        }
    }
}
