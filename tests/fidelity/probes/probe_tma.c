// TMA: a box of any rank, type and swizzle, over any edge of its tensor, into shared memory, whose
// image is shown raw, and from there into another tensor, stored or added.
#include "../../../src/device/ptx/bulk.h"
#include "../../../src/device/ptx/tma.h"
#include "../probe.h"
#include "../probe_words.h"

DEVICE void tma_start_load(const struct probe_params *p, uint32_t dst, uint32_t bar)
{
    const int32_t *c = p->load_at;
    switch (p->words[TMA_RANK]) {
    case 2: tma_load_2d(dst, &p->in_map, bar, c[0], c[1]); break;
    case 3: tma_load_3d(dst, &p->in_map, bar, c[0], c[1], c[2]); break;
    case 4: tma_load_4d(dst, &p->in_map, bar, c[0], c[1], c[2], c[3]); break;
    default: tma_load_5d(dst, &p->in_map, bar, c[0], c[1], c[2], c[3], c[4]); break;
    }
}

DEVICE void tma_start_store(const struct probe_params *p, uint32_t src)
{
    const int32_t *c = p->store_at;
    switch (p->words[TMA_RANK] + (p->words[TMA_ADDS] ? 10u : 0u)) {
    case 2: tma_store_2d(&p->out_map, src, c[0], c[1]); break;
    case 3: tma_store_3d(&p->out_map, src, c[0], c[1], c[2]); break;
    case 4: tma_store_4d(&p->out_map, src, c[0], c[1], c[2], c[3]); break;
    case 5: tma_store_5d(&p->out_map, src, c[0], c[1], c[2], c[3], c[4]); break;
    case 12: tma_reduce_add_2d(&p->out_map, src, c[0], c[1]); break;
    case 13: tma_reduce_add_3d(&p->out_map, src, c[0], c[1], c[2]); break;
    case 14: tma_reduce_add_4d(&p->out_map, src, c[0], c[1], c[2], c[3]); break;
    default: tma_reduce_add_5d(&p->out_map, src, c[0], c[1], c[2], c[3], c[4]); break;
    }
}

// out: the image.
KERNEL(128) probe_tma(const GRID_CONSTANT struct probe_params p)
{
    uint32_t bar = probe_barrier(1);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t bytes = p.words[TMA_BYTES];
    if (thread_idx() == 0) {
        tma_prefetch_map(&p.in_map);
        mbarrier_arrive_expect_tx(bar, bytes);
        tma_start_load(&p, data, bar);
    }
    mbarrier_wait(bar, 0);
    probe_copy_out(p.out, data, bytes / 4, 128);
    cta_sync();
    if (thread_idx() == 0) {
        tma_start_store(&p, data);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}
