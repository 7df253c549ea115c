// Where machine code comes from: packs, the cache folder, the compiler; and all that can be wrong
// with the first two. Compilations are a fake's, which counts them.
#include "child.h"
#include "log_lines.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "cuda/cache_folder.h"
#include "cuda/kernel_image.h"
#include "cuda/kernel_pack.h"

#define FAKE "ATTN_NVRTC=" FAKE_NVRTC_PATH
#define NO_COMPILER "ATTN_NVRTC=/nowhere/libnvrtc.so"

// ---- a scratch folder with what the tests need in it

static char scratch[200];
static char cache_variable[320];
static char count_variable[320];
static char pack_variable[640];

static const char *scratch_path(const char *below)
{
    static char path[4][512];
    static int next;
    next = (next + 1) % 4;
    (void)snprintf(path[next], sizeof(path[next]), "%s/%s", scratch, below);
    return path[next];
}

static int setup(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(scratch, sizeof(scratch), "%s/attn-cache-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(scratch) == NULL) {
        return -1;
    }
    (void)snprintf(cache_variable, sizeof(cache_variable), "ATTN_CACHE=%s/a/cache", scratch);
    (void)snprintf(count_variable, sizeof(count_variable), "FAKE_NVRTC_COUNT=%s/count", scratch);
    (void)snprintf(pack_variable, sizeof(pack_variable), "ATTN_PACK=%s/none:%s/pack", scratch,
                   scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[300];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
    return system(command);
}

static long compilations(void)
{
    struct stat status;
    return stat(scratch_path("count"), &status) == 0 ? (long)status.st_size : 0;
}

// ---- a kernel to ask for

static attn_status_t get(const char *prologue, attn_kernel_image_t *image)
{
    const attn_kernel_request_t request = {.name = "fill_test",
                                           .arch = "sm_90a",
                                           .path = "device/common/fill_forward.c",
                                           .prologue = prologue};
    return attn_kernel_image_get(logging_context(), &request, 0, image);
}

static void expect_from(const char *prologue, attn_kernel_origin_t origin)
{
    attn_kernel_image_t image;
    CHILD_CHECK(get(prologue, &image) == ATTN_OK);
    CHILD_CHECK(image.origin == origin);
    CHILD_CHECK(image.entry.cubin_bytes == 32 && memcmp(image.entry.cubin, "\177ELF", 4) == 0);
    attn_kernel_image_free(&image);
}

static int has_warned(void)
{
    return log_text[0] == '2' || strstr(log_text, "\n2 ") != NULL;
}

static void compiles_a(void)
{
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
}

static void finds_a(void)
{
    expect_from("A", ATTN_KERNEL_FROM_CACHE);
    CHILD_CHECK(!has_warned());
}

// ---- the folder

static void has_good_modes(void)
{
    struct stat status;
    CHILD_CHECK(stat(scratch_path("a/cache"), &status) == 0 && (status.st_mode & 0777) == 0700);
    DIR *list = opendir(scratch_path("a/cache"));
    CHILD_CHECK(list != NULL);
    int files = 0;
    for (struct dirent *file; (file = readdir(list)) != NULL;) {
        if (file->d_name[0] != '.') {
            char path[700];
            (void)snprintf(path, sizeof(path), "%s/%.200s", scratch_path("a/cache"), file->d_name);
            CHILD_CHECK(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
            CHILD_CHECK(strstr(file->d_name, "-13000.kernel") != NULL);
            files++;
        }
    }
    closedir(list);
    CHILD_CHECK(files == 2);
}

static void refuses_without_compiler(void)
{
    attn_kernel_image_t image;
    CHILD_CHECK(get("C", &image) == ATTN_COMPILE_FAILED);
    CHILD_SAYS("kernel fill_test for sm_90a: no NVRTC");
}

static void refuses_to_compile(void)
{
    attn_kernel_image_t image;
    CHILD_CHECK(get("C", &image) == ATTN_COMPILE_FAILED);
    CHILD_SAYS("kernel fill_test for sm_90a: in no pack and not in the cache folder");
}

static void test_order(void **state)
{
    (void)state;
    IN_CHILD(compiles_a, FAKE, cache_variable, count_variable);
    assert_int_equal(compilations(), 1);
    IN_CHILD(finds_a, FAKE, cache_variable, count_variable);
    assert_int_equal(compilations(), 1);
    // Another prologue and another compiler are other kernels.
    umask(0);
    IN_CHILD(compiles_a, FAKE, cache_variable, count_variable, "FAKE_NVRTC_VERSION=12.8");
    umask(022);
    assert_int_equal(compilations(), 2);
    IN_CHILD(finds_a, FAKE, cache_variable, count_variable, "FAKE_NVRTC_VERSION=12.8");
    // Without a compiler, or one that may be used, any compiler's kernel will do.
    IN_CHILD(finds_a, NO_COMPILER, cache_variable);
    IN_CHILD(finds_a, FAKE, cache_variable, "ATTN_JIT=0");
    IN_CHILD(refuses_without_compiler, NO_COMPILER, cache_variable);
    IN_CHILD(refuses_to_compile, FAKE, cache_variable, "ATTN_JIT=0");
    assert_int_equal(compilations(), 2);
}

static void makes_two(void)
{
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
    expect_from("B", ATTN_KERNEL_FROM_COMPILER);
    expect_from("B", ATTN_KERNEL_FROM_CACHE);
    has_good_modes();
}

static void has_path(const char *want)
{
    char path[ATTN_CACHE_PATH_BYTES] = "";
    const int is_there = attn_cache_path(path);
    CHILD_CHECK(is_there == (want != NULL));
    CHILD_CHECK(want == NULL || strcmp(path, want) == 0);
}

static void has_attn_cache(void)
{
    has_path("/x/y");
}
static void has_xdg(void)
{
    has_path("/xdg/libattn");
}
static void has_home(void)
{
    has_path("/home0/.cache/libattn");
}
static void has_none(void)
{
    has_path(NULL);
}

static void lives_in_memory(void)
{
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
    // Told once, not twice.
    const char *first = strstr(log_text, "2 kernel cache: ");
    CHILD_CHECK(first != NULL && strstr(first, "kept in memory only") != NULL);
    CHILD_CHECK(strstr(first + 1, "2 kernel cache: ") == NULL);
}

static void is_off(void)
{
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
    CHILD_CHECK(!has_warned());
}

static void test_places(void **state)
{
    (void)state;
    IN_CHILD(makes_two, FAKE, cache_variable);
    IN_CHILD(has_attn_cache, "ATTN_CACHE=/x/y", "XDG_CACHE_HOME=/xdg", "HOME=/home0");
    IN_CHILD(has_xdg, "ATTN_CACHE=", "XDG_CACHE_HOME=/xdg", "HOME=/home0");
    IN_CHILD(has_home, "ATTN_CACHE=", "XDG_CACHE_HOME=not/absolute", "HOME=/home0");
    IN_CHILD(has_none, "ATTN_CACHE=", "XDG_CACHE_HOME=", "HOME=");
    IN_CHILD(has_none, "ATTN_CACHE=off", "XDG_CACHE_HOME=/xdg", "HOME=/home0");
    IN_CHILD(lives_in_memory, FAKE, "ATTN_CACHE=", "XDG_CACHE_HOME=", "HOME=");
    IN_CHILD(is_off, FAKE, "ATTN_CACHE=off");
    IN_CHILD(lives_in_memory, FAKE, "ATTN_CACHE=/proc/attn");
}

// ---- folders that will not do

static void has_size_limit(void)
{
    // What a full disk looks like: some bytes are written, then no more.
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {100, 100};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    lives_in_memory();
    CHILD_CHECK(strstr(log_text, "File too large") != NULL);
    // Nothing half-written is left.
    DIR *list = opendir(scratch_path("a/cache"));
    CHILD_CHECK(list != NULL);
    for (struct dirent *file; (file = readdir(list)) != NULL;) {
        CHILD_CHECK(strcmp(file->d_name, ".") == 0 || strcmp(file->d_name, "..") == 0);
    }
    closedir(list);
}

static void is_nobody_and_read_only(void)
{
    const char *folder = scratch_path("read_only");
    CHILD_CHECK(mkdir(folder, 0500) == 0);
    if (geteuid() == 0) {
        CHILD_CHECK(chown(folder, 65534, 65534) == 0 && chmod(scratch, 0755) == 0);
        CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    }
    lives_in_memory();
    CHILD_CHECK(strstr(log_text, "Permission denied") != NULL);
}

static void is_somebody_elses(void)
{
    CHILD_CHECK(mkdir(scratch_path("theirs"), 0755) == 0);
    CHILD_CHECK(chown(scratch_path("theirs"), 65534, 65534) == 0);
    lives_in_memory();
    CHILD_CHECK(strstr(log_text, "belongs to somebody else") != NULL);
}

static void is_open_to_others(void)
{
    CHILD_CHECK(mkdir(scratch_path("open"), 0700) == 0 && chmod(scratch_path("open"), 0777) == 0);
    lives_in_memory();
    CHILD_CHECK(strstr(log_text, "can be written by others") != NULL);
}

static void is_link(void)
{
    CHILD_CHECK(mkdir(scratch_path("target"), 0700) == 0);
    CHILD_CHECK(symlink(scratch_path("target"), scratch_path("link")) == 0);
    lives_in_memory();
    CHILD_CHECK(strstr(log_text, "is a link or no folder") != NULL);
}

static void test_bad_folders(void **state)
{
    (void)state;
    char variable[320];
#define AT(below) (snprintf(variable, sizeof(variable), "ATTN_CACHE=%s/" below, scratch), variable)
    IN_CHILD(has_size_limit, FAKE, cache_variable);
    IN_CHILD(is_nobody_and_read_only, FAKE, AT("read_only"));
    if (geteuid() == 0) {
        IN_CHILD(is_somebody_elses, FAKE, AT("theirs"));
    }
    IN_CHILD(is_open_to_others, FAKE, AT("open"));
    IN_CHILD(is_link, FAKE, AT("link"));
#undef AT
}

// ---- files that will not do

// The path of the folder's one file.
static const char *only_file(void)
{
    static char path[700];
    DIR *list = opendir(scratch_path("a/cache"));
    CHILD_CHECK(list != NULL);
    path[0] = '\0';
    for (struct dirent *file; (file = readdir(list)) != NULL;) {
        if (file->d_name[0] != '.') {
            CHILD_CHECK(path[0] == '\0');
            (void)snprintf(path, sizeof(path), "%s/%.200s", scratch_path("a/cache"), file->d_name);
        }
    }
    closedir(list);
    CHILD_CHECK(path[0] != '\0');
    return path;
}

static void expect_replaced(const char *reason)
{
    expect_from("A", ATTN_KERNEL_FROM_COMPILER);
    CHILD_CHECK(strstr(log_text, reason) != NULL);
    expect_from("A", ATTN_KERNEL_FROM_CACHE);
    struct stat status;
    CHILD_CHECK(lstat(only_file(), &status) == 0 && S_ISREG(status.st_mode));
}

static void is_damaged(void)
{
    FILE *file = fopen(only_file(), "r+b");
    CHILD_CHECK(file != NULL && fseek(file, -1, SEEK_END) == 0 && fputc('#', file) == '#');
    CHILD_CHECK(fclose(file) == 0);
    expect_replaced("damaged: its checksum is wrong; it is not used");
}

static void is_cut(void)
{
    CHILD_CHECK(truncate(only_file(), 1000) == 0);
    expect_replaced("cut off, or lengths that do not add up");
}

static void is_empty(void)
{
    CHILD_CHECK(truncate(only_file(), 0) == 0);
    expect_replaced("too short");
}

static void is_huge(void)
{
    CHILD_CHECK(truncate(only_file(), (off_t)1 << 40) == 0);
    expect_replaced("too long");
}

static void is_link_to_file(void)
{
    const char *path = only_file();
    CHILD_CHECK(rename(path, scratch_path("moved")) == 0);
    CHILD_CHECK(symlink(scratch_path("moved"), path) == 0);
    expect_replaced("is a link");
}

static void is_fifo(void)
{
    const char *path = only_file();
    CHILD_CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    expect_replaced("is no regular file");
}

static void is_writable_by_others(void)
{
    CHILD_CHECK(chmod(only_file(), 0666) == 0);
    expect_replaced("can be written by others");
}

// A whole and honest file of another kernel under this one's name: only the full key tells.
static void is_another_kernel(void)
{
    char mine[700];
    (void)snprintf(mine, sizeof(mine), "%s", only_file());
    CHILD_CHECK(rename(mine, scratch_path("moved")) == 0);
    expect_from("B", ATTN_KERNEL_FROM_COMPILER);
    CHILD_CHECK(rename(only_file(), mine) == 0);
    expect_replaced("holds another kernel than its name says");
}

static void test_bad_files(void **state)
{
    (void)state;
    void (*const bodies[])(void) = {is_damaged,
                                    is_cut,
                                    is_empty,
                                    is_huge,
                                    is_fifo,
                                    is_link_to_file,
                                    is_writable_by_others,
                                    is_another_kernel};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(setup(NULL), 0);
        IN_CHILD(compiles_a, FAKE, cache_variable);
        IN_CHILD(bodies[i], FAKE, cache_variable);
        assert_int_equal(teardown(NULL), 0);
    }
    assert_int_equal(setup(NULL), 0);
}

// ---- many processes

enum { PROCESSES = 32 };

static void starts(int start, int index)
{
    char byte;
    CHILD_CHECK(read(start, &byte, 1) == 0); // until the parent closes its end
    attn_kernel_image_t image;
    char prologue[16];
    (void)snprintf(prologue, sizeof(prologue), "P%d", index % 4);
    CHILD_CHECK(get(prologue, &image) == ATTN_OK);
    CHILD_CHECK(image.entry.cubin_bytes == 32);
    attn_kernel_image_free(&image);
}

static void all_are_good(void)
{
    for (int i = 0; i < 4; i++) {
        char prologue[16];
        (void)snprintf(prologue, sizeof(prologue), "P%d", i);
        expect_from(prologue, ATTN_KERNEL_FROM_CACHE);
    }
    CHILD_CHECK(!has_warned());
}

// 32 at once on an empty folder, one killed while it compiles.
static void test_many_start(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            const char *variables[] = {FAKE, cache_variable, count_variable,
                                       i == 5 ? "FAKE_NVRTC_SLEEP_MS=60000"
                                              : "FAKE_NVRTC_SLEEP_MS=20"};
            for (size_t v = 0; v < sizeof(variables) / sizeof(variables[0]); v++) {
                (void)putenv((char *)(uintptr_t)variables[v]);
            }
            close(ends[1]);
            starts(ends[0], i);
            _exit(0);
        }
    }
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        if (i == 5) {
            continue;
        }
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(kill(pids[5], SIGKILL), 0);
    assert_int_equal(waitpid(pids[5], NULL, 0), pids[5]);
    IN_CHILD(all_are_good, FAKE, cache_variable);
}

