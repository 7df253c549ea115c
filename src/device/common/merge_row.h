// Joining the partial results of one row, which every merge stands on:
//
//   lse = m + log(sum_p exp(lse_p - m))      m = max_p lse_p
//   o   = sum_p exp(lse_p - m) * o_p / sum
//
// A warp takes MERGE_WARP_DIMS dims of a row, MERGE_LANE_DIMS a lane. The parts are added in their
// order, in fp64: the bits depend on nothing else, and the error does not grow with the number of
// parts. A part with an infinite lse is empty, whatever its o holds; NaN counts, and comes out.
#ifndef ATTN_DEVICE_MERGE_ROW_H
#define ATTN_DEVICE_MERGE_ROW_H

#include "../../shared/exp2.h"
#include "../ptx/warp.h"
#include "gpu_element.h"

enum { MERGE_LANE_DIMS = 4, MERGE_WARP_DIMS = 32 * MERGE_LANE_DIMS, MERGE_BATCH = 4 };

// The parts of a row.
struct merge_source {
    const float *o; // of part 0
    int64_t o_stride;
    const float *lse;
    int64_t lse_stride;
    int64_t parts;
    int64_t d_v;
    int32_t is_vector; // four dims, the first a multiple of four, are one aligned access
};

// What became of a lane's dims.
struct merged_dims {
    double o[MERGE_LANE_DIMS];
    float lse;
};

DEVICE int merge_counts(float lse)
{
    return !(lse == INFINITY_F32 || lse == -INFINITY_F32);
}

// Of the parts that count, the same in all lanes; -inf without one. NaN is passed over.
DEVICE float merge_max(const struct merge_source *source)
{
    float max = -INFINITY_F32;
    for (int64_t p = thread_idx() % 32; p < source->parts; p += 32) {
        float lse = ld_global_f32(source->lse + p * source->lse_stride);
        max = merge_counts(lse) ? max_f32(max, lse) : max;
    }
    UNROLL
    for (uint32_t lane = 16; lane > 0; lane /= 2) {
        max = max_f32(max, shuffle_xor_f32(max, lane));
    }
    return max;
}

// The lane's dim number i of those that begin at `first`.
DEVICE int64_t merge_dim(int32_t is_vector, int64_t first, int i)
{
    int64_t lane = thread_idx() % 32;
    return first + (is_vector ? MERGE_LANE_DIMS * lane + i : lane + 32 * i);
}

// The lane's dims of a part, 0 if it does not count: then its o may hold anything.
DEVICE void merge_load(const struct merge_source *source, int64_t part, int64_t first,
                       uint32_t counts, int32_t is_vector, float *x)
{
    const float *o = source->o + part * source->o_stride;
    if (is_vector) {
        uint32_t bits[MERGE_LANE_DIMS] = {0, 0, 0, 0};
        int64_t d = merge_dim(1, first, 0);
        if (counts && d < source->d_v) {
            ld_global_v4_u32(bits, o + d);
        }
        UNROLL
        for (int i = 0; i < MERGE_LANE_DIMS; i++) {
            x[i] = f32_of_bits(bits[i]);
        }
        return;
    }
    UNROLL
    for (int i = 0; i < MERGE_LANE_DIMS; i++) {
        int64_t d = merge_dim(0, first, i);
        x[i] = counts && d < source->d_v ? ld_global_f32(o + d) : 0.0f;
    }
}

// Adds parts p0 .. p0 + 31 to the lane's dims; gives the sum of their weights. A lane weighs one of
// them, so that no load of o waits for an lse, and MERGE_BATCH parts are asked for at a time: few
// rows of many parts are bound by latency.
DEVICE double merge_add(const struct merge_source *source, int64_t p0, float max, int64_t first,
                        int32_t is_vector, double *o)
{
    int64_t mine = p0 + thread_idx() % 32;
    float lse = -INFINITY_F32; // of a part that is not there
    if (mine < source->parts) {
        lse = ld_global_f32(source->lse + mine * source->lse_stride);
    }
    float my_weight = merge_counts(lse) ? ex2_approx((lse - max) * ATTN_LOG2_E) : 0.0f;
    uint32_t counting = vote_ballot((uint32_t)merge_counts(lse));
    double sum = 0.0;
    NO_UNROLL
    for (uint32_t j = 0; j < 32 && counting >> j; j += MERGE_BATCH) {
        float x[MERGE_BATCH][MERGE_LANE_DIMS];
        UNROLL
        for (uint32_t n = 0; n < MERGE_BATCH; n++) {
            merge_load(source, p0 + j + n, first, counting >> (j + n) & 1, is_vector, x[n]);
        }
        UNROLL
        for (uint32_t n = 0; n < MERGE_BATCH; n++) {
            double weight = (double)shuffle_idx_f32(my_weight, j + n);
            sum += weight;
            UNROLL
            for (int i = 0; i < MERGE_LANE_DIMS; i++) {
                o[i] += weight * (double)x[n][i];
            }
        }
    }
    return sum;
}

// Dims first .. first + MERGE_WARP_DIMS - 1. All parts are read before the caller writes.
DEVICE struct merged_dims merge_parts(const struct merge_source *source, int64_t first)
{
    struct merged_dims merged;
    float max = merge_max(source);
    double sum = 0.0;
    UNROLL
    for (int i = 0; i < MERGE_LANE_DIMS; i++) {
        merged.o[i] = 0.0;
    }
    for (int64_t p0 = 0; p0 < source->parts; p0 += 32) {
        sum += source->is_vector ? merge_add(source, p0, max, first, 1, merged.o)
                                 : merge_add(source, p0, max, first, 0, merged.o);
    }
    double share = sum == 0.0 ? 0.0 : 1.0 / sum;
    UNROLL
    for (int i = 0; i < MERGE_LANE_DIMS; i++) {
        merged.o[i] *= share;
    }
    merged.lse = (float)((double)max + (double)(lg2_approx((float)sum) * ATTN_LN_2));
    return merged;
}

// Writes a lane's dims to a row of o.
DEVICE void merge_store(const struct merge_source *source, const struct merged_dims *merged,
                        int64_t first, int32_t type, void *o, int64_t stride_d)
{
    if (source->is_vector && type != ATTN_GPU_F64) {
        int64_t d = merge_dim(1, first, 0);
        if (d >= source->d_v) {
            return;
        }
        float x[MERGE_LANE_DIMS];
        uint32_t bits[MERGE_LANE_DIMS];
        UNROLL
        for (int i = 0; i < MERGE_LANE_DIMS; i++) {
            x[i] = (float)merged->o[i];
            bits[i] = bits_of_f32(x[i]);
        }
        if (type == ATTN_GPU_F32) {
            st_global_v4_u32((float *)o + d, bits);
        } else {
            uint32_t *out = (uint32_t *)((uint16_t *)o + d);
            st_global_u32(out, pack_16_bits(type, x[0], x[1]));
            st_global_u32(out + 1, pack_16_bits(type, x[2], x[3]));
        }
        return;
    }
    UNROLL
    for (int i = 0; i < MERGE_LANE_DIMS; i++) {
        int64_t d = merge_dim(source->is_vector, first, i);
        if (d < source->d_v) {
            store_from_f64(type, o, d * stride_d, merged->o[i]);
        }
    }
}

#endif
