// Runs the three Hopper backward kernels on the emulator and compares with fp64. For a file that
// includes them first, under the names below, with their configuration given by the build.
#ifndef EMU_BACKWARD_FIXTURE_H
#define EMU_BACKWARD_FIXTURE_H

#include "sm90_fixture.h"

// A gradient, in the layout of the operand that it belongs to.
struct gradient {
    uint16_t *got;
    double *want;
    int64_t count;
};

struct backward_data {
    struct forward_data forward;
    uint16_t *d_o;
    double *do64;
    double *o64;
    float *dlse;
    struct gradient dq;
    struct gradient dk;
    struct gradient dv;
    float dsink[32];
    double want_dsink[32];
    attn_gpu_backward_scratch_t scratch;
    size_t scratch_bytes[7];
};

static void *scratch_memory(size_t bytes, size_t *bytes_out)
{
    *bytes_out = bytes;
    return aligned_alloc(128, (bytes + 255) / 128 * 128);
}

static int32_t blocks_of(const struct forward_case *c, const struct forward_data *data)
{
    return c->is_packed ? (int32_t)(data->q_rows / BLOCK_M) + c->b
                        : c->b * ((c->s_q + BLOCK_M - 1) / BLOCK_M);
}

static uint32_t tiles_of(const struct forward_case *c)
{
    return (uint32_t)((c->s_kv + BLOCK_N - 1) / BLOCK_N * c->b * c->h_kv);
}

static struct gradient make_gradient(int64_t count)
{
    struct gradient gradient = {aligned_alloc(128, ((size_t)count * 2 + 255) / 128 * 128),
                                calloc((size_t)count + 1, sizeof(double)), count};
    return gradient;
}

// What one row brings to the gradients; q_row: in memory.
static void reference_gradients(const struct forward_case *c, struct backward_data *data, int32_t b,
                                int32_t h, int32_t i)
{
    const struct forward_data *f = &data->forward;
    int64_t q_at = ((f->cu_q[b] + i) * (int64_t)c->h_q + h) * c->d_qk;
    int64_t o_at = ((f->cu_q[b] + i) * (int64_t)c->h_q + h) * c->d_v;
    int64_t lse_at = h * f->q_rows + f->cu_q[b] + i;
    double lse = (double)f->lse[lse_at];
    double scale = 1.0 / sqrt(c->d_qk);
    double delta = c->has_dlse ? -(double)data->dlse[lse_at] : 0.0;
    for (int32_t d = 0; d < c->d_v; d++) {
        delta += data->do64[o_at + d] * data->o64[o_at + d];
    }
    if (i < used(c, c->used_q, b, c->rows_q[b]) && lse != -INFINITY) {
        data->want_dsink[h] -= exp((double)f->sink[h] - lse) * delta;
    }
    for (int32_t j = 0; j < c->rows_kv[b]; j++) {
        if (!sees(c, b, i, j) || lse == -INFINITY) {
            continue;
        }
        int64_t kv_row = (f->cu_kv[b] + j) * (int64_t)c->h_kv + h / (c->h_q / c->h_kv);
        double s = 0.0;
        double dp = 0.0;
        for (int32_t d = 0; d < c->d_qk; d++) {
            s += f->q64[q_at + d] * f->k64[kv_row * c->d_qk + d];
        }
        for (int32_t d = 0; d < c->d_v; d++) {
            dp += data->do64[o_at + d] * f->v64[kv_row * c->d_v + d];
        }
        double p = exp(s * scale - lse);
        double ds = p * (dp - delta) * scale;
        for (int32_t d = 0; d < c->d_qk; d++) {
            data->dq.want[q_at + d] += ds * f->k64[kv_row * c->d_qk + d];
            data->dk.want[kv_row * c->d_qk + d] += ds * f->q64[q_at + d];
        }
        for (int32_t d = 0; d < c->d_v; d++) {
            data->dv.want[kv_row * c->d_v + d] += p * data->do64[o_at + d];
        }
    }
}

static void make_scratch(const struct forward_case *c, struct backward_data *data)
{
    size_t blocks = (size_t)blocks_of(c, &data->forward) * (size_t)c->h_q;
    size_t edge_rows = (size_t)c->b * (size_t)c->h_q * BLOCK_M;
    attn_gpu_backward_scratch_t *scratch = &data->scratch;
    size_t *bytes = data->scratch_bytes;
    scratch->stats = scratch_memory(blocks * 2 * BLOCK_M * 4, &bytes[0]);
    scratch->dq_sum = scratch_memory(blocks * DQ_BLOCK_FLOATS * 4, &bytes[1]);
    scratch->order = scratch_memory(blocks * 4, &bytes[6]);
    scratch->suspects = scratch_memory((size_t)tiles_of(c) * 4 * WARPGROUPS * 4, &bytes[2]);
    scratch->counter = scratch_memory(4, &bytes[3]);
    scratch->q_edge = scratch_memory(edge_rows * (size_t)c->d_qk * 2, &bytes[4]);
    scratch->do_edge = scratch_memory(edge_rows * (size_t)c->d_v * 2, &bytes[5]);
}

