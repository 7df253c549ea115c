// random_fill.c: see random_fill.h.
#include "random_fill.h"

#include <math.h>
#include <stdbool.h>

// SplitMix64 (Steele, Lea, Flood 2014): a counter through a mixer, so any seed is a good one, and a
// thread can begin anywhere.
struct random_stream {
    uint64_t state;
};
#define RANDOM_STEP 0x9e3779b97f4a7c15u
enum { CHUNK = 1 << 16 };

static struct random_stream start_stream(uint64_t seed, const char *what)
{
    // FNV-1a of the operand's name, so that q, k and v of one seed differ.
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = what; *c; c++) {
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    }
    return (struct random_stream){.state = hash ^ seed * RANDOM_STEP};
}

static uint64_t next_u64(struct random_stream *stream)
{
    stream->state += RANDOM_STEP;
    uint64_t z = stream->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// In (0, 1).
static double next_uniform(struct random_stream *stream)
{
    return ((double)(next_u64(stream) >> 11) + 0.5) * 0x1p-53;
}

// Mean 0, standard deviation 1.
static double next_normal(struct random_stream *stream)
{
    // Box and Muller 1958; the second number of the pair is not used.
    const double radius = sqrt(-2.0 * log(next_uniform(stream)));
    return radius * cos(6.283185307179586 * next_uniform(stream));
}

void random_fill(struct io_tensor *tensor, uint64_t seed, const char *what, double sigma,
                 double ones)
{
    const struct random_stream start = start_stream(seed, what);
    const bool is_integer = tensor->dtype >= IO_I64;
    const uint64_t draws = is_integer ? 1 : 2; // of an element
    const int64_t chunks = (tensor->count + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t first = chunk * CHUNK;
        const int64_t last = first + CHUNK < tensor->count ? first + CHUNK : tensor->count;
        struct random_stream stream = {start.state + (uint64_t)first * draws * RANDOM_STEP};
        for (int64_t i = first; i < last; i++) {
            const double value =
                is_integer ? next_uniform(&stream) < ones : sigma * next_normal(&stream);
            io_tensor_set(tensor, i, value);
        }
    }
}
