// The family of src/device/sm90/sm90_backward*.c: the backward pass on Hopper, three kernels.
#include <stdio.h>

#include "../core/checked.h"
#include "../core/status.h"
#include "../shared/gpu_backward_params.h"
#include "../shared/sm90_backward_layout.h"
#include "gpu_launch.h"
#include "kernel_family.h"
#include "sm90_problem.h"

enum {
    PREPROCESS = 1, // parts
    POSTPROCESS = 2,
    BOX_ROWS = 64,      // of all tensor maps
    SECTION_HEADS = 16, // of a masked problem: measured 29 Nov 2026 on an H200, S 2k to 16k
    SCRATCH_ALIGN = 128 // bytes
};

// -------------------------------------------------------------------------------------------------
// Legal

static int options_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    const struct {
        const char *name;
        int is_wanted;
    } options[] = {
        {"softcap", desc->softcap != 0.0f},
        {"has_alibi", desc->has_alibi},
        {"mask", desc->mask.present},
        {"bias", desc->bias.present},
        {"block_sparse", desc->block_sparse},
        {"dropout_p", desc->dropout_p != 0.0f},
        {"q_descale, k_descale, v_descale",
         desc->q_descale.present || desc->k_descale.present || desc->v_descale.present},
        {"batch_invariant", desc->batch_invariant},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        ATTN_REFUSE_IF(options[i].is_wanted, "%s: set, this kernel has none", options[i].name);
    }
    ATTN_REFUSE_IF(!(desc->scale > 0.0f), "scale: %g, expected > 0", (double)desc->scale);
    ATTN_REFUSE_IF(desc->num_splits > 1, "num_splits: %lld, it cuts no keys",
                   (long long)desc->num_splits);
    return 1;
}

static int gradient_dtypes_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    const attn_dtype_t dtype = desc->q.dtype;
    ATTN_REFUSE_IF(desc->dq.dtype != dtype || desc->dk.dtype != dtype || desc->dv.dtype != dtype ||
                       desc->do_.dtype != dtype || desc->o.dtype != dtype,
                   "dq.dtype, dk.dtype, dv.dtype, do_.dtype, o.dtype: %d, %d, %d, %d, %d, "
                   "expected q's",
                   (int)desc->dq.dtype, (int)desc->dk.dtype, (int)desc->dv.dtype,
                   (int)desc->do_.dtype, (int)desc->o.dtype);
    return 1;
}

static int backward_legal(const attn_desc_t *desc, const attn_gpu_t *gpu,
                          char reason[ATTN_REASON_BYTES])
{
    ATTN_REFUSE_IF(gpu->compute != 90, "it is for sm_90, the GPU is sm_%d", (int)gpu->compute);
    const attn_sm90_operand_t operands[] = {
        attn_sm90_like_q("q", NULL, desc, &desc->q, desc->d_qk),
        attn_sm90_like_k("k", NULL, desc, &desc->k, desc->d_qk),
        attn_sm90_like_k("v", NULL, desc, &desc->v, desc->d_v),
        attn_sm90_like_q("o", NULL, desc, &desc->o, desc->d_v),
        attn_sm90_like_q("do_", NULL, desc, &desc->do_, desc->d_v),
        attn_sm90_like_q("dq", NULL, desc, &desc->dq, desc->d_qk),
        attn_sm90_like_k("dk", NULL, desc, &desc->dk, desc->d_qk),
        attn_sm90_like_k("dv", NULL, desc, &desc->dv, desc->d_v),
    };
    int is_legal = attn_sm90_dtypes_legal(desc, reason) && options_legal(desc, reason) &&
                   gradient_dtypes_legal(desc, reason) && attn_sm90_shape_legal(desc, reason);
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]) && is_legal; i++) {
        is_legal = attn_sm90_operand_legal(&operands[i], reason);
    }
    // Tiles and blocks of the scratch memory are counted in 32 bits.
    if (is_legal) {
        const int64_t blocks =
            (attn_sm90_rows_q(desc) / BOX_ROWS + 1) * (desc->varlen_q ? 1 : desc->batch) +
            desc->batch;
        const int64_t tiles = attn_smaller(desc->s_kv, attn_sm90_rows_kv(desc)) / BOX_ROWS + 1;
        ATTN_REFUSE_IF(blocks > INT32_MAX / desc->heads_q,
                       "heads_q * blocks of rows: more than 2^31");
        ATTN_REFUSE_IF(tiles > INT32_MAX / (desc->batch * desc->heads_kv),
                       "batch * heads_kv * tiles of keys: more than 2^31");
    }
    return is_legal;
}

