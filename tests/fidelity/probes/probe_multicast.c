// Multicast: each CTA of a cluster loads a box and a range of bytes into every CTA of a random
// mask.
#include "../../../src/device/ptx/bulk.h"
#include "../../../src/device/ptx/cluster.h"
#include "../../../src/device/ptx/tma.h"
#include "../probe.h"
#include "../probe_words.h"

enum { PART_BYTES = 128, IMAGE_WORDS = 2 * MULTICAST_CTAS * PART_BYTES / 4 };

DEVICE uint32_t mask_of(const struct probe_params *p, uint32_t cta)
{
    return p->words[TMA_MASKS] >> (4 * cta) & 15;
}

DEVICE void multicast_box(const struct probe_params *p, uint32_t dst, uint32_t bar, uint32_t cta)
{
    uint32_t mask = mask_of(p, cta);
    int32_t row = (int32_t)cta * 4;
    switch (p->words[TMA_RANK]) {
    case 2: tma_load_multicast_2d(dst, &p->in_map, bar, mask, 8, row); break;
    case 3: tma_load_multicast_3d(dst, &p->in_map, bar, mask, 8, row, 1); break;
    case 4: tma_load_multicast_4d(dst, &p->in_map, bar, mask, 8, row, 1, 0); break;
    default: tma_load_multicast_5d(dst, &p->in_map, bar, mask, 8, row, 1, 0, 1); break;
    }
}

// out: the image of each CTA, where parts that nobody sent keep the CTA's own words.
KERNEL(128) probe_multicast(const GRID_CONSTANT struct probe_params p)
{
    uint32_t bar = probe_barrier(1);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t rank = cluster_rank();
    probe_copy_in(data, p.in + IMAGE_WORDS * rank, IMAGE_WORDS, 128);
    if (thread_idx() == 0) {
        uint32_t parts = 0;
        for (uint32_t cta = 0; cta < MULTICAST_CTAS; cta++) {
            parts += 2 * (mask_of(&p, cta) >> rank & 1);
        }
        mbarrier_arrive_expect_tx(bar, parts * PART_BYTES);
    }
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0) {
        uint32_t own = data + 2 * PART_BYTES * rank;
        multicast_box(&p, own, bar, rank);
        bulk_load_multicast(own + PART_BYTES, p.in + 1024 + 32 * rank, PART_BYTES, bar,
                            mask_of(&p, rank));
    }
    mbarrier_wait_cluster(bar, 0);
    probe_copy_out(p.out + IMAGE_WORDS * rank, data, IMAGE_WORDS, 128);
    cluster_arrive();
    cluster_wait();
}
