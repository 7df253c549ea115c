// The CPU forward kernels against the fp64 reference, on every instruction set of the machine:
// remainders of every strip, panel and tile size, head dims around the vector widths, all ways of
// loading, the few-rows kernel, splits, and results that must be exact or equal in every bit.
#include <math.h>

#include "cpu/isa/simd_scalar.h"

#include "cpu/isa/math_tmpl.h"
#include "support.h"

static void holds(const attn_desc_t *desc, const problem_options_t *options)
{
    problem_t *problem = problem_create(desc, options);
    assert_problem_holds(problem);
    problem_destroy(problem);
}

static attn_desc_t shape(attn_dtype_t dtype, int64_t s_q, int64_t s_kv, int64_t heads_q,
                         int64_t heads_kv, int64_t d)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, 1, s_q, s_kv, heads_q, heads_kv, d);
    desc.wants_lse = 1;
    return desc;
}

static void test_exp2(void **state)
{
    (void)state;
    test_rng_t rng = test_rng_at(1, 0);
    double worst = 0.0;
    for (int i = 0; i < 200000; i++) {
        const float x = (float)(-149.0 + 276.9 * test_rng_unit(&rng));
        const double exact = exp2((double)x);
        const int exponent = ilogb(exact);
        const double ulp = ldexp(1.0, (exponent < -126 ? -126 : exponent) - 23);
        const double error = fabs((double)vf_exp2(vf_set1(x))[0] - exact) / ulp;
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 2.0);
    assert_true(vf_exp2(vf_set1(0.0f))[0] == 1.0f);
    assert_true(vf_exp2(vf_set1(-INFINITY))[0] == 0.0f);
    assert_true(vf_exp2(vf_set1(-1e30f))[0] == 0.0f);
    assert_true(vf_exp2(vf_set1(INFINITY))[0] == INFINITY);
    assert_true(isnan(vf_exp2(vf_set1(NAN))[0]));
    assert_true(vf_exp2_coarse(vf_set1(0.0f))[0] == 1.0f);
    assert_true(isnan(vf_exp2_coarse(vf_set1(NAN))[0]));
}

static void test_tanh(void **state)
{
    (void)state;
    test_rng_t rng = test_rng_at(2, 0);
    for (int i = 0; i < 100000; i++) {
        const double scale = i % 3 == 0 ? 1e-3 : i % 3 == 1 ? 1.0 : 12.0;
        const float x = (float)(scale * (2.0 * test_rng_unit(&rng) - 1.0));
        const double exact = tanh((double)x);
        assert_true(fabs((double)vf_tanh(vf_set1(x))[0] - exact) <= 4.0 * 0x1p-23 * fabs(exact));
    }
    assert_true(vf_tanh(vf_set1(INFINITY))[0] == 1.0f);
    assert_true(vf_tanh(vf_set1(-INFINITY))[0] == -1.0f);
    assert_true(isnan(vf_tanh(vf_set1(NAN))[0]));
}

// Every remainder of rows and keys modulo the strips, panels and tiles.
static void test_lengths(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 5, 7, 9, 13, 17, 31, 33, 63, 64, 65, 127, 130};
    const size_t count = sizeof lengths / sizeof *lengths;
    for (size_t i = 0; i < count; i++) {
        for (int causal = 0; causal < 2; causal++) {
            const int64_t s_kv = lengths[(i * 7 + 3) % count];
            attn_desc_t desc = shape(i % 2 ? ATTN_BF16 : ATTN_F32, lengths[i], s_kv, 2, 1, 24);
            desc.causal = causal;
            holds(&desc, &(problem_options_t){.seed = i});
        }
    }
}

static void test_dims(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 3, 8, 17, 31, 33, 64, 72, 128, 192, 256, 576};
    static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        for (size_t t = 0; t < 3; t++) {
            attn_desc_t desc = shape(dtypes[t], 21, 70, 1, 1, dims[i]);
            desc.d_v = t == 1 ? dims[(i * 5 + 2) % 12] : dims[i];
            holds(&desc, &(problem_options_t){.seed = i});
            // The same dims through the kernel for few rows.
            desc.s_q = 1;
            holds(&desc, &(problem_options_t){.seed = i});
        }
    }
}

