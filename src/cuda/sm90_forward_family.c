// The family of src/device/sm90/sm90_forward.c: the forward pass on Hopper.
#include <float.h>
#include <stdio.h>

#include "../core/checked.h"
#include "../core/status.h"
#include "../shared/gpu_forward_params.h"
#include "../shared/philox.h"
#include "../shared/sm90_forward_layout.h"
#include "gpu_launch.h"
#include "kernel_family.h"
#include "sm90_problem.h"
#include "survey_launch.h"

enum {
    BLOCKS_STEP = 64,   // of block lists: a tile is never half in a block
    SECTION_HEADS = 16, // of a masked problem: measured 29 Nov 2026 on an H200, S 1k to 16k
    SURVEY = 1,         // part
    // Workspace: the counter of tiles, then the tile map.
    COUNTER_BYTES = 4,
    MAP_OFFSET_BYTES = 64
};

// A cap that no score of 16-bit operands feels: it need not be computed.
#define CAP_MAX 1e30f

// -------------------------------------------------------------------------------------------------
// Legal

static int options_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    static const char without[] = "this kernel has none";
    ATTN_REFUSE_IF(desc->block_sparse &&
                       (desc->block_q % BLOCKS_STEP != 0 || desc->block_kv % BLOCKS_STEP != 0),
                   "block_q, block_kv: %lld, %lld, expected multiples of %d",
                   (long long)desc->block_q, (long long)desc->block_kv, BLOCKS_STEP);
    ATTN_REFUSE_IF(desc->has_kv_batch_idx && (desc->kv_batch < 1 || desc->kv_batch > INT32_MAX),
                   "kv_batch: %lld, expected 1 to 2^31 - 1", (long long)desc->kv_batch);
    ATTN_REFUSE_IF(desc->paged_kv && (desc->page_size > INT32_MAX || desc->num_pages > INT32_MAX),
                   "page_size, num_pages: %lld, %lld, expected below 2^31",
                   (long long)desc->page_size, (long long)desc->num_pages);
    ATTN_REFUSE_IF(desc->q_descale.present || desc->k_descale.present || desc->v_descale.present,
                   "q_descale, k_descale, v_descale: %s", without);
    ATTN_REFUSE_IF(desc->num_splits > 1, "num_splits: %lld, it cuts no keys",
                   (long long)desc->num_splits);
    ATTN_REFUSE_IF(desc->o.dtype != desc->q.dtype && desc->o.dtype != ATTN_F32,
                   "o.dtype: %d, expected q's or f32", (int)desc->o.dtype);
    return 1;
}

static int forward_legal(const attn_desc_t *desc, const attn_gpu_t *gpu,
                         char reason[ATTN_REASON_BYTES])
{
    ATTN_REFUSE_IF(gpu->compute != 90, "it is for sm_90, the GPU is sm_%d", (int)gpu->compute);
    return attn_sm90_dtypes_legal(desc, reason) && options_legal(desc, reason) &&
           attn_sm90_shape_legal(desc, reason);
}

// -------------------------------------------------------------------------------------------------
// Canonical and best

// Whether TMA can bring all operands: 1, or 0 with the reason, and they are gathered.
static int tma_can(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    const attn_sm90_operand_t operands[] = {
        attn_sm90_like_q("q", NULL, desc, &desc->q, desc->d_qk),
        attn_sm90_like_k("k", NULL, desc, &desc->k, desc->d_qk),
        attn_sm90_like_k("v", NULL, desc, &desc->v, desc->d_v),
        attn_sm90_like_q("o", NULL, desc, &desc->o, desc->d_v),
    };
    ATTN_REFUSE_IF(desc->paged_kv, "paged_kv: 1, a page's rows are looked up");
    ATTN_REFUSE_IF(desc->has_kv_batch_idx, "has_kv_batch_idx: 1, entries are looked up");
    int can = 1;
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]) && can; i++) {
        can = attn_sm90_operand_legal(&operands[i], reason);
    }
    return can;
}

// Whether something other than the keys differs by head, so that heads cannot share a tile.
static int heads_differ(const attn_desc_t *desc)
{
    return desc->has_alibi || desc->bias.present || desc->mask.present || desc->block_sparse ||
           desc->dropout_p > 0.0f;
}

