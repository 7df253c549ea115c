// Sequences of 32768 rows on a GPU, forward and backward. The fp64 reference of all of it would
// take too long, so rows and keys are sampled: a row's o, lse and dq depend on all keys, a key's dk
// and dv on all rows, of which they take the o and lse that the backward pass is given. The
// tolerance is that of judge.c: 2 times (gradients: 3 times) the largest error of a plain
// computation that rounds where a kernel must, and the rounding of the result. Says so and exits
// with 77 without a GPU.
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu_copy.h"

enum { ROWS = 32768, HEADS_Q = 2, HEADS_KV = 1, GROUP = HEADS_Q / HEADS_KV, D_MAX = 128 };
enum { SAMPLES = 24 };

// (ROWS, heads, d), on the GPU and here as numbers.
struct tensor {
    int64_t heads;
    void *stored;
    float *numbers;
    gpu_copy_t gpu;
};

struct long_problem {
    attn_desc_t desc;
    attn_dtype_t dtype;
    int64_t d;
    double scale;
    struct tensor q, k, v, do_, o, dq, dk, dv;
    float lse[HEADS_Q * ROWS];
    double delta[HEADS_Q * ROWS]; // dO . O
    gpu_copy_t lse_gpu;
};

// ---- memory

static void *make(size_t bytes)
{
    void *const memory = calloc(bytes, 1);
    assert_non_null(memory);
    return memory;
}

static int64_t count_of(const struct long_problem *p, const struct tensor *t)
{
    return ROWS * t->heads * p->d;
}

static void read_numbers(const struct long_problem *p, const struct tensor *t)
{
    for (int64_t i = 0; i < count_of(p, t); i++) {
        t->numbers[i] = (float)test_number_get(p->dtype, t->stored, i);
    }
}

// rng NULL: a result.
static struct tensor tensor_create(const struct long_problem *p, int64_t heads, test_rng_t *rng)
{
    struct tensor t = {.heads = heads};
    const size_t count = (size_t)count_of(p, &t);
    t.stored = make(count * attn_dtype_bytes(p->dtype));
    t.numbers = make(count * sizeof(float));
    for (size_t i = 0; rng != NULL && i < count; i++) {
        test_number_set(p->dtype, t.stored, (int64_t)i, test_rng_normal(rng));
    }
    read_numbers(p, &t);
    t.gpu = gpu_copy_create(t.stored, count * attn_dtype_bytes(p->dtype));
    return t;
}

static void tensor_destroy(struct tensor *t)
{
    gpu_copy_destroy(&t->gpu);
    free(t->numbers);
    free(t->stored);
}

static const float *vector_of(const struct long_problem *p, const struct tensor *t, int64_t row,
                              int64_t head)
{
    return t->numbers + (row * t->heads + head) * p->d;
}

// ---- one row, one key: exact, or rounded where a kernel must

static double rounded(const struct long_problem *p, bool is_plain, double x)
{
    return is_plain ? test_number_round(p->dtype, x) : x;
}

// A plain computation adds up in fp32.
static double dot(const struct long_problem *p, bool is_plain, const float *x, const float *y)
{
    double exact = 0.0;
    float plain = 0.0f;
    for (int64_t c = 0; c < p->d; c++) {
        exact += (double)x[c] * (double)y[c];
        plain += x[c] * y[c];
    }
    return is_plain ? (double)plain : exact;
}

static void add_scaled(const struct long_problem *p, double factor, const float *x, double *sum)
{
    for (int64_t c = 0; c < p->d; c++) {
        sum[c] += factor * (double)x[c];
    }
}

static void finish(const struct long_problem *p, bool is_plain, double factor, double *sum)
{
    for (int64_t c = 0; c < p->d; c++) {
        sum[c] = rounded(p, is_plain, factor * sum[c]);
    }
}

struct row_results {
    double lse;
    double o[D_MAX], dq[D_MAX];
};

static void compute_row(const struct long_problem *p, int64_t h, int64_t i, bool is_plain,
                        struct row_results *r)
{
    static double s[ROWS];
    const int64_t keys = p->desc.causal ? i + 1 : ROWS;
    const float *const q = vector_of(p, &p->q, i, h);
    const float *const do_ = vector_of(p, &p->do_, i, h);
    double most = -INFINITY;
    double sum = 0.0;
    double delta = 0.0;
    memset(r, 0, sizeof(*r));
    for (int64_t j = 0; j < keys; j++) {
        s[j] = p->scale * dot(p, is_plain, q, vector_of(p, &p->k, j, h / GROUP));
        most = fmax(most, s[j]);
    }
    for (int64_t j = 0; j < keys; j++) {
        const double weight = exp(s[j] - most);
        sum += weight;
        add_scaled(p, rounded(p, is_plain, weight), vector_of(p, &p->v, j, h / GROUP), r->o);
    }
    r->lse = most + log(sum);
    finish(p, is_plain, 1.0 / sum, r->o);
    for (int64_t c = 0; c < p->d; c++) {
        delta += r->o[c] * (double)do_[c];
    }
    for (int64_t j = 0; j < keys; j++) {
        const double dp = dot(p, is_plain, do_, vector_of(p, &p->v, j, h / GROUP));
        const double ds = rounded(p, is_plain, exp(s[j] - r->lse) * (dp - delta));
        add_scaled(p, ds, vector_of(p, &p->k, j, h / GROUP), r->dq);
    }
    finish(p, is_plain, p->scale, r->dq);
}

