// Random problems with all options at once, on every instruction set of this machine, forward and
// backward, against the fp64 reference. A failing draw is made as simple as it stays failing, and
// printed with the line that runs it again.
//
//   test_property [--tiled] [COUNT [SEED [FIRST]]]    draws FIRST .. FIRST + COUNT - 1 of a seed
//
// --tiled draws problems of several tiles, of the kind that a GPU has kernels for, instead of small
// ones of every kind.
// COUNT, SEED and FIRST can also come from ATTN_PROPERTY_COUNT, _SEED and _FIRST.
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#include "random_problem.h"

#define FAILURES_SHOWN 5

typedef struct sweep {
    random_problem_t (*draw)(uint64_t seed, uint64_t index);
    const char *option; // that asks for this kind of draws
    uint64_t count;
    uint64_t seed;
    uint64_t first;
} sweep_t;

static sweep_t sweep = {
    .draw = random_problem_draw, .option = "", .count = 500, .seed = 1, .first = 0};
static uint64_t problems_run; // by a kernel

static bool holds(const random_problem_t *r, char *why, size_t bytes)
{
    problem_t *p = problem_create(&r->desc, &r->options);
    runner_t runners[ATTN_ISA_COUNT];
    if (problem_wants_gpu() && !problem_has_gpu_kernel(p, ATTN_BACKWARD)) {
        p->options.backward = false;
    }
    const int count = problem_runners(p, runners);
    problems_run += count > 0;
    bool all = true;
    for (int n = 0; n < count && all; n++) {
        runners[n].workers = r->workers;
        all = problem_holds_on(p, &runners[n], why, bytes);
    }
    problem_destroy(p);
    return all;
}

// A problem that the library refuses fails too, but in another way than the one looked for.
static bool is_refusal(const char *why)
{
    return strstr(why, "no plan") != NULL || strstr(why, "invalid argument") != NULL;
}

static void shrink(random_problem_t *r, char *why, size_t bytes)
{
    const bool started_refused = is_refusal(why);
    bool simpler = true;
    for (int round = 0; round < 12 && simpler; round++) {
        simpler = false;
        for (int step = 0;; step++) {
            random_problem_t next = *r;
            char next_why[1024];
            if (!random_problem_simplify(&next, step)) {
                break;
            }
            if (memcmp(&next, r, sizeof(next)) != 0 && !holds(&next, next_why, sizeof(next_why)) &&
                is_refusal(next_why) == started_refused) {
                *r = next;
                snprintf(why, bytes, "%s", next_why);
                simpler = true;
            }
        }
    }
}

static void show(const random_problem_t *drawn, const char *why, uint64_t index)
{
    random_problem_t simple = *drawn;
    char simple_why[1024];
    char text[2048];
    snprintf(simple_why, sizeof(simple_why), "%s", why);
    random_problem_describe(drawn, text, sizeof(text));
    printf("FAILED draw %llu: %s\n  problem:  %s\n", (unsigned long long)index, why, text);
    shrink(&simple, simple_why, sizeof(simple_why));
    random_problem_describe(&simple, text, sizeof(text));
    printf("  simplest: %s\n  of it:    %s\n  rerun: tests/test_property %s1 %llu %llu\n", text,
           simple_why, sweep.option, (unsigned long long)sweep.seed, (unsigned long long)index);
    fflush(stdout);
}

static void test_random_problems(void **state)
{
    (void)state;
    int failures = 0;
    printf("seed %llu, draws %llu .. %llu\n", (unsigned long long)sweep.seed,
           (unsigned long long)sweep.first, (unsigned long long)(sweep.first + sweep.count - 1));
    for (uint64_t n = 0; n < sweep.count && failures < FAILURES_SHOWN; n++) {
        const random_problem_t drawn = sweep.draw(sweep.seed, sweep.first + n);
        char why[1024];
        if (!holds(&drawn, why, sizeof(why))) {
            failures++;
            show(&drawn, why, sweep.first + n);
        }
    }
    if (failures > 0) {
        fail_msg("%d draws failed (stopped at %d)", failures, FAILURES_SHOWN);
    }
    // A GPU that refuses what its kernels are made for must not pass for one that is right.
    if (sweep.draw == random_tiled_draw) {
        assert_true(2 * problems_run > sweep.count);
    }
}

static uint64_t number(const char *text, const char *variable, uint64_t otherwise)
{
    const char *value = text != NULL ? text : getenv(variable);
    return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--tiled") == 0) {
        sweep.draw = random_tiled_draw;
        sweep.option = "--tiled ";
        argc--;
        argv++;
    }
    sweep.count = number(argc > 1 ? argv[1] : NULL, "ATTN_PROPERTY_COUNT", sweep.count);
    sweep.seed = number(argc > 2 ? argv[2] : NULL, "ATTN_PROPERTY_SEED", sweep.seed);
    sweep.first = number(argc > 3 ? argv[3] : NULL, "ATTN_PROPERTY_FIRST", sweep.first);
    if (problem_wants_missing_gpu()) {
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