// How many query heads share a tile, a power of 2; 0: each has its own. Short queries fill a
// tile's rows with zeros, and every head of a group reads the same keys: so heads are packed where
// that makes fewer tiles. Not in a batch-invariant plan, whose kernel may not depend on s_q.
static int32_t packed_heads(const attn_desc_t *desc)
{
    const int64_t group = desc->heads_q / desc->heads_kv;
    if (desc->s_q >= ATTN_SM90_WARPGROUP_M || desc->batch_invariant || heads_differ(desc)) {
        return 0;
    }
    int64_t heads = 1;
    while (heads < group && heads < ATTN_SM90_WARPGROUP_M) {
        heads *= 2;
    }
    const int64_t tiles = attn_ceil_div(desc->s_q * heads, ATTN_SM90_WARPGROUP_M);
    return attn_ceil_div(group, heads) * tiles < group ? (int32_t)heads : 0;
}

static void forward_explain(const attn_desc_t *desc, attn_text_t *text)
{
    char reason[ATTN_REASON_BYTES];
    if (tma_can(desc, reason)) {
        attn_text_add(text, "operands: by TMA\n");
    } else {
        attn_text_add(text, "operands: gathered, slower than by TMA: %s\n", reason);
    }
    const int32_t heads = packed_heads(desc);
    if (heads > 0) {
        attn_text_add(text, "query heads: up to %d of a group share a tile\n", (int)heads);
    }
}

static int32_t bias_of(const attn_desc_t *desc)
{
    if (!desc->bias.present) {
        return 0;
    }
    return desc->bias.dtype == ATTN_F32   ? ATTN_KERNEL_BIAS_F32
           : desc->bias.dtype == ATTN_F16 ? ATTN_KERNEL_BIAS_F16
                                          : ATTN_KERNEL_BIAS_BF16;
}

static void forward_canonical(const attn_desc_t *desc, const attn_gpu_t *gpu,
                              attn_kernel_config_t *config)
{
    char reason[ATTN_REASON_BYTES];
    config->kind = ATTN_KERNEL_FORWARD;
    config->gather = !tma_can(desc, reason);
    config->arch = gpu->compute;
    config->bf16 = desc->q.dtype == ATTN_BF16;
    config->o_bytes = desc->o.dtype == ATTN_F32 ? 4 : 2;
    config->d_qk = (int32_t)attn_round_up(desc->d_qk, 16);
    config->d_v = (int32_t)attn_round_up(desc->d_v, 16);
    config->mask = (desc->window_right >= 0 ? ATTN_KERNEL_MASK_UPPER : 0) |
                   (desc->window_left >= 0 || desc->has_leftpad_kv ? ATTN_KERNEL_MASK_LOWER : 0);
    config->any_scale = !(desc->scale > 0.0f);
    config->softcap = desc->softcap > 0.0f && desc->softcap < CAP_MAX;
    config->alibi = desc->has_alibi != 0;
    config->bias = bias_of(desc);
    config->bool_mask = desc->mask.present != 0;
    config->block_lists = desc->block_sparse != 0;
    config->dropout = desc->dropout_p > 0.0f;
    config->pack_gqa = packed_heads(desc);
}

static const attn_kernel_part_t forward_parts[] = {
    {.kind = ATTN_KERNEL_SURVEY,
     .path = "device/common/mask_survey.c",
     .registers_max = 64,
     .shared_bytes = attn_survey_shared_bytes,
     .is_needed = attn_survey_is_needed},
};

static int32_t forward_shared_bytes(const attn_kernel_config_t *config)
{
    return config->warpgroups * attn_sm90_qo_bytes(config->d_qk, config->d_v, config->separate_o) +
           config->stages * attn_sm90_kv_bytes(config->d_qk, config->d_v, config->tile_n) +
           attn_sm90_barrier_bytes(config->stages) +
           (config->gather ? config->stages * ATTN_SM90_HIDDEN_BYTES : 0);
}

static size_t forward_workspace_bytes(const attn_desc_t *desc, const attn_gpu_t *gpu,
                                      const attn_kernel_config_t *config)
{
    (void)gpu;
    if (attn_survey_is_needed(config)) {
        return MAP_OFFSET_BYTES + attn_survey_map_bytes(desc, config);
    }
    return attn_sm90_has_unlike_tiles(desc) ? COUNTER_BYTES : 0;
}

