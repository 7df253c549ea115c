// The emulator's state: fibers, CTAs, clusters, the machine; and what its files offer each other.
//
//   run_grid.c   a launch: limits, memory, which cluster runs where
//   grid.c       one grid, or two that overlap
//   scheduler.c  which fiber runs next, when asynchronous operations happen, deadlock
//   fiber.c      stacks and the switch between them
//   report.c     error texts
//   agent.c      numbers for whoever accesses memory
//   clock.c      vector clocks: what happened before what
//   shadow.c     who touched which byte of shared memory
//   knowledge.c  what threads know of other clusters
//   global_shadow.c  who touched which byte of global memory
//   transfer.c   asynchronous copies in flight
//   count.c      instructions and bank conflicts, for the report
//   numeric.c    16- and 8-bit floats
//
// The instructions: mbarrier.c, barrier.c, cluster.c, warp.c, matrix.c, mma_sync.c, cp_async.c,
// tma.c, bulk.c, global.c, flag.c, wgmma.c (order) and wgmma_tile.c (layouts and arithmetic).
// Blackwell's: tmem.c (tensor memory), tmem_shadow.c (who touched it), tmem_access.c (ld, st,
// fences), tcgen05.c (mma, cp, shift, commit: order), tcgen05_mma.c, tcgen05_move.c (layouts and
// arithmetic).
#ifndef EMU_STATE_H
#define EMU_STATE_H

#include "emu.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    LANES = 32,
    MAX_THREADS = 1024,
    MAX_WARPS = MAX_THREADS / LANES,
    MAX_CLUSTER = 16,
    MAX_RESIDENT = 16,
    MAX_MMA_THREADS = 4, // threads of a CTA that issue tcgen05.mma and its like
    MAX_COMMITS = 32,    // tcgen05.commits of a thread in flight
    NAMED_BARRIERS = 16,
    SMEM_BASE = 1024,     // not 0, so that a forgotten base is out of bounds
    SMEM_MAX = 232448,    // 227 KiB, the most a CTA of sm_90 and sm_100 can ask for
    SMEM_RANK_SHIFT = 24, // the CTA's rank in a shared::cluster address
    SMEM_OFFSET_MASK = (1 << SMEM_RANK_SHIFT) - 1,
    WGMMA_MEETINGS = 8, // groups of a warpgroup whose issue is remembered
    CHUNK_BYTES = 16,   // a cell of the shadow memory
    MAX_SITE_DEPTH = 8,
    REGISTERS = 65536 // of an SM
};

// What an access is, for messages.
typedef enum access_kind {
    ACCESS_LD,
    ACCESS_ST,
    ACCESS_ATOM,
    ACCESS_LDMATRIX,
    ACCESS_STMATRIX,
    ACCESS_TMA_LOAD,
    ACCESS_TMA_STORE,
    ACCESS_BULK_LOAD,
    ACCESS_BULK_STORE,
    ACCESS_BULK_COPY,
    ACCESS_CP_ASYNC,
    ACCESS_TMA_REDUCE,
    ACCESS_BULK_REDUCE,
    ACCESS_LD_GLOBAL,
    ACCESS_ST_GLOBAL,
    ACCESS_ATOM_GLOBAL,
    ACCESS_RED_GLOBAL,
    ACCESS_WGMMA_A,
    ACCESS_WGMMA_B,
    ACCESS_TENSOR_ALLOC,
    ACCESS_TENSOR_LD,
    ACCESS_TENSOR_ST,
    ACCESS_TENSOR_MMA_A,
    ACCESS_TENSOR_MMA_B,
    ACCESS_TENSOR_MMA_D,
    ACCESS_TENSOR_CP,
    ACCESS_TENSOR_SHIFT
} access_kind;

// Three vector clocks, indexed by agent: what happened before; the part of it that is fenced
// towards the async proxy; and how far others are known to have come, which collective instructions
// tell too although they order no memory. An agent is whatever accesses shared memory on its own: a
// thread, the bulk stores of a thread, the wgmmas of a warpgroup, the loads that signal one
// mbarrier, the tcgen05 operations of a thread. Clocks belong to a cluster.
//
// Tensor memory has agents of its own (tmem.h), and two clocks: which of their operations are known
// to be complete, and the part of it that is fenced (tcgen05.fence::before_thread_sync, commit).
struct clocks {
    uint32_t *before;
    uint32_t *fenced;
    uint32_t *reached;
    uint32_t *tensor_done;
    uint32_t *tensor_fenced;
    const struct knowledge *foreign; // of other clusters (knowledge.c)
    bool heard;                      // others than the lanes of its warp, since the warp last met
};

