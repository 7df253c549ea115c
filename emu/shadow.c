// The shadow of shared memory: who wrote and who may still read each byte, and whether the present
// access is ordered.
//
// There is a cell for each 16 bytes, the unit of TMA and of wgmma; an access to less splits the
// cell into one for each 2 bytes until a whole write joins it again. A cell knows its last writer
// and all readers since, but for some that are ordered before another. Checks happen when an
// operation is issued, with the issuing thread's clocks, so they do not depend on when an
// asynchronous operation happens to run.
//
//   read after write, write after write    the writer's epoch must be known to the thread
//   write after read                       so must those of all readers
//   async after generic write              the writer's epoch must also be fenced towards the async
//                                          proxy
#include "state.h"
#include <stdlib.h>

enum {
    CHUNKS = (SMEM_BASE + SMEM_MAX) / CHUNK_BYTES,
    PART_BYTES = 2,
    PARTS = CHUNK_BYTES / PART_BYTES,
    PRUNE_READS = 8,
    AGENTS = 1 << 16,
    NO_NODE = 0 // index 0 of the pool is never used
};

struct reader {
    uint32_t epoch;
    uint32_t next;
    uint16_t agent;
    uint8_t kind;
};

struct cell {
    uint32_t write_epoch;
    uint32_t readers; // a list in the pool, latest first
    uint32_t room;    // readers to come before the list is pruned
    uint16_t write_agent;
    uint8_t write_kind;
    bool written : 1;
    bool write_async : 1;
};

struct chunk {
    struct cell whole;
    uint32_t parts; // index of its block of cells, if it ever was split; 0: none
    bool split;
    uint8_t mbarriers; // bit i: bytes 8 i .. 8 i + 7 are an mbarrier
};

struct shadow {
    struct chunk chunks[CHUNKS];
    struct cell (*blocks)[PARTS];
    uint32_t block_count;
    uint32_t block_capacity;
    struct reader *readers;
    uint32_t reader_count;
    uint32_t reader_capacity;
    uint32_t free_readers;
    uint32_t prunings;
    uint32_t seen[AGENTS]; // the last pruning that met a reader of the agent
};

struct shadow *shadow_create(void)
{
    struct shadow *shadow = calloc(1, sizeof *shadow);
    if (!shadow) {
        return NULL;
    }
    shadow->block_capacity = 1024;
    shadow->reader_capacity = 8192;
    shadow->blocks = malloc(shadow->block_capacity * sizeof *shadow->blocks);
    shadow->readers = malloc(shadow->reader_capacity * sizeof *shadow->readers);
    if (!shadow->blocks || !shadow->readers) {
        shadow_destroy(shadow);
        return NULL;
    }
    return shadow;
}

void shadow_destroy(struct shadow *shadow)
{
    if (shadow) {
        free(shadow->blocks);
        free(shadow->readers);
        free(shadow);
    }
}

void shadow_reset(struct shadow *shadow)
{
    memset(shadow->chunks, 0, sizeof shadow->chunks);
    shadow->block_count = 1;
    shadow->reader_count = 1;
    shadow->free_readers = NO_NODE;
}

void shadow_mark_mbarrier(struct cta *cta, uint32_t offset, bool marked)
{
    struct chunk *chunk = &cta->shadow->chunks[offset / CHUNK_BYTES];
    uint8_t bit = (uint8_t)(1u << (offset / 8 % 2));
    chunk->mbarriers = (uint8_t)(marked ? chunk->mbarriers | bit : chunk->mbarriers & ~bit);
}

static bool grow(void **memory, uint32_t *capacity, size_t size)
{
    void *larger = realloc(*memory, 2 * (size_t)*capacity * size);
    if (!larger) {
        emu_fail(EMU_NO_MEMORY, "no memory for the shadow of shared memory");
        return false;
    }
    *memory = larger;
    *capacity *= 2;
    return true;
}

static void add_reader(struct shadow *shadow, struct cell *cell, uint32_t agent, uint32_t epoch,
                       uint8_t kind)
{
    uint32_t node = shadow->free_readers;
    if (node) {
        shadow->free_readers = shadow->readers[node].next;
    } else {
        void *memory = shadow->readers;
        if (shadow->reader_count == shadow->reader_capacity &&
            !grow(&memory, &shadow->reader_capacity, sizeof *shadow->readers)) {
            return;
        }
        shadow->readers = memory;
        node = shadow->reader_count++;
    }
    shadow->readers[node] = (struct reader){epoch, cell->readers, (uint16_t)agent, kind};
    cell->readers = node;
}

