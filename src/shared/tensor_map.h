// A tensor map (CUtensorMap): what TMA knows of a tensor. The driver fills it in for a GPU,
// emu_tensor_map_encode for the emulator; kernels take it inside their parameters.
#ifndef ATTN_SHARED_TENSOR_MAP_H
#define ATTN_SHARED_TENSOR_MAP_H

#include "shared_types.h"

typedef struct __attribute__((aligned(64))) tensor_map {
    uint64_t opaque[16];
} tensor_map;

#endif
