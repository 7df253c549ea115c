// Level 1: a matrix, scaled, from global memory to global memory through shared memory, by TMA.
//
// out[m][n] = factor * in[m][n] in fp32, one tile of 64 x 32 per CTA; matrices of any size: TMA
// fills what lies outside with zeros on the way in and leaves it out on the way back.
//
// What it shows: an mbarrier that counts bytes, the swizzle seen from a thread, and the two
// proxies. TMA works through the async proxy, threads through the generic one; whoever wrote
// generically and wants TMA to read it needs fence_proxy_async before the barrier.
//
// Roles (128 threads)
//   thread 0     starts the load, and at the end the store
//   all threads  scale a quarter of a row each
//
// Time of a tile
//   TMA       | load |                 | store |
//   threads          | wait | scale |
//
// Shared memory: the tile, 64 rows of 128 bytes, swizzled; an mbarrier.
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tma.h"

enum {
    COPY_THREADS = 128,
    COPY_ROWS = 64,
    COPY_COLUMNS = 32,
    COPY_ROW_BYTES = COPY_COLUMNS * 4, // 128: a row of the swizzle
    COPY_TILE_BYTES = COPY_ROWS * COPY_ROW_BYTES,
    SMEM_TILE = 0,
    SMEM_FULL = SMEM_TILE + COPY_TILE_BYTES,
    COPY_SMEM_BYTES = SMEM_FULL + 8
};

struct tma_copy_params {
    tensor_map in;  // (n, m), fp32, box 32 x 64, 128-byte swizzle
    tensor_map out; // likewise
    float factor;
};

// Thread t has row t / 2 and four of the row's eight 16-byte pieces. The swizzle moves piece i of
// row r to place i ^ (r % 8).
DEVICE void scale_pieces(uint32_t tile, float factor)
{
    uint32_t row = thread_idx() / 2;
    uint32_t first = thread_idx() % 2 * 4;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t addr = tile + row * COPY_ROW_BYTES + (((first + i) ^ (row % 8)) << 4);
        uint32_t bits[4];
        ld_shared_v4_u32(bits, addr);
        UNROLL
        for (int j = 0; j < 4; j++) {
            bits[j] = bits_of_f32(f32_of_bits(bits[j]) * factor);
        }
        st_shared_v4_u32(addr, bits);
    }
}

KERNEL(128) tma_copy(const GRID_CONSTANT struct tma_copy_params p)
{
    uint32_t smem = dynamic_smem();
    int32_t column = (int32_t)block_idx_x() * COPY_COLUMNS;
    int32_t row = (int32_t)block_idx_y() * COPY_ROWS;
    if (thread_idx() == 0) {
        mbarrier_init(smem + SMEM_FULL, 1);
        fence_mbarrier_init();
    }
    cta_sync();
    if (thread_idx() == 0) {
        mbarrier_arrive_expect_tx(smem + SMEM_FULL, COPY_TILE_BYTES);
        tma_load_2d(smem + SMEM_TILE, &p.in, smem + SMEM_FULL, column, row);
    }
    mbarrier_wait(smem + SMEM_FULL, 0); // the bytes are there
    scale_pieces(smem + SMEM_TILE, p.factor);
    fence_proxy_async(); // st.shared before the TMA store
    cta_sync();
    if (thread_idx() == 0) {
        tma_store_2d(&p.out, smem + SMEM_TILE, column, row);
        bulk_commit_group();
        bulk_wait_group_read(0); // shared memory must outlive the store
    }
}
