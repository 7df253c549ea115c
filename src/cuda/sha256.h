// SHA-256 (FIPS 180-4), for names and checksums of compiled kernels.
#ifndef ATTN_CUDA_SHA256_H
#define ATTN_CUDA_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define ATTN_SHA256_BYTES 32

typedef struct attn_sha256 {
    uint32_t state[8];
    uint64_t bytes; // seen so far
    uint8_t block[64];
} attn_sha256_t;

void attn_sha256_init(attn_sha256_t *sha);
void attn_sha256_add(attn_sha256_t *sha, const void *data, size_t bytes);
void attn_sha256_end(attn_sha256_t *sha, uint8_t hash_out[ATTN_SHA256_BYTES]);

// 64 lower-case digits and a final 0.
void attn_sha256_hex(const uint8_t hash[ATTN_SHA256_BYTES],
                     char text_out[2 * ATTN_SHA256_BYTES + 1]);

#endif
