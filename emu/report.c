// Error texts. The first error of a launch is recorded and ends it.
//
// A text begins with where it happened (kernel, CTA, role, thread) and goes on with what the
// failing check says. Numbers come with their unit, addresses are those that the kernel computed.
#include "state.h"
#include <stdarg.h>
#include <stdio.h>

static const char *const ACCESS_NAMES[] = {
    [ACCESS_LD] = "ld.shared",
    [ACCESS_ST] = "st.shared",
    [ACCESS_ATOM] = "atom.shared",
    [ACCESS_LDMATRIX] = "ldmatrix",
    [ACCESS_STMATRIX] = "stmatrix",
    [ACCESS_TMA_LOAD] = "TMA load",
    [ACCESS_TMA_STORE] = "TMA store",
    [ACCESS_BULK_LOAD] = "bulk load",
    [ACCESS_BULK_STORE] = "bulk store",
    [ACCESS_BULK_COPY] = "bulk copy between CTAs",
    [ACCESS_CP_ASYNC] = "cp.async",
    [ACCESS_TMA_REDUCE] = "TMA reduction",
    [ACCESS_BULK_REDUCE] = "bulk reduction",
    [ACCESS_LD_GLOBAL] = "ld.global",
    [ACCESS_ST_GLOBAL] = "st.global",
    [ACCESS_ATOM_GLOBAL] = "atom.global",
    [ACCESS_RED_GLOBAL] = "red.global",
    [ACCESS_WGMMA_A] = "wgmma reading A",
    [ACCESS_WGMMA_B] = "wgmma reading B",
    [ACCESS_TENSOR_ALLOC] = "tcgen05.alloc",
    [ACCESS_TENSOR_LD] = "tcgen05.ld",
    [ACCESS_TENSOR_ST] = "tcgen05.st",
    [ACCESS_TENSOR_MMA_A] = "tcgen05.mma reading A",
    [ACCESS_TENSOR_MMA_B] = "tcgen05.mma reading B",
    [ACCESS_TENSOR_MMA_D] = "tcgen05.mma on D",
    [ACCESS_TENSOR_CP] = "tcgen05.cp",
    [ACCESS_TENSOR_SHIFT] = "tcgen05.shift",
};

const char *describe_access(access_kind kind)
{
    return ACCESS_NAMES[kind];
}

static int text_where(char *text, size_t size)
{
    const struct fiber *fiber = machine.current;
    int used = snprintf(text, size, "%s", machine.launch.name ? machine.launch.name : "kernel");
    if (fiber) {
        used += snprintf(text + used, size - (size_t)used,
                         ", CTA (%u,%u,%u), %s%sthread %u (warp %u lane %u)", fiber->cta->block[0],
                         fiber->cta->block[1], fiber->cta->block[2], fiber->role ? fiber->role : "",
                         fiber->role ? " " : "", fiber->thread, fiber->warp, fiber->lane);
        const struct site *site = current_site();
        if (site) {
            used += snprintf(text + used, size - (size_t)used, ", at %.200s:%d", site->file,
                             site->line);
        }
    }
    return used + snprintf(text + used, size - (size_t)used, ": ");
}

void emu_fail(emu_status status, const char *format, ...)
{
    if (!machine.failed) {
        machine.failed = true;
        machine.result->status = status;
        char *text = machine.result->text;
        size_t size = sizeof machine.result->text;
        int used = text_where(text, size);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text + used, size - (size_t)used, format, arguments);
        va_end(arguments);
    }
    while (machine.current) {
        fiber_leave();
    }
}

