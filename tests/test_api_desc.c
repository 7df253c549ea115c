// Descriptors: each rule of attn.h broken once, with the text that names the field, its value and
// what is expected; struct sizes of other headers; automatic strides; outputs that overlap
// themselves.
#include "support.h"

#include <math.h>

#include "core/desc.h"

// ---------------------------------------------------------------------------------------------
// One broken rule each

typedef struct broken_rule {
    void (*breaks)(attn_desc_t *desc);
    attn_op_t op;
    attn_status_t status;
    const char *text;
} broken_rule_t;

// RULE(name, what it does to a good descriptor): a function that breaks one rule.
#define RULE(name, ...)                                                                            \
    static void name(attn_desc_t *d)                                                               \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

RULE(backend_unknown, d->backend = (attn_backend_t)9)
RULE(backend_cuda, d->backend = ATTN_BACKEND_CUDA)
RULE(device_negative, d->device_index = -1)
RULE(device_on_cpu, d->device_index = 2)
RULE(batch_negative, d->batch = -1)
RULE(batch_huge, d->batch = INT64_C(1) << 31)
RULE(s_q_negative, d->s_q = -3)
RULE(s_kv_huge, d->s_kv = (INT64_C(1) << 40) + 1)
RULE(heads_zero, d->heads_q = 0)
RULE(heads_kv_zero, d->heads_kv = 0)
RULE(heads_ratio, d->heads_q = 6; d->heads_kv = 4)
RULE(d_zero, d->d_qk = 0)
RULE(d_huge, d->d_v = 65537)
RULE(product_huge, d->batch = INT32_MAX; d->s_q = INT64_C(1) << 40)
RULE(flag_garbage, d->varlen_q = 2)
RULE(total_negative, d->varlen_q = 1; d->total_q = -1)
RULE(paged_packed, d->paged_kv = 1; d->varlen_kv = 1; d->page_size = 1)
RULE(paged_entries, d->paged_kv = 1; d->has_kv_batch_idx = 1; d->page_size = 1)
RULE(packed_entries, d->varlen_kv = 1; d->has_kv_batch_idx = 1)
RULE(page_size_zero, d->paged_kv = 1; d->pages_per_seq = 9)
RULE(pages_short, d->paged_kv = 1; d->page_size = 2; d->pages_per_seq = 3; d->num_pages = 5)
RULE(kv_batch_negative, d->has_kv_batch_idx = 1; d->kv_batch = -1)
RULE(paged, d->paged_kv = 1; d->page_size = 4; d->pages_per_seq = 2; d->num_pages = 5)
RULE(entries, d->has_kv_batch_idx = 1; d->kv_batch = 1)
RULE(q_dtype_unknown, d->q.dtype = (attn_dtype_t)6)
RULE(k_dtype, d->q.dtype = ATTN_BF16)
RULE(v_dtype, d->v.dtype = ATTN_F16)
RULE(o_dtype, d->o.dtype = ATTN_F16)
RULE(wide_k, d->q.dtype = ATTN_F8_E4M3)
RULE(f64, d->q.dtype = d->k.dtype = d->v.dtype = d->o.dtype = ATTN_F64)
RULE(fp8, d->q.dtype = d->k.dtype = d->v.dtype = ATTN_F8_E4M3)
RULE(do_dtype, d->do_.dtype = ATTN_F16)
RULE(dk_dtype, d->dk.dtype = ATTN_BF16)
RULE(o_stride_zero, d->o.stride_h = 0)
RULE(dq_stride_zero, d->dq.stride_s = 0)
RULE(lse_stride_zero, d->wants_lse = 1; d->lse_stride_s = 0)
RULE(o_strides_collide, d->o.stride_s = 16; d->o.stride_h = 16)
RULE(q_stride_huge, d->q.stride_s = INT64_C(1) << 62)
RULE(q_strides_add_up, d->q.stride_s = INT64_MAX / 8; d->q.stride_b = INT64_MAX / 2)
RULE(q_bytes_overflow, d->q.stride_s = INT64_MAX / 8; d->q.stride_b = 1)
RULE(wants_lse_garbage, d->wants_lse = -1)
RULE(causal_garbage, d->causal = 3)
RULE(align_unknown, d->align = (attn_align_t)2)
RULE(window_left_negative, d->window_left = -3)
RULE(window_right_negative, d->window_right = -2)
RULE(bias_dtype, d->bias.present = 1; d->bias.dtype = ATTN_F64)
RULE(dbias_alone, d->dbias.present = 1)
RULE(dbias_dtype, d->bias.present = d->dbias.present = 1; d->dbias.dtype = ATTN_F16)
RULE(dbias_overlap, d->bias.present = d->dbias.present = 1; d->dbias.stride_q = 1)
RULE(mask_stride, d->mask.present = 1; d->mask.stride_q = INT64_MAX / 2)
RULE(alibi_stride, d->has_alibi = 1; d->alibi_stride_b = INT64_MAX / 2)
RULE(block_q_zero, d->block_sparse = 1; d->block_kv = 4)
RULE(block_kv_zero, d->block_sparse = 1; d->block_q = 4)
RULE(blocks_negative, d->block_sparse = 1; d->block_q = d->block_kv = 4; d->blocks_per_row = -1)
RULE(blocks_huge, d->block_sparse = 1; d->block_q = d->block_kv = 4;
     d->blocks_per_row = INT64_C(1) << 40; d->block_stride_h = INT64_C(1) << 40)
