// Reading and writing the cache folder. Files are named HASH-COMPILER.kernel; the hash is of the
// key, which is compared in full after the file was parsed.
#include "cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../core/status.h"
#include "environment.h"
#include "trusted_file.h"

#define ENTRY_BYTES_MAX ((off_t)64 << 20)
#define SUFFIX ".kernel"
// The time of last use need not be exact, and writing it costs: an hour is close enough.
#define USED_STEP_S 3600

enum { NAME_BYTES = 2 * ATTN_SHA256_BYTES + 32 };

// -------------------------------------------------------------------------------------------------
// The folder

static int join(char out[ATTN_CACHE_PATH_BYTES], const char *folder, const char *below)
{
    const int bytes = snprintf(out, ATTN_CACHE_PATH_BYTES, "%s%s", folder, below);
    return bytes > 0 && bytes < ATTN_CACHE_PATH_BYTES && out[0] == '/';
}

int attn_cache_path(char path_out[ATTN_CACHE_PATH_BYTES])
{
    static const struct {
        const char *variable;
        const char *below;
    } places[] = {{"XDG_CACHE_HOME", "/libattn"}, {"HOME", "/.cache/libattn"}};
    const char *const named = attn_environment("ATTN_CACHE");
    if (named != NULL) {
        return join(path_out, named, "");
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *const folder = attn_environment(places[i].variable);
        if (folder != NULL && join(path_out, folder, places[i].below)) {
            return 1;
        }
    }
    return 0;
}

static void make_folders(const char *path)
{
    char part[ATTN_CACHE_PATH_BYTES];
    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0700);
        *slash = '/';
    }
    (void)mkdir(part, 0700);
}

int attn_cache_open(const char *path, const char **reason_out)
{
    *reason_out = NULL;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        *reason_out = errno == ENOENT                      ? NULL
                      : errno == ELOOP || errno == ENOTDIR ? "is a link or no folder"
                                                           : strerror(errno);
        return -1;
    }
    struct stat status;
    *reason_out = fstat(folder, &status) != 0 ? strerror(errno) : attn_untrusted(&status);
    if (*reason_out != NULL) {
        (void)close(folder);
        return -1;
    }
    return folder;
}

// A program that makes a thousand plans is told once.
static void warn_once(const attn_context_t *context, const char *path, const char *reason)
{
    static atomic_int said;
    if (atomic_exchange(&said, 1) == 0) {
        attn_log(context, ATTN_LOG_WARNING, "kernel cache: %s: %s; kernels are kept in memory only",
                 path, reason);
    }
}

// -------------------------------------------------------------------------------------------------
// Reading

const char *attn_cache_read(int folder, const char *name, int is_use, attn_cache_hit_t *hit_out)
{
    struct stat status;
    const char *reason;
    hit_out->data = NULL;
    const int file = attn_trusted_open(folder, name, 0, &status, &reason);
    if (file < 0) {
        return reason != NULL ? reason : "";
    }
    if (status.st_size > ENTRY_BYTES_MAX) {
        (void)close(file);
        return "too long for a compiled kernel";
    }
    hit_out->data = attn_trusted_read(file, 0, (size_t)status.st_size);
    reason = hit_out->data == NULL
                 ? "cannot be read"
                 : attn_kernel_entry_parse(hit_out->data, (size_t)status.st_size, &hit_out->entry);
    if (reason != NULL) {
        free(hit_out->data);
        hit_out->data = NULL;
    } else if (is_use && status.st_mtime + USED_STEP_S < time(NULL)) {
        (void)futimens(file, NULL);
    }
    (void)close(file);
    return reason;
}

static int is_wanted(const attn_kernel_entry_t *entry, const attn_kernel_key_t *key,
                     int32_t compiler)
{
    return (compiler == 0 || entry->compiler == compiler) && entry->key_bytes == key->bytes &&
           memcmp(entry->key, key->text, key->bytes) == 0;
}

static void file_name(const attn_kernel_key_t *key, int32_t compiler, char name_out[NAME_BYTES])
{
    char hex[2 * ATTN_SHA256_BYTES + 1];
    attn_sha256_hex(key->hash, hex);
    (void)snprintf(name_out, NAME_BYTES, "%s-%d" SUFFIX, hex, (int)compiler);
}

