// tcgen05.ld and tcgen05.st: which lane of the warp holds which word, when the data moves, and what
// orders it.
//
// A ld leaves a poison in its registers until the thread's wait brings the data: whoever uses or
// changes them before sees the poison, or is seen. The data is read late, at the wait, early, at
// the ld, or at either at random; a st writes its copy of the registers likewise.
#include "../src/device/ptx/tcgen05.h"
#include "tmem.h"

uint32_t tensor_registers(tensor_shape shape, uint32_t num)
{
    return shape == SHAPE_16X128B ? 2 * num : shape == SHAPE_16X256B ? 4 * num : num;
}

uint32_t tensor_lane(tensor_shape shape, uint32_t t, uint32_t i)
{
    switch (shape) {
    case SHAPE_32X32B: return t;
    case SHAPE_16X64B: return t / 4 + 8 * (t % 2);
    case SHAPE_16X128B: return t / 4 + 8 * (i % 2);
    case SHAPE_16X256B: return t / 4 + 8 * (i / 2 % 2);
    case SHAPE_16X32BX2: return t % 16;
    }
    return 0;
}

uint32_t tensor_column(const struct tensor_instruction *instruction, uint32_t t, uint32_t i)
{
    switch (instruction->shape) {
    case SHAPE_32X32B: return i;
    case SHAPE_16X64B: return t / 2 % 2 + 2 * i;
    case SHAPE_16X128B: return t % 4 + 4 * (i / 2);
    case SHAPE_16X256B: return i % 2 + 2 * (t % 4) + 8 * (i / 4);
    case SHAPE_16X32BX2: return i + (t < 16 ? 0 : instruction->offset);
    }
    return 0;
}

static uint32_t *word_at(const struct tensor_instruction *instruction, uint32_t t, uint32_t i)
{
    uint32_t lane = (instruction->addr >> 16) + tensor_lane(instruction->shape, t, i);
    uint32_t column = (instruction->addr & 0xffff) + tensor_column(instruction, t, i);
    return &current_cta()->tmem->words[lane][column];
}

// ---- issue

static void check_instruction(const char *name, const struct tensor_instruction *instruction)
{
    const struct fiber *fiber = current_fiber();
    uint32_t num = instruction->num;
    if (num == 0 || (num & (num - 1)) ||
        tensor_registers(instruction->shape, num) > TMEM_MAX_REGISTERS) {
        emu_fail(EMU_FAULT, "%s x%u: the shape has powers of two up to x%u", name, num,
                 TMEM_MAX_REGISTERS / tensor_registers(instruction->shape, 1));
    }
    uint32_t lane = instruction->addr >> 16;
    uint32_t first = fiber->warp % 4 * LANES;
    bool is_half = instruction->shape != SHAPE_32X32B;
    if (lane != first && !(is_half && lane == first + LANES / 2)) {
        emu_fail(EMU_FAULT,
                 "%s at lane %u: warp %u of the CTA may access lanes %u to %u, from lane %u%s on",
                 name, lane, fiber->warp, first, first + LANES - 1, first,
                 is_half ? " or the middle" : "");
    }
}

typedef void (*tensor_check)(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                             struct tensor_access access);

// The words of one lane, neighbouring ones together.
static void check_words(const struct tensor_instruction *instruction, tensor_check check,
                        struct tensor_access access)
{
    uint32_t t = current_fiber()->lane;
    uint32_t registers = tensor_registers(instruction->shape, instruction->num);
    uint32_t lane0 = instruction->addr >> 16;
    uint32_t column0 = instruction->addr & 0xffff;
    for (uint32_t i = 0; i < registers;) {
        uint32_t lane = tensor_lane(instruction->shape, t, i);
        uint32_t column = tensor_column(instruction, t, i);
        uint32_t count = 1;
        while (i + count < registers && tensor_lane(instruction->shape, t, i + count) == lane &&
               tensor_column(instruction, t, i + count) == column + count) {
            count++;
        }
        check(current_cta(), lane0 + lane, column0 + column, count, access);
        i += count;
    }
}

static struct tensor_thread *begin(const char *name, const struct tensor_instruction *instruction)
{
    struct tmem *tmem = tmem_begin(name, 0);
    check_instruction(name, instruction);
    uint64_t operand = (uint64_t)instruction->addr << 32 | instruction->offset << 16 |
                       instruction->num << 4 | (uint32_t)instruction->shape;
    warp_exchange(name, operand, 0);
    return &tmem->threads[current_fiber()->thread];
}

