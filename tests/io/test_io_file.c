// test_io_file.c: reading files of every kind, and outputs that are complete or absent.
#include "io_scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "file.h"
#include "npy.h"
#include "safetensors.h"

static void reads_regular_files(void **state)
{
    const char *path = scratch_path(state, "r.bin");
    struct io_error err;
    struct io_buffer buffer;
    scratch_write(path, "hello\0world", 11);
    assert_int_equal(io_file_read(path, &buffer, &err), 0);
    assert_int_equal(buffer.bytes, 11);
    assert_memory_equal(buffer.data, "hello\0world", 11);
    io_buffer_clear(&buffer);
    scratch_write(path, "", 0);
    assert_int_equal(io_file_read(path, &buffer, &err), 0);
    assert_int_equal(buffer.bytes, 0);
    assert_null(buffer.data);
}

static void refuses_what_is_no_file(void **state)
{
    struct io_error err;
    struct io_buffer buffer;
    const struct scratch *scratch = *state;
    assert_int_equal(io_file_read(scratch->folder, &buffer, &err), -1);
    assert_contains(err.text, "is a folder, not a file");
    assert_int_equal(io_file_read(scratch_path(state, "absent"), &buffer, &err), -1);
    assert_contains(err.text, "absent: cannot open: No such file or directory");
    assert_int_equal(io_file_read("", &buffer, &err), -1);
}

