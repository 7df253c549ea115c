// Arguments of a run: missing and superfluous pointers, arrays out of range, workspaces. Whatever
// is wrong, no output is written.
#include "support.h"

#include <stdlib.h>

enum { BATCH = 2, S_Q = 3, S_KV = 6, HEADS = 2, DIM = 4, PAGE = 4, BLOCK = 2 };
enum { LISTS = BATCH * HEADS * 2, PER_ROW = 3 };

// A run with everything that a test may break.
typedef struct run {
    attn_desc_t desc;
    attn_plan_t *plan;
    attn_backward_args_t back;
    attn_forward_args_t args;
    float q[BATCH * S_Q * HEADS * DIM];
    float kv[BATCH * 8 * HEADS * DIM];
    float o[BATCH * S_Q * HEADS * DIM];
    float lse[BATCH * S_Q * HEADS];
    int32_t cu_q[BATCH + 1];
    int32_t cu_kv[BATCH + 1];
    int32_t used_q[BATCH];
    int32_t used_kv[BATCH];
    int32_t leftpad[BATCH];
    int32_t entry[BATCH];
    int32_t table[BATCH * 2];
    int32_t count[LISTS];
    int32_t index[LISTS * PER_ROW];
    void *workspace;
    size_t workspace_bytes;
} run_t;

static void run_prepare(run_t *run)
{
    memset(run, 0, sizeof(*run));
    attn_desc_init(&run->desc, ATTN_F32);
    attn_desc_set_shape(&run->desc, BATCH, S_Q, S_KV, HEADS, HEADS, DIM);
    attn_forward_args_init(&run->args);
    run->args.q = run->q;
    run->args.k = run->kv;
    run->args.v = run->kv;
    run->args.o = run->o;
    for (size_t i = 0; i < sizeof(run->o) / sizeof(run->o[0]); i++) {
        run->o[i] = 77.0f;
    }
}

static void run_plan(run_t *run, attn_op_t op)
{
    assert_ok(attn_plan_create(NULL, &run->desc, op, &run->plan));
    run->workspace_bytes = attn_plan_workspace_bytes(run->plan);
    run->workspace = malloc(run->workspace_bytes + 1);
    assert_non_null(run->workspace);
}

static attn_status_t run_forward(run_t *run)
{
    return attn_forward(run->plan, &run->args, run->workspace, run->workspace_bytes, NULL);
}

static void run_finish(run_t *run)
{
    attn_plan_destroy(run->plan);
    free(run->workspace);
}

static void assert_nothing_written(const run_t *run)
{
    for (size_t i = 0; i < sizeof(run->o) / sizeof(run->o[0]); i++) {
        assert_true(run->o[i] == 77.0f);
    }
}

static void assert_refused(run_t *run, const char *text)
{
    assert_fails(run_forward(run), ATTN_INVALID_ARGUMENT, text);
    assert_nothing_written(run);
}

// ---------------------------------------------------------------------------------------------
// Pointers

static void missing_pointers_are_named(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run_plan(&run, ATTN_FORWARD);
    const void **const inputs[] = {&run.args.q, &run.args.k, &run.args.v};
    const char *const names[] = {"q: NULL", "k: NULL", "v: NULL"};
    for (int i = 0; i < 3; i++) {
        const void *kept = *inputs[i];
        *inputs[i] = NULL;
        assert_refused(&run, names[i]);
        *inputs[i] = kept;
    }
    run.args.o = NULL;
    assert_fails(run_forward(&run), ATTN_INVALID_ARGUMENT, "o: NULL");
    run.args.o = run.o;
    assert_ok(run_forward(&run));
    run_finish(&run);
}

