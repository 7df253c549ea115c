// The family of src/device/sm90/sm90_forward.c: the forward pass on Hopper.
#include <stdio.h>

#include "../core/checked.h"
#include "../core/status.h"
#include "../shared/gpu_forward_params.h"
#include "../shared/sm90_forward_layout.h"
#include "gpu_launch.h"
#include "gpu_tensor_map.h"
#include "kernel_family.h"

enum {
    D_MAX = 256,
    TMA_ALIGN = 16,     // bytes
    SECTION_HEADS = 16, // of a masked problem: measured 29 Nov 2026 on an H200, S 1k to 16k
    COUNTER_BYTES = 4
};
#define LENGTH_MAX ((int64_t)1 << 30)

#define REFUSE_IF(condition, ...)                                                                  \
    do {                                                                                           \
        if (condition) {                                                                           \
            (void)snprintf(reason, ATTN_REASON_BYTES, __VA_ARGS__);                                \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

// -------------------------------------------------------------------------------------------------
// Legal

static int options_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    static const char without[] = "this kernel has none";
    REFUSE_IF(!(desc->scale > 0.0f), "scale: %g, expected > 0", (double)desc->scale);
    REFUSE_IF(desc->softcap != 0.0f, "softcap: %g, %s", (double)desc->softcap, without);
    REFUSE_IF(desc->has_alibi, "has_alibi: %d, %s", (int)desc->has_alibi, without);
    REFUSE_IF(desc->mask.present, "mask.present: %d, %s", (int)desc->mask.present, without);
    REFUSE_IF(desc->bias.present, "bias.present: %d, %s", (int)desc->bias.present, without);
    REFUSE_IF(desc->block_sparse, "block_sparse: %d, %s", (int)desc->block_sparse, without);
    REFUSE_IF(desc->dropout_p != 0.0f, "dropout_p: %g, %s", (double)desc->dropout_p, without);
    REFUSE_IF(desc->paged_kv, "paged_kv: %d, %s", (int)desc->paged_kv, without);
    REFUSE_IF(desc->has_kv_batch_idx, "has_kv_batch_idx: %d, %s", (int)desc->has_kv_batch_idx,
              without);
    REFUSE_IF(desc->q_descale.present || desc->k_descale.present || desc->v_descale.present,
              "q_descale, k_descale, v_descale: %s", without);
    REFUSE_IF(desc->num_splits > 1, "num_splits: %lld, it cuts no keys",
              (long long)desc->num_splits);
    return 1;
}

static int dtypes_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    const attn_dtype_t dtype = desc->q.dtype;
    REFUSE_IF(dtype != ATTN_F16 && dtype != ATTN_BF16, "q.dtype: %d, expected f16 or bf16",
              (int)dtype);
    REFUSE_IF(desc->k.dtype != dtype || desc->v.dtype != dtype || desc->o.dtype != dtype,
              "k.dtype, v.dtype, o.dtype: %d, %d, %d, expected q's", (int)desc->k.dtype,
              (int)desc->v.dtype, (int)desc->o.dtype);
    return 1;
}

// TMA wants strides that are multiples of 16 bytes, but not of a dimension of size 1.
static int stride_legal(int64_t stride, int64_t size)
{
    const int64_t elements = TMA_ALIGN / 2;
    return size <= 1 || (stride > 0 && stride % elements == 0 && stride < (int64_t)1 << 38);
}

static int tensor_legal(const char *name, const attn_tensor_t *tensor, int64_t b, int64_t s,
                        int64_t h, char reason[ATTN_REASON_BYTES])
{
    REFUSE_IF(tensor->stride_d != 1, "%s.stride_d: %lld, TMA needs 1", name,
              (long long)tensor->stride_d);
    REFUSE_IF(!stride_legal(tensor->stride_b, b) || !stride_legal(tensor->stride_s, s) ||
                  !stride_legal(tensor->stride_h, h),
              "%s strides b, s, h: %lld, %lld, %lld, TMA needs positive multiples of 8", name,
              (long long)tensor->stride_b, (long long)tensor->stride_s,
              (long long)tensor->stride_h);
    return 1;
}

static int64_t memory_batch(const attn_desc_t *desc, int32_t is_packed)
{
    return is_packed ? 1 : desc->batch;
}

static int64_t rows_q(const attn_desc_t *desc)
{
    return desc->varlen_q ? desc->total_q : desc->s_q;
}

static int64_t rows_kv(const attn_desc_t *desc)
{
    return desc->varlen_kv ? desc->total_kv : desc->s_kv;
}

