// Flags in global memory: accesses that release and acquire, fences, waits.
//
// A location remembers what was released to it: by whom, at which scope, what that thread knew. A
// release by a store forgets what was there, one by an atomic adds to it, as the atomics after a
// release carry it on. An acquire takes what both scopes reach. A fence makes later relaxed writes
// of its thread release what was known at the fence, and acquires what its earlier relaxed loads
// have seen.
#include "../src/device/ptx/fence.h"
#include "../src/device/ptx/flags.h"
#include "global.h"
#include <stdio.h>
#include <stdlib.h>

struct publication {
    struct publication *next;
    const struct knowledge *knowledge;
    struct place place;
    sync_scope scope;
};

// What a thread has seen by relaxed loads, for a fence to come.
struct seen_flag {
    const struct seen_flag *earlier;
    const struct publication *publications;
    sync_scope scope;
};

struct location {
    uintptr_t address; // 0: free
    const struct publication *publications;
};

// Open addressing; a power of two.
struct locations {
    struct location *places;
    uint32_t capacity;
    uint32_t count;
};

void locations_destroy(void)
{
    if (machine.locations) {
        free(machine.locations->places);
        free(machine.locations);
    }
}

static struct location *slot_of(const struct locations *locations, uintptr_t address)
{
    uint64_t hash = (uint64_t)address * 0x9e3779b97f4a7c15u >> 32;
    for (;; hash++) {
        struct location *slot = &locations->places[hash & (locations->capacity - 1)];
        if (slot->address == 0 || slot->address == address) {
            return slot;
        }
    }
}

static bool grow_locations(void)
{
    struct locations old = *machine.locations;
    uint32_t capacity = old.capacity ? 2 * old.capacity : 64;
    struct location *places = calloc(capacity, sizeof *places);
    if (!places) {
        emu_fail(EMU_NO_MEMORY, "no memory for %u flags", capacity);
        return false;
    }
    *machine.locations = (struct locations){places, capacity, old.count};
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.places[i].address) {
            *slot_of(machine.locations, old.places[i].address) = old.places[i];
        }
    }
    free(old.places);
    return true;
}

// NULL: nothing was ever released there, unless `create`.
static struct location *location_at(const void *p, bool create)
{
    if (!machine.locations) {
        machine.locations = create ? calloc(1, sizeof *machine.locations) : NULL;
    }
    if (!machine.locations || (machine.locations->capacity == 0 && !create)) {
        return NULL;
    }
    if (create && 2 * machine.locations->count >= machine.locations->capacity &&
        !grow_locations()) {
        return NULL;
    }
    struct location *location = slot_of(machine.locations, (uintptr_t)p);
    if (location->address == 0) {
        if (!create) {
            return NULL;
        }
        location->address = (uintptr_t)p;
        machine.locations->count++;
    }
    return location;
}

void flags_overwritten(const void *p, uint32_t bytes)
{
    for (uint32_t at = 0; machine.locations && at < bytes; at += 4) {
        struct location *location = location_at((const uint8_t *)p + at, false);
        if (location) {
            location->publications = NULL;
        }
    }
}

static sync_scope narrower(sync_scope a, sync_scope b)
{
    return a < b ? a : b;
}

// One for each set of threads that the scope reaches: a later one of the same set knows more.
static bool same_reach(const struct publication *a, const struct publication *b)
{
    return a->scope == b->scope && scope_covers(a->scope, a->place, b->place);
}

// The list is shared with threads that have seen it: a new one is made.
static void publish(struct location *location, const struct knowledge *knowledge, sync_scope scope)
{
    struct publication *head = knowledge ? arena_allocate(sizeof *head) : NULL;
    if (!head) {
        return;
    }
    *head = (struct publication){NULL, knowledge, own_place(), scope};
    struct publication **link = &head->next;
    for (const struct publication *p = location->publications; p; p = p->next) {
        if (same_reach(head, p)) {
            head->knowledge = knowledge_join(head->knowledge, p->knowledge);
            continue;
        }
        struct publication *copy = arena_allocate(sizeof *copy);
        if (!copy) {
            return;
        }
        *copy = *p;
        copy->next = NULL;
        *link = copy;
        link = &copy->next;
    }
    location->publications = head;
}

static void acquire(const struct publication *publication, sync_scope scope)
{
    if (scope_covers(scope, own_place(), publication->place) &&
        scope_covers(publication->scope, publication->place, own_place())) {
        knowledge_acquire(publication->knowledge);
    }
}

