// The reference backend, which everything else is measured by, measured itself: hand-computed
// answers, and its gradients against differences of its own forward pass, option by option.
#include "support.h"

#include <math.h>
#include <stdio.h>

static const runner_t reference = {.backend = ATTN_BACKEND_REFERENCE, .workers = 1};

static void near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance)) {
        fail_msg("got %.17g, expected %.17g within %g", got, expected, tolerance);
    }
}

// ---------------------------------------------------------------------------------------------
// Answers by hand

// One row, two keys with scores ln 3 and 0, values 1 and 5: weights 3/4 and 1/4.
static attn_desc_t two_keys(void)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F64);
    attn_desc_set_shape(&desc, 1, 1, 2, 1, 1, 1);
    desc.scale = 1.0f;
    desc.wants_lse = 1;
    return desc;
}

static problem_t *two_keys_problem(const attn_desc_t *desc)
{
    problem_t *p = problem_create(desc, &(problem_options_t){.seed = 1, .backward = true});
    operand_set(&p->q, 0, 0, 0, 0, 1.0);
    operand_set(&p->k, 0, 0, 0, 0, log(3.0));
    operand_set(&p->k, 0, 1, 0, 0, 0.0);
    operand_set(&p->v, 0, 0, 0, 0, 1.0);
    operand_set(&p->v, 0, 1, 0, 0, 5.0);
    operand_set(&p->do_, 0, 0, 0, 0, 1.0);
    return p;
}

static void test_two_keys(void **state)
{
    (void)state;
    const attn_desc_t desc = two_keys();
    problem_t *p = two_keys_problem(&desc);
    results_t r = assert_problem_runs(p, &reference);
    near(operand_get(&r.o, 0, 0, 0, 0), 2.0, 1e-15);
    near(operand_get(&r.lse, 0, 0, 0, 0), log(4.0), 1e-7);
    // dS = p * (v - o); the lse is fp32, so p has its error.
    near(operand_get(&r.dq, 0, 0, 0, 0), -0.75 * log(3.0), 1e-6);
    near(operand_get(&r.dk, 0, 0, 0, 0), -0.75, 1e-6);
    near(operand_get(&r.dk, 0, 1, 0, 0), 0.75, 1e-6);
    near(operand_get(&r.dv, 0, 0, 0, 0), 0.75, 1e-6);
    near(operand_get(&r.dv, 0, 1, 0, 0), 0.25, 1e-6);
    results_destroy(&r);
    problem_destroy(p);
}

// A sink of ln 4 takes half of the weight.
static void test_sink(void **state)
{
    (void)state;
    attn_desc_t desc = two_keys();
    desc.has_sink = desc.wants_dsink = 1;
    problem_t *p = two_keys_problem(&desc);
    operand_set(&p->sink, 0, 0, 0, 0, log(4.0));
    results_t r = assert_problem_runs(p, &reference);
    near(operand_get(&r.o, 0, 0, 0, 0), 1.0, 1e-6);
    near(operand_get(&r.lse, 0, 0, 0, 0), log(8.0), 1e-6);
    near(operand_get(&r.dsink, 0, 0, 0, 0), -0.5, 1e-6);
    near(operand_get(&r.dv, 0, 0, 0, 0), 3.0 / 8.0, 1e-6);
    results_destroy(&r);
    problem_destroy(p);
}

// A dlse of 2 adds 2 * p to dS.
static void test_dlse(void **state)
{
    (void)state;
    attn_desc_t desc = two_keys();
    desc.has_dlse = 1;
    problem_t *p = two_keys_problem(&desc);
    operand_set(&p->dlse, 0, 0, 0, 0, 2.0);
    results_t r = assert_problem_runs(p, &reference);
    near(operand_get(&r.dk, 0, 0, 0, 0), -0.75 + 2.0 * 0.75, 1e-6);
    near(operand_get(&r.dk, 0, 1, 0, 0), 0.75 + 2.0 * 0.25, 1e-6);
    results_destroy(&r);
    problem_destroy(p);
}

