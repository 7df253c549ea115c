// bench_gpu.h: the time of a plan's runs on a GPU, by its own events, in two protocols.
//
//   cold        a pause, warm-up, then single runs. Before each a buffer larger than L2 is filled
//               twice: L2 is cold, and the host is ahead of the GPU, so that no launch is timed.
//   sustained   the GPU is heated by the runs themselves, then batches of runs back to back, by
//               turns with cuBLAS's matrix product: what is left where power limits the clock.
//
// In both the operands rotate over copies that do not fit L2 together.
#ifndef ATTN_TOOLS_BENCH_GPU_H
#define ATTN_TOOLS_BENCH_GPU_H

#include "bench_measure.h"
#include "launch.h"

// Opens a GPU and its meter, and with wants_gemm cuBLAS, if it is there.
struct bench_gpu;
int bench_gpu_open(int ordinal, bool wants_gemm, struct bench_gpu **gpu_out, struct io_error *err);
void bench_gpu_close(struct bench_gpu *gpu); // NULL is allowed
const char *bench_gpu_name(const struct bench_gpu *gpu);

// Bytes read and written per second by copying a buffer far larger than L2; the best of some.
int bench_gpu_copy_rate(const struct bench_gpu *gpu, double *gbs_out, struct io_error *err);

// Fills the result's samples of both protocols, clock, energy and the product's rate.
int bench_gpu_measure(const struct bench_gpu *gpu, struct launch *launch,
                      const struct problem *problem, const struct bench_protocol *protocol,
                      int round, struct bench_result *result, struct io_error *err);

#endif
