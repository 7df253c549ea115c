// The kernel that joins partial results on the emulator, against fp64: counts of parts, parts that
// are empty or NaN, types of o, layouts with aligned vectors and without, o in part 0's place.
#include "small_kernel.h"

#include <math.h>
#include <stdlib.h>

#define ATTN_CFG_KERNEL merge_results
#include "../../src/device/common/merge_results.c"

enum { B = 2, S = 2, H = 3, ROWS = B * S * H, D_MAX = 300, PARTS_MAX = 70, PITCH_MAX = 2 * D_MAX };

static _Alignas(16) float o_part[PARTS_MAX * ROWS * D_MAX];
static float lse_part[PARTS_MAX * ROWS];
static _Alignas(16) double o[ROWS * PITCH_MAX];
static float lse[ROWS];

static void merge_entry(const void *params)
{
    merge_results(*(const attn_gpu_merge_params_t *)params);
}

// Parts (p, b, s, h, d) and (p, b, h, s), dense; o likewise with elements `step` apart.
static attn_gpu_merge_params_t params_of(int64_t parts, int64_t d, int32_t type, int64_t step)
{
    return (attn_gpu_merge_params_t){
        .o_part = o_part,
        .o_part_stride_p = ROWS * d,
        .o_part_stride_b = S * H * d,
        .o_part_stride_s = H * d,
        .o_part_stride_h = d,
        .lse_part = lse_part,
        .lse_part_stride_p = ROWS,
        .lse_part_stride_b = H * S,
        .lse_part_stride_h = S,
        .lse_part_stride_s = 1,
        .o = o,
        .o_stride_b = S * H * d * step,
        .o_stride_s = H * d * step,
        .o_stride_h = d * step,
        .o_stride_d = step,
        .lse = lse,
        .lse_stride_b = H * S,
        .lse_stride_h = S,
        .lse_stride_s = 1,
        .parts = parts,
        .rows = ROWS,
        .s_q = S,
        .heads_q = H,
        .d_v = d,
        .o_type = type,
        .is_vector = d % 4 == 0 && step == 1,
    };
}

static void fill_parts(int64_t parts, int64_t d)
{
    srand(3);
    for (int64_t i = 0; i < parts * ROWS * d; i++) {
        o_part[i] = (float)(rand() % 2001 - 1000) / 500.0f;
    }
    for (int64_t i = 0; i < parts * ROWS; i++) {
        lse_part[i] = (float)(rand() % 2001 - 1000) / 100.0f;
    }
}

// A part's o without a value, as memory that nobody wrote.
static void empty_part(int64_t part, int64_t row, int64_t lse_row, int64_t d, float mark)
{
    lse_part[part * ROWS + lse_row] = mark;
    memset(o_part + (part * ROWS + row) * d, 0xff, (size_t)d * sizeof(float));
}

