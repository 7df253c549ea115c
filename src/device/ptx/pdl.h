// Programmatic dependent launch: a kernel starts while its predecessor still runs (PTX ISA,
// "Parallel Synchronization and Communication Instructions: griddepcontrol").
#ifndef ATTN_PTX_PDL_H
#define ATTN_PTX_PDL_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The predecessor's memory may be read after this.
PTX void griddep_wait(void) PTX_BODY(asm volatile("griddepcontrol.wait;" ::: "memory"););

// The successor may start once every CTA said so or exited. Says nothing about memory.
PTX void griddep_launch_dependents(void)
    PTX_BODY(asm volatile("griddepcontrol.launch_dependents;" ::
                              : "memory"););

#endif

#endif
