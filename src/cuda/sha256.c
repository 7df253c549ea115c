// SHA-256 as FIPS 180-4 writes it: section 4.1.2 functions, 4.2.2 constants, 5.1.1 padding, 6.2.2
// computation. Plain C: a kernel's texts are some 200 KB, hashed in about a millisecond.
#include "sha256.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int bits)
{
    return (x >> bits) | (x << (32 - bits));
}

static void add_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int t = 0; t < 16; t++) {
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | (uint32_t)block[4 * t + 3];
    }
    for (int t = 16; t < 64; t++) {
        const uint32_t x = w[t - 15];
        const uint32_t y = w[t - 2];
        w[t] = w[t - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ (x >> 3)) + w[t - 7] +
               (rotate(y, 17) ^ rotate(y, 19) ^ (y >> 10));
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        const uint32_t sum_e = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const uint32_t sum_a = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        const uint32_t t1 = h + sum_e + ((e & f) ^ (~e & g)) + constants[t] + w[t];
        const uint32_t t2 = sum_a + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) {
        state[i] += added[i];
    }
}

void attn_sha256_init(attn_sha256_t *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(sha, 0, sizeof(*sha));
    memcpy(sha->state, start, sizeof(start));
}

void attn_sha256_add(attn_sha256_t *sha, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        const size_t used = sha->bytes % 64;
        const size_t taken = bytes < 64 - used ? bytes : 64 - used;
        if (taken == 64) {
            add_block(sha->state, at);
        } else {
            memcpy(sha->block + used, at, taken);
            if (used + taken == 64) {
                add_block(sha->state, sha->block);
            }
        }
        sha->bytes += taken;
        at += taken;
        bytes -= taken;
    }
}

void attn_sha256_end(attn_sha256_t *sha, uint8_t hash_out[ATTN_SHA256_BYTES])
{
    const uint64_t bits = 8 * sha->bytes;
    static const uint8_t padding[64] = {0x80};
    attn_sha256_add(sha, padding, 1 + (64 + 55 - sha->bytes % 64) % 64);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    attn_sha256_add(sha, length, 8);
    for (int i = 0; i < ATTN_SHA256_BYTES; i++) {
        hash_out[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void attn_sha256_hex(const uint8_t hash[ATTN_SHA256_BYTES],
                     char text_out[2 * ATTN_SHA256_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < ATTN_SHA256_BYTES; i++) {
        text_out[2 * i] = digits[hash[i] >> 4];
        text_out[2 * i + 1] = digits[hash[i] & 15];
    }
    text_out[2 * ATTN_SHA256_BYTES] = '\0';
}
