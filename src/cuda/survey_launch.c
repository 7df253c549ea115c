// Surveys of mask tensors and block lists: see survey_launch.h.
#include "survey_launch.h"

#include "../core/checked.h"
#include "../shared/gpu_survey_params.h"
#include "gpu_launch.h"
#include "sm90_problem.h"

enum { PAIR_WORDS = 2, WIDE_ALIGN = 16, CTAS_MAX = 1 << 30 };

// What a map tells apart: 1 where everything that it is made from is broadcast.
typedef struct map_shape {
    int64_t batch;
    int64_t heads;
    int64_t m_tiles;
    int64_t row_words; // pairs
    int64_t rows;
} map_shape_t;

static int64_t keys_of(const attn_desc_t *desc)
{
    return attn_smaller(desc->s_kv, attn_sm90_rows_kv(desc));
}

static int64_t rows_of(const attn_desc_t *desc)
{
    return attn_smaller(desc->s_q, attn_sm90_rows_q(desc));
}

static map_shape_t map_shape(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    const int has_mask = desc->mask.present;
    const int has_lists = desc->block_sparse;
    const int by_b =
        (has_mask && desc->mask.stride_b != 0) || (has_lists && desc->block_stride_b != 0);
    const int by_h =
        (has_mask && desc->mask.stride_h != 0) || (has_lists && desc->block_stride_h != 0);
    const int by_m = (has_mask && desc->mask.stride_q != 0) || has_lists;
    return (map_shape_t){
        .batch = by_b ? desc->batch : 1,
        .heads = by_h ? desc->heads_q : 1,
        .m_tiles = by_m ? attn_ceil_div(rows_of(desc), config->tile_m) : 1,
        .row_words =
            attn_ceil_div(attn_ceil_div(keys_of(desc), config->tile_n), ATTN_SURVEY_BLOCKS),
        .rows = by_m ? rows_of(desc) : 1,
    };
}

int attn_survey_is_needed(const attn_kernel_config_t *config)
{
    return config->bool_mask || config->block_lists;
}

int32_t attn_survey_shared_bytes(const attn_kernel_config_t *config)
{
    return config->bool_mask ? ATTN_SURVEY_BLOCKS * (int32_t)sizeof(uint32_t) : 0;
}

// Tiles are counted in 32 bits and keys in 30: no product overflows.
size_t attn_survey_map_bytes(const attn_desc_t *desc, const attn_kernel_config_t *config)
{
    const map_shape_t shape = map_shape(desc, config);
    return (size_t)(shape.batch * shape.heads * shape.m_tiles * shape.row_words) * PAIR_WORDS *
           sizeof(uint32_t);
}

attn_gpu_tile_map_t attn_survey_map(const attn_desc_t *desc, const attn_kernel_config_t *config,
                                    void *words)
{
    const map_shape_t shape = map_shape(desc, config);
    const int64_t stride_m = shape.row_words * PAIR_WORDS;
    const int64_t stride_h = shape.m_tiles * stride_m;
    return (attn_gpu_tile_map_t){
        .words = words,
        .stride_m = shape.m_tiles > 1 ? stride_m : 0,
        .stride_h = shape.heads > 1 ? stride_h : 0,
        .stride_b = shape.batch > 1 ? shape.heads * stride_h : 0,
    };
}

static int32_t mask_is_wide(const attn_gpu_score_tensor_t *mask)
{
    return mask->stride_k == 1 && mask->stride_b % WIDE_ALIGN == 0 &&
           mask->stride_h % WIDE_ALIGN == 0 && mask->stride_q % WIDE_ALIGN == 0 &&
           (uintptr_t)mask->data % WIDE_ALIGN == 0;
}

static attn_gpu_block_lists_t lists_of(const attn_desc_t *desc, const attn_forward_args_t *args,
                                       const attn_kernel_config_t *config)
{
    if (!desc->block_sparse) {
        return (attn_gpu_block_lists_t){0};
    }
    // A block longer than the sequence is as long as it.
    const int64_t block_q = attn_smaller(desc->block_q, ATTN_SM90_LENGTH_MAX);
    const int64_t block_kv = attn_smaller(desc->block_kv, ATTN_SM90_LENGTH_MAX);
    return (attn_gpu_block_lists_t){
        .count = args->block_count,
        .index = args->block_index,
        .stride_b = desc->block_stride_b,
        .stride_h = desc->block_stride_h,
        .per_row = desc->blocks_per_row,
        .key_blocks = (int32_t)attn_ceil_div(keys_of(desc), block_kv),
        .block_m = (int32_t)(block_q / config->tile_m),
        .block_n = (int32_t)(block_kv / config->tile_n),
    };
}

attn_status_t attn_survey_run(const attn_cuda_plan_t *cuda, int32_t part, const attn_desc_t *desc,
                              const attn_forward_args_t *args, const attn_gpu_score_t *score,
                              uint32_t *counter, void *stream)
{
    const attn_kernel_config_t *const config = &cuda->choice.config;
    const map_shape_t shape = map_shape(desc, config);
    const attn_gpu_survey_params_t params = {
        .mask = score->mask,
        .mask_is_wide = mask_is_wide(&score->mask),
        .lists = lists_of(desc, args, config),
        .map = score->map,
        .batch = (int32_t)shape.batch,
        .heads = (int32_t)shape.heads,
        .m_tiles = (int32_t)shape.m_tiles,
        .rows = (int32_t)shape.rows,
        .s_kv = (int32_t)keys_of(desc),
        .row_words = (int32_t)shape.row_words,
        .counter = counter,
    };
    const int64_t items = shape.batch * shape.heads * shape.m_tiles * shape.row_words;
    const attn_gpu_grid_t grid = {
        .ctas = {(uint32_t)attn_smaller(items, CTAS_MAX), 1, 1},
        .threads = config->bool_mask ? ATTN_SURVEY_MASK_THREADS : 32,
        .shared_bytes = (uint32_t)attn_survey_shared_bytes(config),
    };
    return attn_gpu_launch(cuda->gpu, cuda->kernels[part], &grid, &params, stream);
}
