// Everything that is compiled once per instruction set, in order. An isa_*.c includes its simd_*.h,
// names its table in ATTN_CPU_KERNELS, and includes this.
#ifndef ATTN_CPU_ISA_TMPL_H
#define ATTN_CPU_ISA_TMPL_H

#include "../kernels.h"

#include "../backward/backward_tmpl.h"
#include "../forward/decode_tmpl.h"
#include "../forward/forward_tmpl.h"
#include "../forward/merge_splits_tmpl.h"

const attn_cpu_kernels_t ATTN_CPU_KERNELS = {
    .lanes = VF_LANES,
    .panel = PANEL,
    .forward = forward_task,
    .decode = decode_task,
    .merge_splits = merge_splits_task,
    .backward = &backward_kernels,
};

#endif
