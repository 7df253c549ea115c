// The shadow of tensor memory: who wrote and who may still read each word, and whether the present
// access is ordered.
//
// There is a cell for each word. The rules, checked when an operation is issued:
//
//   an access of another thread    complete (wait::ld, wait::st, a commit that was waited for),
//   fenced
//                                  by that thread after it and by this one before its own access
//   of the own thread              complete
//   an mma or cp after another     of the same thread in the order of their issue; with
//                                  EMU_CHECK_ORDER only as far as PTX promises it
#include "tmem.h"
#include <stdlib.h>

static struct tmem *tensor_memory(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                                  access_kind kind)
{
    if (lane >= TMEM_LANES || column + columns > TMEM_COLUMNS) {
        emu_fail(
            EMU_FAULT, "%s at lane %u, columns %u to %u: tensor memory has %d lanes and %d columns",
            describe_access(kind), lane, column, column + columns - 1, TMEM_LANES, TMEM_COLUMNS);
    }
    struct tmem *tmem = cta->tmem;
    for (uint32_t unit = column / TMEM_UNIT; unit <= (column + columns - 1) / TMEM_UNIT; unit++) {
        if (!tmem || !tmem->owner[unit]) {
            emu_fail(EMU_FAULT,
                     "%s of tensor memory column %u of CTA rank %u, which is not allocated",
                     describe_access(kind), unit * TMEM_UNIT > column ? unit * TMEM_UNIT : column,
                     cta->rank);
        }
    }
    return tmem;
}

static bool is_operation(uint32_t agent)
{
    return agent % machine.tensor_agents_per_cta >= 2 * machine.launch.threads;
}

// Operations after earlier ones of their own thread.
static bool runs_after(const struct cta *cta, const struct tensor_access *access, uint32_t agent,
                       uint32_t epoch)
{
    if (agent != access->agent || access->kind < ACCESS_TENSOR_MMA_A) {
        return false;
    }
    return machine.launch.check < EMU_CHECK_ORDER || epoch == access->epoch ||
           mma_in_order(&cta->cluster->ctas[agent / machine.tensor_agents_per_cta],
                        agent % machine.tensor_agents_per_cta - 2 * machine.launch.threads, epoch,
                        access->epoch);
}

static bool is_ordered(const struct cta *cta, const struct tensor_access *access, uint32_t agent,
                       uint32_t epoch)
{
    return epoch <= machine.current->tensor_ordered[agent] || runs_after(cta, access, agent, epoch);
}

static const char *describe_tensor_agent(const struct cta *cta, uint32_t agent)
{
    const struct cta *owner = &cta->cluster->ctas[agent / machine.tensor_agents_per_cta];
    uint32_t local = agent % machine.tensor_agents_per_cta;
    uint32_t threads = machine.launch.threads;
    return describe_agent(cta->cluster, local >= 2 * threads
                                            ? agent_mma(owner, local - 2 * threads)
                                            : agent_thread(owner, local % threads));
}

// What is missing between an earlier access and the present one.
static const char *missing(const struct tensor_access *access, uint32_t agent, uint32_t epoch)
{
    const struct clocks *clocks = &machine.current->clocks;
    if (agent == access->agent && is_operation(agent)) {
        return "PTX orders operations of a thread only on the same accumulator with the same "
               "shape; "
               "a commit and a wait are missing";
    }
    if (epoch <= clocks->tensor_fenced[agent]) {
        return "this thread has no tcgen05_fence_after since it learnt of that";
    }
    if (epoch <= clocks->tensor_done[agent]) {
        return "that thread has no tcgen05_fence_before after it";
    }
    return is_operation(agent) ? "nobody here waited for a tcgen05_commit after it"
                               : "a tcgen05_wait of that thread, or a barrier after it, is missing";
}

static void fail_order(const struct cta *cta, const struct tensor_access *access, uint32_t lane,
                       uint32_t column, const char *what, uint32_t agent, uint32_t epoch,
                       uint8_t kind)
{
    emu_fail(EMU_RACE, "%s of tensor memory (lane %u, column %u) %s the %s by %s; %s",
             describe_access(access->kind), lane, column, what, describe_access((access_kind)kind),
             describe_tensor_agent(cta, agent), missing(access, agent, epoch));
}

static void check_writer(const struct cta *cta, const struct tensor_cell *cell,
                         const struct tensor_access *access, uint32_t lane, uint32_t column)
{
    if (cell->write_epoch && !is_ordered(cta, access, cell->write_agent, cell->write_epoch)) {
        fail_order(cta, access, lane, column, "is not ordered after", cell->write_agent,
                   cell->write_epoch, cell->write_kind);
    }
}

static void check_written(const struct tensor_cell *cell, const struct tensor_access *access,
                          uint32_t lane, uint32_t column)
{
    if (!cell->write_epoch) {
        emu_fail(EMU_RACE, "%s reads uninitialised tensor memory (lane %u, column %u)",
                 describe_access(access->kind), lane, column);
    }
}

