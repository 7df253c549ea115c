// The kernel for problems without keys on the emulator: every element of o and lse is written, with
// any strides, and nothing beside them.
#include "small_kernel.h"

#include <math.h>
#include <stdlib.h>

#define ATTN_CFG_O_BYTES 2
#define ATTN_CFG_KERNEL fill_u16
#include "../../src/device/common/fill_forward.c"

enum { B = 2, S = 3, H = 5, D = 40, O_ELEMENTS = 4096, LSE_ELEMENTS = 256 };

static uint16_t o[O_ELEMENTS];
static float lse[LSE_ELEMENTS];
static float sink[H];

static void fill_entry(const void *params)
{
    fill_u16(*(const attn_gpu_fill_params_t *)params);
}

// o as (b, h, s, d) with a gap between rows and every second element; lse as (b, s, h).
static attn_gpu_fill_params_t params_of(int wants_lse, int has_sink)
{
    return (attn_gpu_fill_params_t){
        .o = o + 7,
        .o_stride_b = H * S * 100,
        .o_stride_h = S * 100,
        .o_stride_s = 100,
        .o_stride_d = 2,
        .lse = wants_lse ? lse + 3 : NULL,
        .lse_stride_b = S * H,
        .lse_stride_s = H,
        .lse_stride_h = 1,
        .sink = has_sink ? sink : NULL,
        .rows = B * S * H,
        .s_q = S,
        .heads_q = H,
        .d_v = D,
    };
}

static void run(const attn_gpu_fill_params_t *params, uint32_t ctas)
{
    memset(o, 0xff, sizeof o);
    memset(lse, 0xff, sizeof lse);
    for (int h = 0; h < H; h++) {
        sink[h] = 0.25f * (float)h;
    }
    const struct emu_buffer buffers[] = {
        {"o", o, sizeof o, 1}, {"lse", lse, sizeof lse, 1}, {"sink", sink, sizeof sink, 0}};
    const struct emu_launch launch = {.name = "fill",
                                      .entry = fill_entry,
                                      .params = params,
                                      .grid = {ctas, 1, 1},
                                      .threads = FILL_THREADS,
                                      .buffers = buffers,
                                      .buffer_count = 3,
                                      .check = EMU_CHECK_STRICT};
    struct emu_result result;
    if (emu_launch(&launch, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
}

static void expect_o(const attn_gpu_fill_params_t *p)
{
    static uint16_t want[O_ELEMENTS];
    memset(want, 0xff, sizeof want);
    for (int64_t b = 0; b < B; b++) {
        for (int64_t s = 0; s < S; s++) {
            for (int64_t h = 0; h < H; h++) {
                for (int64_t d = 0; d < D; d++) {
                    want[7 + b * p->o_stride_b + s * p->o_stride_s + h * p->o_stride_h +
                         d * p->o_stride_d] = 0;
                }
            }
        }
    }
    assert_memory_equal(o, want, sizeof want);
}

static void test_lse(void **state)
{
    (void)state;
    for (uint32_t ctas = 1; ctas <= 10; ctas += 3) {
        const attn_gpu_fill_params_t params = params_of(1, ctas > 3);
        run(&params, ctas);
        expect_o(&params);
        for (int i = 0; i < LSE_ELEMENTS; i++) {
            const int at = i - 3;
            if (at < 0 || at >= B * S * H) {
                assert_true(isnan(lse[i]));
            } else if (ctas > 3) {
                assert_true(lse[i] == sink[at % H]);
            } else {
                assert_true(lse[i] == -INFINITY);
            }
        }
    }
}

static void test_no_lse(void **state)
{
    (void)state;
    const attn_gpu_fill_params_t params = params_of(0, 0);
    run(&params, 2);
    expect_o(&params);
    for (int i = 0; i < LSE_ELEMENTS; i++) {
        assert_true(isnan(lse[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lse),
        cmocka_unit_test(test_no_lse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
