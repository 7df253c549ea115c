// io_scratch.h: a scratch folder and a few file helpers for the tests of tools/io.
#ifndef ATTN_TESTS_IO_SCRATCH_H
#define ATTN_TESTS_IO_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCRATCH_PATH_BYTES = 512 };

struct scratch {
    char folder[SCRATCH_PATH_BYTES / 2];
};

// Fixtures for cmocka: *state is a struct scratch with a new folder.
static inline int scratch_setup(void **state)
{
    static struct scratch scratch;
    const char *base = getenv("TMPDIR");
    snprintf(scratch.folder, sizeof(scratch.folder), "%s/attn-test-XXXXXX", base ? base : "/tmp");
    *state = &scratch;
    return mkdtemp(scratch.folder) ? 0 : -1;
}

// Number of entries in the scratch folder, hidden ones too; removes them if asked.
static inline int scratch_entries(void **state, int remove_them)
{
    const struct scratch *scratch = *state;
    DIR *folder = opendir(scratch->folder);
    assert_non_null(folder);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char path[SCRATCH_PATH_BYTES + 256];
            snprintf(path, sizeof(path), "%s/%s", scratch->folder, entry->d_name);
            n++;
            if (remove_them && unlink(path)) {
                rmdir(path);
            }
        }
    }
    closedir(folder);
    return n;
}

static inline int scratch_teardown(void **state)
{
    const struct scratch *scratch = *state;
    scratch_entries(state, 1);
    return rmdir(scratch->folder);
}

// folder/name, in one of four static buffers.
static inline const char *scratch_path(void **state, const char *name)
{
    static char paths[4][SCRATCH_PATH_BYTES];
    static int next;
    const struct scratch *scratch = *state;
    char *path = paths[next++ % 4];
    snprintf(path, SCRATCH_PATH_BYTES, "%s/%s", scratch->folder, name);
    return path;
}

static inline void scratch_write(const char *path, const void *data, size_t bytes)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(data, 1, bytes, stream), bytes);
    assert_int_equal(fclose(stream), 0);
}

// The content of a small file, with a terminator, in a static buffer.
static inline const char *scratch_content(const char *path)
{
    static char content[1 << 16];
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t got = fread(content, 1, sizeof(content) - 1, stream);
    content[got] = '\0';
    fclose(stream);
    return content;
}

// Everything the stream's writer put there so far, in a static buffer; closes it. Use with tmpfile.
static inline const char *stream_content(FILE *stream)
{
    static char content[1 << 16];
    rewind(stream);
    const size_t got = fread(content, 1, sizeof(content) - 1, stream);
    content[got] = '\0';
    fclose(stream);
    return content;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part))) {                                                             \
            fail_msg("'%s' does not contain '%s'", (text), (part));                                \
        }                                                                                          \
    } while (0)

#endif