static int shape_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    REFUSE_IF(desc->d_qk > D_MAX || desc->d_qk % 8 != 0,
              "d_qk: %lld, expected a multiple of 8 up to %d", (long long)desc->d_qk, D_MAX);
    REFUSE_IF(desc->d_v > D_MAX || desc->d_v % 8 != 0,
              "d_v: %lld, expected a multiple of 8 up to %d", (long long)desc->d_v, D_MAX);
    REFUSE_IF(rows_q(desc) > LENGTH_MAX || rows_kv(desc) > LENGTH_MAX,
              "rows of q and k: %lld, %lld, at most 2^30", (long long)rows_q(desc),
              (long long)rows_kv(desc));
    REFUSE_IF(rows_q(desc) == 0 || rows_kv(desc) == 0 || desc->batch == 0,
              "batch, rows of q and k: %lld, %lld, %lld, nothing to multiply",
              (long long)desc->batch, (long long)rows_q(desc), (long long)rows_kv(desc));
    // Tiles are counted in 32 bits.
    const int64_t heads = desc->batch > LENGTH_MAX || desc->heads_q > LENGTH_MAX
                              ? INT64_MAX
                              : desc->batch * desc->heads_q;
    const int64_t tiles = attn_smaller(desc->s_q, rows_q(desc)) / ATTN_SM90_WARPGROUP_M + 1;
    REFUSE_IF(heads > INT32_MAX / tiles, "batch * heads_q * tiles: more than 2^31");
    return 1;
}

static int forward_legal(const attn_desc_t *desc, const attn_gpu_t *gpu,
                         char reason[ATTN_REASON_BYTES])
{
    REFUSE_IF(gpu->compute != 90, "it is for sm_90, the GPU is sm_%d", (int)gpu->compute);
    const int64_t b_q = memory_batch(desc, desc->varlen_q);
    const int64_t b_kv = memory_batch(desc, desc->varlen_kv);
    return dtypes_legal(desc, reason) && options_legal(desc, reason) && shape_legal(desc, reason) &&
           tensor_legal("q", &desc->q, b_q, rows_q(desc), desc->heads_q, reason) &&
           tensor_legal("k", &desc->k, b_kv, rows_kv(desc), desc->heads_kv, reason) &&
           tensor_legal("v", &desc->v, b_kv, rows_kv(desc), desc->heads_kv, reason) &&
           tensor_legal("o", &desc->o, b_q, rows_q(desc), desc->heads_q, reason);
}

// -------------------------------------------------------------------------------------------------
// Canonical and best

static void forward_canonical(const attn_desc_t *desc, const attn_gpu_t *gpu,
                              attn_kernel_config_t *config)
{
    config->kind = ATTN_KERNEL_FORWARD;
    config->arch = gpu->compute;
    config->bf16 = desc->q.dtype == ATTN_BF16;
    config->o_bytes = 2;
    config->d_qk = (int32_t)attn_round_up(desc->d_qk, 16);
    config->d_v = (int32_t)attn_round_up(desc->d_v, 16);
    config->mask = (desc->window_right >= 0 ? ATTN_KERNEL_MASK_UPPER : 0) |
                   (desc->window_left >= 0 || desc->has_leftpad_kv ? ATTN_KERNEL_MASK_LOWER : 0);
}

static int32_t forward_shared_bytes(const attn_kernel_config_t *config)
{
    return config->warpgroups * attn_sm90_qo_bytes(config->d_qk, config->d_v, config->separate_o) +
           config->stages * attn_sm90_kv_bytes(config->d_qk, config->d_v, config->tile_n) +
           attn_sm90_barrier_bytes(config->stages);
}

// Tiles are handed out by a counter where their lengths differ.
static int uses_counter(const attn_desc_t *desc)
{
    return desc->window_right >= 0 || desc->window_left >= 0 || desc->varlen_q || desc->varlen_kv ||
           desc->has_seqused_q || desc->has_seqused_kv;
}

static size_t forward_workspace_bytes(const attn_desc_t *desc, const attn_gpu_t *gpu,
                                      const attn_kernel_config_t *config)
{
    (void)gpu;
    (void)config;
    return uses_counter(desc) ? COUNTER_BYTES : 0;
}

