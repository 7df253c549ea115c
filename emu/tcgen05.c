// tcgen05.mma, cp, shift and commit: who issued what, when it happens, what its completion tells.
//
// Each thread that issues such operations has a queue; they run in the order of their issue. Late:
// when a commit behind them is due; early: at issue; at random: each round of the scheduler runs
// some. A commit is due when all operations before it have run; it then arrives on its mbarriers,
// with all that its thread knew when it issued the commit, and the operations complete and fenced.
#include "../src/device/ptx/tcgen05.h"
#include "count.h"
#include "tcgen05_mma.h"
#include <stdlib.h>

enum { MAX_OPERATIONS = 256, RUN_CHANCE = 4, COMMIT_CHANCE = 8 };

struct commit {
    uint32_t operations; // of the thread up to here
    uint32_t barriers;
    struct mbarrier *barrier[MAX_CLUSTER];
    struct clocks known;
};

struct mma_thread {
    uint32_t thread_plus_1; // 0: the slot is free
    uint32_t issued;
    uint32_t executed;
    uint32_t commits_issued;
    uint32_t commits_done;
    uint32_t committed;                              // operations before the last commit
    struct mma_operation operations[MAX_OPERATIONS]; // a ring
    struct commit commits[MAX_COMMITS];              // a ring
};

struct mma_thread *mma_threads_create(void)
{
    return calloc(MAX_MMA_THREADS, sizeof(struct mma_thread));
}

void mma_threads_destroy(struct mma_thread *threads)
{
    free(threads);
}

void mma_threads_reset(struct mma_thread *threads)
{
    for (uint32_t i = 0; i < MAX_MMA_THREADS; i++) {
        threads[i].thread_plus_1 = 0;
        threads[i].issued = threads[i].executed = 0;
        threads[i].commits_issued = threads[i].commits_done = threads[i].committed = 0;
        for (uint32_t c = 0; c < MAX_COMMITS; c++) {
            threads[i].commits[c].known.before = NULL;
        }
    }
}

uint32_t tcgen05_thread(const struct cta *cta, uint32_t slot)
{
    return cta->tmem->mma_threads[slot].thread_plus_1 - 1;
}

static struct mma_thread *own_thread(struct tmem *tmem)
{
    uint32_t thread = current_fiber()->thread;
    for (uint32_t i = 0; i < MAX_MMA_THREADS; i++) {
        struct mma_thread *mma = &tmem->mma_threads[i];
        if (mma->thread_plus_1 == 0 || mma->thread_plus_1 == thread + 1) {
            mma->thread_plus_1 = thread + 1;
            return mma;
        }
    }
    emu_fail(EMU_FAULT,
             "more than %d threads of a CTA issue tcgen05.mma, cp or commit: the emulator keeps no "
             "more",
             MAX_MMA_THREADS);
    return NULL;
}

// PTX ISA, "Implicitly Pipelined tcgen05 Instructions": mma after mma of the same accumulator and
// shape, mma after cp and shift, shift after mma, cp.4x256b after shift. Forgotten operations are
// long complete.
bool mma_in_order(const struct cta *cta, uint32_t slot, uint32_t earlier, uint32_t later)
{
    const struct mma_thread *thread = &cta->tmem->mma_threads[slot];
    if (later - earlier >= MAX_OPERATIONS) {
        return true;
    }
    const struct mma_operation *old = &thread->operations[(earlier - 1) % MAX_OPERATIONS];
    const struct mma_operation *new = &thread->operations[(later - 1) % MAX_OPERATIONS];
    if (new->kind == MMA_CP) {
        return old->kind == MMA_SHIFT && new->shape == CP_4X256B;
    }
    if (new->kind == MMA_SHIFT) {
        return mma_multiplies(old->kind);
    }
    return !mma_multiplies(old->kind) ||
           (old->kind == new->kind && old->d == new->d && old->idesc == new->idesc);
}

// ---- what happens later, to nobody's thread

