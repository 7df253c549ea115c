// The end of a tile: dK and dV of a warpgroup through its own rows of K and V in shared memory,
// which nobody reads any more, to memory by TMA.
#ifndef ATTN_SM90_BACKWARD_STORE_H
#define ATTN_SM90_BACKWARD_STORE_H

#include "../ptx/barrier.h"
#include "../ptx/bulk.h"
#include "../ptx/fence.h"
#include "../ptx/tma.h"
#include "sm90_backward_step.h"
#include "sm90_staging.h"

// Says which warps' results are not finite: a NaN or an infinity of a row that sees the key, or one
// that 0 * NaN let through. Postprocess looks at them again.
DEVICE void store_suspect(const struct keys *c, const struct tile *tile,
                          const struct keys_registers *x)
{
    float sum = 0.0f;
    UNROLL
    for (int r = 0; r < 2; r++) {
        sum += c->part == KEYS_WEIGHTS ? 0.0f : not_finite(x->dk, D_QK / 2, r);
        sum += c->part == KEYS_GRADIENTS ? 0.0f : not_finite(x->dv, D_V / 2, r);
    }
    uint32_t is_suspect = vote_any(!(sum == 0.0f));
    if (is_warp_leader()) {
        uint32_t warp = c->group * 4 + thread_idx() / 32 % 4;
        st_global_u32(c->p->scratch.suspects + (int64_t)tile->number * (4 * WARPGROUPS) + warp,
                      is_suspect);
    }
}

DEVICE void stage_keys(uint32_t base, const float *x, int columns, float scale)
{
    float factor[2];
    factor[0] = factor[1] = scale;
    stage_rows(base, KEYS_PANEL_BYTES, thread_idx() / 32 % 4 * 16, x, columns, factor);
}

// One result, staged at `base`. `rows`: those of the sequence from the warpgroup's first on.
DEVICE void store_keys(const kernel_params_t *p, const tensor_map *map,
                       const attn_gpu_operand_t *out, uint32_t base, int panels, int32_t d,
                       const struct tile *tile, int32_t key0)
{
    int32_t rows = tile->keys - key0;
    if (!out->data) {
        return;
    }
    if (p->lengths.cu_seqlens_kv && rows < WARPGROUP_N) {
        // A TMA store would write past the end of a packed sequence, into the next one.
        uint16_t *first = (uint16_t *)out->data + (int64_t)(tile->kv_start + key0) * out->stride_s +
                          tile->h_kv * out->stride_h;
        copy_rows_out(first, out->stride_s, base, KEYS_PANEL_BYTES, rows, d,
                      thread_idx() % WARPGROUP_THREADS, WARPGROUP_THREADS);
    } else if (thread_idx() % WARPGROUP_THREADS == 0) {
        UNROLL
        for (int panel = 0; panel < panels; panel++) {
            tma_store_4d(map, base + (uint32_t)panel * KEYS_PANEL_BYTES, panel * PANEL_COLUMNS,
                         tile->kv_start + key0, tile->h_kv, p->lengths.cu_seqlens_kv ? 0 : tile->b);
        }
        bulk_commit_group();
    }
}

// K and V have been read by all their products.
DEVICE void store_tile(const struct keys *c, const struct tile *tile,
                       const struct keys_registers *x)
{
    const kernel_params_t *p = c->p;
    uint32_t k_rows = c->smem + SMEM_K + c->key_group * GROUP_KEYS_BYTES;
    uint32_t v_rows = c->smem + SMEM_V + c->key_group * GROUP_KEYS_BYTES;
    int32_t key0 = tile->key0 + (int32_t)c->key_group * WARPGROUP_N;
    store_suspect(c, tile, x);
    if (c->part != KEYS_GRADIENTS) {
        stage_keys(v_rows, x->dv, D_V, 1.0f);
    }
    if (c->part != KEYS_WEIGHTS) {
        stage_keys(k_rows, x->dk, D_QK, p->scale);
    }
    fence_proxy_async(); // staging before the TMA stores
    barrier_sync(BARRIER_GROUP + c->group, WARPGROUP_THREADS);
    if (c->part != KEYS_GRADIENTS) {
        store_keys(p, &p->dv_map, &p->dv, v_rows, V_PANELS, p->d_v, tile, key0);
    }
    if (c->part != KEYS_WEIGHTS) {
        store_keys(p, &p->dk_map, &p->dk, k_rows, QK_PANELS, p->d_qk, tile, key0);
    }
    if (p->lengths.cu_seqlens_kv) {
        barrier_sync(BARRIER_GROUP + c->group, WARPGROUP_THREADS); // all rows are copied
    }
    if (thread_idx() % WARPGROUP_THREADS == 0) {
        bulk_wait_group_read(0);
        mbarrier_arrive(c->smem + SMEM_KV_EMPTY);
    }
}

#endif
