// The layouts and the arithmetic of one wgmma, for wgmma.c and for the tests of the layouts.
#ifndef EMU_WGMMA_TILE_H
#define EMU_WGMMA_TILE_H

#include "matrix_operand.h"

struct wgmma_operands {
    operand_type type_a;
    operand_type type_b;
    int n;
    int accumulate;
    int a_in_registers;
    int major_a; // 0: k contiguous, 1: m contiguous
    int major_b;
    uint64_t desc_a;
    uint64_t desc_b;
};

void wgmma_issue(float *d, const uint32_t *a, const struct wgmma_operands *operands);

bool wgmma_operands_equal(const struct wgmma_operands *a, const struct wgmma_operands *b);
void wgmma_check_operands(const struct wgmma_operands *operands);
// What the warp `quarter` of the warpgroup reads of shared memory.
void wgmma_check_reads(struct cta *cta, const struct wgmma_operands *operands, uint32_t quarter,
                       uint32_t agent, uint32_t epoch);
// d[64][n] = A B (+ d). `a`: the A fragments of the 128 threads.
void wgmma_multiply(const struct cta *cta, const struct wgmma_operands *operands,
                    const uint32_t (*a)[4], float (*d)[256]);

// Where register i of thread t lies in D.
static inline uint32_t wgmma_d_row(uint32_t t, uint32_t i)
{
    return t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
}

static inline uint32_t wgmma_d_column(uint32_t t, uint32_t i)
{
    return i / 4 * 8 + t % 4 * 2 + i % 2;
}

// A descriptor of Hopper's format.
struct operand_layout wgmma_layout(uint64_t descriptor);

#endif
