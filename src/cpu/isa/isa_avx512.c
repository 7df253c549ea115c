// The CPU kernels for AVX-512 F, BW, DQ and VL.
#include "simd_avx512.h"

#define ATTN_CPU_KERNELS attn_cpu_kernels_avx512
#include "isa_tmpl.h"