// The forward pass's o and lse are those of fp64, rounded.
static struct backward_data make_backward(const struct forward_case *c)
{
    uint32_t state = 7;
    struct backward_data data = {.forward = make_data(c)};
    struct forward_data *f = &data.forward;
    int64_t lse_count = f->q_rows * c->h_q;
    int64_t o_count = lse_count * c->d_v;
    for (int64_t i = 0; i < o_count; i++) {
        f->o[i] = to_element((float)f->want_o[i]);
    }
    data.dlse = malloc((size_t)lse_count * sizeof(float) + 4);
    for (int64_t i = 0; i < lse_count; i++) {
        f->lse[i] = (float)f->want_lse[i];
        data.dlse[i] = (float)(i % 13) * 0.2f - 1.0f;
    }
    data.d_o = random_elements(o_count, &state, 1.0f);
    for (int32_t b = 0; b < c->b; b++) {
        int32_t len_q = used(c, c->used_q, b, c->rows_q[b]);
        for (int64_t i = c->has_used ? len_q : c->rows_q[b]; i < c->rows_q[b]; i++) {
            for (int64_t d = 0; d < c->h_q * c->d_v; d++) { // what is not in use may be NaN
                data.d_o[(f->cu_q[b] + i) * c->h_q * c->d_v + d] = to_element(NAN);
            }
        }
    }
    data.do64 = f64_of_elements(data.d_o, o_count);
    data.o64 = f64_of_elements(f->o, o_count);
    data.dq = make_gradient(lse_count * c->d_qk);
    data.dk = make_gradient(f->kv_rows * c->h_kv * c->d_qk);
    data.dv = make_gradient(f->kv_rows * c->h_kv * c->d_v);
    for (int32_t b = 0; b < c->b; b++) {
        for (int32_t h = 0; h < c->h_q; h++) {
            for (int32_t i = 0; i < c->rows_q[b]; i++) {
                reference_gradients(c, &data, b, h, i);
            }
        }
    }
    make_scratch(c, &data);
    return data;
}

static void free_gradient(struct gradient *gradient)
{
    free(gradient->got);
    free(gradient->want);
}

static void free_backward(struct backward_data *data)
{
    free_data(&data->forward);
    free(data->d_o);
    free(data->do64);
    free(data->o64);
    free(data->dlse);
    free_gradient(&data->dq);
    free_gradient(&data->dk);
    free_gradient(&data->dv);
    free(data->scratch.stats);
    free(data->scratch.dq_sum);
    free(data->scratch.suspects);
    free(data->scratch.order);
    free(data->scratch.counter);
    free(data->scratch.q_edge);
    free(data->scratch.do_edge);
}

// (batch, heads_q, BLOCK_M, d).
static void encode_edge(tensor_map *map, uint16_t *x, const struct forward_case *c, int32_t d)
{
    struct emu_tensor tensor = {.data = x,
                                .element = ATTN_CFG_BF16 ? EMU_BF16 : EMU_F16,
                                .rank = 4,
                                .dims = {(uint64_t)d, BLOCK_M, (uint64_t)c->h_q, (uint64_t)c->b},
                                .strides_bytes = {(uint64_t)d * 2, (uint64_t)d * 2 * BLOCK_M,
                                                  (uint64_t)d * 2 * BLOCK_M * (uint64_t)c->h_q},
                                .box = {64, BOX_ROWS, 1, 1},
                                .swizzle = EMU_SWIZZLE_128};
    if (emu_tensor_map_encode(map, &tensor)) {
        abort();
    }
}