// -------------------------------------------------------------------------------------------------
// Canonical and best

static void backward_canonical(const attn_desc_t *desc, const attn_gpu_t *gpu,
                               attn_kernel_config_t *config)
{
    config->kind = ATTN_KERNEL_BACKWARD;
    config->arch = gpu->compute;
    config->bf16 = desc->q.dtype == ATTN_BF16;
    config->d_qk = (int32_t)attn_round_up(desc->d_qk, 16);
    config->d_v = (int32_t)attn_round_up(desc->d_v, 16);
    config->mask = (desc->window_right >= 0 ? ATTN_KERNEL_MASK_UPPER : 0) |
                   (desc->window_left >= 0 ? ATTN_KERNEL_MASK_LOWER : 0);
    config->deterministic = desc->deterministic != 0;
}

static int32_t backward_shared_bytes(const attn_kernel_config_t *config)
{
    const attn_sm90_backward_tile_t tile = {.d_qk = config->d_qk,
                                            .d_v = config->d_v,
                                            .block_m = config->tile_m,
                                            .warpgroups = config->warpgroups,
                                            .pair = config->pair,
                                            .stages = config->stages};
    return attn_sm90_backward_operand_bytes(&tile) + attn_sm90_backward_barrier_bytes(&tile);
}

static int32_t preprocess_shared_bytes(const attn_kernel_config_t *config)
{
    (void)config;
    return 0;
}

static int32_t postprocess_shared_bytes(const attn_kernel_config_t *config)
{
    return attn_sm90_postprocess_bytes(config->d_qk);
}

static const attn_kernel_part_t backward_parts[] = {
    {.kind = ATTN_KERNEL_BACKWARD_PREPROCESS,
     .path = "device/sm90/sm90_backward_preprocess.c",
     .registers_max = 80,
     .shared_bytes = preprocess_shared_bytes},
    {.kind = ATTN_KERNEL_BACKWARD_POSTPROCESS,
     .path = "device/sm90/sm90_backward_postprocess.c",
     .registers_max = 255,
     .shared_bytes = postprocess_shared_bytes},
};

static const attn_tuning_row_t backward_rows[] = {
    {.arch = 90,
     .d_max = 64,
     .tile_m = 128,
     .tile_n = 128,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 24,
     .compute_registers = 192,
     .registers_max = 128,
     .reason = "the longest block beside dK and dV; 30 % ahead of 64 rows",
     .date = "29 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 128,
     .tile_m = 64,
     .tile_n = 128,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 24,
     .compute_registers = 208,
     .registers_max = 128,
     .reason = "all that fits beside dK and dV into 208 registers",
     .date = "29 Nov 2026, H200"},
    {.arch = 90,
     .d_max = 256,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 24,
     .compute_registers = 208,
     .pair = 1,
     .registers_max = 128,
     .reason = "dK and dV do not fit into the registers of one warpgroup",
     .date = "29 Nov 2026, H200"},
};

// -------------------------------------------------------------------------------------------------
// Scratch memory

// Offsets in the workspace.
typedef struct scratch_layout {
    int64_t stats;
    int64_t dq_sum;
    int64_t order;
    int64_t q_edge;
    int64_t do_edge;
    int64_t suspects;
    int64_t counter;
    int64_t bytes;
} scratch_layout_t;

