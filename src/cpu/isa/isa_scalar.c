// The CPU kernels for any processor.
#include "simd_scalar.h"

#define ATTN_CPU_KERNELS attn_cpu_kernels_scalar
#include "isa_tmpl.h"
