// For test_emu_mutations.c: which deletions leave a kernel right, and known mistakes with the words
// that must report them.
#ifndef EMU_MUTATION_LISTS_H
#define EMU_MUTATION_LISTS_H

#include "mutate.h"

// What deleting may leave right; the list ends with NULL.
struct harmless_deletion {
    const char *function;
    const char *text;
    const char *reason;
    int skip; // calls of the same text in the same function, before this one
};

struct seeded_bug {
    const char *function;
    const char *text;
    enum mutation_kind kind;
    int32_t delta;
    const char *message; // NULL: nothing is reported, but the numbers are wrong
    int skip;            // as above
};

#ifdef ATTN_CFG_KERNEL

static const struct harmless_deletion HARMLESS[] = {
    {"sm90_forward", "setmaxnreg_inc", "only the compiler's register limit depends on it", 0},
    {"compute_tiles", "warp_sync", "store_tile's barriers come after the last read of the slot", 0},
#if ATTN_CFG_MASK
    {"schedule_tiles", "mbarrier_wait(smem + SMEM_TILE_WANTED)",
     "a tile is then taken too early, which only unbalances the CTAs", 0},
#else
    {"load_blocks", "mbarrier_arrive(smem + SMEM_TILE_WANTED)", "tiles are dealt out", 0},
#endif
#if ATTN_CFG_SEPARATE_O
    {"store_tile", "barrier_sync(BARRIER_GROUP + group)",
     "the next tile's first barrier comes before O is staged again", 2},
#else
    {"store_tile", "bulk_wait_group_read(0)", "Q was not given back before the store had read", 0},
    {"store_tile", "barrier_sync(BARRIER_GROUP + group)",
     "each warp stages over its own rows of Q, which its products have read", 0},
    {"compute_tiles", "bulk_wait_group_read(0)", "each tile's store was waited for", 0},
#endif
    {NULL, NULL, NULL, 0},
};

static const struct seeded_bug BUGS[] = {
    {"sm90_forward", "cta_sync", DELETE, 0, "races with its init", 0},
    {"init_barriers", "fence_mbarrier_init", DELETE, 0, "has no fence_mbarrier_init after it", 0},
    {"schedule_tiles", "mbarrier_wait(smem + SMEM_TILE_EMPTY + 8 * pipe.stage)", DELETE, 0, NULL,
     0},
    {"load_tiles", "mbarrier_wait(smem + SMEM_TILE_FULL + 8 * s)", DELETE, 0,
     "reads uninitialised shared memory", 0},
    {"load_q", "mbarrier_arrive_expect_tx(smem + SMEM_Q_FULL)", CHANGE, 16, "arrivals, 16 bytes",
     0},
    {"load_k", "mbarrier_wait(smem + SMEM_K_EMPTY + 8 * pipe->stage)", DELETE, 0,
     "beyond its count", 0},
    {"first_block", "mbarrier_wait(c->smem + SMEM_K_FULL + 8 * c->k_pipe.stage)", DELETE, 0,
     "races with the TMA load", 0},
    {"next_block", "mbarrier_wait(c->smem + SMEM_V_FULL + 8 * c->v_pipe.stage)", CHANGE, 1,
     "races with the TMA load", 0},
    {"next_block", "wgmma_wait_group(1)", DELETE, 0, "was in flight", 0},
    {"next_block", "wgmma_wait_group(0)", DELETE, 0, "may still be read: the wgmma reading B", 0},
    {"issue_output", "wgmma_fence", DELETE, 0, "wgmma without a wgmma_fence", 0},
    {"store_tile", "fence_proxy_async", DELETE, 0, "has no fence.proxy.async after it", 0},
    {"store_tile", "barrier_sync(BARRIER_GROUP + group)", CHANGE, 32, "128 of 160 threads", 1},
#if ATTN_CFG_PING_PONG
    {"take_turn", "barrier_sync(BARRIER_TURN + group)", DELETE, 0, "at 128 of 256 threads", 0},
    {"pass_turn", "barrier_arrive(BARRIER_TURN + (group + 1) % WARPGROUPS)", DELETE, 0, "deadlock",
     0},
#endif
#if ATTN_CFG_SEPARATE_O
    {"compute_tiles", "bulk_wait_group_read(0)", DELETE, 0,
     "ended without waiting for its bulk stores", 0},
#else
    {"compute_tile", "bulk_wait_group_read(0)", DELETE, 0, "may still be read: the TMA store", 0},
#endif
};

