// Encoding tensor maps: see gpu_tensor_map.h.
#include "gpu_tensor_map.h"

#include "../core/status.h"

attn_status_t attn_tensor_map_encode(const attn_gpu_t *gpu, const attn_tensor_map_desc_t *desc,
                                     void *map_out)
{
    static const uint32_t steps[ATTN_TENSOR_RANK_MAX] = {1, 1, 1, 1, 1};
    enum { INTERLEAVE_NONE = 0, FILL_WITH_ZEROS = 0 };
    ATTN_DRIVER_CHECK(gpu->driver, "cuTensorMapEncodeTiled",
                      gpu->driver->tensor_map_encode(
                          map_out, desc->type, desc->rank, (void *)(uintptr_t)desc->data,
                          desc->dims, desc->strides_bytes, desc->box, steps, INTERLEAVE_NONE,
                          desc->swizzle, desc->l2_promotion, FILL_WITH_ZEROS));
    return ATTN_OK;
}
