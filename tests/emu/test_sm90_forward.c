// The Hopper forward kernel on the emulator against fp64: every mask and length option. The build
// compiles it once for each configuration; cases that a configuration was not made for are left out
// by its mask bits.
#include <stdio.h>

#include "../../src/device/sm90/sm90_forward.c"

#include "forward_fixture.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// Weights and results are rounded to 8 (bf16) or 11 (f16) bits, weights up to 2^8 below the sum;
// values are below 4.
#define O_TOLERANCE (ATTN_CFG_BF16 ? 4.0 / 128.0 : 4.0 / 1024.0)
#define LSE_TOLERANCE 2e-5

static void check_mode(const struct forward_case *c, const struct forward_data *data,
                       emu_async async)
{
    struct emu_result result;
    if (launch_forward(c, data, async, (uint32_t)async * 5, &result) != EMU_OK) {
        fail_msg("async %d: %s", (int)async, result.text);
    }
    double o_error;
    double lse_error;
    largest_errors(c, data, &o_error, &lse_error);
    if (!(o_error <= O_TOLERANCE) || !(lse_error <= LSE_TOLERANCE * (double)c->amplitude)) {
        fail_msg("async %d: errors %g of o, %g of lse", (int)async, o_error, lse_error);
    }
}

// In order and late, and at random.
static void check_case(struct forward_case given)
{
    struct forward_case c = whole_case(given);
    struct forward_data data = make_data(&c);
    check_mode(&c, &data, EMU_LATE);
    check_mode(&c, &data, EMU_RANDOM);
    free_data(&data);
}

// The host asks for the memory that the kernel lays out.
static void test_shared_bytes(void **state)
{
    (void)state;
    assert_int_equal(FORWARD_SMEM_BYTES,
                     WARPGROUPS * attn_sm90_qo_bytes(D_QK, D_V, ATTN_CFG_SEPARATE_O) +
                         STAGES * attn_sm90_kv_bytes(D_QK, D_V, BLOCK_N) +
                         attn_sm90_barrier_bytes(STAGES) +
                         (ATTN_CFG_GATHER ? STAGES * ATTN_SM90_HIDDEN_BYTES : 0));
}

static void test_full(void **state)
{
    (void)state;
    struct forward_case c =
        whole_case((struct forward_case){.b = 1, .h_q = 2, .h_kv = 2, .s_q = 256, .s_kv = 300});
    struct forward_data data = make_data(&c);
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        check_mode(&c, &data, (emu_async)async);
    }
    free_data(&data);
}

// Scores that rise far, so that anchors move.
static void test_rescaling(void **state)
{
    (void)state;
    check_case((struct forward_case){
        .b = 2, .h_q = 1, .h_kv = 1, .s_q = 70, .s_kv = 700, .amplitude = 6.0f});
}

// A row's bits do not depend on the rows that share its tile, nor on when those move their anchors.
static void test_rows_alone(void **state)
{
    (void)state;
    enum { KEPT = 11 };
    struct forward_case c = whole_case((struct forward_case){
        .b = 1, .h_q = 1, .h_kv = 1, .s_q = 70, .s_kv = 700, .amplitude = 6.0f});
    struct forward_data data = make_data(&c);
    struct emu_result result;
    assert_int_equal(launch_forward(&c, &data, EMU_LATE, 0, &result), EMU_OK);
    uint16_t row[D_V];
    memcpy(row, data.o + (size_t)KEPT * D_V, sizeof row);
    for (int64_t i = 0; i < c.s_q; i++) {
        if (i != KEPT) {
            memset(data.q + i * D_QK, 0, D_QK * sizeof *data.q);
        }
    }
    assert_int_equal(launch_forward(&c, &data, EMU_LATE, 0, &result), EMU_OK);
    assert_memory_equal(row, data.o + (size_t)KEPT * D_V, sizeof row);
    free_data(&data);
}

static void test_gqa_and_sink(void **state)
{
    (void)state;
    check_case((struct forward_case){
        .b = 2, .h_q = 6, .h_kv = 2, .s_q = 33, .s_kv = 65, .has_sink = true, .ctas = 3});
}

// Groups of any number of heads: of a tile's heads some have no rows, or a group has several tiles.
static void test_groups(void **state)
{
    (void)state;
    static const int32_t groups[] = {1, 2, 3, 5, 8, 11};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        struct forward_case c = {.b = 2,
                                 .h_q = 2 * groups[i],
                                 .h_kv = 2,
                                 .s_q = 5 + (int32_t)i * 7,
                                 .s_kv = 77,
                                 .d_v = D_V - 8,
                                 .has_sink = true,
                                 .has_used = i % 2,
                                 .used_q = {5, 3},
                                 .used_kv = {70, 77},
                                 .nan_key = i % 3 ? 0 : 33};
        check_case(c);
        c.is_packed = true;
        c.has_used = false;
        c.rows_q[0] = c.s_q;
        c.rows_q[1] = 3;
        c.rows_kv[0] = 20;
        c.rows_kv[1] = c.s_kv;
        c.padding = 2;
        check_case(c);
    }
}

