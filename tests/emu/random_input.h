// Random numbers for the input of kernels on the emulator: the same for the same state.
#ifndef EMU_RANDOM_INPUT_H
#define EMU_RANDOM_INPUT_H

#include <stdint.h>

static inline uint32_t random_word(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state;
}

// From [-1, 1).
static inline float random_uniform(uint32_t *state)
{
    return (float)(random_word(state) >> 8) / 8388608.0f - 1.0f;
}

// About normal, with a variance of 4 / 3; below 4.
static inline float random_bell(uint32_t *state)
{
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) {
        sum += random_uniform(state);
    }
    return sum;
}

#endif
