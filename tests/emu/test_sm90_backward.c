// The Hopper backward kernels on the emulator against fp64: every mask and length option. The build
// compiles them once for each configuration; cases that a configuration was not made for are left
// out by its mask bits.
#include <stdio.h>

#define ATTN_CFG_KERNEL backward_preprocess
#include "../../src/device/sm90/sm90_backward_preprocess.c"
#undef ATTN_CFG_KERNEL
#define ATTN_CFG_KERNEL backward_main
#include "../../src/device/sm90/sm90_backward.c"
#undef ATTN_CFG_KERNEL
#define ATTN_CFG_KERNEL backward_postprocess
#include "../../src/device/sm90/sm90_backward_postprocess.c"

#include "backward_fixture.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// Weights, their gradients and the results are rounded to 8 (bf16) or 11 (f16) bits.
#define TOLERANCE (ATTN_CFG_BF16 ? 1.0 / 64.0 : 1.0 / 512.0)

static void check_mode(const struct forward_case *c, const struct backward_data *data,
                       emu_async async)
{
    struct emu_result result;
    if (launch_backward(c, data, async, (uint32_t)async * 5, &result) != EMU_OK) {
        fail_msg("async %d: %s", (int)async, result.text);
    }
    double dq = gradient_error(c, &data->dq);
    double dk = gradient_error(c, &data->dk);
    double dv = gradient_error(c, &data->dv);
    if (!(dq <= TOLERANCE) || !(dk <= TOLERANCE) || !(dv <= TOLERANCE)) {
        fail_msg("async %d: errors %g of dq, %g of dk, %g of dv", (int)async, dq, dk, dv);
    }
    double dsink = dsink_error(c, data);
    if (!(dsink <= 1e-3)) { // sums of fp32
        fail_msg("async %d: error %g of dsink", (int)async, dsink);
    }
}

#if ATTN_CFG_DETERMINISTIC
// The same bits, whoever comes first: many CTAs, in any order.
static void test_same_bits(void **state)
{
    (void)state;
    struct forward_case c = whole_case((struct forward_case){.b = 1,
                                                             .h_q = 4,
                                                             .h_kv = 2,
                                                             .s_q = 300,
                                                             .s_kv = 600,
                                                             .has_windows = true,
                                                             .window_left = -1,
                                                             .window_right = 200,
                                                             .ctas = 7});
    struct backward_data data = make_backward(&c);
    size_t bytes = (size_t)data.dq.count * 2;
    uint16_t *first = malloc(bytes);
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct emu_result result;
        if (launch_backward(&c, &data, EMU_RANDOM, seed, &result) != EMU_OK) {
            fail_msg("seed %u: %s", (unsigned)seed, result.text);
        }
        if (seed == 0) {
            memcpy(first, data.dq.got, bytes);
        }
        assert_memory_equal(first, data.dq.got, bytes);
    }
    free(first);
    free_backward(&data);
}
#endif

// In order and late, and at random.
static void check_case(struct forward_case given)
{
    struct forward_case c = whole_case(given);
    struct backward_data data = make_backward(&c);
    check_mode(&c, &data, EMU_LATE);
    check_mode(&c, &data, EMU_RANDOM);
    free_backward(&data);
}

// The host asks for the memory that the kernels lay out.
static void test_shared_bytes(void **state)
{
    (void)state;
    const attn_sm90_backward_tile_t tile = {.d_qk = D_QK,
                                            .d_v = D_V,
                                            .block_m = BLOCK_M,
                                            .warpgroups = WARPGROUPS,
                                            .pair = ATTN_CFG_PAIR,
                                            .stages = STAGES};
    assert_int_equal(BACKWARD_SMEM_BYTES, attn_sm90_backward_operand_bytes(&tile) +
                                              attn_sm90_backward_barrier_bytes(&tile));
    assert_true(BACKWARD_SMEM_BYTES <= 227 << 10);
    assert_int_equal(POSTPROCESS_SMEM_BYTES, attn_sm90_postprocess_bytes(D_QK));
}

static void test_full(void **state)
{
    (void)state;
    struct forward_case c =
        whole_case((struct forward_case){.b = 1, .h_q = 2, .h_kv = 2, .s_q = 256, .s_kv = 300});
    struct backward_data data = make_backward(&c);
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        check_mode(&c, &data, (emu_async)async);
    }
    free_backward(&data);
}

