// What the targets that call the library share: values drawn from the fuzzer's bytes, memory of
// exactly the needed size, and contexts for every instruction set.
#ifndef ATTN_FUZZ_INPUT_H
#define ATTN_FUZZ_INPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "core/strides.h"

// Elements that a run's operand may span: keeps a run within milliseconds under the sanitizers.
#define FUZZ_ELEMENTS_MAX 40000

typedef struct fuzz_input {
    const uint8_t *data;
    size_t left;
} fuzz_input_t;

// 0 when the input is used up, so that every input is a whole problem.
static inline uint8_t fuzz_byte(fuzz_input_t *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->data++;
}

// In [0, high].
static inline int64_t fuzz_up_to(fuzz_input_t *input, int64_t high)
{
    const int64_t wide = high > 255 ? fuzz_byte(input) * 256 + fuzz_byte(input) : fuzz_byte(input);
    return wide % (high + 1);
}

// A value that code tends to forget.
static inline int64_t fuzz_odd_value(fuzz_input_t *input)
{
    static const int64_t values[] = {
        0,         1,         -1,           2,
        -2,        7,         255,          4096,
        65536,     65537,     INT32_MAX,    INT32_MIN,
        INT64_MAX, INT64_MIN, 1LL << 31,    1LL << 40,
        1LL << 56, 1LL << 62, -(1LL << 40), 0x7fc000007fc00000,
    };
    return values[fuzz_up_to(input, (int64_t)(sizeof(values) / sizeof(values[0])) - 1)];
}

// Overwrites some fields of a struct, wherever they are, with odd values.
static inline void fuzz_mutate(fuzz_input_t *input, void *memory, size_t bytes)
{
    for (int64_t count = fuzz_up_to(input, 7) - 4; count > 0; count--) {
        const int64_t value = fuzz_odd_value(input);
        const size_t at = (size_t)fuzz_up_to(input, (int64_t)(bytes / 4) - 1) * 4;
        const size_t size = fuzz_byte(input) % 2 == 0 && at + 8 <= bytes ? 8 : 4;
        memcpy((unsigned char *)memory + at, &value, size);
    }
}

// Memory for exactly the elements that strides reach, so that AddressSanitizer sees the first one
// too many. Filled with bytes from the input: any bits are legal values.
typedef struct fuzz_buffer {
    unsigned char *memory;
    unsigned char *origin; // element 0
    size_t bytes;
} fuzz_buffer_t;

static inline fuzz_buffer_t fuzz_bytes(fuzz_input_t *input, size_t bytes)
{
    fuzz_buffer_t buffer = {.bytes = bytes, .memory = malloc(bytes > 0 ? bytes : 1)};
    if (buffer.memory == NULL) {
        abort();
    }
    buffer.origin = buffer.memory;
    uint32_t state = fuzz_byte(input) * 2654435761u + 1u;
    const bool is_tame = fuzz_byte(input) % 2 == 0;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        // Tame: small magnitudes in every format.
        buffer.memory[i] = (unsigned char)((state >> 24) & (is_tame ? 0x3f : 0xff));
    }
    return buffer;
}

// Whether the dimensions span few enough elements for a run.
static inline bool fuzz_is_small(const attn_dim_t *dims, int32_t count)
{
    double span = 0.0;
    double elements = 1.0;
    for (int32_t i = 0; i < count; i++) {
        const double size = (double)dims[i].size;
        const double stride = (double)dims[i].stride;
        span += size * (stride < 0 ? -stride : stride);
        elements *= size;
    }
    return span < FUZZ_ELEMENTS_MAX && elements < FUZZ_ELEMENTS_MAX;
}

static inline fuzz_buffer_t fuzz_operand(fuzz_input_t *input, const attn_dim_t *dims, int32_t count,
                                         int64_t element_bytes)
{
    for (int32_t i = 0; i < count; i++) {
        if (dims[i].size == 0) {
            return fuzz_bytes(input, 0); // strides may be anything
        }
    }
    int64_t low = 0;
    int64_t high = 0;
    for (int32_t i = 0; i < count; i++) {
        const int64_t reach = (dims[i].size - 1) * dims[i].stride;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    fuzz_buffer_t buffer = fuzz_bytes(input, (size_t)((high - low + 1) * element_bytes));
    buffer.origin = buffer.memory - low * element_bytes;
    return buffer;
}

// A serial pool with several workers that takes the tasks from the end.
static void fuzz_parallel_for(void *user, int64_t count, attn_task_fn task, void *task_arg)
{
    (void)user;
    for (int64_t i = count - 1; i >= 0; i--) {
        task(task_arg, i, (int32_t)(i % 3));
    }
}

// A context of the instruction set that the input chooses, made once. Sets that the machine lacks
// fall back to scalar.
static inline attn_context_t *fuzz_context(fuzz_input_t *input)
{
    static attn_context_t *contexts[ATTN_ISA_COUNT];
    attn_isa_t isa = (attn_isa_t)fuzz_up_to(input, ATTN_ISA_COUNT - 1);
    if (!attn_isa_available(isa)) {
        isa = ATTN_ISA_SCALAR;
    }
    if (contexts[isa] == NULL) {
        attn_context_config_t config;
        attn_context_config_init(&config);
        config.isa = isa;
        config.workers = 3;
        config.parallel_for = fuzz_parallel_for;
        if (attn_context_create(&config, &contexts[isa]) != ATTN_OK) {
            abort();
        }
    }
    return contexts[isa];
}

// Statuses that a call with any arguments may return.
static inline void fuzz_check_status(attn_status_t status)
{
    if (status != ATTN_OK && status != ATTN_INVALID_ARGUMENT && status != ATTN_UNSUPPORTED &&
        status != ATTN_NO_DEVICE) {
        fprintf(stderr, "status %d: %s\n", (int)status, attn_last_error());
        abort();
    }
    if (status != ATTN_OK && attn_last_error()[0] == '\0') {
        fprintf(stderr, "status %d without a text\n", (int)status);
        abort();
    }
}

#endif
