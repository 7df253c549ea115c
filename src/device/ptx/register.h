// setmaxnreg: warps hand registers to each other (PTX ISA, "Miscellaneous Instructions:
// setmaxnreg"). All warps of a warpgroup execute it, with the same immediate, a multiple of 8 from
// 24 to 256. dec gives back at once; inc waits until the CTA's pool has enough.
#ifndef ATTN_PTX_REGISTER_H
#define ATTN_PTX_REGISTER_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

#ifdef __CUDACC__
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"((int)(n)))
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"((int)(n)))
#else
void setmaxnreg_inc(uint32_t n);
void setmaxnreg_dec(uint32_t n);
#endif

#endif

#endif
