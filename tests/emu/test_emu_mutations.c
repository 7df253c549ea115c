// Does the emulator notice? Every synchronisation call of a kernel is deleted in turn, and known
// mistakes are seeded: each must be reported, in words that name it, or stand on the list of those
// that do no harm, with the reason. Compiled once for each level of the ladder and for some
// configurations of the Hopper forward; the lists are in mutation_lists.h.
#include <stdio.h>

#include "mutation_subject.h"

#include "mutation_lists.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct schedule SCHEDULES[] = {
    {EMU_LATE, 0, 0},   {EMU_EARLY, 0, 0},  {EMU_RANDOM, 7, 40},
    {EMU_RANDOM, 0, 0}, {EMU_LATE, 3, 40},  {EMU_EARLY, 3, 40},
    {EMU_RANDOM, 3, 0}, {EMU_LATE, 7, 100}, {EMU_EARLY, 7, 100}};
// A deletion is tried in some, a seeded bug must be found in all.
enum { SCHEDULE_COUNT = sizeof SCHEDULES / sizeof SCHEDULES[0], DELETION_SCHEDULES = 3 };

static int set_up(void **state)
{
    (void)state;
    subject_make();
    struct emu_result result;
    place_recording = true;
    emu_status status = subject_run(&SCHEDULES[0], &result);
    place_recording = false;
    return status == EMU_OK && subject_is_right() && place_count > 10 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    subject_free();
    return 0;
}

static bool is_call(const struct place *place, const char *function, const char *text)
{
    return strcmp(place->function, function) == 0 && strcmp(place->text, text) == 0;
}

// Calls of the same text in the same function on earlier lines.
static int calls_before(const struct place *place)
{
    int count = 0;
    int line = 0; // of the last one counted
    for (int next = 0; next < place->line; line = next) {
        next = place->line;
        for (int i = 0; i < place_count; i++) {
            if (is_call(&places[i], place->function, place->text) && places[i].line > line &&
                places[i].line < next) {
                next = places[i].line;
            }
        }
        count += next < place->line;
    }
    return count;
}

static bool is_listed(const struct place *place)
{
    for (int i = 0; HARMLESS[i].function; i++) {
        if (is_call(place, HARMLESS[i].function, HARMLESS[i].text) &&
            calls_before(place) == HARMLESS[i].skip) {
            return true;
        }
    }
    return false;
}

static bool is_caught(void)
{
    for (int schedule = 0; schedule < DELETION_SCHEDULES; schedule++) {
        struct emu_result result;
        if (subject_run(&SCHEDULES[schedule], &result) != EMU_OK || !subject_is_right()) {
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
            print_error("%s in %s (%s:%d, key 0x%x): %s\n", places[i].text, places[i].function,
                        places[i].file, places[i].line, places[i].key,
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
    for (int i = 0; i < place_count; i++) {
        if (is_call(&places[i], bug->function, bug->text) &&
            calls_before(&places[i]) == bug->skip) {
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
            emu_status status = subject_run(&SCHEDULES[schedule], &result);
            bool is_found = BUGS[i].message ? status != EMU_OK : !subject_is_right();
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
