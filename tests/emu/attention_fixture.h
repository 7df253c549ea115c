// Runs an attention kernel of the ladder on random input and compares with fp64. For a file that
// includes the kernel first (ladder_kernel.h), so that every test can compile it in its own way.
#ifndef EMU_ATTENTION_FIXTURE_H
#define EMU_ATTENTION_FIXTURE_H

#include "emu.h"
#include "random_input.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attention_case {
    int64_t b;
    int64_t h;
    int64_t s_q;
    int64_t s_kv;
    int causal;
    emu_async async;
    uint32_t seed;
    uint32_t lag;
    emu_check check;
    uint32_t resident;
};

struct attention_data {
    uint16_t *q; // (b, s_q, h, d)
    uint16_t *k; // (b, s_kv, h, d)
    uint16_t *v;
    uint16_t *out;
    float *lse; // (b, h, s_q)
    double *want_out;
    double *want_lse;
};

static float fixture_from_bf16(uint16_t bits)
{
    return f32_of_bf16(bits);
}

static uint16_t *fixture_random(int64_t count, uint32_t *state)
{
    uint16_t *x = aligned_alloc(128, ((size_t)count * sizeof *x + 127) / 128 * 128);
    for (int64_t i = 0; x && i < count; i++) {
        x[i] = (uint16_t)pack_bf16x2(random_bell(state), 0.0f);
    }
    return x;
}

static int64_t fixture_limit(const struct attention_case *c, int64_t row)
{
    int64_t limit = c->causal ? row + 1 + c->s_kv - c->s_q : c->s_kv;
    return limit < 0 ? 0 : limit < c->s_kv ? limit : c->s_kv;
}

// One row of one head, in fp64.
static void fixture_row(const struct attention_case *c, const struct attention_data *data,
                        int64_t b, int64_t h, int64_t row, double *scores)
{
    const uint16_t *q = data->q + ((b * c->s_q + row) * c->h + h) * HEAD_DIM;
    int64_t limit = fixture_limit(c, row);
    double max = -INFINITY;
    for (int64_t j = 0; j < limit; j++) {
        const uint16_t *k = data->k + ((b * c->s_kv + j) * c->h + h) * HEAD_DIM;
        double dot = 0.0;
        for (int i = 0; i < HEAD_DIM; i++) {
            dot += (double)fixture_from_bf16(q[i]) * (double)fixture_from_bf16(k[i]);
        }
        scores[j] = dot / sqrt(HEAD_DIM);
        max = scores[j] > max ? scores[j] : max;
    }
    double sum = 0.0;
    double *out = data->want_out + ((b * c->s_q + row) * c->h + h) * HEAD_DIM;
    for (int64_t j = 0; j < limit; j++) {
        const uint16_t *v = data->v + ((b * c->s_kv + j) * c->h + h) * HEAD_DIM;
        double weight = exp(scores[j] - max);
        sum += weight;
        for (int i = 0; i < HEAD_DIM; i++) {
            out[i] += weight * (double)fixture_from_bf16(v[i]);
        }
    }
    for (int i = 0; i < HEAD_DIM; i++) {
        out[i] = limit ? out[i] / sum : 0.0;
    }
    data->want_lse[(b * c->h + h) * c->s_q + row] = limit ? max + log(sum) : -INFINITY;
}

static struct attention_data fixture_make(const struct attention_case *c)
{
    uint32_t state = 12345;
    int64_t q_count = c->b * c->s_q * c->h * HEAD_DIM;
    int64_t k_count = c->b * c->s_kv * c->h * HEAD_DIM;
    struct attention_data data = {fixture_random(q_count, &state),
                                  fixture_random(k_count, &state),
                                  fixture_random(k_count, &state),
                                  fixture_random(q_count, &state),
                                  malloc((size_t)(c->b * c->h * c->s_q) * sizeof(float)),
                                  calloc((size_t)q_count, sizeof(double)),
                                  calloc((size_t)(c->b * c->h * c->s_q), sizeof(double))};
    double *scores = malloc((size_t)c->s_kv * sizeof *scores);
    for (int64_t i = 0; i < c->b * c->h * c->s_q; i++) {
        fixture_row(c, &data, i / c->s_q / c->h, i / c->s_q % c->h, i % c->s_q, scores);
    }
    free(scores);
    return data;
}

static void fixture_free(struct attention_data *data)
{
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->out);
    free(data->lse);
    free(data->want_out);
    free(data->want_lse);
}

