// bench_kernels.c: see bench_kernels.h. Each function carries its instruction set as an attribute,
// so that the program itself starts on any machine; the caller asks attn_isa_available first.
#include "bench_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_VECTORS 1
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,fma")))
#endif

// ------------------------------------------------------------------------------------------------
// Plain C

enum { PLAIN_ROWS = 4, PLAIN_COLUMNS = 8, PLAIN_CHAINS = 16 };

static float plain_fma(int64_t iterations)
{
    float x[PLAIN_CHAINS];
    for (int c = 0; c < PLAIN_CHAINS; c++) {
        x[c] = (float)c;
    }
    for (int64_t i = 0; i < iterations; i++) {
        for (int c = 0; c < PLAIN_CHAINS; c++) {
            x[c] = x[c] * 0.999f + 0.5f;
        }
    }
    float sum = 0.0f;
    for (int c = 0; c < PLAIN_CHAINS; c++) {
        sum += x[c];
    }
    return sum;
}

static void plain_gemm_tile(int64_t k, const float *a, const float *b, float *c, int64_t ldc)
{
    float sum[PLAIN_ROWS][PLAIN_COLUMNS] = {{0}};
    for (int64_t p = 0; p < k; p++) {
        for (int i = 0; i < PLAIN_ROWS; i++) {
            for (int j = 0; j < PLAIN_COLUMNS; j++) {
                sum[i][j] += a[p * PLAIN_ROWS + i] * b[p * PLAIN_COLUMNS + j];
            }
        }
    }
    for (int i = 0; i < PLAIN_ROWS; i++) {
        for (int j = 0; j < PLAIN_COLUMNS; j++) {
            c[i * ldc + j] += sum[i][j];
        }
    }
}

static float plain_sum(const float *data, int64_t n)
{
    float sum[32] = {0};
    for (int64_t i = 0; i < n; i += 32) {
        for (int c = 0; c < 32; c++) {
            sum[c] += data[i + c];
        }
    }
    float total = 0.0f;
    for (int c = 0; c < 32; c++) {
        total += sum[c];
    }
    return total;
}

static const struct bench_kernels plain_kernels = {
    plain_fma, 2.0 * PLAIN_CHAINS, plain_gemm_tile, PLAIN_ROWS, PLAIN_COLUMNS, plain_sum,
};

#ifdef HAVE_VECTORS

// ------------------------------------------------------------------------------------------------
// AVX2: 12 chains hide a latency of 4 or 5 cycles on two ports; 6 x 16 outputs fill the registers

enum { AVX2_ROWS = 6, AVX2_COLUMNS = 16, AVX2_CHAINS = 12 };

AVX2 static float avx2_fma(int64_t iterations)
{
    __m256 x[AVX2_CHAINS];
    const __m256 factor = _mm256_set1_ps(0.999f);
    const __m256 term = _mm256_set1_ps(0.5f);
    for (int c = 0; c < AVX2_CHAINS; c++) {
        x[c] = _mm256_set1_ps((float)c);
    }
    for (int64_t i = 0; i < iterations; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < AVX2_CHAINS; c++) {
            x[c] = _mm256_fmadd_ps(x[c], factor, term);
        }
    }
    for (int c = 1; c < AVX2_CHAINS; c++) {
        x[0] = _mm256_add_ps(x[0], x[c]);
    }
    return _mm256_cvtss_f32(x[0]);
}

AVX2 static void avx2_gemm_tile(int64_t k, const float *a, const float *b, float *c, int64_t ldc)
{
    __m256 sum[AVX2_ROWS][2];
    for (int i = 0; i < AVX2_ROWS; i++) {
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    }
    for (int64_t p = 0; p < k; p++) {
        const __m256 b0 = _mm256_loadu_ps(b + p * AVX2_COLUMNS);
        const __m256 b1 = _mm256_loadu_ps(b + p * AVX2_COLUMNS + 8);
#pragma GCC unroll 6
        for (int i = 0; i < AVX2_ROWS; i++) {
            const __m256 value = _mm256_broadcast_ss(a + p * AVX2_ROWS + i);
            sum[i][0] = _mm256_fmadd_ps(value, b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(value, b1, sum[i][1]);
        }
    }
    for (int i = 0; i < AVX2_ROWS; i++) {
        float *row = c + i * ldc;
        _mm256_storeu_ps(row, _mm256_add_ps(_mm256_loadu_ps(row), sum[i][0]));
        _mm256_storeu_ps(row + 8, _mm256_add_ps(_mm256_loadu_ps(row + 8), sum[i][1]));
    }
}

AVX2 static float avx2_sum(const float *data, int64_t n)
{
    __m256 sum[8];
    for (int c = 0; c < 8; c++) {
        sum[c] = _mm256_setzero_ps();
    }
    for (int64_t i = 0; i < n; i += 64) {
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++) {
            sum[c] = _mm256_add_ps(sum[c], _mm256_loadu_ps(data + i + 8 * c));
        }
    }
    for (int c = 1; c < 8; c++) {
        sum[0] = _mm256_add_ps(sum[0], sum[c]);
    }
    return _mm256_cvtss_f32(sum[0]);
}