static struct tensor_transfer *claim(struct tensor_transfer *transfers, uint32_t *count,
                                     const char *name)
{
    if (*count == TMEM_MAX_TRANSFERS) {
        emu_fail(EMU_FAULT, "more than %d %s of a thread in flight: the emulator keeps no more",
                 TMEM_MAX_TRANSFERS, name);
    }
    return &transfers[(*count)++];
}

static bool moves_at_issue(void)
{
    return machine.launch.async == EMU_EARLY ||
           (machine.launch.async == EMU_RANDOM && random_next() % 2);
}

static void move(struct tensor_transfer *transfer, bool is_load)
{
    uint32_t registers = tensor_registers(transfer->instruction.shape, transfer->instruction.num);
    for (uint32_t i = 0; !transfer->moved && i < registers; i++) {
        uint32_t *word = word_at(&transfer->instruction, current_fiber()->lane, i);
        if (is_load) {
            transfer->data[i] = *word;
        } else {
            *word = transfer->data[i];
        }
    }
    transfer->moved = true;
}

static struct tensor_transfer *load(struct tensor_instruction instruction, uint32_t *r)
{
    struct fiber *fiber = current_fiber();
    struct tensor_thread *thread = begin("tcgen05.ld", &instruction);
    check_words(&instruction, tensor_check_read,
                (struct tensor_access){ACCESS_TENSOR_LD, tensor_agent_load(fiber),
                                       thread->loads_waited + 1});
    struct tensor_transfer *transfer = claim(thread->loads, &thread->load_count, "tcgen05.ld");
    transfer->instruction = instruction;
    transfer->registers = r;
    transfer->reduced = NULL;
    transfer->moved = false;
    if (moves_at_issue()) {
        move(transfer, true);
    }
    for (uint32_t i = 0; i < tensor_registers(instruction.shape, instruction.num); i++) {
        r[i] = TENSOR_POISON;
    }
    return transfer;
}

static void store(struct tensor_instruction instruction, const uint32_t *r)
{
    struct fiber *fiber = current_fiber();
    struct tensor_thread *thread = begin("tcgen05.st", &instruction);
    check_words(&instruction, tensor_check_write,
                (struct tensor_access){ACCESS_TENSOR_ST, tensor_agent_store(fiber),
                                       thread->stores_waited + 1});
    struct tensor_transfer *transfer = claim(thread->stores, &thread->store_count, "tcgen05.st");
    transfer->instruction = instruction;
    transfer->moved = false;
    memcpy(transfer->data, r,
           tensor_registers(instruction.shape, instruction.num) * sizeof(uint32_t));
    if (moves_at_issue()) {
        move(transfer, false);
    }
}

// ---- waiting

static void reduce(const struct tensor_transfer *transfer)
{
    float value;
    float extreme;
    memcpy(&extreme, &transfer->data[0], sizeof extreme);
    for (uint32_t i = 1; i < transfer->instruction.num; i++) {
        memcpy(&value, &transfer->data[i], sizeof value);
        if (value == value &&
            (extreme != extreme || (transfer->reduce_max ? value > extreme : value < extreme))) {
            extreme = value;
        }
    }
    memcpy(transfer->reduced, &extreme, sizeof extreme);
}

static void finish_load(struct tensor_transfer *transfer)
{
    uint32_t registers = tensor_registers(transfer->instruction.shape, transfer->instruction.num);
    bool changed = false;
    for (uint32_t i = 0; i < registers; i++) {
        changed = changed || transfer->registers[i] != TENSOR_POISON;
    }
    if (changed) {
        emu_fail(EMU_RACE, "registers of a tcgen05.ld were changed while it was in flight; a "
                           "tcgen05_wait_ld before is missing");
    }
    move(transfer, true);
    memcpy(transfer->registers, transfer->data, registers * sizeof(uint32_t));
    if (transfer->reduced) {
        reduce(transfer);
    }
}

static void complete(uint32_t agent, uint32_t epoch)
{
    if (checking()) {
        struct fiber *fiber = current_fiber();
        fiber->clocks.tensor_done[agent] = epoch;
        fiber->tensor_ordered[agent] = epoch;
    }
}

void tcgen05_wait_ld(void)
{
    struct tmem *tmem = tmem_begin("tcgen05.wait::ld", 0);
    struct tensor_thread *thread = &tmem->threads[current_fiber()->thread];
    warp_exchange("tcgen05.wait::ld", 0, 0);
    for (uint32_t i = 0; i < thread->load_count; i++) {
        finish_load(&thread->loads[i]);
    }
    thread->load_count = 0;
    complete(tensor_agent_load(current_fiber()), ++thread->loads_waited);
}

