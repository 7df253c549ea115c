// Checks that descriptors share. Every failure is ATTN_INVALID_ARGUMENT and names the field, its
// value and what is expected.
#ifndef ATTN_CORE_CHECK_H
#define ATTN_CORE_CHECK_H

#include "attn.h"

#define ATTN_LENGTH_MAX (INT64_C(1) << 40) // rows of anything
#define ATTN_COUNT_MAX INT32_MAX           // batch entries, heads, pages
#define ATTN_DIM_MAX 65536                 // elements of a head

attn_status_t attn_check_range(const char *name, int64_t value, int64_t low, int64_t high);

// batch * heads * (length + 1) < 2^56: a backend's products with a row's bytes and a few factors
// stay small enough to check.
attn_status_t attn_check_rows(const char *name, int64_t batch, int64_t heads, int64_t length);

// Flags are 0 or 1: another value is memory that nobody has set.
attn_status_t attn_check_flag(const char *name, int32_t value);

attn_status_t attn_check_dtype(const char *name, attn_dtype_t dtype);

// "bf16"; "unknown" for other values.
const char *attn_dtype_name(attn_dtype_t dtype);

static inline int attn_dtype_is_fp8(attn_dtype_t dtype)
{
    return dtype == ATTN_F8_E4M3 || dtype == ATTN_F8_E5M2;
}

// A known backend, and a device ordinal that it can have.
attn_status_t attn_check_backend(attn_backend_t backend, int32_t device_index);

// One argument of a run. A pointer to no elements may be NULL.
typedef struct attn_pointer {
    const char *name;
    const void *pointer;
    int32_t is_wanted;
    int32_t has_elements;
    const char *reason; // the option that asks for it: "desc.wants_lse"
} attn_pointer_t;
attn_status_t attn_check_pointers(const attn_pointer_t *list, int32_t count);

// cu_seqlens of batch + 1 entries: first 0, not decreasing, no sequence longer than length_max, the
// last <= total.
attn_status_t attn_check_cu_seqlens(const char *name, const int32_t *cu_seqlens, int64_t batch,
                                    int64_t length_max, int64_t total);

#endif
