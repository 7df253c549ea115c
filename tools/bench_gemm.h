// bench_gemm.h: a large matrix product of cuBLAS: what a GPU's tensor cores give in this state.
#ifndef ATTN_TOOLS_BENCH_GEMM_H
#define ATTN_TOOLS_BENCH_GEMM_H

#include <stdbool.h>

#include "io/io_error.h"

// bf16, fp32 sums, random numbers: zeros would take less power.
enum { BENCH_GEMM_SIZE = 8192 };
#define BENCH_GEMM_FLOPS (2.0 * BENCH_GEMM_SIZE * BENCH_GEMM_SIZE * BENCH_GEMM_SIZE)

// In the context that device_open made current. false in *found_out, and no error, where there is
// no cuBLAS on the loader's path or in /usr/local/cuda.
int bench_gemm_open(bool *found_out, struct io_error *err);
void bench_gemm_close(void); // also without open
// The GPU is still at it on return.
int bench_gemm_start(struct io_error *err);

#endif
