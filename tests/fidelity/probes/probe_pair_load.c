// TMA loads of a CTA pair: both load, the first one's mbarrier counts the bytes of both.
#include "../../../src/device/ptx/cluster.h"
#include "../../../src/device/ptx/tma_pair.h"
#include "../probe.h"
#include "../probe_words.h"

DEVICE void pair_load(const struct probe_params *p, uint32_t dst, uint32_t bar)
{
    const int32_t *c = p->load_at;
    int32_t row = c[1] + 4 * (int32_t)cluster_rank();
    switch (p->words[TMA_RANK]) {
    case 2: tma_load_pair_2d(dst, &p->in_map, bar, c[0], row); break;
    case 3: tma_load_pair_3d(dst, &p->in_map, bar, c[0], row, c[2]); break;
    case 4: tma_load_pair_4d(dst, &p->in_map, bar, c[0], row, c[2], c[3]); break;
    default: tma_load_pair_5d(dst, &p->in_map, bar, c[0], row, c[2], c[3], c[4]); break;
    }
}

KERNEL(128) probe_pair_load(const GRID_CONSTANT struct probe_params p)
{
    uint32_t bar = probe_barrier(1);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t bytes = p.words[TMA_BYTES];
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0) {
        pair_load(&p, data, cluster_map(bar, 0));
    }
    if (thread_idx() == 0 && cluster_rank() == 0) {
        mbarrier_arrive_expect_tx(bar, 2 * bytes);
        mbarrier_wait_cluster(bar, 0);
    }
    cluster_arrive();
    cluster_wait();
    probe_copy_out(p.out + bytes / 4 * cluster_rank(), data, bytes / 4, 128);
}
