// wgmma: issue, ordering, and what a thread sees of it. The arithmetic and the layouts are in
// wgmma_tile.c.
//
// The 128 threads of a warpgroup issue the same operation, each in its own time; the first one
// decides its operands and the others must agree. The first operation on an accumulator moves it
// out of the registers into a staging matrix and leaves a poison behind; the thread's wait brings
// it back. Whoever uses or changes the registers between sees the poison, or is seen: the poison is
// a signalling NaN, which no arithmetic leaves as it is. A fragments are copied and compared at the
// wait.
#include "count.h"
#include "wgmma_tile.h"
#include <stdlib.h>

enum {
    GROUP_THREADS = 128,
    MAX_OPERATIONS = 128, // in flight
    MAX_STAGES = 8,       // accumulators in flight
    MAX_GROUPS = 64,
    POISON = 0x7fadbeef
};

struct operation {
    struct wgmma_operands operands;
    uint32_t epoch;
    uint32_t issued;  // threads
    uint32_t retired; // threads
    int stage;
    uint32_t a[GROUP_THREADS][4];
    const uint32_t *a_registers[GROUP_THREADS];
};

struct stage {
    int n;
    uint32_t holders;                // threads whose accumulator is here
    float *registers[GROUP_THREADS]; // and where it came from
    float d[64][256];
};

struct warpgroup {
    struct operation
        operations[MAX_OPERATIONS]; // a ring; positions count from the start of the kernel
    struct stage stages[MAX_STAGES];
    uint32_t head; // the next position to be issued by anybody
    uint32_t executed;
    uint32_t group_end[MAX_GROUPS]; // a ring
    uint32_t groups;
    // How far the threads had come when they issued the group: its completion tells that all of
    // them had.
    struct meeting meetings[WGMMA_MEETINGS];
    uint32_t meeting_group[WGMMA_MEETINGS]; // plus 1
};

struct warpgroup *warpgroups_create(void)
{
    return calloc(machine.warpgroups, sizeof(struct warpgroup));
}

void warpgroups_reset(struct cta *cta)
{
    for (uint32_t i = 0; i < machine.warpgroups; i++) {
        struct warpgroup *group = &cta->warpgroups[i];
        group->head = group->executed = group->groups = 0;
        memset(group->meetings, 0, sizeof group->meetings);
        memset(group->meeting_group, 0, sizeof group->meeting_group);
        for (uint32_t s = 0; s < MAX_STAGES; s++) {
            group->stages[s].holders = 0;
            memset(group->stages[s].registers, 0, sizeof group->stages[s].registers);
        }
    }
}

static struct warpgroup *own_group(void)
{
    struct fiber *fiber = current_fiber();
    if (machine.launch.arch >= 100) {
        emu_fail(EMU_FAULT, "wgmma: the launch is for sm_%u, and only sm_90 has it",
                 machine.launch.arch);
    }
    if (fiber->thread / GROUP_THREADS * GROUP_THREADS + GROUP_THREADS > machine.launch.threads) {
        emu_fail(EMU_FAULT,
                 "wgmma needs a whole warpgroup: four warps, the first a multiple of four");
    }
    return &fiber->cta->warpgroups[fiber->thread / GROUP_THREADS];
}

void wgmma_fence(void)
{
    own_group();
    current_fiber()->wgmma.fenced = true;
}

// ---- issue

static struct operation *claim(struct warpgroup *group, const struct wgmma_operands *operands)
{
    struct fiber *fiber = current_fiber();
    uint32_t position = fiber->wgmma.issued++;
    struct operation *operation = &group->operations[position % MAX_OPERATIONS];
    if (position == group->head) {
        if (position >= MAX_OPERATIONS && operation->retired != GROUP_THREADS) {
            emu_fail(EMU_FAULT, "more than %d wgmmas in flight: the emulator keeps no more",
                     MAX_OPERATIONS);
        }
        group->head++;
        memset(operation, 0, offsetof(struct operation, a));
        operation->operands = *operands;
        operation->epoch = group->head;
        operation->stage = -1;
    } else if (!wgmma_operands_equal(&operation->operands, operands)) {
        emu_fail(EMU_FAULT, "wgmma: shape, descriptors or flags differ within the warpgroup");
    }
    return operation;
}

