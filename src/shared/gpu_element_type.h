// Element types as kernels get them at run time, where the type does not decide the speed.
#ifndef ATTN_SHARED_GPU_ELEMENT_TYPE_H
#define ATTN_SHARED_GPU_ELEMENT_TYPE_H

enum {
    ATTN_GPU_F32,
    ATTN_GPU_F16,
    ATTN_GPU_BF16,
    ATTN_GPU_F64,
    ATTN_GPU_BYTE // of an 8-bit float: moved, never computed with
};

#endif
