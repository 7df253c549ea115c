// The real NVRTC on the real kernel text, where NVRTC is installed; no GPU. Without it the test is
// skipped (77) and says why.
#include "child.h"
#include "log_lines.h"

#include <time.h>

#include "cuda/kernel_source.h"
#include "cuda/nvrtc.h"

static const attn_nvrtc_t *nvrtc;

static attn_status_t compile(const char *text, const char *arch, size_t *bytes_out)
{
    static attn_source_set_t set;
    assert_int_equal(attn_source_collect("device/common/fill_forward.c", &set), ATTN_OK);
    char option[64];
    (void)snprintf(option, sizeof(option), "--gpu-architecture=%s", arch);
    const char *const options[] = {option};
    const attn_compile_job_t job = {.name = "fill_test",
                                    .text = text,
                                    .headers = set.list,
                                    .header_count = set.count,
                                    .options = options,
                                    .option_count = 1,
                                    .arch = arch};
    void *cubin;
    const attn_status_t status =
        attn_nvrtc_compile(nvrtc, logging_context(), &job, &cubin, bytes_out);
    if (status == ATTN_OK) {
        assert_memory_equal(cubin, "\177ELF", 4);
    }
    free(cubin);
    attn_source_clear(&set);
    return status;
}

static void test_compiles(void **state)
{
    (void)state;
    const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        struct timespec begin;
        struct timespec end;
        size_t bytes;
        log_text[0] = '\0';
        clock_gettime(CLOCK_MONOTONIC, &begin);
        const attn_status_t status = compile("#define ATTN_CFG_KERNEL fill_test\n"
                                             "#define ATTN_CFG_O_BYTES 2\n"
                                             "#include \"device/common/fill_forward.c\"\n",
                                             archs[i], &bytes);
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (status != ATTN_OK) {
            fail_msg("%s: %s", archs[i], attn_last_error());
        }
        assert_string_equal(log_text, "");
        print_message("%s: %zu bytes in %.0f ms\n", archs[i], bytes,
                      1e3 * (double)(end.tv_sec - begin.tv_sec) +
                          1e-6 * (double)(end.tv_nsec - begin.tv_nsec));
    }
}

static void test_refuses(void **state)
{
    (void)state;
    size_t bytes;
    assert_int_equal(compile("int main(void) { return mistake; }", "sm_90a", &bytes),
                     ATTN_COMPILE_FAILED);
    assert_non_null(strstr(attn_last_error(), "kernel fill_test: kernel.cu(1): error"));
    assert_non_null(strstr(attn_last_error(), "mistake"));
    assert_non_null(strstr(log_text, "1 nvrtc: kernel.cu(1): error"));
    assert_int_equal(compile("", "sm_20", &bytes), ATTN_COMPILE_FAILED);
    assert_non_null(strstr(attn_last_error(), "sm_20 is unknown to NVRTC"));
}

int main(void)
{
    if (attn_nvrtc_get(&nvrtc) != ATTN_OK) {
        printf("skipped: %s\n", attn_last_error());
        return 77;
    }
    printf("NVRTC %d, %s\n", (int)attn_nvrtc_version(nvrtc), attn_nvrtc_path(nvrtc));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiles),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
