// bench_check.h: is a measured result right, where the fp64 reference would take hours?
#ifndef ATTN_TOOLS_BENCH_CHECK_H
#define ATTN_TOOLS_BENCH_CHECK_H

#include "bench_shapes.h"

// Rows at the start, in the middle and at the end of the last sequence's results that the problem
// holds (o and lse, and dq for backward) are compared with the reference, for all heads; and the
// whole case is compared at a length of at most 300. 0 if all is right; *wrong_out tells a wrong
// result from a failure.
int bench_check(const struct bench_case *c, const struct problem *problem, attn_context_t *context,
                bool *wrong_out, struct io_error *err);

#endif