RULE(scale_inf, d->scale = INFINITY)
RULE(softcap_negative, d->softcap = -1.0f)
RULE(softcap_nan, d->softcap = NAN)
RULE(softcap_inf, d->softcap = INFINITY)
RULE(dropout_one, d->dropout_p = 1.0f)
RULE(dropout_negative, d->dropout_p = -0.5f)
RULE(dropout_nan, d->dropout_p = NAN)
RULE(descale_wide, d->k_descale.present = 1)
RULE(descale_rows, fp8(d); d->q_descale.present = 1; d->q_descale.rows = 0)
RULE(dsink_alone, d->wants_dsink = 1)
RULE(splits_negative, d->num_splits = -1)
RULE(invariant_garbage, d->batch_invariant = 5)

#define FWD ATTN_FORWARD
#define BWD ATTN_BACKWARD
#define INVALID ATTN_INVALID_ARGUMENT

static const broken_rule_t rules[] = {
    {backend_unknown, FWD, INVALID, "backend: 9"},
    {backend_cuda, FWD, ATTN_NO_DEVICE, "backend: cuda"},
    {device_negative, FWD, INVALID, "device_index: -1, expected >= 0"},
    {device_on_cpu, FWD, INVALID, "device_index: 2, expected 0"},
    {batch_negative, FWD, INVALID, "batch: -1, expected >= 0"},
    {batch_huge, FWD, INVALID, "batch: 2147483648, expected <= 2147483647"},
    {s_q_negative, FWD, INVALID, "s_q: -3, expected >= 0"},
    {s_kv_huge, FWD, INVALID, "s_kv: 1099511627777, expected <= 1099511627776"},
    {heads_zero, FWD, INVALID, "heads_q: 0, expected >= 1"},
    {heads_kv_zero, FWD, INVALID, "heads_kv: 0, expected >= 1"},
    {heads_ratio, FWD, INVALID, "heads_q: 6, expected a multiple of heads_kv (4)"},
    {d_zero, FWD, INVALID, "d_qk: 0, expected >= 1"},
    {d_huge, FWD, INVALID, "d_v: 65537, expected <= 65536"},
    {product_huge, FWD, INVALID, "expected a product below 2^56"},
    {flag_garbage, FWD, INVALID, "varlen_q: 2, expected 0 or 1"},
    {total_negative, FWD, INVALID, "total_q: -1"},
    {paged_packed, FWD, INVALID, "paged_kv: 1, expected 0 with varlen_kv"},
    {paged_entries, FWD, INVALID, "paged_kv: 1, expected 0 with has_kv_batch_idx"},
    {packed_entries, FWD, INVALID, "has_kv_batch_idx: 1, expected 0 with varlen_kv"},
    {page_size_zero, FWD, INVALID, "page_size: 0, expected >= 1"},
    {pages_short, FWD, INVALID, "s_kv: 7, expected <= page_size * pages_per_seq (2 * 3)"},
    {kv_batch_negative, FWD, INVALID, "kv_batch: -1"},
    {paged, BWD, ATTN_UNSUPPORTED, "paged_kv: 1, the backward pass"},
    {entries, BWD, ATTN_UNSUPPORTED, "has_kv_batch_idx: 1, the backward pass"},
    {q_dtype_unknown, FWD, INVALID, "q.dtype: 6"},
    {k_dtype, FWD, INVALID, "k.dtype: f32, expected bf16 like q"},
    {v_dtype, FWD, INVALID, "v.dtype: f16, expected f32 like q"},
    {o_dtype, FWD, INVALID, "o.dtype: f16, expected f32 like q"},
    {wide_k, FWD, INVALID, "k.dtype: f32, expected e4m3 or e5m2 like q"},
    {f64, FWD, ATTN_UNSUPPORTED, "q.dtype: f64, only ATTN_BACKEND_REFERENCE"},
    {fp8, BWD, ATTN_UNSUPPORTED, "q.dtype: e4m3, the backward pass"},
    {do_dtype, BWD, INVALID, "do_.dtype: f16, expected f32 like o"},
    {dk_dtype, BWD, INVALID, "dk.dtype: bf16, expected f32 like k"},
    {o_stride_zero, FWD, INVALID, "o: stride 0 over 4 elements"},
    {dq_stride_zero, BWD, INVALID, "dq: stride 0 over 5 elements"},
    {lse_stride_zero, FWD, INVALID, "lse: stride 0 over 5 elements"},
    {o_strides_collide, FWD, INVALID, "o: strides 16 (size 4) and 16 (size 5)"},
    {q_stride_huge, FWD, INVALID, "q: size 5 with stride 4611686018427387904"},
    {q_strides_add_up, FWD, INVALID, "q: its strides reach offsets"},
    {q_bytes_overflow, FWD, INVALID, "q: its strides reach offsets"},
    {wants_lse_garbage, FWD, INVALID, "wants_lse: -1"},
    {causal_garbage, FWD, INVALID, "causal: 3"},
    {align_unknown, FWD, INVALID, "align: 2"},
    {window_left_negative, FWD, INVALID, "window_left: -3, expected >= -1"},
    {window_right_negative, FWD, INVALID, "window_right: -2, expected >= -1"},
    {bias_dtype, FWD, INVALID, "bias.dtype: f64, expected f32, f16 or bf16"},
    {dbias_alone, BWD, INVALID, "dbias.present: 1, expected 0 without a bias"},
    {dbias_dtype, BWD, INVALID, "dbias.dtype: f16, expected f32"},
    {dbias_overlap, BWD, INVALID, "dbias: strides 1 (size 7) and 1 (size 5)"},
    {mask_stride, FWD, INVALID, "mask: size 5 with stride"},
    {alibi_stride, FWD, INVALID, "alibi_slopes: "},
    {block_q_zero, FWD, INVALID, "block_q: 0, expected >= 1"},
    {block_kv_zero, FWD, INVALID, "block_kv: 0, expected >= 1"},
    {blocks_negative, FWD, INVALID, "blocks_per_row: -1"},
    {blocks_huge, FWD, INVALID, "block_index: its strides"},
    {scale_inf, FWD, INVALID, "scale: inf"},
    {softcap_negative, FWD, INVALID, "softcap: -1"},
    {softcap_nan, FWD, INVALID, "softcap: "},
    {softcap_inf, FWD, INVALID, "softcap: inf"},
    {dropout_one, FWD, INVALID, "dropout_p: 1, expected 0 <= p < 1"},
    {dropout_negative, FWD, INVALID, "dropout_p: -0.5"},
    {dropout_nan, FWD, INVALID, "dropout_p: "},
    {descale_wide, FWD, INVALID, "k_descale.present: 1, expected 0: k is f32"},
    {descale_rows, FWD, INVALID, "q_descale.rows: 0, expected >= 1"},
    {dsink_alone, BWD, INVALID, "wants_dsink: 1, expected 0 without a sink"},
    {splits_negative, FWD, INVALID, "num_splits: -1"},
    {invariant_garbage, FWD, INVALID, "batch_invariant: 5"},
};

