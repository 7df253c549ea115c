// The checks of check.h, for the descriptors and arguments of attention, merge and append alike.
#include "check.h"

#include <inttypes.h>

#include "checked.h"
#include "status.h"

attn_status_t attn_check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    ATTN_RETURN_IF(value < low, ATTN_INVALID_ARGUMENT, "%s: %" PRId64 ", expected >= %" PRId64,
                   name, value, low);
    ATTN_RETURN_IF(value > high, ATTN_INVALID_ARGUMENT, "%s: %" PRId64 ", expected <= %" PRId64,
                   name, value, high);
    return ATTN_OK;
}

#define ROWS_MAX (INT64_C(1) << 56)

attn_status_t attn_check_rows(const char *name, int64_t batch, int64_t heads, int64_t length)
{
    int64_t rows;
    const int fits = attn_checked_mul(batch, heads, &rows) &&
                     attn_checked_mul(rows, length + 1, &rows) && rows < ROWS_MAX;
    ATTN_RETURN_IF(!fits, ATTN_INVALID_ARGUMENT,
                   "%s: batch %" PRId64 " * heads %" PRId64 " * %" PRId64
                   " rows, expected a product below 2^56",
                   name, batch, heads, length);
    return ATTN_OK;
}

attn_status_t attn_check_flag(const char *name, int32_t value)
{
    ATTN_RETURN_IF(value != 0 && value != 1, ATTN_INVALID_ARGUMENT,
                   "%s: %" PRId32 ", expected 0 or 1", name, value);
    return ATTN_OK;
}

static const char *const dtype_names[] = {
    [ATTN_F32] = "f32",      [ATTN_F16] = "f16",      [ATTN_BF16] = "bf16",
    [ATTN_F8_E4M3] = "e4m3", [ATTN_F8_E5M2] = "e5m2", [ATTN_F64] = "f64",
};
#define DTYPE_COUNT (sizeof(dtype_names) / sizeof(dtype_names[0]))

const char *attn_dtype_name(attn_dtype_t dtype)
{
    return (size_t)dtype < DTYPE_COUNT ? dtype_names[dtype] : "unknown";
}

attn_status_t attn_check_dtype(const char *name, attn_dtype_t dtype)
{
    ATTN_RETURN_IF((size_t)dtype >= DTYPE_COUNT, ATTN_INVALID_ARGUMENT,
                   "%s.dtype: %d, expected an attn_dtype_t", name, (int)dtype);
    return ATTN_OK;
}

attn_status_t attn_check_backend(attn_backend_t backend, int32_t device_index)
{
    ATTN_RETURN_IF((unsigned)backend > ATTN_BACKEND_CUDA, ATTN_INVALID_ARGUMENT,
                   "backend: %d, expected an attn_backend_t", (int)backend);
    ATTN_RETURN_IF(device_index < 0, ATTN_INVALID_ARGUMENT,
                   "device_index: %" PRId32 ", expected >= 0", device_index);
    ATTN_RETURN_IF(device_index != 0 && backend != ATTN_BACKEND_CUDA, ATTN_INVALID_ARGUMENT,
                   "device_index: %" PRId32 ", expected 0 for the CPU", device_index);
    return ATTN_OK;
}

attn_status_t attn_check_pointers(const attn_pointer_t *list, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const attn_pointer_t *entry = &list[i];
        if (entry->is_wanted) {
            ATTN_RETURN_IF(entry->pointer == NULL && entry->has_elements, ATTN_INVALID_ARGUMENT,
                           "%s: NULL, but %s asks for it", entry->name, entry->reason);
        } else {
            ATTN_RETURN_IF(entry->pointer != NULL, ATTN_INVALID_ARGUMENT,
                           "%s: given, expected NULL without %s", entry->name, entry->reason);
        }
    }
    return ATTN_OK;
}

attn_status_t attn_check_cu_seqlens(const char *name, const int32_t *cu_seqlens, int64_t batch,
                                    int64_t length_max, int64_t total)
{
    ATTN_RETURN_IF(cu_seqlens[0] != 0, ATTN_INVALID_ARGUMENT, "%s[0]: %" PRId32 ", expected 0",
                   name, cu_seqlens[0]);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = (int64_t)cu_seqlens[b + 1] - cu_seqlens[b];
        ATTN_RETURN_IF(length < 0, ATTN_INVALID_ARGUMENT,
                       "%s[%" PRId64 "]: %" PRId32 ", expected >= %" PRId32 " before it", name,
                       b + 1, cu_seqlens[b + 1], cu_seqlens[b]);
        ATTN_RETURN_IF(length > length_max, ATTN_INVALID_ARGUMENT,
                       "%s: sequence %" PRId64 " has %" PRId64
                       " rows, the descriptor allows %" PRId64,
                       name, b, length, length_max);
    }
    ATTN_RETURN_IF(cu_seqlens[batch] > total, ATTN_INVALID_ARGUMENT,
                   "%s[%" PRId64 "]: %" PRId32 ", more than the pack's %" PRId64 " rows", name,
                   batch, cu_seqlens[batch], total);
    return ATTN_OK;
}
