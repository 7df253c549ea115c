// bench_rates.h: what this machine can do at best, measured in the same run as the kernels.
//
// Three rates, each by a loop of our own (none is a vendor's library, and the names say so):
//   fma   independent fused multiply-adds on registers: the ceiling of any fp32 code
//   sgemm C = A B, 1152 x 1152 x 1152, fp32: packed panels, register-blocked; no tuning beyond that
//   read  summing a buffer far larger than the caches: what memory can deliver
#ifndef ATTN_TOOLS_BENCH_RATES_H
#define ATTN_TOOLS_BENCH_RATES_H

#include "attn.h"

struct bench_rates {
    int threads;
    double fma_gflops;
    double sgemm_gflops;
    double read_gbs;
    double copy_gbs; // of a GPU's memory, instead of the others
};

// isa: the highest to use; scalar means what the compiler makes of plain C. Takes about a second.
int bench_rates_measure(attn_isa_t isa, int threads, struct bench_rates *rates);

// Each rate becomes the larger of both.
void bench_rates_keep_best(struct bench_rates *best, const struct bench_rates *other);

#endif
