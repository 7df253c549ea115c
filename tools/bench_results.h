// bench_results.h: measurements in memory and in JSON files, ours and peers' in one format:
//
//     {"name": "libattn 0.1.0", "threads": 2, "machine": "...",
//      "rates": {"fma_gflops": 1, "sgemm_gflops": 1, "read_gbs": 1},            (ours only)
//      "results": [{"case": "f32-full/512", "kernel": "...", "flops": 1e9, "bytes": 1e6,
//                   "samples_s": [0.1, 0.1]}]}
//
// Of a GPU samples_s are those of the cold protocol (bench_gpu.h), and a result has beside them
// "sustained_s", and where they are known "clock_mhz", "joules" of a run and "gemm_gflops", the
// rate of a matrix product in the same rounds; the set's rates are {"copy_gbs": 1}.
//
// Files of several rounds are pooled; each file's own median is kept, so that ratios can be taken
// within a round, when the machine was in one state.
#ifndef ATTN_TOOLS_BENCH_RESULTS_H
#define ATTN_TOOLS_BENCH_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_rates.h"
#include "bench_shapes.h"
#include "io/io_error.h"

enum {
    BENCH_CASE_BYTES = BENCH_NAME_BYTES + 24,
    BENCH_KERNEL_BYTES = 96,
    BENCH_MAX_ROUNDS = 64,
    BENCH_MAX_SETS = 8,
    BENCH_MIN_SAMPLES = 3,
    BENCH_MAX_SAMPLES = 1000,
};

struct bench_result {
    char name[BENCH_CASE_BYTES]; // "series/S"
    char series[BENCH_NAME_BYTES];
    int64_t s;
    char kernel[BENCH_KERNEL_BYTES];
    double flops, bytes; // of one run; peers need not say
    double *samples_s;
    size_t n_samples;
    double round_median_s[BENCH_MAX_ROUNDS]; // NaN: not measured in that round
    double *sustained_s;                     // of a GPU, else none
    size_t n_sustained;
    double clock_mhz, joules, gemm_gflops; // NaN: not known
};

struct bench_set {
    char name[BENCH_NAME_BYTES];
    char machine[192];
    int threads;
    bool has_rates;
    struct bench_rates rates;
    struct bench_result *results;
    size_t n;
    int n_rounds;
};

void bench_set_destroy(struct bench_set *set);
void bench_result_clear(struct bench_result *result);

// The case's result, added if it is new. NULL without memory.
struct bench_result *bench_set_result(struct bench_set *set, const char *series, int64_t s);
const struct bench_result *bench_set_find(const struct bench_set *set, const char *name);

// Takes over samples of the round at hand (set->n_rounds); ends with bench_set_end_round.
int bench_result_add(struct bench_result *result, int round, const double *samples_s, size_t n,
                     struct io_error *err);
int bench_result_add_sustained(struct bench_result *result, const double *samples_s, size_t n,
                               struct io_error *err);
void bench_set_end_round(struct bench_set *set);

// Reads one file into a set as one more round. The name must be the same in all files of a set.
int bench_set_read(const char *path, struct bench_set *set, struct io_error *err);
int bench_set_write(const char *path, const struct bench_set *set, struct io_error *err);

// Median and quartiles of unsorted numbers; NaN for none.
struct bench_summary {
    double low, median, high;
};
struct bench_summary bench_summarise(const double *samples, size_t n);

#endif
