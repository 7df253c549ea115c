// Showing and trimming the cache folder: what attn_kernels_visit and attn_cache_trim do. Plans have
// no part in it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../core/status.h"
#include "cache_folder.h"

// A writer needs less than a second; one that takes an hour is dead.
#define WRITER_S 3600

static attn_status_t open_to_list(int *folder_out, DIR **list_out)
{
    char path[ATTN_CACHE_PATH_BYTES];
    *list_out = NULL;
    *folder_out = -1;
    if (!attn_cache_path(path)) {
        return ATTN_OK;
    }
    const char *reason;
    const int folder = attn_cache_open(path, &reason);
    ATTN_RETURN_IF(folder < 0 && reason != NULL, ATTN_IO_ERROR, "kernel cache: %s: %s", path,
                   reason);
    if (folder < 0) {
        return ATTN_OK;
    }
    const int again = dup(folder);
    *list_out = again < 0 ? NULL : fdopendir(again);
    if (*list_out == NULL) {
        (void)close(again);
        (void)close(folder);
        return attn_fail(ATTN_IO_ERROR, "kernel cache: %s: %s", path, strerror(errno));
    }
    *folder_out = folder;
    return ATTN_OK;
}

static void visit_file(int folder, const char *name, attn_kernel_visit_fn visit, void *user)
{
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    const int is_temporary = strncmp(name, ATTN_CACHE_TEMPORARY, strlen(ATTN_CACHE_TEMPORARY)) == 0;
    if (is_temporary && status.st_mtime + WRITER_S >= time(NULL)) {
        return;
    }
    attn_cache_hit_t hit = {0};
    const char *const fault =
        is_temporary ? "left by a writer that was killed" : attn_cache_read(folder, name, 0, &hit);
    const attn_kernel_info_t info = {
        .struct_size = sizeof(info),
        .file = name,
        .name = fault == NULL ? hit.entry.name : "",
        .arch = fault == NULL ? hit.entry.arch : "",
        .compiler = fault == NULL ? hit.entry.compiler : 0,
        .bytes = (int64_t)status.st_size,
        .used_s = (int64_t)status.st_mtime,
        .fault = fault,
    };
    if (fault == NULL || fault[0] != '\0') {
        visit(user, &info);
    }
    free(hit.data);
}

attn_status_t attn_cache_visit(attn_kernel_visit_fn visit, void *user)
{
    int folder;
    DIR *list;
    ATTN_FORWARD_ERROR(open_to_list(&folder, &list));
    for (struct dirent *file; list != NULL && (file = readdir(list)) != NULL;) {
        if (strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0) {
            visit_file(folder, file->d_name, visit, user);
        }
    }
    if (list != NULL) {
        (void)closedir(list);
        (void)close(folder);
    }
    return ATTN_OK;
}

// -------------------------------------------------------------------------------------------------
// Trimming

typedef struct row {
    char name[256];
    int64_t bytes;
    int64_t used_s;
} row_t;

typedef struct row_list {
    row_t *rows;
    size_t count;
    size_t room;
    int has_failed;
} row_list_t;

static void collect_row(void *user, const attn_kernel_info_t *info)
{
    row_list_t *const list = user;
    if (list->count == list->room) {
        const size_t room = 2 * list->room + 64;
        row_t *const rows = realloc(list->rows, room * sizeof(*rows));
        if (rows == NULL) {
            list->has_failed = 1;
            return;
        }
        list->rows = rows;
        list->room = room;
    }
    row_t *const row = &list->rows[list->count++];
    memset(row, 0, sizeof(*row));
    memcpy(row->name, info->file, strnlen(info->file, sizeof(row->name) - 1));
    row->bytes = info->bytes;
    // Damaged files are the first to go.
    row->used_s = info->fault == NULL ? info->used_s : INT64_MIN;
}

static int by_use(const void *a, const void *b)
{
    const int64_t x = ((const row_t *)a)->used_s;
    const int64_t y = ((const row_t *)b)->used_s;
    return (x > y) - (x < y);
}

static attn_status_t remove_rows(const row_list_t *list, int64_t max_bytes, int64_t *removed_out)
{
    char path[ATTN_CACHE_PATH_BYTES];
    const char *reason = NULL;
    const int folder = attn_cache_path(path) ? attn_cache_open(path, &reason) : -1;
    int64_t bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        bytes += list->rows[i].bytes;
    }
    for (size_t i = 0; i < list->count && folder >= 0; i++) {
        const row_t *const row = &list->rows[i];
        if (bytes <= max_bytes && row->used_s != INT64_MIN) {
            break;
        }
        if (unlinkat(folder, row->name, 0) != 0 && errno != ENOENT) {
            const int error = errno;
            (void)close(folder);
            return attn_fail(ATTN_IO_ERROR, "kernel cache: %s/%s: %s", path, row->name,
                             strerror(error));
        }
        bytes -= row->bytes;
        *removed_out += 1;
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    return ATTN_OK;
}

attn_status_t attn_cache_trim_to(int64_t max_bytes, int64_t *removed_out)
{
    *removed_out = 0;
    row_list_t list = {0};
    attn_status_t status = attn_cache_visit(collect_row, &list);
    if (status == ATTN_OK && list.has_failed) {
        status = attn_fail(ATTN_OUT_OF_MEMORY, "kernel cache: no memory for its list");
    }
    if (status == ATTN_OK && list.count > 0) {
        qsort(list.rows, list.count, sizeof(*list.rows), by_use);
        status = remove_rows(&list, max_bytes, removed_out);
    }
    free(list.rows);
    return status;
}
