// bench_results.c: see bench_results.h.
#include "bench_results.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/json_out.h"

// ------------------------------------------------------------------------------------------------
// Sets

void bench_result_clear(struct bench_result *result)
{
    free(result->samples_s);
    free(result->sustained_s);
}

void bench_set_destroy(struct bench_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        bench_result_clear(&set->results[i]);
    }
    free(set->results);
    memset(set, 0, sizeof(*set));
}

const struct bench_result *bench_set_find(const struct bench_set *set, const char *name)
{
    for (size_t i = 0; i < set->n; i++) {
        if (strcmp(set->results[i].name, name) == 0) {
            return &set->results[i];
        }
    }
    return NULL;
}

struct bench_result *bench_set_result(struct bench_set *set, const char *series, int64_t s)
{
    char name[BENCH_CASE_BYTES];
    snprintf(name, sizeof(name), "%s/%lld", series, (long long)s);
    for (size_t i = 0; i < set->n; i++) {
        if (strcmp(set->results[i].name, name) == 0) {
            return &set->results[i];
        }
    }
    struct bench_result *grown = realloc(set->results, (set->n + 1) * sizeof(struct bench_result));
    if (!grown) {
        return NULL;
    }
    set->results = grown;
    struct bench_result *result = &grown[set->n++];
    memset(result, 0, sizeof(*result));
    memcpy(result->name, name, sizeof(name));
    snprintf(result->series, sizeof(result->series), "%s", series);
    result->s = s;
    result->clock_mhz = result->joules = result->gemm_gflops = NAN;
    for (int round = 0; round < BENCH_MAX_ROUNDS; round++) {
        result->round_median_s[round] = NAN;
    }
    return result;
}

// Adds n samples to an array of *count.
static int append(double **array, size_t *count, const double *samples, size_t n, const char *name,
                  struct io_error *err)
{
    double *grown = realloc(*array, (*count + n + 1) * sizeof(double));
    if (!grown) {
        return io_fail(err, "%s: out of memory for %zu samples", name, n);
    }
    memcpy(grown + *count, samples, n * sizeof(double));
    *array = grown;
    *count += n;
    return 0;
}

int bench_result_add(struct bench_result *result, int round, const double *samples_s, size_t n,
                     struct io_error *err)
{
    result->round_median_s[round] = bench_summarise(samples_s, n).median;
    return append(&result->samples_s, &result->n_samples, samples_s, n, result->name, err);
}

int bench_result_add_sustained(struct bench_result *result, const double *samples_s, size_t n,
                               struct io_error *err)
{
    return append(&result->sustained_s, &result->n_sustained, samples_s, n, result->name, err);
}

