// test_io_text.c: JSON read back by jansson, tables, UTF-8, and the progress bar on a terminal.
#define _GNU_SOURCE // posix_openpt's friends and cfmakeraw
#include "io_scratch.h"

#include <fcntl.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <termios.h>
#include <time.h>

#include "json_out.h"
#include "progress.h"
#include "table.h"
#include "utf8.h"

static void utf8_decodes_only_what_is_valid(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t first;
        int bytes;
    } cases[] = {
        {"a", 'a', 1},
        {"\xc3\xa9", 0xe9, 2},
        {"\xe2\x82\xac", 0x20ac, 3},
        {"\xf0\x9f\x98\x80", 0x1f600, 4},
        {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
        {"\xc0\x80", 0xfffd, 1},         // overlong
        {"\xe0\x80\x80", 0xfffd, 1},     // overlong
        {"\xf0\x80\x80\x80", 0xfffd, 1}, // overlong
        {"\xed\xa0\x80", 0xfffd, 1},     // surrogate
        {"\xf4\x90\x80\x80", 0xfffd, 1}, // beyond Unicode
        {"\xff", 0xfffd, 1},
        {"\x80", 0xfffd, 1},
        {"\xc3", 0xfffd, 1}, // cut off
        {"\xe2\x82", 0xfffd, 1},
        {"\xf0\x9f\x98", 0xfffd, 1},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *at = cases[i].text;
        assert_int_equal(io_utf8_next(&at), cases[i].first);
        assert_int_equal(at - cases[i].text, cases[i].bytes);
        if (cases[i].first != 0xfffd && cases[i].first != 0) {
            FILE *stream = tmpfile();
            assert_non_null(stream);
            io_utf8_put(stream, cases[i].first);
            assert_string_equal(stream_content(stream), cases[i].text);
        }
    }
    assert_int_equal(io_utf8_length("\xe2\x82\xac 1\xff"), 4);
}

static void json_reads_back(void **state)
{
    (void)state;
    const double numbers[] = {0.0, -0.0, 0.1, 1.0 / 3.0, DBL_MAX, DBL_MIN, 5e-324, 1e22, 691.0};
    const size_t n = sizeof(numbers) / sizeof(numbers[0]);
    const char *odd = "tab\t quote\" back\\ line\n bell\x07 del\x7f euro\xe2\x82\xac";
    struct io_error err;
    struct io_json json;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    io_json_begin(&json, stream);
    io_json_object_begin(&json, NULL);
    io_json_string(&json, odd, odd);
    io_json_string(&json, "broken", "a\xff");
    io_json_string(&json, "none", NULL);
    io_json_array_begin(&json, "numbers");
    for (size_t i = 0; i < n; i++) {
        io_json_number(&json, NULL, numbers[i]);
    }
    io_json_number(&json, NULL, NAN);
    io_json_number(&json, NULL, -INFINITY);
    io_json_array_end(&json);
    io_json_array_begin(&json, "empty");
    io_json_array_end(&json);
    io_json_object_begin(&json, "inner");
    io_json_integer(&json, "least", INT64_MIN);
    io_json_bool(&json, "yes", true);
    io_json_bool(&json, "no", false);
    io_json_null(&json, "null");
    io_json_object_end(&json);
    io_json_object_end(&json);
    assert_int_equal(io_json_finish(&json, "out.json", &err), 0);

    json_error_t problem;
    json_t *root = json_loads(stream_content(stream), 0, &problem);
    if (!root) {
        fail_msg("line %d: %s", problem.line, problem.text);
    }
    assert_string_equal(json_string_value(json_object_get(root, odd)), odd);
    assert_string_equal(json_string_value(json_object_get(root, "broken")), "a\xef\xbf\xbd");
    assert_true(json_is_null(json_object_get(root, "none")));
    json_t *array = json_object_get(root, "numbers");
    assert_int_equal(json_array_size(array), n + 2);
    for (size_t i = 0; i < n; i++) {
        assert_true(json_number_value(json_array_get(array, i)) == numbers[i]);
    }
    assert_true(json_is_null(json_array_get(array, n)));
    assert_true(json_is_null(json_array_get(array, n + 1)));
    assert_int_equal(json_array_size(json_object_get(root, "empty")), 0);
    json_t *inner = json_object_get(root, "inner");
    assert_true(json_integer_value(json_object_get(inner, "least")) == INT64_MIN);
    assert_true(json_is_true(json_object_get(inner, "yes")));
    assert_true(json_is_false(json_object_get(inner, "no")));
    json_decref(root);
}

static void json_layout(void **state)
{
    (void)state;
    struct io_error err;
    struct io_json json;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    io_json_begin(&json, stream);
    io_json_object_begin(&json, NULL);
    io_json_number(&json, "ms", 0.25);
    io_json_array_begin(&json, "s");
    io_json_integer(&json, NULL, 1);
    io_json_array_end(&json);
    io_json_object_end(&json);
    assert_int_equal(io_json_finish(&json, "out.json", &err), 0);
    assert_string_equal(stream_content(stream), "{\n  \"ms\": 0.25,\n  \"s\": [\n    1\n  ]\n}\n");
}

static void misuse_key_in_array(struct io_json *json)
{
    io_json_array_begin(json, NULL);
    io_json_integer(json, "key", 1);
    io_json_array_end(json);
}

static void misuse_no_key(struct io_json *json)
{
    io_json_object_begin(json, NULL);
    io_json_integer(json, NULL, 1);
    io_json_object_end(json);
}

static void misuse_wrong_end(struct io_json *json)
{
    io_json_object_begin(json, NULL);
    io_json_array_end(json);
}

static void misuse_unfinished(struct io_json *json)
{
    io_json_object_begin(json, NULL);
}

