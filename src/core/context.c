// Contexts: made from a config, or the default one. Here are all the places where the library
// touches its process: memory, threads, environment, log. What a plan computes is none of its
// business.
#include "context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "cpuid.h"
#include "import.h"
#include "status.h"

#define CONTEXT_ALIGN 64u
// More workers than any machine has; keeps products with a worker's scratch memory far from
// overflow.
#define CONTEXT_WORKERS_MAX 65536

// -------------------------------------------------------------------------------------------------
// Instruction sets

static const char *const isa_names[] = {
#define ISA_NAME(name, value, text) text,
    ATTN_ISA_LIST(ISA_NAME)
#undef ISA_NAME
};
// " auto scalar ...", for error texts.
#define ISA_TEXT(name, value, text) " " text
#define ISA_TEXTS ATTN_ISA_LIST(ISA_TEXT)

const char *attn_isa_name(attn_isa_t isa)
{
    return (size_t)isa < ATTN_ISA_COUNT ? isa_names[isa] : "unknown";
}

int attn_isa_available(attn_isa_t isa)
{
    return (size_t)isa < ATTN_ISA_COUNT && isa <= attn_cpu_best_isa();
}

// The limit that the environment sets: ATTN_ISA_AUTO without one. Fails for a name that is none.
static attn_status_t isa_from_environment(attn_isa_t *isa_out)
{
    const char *text = getenv("ATTN_ISA");
    *isa_out = ATTN_ISA_AUTO;
    if (text == NULL || text[0] == '\0') {
        return ATTN_OK;
    }
    for (size_t i = 0; i < ATTN_ISA_COUNT; i++) {
        if (strcmp(text, isa_names[i]) == 0) {
            *isa_out = (attn_isa_t)i;
            return ATTN_OK;
        }
    }
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "environment variable ATTN_ISA: \"%s\", expected one of" ISA_TEXTS, text);
}

static attn_isa_t isa_lower(attn_isa_t a, attn_isa_t b)
{
    if (a == ATTN_ISA_AUTO || b == ATTN_ISA_AUTO) {
        return a == ATTN_ISA_AUTO ? b : a;
    }
    return a < b ? a : b;
}

// -------------------------------------------------------------------------------------------------
// Memory

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    // aligned_alloc wants a multiple of the alignment.
    const size_t rounded = (bytes + CONTEXT_ALIGN - 1) / CONTEXT_ALIGN * CONTEXT_ALIGN;
    return rounded < bytes ? NULL : aligned_alloc(CONTEXT_ALIGN, rounded);
}

static void default_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

void *attn_context_alloc(const attn_context_t *context, size_t bytes)
{
    return context->config.alloc(context->config.alloc_user, bytes > 0 ? bytes : 1);
}

void attn_context_free(const attn_context_t *context, void *ptr)
{
    if (ptr != NULL) {
        context->config.free(context->config.alloc_user, ptr);
    }
}

// -------------------------------------------------------------------------------------------------
// Threads

static int32_t resolve_workers(const attn_context_config_t *config)
{
    if (config->parallel_for != NULL) {
        return config->workers;
    }
#ifdef _OPENMP
    const int32_t threads = config->workers > 0 ? config->workers : omp_get_max_threads();
    return threads < CONTEXT_WORKERS_MAX ? threads : CONTEXT_WORKERS_MAX;
#else
    return 1;
#endif
}

#ifdef _OPENMP
// Inside a caller's own parallel region OpenMP's rules for nesting hold: by default this is then
// one thread.
static void openmp_for(int32_t threads, int64_t count, attn_task_fn task, void *arg)
{
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < count; i++) {
        task(arg, i, omp_get_thread_num());
    }
}
#endif

void attn_parallel_for(const attn_context_t *context, int64_t count, attn_task_fn task, void *arg)
{
    const int64_t threads = count < context->workers ? count : context->workers;
    if (threads > 1 && context->config.parallel_for != NULL) {
        context->config.parallel_for(context->config.parallel_for_user, count, task, arg);
        return;
    }
#ifdef _OPENMP
    if (threads > 1) {
        openmp_for((int32_t)threads, count, task, arg);
        return;
    }
#endif
    for (int64_t i = 0; i < count; i++) {
        task(arg, i, 0);
    }
}

// -------------------------------------------------------------------------------------------------
// Log

