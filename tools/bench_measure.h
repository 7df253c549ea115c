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
};

// Adds the samples to the set. A wrong result is a failure: *wrong_out is set, and err says where.
int bench_measure(const struct bench_case *c, attn_context_t *context,
                  const struct bench_protocol *protocol, struct bench_set *set, bool *wrong_out,
                  struct io_error *err);

#endif
