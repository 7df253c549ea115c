// random_fill.h: reproducible random tensors, the same on every machine up to the C library's log
// and cos.
#ifndef ATTN_TOOLS_RANDOM_FILL_H
#define ATTN_TOOLS_RANDOM_FILL_H

#include <stdint.h>

#include "io/tensor.h"

// SplitMix64 (Steele, Lea, Flood 2014): a counter through a mixer, so any seed is a good one.
struct random_stream {
    uint64_t state;
};

struct random_stream random_stream_start(uint64_t seed, const char *what);
uint64_t random_u64(struct random_stream *stream);
double random_uniform(struct random_stream *stream); // in (0, 1)
double random_normal(struct random_stream *stream);  // mean 0, standard deviation 1

// Fills a float tensor with normal numbers times sigma, an integer one with uniform 0 or 1
// (`ones` is the share of ones).
void random_fill(struct io_tensor *tensor, uint64_t seed, const char *what, double sigma,
                 double ones);

#endif