static const attn_tuning_row_t forward_rows[] = {
    {.arch = 90,
     .d_max = 128,
     .gather = 1,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 2,
     .load_registers = 72,
     .compute_registers = 184,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "gathered: two CTAs hide each other's copies; addresses need registers",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 256,
     .gather = 1,
     .tile_m = 64,
     .tile_n = 48,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 72,
     .compute_registers = 256,
     .registers_max = 255,
     .reason = "gathered: all registers that addresses and O ask for",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 64,
     .options = ATTN_ROW_OPTIONS,
     .gather = 1,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 72,
     .compute_registers = 256,
     .separate_o = 1,
     .registers_max = 255,
     .reason = "gathered, options of the scores: all registers",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 128,
     .options = ATTN_ROW_OPTIONS,
     .gather = 1,
     .tile_m = 64,
     .tile_n = 32,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 72,
     .compute_registers = 256,
     .separate_o = 1,
     .registers_max = 255,
     .reason = "gathered, options of the scores: half as many keys beside O",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 192,
     .options = ATTN_ROW_OPTIONS,
     .gather = 1,
     .tile_m = 64,
     .tile_n = 32,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 72,
     .compute_registers = 256,
     .registers_max = 255,
     .reason = "gathered, options of the scores, wide heads",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 256,
     .options = ATTN_ROW_OPTIONS,
     .gather = 1,
     .tile_m = 64,
     .tile_n = 16,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 72,
     .compute_registers = 256,
     .registers_max = 255,
     .reason = "gathered, options of the scores beside 128 registers of O",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 128,
     .packed = 1,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 2,
     .load_registers = 40,
     .compute_registers = 208,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "heads share tiles: memory is the bound, two CTAs keep more of it under way",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 256,
     .packed = 1,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 256,
     .registers_max = 255,
     .reason = "heads share tiles, wide heads: two stages of the widest block that fits",
     .date = "not measured"},
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
    {.arch = 90,
     .d_max = 64,
     .options = ATTN_ROW_TILE_MAP,
     .tile_m = 128,
     .tile_n = 128,
     .stages = 3,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 168,
     .reason = "a tile map alone: as without options, but for tiles of 128",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 128,
     .options = ATTN_ROW_TILE_MAP,
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
     .reason = "a tile map alone: as without options, but for tiles of 128",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 192,
     .options = ATTN_ROW_TILE_MAP,
     .tile_m = 128,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .registers_max = 168,
     .reason = "a tile map alone, wide heads",
     .date = "not measured"},
    {.arch = 90,
     .d_max = 128,
     .options = ATTN_ROW_OPTIONS,
     .tile_m = 128,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 48,
     .compute_registers = 232,
     .ping_pong = 1,
     .separate_o = 1,
     .registers_max = 168,
     .reason = "options of the scores: the widest block that fits beside them in 232 registers",
     .date = "30 Nov 2026"},
    {.arch = 90,
     .d_max = 192,
     .options = ATTN_ROW_OPTIONS,
     .tile_m = 128,
     .tile_n = 32,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .registers_max = 168,
     .reason = "options of the scores, wide heads",
     .date = "30 Nov 2026"},
    {.arch = 90,
     .d_max = 256,
     .options = ATTN_ROW_OPTIONS,
     .tile_m = 128,
     .tile_n = 16,
     .stages = 2,
     .warpgroups = 2,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 232,
     .ping_pong = 1,
     .registers_max = 168,
     .reason = "options of the scores beside 128 registers of O",
     .date = "30 Nov 2026"},
    {.arch = 90,
     .d_max = 128,
     .options = ATTN_ROW_OPTIONS,
     .tile_m = 64,
     .tile_n = 64,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 2,
     .load_registers = 40,
     .compute_registers = 216,
     .separate_o = 1,
     .registers_max = 128,
     .reason = "block lists for 64 rows",
     .date = "1 Dec 2026"},
    {.arch = 90,
     .d_max = 256,
     .options = ATTN_ROW_OPTIONS,
     .tile_m = 64,
     .tile_n = 16,
     .stages = 2,
     .warpgroups = 1,
     .ctas = 1,
     .load_registers = 40,
     .compute_registers = 240,
     .registers_max = 255,
     .reason = "block lists for 64 rows, wide heads",
     .date = "1 Dec 2026"},
};

// -------------------------------------------------------------------------------------------------
// Run

// Two keys of a row in one access: they lie beside each other, and so do they in every row.
static int32_t is_paired(const attn_mask_tensor_t *tensor, const void *data, int64_t element_bytes)
{
    return tensor->stride_k == 1 && tensor->stride_b % 2 == 0 && tensor->stride_h % 2 == 0 &&
           tensor->stride_q % 2 == 0 && (uintptr_t)data % (uintptr_t)(2 * element_bytes) == 0;
}