static uint32_t release_reader(struct shadow *shadow, uint32_t node)
{
    uint32_t next = shadow->readers[node].next;
    shadow->readers[node].next = shadow->free_readers;
    shadow->free_readers = node;
    return next;
}

// Forgets whom the present thread knows to be before it, as who is ordered after it is after them,
// and all but the latest read of an agent.
static void prune_readers(struct shadow *shadow, struct cell *cell)
{
    const uint32_t *before = machine.current->clocks.before;
    uint32_t kept = 0;
    shadow->prunings++;
    for (uint32_t *link = &cell->readers; *link;) {
        struct reader *reader = &shadow->readers[*link];
        uint32_t *seen = &shadow->seen[reader->agent];
        if (*seen == shadow->prunings || reader->epoch <= before[reader->agent]) {
            *link = release_reader(shadow, *link);
        } else {
            *seen = shadow->prunings;
            link = &reader->next;
            kept++;
        }
    }
    cell->room = kept + PRUNE_READS;
}

// A walk of the list for each read would take its length squared; now and then will do.
static void record_read(struct shadow *shadow, struct cell *cell, const struct access *access)
{
    struct reader *latest = &shadow->readers[cell->readers];
    if (cell->readers && latest->agent == access->agent) {
        latest->epoch = access->epoch;
        latest->kind = (uint8_t)access->kind;
        return;
    }
    if (cell->room == 0) {
        prune_readers(shadow, cell);
    }
    cell->room--;
    add_reader(shadow, cell, access->agent, access->epoch, (uint8_t)access->kind);
}

static void forget_readers(struct shadow *shadow, struct cell *cell)
{
    while (cell->readers) {
        cell->readers = release_reader(shadow, cell->readers);
    }
    cell->room = PRUNE_READS;
}

static void fail_order(const struct cta *cta, const struct access *access, uint32_t addr,
                       const char *what, uint32_t agent, uint8_t kind, const char *missing)
{
    emu_fail(EMU_RACE, "%s at shared address 0x%x %s the %s by %s; %s",
             describe_access(access->kind), addr, what, describe_access((access_kind)kind),
             describe_agent(cta->cluster, agent), missing);
}

// The rules for what was written before; true if all hold.
static void check_writer(const struct cta *cta, const struct cell *cell,
                         const struct access *access, uint32_t addr)
{
    const struct clocks *clocks = &machine.current->clocks;
    if (cell->write_epoch > clocks->before[cell->write_agent]) {
        fail_order(cta, access, addr, "races with", cell->write_agent, cell->write_kind,
                   "no barrier or wait orders the two");
    } else if (access->async && !cell->write_async &&
               cell->write_epoch > clocks->fenced[cell->write_agent]) {
        fail_order(cta, access, addr, "goes through the async proxy and follows", cell->write_agent,
                   cell->write_kind, "the writer has no fence.proxy.async after it");
    }
}

static void read_cell(struct cta *cta, struct cell *cell, const struct access *access,
                      uint32_t addr)
{
    if (!cell->written) {
        emu_fail(EMU_RACE, "%s reads uninitialised shared memory at address 0x%x",
                 describe_access(access->kind), addr);
    }
    check_writer(cta, cell, access, addr);
    record_read(cta->shadow, cell, access);
}

static void write_cell(struct cta *cta, struct cell *cell, const struct access *access,
                       uint32_t addr)
{
    if (cell->written) {
        check_writer(cta, cell, access, addr);
    }
    const uint32_t *before = machine.current->clocks.before;
    for (uint32_t node = cell->readers; node; node = cta->shadow->readers[node].next) {
        const struct reader *reader = &cta->shadow->readers[node];
        if (reader->epoch > before[reader->agent]) {
            fail_order(cta, access, addr, "overwrites what may still be read:", reader->agent,
                       reader->kind,
                       "nobody waited for that read before the buffer was given back");
        }
    }
    forget_readers(cta->shadow, cell);
    cell->written = true;
    cell->write_async = access->async;
    cell->write_agent = (uint16_t)access->agent;
    cell->write_epoch = access->epoch;
    cell->write_kind = (uint8_t)access->kind;
}