// Each pointer that the descriptor does not ask for, given all the same.
static void superfluous_pointers_are_named(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        const char *name;
    } pointers[] = {
#define POINTER(name) {offsetof(attn_forward_args_t, name), #name ": given, expected NULL"}
        POINTER(lse),         POINTER(cu_seqlens_q), POINTER(cu_seqlens_kv), POINTER(seqused_q),
        POINTER(seqused_kv),  POINTER(leftpad_kv),   POINTER(kv_batch_idx),  POINTER(page_table),
        POINTER(mask),        POINTER(bias),         POINTER(alibi_slopes),  POINTER(sink),
        POINTER(block_count), POINTER(block_index),  POINTER(dropout_state), POINTER(q_descale),
        POINTER(k_descale),   POINTER(v_descale),
#undef POINTER
    };
    run_t run;
    run_prepare(&run);
    run_plan(&run, ATTN_FORWARD);
    const void *given = run.q;
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        const attn_forward_args_t kept = run.args;
        memcpy((unsigned char *)&run.args + pointers[i].offset, &given, sizeof(given));
        assert_refused(&run, pointers[i].name);
        run.args = kept;
    }
    run_finish(&run);
}

// Each option without its pointer.
static void options_ask_for_their_pointers(void **state)
{
    (void)state;
    static const char *const names[] = {
        "lse: NULL, but desc.wants_lse",
        "cu_seqlens_q: NULL",
        "cu_seqlens_kv: NULL",
        "seqused_q: NULL",
        "seqused_kv: NULL",
        "leftpad_kv: NULL",
        "kv_batch_idx: NULL",
        "page_table: NULL",
        "mask: NULL",
        "bias: NULL",
        "alibi_slopes: NULL",
        "sink: NULL",
        "block_count: NULL",
        "dropout_state: NULL",
    };
    for (int option = 0; option < 14; option++) {
        run_t run;
        run_prepare(&run);
        attn_desc_t *d = &run.desc;
        int32_t *const flags[] = {
            &d->wants_lse,      &d->varlen_q,       &d->varlen_kv,        &d->has_seqused_q,
            &d->has_seqused_kv, &d->has_leftpad_kv, &d->has_kv_batch_idx, &d->paged_kv,
            &d->mask.present,   &d->bias.present,   &d->has_alibi,        &d->has_sink,
            &d->block_sparse,
        };
        if (option < 13) {
            *flags[option] = 1;
        } else {
            d->dropout_p = 0.25f;
        }
        d->total_q = BATCH * S_Q;
        d->total_kv = BATCH * S_KV;
        d->kv_batch = BATCH;
        d->page_size = PAGE;
        d->num_pages = 4;
        d->pages_per_seq = 2;
        d->block_q = d->block_kv = BLOCK;
        d->blocks_per_row = PER_ROW;
        run_plan(&run, ATTN_FORWARD);
        assert_refused(&run, names[option]);
        run_finish(&run);
    }
}

static void nothing_to_point_at(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    attn_desc_set_shape(&run.desc, 0, S_Q, S_KV, HEADS, HEADS, DIM);
    run.desc.wants_lse = 1;
    run.desc.has_seqused_kv = 1;
    run_plan(&run, ATTN_FORWARD);
    attn_forward_args_init(&run.args);
    assert_ok(run_forward(&run));
    run_finish(&run);
    // No keys: K and V have no elements, o does.
    run_prepare(&run);
    run.desc.s_kv = 0;
    run_plan(&run, ATTN_FORWARD);
    run.args.k = run.args.v = NULL;
    assert_ok(run_forward(&run));
    assert_true(run.o[0] == 0.0f);
    run_finish(&run);
}

// ---------------------------------------------------------------------------------------------
// Plan, workspace, structs

static void plans_and_workspaces(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run_plan(&run, ATTN_FORWARD);
    assert_fails(attn_forward(NULL, &run.args, NULL, 0, NULL), ATTN_INVALID_ARGUMENT, "plan: NULL");
    assert_fails(attn_forward(run.plan, NULL, run.workspace, run.workspace_bytes, NULL),
                 ATTN_INVALID_ARGUMENT, "args: NULL");
    assert_fails(attn_forward(run.plan, &run.args, run.workspace, run.workspace_bytes, &run),
                 ATTN_INVALID_ARGUMENT, "stream: given");
    attn_backward_args_t back;
    attn_backward_args_init(&back);
    assert_fails(attn_backward(run.plan, &back, NULL, 0, NULL), ATTN_INVALID_ARGUMENT,
                 "plan: made for the forward pass");
    run.args.struct_size = 0;
    assert_refused(&run, "args.struct_size: 0");
    run_finish(&run);
}

