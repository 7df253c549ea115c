// Elements of any type in global memory: src/shared/gpu_element_type.h.
#ifndef ATTN_DEVICE_GPU_ELEMENT_H
#define ATTN_DEVICE_GPU_ELEMENT_H

#include "../../shared/gpu_element_type.h"
#include "../ptx/math_ops.h"
#include "../ptx/memory_ops.h"

DEVICE int64_t element_bytes(int32_t type)
{
    return type == ATTN_GPU_F64 ? 8 : type == ATTN_GPU_F32 ? 4 : type == ATTN_GPU_BYTE ? 1 : 2;
}

// Of the types that are computed with in fp32.
DEVICE float load_as_f32(int32_t type, const void *data, int64_t at)
{
    if (type == ATTN_GPU_F32) {
        return ld_global_f32((const float *)data + at);
    }
    uint32_t bits = ld_global_u16((const uint16_t *)data + at);
    return type == ATTN_GPU_BF16 ? f32_of_bf16(bits) : f32_of_f16(bits);
}

// Two values in the bits of a 16-bit type, the first in the low half.
DEVICE uint32_t pack_16_bits(int32_t type, float low, float high)
{
    return type == ATTN_GPU_BF16 ? pack_bf16x2(low, high) : pack_f16x2(low, high);
}

// fp64 keeps every bit; the smaller types are rounded through fp32.
DEVICE void store_from_f64(int32_t type, void *data, int64_t at, double x)
{
    if (type == ATTN_GPU_F64) {
        union {
            double value;
            uint32_t words[2];
        } cast;
        cast.value = x;
        uint32_t *out = (uint32_t *)((double *)data + at);
        st_global_u32(out, cast.words[0]);
        st_global_u32(out + 1, cast.words[1]);
    } else if (type == ATTN_GPU_F32) {
        st_global_f32((float *)data + at, (float)x);
    } else {
        st_global_u16((uint16_t *)data + at, pack_16_bits(type, (float)x, 0.0f) & 0xffff);
    }
}

// An element as it is.
DEVICE void copy_element(int32_t type, void *to, int64_t to_at, const void *from, int64_t from_at)
{
    int64_t bytes = element_bytes(type);
    unsigned char *out = (unsigned char *)to + to_at * bytes;
    const unsigned char *in = (const unsigned char *)from + from_at * bytes;
    if (bytes == 1) {
        st_global_u8(out, ld_global_u8(in));
    } else if (bytes == 2) {
        st_global_u16(out, ld_global_u16(in));
    } else {
        for (int64_t word = 0; word < bytes; word += 4) {
            st_global_u32(out + word, ld_global_u32(in + word));
        }
    }
}

#endif