static void fixture_entry(const void *params)
{
    attention_kernel(*(const struct attention_params *)params);
}

static const char *fixture_map(tensor_map *map, uint16_t *x, const struct attention_case *c,
                               int64_t s, uint32_t rows)
{
    uint64_t row_bytes = (uint64_t)c->h * HEAD_DIM * 2;
    struct emu_tensor tensor = {.data = x,
                                .element = EMU_BF16,
                                .rank = 4,
                                .dims = {HEAD_DIM, (uint64_t)s, (uint64_t)c->h, (uint64_t)c->b},
                                .strides_bytes = {row_bytes, HEAD_DIM * 2, (uint64_t)s * row_bytes},
                                .box = {64, rows, 1, 1},
                                .swizzle = EMU_SWIZZLE_128};
    return emu_tensor_map_encode(map, &tensor);
}

// Launches; the outputs are filled with NaN before.
static emu_status fixture_launch(const struct attention_case *c, const struct attention_data *data,
                                 struct emu_result *result)
{
    struct attention_params p = {.lse = data->lse,
                                 .s_q = (int32_t)c->s_q,
                                 .s_kv = (int32_t)c->s_kv,
                                 .heads = (int32_t)c->h,
                                 .causal = c->causal,
                                 .scale_log2 = 1.44269504f / sqrtf(HEAD_DIM)};
    size_t q_bytes = (size_t)(c->b * c->s_q * c->h * HEAD_DIM) * 2;
    size_t k_bytes = (size_t)(c->b * c->s_kv * c->h * HEAD_DIM) * 2;
    size_t lse_bytes = (size_t)(c->b * c->h * c->s_q) * sizeof(float);
    memset(data->out, 0xff, q_bytes);
    memset(data->lse, 0xff, lse_bytes);
    if (fixture_map(&p.q, data->q, c, c->s_q, 128) ||
        fixture_map(&p.k, data->k, c, c->s_kv, BOX_ROWS_K) ||
        fixture_map(&p.v, data->v, c, c->s_kv, 128) ||
        fixture_map(&p.out, data->out, c, c->s_q, BOX_ROWS_OUT)) {
        abort();
    }
    const struct emu_buffer buffers[] = {{"q", data->q, q_bytes, EMU_READ_ONLY},
                                         {"k", data->k, k_bytes, EMU_READ_ONLY},
                                         {"v", data->v, k_bytes, EMU_READ_ONLY},
                                         {"out", data->out, q_bytes, EMU_OUTPUT},
                                         {"lse", data->lse, lse_bytes, EMU_OUTPUT}};
    uint32_t tiles = (uint32_t)((c->s_q + 127) / 128);
    tiles = (tiles + ATTENTION_CLUSTER - 1) / ATTENTION_CLUSTER * ATTENTION_CLUSTER;
    struct emu_launch launch = {.name = "attention",
                                .arch = LADDER_ARCH,
                                .cluster = ATTENTION_CLUSTER,
                                .entry = fixture_entry,
                                .params = &p,
                                .grid = {tiles, (uint32_t)c->h, (uint32_t)c->b},
                                .threads = ATTENTION_THREADS,
                                .smem_bytes = ATTENTION_SMEM_BYTES + 1024,
                                .resident = c->resident,
                                .buffers = buffers,
                                .buffer_count = 5,
                                .async = c->async,
                                .check = c->check,
                                .seed = c->seed,
                                .lag = c->lag};
    return emu_launch(&launch, result);
}

// Largest error of the output and of LSE; NaN anywhere gives infinity.
static void fixture_errors(const struct attention_case *c, const struct attention_data *data,
                           double *out_error, double *lse_error)
{
    *out_error = 0.0;
    *lse_error = 0.0;
    for (int64_t i = 0; i < c->b * c->s_q * c->h * HEAD_DIM; i++) {
        double error = fabs((double)fixture_from_bf16(data->out[i]) - data->want_out[i]);
        *out_error = error <= *out_error ? *out_error : isnan(error) ? INFINITY : error;
    }
    for (int64_t i = 0; i < c->b * c->h * c->s_q; i++) {
        double error = (double)data->lse[i] == data->want_lse[i]
                           ? 0.0
                           : fabs((double)data->lse[i] - data->want_lse[i]);
        *lse_error = error <= *lse_error ? *lse_error : isnan(error) ? INFINITY : error;
    }
}

#endif
