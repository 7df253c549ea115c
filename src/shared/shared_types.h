// What every file of src/shared includes: fixed-width integers on the host, and how its functions
// are declared on either side.
#ifndef ATTN_SHARED_TYPES_H
#define ATTN_SHARED_TYPES_H

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

#ifdef __CUDACC__
#define ATTN_SHARED static __device__ __forceinline__
#else
#define ATTN_SHARED static inline
#endif

#endif