struct key_results {
    double dk[D_MAX], dv[D_MAX];
};

static void compute_key(const struct long_problem *p, int64_t j, bool is_plain,
                        struct key_results *r)
{
    const float *const k = vector_of(p, &p->k, j, 0);
    const float *const v = vector_of(p, &p->v, j, 0);
    memset(r, 0, sizeof(*r));
    for (int64_t h = 0; h < HEADS_Q; h++) {
        for (int64_t i = p->desc.causal ? j : 0; i < ROWS; i++) {
            const float *const q = vector_of(p, &p->q, i, h);
            const float *const do_ = vector_of(p, &p->do_, i, h);
            const double s = p->scale * dot(p, is_plain, q, k);
            const double weight = exp(s - (double)p->lse[h * ROWS + i]);
            const double dp = dot(p, is_plain, do_, v);
            const double ds = weight * (dp - p->delta[h * ROWS + i]);
            add_scaled(p, rounded(p, is_plain, weight), do_, r->dv);
            add_scaled(p, rounded(p, is_plain, ds), q, r->dk);
        }
    }
    finish(p, is_plain, p->scale, r->dk);
    finish(p, is_plain, 1.0, r->dv);
}

// ---- judging

struct errors {
    double got, plain; // largest errors
    double largest;    // of what is right
};

static void add_error(struct errors *e, double got, double plain, double right)
{
    assert_true(isfinite(got));
    e->got = fmax(e->got, fabs(got - right));
    e->plain = fmax(e->plain, fabs(plain - right));
    e->largest = fmax(e->largest, fabs(right));
}

static void add_errors(const struct long_problem *p, struct errors *e, const float *got,
                       const double *plain, const double *right)
{
    for (int64_t c = 0; c < p->d; c++) {
        add_error(e, (double)got[c], plain[c], right[c]);
    }
}

static void expect_small(const char *name, const struct errors *e, double factor, double rounding)
{
    const double allowed = factor * e->plain + rounding * e->largest;
    printf("  %-3s error %.2e, plain %.2e, allowed %.2e\n", name, e->got, e->plain, allowed);
    assert_true(e->got <= allowed);
}

// Causal results shrink along the sequence: the tolerance of the first ones would hide the others.
static int64_t sample(test_rng_t *rng)
{
    return test_rng_range(rng, ROWS / 4, ROWS - 1);
}

static void judge_rows(const struct long_problem *p, test_rng_t *rng)
{
    struct errors lse = {0.0, 0.0, 0.0};
    struct errors o = lse;
    struct errors dq = lse;
    for (int n = 0; n < SAMPLES; n++) {
        const int64_t i = sample(rng);
        const int64_t h = n % HEADS_Q;
        struct row_results right;
        struct row_results plain;
        compute_row(p, h, i, false, &right);
        compute_row(p, h, i, true, &plain);
        add_error(&lse, (double)p->lse[h * ROWS + i], plain.lse, right.lse);
        add_errors(p, &o, vector_of(p, &p->o, i, h), plain.o, right.o);
        add_errors(p, &dq, vector_of(p, &p->dq, i, h), plain.dq, right.dq);
    }
    // The terms of a score add up to sqrt(d), and their fp32 roundings grow with sqrt(d).
    expect_small("lse", &lse, 2.0, test_number_unit(ATTN_F32) * (4.0 + (double)p->d));
    expect_small("o", &o, 2.0, test_number_unit(p->dtype));
    expect_small("dq", &dq, 3.0, test_number_unit(p->dtype));
}

static void judge_keys(const struct long_problem *p, test_rng_t *rng)
{
    struct errors dk = {0.0, 0.0, 0.0};
    struct errors dv = dk;
    for (int n = 0; n < SAMPLES; n++) {
        const int64_t j = sample(rng);
        struct key_results right;
        struct key_results plain;
        compute_key(p, j, false, &right);
        compute_key(p, j, true, &plain);
        add_errors(p, &dk, vector_of(p, &p->dk, j, 0), plain.dk, right.dk);
        add_errors(p, &dv, vector_of(p, &p->dv, j, 0), plain.dv, right.dv);
    }
    expect_small("dk", &dk, 3.0, test_number_unit(p->dtype));
    expect_small("dv", &dv, 3.0, test_number_unit(p->dtype));
}