// Valid until the fourth call from now.
const char *describe_agent(const struct cluster *cluster, uint32_t agent)
{
    static char texts[4][96];
    static unsigned next;
    char *text = texts[next++ % 4];
    struct agent a = agent_describe(cluster, agent);
    const struct cta *cta = &cluster->ctas[a.rank];
    char where[24] = "";
    if (machine.cluster_size > 1) {
        snprintf(where, sizeof where, " of CTA rank %u", cta->rank);
    }
    switch (a.kind) {
    case AGENT_THREAD: {
        const char *role = cluster->fibers[agent].role;
        snprintf(text, sizeof texts[0], "%.24s%sthread %u (warp %u lane %u)%s", role ? role : "",
                 role ? " " : "", a.index, a.index / LANES, a.index % LANES, where);
        break;
    }
    case AGENT_BULK:
    case AGENT_BULK_WRITE:
        snprintf(text, sizeof texts[0], "a bulk store of thread %u%s", a.index, where);
        break;
    case AGENT_COPIES:
        snprintf(text, sizeof texts[0], "a cp.async of thread %u%s", a.index, where);
        break;
    case AGENT_WGMMA: snprintf(text, sizeof texts[0], "warpgroup %u%s", a.index, where); break;
    case AGENT_MBARRIER:
        snprintf(text, sizeof texts[0], "a load on mbarrier 0x%x%s", a.index, where);
        break;
    case AGENT_MMA:
        snprintf(text, sizeof texts[0], "the tcgen05 operations of thread %u%s",
                 tcgen05_thread(cta, a.index), where);
        break;
    }
    return text;
}

static int text_wait(char *text, size_t size, const struct fiber *fiber)
{
    switch (fiber->wait) {
    case WAIT_MBARRIER: {
        const struct mbarrier *b = fiber->wait_object;
        return snprintf(
            text, size,
            "mbarrier 0x%x: waits for parity %u, phase %u needs %u of %u arrivals, %d bytes",
            b->addr, fiber->wait_value, b->phase, b->pending, b->count, b->tx_bytes);
    }
    case WAIT_NAMED_BARRIER: {
        const struct named_barrier *b = fiber->wait_object;
        return snprintf(text, size, "barrier %td: %u of %u threads", b - fiber->cta->named,
                        b->arrived, b->expected);
    }
    case WAIT_WARP: {
        const struct rendezvous *r = fiber->wait_object;
        return snprintf(text, size, "%s: lanes 0x%08x are there", r->instruction, r->arrived);
    }
    case WAIT_CLUSTER:
        return snprintf(text, size, "cluster barrier: %u of %u threads",
                        fiber->cta->cluster->barrier.arrived,
                        machine.launch.threads * machine.cluster_size);
    case WAIT_REGISTERS:
        return snprintf(text, size, "setmaxnreg.inc: needs %u registers, the pool has %u",
                        fiber->wait_value, fiber->cta->register_pool);
    case WAIT_GRID:
        return snprintf(text, size, "griddepcontrol.wait: the first grid is not complete");
    case WAIT_FLAG: return flag_text_wait(text, size, fiber->wait_object);
    case WAIT_WGMMA:
        return snprintf(text, size, "wgmma.wait_group: not all warps have issued its wgmmas");
    case WAIT_TENSOR_ALLOC:
    case WAIT_TENSOR_DEALLOC: return tmem_text_wait(text, size, fiber);
    case YIELDED: return snprintf(text, size, "polls memory");
    default: return snprintf(text, size, "runnable");
    }
}

static int text_warp(char *text, size_t size, const struct cta *cta, uint32_t warp)
{
    const struct fiber *fibers =
        &cta->cluster->fibers[cta->rank * machine.launch.threads + warp * LANES];
    const struct fiber *waiting = NULL;
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        if (fibers[i].wait != FINISHED) {
            lanes++;
            waiting = waiting ? waiting : &fibers[i];
        }
    }
    if (!waiting) {
        return 0;
    }
    int used = snprintf(text, size, "\n  CTA (%u,%u,%u) %s%swarp %u, %u lanes: ", cta->block[0],
                        cta->block[1], cta->block[2], waiting->role ? waiting->role : "",
                        waiting->role ? " " : "", warp, lanes);
    return used + ((size_t)used < size ? text_wait(text + used, size - (size_t)used, waiting) : 0);
}

// One line for each warp that is still there: what its first waiting lane waits for, and what is
// missing.
void report_deadlock(void)
{
    char text[1280] = "";
    size_t used = 0;
    for (uint32_t c = 0; c < machine.resident; c++) {
        const struct cluster *cluster = &machine.clusters[c];
        grid_select(cluster->grid);
        for (uint32_t w = 0; cluster->active && w < machine.cluster_size * machine.warps; w++) {
            if (used + 160 < sizeof text) {
                used += (size_t)text_warp(text + used, sizeof text - used,
                                          &cluster->ctas[w / machine.warps], w % machine.warps);
            }
        }
    }
    emu_fail(EMU_DEADLOCK, "deadlock; nobody can go on:%s", text);
}
