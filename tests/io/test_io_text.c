// test_io_text.c: JSON read back by jansson, tables, UTF-8, and the progress bar on a terminal.
#include "io_scratch.h"

#include <fcntl.h>
#include <float.h>
#include <jansson.h>
#include <math.h>

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

// A pseudo terminal to write to, *master_out its other end; NULL where the system mounts none.
static FILE *open_terminal(int *master_out)
{
    *master_out = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master_out < 0) {
        return NULL;
    }
    assert_int_equal(grantpt(*master_out), 0);
    assert_int_equal(unlockpt(*master_out), 0);
    const int slave = open(ptsname(*master_out), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    FILE *stream = fdopen(slave, "w");
    assert_non_null(stream);
    return stream;
}

static void progress_knows_a_terminal(void **state)
{
    (void)state;
    struct io_progress progress;
    FILE *device = fopen("/dev/null", "w");
    assert_non_null(device);
    setenv("TERM", "xterm", 1);
    io_progress_begin(&progress, device, "check", 10);
    assert_null(progress.stream); // a device, but no terminal
    fclose(device);
    int master = -1;
    FILE *terminal = open_terminal(&master);
    if (terminal) {
        io_progress_begin(&progress, terminal, "check", 10);
        assert_ptr_equal(progress.stream, terminal);
        setenv("TERM", "dumb", 1);
        io_progress_begin(&progress, terminal, "check", 10);
        assert_null(progress.stream);
        fclose(terminal);
        close(master);
    }
}

// What one update draws when the last one is `since_s` ago, on a stream taken for a terminal.
static const char *drawn(int64_t total, int64_t done, double since_s)
{
    struct io_progress progress;
    io_progress_begin(&progress, NULL, "check", total);
    assert_true(progress.last_draw_s == progress.start_s); // short work draws nothing
    progress.stream = tmpfile();
    assert_non_null(progress.stream);
    FILE *stream = progress.stream;
    progress.drawn = true;
    progress.start_s -= 1000;
    progress.last_draw_s -= since_s;
    io_progress_update(&progress, done);
    return stream_content(stream);
}

static void progress_draws(void **state)
{
    (void)state;
    assert_contains(drawn(3000, 1500, 10),
                    "\rcheck [###############...............]  50 %  1500/3000  eta 16:");
    assert_contains(drawn(3000, 0, 10), "]   0 %  0/3000  eta -:--\x1b[K");
    assert_contains(drawn(10000, 100, 10), "  1 %  100/10000  eta 27:30:");
    assert_string_equal(drawn(3000, 1500, -1000), "");                       // too soon
    assert_contains(drawn(3000, 4000, -1000), "100 %  3000/3000  eta 0:00"); // the end, always
    assert_string_equal(drawn(0, 42, 10), "\rcheck  42\x1b[K");              // no total
    struct io_progress progress;
    io_progress_begin(&progress, NULL, "check", 10);
    FILE *stream = tmpfile();
    assert_non_null(stream);
    progress.stream = stream;
    progress.drawn = true;
    io_progress_end(&progress);
    assert_null(progress.stream);
    io_progress_update(&progress, 10);
    assert_string_equal(stream_content(stream), "\r\x1b[K");
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
        cmocka_unit_test(progress_knows_a_terminal),
        cmocka_unit_test(progress_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
