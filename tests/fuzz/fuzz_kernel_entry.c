// fuzz_kernel_entry.c: any bytes as a compiled kernel from the cache folder; once as they are, once
// with the checksum made right, since a forger would do that too. What is accepted writes back to
// the same bytes.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernel_entry.h"
#include "cuda/sha256.h"

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes);

enum { CHECKSUM = 40, HEADER = CHECKSUM + ATTN_SHA256_BYTES };

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void try_bytes(const uint8_t *image, size_t image_bytes)
{
    attn_kernel_entry_t entry;
    const char *reason = attn_kernel_entry_parse(image, image_bytes, &entry);
    if (reason != NULL) {
        require(entry.name == NULL && entry.cubin == NULL);
        return;
    }
    require(attn_kernel_entry_bytes(&entry) == image_bytes);
    uint8_t *copy = malloc(image_bytes);
    require(copy != NULL);
    attn_kernel_entry_write(&entry, copy);
    require(memcmp(copy, image, image_bytes) == 0);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes)
{
    try_bytes(image, image_bytes);
    if (image_bytes >= HEADER) {
        uint8_t *forged = malloc(image_bytes);
        require(forged != NULL);
        memcpy(forged, image, image_bytes);
        attn_sha256_t sha;
        attn_sha256_init(&sha);
        attn_sha256_add(&sha, forged, CHECKSUM);
        attn_sha256_add(&sha, forged + HEADER, image_bytes - HEADER);
        attn_sha256_end(&sha, forged + CHECKSUM);
        try_bytes(forged, image_bytes);
        free(forged);
    }
    return 0;
}
