// One element of any dtype in memory of any alignment, as fp32 or fp64: for code where an element's
// conversion does not set the speed. Kernels convert whole rows.
#ifndef ATTN_CORE_ELEMENT_H
#define ATTN_CORE_ELEMENT_H

#include <string.h>

#include "../shared/convert.h"
#include "attn.h"

// Bytes per element; 0 for values that are no dtype.
static inline int64_t attn_element_bytes(attn_dtype_t dtype)
{
    switch (dtype) {
    case ATTN_F32: return 4;
    case ATTN_F16: return 2;
    case ATTN_BF16: return 2;
    case ATTN_F8_E4M3: return 1;
    case ATTN_F8_E5M2: return 1;
    case ATTN_F64: return 8;
    }
    return 0;
}

static inline double attn_load_f64(attn_dtype_t dtype, const void *data, int64_t index)
{
    const unsigned char *at = (const unsigned char *)data + index * attn_element_bytes(dtype);
    uint16_t half;
    float single;
    double value;
    switch (dtype) {
    case ATTN_F32: memcpy(&single, at, sizeof(single)); return (double)single;
    case ATTN_F16: memcpy(&half, at, sizeof(half)); return (double)attn_f16_to_f32(half);
    case ATTN_BF16: memcpy(&half, at, sizeof(half)); return (double)attn_bf16_to_f32(half);
    case ATTN_F8_E4M3: return (double)attn_e4m3_to_f32(*at);
    case ATTN_F8_E5M2: return (double)attn_e5m2_to_f32(*at);
    case ATTN_F64: memcpy(&value, at, sizeof(value)); return value;
    }
    return 0.0;
}

static inline float attn_load_f32(attn_dtype_t dtype, const void *data, int64_t index)
{
    return (float)attn_load_f64(dtype, data, index);
}

static inline void attn_store_f32(attn_dtype_t dtype, void *data, int64_t index, float value)
{
    unsigned char *at = (unsigned char *)data + index * attn_element_bytes(dtype);
    const double wide = (double)value;
    uint16_t half;
    switch (dtype) {
    case ATTN_F32: memcpy(at, &value, sizeof(value)); break;
    case ATTN_F16:
        half = attn_f32_to_f16(value);
        memcpy(at, &half, sizeof(half));
        break;
    case ATTN_BF16:
        half = attn_f32_to_bf16(value);
        memcpy(at, &half, sizeof(half));
        break;
    case ATTN_F8_E4M3: *at = attn_f32_to_e4m3(value); break;
    case ATTN_F8_E5M2: *at = attn_f32_to_e5m2(value); break;
    case ATTN_F64: memcpy(at, &wide, sizeof(wide)); break;
    }
}

// Like attn_store_f32, but f64 keeps every bit; the smaller types are rounded through fp32.
static inline void attn_store_f64(attn_dtype_t dtype, void *data, int64_t index, double value)
{
    if (dtype == ATTN_F64) {
        memcpy((unsigned char *)data + index * 8, &value, sizeof(value));
        return;
    }
    attn_store_f32(dtype, data, index, (float)value);
}

#endif
