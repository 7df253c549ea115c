// The CPU kernels for AVX2, FMA and F16C.
#include "simd_avx2.h"

#define ATTN_CPU_KERNELS attn_cpu_kernels_avx2
#include "isa_tmpl.h"