static void run_until(struct mma_thread *thread, uint32_t until)
{
    for (; thread->executed < until; thread->executed++) {
        const struct mma_operation *operation =
            &thread->operations[thread->executed % MAX_OPERATIONS];
        if (mma_multiplies(operation->kind)) {
            mma_run(operation);
            machine.result->mmas++;
        } else {
            move_run(operation);
        }
    }
}

static void finish_commit(struct cluster *cluster, struct mma_thread *thread)
{
    struct commit *commit = &thread->commits[thread->commits_done++ % MAX_COMMITS];
    run_until(thread, commit->operations);
    for (uint32_t i = 0; i < commit->barriers; i++) {
        mbarrier_arrive_async(cluster, commit->barrier[i], &commit->known, "tcgen05.commit");
    }
    machine.progress = true;
}

static void fire_at_random(struct cluster *cluster, struct mma_thread *thread)
{
    while (thread->executed < thread->issued && random_next() % RUN_CHANCE == 0) {
        run_until(thread, thread->executed + 1);
    }
    while (thread->commits_done < thread->commits_issued && random_next() % COMMIT_CHANCE == 0) {
        finish_commit(cluster, thread);
    }
}

bool tcgen05_fire(struct cluster *cluster, bool one)
{
    for (uint32_t i = 0; i < machine.cluster_size * MAX_MMA_THREADS; i++) {
        struct tmem *tmem = cluster->ctas[i / MAX_MMA_THREADS].tmem;
        struct mma_thread *thread = tmem ? &tmem->mma_threads[i % MAX_MMA_THREADS] : NULL;
        if (thread && !one) {
            fire_at_random(cluster, thread);
        } else if (thread && thread->commits_done < thread->commits_issued) {
            finish_commit(cluster, thread);
            return true;
        }
    }
    return false;
}

// ---- issue

// k is 32 bytes. A pair does the work of two multiprocessors; both count here.
static void count_operation(const struct mma_operation *operation)
{
    if (mma_multiplies(operation->kind)) {
        struct mma_shape s = mma_shape_of(operation);
        uint32_t k = 32 / operand_bytes(s.type_b);
        count_mma(2 * s.m * s.n * k, operand_bytes(s.type_b) == 1,
                  32 * (s.n + (operation->a_in_tensor ? 0 : s.m)));
    }
}

// The operation adds to the same accumulator as the one before, with no commit between. Then nobody
// can have touched that since without having been reported, and whoever waits for one waits for
// both: its words may keep the epoch of the first.
static bool continues_sum(const struct mma_thread *thread, const struct mma_operation *operation)
{
    if (thread->issued == thread->committed || !mma_multiplies(operation->kind)) {
        return false;
    }
    const struct mma_operation *last = &thread->operations[(thread->issued - 1) % MAX_OPERATIONS];
    return last->kind == operation->kind && last->d == operation->d &&
           last->idesc == operation->idesc;
}

static void issue(const char *instruction, struct mma_operation operation)
{
    struct cta *cta = current_cta();
    struct tmem *tmem = tmem_begin(instruction, operation.group);
    if (operation.group == 2 && cta->rank % 2) {
        emu_fail(EMU_FAULT,
                 "%s with cta_group::2 in CTA rank %u: the CTA of even rank issues for the pair",
                 instruction, cta->rank);
    }
    if (operation.group == 2 && tmem_peer(cta)->finished) {
        emu_fail(EMU_FAULT, "%s with cta_group::2, but threads of the peer CTA have exited",
                 instruction);
    }
    operation.cta = cta;
    bool multiplies = mma_multiplies(operation.kind);
    (multiplies ? mma_check : move_check)(&operation);
    struct mma_thread *thread = own_thread(tmem);
    if (thread->issued - thread->executed == MAX_OPERATIONS) {
        emu_fail(EMU_FAULT, "more than %d tcgen05 operations in flight: the emulator keeps no more",
                 MAX_OPERATIONS);
    }
    bool continues = continues_sum(thread, &operation);
    thread->operations[thread->issued++ % MAX_OPERATIONS] = operation;
    count_operation(&operation);
    uint32_t slot = (uint32_t)(thread - tmem->mma_threads);
    if (multiplies) {
        mma_check_accesses(&operation, slot, thread->issued, continues);
    } else {
        move_check_accesses(&operation, slot, thread->issued);
    }
    machine.progress = true;
    if (machine.launch.async == EMU_EARLY) {
        run_until(thread, thread->issued);
    }
}