static int64_t append(scratch_layout_t *layout, int64_t bytes)
{
    const int64_t at = layout->bytes;
    layout->bytes += attn_round_up(bytes, SCRATCH_ALIGN);
    return at;
}

// Query blocks of a head, over all sequences; those of a pack begin with one of their own.
static int64_t blocks_of(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    return desc->varlen_q ? desc->total_q / config->tile_m + desc->batch
                          : desc->batch * attn_ceil_div(desc->s_q, config->tile_m);
}

static attn_gpu_tiles_t tiles_of(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    const int64_t keys = attn_smaller(desc->s_kv, attn_sm90_rows_kv(desc));
    attn_gpu_tiles_t tiles = {
        .m_tiles = (int32_t)attn_ceil_div(keys, config->tile_n),
        .bh = (int32_t)(desc->batch * desc->heads_kv),
    };
    // Without a mask all tiles are alike: one head at a time, whose Q and dO stay in the L2 cache.
    const int64_t heads = config->mask & ATTN_KERNEL_MASK_UPPER ? SECTION_HEADS : 1;
    tiles.section_heads = (int32_t)attn_smaller(heads, tiles.bh);
    tiles.count = (uint32_t)tiles.m_tiles * (uint32_t)tiles.bh;
    return tiles;
}

// Whether something else may lie behind a sequence's last query row.
static int has_edges(const attn_desc_t *desc)
{
    return desc->varlen_q || desc->has_seqused_q;
}

static scratch_layout_t scratch_layout(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    const int64_t blocks = desc->heads_q * blocks_of(desc, config);
    const int64_t rows = blocks * config->tile_m;
    const int64_t edge_rows = has_edges(desc) ? desc->batch * desc->heads_q * config->tile_m : 0;
    const int64_t dq_columns = attn_sm90_panels(config->d_qk) * ATTN_SM90_PANEL_COLUMNS;
    const int64_t warps = (int64_t)tiles_of(desc, config).count * config->warpgroups * 4;
    scratch_layout_t layout = {0};
    layout.stats = append(&layout, rows * 2 * 4);
    layout.dq_sum = append(&layout, rows * dq_columns * 4);
    layout.order = append(&layout, config->deterministic ? blocks * 4 : 0);
    layout.q_edge = append(&layout, edge_rows * desc->d_qk * 2);
    layout.do_edge = append(&layout, edge_rows * desc->d_v * 2);
    layout.suspects = append(&layout, warps * 4);
    layout.counter = append(&layout, 4);
    return layout;
}

static size_t backward_workspace_bytes(const attn_desc_t *desc, const attn_gpu_t *gpu,
                                       const attn_kernel_config_t *config)
{
    (void)gpu;
    return (size_t)scratch_layout(desc, config).bytes;
}

static attn_gpu_backward_scratch_t scratch_of(const attn_desc_t *desc,
                                              const attn_kernel_config_t *config, void *workspace)
{
    const scratch_layout_t layout = scratch_layout(desc, config);
    unsigned char *const base = workspace;
    return (attn_gpu_backward_scratch_t){
        .stats = (float *)(void *)(base + layout.stats),
        .dq_sum = (float *)(void *)(base + layout.dq_sum),
        .order = config->deterministic ? (uint32_t *)(void *)(base + layout.order) : NULL,
        .q_edge = has_edges(desc) ? (uint16_t *)(void *)(base + layout.q_edge) : NULL,
        .do_edge = has_edges(desc) ? (uint16_t *)(void *)(base + layout.do_edge) : NULL,
        .suspects = (uint32_t *)(void *)(base + layout.suspects),
        .counter = (uint32_t *)(void *)(base + layout.counter),
    };
}

// -------------------------------------------------------------------------------------------------
// Run