static int files_seen;
static int faults_seen;
static void count_file(void *user, const attn_kernel_info_t *info)
{
    (void)user;
    files_seen++;
    faults_seen += info->fault != NULL;
}

static void writes_for_ever(void)
{
    for (int i = 0;; i++) {
        attn_kernel_image_t image;
        char prologue[32];
        (void)snprintf(prologue, sizeof(prologue), "W%d of %d", i, (int)getpid());
        CHILD_CHECK(get(prologue, &image) == ATTN_OK);
        attn_kernel_image_free(&image);
    }
}

static void has_no_faults(void)
{
    files_seen = 0;
    faults_seen = 0;
    CHILD_CHECK(attn_kernels_visit(NULL, count_file, NULL) == ATTN_OK);
    CHILD_CHECK(files_seen > 0 && faults_seen == 0);
}

// Writers killed at odd moments: whatever has a name is whole.
static void test_killed_writers(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)putenv((char *)(uintptr_t)FAKE);
            (void)putenv(cache_variable);
            writes_for_ever();
        }
        nanosleep(&(struct timespec){.tv_nsec = 15000000 + 777777 * i}, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    IN_CHILD(has_no_faults, cache_variable);
}

// ---- listing and trimming

static void trims(void)
{
    int64_t removed;
    CHILD_CHECK(attn_cache_trim(INT64_MAX, &removed) == ATTN_OK && removed == 0);
    const char *names[] = {"A", "B", "C"};
    for (int i = 0; i < 3; i++) {
        expect_from(names[i], ATTN_KERNEL_FROM_COMPILER);
    }
    // B was used longest ago.
    attn_kernel_image_t image;
    CHILD_CHECK(get("B", &image) == ATTN_OK);
    char hex[2 * ATTN_SHA256_BYTES + 1];
    attn_sha256_hex(image.key.hash, hex);
    const int64_t bytes = (int64_t)attn_kernel_entry_bytes(&image.entry);
    attn_kernel_image_free(&image);
    char path[700];
    (void)snprintf(path, sizeof(path), "%s/%s-13000.kernel", scratch_path("a/cache"), hex);
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    CHILD_CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    // A damaged file, and one of a writer that died long ago.
    FILE *file = fopen(scratch_path("a/cache/damaged.kernel"), "w");
    CHILD_CHECK(file != NULL && fclose(file) == 0);
    file = fopen(scratch_path("a/cache/.new-1-2-3"), "w");
    CHILD_CHECK(file != NULL && fclose(file) == 0);
    CHILD_CHECK(utimensat(AT_FDCWD, scratch_path("a/cache/.new-1-2-3"), old, 0) == 0);
    files_seen = faults_seen = 0;
    CHILD_CHECK(attn_kernels_visit(NULL, count_file, NULL) == ATTN_OK);
    CHILD_CHECK(files_seen == 5 && faults_seen == 2);
    // Looking is not using.
    struct stat status;
    CHILD_CHECK(stat(path, &status) == 0 && status.st_mtime == 1000000);
    CHILD_CHECK(attn_cache_trim(2 * bytes, &removed) == ATTN_OK);
    CHILD_CHECK(removed == 3);
    expect_from("A", ATTN_KERNEL_FROM_CACHE);
    expect_from("C", ATTN_KERNEL_FROM_CACHE);
    expect_from("B", ATTN_KERNEL_FROM_COMPILER);
    CHILD_CHECK(attn_cache_trim(0, &removed) == ATTN_OK && removed == 3);
    CHILD_CHECK(attn_cache_trim(-1, &removed) == ATTN_INVALID_ARGUMENT);
}

