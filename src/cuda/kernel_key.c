// Building keys: a line that announces each part with its length, so that no two lists of parts
// give the same text.
#include "kernel_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

// Appends, or with text NULL only counts.
typedef struct key_writer {
    char *text;
    size_t bytes;
} key_writer_t;

static void add_part(key_writer_t *writer, const char *kind, const char *name, const char *part)
{
    char line[640];
    const size_t part_bytes = strlen(part);
    const int line_bytes = snprintf(line, sizeof(line), "%s %.500s %zu\n", kind, name, part_bytes);
    if (writer->text != NULL) {
        memcpy(writer->text + writer->bytes, line, (size_t)line_bytes);
        memcpy(writer->text + writer->bytes + line_bytes, part, part_bytes);
    }
    writer->bytes += (size_t)line_bytes + part_bytes;
}

static void add_all(key_writer_t *writer, const attn_kernel_request_t *request,
                    const attn_source_set_t *sources)
{
    add_part(writer, "arch", "", request->arch);
    for (int32_t i = 0; i < request->option_count; i++) {
        add_part(writer, "option", "", request->options[i]);
    }
    add_part(writer, "prologue", request->name, request->prologue);
    for (int32_t i = 0; i < sources->count; i++) {
        add_part(writer, "source", sources->list[i].path, sources->list[i].text);
    }
}

attn_status_t attn_kernel_key_make(const attn_kernel_request_t *request,
                                   const attn_source_set_t *sources, attn_kernel_key_t *key_out)
{
    *key_out = (attn_kernel_key_t){0};
    key_writer_t counter = {0};
    add_all(&counter, request, sources);
    key_writer_t writer = {.text = malloc(counter.bytes)};
    ATTN_RETURN_IF(writer.text == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory for %zu bytes",
                   request->name, counter.bytes);
    add_all(&writer, request, sources);
    key_out->text = writer.text;
    key_out->bytes = writer.bytes;
    attn_sha256_t sha;
    attn_sha256_init(&sha);
    attn_sha256_add(&sha, key_out->text, key_out->bytes);
    attn_sha256_end(&sha, key_out->hash);
    return ATTN_OK;
}

void attn_kernel_key_free(attn_kernel_key_t *key)
{
    free(key->text);
    *key = (attn_kernel_key_t){0};
}
