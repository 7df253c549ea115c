// The copy and the matrix products of the ladder on the emulator: the first bit for bit, the others
// against fp64. Compiled once for each architecture: ARCH=90 has level 2's product, ARCH=100 level
// 4's.
#if ARCH == 90
#include "../../examples/ladder/hopper_gemm.c"
#define gemm_kernel hopper_gemm
#define gemm_params hopper_gemm_params
#else
#include "../../examples/ladder/blackwell_gemm.c"
#define gemm_kernel blackwell_gemm
#define gemm_params blackwell_gemm_params
#endif
#include "../../examples/ladder/tma_copy.c"

#include "emu.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void copy_entry(const void *params)
{
    tma_copy(*(const struct tma_copy_params *)params);
}

static void gemm_entry(const void *params)
{
    gemm_kernel(*(const struct gemm_params *)params);
}

static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(128, (bytes + 127) / 128 * 128);
    assert_non_null(p);
    memset(p, 0xff, (bytes + 127) / 128 * 128);
    return p;
}

static void run_all_schedules(struct emu_launch *launch, void (*check)(void *), void *context)
{
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        for (uint32_t seed = 0; seed < 2; seed++) {
            struct emu_result result;
            launch->async = (emu_async)async;
            launch->seed = 5 * seed;
            launch->lag = 30 * seed;
            launch->check = EMU_CHECK_ORDER;
            launch->arch = ARCH;
            if (emu_launch(launch, &result) != EMU_OK) {
                fail_msg("async %d seed %u: %s", async, launch->seed, result.text);
            }
            check(context);
        }
    }
}

struct copy_data {
    uint32_t rows;
    uint32_t columns;
    float *in;
    float *out;
};

static void check_copy(void *context)
{
    const struct copy_data *data = context;
    for (uint32_t i = 0; i < data->rows * data->columns; i++) {
        if (data->out[i] != 3.0f * data->in[i]) {
            fail_msg("element %u: %g, not %g", i, (double)data->out[i], 3.0 * (double)data->in[i]);
        }
    }
    memset(data->out, 0xff, (size_t)data->rows * data->columns * sizeof(float));
}

static void run_copy(uint32_t rows, uint32_t columns)
{
    size_t bytes = (size_t)rows * columns * sizeof(float);
    struct copy_data data = {rows, columns, aligned(bytes), aligned(bytes)};
    for (uint32_t i = 0; i < rows * columns; i++) {
        data.in[i] = (float)(i % 9973) - 5000.0f;
    }
    struct tma_copy_params params = {.factor = 3.0f};
    struct emu_tensor tensor = {.data = data.in,
                                .element = EMU_F32,
                                .rank = 2,
                                .dims = {columns, rows},
                                .strides_bytes = {(uint64_t)columns * 4},
                                .box = {COPY_COLUMNS, COPY_ROWS},
                                .swizzle = EMU_SWIZZLE_128};
    assert_null(emu_tensor_map_encode(&params.in, &tensor));
    tensor.data = data.out;
    assert_null(emu_tensor_map_encode(&params.out, &tensor));
    const struct emu_buffer buffers[] = {{"in", data.in, bytes, 0}, {"out", data.out, bytes, 1}};
    struct emu_launch launch = {.name = "tma_copy",
                                .entry = copy_entry,
                                .params = &params,
                                .grid = {(columns + COPY_COLUMNS - 1) / COPY_COLUMNS,
                                         (rows + COPY_ROWS - 1) / COPY_ROWS, 1},
                                .threads = COPY_THREADS,
                                .smem_bytes = COPY_SMEM_BYTES,
                                .resident = 3,
                                .buffers = buffers,
                                .buffer_count = 2};
    run_all_schedules(&launch, check_copy, &data);
    free(data.in);
    free(data.out);
}

static void test_copy(void **state)
{
    (void)state;
    run_copy(64, 32);
    run_copy(130, 100);
    run_copy(1, 4);
}