static int try_file(const attn_context_t *context, int folder, const char *name,
                    const attn_kernel_key_t *key, int32_t compiler, attn_cache_hit_t *hit_out)
{
    const char *reason = attn_cache_read(folder, name, 1, hit_out);
    if (reason == NULL && !is_wanted(&hit_out->entry, key, compiler)) {
        free(hit_out->data);
        hit_out->data = NULL;
        reason = "holds another kernel than its name says";
    }
    if (reason != NULL && reason[0] != '\0') {
        attn_log(context, ATTN_LOG_WARNING, "kernel cache: %s: %s; it is not used", name, reason);
    }
    return reason == NULL;
}

// The kernel by whichever compiler: the folder is read from end to end.
static int find_any(const attn_context_t *context, int folder, const attn_kernel_key_t *key,
                    attn_cache_hit_t *hit_out)
{
    char hex[2 * ATTN_SHA256_BYTES + 1];
    attn_sha256_hex(key->hash, hex);
    const int again = dup(folder);
    DIR *const list = again < 0 ? NULL : fdopendir(again);
    if (list == NULL) {
        (void)close(again);
        return 0;
    }
    int is_found = 0;
    for (struct dirent *file; !is_found && (file = readdir(list)) != NULL;) {
        is_found = strncmp(file->d_name, hex, sizeof(hex) - 1) == 0 &&
                   try_file(context, folder, file->d_name, key, 0, hit_out);
    }
    (void)closedir(list);
    return is_found;
}

int attn_cache_find(const attn_context_t *context, const attn_kernel_key_t *key, int32_t compiler,
                    attn_cache_hit_t *hit_out)
{
    char path[ATTN_CACHE_PATH_BYTES];
    if (!attn_cache_path(path)) {
        return 0;
    }
    const char *reason;
    const int folder = attn_cache_open(path, &reason);
    if (folder < 0) {
        if (reason != NULL) {
            warn_once(context, path, reason);
        }
        return 0;
    }
    char name[NAME_BYTES];
    file_name(key, compiler, name);
    const int is_found = compiler == 0 ? find_any(context, folder, key, hit_out)
                                       : try_file(context, folder, name, key, compiler, hit_out);
    (void)close(folder);
    return is_found;
}

// -------------------------------------------------------------------------------------------------
// Writing

static int write_all(int file, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t done = write(file, data, bytes);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            errno = done == 0 ? ENOSPC : errno;
            return -1;
        }
        data += done;
        bytes -= (size_t)done;
    }
    return 0;
}

// Writes a whole file or none. NULL, or what failed.
static const char *write_file(int folder, const char *name, const void *data, size_t bytes)
{
    static atomic_uint counter;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    char temporary[NAME_BYTES];
    (void)snprintf(temporary, sizeof(temporary), ATTN_CACHE_TEMPORARY "%ld-%u-%ld", (long)getpid(),
                   atomic_fetch_add(&counter, 1), now.tv_nsec);
    const int file =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        return strerror(errno);
    }
    // On the disk before the name is: else a crash of the machine could leave the name alone.
    int error = write_all(file, data, bytes) != 0 || fsync(file) != 0 ? errno : 0;
    error = close(file) != 0 && error == 0 ? errno : error;
    if (error == 0 && renameat(folder, temporary, folder, name) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlinkat(folder, temporary, 0);
        return strerror(error);
    }
    (void)fsync(folder);
    return NULL;
}

void attn_cache_keep(const attn_context_t *context, const attn_kernel_key_t *key,
                     const attn_kernel_entry_t *entry)
{
    char path[ATTN_CACHE_PATH_BYTES];
    if (!attn_cache_path(path)) {
        const char *const named = attn_environment("ATTN_CACHE");
        if (named == NULL || strcmp(named, "off") != 0) {
            warn_once(context, "ATTN_CACHE, XDG_CACHE_HOME, HOME",
                      "none is set to an absolute path");
        }
        return;
    }
    const size_t bytes = attn_kernel_entry_bytes(entry);
    void *const data = malloc(bytes);
    if (data == NULL) {
        warn_once(context, path, "no memory");
        return;
    }
    attn_kernel_entry_write(entry, data);
    make_folders(path);
    const char *reason;
    const int folder = attn_cache_open(path, &reason);
    if (folder < 0) {
        reason = reason != NULL ? reason : "cannot be made";
    } else {
        char name[NAME_BYTES];
        file_name(key, entry->compiler, name);
        reason = write_file(folder, name, data, bytes);
        (void)close(folder);
    }
    free(data);
    if (reason != NULL) {
        warn_once(context, path, reason);
    }
}
