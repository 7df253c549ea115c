// attn_tile_map: which tiles the chosen kernel skips, masks or runs without mask code, from the
// same functions that the kernels call.
#include <inttypes.h>

#include "../shared/block_range.h"
#include "checked.h"
#include "plan.h"
#include "status.h"

enum { TILE_SKIPPED = 0, TILE_PARTIAL = 1, TILE_FULL = 2 };

// Batch entry 0 with the full lengths.
static attn_mask_shape_t full_shape(const attn_desc_t *desc)
{
    return (attn_mask_shape_t){
        .len_q = desc->s_q,
        .len_kv = desc->s_kv,
        .offset = desc->align == ATTN_ALIGN_BOTTOM_RIGHT ? desc->s_kv - desc->s_q : 0,
        .window_left = desc->window_left,
        .window_right = desc->window_right,
    };
}

// Keys [begin, end) against what some and what all rows of the tile see. What hides single keys on
// top makes it partial.
static uint8_t classify(attn_range_t some, attn_range_t all, int64_t begin, int64_t end,
                        int hides_more)
{
    if (some.begin >= some.end || end <= some.begin || begin >= some.end) {
        return TILE_SKIPPED;
    }
    const int is_full = begin >= all.begin && end <= all.end;
    return is_full && !hides_more ? TILE_FULL : TILE_PARTIAL;
}

static void fill_row(const attn_desc_t *desc, const attn_tile_map_t *map, int64_t row,
                     uint8_t *tiles_out)
{
    const attn_mask_shape_t shape = full_shape(desc);
    const int64_t i_begin = row * map->tile_q;
    const int64_t i_rest = desc->s_q - i_begin;
    const int64_t i_end = i_begin + (i_rest < map->tile_q ? i_rest : map->tile_q);
    const attn_range_t some = attn_tile_kv_range(&shape, i_begin, i_end);
    const attn_range_t all = attn_tile_full_kv_range(&shape, i_begin, i_end);
    const int hides_more = desc->mask.present || desc->bias.present || desc->block_sparse;
    for (int64_t col = 0; col < map->cols; col++) {
        const int64_t j_begin = col * map->tile_kv;
        const int64_t j_rest = desc->s_kv - j_begin;
        const int64_t j_end = j_begin + (j_rest < map->tile_kv ? j_rest : map->tile_kv);
        tiles_out[col] = classify(some, all, j_begin, j_end, hides_more);
    }
}

attn_status_t attn_tile_map(const attn_context_t *context, const attn_desc_t *desc,
                            attn_tile_map_t *map_out, uint8_t *tiles_out, size_t tiles_bytes)
{
    ATTN_RETURN_IF(map_out == NULL, ATTN_INVALID_ARGUMENT, "map_out: NULL");
    attn_plan_t plan;
    ATTN_FORWARD_ERROR(attn_plan_fill(&plan, attn_context_resolve(context), desc, ATTN_FORWARD));
    attn_tile_map_t map = {
        .tile_q = plan.tile_q > 0 ? plan.tile_q : 1,
        .tile_kv = plan.tile_kv > 0 ? plan.tile_kv : 1,
    };
    map.rows = attn_ceil_div(plan.desc.s_q, map.tile_q);
    map.cols = attn_ceil_div(plan.desc.s_kv, map.tile_kv);
    if (tiles_out != NULL) {
        int64_t tiles;
        ATTN_RETURN_IF(
            !attn_checked_mul(map.rows, map.cols, &tiles) || (uint64_t)tiles > tiles_bytes,
            ATTN_INVALID_ARGUMENT, "tiles_bytes: %zu, expected >= %" PRId64 " * %" PRId64,
            tiles_bytes, map.rows, map.cols);
        for (int64_t row = 0; row < map.rows; row++) {
            fill_row(&plan.desc, &map, row, tiles_out + row * map.cols);
        }
    }
    *map_out = map;
    return ATTN_OK;
}
