// Joins partial results over disjoint sets of keys (merge_row.h says how): attn_merge on a GPU, any
// layout and type.
//
// It runs on every architecture, needs no shared memory, and is bound by reading the parts.
//
//   who         a warp for MERGE_WARP_DIMS dims of a row; warps go over the rows in strides of the
//               grid. o may lie over part 0: a lane reads all parts of its dims before it writes
//   prologue    ATTN_CFG_KERNEL   the kernel's name
#include "../../shared/gpu_merge_params.h"
#include "kernel.h"
#include "merge_row.h"

enum {
    MERGE_THREADS = 128,
    MERGE_WARPS = MERGE_THREADS / 32,
    MERGE_CTAS = 6 // of a multiprocessor, whose warps then have 48 KiB of parts on their way
};

// Rows are numbered with the heads innermost, as they lie in memory.
DEVICE void merge_unit(const attn_gpu_merge_params_t *p, int64_t row, int64_t first)
{
    const int64_t h = row % p->heads_q;
    const int64_t s = row / p->heads_q % p->s_q;
    const int64_t b = row / p->heads_q / p->s_q;
    struct merge_source source;
    source.o = p->o_part + b * p->o_part_stride_b + s * p->o_part_stride_s + h * p->o_part_stride_h;
    source.o_stride = p->o_part_stride_p;
    source.lse = p->lse_part + b * p->lse_part_stride_b + h * p->lse_part_stride_h +
                 s * p->lse_part_stride_s;
    source.lse_stride = p->lse_part_stride_p;
    source.parts = p->parts;
    source.d_v = p->d_v;
    source.is_vector = p->is_vector;
    const struct merged_dims merged = merge_parts(&source, first);
    unsigned char *const o =
        (unsigned char *)p->o +
        (b * p->o_stride_b + s * p->o_stride_s + h * p->o_stride_h) * element_bytes(p->o_type);
    merge_store(&source, &merged, first, p->o_type, o, p->o_stride_d);
    if (p->lse && first == 0 && thread_idx() % 32 == 0) {
        st_global_f32(p->lse + b * p->lse_stride_b + h * p->lse_stride_h + s * p->lse_stride_s,
                      merged.lse);
    }
}

KERNEL_CTAS(MERGE_THREADS, MERGE_CTAS)
ATTN_CFG_KERNEL(GRID_CONSTANT const attn_gpu_merge_params_t p)
{
    const int64_t warp = (int64_t)block_idx_x() * MERGE_WARPS + thread_idx() / 32;
    const int64_t warps = (int64_t)grid_dim_x() * MERGE_WARPS;
    const int64_t chunks = (p.d_v + MERGE_WARP_DIMS - 1) / MERGE_WARP_DIMS;
    for (int64_t unit = warp; unit < p.rows * chunks; unit += warps) {
        merge_unit(&p, unit / chunks, unit % chunks * MERGE_WARP_DIMS);
    }
}
