// check_truth.h: the right answer to a problem, and how far from it a result may be.
//
// Used by attn check, and by attn bench before it times anything. The right answer comes from the
// library's fp64 reference on inputs widened to fp64; the allowance from plain.h by the rule of
// compare.h.
#ifndef ATTN_TOOLS_CHECK_TRUTH_H
#define ATTN_TOOLS_CHECK_TRUTH_H

#include "compare.h"
#include "problem.h"

struct check_truth {
    bool backward;
    struct io_tensor tensors[OPERAND_COUNT]; // results only, fp64 or fp32
    struct error_stats plain[OPERAND_COUNT];
    double tolerance[OPERAND_COUNT];
};

// The problem must have its forward results (and, for backward, do and its backward results)
// allocated; their contents do not matter.
int check_truth_create(struct check_truth *truth, const struct problem *problem, bool backward,
                       struct io_error *err);
void check_truth_destroy(struct check_truth *truth);

struct check_row {
    const char *kernel;
    const char *tensor;
    struct error_stats stats;
    double plain_max;
    double tolerance;
    bool ok;
};
enum { CHECK_MAX_ROWS = 8 };

// Compares the results that the problem holds now. Gives the number of rows; kernel is borrowed.
// Backward rows are made only if `backward`, forward rows only if not.
int check_compare(const struct check_truth *truth, const struct problem *problem,
                  const char *kernel, bool backward, struct check_row rows[CHECK_MAX_ROWS]);

// Fills all results with NaN, so that an element that a kernel forgets to write shows.
void check_spoil_results(struct problem *problem);

#endif
