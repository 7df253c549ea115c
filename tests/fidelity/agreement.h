// Judging two runs of the same case: their outputs, element by element.
#ifndef FIDELITY_AGREEMENT_H
#define FIDELITY_AGREEMENT_H

#include "probe_run.h"

struct agreement_found {
    uint64_t elements;
    uint64_t differing;  // beyond what is allowed
    double largest;      // difference among those that may differ, in units of the bound
    double bound;        // the largest bound; 0: bits
    agreement agreement; // of the bound
    char first[256];     // the first element that differs
};

// Adds to found.
void compare_runs(const struct run *a, const struct run *b, struct agreement_found *found);

#endif
