// What the machine's processor and operating system can run.
#ifndef ATTN_CORE_CPUID_H
#define ATTN_CORE_CPUID_H

#include "attn.h"

// The best instruction set that this machine can run and this build has kernels for.
attn_isa_t attn_cpu_best_isa(void);

#endif
