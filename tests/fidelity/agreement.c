// Judging runs: see agreement.h.
#include "agreement.h"
#include "../../src/device/ptx/math_ops.h"
#include "target.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double value_of(emu_element element, uint32_t bits)
{
    switch (element) {
    case EMU_F32: return (double)f32_of_bits(bits);
    case EMU_F16: return (double)f32_of_f16(bits);
    case EMU_BF16: return (double)f32_of_bf16(bits);
    default: return (double)bits;
    }
}

// Floats in the order of their values, so that neighbours differ by 1.
static int64_t place_of(emu_element element, uint32_t bits)
{
    uint32_t sign = run_element_bytes(element) == 4 ? 0x80000000u : 0x8000u;
    int64_t magnitude = (int64_t)(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
}

// 0 for equal bits; infinity for a NaN or an infinity on one side alone.
static double difference(const struct comparison *c, uint32_t a, uint32_t b)
{
    if (a == b) {
        return 0.0;
    }
    if (c->agreement == SAME_BITS) {
        return INFINITY;
    }
    double x = value_of(c->element, a);
    double y = value_of(c->element, b);
    if (isnan(x) || isnan(y)) {
        return isnan(x) && isnan(y) ? 0.0 : INFINITY;
    }
    if (c->agreement == WITHIN) {
        return fabs(x - y); // infinities of one sign have equal bits
    }
    if (fabs(x - y) <= c->absolute) {
        return 0.0;
    }
    return fabs((double)(place_of(c->element, a) - place_of(c->element, b)));
}

static void note_first(const struct run *a, const struct run *b, uint32_t buffer, uint64_t i,
                       uint32_t x, uint32_t y, struct agreement_found *found)
{
    const struct run_buffer *from = &a->buffers[buffer];
    emu_element element = from->comparison.element;
    snprintf(found->first, sizeof found->first, "case %u, %s[%llu]: %s 0x%x (%.9g), %s 0x%x (%.9g)",
             a->case_idx, from->name, (unsigned long long)i, a->target->name, x,
             value_of(element, x), b->target->name, y, value_of(element, y));
}

static void compare_buffer(const struct run *a, const struct run *b, uint32_t buffer,
                           struct agreement_found *found)
{
    const struct comparison *c = &a->buffers[buffer].comparison;
    const uint8_t *x_bytes = a->buffers[buffer].host;
    const uint8_t *y_bytes = b->buffers[buffer].host;
    size_t size = run_element_bytes(c->element);
    for (size_t i = 0; i < a->buffers[buffer].bytes / size; i++) {
        uint32_t x = 0;
        uint32_t y = 0;
        memcpy(&x, x_bytes + i * size, size);
        memcpy(&y, y_bytes + i * size, size);
        double d = difference(c, x, y);
        if (d > c->bound) {
            if (found->differing++ == 0) {
                note_first(a, b, buffer, i, x, y, found);
            }
        }
        found->largest = d > found->largest && d <= c->bound ? d : found->largest;
        found->elements++;
    }
    if (c->bound > found->bound) {
        found->bound = c->bound;
        found->agreement = c->agreement;
    }
}

void compare_runs(const struct run *a, const struct run *b, struct agreement_found *found)
{
    for (uint32_t i = 0; i < a->buffer_count; i++) {
        if (a->buffers[i].writable != EMU_READ_ONLY) {
            compare_buffer(a, b, i, found);
        }
    }
}