static void test_few_rows(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 9; rows++) {
        for (int64_t s_q = 1; s_q <= 3; s_q++) {
            if (rows % s_q) {
                continue;
            }
            attn_desc_t desc =
                shape(rows % 2 ? ATTN_BF16 : ATTN_F16, s_q, 333, 3 * rows / s_q, 3, 64);
            desc.causal = s_q > 1;
            desc.window_left = rows == 4 ? 100 : -1;
            holds(&desc, &(problem_options_t){.seed = (uint64_t)rows});
            desc.num_splits = 4;
            desc.has_sink = 1;
            holds(&desc, &(problem_options_t){.seed = (uint64_t)rows});
            desc.softcap = 5.0f;
            desc.bias.present = 1;
            holds(&desc, &(problem_options_t){.seed = (uint64_t)rows});
        }
    }
}

// Eleven K/V heads side by side: more than a task of few rows takes, and not a multiple.
static void test_few_rows_of_many_heads(void **state)
{
    (void)state;
    for (int dtype = ATTN_F32; dtype <= ATTN_F8_E5M2; dtype++) {
        attn_desc_t desc = shape((attn_dtype_t)dtype, 2, 200, 22, 11, 32);
        desc.o.dtype = dtype > ATTN_BF16 ? ATTN_F32 : (attn_dtype_t)dtype;
        desc.has_seqused_kv = 1;
        holds(&desc, &(problem_options_t){.seed = 3});
        assert_ok(attn_desc_set_bhsd(&desc));
        holds(&desc, &(problem_options_t){.seed = 4});
    }
}

static void test_loading(void **state)
{
    (void)state;
    for (int dtype = ATTN_F32; dtype <= ATTN_F8_E5M2; dtype++) {
        for (int64_t s_q = 1; s_q <= 40; s_q += 39) {
            attn_desc_t desc = shape((attn_dtype_t)dtype, s_q, 90, 2, 1, 20);
            desc.o.dtype = dtype > ATTN_BF16 ? ATTN_F32 : (attn_dtype_t)dtype;
            const problem_options_t odd = {.seed = 5, .misalign = 1};
            holds(&desc, &odd);
            // Rows along the dims, and a distance between elements.
            desc.k.stride_d = 90;
            desc.k.stride_s = 1;
            desc.k.stride_h = 90 * 20;
            desc.k.stride_b = 90 * 20;
            desc.v.stride_d = 3;
            desc.v.stride_s = 60;
            desc.v.stride_h = 0;
            desc.v.stride_b = 0;
            desc.q.stride_d = 2;
            desc.q.stride_h = 40;
            desc.q.stride_s = 80;
            desc.q.stride_b = 80 * s_q;
            holds(&desc, &odd);
        }
    }
}

static void test_pages(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 16, 64, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int64_t s_q = 1; s_q <= 33; s_q += 32) {
            attn_desc_t desc = shape(i % 2 ? ATTN_BF16 : ATTN_F32, s_q, 150, 4, 2, 32);
            desc.batch = 2;
            desc.paged_kv = 1;
            desc.page_size = sizes[i];
            desc.pages_per_seq = 150 / sizes[i] + 2;
            desc.num_pages = 2 * desc.pages_per_seq + 1;
            desc.has_seqused_kv = 1;
            desc.window_left = 70;
            holds(&desc, &(problem_options_t){.seed = i});
        }
    }
}

static void test_modifiers(void **state)
{
    (void)state;
    for (int which = 0; which < 8; which++) {
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
            attn_desc_t desc = shape((attn_dtype_t)dtype, 37, 141, 4, 2, 16);
            desc.batch = 2;
            desc.softcap = which == 0 ? 3.0f : 0.0f;
            desc.bias.present = which == 1;
            desc.mask.present = which == 2;
            desc.has_alibi = which == 3;
            desc.dropout_p = which == 4 ? 0.4f : 0.0f;
            desc.has_sink = which == 5;
            desc.block_sparse = which == 6;
            desc.block_q = 10;
            desc.block_kv = 27;
            desc.blocks_per_row = 6;
            desc.causal = which % 2;
            desc.has_leftpad_kv = which == 7;
            holds(&desc, &(problem_options_t){.seed = (uint64_t)which});
            holds(&desc, &(problem_options_t){.seed = (uint64_t)which, .visible_nans = 3});
        }
    }
}