static attn_desc_t good_desc(void)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 2, 5, 7, 4, 2, 8);
    return desc;
}

static void every_rule_has_its_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        attn_desc_t desc = good_desc();
        rules[i].breaks(&desc);
        attn_plan_t *plan = (attn_plan_t *)&desc;
        assert_fails(attn_plan_create(NULL, &desc, rules[i].op, &plan), rules[i].status,
                     rules[i].text);
        assert_null(plan);
        assert_fails(attn_supports(NULL, &desc, rules[i].op), rules[i].status, rules[i].text);
    }
}

static void good_ones_pass(void **state)
{
    (void)state;
    const attn_desc_t desc = good_desc();
    assert_ok(attn_supports(NULL, &desc, FWD));
    assert_ok(attn_supports(NULL, &desc, BWD));
    assert_fails(attn_supports(NULL, &desc, (attn_op_t)2), INVALID, "op: 2");
    assert_fails(attn_supports(NULL, NULL, FWD), INVALID, "desc: NULL");
    assert_fails(attn_plan_create(NULL, &desc, FWD, NULL), INVALID, "plan_out: NULL");
    attn_desc_init(NULL, ATTN_F32);
    attn_desc_set_shape(NULL, 1, 1, 1, 1, 1, 1);
    assert_fails(attn_desc_set_bhsd(NULL), INVALID, "desc: NULL");
}

