// The gradient of the additive bias: a pass of its own over the tiles, since its elements are
// neither rows' nor keys'.
#ifndef ATTN_CPU_BIAS_GRADIENT_H
#define ATTN_CPU_BIAS_GRADIENT_H

#include "backward_block.h"

// Writes every element of dbias. Needs run->delta.
void attn_cpu_bias_gradient(const attn_cpu_backward_run_t *run);

#endif
