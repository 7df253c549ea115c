// The shadow of global memory: who wrote and who may still read each byte of the buffers that a
// kernel may write, and whether the present access is ordered.
//
// Each 16 bytes have a list of accesses, each with the bytes of them that it stands for. A later
// access is compared with those that overlap it:
//
//   two accesses of which one writes   the earlier one must be known to the thread (knowledge.c)
//   both strong (release, acquire,     need no order if each one's scope covers the other's thread
//   relaxed, atomic, reductions)
//   async after a generic write        the writer has fenced after it, and that is known too
//
// It then takes the place of those that nobody can be unordered with who is ordered with it.
// Checks happen at issue, as in shadow.c.
#include "global.h"
#include <stdio.h>
#include <stdlib.h>

enum { PAGE_CHUNKS = 256, PAGE_BYTES = PAGE_CHUNKS * CHUNK_BYTES, NO_RECORD = 0 };

struct record {
    uint32_t cluster;
    uint32_t epoch;
    uint32_t next;
    uint16_t agent;
    uint16_t bytes; // a bit for each
    uint16_t rank;  // of the thread that it belongs to
    uint8_t kind;
    uint8_t mode : 3;
    uint8_t scope : 2;
    bool async : 1;
};

struct chunk {
    uint32_t records;
    uint16_t written; // a bit for each byte
};

struct global_shadow {
    struct chunk ***pages;  // of each buffer
    struct record *records; // [0] is never used
    uint32_t record_count;
    uint32_t record_capacity;
    uint32_t free_records;
};

// When the threads of a cluster have fenced towards the async proxy, in epochs.
struct fence {
    uint32_t epoch;
    const struct fence *earlier;
};

bool global_shadow_create(void)
{
    if (!checking()) {
        return true;
    }
    struct global_shadow *shadow = calloc(1, sizeof *shadow);
    machine.global_shadow = shadow;
    if (!shadow) {
        return false;
    }
    shadow->record_count = 1;
    shadow->record_capacity = 4096;
    shadow->records = malloc(shadow->record_capacity * sizeof *shadow->records);
    shadow->pages = calloc(machine.launch.buffer_count + 1, sizeof *shadow->pages);
    return shadow->records && shadow->pages;
}

static size_t page_count(const struct emu_buffer *buffer)
{
    // A buffer need not begin at a multiple of 16.
    return (buffer->bytes + 2 * CHUNK_BYTES) / PAGE_BYTES + 1;
}

void global_shadow_destroy(void)
{
    struct global_shadow *shadow = machine.global_shadow;
    if (!shadow) {
        return;
    }
    for (uint32_t i = 0; shadow->pages && i < machine.launch.buffer_count; i++) {
        size_t pages = shadow->pages[i] ? page_count(&machine.launch.buffers[i]) : 0;
        for (size_t page = 0; page < pages; page++) {
            free(shadow->pages[i][page]);
        }
        free(shadow->pages[i]);
    }
    free(shadow->pages);
    free(shadow->records);
    free(shadow);
}

const struct emu_buffer *global_buffer(const void *p)
{
    for (uint32_t i = 0; i < machine.launch.buffer_count; i++) {
        const struct emu_buffer *buffer = &machine.launch.buffers[i];
        if ((uintptr_t)p - (uintptr_t)buffer->data < buffer->bytes) {
            return buffer;
        }
    }
    return NULL;
}

static struct chunk *chunk_at(const struct emu_buffer *buffer, uintptr_t address)
{
    struct chunk ***pages = &machine.global_shadow->pages[buffer - machine.launch.buffers];
    size_t index = address / CHUNK_BYTES - (uintptr_t)buffer->data / CHUNK_BYTES;
    if (!*pages) {
        *pages = calloc(page_count(buffer), sizeof **pages);
    }
    struct chunk **page = *pages ? &(*pages)[index / PAGE_CHUNKS] : NULL;
    if (page && !*page) {
        *page = calloc(PAGE_CHUNKS, sizeof **page);
    }
    if (!page || !*page) {
        emu_fail(EMU_NO_MEMORY, "no memory for the shadow of buffer '%s'", buffer->name);
        return NULL;
    }
    return &(*page)[index % PAGE_CHUNKS];
}

// ---- texts

