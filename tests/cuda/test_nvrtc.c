// NVRTC: where it is found, which one will do, what a compilation gives and says. All with a fake
// compiler; test_nvrtc_real.c has the real one.
#include "child.h"
#include "log_lines.h"

#include <sys/stat.h>

#include "cuda/nvrtc.h"
#include "cuda/nvrtc_find.h"

#define FAKE "ATTN_NVRTC=" FAKE_NVRTC_PATH

// ---- finding

static void is_named(void)
{
    const attn_nvrtc_t *nvrtc;
    CHILD_CHECK(attn_nvrtc_get(&nvrtc) == ATTN_OK);
    CHILD_CHECK(attn_nvrtc_version(nvrtc) == 12080);
    CHILD_CHECK(strcmp(attn_nvrtc_path(nvrtc), FAKE_NVRTC_PATH) == 0);
}

static void is_too_old(void)
{
    const attn_nvrtc_t *nvrtc;
    CHILD_CHECK(attn_nvrtc_get(&nvrtc) == ATTN_COMPILE_FAILED);
    CHILD_SAYS("no NVRTC");
    CHILD_SAYS("is NVRTC 11.8, needed is 12.0 or newer");
}

static void is_not_there(void)
{
    const attn_nvrtc_t *nvrtc;
    CHILD_CHECK(attn_nvrtc_get(&nvrtc) == ATTN_COMPILE_FAILED);
    CHILD_SAYS("/nowhere/libnvrtc.so.13");
    CHILD_SAYS("ATTN_PACK");
}

static void is_something_else(void)
{
    const attn_nvrtc_t *nvrtc;
    CHILD_CHECK(attn_nvrtc_get(&nvrtc) == ATTN_COMPILE_FAILED);
    CHILD_SAYS("libm.so.6 lacks functions of NVRTC 12.0");
}

static void test_finding(void **state)
{
    (void)state;
    IN_CHILD(is_named, FAKE, "FAKE_NVRTC_VERSION=12.8");
    IN_CHILD(is_too_old, FAKE, "FAKE_NVRTC_VERSION=11.8");
    IN_CHILD(is_not_there, "ATTN_NVRTC=/nowhere/libnvrtc.so.13");
    IN_CHILD(is_something_else, "ATTN_NVRTC=libm.so.6");
}

// The folders of a toolkit and of Python environments, tried in order. This machine's own NVRTC
// would be found by the loader first, so the order is looked at file by file.
static int list_path(void *user, const char *path)
{
    char *list = user;
    (void)snprintf(list + strlen(list), 8192 - strlen(list), "%s\n", path);
    return 0;
}

static char folder[256];

static void make_file(const char *below)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, below);
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    CHILD_CHECK(file != NULL && fclose(file) == 0);
}

static void expect_order(const char *list, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        const char *at = strstr(list, *parts);
        if (at == NULL) {
            fprintf(stderr, "'%s' is not in, or not in this order:\n%s", *parts, list);
            _exit(1);
        }
        list = at + strlen(*parts);
    }
}

