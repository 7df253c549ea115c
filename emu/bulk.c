// Bulk copies and reductions of byte ranges, and the groups in which bulk stores are waited for.
#include "../src/device/ptx/bulk.h"
#include "global.h"

enum { GROUP_RING = sizeof(((struct fiber *)0)->bulk.group_epoch) / sizeof(uint32_t) };

static void check_range(const char *instruction, uint64_t first, uint64_t second, uint32_t bytes)
{
    if (first % 16 || second % 16 || bytes % 16 || bytes == 0) {
        emu_fail(
            EMU_FAULT,
            "%s of %u bytes between 0x%llx and 0x%llx: size and addresses must be multiples of 16",
            instruction, bytes, (unsigned long long)first, (unsigned long long)second);
    }
}

static void load_into(struct cta *cta, uint32_t dst, const void *src, uint32_t bytes, uint32_t bar,
                      bool from_global)
{
    struct mbarrier *barrier = mbarrier_find(bar, "cp.async.bulk", true);
    barrier->load_phase_plus_1 = barrier->phase + 1;
    uint32_t agent = agent_mbarrier(barrier);
    uint32_t epoch = ++barrier->transfers;
    check_write(cta, dst, bytes, (struct access){ACCESS_BULK_LOAD, agent, epoch, true});
    if (from_global) {
        check_global_access(
            src, bytes,
            (struct global_access){ACCESS_BULK_LOAD, agent, epoch, GLOBAL_READ, SCOPE_CTA, true});
    }
    transfer_start(&(struct transfer){.kind = TRANSFER_LOAD,
                                      .cta = cta,
                                      .smem_addr = dst,
                                      .barrier = barrier,
                                      .agent = agent,
                                      .epoch = epoch,
                                      .bytes = bytes,
                                      .global = (uint8_t *)(uintptr_t)src});
}

void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar)
{
    check_range("cp.async.bulk load", dst, (uintptr_t)src, bytes);
    struct cta *cta = cta_of_address(dst, "cp.async.bulk load");
    if (cta != current_cta() || cta_of_address(bar, "cp.async.bulk load") != cta) {
        emu_fail(EMU_FAULT,
                 "cp.async.bulk load to 0x%x, mbarrier 0x%x: both must be in the own CTA", dst,
                 bar);
    }
    load_into(cta, dst, src, bytes, bar, true);
}

void bulk_load_multicast(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar,
                         uint32_t cta_mask)
{
    check_range("cp.async.bulk multicast", dst, (uintptr_t)src, bytes);
    if (cta_mask == 0 || cta_mask >> machine.cluster_size) {
        emu_fail(EMU_FAULT, "cp.async.bulk multicast to CTAs 0x%x: the cluster has %u", cta_mask,
                 machine.cluster_size);
    }
    for (uint32_t r = 0; r < machine.cluster_size; r++) {
        if (cta_mask >> r & 1) {
            uint32_t rank = r << SMEM_RANK_SHIFT;
            load_into(&current_cta()->cluster->ctas[r], (dst & SMEM_OFFSET_MASK) | rank, src, bytes,
                      (bar & SMEM_OFFSET_MASK) | rank, true);
        }
    }
}

void bulk_copy_cluster(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar)
{
    check_range("cp.async.bulk between CTAs", dst, src, bytes);
    struct cta *from = cta_of_address(src, "cp.async.bulk between CTAs");
    struct cta *to = cta_of_address(dst, "cp.async.bulk between CTAs");
    if (from != current_cta() || cta_of_address(bar, "cp.async.bulk between CTAs") != to) {
        emu_fail(EMU_FAULT,
                 "cp.async.bulk from 0x%x to 0x%x, mbarrier 0x%x: the source must be the own "
                 "CTA's, the mbarrier the "
                 "destination's",
                 src, dst, bar);
    }
    struct mbarrier *barrier = mbarrier_find(bar, "cp.async.bulk", true);
    uint32_t agent = agent_mbarrier(barrier);
    check_read(from, src, bytes,
               (struct access){ACCESS_BULK_COPY, agent, barrier->transfers + 1, true});
    load_into(to, dst, from->smem + (src & SMEM_OFFSET_MASK), bytes, bar, false);
}

static void check_source(const struct transfer *transfer)
{
    access_kind kind = transfer->is_box ? ACCESS_TMA_STORE : ACCESS_BULK_STORE;
    struct access access = {kind, transfer->agent, transfer->epoch, true};
    if (transfer->is_box) {
        tma_check_source(transfer, access);
    } else {
        check_read(transfer->cta, transfer->smem_addr, transfer->bytes, access);
    }
}