static void set_known(struct commit *commit, const struct cta *cta, uint32_t slot, uint32_t epoch)
{
    const struct fiber *fiber = current_fiber();
    if (!commit->known.before) {
        clocks_allocate(cta->cluster, &commit->known);
    }
    uint32_t agent = agent_mma(cta, slot);
    clock_snapshot(&commit->known);
    clock_join_tensor(commit->known.tensor_fenced, fiber->tensor_ordered);
    commit->known.before[agent] = epoch;
    commit->known.tensor_done[tensor_agent_mma(cta, slot)] = epoch;
    commit->known.tensor_fenced[tensor_agent_mma(cta, slot)] = epoch;
    clock_tick();
}

static void commit_to(uint32_t bar, uint32_t cta_mask, uint32_t group)
{
    struct cta *cta = current_cta();
    struct tmem *tmem = tmem_begin("tcgen05.commit", group);
    struct mma_thread *thread = own_thread(tmem);
    if (thread->commits_issued - thread->commits_done == MAX_COMMITS) {
        emu_fail(EMU_FAULT, "more than %d tcgen05.commits in flight: the emulator keeps no more",
                 MAX_COMMITS);
    }
    if (cta_mask == 0 || cta_mask >> machine.cluster_size) {
        emu_fail(EMU_FAULT, "tcgen05.commit to CTAs 0x%x: the cluster has %u", cta_mask,
                 machine.cluster_size);
    }
    struct commit *commit = &thread->commits[thread->commits_issued % MAX_COMMITS];
    commit->operations = thread->issued;
    commit->barriers = 0;
    for (uint32_t r = 0; r < machine.cluster_size; r++) {
        if (cta_mask >> r & 1) {
            uint32_t addr = (bar & SMEM_OFFSET_MASK) | r << SMEM_RANK_SHIFT;
            commit->barrier[commit->barriers++] = mbarrier_find(addr, "tcgen05.commit", false);
        }
    }
    if (checking()) {
        set_known(commit, cta, (uint32_t)(thread - tmem->mma_threads), thread->issued);
    }
    thread->commits_issued++;
    thread->committed = thread->issued;
    if (machine.launch.async == EMU_EARLY) {
        finish_commit(cta->cluster, thread);
    }
}

static void commit_one(uint32_t bar, uint32_t group)
{
    commit_to(bar, 1u << cta_of_address(bar, "tcgen05.commit")->rank, group);
}

void tcgen05_commit(uint32_t bar)
{
    commit_one(bar, 1);
}

void tcgen05_commit_multicast(uint32_t bar, uint32_t cta_mask)
{
    commit_to(bar, cta_mask, 1);
}

void tcgen05_commit_pair(uint32_t bar)
{
    commit_one(bar, 2);
}

void tcgen05_commit_pair_multicast(uint32_t bar, uint32_t cta_mask)
{
    commit_to(bar, cta_mask, 2);
}

// ---- the instructions

static void mma_ss(mma_kind kind, uint32_t group, uint32_t d, uint64_t desc_a, uint64_t desc_b,
                   uint32_t idesc, uint32_t accumulate)
{
    issue("tcgen05.mma", (struct mma_operation){.kind = kind,
                                                .group = group,
                                                .d = d,
                                                .desc_a = desc_a,
                                                .desc_b = desc_b,
                                                .idesc = idesc,
                                                .accumulate = accumulate != 0});
}