static attn_gpu_backward_params_t make_params(const struct forward_case *c,
                                              const struct backward_data *data)
{
    const struct forward_data *f = &data->forward;
    int32_t rows_q = c->is_packed ? (int32_t)f->q_rows : c->s_q;
    int32_t rows_kv = c->is_packed ? (int32_t)f->kv_rows : c->s_kv;
    attn_gpu_backward_params_t p = {.q = operand(c, f->q, c->s_q, c->h_q, c->d_qk),
                                    .k = operand(c, f->k, c->s_kv, c->h_kv, c->d_qk),
                                    .v = operand(c, f->v, c->s_kv, c->h_kv, c->d_v),
                                    .o = operand(c, f->o, c->s_q, c->h_q, c->d_v),
                                    .do_ = operand(c, data->d_o, c->s_q, c->h_q, c->d_v),
                                    .dq = operand(c, data->dq.got, c->s_q, c->h_q, c->d_qk),
                                    .dk = operand(c, data->dk.got, c->s_kv, c->h_kv, c->d_qk),
                                    .dv = operand(c, data->dv.got, c->s_kv, c->h_kv, c->d_v),
                                    .lse = f->lse,
                                    .dlse = c->has_dlse ? data->dlse : NULL,
                                    .sink = c->has_sink ? f->sink : NULL,
                                    .dsink = (float *)(uintptr_t)data->dsink,
                                    .lse_stride_h = f->q_rows,
                                    .lse_stride_b = c->is_packed ? 0 : c->s_q,
                                    .lse_stride_s = 1,
                                    .d_qk = c->d_qk,
                                    .d_v = c->d_v,
                                    .heads_q = c->h_q,
                                    .group = c->h_q / c->h_kv,
                                    .blocks = blocks_of(c, f),
                                    .align_top_left = c->is_top_left,
                                    .window_left = c->window_left,
                                    .window_right = c->window_right,
                                    .scale = 1.0f / sqrtf((float)c->d_qk),
                                    .lengths = make_lengths(c, f),
                                    .scratch = data->scratch};
    p.tiles.m_tiles = (c->s_kv + BLOCK_N - 1) / BLOCK_N;
    p.tiles.bh = c->b * c->h_kv;
    p.tiles.section_heads = (int32_t)c->section_heads;
    p.tiles.count = tiles_of(c);
    p.tiles.counter = c->has_used || c->is_packed ? data->scratch.counter : NULL;
    if (!c->has_used && !c->is_packed) {
        p.scratch.q_edge = p.scratch.do_edge = NULL;
    }
    encode(&p.q_map, f->q, c, rows_q, c->h_q, c->d_qk, BOX_ROWS);
    encode(&p.do_map, data->d_o, c, rows_q, c->h_q, c->d_v, BOX_ROWS);
    encode(&p.k_map, f->k, c, rows_kv, c->h_kv, c->d_qk, BOX_ROWS);
    encode(&p.v_map, f->v, c, rows_kv, c->h_kv, c->d_v, BOX_ROWS);
    encode(&p.dk_map, data->dk.got, c, rows_kv, c->h_kv, c->d_qk, BOX_ROWS);
    encode(&p.dv_map, data->dv.got, c, rows_kv, c->h_kv, c->d_v, BOX_ROWS);
    encode_edge(&p.q_edge_map, data->scratch.q_edge, c, c->d_qk);
    encode_edge(&p.do_edge_map, data->scratch.do_edge, c, c->d_v);
    return p;
}

static void preprocess_entry(const void *params)
{
    backward_preprocess(*(const attn_gpu_backward_params_t *)params);
}

static void main_entry(const void *params)
{
    backward_main(*(const attn_gpu_backward_params_t *)params);
}

static void postprocess_entry(const void *params)
{
    backward_postprocess(*(const attn_gpu_backward_params_t *)params);
}

enum { BACKWARD_BUFFERS = 24, FIRST_WRITTEN = 13 };

// `first` to `last`, of 0 to 2: the kernels that run. What earlier ones wrote is there for later
// ones.
static size_t backward_buffers(const struct forward_case *c, const struct backward_data *data,
                               int first, int last, struct emu_buffer *buffers)
{
    const struct forward_data *f = &data->forward;
    size_t rows = (size_t)(f->q_rows * c->h_q);
    int out = first <= 1 && last >= 1 ? EMU_OUTPUT : EMU_READ_WRITE;
    int fresh = first == 0 ? EMU_OUTPUT : EMU_READ_WRITE;
    const struct emu_buffer all[] = {
        {"q", f->q, rows * (size_t)c->d_qk * 2, 0},
        {"k", f->k, (size_t)(f->kv_rows * c->h_kv * c->d_qk) * 2, 0},
        {"v", f->v, (size_t)(f->kv_rows * c->h_kv * c->d_v) * 2, 0},
        {"o", f->o, rows * (size_t)c->d_v * 2, 0},
        {"do", data->d_o, rows * (size_t)c->d_v * 2, 0},
        {"lse", f->lse, rows * 4, 0},
        {"dlse", data->dlse, rows * 4, 0},
        {"cu_seqlens_q", (void *)(uintptr_t)f->cu_q, sizeof f->cu_q, 0},
        {"cu_seqlens_kv", (void *)(uintptr_t)f->cu_kv, sizeof f->cu_kv, 0},
        {"seqused_q", (void *)(uintptr_t)c->used_q, sizeof c->used_q, 0},
        {"seqused_kv", (void *)(uintptr_t)c->used_kv, sizeof c->used_kv, 0},
        {"leftpad_kv", (void *)(uintptr_t)c->leftpad, sizeof c->leftpad, 0},
        {"sink", (void *)(uintptr_t)f->sink, sizeof f->sink, 0},
        {"dsink", (void *)(uintptr_t)data->dsink, sizeof data->dsink, EMU_OUTPUT},
        {"dq", data->dq.got, (size_t)data->dq.count * 2, EMU_OUTPUT},
        {"dk", data->dk.got, (size_t)data->dk.count * 2, out},
        {"dv", data->dv.got, (size_t)data->dv.count * 2, out},
        {"stats", data->scratch.stats, data->scratch_bytes[0], fresh},
        {"dq_sum", data->scratch.dq_sum, data->scratch_bytes[1], fresh},
        {"suspects", data->scratch.suspects, data->scratch_bytes[2], out},
        {"counter", data->scratch.counter, data->scratch_bytes[3], fresh},
        {"q_edge", data->scratch.q_edge, data->scratch_bytes[4], fresh},
        {"do_edge", data->scratch.do_edge, data->scratch_bytes[5], fresh},
        {"order", data->scratch.order, data->scratch_bytes[6], fresh}};
    memcpy(buffers, all, sizeof all);
    return sizeof all / sizeof all[0];
}

