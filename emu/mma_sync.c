// mma.sync: the lanes of a warp put their fragments together, and each computes its four elements
// of D. Products are exact in fp32 and summed in fp32, in order of k; the hardware's order and
// width differ, so only a tolerance carries over.
#include "../src/device/ptx/mma_sync.h"
#include "count.h"
#include "state.h"

typedef float (*decode_element)(uint32_t word, uint32_t index);

static float f16_at(uint32_t word, uint32_t index)
{
    return f32_from_f16((uint16_t)(word >> 16 * index));
}

static float bf16_at(uint32_t word, uint32_t index)
{
    return f32_from_bf16((uint16_t)(word >> 16 * index));
}

static float e4m3_at(uint32_t word, uint32_t index)
{
    return f32_from_e4m3((uint8_t)(word >> 8 * index));
}

static float e5m2_at(uint32_t word, uint32_t index)
{
    return f32_from_e5m2((uint8_t)(word >> 8 * index));
}

enum { MAX_PER_REGISTER = 4 };

// What a lane brings, as numbers: four registers of A, two of B.
struct fragment {
    float a[4][MAX_PER_REGISTER];
    float b[2][MAX_PER_REGISTER];
};

// k in steps of a register: lane 4 row + step % 4 holds them, in register (pair) step / 4.
static float dot(const uint64_t *fragments, uint32_t row, uint32_t column, uint32_t per_register)
{
    float sum = 0.0f;
    for (uint32_t step = 0; step < 8; step++) {
        const struct fragment *of_row = (const void *)(uintptr_t)fragments[row % 8 * 4 + step % 4];
        const struct fragment *of_column =
            (const void *)(uintptr_t)fragments[column * 4 + step % 4];
        const float *a = of_row->a[row / 8 + step / 4 * 2];
        const float *b = of_column->b[step / 4];
        for (uint32_t i = 0; i < per_register; i++) {
            sum += a[i] * b[i];
        }
    }
    return sum;
}

// The lanes show each other where their numbers are, and meet again before any of them leaves and
// takes its stack along.
static void multiply(const char *instruction, float *d, const uint32_t *a, const uint32_t *b,
                     uint32_t per_register, decode_element decode_a, decode_element decode_b)
{
    struct fragment mine;
    for (uint32_t i = 0; i < per_register; i++) {
        for (uint32_t r = 0; r < 4; r++) {
            mine.a[r][i] = decode_a(a[r], i);
        }
        mine.b[0][i] = decode_b(b[0], i);
        mine.b[1][i] = decode_b(b[1], i);
    }
    const uint64_t *fragments = warp_exchange(instruction, 0, (uintptr_t)&mine);
    uint32_t lane = current_fiber()->lane;
    for (uint32_t i = 0; i < 4; i++) {
        d[i] += dot(fragments, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, per_register);
    }
    count_mma(64 * per_register, per_register == 4, 0); // its share of 2 * 16 * 8 * k
    warp_exchange(instruction, 1, 0);
}

void mma_m16n8k16_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply("mma.m16n8k16.f16", d, a, b, 2, f16_at, f16_at);
}

void mma_m16n8k16_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply("mma.m16n8k16.bf16", d, a, b, 2, bf16_at, bf16_at);
}

void mma_m16n8k32_e4m3(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply("mma.m16n8k32.e4m3", d, a, b, 4, e4m3_at, e4m3_at);
}

void mma_m16n8k32_e5m2(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply("mma.m16n8k32.e5m2", d, a, b, 4, e5m2_at, e5m2_at);
}

void mma_m16n8k32_e4m3_e5m2(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply("mma.m16n8k32.e4m3.e5m2", d, a, b, 4, e4m3_at, e5m2_at);
}

void mma_m16n8k32_e5m2_e4m3(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply("mma.m16n8k32.e5m2.e4m3", d, a, b, 4, e5m2_at, e4m3_at);
}
