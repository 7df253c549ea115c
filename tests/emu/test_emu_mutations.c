// Does the emulator notice? Every synchronisation call of a kernel of the ladder is deleted in
// turn, and known mistakes are seeded: each must be reported, in words that name it, or stand on
// the list of those that do no harm, with the reason. Compiled once for each level; the lists are
// in mutation_lists.h.
#include "mutate.h"

#include "ladder_kernel.h"

#if LEVEL % 2 == 0 && LEVEL < 6
#include "gemm_fixture.h"
#else
#include "attention_fixture.h"
#endif
#include "mutation_lists.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef EMU_GEMM_FIXTURE_H

// Steps of k for the ring to turn over twice, ragged ends.
static const struct gemm_case CASE = {.m = 100, .n = 130, .k = 600};
static struct gemm_data data;

static bool numbers_are_right(void)
{
    return gemm_is_right(&CASE, &data);
}

#define subject_case gemm_case
#define subject_make gemm_make
#define subject_free gemm_free
#define subject_launch gemm_launch

#else

// Enough key blocks for the rings to turn over twice, ragged ends, a mask.
static const struct attention_case CASE = {.b = 1, .h = 1, .s_q = 140, .s_kv = 450, .causal = 1};
static struct attention_data data;

static bool numbers_are_right(void)
{
    double out_error;
    double lse_error;
    fixture_errors(&CASE, &data, &out_error, &lse_error);
    return out_error <= 4.0 / 256.0 && lse_error <= 1e-5;
}

#define subject_case attention_case
#define subject_make fixture_make
#define subject_free fixture_free
#define subject_launch fixture_launch

#endif

static const struct {
    emu_async async;
    uint32_t seed;
    uint32_t lag;
} SCHEDULES[] = {{EMU_LATE, 0, 0},   {EMU_EARLY, 0, 0},  {EMU_RANDOM, 7, 40},
                 {EMU_RANDOM, 0, 0}, {EMU_LATE, 3, 40},  {EMU_EARLY, 3, 40},
                 {EMU_RANDOM, 3, 0}, {EMU_LATE, 7, 100}, {EMU_EARLY, 7, 100}};
// A deletion is tried in some, a seeded bug must be found in all.
enum { SCHEDULE_COUNT = sizeof SCHEDULES / sizeof SCHEDULES[0], DELETION_SCHEDULES = 3 };

static emu_status run(int schedule, emu_check check, struct emu_result *result)
{
    struct subject_case c = CASE;
    c.async = SCHEDULES[schedule].async;
    c.seed = SCHEDULES[schedule].seed;
    c.lag = SCHEDULES[schedule].lag;
    c.check = check;
    return subject_launch(&c, &data, result);
}

static int set_up(void **state)
{
    (void)state;
    data = subject_make(&CASE);
    struct emu_result result;
    place_recording = true;
    emu_status status = run(0, EMU_CHECK_STRICT, &result);
    place_recording = false;
    return status == EMU_OK && numbers_are_right() && place_count > 10 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    subject_free(&data);
    return 0;
}

static bool is_listed(const struct place *place)
{
    for (int i = 0; HARMLESS[i].function; i++) {
        if (strcmp(HARMLESS[i].function, place->function) == 0 &&
            strcmp(HARMLESS[i].text, place->text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_caught(void)
{
    for (int schedule = 0; schedule < DELETION_SCHEDULES; schedule++) {
        struct emu_result result;
        if (run(schedule, EMU_CHECK_STRICT, &result) != EMU_OK || !numbers_are_right()) {
            return true;
        }
    }
    return false;
}

static void test_every_deletion_is_caught(void **state)
{
    (void)state;
    int wrong = 0;
    int survivors = 0;
    for (int i = 0; i < place_count; i++) {
        if (places[i].is_operand) {
            continue;
        }
        mutant.active = true;
        mutant.kind = DELETE;
        mutant.place = places[i];
        bool caught = is_caught();
        survivors += !caught;
        if (caught == is_listed(&places[i])) {
            print_error("%s in %s (line %d, key 0x%x): %s\n", places[i].text, places[i].function,
                        places[i].line, places[i].key,
                        caught ? "is caught, but listed as harmless" : "is not caught");
            wrong++;
        }
    }
    mutant.active = false;
    print_message("%d calls deleted in turn, %d not noticed and listed\n", place_count, survivors);
    assert_int_equal(wrong, 0);
}

static const struct place *find_place(const struct seeded_bug *bug)
{
    int skip = bug->skip;
    for (int i = 0; i < place_count; i++) {
        if (strcmp(places[i].function, bug->function) == 0 &&
            strcmp(places[i].text, bug->text) == 0 && skip-- == 0) {
            return &places[i];
        }
    }
    fail_msg("no call %s in %s", bug->text, bug->function);
    return NULL;
}

// The checker judges order, not luck: every schedule reports the bug. The words are those of the
// first.
static void test_seeded_bugs(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < BUG_COUNT; i++) {
        mutant.active = true;
        mutant.kind = BUGS[i].kind;
        mutant.delta = BUGS[i].delta;
        mutant.place = *find_place(&BUGS[i]);
        for (int schedule = 0; schedule < SCHEDULE_COUNT; schedule++) {
            struct emu_result result;
            emu_status status = run(schedule, EMU_CHECK_STRICT, &result);
            bool is_found = BUGS[i].message ? status != EMU_OK : !numbers_are_right();
            if (!is_found ||
                (schedule == 0 && BUGS[i].message && !strstr(result.text, BUGS[i].message))) {
                print_error("%s in %s, schedule %d: status %d, '%s'\n", BUGS[i].text,
                            BUGS[i].function, schedule, (int)status, result.text);
                wrong++;
            }
        }
    }
    mutant.active = false;
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_deletion_is_caught),
                                       cmocka_unit_test(test_seeded_bugs)};
    return cmocka_run_group_tests_name("emu_mutations", tests, set_up, tear_down);
}