static attn_gpu_score_tensor_t score_tensor(const attn_mask_tensor_t *tensor, const void *data,
                                            int64_t element_bytes)
{
    return (attn_gpu_score_tensor_t){.data = data,
                                     .stride_b = tensor->stride_b,
                                     .stride_h = tensor->stride_h,
                                     .stride_q = tensor->stride_q,
                                     .stride_k = tensor->stride_k,
                                     .is_paired = is_paired(tensor, data, element_bytes)};
}

static attn_gpu_score_t score_of(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    attn_gpu_score_t score = {.alibi_slopes = args->alibi_slopes,
                              .alibi_stride_b = desc->alibi_stride_b,
                              .dropout_state = args->dropout_state,
                              .dropout_threshold = attn_dropout_threshold(desc->dropout_p)};
    score.dropout_scale = attn_dropout_scale(score.dropout_threshold);
    if (desc->softcap > 0.0f) {
        // Finite, so that a product of 0 stays 0.
        const float inner = desc->scale / desc->softcap;
        score.cap = desc->softcap;
        score.cap_inner = inner > FLT_MAX ? FLT_MAX : inner < -FLT_MAX ? -FLT_MAX : inner;
    }
    if (desc->bias.present) {
        score.bias =
            score_tensor(&desc->bias, args->bias, (int64_t)attn_dtype_bytes(desc->bias.dtype));
    }
    if (desc->mask.present) {
        score.mask = score_tensor(&desc->mask, args->mask, 1);
    }
    return score;
}

static attn_status_t gather_operands(const attn_desc_t *desc, const attn_forward_args_t *args,
                                     attn_gpu_forward_params_t *params)
{
    const attn_sm90_operand_t q = attn_sm90_like_q("q", args->q, desc, &desc->q, desc->d_qk);
    const attn_sm90_operand_t k = attn_sm90_like_k("k", args->k, desc, &desc->k, desc->d_qk);
    const attn_sm90_operand_t v = attn_sm90_like_k("v", args->v, desc, &desc->v, desc->d_v);
    const attn_sm90_operand_t o = attn_sm90_like_q("o", args->o, desc, &desc->o, desc->d_v);
    attn_gpu_gather_t *const gather = &params->gather;
    params->q = attn_sm90_gathered(&q, &gather->q);
    params->k = attn_sm90_gathered(&k, &gather->k);
    params->v = attn_sm90_gathered(&v, &gather->v);
    params->o = attn_sm90_gathered(&o, &gather->o);
    if (desc->has_kv_batch_idx) {
        gather->kv_batch_idx = args->kv_batch_idx;
        gather->kv_batch = (int32_t)desc->kv_batch;
    }
    if (desc->paged_kv) {
        gather->page_table = args->page_table;
        gather->page_table_stride_b = desc->page_table_stride_b;
        gather->page_size = (int32_t)desc->page_size;
        gather->num_pages = (int32_t)desc->num_pages;
    }
    return ATTN_OK;
}

// Q or O, in boxes of a warpgroup's rows.
static attn_status_t encode_queries(const attn_cuda_plan_t *cuda, const attn_sm90_operand_t *x,
                                    tensor_map *map_out)
{
    const int32_t heads = cuda->choice.config.pack_gqa;
    return heads > 0
               ? attn_sm90_encode_heads(cuda->gpu, x, heads, ATTN_SM90_WARPGROUP_M / heads, map_out)
               : attn_sm90_encode(cuda->gpu, x, ATTN_SM90_WARPGROUP_M, map_out);
}

static attn_status_t encode_operands(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                                     const attn_forward_args_t *args,
                                     attn_gpu_forward_params_t *params)
{
    const int32_t block = cuda->choice.config.tile_n;
    const attn_sm90_operand_t q = attn_sm90_like_q("q", args->q, desc, &desc->q, desc->d_qk);
    const attn_sm90_operand_t k = attn_sm90_like_k("k", args->k, desc, &desc->k, desc->d_qk);
    const attn_sm90_operand_t v = attn_sm90_like_k("v", args->v, desc, &desc->v, desc->d_v);
    const attn_sm90_operand_t o = attn_sm90_like_q("o", args->o, desc, &desc->o, desc->d_v);
    const attn_gpu_t *const gpu = cuda->gpu;
    ATTN_FORWARD_ERROR(attn_sm90_plain(&q, &params->q));
    ATTN_FORWARD_ERROR(attn_sm90_plain(&k, &params->k));
    ATTN_FORWARD_ERROR(attn_sm90_plain(&v, &params->v));
    ATTN_FORWARD_ERROR(attn_sm90_plain(&o, &params->o));
    ATTN_FORWARD_ERROR(encode_queries(cuda, &q, &params->q_map));
    ATTN_FORWARD_ERROR(attn_sm90_encode(gpu, &k, block, &params->k_map));
    ATTN_FORWARD_ERROR(attn_sm90_encode(gpu, &v, block, &params->v_map));
    // An fp32 O is stored from registers.
    return cuda->choice.config.o_bytes == 4 ? ATTN_OK : encode_queries(cuda, &o, &params->o_map);
}

