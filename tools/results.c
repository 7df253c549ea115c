// results.c: see results.h.
#include "results.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array_load.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/safetensors.h"

static const char npy_extension[] = ".npy";

static bool ends_with(const char *text, const char *ending)
{
    const size_t text_len = strlen(text);
    const size_t len = strlen(ending);
    return text_len >= len && strcmp(text + text_len - len, ending) == 0;
}

// The folder must exist and take files. Races are left to the write itself: this saves the user
// from computing for minutes first.
static int check_folder(const char *path, struct io_error *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t len = slash ? (size_t)(slash - path) + 1 : 1;
    if (len >= sizeof(folder)) {
        return io_fail(err, "%s: path too long", path);
    }
    memcpy(folder, slash ? path : ".", len);
    folder[len] = 0;
    if (access(folder, W_OK | X_OK)) {
        return io_fail(err, "%s: cannot write into %s: %s", path, folder, strerror(errno));
    }
    return 0;
}

static int check_one(const char *spec, struct io_error *err)
{
    const char *name;
    bool is_safetensors;
    char *path = array_split_spec(spec, &name, &is_safetensors);
    if (!path) {
        return io_fail(err, "%s: out of memory", spec);
    }
    int status = 0;
    if (!is_safetensors && !ends_with(path, npy_extension) && strncmp(path, "/dev/", 5) != 0) {
        status = io_fail(err, "%s: expected a name ending in .npy or .safetensors", spec);
    } else {
        status = strncmp(path, "/dev/", 5) == 0 ? 0 : check_folder(path, err);
    }
    free(path);
    return status;
}

int results_check(const struct result *results, size_t n, struct io_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (results[i].spec && check_one(results[i].spec, err)) {
            return -1;
        }
    }
    return 0;
}

// Everything that goes to path, in one .safetensors file.
static int write_safetensors(FILE *stream, const char *path, const struct result *results, size_t n,
                             struct io_error *err)
{
    struct io_tensor tensors[RESULTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name;
        bool is_safetensors;
        char *other =
            results[i].spec ? array_split_spec(results[i].spec, &name, &is_safetensors) : NULL;
        if (other && strcmp(other, path) == 0) {
            // A borrowed view: only the name differs.
            tensors[count] = *results[i].tensor;
            tensors[count++].name = (char *)(name ? name : results[i].name);
        }
        free(other);
    }
    return io_safetensors_write(stream, path, tensors, count, NULL, 0, err);
}

// Whether an earlier result goes to the same path: then it has written this one already.
static bool is_written(const struct result *results, size_t i, const char *path)
{
    for (size_t j = 0; j < i; j++) {
        const size_t len = strlen(path);
        const char *spec = results[j].spec;
        if (spec && strncmp(spec, path, len) == 0 && (spec[len] == 0 || spec[len] == ':')) {
            return true;
        }
    }
    return false;
}

static int write_one(struct io_batch *batch, const struct result *results, size_t n, size_t i,
                     struct io_error *err)
{
    const char *name;
    bool is_safetensors;
    char *path = array_split_spec(results[i].spec, &name, &is_safetensors);
    if (!path) {
        return io_fail(err, "%s: out of memory", results[i].spec);
    }
    int status = 0;
    if (!is_safetensors || !is_written(results, i, path)) {
        FILE *stream = io_batch_open(batch, path, err);
        if (!stream) {
            status = -1;
        } else if (is_safetensors) {
            status = write_safetensors(stream, path, results, n, err);
        } else {
            status = io_npy_write(stream, path, results[i].tensor, err);
        }
    }
    free(path);
    return status;
}

int results_write(const struct result *results, size_t n, struct io_error *err)
{
    struct io_batch *batch = NULL;
    int status = io_batch_create(&batch, err);
    for (size_t i = 0; i < n && !status; i++) {
        if (results[i].spec) {
            status = write_one(batch, results, n, i, err);
        }
    }
    status = status ? status : io_batch_commit(batch, err);
    io_batch_destroy(batch);
    return status;
}