// A forward plan looks at nothing that belongs to the backward pass alone.
static void forward_ignores_gradients(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    desc.dq.stride_s = 0;
    desc.do_.dtype = ATTN_F16;
    desc.wants_dsink = 1;
    desc.dbias.present = 1;
    assert_ok(attn_supports(NULL, &desc, FWD));
}

// ---------------------------------------------------------------------------------------------
// Struct sizes

static void shorter_structs_get_defaults(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    desc.struct_size = offsetof(attn_desc_t, num_splits);
    desc.num_splits = -77; // behind the end that the caller states: not looked at
    desc.batch_invariant = 9;
    assert_ok(attn_supports(NULL, &desc, FWD));
    desc.struct_size = sizeof(size_t);
    assert_fails(attn_supports(NULL, &desc, FWD), INVALID, "desc.struct_size: 8");
    desc.struct_size = SIZE_MAX;
    assert_fails(attn_supports(NULL, &desc, FWD), INVALID, "desc.struct_size: ");
}

static void longer_structs_must_be_zero_behind(void **state)
{
    (void)state;
    struct {
        attn_desc_t desc;
        int64_t later[2];
    } newer = {good_desc(), {0, 0}};
    newer.desc.struct_size = sizeof(newer);
    assert_ok(attn_supports(NULL, &newer.desc, FWD));
    newer.later[1] = 1;
    assert_fails(attn_supports(NULL, &newer.desc, FWD), ATTN_UNSUPPORTED,
                 "desc: sets a field at byte");
}

// The library fills as much as the caller's header knows, and nothing behind it.
static void initialisers_keep_to_the_callers_size(void **state)
{
    (void)state;
    union {
        attn_desc_t desc;
        unsigned char bytes[sizeof(attn_desc_t) + 64];
    } room;
    const size_t sizes[] = {offsetof(attn_desc_t, num_splits), sizeof(attn_desc_t),
                            sizeof(attn_desc_t) + 32};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(&room, 0xee, sizeof(room));
        attn_desc_init_sized(&room.desc, sizes[i], ATTN_BF16);
        assert_int_equal(room.desc.struct_size, sizes[i]);
        assert_int_equal(room.desc.window_left, -1);
        for (size_t at = sizeof(attn_desc_t); at < sizes[i]; at++) {
            assert_int_equal(room.bytes[at], 0);
        }
        for (size_t at = sizes[i]; at < sizeof(room); at++) {
            assert_int_equal(room.bytes[at], 0xee);
        }
    }
    memset(&room, 0xee, sizeof(room));
    attn_desc_init_sized(&room.desc, 4, ATTN_BF16); // too short for anything
    assert_int_equal(room.bytes[0], 0xee);
}