// Bytes around a workspace that starts at any address stay as they are.
static void workspace_of_any_alignment(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run.desc.num_splits = 1;
    run_plan(&run, ATTN_FORWARD);
    const size_t bytes = run.workspace_bytes;
    assert_true(bytes > 0);
    if (bytes > 0) {
        assert_fails(attn_forward(run.plan, &run.args, run.workspace, bytes - 1, NULL),
                     ATTN_WORKSPACE_TOO_SMALL, "workspace_bytes: ");
        assert_fails(attn_forward(run.plan, &run.args, NULL, bytes, NULL), ATTN_INVALID_ARGUMENT,
                     "workspace: NULL");
    }
    assert_nothing_written(&run);
    for (size_t misalign = 0; misalign < 64; misalign += 7) {
        guard_buffer_t buffer = guard_buffer_create(bytes, misalign);
        assert_ok(attn_forward(run.plan, &run.args, buffer.data, bytes, NULL));
        assert_true(guard_buffer_intact(&buffer));
        guard_buffer_destroy(&buffer);
    }
    run_finish(&run);
}

static void backward_needs_its_pointers(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run.desc.has_sink = 1;
    run.desc.wants_dsink = 1;
    run.desc.has_dlse = 1;
    run_plan(&run, ATTN_BACKWARD);
    attn_backward_args_t back;
    attn_backward_args_init(&back);
    run.args.sink = run.q;
    back.in = run.args;
    float dsink[HEADS];
#define BACKWARD() attn_backward(run.plan, &back, run.workspace, run.workspace_bytes, NULL)
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "lse: NULL, but the backward pass");
    back.in.lse = run.lse;
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "do_: NULL");
    back.do_ = run.q;
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "dlse: NULL");
    back.dlse = run.lse;
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "dsink: NULL");
    back.dsink = dsink;
    assert_ok(BACKWARD()); // dq, dk and dv are not wanted
    back.dbias = run.kv;
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "dbias: given");
    back.dbias = NULL;
    back.in.struct_size = 4;
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "args.in.struct_size: 4");
    back.in.struct_size = sizeof(back) + 8;
    assert_fails(BACKWARD(), ATTN_INVALID_ARGUMENT, "args.in.struct_size: ");
#undef BACKWARD
    run_finish(&run);
}

// ---------------------------------------------------------------------------------------------
// Arrays

static void packed_lengths(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run.desc.varlen_q = 1;
    run.desc.total_q = 5;
    run.desc.varlen_kv = 1;
    run.desc.total_kv = 12;
    run_plan(&run, ATTN_FORWARD);
    run.args.cu_seqlens_q = run.cu_q;
    run.args.cu_seqlens_kv = run.cu_kv;
    const int32_t good_q[] = {0, 2, 5};
    memcpy(run.cu_q, good_q, sizeof(good_q));
    const int32_t good_kv[] = {0, 6, 6};
    memcpy(run.cu_kv, good_kv, sizeof(good_kv));
    run.cu_q[0] = 1;
    assert_refused(&run, "cu_seqlens_q[0]: 1, expected 0");
    run.cu_q[0] = 0;
    run.cu_q[1] = 4;
    assert_refused(&run, "cu_seqlens_q: sequence 0 has 4 rows, the descriptor allows 3");
    run.cu_q[1] = 2;
    run.cu_q[2] = 1;
    assert_refused(&run, "cu_seqlens_q[2]: 1, expected >= 2");
    run.cu_q[1] = 3;
    run.cu_q[2] = 6;
    assert_refused(&run, "cu_seqlens_q[2]: 6, more than the pack's 5 rows");
    run.cu_q[2] = 5;
    run.cu_kv[1] = INT32_MIN;
    assert_refused(&run, "cu_seqlens_kv[1]: -2147483648");
    run.cu_kv[1] = 6;
    assert_ok(run_forward(&run));
    run_finish(&run);
}