static int find_stage(struct warpgroup *group, uint32_t t, const float *d)
{
    for (int s = 0; s < MAX_STAGES; s++) {
        if (group->stages[s].registers[t] == d) {
            return s;
        }
    }
    for (int s = 0; s < MAX_STAGES; s++) {
        if (group->stages[s].holders == 0) {
            return s;
        }
    }
    emu_fail(EMU_FAULT,
             "more than %d accumulators in flight in a warpgroup: the emulator keeps no more",
             MAX_STAGES);
    return 0;
}

static void take_accumulator(struct stage *stage, uint32_t t, float *d, int n)
{
    if (stage->registers[t] == d) {
        if (stage->n != n) {
            emu_fail(EMU_FAULT, "wgmma with n %d on an accumulator that is in flight with n %d", n,
                     stage->n);
        }
        return;
    }
    if (stage->registers[t] || (stage->holders && stage->n != n)) {
        emu_fail(EMU_FAULT, "wgmma: another accumulator than in the other threads of the "
                            "warpgroup, or not all of them have "
                            "waited for the wgmmas before");
    }
    stage->n = n;
    stage->holders++;
    stage->registers[t] = d;
    const uint32_t poison = POISON;
    for (int i = 0; i < n / 2; i++) {
        stage->d[wgmma_d_row(t, (uint32_t)i)][wgmma_d_column(t, (uint32_t)i)] = d[i];
        memcpy(&d[i], &poison, sizeof poison);
    }
}

static void execute(struct cta *cta, struct warpgroup *group, uint32_t until)
{
    while (group->executed != until) {
        struct operation *operation = &group->operations[group->executed++ % MAX_OPERATIONS];
        wgmma_multiply(cta, &operation->operands, (const uint32_t(*)[4])operation->a,
                       group->stages[operation->stage].d);
        machine.result->wgmmas++;
    }
}

static void tell_issue(struct warpgroup *group)
{
    if (!checking()) {
        return;
    }
    struct fiber *fiber = current_fiber();
    uint32_t slot = fiber->wgmma.groups % WGMMA_MEETINGS;
    struct meeting *meeting = &group->meetings[slot];
    if (group->meeting_group[slot] != fiber->wgmma.groups + 1) {
        group->meeting_group[slot] = fiber->wgmma.groups + 1;
        clock_meeting_create(fiber->cta->cluster, meeting);
        memset(meeting->arriving.reached, 0, machine.clock_length * sizeof(uint32_t));
    }
    clock_release_reached(fiber->cta->cluster, meeting);
}

static void learn_issue(struct warpgroup *group, uint32_t index)
{
    struct meeting *meeting = &group->meetings[index % WGMMA_MEETINGS];
    if (group->meeting_group[index % WGMMA_MEETINGS] == index + 1) {
        clock_complete(meeting);
        clock_acquire_reached(meeting);
    }
}

// Each thread its share of 2 * 64 * n * k; what is read from shared memory (k is 32 bytes), once.
static void count_issue(const struct wgmma_operands *operands, uint32_t t)
{
    uint32_t n = (uint32_t)operands->n;
    bool bits_8 = operand_bytes(operands->type_b) == 1;
    uint32_t bytes = 32 * (n + (operands->a_in_registers ? 0 : 64));
    count_mma(n * (bits_8 ? 32 : 16), bits_8, t == 0 ? bytes : 0);
}

void wgmma_issue(float *d, const uint32_t *a, const struct wgmma_operands *operands)
{
    struct fiber *fiber = current_fiber();
    struct warpgroup *group = own_group();
    uint32_t t = fiber->thread % GROUP_THREADS;
    wgmma_check_operands(operands);
    if (!fiber->wgmma.fenced) {
        emu_fail(EMU_FAULT, "wgmma without a wgmma_fence since the last wgmma_commit_group");
    }
    struct operation *operation = claim(group, operands);
    operation->a_registers[t] = a;
    if (a) {
        memcpy(operation->a[t], a, sizeof operation->a[t]);
    }
    if (operation->stage < 0) {
        operation->stage = find_stage(group, t, d);
    }
    take_accumulator(&group->stages[operation->stage], t, d, operands->n);
    if (fiber->lane == LANES - 1) {
        wgmma_check_reads(fiber->cta, operands, fiber->warp % 4,
                          agent_wgmma(fiber->cta, fiber->thread / GROUP_THREADS), operation->epoch);
    }
    count_issue(operands, t);
    tell_issue(group);
    if (++operation->issued == GROUP_THREADS) {
        machine.progress = true;
        if (machine.launch.async == EMU_EARLY) {
            execute(fiber->cta, group, fiber->wgmma.issued);
        }
    }
}