static void bhsd_keeps_a_short_struct(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    desc.struct_size = offsetof(attn_desc_t, num_splits);
    desc.num_splits = -77;
    assert_ok(attn_desc_set_bhsd(&desc));
    assert_int_equal(desc.num_splits, -77);
    assert_int_equal(desc.struct_size, offsetof(attn_desc_t, num_splits));
    assert_int_equal(desc.q.stride_s, 8);
    assert_int_equal(desc.k.stride_h, 7 * 8);
    assert_int_equal(desc.dv.stride_b, 2 * 7 * 8);
    attn_desc_t bad = good_desc();
    bad.heads_q = 0;
    assert_fails(attn_desc_set_bhsd(&bad), INVALID, "heads_q: 0");
}

// ---------------------------------------------------------------------------------------------
// Strides

static void assert_strides(attn_tensor_t t, int64_t b, int64_t s, int64_t h, int64_t d)
{
    assert_int_equal(t.stride_b, b);
    assert_int_equal(t.stride_s, s);
    assert_int_equal(t.stride_h, h);
    assert_int_equal(t.stride_d, d);
}

static void automatic_strides_are_dense(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    desc.d_v = 3;
    desc.wants_lse = 1;
    desc.has_alibi = 1;
    desc.alibi_stride_b = ATTN_STRIDE_AUTO;
    attn_desc_t full;
    assert_ok(attn_desc_check(&desc, BWD, &full));
    assert_strides(full.q, 5 * 4 * 8, 4 * 8, 8, 1);
    assert_strides(full.k, 7 * 2 * 8, 2 * 8, 8, 1);
    assert_strides(full.dv, 7 * 2 * 3, 2 * 3, 3, 1);
    assert_strides(full.do_, 5 * 4 * 3, 4 * 3, 3, 1);
    assert_int_equal(full.lse_stride_s, 1);
    assert_int_equal(full.lse_stride_h, 5);
    assert_int_equal(full.lse_stride_b, 20);
    assert_int_equal(full.alibi_stride_b, 4);
}

static void automatic_strides_of_packs_and_pages(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    desc.varlen_q = 1;
    desc.total_q = 9;
    desc.paged_kv = 1;
    desc.page_size = 16;
    desc.num_pages = 3;
    desc.pages_per_seq = 1;
    desc.wants_lse = 1;
    attn_desc_t full;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_strides(full.q, 0, 4 * 8, 8, 1);
    assert_strides(full.k, 16 * 2 * 8, 2 * 8, 8, 1);
    assert_int_equal(full.lse_stride_h, 9);
    assert_int_equal(full.lse_stride_b, 0);
    assert_int_equal(full.page_table_stride_b, 1);
}

// AUTO packs around what is given; a broadcast dimension takes no room.
static void automatic_strides_mix_with_given(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    desc.q.stride_h = 10;
    desc.k.stride_h = 0;
    desc.mask.present = 1;
    desc.mask.stride_h = 0;
    desc.mask.stride_q = 0;
    attn_desc_t full;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_strides(full.q, 5 * 40, 40, 10, 1);
    assert_strides(full.k, 7 * 8, 8, 0, 1);
    assert_int_equal(full.mask.stride_k, 1);
    assert_int_equal(full.mask.stride_b, 7);
}