static void test_softcap_and_bias(void **state)
{
    (void)state;
    attn_desc_t desc = two_keys();
    desc.softcap = 0.5f;
    desc.bias.present = 1;
    desc.bias.dtype = ATTN_F32;
    problem_t *p = two_keys_problem(&desc);
    operand_set(&p->bias, 0, 0, 0, 0, 0.25);
    operand_set(&p->bias, 0, 0, 0, 1, -0.5);
    const double first = exp(0.5 * tanh(log(3.0) / 0.5) + 0.25);
    const double second = exp(-0.5);
    results_t r = assert_problem_runs(p, &reference);
    near(operand_get(&r.o, 0, 0, 0, 0), (first + 5.0 * second) / (first + second), 1e-14);
    near(operand_get(&r.lse, 0, 0, 0, 0), log(first + second), 1e-7);
    results_destroy(&r);
    problem_destroy(p);
}

// With bottom-right alignment the one row is at position 1, with top-left at 0.
static void test_alibi_counts_from_the_aligned_position(void **state)
{
    (void)state;
    for (int top_left = 0; top_left <= 1; top_left++) {
        attn_desc_t desc = two_keys();
        desc.align = top_left ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
        desc.has_alibi = 1;
        problem_t *p = two_keys_problem(&desc);
        operand_set(&p->alibi, 0, 0, 0, 0, log(2.0));
        const double first = top_left ? 3.0 : 1.5;
        const double second = top_left ? 0.5 : 1.0;
        results_t r = assert_problem_runs(p, &reference);
        near(operand_get(&r.o, 0, 0, 0, 0), (first + 5.0 * second) / (first + second), 1e-6);
        results_destroy(&r);
        problem_destroy(p);
    }
}

// Causal, 2 rows on 5 keys: bottom-right they see 4 and 5 keys, top-left 1 and 2.
static void test_alignment(void **state)
{
    (void)state;
    for (int top_left = 0; top_left <= 1; top_left++) {
        attn_desc_t desc;
        attn_desc_init(&desc, ATTN_F64);
        attn_desc_set_shape(&desc, 1, 2, 5, 1, 1, 1);
        desc.causal = 1;
        desc.align = top_left ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
        problem_t *p = problem_create(&desc, &(problem_options_t){.fill = FILL_ZERO_Q});
        for (int64_t j = 0; j < 5; j++) {
            operand_set(&p->k, 0, j, 0, 0, 0.0);
            operand_set(&p->v, 0, j, 0, 0, (double)j);
        }
        results_t r = assert_problem_runs(p, &reference);
        near(operand_get(&r.o, 0, 0, 0, 0), top_left ? 0.0 : 1.5, 1e-15);
        near(operand_get(&r.o, 0, 1, 0, 0), top_left ? 0.5 : 2.0, 1e-15);
        results_destroy(&r);
        problem_destroy(p);
    }
}

// Rows that see nothing: zeros and -inf whatever q holds; with a sink the lse is the sink and only
// dlse reaches it.
static void test_empty_row(void **state)
{
    (void)state;
    for (int with_sink = 0; with_sink <= 1; with_sink++) {
        attn_desc_t desc;
        attn_desc_init(&desc, ATTN_F64);
        attn_desc_set_shape(&desc, 1, 1, 1, 1, 1, 1);
        desc.window_right = 0;
        desc.align = ATTN_ALIGN_TOP_LEFT;
        desc.has_leftpad_kv = 1;
        desc.wants_lse = desc.has_dlse = 1;
        desc.has_sink = desc.wants_dsink = with_sink;
        const int32_t leftpad[] = {1};
        problem_t *p =
            problem_create(&desc, &(problem_options_t){.backward = true, .leftpad_kv = leftpad});
        operand_set(&p->dlse, 0, 0, 0, 0, 3.0);
        if (with_sink) {
            operand_set(&p->sink, 0, 0, 0, 0, 1.5);
        }
        results_t r = assert_problem_runs(p, &reference);
        assert_true(operand_get(&r.o, 0, 0, 0, 0) == 0.0);
        assert_true(operand_get(&r.lse, 0, 0, 0, 0) == (with_sink ? 1.5 : -INFINITY));
        assert_true(operand_get(&r.dq, 0, 0, 0, 0) == 0.0);
        assert_true(operand_get(&r.dk, 0, 0, 0, 0) == 0.0);
        assert_true(operand_get(&r.dv, 0, 0, 0, 0) == 0.0);
        if (with_sink) {
            near(operand_get(&r.dsink, 0, 0, 0, 0), 3.0, 1e-12);
        }
        results_destroy(&r);
        problem_destroy(p);
    }
}

