// Arithmetic on sizes. The checked functions are for sizes from outside: 1 on success, 0 if the
// exact result does not fit.
#ifndef ATTN_CORE_CHECKED_H
#define ATTN_CORE_CHECKED_H

#include <stdint.h>

static inline int attn_checked_mul(int64_t a, int64_t b, int64_t *result_out)
{
    return !__builtin_mul_overflow(a, b, result_out);
}

static inline int attn_checked_add(int64_t a, int64_t b, int64_t *result_out)
{
    return !__builtin_add_overflow(a, b, result_out);
}

// a >= 0, b >= 1. Cannot overflow.
static inline int64_t attn_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

// a >= 0, b >= 1, a + b must fit.
static inline int64_t attn_round_up(int64_t a, int64_t b)
{
    return attn_ceil_div(a, b) * b;
}

static inline int64_t attn_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t attn_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
