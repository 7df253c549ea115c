// Order in global memory: what threads know of other clusters, who touched which byte.
#ifndef EMU_GLOBAL_H
#define EMU_GLOBAL_H

#include "state.h"

typedef enum sync_scope { SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS } sync_scope;

// ---- knowledge.c
// Whose scope is meant: a thread of that CTA of that cluster of the grid.
struct place {
    uint32_t cluster;
    uint32_t rank;
};
struct place own_place(void);
bool scope_covers(sync_scope scope, struct place from, struct place to);
// The current thread makes what it knows known to others, and starts its next epoch.
const struct knowledge *knowledge_publish(void);
void knowledge_acquire(const struct knowledge *knowledge);
// Is that epoch of the agent of that cluster before what the current thread does now?
bool is_known(uint32_t cluster, uint32_t agent, uint32_t epoch);
uint32_t known_epoch(uint32_t cluster, uint32_t agent);
const struct knowledge *knowledge_of_predecessor(void);
bool knows_predecessor(uint32_t cluster); // that it is of the grid before, which is complete
void *arena_allocate(size_t bytes);       // until the launch ends; NULL after a failure

// ---- global_shadow.c
enum { GLOBAL_READ = 1, GLOBAL_WRITE = 2, GLOBAL_STRONG = 4 };
struct global_access {
    access_kind kind;
    uint32_t agent;
    uint32_t epoch;
    uint32_t mode;
    sync_scope scope; // of strong ones
    bool async;       // through the async proxy
};
// Bounds, initialisation and order of an access by the current thread, or of an asynchronous one
// that it starts.
void check_global_access(const void *p, uint64_t bytes, struct global_access access);
struct global_access thread_global_access(access_kind kind, uint32_t mode, sync_scope scope);
const struct emu_buffer *global_buffer(const void *p); // NULL: in none
void global_shadow_fence_async(void);

// ---- global.c
void check_global_alignment(const void *p, uint32_t bytes, const char *instruction);

// ---- flag.c
enum { RELAXED = 0, ACQUIRE = 1, RELEASE = 2 };
struct flag_wait {
    const void *p;
    uint32_t value;
    bool equal; // else at least
};
// Checks and orders an atomic or a reduction that is about to happen.
void atomic_order(void *p, access_kind kind, uint32_t order, sync_scope scope);
// A weak store ends what was released there.
void flags_overwritten(const void *p, uint32_t bytes);

#endif