// ---------------------------------------------------------------------------------------------
// Differences

static double loss(const problem_t *p)
{
    problem_t forward_only = *p;
    forward_only.options.backward = false;
    results_t r = assert_problem_runs(&forward_only, &reference);
    double sum = 0.0;
    for (operand_walk_t w = operand_walk(&r.o); !w.done; operand_next(&r.o, &w)) {
        const double weight = operand_get(&p->do_, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (isfinite(weight)) { // rows behind the used ones have NaN there
            sum += weight * operand_get(&r.o, w.at[0], w.at[1], w.at[2], w.at[3]);
        }
    }
    for (operand_walk_t w = operand_walk(&r.lse); !w.done; operand_next(&r.lse, &w)) {
        const double lse = operand_get(&r.lse, w.at[0], w.at[1], w.at[2], 0);
        if (p->full.has_dlse && isfinite(lse)) {
            sum += operand_get(&p->dlse, w.at[0], w.at[1], w.at[2], 0) * lse;
        }
    }
    results_destroy(&r);
    return sum;
}

// Fourth-order central difference of the loss in one stored element of x. The step is large, since
// lse, bias and sink are fp32.
static double slope(const problem_t *p, operand_t *x, const int64_t at[4])
{
    const double h = 0x1p-5;
    const double value = operand_get(x, at[0], at[1], at[2], at[3]);
    double sum = 0.0;
    const double weights[] = {1.0, -8.0, 0.0, 8.0, -1.0};
    for (int n = 0; n < 5; n++) {
        if (n != 2) {
            operand_set(x, at[0], at[1], at[2], at[3], value + (n - 2) * h);
            sum += weights[n] * loss(p);
        }
    }
    operand_set(x, at[0], at[1], at[2], at[3], value);
    return sum / (12.0 * h);
}

static void check_slopes(const char *option, const problem_t *p, operand_t *x,
                         const operand_t *gradient)
{
    int64_t step = 0;
    for (operand_walk_t w = operand_walk(x); gradient->buffer.memory != NULL && !w.done;
         operand_next(x, &w)) {
        // A stored element that several indexes share is tried at its first index.
        bool first = true;
        for (int n = 0; n < 4; n++) {
            first = first && (x->strides[n] != 0 || w.at[n] == 0);
        }
        const double value = operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]);
        if (!first || value == -INFINITY || step++ % 3 != 0) {
            continue;
        }
        const double got = operand_get(gradient, w.at[0], w.at[1], w.at[2], w.at[3]);
        const double expected = slope(p, x, w.at);
        if (!(fabs(got - expected) <= 5e-5 * (1.0 + fabs(expected)))) {
            fail_msg("%s: d%s[%lld,%lld,%lld,%lld] = %.9g, differences give %.9g", option, x->name,
                     (long long)w.at[0], (long long)w.at[1], (long long)w.at[2], (long long)w.at[3],
                     got, expected);
        }
    }
}

static void option_plain(attn_desc_t *desc)
{
    (void)desc;
}
static void option_causal(attn_desc_t *desc)
{
    desc->causal = 1;
}
static void option_window(attn_desc_t *desc)
{
    desc->window_left = 2;
    desc->window_right = 1;
    desc->align = ATTN_ALIGN_TOP_LEFT;
}
static void option_softcap(attn_desc_t *desc)
{
    desc->softcap = 0.75f;
}
static void option_scale(attn_desc_t *desc)
{
    desc->scale = -0.8f;
}
static void option_alibi(attn_desc_t *desc)
{
    desc->has_alibi = 1;
    desc->alibi_stride_b = desc->heads_q;
}
static void option_sink(attn_desc_t *desc)
{
    desc->has_sink = desc->wants_dsink = 1;
}
static void option_mask(attn_desc_t *desc)
{
    desc->mask.present = 1;
}
static void option_bias(attn_desc_t *desc)
{
    desc->bias.present = desc->dbias.present = 1;
    desc->bias.dtype = desc->dbias.dtype = ATTN_F32;
}
static void option_shared_bias(attn_desc_t *desc)
{
    option_bias(desc);
    desc->bias.stride_b = desc->bias.stride_q = 0;
    desc->bias.stride_h = desc->s_kv;
    desc->dbias.stride_b = desc->dbias.stride_q = 0;
    desc->dbias.stride_h = desc->s_kv;
}
static void option_dropout(attn_desc_t *desc)
{
    desc->dropout_p = 0.4f;
}
static void option_dlse(attn_desc_t *desc)
{
    desc->has_dlse = 1;
}
static void option_blocks(attn_desc_t *desc)
{
    desc->block_sparse = 1;
    desc->block_q = 2;
    desc->block_kv = 3;
    desc->blocks_per_row = (desc->s_kv + 2) / 3;
}
static void option_varlen(attn_desc_t *desc)
{
    desc->varlen_q = desc->varlen_kv = 1;
    desc->total_q = 2 * desc->s_q;
    desc->total_kv = 2 * desc->s_kv;
}
static void option_used(attn_desc_t *desc)
{
    desc->has_seqused_q = desc->has_seqused_kv = desc->has_leftpad_kv = 1;
}
static void option_all(attn_desc_t *desc)
{
    option_causal(desc);
    option_softcap(desc);
    option_alibi(desc);
    option_sink(desc);
    option_bias(desc);
    option_dropout(desc);
    option_dlse(desc);
    option_varlen(desc);
}