void wgmma_commit_group(void)
{
    struct fiber *fiber = current_fiber();
    struct warpgroup *group = own_group();
    uint32_t index = fiber->wgmma.groups++;
    if (index == group->groups) {
        group->group_end[group->groups++ % MAX_GROUPS] = fiber->wgmma.issued;
    } else if (group->groups - index >= MAX_GROUPS ||
               group->group_end[index % MAX_GROUPS] != fiber->wgmma.issued) {
        emu_fail(EMU_FAULT,
                 "wgmma_commit_group: the groups of this thread are not those of its warpgroup");
    }
    fiber->wgmma.fenced = false;
}

// At random times, in order.
void wgmma_fire(struct cta *cta)
{
    for (uint32_t i = 0; i < machine.warpgroups; i++) {
        struct warpgroup *group = &cta->warpgroups[i];
        while (group->executed != group->head && wgmma_ready(group, group->executed + 1) &&
               random_next() % 4 == 0) {
            execute(cta, group, group->executed + 1);
        }
    }
}

// ---- waiting

bool wgmma_ready(const struct warpgroup *group, uint32_t until)
{
    return until == 0 || ((int32_t)(group->head - until) >= 0 &&
                          group->operations[(until - 1) % MAX_OPERATIONS].issued == GROUP_THREADS);
}

static bool is_in_flight(const struct warpgroup *group, uint32_t from, uint32_t to, int stage)
{
    for (uint32_t position = from; position != to; position++) {
        if (group->operations[position % MAX_OPERATIONS].stage == stage) {
            return true;
        }
    }
    return false;
}

static void return_accumulator(struct stage *stage, uint32_t t)
{
    float *d = stage->registers[t];
    bool touched = false;
    for (int i = 0; i < stage->n / 2; i++) {
        uint32_t bits;
        memcpy(&bits, &d[i], sizeof bits);
        touched |= bits != POISON;
        d[i] = stage->d[wgmma_d_row(t, (uint32_t)i)][wgmma_d_column(t, (uint32_t)i)];
    }
    stage->registers[t] = NULL;
    stage->holders--;
    if (touched) {
        emu_fail(EMU_RACE, "wgmma accumulator registers were changed while the wgmma was in "
                           "flight; a wgmma_wait_group "
                           "before is missing");
    }
}

static void retire(struct warpgroup *group, uint32_t until)
{
    struct fiber *fiber = current_fiber();
    uint32_t t = fiber->thread % GROUP_THREADS;
    while (fiber->wgmma.retired != until) {
        struct operation *operation = &group->operations[fiber->wgmma.retired++ % MAX_OPERATIONS];
        const uint32_t *a = operation->a_registers[t];
        if (a && memcmp(a, operation->a[t], sizeof operation->a[t]) != 0) {
            emu_fail(EMU_RACE, "wgmma A registers were changed while the wgmma was in flight; a "
                               "wgmma_wait_group before is "
                               "missing");
        }
        clock_know(agent_wgmma(fiber->cta, fiber->thread / GROUP_THREADS), operation->epoch);
        operation->retired++;
    }
    for (int s = 0; s < MAX_STAGES; s++) {
        if (group->stages[s].registers[t] && !is_in_flight(group, until, fiber->wgmma.issued, s)) {
            return_accumulator(&group->stages[s], t);
        }
    }
}

void wgmma_wait_group(uint32_t n)
{
    struct fiber *fiber = current_fiber();
    struct warpgroup *group = own_group();
    if (fiber->wgmma.groups <= n) {
        return;
    }
    uint32_t until = group->group_end[(fiber->wgmma.groups - n - 1) % MAX_GROUPS];
    if ((int32_t)(until - fiber->wgmma.retired) <= 0) {
        return;
    }
    if (!wgmma_ready(group, until)) {
        fiber_block(WAIT_WGMMA, group, until);
    }
    if ((int32_t)(until - group->executed) > 0) {
        execute(fiber->cta, group, until);
    }
    learn_issue(group, fiber->wgmma.groups - n - 1);
    retire(group, until);
}

void wgmma_thread_end(void)
{
    const struct fiber *fiber = current_fiber();
    if (fiber->wgmma.retired != fiber->wgmma.issued) {
        emu_fail(EMU_FAULT, "the thread ended with %u wgmmas that it never waited for",
                 fiber->wgmma.issued - fiber->wgmma.retired);
    }
}
