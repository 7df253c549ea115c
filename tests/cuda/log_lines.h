// A context whose log is kept, for tests that ask what was said.
#ifndef ATTN_TESTS_CUDA_LOG_LINES_H
#define ATTN_TESTS_CUDA_LOG_LINES_H

#include <stdio.h>
#include <string.h>

#include "core/context.h"

static char log_text[1 << 16];

static inline void keep_line(void *user, attn_log_level_t level, const char *text)
{
    (void)user;
    const size_t used = strlen(log_text);
    (void)snprintf(log_text + used, sizeof(log_text) - used, "%d %s\n", (int)level, text);
}

// Everything down to ATTN_LOG_INFO is kept, "LEVEL TEXT\n" each; lives as long as the process.
static inline const attn_context_t *logging_context(void)
{
    static attn_context_t *context;
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.log = keep_line;
    config.log_level = ATTN_LOG_INFO;
    if (context == NULL && attn_context_create(&config, &context) != ATTN_OK) {
        return NULL;
    }
    return context;
}

#endif