typedef struct option {
    const char *name;
    void (*set)(attn_desc_t *desc);
} option_t;

static void test_gradients_are_differences(void **state)
{
    (void)state;
    static const option_t options[] = {
        {"plain", option_plain},       {"causal", option_causal},
        {"window", option_window},     {"softcap", option_softcap},
        {"scale", option_scale},       {"alibi", option_alibi},
        {"sink", option_sink},         {"mask", option_mask},
        {"bias", option_bias},         {"shared bias", option_shared_bias},
        {"dropout", option_dropout},   {"dlse", option_dlse},
        {"blocks", option_blocks},     {"varlen", option_varlen},
        {"used lengths", option_used}, {"all", option_all},
    };
    for (size_t n = 0; n < sizeof(options) / sizeof(options[0]); n++) {
        attn_desc_t desc;
        attn_desc_init(&desc, ATTN_F64);
        attn_desc_set_shape(&desc, 2, 4, 6, 4, 2, 3);
        desc.d_v = 2;
        desc.wants_lse = 1;
        options[n].set(&desc);
        problem_t *p =
            problem_create(&desc, &(problem_options_t){.seed = 100 + n, .backward = true});
        results_t r = assert_problem_runs(p, &reference);
        check_slopes(options[n].name, p, &p->q, &r.dq);
        check_slopes(options[n].name, p, &p->k, &r.dk);
        check_slopes(options[n].name, p, &p->v, &r.dv);
        check_slopes(options[n].name, p, &p->bias, &r.dbias);
        check_slopes(options[n].name, p, &p->sink, &r.dsink);
        results_destroy(&r);
        problem_destroy(p);
    }
}

// The reference and the support's plain fp32 implementation were written apart: they must agree.
static void test_reference_agrees_with_plain(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 20; n++) {
        attn_desc_t desc;
        attn_desc_init(&desc, ATTN_F32);
        attn_desc_set_shape(&desc, 2, 5 + (int64_t)n, 9, 4, 2, 8);
        desc.causal = n % 2;
        desc.has_sink = n % 3 == 0;
        desc.wants_lse = 1;
        problem_t *p = problem_create(&desc, &(problem_options_t){.seed = n, .backward = true});
        assert_problem_holds_on(p, &reference);
        const operand_t *truths[] = {&p->truth.o, &p->truth.dq, &p->truth.dk, &p->truth.dv};
        const operand_t *plains[] = {&p->eager.o, &p->eager.dq, &p->eager.dk, &p->eager.dv};
        for (int which = 0; which < 4; which++) {
            const operand_t *x = truths[which];
            for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w)) {
                near(operand_get(plains[which], w.at[0], w.at[1], w.at[2], w.at[3]),
                     operand_get(x, w.at[0], w.at[1], w.at[2], w.at[3]), 1e-4);
            }
        }
        problem_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_keys),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_dlse),
        cmocka_unit_test(test_softcap_and_bias),
        cmocka_unit_test(test_alibi_counts_from_the_aligned_position),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_empty_row),
        cmocka_unit_test(test_gradients_are_differences),
        cmocka_unit_test(test_reference_agrees_with_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
