// What the backward pass needs per row before it looks at tiles, and what it finishes from that
// alone: delta and dsink.
#ifndef ATTN_CPU_PREPROCESS_H
#define ATTN_CPU_PREPROCESS_H

#include "backward_block.h"

// Fills run->delta for every row in use: rowsum(do * o) - dlse, or 0 where lse is -inf; writes
// dsink if it is wanted.
void attn_cpu_backward_preprocess(const attn_cpu_backward_run_t *run);

#endif
