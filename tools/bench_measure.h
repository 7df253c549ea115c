// bench_measure.h: one case of attn bench: check the result, then time it.
#ifndef ATTN_TOOLS_BENCH_MEASURE_H
#define ATTN_TOOLS_BENCH_MEASURE_H

#include "bench_results.h"
#include "bench_shapes.h"

struct bench_protocol {
    int64_t warmup;     // runs before the first sample
    int64_t samples;    // at most
    double max_seconds; // per case, for all samples together; at least 3 are taken
    bool check;
    double idle_seconds, heat_seconds; // of a GPU: before the cold runs, before the sustained ones
    int64_t rounds;                    // sustained samples
};

// Adds the samples to the set. A wrong result is a failure: *wrong_out is set, and err says where.
// gpu is that of the case, or NULL for the CPU. What a GPU has no kernel for is said on stderr and
// left out.
struct bench_gpu;
int bench_measure(const struct bench_case *c, attn_context_t *context, const struct bench_gpu *gpu,
                  const struct bench_protocol *protocol, struct bench_set *set, bool *wrong_out,
                  struct io_error *err);

#endif