// Every set of broadcast dims: the others are dense, as if the broadcast ones had size 1.
static void automatic_strides_of_broadcast_masks(void **state)
{
    (void)state;
    const int64_t sizes[4] = {7, 5, 4, 2}; // s_kv, s_q, heads_q, batch
    for (int broadcast = 0; broadcast < 16; broadcast++) {
        attn_desc_t desc = good_desc();
        attn_mask_tensor_t *const tensors[] = {&desc.mask, &desc.bias};
        for (int t = 0; t < 2; t++) {
            int64_t *const strides[4] = {&tensors[t]->stride_k, &tensors[t]->stride_q,
                                         &tensors[t]->stride_h, &tensors[t]->stride_b};
            tensors[t]->present = 1;
            for (int dim = 0; dim < 4; dim++) {
                *strides[dim] = broadcast >> dim & 1 ? 0 : ATTN_STRIDE_AUTO;
            }
        }
        attn_desc_t full;
        assert_ok(attn_desc_check(&desc, FWD, &full));
        int64_t expected[4];
        int64_t inside = 1;
        for (int dim = 0; dim < 4; dim++) {
            const int is_stored = !(broadcast >> dim & 1);
            expected[dim] = is_stored ? inside : 0;
            inside *= is_stored ? sizes[dim] : 1;
        }
        const attn_mask_tensor_t *const got[] = {&full.mask, &full.bias};
        for (int t = 0; t < 2; t++) {
            assert_int_equal(got[t]->stride_k, expected[0]);
            assert_int_equal(got[t]->stride_q, expected[1]);
            assert_int_equal(got[t]->stride_h, expected[2]);
            assert_int_equal(got[t]->stride_b, expected[3]);
        }
    }
}

static void any_strides_without_collisions_pass(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    assert_ok(attn_desc_set_bhsd(&desc));
    assert_ok(attn_supports(NULL, &desc, BWD));
    // Negative, interleaved, and stride 0 where there is one element.
    desc.o.stride_s = -desc.o.stride_s;
    desc.batch = 1;
    desc.o.stride_b = 0;
    desc.q.stride_d = 0;
    desc.k.stride_b = desc.k.stride_s = desc.k.stride_h = desc.k.stride_d = 0;
    assert_ok(attn_supports(NULL, &desc, FWD));
    // d 2, heads 3: 0 2 4 and 3 5 7 do not meet, though the ranges interleave.
    attn_desc_t odd;
    attn_desc_init(&odd, ATTN_F32);
    attn_desc_set_shape(&odd, 1, 1, 1, 3, 3, 2);
    odd.o.stride_h = 2;
    odd.o.stride_d = 3;
    assert_ok(attn_supports(NULL, &odd, FWD));
    odd.heads_q = odd.heads_kv = 4; // now 6 = 2 * 3 is reached from both
    odd.d_qk = odd.d_v = 3;
    assert_fails(attn_supports(NULL, &odd, FWD), INVALID, "o: strides 3 (size 3) and 2 (size 4)");
}

// 3 * 1 + 1 * 2 = 1 * 5: no two dimensions meet alone, but there are more elements than places.
static void more_elements_than_places(void **state)
{
    (void)state;
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 2, 2, 1, 2, 1, 2);
    desc.o.stride_d = 1;
    desc.o.stride_h = 2;
    desc.o.stride_s = 3;
    desc.o.stride_b = 5;
    assert_fails(attn_supports(NULL, &desc, FWD), INVALID, "o: more elements than its strides");
}

// ---------------------------------------------------------------------------------------------
// What the backends get

static void windows_fold(void **state)
{
    (void)state;
    attn_desc_t full;
    attn_desc_t desc = good_desc(); // s_q 5, s_kv 7
    desc.causal = 1;
    desc.window_right = 3;
    desc.window_left = 5;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_int_equal(full.window_right, 0);
    assert_int_equal(full.causal, 0);
    assert_int_equal(full.window_left, 5);
    desc.window_left = 6; // reaches key 0 from the last row
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_int_equal(full.window_left, -1);
    desc.window_left = INT64_MAX;
    desc.causal = 0;
    desc.window_right = 4; // the first row reaches the last key
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_int_equal(full.window_left, -1);
    assert_int_equal(full.window_right, -1);
    desc.align = ATTN_ALIGN_TOP_LEFT;
    desc.window_left = 4;
    desc.window_right = 5;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_int_equal(full.window_left, -1);
    assert_int_equal(full.window_right, 5);
    desc.s_q = 1; // a decode step: causal hides nothing
    desc.align = ATTN_ALIGN_BOTTOM_RIGHT;
    desc.causal = 1;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_int_equal(full.window_right, -1);
}

