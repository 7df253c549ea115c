// batch.c: output files that appear complete and together, or not at all (file.h has the API).
//
//     open     destination resolved; temporary created beside it, exclusively
//     commit   1. every stream flushed, synced, closed      an error here leaves no trace
//              2. held-back bytes copied to devices         cannot be undone: after all of 1
//              3. every temporary renamed, folders synced   each rename is atomic
//     destroy  temporaries that are left are unlinked
//
// A signal that kills the process can leave a temporary (".attn-*.tmp") but never a broken output.
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEMP_NAME_ATTEMPTS = 100, COPY_BYTES = 1 << 16 };

struct output {
    char *path;   // as the caller wrote it, for texts
    char *target; // without links; NULL for a device
    char *temp;   // in target's folder; NULL once renamed, and for a device
    FILE *stream; // NULL once closed
};

struct io_batch {
    struct output *outputs;
    size_t n;
    bool committed;
};

int io_batch_create(struct io_batch **batch_out, struct io_error *err)
{
    *batch_out = calloc(1, sizeof(**batch_out));
    return *batch_out ? 0 : io_fail(err, "out of memory for a batch of output files");
}

static void output_discard(struct output *output)
{
    if (output->stream) {
        fclose(output->stream);
    }
    if (output->temp) {
        unlink(output->temp);
    }
    free(output->temp);
    free(output->target);
    free(output->path);
    *output = (struct output){0};
}

void io_batch_destroy(struct io_batch *batch)
{
    if (!batch) {
        return;
    }
    for (size_t i = 0; i < batch->n; i++) {
        output_discard(&batch->outputs[i]);
    }
    free(batch->outputs);
    free(batch);
}

