// Joining partial results on the CPU. Core has checked everything: see attn_merge in attn.h.
#ifndef ATTN_CPU_MERGE_H
#define ATTN_CPU_MERGE_H

#include "attn.h"

// A function of attn_backend_ops_t; stream is not used. Never fails.
attn_status_t attn_cpu_merge(const attn_context_t *context, const attn_merge_desc_t *desc,
                             const float *o_part, const float *lse_part, void *o, float *lse,
                             void *stream);

#endif
