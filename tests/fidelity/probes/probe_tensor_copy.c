// tcgen05.cp in every shape: rows of shared memory into tensor memory. tcgen05.shift.
#include "../../../src/device/common/tcgen05_descriptor.h"
#include "../probe_tensor.h"

enum {
    COPY_IMAGE_WORDS = 2048,
    COPY_SHOWN = 32,
    COPY_AT = 8,
    COPY_SHAPES = 6,
    COPY_ALL = 7 * COPY_SHOWN
};

DEVICE void copy_of_shape(uint32_t shape, uint32_t at, uint64_t desc)
{
    switch (shape) {
    case 0: tcgen05_cp_128x256b(at, desc); break;
    case 1: tcgen05_cp_4x256b(at, desc); break;
    case 2: tcgen05_cp_128x128b(at, desc); break;
    case 3: tcgen05_cp_64x128b_02_13(at, desc); break;
    case 4: tcgen05_cp_64x128b_01_23(at, desc); break;
    default: tcgen05_cp_32x128b(at, desc); break;
    }
}

// in: the image, the columns for each of the six shapes and for the shift, which follow each other.
KERNEL(128) probe_tensor_copy(const GRID_CONSTANT struct probe_params p)
{
    uint32_t bar = probe_barrier(1);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t tensor = tensor_allocate(0);
    uint64_t desc = tcgen05_matrix_descriptor(data, 2048, 128, TCGEN05_NO_SWIZZLE);
    probe_copy_in(data, p.in, COPY_IMAGE_WORDS, 128);
    tensor_fill(tensor, p.in + COPY_IMAGE_WORDS, COPY_ALL);
    tensor_meet(0);
    if (thread_idx() == 0) {
        for (uint32_t shape = 0; shape < COPY_SHAPES; shape++) {
            copy_of_shape(shape, tensor + COPY_SHOWN * shape + COPY_AT, desc);
        }
        tcgen05_shift_down(tensor + COPY_SHOWN * COPY_SHAPES + COPY_AT);
        tcgen05_commit(bar);
    }
    mbarrier_wait(bar, 0);
    tcgen05_fence_after();
    tensor_show(p.out, tensor, COPY_ALL);
    tensor_release(tensor, 0);
}