// Using a kernel is written down, though not more often than every hour.
static void is_touched(void)
{
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    char path[700];
    (void)snprintf(path, sizeof(path), "%s", only_file());
    CHILD_CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    expect_from("A", ATTN_KERNEL_FROM_CACHE);
    struct stat status;
    CHILD_CHECK(stat(path, &status) == 0 && status.st_mtime > 1000000);
}

static void test_trim(void **state)
{
    (void)state;
    IN_CHILD(trims, FAKE, cache_variable);
    IN_CHILD(compiles_a, FAKE, cache_variable);
    IN_CHILD(is_touched, FAKE, cache_variable);
}

// ---- packs

static void makes_pack(void)
{
    attn_kernel_image_t images[2];
    attn_pack_part_t parts[2];
    void *data[2];
    for (int i = 0; i < 2; i++) {
        CHILD_CHECK(get(i == 0 ? "A" : "B", &images[i]) == ATTN_OK);
        parts[i].bytes = attn_kernel_entry_bytes(&images[i].entry);
        data[i] = malloc(parts[i].bytes);
        CHILD_CHECK(data[i] != NULL);
        attn_kernel_entry_write(&images[i].entry, data[i]);
        parts[i].data = data[i];
        memcpy(parts[i].hash, images[i].key.hash, ATTN_SHA256_BYTES);
    }
    CHILD_CHECK(attn_pack_write(scratch_path("pack"), parts, 2) == ATTN_OK);
    CHILD_CHECK(attn_pack_write("/nowhere/pack", parts, 2) == ATTN_IO_ERROR);
    CHILD_SAYS("pack /nowhere/pack: No such file");
    for (int i = 0; i < 2; i++) {
        free(data[i]);
        attn_kernel_image_free(&images[i]);
    }
}

