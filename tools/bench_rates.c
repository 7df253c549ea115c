// bench_rates.c: see bench_rates.h. Each rate is the best of several repetitions: the question is
// what the machine can do, and a disturbed repetition says less about that.
#include "bench_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_kernels.h"
#include "launch.h"

#ifdef _OPENMP
#include <omp.h>
#else
// Without OpenMP the pragmas mean nothing and there is one thread.
static int omp_get_thread_num(void)
{
    return 0;
}
#endif

// 1152 is a multiple of every kernel's tile; 192 keys of a 32-wide panel are 24 KiB, within L1.
enum { GEMM_SIZE = 1152, GEMM_DEPTH = 192, REPETITIONS = 15 };
#define READ_FLOATS ((int64_t)64 << 20) // 256 MiB
#define READ_CHUNK ((int64_t)1 << 16)   // floats that a thread takes at a time

// Results of the loops go here so that they are not optimised away.
static volatile float sink;

static double measure_fma(const struct bench_kernels *kernels, int threads)
{
    const int64_t iterations = 4000000;
    double best = 0.0;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        const double start = launch_clock();
#pragma omp parallel num_threads(threads)
        {
            const float sum = kernels->fma(iterations);
#pragma omp critical
            sink = sum;
        }
        const double seconds = launch_clock() - start;
        const double rate = (double)threads * (double)iterations * kernels->fma_flops / seconds;
        best = rate > best ? rate : best;
    }
    return best * 1e-9;
}

// ------------------------------------------------------------------------------------------------
// Matrix product

struct gemm {
    const struct bench_kernels *kernels;
    float *a, *b, *c; // GEMM_SIZE x GEMM_SIZE, row-major
    float *packed_a;  // panels of `rows` rows, GEMM_DEPTH deep
    float *packed_b;  // panels of `columns` columns, GEMM_DEPTH deep
};

static void pack_a_panel(const struct gemm *g, int64_t panel, int64_t depth)
{
    const int64_t rows = g->kernels->rows;
    float *to = g->packed_a + panel * rows * GEMM_DEPTH;
    for (int64_t p = 0; p < GEMM_DEPTH; p++) {
        for (int64_t i = 0; i < rows; i++) {
            *to++ = g->a[(panel * rows + i) * GEMM_SIZE + depth + p];
        }
    }
}

static void pack_b_panel(const struct gemm *g, int64_t panel, int64_t depth)
{
    const int64_t columns = g->kernels->columns;
    float *to = g->packed_b + panel * columns * GEMM_DEPTH;
    for (int64_t p = 0; p < GEMM_DEPTH; p++) {
        memcpy(to, g->b + (depth + p) * GEMM_SIZE + panel * columns,
               (size_t)columns * sizeof(float));
        to += columns;
    }
}

// One thread's share of one depth block: its rows of A against every panel of B.
static void gemm_share(const struct gemm *g, int64_t first, int64_t last)
{
    const int64_t rows = g->kernels->rows;
    const int64_t columns = g->kernels->columns;
    for (int64_t jp = 0; jp < GEMM_SIZE / columns; jp++) {
        for (int64_t ip = first; ip < last; ip++) {
            g->kernels->gemm_tile(GEMM_DEPTH, g->packed_a + ip * rows * GEMM_DEPTH,
                                  g->packed_b + jp * columns * GEMM_DEPTH,
                                  g->c + ip * rows * GEMM_SIZE + jp * columns, GEMM_SIZE);
        }
    }
}

static void gemm_run(const struct gemm *g, int threads)
{
    const int64_t panels_a = GEMM_SIZE / g->kernels->rows;
    const int64_t panels_b = GEMM_SIZE / g->kernels->columns;
    for (int64_t depth = 0; depth < GEMM_SIZE; depth += GEMM_DEPTH) {
#pragma omp parallel num_threads(threads)
        {
            const int64_t t = omp_get_thread_num();
            const int64_t first = panels_a * t / threads;
            const int64_t last = panels_a * (t + 1) / threads;
            for (int64_t p = panels_b * t / threads; p < panels_b * (t + 1) / threads; p++) {
                pack_b_panel(g, p, depth);
            }
            for (int64_t p = first; p < last; p++) {
                pack_a_panel(g, p, depth);
            }
#pragma omp barrier
            gemm_share(g, first, last);
        }
    }
}

static int measure_sgemm(const struct bench_kernels *kernels, int threads, double *gflops_out)
{
    const int64_t n = (int64_t)GEMM_SIZE * GEMM_SIZE;
    float *memory = malloc((size_t)(5 * n) * sizeof(float));
    if (!memory) {
        return -1;
    }
    for (int64_t i = 0; i < 5 * n; i++) {
        memory[i] = (float)(i % 31) * 0.01f;
    }
    const struct gemm g = {kernels,        memory,         memory + n,
                           memory + 2 * n, memory + 3 * n, memory + 4 * n};
    double best = 0.0;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        const double start = launch_clock();
        gemm_run(&g, threads);
        const double rate = 2.0 * GEMM_SIZE * (double)n / (launch_clock() - start);
        best = rate > best ? rate : best;
    }
    sink = g.c[n / 2];
    free(memory);
    *gflops_out = best * 1e-9;
    return 0;
}

// ------------------------------------------------------------------------------------------------
// Memory

static int measure_read(const struct bench_kernels *kernels, int threads, double *gbs_out)
{
    float *data = malloc((size_t)READ_FLOATS * sizeof(float));
    (void)threads; // not used without OpenMP
    if (!data) {
        return -1;
    }
    const int64_t chunks = READ_FLOATS / READ_CHUNK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t c = 0; c < chunks; c++) {
        memset(data + c * READ_CHUNK, 0, (size_t)READ_CHUNK * sizeof(float));
    }
    double best = 0.0;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        float total = 0.0f;
        const double start = launch_clock();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : total)
        for (int64_t c = 0; c < chunks; c++) {
            total += kernels->sum(data + c * READ_CHUNK, READ_CHUNK);
        }
        const double rate = (double)READ_FLOATS * sizeof(float) / (launch_clock() - start);
        best = rate > best ? rate : best;
        sink = total;
    }
    free(data);
    *gbs_out = best * 1e-9;
    return 0;
}

int bench_rates_measure(attn_isa_t isa, int threads, struct bench_rates *rates)
{
    const struct bench_kernels *kernels = bench_kernels_get(isa);
#ifndef _OPENMP
    threads = 1;
#endif
    rates->threads = threads;
    rates->copy_gbs = 0.0;
    rates->fma_gflops = measure_fma(kernels, threads);
    return measure_sgemm(kernels, threads, &rates->sgemm_gflops) ||
                   measure_read(kernels, threads, &rates->read_gbs)
               ? -1
               : 0;
}

void bench_rates_keep_best(struct bench_rates *best, const struct bench_rates *other)
{
    best->threads = other->threads;
    best->fma_gflops = fmax(best->fma_gflops, other->fma_gflops);
    best->sgemm_gflops = fmax(best->sgemm_gflops, other->sgemm_gflops);
    best->read_gbs = fmax(best->read_gbs, other->read_gbs);
    best->copy_gbs = fmax(best->copy_gbs, other->copy_gbs);
}
