// The attention kernel of the ladder's level LEVEL, 3, 5 or 6, and what a launch of it must know.
#ifndef EMU_LADDER_ATTENTION_H
#define EMU_LADDER_ATTENTION_H

#if LEVEL == 3
#include "../../examples/ladder/hopper_attention.c"
#define attention_kernel hopper_attention
#define attention_params hopper_attention_params
enum { ATTENTION_ARCH = 90, ATTENTION_CLUSTER = 1, BOX_ROWS_K = 128, BOX_ROWS_OUT = 64 };
#elif LEVEL == 5
#include "../../examples/ladder/blackwell_attention.c"
#define attention_kernel blackwell_attention
#define attention_params blackwell_attention_params
enum { ATTENTION_ARCH = 100, ATTENTION_CLUSTER = 1, BOX_ROWS_K = 128, BOX_ROWS_OUT = 128 };
#else
#include "../../examples/ladder/blackwell_attention_pair.c"
#define attention_kernel blackwell_attention_pair
#define attention_params blackwell_attention_pair_params
enum { ATTENTION_ARCH = 100, ATTENTION_CLUSTER = 2, BOX_ROWS_K = 64, BOX_ROWS_OUT = 128 };
#endif

#endif
