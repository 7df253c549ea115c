// fuzz_kernel_pack.c: any bytes as a pack. Every kernel of what is accepted is visited and looked
// for by the hash that the index gives it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/context.h"
#include "cuda/kernel_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void count_kernel(void *user, const attn_kernel_info_t *info)
{
    int64_t *count = user;
    require(info->fault != NULL || info->name[0] != '\0');
    *count += 1;
}

// The file that every input is written to; its name is gone, its descriptor stays.
static const char *pack_path(const uint8_t *image, size_t image_bytes)
{
    static char path[64];
    static int file = -1;
    if (file < 0) {
        char name[] = "/tmp/attn-fuzz-XXXXXX";
        file = mkstemp(name);
        require(file >= 0 && unlink(name) == 0);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    require(ftruncate(file, 0) == 0);
    require(pwrite(file, image, image_bytes, 0) == (ssize_t)image_bytes);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes)
{
    const char *reason;
    attn_pack_t *pack = attn_pack_open(pack_path(image, image_bytes), &reason);
    if (pack == NULL) {
        require(reason != NULL && reason[0] != '\0');
        return 0;
    }
    int64_t count = 0;
    attn_pack_visit(pack, count_kernel, &count);
    require(count == attn_pack_count(image, image_bytes));
    for (int64_t i = 0; i < count && i < 16; i++) {
        attn_kernel_key_t key = {.text = (char[]){"key"}, .bytes = 3};
        memcpy(key.hash, image + ATTN_PACK_HEADER_BYTES + i * ATTN_PACK_ROW_BYTES,
               ATTN_SHA256_BYTES);
        attn_cache_hit_t hit;
        if (attn_pack_find(pack, attn_context_resolve(NULL), &key, &hit)) {
            require(hit.entry.key_bytes == 3 && memcmp(hit.entry.key, "key", 3) == 0);
            free(hit.data);
        }
    }
    attn_pack_close(pack);
    return 0;
}
