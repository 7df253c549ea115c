// Vectors of 16 floats in AVX-512 (F, BW, DQ, VL), and the BF16 dot product where the compiler is
// told to use it. The names are the contract that simd_avx2.h and simd_scalar.h keep too; the
// *_tmpl.h files use nothing else.
//
//   vf  VF_LANES floats      vi  VF_LANES int32      vm  one truth value per lane
//
// vf_max(a, b) and vf_min(a, b) give b where either is NaN, on every instruction set.
#ifndef ATTN_CPU_SIMD_AVX512_H
#define ATTN_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define VF_LANES 16
// 8 rows x 2 vectors of accumulators cover the FMA latency on one or two 512-bit pipes.
#define GEMM_ROWS 8

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

// The first n lanes, 0 <= n <= VF_LANES; the others are 0 and not read.
static inline vf vf_load_n(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}

static inline void vf_store_n(float *p, int64_t n, vf a)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), a);
}

static inline vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

// a * b + c
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

static inline vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}

// Nearest integer, ties to even.
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// a * 2^n; n is integral, |n| <= 160, or NaN.
static inline vf vf_scale2(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
}

static inline vm vf_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline vm vf_eq(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

static inline vm vf_isnan(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}

// m ? a : b
static inline vf vf_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

static inline float vf_sum(vf a)
{
    return _mm512_reduce_add_ps(a);
}

// Lane l is the sum of a[l]'s lanes.
static inline vf vf_sum_each(const vf *a)
{
    vf quads[4];
    for (int i = 0; i < 4; i++) {
        const vf *q = a + 4 * i;
        const vf p01 =
            _mm512_add_ps(_mm512_unpacklo_ps(q[0], q[1]), _mm512_unpackhi_ps(q[0], q[1]));
        const vf p23 =
            _mm512_add_ps(_mm512_unpacklo_ps(q[2], q[3]), _mm512_unpackhi_ps(q[2], q[3]));
        const __m512d d01 = _mm512_castps_pd(p01);
        const __m512d d23 = _mm512_castps_pd(p23);
        quads[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(d01, d23)),
                                 _mm512_castpd_ps(_mm512_unpackhi_pd(d01, d23)));
    }
    // A quad's 128-bit blocks hold four partial sums of the same four vectors.
    const vf h0 = _mm512_add_ps(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88),
                                _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
    const vf h1 = _mm512_add_ps(_mm512_shuffle_f32x4(quads[2], quads[3], 0x88),
                                _mm512_shuffle_f32x4(quads[2], quads[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(h0, h1, 0x88), _mm512_shuffle_f32x4(h0, h1, 0xdd));
}

// NaN lanes may count or not.
static inline float vf_max_lane(vf a)
{
    return _mm512_reduce_max_ps(a);
}

static inline vi vi_load(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}

static inline void vi_store(int32_t *p, vi a)
{
    _mm512_storeu_si512(p, a);
}

static inline vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

static inline vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

static inline vm vi_lt(vi a, vi b)
{
    return _mm512_cmplt_epi32_mask(a, b);
}

static inline vf vi_to_vf(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

static inline vm vm_and(vm a, vm b)
{
    return (vm)(a & b);
}

static inline vm vm_or(vm a, vm b)
{
    return (vm)(a | b);
}

static inline vm vm_not(vm a)
{
    return (vm)~a;
}

static inline int vm_any(vm a)
{
    return a != 0;
}

// Bit l is lane l.
static inline uint32_t vm_bits(vm a)
{
    return a;
}

static inline vm vm_from_bits(uint32_t bits)
{
    return (vm)bits;
}

// Half and bfloat16 come and go as their bits; both round to nearest even and keep NaN.
static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline void vf_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

// 8-bit floats are fp16 with fewer bits: e5m2 its upper half, e4m3 with an exponent bias that is 8
// less, so that its NaN, 0x7f, comes out as 480 where the largest number is 448.
static inline vf vf_load_e5m2(const uint8_t *p)
{
    const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    return _mm512_cvtph_ps(_mm256_slli_epi16(bytes, 8));
}

static inline vf vf_load_e4m3(const uint8_t *p)
{
    const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(bytes, 8), _mm256_set1_epi16(-0x8000));
    const __m256i rest = _mm256_slli_epi16(_mm256_and_si256(bytes, _mm256_set1_epi16(0x7f)), 7);
    const vf x = vf_mul(_mm512_cvtph_ps(_mm256_or_si256(sign, rest)), vf_set1(256.0f));
    return vf_select(vf_eq(vf_abs(x), vf_set1(480.0f)), vf_set1(NAN), x);
}

// 2 * VF_LANES bfloat16, cheaply: even gets elements 0, 2, 4, ..., odd gets 1, 3, 5, ...
static inline void vf_load_bf16_split(const uint16_t *p, vf *even, vf *odd)
{
    const __m512i pairs = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xffff0000u)));
}

// 32-bit lanes with the rounded bfloat16 in the low half.
static inline __m512i vf_round_bf16(vf a)
{
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i biased = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    return _mm512_srli_epi32(_mm512_mask_mov_epi32(biased, vf_isnan(a), quiet), 16);
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(vf_round_bf16(a)));
}

#ifdef __AVX512BF16__
#define VF_HAS_BF16_DOT 1

// VF_LANES pairs of bfloat16: lane l holds elements 2l and 2l + 1 of a row, or elements l of two
// rows.
typedef __m512bh vb;

static inline vb vb_load(const uint16_t *p)
{
    return (vb)_mm512_loadu_si512(p);
}

static inline void vb_store(uint16_t *p, vb a)
{
    _mm512_storeu_si512(p, (__m512i)a);
}

static inline vb vb_set1_pair(uint32_t pair)
{
    return (vb)_mm512_set1_epi32((int32_t)pair);
}

// c + a[2l] * b[2l] + a[2l + 1] * b[2l + 1]; denormals count as 0.
static inline vf vb_dot(vf c, vb a, vb b)
{
    return _mm512_dpbf16_ps(c, a, b);
}

// The 2 * VF_LANES floats of low and high in order, rounded; denormals become 0.
static inline vb vb_round(vf low, vf high)
{
    return _mm512_cvtne2ps_pbh(high, low);
}

// Lane l is the pair (even[l], odd[l]), rounded; denormals become 0.
static inline vb vb_round_pairs(vf even, vf odd)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vb)_mm512_permutexvar_epi16(order, (__m512i)vb_round(even, odd));
}

static inline void vb_store_pairs(uint16_t *p, vf even, vf odd)
{
    vb_store(p, vb_round_pairs(even, odd));
}

static inline vf vb_even(vb a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32((__m512i)a, 16));
}

static inline vf vb_odd(vb a)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512((__m512i)a, _mm512_set1_epi32((int32_t)0xffff0000u)));
}

// 2 * VF_LANES pairs (even[i], odd[i]) of two rows of bfloat16.
static inline void vb_interleave(uint32_t *p, const uint16_t *even, const uint16_t *odd)
{
    const __m512i a = _mm512_loadu_si512(even);
    const __m512i b = _mm512_loadu_si512(odd);
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    _mm512_storeu_si512(p, _mm512_permutex2var_epi16(a, low, b));
    _mm512_storeu_si512(p + VF_LANES, _mm512_permutex2var_epi16(a, high, b));
}
#endif

#endif