// A place where threads meet: what the arrivals released, and the copy of it that the waiters
// acquire, taken when the last one arrived so that a thread that runs ahead leaks nothing into it.
struct meeting {
    struct clocks arriving;
    struct clocks complete;
};

struct mbarrier {
    uint32_t addr;  // with the CTA's rank
    uint32_t agent; // of its loads; 0 before the first
    uint32_t count;
    uint32_t pending;
    uint32_t phase;
    int32_t tx_bytes;
    uint32_t transfers;         // started on it so far: the epoch of its agent
    uint32_t load_phase_plus_1; // of the last load started
    uint32_t waited_phases;     // how many phases somebody has seen the end of
    bool fenced;                // its init, towards the async proxy and the cluster
    uint32_t init_agent;
    uint32_t init_epoch;
    struct meeting meeting;
    // Which phase (plus 1) each thread of the CTA last waited for, and when.
    struct {
        uint32_t phase_plus_1;
        uint32_t epoch;
    } seen[MAX_THREADS];
};

struct named_barrier {
    uint32_t expected;
    uint32_t arrived;
    uint32_t generation;
    struct meeting meeting;
};

// Where the lanes of a warp meet for a collective instruction.
struct rendezvous {
    uint32_t arrived; // lanes
    uint32_t generation;
    const char *instruction;
    uint64_t operand;
    uint64_t slots[2][LANES]; // a value of each lane, by generation
    bool heard[2];            // a lane had heard from outside, by generation
    struct meeting meeting;
};

typedef enum wait_kind {
    RUNNABLE,
    YIELDED, // polls something; may always go on, but is no progress
    WAIT_MBARRIER,
    WAIT_NAMED_BARRIER,
    WAIT_WARP,
    WAIT_CLUSTER,
    WAIT_REGISTERS,
    WAIT_FLAG,
    WAIT_GRID,
    WAIT_WGMMA,
    WAIT_TENSOR_ALLOC,
    WAIT_TENSOR_DEALLOC,
    FINISHED
} wait_kind;

struct fiber {
    void *stack_pointer;
    void *stack;
    void *sanitizer_stack;
    struct cta *cta;
    const char *role;
    uint32_t role_index; // in the report
    struct site {
        const char *file;
        int line;
    } sites[MAX_SITE_DEPTH]; // of the instruction, and of those whose operands it computes
    uint32_t site_depth;     // 0: not known
    uint32_t thread;
    uint32_t lane;
    uint32_t warp;
    uint32_t agent;
    wait_kind wait;
    void *wait_object;
    uint32_t wait_value;
    struct clocks clocks;
    struct {
        uint32_t issued; // wgmmas, and how many of them this thread has waited for
        uint32_t retired;
        uint32_t groups;
        bool fenced;
    } wgmma;
    struct {
        uint32_t agent;       // reads shared memory; 0 before the first store
        uint32_t write_agent; // writes global memory
        uint32_t written;     // groups whose writes were waited for
        uint32_t epoch;
        uint32_t open; // stores not in a group yet
        uint32_t committed;
        uint32_t complete;
        uint32_t group_epoch[64]; // a ring
    } bulk;
    uint32_t *tensor_ordered; // a clock: what of tensor memory comes before this thread's accesses
    struct {
        uint32_t agent; // 0 before the first cp.async
        uint32_t epoch;
        uint32_t committed; // groups
        uint32_t complete;
        uint32_t waited;          // the last copy that somebody waits for
        uint32_t group_epoch[64]; // a ring
    } copies;
    struct {
        const struct seen_flag *seen;      // by relaxed loads
        const struct knowledge *fenced[4]; // what it knew at its last fence of each scope
    } flags;
    bool cluster_arrived;
    uint32_t cluster_generation;
};

struct cta {
    struct cluster *cluster;
    uint32_t rank;
    uint32_t block[3];
    uint8_t *smem; // from address 0; the first SMEM_BASE bytes stay unused
    struct shadow *shadow;
    struct mbarrier **mbarriers;
    uint32_t mbarrier_count;
    uint32_t mbarrier_capacity;
    uint16_t *mbarrier_at; // by address / 8: index + 1
    struct cta_agents *agents;
    struct named_barrier named[NAMED_BARRIERS];
    struct rendezvous warps[MAX_WARPS];
    struct warpgroup *warpgroups;
    struct tmem *tmem; // from the first allocation on
    uint32_t warp_registers[MAX_WARPS];
    uint32_t register_pool;
    uint32_t finished;
    bool triggered; // the grid that depends on this one
};

