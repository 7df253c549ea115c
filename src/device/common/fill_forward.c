// The forward pass of a problem without keys: o = 0, lse = -inf, or the sink where there is one.
//
// The other kernels cannot be asked for it: a tensor map of K has no dimension of size zero. It
// runs on every architecture, needs no shared memory, and is bound by the writes of o.
//
//   who         a warp for each row of o, the lanes side by side along d; warps go over the rows in
//               strides of the grid
//   prologue    ATTN_CFG_KERNEL   the kernel's name
//               ATTN_CFG_O_BYTES  2 or 4: zero has the same bits in all types of a size
#include "../../shared/gpu_fill_params.h"
#include "../ptx/math_ops.h"
#include "../ptx/memory_ops.h"
#include "kernel.h"

enum { FILL_THREADS = 128, FILL_WARP_LANES = 32, FILL_WARPS = FILL_THREADS / FILL_WARP_LANES };

DEVICE void fill_zero(void *o, int64_t element)
{
    if (ATTN_CFG_O_BYTES == 2) {
        st_global_u16((uint16_t *)o + element, 0);
    } else {
        st_global_u32((uint32_t *)o + element, 0);
    }
}

DEVICE void fill_row(const attn_gpu_fill_params_t *params, int64_t row, int64_t lane)
{
    const int64_t h = row % params->heads_q;
    const int64_t s = row / params->heads_q % params->s_q;
    const int64_t b = row / params->heads_q / params->s_q;
    const int64_t first = b * params->o_stride_b + s * params->o_stride_s + h * params->o_stride_h;
    for (int64_t d = lane; d < params->d_v; d += FILL_WARP_LANES) {
        fill_zero(params->o, first + d * params->o_stride_d);
    }
    if (params->lse && lane == 0) {
        const int64_t at =
            b * params->lse_stride_b + h * params->lse_stride_h + s * params->lse_stride_s;
        st_global_f32(params->lse + at,
                      params->sink ? ld_global_f32(params->sink + h) : -INFINITY_F32);
    }
}

KERNEL(FILL_THREADS) ATTN_CFG_KERNEL(GRID_CONSTANT const attn_gpu_fill_params_t params)
{
    const int64_t warp = (int64_t)block_idx_x() * FILL_WARPS + thread_idx() / FILL_WARP_LANES;
    const int64_t warps = (int64_t)grid_dim_x() * FILL_WARPS;
    for (int64_t row = warp; row < params.rows; row += warps) {
        fill_row(&params, row, thread_idx() % FILL_WARP_LANES);
    }
}