static void mma_ts(mma_kind kind, uint32_t group, uint32_t d, uint32_t a, uint64_t desc_b,
                   uint32_t idesc, uint32_t accumulate)
{
    issue("tcgen05.mma", (struct mma_operation){.kind = kind,
                                                .group = group,
                                                .d = d,
                                                .a_in_tensor = true,
                                                .a = a,
                                                .desc_b = desc_b,
                                                .idesc = idesc,
                                                .accumulate = accumulate != 0});
}

void tcgen05_mma_f16_ss(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                        uint32_t accumulate)
{
    mma_ss(MMA_F16, 1, d, desc_a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f16_ts(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                        uint32_t accumulate)
{
    mma_ts(MMA_F16, 1, d, a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f16_ss_pair(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                             uint32_t accumulate)
{
    mma_ss(MMA_F16, 2, d, desc_a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f16_ts_pair(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                             uint32_t accumulate)
{
    mma_ts(MMA_F16, 2, d, a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f8f6f4_ss(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                           uint32_t accumulate)
{
    mma_ss(MMA_F8F6F4, 1, d, desc_a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f8f6f4_ts(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                           uint32_t accumulate)
{
    mma_ts(MMA_F8F6F4, 1, d, a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f8f6f4_ss_pair(uint32_t d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                                uint32_t accumulate)
{
    mma_ss(MMA_F8F6F4, 2, d, desc_a, desc_b, idesc, accumulate);
}

void tcgen05_mma_f8f6f4_ts_pair(uint32_t d, uint32_t a, uint64_t desc_b, uint32_t idesc,
                                uint32_t accumulate)
{
    mma_ts(MMA_F8F6F4, 2, d, a, desc_b, idesc, accumulate);
}

static void copy(cp_shape shape, uint32_t group, uint32_t addr, uint64_t desc)
{
    issue("tcgen05.cp",
          (struct mma_operation){
              .kind = MMA_CP, .group = group, .d = addr, .desc_a = desc, .shape = shape});
}

void tcgen05_cp_128x256b(uint32_t addr, uint64_t desc)
{
    copy(CP_128X256B, 1, addr, desc);
}

void tcgen05_cp_128x256b_pair(uint32_t addr, uint64_t desc)
{
    copy(CP_128X256B, 2, addr, desc);
}

void tcgen05_cp_4x256b(uint32_t addr, uint64_t desc)
{
    copy(CP_4X256B, 1, addr, desc);
}

void tcgen05_cp_4x256b_pair(uint32_t addr, uint64_t desc)
{
    copy(CP_4X256B, 2, addr, desc);
}

void tcgen05_cp_128x128b(uint32_t addr, uint64_t desc)
{
    copy(CP_128X128B, 1, addr, desc);
}

void tcgen05_cp_128x128b_pair(uint32_t addr, uint64_t desc)
{
    copy(CP_128X128B, 2, addr, desc);
}

void tcgen05_cp_64x128b_02_13(uint32_t addr, uint64_t desc)
{
    copy(CP_64X128B_02_13, 1, addr, desc);
}

void tcgen05_cp_64x128b_02_13_pair(uint32_t addr, uint64_t desc)
{
    copy(CP_64X128B_02_13, 2, addr, desc);
}

void tcgen05_cp_64x128b_01_23(uint32_t addr, uint64_t desc)
{
    copy(CP_64X128B_01_23, 1, addr, desc);
}

void tcgen05_cp_64x128b_01_23_pair(uint32_t addr, uint64_t desc)
{
    copy(CP_64X128B_01_23, 2, addr, desc);
}

void tcgen05_cp_32x128b(uint32_t addr, uint64_t desc)
{
    copy(CP_32X128B, 1, addr, desc);
}

void tcgen05_cp_32x128b_pair(uint32_t addr, uint64_t desc)
{
    copy(CP_32X128B, 2, addr, desc);
}

static void shift(uint32_t group, uint32_t addr)
{
    issue("tcgen05.shift", (struct mma_operation){.kind = MMA_SHIFT, .group = group, .d = addr});
}

void tcgen05_shift_down(uint32_t addr)
{
    shift(1, addr);
}

void tcgen05_shift_down_pair(uint32_t addr)
{
    shift(2, addr);
}