// A pack bounds its sequences: what is cut by s_q and s_kv does not grow with a generous bound.
static void packs_tighten_the_lengths(void **state)
{
    (void)state;
    attn_desc_t full;
    attn_desc_t desc = good_desc();
    desc.s_q = desc.s_kv = INT64_C(1) << 40;
    desc.varlen_q = desc.varlen_kv = 1;
    desc.total_q = 9;
    desc.total_kv = 11;
    desc.bias.present = 1;
    desc.bias.stride_h = desc.bias.stride_b = 0;
    desc.bias.stride_q = 5;
    assert_ok(attn_desc_check(&desc, BWD, &full));
    assert_int_equal(full.s_q, 9);
    assert_int_equal(full.s_kv, 11);
    desc.s_q = desc.s_kv = 100;
    desc.bias.stride_q = ATTN_STRIDE_AUTO;
    assert_ok(attn_desc_check(&desc, BWD, &full));
    assert_int_equal(full.s_q, 9);
    assert_int_equal(full.bias.stride_q, 100);
    desc.dbias.present = 1; // has 100 rows of 100 keys, and all of them are written
    assert_ok(attn_desc_check(&desc, BWD, &full));
    assert_int_equal(full.s_q, 100);
    assert_int_equal(full.s_kv, 100);
    desc.s_q = desc.s_kv = 8;
    desc.dbias.present = 0;
    assert_ok(attn_desc_check(&desc, BWD, &full));
    assert_int_equal(full.s_q, 8);
    assert_int_equal(full.s_kv, 8);
}

static void scale_has_its_default(void **state)
{
    (void)state;
    attn_desc_t full;
    attn_desc_t desc = good_desc();
    desc.d_qk = 16;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_true(full.scale == 0.25f);
    desc.scale = -2.0f;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_true(full.scale == -2.0f);
    desc.scale = 0.0f;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    assert_true(full.scale == 0.0f);
}

// Sizes at the limits: sums and products are checked, not wrapped.
static void limits_are_legal_or_refused(void **state)
{
    (void)state;
    attn_desc_t desc = good_desc();
    attn_desc_set_shape(&desc, 1, INT64_C(1) << 40, INT64_C(1) << 40, 1, 1, 1);
    attn_desc_t full;
    assert_ok(attn_desc_check(&desc, FWD, &full));
    attn_desc_set_shape(&desc, 0, 0, 0, INT32_MAX, 1, 65536);
    assert_ok(attn_desc_check(&desc, FWD, &full));
    attn_desc_set_shape(&desc, INT32_MAX, 1, 1, 65536, 1, 65536);
    assert_fails(attn_desc_check(&desc, FWD, &full), INVALID, "q: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_its_text),
        cmocka_unit_test(good_ones_pass),
        cmocka_unit_test(forward_ignores_gradients),
        cmocka_unit_test(shorter_structs_get_defaults),
        cmocka_unit_test(longer_structs_must_be_zero_behind),
        cmocka_unit_test(initialisers_keep_to_the_callers_size),
        cmocka_unit_test(bhsd_keeps_a_short_struct),
        cmocka_unit_test(automatic_strides_are_dense),
        cmocka_unit_test(automatic_strides_of_packs_and_pages),
        cmocka_unit_test(automatic_strides_mix_with_given),
        cmocka_unit_test(automatic_strides_of_broadcast_masks),
        cmocka_unit_test(any_strides_without_collisions_pass),
        cmocka_unit_test(more_elements_than_places),
        cmocka_unit_test(windows_fold),
        cmocka_unit_test(packs_tighten_the_lengths),
        cmocka_unit_test(scale_has_its_default),
        cmocka_unit_test(limits_are_legal_or_refused),
    };
    return cmocka_run_group_tests_name("api_desc", tests, NULL, NULL);
}
