// Reading and writing packs. The file stays open and its index in memory; entries are read when
// they are asked for, so that a pack may hold hundreds of kernels.
#include "kernel_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/status.h"
#include "little_endian.h"
#include "trusted_file.h"

static const char magic[8] = {'A', 'T', 'T', 'N', 'P', 'A', 'C', 'K'};
enum { FORMAT = 1, COUNT_MAX = 1 << 20 };
#define ENTRY_BYTES_MAX ((uint64_t)64 << 20)

struct attn_pack {
    int file;
    struct stat status;
    int64_t count;
    uint8_t *rows; // count times ATTN_PACK_ROW_BYTES, as in the file
    char path[];
};

// -------------------------------------------------------------------------------------------------
// Reading

int64_t attn_pack_count(const uint8_t header[ATTN_PACK_HEADER_BYTES], uint64_t file_bytes)
{
    const uint64_t count = attn_get_u64(header + 12, 4);
    const int is_pack = file_bytes >= ATTN_PACK_HEADER_BYTES &&
                        memcmp(header, magic, sizeof(magic)) == 0 &&
                        attn_get_u64(header + 8, 4) == FORMAT && count <= COUNT_MAX &&
                        count * ATTN_PACK_ROW_BYTES <= file_bytes - ATTN_PACK_HEADER_BYTES;
    return is_pack ? (int64_t)count : -1;
}

static const char *read_index(attn_pack_t *pack)
{
    uint8_t *const header = attn_trusted_read(pack->file, 0, ATTN_PACK_HEADER_BYTES);
    if (header == NULL) {
        return "too short for a pack, or cannot be read";
    }
    pack->count = attn_pack_count(header, (uint64_t)pack->status.st_size);
    free(header);
    if (pack->count < 0) {
        return "not a pack, of another format, or cut off";
    }
    pack->rows = attn_trusted_read(pack->file, ATTN_PACK_HEADER_BYTES,
                                   (size_t)pack->count * ATTN_PACK_ROW_BYTES);
    return pack->rows == NULL ? "its index cannot be read" : NULL;
}

attn_pack_t *attn_pack_open(const char *path, const char **reason_out)
{
    struct stat status;
    const int file = attn_trusted_open(AT_FDCWD, path, 1, &status, reason_out);
    if (file < 0) {
        *reason_out = *reason_out != NULL ? *reason_out : "";
        return NULL;
    }
    const size_t path_bytes = strlen(path) + 1;
    attn_pack_t *const pack = malloc(sizeof(*pack) + path_bytes);
    if (pack == NULL) {
        (void)close(file);
        *reason_out = "no memory";
        return NULL;
    }
    *pack = (attn_pack_t){.file = file, .status = status};
    memcpy(pack->path, path, path_bytes);
    *reason_out = read_index(pack);
    if (*reason_out != NULL) {
        attn_pack_close(pack);
        return NULL;
    }
    return pack;
}

void attn_pack_close(attn_pack_t *pack)
{
    if (pack != NULL) {
        (void)close(pack->file);
        free(pack->rows);
        free(pack);
    }
}

// NULL, or what is wrong with the entry of a row.
static const char *read_entry(const attn_pack_t *pack, const uint8_t *row,
                              attn_cache_hit_t *hit_out)
{
    const uint64_t offset = attn_get_u64(row + ATTN_SHA256_BYTES, 8);
    const uint64_t bytes = attn_get_u64(row + ATTN_SHA256_BYTES + 8, 8);
    const uint64_t file_bytes = (uint64_t)pack->status.st_size;
    hit_out->data = NULL;
    if (offset > file_bytes || bytes > file_bytes - offset || bytes > ENTRY_BYTES_MAX) {
        return "lies outside of the file";
    }
    hit_out->data = attn_trusted_read(pack->file, offset, (size_t)bytes);
    const char *const reason =
        hit_out->data == NULL
            ? "cannot be read"
            : attn_kernel_entry_parse(hit_out->data, (size_t)bytes, &hit_out->entry);
    if (reason != NULL) {
        free(hit_out->data);
        hit_out->data = NULL;
    }
    return reason;
}

