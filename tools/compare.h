// compare.h: how far a result is from the reference, and how far it may be.
//
// The rule for every precision, without a magic tolerance: the largest error may be `factor` times
// the largest error of the plain implementation in the same precision (plain.h), plus a rounding
// term. NaN and infinities must be in the same places.
//
// tests/support/judge.c has the same rule with a finer rounding term: it knows the sums of absolute
// terms, which cancel in the reference's values; here the largest of those values stands for them.
#ifndef ATTN_TOOLS_COMPARE_H
#define ATTN_TOOLS_COMPARE_H

#include <stdbool.h>

#include "io/tensor.h"

struct error_stats {
    double max_abs; // over elements that are finite on both sides
    double rms;
    double max_reference; // largest finite |reference|
    int64_t mismatches;   // elements that are NaN or infinite on one side only, or of other sign
    int64_t worst;        // index of the largest error, or of the first mismatch
};

// Elements are compared in C order; counts must be equal.
struct error_stats compare_tensors(const struct io_tensor *got, const struct io_tensor *reference);

enum { COMPARE_FACTOR_FORWARD = 2, COMPARE_FACTOR_GRADIENT = 3 };

// dtype: the type of the result. plain: the errors of the plain implementation.
double compare_tolerance(enum io_dtype dtype, const struct error_stats *plain, double factor);

// Half the distance of neighbouring numbers at 1.
double compare_unit_roundoff(enum io_dtype dtype);

#endif