#elif LEVEL == 2

static const struct harmless_deletion HARMLESS[] = {
    {NULL, NULL, NULL, 0},
};

static const struct seeded_bug BUGS[] = {
    {"load_ring", "mbarrier_wait(smem + SMEM_RING_EMPTY + 8 * ring.stage)", DELETE, 0,
     "beyond its count", 0},
    {"load_ring", "mbarrier_arrive_expect_tx(full)", CHANGE, -16, "0 of 1 arrivals, -16 bytes", 0},
    {"compute_tile", "mbarrier_wait(smem + SMEM_RING_FULL + 8 * ring.stage)", DELETE, 0,
     "wgmma reading", 0},
    {"issue_stage", "wgmma_fence", DELETE, 0, "wgmma without a wgmma_fence", 0},
    {"compute_tile", "wgmma_wait_group(1)", CHANGE, 1, "may still be read: the wgmma reading A", 0},
    {"compute_tile", "wgmma_wait_group(0)", DELETE, 0, "4 wgmmas that it never waited for", 0},
    {"hopper_gemm", "mbarrier_init(smem + SMEM_RING_EMPTY + 8 * s)", CHANGE, -1, "deadlock", 0},
    {"hopper_gemm", "cta_sync", DELETE, 0, "races with its init", 0},
};

#elif LEVEL == 4

static const struct harmless_deletion HARMLESS[] = {
    {"blackwell_gemm", "tcgen05_relinquish", "nobody else on the SM waits to allocate", 0},
    {"blackwell_gemm", "warp_sync",
     "a GPU wants the lanes together at an aligned barrier; the emulator takes them as they come",
     0},
    {NULL, NULL, NULL, 0},
};