static void see(struct location *location, uint32_t order, sync_scope scope)
{
    struct fiber *fiber = machine.current;
    for (const struct publication *p = location ? location->publications : NULL; p; p = p->next) {
        if (order & ACQUIRE) {
            acquire(p, scope);
        }
    }
    // A later fence acquires what the newest of them tells; remembered by the list's head.
    if (location && location->publications && !(order & ACQUIRE)) {
        const struct seen_flag *seen = fiber->flags.seen;
        if (!seen || seen->publications != location->publications) {
            struct seen_flag *more = arena_allocate(sizeof *more);
            if (more) {
                *more = (struct seen_flag){seen, location->publications, scope};
                fiber->flags.seen = more;
            }
        }
    }
}

static void tell(struct location *location, uint32_t order, sync_scope scope, bool adds)
{
    const struct fiber *fiber = machine.current;
    if (!adds) {
        location->publications = NULL;
    }
    static const sync_scope scopes[] = {SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS};
    for (uint32_t s = 0; s < 4; s++) {
        if (fiber->flags.fenced[s]) {
            publish(location, fiber->flags.fenced[s], narrower(scopes[s], scope));
        }
    }
    if (order & RELEASE) {
        publish(location, knowledge_publish(), scope);
    }
}

static void fence(sync_scope scope)
{
    struct fiber *fiber = machine.current;
    if (!checking()) {
        return;
    }
    for (const struct seen_flag *seen = fiber->flags.seen; seen; seen = seen->earlier) {
        for (const struct publication *p = seen->publications; p; p = p->next) {
            acquire(p, narrower(scope, seen->scope));
        }
    }
    fiber->flags.seen = NULL;
    fiber->flags.fenced[scope] = knowledge_publish();
}

void fence_acq_rel_cta(void)
{
    fence(SCOPE_CTA);
}

void fence_acq_rel_cluster(void)
{
    fence(SCOPE_CLUSTER);
}

void fence_acq_rel_gpu(void)
{
    fence(SCOPE_GPU);
}

void fence_acq_rel_sys(void)
{
    fence(SCOPE_SYS);
}

// ---- accesses

static void check(const void *p, access_kind kind, uint32_t mode, sync_scope scope)
{
    check_global_alignment(p, 4, describe_access(kind));
    check_global_access(p, 4, thread_global_access(kind, mode | GLOBAL_STRONG, scope));
}

