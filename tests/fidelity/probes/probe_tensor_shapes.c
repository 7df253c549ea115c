// tcgen05.ld and st in every shape and size: what each thread gets, and a sum over each lane of
// what a store left behind.
#include "../probe_tensor.h"

enum { SHAPES_STORED_AT = 256, SHAPES_SPLIT = 128 };

// After a store in any shape: of the lane's columns that it may have written.
DEVICE uint32_t lane_sum(uint32_t tensor)
{
    uint32_t sum = 0;
    tcgen05_wait_st();
    tcgen05_fence_before();
    cta_sync();
    tcgen05_fence_after();
    for (uint32_t c = SHAPES_STORED_AT; c < TENSOR_COLUMNS; c += TENSOR_STEP) {
        uint32_t r[TENSOR_STEP];
        tcgen05_ld_32x32b(32, r, tensor_own_lanes(tensor) + c);
        tcgen05_wait_ld();
        UNROLL
        for (uint32_t i = 0; i < TENSOR_STEP; i++) {
            sum = sum * 31 + r[i];
        }
    }
    tcgen05_fence_before();
    cta_sync();
    tcgen05_fence_after();
    return sum;
}

DEVICE uint32_t *show(uint32_t *out, const uint32_t *r, uint32_t count, uint32_t tensor)
{
    UNROLL
    for (uint32_t i = 0; i < count; i++) {
        st_global_u32(out + 128 * i + thread_idx(), r[i]);
    }
    st_global_u32(out + 128 * count + thread_idx(), lane_sum(tensor));
    return out + 128 * (count + 1);
}

// Loads from the first half of the columns, stores the same registers into the second.
#define SHAPES_STEP(shape, num, count)                                                             \
    {                                                                                              \
        uint32_t r[count];                                                                         \
        tcgen05_ld_##shape(num, r, at);                                                            \
        tcgen05_wait_ld();                                                                         \
        tcgen05_st_##shape(num, at + SHAPES_STORED_AT, r);                                         \
        out = show(out, r, count, tensor);                                                         \
    }
#define SHAPES_SPLIT_STEP(num)                                                                     \
    {                                                                                              \
        uint32_t r[num];                                                                           \
        tcgen05_ld_16x32bx2(num, r, at, SHAPES_SPLIT);                                             \
        tcgen05_wait_ld();                                                                         \
        tcgen05_st_16x32bx2(num, at + SHAPES_STORED_AT, SHAPES_SPLIT, r);                          \
        out = show(out, r, num, tensor);                                                           \
    }

DEVICE void show_shapes(uint32_t tensor, uint32_t half, uint32_t *out)
{
    uint32_t at = tensor_own_lanes(tensor);
    SHAPES_STEP(32x32b, 1, 1)
    SHAPES_STEP(32x32b, 2, 2)
    SHAPES_STEP(32x32b, 4, 4)
    SHAPES_STEP(32x32b, 8, 8)
    SHAPES_STEP(32x32b, 16, 16)
    SHAPES_STEP(32x32b, 32, 32)
    SHAPES_STEP(32x32b, 64, 64)
    SHAPES_STEP(32x32b, 128, 128)
    at += half << 16;
    SHAPES_STEP(16x64b, 1, 1)
    SHAPES_STEP(16x64b, 2, 2)
    SHAPES_STEP(16x64b, 4, 4)
    SHAPES_STEP(16x64b, 8, 8)
    SHAPES_STEP(16x64b, 16, 16)
    SHAPES_STEP(16x64b, 32, 32)
    SHAPES_STEP(16x64b, 64, 64)
    SHAPES_STEP(16x64b, 128, 128)
    SHAPES_STEP(16x128b, 1, 2)
    SHAPES_STEP(16x128b, 2, 4)
    SHAPES_STEP(16x128b, 4, 8)
    SHAPES_STEP(16x128b, 8, 16)
    SHAPES_STEP(16x128b, 16, 32)
    SHAPES_STEP(16x128b, 32, 64)
    SHAPES_STEP(16x128b, 64, 128)
    SHAPES_STEP(16x256b, 1, 4)
    SHAPES_STEP(16x256b, 2, 8)
    SHAPES_STEP(16x256b, 4, 16)
    SHAPES_STEP(16x256b, 8, 32)
    SHAPES_STEP(16x256b, 16, 64)
    SHAPES_STEP(16x256b, 32, 128)
    SHAPES_SPLIT_STEP(1)
    SHAPES_SPLIT_STEP(2)
    SHAPES_SPLIT_STEP(4)
    SHAPES_SPLIT_STEP(8)
    SHAPES_SPLIT_STEP(16)
    SHAPES_SPLIT_STEP(32)
    SHAPES_SPLIT_STEP(64)
    SHAPES_SPLIT_STEP(128)
}

// in: all columns. words[0]: which half of a warp's lanes the 16-lane shapes use.
KERNEL(128) probe_tensor_shapes(const GRID_CONSTANT struct probe_params p)
{
    uint32_t tensor = tensor_allocate(0);
    tensor_fill(tensor, p.in, TENSOR_COLUMNS);
    tensor_meet(0);
    show_shapes(tensor, p.words[0] % 2 * 16, p.out);
    tensor_release(tensor, 0);
}
