// The copy and the matrix products of the ladder on the emulator: the first bit for bit, the others
// against fp64. Compiled once for each product: LEVEL 2 is Hopper's, 4 Blackwell's.
#include "ladder_kernel.h"

#include "../../examples/ladder/tma_copy.c"

#include "gemm_fixture.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void copy_entry(const void *params)
{
    tma_copy(*(const struct tma_copy_params *)params);
}

struct copy_data {
    uint32_t rows;
    uint32_t columns;
    float *in;
    float *out;
};

static void check_copy(const struct copy_data *data)
{
    for (uint32_t i = 0; i < data->rows * data->columns; i++) {
        if (data->out[i] != 3.0f * data->in[i]) {
            fail_msg("element %u: %g, not %g", i, (double)data->out[i], 3.0 * (double)data->in[i]);
        }
    }
}

static void run_copy(uint32_t rows, uint32_t columns)
{
    size_t bytes = (size_t)rows * columns * sizeof(float);
    struct copy_data data = {rows, columns, gemm_aligned(bytes), gemm_aligned(bytes)};
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
                                .buffer_count = 2,
                                .arch = LADDER_ARCH,
                                .check = EMU_CHECK_ORDER};
    for (int schedule = 0; schedule < 6; schedule++) {
        struct emu_result result;
        launch.async = (emu_async)(schedule % 3);
        launch.seed = 5 * (uint32_t)(schedule / 3);
        launch.lag = 30 * (uint32_t)(schedule / 3);
        memset(data.out, 0xff, bytes);
        if (emu_launch(&launch, &result) != EMU_OK) {
            fail_msg("schedule %d: %s", schedule, result.text);
        }
        check_copy(&data);
    }
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

static void run_gemm(struct gemm_case c)
{
    struct gemm_data data = gemm_make(&c);
    c.check = EMU_CHECK_ORDER;
    for (int schedule = 0; schedule < 6; schedule++) {
        struct emu_result result;
        c.async = (emu_async)(schedule % 3);
        c.seed = 5 * (uint32_t)(schedule / 3);
        c.lag = 30 * (uint32_t)(schedule / 3);
        if (gemm_launch(&c, &data, &result) != EMU_OK || !gemm_is_right(&c, &data)) {
            fail_msg("%d x %d x %d, schedule %d: wrong numbers, or: %s", c.m, c.n, c.k, schedule,
                     result.text);
        }
    }
    gemm_free(&data);
}

static void test_gemm(void **state)
{
    (void)state;
    run_gemm((struct gemm_case){.m = 128, .n = 128, .k = 64});
    run_gemm((struct gemm_case){.m = 100, .n = 150, .k = 72});
    run_gemm((struct gemm_case){.m = 129, .n = 40, .k = 512});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_gemm)};
    return cmocka_run_group_tests_name("emu_copy_gemm", tests, NULL, NULL);
}
