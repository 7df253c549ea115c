// The part of the score formula that belongs to an element (b, h, i, j) and not to a dot product:
// bias, ALiBi, mask tensor, block lists, the row's interval of keys, dropout. Forward and backward
// need it with different lanes, so it is made as plain fp32 tiles that both add and multiply:
//
//   add[i][j]  = bias - slope * |i + offset - j|, or -inf where the mask hides the element
//   keep[i][j] = what dropout multiplies the weight by: 0 or 1 / keep
//
// A vector kernel does s = softcap(scale * dot) + add and treats add == -inf as hidden by
// selection, never by arithmetic, so that NaN in hidden keys stays there. Problems with intervals
// alone (causal, windows, lengths) need no tile: kernels compare key indices.
#ifndef ATTN_CPU_SCORE_TILE_H
#define ATTN_CPU_SCORE_TILE_H

#include "../core/sequence.h"
#include "attn.h"

typedef struct attn_cpu_score {
    const attn_desc_t *desc;
    const attn_forward_args_t *args;
    attn_mask_shape_t mask;
    int64_t b;
    int64_t h;
    float slope; // ALiBi, 0 without
    uint64_t dropout_seed;
    uint64_t dropout_offset;
    uint32_t dropout_threshold;
    float dropout_scale;
} attn_cpu_score_t;

// Element (m, n) of a tile is at m * row_stride + n * key_stride.
typedef struct attn_cpu_score_out {
    float *add;  // NULL: not wanted
    float *keep; // NULL: not wanted
    int64_t row_stride;
    int64_t key_stride;
} attn_cpu_score_out_t;

// Whether a problem has an add tile or a keep tile at all.
static inline int attn_cpu_score_has_add(const attn_desc_t *desc)
{
    return desc->mask.present || desc->bias.present || desc->has_alibi || desc->block_sparse;
}

static inline int attn_cpu_score_has_keep(const attn_desc_t *desc)
{
    return desc->dropout_p > 0.0f;
}

// desc is a plan's, args are checked; both must outlive the score.
attn_cpu_score_t attn_cpu_score_make(const attn_desc_t *desc, const attn_forward_args_t *args,
                                     const attn_sequence_t *seq, int64_t b, int64_t h);

// Fills both tiles for rows [i_begin, i_begin + rows) and keys [j_begin, j_begin + keys), all of
// them within the sequence's rows_q and rows_kv.
void attn_cpu_score_tile(const attn_cpu_score_t *score, int64_t i_begin, int64_t rows,
                         int64_t j_begin, int64_t keys, const attn_cpu_score_out_t *out);

// Whether block lists let any of the rows look at any of the keys; 1 without block lists.
int attn_cpu_score_tile_listed(const attn_cpu_score_t *score, int64_t i_begin, int64_t rows,
                               int64_t j_begin, int64_t keys);

#endif
