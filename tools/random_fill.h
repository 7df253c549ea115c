// random_fill.h: reproducible random tensors, the same on every machine up to the C library's log
// and cos.
#ifndef ATTN_TOOLS_RANDOM_FILL_H
#define ATTN_TOOLS_RANDOM_FILL_H

#include <stdint.h>

#include "io/tensor.h"

// Fills a float tensor with normal numbers times sigma, an integer one with uniform 0 or 1
// (`ones` is the share of ones).
void random_fill(struct io_tensor *tensor, uint64_t seed, const char *what, double sigma,
                 double ones);

#endif
