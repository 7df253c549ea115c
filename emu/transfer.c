// Asynchronous copies in flight, and when they happen.
//
// Late: a load moves when everything else is blocked, a store when it is waited for. Early: at
// issue. Random: each round of the scheduler gives every one a chance. A right kernel gives the
// same in all three. Order between transfers is free.
#include "count.h"
#include "state.h"

enum { FIRE_CHANCE = 8, MAX_TRANSFERS_PER_CTA = 256 };

static void move_bytes(const struct transfer *transfer)
{
    uint8_t *shared = transfer->cta->smem + (transfer->smem_addr & SMEM_OFFSET_MASK);
    switch (transfer->kind) {
    case TRANSFER_LOAD: memcpy(shared, transfer->global, transfer->bytes); break;
    case TRANSFER_STORE: memcpy(transfer->global, shared, transfer->bytes); break;
    case TRANSFER_REDUCE:
        global_reduce_add(transfer->global, shared, transfer->bytes, transfer->element);
        break;
    }
}

static void finish(const struct transfer *transfer)
{
    if (transfer->is_box) {
        tma_move_box(transfer);
    } else {
        move_bytes(transfer);
    }
    machine.result->tma_bytes += transfer->bytes;
    machine.progress = true;
    if (transfer->kind == TRANSFER_LOAD) {
        mbarrier_complete_tx(transfer->cta->cluster, transfer->barrier, transfer->agent,
                             transfer->epoch, transfer->bytes);
    }
}

void transfer_start(const struct transfer *transfer)
{
    struct cluster *cluster = transfer->cta->cluster;
    count_transfer(transfer->bytes);
    if (machine.launch.async == EMU_EARLY) {
        finish(transfer);
        return;
    }
    if (cluster->transfer_count == machine.cluster_size * MAX_TRANSFERS_PER_CTA) {
        emu_fail(EMU_FAULT, "more than %u copies in flight: the emulator keeps no more",
                 cluster->transfer_count);
    }
    cluster->transfers[cluster->transfer_count++] = *transfer;
}

static void finish_at(struct cluster *cluster, uint32_t index)
{
    struct transfer transfer = cluster->transfers[index];
    cluster->transfer_count--;
    memmove(&cluster->transfers[index], &cluster->transfers[index + 1],
            (cluster->transfer_count - index) * sizeof transfer);
    finish(&transfer);
}

bool transfers_fire(struct cluster *cluster, bool one)
{
    bool any = false;
    for (uint32_t i = 0; i < cluster->transfer_count;) {
        bool fires =
            one ? cluster->transfers[i].kind == TRANSFER_LOAD : random_next() % FIRE_CHANCE == 0;
        if (!fires) {
            i++;
            continue;
        }
        finish_at(cluster, i);
        any = true;
        if (one) {
            break;
        }
    }
    return any;
}

// The stores of the fiber's groups before `groups`.
void transfers_finish_stores(struct fiber *fiber, uint32_t groups)
{
    struct cluster *cluster = fiber->cta->cluster;
    for (uint32_t i = 0; i < cluster->transfer_count;) {
        const struct transfer *transfer = &cluster->transfers[i];
        if (transfer->kind != TRANSFER_LOAD && transfer->issuer == fiber &&
            transfer->group < groups) {
            finish_at(cluster, i);
        } else {
            i++;
        }
    }
}
