// Level 0 of the ladder: right for every shape, split and schedule; each of its synchronisation
// calls is missed when it is taken away; its shared memory has no bank conflicts.
#include "mutate.h"

#include "../../examples/ladder/ampere_gemm.c"

#include "../../emu/emu_report.h"
#include "../../src/device/ptx/math_ops.h"
#include "random_input.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_M = 150, MAX_N = 140, MAX_TILES = 16 };

struct shape {
    int32_t m;
    int32_t n;
    int32_t k;
    uint32_t splits;
};

static struct {
    struct shape shape;
    uint16_t *a;
    uint16_t *b;
    float c[MAX_M * MAX_N];
    uint32_t turns[MAX_TILES];
    double want[MAX_M * MAX_N];
} data;

static void entry(const void *params)
{
    ampere_gemm(*(const struct ampere_gemm_params *)params);
}

// Sixteenths below 8: exact in bf16, and so is every sum in fp32.
static uint16_t *random_sixteenths(int64_t count, uint32_t *state)
{
    uint16_t *x = aligned_alloc(16, ((size_t)count * sizeof *x + 15) / 16 * 16);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (uint16_t)pack_bf16x2((float)(random_word(state) >> 24) / 16.0f - 8.0f, 0.0f);
    }
    return x;
}

static void make_data(struct shape shape)
{
    uint32_t state = 5;
    data.shape = shape;
    data.a = random_sixteenths((int64_t)shape.m * shape.k, &state);
    data.b = random_sixteenths((int64_t)shape.n * shape.k, &state);
    for (int64_t i = 0; i < (int64_t)shape.m * shape.n; i++) {
        data.want[i] = 0.0;
        for (int64_t k = 0; k < shape.k; k++) {
            data.want[i] += (double)f32_of_bf16(data.a[i / shape.n * shape.k + k]) *
                            (double)f32_of_bf16(data.b[i % shape.n * shape.k + k]);
        }
    }
}

static void free_data(void)
{
    free(data.a);
    free(data.b);
}

static emu_status run(uint32_t schedule, struct emu_report *report, struct emu_result *result)
{
    const struct shape *s = &data.shape;
    struct ampere_gemm_params params = {data.a, data.b, data.c, data.turns, s->m, s->n, s->k};
    const struct emu_buffer buffers[] = {
        {"a", data.a, (uint64_t)s->m * (uint64_t)s->k * 2, EMU_READ_ONLY},
        {"b", data.b, (uint64_t)s->n * (uint64_t)s->k * 2, EMU_READ_ONLY},
        {"c", data.c, (uint64_t)s->m * (uint64_t)s->n * 4, EMU_OUTPUT},
        {"turns", data.turns, sizeof data.turns, EMU_READ_WRITE}};
    struct emu_launch launch = {
        .name = "gemm",
        .entry = entry,
        .params = &params,
        .grid = {(uint32_t)(s->n + 63) / 64, (uint32_t)(s->m + 63) / 64, s->splits},
        .threads = GEMM_THREADS,
        .smem_bytes = GEMM_SMEM_BYTES,
        .resident = 16,
        .buffers = buffers,
        .buffer_count = 4,
        .async = (emu_async)(schedule % 3),
        .check = EMU_CHECK_STRICT,
        .seed = schedule,
        .lag = schedule > 2 ? 40 : 0,
        .report = report};
    memset(data.c, 0xff, sizeof data.c);
    memset(data.turns, 0, sizeof data.turns);
    return emu_launch(&launch, result);
}

static bool numbers_are_right(void)
{
    if (data.want[0] == 0.0) {
        return false; // compares nothing
    }
    for (int64_t i = 0; i < (int64_t)data.shape.m * data.shape.n; i++) {
        if ((double)data.c[i] != data.want[i]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < MAX_TILES; i++) {
        if (data.turns[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{64, 64, 64, 1},    {64, 64, 32, 1},  {100, 70, 200, 3},
                                          {150, 140, 104, 2}, {1, 3, 8, 1},     {64, 64, 512, 4},
                                          {65, 64, 40, 2},    {30, 140, 256, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        make_data(shapes[i]);
        for (uint32_t schedule = 0; schedule < 6; schedule++) {
            struct emu_result result;
            if (run(schedule, NULL, &result) != EMU_OK) {
                fail_msg("shape %zu, schedule %u: %s", i, schedule, result.text);
            }
            assert_true(numbers_are_right());
        }
        free_data();
    }
}

static const struct shape MUTATION_SHAPE = {64, 64, 400, 3};

static void test_every_deletion_is_caught(void **state)
{
    (void)state;
    struct emu_result result;
    make_data(MUTATION_SHAPE);
    place_recording = true;
    assert_int_equal(run(0, NULL, &result), EMU_OK);
    place_recording = false;
    assert_int_equal(place_count, 7);
    int wrong = 0;
    for (int i = 0; i < place_count; i++) {
        mutant.active = true;
        mutant.kind = DELETE;
        mutant.place = places[i];
        for (uint32_t schedule = 0; schedule < 6; schedule++) { // in each one of them
            if (run(schedule, NULL, &result) == EMU_OK) {
                print_error("%s in %s (line %d), schedule %u: not caught\n", places[i].text,
                            places[i].function, places[i].line, schedule);
                wrong++;
            }
        }
    }
    mutant.active = false;
    free_data();
    assert_int_equal(wrong, 0);
}

static void test_no_bank_conflicts(void **state)
{
    (void)state;
    static struct emu_report report;
    struct emu_result result;
    make_data((struct shape){64, 64, 64, 1});
    assert_int_equal(run(0, &report, &result), EMU_OK);
    free_data();
    assert_int_equal(report.site_count, 2);
    for (uint32_t i = 0; i < report.site_count; i++) {
        assert_string_equal(report.sites[i].instruction, "ldmatrix.x4");
        assert_true(report.sites[i].executions > 0);
        assert_int_equal(report.sites[i].conflicts, 0);
    }
    uint64_t flops = 0;
    for (uint32_t i = 0; i < report.role_count; i++) {
        flops += report.roles[i].mma_flops_16;
    }
    assert_int_equal(flops, 2 * 64 * 64 * 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_every_deletion_is_caught),
        cmocka_unit_test(test_no_bank_conflicts),
    };
    return cmocka_run_group_tests_name("emu_ampere_gemm", tests, NULL, NULL);
}
