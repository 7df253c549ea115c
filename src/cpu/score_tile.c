// Fills the add and keep tiles of score_tile.h. Scalar code: it runs for masked or modified tiles
// only, once per element, next to the 2 * (d_qk + d_v) multiply-adds that the element costs anyway.
#include "score_tile.h"

#include <math.h>

#include "../core/element.h"
#include "../shared/philox.h"

attn_cpu_score_t attn_cpu_score_make(const attn_desc_t *desc, const attn_forward_args_t *args,
                                     const attn_sequence_t *seq, int64_t b, int64_t h)
{
    attn_cpu_score_t score = {.desc = desc, .args = args, .mask = seq->mask, .b = b, .h = h};
    if (desc->has_alibi) {
        score.slope = args->alibi_slopes[b * desc->alibi_stride_b + h];
    }
    if (attn_cpu_score_has_keep(desc)) {
        score.dropout_seed = args->dropout_state[0];
        score.dropout_offset = args->dropout_state[1];
        score.dropout_threshold = attn_dropout_threshold(desc->dropout_p);
        score.dropout_scale = attn_dropout_scale(score.dropout_threshold);
    }
    return score;
}

static int64_t mask_tensor_offset(const attn_mask_tensor_t *tensor, const attn_cpu_score_t *score,
                                  int64_t i, int64_t j)
{
    return score->b * tensor->stride_b + score->h * tensor->stride_h + i * tensor->stride_q +
           j * tensor->stride_k;
}

static void hide_keys(float *add, int64_t key_stride, int64_t n_begin, int64_t n_end)
{
    for (int64_t n = n_begin; n < n_end; n++) {
        add[n * key_stride] = -INFINITY;
    }
}

static void fill_bias_row(const attn_cpu_score_t *score, int64_t i, int64_t j_begin, int64_t keys,
                          float *add, int64_t key_stride)
{
    const attn_mask_tensor_t *bias = &score->desc->bias;
    if (!bias->present) {
        for (int64_t n = 0; n < keys; n++) {
            add[n * key_stride] = 0.0f;
        }
        return;
    }
    const int64_t base = mask_tensor_offset(bias, score, i, j_begin);
    for (int64_t n = 0; n < keys; n++) {
        add[n * key_stride] =
            attn_load_f32(bias->dtype, score->args->bias, base + n * bias->stride_k);
    }
}

static void add_alibi_row(const attn_cpu_score_t *score, int64_t i, int64_t j_begin, int64_t keys,
                          float *add, int64_t key_stride)
{
    const int64_t position = i + score->mask.offset;
    for (int64_t n = 0; n < keys; n++) {
        const int64_t distance = position - (j_begin + n);
        add[n * key_stride] -= score->slope * (float)(distance < 0 ? -distance : distance);
    }
}

static void hide_masked_row(const attn_cpu_score_t *score, int64_t i, int64_t j_begin, int64_t keys,
                            float *add, int64_t key_stride)
{
    const attn_mask_tensor_t *mask = &score->desc->mask;
    const uint8_t *seen = score->args->mask + mask_tensor_offset(mask, score, i, j_begin);
    for (int64_t n = 0; n < keys; n++) {
        if (!seen[n * mask->stride_k]) {
            add[n * key_stride] = -INFINITY;
        }
    }
}

// The list of a row: its ascending block indices and how many there are.
static const int32_t *block_list(const attn_cpu_score_t *score, int64_t i, int64_t *count_out)
{
    const attn_desc_t *desc = score->desc;
    const int64_t list =
        score->b * desc->block_stride_b + score->h * desc->block_stride_h + i / desc->block_q;
    *count_out = score->args->block_count[list];
    return score->args->block_index + list * desc->blocks_per_row;
}