struct gemm_data {
    int32_t m;
    int32_t n;
    int32_t k;
    uint16_t *a;
    uint16_t *b;
    float *c;
    double *want;
};

// Exact products, so the error is that of k fp32 additions of sums below 16 k.
static void check_gemm(void *context)
{
    const struct gemm_data *data = context;
    double tolerance = (double)data->k * 16.0 * (double)data->k * 0x1p-24;
    for (int64_t i = 0; i < (int64_t)data->m * data->n; i++) {
        double error = fabs((double)data->c[i] - data->want[i]);
        if (!(error <= tolerance)) {
            fail_msg("element %lld: %g, not %g", (long long)i, (double)data->c[i], data->want[i]);
        }
    }
    memset(data->c, 0xff, (size_t)data->m * (size_t)data->n * sizeof(float));
}

static uint16_t *random_bf16(int64_t count, uint32_t *state)
{
    uint16_t *x = aligned((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = (uint16_t)pack_bf16x2((float)(*state >> 8) / 2097152.0f - 4.0f, 0.0f);
    }
    return x;
}

static double *product(const struct gemm_data *data)
{
    double *want = calloc((size_t)data->m * (size_t)data->n, sizeof *want);
    assert_non_null(want);
    for (int64_t i = 0; i < (int64_t)data->m * data->n; i++) {
        for (int64_t k = 0; k < data->k; k++) {
            want[i] += (double)f32_of_bf16(data->a[i / data->n * data->k + k]) *
                       (double)f32_of_bf16(data->b[i % data->n * data->k + k]);
        }
    }
    return want;
}

static void encode_operand(tensor_map *map, uint16_t *x, int32_t rows, int32_t k)
{
    struct emu_tensor tensor = {.data = x,
                                .element = EMU_BF16,
                                .rank = 2,
                                .dims = {(uint64_t)k, (uint64_t)rows},
                                .strides_bytes = {(uint64_t)k * 2},
                                .box = {GEMM_K, GEMM_TILE},
                                .swizzle = EMU_SWIZZLE_128};
    assert_null(emu_tensor_map_encode(map, &tensor));
}

static void run_gemm(int32_t m, int32_t n, int32_t k)
{
    uint32_t seed = 99;
    struct gemm_data data = {.m = m, .n = n, .k = k};
    data.a = random_bf16((int64_t)m * k, &seed);
    data.b = random_bf16((int64_t)n * k, &seed);
    data.c = aligned((size_t)m * (size_t)n * sizeof(float));
    data.want = product(&data);
    struct gemm_params params = {.c = data.c, .m = m, .n = n, .k = k};
    encode_operand(&params.a, data.a, m, k);
    encode_operand(&params.b, data.b, n, k);
    const struct emu_buffer buffers[] = {{"a", data.a, (uint64_t)m * (uint64_t)k * 2, 0},
                                         {"b", data.b, (uint64_t)n * (uint64_t)k * 2, 0},
                                         {"c", data.c, (uint64_t)m * (uint64_t)n * 4, 1}};
    struct emu_launch launch = {.name = "gemm",
                                .entry = gemm_entry,
                                .params = &params,
                                .grid = {(uint32_t)(n + 127) / 128, (uint32_t)(m + 127) / 128, 1},
                                .threads = GEMM_THREADS,
                                .smem_bytes = GEMM_SMEM_BYTES,
                                .buffers = buffers,
                                .buffer_count = 3};
    run_all_schedules(&launch, check_gemm, &data);
    free(data.a);
    free(data.b);
    free(data.c);
    free(data.want);
}

static void test_gemm(void **state)
{
    (void)state;
    run_gemm(128, 128, 64);
    run_gemm(100, 150, 72);
    run_gemm(129, 40, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_gemm)};
    return cmocka_run_group_tests_name("emu_copy_gemm", tests, NULL, NULL);
}
