// NVRTC reads the kernel headers too: the library compiles its kernels at run time. Each
// architecture's instructions go through libnvrtc, which is loaded when it is there; without it the
// tests say so and are skipped. No GPU is needed.
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef SOURCE_FOLDER
#error "SOURCE_FOLDER is the root of the repository"
#endif

// NVRTC's interface ("NVRTC, Basic Usage"); 0 is success.
static struct {
    int (*create)(void **program, const char *source, const char *name, int headers,
                  const char *const *sources, const char *const *names);
    int (*compile)(void *program, int options, const char *const *texts);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*cubin_size)(void *program, size_t *size);
    int (*destroy)(void **program);
} nvrtc;

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        fail_msg("libnvrtc has no %s", name);
    }
    return address;
}

static int load_nvrtc(void **state)
{
    (void)state;
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        "/usr/local/cuda/lib/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        printf("libnvrtc is not installed: nothing is compiled\n");
        return 0;
    }
    // POSIX wants dlsym's result to convert to a function; C has no cast for it.
    *(void **)&nvrtc.create = symbol(library, "nvrtcCreateProgram");
    *(void **)&nvrtc.compile = symbol(library, "nvrtcCompileProgram");
    *(void **)&nvrtc.log_size = symbol(library, "nvrtcGetProgramLogSize");
    *(void **)&nvrtc.log = symbol(library, "nvrtcGetProgramLog");
    *(void **)&nvrtc.cubin_size = symbol(library, "nvrtcGetCUBINSize");
    *(void **)&nvrtc.destroy = symbol(library, "nvrtcDestroyProgram");
    return 0;
}

// Compiles what includes `file`; the log of a failure is the test's message.
static void compile(const char *file, const char *arch, const char *definition)
{
    if (!nvrtc.create) {
        skip();
    }
    char source[512];
    snprintf(source, sizeof source, "#include \"%s/%s\"\n", SOURCE_FOLDER, file);
    char arch_option[64];
    snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
    const char *options[] = {arch_option, definition};
    void *program;
    assert_int_equal(nvrtc.create(&program, source, "kernel.cu", 0, NULL, NULL), 0);
    int status = nvrtc.compile(program, definition ? 2 : 1, options);
    size_t size = 0;
    nvrtc.log_size(program, &size);
    char *log = calloc(size + 1, 1);
    assert_non_null(log);
    nvrtc.log(program, log);
    if (status != 0) {
        log[size < 1200 ? size : 1200] = 0;
        fail_msg("%s for %s: %s", file, arch, log);
    }
    size_t bytes = 0;
    assert_int_equal(nvrtc.cubin_size(program, &bytes), 0);
    assert_true(bytes > 0);
    free(log);
    nvrtc.destroy(&program);
}

static void test_every_instruction(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        compile("tests/emu/every_instruction.c", archs[i], NULL);
    }
}

static void test_every_tcgen05(void **state)
{
    (void)state;
    compile("tests/emu/every_tcgen05.c", "sm_100a", NULL);
    compile("tests/emu/every_tcgen05.c", "sm_103a", "-DPAIR");
}

static void test_a_whole_kernel(void **state)
{
    (void)state;
    compile("examples/ladder/hopper_attention.c", "sm_90a", "-DHEAD_DIM=128");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_instruction),
        cmocka_unit_test(test_every_tcgen05),
        cmocka_unit_test(test_a_whole_kernel),
    };
    return cmocka_run_group_tests_name("nvrtc_headers", tests, load_nvrtc, NULL);
}
