// The CPU kernels for AVX-512 with VDPBF16PS.
#include "simd_avx512.h"

#define ATTN_CPU_KERNELS attn_cpu_kernels_avx512_bf16
#include "isa_tmpl.h"