static struct cell *split_chunk(struct shadow *shadow, struct chunk *chunk)
{
    if (!chunk->parts) {
        void *memory = shadow->blocks;
        if (shadow->block_count == shadow->block_capacity &&
            !grow(&memory, &shadow->block_capacity, sizeof *shadow->blocks)) {
            return NULL;
        }
        shadow->blocks = memory;
        chunk->parts = shadow->block_count++;
    }
    struct cell *parts = shadow->blocks[chunk->parts];
    if (!chunk->split) {
        chunk->split = true;
        for (uint32_t i = 0; i < PARTS; i++) {
            parts[i] = chunk->whole;
            parts[i].readers = NO_NODE;
            for (uint32_t node = chunk->whole.readers; node; node = shadow->readers[node].next) {
                struct reader reader = shadow->readers[node];
                add_reader(shadow, &parts[i], reader.agent, reader.epoch, reader.kind);
            }
        }
        forget_readers(shadow, &chunk->whole);
    }
    return parts;
}

typedef void (*cell_check)(struct cta *cta, struct cell *cell, const struct access *access,
                           uint32_t addr);

static void visit_chunk(struct cta *cta, uint32_t begin, uint32_t end, const struct access *access,
                        cell_check check)
{
    struct chunk *chunk = &cta->shadow->chunks[begin / CHUNK_BYTES];
    bool whole = end - begin == CHUNK_BYTES;
    if (whole && !chunk->split) {
        check(cta, &chunk->whole, access, begin);
        return;
    }
    struct cell *parts = split_chunk(cta->shadow, chunk);
    for (uint32_t addr = begin; parts && addr < end; addr += PART_BYTES) {
        check(cta, &parts[addr % CHUNK_BYTES / PART_BYTES], access, addr);
    }
    if (whole && check == write_cell && parts) {
        chunk->whole = parts[0];
        chunk->split = false;
    }
}

void check_bounds(uint32_t addr, uint32_t bytes, access_kind kind)
{
    uint32_t offset = addr & SMEM_OFFSET_MASK;
    if (offset < SMEM_BASE ||
        (uint64_t)offset + bytes > SMEM_BASE + (uint64_t)machine.launch.smem_bytes) {
        emu_fail(EMU_FAULT,
                 "%s of %u bytes at shared address 0x%x is out of bounds: the CTA has 0x%x to 0x%x",
                 describe_access(kind), bytes, addr, SMEM_BASE,
                 SMEM_BASE + machine.launch.smem_bytes);
    }
}

static void visit(struct cta *cta, uint32_t addr, uint32_t bytes, const struct access *access,
                  cell_check check)
{
    uint32_t offset = addr & SMEM_OFFSET_MASK;
    check_bounds(addr, bytes, access->kind);
    for (uint32_t at = offset; at < offset + bytes;) {
        uint32_t end = (at / CHUNK_BYTES + 1) * CHUNK_BYTES;
        end = end < offset + bytes ? end : offset + bytes;
        uint8_t mbarriers = cta->shadow->chunks[at / CHUNK_BYTES].mbarriers;
        if (mbarriers && ((mbarriers & 1 && at % CHUNK_BYTES < 8) ||
                          (mbarriers & 2 && (end - 1) % CHUNK_BYTES >= 8))) {
            emu_fail(EMU_FAULT, "%s at shared address 0x%x touches an mbarrier",
                     describe_access(access->kind), at);
        }
        if (checking()) {
            visit_chunk(cta, at, end, access, check);
        }
        at = end;
    }
}

void check_read(struct cta *cta, uint32_t addr, uint32_t bytes, struct access access)
{
    visit(cta, addr, bytes, &access, read_cell);
}

void check_write(struct cta *cta, uint32_t addr, uint32_t bytes, struct access access)
{
    visit(cta, addr, bytes, &access, write_cell);
}

struct access thread_access(access_kind kind)
{
    const struct fiber *fiber = machine.current;
    return (struct access){kind, fiber->agent, checking() ? fiber->clocks.before[fiber->agent] : 0,
                           false};
}
