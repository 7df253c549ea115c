// NaN and infinities in the backward pass. Hidden elements have p = ds = 0, yet 0 * NaN is NaN, so
// a sum over keys or rows must not even multiply what is hidden. Sums over dims are safe: keys are
// lanes, and a hidden lane is replaced. For the others, rows of q and do and keys that are not
// finite are taken out of the matrix products, as zeros, wherever something is hidden from them,
// and what they give to the elements that are seen is added one by one. That path is slow and rare;
// finding out costs a look at masked tiles and at each key block once.
#ifndef ATTN_CPU_BACKWARD_NONFINITE_H
#define ATTN_CPU_BACKWARD_NONFINITE_H

#include "backward_block.h"

// Whether all of n floats, or of 2 * n bfloat16, are finite.
int attn_cpu_all_finite(const float *values, int64_t n);
int attn_cpu_all_finite_pairs(const uint32_t *pairs, int64_t n);

// Before the tile's sums: rows of q and do that are not finite, if the tile hides anything.
void attn_cpu_backward_add_bad_rows(const attn_cpu_backward_run_t *run,
                                    const attn_cpu_key_block_t *block,
                                    attn_cpu_backward_tile_t *tile, int64_t h, int64_t i);

// Behind them: the block's bad keys, which are zeros in k_rows, to dq.
void attn_cpu_backward_add_bad_keys(const attn_cpu_backward_run_t *run,
                                    const attn_cpu_key_block_t *block, const uint8_t *bad_key,
                                    const attn_cpu_backward_tile_t *tile);

#endif
