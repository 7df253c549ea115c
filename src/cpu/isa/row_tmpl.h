// One row of an operand between memory of any dtype and stride and fp32 in scratch. The fast ways
// are whole vectors with stride_d 1 (no stores of 8 bits); everything else goes element by element.
#ifndef ATTN_CPU_ROW_TMPL_H
#define ATTN_CPU_ROW_TMPL_H

#include "../../core/element.h"

// out[0..d) = row * factor. at is the row's element 0.
static void load_row(float *out, const attn_tensor_t *tensor, const unsigned char *at, int64_t d,
                     float factor)
{
    int64_t e = 0;
    const vf f = vf_set1(factor);
    if (tensor->stride_d == 1 && tensor->dtype == ATTN_F32) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store(out + e, vf_mul(vf_load((const float *)(const void *)at + e), f));
        }
    } else if (tensor->stride_d == 1 && tensor->dtype == ATTN_F16) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store(out + e, vf_mul(vf_load_f16((const uint16_t *)(const void *)at + e), f));
        }
    } else if (tensor->stride_d == 1 && tensor->dtype == ATTN_BF16) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store(out + e, vf_mul(vf_load_bf16((const uint16_t *)(const void *)at + e), f));
        }
    } else if (tensor->stride_d == 1 && tensor->dtype == ATTN_F8_E4M3) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store(out + e, vf_mul(vf_load_e4m3(at + e), f));
        }
    } else if (tensor->stride_d == 1 && tensor->dtype == ATTN_F8_E5M2) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store(out + e, vf_mul(vf_load_e5m2(at + e), f));
        }
    }
    for (; e < d; e++) {
        out[e] = attn_load_f32(tensor->dtype, at, e * tensor->stride_d) * factor;
    }
}

static void store_row(const float *row, const attn_tensor_t *tensor, unsigned char *at, int64_t d)
{
    int64_t e = 0;
    if (tensor->stride_d == 1 && tensor->dtype == ATTN_F32) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store((float *)(void *)at + e, vf_load(row + e));
        }
    } else if (tensor->stride_d == 1 && tensor->dtype == ATTN_F16) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store_f16((uint16_t *)(void *)at + e, vf_load(row + e));
        }
    } else if (tensor->stride_d == 1 && tensor->dtype == ATTN_BF16) {
        for (; e + VF_LANES <= d; e += VF_LANES) {
            vf_store_bf16((uint16_t *)(void *)at + e, vf_load(row + e));
        }
    }
    for (; e < d; e++) {
        attn_store_f32(tensor->dtype, at, e * tensor->stride_d, row[e]);
    }
}

// Bit n is set if row n holds NaN or an infinity; at most 64 rows.
static uint64_t nonfinite_rows(const float *rows, int64_t stride, int64_t count, int64_t d)
{
    uint64_t bits = 0;
    const vf zero = vf_set1(0.0f);
    for (int64_t n = 0; n < count; n++) {
        const float *row = rows + n * stride;
        vf sum = zero;
        int64_t e = 0;
        for (; e + VF_LANES <= d; e += VF_LANES) {
            sum = vf_fma(vf_load(row + e), zero, sum);
        }
        sum = vf_fma(vf_load_n(row + e, d - e), zero, sum);
        bits |= (uint64_t)vm_any(vf_isnan(sum)) << n;
    }
    return bits;
}

#endif