static const struct bench_kernels avx2_kernels = {
    avx2_fma, 2.0 * 8 * AVX2_CHAINS, avx2_gemm_tile, AVX2_ROWS, AVX2_COLUMNS, avx2_sum,
};

// ------------------------------------------------------------------------------------------------
// AVX-512: 12 x 32 outputs in 24 of the 32 registers

enum { AVX512_ROWS = 12, AVX512_COLUMNS = 32, AVX512_CHAINS = 24 };

AVX512 static float avx512_fma(int64_t iterations)
{
    __m512 x[AVX512_CHAINS];
    const __m512 factor = _mm512_set1_ps(0.999f);
    const __m512 term = _mm512_set1_ps(0.5f);
    for (int c = 0; c < AVX512_CHAINS; c++) {
        x[c] = _mm512_set1_ps((float)c);
    }
    for (int64_t i = 0; i < iterations; i++) {
#pragma GCC unroll 24
        for (int c = 0; c < AVX512_CHAINS; c++) {
            x[c] = _mm512_fmadd_ps(x[c], factor, term);
        }
    }
    for (int c = 1; c < AVX512_CHAINS; c++) {
        x[0] = _mm512_add_ps(x[0], x[c]);
    }
    return _mm512_cvtss_f32(x[0]);
}

AVX512 static void avx512_gemm_tile(int64_t k, const float *a, const float *b, float *c,
                                    int64_t ldc)
{
    __m512 sum[AVX512_ROWS][2];
    for (int i = 0; i < AVX512_ROWS; i++) {
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    }
    for (int64_t p = 0; p < k; p++) {
        const __m512 b0 = _mm512_loadu_ps(b + p * AVX512_COLUMNS);
        const __m512 b1 = _mm512_loadu_ps(b + p * AVX512_COLUMNS + 16);
#pragma GCC unroll 12
        for (int i = 0; i < AVX512_ROWS; i++) {
            const __m512 value = _mm512_set1_ps(a[p * AVX512_ROWS + i]);
            sum[i][0] = _mm512_fmadd_ps(value, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(value, b1, sum[i][1]);
        }
    }
    for (int i = 0; i < AVX512_ROWS; i++) {
        float *row = c + i * ldc;
        _mm512_storeu_ps(row, _mm512_add_ps(_mm512_loadu_ps(row), sum[i][0]));
        _mm512_storeu_ps(row + 16, _mm512_add_ps(_mm512_loadu_ps(row + 16), sum[i][1]));
    }
}

AVX512 static float avx512_sum(const float *data, int64_t n)
{
    __m512 sum[8];
    for (int c = 0; c < 8; c++) {
        sum[c] = _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < n; i += 128) {
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++) {
            sum[c] = _mm512_add_ps(sum[c], _mm512_loadu_ps(data + i + 16 * c));
        }
    }
    for (int c = 1; c < 8; c++) {
        sum[0] = _mm512_add_ps(sum[0], sum[c]);
    }
    return _mm512_cvtss_f32(sum[0]);
}

static const struct bench_kernels avx512_kernels = {
    avx512_fma, 2.0 * 16 * AVX512_CHAINS, avx512_gemm_tile, AVX512_ROWS, AVX512_COLUMNS, avx512_sum,
};

#endif

const struct bench_kernels *bench_kernels_get(attn_isa_t isa)
{
#ifdef HAVE_VECTORS
    if (isa >= ATTN_ISA_AVX512) {
        return &avx512_kernels;
    }
    if (isa == ATTN_ISA_AVX2) {
        return &avx2_kernels;
    }
#endif
    (void)isa;
    return &plain_kernels;
}