static void test_gqa_and_row_gradients(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 2,
                                     .h_q = 6,
                                     .h_kv = 2,
                                     .s_q = 33,
                                     .s_kv = 165,
                                     .has_dlse = true,
                                     .has_sink = true,
                                     .ctas = 3});
}

static void test_one_row_one_key(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 1, .h_q = 1, .h_kv = 1, .s_q = 1, .s_kv = 1});
}

// What is not in use is NaN in dO, and in V behind the keys in use.
static void test_used_lengths(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 4,
                                     .h_q = 2,
                                     .h_kv = 1,
                                     .s_q = 210,
                                     .s_kv = 190,
                                     .has_used = true,
                                     .used_q = {210, 5, 0, 77},
                                     .used_kv = {150, 0, 100, 1},
                                     .has_sink = true,
                                     .nan_key = 170});
}

static void test_packed(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 5,
                                     .h_q = 2,
                                     .h_kv = 2,
                                     .s_q = 250,
                                     .s_kv = 200,
                                     .is_packed = true,
                                     .rows_q = {17, 0, 250, 64, 3},
                                     .rows_kv = {200, 11, 130, 0, 64},
                                     .padding = 9});
}

// Scores beyond what the rounding of lse allows for: all is computed again.
static void test_large_scores(void **state)
{
    (void)state;
    check_case((struct forward_case){
        .b = 1, .h_q = 1, .h_kv = 1, .s_q = 3, .s_kv = 20, .amplitude = 8000.0f});
}

#if ATTN_CFG_MASK & MASK_UPPER
static void test_causal(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 1,
                                     .h_q = 2,
                                     .h_kv = 2,
                                     .s_q = 420,
                                     .s_kv = 333,
                                     .has_windows = true,
                                     .window_left = -1});
}

// The NaN of a key reaches the rows that see it, and no other.
static void test_causal_top_left(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 1,
                                     .h_q = 2,
                                     .h_kv = 1,
                                     .s_q = 140,
                                     .s_kv = 190,
                                     .has_windows = true,
                                     .window_left = -1,
                                     .window_right = 2,
                                     .is_top_left = true,
                                     .nan_key = 100});
}
#endif

#if ATTN_CFG_MASK & MASK_LOWER
static void test_windows(void **state)
{
    (void)state;
    struct forward_case c = {.b = 1, .h_q = 1, .h_kv = 1, .s_q = 200, .s_kv = 420};
    c.has_windows = true;
    static const int32_t windows[][2] = {{64, 0}, {0, 0}, {130, 20}, {3, -1}};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        c.window_left = windows[i][0];
        c.window_right = windows[i][1];
        check_case(c);
    }
}

static void test_packed_causal_window(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 4,
                                     .h_q = 2,
                                     .h_kv = 1,
                                     .s_q = 300,
                                     .s_kv = 300,
                                     .is_packed = true,
                                     .rows_q = {17, 0, 250, 164},
                                     .rows_kv = {200, 11, 130, 300},
                                     .padding = 3,
                                     .has_windows = true,
                                     .window_left = 100,
                                     .window_right = 0});
}

static void test_left_padding(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 3,
                                     .h_q = 1,
                                     .h_kv = 1,
                                     .s_q = 100,
                                     .s_kv = 260,
                                     .has_leftpad = true,
                                     .leftpad = {0, 130, 260},
                                     .has_windows = true,
                                     .window_left = -1,
                                     .nan_key = 100});
}
#endif

// A head dim that is not a multiple of 16: TMA fills the rest with zeros and leaves it out again.
static void test_narrow_head(void **state)
{
    (void)state;
    check_case((struct forward_case){
        .b = 1, .h_q = 2, .h_kv = 2, .s_q = 65, .s_kv = 100, .d_qk = D_QK - 8, .d_v = D_V - 8});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_bytes),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_gqa_and_row_gradients),
        cmocka_unit_test(test_one_row_one_key),
        cmocka_unit_test(test_used_lengths),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_large_scores),
#if ATTN_CFG_MASK & MASK_UPPER
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_causal_top_left),
#endif
#if ATTN_CFG_MASK & MASK_LOWER
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_packed_causal_window),
        cmocka_unit_test(test_left_padding),
#endif
        cmocka_unit_test(test_narrow_head),
#if ATTN_CFG_DETERMINISTIC
        cmocka_unit_test(test_same_bits),
#endif
    };
    return cmocka_run_group_tests_name("sm90_backward", tests, NULL, NULL);
}
