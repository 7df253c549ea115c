// The kernel of the ladder's level LEVEL, 2 to 6, and what a launch of it must know.
#ifndef EMU_LADDER_KERNEL_H
#define EMU_LADDER_KERNEL_H

#if LEVEL == 2
#include "../../examples/ladder/hopper_gemm.c"
#define gemm_kernel hopper_gemm
#define gemm_params hopper_gemm_params
enum { LADDER_ARCH = 90 };
#elif LEVEL == 3
#include "../../examples/ladder/hopper_attention.c"
#define attention_kernel hopper_attention
#define attention_params hopper_attention_params
enum { LADDER_ARCH = 90, ATTENTION_CLUSTER = 1, BOX_ROWS_K = 128, BOX_ROWS_OUT = 64 };
#elif LEVEL == 4
#include "../../examples/ladder/blackwell_gemm.c"
#define gemm_kernel blackwell_gemm
#define gemm_params blackwell_gemm_params
enum { LADDER_ARCH = 100 };
#elif LEVEL == 5
#include "../../examples/ladder/blackwell_attention.c"
#define attention_kernel blackwell_attention
#define attention_params blackwell_attention_params
enum { LADDER_ARCH = 100, ATTENTION_CLUSTER = 1, BOX_ROWS_K = 128, BOX_ROWS_OUT = 128 };
#else
#include "../../examples/ladder/blackwell_attention_pair.c"
#define attention_kernel blackwell_attention_pair
#define attention_params blackwell_attention_params
enum { LADDER_ARCH = 100, ATTENTION_CLUSTER = 2, BOX_ROWS_K = 64, BOX_ROWS_OUT = 128 };
#endif

#endif