// Position of the first listed block that ends behind key j.
static int64_t first_block_behind(const attn_cpu_score_t *score, const int32_t *list, int64_t count,
                                  int64_t j)
{
    const int64_t wanted = j / score->desc->block_kv;
    int64_t low = 0;
    int64_t high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list[middle] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void hide_unlisted_row(const attn_cpu_score_t *score, int64_t i, int64_t j_begin,
                              int64_t keys, float *add, int64_t key_stride)
{
    int64_t count;
    const int32_t *list = block_list(score, i, &count);
    const int64_t block_kv = score->desc->block_kv;
    int64_t hidden_from = 0;
    for (int64_t at = first_block_behind(score, list, count, j_begin); at < count; at++) {
        const attn_range_t seen = attn_range_make(list[at] * block_kv - j_begin,
                                                  (list[at] + 1) * block_kv - j_begin, 0, keys);
        if (seen.begin >= keys) {
            break;
        }
        hide_keys(add, key_stride, hidden_from, seen.begin);
        hidden_from = seen.end;
    }
    hide_keys(add, key_stride, hidden_from, keys);
}

static void fill_add_row(const attn_cpu_score_t *score, int64_t i, int64_t j_begin, int64_t keys,
                         float *add, int64_t key_stride)
{
    fill_bias_row(score, i, j_begin, keys, add, key_stride);
    if (score->desc->has_alibi) {
        add_alibi_row(score, i, j_begin, keys, add, key_stride);
    }
    if (score->desc->mask.present) {
        hide_masked_row(score, i, j_begin, keys, add, key_stride);
    }
    if (score->desc->block_sparse) {
        hide_unlisted_row(score, i, j_begin, keys, add, key_stride);
    }
    const attn_range_t row = attn_row_kv_range(&score->mask, i);
    const attn_range_t seen = attn_range_make(row.begin - j_begin, row.end - j_begin, 0, keys);
    hide_keys(add, key_stride, 0, seen.begin < keys ? seen.begin : keys);
    hide_keys(add, key_stride, seen.end, keys);
}

static void fill_keep_row(const attn_cpu_score_t *score, int64_t i, int64_t j_begin, int64_t keys,
                          float *keep, int64_t key_stride)
{
    const int64_t bh = score->b * score->desc->heads_q + score->h;
    const int64_t j_end = j_begin + keys;
    for (int64_t group = j_begin / 32; group * 32 < j_end; group++) {
        attn_philox_t calls[4];
        for (int32_t quad = 0; quad < 4; quad++) {
            calls[quad] =
                attn_dropout_call(score->dropout_seed, score->dropout_offset, bh, i, group, quad);
        }
        const attn_range_t columns =
            attn_range_make(j_begin - group * 32, j_end - group * 32, 0, 32);
        for (int64_t column = columns.begin; column < columns.end; column++) {
            const uint32_t number =
                attn_dropout_number(calls[column % 8 / 2], (int32_t)(column / 8 * 2 + column % 2));
            keep[(group * 32 + column - j_begin) * key_stride] =
                number >= score->dropout_threshold ? score->dropout_scale : 0.0f;
        }
    }
}

void attn_cpu_score_tile(const attn_cpu_score_t *score, int64_t i_begin, int64_t rows,
                         int64_t j_begin, int64_t keys, const attn_cpu_score_out_t *out)
{
    for (int64_t m = 0; m < rows; m++) {
        if (out->add) {
            fill_add_row(score, i_begin + m, j_begin, keys, out->add + m * out->row_stride,
                         out->key_stride);
        }
        if (out->keep) {
            fill_keep_row(score, i_begin + m, j_begin, keys, out->keep + m * out->row_stride,
                          out->key_stride);
        }
    }
}

int attn_cpu_score_tile_listed(const attn_cpu_score_t *score, int64_t i_begin, int64_t rows,
                               int64_t j_begin, int64_t keys)
{
    if (!score->desc->block_sparse) {
        return 1;
    }
    const int64_t block_q = score->desc->block_q;
    for (int64_t block = i_begin / block_q; block * block_q < i_begin + rows; block++) {
        int64_t count;
        const int32_t *list = block_list(score, block * block_q, &count);
        const int64_t at = first_block_behind(score, list, count, j_begin);
        if (at < count && list[at] * score->desc->block_kv < j_begin + keys) {
            return 1;
        }
    }
    return 0;
}