struct cluster {
    bool active;
    struct grid *grid;
    uint32_t index;       // counted through all grids
    struct cta *ctas;     // machine.cluster_size
    struct fiber *fibers; // of all its CTAs
    uint32_t unfinished;
    struct transfer *transfers;
    uint32_t transfer_count;
    struct copy_queue *copies; // of each thread, from the first cp.async on
    struct {
        uint32_t arrived;
        uint32_t generation;
        struct meeting meeting;
    } barrier;
    struct clocks **clock_owners; // whose clocks lie in clock_memory, in order
    uint32_t *clock_memory;
    size_t clock_capacity; // clocks
    size_t clock_count;
    struct agent *agents; // those after the threads
    uint32_t agent_count;
    uint32_t agent_capacity;
    uint32_t *tensor_ordered; // of all its threads
};

// A launch, with its defaults filled in.
struct grid {
    struct emu_launch launch;
    uint32_t first_cluster;
    uint32_t cluster_count;
    uint32_t started; // clusters
    uint32_t finished;
    uint32_t triggered; // CTAs that let the next grid start
    uint32_t cta_group; // while another grid is selected
};

struct machine {
    struct grid grids[2];
    uint32_t grid_count;
    struct grid *grid;        // the one selected (grid.c)
    struct emu_launch launch; // its launch, and what follows from it
    struct emu_result *result;
    uint32_t cluster_size;
    uint32_t warps; // per CTA
    uint32_t warpgroups;
    uint32_t clock_length; // agents that a clock has room for, a multiple of 8
    uint32_t tensor_agents_per_cta;
    uint32_t tensor_length;   // of their parts for tensor memory; 0 where there is none
    uint32_t cta_group;       // of the kernel's tcgen05 instructions; 0 before the first
    struct cluster *clusters; // those that are resident, of all grids
    uint32_t resident;
    uint32_t cluster_count;  // of all grids
    struct counter *counter; // NULL: nothing is counted
    // Order in global memory.
    struct arena_block *arena;
    const struct knowledge *last_join[3];
    struct global_shadow *global_shadow;
    struct locations *locations;
    const struct fence ***fences; // of each cluster of the grid, of each thread
    struct fiber *current;
    void *main_stack_pointer;
    void *main_sanitizer_stack;
    uint32_t random;
    bool progress;
    bool failed;
};

extern struct machine machine;

static inline struct fiber *current_fiber(void)
{
    return machine.current;
}

// NULL: not known.
static inline const struct site *current_site(void)
{
    const struct fiber *fiber = machine.current;
    return fiber->site_depth ? &fiber->sites[(fiber->site_depth - 1) % MAX_SITE_DEPTH] : NULL;
}

// Back to the instruction, if any, whose operand this was.
static inline void leave_site(void)
{
    struct fiber *fiber = machine.current;
    fiber->site_depth -= fiber->site_depth > 0;
}

static inline struct cta *current_cta(void)
{
    return machine.current->cta;
}