#if ATTN_CFG_MASK & MASK_UPPER
static void test_groups_causal(void **state)
{
    (void)state;
    struct forward_case c = {.b = 1,
                             .h_q = 10,
                             .h_kv = 2,
                             .s_q = 40,
                             .s_kv = 170,
                             .has_windows = true,
                             .window_left = ATTN_CFG_MASK & MASK_LOWER ? 50 : -1};
    check_case(c);
    c.is_top_left = true;
    check_case(c);
}
#endif

static void test_one_row_one_key(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 1, .h_q = 1, .h_kv = 1, .s_q = 1, .s_kv = 1});
}

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
                                     .used_kv = {190, 0, 100, 1},
                                     .has_sink = true});
}

// Rows behind the used ones share a tile with them, and there are blocks that no mask code touches:
// they see nothing all the same.
static struct forward_case rows_behind_used(void)
{
    return (struct forward_case){.b = 3,
                                 .h_q = 2,
                                 .h_kv = 1,
                                 .s_q = 100,
                                 .s_kv = 400,
                                 .has_used = true,
                                 .used_q = {100, 1, 70},
                                 .used_kv = {3, 400, 330},
                                 .has_sink = true};
}

static void test_rows_behind_used(void **state)
{
    (void)state;
    check_case(rows_behind_used());
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

// The value is hidden by the used length, or is not: then all rows of the sequence are NaN.
static void test_nan(void **state)
{
    (void)state;
    struct forward_case c = {.b = 2,
                             .h_q = 2,
                             .h_kv = 1,
                             .s_q = 40,
                             .s_kv = 150,
                             .has_used = true,
                             .used_q = {40, 33},
                             .used_kv = {150, 100},
                             .nan_key = 121};
    check_case(c);
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

static void test_causal_rows_behind_used(void **state)
{
    (void)state;
    struct forward_case c = rows_behind_used();
    c.has_windows = true;
    c.window_left = -1;
    check_case(c);
}

static void test_causal_top_left(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 2,
                                     .h_q = 2,
                                     .h_kv = 1,
                                     .s_q = 200,
                                     .s_kv = 390,
                                     .has_windows = true,
                                     .window_left = -1,
                                     .window_right = 2,
                                     .is_top_left = true,
                                     .nan_key = 150});
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
                                     .window_right = 0,
                                     .has_sink = true});
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

#if ATTN_CFG_GATHER
// Head dims that are a multiple of nothing, in every layout; a NaN, so that the careful rows too.
static void test_layouts(void **state)
{
    (void)state;
    for (int i = ODD; i < LAYOUTS; i++) {
        check_case((struct forward_case){.b = 2,
                                         .h_q = 4,
                                         .h_kv = 2,
                                         .s_q = 70,
                                         .s_kv = 150,
                                         .d_qk = D_QK - narrower(i),
                                         .d_v = D_V - narrower(i),
                                         .has_used = true,
                                         .used_q = {70, 33},
                                         .used_kv = {150, 100},
                                         .nan_key = 121,
                                         .layout = layout_of(i)});
    }
}

static void test_packed_layout(void **state)
{
    (void)state;
    check_case((struct forward_case){.b = 3,
                                     .h_q = 2,
                                     .h_kv = 1,
                                     .s_q = 100,
                                     .s_kv = 130,
                                     .d_v = D_V - 3,
                                     .is_packed = true,
                                     .rows_q = {17, 0, 100},
                                     .rows_kv = {70, 11, 130},
                                     .padding = 5,
                                     .layout = layout_of(ODD)});
}

static void test_pages(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 7, 16, 128, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_case((struct forward_case){.b = 2,
                                         .h_q = 2,
                                         .h_kv = 1,
                                         .s_q = 5,
                                         .s_kv = 333,
                                         .has_used = true,
                                         .used_q = {5, 4},
                                         .used_kv = {333, 77},
                                         .page_size = sizes[i],
                                         .layout = layout_of(i % 2 ? ODD : DENSE)});
    }
}

// Keys of a page that is none are hidden, to the tensor cores and to the careful rows. With one
// page there is nothing else to see.
static void test_bad_pages(void **state)
{
    (void)state;
    static const int32_t sizes[] = {7, 100, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct forward_case c = {.b = 2,
                                 .h_q = 1,
                                 .h_kv = 1,
                                 .s_q = 40,
                                 .s_kv = 250,
                                 .page_size = sizes[i],
                                 .bad_page = sizes[i] == 1000 ? 1 : 2};
        check_case(c);
        c.nan_key = 9; // in the bad page of sevens, else in a good one
        check_case(c);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_bytes),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_rescaling),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_gqa_and_sink),
        cmocka_unit_test(test_groups),
#if ATTN_CFG_MASK & MASK_UPPER
        cmocka_unit_test(test_groups_causal),
#endif
        cmocka_unit_test(test_one_row_one_key),
        cmocka_unit_test(test_used_lengths),
        cmocka_unit_test(test_rows_behind_used),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_nan),
#if ATTN_CFG_MASK & MASK_UPPER
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_causal_rows_behind_used),
        cmocka_unit_test(test_causal_top_left),
#endif
#if ATTN_CFG_MASK & MASK_LOWER
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_packed_causal_window),
        cmocka_unit_test(test_left_padding),
#endif
        cmocka_unit_test(test_narrow_head),
#if ATTN_CFG_GATHER
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_packed_layout),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_bad_pages),
#endif
    };
    return cmocka_run_group_tests_name("sm90_forward", tests, NULL, NULL);
}