// Windows that begin at odd keys, which pairs of keys do not.
static void test_windows(void **state)
{
    (void)state;
    for (int64_t left = 0; left < 70; left += 23) {
        for (int64_t right = -1; right < 40; right += 17) {
            attn_desc_t desc = shape(ATTN_BF16, 75, 201, 3, 3, 8);
            desc.window_left = left;
            desc.window_right = right;
            desc.align = left % 2 ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
            holds(&desc, &(problem_options_t){.seed = 9});
            desc.num_splits = 3;
            holds(&desc, &(problem_options_t){.seed = 9, .visible_nans = 2});
        }
    }
}

static void test_large_scores(void **state)
{
    (void)state;
    for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
        attn_desc_t desc = shape((attn_dtype_t)dtype, 50, 300, 2, 2, 64);
        holds(&desc, &(problem_options_t){.fill = FILL_CORRELATED});
        holds(&desc, &(problem_options_t){.fill = FILL_NEGATIVE_LSE});
        desc.s_q = 2;
        desc.num_splits = 3;
        holds(&desc, &(problem_options_t){.fill = FILL_CORRELATED});
        holds(&desc, &(problem_options_t){.fill = FILL_NEGATIVE_LSE});
    }
}

// The sign and the power of two of the scale go another way than the rest.
static void test_scales(void **state)
{
    (void)state;
    static const float scales[] = {-0.3f, 0.0f, 1.0f, 2.9f, -4.0f, 1e-20f, 1e-40f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype += 2) {
            for (int64_t s_q = 1; s_q <= 30; s_q += 29) {
                attn_desc_t desc = shape((attn_dtype_t)dtype, s_q, 150, 1, 1, 24);
                desc.scale = scales[i];
                desc.causal = 1;
                holds(&desc, &(problem_options_t){.seed = i});
                desc.num_splits = 2;
                desc.bias.present = 1;
                holds(&desc, &(problem_options_t){.seed = i});
                desc.softcap = 2.0f;
                holds(&desc, &(problem_options_t){.seed = i});
            }
        }
    }
}

// Case C-034's scores of 1e11: the lse is the score, to the last bit.
static void test_exact_lse(void **state)
{
    (void)state;
    attn_isa_t isas[ATTN_ISA_COUNT];
    const int count = problem_isas(isas);
    for (int i = 0; i < count; i++) {
        for (int64_t s_q = 1; s_q <= 20; s_q += 19) {
            attn_desc_t desc = shape(ATTN_BF16, s_q, 1, 1, 1, 64);
            problem_t *problem = problem_create(&desc, &(problem_options_t){.seed = 1});
            operand_set_all(&problem->q, 133120.0);
            operand_set_all(&problem->k, 133120.0);
            const runner_t runner = {.backend = ATTN_BACKEND_CPU, .isa = isas[i]};
            results_t results = assert_problem_runs(problem, &runner);
            assert_true(operand_get(&results.lse, 0, 0, s_q - 1, 0) == 141767475200.0);
            results_destroy(&results);
            problem_destroy(problem);
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Exact results

static void assert_equal_rows(const operand_t *a, int64_t row_a, const operand_t *b, int64_t row_b,
                              int64_t heads, int64_t d)
{
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t e = 0; e < d; e++) {
            assert_true(operand_get(a, 0, row_a, h, e) == operand_get(b, 0, row_b, h, e));
        }
    }
}

// V = 1 gives exactly 1: the sum of the weights is made like the output.
static void test_ones(void **state)
{
    (void)state;
    attn_isa_t isas[ATTN_ISA_COUNT];
    const int count = problem_isas(isas);
    for (int i = 0; i < count; i++) {
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
            attn_desc_t desc = shape((attn_dtype_t)dtype, 40, 301, 1, 1, 16);
            desc.o.dtype = ATTN_F32;
            problem_t *problem = problem_create(&desc, &(problem_options_t){.seed = 6});
            for (int64_t j = 0; j < 301; j++) {
                for (int64_t e = 0; e < 16; e++) {
                    operand_set(&problem->v, 0, j, 0, e, 1.0);
                }
            }
            const runner_t runner = {.backend = ATTN_BACKEND_CPU, .isa = isas[i]};
            results_t results = assert_problem_runs(problem, &runner);
            for (int64_t row = 0; row < 40; row++) {
                for (int64_t e = 0; e < 16; e++) {
                    assert_true(operand_get(&results.o, 0, row, 0, e) == 1.0);
                }
            }
            results_destroy(&results);
            problem_destroy(problem);
        }
    }
}