void bench_set_end_round(struct bench_set *set)
{
    set->n_rounds++;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

// Linear interpolation between the two nearest of n sorted numbers.
static double quantile(const double *sorted, size_t n, double share)
{
    const double position = share * (double)(n - 1);
    const size_t below = (size_t)position;
    const size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

struct bench_summary bench_summarise(const double *samples, size_t n)
{
    const struct bench_summary none = {NAN, NAN, NAN};
    double *sorted = n ? malloc(n * sizeof(double)) : NULL;
    if (!sorted) {
        return none;
    }
    memcpy(sorted, samples, n * sizeof(double));
    qsort(sorted, n, sizeof(double), compare_doubles);
    const struct bench_summary summary = {quantile(sorted, n, 0.25), quantile(sorted, n, 0.5),
                                          quantile(sorted, n, 0.75)};
    free(sorted);
    return summary;
}

// ------------------------------------------------------------------------------------------------
// Reading. Every field is checked: peers' files are written by others' programs.

static double number_or(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static double number_of(const json_t *object, const char *key)
{
    return number_or(object, key, 0.0);
}

// "series/S" into its parts.
static int split_case(const char *name, char *series, int64_t *s_out)
{
    const char *slash = strrchr(name, '/');
    if (!slash || slash - name >= BENCH_NAME_BYTES || options_parse_int(slash + 1, s_out)) {
        return -1;
    }
    memcpy(series, name, (size_t)(slash - name));
    series[slash - name] = 0;
    return 0;
}

// Samples of the cold protocol, or with is_sustained of the other one.
static int read_samples(const json_t *array, bool is_sustained, struct bench_result *result,
                        int round, struct io_error *err)
{
    const size_t n = json_array_size(array);
    double *samples = malloc((n + 1) * sizeof(double));
    if (!samples) {
        return io_fail(err, "%s: out of memory", result->name);
    }
    int status = 0;
    for (size_t i = 0; i < n && !status; i++) {
        samples[i] = json_number_value(json_array_get(array, i));
        if (!(samples[i] > 0.0)) {
            status = io_fail(err, "%s: sample %zu is not a positive number", result->name, i);
        }
    }
    if (!status) {
        status = is_sustained ? bench_result_add_sustained(result, samples, n, err)
                              : bench_result_add(result, round, samples, n, err);
    }
    free(samples);
    return status;
}

static int read_result(const json_t *item, struct bench_set *set, struct io_error *err)
{
    char series[BENCH_NAME_BYTES];
    int64_t s;
    const char *name = json_string_value(json_object_get(item, "case"));
    const json_t *samples = json_object_get(item, "samples_s");
    if (!name || split_case(name, series, &s) || !json_is_array(samples)) {
        return io_fail(err, "a result lacks \"case\": \"series/S\" or \"samples_s\": [...]");
    }
    struct bench_result *result = bench_set_result(set, series, s);
    if (!result) {
        return io_fail(err, "%s: out of memory", name);
    }
    const char *kernel = json_string_value(json_object_get(item, "kernel"));
    snprintf(result->kernel, sizeof(result->kernel), "%s", kernel ? kernel : "");
    result->flops = number_of(item, "flops");
    result->bytes = number_of(item, "bytes");
    result->clock_mhz = number_or(item, "clock_mhz", NAN);
    result->joules = number_or(item, "joules", NAN);
    result->gemm_gflops = number_or(item, "gemm_gflops", NAN);
    return read_samples(samples, false, result, set->n_rounds, err) ||
                   read_samples(json_object_get(item, "sustained_s"), true, result, set->n_rounds,
                                err)
               ? -1
               : 0;
}

static int read_document(const json_t *document, struct bench_set *set, struct io_error *err)
{
    const char *name = json_string_value(json_object_get(document, "name"));
    const char *machine = json_string_value(json_object_get(document, "machine"));
    const json_t *results = json_object_get(document, "results");
    const json_t *rates = json_object_get(document, "rates");
    if (!name || !json_is_array(results)) {
        return io_fail(err, "expected an object with \"name\" and \"results\": [...]");
    }
    if (set->name[0] && strncmp(set->name, name, sizeof(set->name) - 1) != 0) {
        return io_fail(err, "measurements of '%s', expected those of '%s'", name, set->name);
    }
    if (set->n_rounds == BENCH_MAX_ROUNDS) {
        return io_fail(err, "more than %d files of one set", BENCH_MAX_ROUNDS);
    }
    snprintf(set->name, sizeof(set->name), "%s", name);
    snprintf(set->machine, sizeof(set->machine), "%s", machine ? machine : "");
    set->threads = (int)number_of(document, "threads");
    if (json_is_object(rates)) {
        const struct bench_rates read = {
            .threads = set->threads,
            .fma_gflops = number_of(rates, "fma_gflops"),
            .sgemm_gflops = number_of(rates, "sgemm_gflops"),
            .read_gbs = number_of(rates, "read_gbs"),
            .copy_gbs = number_of(rates, "copy_gbs"),
        };
        set->has_rates = true;
        bench_rates_keep_best(&set->rates, &read);
    }
    for (size_t i = 0; i < json_array_size(results); i++) {
        if (read_result(json_array_get(results, i), set, err)) {
            return -1;
        }
    }
    bench_set_end_round(set);
    return 0;
}

int bench_set_read(const char *path, struct bench_set *set, struct io_error *err)
{
    struct io_buffer file;
    if (io_file_read(path, &file, err)) {
        return -1;
    }
    // An empty file has no data to point at, which the parser would take for a wrong call.
    const char *text = file.bytes > 0 ? (const char *)file.data : "";
    json_error_t where;
    json_t *document = json_loadb(text, file.bytes, JSON_REJECT_DUPLICATES, &where);
    io_buffer_clear(&file);
    if (!document) {
        return io_fail(err, "%s:%d: no JSON: %s", path, where.line, where.text);
    }
    struct io_error inner = {{0}};
    const int status = read_document(document, set, &inner);
    json_decref(document);
    return status ? io_fail(err, "%s: %s", path, inner.text) : 0;
}

// ------------------------------------------------------------------------------------------------
// Writing

static void write_samples(struct io_json *json, const char *key, const double *samples, size_t n)
{
    io_json_array_begin(json, key);
    for (size_t i = 0; i < n; i++) {
        io_json_number(json, NULL, samples[i]);
    }
    io_json_array_end(json);
}

static void write_result(struct io_json *json, const struct bench_result *result)
{
    io_json_object_begin(json, NULL);
    io_json_string(json, "case", result->name);
    io_json_string(json, "kernel", result->kernel);
    io_json_number(json, "flops", result->flops);
    io_json_number(json, "bytes", result->bytes);
    io_json_number(json, "median_s", bench_summarise(result->samples_s, result->n_samples).median);
    write_samples(json, "samples_s", result->samples_s, result->n_samples);
    if (result->n_sustained > 0) {
        write_samples(json, "sustained_s", result->sustained_s, result->n_sustained);
        io_json_number(json, "clock_mhz", result->clock_mhz);
        io_json_number(json, "joules", result->joules);
        io_json_number(json, "gemm_gflops", result->gemm_gflops);
    }
    io_json_object_end(json);
}

static void write_rates(struct io_json *json, const struct bench_rates *rates)
{
    if (rates->copy_gbs > 0.0) {
        io_json_number(json, "copy_gbs", rates->copy_gbs);
        return;
    }
    io_json_number(json, "fma_gflops", rates->fma_gflops);
    io_json_number(json, "sgemm_gflops", rates->sgemm_gflops);
    io_json_number(json, "read_gbs", rates->read_gbs);
}

struct write_job {
    const char *path;
    const struct bench_set *set;
};

static int write_body(FILE *stream, void *arg, struct io_error *err)
{
    const struct write_job *job = arg;
    const struct bench_set *set = job->set;
    struct io_json json;
    io_json_begin(&json, stream);
    io_json_object_begin(&json, NULL);
    io_json_string(&json, "name", set->name);
    io_json_string(&json, "machine", set->machine);
    io_json_integer(&json, "threads", set->threads);
    if (set->has_rates) {
        io_json_object_begin(&json, "rates");
        write_rates(&json, &set->rates);
        io_json_object_end(&json);
    }
    io_json_array_begin(&json, "results");
    for (size_t i = 0; i < set->n; i++) {
        write_result(&json, &set->results[i]);
    }
    io_json_array_end(&json);
    io_json_object_end(&json);
    return io_json_finish(&json, job->path, err);
}

int bench_set_write(const char *path, const struct bench_set *set, struct io_error *err)
{
    struct write_job job = {path, set};
    return io_file_write(path, write_body, &job, err);
}
