// One key block against one row block: everything between the passes over blocks (backward.c,
// bias_gradient.c) and the vector code. Knows how operands become scratch and which elements of a
// tile are hidden.
#ifndef ATTN_CPU_BACKWARD_BLOCK_H
#define ATTN_CPU_BACKWARD_BLOCK_H

#include "backward_layout.h"

// A key block in the scratch.
typedef struct attn_cpu_key_block {
    attn_sequence_t seq;
    int64_t b;
    int64_t h_kv;
    int64_t first;     // key 0 of the block
    int64_t keys;      // up to the last one in use; those before leftpad are zeros
    int32_t is_paired; // loaded as pairs
    int32_t has_bad;   // bad_key marks keys with a NaN or an infinity: they are zeros in k_rows
} attn_cpu_key_block_t;

// Loads K and V of keys [first, first + tile_kv) as far as they are in use, as pairs or fp32.
attn_cpu_key_block_t attn_cpu_backward_load_keys(const attn_cpu_backward_run_t *run,
                                                 const attn_cpu_backward_scratch_t *scratch,
                                                 const attn_sequence_t *seq, int64_t b,
                                                 int64_t h_kv, int64_t first, int is_paired);

// Makes the tile of the block and rows [i, i + rows), rows <= tile_q, all in use, and its p and ds.
// Outputs are NULL. Returns 0 if no row sees a key; then there is no tile.
int attn_cpu_backward_scores(const attn_cpu_backward_run_t *run,
                             const attn_cpu_backward_scratch_t *scratch,
                             const attn_cpu_key_block_t *block, int64_t h, int64_t i, int64_t rows,
                             int to_bias, attn_cpu_backward_tile_t *tile_out);

// Adds that tile to its dk_t, dv_t and dq. Afterwards q and dout are garbage.
void attn_cpu_backward_accumulate(const attn_cpu_backward_run_t *run,
                                  const attn_cpu_backward_scratch_t *scratch,
                                  const attn_cpu_key_block_t *block, int64_t h, int64_t i,
                                  attn_cpu_backward_tile_t *tile);

#endif
