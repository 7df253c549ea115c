// Integers of file formats, the same on every machine.
#ifndef ATTN_CUDA_LITTLE_ENDIAN_H
#define ATTN_CUDA_LITTLE_ENDIAN_H

#include <stdint.h>

static inline void attn_put_u64(uint8_t *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t attn_get_u64(const uint8_t *in, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)in[i] << (8 * i);
    }
    return value;
}

#endif
