// Runs the Hopper forward kernel on the emulator and compares with fp64. For a file that includes
// the kernel first, with its configuration given by the build.
#ifndef EMU_FORWARD_FIXTURE_H
#define EMU_FORWARD_FIXTURE_H

#include "layout_fixture.h"

static void forward_entry(const void *params)
{
    ATTN_CFG_KERNEL(*(const attn_gpu_forward_params_t *)params);
}

static attn_gpu_forward_params_t make_params(const struct forward_case *c,
                                             const struct forward_data *data)
{
    int32_t rows_q = c->is_packed ? (int32_t)data->q_rows : c->s_q;
    int32_t rows_kv = c->is_packed ? (int32_t)data->kv_rows : c->s_kv;
    attn_gpu_forward_params_t p = {.q = operand(c, data->q, c->s_q, c->h_q, c->d_qk),
                                   .k = operand(c, data->k, c->s_kv, c->h_kv, c->d_qk),
                                   .v = operand(c, data->v, c->s_kv, c->h_kv, c->d_v),
                                   .o = operand(c, data->o, c->s_q, c->h_q, c->d_v),
                                   .lse = data->lse,
                                   .lse_stride_h = data->q_rows,
                                   .lse_stride_b = c->s_q,
                                   .lse_stride_s = 1,
                                   .d_qk = c->d_qk,
                                   .d_v = c->d_v,
                                   .heads_q = c->h_q,
                                   .group = c->h_q / c->h_kv,
                                   .lengths = make_lengths(c, data),
                                   .scale = 1.0f / sqrtf((float)c->d_qk),
                                   .align_top_left = c->is_top_left,
                                   .window_left = c->window_left,
                                   .window_right = c->window_right,
                                   .sink = c->has_sink ? data->sink : NULL};
    p.tiles.m_tiles = (c->s_q * PACK_HEADS + BLOCK_M - 1) / BLOCK_M;
    p.tiles.bh = c->b * c->h_kv * ((p.group + PACK_HEADS - 1) / PACK_HEADS);
    p.tiles.section_heads = (int32_t)c->section_heads;
    p.tiles.count = (int64_t)p.tiles.m_tiles * p.tiles.bh;
    if (ATTN_CFG_GATHER) {
        return p;
    }
    encode_heads(&p.q_map, data->q, c, rows_q, c->h_q, c->d_qk, WARPGROUP_M, PACK_HEADS);
    encode(&p.k_map, data->k, c, rows_kv, c->h_kv, c->d_qk, BLOCK_N);
    encode(&p.v_map, data->v, c, rows_kv, c->h_kv, c->d_v, BLOCK_N);
    encode_heads(&p.o_map, data->o, c, rows_q, c->h_q, c->d_v, WARPGROUP_M, PACK_HEADS);
    return p;
}

// Launches; the outputs are filled with NaN before.
static inline emu_status launch_forward(const struct forward_case *c,
                                        const struct forward_data *data, emu_async async,
                                        uint32_t seed, struct emu_result *result)
{
    attn_gpu_forward_params_t p = make_params(c, data);
    struct layout_data layout = {.table = NULL};
    if (ATTN_CFG_GATHER) {
        layout = make_layout(c, data);
        use_layout(&p, c, &layout);
    }
    uint32_t counter = 0;
    p.tiles.counter = c->has_used || c->is_packed ? &counter : NULL;
    size_t o_bytes = (size_t)(data->q_rows * c->h_q * c->d_v) * 2;
    size_t lse_bytes = (size_t)(data->q_rows * c->h_q) * sizeof(float);
    memset(data->o, 0xff, o_bytes);
    memset(data->lse, 0xff, lse_bytes);
    const struct emu_buffer buffers[] = {
        {"q", data->q, (size_t)(data->q_rows * c->h_q * c->d_qk) * 2, 0},
        {"k", data->k, (size_t)(data->kv_rows * c->h_kv * c->d_qk) * 2, 0},
        {"v", data->v, (size_t)(data->kv_rows * c->h_kv * c->d_v) * 2, 0},
        {"o", data->o, o_bytes, 1},
        {"lse", data->lse, lse_bytes, 1},
        {"cu_seqlens_q", (void *)(uintptr_t)data->cu_q, sizeof data->cu_q, 0},
        {"cu_seqlens_kv", (void *)(uintptr_t)data->cu_kv, sizeof data->cu_kv, 0},
        {"sink", (void *)(uintptr_t)data->sink, sizeof data->sink, 0},
        {"seqused_q", (void *)(uintptr_t)c->used_q, sizeof c->used_q, 0},
        {"seqused_kv", (void *)(uintptr_t)c->used_kv, sizeof c->used_kv, 0},
        {"leftpad_kv", (void *)(uintptr_t)c->leftpad, sizeof c->leftpad, 0},
        {"counter", &counter, sizeof counter, EMU_READ_WRITE},
        {"q spread", layout.q.memory, (size_t)layout.q.bytes, 0},
        {"k spread", layout.k.memory, (size_t)layout.k.bytes, 0},
        {"v spread", layout.v.memory, (size_t)layout.v.bytes, 0},
        {"o spread", layout.o.memory, (size_t)layout.o.bytes, 1},
        {"page_table", layout.given, table_bytes(c, &layout), 0}};
    struct emu_launch launch = {.name = "sm90_forward",
                                .entry = forward_entry,
                                .params = &p,
                                .grid = {c->ctas, 1, 1},
                                .threads = FORWARD_THREADS,
                                .smem_bytes = FORWARD_SMEM_BYTES,
                                .resident = 2,
                                .buffers = buffers,
                                .buffer_count = sizeof buffers / sizeof buffers[0],
                                .async = async,
                                .check = EMU_CHECK_STRICT,
                                .seed = seed,
                                .lag = seed ? 40 : 0};
    emu_status status = emu_launch(&launch, result);
    if (ATTN_CFG_GATHER) {
        gather_spread(&layout.o, data->o, data->q_rows, c->h_q, c->d_v);
        free_layout(&layout);
    }
    return status;
}

static inline void largest_errors(const struct forward_case *c, const struct forward_data *data,
                                  double *o_error, double *lse_error)
{
    *o_error = *lse_error = 0.0;
    for (int64_t i = 0; i < data->q_rows * c->h_q * c->d_v; i++) {
        double error = difference((double)F32_OF_ELEMENT(data->o[i]), data->want_o[i]);
        *o_error = error > *o_error ? error : *o_error;
    }
    for (int64_t i = 0; i < data->q_rows * c->h_q; i++) {
        double error = difference((double)data->lse[i], data->want_lse[i]);
        *lse_error = error > *lse_error ? error : *lse_error;
    }
}

#endif
