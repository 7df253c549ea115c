// test_cases_ring.c: context parallelism on one machine: chunks of queries against chunks of keys,
// merged with the library's own merge, gradients summed in fp32. Cases C-031 and C-055: README.md.
#include "case_kit.h"

#include <stdlib.h>

// Forward and backward of one pair of chunks run on buffers of the whole problem's size: fp32
// partials.
typedef struct ring {
    problem_t *p;
    operand_t do_;   // of the problem, in fp32 like o
    results_t sum;   // the merged o and lse, the summed gradients
    float *o_part;   // (parts, rows_q, heads_q, d)
    float *lse_part; // (parts, heads_q, rows_q)
    int64_t parts;   // made so far
    int64_t rows_q;
    int64_t o_count; // elements of one part
    int64_t lse_count;
} ring_t;

static attn_desc_t with_fp32_results(const attn_desc_t *desc)
{
    attn_desc_t out = *desc;
    out.o.dtype = out.do_.dtype = out.dq.dtype = out.dk.dtype = out.dv.dtype = ATTN_F32;
    return out;
}

static void *zeroed(int64_t count)
{
    void *memory = calloc((size_t)(count > 0 ? count : 1), sizeof(float));
    assert_non_null(memory);
    return memory;
}

static ring_t ring_create(problem_t *p, int64_t most_parts)
{
    ring_t ring = {.p = p};
    const attn_desc_t full = with_fp32_results(&p->full);
    ring.sum = results_create(p, &full);
    ring.do_ = operand_convert(&p->do_, ATTN_F32);
    ring.rows_q = p->q.dims[0] * p->q.dims[1];
    ring.o_count = ring.rows_q * full.heads_q * full.d_v;
    ring.lse_count = ring.rows_q * full.heads_q;
    ring.o_part = zeroed(most_parts * ring.o_count);
    ring.lse_part = zeroed(most_parts * ring.lse_count);
    operand_t *const gradients[] = {&ring.sum.dq, &ring.sum.dk, &ring.sum.dv};
    for (int n = 0; n < 3; n++) {
        operand_set_all(gradients[n], 0.0);
    }
    return ring;
}

static void ring_destroy(ring_t *ring)
{
    results_destroy(&ring->sum);
    operand_destroy(&ring->do_);
    free(ring->o_part);
    free(ring->lse_part);
}

// One pair of chunks: a descriptor for the rest of the rows behind q_row and kv_row, and its lists.
typedef struct ring_pair {
    attn_desc_t desc;
    int64_t q_row, kv_row;
    const int32_t *cu_q, *cu_kv, *used_q, *used_kv;
} ring_pair_t;

static attn_forward_args_t ring_args(const ring_t *ring, const ring_pair_t *pair)
{
    const attn_desc_t *desc = &pair->desc;
    const int64_t bytes = ring->p->k.element_bytes;
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = (const char *)operand_data(&ring->p->q) + pair->q_row * desc->q.stride_s * bytes;
    args.k = (const char *)operand_data(&ring->p->k) + pair->kv_row * desc->k.stride_s * bytes;
    args.v = (const char *)operand_data(&ring->p->v) + pair->kv_row * desc->v.stride_s * bytes;
    args.cu_seqlens_q = pair->cu_q;
    args.cu_seqlens_kv = pair->cu_kv;
    args.seqused_q = pair->used_q;
    args.seqused_kv = pair->used_kv;
    return args;
}

static void ring_forward(ring_t *ring, const ring_pair_t *pair)
{
    float *o = ring->o_part + ring->parts * ring->o_count;
    float *lse = ring->lse_part + ring->parts * ring->lse_count;
    for (int64_t n = 0; n < ring->lse_count; n++) {
        lse[n] = -(float)INFINITY; // rows that this pair does not write
    }
    attn_forward_args_t args = ring_args(ring, pair);
    args.o = o + pair->q_row * pair->desc.o.stride_s;
    args.lse = lse + pair->q_row * pair->desc.lse_stride_s;
    case_run_plan(&pair->desc, ATTN_FORWARD, &args);
    ring->parts++;
}

static void ring_merge(ring_t *ring)
{
    attn_merge_desc_t desc;
    attn_merge_desc_init(&desc, ATTN_F32);
    desc.backend = ATTN_BACKEND_CPU;
    desc.parts = ring->parts;
    desc.batch = 1;
    desc.s_q = ring->rows_q;
    desc.heads_q = ring->p->full.heads_q;
    desc.d_v = ring->p->full.d_v;
    assert_ok(attn_merge(NULL, &desc, ring->o_part, ring->lse_part, operand_data(&ring->sum.o),
                         operand_data(&ring->sum.lse), NULL));
}

static void add_into(operand_t *sum, const operand_t *part)
{
    for (int64_t n = 0; n < sum->count; n++) {
        ((float *)(void *)sum->buffer.data)[n] +=
            ((const float *)(const void *)part->buffer.data)[n];
    }
}

static void ring_backward(ring_t *ring, const ring_pair_t *pair)
{
    const attn_desc_t *desc = &pair->desc;
    const attn_desc_t full = with_fp32_results(&ring->p->full);
    results_t part = results_create(ring->p, &full);
    operand_set_all(&part.dq, 0.0);
    operand_set_all(&part.dk, 0.0);
    operand_set_all(&part.dv, 0.0);
    attn_backward_args_t args;
    attn_backward_args_init(&args);
    args.in = ring_args(ring, pair);
    args.in.o = (float *)operand_data(&ring->sum.o) + pair->q_row * desc->o.stride_s;
    args.in.lse = (float *)operand_data(&ring->sum.lse) + pair->q_row * desc->lse_stride_s;
    args.do_ = (float *)operand_data(&ring->do_) + pair->q_row * desc->do_.stride_s;
    args.dq = (float *)operand_data(&part.dq) + pair->q_row * desc->dq.stride_s;
    args.dk = (float *)operand_data(&part.dk) + pair->kv_row * desc->dk.stride_s;
    args.dv = (float *)operand_data(&part.dv) + pair->kv_row * desc->dv.stride_s;
    case_run_plan(desc, ATTN_BACKWARD, &args);
    add_into(&ring->sum.dq, &part.dq);
    add_into(&ring->sum.dk, &part.dk);
    add_into(&ring->sum.dv, &part.dv);
    results_destroy(&part);
}