static uint32_t word_at(const void *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static uint32_t load(const void *p, uint32_t order, sync_scope scope)
{
    check(p, ACCESS_LD_GLOBAL, GLOBAL_READ, scope);
    if (checking()) {
        see(location_at(p, false), order, scope);
    }
    return word_at(p);
}

static void store(void *p, uint32_t value, uint32_t order, sync_scope scope)
{
    check(p, ACCESS_ST_GLOBAL, GLOBAL_WRITE, scope);
    struct location *location = checking() ? location_at(p, true) : NULL;
    if (location) {
        tell(location, order, scope, false);
    }
    memcpy(p, &value, sizeof value);
    machine.progress = true;
}

void atomic_order(void *p, access_kind kind, uint32_t order, sync_scope scope)
{
    check(p, kind, GLOBAL_READ | GLOBAL_WRITE, scope);
    struct location *location = checking() ? location_at(p, true) : NULL;
    if (location) {
        if (kind != ACCESS_RED_GLOBAL) { // a reduction gives nothing back
            see(location, order, scope);
        }
        tell(location, order, scope, true);
    }
}

static uint32_t add(void *p, uint32_t value, access_kind kind, uint32_t order, sync_scope scope)
{
    atomic_order(p, kind, order, scope);
    uint32_t old = word_at(p);
    uint32_t sum = old + value;
    memcpy(p, &sum, sizeof sum);
    machine.progress = true;
    return old;
}

uint32_t atom_global_add_u32(void *p, uint32_t value)
{
    uint32_t old = add(p, value, ACCESS_ATOM_GLOBAL, RELAXED, SCOPE_GPU);
    leave_site();
    return old;
}

static uint32_t compare_and_swap(void *p, uint32_t expected, uint32_t value)
{
    fiber_yield();
    check_global(p, 4, true, "atom.global");
    uint32_t old = word_at(p);
    if (old != expected) { // no more than a load
        return load(p, RELAXED, SCOPE_GPU);
    }
    atomic_order(p, ACCESS_ATOM_GLOBAL, RELAXED, SCOPE_GPU);
    memcpy(p, &value, sizeof value);
    machine.progress = true;
    return old;
}

uint32_t atom_global_cas_u32(void *p, uint32_t expected, uint32_t value)
{
    uint32_t old = compare_and_swap(p, expected, value);
    leave_site();
    return old;
}

// ---- waiting

bool flag_is_there(const struct flag_wait *wait)
{
    uint32_t word = word_at(wait->p);
    return wait->equal ? word == wait->value : word >= wait->value;
}

int flag_text_wait(char *text, size_t size, const struct flag_wait *wait)
{
    const struct emu_buffer *buffer = global_buffer(wait->p);
    return snprintf(text, size, "flag at offset %td of buffer '%s': waits for %s%u, is %u",
                    (const uint8_t *)wait->p - (const uint8_t *)buffer->data, buffer->name,
                    wait->equal ? "" : "at least ", wait->value, word_at(wait->p));
}

static void wait_for(const void *p, uint32_t value, bool equal)
{
    struct flag_wait wait = {p, value, equal};
    check_global_alignment(p, 4, "ld.global");
    check_global(p, 4, false, "ld.global");
    if (!flag_is_there(&wait)) {
        fiber_block(WAIT_FLAG, &wait, 0);
    }
    load(p, ACQUIRE, SCOPE_GPU);
}

void wait_equal_gpu_u32(const void *p, uint32_t value)
{
    wait_for(p, value, true);
}

void wait_at_least_gpu_u32(const void *p, uint32_t value)
{
    wait_for(p, value, false);
}

uint32_t ld_relaxed_gpu_u32(const void *p)
{
    fiber_yield();
    return load(p, RELAXED, SCOPE_GPU);
}

void st_relaxed_gpu_u32(void *p, uint32_t value)
{
    store(p, value, RELAXED, SCOPE_GPU);
}

uint32_t ld_acquire_cta_u32(const void *p)
{
    fiber_yield();
    return load(p, ACQUIRE, SCOPE_CTA);
}

void st_release_cta_u32(void *p, uint32_t value)
{
    store(p, value, RELEASE, SCOPE_CTA);
}

void red_release_cta_add_u32(void *p, uint32_t value)
{
    add(p, value, ACCESS_RED_GLOBAL, RELEASE, SCOPE_CTA);
}

uint32_t atom_acq_rel_cta_add_u32(void *p, uint32_t value)
{
    return add(p, value, ACCESS_ATOM_GLOBAL, ACQUIRE | RELEASE, SCOPE_CTA);
}

uint32_t ld_acquire_cluster_u32(const void *p)
{
    fiber_yield();
    return load(p, ACQUIRE, SCOPE_CLUSTER);
}

void st_release_cluster_u32(void *p, uint32_t value)
{
    store(p, value, RELEASE, SCOPE_CLUSTER);
}

void red_release_cluster_add_u32(void *p, uint32_t value)
{
    add(p, value, ACCESS_RED_GLOBAL, RELEASE, SCOPE_CLUSTER);
}

uint32_t atom_acq_rel_cluster_add_u32(void *p, uint32_t value)
{
    return add(p, value, ACCESS_ATOM_GLOBAL, ACQUIRE | RELEASE, SCOPE_CLUSTER);
}

uint32_t ld_acquire_gpu_u32(const void *p)
{
    fiber_yield();
    return load(p, ACQUIRE, SCOPE_GPU);
}

void st_release_gpu_u32(void *p, uint32_t value)
{
    store(p, value, RELEASE, SCOPE_GPU);
}

void red_release_gpu_add_u32(void *p, uint32_t value)
{
    add(p, value, ACCESS_RED_GLOBAL, RELEASE, SCOPE_GPU);
}

uint32_t atom_acq_rel_gpu_add_u32(void *p, uint32_t value)
{
    return add(p, value, ACCESS_ATOM_GLOBAL, ACQUIRE | RELEASE, SCOPE_GPU);
}

uint32_t ld_acquire_sys_u32(const void *p)
{
    fiber_yield();
    return load(p, ACQUIRE, SCOPE_SYS);
}

void st_release_sys_u32(void *p, uint32_t value)
{
    store(p, value, RELEASE, SCOPE_SYS);
}

void red_release_sys_add_u32(void *p, uint32_t value)
{
    add(p, value, ACCESS_RED_GLOBAL, RELEASE, SCOPE_SYS);
}

uint32_t atom_acq_rel_sys_add_u32(void *p, uint32_t value)
{
    return add(p, value, ACCESS_ATOM_GLOBAL, ACQUIRE | RELEASE, SCOPE_SYS);
}