// More than a pipe holds, so that reading has to go on while the writer writes.
static void reads_pipes(void **state)
{
    enum { PIPE_BYTES = 300000 };
    const char *path = scratch_path(state, "fifo");
    struct io_error err;
    struct io_buffer buffer;
    assert_int_equal(mkfifo(path, 0600), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int fd = open(path, O_WRONLY);
        for (int i = 0; i < PIPE_BYTES; i++) {
            const char byte = (char)(i % 251);
            if (write(fd, &byte, 1) != 1) {
                _exit(1);
            }
        }
        _exit(close(fd));
    }
    assert_int_equal(io_file_read(path, &buffer, &err), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(buffer.bytes, PIPE_BYTES);
    assert_int_equal(buffer.data[PIPE_BYTES - 1], (PIPE_BYTES - 1) % 251);
    io_buffer_clear(&buffer);
    unlink(path);
}

static int write_text(FILE *stream, void *arg, struct io_error *err)
{
    return io_stream_write(stream, "text", arg, strlen(arg), err);
}

static void replaces_atomically(void **state)
{
    const char *path = scratch_path(state, "out.txt");
    struct io_error err;
    struct stat info;
    scratch_entries(state, 1);
    assert_int_equal(io_file_write(path, write_text, "first", &err), 0);
    assert_string_equal(scratch_content(path), "first");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(io_file_write(path, write_text, "second", &err), 0);
    assert_string_equal(scratch_content(path), "second");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(scratch_entries(state, 0), 1); // no temporary left
}

static int write_then_fail(FILE *stream, void *arg, struct io_error *err)
{
    fputs(arg, stream);
    return io_fail(err, "the body gave up");
}

static void failing_body_leaves_the_old_file(void **state)
{
    const char *path = scratch_path(state, "out.txt");
    struct io_error err;
    scratch_entries(state, 1);
    scratch_write(path, "old", 3);
    assert_int_equal(io_file_write(path, write_then_fail, "half", &err), -1);
    assert_string_equal(err.text, "the body gave up");
    assert_string_equal(scratch_content(path), "old");
    assert_int_equal(scratch_entries(state, 0), 1);
}

// A size limit stands for the full disk: write fails in the middle of the file.
static void full_disk_leaves_nothing(void **state)
{
    const char *path = scratch_path(state, "big.npy");
    struct io_error err;
    struct io_tensor tensor;
    struct rlimit old;
    scratch_entries(state, 1);
    assert_int_equal(io_tensor_init(&tensor, "q", IO_U8, 1, (int64_t[]){300000}, &err), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const rlim_t limits[] = {0, 1, 4096, 100000, 300000};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit small = {.rlim_cur = limits[i], .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const int npy = io_npy_save(path, &tensor, &err);
        struct io_error second;
        const int safetensors = io_safetensors_save(path, &tensor, 1, NULL, 0, &second);
        struct io_error third;
        const int text = io_file_write(path, write_text, "a line that stays in the buffer", &third);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(npy, -1);
        assert_contains(err.text, "big.npy: cannot write: File too large");
        assert_int_equal(safetensors, -1);
        assert_contains(second.text, "big.npy: cannot write: File too large");
        assert_int_equal(text, limits[i] < 4096 ? -1 : 0);
        assert_int_equal(scratch_entries(state, 1), limits[i] < 4096 ? 0 : 1);
    }
    io_tensor_clear(&tensor);
}

static void full_device_is_reported(void **state)
{
    (void)state;
    struct io_error err;
    struct stat before;
    struct stat after;
    if (stat("/dev/full", &before)) {
        fail_msg("this machine has no /dev/full: %s", strerror(errno));
    }
    assert_int_equal(io_file_write("/dev/full", write_text, "x", &err), -1);
    assert_contains(err.text, "/dev/full: cannot write: No space left on device");
    assert_int_equal(io_file_write("/dev/null", write_text, "x", &err), 0);
    assert_int_equal(stat("/dev/full", &after), 0);
    assert_true(S_ISCHR(after.st_mode) && after.st_ino == before.st_ino);
}

static void several_files_appear_together(void **state)
{
    const char *first = scratch_path(state, "o.txt");
    const char *second = scratch_path(state, "lse.txt");
    struct io_error err;
    struct io_batch *batch = NULL;
    scratch_entries(state, 1);
    assert_int_equal(io_batch_create(&batch, &err), 0);
    FILE *o = io_batch_open(batch, first, &err);
    FILE *lse = io_batch_open(batch, second, &err);
    assert_non_null(o);
    assert_non_null(lse);
    fputs("o", o);
    fputs("lse", lse);
    assert_int_equal(access(first, F_OK), -1);
    assert_int_equal(io_batch_commit(batch, &err), 0);
    assert_string_equal(scratch_content(first), "o");
    assert_string_equal(scratch_content(second), "lse");
    assert_int_equal(io_batch_commit(batch, &err), -1);
    assert_null(io_batch_open(batch, first, &err));
    io_batch_destroy(batch);
    assert_int_equal(scratch_entries(state, 0), 2);
}

// The second file does not fit: the first, complete one must not appear either.
static void one_failure_keeps_all_away(void **state)
{
    const char *first = scratch_path(state, "o.txt");
    struct io_error err;
    struct io_batch *batch = NULL;
    struct rlimit old;
    static const char block[100000];
    scratch_entries(state, 1);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(io_batch_create(&batch, &err), 0);
    FILE *o = io_batch_open(batch, first, &err);
    FILE *lse = io_batch_open(batch, scratch_path(state, "lse.txt"), &err);
    assert_non_null(o);
    assert_non_null(lse);
    fputs("o", o);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 5000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fwrite(block, 1, sizeof(block), lse); // the error waits in the stream
    const int status = io_batch_commit(batch, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, -1);
    assert_contains(err.text, "lse.txt: cannot write");
    io_batch_destroy(batch);
    assert_int_equal(scratch_entries(state, 0), 0);
}

static void failed_rename_says_what_is_in_place(void **state)
{
    const char *blocked = scratch_path(state, "lse.txt");
    struct io_error err;
    struct io_batch *batch = NULL;
    scratch_entries(state, 1);
    assert_int_equal(io_batch_create(&batch, &err), 0);
    assert_non_null(io_batch_open(batch, scratch_path(state, "o.txt"), &err));
    assert_non_null(io_batch_open(batch, blocked, &err));
    assert_int_equal(mkdir(blocked, 0700), 0);
    assert_int_equal(io_batch_commit(batch, &err), -1);
    assert_contains(err.text, "lse.txt: cannot rename the finished file into place");
    assert_contains(err.text, "o.txt");
    io_batch_destroy(batch);
    assert_int_equal(scratch_entries(state, 1), 2); // o.txt and the folder
}

static void outputs_that_cannot_be(void **state)
{
    const struct scratch *scratch = *state;
    const char *file = scratch_path(state, "file");
    struct io_error err;
    struct io_batch *batch = NULL;
    scratch_entries(state, 1);
    assert_int_equal(io_batch_create(&batch, &err), 0);
    assert_null(io_batch_open(batch, scratch->folder, &err));
    assert_contains(err.text, "is a folder, not a file");
    assert_null(io_batch_open(batch, "", &err));
    assert_null(io_batch_open(batch, scratch_path(state, "no/such/folder"), &err));
    assert_contains(err.text, "No such file or directory");
    assert_null(io_batch_open(batch, scratch_path(state, "new/"), &err));
    assert_contains(err.text, "does not name a file");
    scratch_write(file, "x", 1);
    assert_null(io_batch_open(batch, scratch_path(state, "file/x"), &err));
    assert_contains(err.text, "Not a directory");
    assert_non_null(io_batch_open(batch, file, &err));
    char again[SCRATCH_PATH_BYTES];
    snprintf(again, sizeof(again), "%s/./file", scratch->folder);
    assert_null(io_batch_open(batch, again, &err));
    assert_contains(err.text, "is the same output file as");
    io_batch_destroy(batch);
    io_batch_destroy(NULL);
    assert_int_equal(scratch_entries(state, 0), 1);
}

static void links_stay_links(void **state)
{
    const char *target = scratch_path(state, "target");
    const char *link_path = scratch_path(state, "link");
    struct io_error err;
    struct stat info;
    scratch_entries(state, 1);
    scratch_write(target, "old", 3);
    assert_int_equal(symlink("target", link_path), 0);
    assert_int_equal(io_file_write(link_path, write_text, "new", &err), 0);
    assert_string_equal(scratch_content(target), "new");
    assert_int_equal(lstat(link_path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(unlink(target), 0);
    assert_int_equal(io_file_write(link_path, write_text, "new", &err), -1);
    assert_contains(err.text, "is a link to a file that does not exist");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_regular_files),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(reads_pipes),
        cmocka_unit_test(replaces_atomically),
        cmocka_unit_test(failing_body_leaves_the_old_file),
        cmocka_unit_test(full_disk_leaves_nothing),
        cmocka_unit_test(full_device_is_reported),
        cmocka_unit_test(several_files_appear_together),
        cmocka_unit_test(one_failure_keeps_all_away),
        cmocka_unit_test(failed_rename_says_what_is_in_place),
        cmocka_unit_test(outputs_that_cannot_be),
        cmocka_unit_test(links_stay_links),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