static void spoil(const struct forward_case *c, const struct backward_data *data)
{
    struct emu_buffer buffers[BACKWARD_BUFFERS];
    size_t count = backward_buffers(c, data, 0, 0, buffers);
    for (size_t i = FIRST_WRITTEN; i < count; i++) {
        memset(buffers[i].data, 0xff, buffers[i].bytes);
    }
}

// The kernels of a run; results and scratch are filled with NaN before. The first two overlap, or
// the last two.
static emu_status launch_backward(const struct forward_case *c, const struct backward_data *data,
                                  emu_async async, uint32_t seed, struct emu_result *result)
{
    attn_gpu_backward_params_t p = make_params(c, data);
    uint32_t blocks = (uint32_t)((c->s_q + BLOCK_M - 1) / BLOCK_M * c->b * c->h_q);
    struct emu_launch launches[] = {{.name = "preprocess",
                                     .entry = preprocess_entry,
                                     .grid = {blocks, 1, 1},
                                     .threads = PREPROCESS_THREADS},
                                    {.name = "backward",
                                     .entry = main_entry,
                                     .grid = {c->ctas, 1, 1},
                                     .threads = BACKWARD_THREADS,
                                     .smem_bytes = BACKWARD_SMEM_BYTES},
                                    {.name = "postprocess",
                                     .entry = postprocess_entry,
                                     .grid = {blocks, 1, 1},
                                     .threads = POSTPROCESS_THREADS,
                                     .smem_bytes = POSTPROCESS_SMEM_BYTES}};
    spoil(c, data);
    emu_status status = EMU_OK;
    int last = seed % 2 ? 0 : 1;
    for (int first = 0; first < 3 && status == EMU_OK; first = last + 1, last = 2) {
        struct emu_buffer buffers[BACKWARD_BUFFERS];
        for (int stage = first; stage <= last; stage++) {
            struct emu_launch *launch = &launches[stage];
            launch->params = &p;
            launch->resident = ATTN_CFG_DETERMINISTIC ? c->ctas : 2;
            launch->buffers = buffers;
            launch->buffer_count = backward_buffers(c, data, first, last, buffers);
            launch->async = async;
            launch->check = EMU_CHECK_STRICT;
            launch->seed = seed;
            launch->lag = seed ? 40 : 0;
        }
        status = first == last ? emu_launch(&launches[first], result)
                               : emu_launch_pair(&launches[first], &launches[last], result);
    }
    return status;
}

static double dsink_error(const struct forward_case *c, const struct backward_data *data)
{
    double error = 0.0;
    for (int32_t h = 0; h < c->h_q && c->has_sink; h++) {
        double off = difference((double)data->dsink[h], data->want_dsink[h]);
        error = off > error ? off : error;
    }
    return error;
}

// The largest error, as a share of the largest gradient; where gradients cancel, of what they are
// sums of.
static double gradient_error(const struct forward_case *c, const struct gradient *gradient)
{
    double error = 0.0;
    double largest = 1e-3 * (double)c->amplitude;
    for (int64_t i = 0; i < gradient->count; i++) {
        double want = gradient->want[i];
        double off = difference((double)F32_OF_ELEMENT(gradient->got[i]), want);
        error = off > error ? off : error;
        largest = isfinite(want) && fabs(want) > largest ? fabs(want) : largest;
    }
    return error / largest;
}

#endif
