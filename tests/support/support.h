// What tests include. Typical use:
//
//   attn_desc_t desc;
//   attn_desc_init(&desc, ATTN_BF16);
//   attn_desc_set_shape(&desc, 1, 129, 64, 4, 2, 40);   // batch, s_q, s_kv, heads_q, heads_kv, d
//   desc.causal = 1;
//   desc.wants_lse = 1;
//   problem_t *p = problem_create(&desc, &(problem_options_t){.seed = 7, .backward = true});
//   assert_problem_holds(p);          // every instruction set, against the fp64 reference
//   problem_destroy(p);
//
// For exact expectations: operand_set(&p->v, b, s, h, d, value) before the first run, then
//
//   results_t r = assert_problem_runs(p, &(runner_t){.backend = ATTN_BACKEND_CPU});
//   assert_true(operand_get(&r.o, 0, 4, 0, 0) == 1.5);
//   results_destroy(&r);
//
// A backward problem needs wants_lse = 1 in the descriptor: the gradients read the lse.
#ifndef ATTN_TEST_SUPPORT_H
#define ATTN_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "attn.h"
#include "guard_buffer.h"
#include "operand.h"
#include "test_number.h"
#include "test_problem.h"
#include "test_rng.h"

// Fails the test with the element, its values and the tolerance if any instruction set is wrong.
static inline void assert_problem_holds(problem_t *problem)
{
    char why[1024];
    if (!problem_holds(problem, why, sizeof(why))) {
        fail_msg("%s", why);
    }
}

static inline void assert_problem_holds_on(problem_t *problem, const runner_t *runner)
{
    char why[1024];
    if (!problem_holds_on(problem, runner, why, sizeof(why))) {
        fail_msg("%s", why);
    }
}

static inline results_t assert_problem_runs(const problem_t *problem, const runner_t *runner)
{
    char why[1024];
    results_t results;
    if (problem_run(problem, runner, &results, why, sizeof(why)) != ATTN_OK) {
        fail_msg("%s", why);
    }
    return results;
}

// A call that must succeed; prints the library's reason otherwise.
static inline void assert_ok(attn_status_t status)
{
    if (status != ATTN_OK) {
        fail_msg("%s: %s", attn_status_string(status), attn_last_error());
    }
}

// A call that must fail with this status and a reason that contains the text.
static inline void assert_fails(attn_status_t status, attn_status_t expected, const char *text)
{
    if (status != expected || strstr(attn_last_error(), text) == NULL) {
        fail_msg("expected '%s' with '%s', got '%s': %s", attn_status_string(expected), text,
                 attn_status_string(status), attn_last_error());
    }
}

#endif
