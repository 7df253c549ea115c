// Collecting a kernel's texts. An #include names its file relative to the file that it stands in;
// it is resolved here, once, and handed to NVRTC under the words of the #include, since NVRTC has
// no folders. That works because file names are unique in the tree (the lint sees to it): the same
// words never mean two files.
#include "kernel_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "environment.h"

#define PATH_BYTES 512
// Larger than any kernel: what a folder holds is read with a limit.
#define TEXT_BYTES_MAX ((size_t)1 << 20)

static void *keep(attn_source_set_t *set, void *memory)
{
    if (memory != NULL) {
        set->memory[set->memory_count++] = memory;
    }
    return memory;
}

// -------------------------------------------------------------------------------------------------
// One text

static const char *embedded_text(const char *path)
{
    for (int32_t i = 0; i < attn_embedded_source_count; i++) {
        if (strcmp(attn_embedded_sources[i].path, path) == 0) {
            return attn_embedded_sources[i].text;
        }
    }
    return NULL;
}

static attn_status_t read_text(attn_source_set_t *set, const char *folder, const char *path,
                               const char **text_out)
{
    char full[2 * PATH_BYTES];
    (void)snprintf(full, sizeof(full), "%s/%s", folder, path);
    FILE *const file = fopen(full, "rb");
    ATTN_RETURN_IF(file == NULL, ATTN_IO_ERROR, "ATTN_KERNEL_SOURCE: %s: %s", full,
                   strerror(errno));
    char *const text = malloc(TEXT_BYTES_MAX);
    if (text == NULL) {
        (void)fclose(file);
        return attn_fail(ATTN_OUT_OF_MEMORY, "%s: no memory for its text", full);
    }
    const size_t bytes = fread(text, 1, TEXT_BYTES_MAX - 1, file);
    const int failed = ferror(file) || !feof(file);
    (void)fclose(file);
    text[bytes] = '\0';
    // Texts are small and live shortly: the memory that was not needed may go at once.
    char *const fitted = realloc(text, bytes + 1);
    *text_out = keep(set, fitted != NULL ? fitted : text);
    ATTN_RETURN_IF(failed, ATTN_IO_ERROR, "ATTN_KERNEL_SOURCE: %s: cannot be read, or is too long",
                   full);
    return ATTN_OK;
}

static attn_status_t find_text(attn_source_set_t *set, const char *path, const char **text_out)
{
    const char *const folder = attn_environment("ATTN_KERNEL_SOURCE");
    if (folder != NULL) {
        return read_text(set, folder, path, text_out);
    }
    *text_out = embedded_text(path);
    ATTN_RETURN_IF(*text_out == NULL, ATTN_INTERNAL_ERROR, "kernel text %s: not in this library",
                   path);
    return ATTN_OK;
}

// -------------------------------------------------------------------------------------------------
// Includes

// The path that an #include in the file `from` means, without "." and "..": 0 if it leaves src or
// is too long.
static int resolve(const char *from, const char *words, size_t words_bytes, char path[PATH_BYTES])
{
    const char *const slash = strrchr(from, '/');
    size_t used = slash == NULL ? 0 : (size_t)(slash - from);
    if (used + words_bytes + 2 > PATH_BYTES) {
        return 0;
    }
    memcpy(path, from, used);
    const char *const end = words + words_bytes;
    while (words < end) {
        const char *const cut = memchr(words, '/', (size_t)(end - words));
        const size_t bytes = (size_t)((cut != NULL ? cut : end) - words);
        if (bytes == 2 && memcmp(words, "..", 2) == 0) {
            if (used == 0) {
                return 0;
            }
            while (used > 0 && path[used - 1] != '/') {
                used--;
            }
            used -= used > 0;
        } else if (bytes > 0 && !(bytes == 1 && words[0] == '.')) {
            if (used > 0) {
                path[used++] = '/';
            }
            memcpy(path + used, words, bytes);
            used += bytes;
        }
        words += bytes + (cut != NULL);
    }
    path[used] = '\0';
    return used > 0;
}

// The next line of text that includes one of our own files: its words and where to go on.
static const char *next_include(const char *text, const char **words_out, size_t *bytes_out)
{
    while (*text != '\0') {
        const char *at = text + strspn(text, " \t");
        text += strcspn(text, "\n");
        text += *text == '\n';
        if (*at != '#') {
            continue;
        }
        at += 1 + strspn(at + 1, " \t");
        if (strncmp(at, "include", 7) != 0) {
            continue;
        }
        at += 7 + strspn(at + 7, " \t");
        const size_t bytes = *at == '"' ? strcspn(at + 1, "\"\n") : 0;
        if (bytes > 0 && at[1 + bytes] == '"') {
            *words_out = at + 1;
            *bytes_out = bytes;
            return text;
        }
    }
    return NULL;
}

static int is_known(const attn_source_set_t *set, const char *words, size_t bytes)
{
    for (int32_t i = 0; i < set->count; i++) {
        if (strlen(set->list[i].path) == bytes && memcmp(set->list[i].path, words, bytes) == 0) {
            return 1;
        }
    }
    return 0;
}

// Adds a file under the words that ask for it.
static attn_status_t add(attn_source_set_t *set, const char *words, size_t bytes, const char *path)
{
    ATTN_RETURN_IF(set->count == ATTN_SOURCES_MAX, ATTN_INTERNAL_ERROR,
                   "kernel text %s: more than %d files", path, ATTN_SOURCES_MAX);
    char *const name = keep(set, strndup(words, bytes));
    ATTN_RETURN_IF(name == NULL, ATTN_OUT_OF_MEMORY, "kernel text %s: no memory", path);
    const char *text;
    ATTN_FORWARD_ERROR(find_text(set, path, &text));
    set->list[set->count++] = (attn_source_t){.path = name, .text = text};
    return ATTN_OK;
}

attn_status_t attn_source_collect(const char *path, attn_source_set_t *set_out)
{
    memset(set_out, 0, sizeof(*set_out));
    // Where each text of the set lies, for what it includes in turn.
    static _Thread_local char paths[ATTN_SOURCES_MAX][PATH_BYTES];
    ATTN_RETURN_IF(!resolve("", path, strlen(path), paths[0]), ATTN_INTERNAL_ERROR,
                   "kernel text %s: no such path", path);
    ATTN_FORWARD_ERROR(add(set_out, path, strlen(path), paths[0]));
    for (int32_t i = 0; i < set_out->count; i++) {
        const char *words;
        size_t bytes;
        const char *rest = set_out->list[i].text;
        while ((rest = next_include(rest, &words, &bytes)) != NULL) {
            if (is_known(set_out, words, bytes)) {
                continue;
            }
            char resolved[PATH_BYTES];
            ATTN_RETURN_IF(!resolve(paths[i], words, bytes, resolved), ATTN_INTERNAL_ERROR,
                           "kernel text %s: includes \"%.*s\"", paths[i], (int)bytes, words);
            ATTN_FORWARD_ERROR(add(set_out, words, bytes, resolved));
            memcpy(paths[set_out->count - 1], resolved, PATH_BYTES);
        }
    }
    return ATTN_OK;
}

void attn_source_clear(attn_source_set_t *set)
{
    for (int32_t i = 0; i < set->memory_count; i++) {
        free(set->memory[i]);
    }
    memset(set, 0, sizeof(*set));
}