// ---- running

static void run(const struct long_problem *p)
{
    attn_plan_t *forward;
    attn_plan_t *backward;
    assert_ok(attn_plan_create(NULL, &p->desc, ATTN_FORWARD, &forward));
    assert_ok(attn_plan_create(NULL, &p->desc, ATTN_BACKWARD, &backward));
    printf("%s, %s\n", attn_plan_kernel_name(forward), attn_plan_kernel_name(backward));
    gpu_copy_t scratch[2] = {gpu_copy_create(NULL, attn_plan_workspace_bytes(forward)),
                             gpu_copy_create(NULL, attn_plan_workspace_bytes(backward))};
    attn_backward_args_t args;
    attn_backward_args_init(&args);
    args.in.q = p->q.gpu.data;
    args.in.k = p->k.gpu.data;
    args.in.v = p->v.gpu.data;
    args.in.o = p->o.gpu.data;
    args.in.lse = (float *)(void *)p->lse_gpu.data;
    args.do_ = p->do_.gpu.data;
    args.dq = p->dq.gpu.data;
    args.dk = p->dk.gpu.data;
    args.dv = p->dv.gpu.data;
    assert_ok(attn_forward(forward, &args.in, scratch[0].data, scratch[0].bytes, NULL));
    assert_ok(attn_backward(backward, &args, scratch[1].data, scratch[1].bytes, NULL));
    gpu_copy_wait();
    for (int i = 0; i < 2; i++) {
        assert_true(gpu_copy_fetch(&scratch[i], NULL));
        gpu_copy_destroy(&scratch[i]);
    }
    attn_plan_destroy(backward);
    attn_plan_destroy(forward);
}

static void fetch(struct long_problem *p)
{
    const struct tensor *const results[] = {&p->o, &p->dq, &p->dk, &p->dv};
    for (size_t n = 0; n < sizeof(results) / sizeof(results[0]); n++) {
        assert_true(gpu_copy_fetch(&results[n]->gpu, results[n]->stored));
        read_numbers(p, results[n]);
    }
    assert_true(gpu_copy_fetch(&p->lse_gpu, p->lse));
    for (int64_t h = 0; h < HEADS_Q; h++) {
        for (int64_t i = 0; i < ROWS; i++) {
            p->delta[h * ROWS + i] =
                dot(p, false, vector_of(p, &p->o, i, h), vector_of(p, &p->do_, i, h));
        }
    }
}

static attn_desc_t long_desc(attn_dtype_t dtype, int64_t d, bool is_causal)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, 1, ROWS, ROWS, HEADS_Q, HEADS_KV, d);
    desc.backend = ATTN_BACKEND_CUDA;
    desc.causal = is_causal;
    desc.wants_lse = 1;
    return desc;
}

static void check(attn_dtype_t dtype, int64_t d, bool is_causal, bool is_deterministic)
{
    static struct long_problem p;
    test_rng_t rng = test_rng_at(1, (uint64_t)d);
    p.desc = long_desc(dtype, d, is_causal);
    p.desc.deterministic = is_deterministic;
    p.dtype = dtype;
    p.d = d;
    p.scale = 1.0 / sqrt((double)d);
    p.lse_gpu = gpu_copy_create(NULL, sizeof(p.lse));
    struct tensor *const inputs[] = {&p.q, &p.k, &p.v, &p.do_};
    struct tensor *const results[] = {&p.o, &p.dk, &p.dv, &p.dq};
    for (int n = 0; n < 4; n++) {
        const int64_t heads = n == 1 || n == 2 ? HEADS_KV : HEADS_Q;
        *inputs[n] = tensor_create(&p, heads, &rng);
        *results[n] = tensor_create(&p, heads, NULL);
    }
    run(&p);
    fetch(&p);
    judge_rows(&p, &rng);
    judge_keys(&p, &rng);
    for (int n = 0; n < 4; n++) {
        tensor_destroy(inputs[n]);
        tensor_destroy(results[n]);
    }
    gpu_copy_destroy(&p.lse_gpu);
}

static void test_causal(void **state)
{
    (void)state;
    check(ATTN_BF16, 128, true, false);
    check(ATTN_F16, 64, true, true);
}

static void test_full(void **state)
{
    (void)state;
    check(ATTN_BF16, 64, false, false);
}

int main(void)
{
    const attn_desc_t desc = long_desc(ATTN_BF16, 128, true);
    if (attn_supports(NULL, &desc, ATTN_BACKWARD) != ATTN_OK) {
        print_message("skipped: %s\n", attn_last_error());
        return 77;
    }
    gpu_copy_open(0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_causal), cmocka_unit_test(test_full)};
    return cmocka_run_group_tests_name("gpu_long", tests, NULL, NULL);
}