// ---- report.c
// Records the first error and ends the launch: does not return when a fiber runs.
void emu_fail(emu_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *describe_agent(const struct cluster *cluster, uint32_t agent);
const char *describe_access(access_kind kind);
void report_deadlock(void);

// ---- fiber.c
bool fibers_create(struct cluster *cluster);
void fibers_destroy(struct cluster *cluster);
void fiber_prepare(struct fiber *fiber);
void fiber_run(struct fiber *fiber);
void fiber_leave(void); // back to the scheduler

// ---- scheduler.c
uint32_t random_next(void);
void run_clusters(void);
// Until the scheduler finds it ready again.
void fiber_block(wait_kind kind, void *object, uint32_t value);
void fiber_yield(void);

// ---- run_grid.c
bool next_cluster(struct cluster *cluster);   // starts its grid's next cluster there, if it may
void finish_cluster(struct cluster *cluster); // what must be true at the end

// ---- grid.c
void grid_select(struct grid *grid);
const struct grid *grid_of(uint32_t cluster);
// Which CTA of its grid has that rank in the cluster.
void cluster_blocks(uint32_t cluster, uint32_t rank, uint32_t block_out[3]);
bool grid_is_complete(const struct grid *grid);
bool grid_may_start(const struct grid *grid);
void grid_trigger(struct cta *cta);

// ---- agent.c
typedef enum agent_kind {
    AGENT_THREAD,
    AGENT_BULK,       // the bulk stores of a thread, reading shared memory
    AGENT_BULK_WRITE, // and writing global memory
    AGENT_COPIES,     // the cp.asyncs of a thread
    AGENT_WGMMA,      // of a warpgroup
    AGENT_MBARRIER,   // the loads that signal it
    AGENT_MMA         // the tcgen05 operations of a thread
} agent_kind;
struct agent {
    agent_kind kind;
    uint16_t rank;
    uint32_t index; // thread, warpgroup, address, slot
};
// Their numbers; 0 before the first use.
struct cta_agents {
    uint32_t wgmma[MAX_WARPS / 4];
    uint32_t mma[MAX_MMA_THREADS];
};
void agents_reset(struct cluster *cluster);
uint32_t agent_thread(const struct cta *cta, uint32_t thread);
uint32_t agent_bulk(const struct cta *cta, uint32_t thread);
uint32_t agent_bulk_write(const struct cta *cta, uint32_t thread);
uint32_t agent_copies(const struct cta *cta, uint32_t thread);
uint32_t agent_wgmma(const struct cta *cta, uint32_t warpgroup);
uint32_t agent_mbarrier(struct mbarrier *barrier);
uint32_t agent_mma(const struct cta *cta, uint32_t slot);
struct agent agent_describe(const struct cluster *cluster, uint32_t agent);

// ---- clock.c
static inline bool checking(void)
{
    return machine.launch.check != EMU_CHECK_NONE;
}
size_t clock_words(void); // of one set of clocks
void clocks_destroy(struct cluster *cluster);
void clocks_reset(struct cluster *cluster);
void clocks_hold(uint32_t agents); // makes every clock long enough
void clocks_allocate(struct cluster *cluster, struct clocks *clocks);
void clock_meeting_create(struct cluster *cluster, struct meeting *meeting);
void clock_release(struct cluster *cluster,
                   struct meeting *meeting); // the current thread's, and starts its next epoch
void clock_complete(struct meeting *meeting);
void clock_acquire(const struct meeting *meeting);
void clock_release_reached(struct cluster *cluster,
                           struct meeting *meeting); // only how far it has come
void clock_acquire_reached(const struct meeting *meeting);
// The same for the lanes of a warp, which meet again and again.
void clock_release_lane(struct cluster *cluster, struct rendezvous *r);
void clock_complete_lanes(struct rendezvous *r);
void clock_acquire_lanes(const struct rendezvous *r, uint32_t generation);
void clock_tick(void);
void clock_know(uint32_t agent,
                uint32_t epoch); // the current thread learns that the agent came so far
void clock_fence_async(void);
void clock_snapshot(struct clocks *copy); // of the current thread's
void clock_merge(struct clocks *to, const struct clocks *from);
void clock_join_tensor(uint32_t *to, const uint32_t *from);

// ---- shadow.c
struct access {
    access_kind kind;
    uint32_t agent;
    uint32_t epoch;
    bool async; // through the async proxy
};
struct shadow *shadow_create(void);
void shadow_destroy(struct shadow *shadow);
void shadow_reset(struct shadow *shadow);
void shadow_mark_mbarrier(struct cta *cta, uint32_t offset, bool marked);
void check_bounds(uint32_t addr, uint32_t bytes, access_kind kind);
// The current thread reads or writes, or starts an asynchronous operation that does: bounds, order,
// initialisation.
void check_read(struct cta *cta, uint32_t addr, uint32_t bytes, struct access access);
void check_write(struct cta *cta, uint32_t addr, uint32_t bytes, struct access access);
struct access thread_access(access_kind kind);

// ---- cluster.c
struct cta *cta_of_address(uint32_t addr, const char *instruction);

// ---- mbarrier.c
void mbarriers_destroy(struct cta *cta);
struct mbarrier *mbarrier_find(uint32_t addr, const char *instruction, bool async);
void mbarrier_complete_tx(struct cluster *cluster, struct mbarrier *barrier, uint32_t agent,
                          uint32_t epoch, uint32_t bytes);
// One arrival that releases `known`, by nobody's thread.
void mbarrier_arrive_async(struct cluster *cluster, struct mbarrier *barrier,
                           const struct clocks *known, const char *instruction);

// The arrival behind the cp.asyncs of a thread, up to that epoch.
void mbarrier_arrive_copies(struct cluster *cluster, struct mbarrier *barrier, uint32_t agent,
                            uint32_t epoch);

// ---- warp.c
// All lanes meet; gives each lane's value. `operand` must agree.
const uint64_t *warp_exchange(const char *instruction, uint64_t operand, uint64_t value);

// ---- transfer.c: asynchronous copies
typedef enum transfer_kind { TRANSFER_LOAD, TRANSFER_STORE, TRANSFER_REDUCE } transfer_kind;
struct global_access;
struct transfer {
    transfer_kind kind;
    struct cta *cta; // whose shared memory
    uint32_t smem_addr;
    struct mbarrier *barrier; // loads
    struct fiber *issuer;     // stores
    uint32_t agent;
    uint32_t epoch;
    uint32_t group; // stores
    uint32_t bytes;
    // a box, with a copy of the map, as the issuing thread and its parameters may be gone; else a
    // range
    bool is_box;
    tensor_map map;
    int32_t coordinates[5];
    uint8_t *global; // ranges: global memory, or the source's shared memory
    emu_element element;
};
void transfer_start(const struct transfer *transfer);
bool transfers_fire(struct cluster *cluster, bool one); // random ones, or the oldest load
void transfers_finish_stores(struct fiber *fiber, uint32_t groups);
void bulk_store_start(struct transfer *transfer);

// ---- cp_async.c
void copies_destroy(struct cluster *cluster);
void copies_reset(struct cluster *cluster);
bool copies_fire(struct cluster *cluster, bool one); // random ones, or those before an arrival
void copies_thread_end(void);

// ---- tma.c
void tma_move_box(const struct transfer *transfer);
// Of both memories: the part of the box that lies in the tensor.
void tma_check_global(const struct transfer *transfer, const struct global_access *access);
void tma_check_source(const struct transfer *transfer, struct access access);
uint32_t swizzle_address(uint32_t addr, emu_swizzle swizzle);

// ---- wgmma.c
struct warpgroup *warpgroups_create(void);
void warpgroups_reset(struct cta *cta);
bool wgmma_ready(const struct warpgroup *group, uint32_t until);
void wgmma_fire(struct cta *cta);
void wgmma_thread_end(void);

// ---- tmem.c, tmem_access.c
void tmem_destroy(struct tmem *tmem);
void tmem_reset(struct cta *cta);
bool tmem_alloc_granted(const struct cta *cta);
bool tmem_dealloc_met(const struct cta *peer, uint32_t count);
void tmem_end_checks(const struct cta *cta);
void tmem_thread_end(void);
int tmem_text_wait(char *text, size_t size, const struct fiber *fiber);

// ---- tcgen05.c
bool tcgen05_fire(struct cluster *cluster, bool one); // random ones, or the oldest commit
uint32_t tcgen05_thread(const struct cta *cta, uint32_t slot);

// ---- knowledge.c, global_shadow.c, flag.c (the rest of them is in global.h)
const struct knowledge *knowledge_join(const struct knowledge *a, const struct knowledge *b);
void arena_destroy(void);
bool global_shadow_create(void);
void global_shadow_destroy(void);
void locations_destroy(void);
struct flag_wait;
bool flag_is_there(const struct flag_wait *wait);
int flag_text_wait(char *text, size_t size, const struct flag_wait *wait);

// ---- global.c
void check_global(const void *p, uint64_t bytes, bool write, const char *instruction);
void global_reduce_add(uint8_t *global, const uint8_t *shared, uint32_t bytes, emu_element element);

// ---- numeric.c
uint16_t bf16_from_f32(float x);
uint16_t f16_from_f32(float x);
uint8_t e4m3_from_f32(float x);
uint8_t e5m2_from_f32(float x);
float f32_from_bf16(uint16_t x);
float f32_from_f16(uint16_t x);
float f32_from_e4m3(uint8_t x);
float f32_from_e5m2(uint8_t x);
float f32_from_e2m3(uint8_t x);
float f32_from_e3m2(uint8_t x);
float f32_from_e2m1(uint8_t x);
uint32_t element_bytes(emu_element element);

#endif