static attn_gpu_tiles_t tiles_of(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    const int64_t positions = attn_smaller(desc->s_q, attn_sm90_rows_q(desc));
    const int64_t packed = config->pack_gqa > 0 ? config->pack_gqa : 1;
    const int64_t runs = attn_ceil_div(desc->heads_q / desc->heads_kv, packed); // of a group
    attn_gpu_tiles_t tiles = {
        .m_tiles = (int32_t)attn_ceil_div(positions * packed, config->tile_m),
        .bh = (int32_t)(desc->batch * desc->heads_kv * runs),
    };
    // Without a mask all tiles are alike: a K/V head at a time.
    const int64_t heads = config->mask & ATTN_KERNEL_MASK_UPPER ? SECTION_HEADS : runs;
    tiles.section_heads = (int32_t)attn_smaller(heads, tiles.bh);
    tiles.count = (uint32_t)tiles.m_tiles * (uint32_t)tiles.bh;
    return tiles;
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
        .lengths = attn_sm90_lengths(desc, args),
        .scale = desc->scale,
        .align_top_left = desc->align == ATTN_ALIGN_TOP_LEFT,
        .window_left = (int32_t)attn_smaller(desc->window_left, ATTN_SM90_LENGTH_MAX),
        .window_right = (int32_t)attn_smaller(desc->window_right, ATTN_SM90_LENGTH_MAX),
        .sink = desc->has_sink ? args->sink : NULL,
        .tiles = tiles_of(desc, config),
        .score = score_of(desc, args),
    };
    ATTN_FORWARD_ERROR(config->gather ? gather_operands(desc, args, &params)
                                      : encode_operands(cuda, desc, args, &params));
    const uint32_t most = (uint32_t)(cuda->gpu->multiprocessors * config->ctas);
    const uint32_t ctas = params.tiles.count < most ? params.tiles.count : most;
    if (attn_sm90_has_unlike_tiles(desc) && params.tiles.count > ctas) {
        params.tiles.counter = workspace;
    }
    if (attn_survey_is_needed(config)) {
        unsigned char *const words = (unsigned char *)workspace + MAP_OFFSET_BYTES;
        params.score.map = attn_survey_map(desc, config, words);
        ATTN_FORWARD_ERROR(
            attn_survey_run(cuda, SURVEY, desc, args, &params.score, params.tiles.counter, stream));
    } else if (params.tiles.counter) {
        ATTN_FORWARD_ERROR(attn_gpu_clear(cuda->gpu, workspace, COUNTER_BYTES / 4, stream));
    }
    const attn_gpu_grid_t grid = {.ctas = {ctas, 1, 1},
                                  .threads = (uint32_t)(config->warpgroups + 1) *
                                             ATTN_SM90_WARPGROUP_THREADS,
                                  .shared_bytes = (uint32_t)forward_shared_bytes(config),
                                  .is_programmatic = attn_survey_is_needed(config)};
    return attn_gpu_launch(cuda->gpu, cuda->kernels[0], &grid, &params, stream);
}

extern const attn_kernel_family_t attn_sm90_forward_family;
const attn_kernel_family_t attn_sm90_forward_family = {
    .name = "sm90_forward",
    .op = ATTN_FORWARD,
    .path = "device/sm90/sm90_forward.c",
    .parts = forward_parts,
    .part_count = sizeof(forward_parts) / sizeof(forward_parts[0]),
    .rows = forward_rows,
    .row_count = sizeof(forward_rows) / sizeof(forward_rows[0]),
    .legal = forward_legal,
    .canonical = forward_canonical,
    .shared_bytes = forward_shared_bytes,
    .workspace_bytes = forward_workspace_bytes,
    .explain = forward_explain,
    .forward = forward_run,
};