// The plain form, and the map where TMA needs one: results that are not wanted have none.
static attn_status_t take(const attn_gpu_t *gpu, const attn_sm90_operand_t *operand,
                          attn_gpu_operand_t *plain_out, tensor_map *map_out)
{
    ATTN_FORWARD_ERROR(attn_sm90_plain(operand, plain_out));
    return map_out != NULL && operand->data != NULL
               ? attn_sm90_encode(gpu, operand, BOX_ROWS, map_out)
               : ATTN_OK;
}

static attn_status_t take_operands(const attn_gpu_t *gpu, const attn_desc_t *desc,
                                   const attn_backward_args_t *args,
                                   attn_gpu_backward_params_t *params)
{
    const attn_forward_args_t *const in = &args->in;
    const struct {
        attn_sm90_operand_t operand;
        attn_gpu_operand_t *plain;
        tensor_map *map;
    } operands[] = {
        {attn_sm90_like_q("q", in->q, desc, &desc->q, desc->d_qk), &params->q, &params->q_map},
        {attn_sm90_like_k("k", in->k, desc, &desc->k, desc->d_qk), &params->k, &params->k_map},
        {attn_sm90_like_k("v", in->v, desc, &desc->v, desc->d_v), &params->v, &params->v_map},
        {attn_sm90_like_q("o", in->o, desc, &desc->o, desc->d_v), &params->o, NULL},
        {attn_sm90_like_q("do_", args->do_, desc, &desc->do_, desc->d_v), &params->do_,
         &params->do_map},
        {attn_sm90_like_q("dq", args->dq, desc, &desc->dq, desc->d_qk), &params->dq, NULL},
        {attn_sm90_like_k("dk", args->dk, desc, &desc->dk, desc->d_qk), &params->dk,
         &params->dk_map},
        {attn_sm90_like_k("dv", args->dv, desc, &desc->dv, desc->d_v), &params->dv,
         &params->dv_map},
    };
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++) {
        ATTN_FORWARD_ERROR(take(gpu, &operands[i].operand, operands[i].plain, operands[i].map));
    }
    return ATTN_OK;
}

// (batch, heads_q, tile_m, d).
static attn_status_t encode_edge(const attn_gpu_t *gpu, const attn_desc_t *desc, const void *data,
                                 int64_t d, int32_t tile_m, tensor_map *map_out)
{
    const attn_tensor_t tensor = {.dtype = desc->q.dtype,
                                  .stride_s = d,
                                  .stride_h = d * tile_m,
                                  .stride_b = d * tile_m * desc->heads_q,
                                  .stride_d = 1};
    const attn_sm90_operand_t operand = {"edge", data,          &tensor, desc->batch,
                                         tile_m, desc->heads_q, d};
    return attn_sm90_encode(gpu, &operand, BOX_ROWS, map_out);
}

static attn_status_t encode_edges(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                                  attn_gpu_backward_params_t *params)
{
    const int32_t tile_m = cuda->choice.config.tile_m;
    if (params->scratch.q_edge == NULL) {
        return ATTN_OK;
    }
    ATTN_FORWARD_ERROR(encode_edge(cuda->gpu, desc, params->scratch.q_edge, desc->d_qk, tile_m,
                                   &params->q_edge_map));
    return encode_edge(cuda->gpu, desc, params->scratch.do_edge, desc->d_v, tile_m,
                       &params->do_edge_map);
}

static attn_status_t launch(const attn_cuda_plan_t *cuda, int32_t part, uint32_t ctas,
                            uint32_t threads, const attn_gpu_backward_params_t *params,
                            void *stream)
{
    const attn_gpu_grid_t grid = {.ctas = {ctas, 1, 1},
                                  .threads = threads,
                                  .shared_bytes =
                                      (uint32_t)attn_kernel_shared_bytes(&cuda->choice, part),
                                  .is_programmatic = part != PREPROCESS};
    return attn_gpu_launch(cuda->gpu, cuda->kernels[part], &grid, params, stream);
}

