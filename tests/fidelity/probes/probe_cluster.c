// A cluster: ranks, remote loads and stores, remote arrivals, copies from one CTA to another.
#include "../../../src/device/ptx/bulk.h"
#include "../../../src/device/ptx/cluster.h"
#include "../probe.h"

enum { PIECE_WORDS = 128, PIECE_BYTES = 4 * PIECE_WORDS, CLUSTER_ANSWERS = 2 * PIECE_WORDS + 4 };

// in: a piece for each CTA of the grid. out: what came to each CTA.
KERNEL(128) probe_cluster(const GRID_CONSTANT struct probe_params p)
{
    uint32_t bar = probe_barrier(2);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t t = thread_idx();
    uint32_t rank = cluster_rank();
    uint32_t size = cluster_size();
    uint32_t next = (rank + 1) % size;
    uint32_t *out = p.out + CLUSTER_ANSWERS * block_idx_x();
    probe_copy_in(data, p.in + PIECE_WORDS * block_idx_x(), PIECE_WORDS, 128);
    cluster_arrive(); // all barriers are there
    cluster_wait();
    if (t == 0) {
        uint32_t next_bar = cluster_map(bar, next);
        mbarrier_arrive_expect_tx_cluster(next_bar, PIECE_BYTES);
        bulk_copy_cluster(cluster_map(data + PIECE_BYTES, next), data, PIECE_BYTES, next_bar);
        mbarrier_arrive_cluster(cluster_map(bar, (rank + size - 1) % size));
    }
    mbarrier_wait_cluster(bar, 0);
    st_global_u32(out + t, ld_shared_u32(data + PIECE_BYTES + 4 * t));
    st_cluster_u32(cluster_map(data + 2 * PIECE_BYTES + 4 * t, next),
                   ld_shared_u32(data + 4 * t) + t);
    cluster_arrive();
    cluster_wait();
    st_global_u32(out + PIECE_WORDS + t, ld_shared_u32(data + 2 * PIECE_BYTES + 4 * t) ^
                                             ld_cluster_u32(cluster_map(data + 4 * (t ^ 7), next)));
    if (t == 0) {
        st_global_u32(out + 2 * PIECE_WORDS, rank);
        st_global_u32(out + 2 * PIECE_WORDS + 1, size);
        st_global_u32(out + 2 * PIECE_WORDS + 2, block_idx_x());
        st_global_u32(out + 2 * PIECE_WORDS + 3, mbarrier_try_wait_cluster(bar, 0));
    }
    cluster_arrive_relaxed(); // nobody leaves while others read
    cluster_wait();
}