static const attn_tuning_row_t forward_rows[] = {
    {.arch = 90,
     .d_max = 64,
     .mask = 2,
     .s_max = 512,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 3,
     .load_registers = 24,
     .compute_registers = 136,
     .separate_o = 1,
     .registers_max = 80,
     .reason = "short: three small CTAs share a multiprocessor, no tile is half empty",
     .date = "30 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 64,
     .mask = 1,
     .s_max = 2048,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 3,
     .load_registers = 24,
     .compute_registers = 136,
     .separate_o = 1,
     .registers_max = 80,
     .reason = "short: small tiles waste least on the diagonal; 27 % ahead at 512",
     .date = "30 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 64,
     .tile_m = 192,
     .tile_n = 128,
     .stages = 3,
     .warpgroups = 3,
     .ctas = 1,
     .load_registers = 32,
     .compute_registers = 160,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "the exponentials bound it: three warpgroups in turn hide them best",
     .date = "29 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 96,
     .tile_m = 192,
     .tile_n = 96,
     .stages = 2,
     .warpgroups = 3,
     .ctas = 1,
     .load_registers = 32,
     .compute_registers = 160,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "the widest block beside O in 160 registers",
     .date = "30 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 128,
     .s_max = 1024,
     .tile_m = 128,
     .tile_n = 128,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 168,
     .reason = "short: 128 rows divide 512 and 1024; 4 to 12 % ahead of 192",
     .date = "30 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 128,
     .mask = 2,
     .tile_m = 192,
     .tile_n = 80,
     .stages = 2,
     .warpgroups = 3,
     .ctas = 1,
     .load_registers = 32,
     .compute_registers = 160,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "the widest block beside O in 160 registers; 5 % ahead of two warpgroups",
     .date = "29 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 128,
     .tile_m = 192,
     .tile_n = 64,
     .stages = 3,
     .warpgroups = 3,
     .ctas = 1,
     .load_registers = 32,
     .compute_registers = 160,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "divides 192: one block fewer is masked; ahead of 80 up to 2k",
     .date = "30 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 192,
     .tile_m = 128,
     .tile_n = 80,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .registers_max = 168,
     .reason = "two stages of the widest block that fits",
     .date = "30 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 256,
     .tile_m = 128,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .registers_max = 168,
     .reason = "two stages of the widest block that fits; 80 keys measure the same",
     .date = "30 Nov 2026, H200"},
};

// -------------------------------------------------------------------------------------------------
// Run

typedef struct operand {
    const char *name;
    const void *data;
    const attn_tensor_t *tensor;
    int64_t b;
    int64_t s;
    int64_t h;
    int64_t d;
    int32_t box_rows;
} operand_t;

// A stride that TMA accepts for a dimension of size 1, whose own does not matter.
static uint64_t stride_bytes(int64_t stride, int64_t size)
{
    return size <= 1 ? TMA_ALIGN : (uint64_t)stride * 2;
}

static attn_status_t encode(const attn_gpu_t *gpu, const attn_kernel_config_t *config,
                            const operand_t *operand, tensor_map *map_out,
                            attn_gpu_operand_t *plain_out)
{
    ATTN_RETURN_IF((uintptr_t)operand->data % TMA_ALIGN != 0, ATTN_INVALID_ARGUMENT,
                   "%s: %p, this plan's kernel needs a multiple of %d", operand->name,
                   operand->data, TMA_ALIGN);
    const attn_tensor_t *const tensor = operand->tensor;
    const attn_tensor_map_desc_t desc = {
        .data = operand->data,
        .type = config->bf16 ? ATTN_TENSOR_BF16 : ATTN_TENSOR_F16,
        .rank = 4,
        .dims = {(uint64_t)operand->d, (uint64_t)operand->s, (uint64_t)operand->h,
                 (uint64_t)operand->b},
        .strides_bytes = {stride_bytes(tensor->stride_s, operand->s),
                          stride_bytes(tensor->stride_h, operand->h),
                          stride_bytes(tensor->stride_b, operand->b)},
        .box = {ATTN_SM90_PANEL_COLUMNS, (uint32_t)operand->box_rows, 1, 1},
        .swizzle = ATTN_SWIZZLE_128,
        .l2_promotion = ATTN_L2_PROMOTION_256,
    };
    *plain_out = (attn_gpu_operand_t){.data = operand->data,
                                      .stride_b = operand->b > 1 ? tensor->stride_b : 0,
                                      .stride_s = tensor->stride_s,
                                      .stride_h = tensor->stride_h};
    return attn_tensor_map_encode(gpu, &desc, map_out);
}

static attn_status_t encode_operands(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                                     const attn_forward_args_t *args,
                                     attn_gpu_forward_params_t *params)
{
    const int64_t b_q = memory_batch(desc, desc->varlen_q);
    const int64_t b_kv = memory_batch(desc, desc->varlen_kv);
    const int64_t s_q = rows_q(desc);
    const int64_t s_kv = rows_kv(desc);
    const int32_t block = cuda->choice.config.tile_n;
    const operand_t q = {"q", args->q,       &desc->q,   b_q,
                         s_q, desc->heads_q, desc->d_qk, ATTN_SM90_WARPGROUP_M};
    const operand_t k = {"k", args->k, &desc->k, b_kv, s_kv, desc->heads_kv, desc->d_qk, block};
    const operand_t v = {"v", args->v, &desc->v, b_kv, s_kv, desc->heads_kv, desc->d_v, block};
    const operand_t o = {"o", args->o,       &desc->o,  b_q,
                         s_q, desc->heads_q, desc->d_v, ATTN_SM90_WARPGROUP_M};
    const attn_kernel_config_t *const config = &cuda->choice.config;
    ATTN_FORWARD_ERROR(encode(cuda->gpu, config, &q, &params->q_map, &params->q));
    ATTN_FORWARD_ERROR(encode(cuda->gpu, config, &k, &params->k_map, &params->k));
    ATTN_FORWARD_ERROR(encode(cuda->gpu, config, &v, &params->v_map, &params->v));
    return encode(cuda->gpu, config, &o, &params->o_map, &params->o);
}

