// The CPU backward pass as the rest of the backend sees it: cpu_backend.c asks for the tiling, the
// workspace and the run.
#ifndef ATTN_CPU_BACKWARD_H
#define ATTN_CPU_BACKWARD_H

#include "../../core/plan.h"

// Fills tile_q, tile_kv, num_splits (pieces of the keys, each with its own partial dq) and
// split_keys from the descriptor and plan->isa, which must be set. Never looks at the number of
// threads: the bits do not depend on it.
void attn_cpu_backward_choose(attn_plan_t *plan);

// Bytes of workspace of a chosen plan: scratch per worker, delta and the partial dq per row.
// SIZE_MAX if they do not fit.
size_t attn_cpu_backward_workspace(const attn_plan_t *plan);

// Arguments are checked, workspace is 64-byte aligned and of the size above. Cannot fail.
attn_status_t attn_cpu_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                void *workspace);

#endif
