// case_kit.h: what the case tests share beside tests/support: one line for the usual problem, runs
// on every instruction set with an exact expectation, and a main that takes the name of one test.
#ifndef ATTN_TESTS_CASE_KIT_H
#define ATTN_TESTS_CASE_KIT_H

#include "support.h"

#include <math.h>

// The options of problem_create in place: OPTIONS(.seed = 7, .backward = true).
#define OPTIONS(...)                                                                               \
    &(problem_options_t)                                                                           \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define COUNT_OF(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

// A descriptor for the CPU with wants_lse, everything else as attn_desc_init leaves it.
attn_desc_t case_desc(attn_dtype_t dtype, int64_t batch, int64_t s_q, int64_t s_kv, int64_t heads_q,
                      int64_t heads_kv, int64_t d);
// Makes q and o, or k and v, packed: sets the flag, the batch, the total and the longest length.
void case_pack_q(attn_desc_t *desc, const int32_t *cu_seqlens, int64_t batch);
void case_pack_kv(attn_desc_t *desc, const int32_t *cu_seqlens, int64_t batch);
// Pages for batch sequences of s_kv rows, with none to spare.
void case_page_kv(attn_desc_t *desc, int64_t page_size);

// Judges a problem against the fp64 reference on every instruction set, and frees it.
void case_holds(problem_t *problem);
// The same on the best instruction set only: for sizes that are not cheap.
void case_holds_on_best(problem_t *problem);
// problem_create and case_holds of a descriptor in one.
void case_desc_holds(const attn_desc_t *desc, const problem_options_t *options);

// Runs on every instruction set and on the reference backend; check sees each result.
typedef void (*case_check_fn)(const problem_t *problem, const results_t *results);
void case_run_everywhere(const problem_t *problem, case_check_fn check);
// One run on the best instruction set. The caller destroys the results.
results_t case_run(const problem_t *problem);
// One run on the best instruction set, also where the tests are to use the GPU: to be compared with
// what a test runs by hand.
results_t case_run_on_cpu(const problem_t *problem);
// One run on the best instruction set with another descriptor over the same data (same operands).
results_t case_run_as(const problem_t *problem, const attn_desc_t *desc);

// Plans and runs the caller's own arguments, an attn_forward_args_t or attn_backward_args_t.
void case_run_plan(const attn_desc_t *desc, attn_op_t op, const void *args);

// x[j] = j in every dim, for every key j of every sequence; other rows stay.
void case_count_up(problem_t *problem, operand_t *x);
// Every element reached by an index: base + deviation * N(0, 1), with a stream of its own.
void case_set_normal(operand_t *x, uint64_t seed, double base, double deviation);

// Sets all dims of a row. Copies all heads and dims of a row between operands of one width.
void case_set_row(operand_t *x, int64_t b, int64_t s, int64_t h, double value);
void case_copy_row(operand_t *to, int64_t to_b, int64_t to_s, const operand_t *from, int64_t from_b,
                   int64_t from_s);
// Turns every NaN of an operand, also in what nothing sees, into value.
void case_replace_nans(operand_t *x, double value);
// The list in a guard buffer, to be spoilt.
int32_t *case_list(guard_buffer_t *list);

// All dims of a row. tolerance 0: exactly.
void case_row_is(const operand_t *x, int64_t b, int64_t s, int64_t h, double value,
                 double tolerance);
// Every element is value within tolerance; case_all_finite: neither NaN nor infinite.
void case_all_are(const operand_t *x, double value, double tolerance);
void case_all_finite(const operand_t *x);
void case_lse_is(const results_t *results, int64_t b, int64_t h, int64_t s, double value,
                 double tolerance);
// o exactly 0, lse -inf, and dq exactly 0 if there is one.
void case_row_is_empty(const results_t *results, int64_t b, int64_t s, int64_t h);
void case_same_bits(const operand_t *x, const operand_t *y);
// Whether both ran on a GPU, or both on the CPU; where the GPU has a kernel for one of them only,
// there is nothing to compare.
bool case_is_comparable(const results_t *x, const results_t *y);
// Of what is comparable.
void case_same_result_bits(const results_t *x, const results_t *y);
// The same bits on the CPU. A GPU computes the rows that see a NaN in a tile in another order.
void case_same_results(const results_t *x, const results_t *y);
// Largest |x - y| over all elements; NaN if one is NaN where the other is not.
double case_distance(const operand_t *x, const operand_t *y);

// The run is refused with ATTN_INVALID_ARGUMENT and a reason that contains the text, and writes
// nothing.
void case_run_refused(const problem_t *problem, const char *text);
// The plan is refused with this status and a reason that contains the text.
void case_refused(const attn_desc_t *desc, attn_op_t op, attn_status_t status, const char *text);

// Ends the program with SIGALRM if the test is not done in time: for hangs. 0 switches it off.
// Longer under sanitizers.
void case_watchdog(unsigned seconds);

// Runs the tests whose name matches argv[1] (without it all, but not slow ones; "slow": these
// alone), and prints how to rerun a failed one.
int case_main(const char *group, const struct CMUnitTest *tests, int64_t count, int argc,
              char **argv);
int case_main_tiers(const char *group, const struct CMUnitTest *tests, int64_t count,
                    const struct CMUnitTest *slow_tests, int64_t slow_count, int argc, char **argv);

#endif
