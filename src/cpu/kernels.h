// The table through which the portable part of the CPU backend calls the code of one instruction
// set. Every isa_*.c defines one from the same *_tmpl.h sources. CONTRIBUTING.md lists what a new
// instruction set touches.
#ifndef ATTN_CPU_KERNELS_H
#define ATTN_CPU_KERNELS_H

#include <stdint.h>

#include "backward/backward_tile.h"
#include "forward/forward_task.h"

typedef struct attn_cpu_kernels {
    int32_t lanes; // floats per vector
    int32_t panel; // floats per row of the matrix product: 2 * lanes
    // One task of a forward run, of one with few query rows, and of the pass that merges split
    // keys.
    void (*forward)(const attn_cpu_forward_t *run, int64_t task, int32_t worker);
    void (*decode)(const attn_cpu_forward_t *run, int64_t task, int32_t worker);
    void (*merge_splits)(const attn_cpu_forward_t *run, int64_t task, int32_t worker);
    const attn_cpu_backward_kernels_t *backward;
} attn_cpu_kernels_t;

extern const attn_cpu_kernels_t attn_cpu_kernels_scalar;
extern const attn_cpu_kernels_t attn_cpu_kernels_avx2;
extern const attn_cpu_kernels_t attn_cpu_kernels_avx512;
extern const attn_cpu_kernels_t attn_cpu_kernels_avx512_bf16;

// The table of an instruction set that attn_isa_available() allows.
const attn_cpu_kernels_t *attn_cpu_kernels_of(attn_isa_t isa);

#endif