static const char *describe_thread(uint32_t cluster, uint32_t rank, uint32_t agent)
{
    static char text[96];
    uint32_t block[3];
    cluster_blocks(cluster, rank, block);
    const struct emu_launch *launch = &grid_of(cluster)->launch;
    int used = 0;
    if (agent < launch->cluster * launch->threads) {
        used = snprintf(text, sizeof text, "thread %u of ", agent % launch->threads);
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "CTA (%u,%u,%u)", block[0], block[1],
                     block[2]);
    if (machine.grid_count > 1) {
        snprintf(text + used, sizeof text - (size_t)used, " of %.32s",
                 launch->name ? launch->name : "the other kernel");
    }
    return text;
}

static const char *describe_scope(sync_scope scope)
{
    static const char *const names[] = {".cta", ".cluster", ".gpu", ".sys"};
    return names[scope];
}

static void fail_order(const struct emu_buffer *buffer, uint64_t offset,
                       const struct global_access *access, const struct record *record,
                       const char *what, const char *missing)
{
    emu_fail(EMU_RACE, "%s at offset %llu of buffer '%s' %s the %s by %s; %s",
             describe_access(access->kind), (unsigned long long)offset, buffer->name, what,
             describe_access((access_kind)record->kind),
             describe_thread(record->cluster, record->rank, record->agent), missing);
}

static void fail_scope(const struct emu_buffer *buffer, uint64_t offset,
                       const struct global_access *access, const struct record *record)
{
    struct place there = {record->cluster, record->rank};
    bool mine = !scope_covers(access->scope, own_place(), there);
    emu_fail(EMU_RACE,
             "%s at offset %llu of buffer '%s' races with the %s by %s: the scope %s of the %s is "
             "too narrow to reach the other",
             describe_access(access->kind), (unsigned long long)offset, buffer->name,
             describe_access((access_kind)record->kind),
             describe_thread(record->cluster, record->rank, record->agent),
             describe_scope(mine ? access->scope : (sync_scope)record->scope),
             mine ? "former" : "latter");
}

// ---- rules

void global_shadow_fence_async(void)
{
    struct fiber *fiber = machine.current;
    const struct fence ***of_cluster = &machine.fences[fiber->cta->cluster->index];
    if (!*of_cluster) {
        size_t bytes = machine.cluster_size * machine.launch.threads * sizeof **of_cluster;
        *of_cluster = arena_allocate(bytes);
        if (*of_cluster) {
            memset((void *)*of_cluster, 0, bytes);
        }
    }
    struct fence *fence = *of_cluster ? arena_allocate(sizeof *fence) : NULL;
    if (fence) {
        const struct fence **last = &(*of_cluster)[fiber->agent];
        *fence = (struct fence){fiber->clocks.before[fiber->agent], *last};
        *last = fence;
    }
}

// A fence ends its thread's epoch: it is known to whoever knows the next one.
static bool is_fenced(const struct record *record)
{
    const struct fence *const *of_cluster = machine.fences[record->cluster];
    uint32_t known = known_epoch(record->cluster, record->agent);
    for (const struct fence *f = of_cluster ? of_cluster[record->agent] : NULL;
         f && f->epoch >= record->epoch; f = f->earlier) {
        if (f->epoch < known) {
            return true;
        }
    }
    return false;
}

static bool is_thread(const struct record *record)
{
    const struct emu_launch *launch = &grid_of(record->cluster)->launch;
    return record->agent < launch->cluster * launch->threads;
}

// True if the two are ordered.
static bool compare(const struct emu_buffer *buffer, uint64_t offset,
                    const struct global_access *access, const struct record *record)
{
    bool ordered = is_known(record->cluster, record->agent, record->epoch);
    if (((access->mode | record->mode) & GLOBAL_WRITE) == 0) {
        return ordered;
    }
    if (ordered) {
        if (access->async && !record->async && record->mode & GLOBAL_WRITE && is_thread(record) &&
            machine.launch.check >= EMU_CHECK_STRICT && !knows_predecessor(record->cluster) &&
            !is_fenced(record)) {
            fail_order(buffer, offset, access, record, "goes through the async proxy and follows",
                       "the writer has no fence_proxy_async_global after it");
        }
        return true;
    }
    if (!(access->mode & record->mode & GLOBAL_STRONG)) {
        fail_order(buffer, offset, access, record, "races with",
                   grid_of(record->cluster) == machine.grid
                       ? "no release and acquire orders the two"
                       : "the second kernel has not waited for the first by griddep_wait");
        return false;
    }
    struct place there = {record->cluster, record->rank};
    if (!scope_covers(access->scope, own_place(), there) ||
        !scope_covers((sync_scope)record->scope, there, own_place())) {
        fail_scope(buffer, offset, access, record);
    }
    return false;
}

