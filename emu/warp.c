// Collective instructions of a warp. All lanes must be at the same one: anything else is undefined
// on the hardware and an error here.
#include "../src/device/ptx/warp.h"
#include "../src/device/ptx/register.h"
#include "state.h"

static struct rendezvous *meet(const char *instruction, uint64_t operand, uint64_t value, bool sync)
{
    struct fiber *fiber = current_fiber();
    struct cta *cta = fiber->cta;
    struct rendezvous *r = &cta->warps[fiber->warp];
    if (r->arrived && strcmp(r->instruction, instruction) != 0) {
        emu_fail(EMU_FAULT,
                 "the lanes of warp %u are at different instructions: this one at %s, lanes 0x%08x "
                 "at %s",
                 fiber->warp, instruction, r->arrived, r->instruction);
    }
    if (r->arrived && r->operand != operand) {
        emu_fail(EMU_FAULT, "%s: its operand must be the same in all lanes of warp %u", instruction,
                 fiber->warp);
    }
    uint32_t generation = r->generation;
    if (!r->arrived) {
        r->heard[generation & 1] = sync;
    }
    r->instruction = instruction;
    r->operand = operand;
    r->slots[generation & 1][fiber->lane] = value;
    r->arrived |= 1u << fiber->lane;
    if (sync) {
        clock_release(cta->cluster, &r->meeting);
    } else {
        clock_release_lane(cta->cluster, r);
    }
    if (r->arrived == 0xffffffffu) {
        if (sync) {
            clock_complete(&r->meeting);
        } else {
            clock_complete_lanes(r);
        }
        r->arrived = 0;
        r->generation++;
        machine.progress = true;
    } else {
        fiber_block(WAIT_WARP, r, generation);
    }
    if (sync) {
        clock_acquire(&r->meeting);
        fiber->clocks.heard = false;
    } else {
        clock_acquire_lanes(r, generation);
    }
    return r;
}

// A lane leaves only after all came, and the next meeting fills the other half of the slots:
// nobody's value is overwritten before everybody has read it, as none can be two meetings ahead.
const uint64_t *warp_exchange(const char *instruction, uint64_t operand, uint64_t value)
{
    struct rendezvous *r = &current_cta()->warps[current_fiber()->warp];
    uint32_t half = r->generation & 1;
    meet(instruction, operand, value, false);
    return r->slots[half];
}

void warp_sync(void)
{
    meet("syncwarp", 0, 0, true);
}

static uint32_t shuffle(const char *instruction, uint32_t operand, uint32_t value, uint32_t source)
{
    uint32_t lane = current_fiber()->lane;
    const uint64_t *values = warp_exchange(instruction, operand, value);
    return (uint32_t)values[source < LANES ? source : lane];
}

uint32_t shuffle_xor_u32(uint32_t value, uint32_t mask)
{
    return shuffle("shfl.bfly", mask, value, current_fiber()->lane ^ mask);
}

// The source may differ between lanes.
uint32_t shuffle_idx_u32(uint32_t value, uint32_t lane)
{
    return shuffle("shfl.idx", 0, value, lane % LANES);
}

uint32_t shuffle_up_u32(uint32_t value, uint32_t distance)
{
    return shuffle("shfl.up", distance, value, current_fiber()->lane - distance);
}

uint32_t shuffle_down_u32(uint32_t value, uint32_t distance)
{
    return shuffle("shfl.down", distance, value, current_fiber()->lane + distance);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float shuffle_xor_f32(float value, uint32_t mask)
{
    return float_of(shuffle_xor_u32(bits_of(value), mask));
}

float shuffle_idx_f32(float value, uint32_t lane)
{
    return float_of(shuffle_idx_u32(bits_of(value), lane));
}

static uint32_t ballot(const char *instruction, uint32_t predicate)
{
    const uint64_t *values = warp_exchange(instruction, 0, predicate != 0);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        mask |= (uint32_t)values[i] << i;
    }
    return mask;
}

uint32_t vote_ballot(uint32_t predicate)
{
    return ballot("vote.ballot", predicate);
}

uint32_t vote_any(uint32_t predicate)
{
    return ballot("vote.any", predicate) != 0;
}

uint32_t vote_all(uint32_t predicate)
{
    return ballot("vote.all", predicate) == 0xffffffffu;
}

uint32_t reduce_add_u32(uint32_t value)
{
    const uint64_t *values = warp_exchange("redux.add", 0, value);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        sum += (uint32_t)values[i];
    }
    return sum;
}

// The hardware may choose any lane.
uint32_t elect_one(void)
{
    warp_exchange("elect", 0, 0);
    return current_fiber()->lane == 0;
}

static void set_registers(const char *instruction, uint32_t n, bool increase)
{
    struct fiber *fiber = current_fiber();
    struct cta *cta = fiber->cta;
    if (n < 24 || n > 256 || n % 8) {
        emu_fail(EMU_FAULT, "%s %u: a multiple of 8 from 24 to 256", instruction, n);
    }
    uint32_t old = cta->warp_registers[fiber->warp];
    if (increase ? n < old : n > old) {
        emu_fail(EMU_FAULT, "%s %u, but the warp has %u registers per thread", instruction, n, old);
    }
    warp_exchange(instruction, n, 0);
    if (fiber->lane == 0) {
        if (increase) {
            uint32_t more = (n - old) * LANES;
            if (cta->register_pool < more) {
                fiber_block(WAIT_REGISTERS, cta, more);
            }
            cta->register_pool -= more;
        } else {
            cta->register_pool += (old - n) * LANES;
        }
        cta->warp_registers[fiber->warp] = n;
        machine.progress = true;
    }
    warp_exchange(instruction, n, 0);
}

void setmaxnreg_inc(uint32_t n)
{
    set_registers("setmaxnreg.inc", n, true);
}

void setmaxnreg_dec(uint32_t n)
{
    set_registers("setmaxnreg.dec", n, false);
}