static void uses_pack(void)
{
    expect_from("A", ATTN_KERNEL_FROM_PACK);
    expect_from("B", ATTN_KERNEL_FROM_PACK);
    CHILD_CHECK(strstr(log_text, "2 ATTN_PACK: ") != NULL);
    CHILD_CHECK(strstr(log_text, "/none: no such file") != NULL);
    attn_kernel_image_t image;
    CHILD_CHECK(get("C", &image) == ATTN_COMPILE_FAILED);
    files_seen = faults_seen = 0;
    CHILD_CHECK(attn_kernels_visit(scratch_path("pack"), count_file, NULL) == ATTN_OK);
    CHILD_CHECK(files_seen == 2 && faults_seen == 0);
    CHILD_CHECK(attn_kernels_visit("/nowhere/pack", count_file, NULL) == ATTN_IO_ERROR);
    CHILD_CHECK(attn_kernels_visit(scratch_path("count"), count_file, NULL) == ATTN_IO_ERROR);
}

static void uses_damaged_pack(void)
{
    FILE *file = fopen(scratch_path("pack"), "r+b");
    CHILD_CHECK(file != NULL && fseek(file, -3, SEEK_END) == 0 && fputc('#', file) == '#');
    CHILD_CHECK(fclose(file) == 0);
    expect_from("A", ATTN_KERNEL_FROM_PACK);
    attn_kernel_image_t image;
    CHILD_CHECK(get("B", &image) == ATTN_COMPILE_FAILED);
    CHILD_CHECK(strstr(log_text, "kernel 1: damaged: its checksum is wrong; it is not used"));
}

