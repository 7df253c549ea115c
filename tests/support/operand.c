// See operand.h.
#include "operand.h"

#include <stdlib.h>
#include <string.h>

#include "test_number.h"

static operand_t create(const char *name, attn_dtype_t dtype, int64_t element_bytes,
                        const int64_t dims[4], const int64_t strides[4], int64_t misalign_elements)
{
    operand_t operand = {.name = name, .dtype = dtype, .element_bytes = element_bytes};
    int64_t lowest = 0;
    int64_t highest = 0;
    bool empty = false;
    for (int n = 0; n < 4; n++) {
        operand.dims[n] = dims[n];
        operand.strides[n] = strides[n];
        const int64_t reach = dims[n] > 0 ? (dims[n] - 1) * strides[n] : 0;
        lowest += reach < 0 ? reach : 0;
        highest += reach > 0 ? reach : 0;
        empty = empty || dims[n] == 0;
    }
    operand.origin = empty ? 0 : -lowest;
    operand.count = empty ? 0 : highest - lowest + 1;
    operand.buffer = guard_buffer_create((size_t)(operand.count * element_bytes),
                                         (size_t)(misalign_elements * element_bytes));
    return operand;
}

operand_t operand_create(const char *name, attn_dtype_t dtype, const int64_t dims[4],
                         const int64_t strides[4], int64_t misalign_elements)
{
    return create(name, dtype, (int64_t)attn_dtype_bytes(dtype), dims, strides, misalign_elements);
}

operand_t operand_create_mask(const char *name, const int64_t dims[4], const int64_t strides[4])
{
    return create(name, ATTN_F8_E4M3, 1, dims, strides, 0);
}

operand_t operand_convert(const operand_t *operand, attn_dtype_t dtype)
{
    operand_t out = *operand;
    out.dtype = dtype;
    out.element_bytes = (int64_t)attn_dtype_bytes(dtype);
    out.buffer = guard_buffer_create((size_t)(out.count * out.element_bytes), 0);
    for (int64_t n = 0; n < out.count; n++) {
        const double value = test_number_get(operand->dtype, operand->buffer.data, n);
        test_number_set(dtype, out.buffer.data, n, value);
    }
    return out;
}

void operand_destroy(operand_t *operand)
{
    guard_buffer_destroy(&operand->buffer);
    memset(operand, 0, sizeof(*operand));
}

void *operand_data(const operand_t *operand)
{
    if (operand->buffer.memory == NULL) {
        return NULL;
    }
    return operand->buffer.data + operand->origin * operand->element_bytes;
}

int64_t operand_index(const operand_t *operand, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *strides = operand->strides;
    return operand->origin + a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
}

double operand_get(const operand_t *operand, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return test_number_get(operand->dtype, operand->buffer.data,
                           operand_index(operand, a, b, c, d));
}

void operand_set(operand_t *operand, int64_t a, int64_t b, int64_t c, int64_t d, double value)
{
    test_number_set(operand->dtype, operand->buffer.data, operand_index(operand, a, b, c, d),
                    value);
}

void operand_set_all(operand_t *operand, double value)
{
    for (operand_walk_t w = operand_walk(operand); !w.done; operand_next(operand, &w)) {
        operand_set(operand, w.at[0], w.at[1], w.at[2], w.at[3], value);
    }
}

operand_walk_t operand_walk(const operand_t *operand)
{
    operand_walk_t walk = {.done = operand->count == 0};
    return walk;
}

void operand_next(const operand_t *operand, operand_walk_t *walk)
{
    for (int n = 3; n >= 0; n--) {
        if (++walk->at[n] < operand->dims[n]) {
            return;
        }
        walk->at[n] = 0;
    }
    walk->done = true;
}

const char *operand_damage(const operand_t *operand, bool check_written)
{
    if (operand->buffer.memory == NULL) {
        return NULL;
    }
    if (!guard_buffer_intact(&operand->buffer)) {
        return "guard band overwritten";
    }
    const size_t bytes = (size_t)operand->element_bytes;
    bool *reached = calloc((size_t)operand->count + 1, sizeof(*reached));
    if (reached == NULL) {
        abort();
    }
    for (operand_walk_t w = operand_walk(operand); !w.done; operand_next(operand, &w)) {
        reached[operand_index(operand, w.at[0], w.at[1], w.at[2], w.at[3])] = true;
    }
    const char *damage = NULL;
    for (int64_t n = 0; n < operand->count && damage == NULL; n++) {
        const bool is_fill = guard_buffer_is_fill(&operand->buffer, (size_t)n * bytes, bytes);
        if (!reached[n] && !is_fill) {
            damage = "hole between elements overwritten";
        } else if (reached[n] && is_fill && check_written && bytes > 1) {
            damage = "element not written";
        }
    }
    free(reached);
    return damage;
}

bool operand_equal_bits(const operand_t *x, const operand_t *y)
{
    if (x->buffer.memory == NULL || y->buffer.memory == NULL) {
        return x->buffer.memory == y->buffer.memory;
    }
    return x->buffer.bytes == y->buffer.bytes &&
           memcmp(x->buffer.data, y->buffer.data, x->buffer.bytes) == 0;
}