int attn_pack_find(const attn_pack_t *pack, const attn_context_t *context,
                   const attn_kernel_key_t *key, attn_cache_hit_t *hit_out)
{
    for (int64_t i = 0; i < pack->count; i++) {
        const uint8_t *const row = pack->rows + i * ATTN_PACK_ROW_BYTES;
        if (memcmp(row, key->hash, ATTN_SHA256_BYTES) != 0) {
            continue;
        }
        const char *const reason = read_entry(pack, row, hit_out);
        if (reason != NULL) {
            attn_log(context, ATTN_LOG_WARNING, "pack %s: kernel %lld: %s; it is not used",
                     pack->path, (long long)i, reason);
        } else if (hit_out->entry.key_bytes == key->bytes &&
                   memcmp(hit_out->entry.key, key->text, key->bytes) == 0) {
            return 1;
        } else {
            free(hit_out->data);
            hit_out->data = NULL;
        }
    }
    return 0;
}

void attn_pack_visit(const attn_pack_t *pack, attn_kernel_visit_fn visit, void *user)
{
    for (int64_t i = 0; i < pack->count; i++) {
        const uint8_t *const row = pack->rows + i * ATTN_PACK_ROW_BYTES;
        attn_cache_hit_t hit;
        const char *const fault = read_entry(pack, row, &hit);
        const attn_kernel_info_t info = {
            .struct_size = sizeof(info),
            .file = pack->path,
            .name = fault == NULL ? hit.entry.name : "",
            .arch = fault == NULL ? hit.entry.arch : "",
            .compiler = fault == NULL ? hit.entry.compiler : 0,
            .bytes = (int64_t)attn_get_u64(row + ATTN_SHA256_BYTES + 8, 8),
            .used_s = (int64_t)pack->status.st_mtime,
            .fault = fault,
        };
        visit(user, &info);
        free(hit.data);
    }
}

// -------------------------------------------------------------------------------------------------
// Writing

static int write_parts(FILE *file, const attn_pack_part_t *parts, size_t count)
{
    uint8_t header[ATTN_PACK_HEADER_BYTES];
    memcpy(header, magic, sizeof(magic));
    attn_put_u64(header + 8, FORMAT, 4);
    attn_put_u64(header + 12, count, 4);
    int ok = fwrite(header, sizeof(header), 1, file) == 1;
    uint64_t offset = ATTN_PACK_HEADER_BYTES + count * ATTN_PACK_ROW_BYTES;
    for (size_t i = 0; i < count && ok; i++) {
        uint8_t row[ATTN_PACK_ROW_BYTES];
        memcpy(row, parts[i].hash, ATTN_SHA256_BYTES);
        attn_put_u64(row + ATTN_SHA256_BYTES, offset, 8);
        attn_put_u64(row + ATTN_SHA256_BYTES + 8, parts[i].bytes, 8);
        ok = fwrite(row, sizeof(row), 1, file) == 1;
        offset += parts[i].bytes;
    }
    for (size_t i = 0; i < count && ok; i++) {
        ok = fwrite(parts[i].data, parts[i].bytes, 1, file) == 1;
    }
    return ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

attn_status_t attn_pack_write(const char *path, const attn_pack_part_t *parts, size_t count)
{
    const size_t room = strlen(path) + 32;
    char *const temporary = malloc(room);
    ATTN_RETURN_IF(temporary == NULL, ATTN_OUT_OF_MEMORY, "pack %s: no memory", path);
    (void)snprintf(temporary, room, "%s.new-%ld", path, (long)getpid());
    errno = 0;
    const int descriptor =
        open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    FILE *const file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    int error = file != NULL && write_parts(file, parts, count) ? 0 : errno != 0 ? errno : EIO;
    if (file != NULL) {
        error = fclose(file) != 0 && error == 0 ? errno : error;
        if (error == 0 && rename(temporary, path) != 0) {
            error = errno;
        }
        if (error != 0) {
            (void)unlink(temporary);
        }
    }
    free(temporary);
    ATTN_RETURN_IF(error != 0, ATTN_IO_ERROR, "pack %s: %s", path, strerror(error));
    return ATTN_OK;
}