static void lengths_in_use(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run.desc.has_seqused_q = run.desc.has_seqused_kv = run.desc.has_leftpad_kv = 1;
    run.desc.has_kv_batch_idx = 1;
    run.desc.kv_batch = 1;
    run_plan(&run, ATTN_FORWARD);
    run.args.seqused_q = run.used_q;
    run.args.seqused_kv = run.used_kv;
    run.args.leftpad_kv = run.leftpad;
    run.args.kv_batch_idx = run.entry;
    run.used_q[1] = 4;
    assert_refused(&run, "seqused_q[1]: 4, expected 0 .. 3");
    run.used_q[1] = -1;
    assert_refused(&run, "seqused_q[1]: -1");
    run.used_q[1] = 3;
    run.used_kv[0] = 7;
    assert_refused(&run, "seqused_kv[0]: 7, expected 0 .. 6");
    run.used_kv[0] = 2;
    run.leftpad[0] = 3;
    assert_refused(&run, "leftpad_kv[0]: 3, expected 0 .. 2");
    run.leftpad[0] = 2;
    run.entry[1] = 1;
    assert_refused(&run, "kv_batch_idx[1]: 1, expected 0 .. 0");
    run.entry[1] = INT32_MIN;
    assert_refused(&run, "kv_batch_idx[1]: -2147483648");
    run.entry[1] = 0;
    assert_ok(run_forward(&run));
    run_finish(&run);
}

static void page_tables(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run.desc.paged_kv = 1;
    run.desc.page_size = PAGE;
    run.desc.num_pages = 4;
    run.desc.pages_per_seq = 2;
    run.desc.has_seqused_kv = 1;
    run_plan(&run, ATTN_FORWARD);
    run.args.page_table = run.table;
    run.args.seqused_kv = run.used_kv;
    run.used_kv[0] = 4;
    run.used_kv[1] = 5;
    const int32_t table[] = {3, -1, 0, 4}; // the -1 is behind the keys in use
    memcpy(run.table, table, sizeof(table));
    assert_refused(&run, "page_table[1][1]: 4, expected a page below num_pages (4)");
    run.table[3] = INT32_MIN;
    assert_refused(&run, "page_table[1][1]: -2147483648");
    run.table[3] = 3;
    assert_ok(run_forward(&run));
    run_finish(&run);
}

static void block_lists(void **state)
{
    (void)state;
    run_t run;
    run_prepare(&run);
    run.desc.block_sparse = 1;
    run.desc.block_q = run.desc.block_kv = BLOCK;
    run.desc.blocks_per_row = PER_ROW;
    run_plan(&run, ATTN_FORWARD);
    run.args.block_count = run.count;
    run.args.block_index = run.index;
    run.count[LISTS - 1] = PER_ROW + 1;
    assert_refused(&run, "block_count[1][1][1]: 4, expected 0 .. blocks_per_row (3)");
    run.count[LISTS - 1] = -1;
    assert_refused(&run, "block_count[1][1][1]: -1");
    run.count[LISTS - 1] = 2;
    int32_t *list = run.index + (LISTS - 1) * PER_ROW;
    list[0] = 1;
    list[1] = 1;
    assert_refused(&run, "block_index[1][1][1][1]: 1, expected ascending blocks below 3");
    list[1] = 3;
    assert_refused(&run, "block_index[1][1][1][1]: 3");
    list[0] = -1;
    assert_refused(&run, "block_index[1][1][1][0]: -1");
    list[0] = 0;
    list[1] = 2;
    assert_ok(run_forward(&run));
    run_finish(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_pointers_are_named),
        cmocka_unit_test(superfluous_pointers_are_named),
        cmocka_unit_test(options_ask_for_their_pointers),
        cmocka_unit_test(nothing_to_point_at),
        cmocka_unit_test(plans_and_workspaces),
        cmocka_unit_test(workspace_of_any_alignment),
        cmocka_unit_test(backward_needs_its_pointers),
        cmocka_unit_test(packed_lengths),
        cmocka_unit_test(lengths_in_use),
        cmocka_unit_test(page_tables),
        cmocka_unit_test(block_lists),
    };
    return cmocka_run_group_tests_name("api_args", tests, NULL, NULL);
}
