// What threads know of other clusters.
//
// Clocks (clock.c) are of one cluster. A release to global memory takes a copy of its thread's
// clock; who acquires it keeps the copy beside its own clock and passes it on with everything that
// it releases, by whatever barrier. Copies are never changed: a knowledge is a list of them, sorted
// by cluster, and threads that know the same share the list. All of it lives until the launch ends,
// for memory remembers the accesses of clusters that are long gone.
#include "global.h"
#include <stdlib.h>

struct known {
    uint32_t cluster; // its index in the grid
    uint32_t length;
    const uint32_t *before; // by agent
};

struct knowledge {
    uint32_t count;
    bool predecessor; // all of the grid before this one
    struct known known[];
};

// ---- memory

enum { BLOCK_BYTES = 1 << 20 };

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t size;
    _Alignas(16) unsigned char bytes[];
};

void *arena_allocate(size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    struct arena_block *block = machine.arena;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = malloc(sizeof *block + size);
        if (!block) {
            emu_fail(EMU_NO_MEMORY, "no memory for the order of global memory");
            return NULL;
        }
        *block = (struct arena_block){machine.arena, 0, size};
        machine.arena = block;
    }
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

void arena_destroy(void)
{
    while (machine.arena) {
        struct arena_block *next = machine.arena->next;
        free(machine.arena);
        machine.arena = next;
    }
}

// ---- scopes

struct place own_place(void)
{
    return (struct place){current_cta()->cluster->index, current_cta()->rank};
}

bool scope_covers(sync_scope scope, struct place from, struct place to)
{
    if (scope >= SCOPE_GPU) {
        return true;
    }
    return from.cluster == to.cluster && (scope == SCOPE_CLUSTER || from.rank == to.rank);
}

// ---- lists

static const struct known *find(const struct knowledge *knowledge, uint32_t cluster)
{
    uint32_t low = 0;
    uint32_t high = knowledge ? knowledge->count : 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (knowledge->known[middle].cluster < cluster) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return knowledge && low < knowledge->count && knowledge->known[low].cluster == cluster
               ? &knowledge->known[low]
               : NULL;
}

static bool is_at_least(const struct known *a, const struct known *b)
{
    if (a->before == b->before) {
        return true;
    }
    for (uint32_t i = 0; i < b->length; i++) {
        if (b->before[i] > (i < a->length ? a->before[i] : 0)) {
            return false;
        }
    }
    return true;
}

static bool contains(const struct knowledge *a, const struct knowledge *b)
{
    if (b->predecessor && !a->predecessor) {
        return false;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        const struct known *known = find(a, b->known[i].cluster);
        if (!known || !is_at_least(known, &b->known[i])) {
            return false;
        }
    }
    return true;
}

static struct known join_known(const struct known *a, const struct known *b)
{
    if (is_at_least(a, b)) {
        return *a;
    }
    if (is_at_least(b, a)) {
        return *b;
    }
    uint32_t length = a->length > b->length ? a->length : b->length;
    uint32_t *before = arena_allocate(length * sizeof *before);
    for (uint32_t i = 0; before && i < length; i++) {
        uint32_t x = i < a->length ? a->before[i] : 0;
        uint32_t y = i < b->length ? b->before[i] : 0;
        before[i] = x > y ? x : y;
    }
    return (struct known){a->cluster, before ? length : 0, before};
}

static const struct knowledge *merge(const struct knowledge *a, const struct knowledge *b)
{
    struct knowledge *all =
        arena_allocate(sizeof *all + (a->count + b->count) * sizeof(struct known));
    if (!all) {
        return a;
    }
    all->count = 0;
    all->predecessor = a->predecessor || b->predecessor;
    uint32_t i = 0;
    uint32_t j = 0;
    while (i < a->count || j < b->count) {
        if (j == b->count || (i < a->count && a->known[i].cluster < b->known[j].cluster)) {
            all->known[all->count++] = a->known[i++];
        } else if (i == a->count || b->known[j].cluster < a->known[i].cluster) {
            all->known[all->count++] = b->known[j++];
        } else {
            all->known[all->count++] = join_known(&a->known[i++], &b->known[j++]);
        }
    }
    return all;
}

// The threads of a CTA join the same two again and again.
const struct knowledge *knowledge_join(const struct knowledge *a, const struct knowledge *b)
{
    if (a == b || !b) {
        return a;
    }
    if (!a) {
        return b;
    }
    const struct knowledge **last = machine.last_join;
    if (last[0] != a || last[1] != b) {
        last[0] = a;
        last[1] = b;
        last[2] = contains(a, b) ? a : contains(b, a) ? b : merge(a, b);
    }
    return last[2];
}

// ---- threads

const struct knowledge *knowledge_publish(void)
{
    if (!checking()) {
        return NULL;
    }
    const struct cluster *cluster = current_cta()->cluster;
    const struct clocks *clocks = &machine.current->clocks;
    uint32_t length = machine.cluster_size * machine.launch.threads + cluster->agent_count;
    struct knowledge *own = arena_allocate(sizeof *own + sizeof(struct known));
    uint32_t *before = arena_allocate(length * sizeof *before);
    if (!own || !before) {
        return NULL;
    }
    memcpy(before, clocks->before, length * sizeof *before);
    own->count = 1;
    own->predecessor = false;
    own->known[0] = (struct known){cluster->index, length, before};
    clock_tick();
    return knowledge_join(clocks->foreign, own);
}

// What others tell of the own cluster goes into the own clock.
void knowledge_acquire(const struct knowledge *knowledge)
{
    if (!checking() || !knowledge) {
        return;
    }
    struct clocks *clocks = &machine.current->clocks;
    const struct known *own = find(knowledge, current_cta()->cluster->index);
    for (uint32_t i = 0; own && i < own->length; i++) {
        if (clocks->before[i] < own->before[i]) {
            clocks->before[i] = own->before[i];
        }
    }
    clocks->foreign = knowledge_join(clocks->foreign, knowledge);
}

bool knows_predecessor(uint32_t cluster)
{
    const struct knowledge *foreign = machine.current->clocks.foreign;
    return foreign && foreign->predecessor && grid_of(cluster) != machine.grid;
}

const struct knowledge *knowledge_of_predecessor(void)
{
    struct knowledge *all = checking() ? arena_allocate(sizeof *all) : NULL;
    if (all) {
        *all = (struct knowledge){.count = 0, .predecessor = true};
    }
    return all;
}

uint32_t known_epoch(uint32_t cluster, uint32_t agent)
{
    const struct clocks *clocks = &machine.current->clocks;
    if (knows_predecessor(cluster)) {
        return UINT32_MAX;
    }
    if (cluster == current_cta()->cluster->index) {
        return clocks->before[agent];
    }
    const struct known *known = find(clocks->foreign, cluster);
    return known && agent < known->length ? known->before[agent] : 0;
}

bool is_known(uint32_t cluster, uint32_t agent, uint32_t epoch)
{
    return epoch <= known_epoch(cluster, agent);
}