static void test_packs(void **state)
{
    (void)state;
    IN_CHILD(makes_pack, FAKE, "ATTN_CACHE=off", count_variable);
    assert_int_equal(compilations(), 2);
    IN_CHILD(uses_pack, NO_COMPILER, "ATTN_CACHE=off", pack_variable);
    IN_CHILD(uses_pack, FAKE, "ATTN_CACHE=off", "ATTN_JIT=0", pack_variable);
    IN_CHILD(uses_damaged_pack, NO_COMPILER, "ATTN_CACHE=off", pack_variable);
}

// ---- packs from problems

static void creates_packs(void)
{
    attn_desc_t descs[2];
    for (int i = 0; i < 2; i++) {
        attn_desc_init(&descs[i], i ? ATTN_F32 : ATTN_BF16);
        attn_desc_set_shape(&descs[i], 1, 8, 0, 1, 1, 64);
    }
    const attn_desc_t *list[3] = {&descs[0], &descs[1], &descs[0]};
    const attn_op_t ops[3] = {ATTN_FORWARD, ATTN_FORWARD, ATTN_FORWARD};
    const char *path = scratch_path("pack");
    int64_t kernels;
    // Two kernels for two architectures; the third problem needs the first one's. Merge and append.
    CHILD_CHECK(attn_pack_create(NULL, path, "sm_90a,sm_100a,", list, ops, 3, &kernels) == ATTN_OK);
    CHILD_CHECK(kernels == 8);
    files_seen = faults_seen = 0;
    CHILD_CHECK(attn_kernels_visit(path, count_file, NULL) == ATTN_OK);
    CHILD_CHECK(files_seen == 8 && faults_seen == 0);
#define REFUSED(says, ...)                                                                         \
    CHILD_CHECK(attn_pack_create(NULL, __VA_ARGS__) == ATTN_INVALID_ARGUMENT && kernels == 0);     \
    CHILD_SAYS(says)
    kernels = 0;
    REFUSED("path: NULL", NULL, "sm_90a", list, ops, 3, &kernels);
    REFUSED("archs: NULL", path, NULL, list, ops, 3, &kernels);
    REFUSED("archs: \"\"", path, "", list, ops, 3, &kernels);
    REFUSED("archs: \"sm_9\"", path, "sm_90a,sm_9", list, ops, 3, &kernels);
    REFUSED("descs, ops", path, "sm_90a", NULL, ops, 3, &kernels);
    REFUSED("descs, ops", path, "sm_90a", list, NULL, 3, &kernels);
    REFUSED("descs, ops", path, "sm_90a", list, ops, 0, &kernels);
    REFUSED("kernels_out: NULL", path, "sm_90a", list, ops, 3, NULL);
    list[1] = NULL;
    REFUSED("desc: NULL", path, "sm_90a", list, ops, 3, &kernels);
    list[1] = &descs[1];
    descs[1].heads_q = 0;
    REFUSED("heads_q: 0", path, "sm_90a", list, ops, 3, &kernels);
#undef REFUSED
    descs[1].heads_q = 1;
    descs[1].s_kv = 5;
    CHILD_CHECK(attn_pack_create(NULL, path, "sm_90a", list, ops, 3, &kernels) == ATTN_UNSUPPORTED);
    // What was refused left the pack alone.
    CHILD_CHECK(attn_kernels_visit(path, count_file, NULL) == ATTN_OK && files_seen == 16);
}

static void test_pack_create(void **state)
{
    (void)state;
    IN_CHILD(creates_packs, FAKE, "ATTN_CACHE=off");
}

int main(void)
{
#define WITH_SCRATCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_SCRATCH(test_order),       WITH_SCRATCH(test_places),
        WITH_SCRATCH(test_bad_folders), WITH_SCRATCH(test_bad_files),
        WITH_SCRATCH(test_many_start),  WITH_SCRATCH(test_killed_writers),
        WITH_SCRATCH(test_trim),        WITH_SCRATCH(test_packs),
        WITH_SCRATCH(test_pack_create),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
