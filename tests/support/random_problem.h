// Draws whole problems. Draw n of a seed is the same on every machine.
#ifndef ATTN_TEST_RANDOM_PROBLEM_H
#define ATTN_TEST_RANDOM_PROBLEM_H

#include "test_problem.h"

typedef struct random_problem {
    attn_desc_t desc;
    problem_options_t options;
    int32_t workers;
} random_problem_t;

// Every option of a descriptor at once, small odd sizes, zero lengths, any strides.
random_problem_t random_problem_draw(uint64_t seed, uint64_t index);
// What fast kernels are made for: several tiles, 16-bit operands, dense tensors.
random_problem_t random_tiled_draw(uint64_t seed, uint64_t index);

// Makes the problem simpler in way `step` (0, 1, ...); false if there is no such way. It may
// change nothing, or make a problem that the library refuses.
bool random_problem_simplify(random_problem_t *problem, int step);

// One line that names every option that is not off.
void random_problem_describe(const random_problem_t *problem, char *text, size_t bytes);

#endif
