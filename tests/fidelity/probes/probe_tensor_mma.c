// tcgen05.mma: D = A B (+ D), by one CTA or a pair, kinds f16 and f8f6f4, A in shared or in tensor
// memory, any descriptors, and its commit. All lanes and columns of D are shown, those that the
// instruction leaves alone too.
//
// Literal 0: whether the CTAs of the cluster are a pair.
#include "../probe_tensor.h"
#include "../probe_words.h"

#define IS_PAIR PROBE_0

enum { MMA_D_COLUMNS = 256, MMA_A_AT = 480, MMA_A_COLUMNS = TENSOR_STEP };

DEVICE uint64_t mma_descriptor(const uint32_t *words, uint32_t base)
{
    return ((uint64_t)words[1] << 32 | words[0]) + (base >> 4);
}

DEVICE void mma_of_pair(const uint32_t *words, uint32_t d, uint64_t da, uint64_t db)
{
    uint32_t idesc = words[TENSOR_INSTRUCTION];
    uint32_t acc = words[WGMMA_ACCUMULATES];
    switch (words[TENSOR_FORM]) {
    case 0: tcgen05_mma_f16_ss_pair(d, da, db, idesc, acc); break;
    case 1: tcgen05_mma_f16_ts_pair(d, d + MMA_A_AT, db, idesc, acc); break;
    case 2: tcgen05_mma_f8f6f4_ss_pair(d, da, db, idesc, acc); break;
    default: tcgen05_mma_f8f6f4_ts_pair(d, d + MMA_A_AT, db, idesc, acc); break;
    }
}

DEVICE void mma_of_one(const uint32_t *words, uint32_t d, uint64_t da, uint64_t db)
{
    uint32_t idesc = words[TENSOR_INSTRUCTION];
    uint32_t acc = words[WGMMA_ACCUMULATES];
    switch (words[TENSOR_FORM]) {
    case 0: tcgen05_mma_f16_ss(d, da, db, idesc, acc); break;
    case 1: tcgen05_mma_f16_ts(d, d + MMA_A_AT, db, idesc, acc); break;
    case 2: tcgen05_mma_f8f6f4_ss(d, da, db, idesc, acc); break;
    default: tcgen05_mma_f8f6f4_ts(d, d + MMA_A_AT, db, idesc, acc); break;
    }
}

// One thread, of the first CTA.
DEVICE void issue_mma(const uint32_t *words, uint32_t tensor, uint32_t data, uint32_t bar)
{
    uint64_t da = mma_descriptor(words + WGMMA_A_LOW, data);
    uint64_t db = mma_descriptor(words + WGMMA_B_LOW, data + WGMMA_A_BYTES);
    if (IS_PAIR) {
        mma_of_pair(words, tensor, da, db);
        tcgen05_commit_pair_multicast(bar, 3);
    } else {
        mma_of_one(words, tensor, da, db);
        tcgen05_commit(bar);
    }
}

// in, for each CTA: the image of shared memory, the columns of D, those of A.
KERNEL(128) probe_tensor_mma(const GRID_CONSTANT struct probe_params p)
{
    const uint32_t image_words = (WGMMA_A_BYTES + WGMMA_B_BYTES) / 4;
    const uint32_t *in =
        p.in + (image_words + 128 * (MMA_D_COLUMNS + MMA_A_COLUMNS)) * block_idx_x();
    uint32_t bar = probe_barrier(1);
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t tensor = tensor_allocate(IS_PAIR);
    probe_copy_in(data, in, image_words, 128);
    tensor_fill(tensor, in + image_words, MMA_D_COLUMNS);
    tensor_fill(tensor + MMA_A_AT, in + image_words + 128 * MMA_D_COLUMNS, MMA_A_COLUMNS);
    tensor_meet(IS_PAIR);
    if (thread_idx() == 0 && cluster_rank() == 0) {
        issue_mma(p.words, tensor, data, bar);
    }
    mbarrier_wait_cluster(bar, 0);
    tcgen05_fence_after();
    tensor_show(p.out + 128 * MMA_D_COLUMNS * block_idx_x(), tensor, MMA_D_COLUMNS);
    tensor_release(tensor, IS_PAIR);
}
