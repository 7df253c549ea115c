// A strided tensor of up to four dimensions in guarded memory: every input and result of a test
// problem is one. Strides may be 0 or negative; the buffer has exactly the elements that the
// strides reach, and holes between them must stay as they are.
#ifndef ATTN_TEST_OPERAND_H
#define ATTN_TEST_OPERAND_H

#include "attn.h"
#include "guard_buffer.h"

typedef struct operand {
    const char *name;   // "q", for messages
    attn_dtype_t dtype; // not used for the uint8 mask
    int64_t element_bytes;
    int64_t dims[4];
    int64_t strides[4];
    int64_t origin; // element of the buffer that index (0, 0, 0, 0) is
    int64_t count;  // elements of the buffer
    guard_buffer_t buffer;
} operand_t;

operand_t operand_create(const char *name, attn_dtype_t dtype, const int64_t dims[4],
                         const int64_t strides[4], int64_t misalign_elements);
// The same, of bytes: the boolean mask.
operand_t operand_create_mask(const char *name, const int64_t dims[4], const int64_t strides[4]);
// The same values in another dtype, holes included.
operand_t operand_convert(const operand_t *operand, attn_dtype_t dtype);
void operand_destroy(operand_t *operand);

// What the library is given; NULL for an operand that is not used.
void *operand_data(const operand_t *operand);
int64_t operand_index(const operand_t *operand, int64_t a, int64_t b, int64_t c, int64_t d);
// Elements, in the order of the dims: (b, s, h, d) of q, (b, h, s, 0) of lse, (b, h, i, j) of bias.
double operand_get(const operand_t *operand, int64_t a, int64_t b, int64_t c, int64_t d);
void operand_set(operand_t *operand, int64_t a, int64_t b, int64_t c, int64_t d, double value);
// Sets every element that an index reaches.
void operand_set_all(operand_t *operand, double value);
// NULL if guards are intact, holes untouched and every element written; else what is wrong.
const char *operand_damage(const operand_t *operand, bool check_written);
// Whether all bits of two operands of one layout are the same.
bool operand_equal_bits(const operand_t *x, const operand_t *y);

// Steps through all indexes:
// for (operand_walk_t w = operand_walk(x); !w.done; operand_next(x, &w))
typedef struct operand_walk {
    int64_t at[4];
    bool done;
} operand_walk_t;
operand_walk_t operand_walk(const operand_t *operand);
void operand_next(const operand_t *operand, operand_walk_t *walk);

#endif
