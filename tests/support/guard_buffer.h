// Memory with guard bands on both sides: writes outside are found afterwards, and under
// AddressSanitizer reads outside too, at once. Fresh memory is filled with ones, in every
// floating-point format a NaN that no computation makes (a GPU's is 0x7fff, 0x7fffffff), so that
// what was never written shows.
#ifndef ATTN_TEST_GUARD_BUFFER_H
#define ATTN_TEST_GUARD_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct guard_buffer {
    unsigned char *memory; // NULL: not used
    unsigned char *data;   // never NULL in a used buffer, also with no bytes
    size_t bytes;
} guard_buffer_t;

// data is 64-byte aligned plus `misalign` bytes. Aborts the test program without memory.
guard_buffer_t guard_buffer_create(size_t bytes, size_t misalign);
void guard_buffer_destroy(guard_buffer_t *buffer);
// Whether byte range [at, at + count) still holds the fill.
bool guard_buffer_is_fill(const guard_buffer_t *buffer, size_t at, size_t count);
// Whether both guard bands are as they were.
bool guard_buffer_intact(const guard_buffer_t *buffer);

#endif