// A reduction is a relaxed atomic on each element.
static void check_destination(const struct transfer *transfer)
{
    bool reduces = transfer->kind == TRANSFER_REDUCE;
    struct global_access access = {
        .kind = transfer->is_box ? (reduces ? ACCESS_TMA_REDUCE : ACCESS_TMA_STORE)
                                 : (reduces ? ACCESS_BULK_REDUCE : ACCESS_BULK_STORE),
        .agent = agent_bulk_write(transfer->cta, transfer->issuer->thread),
        .epoch = transfer->epoch,
        .mode = reduces ? GLOBAL_READ | GLOBAL_WRITE | GLOBAL_STRONG : GLOBAL_WRITE,
        .scope = SCOPE_GPU,
        .async = true};
    if (transfer->is_box) {
        tma_check_global(transfer, &access);
    } else {
        check_global_access(transfer->global, transfer->bytes, access);
    }
}

// Gives the issuing thread an agent of its own, and starts the store. Called for boxes too.
void bulk_store_start(struct transfer *transfer)
{
    struct fiber *fiber = current_fiber();
    struct cta *cta = fiber->cta;
    transfer->cta = cta;
    transfer->issuer = fiber;
    transfer->agent = agent_bulk(cta, fiber->thread);
    transfer->epoch = ++fiber->bulk.epoch;
    transfer->group = fiber->bulk.committed;
    fiber->bulk.open++;
    check_source(transfer);
    check_destination(transfer);
    transfer_start(transfer);
}

static void store(const char *instruction, transfer_kind kind, void *dst, uint32_t src,
                  uint32_t bytes, emu_element element)
{
    check_range(instruction, src, (uintptr_t)dst, bytes);
    if (cta_of_address(src, instruction) != current_cta()) {
        emu_fail(EMU_FAULT, "%s from 0x%x: the source must be in the own CTA", instruction, src);
    }
    bulk_store_start(&(struct transfer){
        .kind = kind, .smem_addr = src, .bytes = bytes, .global = dst, .element = element});
}

void bulk_store(void *dst, uint32_t src, uint32_t bytes)
{
    store("cp.async.bulk store", TRANSFER_STORE, dst, src, bytes, EMU_U8);
}

void bulk_reduce_add_f32(void *dst, uint32_t src, uint32_t bytes)
{
    store("cp.reduce.async.bulk", TRANSFER_REDUCE, dst, src, bytes, EMU_F32);
}

void bulk_reduce_add_f16(void *dst, uint32_t src, uint32_t bytes)
{
    store("cp.reduce.async.bulk", TRANSFER_REDUCE, dst, src, bytes, EMU_F16);
}

void bulk_reduce_add_bf16(void *dst, uint32_t src, uint32_t bytes)
{
    store("cp.reduce.async.bulk", TRANSFER_REDUCE, dst, src, bytes, EMU_BF16);
}

void bulk_commit_group(void)
{
    struct fiber *fiber = current_fiber();
    if (fiber->bulk.committed - fiber->bulk.complete >= GROUP_RING) {
        emu_fail(EMU_FAULT, "more than %zu bulk groups not waited for: the emulator keeps no more",
                 (size_t)GROUP_RING);
    }
    fiber->bulk.group_epoch[fiber->bulk.committed++ % GROUP_RING] = fiber->bulk.epoch;
    fiber->bulk.open = 0;
}

static void wait_groups(uint32_t n, bool writes_too)
{
    struct fiber *fiber = current_fiber();
    uint32_t groups = fiber->bulk.committed > n ? fiber->bulk.committed - n : 0;
    uint32_t epoch = groups ? fiber->bulk.group_epoch[(groups - 1) % GROUP_RING] : 0;
    if (groups > fiber->bulk.complete) {
        transfers_finish_stores(fiber, groups);
        fiber->bulk.complete = groups;
        if (fiber->bulk.agent) {
            clock_know(fiber->bulk.agent, epoch);
        }
    }
    if (writes_too && groups > fiber->bulk.written) {
        fiber->bulk.written = groups;
        if (fiber->bulk.write_agent) {
            clock_know(fiber->bulk.write_agent, epoch);
        }
    }
}

void bulk_wait_group_read(uint32_t n)
{
    wait_groups(n, false);
}

void bulk_wait_group(uint32_t n)
{
    wait_groups(n, true);
}
