// Bulk copies and reductions of byte ranges: in, out whole, out added to what is there.
#include "../../../src/device/ptx/bulk.h"
#include "../probe.h"

// Words of each of the four ranges of `out` that are written.
enum { BULK_WORDS = 1024, BULK_BYTES = 4 * BULK_WORDS };

KERNEL(128) probe_bulk(const GRID_CONSTANT struct probe_params p)
{
    uint32_t bar = probe_barrier(1);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    if (thread_idx() == 0) {
        mbarrier_expect_tx(bar, 4 * BULK_BYTES);
        mbarrier_arrive(bar);
        bulk_load(data, p.in, BULK_BYTES, bar);
        bulk_load(data + BULK_BYTES, p.in + BULK_WORDS, BULK_BYTES - 16, bar);
        bulk_load(data + 2 * BULK_BYTES - 16, p.in + 2 * BULK_WORDS - 4, 16, bar);
        bulk_load(data + 2 * BULK_BYTES, p.in + 2 * BULK_WORDS, 2 * BULK_BYTES, bar);
    }
    mbarrier_wait(bar, 0);
    if (thread_idx() == 0) {
        bulk_store(p.out, data, BULK_BYTES);
        bulk_commit_group();
        bulk_reduce_add_f32(p.out + BULK_WORDS, data + BULK_BYTES, BULK_BYTES);
        bulk_reduce_add_f16(p.out + 2 * BULK_WORDS, data + 2 * BULK_BYTES, BULK_BYTES);
        bulk_reduce_add_bf16(p.out + 3 * BULK_WORDS, data + 3 * BULK_BYTES, BULK_BYTES);
        bulk_commit_group();
        bulk_wait_group_read(1);
        bulk_wait_group(0);
    }
}
