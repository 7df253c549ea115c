// test_io_memory.c: every allocation of the file layer fails once: a clean error, no leak, no file.
//
// The linker sends the layer's malloc and friends here (--wrap); jansson is told to use them, too.
// For n = 0, 1, 2, ... the n-th allocation of a scenario fails, until a run needs fewer than n.
#include "io_scratch.h"

#include <jansson.h>

#include "file.h"
#include "npy.h"
#include "safetensors.h"
#include "table.h"

static long countdown = -1; // allocations until one fails; -1: none does
static long live;           // allocations not yet freed, as seen by jansson

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);

static int fails_now(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails_now() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails_now() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

static void *json_allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    live += memory != NULL;
    return memory;
}

static void json_release(void *memory)
{
    live -= memory != NULL;
    free(memory);
}

struct files {
    const char *npy;
    const char *safetensors;
    const char *out;
    const struct io_tensor *tensors;
};

static int load_npy(const struct files *files, struct io_error *err)
{
    struct io_tensor tensor;
    const int status = io_npy_read(files->npy, NULL, &tensor, err);
    io_tensor_clear(&tensor);
    return status;
}

static int load_safetensors(const struct files *files, struct io_error *err)
{
    struct io_safetensors *file = NULL;
    struct io_tensor tensor = {0};
    const int status = io_safetensors_open(files->safetensors, &file, err) ||
                       io_safetensors_read(file, "k", &tensor, err);
    io_tensor_clear(&tensor);
    io_safetensors_close(file);
    return status ? -1 : 0;
}

static int save_npy(const struct files *files, struct io_error *err)
{
    return io_npy_save(files->out, &files->tensors[0], err);
}

static int save_safetensors(const struct files *files, struct io_error *err)
{
    const struct io_metadata metadata = {"format", "attn"};
    return io_safetensors_save(files->out, files->tensors, 2, &metadata, 1, err);
}

static int print_table(const struct files *files, struct io_error *err)
{
    (void)files;
    struct io_table *table = NULL;
    if (io_table_create(&table, 2, (const char *const[]){"<a", ">b"}, err)) {
        return -1;
    }
    for (int i = 0; i < 70; i++) {
        io_table_cell(table, "%d", i);
    }
    FILE *stream = fopen("/dev/null", "w");
    const int status = io_table_print(table, stream, err);
    fclose(stream);
    io_table_destroy(table);
    return status;
}

// Runs a scenario until no allocation is left to fail; gives how many there were.
static long exhaust(int (*scenario)(const struct files *, struct io_error *),
                    const struct files *files)
{
    for (long n = 0;; n++) {
        struct io_error err = {0};
        const long live_before = live;
        countdown = n;
        const int status = scenario(files, &err);
        const int reached = countdown < 0;
        countdown = -1;
        assert_int_equal(live, live_before);
        if (!reached) {
            assert_int_equal(status, 0);
            return n;
        }
        assert_int_equal(status, -1);
        assert_true(strlen(err.text) > 10);
        assert_int_equal(access(files->out, F_OK), -1);
    }
}

static void every_allocation_fails_once(void **state)
{
    struct io_error err;
    struct io_tensor tensors[2];
    assert_int_equal(io_tensor_init(&tensors[0], "q", IO_F32, 2, (int64_t[]){5, 3}, &err), 0);
    assert_int_equal(io_tensor_init(&tensors[1], "k", IO_F16, 2, (int64_t[]){5, 3}, &err), 0);
    struct files files = {.npy = scratch_path(state, "in.npy"),
                          .safetensors = scratch_path(state, "in.safetensors"),
                          .out = scratch_path(state, "out"),
                          .tensors = tensors};
    assert_int_equal(io_npy_save(files.npy, &tensors[0], &err), 0);
    assert_int_equal(io_safetensors_save(files.safetensors, tensors, 2, NULL, 0, &err), 0);

    assert_in_range(exhaust(load_npy, &files), 3, 100);
    assert_in_range(exhaust(load_safetensors, &files), 10, 1000);
    assert_in_range(exhaust(print_table, &files), 70, 1000);
    assert_in_range(exhaust(save_npy, &files), 5, 100);
    assert_int_equal(unlink(files.out), 0);
    assert_in_range(exhaust(save_safetensors, &files), 10, 1000);
    assert_int_equal(scratch_entries(state, 0), 3); // no temporary left either
    io_tensor_clear(&tensors[0]);
    io_tensor_clear(&tensors[1]);
}

int main(void)
{
    json_set_alloc_funcs(json_allocate, json_release);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_once)};
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
