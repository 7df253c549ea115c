// The ladder's attention kernels on the emulator against fp64: shapes, masks, and every way in
// which asynchronous operations and threads may interleave. Compiled once for each level and head
// dim.
#include "ladder_kernel.h"

#include "attention_fixture.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// The weights are rounded to bf16 (2^-9 of each, and they sum to 1), so is the result; values are
// below 4.
#define OUT_TOLERANCE (4.0 / 256.0)
#define LSE_TOLERANCE 1e-5

static void check_run(const struct attention_case *c, const struct attention_data *data)
{
    struct emu_result result;
    emu_status status = fixture_launch(c, data, &result);
    if (status != EMU_OK) {
        fail_msg("async %d seed %u lag %u: %s", (int)c->async, c->seed, c->lag, result.text);
    }
    double out_error;
    double lse_error;
    fixture_errors(c, data, &out_error, &lse_error);
    if (!(out_error <= OUT_TOLERANCE) || !(lse_error <= LSE_TOLERANCE)) {
        fail_msg("async %d seed %u lag %u: errors %g and %g", (int)c->async, c->seed, c->lag,
                 out_error, lse_error);
    }
}

// All schedules on one input.
static void check_case(struct attention_case c)
{
    struct attention_data data = fixture_make(&c);
    c.check = EMU_CHECK_ORDER;
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        for (uint32_t seed = 0; seed < 2; seed++) {
            c.async = (emu_async)async;
            c.seed = 7 * seed;
            c.lag = 40 * seed;
            check_run(&c, &data);
        }
    }
    fixture_free(&data);
}

static void test_whole_tiles(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 2, .s_q = 256, .s_kv = 256});
}

static void test_whole_tiles_causal(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 256, .s_kv = 256, .causal = 1});
}

static void test_ragged(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 200, .s_kv = 333});
}

static void test_ragged_causal(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 200, .s_kv = 333, .causal = 1});
}

static void test_rows_without_keys(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 333, .s_kv = 200, .causal = 1});
}

static void test_one_key(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 1, .s_kv = 1, .causal = 1});
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 300, .s_kv = 1, .causal = 1});
}

static void test_many_blocks_causal(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 129, .s_kv = 640, .causal = 1});
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 500, .s_kv = 700, .causal = 1});
}

static void test_many_blocks(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 1, .h = 1, .s_q = 64, .s_kv = 900});
}

static void test_batches_resident_together(void **state)
{
    (void)state;
    check_case((struct attention_case){.b = 2, .h = 2, .s_q = 100, .s_kv = 130, .resident = 4});
}

// The checker watches; it must not change a bit.
static void test_checker_changes_nothing(void **state)
{
    (void)state;
    struct attention_case c = {.b = 1, .h = 1, .s_q = 128, .s_kv = 300};
    struct attention_data data = fixture_make(&c);
    size_t bytes = (size_t)(c.s_q * HEAD_DIM) * sizeof(uint16_t);
    uint16_t *unchecked = malloc(bytes);
    assert_non_null(unchecked);
    check_run(&c, &data);
    memcpy(unchecked, data.out, bytes);
    c.check = EMU_CHECK_STRICT;
    c.async = EMU_RANDOM;
    c.seed = 3;
    check_run(&c, &data);
    assert_memory_equal(unchecked, data.out, bytes);
    free(unchecked);
    fixture_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_tiles),
        cmocka_unit_test(test_whole_tiles_causal),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_ragged_causal),
        cmocka_unit_test(test_rows_without_keys),
        cmocka_unit_test(test_one_key),
        cmocka_unit_test(test_many_blocks),
        cmocka_unit_test(test_many_blocks_causal),
        cmocka_unit_test(test_batches_resident_together),
        cmocka_unit_test(test_checker_changes_nothing),
    };
    return cmocka_run_group_tests_name("emu_attention", tests, NULL, NULL);
}