// Is whoever could be unordered with the earlier access also unordered with this one?
static bool replaces(const struct global_access *access, const struct record *record)
{
    return (access->mode & GLOBAL_WRITE || !(record->mode & GLOBAL_WRITE)) &&
           (!(access->mode & GLOBAL_STRONG) || record->mode & GLOBAL_STRONG);
}

static void add_record(struct chunk *chunk, const struct global_access *access, uint16_t bytes)
{
    struct global_shadow *shadow = machine.global_shadow;
    uint32_t index = shadow->free_records;
    if (index) {
        shadow->free_records = shadow->records[index].next;
    } else {
        if (shadow->record_count == shadow->record_capacity) {
            uint32_t capacity = 2 * shadow->record_capacity;
            struct record *larger = realloc(shadow->records, capacity * sizeof *larger);
            if (!larger) {
                emu_fail(EMU_NO_MEMORY, "no memory for the shadow of global memory");
                return;
            }
            shadow->records = larger;
            shadow->record_capacity = capacity;
        }
        index = shadow->record_count++;
    }
    struct place place = own_place();
    shadow->records[index] = (struct record){.cluster = place.cluster,
                                             .epoch = access->epoch,
                                             .next = chunk->records,
                                             .agent = (uint16_t)access->agent,
                                             .bytes = bytes,
                                             .rank = (uint16_t)place.rank,
                                             .kind = (uint8_t)access->kind,
                                             .mode = access->mode & 7,
                                             .scope = access->scope & 3,
                                             .async = access->async};
    chunk->records = index;
}

// The same agent in the same epoch: the two are ordered, or both atomic.
static bool is_same(const struct record *record, const struct global_access *access)
{
    return record->agent == access->agent && record->epoch == access->epoch &&
           record->kind == access->kind && record->mode == access->mode &&
           record->scope == access->scope && record->async == access->async &&
           record->cluster == current_cta()->cluster->index;
}

static void access_chunk(const struct emu_buffer *buffer, uint64_t offset, struct chunk *chunk,
                         const struct global_access *access, uint16_t bytes)
{
    struct global_shadow *shadow = machine.global_shadow;
    if (buffer->writable == EMU_OUTPUT && access->mode & GLOBAL_READ &&
        (chunk->written & bytes) != bytes) {
        emu_fail(EMU_RACE, "%s at offset %llu of buffer '%s' reads what nobody has written",
                 describe_access(access->kind), (unsigned long long)offset, buffer->name);
    }
    struct record *same = NULL;
    uint32_t *link = &chunk->records;
    while (*link) {
        struct record *record = &shadow->records[*link];
        if (is_same(record, access)) {
            same = record; // the thread goes through the chunk
        } else if (record->bytes & bytes && compare(buffer, offset, access, record) &&
                   replaces(access, record)) {
            record->bytes &= (uint16_t)~bytes;
        }
        if (record->bytes) {
            link = &record->next;
        } else {
            uint32_t index = *link;
            *link = record->next;
            record->next = shadow->free_records;
            shadow->free_records = index;
        }
    }
    if (access->mode & GLOBAL_WRITE) {
        chunk->written |= bytes;
    }
    if (same) {
        same->bytes |= bytes;
    } else {
        add_record(chunk, access, bytes);
    }
}

void check_global_access(const void *p, uint64_t bytes, struct global_access access)
{
    check_global(p, bytes, access.mode & GLOBAL_WRITE, describe_access(access.kind));
    const struct emu_buffer *buffer = global_buffer(p);
    if (!checking() || !buffer || buffer->writable == EMU_READ_ONLY) {
        return;
    }
    uintptr_t begin = (uintptr_t)p;
    uintptr_t end = begin + bytes;
    for (uintptr_t at = begin; at < end;) {
        uintptr_t next = (at / CHUNK_BYTES + 1) * CHUNK_BYTES;
        next = next < end ? next : end;
        uint32_t mask = ((1u << (next - at)) - 1) << at % CHUNK_BYTES;
        struct chunk *chunk = chunk_at(buffer, at);
        if (!chunk) {
            return;
        }
        access_chunk(buffer, at - (uintptr_t)buffer->data, chunk, &access, (uint16_t)mask);
        at = next;
    }
}

struct global_access thread_global_access(access_kind kind, uint32_t mode, sync_scope scope)
{
    const struct fiber *fiber = machine.current;
    return (struct global_access){
        kind, fiber->agent, checking() ? fiber->clocks.before[fiber->agent] : 0,
        mode, scope,        false};
}
