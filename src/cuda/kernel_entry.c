// Writing and parsing entries: see kernel_entry.h for the format.
#include "kernel_entry.h"

#include <string.h>

#include "little_endian.h"
#include "sha256.h"

static const char magic[8] = {'A', 'T', 'T', 'N', 'K', 'R', 'N', 'L'};
enum { FORMAT = 1, CHECKSUM = 40, HEADER = CHECKSUM + ATTN_SHA256_BYTES };

// No kernel's name is longer (plan.h), no architecture's either.
enum { NAME_BYTES_MAX = 128, ARCH_BYTES_MAX = 16 };

static void checksum_of(const uint8_t *data, size_t bytes, uint8_t hash_out[ATTN_SHA256_BYTES])
{
    attn_sha256_t sha;
    attn_sha256_init(&sha);
    attn_sha256_add(&sha, data, CHECKSUM);
    attn_sha256_add(&sha, data + HEADER, bytes - HEADER);
    attn_sha256_end(&sha, hash_out);
}

size_t attn_kernel_entry_bytes(const attn_kernel_entry_t *entry)
{
    return HEADER + strlen(entry->name) + 1 + strlen(entry->arch) + 1 + entry->key_bytes +
           entry->cubin_bytes;
}

void attn_kernel_entry_write(const attn_kernel_entry_t *entry, void *out)
{
    uint8_t *const data = out;
    const size_t name_bytes = strlen(entry->name) + 1;
    const size_t arch_bytes = strlen(entry->arch) + 1;
    memcpy(data, magic, sizeof(magic));
    attn_put_u64(data + 8, FORMAT, 4);
    attn_put_u64(data + 12, (uint32_t)entry->compiler, 4);
    attn_put_u64(data + 16, name_bytes, 4);
    attn_put_u64(data + 20, arch_bytes, 4);
    attn_put_u64(data + 24, entry->key_bytes, 8);
    attn_put_u64(data + 32, entry->cubin_bytes, 8);
    uint8_t *at = data + HEADER;
    memcpy(at, entry->name, name_bytes);
    memcpy(at += name_bytes, entry->arch, arch_bytes);
    memcpy(at += arch_bytes, entry->key, entry->key_bytes);
    memcpy(at + entry->key_bytes, entry->cubin, entry->cubin_bytes);
    checksum_of(data, attn_kernel_entry_bytes(entry), data + CHECKSUM);
}

// A text of exactly bytes bytes with its final 0, of letters, digits and underscores.
static int is_text(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i + 1 < bytes; i++) {
        const uint8_t c = data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_')) {
            return 0;
        }
    }
    return bytes > 1 && data[bytes - 1] == 0;
}

const char *attn_kernel_entry_parse(const void *data, size_t bytes, attn_kernel_entry_t *entry_out)
{
    const uint8_t *const in = data;
    memset(entry_out, 0, sizeof(*entry_out));
    if (bytes < HEADER) {
        return "too short for a compiled kernel";
    }
    if (memcmp(in, magic, sizeof(magic)) != 0) {
        return "not a compiled kernel";
    }
    if (attn_get_u64(in + 8, 4) != FORMAT) {
        return "of another format";
    }
    const uint64_t name_bytes = attn_get_u64(in + 16, 4);
    const uint64_t arch_bytes = attn_get_u64(in + 20, 4);
    const uint64_t key_bytes = attn_get_u64(in + 24, 8);
    const uint64_t cubin_bytes = attn_get_u64(in + 32, 8);
    const uint64_t rest = bytes - HEADER;
    if (name_bytes > NAME_BYTES_MAX || arch_bytes > ARCH_BYTES_MAX || key_bytes > rest ||
        cubin_bytes > rest || name_bytes + arch_bytes > rest ||
        name_bytes + arch_bytes + key_bytes > rest ||
        name_bytes + arch_bytes + key_bytes + cubin_bytes != rest) {
        return "cut off, or lengths that do not add up";
    }
    uint8_t hash[ATTN_SHA256_BYTES];
    checksum_of(in, bytes, hash);
    if (memcmp(hash, in + CHECKSUM, sizeof(hash)) != 0) {
        return "damaged: its checksum is wrong";
    }
    const uint8_t *const name = in + HEADER;
    const uint8_t *const arch = name + name_bytes;
    const uint8_t *const cubin = arch + arch_bytes + key_bytes;
    if (!is_text(name, name_bytes) || !is_text(arch, arch_bytes)) {
        return "without a name";
    }
    if (cubin_bytes < 4 || memcmp(cubin, "\177ELF", 4) != 0) {
        return "without a cubin";
    }
    *entry_out = (attn_kernel_entry_t){
        .compiler = (int32_t)attn_get_u64(in + 12, 4),
        .name = (const char *)name,
        .arch = (const char *)arch,
        .key = (const char *)arch + arch_bytes,
        .key_bytes = key_bytes,
        .cubin = cubin,
        .cubin_bytes = cubin_bytes,
    };
    return NULL;
}