static void run(const attn_gpu_merge_params_t *params, uint32_t ctas)
{
    memset(lse, 0xff, sizeof lse);
    if (params->o != o_part) {
        memset(o, 0xff, sizeof o);
    }
    const struct emu_buffer buffers[] = {{"o_part", o_part, sizeof o_part, EMU_READ_WRITE},
                                         {"lse_part", lse_part, sizeof lse_part, EMU_READ_ONLY},
                                         {"o", o, sizeof o, EMU_OUTPUT},
                                         {"lse", lse, sizeof lse, EMU_OUTPUT}};
    const struct emu_launch launch = {.name = "merge",
                                      .entry = merge_entry,
                                      .params = params,
                                      .grid = {ctas, 1, 1},
                                      .threads = MERGE_THREADS,
                                      .buffers = buffers,
                                      .buffer_count = 4,
                                      .check = EMU_CHECK_STRICT};
    struct emu_result result;
    if (emu_launch(&launch, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
}

static double element(int32_t type, const void *data, int64_t at)
{
    switch (type) {
    case ATTN_GPU_F64: return ((const double *)data)[at];
    case ATTN_GPU_F32: return (double)((const float *)data)[at];
    case ATTN_GPU_F16: return (double)f32_of_f16(((const uint16_t *)data)[at]);
    default: return (double)f32_of_bf16(((const uint16_t *)data)[at]);
    }
}

// The formula, a row and a dim at a time.
static void expect_row(const attn_gpu_merge_params_t *p, int64_t b, int64_t s, int64_t h)
{
    const double rounding[] = {[ATTN_GPU_F32] = 1e-6,
                               [ATTN_GPU_F16] = 1e-3,
                               [ATTN_GPU_BF16] = 1e-2,
                               [ATTN_GPU_F64] = 1e-6};
    const int64_t row = (b * S + s) * H + h;
    const int64_t lse_row = (b * H + h) * S + s;
    double sum = 0.0;
    for (int64_t n = 0; n < p->parts; n++) {
        const double x = (double)lse_part[n * ROWS + lse_row];
        sum += isinf(x) ? 0.0 : exp(x);
    }
    for (int64_t d = 0; d < p->d_v; d++) {
        double want = 0.0;
        for (int64_t n = 0; n < p->parts; n++) {
            const double x = (double)lse_part[n * ROWS + lse_row];
            want += isinf(x) ? 0.0 : exp(x) * (double)o_part[(n * ROWS + row) * p->d_v + d] / sum;
        }
        const double got =
            element(p->o_type, p->o, row * p->d_v * p->o_stride_d + d * p->o_stride_d);
        if (!(fabs(got - want) <= rounding[p->o_type] * (1.0 + fabs(want)) ||
              (isnan(got) && isnan(want)))) {
            fail_msg("row %d, dim %d: %g, expected %g", (int)row, (int)d, got, want);
        }
    }
    const double got = (double)lse[lse_row];
    assert_true(got == log(sum) || fabs(got - log(sum)) <= 1e-6 || (isnan(got) && isnan(sum)));
}

static void expect(const attn_gpu_merge_params_t *p)
{
    for (int64_t b = 0; b < B; b++) {
        for (int64_t s = 0; s < S; s++) {
            for (int64_t h = 0; h < H; h++) {
                expect_row(p, b, s, h);
            }
        }
    }
}

static void test_counts(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 7, 32, PARTS_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const attn_gpu_merge_params_t params = params_of(counts[i], 64, ATTN_GPU_F32, 1);
        fill_parts(counts[i], 64);
        run(&params, 2);
        expect(&params);
    }
}

// Widths of one and of several warps, with aligned vectors and without; elements apart.
static void test_layouts_and_types(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 5, 128, 132, D_MAX};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        fill_parts(3, dims[i]);
        for (int32_t type = ATTN_GPU_F32; type <= ATTN_GPU_F64; type++) {
            for (int64_t step = 1; step <= 2; step++) {
                const attn_gpu_merge_params_t params = params_of(3, dims[i], type, step);
                run(&params, 3);
                expect(&params);
            }
        }
    }
}

// Infinite lse marks a part whose o nobody wrote; a row may have no other.
static void test_empty_parts(void **state)
{
    (void)state;
    enum { PARTS = 40, D = 128 };
    const attn_gpu_merge_params_t params = params_of(PARTS, D, ATTN_GPU_F32, 1);
    fill_parts(PARTS, D);
    for (int64_t n = 0; n < PARTS; n++) {
        empty_part(n, 0, 0, D, n % 2 ? INFINITY : -INFINITY); // (0, 0, 0)
        if (n != 33) {
            empty_part(n, 2, 4, D, -INFINITY); // (0, 0, 2)
        }
    }
    run(&params, 2);
    expect(&params);
    // A part alone counts with weight 1.
    assert_memory_equal((const char *)o + 2 * D * sizeof(float), o_part + (33 * ROWS + 2) * D,
                        D * sizeof(float));
    assert_true(lse[4] == lse_part[33 * ROWS + 4]);
}

static void test_nan(void **state)
{
    (void)state;
    const attn_gpu_merge_params_t params = params_of(5, 64, ATTN_GPU_F32, 1);
    fill_parts(5, 64);
    lse_part[3 * ROWS] = NAN;      // row (0, 0, 0)
    o_part[(ROWS + 5) * 64] = NAN; // part 1, row 5
    run(&params, 2);
    expect(&params);
    assert_true(isnan(element(ATTN_GPU_F32, o, 0)) && isnan(lse[0]));
    assert_true(isnan(element(ATTN_GPU_F32, o, 5 * 64)));
    assert_true(!isnan(element(ATTN_GPU_F32, o, 5 * 64 + 1)));
}

static void test_over_part_zero(void **state)
{
    (void)state;
    enum { D = 260 };
    attn_gpu_merge_params_t params = params_of(6, D, ATTN_GPU_F32, 1);
    fill_parts(6, D);
    run(&params, 2);
    params.o = o_part;
    params.lse = NULL;
    run(&params, 2);
    assert_memory_equal(o, o_part, ROWS * D * sizeof(float));
    assert_true(isnan(lse[0])); // not wanted
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),         cmocka_unit_test(test_layouts_and_types),
        cmocka_unit_test(test_empty_parts),    cmocka_unit_test(test_nan),
        cmocka_unit_test(test_over_part_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