static void misuse_two_values(struct io_json *json)
{
    io_json_integer(json, NULL, 1);
    io_json_integer(json, NULL, 2);
}

static void misuse_too_deep(struct io_json *json)
{
    for (int i = 0; i <= IO_JSON_MAX_DEPTH; i++) {
        io_json_array_begin(json, NULL);
    }
    for (int i = 0; i <= IO_JSON_MAX_DEPTH; i++) {
        io_json_array_end(json);
    }
}

static void misuse_nothing(struct io_json *json)
{
    (void)json;
}

static void json_misuse_is_an_error(void **state)
{
    (void)state;
    void (*const misuses[])(struct io_json *) = {
        misuse_key_in_array, misuse_no_key,   misuse_wrong_end, misuse_unfinished,
        misuse_two_values,   misuse_too_deep, misuse_nothing,
    };
    for (size_t i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++) {
        struct io_error err;
        struct io_json json;
        FILE *stream = tmpfile();
        assert_non_null(stream);
        io_json_begin(&json, stream);
        misuses[i](&json);
        assert_int_equal(io_json_finish(&json, "out.json", &err), -1);
        assert_contains(err.text, "out.json: the JSON writer was used in a wrong order");
        fclose(stream);
    }
}

static void json_full_disk(void **state)
{
    (void)state;
    struct io_error err;
    struct io_json json;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    io_json_begin(&json, full);
    io_json_integer(&json, NULL, 1);
    assert_int_equal(io_json_finish(&json, "out.json", &err), -1);
    assert_contains(err.text, "out.json: cannot write: No space left on device");
    fclose(full);
}

static void table_layout(void **state)
{
    (void)state;
    struct io_error err;
    struct io_table *table = NULL;
    const char *columns[] = {"<kernel", ">ms", "note"};
    assert_int_equal(io_table_create(&table, 3, columns, &err), 0);
    io_table_cell(table, "scalar");
    io_table_cell(table, "%.1f", 12.25);
    io_table_cell(table, "\xc2\xb5s");
    io_table_cell(table, "avx512 bf16");
    io_table_rule(table);
    io_table_cell(table, "all");
    io_table_cell(table, "7");
    FILE *stream = tmpfile();
    assert_non_null(stream);
    assert_int_equal(io_table_print(table, stream, &err), 0);
    assert_string_equal(stream_content(stream), "kernel         ms  note\n"
                                                "-----------  ----  ----\n"
                                                "scalar       12.2  \xc2\xb5s\n"
                                                "avx512 bf16        \n"
                                                "-----------  ----  ----\n"
                                                "all             7  \n");
    io_table_destroy(table);
    io_table_destroy(NULL);
    assert_int_equal(io_table_create(&table, 0, columns, &err), -1);
    assert_int_equal(io_table_create(&table, 33, columns, &err), -1);
    assert_contains(err.text, "a table of 33 columns");
}

static void progress_is_silent_in_files(void **state)
{
    (void)state;
    struct io_progress progress;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    setenv("TERM", "xterm", 1);
    io_progress_begin(&progress, stream, "check", 10);
    progress.last_draw_s = -1000;
    io_progress_update(&progress, 10);
    io_progress_end(&progress);
    assert_string_equal(stream_content(stream), "");
    io_progress_begin(&progress, NULL, "check", 10);
    io_progress_update(&progress, 10);
    io_progress_end(&progress);
}

// A pseudo terminal: what is written to *stream_out can be read from the returned descriptor.
static int open_terminal(FILE **stream_out)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct termios raw;
    assert_int_equal(tcgetattr(slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
    *stream_out = fdopen(slave, "w");
    assert_non_null(*stream_out);
    return master;
}

static const char *shown(int master)
{
    static char text[4096];
    const int flags = fcntl(master, F_GETFL);
    assert_int_equal(fcntl(master, F_SETFL, flags | O_NONBLOCK), 0);
    const ssize_t got = read(master, text, sizeof(text) - 1);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void progress_on_a_terminal(void **state)
{
    (void)state;
    struct io_progress progress;
    FILE *stream = NULL;
    const int master = open_terminal(&stream);
    setenv("TERM", "dumb", 1);
    io_progress_begin(&progress, stream, "check", 3000);
    assert_null(progress.stream);
    setenv("TERM", "xterm", 1);
    io_progress_begin(&progress, stream, "check", 3000);
    io_progress_update(&progress, 1); // too early to be drawn
    assert_string_equal(shown(master), "");
    progress.start_s -= 10;
    progress.last_draw_s -= 10;
    io_progress_update(&progress, 1500);
    const char *text = shown(master);
    assert_contains(text, "\rcheck [###############...............]  50 %  1500/3000  eta 0:10");
    io_progress_update(&progress, 1501); // too soon after the last one
    assert_string_equal(shown(master), "");
    io_progress_update(&progress, 4000); // the end is always drawn, and no more than all
    assert_contains(shown(master), "100 %  3000/3000  eta 0:00");
    io_progress_end(&progress);
    assert_string_equal(shown(master), "\r\x1b[K");

    io_progress_begin(&progress, stream, "count", 0);
    progress.last_draw_s -= 10;
    io_progress_update(&progress, 42);
    assert_contains(shown(master), "\rcount  42");
    io_progress_end(&progress);
    fclose(stream);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_decodes_only_what_is_valid),
        cmocka_unit_test(json_reads_back),
        cmocka_unit_test(json_layout),
        cmocka_unit_test(json_misuse_is_an_error),
        cmocka_unit_test(json_full_disk),
        cmocka_unit_test(table_layout),
        cmocka_unit_test(progress_is_silent_in_files),
        cmocka_unit_test(progress_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
