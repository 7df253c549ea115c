// How the CPU cuts a forward problem: tasks, tiles, splits, scratch. Decided from the descriptor
// and the instruction set's vector width alone, never from the number of threads, so that results
// do not depend on it.
#ifndef ATTN_CPU_FORWARD_PLAN_H
#define ATTN_CPU_FORWARD_PLAN_H

#include "../kernels.h"
#include "forward_task.h"

// Fills is_decode, tile_q, tile_kv, num_splits, split_keys and workspace_bytes of a plan whose isa
// is set.
attn_status_t attn_cpu_forward_choose(attn_plan_t *plan, const attn_cpu_kernels_t *kernels);

// The same cut again, from a plan that went through the above.
attn_cpu_forward_layout_t attn_cpu_forward_layout(const attn_plan_t *plan,
                                                  const attn_cpu_kernels_t *kernels);

attn_status_t attn_cpu_forward(const attn_plan_t *plan, const attn_forward_args_t *args,
                               void *workspace, void *stream);

#endif