// Bits depend neither on the threads nor on the rows beside a row: with batch_invariant the last
// row alone, through splits that the library would otherwise choose, equals the last row of many.
static void test_same_bits(void **state)
{
    (void)state;
    attn_isa_t isas[ATTN_ISA_COUNT];
    const int count = problem_isas(isas);
    for (int i = 0; i < count; i++) {
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype += 2) {
            attn_desc_t desc = shape((attn_dtype_t)dtype, 70, 700, 4, 2, 40);
            desc.causal = 1;
            desc.window_left = 600;
            desc.batch_invariant = 1;
            problem_t *many = problem_create(&desc, &(problem_options_t){.seed = 8});
            desc.s_q = 1;
            problem_t *one = problem_create(&desc, &(problem_options_t){.seed = 8});
            for (int64_t h = 0; h < 4; h++) {
                for (int64_t e = 0; e < 40; e++) {
                    operand_set(&one->q, 0, 0, h, e, operand_get(&many->q, 0, 69, h, e));
                }
            }
            for (int64_t j = 0; j < 700; j++) {
                for (int64_t e = 0; e < 2 * 40; e++) {
                    operand_set(&one->k, 0, j, e / 40, e % 40,
                                operand_get(&many->k, 0, j, e / 40, e % 40));
                    operand_set(&one->v, 0, j, e / 40, e % 40,
                                operand_get(&many->v, 0, j, e / 40, e % 40));
                }
            }
            runner_t runner = {.backend = ATTN_BACKEND_CPU, .isa = isas[i], .workers = 1};
            results_t a = assert_problem_runs(many, &runner);
            results_t b = assert_problem_runs(one, &runner);
            runner.workers = 3;
            results_t c = assert_problem_runs(many, &runner);
            assert_equal_rows(&a.o, 69, &b.o, 0, 4, 40);
            for (int64_t row = 0; row < 70; row++) {
                assert_equal_rows(&a.o, row, &c.o, row, 4, 40);
            }
            results_destroy(&a);
            results_destroy(&b);
            results_destroy(&c);
            problem_destroy(many);
            problem_destroy(one);
        }
    }
}

// A page id that the table must not hold gives hidden or zero keys, never a read outside the pool:
// the used length covers only the first page.
static void test_unused_pages(void **state)
{
    (void)state;
    static const int32_t table[] = {1, -1, 7};
    static const int32_t used[] = {16};
    for (int64_t s_q = 1; s_q <= 9; s_q += 8) {
        attn_desc_t desc = shape(ATTN_BF16, s_q, 48, 1, 1, 64);
        desc.paged_kv = 1;
        desc.page_size = 16;
        desc.num_pages = 2;
        desc.pages_per_seq = 3;
        desc.has_seqused_kv = 1;
        holds(&desc, &(problem_options_t){.seed = 2, .page_table = table, .seqused_kv = used});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp2),         cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_lengths),      cmocka_unit_test(test_dims),
        cmocka_unit_test(test_few_rows),     cmocka_unit_test(test_few_rows_of_many_heads),
        cmocka_unit_test(test_loading),      cmocka_unit_test(test_pages),
        cmocka_unit_test(test_modifiers),    cmocka_unit_test(test_windows),
        cmocka_unit_test(test_large_scores), cmocka_unit_test(test_scales),
        cmocka_unit_test(test_exact_lse),    cmocka_unit_test(test_ones),
        cmocka_unit_test(test_same_bits),    cmocka_unit_test(test_unused_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
