// The kernel language: what every kernel file includes, on a GPU and in the emulator.
//
// A kernel is written once. nvcc and NVRTC make machine code from it; gcc and clang compile the
// same text as C11, and emu/ runs it. What differs between the two lives here and in ptx/, behind
// names that both sides have:
//
//   PTX, PTX_BODY    an instruction: on a GPU a function whose body is inline PTX, elsewhere only
//                    its declaration. One text gives both, so the two sides cannot drift apart;
//                    emu/ includes the same headers, and the compiler compares its definitions with
//                    them.
//   DEVICE           a function of a kernel.
//   KERNEL(threads)  the entry; KERNEL_CLUSTER(threads, ctas) with a cluster along x,
//                    KERNEL_CTAS(threads, ctas) for several CTAs to a multiprocessor. Parameters
//                    are one struct by value, marked GRID_CONSTANT, with the tensor maps inside.
//   UNROLL           before a loop whose counter indexes a fragment. A fragment is a local array;
//                    every index into it must be a constant after unrolling, or the array leaves
//                    the registers (the gate finds it, gcc does not).
//   ROLE("name")     names what the calling threads do, for the emulator's messages; nothing on a
//                    GPU.
//
// Shared memory is only ever a 32-bit address, as PTX wants it, never a C pointer: every access is
// an instruction of ptx/, and that is how the emulator sees all of them. Immediate operands are
// macros on a GPU and plain arguments elsewhere.
#ifndef ATTN_DEVICE_KERNEL_H
#define ATTN_DEVICE_KERNEL_H

#include "../../shared/shared_types.h"
#include "../../shared/tensor_map.h"

#ifdef __CUDACC__

#define PTX static __device__ __forceinline__
#define PTX_BODY(...)                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define DEVICE static __device__ __forceinline__
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define KERNEL_CTAS(threads, ctas) extern "C" __global__ void __launch_bounds__(threads, ctas)
#define KERNEL_CLUSTER(threads, ctas)                                                              \
    extern "C" __global__ void __cluster_dims__(ctas, 1, 1) __launch_bounds__(threads, 1)
#define GRID_CONSTANT __grid_constant__
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define ROLE(name) ((void)0)
#define INFINITY_F32 __int_as_float(0x7f800000)

#else

#define PTX extern
#define PTX_BODY(...)
#define DEVICE static inline
#define KERNEL(threads) void
#define KERNEL_CTAS(threads, ctas) void
#define KERNEL_CLUSTER(threads, ctas) void
#define GRID_CONSTANT
#define UNROLL
#define NO_UNROLL
#define ROLE(name) kernel_role(name)
#define INFINITY_F32 __builtin_inff()

void kernel_role(const char *name);

// Loads, stores and atomics tell the emulator their line of the source.
void kernel_site(const char *file, int line);
#define KERNEL_SITE kernel_site(__FILE__, __LINE__)

#endif

// PTX ISA, "Special Registers": %tid.x, %ctaid, %nctaid. Blocks have one dimension.
PTX uint32_t thread_idx(void) PTX_BODY(return threadIdx.x;);
PTX uint32_t block_idx_x(void) PTX_BODY(return blockIdx.x;);
PTX uint32_t block_idx_y(void) PTX_BODY(return blockIdx.y;);
PTX uint32_t block_idx_z(void) PTX_BODY(return blockIdx.z;);
PTX uint32_t grid_dim_x(void) PTX_BODY(return gridDim.x;);
PTX uint32_t grid_dim_y(void) PTX_BODY(return gridDim.y;);
PTX uint32_t grid_dim_z(void) PTX_BODY(return gridDim.z;);

// Address of the dynamic shared memory, 1024-byte aligned (a kernel has no static shared memory).
PTX uint32_t dynamic_smem(void)
    PTX_BODY(extern __shared__ __align__(1024) unsigned char dynamic_smem_bytes[];
             return (uint32_t)__cvta_generic_to_shared(dynamic_smem_bytes););

// The same value, which the compiler must then keep: it would rather work an address out anew at
// every use, in loops too.
PTX uint32_t kept_u32(uint32_t x) PTX_BODY(asm volatile("" : "+r"(x)); return x;);
PTX uint64_t kept_u64(uint64_t x) PTX_BODY(asm volatile("" : "+l"(x)); return x;);

#endif