static const struct seeded_bug BUGS[] = {
    {"load_ring", "mbarrier_wait(smem + SMEM_RING_EMPTY + 8 * ring.stage)", DELETE, 0,
     "beyond its count", 0},
    {"load_ring", "mbarrier_arrive_expect_tx(full)", CHANGE, 16, "0 of 1 arrivals, 16 bytes", 0},
    {"multiply_tile", "mbarrier_wait(smem + SMEM_RING_FULL + 8 * ring.stage)", DELETE, 0,
     "reading A reads uninitialised shared memory", 0},
    {"multiply_tile", "tcgen05_commit(smem + SMEM_RING_EMPTY + 8 * ring.stage)", DELETE, 0,
     "deadlock", 0},
    {"multiply_tile", "tcgen05_commit(smem + SMEM_DONE)", DELETE, 0, "deadlock", 0},
    {"store_rows", "mbarrier_wait(smem + SMEM_DONE)", DELETE, 0,
     "tcgen05.ld reads uninitialised tensor memory", 0},
    {"store_rows", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after", 0},
    {"store_rows", "tcgen05_ld_32x32b", CHANGE, 96 << 16, "may access lanes 0 to 31", 0},
    {"store_rows", "tcgen05_wait_ld", DELETE, 0, "ended without tcgen05_wait_ld", 0},
    {"blackwell_gemm", "tcgen05_alloc", CHANGE, -64,
     "column 64 of CTA rank 0, which is not allocated", 0},
    {"blackwell_gemm", "tcgen05_dealloc", DELETE, 0, "columns 0 to 31 not deallocated", 0},
    {"blackwell_gemm", "cta_sync", DELETE, 0, "tcgen05.dealloc of column 0, which the tcgen05.mma",
     1},
};

#elif LEVEL == 3

static const struct harmless_deletion HARMLESS[] = {
    {"hopper_attention", "setmaxnreg_inc", "only the compiler's register limit depends on it", 0},
    {NULL, NULL, NULL, 0},
};

static const struct seeded_bug BUGS[] = {
    {"store_o", "fence_proxy_async", DELETE, 0, "has no fence.proxy.async after it", 0},
    {"load_tiles", "mbarrier_wait(smem + SMEM_K_EMPTY + 8 * s)", DELETE, 0, "beyond its count", 0},
    {"load_tiles", "mbarrier_wait(smem + SMEM_V_EMPTY + 8 * s)", CHANGE, 1, "deadlock", 0},
    {"compute", "mbarrier_wait(smem + SMEM_K_FULL + 8 * k_pipe.stage)", CHANGE, 1,
     "races with the TMA load", 0},
    {"compute", "mbarrier_wait(smem + SMEM_K_FULL)", DELETE, 0, "races with the TMA load", 0},
    {"compute", "mbarrier_wait(smem + SMEM_Q_FULL)", DELETE, 0, "wgmma reading A", 0},
    {"compute", "wgmma_wait_group(1)", DELETE, 0, "was in flight", 0},
    {"compute", "wgmma_wait_group(0)", CHANGE, 1, "may still be read: the wgmma reading B", 0},
    {"compute", "wgmma_wait_group(0)", DELETE, 0, "may still be read: the wgmma reading B", 1},
    {"compute", "wgmma_fence", DELETE, 0, "wgmma without a wgmma_fence", 0},
    {"store_o", "barrier_sync(1 + group)", DELETE, 0, "TMA store at shared address", 0},
    {"store_o", "bulk_wait_group_read(0)", DELETE, 0, "ended without waiting for its bulk stores",
     0},
    {"store_o", "barrier_sync(1 + group)", CHANGE, 32, "128 of 160 threads", 0},
    {"init_barriers", "mbarrier_init(smem + SMEM_K_EMPTY + 8 * s)", CHANGE, -1, "mbarrier 0x", 0},
    {"init_barriers", "mbarrier_init(smem + SMEM_V_EMPTY + 8 * s)", CHANGE, 1,
     "needs 1 of 3 arrivals", 0},
    {"load_tiles", "mbarrier_arrive_expect_tx(smem + SMEM_K_FULL + 8 * s)", CHANGE, 16,
     "arrivals, 16 bytes", 0},
    {"load_tiles", "mbarrier_arrive_expect_tx(smem + SMEM_K_FULL + 8 * s)", CHANGE, -16,
     "arrivals, -16 bytes", 0},
    {"load_tiles", "mbarrier_arrive_expect_tx(smem + SMEM_V_FULL + 8 * s)", CHANGE, 1,
     "arrivals, 1 bytes", 0},
    {"init_barriers", "fence_mbarrier_init", DELETE, 0, "has no fence_mbarrier_init after it", 0},
    {"hopper_attention", "cta_sync", DELETE, 0, "races with its init", 0},
    {"hopper_attention", "setmaxnreg_dec", DELETE, 0, "setmaxnreg.inc: needs", 0},
    {"hopper_attention", "setmaxnreg_inc", CHANGE, 16, "setmaxnreg", 0},
};

#elif LEVEL == 5

static const struct harmless_deletion HARMLESS[] = {
    {"blackwell_attention", "tcgen05_relinquish", "nobody else on the SM waits to allocate", 0},
    {"blackwell_attention", "warp_sync",
     "a GPU wants the lanes together at an aligned barrier; the emulator takes them as they come",
     0},
    {NULL, NULL, NULL, 0},
};

static const struct seeded_bug BUGS[] = {
    {"load_tiles", "mbarrier_wait(smem + SMEM_K_EMPTY + 8 * s)", DELETE, 0, "beyond its count", 0},
    {"load_tiles", "mbarrier_wait(smem + SMEM_V_EMPTY + 8 * s)", CHANGE, 1, "deadlock", 0},
    {"multiply_tiles", "mbarrier_wait(smem + SMEM_Q_FULL)", DELETE, 0,
     "reading A at shared address 0x400 races with the TMA load", 0},
    {"multiply_s", "mbarrier_wait(smem + SMEM_K_FULL + 8 * pipe->stage)", DELETE, 0,
     "reading B at shared address 0x8400 races with the TMA load", 0},
    {"multiply_tiles", "mbarrier_wait(smem + SMEM_V_FULL + 8 * v_pipe.stage)", CHANGE, 1,
     "deadlock", 0},
    {"multiply_tiles", "mbarrier_wait(smem + SMEM_P_FULL)", DELETE, 0,
     "reading A reads uninitialised tensor memory", 0},
    {"multiply_tiles", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after",
     0},
    {"multiply_tiles", "tcgen05_commit(smem + SMEM_O_FULL)", DELETE, 0, "deadlock", 0},
    {"multiply_s", "tcgen05_commit(smem + SMEM_K_EMPTY + 8 * pipe->stage)", DELETE, 0, "deadlock",
     0},
    {"issue_o", "tcgen05_instruction", CHANGE, -(1 << 16), NULL, 0},
    {"softmax_tile", "mbarrier_wait(smem + SMEM_S_FULL + 8 * buffer)", DELETE, 0,
     "tcgen05.ld reads uninitialised tensor memory", 0},
    {"softmax_tile", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after", 0},
    {"softmax_tile", "tcgen05_ld_32x32b", CHANGE, 32 << 16, "may access lanes 0 to 31", 0},
    {"softmax_tile", "tcgen05_wait_ld", DELETE, 0,
     "may still be read: the tcgen05.ld by softmax thread", 0},
    {"softmax_tile", "mbarrier_wait(smem + SMEM_O_FULL)", DELETE, 0,
     "nobody here waited for a tcgen05_commit after it", 0},
    {"softmax_tile", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after", 1},
    {"softmax_tile", "tcgen05_wait_st", DELETE, 0,
     "not ordered after the tcgen05.st by softmax thread", 0},
    {"softmax_tile", "tcgen05_fence_before", DELETE, 0, "that thread has no tcgen05_fence_before",
     0},
    {"softmax_tile", "mbarrier_arrive(smem + SMEM_P_FULL)", DELETE, 0, "deadlock", 0},
    {"softmax_tile", "mbarrier_wait(smem + SMEM_O_FULL)", DELETE, 0,
     "may still be read: the tcgen05.ld by softmax thread", 1},
    {"rescale_o", "tcgen05_wait_ld", DELETE, 0,
     "may still be read: the tcgen05.ld by softmax thread", 0},
    {"write_row", "tcgen05_wait_ld", DELETE, 0, "ended without tcgen05_wait_ld", 0},
    {"store_tile", "fence_proxy_async", DELETE, 0, "has no fence.proxy.async after it", 0},
    {"store_tile", "barrier_sync(1)", DELETE, 0, "TMA store at shared address", 0},
    {"store_tile", "bulk_wait_group_read(0)", DELETE, 0,
     "ended without waiting for its bulk stores", 0},
    {"init_barriers", "fence_mbarrier_init", DELETE, 0, "has no fence_mbarrier_init after it", 0},
    {"init_barriers", "mbarrier_init(smem + SMEM_P_FULL)", CHANGE, -1,
     "not ordered after the tcgen05.st by softmax thread 119", 0},
    {"blackwell_attention", "tcgen05_alloc", CHANGE, -256,
     "column 384 of CTA rank 0, which is not allocated", 0},
    {"blackwell_attention", "tcgen05_dealloc", DELETE, 0, "columns 0 to 31 not deallocated", 0},
    {"blackwell_attention", "cta_sync", DELETE, 0, "reads uninitialised shared memory", 0},
    {"blackwell_attention", "cta_sync", DELETE, 0,
     "tcgen05.dealloc of column 256, which the tcgen05.mma", 1},
};

#else

static const struct harmless_deletion HARMLESS[] = {
    {"blackwell_attention_pair", "tcgen05_relinquish", "nobody else on the SM waits to allocate",
     0},
    {"blackwell_attention_pair", "warp_sync",
     "a GPU wants the lanes together at an aligned barrier; the emulator takes them as they come",
     0},
    {NULL, NULL, NULL, 0},
};

static const struct seeded_bug BUGS[] = {
    {"load_tiles", "mbarrier_wait_cluster(smem + SMEM_K_EMPTY + 8 * s)", DELETE, 0,
     "races with the TMA load", 0},
    {"load_tiles", "mbarrier_wait_cluster(smem + SMEM_V_EMPTY + 8 * s)", CHANGE, 1, "deadlock", 0},
    {"multiply_tiles", "mbarrier_wait_cluster(smem + SMEM_Q_FULL)", DELETE, 0,
     "reading A at shared address 0x400 races with the TMA load", 0},
    {"multiply_s", "mbarrier_wait_cluster(smem + SMEM_K_FULL + 8 * pipe->stage)", DELETE, 0,
     "reading B at shared address 0x8400 races with the TMA load", 0},
    {"multiply_tiles", "mbarrier_wait_cluster(smem + SMEM_V_FULL + 8 * v_pipe.stage)", CHANGE, 1,
     "deadlock", 0},
    {"multiply_tiles", "mbarrier_wait_cluster(smem + SMEM_P_FULL)", DELETE, 0,
     "reading A reads uninitialised tensor memory", 0},
    {"multiply_tiles", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after",
     0},
    {"multiply_tiles", "tcgen05_commit(smem + SMEM_O_FULL)", DELETE, 0, "deadlock", 0},
    {"multiply_s", "tcgen05_commit(smem + SMEM_K_EMPTY + 8 * pipe->stage)", DELETE, 0, "deadlock",
     0},
    {"issue_o", "tcgen05_instruction", CHANGE, -(1 << 16), NULL, 0},
    {"softmax_tile", "mbarrier_wait_cluster(smem + SMEM_S_FULL + 8 * buffer)", DELETE, 0,
     "tcgen05.ld reads uninitialised tensor memory", 0},
    {"softmax_tile", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after", 0},
    {"softmax_tile", "tcgen05_ld_32x32b", CHANGE, 32 << 16, "may access lanes 0 to 31", 0},
    {"softmax_tile", "tcgen05_wait_ld", DELETE, 0,
     "may still be read: the tcgen05.ld by softmax thread", 0},
    {"softmax_tile", "mbarrier_wait_cluster(smem + SMEM_O_FULL)", DELETE, 0,
     "nobody here waited for a tcgen05_commit after it", 0},
    {"softmax_tile", "tcgen05_fence_after", DELETE, 0, "this thread has no tcgen05_fence_after", 1},
    {"softmax_tile", "tcgen05_wait_st", DELETE, 0,
     "not ordered after the tcgen05.st by softmax thread", 0},
    {"softmax_tile", "tcgen05_fence_before", DELETE, 0, "that thread has no tcgen05_fence_before",
     0},
    {"softmax_tile", "mbarrier_arrive_cluster(cluster_map(smem + SMEM_P_FULL, 0))", DELETE, 0,
     "deadlock", 0},
    {"softmax_tile", "mbarrier_wait_cluster(smem + SMEM_O_FULL)", DELETE, 0,
     "may still be read: the tcgen05.ld by softmax thread", 1},
    {"rescale_o", "tcgen05_wait_ld", DELETE, 0,
     "may still be read: the tcgen05.ld by softmax thread", 0},
    {"write_row", "tcgen05_wait_ld", DELETE, 0, "ended without tcgen05_wait_ld", 0},
    {"store_tile", "fence_proxy_async", DELETE, 0, "has no fence.proxy.async after it", 0},
    {"store_tile", "barrier_sync(1)", DELETE, 0, "TMA store at shared address", 0},
    {"store_tile", "bulk_wait_group_read(0)", DELETE, 0,
     "ended without waiting for its bulk stores", 0},
    {"init_barriers", "fence_mbarrier_init", DELETE, 0, "has no fence_mbarrier_init after it", 0},
    {"init_barriers", "mbarrier_init(smem + SMEM_P_FULL)", CHANGE, -1,
     "not ordered after the tcgen05.st by softmax thread 119", 0},
    {"blackwell_attention_pair", "tcgen05_alloc", CHANGE, -256,
     "column 384 of CTA rank 0, which is not allocated", 0},
    {"blackwell_attention_pair", "tcgen05_dealloc", DELETE, 0, "columns 0 to 31 not deallocated",
     0},
    {"blackwell_attention_pair", "cluster_wait", DELETE, 0, "reads uninitialised shared memory", 0},
    {"blackwell_attention_pair", "cluster_wait", DELETE, 0, "threads of the peer CTA have exited",
     1},
    {"expect_both", "mbarrier_arrive_expect_tx(bar)", CHANGE, -HALF_BYTES,
     "reading B at shared address 0x8400 races with the TMA load", 0},
    {"multiply_tiles", "tcgen05_commit(smem + SMEM_O_FULL)", CHANGE, -2,
     "phase 1 needs 128 of 256 arrivals", 0},
    {"multiply_s", "tcgen05_commit(smem + SMEM_K_EMPTY + 8 * pipe->stage)", CHANGE, -2,
     "phase 1 needs 0 of 1 arrivals, 16384 bytes", 0},
    {"softmax_tile", "mbarrier_arrive_cluster(cluster_map(smem + SMEM_P_FULL, 0))", CHANGE, 1 << 24,
     "phase 0 needs 256 of 256 arrivals", 0},
};

#endif

enum { BUG_COUNT = sizeof BUGS / sizeof BUGS[0] };

#endif
