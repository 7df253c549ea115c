// The context: allocator, threads, log and the chosen instruction set. Reference counted, since
// plans keep it.
#ifndef ATTN_CORE_CONTEXT_H
#define ATTN_CORE_CONTEXT_H

#include <stdatomic.h>

#include "attn.h"

struct attn_context {
    atomic_int_fast64_t references;
    attn_context_config_t config; // as given, every default resolved
    attn_isa_t isa;
    int32_t workers;
    int32_t has_bad_environment; // ATTN_ISA holds no known name; only the default context can be so
};

// The context itself, or the process-wide default one for NULL (made once, never fails: it lives in
// static storage).
const attn_context_t *attn_context_resolve(const attn_context_t *context);

// ATTN_INVALID_ARGUMENT if the default context was made with a wrong ATTN_ISA. Every function that
// starts work asks.
attn_status_t attn_context_check(const attn_context_t *context);

// One more owner; attn_context_destroy gives it back. context comes from attn_context_resolve.
void attn_context_retain(attn_context_t *context);

// Memory from the context's allocator, 64-byte aligned; NULL without memory. bytes may be 0.
void *attn_context_alloc(const attn_context_t *context, size_t bytes);
void attn_context_free(const attn_context_t *context, void *ptr);

// Runs task(arg, i, worker) for every i in [0, count); worker in [0, context->workers). Never
// inside another task.
void attn_parallel_for(const attn_context_t *context, int64_t count, attn_task_fn task, void *arg);

__attribute__((format(printf, 3, 4))) void
attn_log(const attn_context_t *context, attn_log_level_t level, const char *format, ...);

#endif