static attn_gpu_tiles_t tiles_of(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    const int64_t rows = attn_smaller(desc->s_q, rows_q(desc));
    attn_gpu_tiles_t tiles = {
        .m_tiles = (int32_t)attn_ceil_div(rows, config->tile_m),
        .bh = (int32_t)(desc->batch * desc->heads_q),
    };
    // Without a mask all tiles are alike: a K/V head at a time.
    const int64_t heads =
        config->mask & ATTN_KERNEL_MASK_UPPER ? SECTION_HEADS : desc->heads_q / desc->heads_kv;
    tiles.section_heads = (int32_t)attn_smaller(heads, tiles.bh);
    tiles.count = (uint32_t)tiles.m_tiles * (uint32_t)tiles.bh;
    return tiles;
}

static attn_gpu_lengths_t lengths_of(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    return (attn_gpu_lengths_t){
        .batch = (int32_t)desc->batch,
        .s_q = (int32_t)attn_smaller(desc->s_q, rows_q(desc)),
        .s_kv = (int32_t)attn_smaller(desc->s_kv, rows_kv(desc)),
        .total_q = (int32_t)rows_q(desc),
        .total_kv = (int32_t)rows_kv(desc),
        .cu_seqlens_q = desc->varlen_q ? args->cu_seqlens_q : NULL,
        .cu_seqlens_kv = desc->varlen_kv ? args->cu_seqlens_kv : NULL,
        .seqused_q = desc->has_seqused_q ? args->seqused_q : NULL,
        .seqused_kv = desc->has_seqused_kv ? args->seqused_kv : NULL,
        .leftpad_kv = desc->has_leftpad_kv ? args->leftpad_kv : NULL,
    };
}

static attn_status_t forward_run(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                                 const attn_forward_args_t *args, void *workspace, void *stream)
{
    const attn_kernel_config_t *const config = &cuda->choice.config;
    attn_gpu_forward_params_t params = {
        .lse = desc->wants_lse ? args->lse : NULL,
        .lse_stride_b = desc->varlen_q ? 0 : desc->lse_stride_b,
        .lse_stride_h = desc->lse_stride_h,
        .lse_stride_s = desc->lse_stride_s,
        .d_qk = (int32_t)desc->d_qk,
        .d_v = (int32_t)desc->d_v,
        .heads_q = (int32_t)desc->heads_q,
        .group = (int32_t)(desc->heads_q / desc->heads_kv),
        .lengths = lengths_of(desc, args),
        .scale = desc->scale,
        .align_top_left = desc->align == ATTN_ALIGN_TOP_LEFT,
        .window_left = (int32_t)attn_smaller(desc->window_left, LENGTH_MAX),
        .window_right = (int32_t)attn_smaller(desc->window_right, LENGTH_MAX),
        .sink = desc->has_sink ? args->sink : NULL,
        .tiles = tiles_of(desc, config),
    };
    ATTN_FORWARD_ERROR(encode_operands(cuda, desc, args, &params));
    const uint32_t most = (uint32_t)(cuda->gpu->multiprocessors * config->ctas);
    const uint32_t ctas = params.tiles.count < most ? params.tiles.count : most;
    if (uses_counter(desc) && params.tiles.count > ctas) {
        params.tiles.counter = workspace;
        ATTN_FORWARD_ERROR(attn_gpu_clear(cuda->gpu, workspace, COUNTER_BYTES / 4, stream));
    }
    const attn_gpu_grid_t grid = {.ctas = {ctas, 1, 1},
                                  .threads = (uint32_t)(config->warpgroups + 1) *
                                             ATTN_SM90_WARPGROUP_THREADS,
                                  .shared_bytes = (uint32_t)forward_shared_bytes(config)};
    return attn_gpu_launch(cuda->gpu, cuda->kernel, &grid, &params, stream);
}

extern const attn_kernel_family_t attn_sm90_forward_family;
const attn_kernel_family_t attn_sm90_forward_family = {
    .name = "sm90_forward",
    .op = ATTN_FORWARD,
    .path = "device/sm90/sm90_forward.c",
    .rows = forward_rows,
    .row_count = sizeof(forward_rows) / sizeof(forward_rows[0]),
    .legal = forward_legal,
    .canonical = forward_canonical,
    .shared_bytes = forward_shared_bytes,
    .workspace_bytes = forward_workspace_bytes,
    .forward = forward_run,
};