// Names that stand for an open descriptor: replacing what they link to would be wrong even when
// that is a regular file, since the shell's `>>` means to keep its content.
static bool names_descriptor(const char *path)
{
    static const char *const prefixes[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

// "folder/name" in a new allocation, NULL when out of memory.
static char *join(const char *folder, const char *name)
{
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    char *joined = malloc(bytes);
    if (joined) {
        snprintf(joined, bytes, "%s/%s", strcmp(folder, "/") ? folder : "", name);
    }
    return joined;
}

// The real path of a file that need not exist yet, while its folder must.
static char *resolve_new(const char *path, struct io_error *err)
{
    struct stat link;
    if (lstat(path, &link) == 0) {
        io_fail(err, "%s: is a link to a file that does not exist", path);
        return NULL;
    }
    char *copy_for_folder = strdup(path);
    char *copy_for_name = strdup(path);
    char *target = NULL;
    if (!copy_for_folder || !copy_for_name) {
        io_fail(err, "%s: out of memory", path);
        goto free_copies;
    }
    const char *name = basename(copy_for_name);
    char *folder = realpath(dirname(copy_for_folder), NULL);
    if (!folder) {
        io_fail(err, "%s: cannot open its folder: %s", path, strerror(errno));
        goto free_copies;
    }
    // A path such as "new/" asks for a folder.
    if (path[0] == '\0' || path[strlen(path) - 1] == '/') {
        io_fail(err, "%s: does not name a file", path);
    } else if (!(target = join(folder, name))) {
        io_fail(err, "%s: out of memory", path);
    }
    free(folder);
free_copies:
    free(copy_for_folder);
    free(copy_for_name);
    return target;
}

// Creates a new file beside target with the wanted mode; descriptor, or -1 with errno set.
static int create_temp(const char *target, mode_t mode, char **temp_out)
{
    const char *slash = strrchr(target, '/'); // target is absolute
    const size_t folder_bytes = (size_t)(slash - target) + 1;
    char *temp = malloc(folder_bytes + 64);
    if (!temp) {
        return -1;
    }
    memcpy(temp, target, folder_bytes);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (unsigned attempt = 0; attempt < TEMP_NAME_ATTEMPTS; attempt++) {
        // Uniqueness comes from O_EXCL, the numbers only make a second attempt rare.
        snprintf(temp + folder_bytes, 64, ".attn-%lx-%lx-%u.tmp", (unsigned long)getpid(),
                 (unsigned long)now.tv_nsec, attempt);
        const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0) {
            *temp_out = temp;
            return fd;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    const int saved = errno;
    free(temp);
    errno = saved;
    return -1;
}

// Resolves output->path into target, or leaves target NULL for a device; *mode_out is the mode for
// the new file, *exists_out whether it replaces one.
static int find_target(struct output *output, bool *exists_out, mode_t *mode_out,
                       struct io_error *err)
{
    struct stat info;
    *mode_out = 0666;
    *exists_out = stat(output->path, &info) == 0;
    if (!*exists_out && errno != ENOENT) {
        return io_fail(err, "%s: cannot open for writing: %s", output->path, strerror(errno));
    }
    if (*exists_out && S_ISDIR(info.st_mode)) {
        return io_fail(err, "%s: is a folder, not a file", output->path);
    }
    if (*exists_out && access(output->path, W_OK)) {
        return io_fail(err, "%s: cannot open for writing: %s", output->path, strerror(errno));
    }
    if (*exists_out && (!S_ISREG(info.st_mode) || names_descriptor(output->path))) {
        return 0;
    }
    if (*exists_out) {
        *mode_out = info.st_mode & 0777;
        output->target = realpath(output->path, NULL);
        return output->target
                   ? 0
                   : io_fail(err, "%s: cannot resolve: %s", output->path, strerror(errno));
    }
    output->target = resolve_new(output->path, err);
    return output->target ? 0 : -1;
}

static int output_open(struct output *output, struct io_error *err)
{
    bool exists;
    mode_t mode;
    if (find_target(output, &exists, &mode, err)) {
        return -1;
    }
    if (!output->target) {
        output->stream = tmpfile();
    } else {
        const int fd = create_temp(output->target, mode, &output->temp);
        if (fd < 0) {
            return io_fail(err, "%s: cannot create a temporary file in its folder: %s",
                           output->path, strerror(errno));
        }
        // A replaced file keeps its mode, whatever the umask says.
        if (exists && fchmod(fd, mode)) {
            close(fd);
            return io_fail(err, "%s: cannot set the mode: %s", output->path, strerror(errno));
        }
        output->stream = fdopen(fd, "wb");
        if (!output->stream) {
            close(fd);
        }
    }
    return output->stream
               ? 0
               : io_fail(err, "%s: cannot open a stream: %s", output->path, strerror(errno));
}

FILE *io_batch_open(struct io_batch *batch, const char *path, struct io_error *err)
{
    if (batch->committed) {
        io_fail(err, "%s: opened after the commit of its batch", path);
        return NULL;
    }
    struct output *grown = realloc(batch->outputs, (batch->n + 1) * sizeof(*grown));
    if (!grown) {
        io_fail(err, "%s: out of memory", path);
        return NULL;
    }
    batch->outputs = grown;
    struct output *output = &grown[batch->n];
    *output = (struct output){.path = strdup(path)};
    if (!output->path) {
        io_fail(err, "%s: out of memory", path);
        return NULL;
    }
    if (output_open(output, err)) {
        output_discard(output);
        return NULL;
    }
    for (size_t i = 0; i < batch->n && output->target; i++) {
        if (grown[i].target && strcmp(grown[i].target, output->target) == 0) {
            io_fail(err, "%s: is the same output file as %s", path, grown[i].path);
            output_discard(output);
            return NULL;
        }
    }
    batch->n++;
    return output->stream;
}

// Commit, step 1, for a file: everything on disk under the temporary name.
static int output_finish(struct output *output, struct io_error *err)
{
    FILE *stream = output->stream;
    const bool broken = ferror(stream) != 0;
    errno = 0;
    bool failed = fflush(stream) != 0 || broken;
    failed = failed || (output->target && fsync(fileno(stream)) != 0);
    int reason = errno;
    if (output->target) {
        output->stream = NULL;
        if (fclose(stream) && !failed) {
            failed = true;
            reason = errno;
        }
    }
    if (failed) {
        return io_fail(err, "%s: cannot write: %s", output->path,
                       reason ? strerror(reason) : "an earlier write failed");
    }
    return 0;
}

// Commit, step 2, for a device: the bytes held back go out.
static int output_copy(struct output *output, struct io_error *err)
{
    const int fd = open(output->path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    FILE *device = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!device) {
        const int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        return io_fail(err, "%s: cannot open for writing: %s", output->path, strerror(reason));
    }
    unsigned char chunk[COPY_BYTES];
    size_t got;
    bool good = true;
    rewind(output->stream);
    while (good && (got = fread(chunk, 1, sizeof(chunk), output->stream)) > 0) {
        good = fwrite(chunk, 1, got, device) == got;
    }
    good = good && !ferror(output->stream);
    int reason = errno;
    if (fclose(device) && good) {
        good = false;
        reason = errno;
    }
    return good ? 0 : io_fail(err, "%s: cannot write: %s", output->path, strerror(reason));
}

// Makes the rename itself survive a power cut. Some file systems cannot sync a folder; the file is
// complete under either name then, so an error here is not one for the user.
static void sync_folder(char *target)
{
    char *slash = strrchr(target, '/'); // target is absolute
    *slash = '\0';
    const int fd = open(*target ? target : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

// Commit, step 3. The text of a failure names the outputs that were renamed before it.
static int output_rename(struct io_batch *batch, size_t idx, struct io_error *err)
{
    struct output *output = &batch->outputs[idx];
    if (!output->target) {
        return 0;
    }
    if (rename(output->temp, output->target)) {
        const int reason = errno;
        char placed[256] = "";
        size_t used = 0;
        for (size_t i = 0; i < idx && used < sizeof(placed); i++) {
            used += (size_t)snprintf(placed + used, sizeof(placed) - used, "%s%s",
                                     i ? ", " : "; already in place: ", batch->outputs[i].path);
        }
        return io_fail(err, "%s: cannot rename the finished file into place: %s%s", output->path,
                       strerror(reason), placed);
    }
    free(output->temp);
    output->temp = NULL;
    sync_folder(output->target);
    return 0;
}

int io_batch_commit(struct io_batch *batch, struct io_error *err)
{
    if (batch->committed) {
        return io_fail(err, "a batch of output files was committed twice");
    }
    batch->committed = true;
    for (size_t i = 0; i < batch->n; i++) {
        if (output_finish(&batch->outputs[i], err)) {
            return -1;
        }
    }
    for (size_t i = 0; i < batch->n; i++) {
        if (!batch->outputs[i].target && output_copy(&batch->outputs[i], err)) {
            return -1;
        }
    }
    for (size_t i = 0; i < batch->n; i++) {
        if (output_rename(batch, i, err)) {
            return -1;
        }
    }
    return 0;
}

int io_file_write(const char *path, int (*write_body)(FILE *, void *arg, struct io_error *err),
                  void *arg, struct io_error *err)
{
    struct io_batch *batch = NULL;
    if (io_batch_create(&batch, err)) {
        return -1;
    }
    FILE *stream = io_batch_open(batch, path, err);
    const int status = !stream || write_body(stream, arg, err) || io_batch_commit(batch, err);
    io_batch_destroy(batch);
    return status ? -1 : 0;
}
