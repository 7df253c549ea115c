// plain.h: attention as anybody would write it first, in the problem's own precision.
//
// Its error against the fp64 reference is the yardstick of attn check: a good kernel must not be
// much worse. Products and sums are fp32 in order; weights (and their gradients) are rounded to the
// inputs' 16-bit type before they are multiplied with V, K and Q, as a framework without a fused
// kernel does. Dropout is not applied.
#ifndef ATTN_TOOLS_PLAIN_H
#define ATTN_TOOLS_PLAIN_H

#include "problem.h"

// Results as f32 tensors, laid out like the problem's own and holding values of their dtypes.
struct plain_results {
    struct io_tensor tensors[OPERAND_DBIAS + 1]; // only OPERAND_O .. OPERAND_DBIAS are used
};

// The problem must have its forward results, and its backward results for `backward`.
int plain_create(struct plain_results *results, const struct problem *problem, bool backward,
                 struct io_error *err);
void plain_destroy(struct plain_results *results);

#endif