void tcgen05_wait_st(void)
{
    struct tmem *tmem = tmem_begin("tcgen05.wait::st", 0);
    struct tensor_thread *thread = &tmem->threads[current_fiber()->thread];
    warp_exchange("tcgen05.wait::st", 0, 0);
    for (uint32_t i = 0; i < thread->store_count; i++) {
        move(&thread->stores[i], false);
    }
    thread->store_count = 0;
    complete(tensor_agent_store(current_fiber()), ++thread->stores_waited);
}

void tmem_thread_end(void)
{
    const struct tmem *tmem = current_cta()->tmem;
    const struct tensor_thread *thread = tmem ? &tmem->threads[current_fiber()->thread] : NULL;
    if (thread && (thread->load_count || thread->store_count)) {
        emu_fail(EMU_FAULT, "the thread ended without tcgen05_wait_%s",
                 thread->load_count ? "ld" : "st");
    }
}

// ---- fences

// What this thread knows to be in order, and what others passed on to it, goes with what it
// releases from now on.
void tcgen05_fence_before(void)
{
    tmem_begin("tcgen05.fence", 0);
    if (checking()) {
        clock_join_tensor(current_fiber()->clocks.tensor_fenced, current_fiber()->tensor_ordered);
    }
}

void tcgen05_fence_after(void)
{
    tmem_begin("tcgen05.fence", 0);
    if (checking()) {
        clock_join_tensor(current_fiber()->tensor_ordered, current_fiber()->clocks.tensor_fenced);
    }
}

// ---- the instructions

void tcgen05_ld_32x32b(uint32_t num, uint32_t *r, uint32_t addr)
{
    load((struct tensor_instruction){SHAPE_32X32B, num, addr, 0}, r);
}

void tcgen05_ld_16x64b(uint32_t num, uint32_t *r, uint32_t addr)
{
    load((struct tensor_instruction){SHAPE_16X64B, num, addr, 0}, r);
}

void tcgen05_ld_16x128b(uint32_t num, uint32_t *r, uint32_t addr)
{
    load((struct tensor_instruction){SHAPE_16X128B, num, addr, 0}, r);
}

void tcgen05_ld_16x256b(uint32_t num, uint32_t *r, uint32_t addr)
{
    load((struct tensor_instruction){SHAPE_16X256B, num, addr, 0}, r);
}

void tcgen05_ld_16x32bx2(uint32_t num, uint32_t *r, uint32_t addr, uint32_t offset)
{
    load((struct tensor_instruction){SHAPE_16X32BX2, num, addr, offset}, r);
}

void tcgen05_st_32x32b(uint32_t num, uint32_t addr, const uint32_t *r)
{
    store((struct tensor_instruction){SHAPE_32X32B, num, addr, 0}, r);
}

void tcgen05_st_16x64b(uint32_t num, uint32_t addr, const uint32_t *r)
{
    store((struct tensor_instruction){SHAPE_16X64B, num, addr, 0}, r);
}

void tcgen05_st_16x128b(uint32_t num, uint32_t addr, const uint32_t *r)
{
    store((struct tensor_instruction){SHAPE_16X128B, num, addr, 0}, r);
}

void tcgen05_st_16x256b(uint32_t num, uint32_t addr, const uint32_t *r)
{
    store((struct tensor_instruction){SHAPE_16X256B, num, addr, 0}, r);
}

void tcgen05_st_16x32bx2(uint32_t num, uint32_t addr, uint32_t offset, const uint32_t *r)
{
    store((struct tensor_instruction){SHAPE_16X32BX2, num, addr, offset}, r);
}

static void load_reduce(uint32_t num, uint32_t *r, float *reduced, uint32_t addr, bool max)
{
    if (machine.launch.arch != 103) {
        emu_fail(EMU_FAULT, "tcgen05.ld.red: the launch is for sm_%u, and only sm_103 has it",
                 machine.launch.arch);
    }
    if (num < 2) {
        emu_fail(EMU_FAULT, "tcgen05.ld.red x%u: from x2 on", num);
    }
    const uint32_t poison = TENSOR_POISON;
    struct tensor_transfer *transfer =
        load((struct tensor_instruction){SHAPE_32X32B, num, addr, 0}, r);
    transfer->reduced = reduced;
    transfer->reduce_max = max;
    memcpy(reduced, &poison, sizeof poison);
}

void tcgen05_ld_max_32x32b(uint32_t num, uint32_t *r, float *max_out, uint32_t addr)
{
    load_reduce(num, r, max_out, addr, true);
}

void tcgen05_ld_min_32x32b(uint32_t num, uint32_t *r, float *min_out, uint32_t addr)
{
    load_reduce(num, r, min_out, addr, false);
}