void attn_log(const attn_context_t *context, attn_log_level_t level, const char *format, ...)
{
    if (context->config.log == NULL || level > context->config.log_level) {
        return;
    }
    char text[ATTN_ERROR_TEXT_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    context->config.log(context->config.log_user, level, text);
}

// -------------------------------------------------------------------------------------------------
// Making

void attn_context_config_init_sized(attn_context_config_t *config, size_t struct_size)
{
    if (config == NULL) {
        return;
    }
    const attn_context_config_t full = {
        .isa = ATTN_ISA_AUTO,
        .log_level = ATTN_LOG_WARNING,
    };
    attn_export(config, struct_size, &full, sizeof(full));
}

static attn_status_t check_config(const attn_context_config_t *config)
{
    ATTN_RETURN_IF((size_t)config->isa >= ATTN_ISA_COUNT, ATTN_INVALID_ARGUMENT,
                   "isa: %d, expected an attn_isa_t", (int)config->isa);
    ATTN_RETURN_IF(!attn_isa_available(config->isa), ATTN_NO_DEVICE,
                   "isa: %s, this machine and build go up to %s", attn_isa_name(config->isa),
                   attn_isa_name(attn_cpu_best_isa()));
    ATTN_RETURN_IF(config->workers < 0 || config->workers > CONTEXT_WORKERS_MAX,
                   ATTN_INVALID_ARGUMENT, "workers: %d, expected 0 .. %d", (int)config->workers,
                   CONTEXT_WORKERS_MAX);
    ATTN_RETURN_IF(config->parallel_for != NULL && config->workers < 1, ATTN_INVALID_ARGUMENT,
                   "workers: 0, expected the number of workers of parallel_for");
    ATTN_RETURN_IF((config->alloc == NULL) != (config->free == NULL), ATTN_INVALID_ARGUMENT,
                   "%s: NULL, expected alloc and free together or neither",
                   config->alloc == NULL ? "alloc" : "free");
    ATTN_RETURN_IF(config->log_level < ATTN_LOG_ERROR || config->log_level > ATTN_LOG_INFO,
                   ATTN_INVALID_ARGUMENT, "log_level: %d, expected an attn_log_level_t",
                   (int)config->log_level);
    return ATTN_OK;
}

// Fills a context from a checked config and the environment's limit.
static void context_fill(attn_context_t *context, const attn_context_config_t *config,
                         attn_isa_t limit)
{
    atomic_init(&context->references, 1);
    context->config = *config;
    if (config->alloc == NULL) {
        context->config.alloc = default_alloc;
        context->config.free = default_free;
    }
    context->isa = isa_lower(isa_lower(config->isa, limit), attn_cpu_best_isa());
    context->workers = resolve_workers(config);
    context->has_bad_environment = 0;
}

attn_status_t attn_context_create(const attn_context_config_t *config, attn_context_t **context_out)
{
    ATTN_RETURN_IF(context_out == NULL, ATTN_INVALID_ARGUMENT, "context_out: NULL");
    *context_out = NULL;
    attn_context_config_t full;
    attn_context_config_init(&full);
    if (config != NULL) {
        ATTN_FORWARD_ERROR(attn_import("config", &full, sizeof(full), config));
    }
    ATTN_FORWARD_ERROR(check_config(&full));
    attn_isa_t limit;
    ATTN_FORWARD_ERROR(isa_from_environment(&limit));

    attn_context_t filled;
    context_fill(&filled, &full, limit);
    attn_context_t *context = attn_context_alloc(&filled, sizeof(*context));
    ATTN_RETURN_IF(context == NULL, ATTN_OUT_OF_MEMORY, "context: no memory for %zu bytes",
                   sizeof(*context));
    context_fill(context, &full, limit);
    *context_out = context;
    return ATTN_OK;
}

void attn_context_retain(attn_context_t *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void attn_context_destroy(attn_context_t *context)
{
    if (context == NULL) {
        return;
    }
    // Release and acquire: what every other owner did with the context happens before it is freed.
    if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) == 1) {
        const attn_context_t last = {.config = context->config};
        attn_context_free(&last, context);
    }
}

// -------------------------------------------------------------------------------------------------
// The default context

enum { DEFAULT_NONE, DEFAULT_BEING_MADE, DEFAULT_READY };

static attn_context_t default_context; // its first reference is never given back
static atomic_int default_state = DEFAULT_NONE;

static void default_fill(void)
{
    attn_context_config_t config;
    attn_context_config_init(&config);
    attn_error_text_t saved;
    attn_error_save(&saved);
    attn_isa_t limit;
    const attn_status_t status = isa_from_environment(&limit);
    attn_error_restore(&saved);
    context_fill(&default_context, &config, limit);
    default_context.has_bad_environment = status != ATTN_OK;
}

const attn_context_t *attn_context_resolve(const attn_context_t *context)
{
    if (context != NULL) {
        return context;
    }
    int state = DEFAULT_NONE;
    if (atomic_load_explicit(&default_state, memory_order_acquire) == DEFAULT_READY) {
        return &default_context;
    }
    if (atomic_compare_exchange_strong(&default_state, &state, DEFAULT_BEING_MADE)) {
        default_fill();
        atomic_store_explicit(&default_state, DEFAULT_READY, memory_order_release);
    }
    // Another thread may be at it: some microseconds, once in the life of the process.
    while (atomic_load_explicit(&default_state, memory_order_acquire) != DEFAULT_READY) {
    }
    return &default_context;
}

attn_status_t attn_context_check(const attn_context_t *context)
{
    ATTN_RETURN_IF(context->has_bad_environment, ATTN_INVALID_ARGUMENT,
                   "environment variable ATTN_ISA: unknown name when the default context was made, "
                   "expected one of" ISA_TEXTS);
    return ATTN_OK;
}

attn_isa_t attn_context_isa(const attn_context_t *context)
{
    return attn_context_resolve(context)->isa;
}

int32_t attn_context_workers(const attn_context_t *context)
{
    return attn_context_resolve(context)->workers;
}
