// Descriptions of runs, by family of probes; the table names them.
#ifndef FIDELITY_PREPARE_H
#define FIDELITY_PREPARE_H

#include "probe_run.h"

// What random words are.
typedef enum fill {
    FILL_BITS,    // anything
    FILL_ROUNDED, // fp32 around the limits and the ties of narrower types, NaN and infinities
    FILL_NORMAL,  // fp32, mean 0, variance 1
    FILL_WIDE,    // fp32, any sign and finite exponent
    FILL_EXPONENT // fp32 that ex2 does not over- or underflow with
} fill;
void fill_words(test_rng_t *rng, uint32_t *words, size_t count, fill kind);

// One element of the type (probe_words.h; the operand of A or of B) as bits.
uint32_t encode_element(int type, bool is_b, float x);
// Elements, packed: small whole numbers, whose products and sums are exact, or numbers from -1 to
// 1.
void fill_elements(test_rng_t *rng, void *elements, size_t bytes, int type, bool is_b,
                   bool is_whole);

// in and out of the table's sizes; words are random.
void prepare_words(struct run *run);
// The same, with an out of zeros, and CTAs that run together.
void prepare_flags(struct run *run);
// A case for each rank, swizzle and type; stored, or added to what is there.
void prepare_tma_store(struct run *run);
void prepare_tma_reduce(struct run *run);
// A case for each rank.
void prepare_multicast(struct run *run);
void prepare_mma_sync(struct run *run);
void prepare_mma_sync_rounding(struct run *run);
// A case for each type and n.
void prepare_wgmma_n(struct run *run);
// A case for each type, swizzle and pair of majors.
void prepare_wgmma_layout(struct run *run);
void prepare_wgmma_rounding(struct run *run);
void prepare_tensor_mma(struct run *run);
void prepare_pair_load(struct run *run);

#endif
