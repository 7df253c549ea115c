// Strides: filling in the automatic ones, and proving that no access can leave 64 bits or hit an
// output element twice.
#ifndef ATTN_CORE_STRIDES_H
#define ATTN_CORE_STRIDES_H

#include "attn.h"

// One dimension of an operand. Lists of dimensions go from the innermost outwards.
typedef struct attn_dim {
    int64_t size; // >= 0
    int64_t stride;
} attn_dim_t;

// Replaces each ATTN_STRIDE_AUTO by the extent of the dimensions inside it, so that they are packed
// densely around what is given; a dimension with stride 0 is broadcast and takes no room.
attn_status_t attn_strides_resolve(const char *name, attn_dim_t *dims, int32_t count);

// Every element's offset in bytes fits in 63 bits.
attn_status_t attn_strides_check_extent(const char *name, const attn_dim_t *dims, int32_t count,
                                        int64_t element_bytes);

// Refuses an output that certainly writes some element twice. Needs: the extent was checked.
attn_status_t attn_strides_check_distinct(const char *name, const attn_dim_t *dims, int32_t count);

#endif