static void is_searched(void)
{
    static char list[8192];
    make_file("toolkit/lib64/libnvrtc.so.12");
    make_file("toolkit/lib64/libnvrtc.so");
    make_file("venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    make_file("venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    make_file("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    make_file("conda/lib/libnvrtc.so.12");
    char variables[3][320];
    (void)snprintf(variables[0], sizeof(variables[0]), "CUDA_HOME=%s/toolkit", folder);
    (void)snprintf(variables[1], sizeof(variables[1]), "VIRTUAL_ENV=%s/venv", folder);
    (void)snprintf(variables[2], sizeof(variables[2]), "CONDA_PREFIX=%s/conda", folder);
    for (int i = 0; i < 3; i++) {
        (void)putenv(variables[i]);
    }
    attn_nvrtc_find(list_path, list);
    expect_order(list, (const char *const[]){
                           "libnvrtc.so.13\n", "libnvrtc.so.12\n", "libnvrtc.so\n",
                           "/toolkit/lib64/libnvrtc.so.12\n", "/toolkit/lib64/libnvrtc.so\n",
                           "python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13\n",
                           "python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12\n",
                           "python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12\n",
                           "/conda/lib/libnvrtc.so.12\n", NULL});
}

static void test_places(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/attn-nvrtc-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    IN_CHILD(is_searched, "ATTN_NVRTC=");
    char command[300];
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

// ---- compiling

static attn_status_t compile(const char *text, const char *arch, void **cubin, size_t *bytes)
{
    const attn_nvrtc_t *nvrtc;
    CHILD_CHECK(attn_nvrtc_get(&nvrtc) == ATTN_OK);
    const attn_source_t headers[] = {{"a.h", "first"}, {"b/c.h", "second"}};
    const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17"};
    const attn_compile_job_t job = {.name = "test_kernel",
                                    .text = text,
                                    .headers = headers,
                                    .header_count = 2,
                                    .options = options,
                                    .option_count = 2,
                                    .arch = arch};
    return attn_nvrtc_compile(nvrtc, logging_context(), &job, cubin, bytes);
}

static void compiles(void)
{
    void *first;
    void *second;
    size_t bytes;
    CHILD_CHECK(compile("text", "sm_90a", &first, &bytes) == ATTN_OK);
    CHILD_CHECK(bytes == 32 && memcmp(first, "\177ELF", 4) == 0);
    CHILD_CHECK(log_text[0] == '\0');
    CHILD_CHECK(compile("careful", "sm_90a", &second, &bytes) == ATTN_OK);
    CHILD_CHECK(memcmp(first, second, 32) != 0);
    CHILD_CHECK(strcmp(log_text, "2 nvrtc: kernel.cu(2): warning: careful\n") == 0);
    free(first);
    free(second);
}

static void refuses(void)
{
    void *cubin = &cubin;
    size_t bytes = 1;
    CHILD_CHECK(compile("mistake", "sm_90a", &cubin, &bytes) == ATTN_COMPILE_FAILED);
    CHILD_CHECK(cubin == NULL && bytes == 0);
    CHILD_CHECK(strncmp(attn_last_error(), "kernel test_kernel: kernel.cu(7): error: ", 41) == 0);
    CHILD_SAYS("undefined; kernel.cu(9): error: expected");
    CHILD_CHECK(strstr(log_text, "1 nvrtc: kernel.cu(3): warning: this is not it\n") != NULL);
    CHILD_CHECK(strstr(log_text, "1 nvrtc: 2 errors detected") != NULL);
}

static void knows_no_such_arch(void)
{
    void *cubin;
    size_t bytes;
    CHILD_CHECK(compile("text", "sm_120a", &cubin, &bytes) == ATTN_COMPILE_FAILED);
    CHILD_SAYS("sm_120a is unknown to NVRTC 12.8");
    CHILD_SAYS("sm_90 to sm_100");
}

static void fails_within(void)
{
    void *cubin;
    size_t bytes;
    const attn_status_t status = compile("text", "sm_90a", &cubin, &bytes);
    CHILD_CHECK(status == ATTN_COMPILE_FAILED || status == ATTN_OUT_OF_MEMORY);
    CHILD_CHECK((status == ATTN_OUT_OF_MEMORY) == (strchr(getenv("FAKE_NVRTC_FAIL"), '1') != NULL));
    CHILD_CHECK(cubin == NULL);
    CHILD_SAYS("NVRTC_ERROR_AS_TOLD");
}

static void test_compiling(void **state)
{
    (void)state;
    IN_CHILD(compiles, FAKE);
    IN_CHILD(refuses, FAKE);
    IN_CHILD(knows_no_such_arch, FAKE, "FAKE_NVRTC_VERSION=12.8");
    IN_CHILD(fails_within, FAKE, "FAKE_NVRTC_FAIL=nvrtcCreateProgram=1");
    IN_CHILD(fails_within, FAKE, "FAKE_NVRTC_FAIL=nvrtcCompileProgram=5");
    IN_CHILD(fails_within, FAKE, "FAKE_NVRTC_FAIL=nvrtcGetCUBINSize=3");
    IN_CHILD(fails_within, FAKE, "FAKE_NVRTC_FAIL=nvrtcGetCUBIN=3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finding),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_compiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
