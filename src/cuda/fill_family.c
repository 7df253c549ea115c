// The family of src/device/common/fill_forward.c: problems without keys.
#include <stdio.h>

#include "../core/status.h"
#include "../shared/gpu_fill_params.h"
#include "gpu_launch.h"
#include "kernel_family.h"

enum { FILL_THREADS = 128 };

static int32_t element_bytes(attn_dtype_t dtype)
{
    return (int32_t)attn_dtype_bytes(dtype);
}

static int fill_legal(const attn_desc_t *desc, const attn_gpu_t *gpu,
                      char reason[ATTN_REASON_BYTES])
{
    (void)gpu;
    const int64_t keys =
        desc->varlen_kv && desc->total_kv < desc->s_kv ? desc->total_kv : desc->s_kv;
    if (keys > 0) {
        (void)snprintf(reason, ATTN_REASON_BYTES, "s_kv: %lld, only problems without keys have one",
                       (long long)desc->s_kv);
        return 0;
    }
    const int32_t bytes = element_bytes(desc->o.dtype);
    if (bytes != 2 && bytes != 4) {
        (void)snprintf(reason, ATTN_REASON_BYTES, "o.dtype: %d bytes an element, expected 2 or 4",
                       (int)bytes);
        return 0;
    }
    // With a sink the lse tells rows in use from others, which this kernel does not.
    if (desc->has_sink && desc->wants_lse && (desc->varlen_q || desc->has_seqused_q)) {
        (void)snprintf(reason, ATTN_REASON_BYTES,
                       "has_sink: together with used or packed lengths of the queries");
        return 0;
    }
    return 1;
}

static void fill_canonical(const attn_desc_t *desc, const attn_gpu_t *gpu,
                           attn_kernel_config_t *config)
{
    config->kind = ATTN_KERNEL_FILL;
    config->arch = gpu->compute;
    config->o_bytes = element_bytes(desc->o.dtype);
}

static int32_t fill_shared_bytes(const attn_kernel_config_t *config)
{
    (void)config;
    return 0;
}

static size_t fill_workspace_bytes(const attn_desc_t *desc, const attn_gpu_t *gpu,
                                   const attn_kernel_config_t *config)
{
    (void)desc;
    (void)gpu;
    (void)config;
    return 0;
}

static attn_status_t fill_forward(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                                  const attn_forward_args_t *args, void *workspace, void *stream)
{
    (void)workspace;
    const int64_t batch = desc->varlen_q ? 1 : desc->batch;
    const int64_t s_q = desc->varlen_q ? desc->total_q : desc->s_q;
    const attn_gpu_fill_params_t params = {
        .o = args->o,
        .o_stride_b = desc->varlen_q ? 0 : desc->o.stride_b,
        .o_stride_s = desc->o.stride_s,
        .o_stride_h = desc->o.stride_h,
        .o_stride_d = desc->o.stride_d,
        .lse = desc->wants_lse ? args->lse : NULL,
        .lse_stride_b = desc->varlen_q ? 0 : desc->lse_stride_b,
        .lse_stride_h = desc->lse_stride_h,
        .lse_stride_s = desc->lse_stride_s,
        .sink = desc->has_sink ? args->sink : NULL,
        .rows = batch * s_q * desc->heads_q,
        .s_q = s_q,
        .heads_q = desc->heads_q,
        .d_v = desc->d_v,
    };
    const attn_gpu_grid_t grid = attn_gpu_warps_grid(cuda->gpu, params.rows, FILL_THREADS);
    return attn_gpu_launch(cuda->gpu, cuda->kernels[0], &grid, &params, stream);
}

static const attn_tuning_row_t fill_rows[] = {
    {.registers_max = 64,
     .reason = "one warp a row, so that a row's writes are side by side; nothing to tune",
     .date = "not measured"},
};

extern const attn_kernel_family_t attn_fill_family;
const attn_kernel_family_t attn_fill_family = {
    .name = "fill",
    .op = ATTN_FORWARD,
    .path = "device/common/fill_forward.c",
    .rows = fill_rows,
    .row_count = sizeof(fill_rows) / sizeof(fill_rows[0]),
    .legal = fill_legal,
    .canonical = fill_canonical,
    .shared_bytes = fill_shared_bytes,
    .workspace_bytes = fill_workspace_bytes,
    .forward = fill_forward,
};