// In a fixed order a tile follows the one before it in its head. Like tiles that are dealt out keep
// their distance from wave to wave if a wave is whole heads.
static uint32_t grid_of(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                        const attn_gpu_tiles_t *tiles)
{
    uint32_t most = (uint32_t)(cuda->gpu->multiprocessors * cuda->choice.config.ctas);
    if (desc->deterministic && !attn_sm90_has_unlike_tiles(desc) &&
        (uint32_t)tiles->m_tiles <= most) {
        most -= most % (uint32_t)tiles->m_tiles;
    }
    return tiles->count < most ? tiles->count : most;
}

static attn_status_t backward_run(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                                  const attn_backward_args_t *args, void *workspace, void *stream)
{
    const attn_kernel_config_t *const config = &cuda->choice.config;
    attn_gpu_backward_params_t params = {
        .lse = args->in.lse,
        .dlse = desc->has_dlse ? args->dlse : NULL,
        .sink = desc->wants_dsink ? args->in.sink : NULL,
        .dsink = desc->wants_dsink ? args->dsink : NULL,
        .lse_stride_b = desc->varlen_q ? 0 : desc->lse_stride_b,
        .lse_stride_h = desc->lse_stride_h,
        .lse_stride_s = desc->lse_stride_s,
        .d_qk = (int32_t)desc->d_qk,
        .d_v = (int32_t)desc->d_v,
        .heads_q = (int32_t)desc->heads_q,
        .group = (int32_t)(desc->heads_q / desc->heads_kv),
        .blocks = (int32_t)blocks_of(desc, config),
        .align_top_left = desc->align == ATTN_ALIGN_TOP_LEFT,
        .window_left = (int32_t)attn_smaller(desc->window_left, ATTN_SM90_LENGTH_MAX),
        .window_right = (int32_t)attn_smaller(desc->window_right, ATTN_SM90_LENGTH_MAX),
        .scale = desc->scale,
        .lengths = attn_sm90_lengths(desc, &args->in),
        .tiles = tiles_of(desc, config),
        .scratch = scratch_of(desc, config, workspace),
    };
    ATTN_FORWARD_ERROR(take_operands(cuda->gpu, desc, args, &params));
    ATTN_FORWARD_ERROR(encode_edges(cuda, desc, &params));
    const uint32_t ctas = grid_of(cuda, desc, &params.tiles);
    if (attn_sm90_has_unlike_tiles(desc) && params.tiles.count > ctas) {
        params.tiles.counter = params.scratch.counter;
    }
    const uint32_t blocks =
        (uint32_t)(desc->batch * desc->heads_q * attn_ceil_div(params.lengths.s_q, config->tile_m));
    ATTN_FORWARD_ERROR(
        launch(cuda, PREPROCESS, blocks, ATTN_SM90_BACKWARD_PREPROCESS_THREADS, &params, stream));
    ATTN_FORWARD_ERROR(launch(cuda, 0, ctas,
                              (uint32_t)(config->warpgroups + 2) * ATTN_SM90_WARPGROUP_THREADS,
                              &params, stream));
    return launch(cuda, POSTPROCESS, blocks, ATTN_SM90_BACKWARD_POSTPROCESS_THREADS, &params,
                  stream);
}

extern const attn_kernel_family_t attn_sm90_backward_family;
const attn_kernel_family_t attn_sm90_backward_family = {
    .name = "sm90_backward",
    .op = ATTN_BACKWARD,
    .path = "device/sm90/sm90_backward.c",
    .parts = backward_parts,
    .part_count = sizeof(backward_parts) / sizeof(backward_parts[0]),
    .rows = backward_rows,
    .row_count = sizeof(backward_rows) / sizeof(backward_rows[0]),
    .legal = backward_legal,
    .canonical = backward_canonical,
    .shared_bytes = backward_shared_bytes,
    .workspace_bytes = backward_workspace_bytes,
    .backward = backward_run,
};
