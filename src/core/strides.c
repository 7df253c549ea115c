// The arithmetic of strides.h. Strides come from outside: any int64 value is possible, and every
// step is checked.
#include "strides.h"

#include <inttypes.h>

#include "checked.h"
#include "status.h"

static int64_t magnitude(int64_t stride)
{
    if (stride == INT64_MIN) {
        return INT64_MAX;
    }
    return stride < 0 ? -stride : stride;
}

// |stride| * size, the room that a dimension spans; a broadcast dimension gives 0.
static int dim_extent(attn_dim_t dim, int64_t *extent_out)
{
    const int64_t size = dim.size > 1 ? dim.size : 1;
    return attn_checked_mul(size, magnitude(dim.stride), extent_out);
}

attn_status_t attn_strides_resolve(const char *name, attn_dim_t *dims, int32_t count)
{
    int64_t inner = 1;
    for (int32_t i = 0; i < count; i++) {
        if (dims[i].stride == ATTN_STRIDE_AUTO) {
            dims[i].stride = inner;
        }
        int64_t extent;
        ATTN_RETURN_IF(!dim_extent(dims[i], &extent), ATTN_INVALID_ARGUMENT,
                       "%s: size %" PRId64 " with stride %" PRId64 " does not fit in 63 bits", name,
                       dims[i].size, dims[i].stride);
        inner = extent > inner ? extent : inner;
    }
    return ATTN_OK;
}

// Distance between the lowest and the highest element; 0 if there are no elements.
static int dims_span(const attn_dim_t *dims, int32_t count, int64_t *span_out)
{
    *span_out = 0;
    for (int32_t i = 0; i < count; i++) {
        if (dims[i].size == 0) {
            return 1;
        }
    }
    int64_t span = 0;
    for (int32_t i = 0; i < count; i++) {
        int64_t part;
        if (!attn_checked_mul(dims[i].size - 1, magnitude(dims[i].stride), &part) ||
            !attn_checked_add(span, part, &span)) {
            return 0;
        }
    }
    *span_out = span;
    return 1;
}

attn_status_t attn_strides_check_extent(const char *name, const attn_dim_t *dims, int32_t count,
                                        int64_t element_bytes)
{
    int64_t span;
    int64_t bytes;
    const int fits = dims_span(dims, count, &span) && attn_checked_add(span, 1, &span) &&
                     attn_checked_mul(span, element_bytes, &bytes);
    ATTN_RETURN_IF(!fits, ATTN_INVALID_ARGUMENT,
                   "%s: its strides reach offsets that do not fit in 63 bits", name);
    return ATTN_OK;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Whether steps a and b inside the sizes exist with a * stride_a = b * stride_b, not both 0: exact
// for two dimensions.
static int dims_collide(attn_dim_t x, attn_dim_t y)
{
    if (x.size < 2 || y.size < 2) {
        return 0;
    }
    const int64_t stride_x = magnitude(x.stride);
    const int64_t stride_y = magnitude(y.stride);
    const int64_t divisor = greatest_common_divisor(stride_x, stride_y);
    return stride_y / divisor < x.size && stride_x / divisor < y.size;
}

attn_status_t attn_strides_check_distinct(const char *name, const attn_dim_t *dims, int32_t count)
{
    int64_t elements = 1;
    int is_countable = 1;
    for (int32_t i = 0; i < count; i++) {
        if (dims[i].size == 0) {
            return ATTN_OK;
        }
        ATTN_RETURN_IF(dims[i].size > 1 && dims[i].stride == 0, ATTN_INVALID_ARGUMENT,
                       "%s: stride 0 over %" PRId64
                       " elements, but an output must not overlap itself",
                       name, dims[i].size);
        is_countable = is_countable && attn_checked_mul(elements, dims[i].size, &elements);
    }
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = i + 1; j < count; j++) {
            ATTN_RETURN_IF(dims_collide(dims[i], dims[j]), ATTN_INVALID_ARGUMENT,
                           "%s: strides %" PRId64 " (size %" PRId64 ") and %" PRId64
                           " (size %" PRId64 ") make the output overlap itself",
                           name, dims[i].stride, dims[i].size, dims[j].stride, dims[j].size);
        }
    }
    int64_t span;
    const int has_room = dims_span(dims, count, &span) && is_countable && elements - 1 <= span;
    ATTN_RETURN_IF(!has_room, ATTN_INVALID_ARGUMENT,
                   "%s: more elements than its strides reach, so the output overlaps itself", name);
    return ATTN_OK;
}
