// Runs a matrix product of the ladder on random input and compares with fp64. For a file that
// includes the kernel first (ladder_kernel.h), so that every test can compile it in its own way.
#ifndef EMU_GEMM_FIXTURE_H
#define EMU_GEMM_FIXTURE_H

#include "../../src/device/ptx/math_ops.h"
#include "emu.h"
#include "random_input.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct gemm_case {
    int32_t m;
    int32_t n;
    int32_t k;
    emu_async async;
    uint32_t seed;
    uint32_t lag;
    emu_check check;
};

struct gemm_data {
    uint16_t *a; // (m, k)
    uint16_t *b; // (n, k)
    float *c;    // (m, n)
    double *want;
};

static void *gemm_aligned(size_t bytes)
{
    void *p = aligned_alloc(128, (bytes + 127) / 128 * 128);
    if (!p) {
        abort();
    }
    return p;
}

static uint16_t *gemm_random(int64_t count, uint32_t *state)
{
    uint16_t *x = gemm_aligned((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (uint16_t)pack_bf16x2(4.0f * random_uniform(state), 0.0f);
    }
    return x;
}

static struct gemm_data gemm_make(const struct gemm_case *c)
{
    uint32_t state = 99;
    int64_t count = (int64_t)c->m * c->n;
    struct gemm_data data = {
        gemm_random((int64_t)c->m * c->k, &state), gemm_random((int64_t)c->n * c->k, &state),
        gemm_aligned((size_t)count * sizeof(float)), gemm_aligned((size_t)count * sizeof(double))};
    for (int64_t i = 0; i < count; i++) {
        data.want[i] = 0.0;
        for (int64_t k = 0; k < c->k; k++) {
            data.want[i] += (double)f32_of_bf16(data.a[i / c->n * c->k + k]) *
                            (double)f32_of_bf16(data.b[i % c->n * c->k + k]);
        }
    }
    return data;
}

static void gemm_free(struct gemm_data *data)
{
    free(data->a);
    free(data->b);
    free(data->c);
    free(data->want);
}

static void gemm_entry(const void *params)
{
    gemm_kernel(*(const struct gemm_params *)params);
}

static void gemm_map(tensor_map *map, uint16_t *x, int32_t rows, int32_t k)
{
    struct emu_tensor tensor = {.data = x,
                                .element = EMU_BF16,
                                .rank = 2,
                                .dims = {(uint64_t)k, (uint64_t)rows},
                                .strides_bytes = {(uint64_t)k * 2},
                                .box = {GEMM_K, GEMM_TILE},
                                .swizzle = EMU_SWIZZLE_128};
    if (emu_tensor_map_encode(map, &tensor)) {
        abort();
    }
}

// Launches; c is filled with NaN before.
static emu_status gemm_launch(const struct gemm_case *c, const struct gemm_data *data,
                              struct emu_result *result)
{
    struct gemm_params params = {.c = data->c, .m = c->m, .n = c->n, .k = c->k};
    size_t c_bytes = (size_t)c->m * (size_t)c->n * sizeof(float);
    memset(data->c, 0xff, c_bytes);
    gemm_map(&params.a, data->a, c->m, c->k);
    gemm_map(&params.b, data->b, c->n, c->k);
    const struct emu_buffer buffers[] = {{"a", data->a, (uint64_t)c->m * (uint64_t)c->k * 2, 0},
                                         {"b", data->b, (uint64_t)c->n * (uint64_t)c->k * 2, 0},
                                         {"c", data->c, c_bytes, 1}};
    struct emu_launch launch = {
        .name = "gemm",
        .arch = LADDER_ARCH,
        .entry = gemm_entry,
        .params = &params,
        .grid = {(uint32_t)(c->n + 127) / 128, (uint32_t)(c->m + 127) / 128, 1},
        .threads = GEMM_THREADS,
        .smem_bytes = GEMM_SMEM_BYTES,
        .buffers = buffers,
        .buffer_count = 3,
        .async = c->async,
        .check = c->check,
        .seed = c->seed,
        .lag = c->lag};
    return emu_launch(&launch, result);
}

// Exact products, so the error is that of k fp32 additions of sums below 16 k.
static bool gemm_is_right(const struct gemm_case *c, const struct gemm_data *data)
{
    double tolerance = (double)c->k * 16.0 * (double)c->k * 0x1p-24;
    for (int64_t i = 0; i < (int64_t)c->m * c->n; i++) {
        if (!(fabs((double)data->c[i] - data->want[i]) <= tolerance)) {
            return false;
        }
    }
    return true;
}

#endif
