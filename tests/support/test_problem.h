// A whole attention problem for a test: from an attn_desc_t, every operand in guarded memory,
// filled with seeded random data, and an own statement of which keys a row sees.
//
// Layout of this folder: test_problem.c allocates, problem_fill.c fills, problem_mask.c says what
// is visible, problem_run.c calls the library, eager.c is the plain low-precision implementation
// that sets the tolerance, judge.c compares.
#ifndef ATTN_TEST_PROBLEM_H
#define ATTN_TEST_PROBLEM_H

#include <stdbool.h>

#include "attn.h"
#include "operand.h"
#include "test_rng.h"

typedef enum problem_fill {
    FILL_NORMAL = 0,       // N(0, 1)
    FILL_NEGATIVE_LSE = 1, // all scores near -120: exp(0 - lse) overflows fp32
    FILL_CORRELATED = 2,   // scores of standard deviation 30: the maximum moves far while keys pass
    FILL_ONES = 3,         // q = k = v = do = 1
    FILL_ZERO_Q = 4,       // q = 0: equal weights
} problem_fill_t;

typedef struct problem_options {
    uint64_t seed;
    problem_fill_t fill;
    bool backward;            // also run and judge the gradients
    bool no_nan_unseen;       // elements that nothing sees hold large numbers instead of NaN
    int visible_nans;         // so many elements that are seen become NaN
    bool no_dq, no_dk, no_dv; // results that are not asked for
    int64_t misalign;         // elements by which every pointer misses 64-byte alignment
    // Arrays of the run; NULL: drawn at random within what the descriptor allows.
    const int32_t *cu_seqlens_q, *cu_seqlens_kv, *seqused_q, *seqused_kv, *leftpad_kv;
    const int32_t *kv_batch_idx, *page_table, *block_count, *block_index;
    // Values of the mask (is the key visible?) and the bias; NULL: random.
    bool (*mask)(void *user, int64_t b, int64_t h, int64_t i, int64_t j);
    double (*bias)(void *user, int64_t b, int64_t h, int64_t i, int64_t j);
    void *user;
} problem_options_t;

// Results of a run. Not-used ones have no memory.
typedef struct results {
    attn_backend_t backend; // that made them
    operand_t o, lse, dq, dk, dv, dsink, dbias;
} results_t;

// Largest sums of absolute terms in each result: what rounding errors are relative to.
typedef struct magnitudes {
    double score;
    double o, lse, dq, dk, dv, dsink, dbias;
} magnitudes_t;

typedef struct problem {
    attn_desc_t desc; // as the library gets it, with ATTN_STRIDE_AUTO where the test left it
    attn_desc_t full; // resolved
    problem_options_t options;
    test_rng_t rng;
    operand_t q, k, v, do_, dlse;
    operand_t mask, bias, alibi, sink, q_descale, k_descale, v_descale;
    guard_buffer_t cu_seqlens_q, cu_seqlens_kv, seqused_q, seqused_kv, leftpad_kv, kv_batch_idx;
    guard_buffer_t page_table, block_count, block_index; // int32
    guard_buffer_t dropout_state;                        // uint64 (2)
    // Made when first needed, by problem_truth().
    bool has_truth;
    results_t truth; // fp64
    results_t eager; // plain implementation in the problem's precision
    magnitudes_t magnitudes;
} problem_t;

// Aborts without memory or with a descriptor that makes no sense (negative lengths). May change
// nothing of desc; the lists in the options are copied.
problem_t *problem_create(const attn_desc_t *desc, const problem_options_t *options);
void problem_destroy(problem_t *problem);

// The descriptor with strides, scale and windows resolved by the rules of attn.h.
attn_desc_t problem_resolve(const attn_desc_t *desc);

// ---- One sequence
typedef struct problem_sequence {
    int64_t q_b, q_row;   // where its first query row is in q, o, ... (in lse: q_b, h, q_row)
    int64_t kv_b, kv_row; // the same in k, v; not for pages
    int64_t rows_q, rows_kv;
    int64_t len_q, len_kv; // in use
    int64_t leftpad;
    int64_t offset;
} problem_sequence_t;
problem_sequence_t problem_sequence(const problem_t *problem, int64_t b);
// Where key j lies: indexes b and s of k and v.
void problem_locate_key(const problem_t *problem, int64_t b, int64_t j, int64_t *kv_b_out,
                        int64_t *kv_s_out);
bool problem_visible(const problem_t *problem, int64_t b, int64_t h, int64_t i, int64_t j);
// Factor 0, or 1/keep, or 1 without dropout.
double problem_dropout(const problem_t *problem, int64_t b, int64_t h, int64_t i, int64_t j);
bool problem_row_sees_any(const problem_t *problem, int64_t b, int64_t h, int64_t i);
bool problem_key_is_seen(const problem_t *problem, int64_t b, int64_t h_kv, int64_t j);

// The parts of problem_create in problem_fill.c.
void problem_fill_lists(problem_t *problem);
void problem_fill_values(problem_t *problem);

// ---- Results in the layout and dtypes of a descriptor
results_t results_create(const problem_t *problem, const attn_desc_t *full);
void results_destroy(results_t *results);

// ---- Running
typedef struct runner {
    attn_backend_t backend;
    attn_isa_t isa;
    int32_t workers; // 0: default
    attn_parallel_for_fn parallel_for;
    void *parallel_for_user;
} runner_t;

// Forward, and backward if the options say so, into fresh results. On failure results_out is empty
// and why_out has the reason (also for damaged guards, unwritten elements).
attn_status_t problem_run(const problem_t *problem, const runner_t *runner, results_t *results_out,
                          char *why_out, size_t why_bytes);
// The same with plans that exist already; backward may be NULL.
attn_status_t problem_run_plans(const problem_t *problem, const attn_plan_t *forward,
                                const attn_plan_t *backward, const attn_desc_t *full,
                                results_t *results_out, char *why_out, size_t why_bytes);
attn_context_t *runner_context(const runner_t *runner);
// What a run is given: the problem's operands and where the results lie.
attn_forward_args_t problem_forward_args(const problem_t *problem, const results_t *results);
attn_backward_args_t problem_backward_args(const problem_t *problem, const results_t *results);

// ---- Judging: fp64 reference, tolerance 2 x (gradients 3 x) the error of the plain implementation
// + rounding. true if all is right; else why_out says which element of which result is wrong.
bool problem_judge(problem_t *problem, const results_t *results, char *why_out, size_t why_bytes);
// Runs and judges one runner, or all of problem_runners; a GPU that can do only the forward pass
// is judged on that.
bool problem_holds_on(problem_t *problem, const runner_t *runner, char *why_out, size_t why_bytes);
bool problem_holds(problem_t *problem, char *why_out, size_t why_bytes);
// The instruction sets of this machine, lowest first; returns how many.
int problem_isas(attn_isa_t isas_out[ATTN_ISA_COUNT]);
// What a problem is to be judged on: every instruction set of the CPU; with ATTN_TEST_GPU=1 in the
// environment the first GPU instead, or nothing where it has no kernel for the problem.
int problem_runners(const problem_t *problem, runner_t runners_out[ATTN_ISA_COUNT]);
bool problem_wants_gpu(void);
// Says so if there is none: such a test is skipped.
bool problem_wants_missing_gpu(void);
bool problem_has_gpu_kernel(const problem_t *problem, attn_op_t op);

// Makes truth, eager and magnitudes. Needs the inputs final. false: the reference refused.
bool problem_truth(problem_t *problem, char *why_out, size_t why_bytes);
void eager_run(problem_t *problem);

#endif
