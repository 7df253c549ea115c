// Writing new keys and values into a cache on the CPU. Core has checked everything: see attn_append
// in attn.h.
#ifndef ATTN_CPU_APPEND_H
#define ATTN_CPU_APPEND_H

#include "attn.h"

// A function of attn_backend_ops_t; stream is not used. Never fails.
attn_status_t attn_cpu_append(const attn_context_t *context, const attn_append_desc_t *desc,
                              const attn_append_args_t *args, void *stream);

#endif