static void ring_holds(ring_t *ring, const char *what, int64_t count)
{
    char why[1024];
    if (!problem_truth(ring->p, why, sizeof(why)) ||
        !problem_judge(ring->p, &ring->sum, why, sizeof(why))) {
        fail_msg("%s, %lld chunks: %s", what, (long long)count, why);
    }
}

static void c055_chunks_of_keys_are_as_good_as_one_call(void **state)
{
    (void)state;
    const int64_t s_kv = 1024;
    const int64_t counts[] = {1, 4, 8, 64};
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 32, s_kv, 2, 2, 128);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 55, .backward = true));
    char why[1024];
    assert_true(problem_truth(p, why, sizeof(why)));
    double single_error = 0.0;
    for (int64_t n = 0; n < COUNT_OF(counts); n++) {
        ring_t ring = ring_create(p, counts[n]);
        ring_pair_t pair = {.desc = with_fp32_results(&p->full)};
        pair.desc.s_kv = s_kv / counts[n];
        for (int64_t chunk = 0; chunk < counts[n]; chunk++) {
            pair.kv_row = chunk * pair.desc.s_kv;
            ring_forward(&ring, &pair);
        }
        ring_merge(&ring);
        for (int64_t chunk = 0; chunk < counts[n]; chunk++) {
            pair.kv_row = chunk * pair.desc.s_kv;
            ring_backward(&ring, &pair);
        }
        ring_holds(&ring, "chunks of keys", counts[n]);
        const double error = case_distance(&ring.sum.o, &p->truth.o);
        single_error = n == 0 ? error : single_error;
        assert_true(error <= single_error + 1e-5);
        ring_destroy(&ring);
    }
    case_holds(p);
}

// Chunk `c` of four of every padded sequence: lists for a call whose pointers start at its first
// row.
static int64_t c031_chunk(const int32_t padded[7], const int32_t lens[6], int64_t c, int32_t cu[7],
                          int32_t used[6])
{
    const int32_t first = (int32_t)c * (padded[1] - padded[0]) / 4;
    for (int64_t b = 0; b < 6; b++) {
        const int32_t rows = (padded[b + 1] - padded[b]) / 4;
        const int32_t begin = (int32_t)c * rows;
        cu[b] = padded[b] + begin - first;
        used[b] = lens[b] - begin < 0 ? 0 : lens[b] - begin < rows ? lens[b] - begin : rows;
    }
    cu[6] = padded[6] - first;
    return first;
}

static void c031_chunks_that_hold_padding_only(void **state)
{
    (void)state;
    const int32_t padded[] = {0, 12, 20, 28, 40, 48, 60};
    const int32_t lens[] = {9, 8, 8, 12, 8, 12};
    attn_desc_t desc = case_desc(ATTN_BF16, 6, 1, 1, 2, 2, 64);
    case_pack_q(&desc, padded, 6);
    case_pack_kv(&desc, padded, 6);
    desc.causal = 1;
    desc.has_seqused_q = desc.has_seqused_kv = 1;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 31, .backward = true,
                                                 .cu_seqlens_q = padded, .cu_seqlens_kv = padded,
                                                 .seqused_q = lens, .seqused_kv = lens));
    case_replace_nans(&p->do_, 0.0);
    ring_t ring = ring_create(p, 16);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t chunk_q = 0; chunk_q < 4; chunk_q++) {
            for (int64_t chunk_kv = 0; chunk_kv <= chunk_q; chunk_kv++) {
                int32_t cu_q[7];
                int32_t cu_kv[7];
                int32_t used_q[6];
                int32_t used_kv[6];
                ring_pair_t pair = {.desc = with_fp32_results(&p->full),
                                    .cu_q = cu_q,
                                    .cu_kv = cu_kv,
                                    .used_q = used_q,
                                    .used_kv = used_kv};
                pair.q_row = c031_chunk(padded, lens, chunk_q, cu_q, used_q);
                pair.kv_row = c031_chunk(padded, lens, chunk_kv, cu_kv, used_kv);
                pair.desc.causal = chunk_q == chunk_kv;
                pair.desc.window_right = chunk_q == chunk_kv ? 0 : -1;
                pair.desc.s_q = pair.desc.s_kv = 14;
                pair.desc.total_q = cu_q[6];
                pair.desc.total_kv = cu_kv[6];
                if (pass == 0) {
                    ring_forward(&ring, &pair);
                } else {
                    ring_backward(&ring, &pair);
                }
            }
        }
        if (pass == 0) {
            ring_merge(&ring);
        }
    }
    case_all_finite(&ring.sum.dk);
    ring_holds(&ring, "padded sequences in", 4);
    ring_destroy(&ring);
    case_holds(p);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c031_chunks_that_hold_padding_only),
    cmocka_unit_test(c055_chunks_of_keys_are_as_good_as_one_call),
};

int main(int argc, char **argv)
{
    return case_main("cases_ring", TESTS, COUNT_OF(TESTS), argc, argv);
}