static void record_read(struct tmem *tmem, struct tensor_cell *cell,
                        const struct tensor_access *access)
{
    uint32_t *link = &cell->readers;
    while (*link) {
        struct tensor_reader *reader = &tmem->readers[*link];
        if (reader->agent == access->agent ||
            reader->epoch <= machine.current->tensor_ordered[reader->agent]) {
            uint32_t node = *link;
            *link = reader->next;
            reader->next = tmem->free_readers;
            tmem->free_readers = node;
        } else {
            link = &reader->next;
        }
    }
    uint32_t node = tmem->free_readers;
    if (node) {
        tmem->free_readers = tmem->readers[node].next;
    } else {
        if (tmem->reader_count == tmem->reader_capacity) {
            void *larger =
                realloc(tmem->readers, 2 * (size_t)tmem->reader_capacity * sizeof *tmem->readers);
            if (!larger) {
                emu_fail(EMU_NO_MEMORY, "no memory for the shadow of tensor memory");
            }
            tmem->readers = larger;
            tmem->reader_capacity *= 2;
        }
        node = tmem->reader_count++;
    }
    tmem->readers[node] = (struct tensor_reader){access->epoch, cell->readers,
                                                 (uint16_t)access->agent, (uint8_t)access->kind};
    cell->readers = node;
}

static void forget_reader(struct tmem *tmem, struct tensor_cell *cell)
{
    uint32_t node = cell->readers;
    cell->readers = tmem->readers[node].next;
    tmem->readers[node].next = tmem->free_readers;
    tmem->free_readers = node;
}

static void check_readers(const struct cta *cta, struct tensor_cell *cell,
                          const struct tensor_access *access, uint32_t lane, uint32_t column)
{
    while (cell->readers) {
        const struct tensor_reader *reader = &cta->tmem->readers[cell->readers];
        if (!is_ordered(cta, access, reader->agent, reader->epoch)) {
            fail_order(cta, access, lane, column,
                       "overwrites what may still be read:", reader->agent, reader->epoch,
                       reader->kind);
        }
        forget_reader(cta->tmem, cell);
    }
}

static void set_writer(struct tensor_cell *cell, const struct tensor_access *access)
{
    cell->write_epoch = access->epoch;
    cell->write_agent = (uint16_t)access->agent;
    cell->write_kind = (uint8_t)access->kind;
}

void tensor_check_read(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                       struct tensor_access access)
{
    struct tmem *tmem = tensor_memory(cta, lane, column, columns, access.kind);
    for (uint32_t c = column; checking() && c < column + columns; c++) {
        struct tensor_cell *cell = &tmem->cells[lane][c];
        check_written(cell, &access, lane, c);
        check_writer(cta, cell, &access, lane, c);
        record_read(tmem, cell, &access);
    }
}

// is_update: what was there counts, so it must have been written.
static void check_overwrite(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                            const struct tensor_access *access, bool is_update)
{
    struct tmem *tmem = tensor_memory(cta, lane, column, columns, access->kind);
    for (uint32_t c = column; checking() && c < column + columns; c++) {
        struct tensor_cell *cell = &tmem->cells[lane][c];
        if (is_update) {
            check_written(cell, access, lane, c);
        }
        check_writer(cta, cell, access, lane, c);
        check_readers(cta, cell, access, lane, c);
        set_writer(cell, access);
    }
}

void tensor_check_write(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                        struct tensor_access access)
{
    check_overwrite(cta, lane, column, columns, &access, false);
}

void tensor_check_update(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                         struct tensor_access access)
{
    check_overwrite(cta, lane, column, columns, &access, true);
}

// The instruction is the whole warp's: what one lane knows counts.
static void check_complete(const struct cta *cta, uint32_t column, uint32_t agent, uint32_t epoch,
                           uint8_t kind)
{
    const struct fiber *lanes = machine.current - machine.current->lane;
    for (uint32_t i = 0; i < LANES; i++) {
        if (epoch <= lanes[i].clocks.tensor_done[agent]) {
            return;
        }
    }
    emu_fail(EMU_RACE,
             "tcgen05.dealloc of column %u, which the %s by %s may still be using; this warp does "
             "not know it complete",
             column, describe_access((access_kind)kind), describe_tensor_agent(cta, agent));
}

// Columns that are given back must not be in use. No fence is asked for: the instruction touches
// nothing in them.
void tensor_check_free(struct cta *cta, uint32_t first, uint32_t columns)
{
    struct tmem *tmem = cta->tmem;
    for (uint32_t i = 0; checking() && i < TMEM_LANES * columns; i++) {
        uint32_t column = first + i % columns;
        struct tensor_cell *cell = &tmem->cells[i / columns][column];
        check_complete(cta, column, cell->write_agent, cell->write_epoch, cell->write_kind);
        while (cell->readers) {
            const struct tensor_reader *reader = &tmem->readers[cell->readers];
            check_complete(cta, column, reader->agent, reader->epoch, reader->kind);
            forget_reader(tmem, cell);
        }
    }
}

void tensor_shadow_clear(struct tmem *tmem, uint32_t first, uint32_t columns)
{
    for (uint32_t lane = 0; lane < TMEM_LANES; lane++) {
        memset(&tmem->cells[lane][first], 0, columns * sizeof tmem->cells[lane][0]);
        for (uint32_t c = first; c < first + columns; c++) {
            tmem->words[lane][c] = TENSOR_POISON;
        }
    }
}
