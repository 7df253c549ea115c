// attn_append: descriptor, checks, and the call of the backend. The cache is the caller's only copy
// of its context, so everything is checked before the first byte is written.
#include <inttypes.h>

#include "append_check.h"
#include "desc.h"
#include "import.h"
#include "plan.h"
#include "status.h"

void attn_append_desc_init_sized(attn_append_desc_t *desc, size_t struct_size, attn_dtype_t dtype)
{
    if (desc == NULL) {
        return;
    }
    const attn_tensor_t tensor = attn_tensor_auto(dtype);
    const attn_append_desc_t full = {
        .k_new = tensor,
        .v_new = tensor,
        .k_cache = tensor,
        .v_cache = tensor,
        .page_table_stride_b = ATTN_STRIDE_AUTO,
        .q = tensor,
        .q_out = tensor,
    };
    attn_export(desc, struct_size, &full, sizeof(full));
}

attn_status_t attn_append(const attn_context_t *context, const attn_append_desc_t *desc,
                          const attn_append_args_t *args, void *stream)
{
    const attn_context_t *resolved = attn_context_resolve(context);
    ATTN_FORWARD_ERROR(attn_context_check(resolved));
    attn_append_desc_t full;
    attn_append_desc_init(&full, ATTN_F32);
    ATTN_FORWARD_ERROR(attn_import("desc", &full, sizeof(full), desc));
    ATTN_FORWARD_ERROR(attn_append_desc_check(&full));
    const attn_backend_ops_t *const backend = attn_backend_find(full.backend);
    ATTN_RETURN_IF(stream != NULL && !backend->is_device, ATTN_INVALID_ARGUMENT,
                   "stream: given, expected NULL for a CPU");
    attn_append_args_t full_args;
    attn_append_args_init(&full_args);
    ATTN_FORWARD_ERROR(attn_import("args", &full_args, sizeof(full_args), args));
    ATTN_FORWARD_ERROR(attn_append_args_check(&full, &full_args));
    if (!backend->is_device) {
        ATTN_FORWARD_ERROR(attn_append_arrays_check(&full, &full_args));
    }
    return backend->append(resolved, &full, &full_args, stream);
}
