// For test_emu_mutations.c: the kernel that is broken, a level of the ladder or the Hopper forward,
// and the problem it is broken on: small, as it runs some hundred times, but with ragged ends,
// masks where there are some, and enough blocks for the rings to turn over twice.
#ifndef EMU_MUTATION_SUBJECT_H
#define EMU_MUTATION_SUBJECT_H

#include "mutate.h"

#ifdef ATTN_CFG_KERNEL
#include "../../src/device/sm90/sm90_forward.c"
#include "forward_fixture.h"
#else
#include "ladder_kernel.h"
#endif

#include "emu.h"

struct schedule {
    emu_async async;
    uint32_t seed;
    uint32_t lag;
};

#ifdef ATTN_CFG_KERNEL

// One CTA takes all tiles, head by head. With a mask it is causal and each head has a ragged tile,
// which is stored without TMA, a whole one, and one without keys. The last row in use sees a NaN,
// so that the ragged tile's rows are done again; that is slow, and most of them are not in use.
static struct forward_case subject_case(void)
{
    struct forward_case c = {
        .b = 1, .h_q = 3, .h_kv = 1, .s_q = 2 * BLOCK_M + 20, .ctas = 1, .section_heads = 1};
    if (ATTN_CFG_MASK) {
        c.s_kv = BLOCK_M + 4;
        c.has_windows = true;
        c.window_left = -1;
        c.nan_key = c.s_kv;
        c.is_packed = true;
        c.rows_q[0] = c.s_q;
        c.rows_kv[0] = c.s_kv;
        c.has_used = true;
        c.used_q[0] = 2 * BLOCK_M + 4;
        c.used_kv[0] = c.s_kv;
        c.padding = 3;
    } else {
        c.s_kv = 2 * BLOCK_N + 20;
    }
    return whole_case(c);
}

static struct forward_data data;

static void subject_make(void)
{
    struct forward_case c = subject_case();
    data = make_data(&c);
}

static void subject_free(void)
{
    free_data(&data);
}

static emu_status subject_run(const struct schedule *schedule, struct emu_result *result)
{
    struct forward_case c = subject_case();
    return launch_forward(&c, &data, schedule->async, schedule->seed, result);
}

static bool subject_is_right(void)
{
    struct forward_case c = subject_case();
    double o_error;
    double lse_error;
    largest_errors(&c, &data, &o_error, &lse_error);
    return o_error <= 4.0 / 128.0 && lse_error <= 2e-5;
}

#elif LEVEL == 2 || LEVEL == 4
#include "gemm_fixture.h"

static const struct gemm_case CASE = {.m = 100, .n = 130, .k = 600};
static struct gemm_data data;

static void subject_make(void)
{
    data = gemm_make(&CASE);
}

static void subject_free(void)
{
    gemm_free(&data);
}

static emu_status subject_run(const struct schedule *schedule, struct emu_result *result)
{
    struct gemm_case c = CASE;
    c.async = schedule->async;
    c.seed = schedule->seed;
    c.lag = schedule->lag;
    c.check = EMU_CHECK_STRICT;
    return gemm_launch(&c, &data, result);
}

static bool subject_is_right(void)
{
    return gemm_is_right(&CASE, &data);
}

#else
#include "attention_fixture.h"
#include <stdbool.h>

static const struct attention_case CASE = {.b = 1, .h = 1, .s_q = 140, .s_kv = 450, .causal = 1};
static struct attention_data data;

static void subject_make(void)
{
    data = fixture_make(&CASE);
}

static void subject_free(void)
{
    fixture_free(&data);
}

static emu_status subject_run(const struct schedule *schedule, struct emu_result *result)
{
    struct attention_case c = CASE;
    c.async = schedule->async;
    c.seed = schedule->seed;
    c.lag = schedule->lag;
    c.check = EMU_CHECK_STRICT;
    return fixture_launch(&c, &data, result);
}

static bool subject_is_right(void)
{
    double out_error;
    double lse_error;
    fixture_errors(&CASE, &data, &out_error, &lse_error);
    return out_error <= 4.0 / 256.0 && lse_error <= 1e-5;
}

#endif

#endif
