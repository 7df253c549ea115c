// Seeded random numbers for tests: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014). The same seed gives the same draws on every machine.
#ifndef ATTN_TEST_RNG_H
#define ATTN_TEST_RNG_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct test_rng {
    uint64_t state;
} test_rng_t;

static inline uint64_t test_rng_next(test_rng_t *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// A stream of its own for item n of a seed.
static inline test_rng_t test_rng_at(uint64_t seed, uint64_t n)
{
    test_rng_t rng = {seed};
    rng.state = test_rng_next(&rng) ^ (n * 0xd1342543de82ef95u);
    return rng;
}

// In [low, high], both included; low <= high.
static inline int64_t test_rng_range(test_rng_t *rng, int64_t low, int64_t high)
{
    return low + (int64_t)(test_rng_next(rng) % (uint64_t)(high - low + 1));
}

static inline bool test_rng_chance(test_rng_t *rng, int64_t percent)
{
    return test_rng_range(rng, 0, 99) < percent;
}

// In [0, 1).
static inline double test_rng_unit(test_rng_t *rng)
{
    return (double)(test_rng_next(rng) >> 11) * 0x1p-53;
}

// Mean 0, variance 1 (Box-Muller).
static inline double test_rng_normal(test_rng_t *rng)
{
    const double radius = sqrt(-2.0 * log(1.0 - test_rng_unit(rng)));
    return radius * cos(6.283185307179586 * test_rng_unit(rng));
}

#endif
