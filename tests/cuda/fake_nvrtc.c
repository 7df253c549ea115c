// A compiler that is none: a shared object with the functions of libnvrtc that libattn calls. Its
// cubin is an ELF header's first bytes and a number made of the text and the options. Environment:
//
//   FAKE_NVRTC_VERSION   "12.8"; 13.0
//   FAKE_NVRTC_COUNT     a file that grows by one byte with each compilation, of any process
//   FAKE_NVRTC_SLEEP_MS  how long a compilation takes
//   FAKE_NVRTC_FAIL      "FUNCTION=RESULT"
//
// A text that holds the word "mistake" does not compile; one with "careful" gives a warning.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAKE __attribute__((visibility("default")))

struct fake_program {
    uint64_t number;
    const char *log;
    int is_mistaken, is_careful, is_compiled;
};

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

static int told(const char *function)
{
    const char *fail = setting("FAKE_NVRTC_FAIL", "");
    const size_t bytes = strlen(function);
    return strncmp(fail, function, bytes) == 0 && fail[bytes] == '=' ? atoi(fail + bytes + 1) : 0;
}

#define FAIL_IF_TOLD()                                                                             \
    do {                                                                                           \
        if (told(__func__)) {                                                                      \
            return told(__func__);                                                                 \
        }                                                                                          \
    } while (0)

static uint64_t mix(uint64_t number, const char *text)
{
    for (; *text != '\0'; text++) {
        number = (number ^ (unsigned char)*text) * 1099511628211u;
    }
    return number;
}

FAKE const char *nvrtcGetErrorString(int result)
{
    return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_AS_TOLD";
}

FAKE int nvrtcVersion(int *major_out, int *minor_out)
{
    FAIL_IF_TOLD();
    return sscanf(setting("FAKE_NVRTC_VERSION", "13.0"), "%d.%d", major_out, minor_out) != 2;
}

FAKE int nvrtcGetNumSupportedArchs(int *count_out)
{
    FAIL_IF_TOLD();
    *count_out = 2;
    return 0;
}

FAKE int nvrtcGetSupportedArchs(int *list)
{
    list[0] = 90;
    list[1] = 100;
    return 0;
}

FAKE int nvrtcCreateProgram(struct fake_program **program_out, const char *text, const char *name,
                            int header_count, const char *const *headers,
                            const char *const *header_names)
{
    FAIL_IF_TOLD();
    struct fake_program *program = calloc(1, sizeof(*program));
    if (program == NULL) {
        return 1;
    }
    program->number = mix(mix(14695981039346656037u, text), name);
    for (int i = 0; i < header_count; i++) {
        program->number = mix(mix(program->number, headers[i]), header_names[i]);
    }
    program->is_mistaken = strstr(text, "mistake") != NULL;
    program->is_careful = strstr(text, "careful") != NULL;
    *program_out = program;
    return 0;
}

FAKE int nvrtcDestroyProgram(struct fake_program **program)
{
    free(*program);
    *program = NULL;
    return 0;
}

static void count_compilation(void)
{
    const char *path = setting("FAKE_NVRTC_COUNT", NULL);
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file >= 0) {
        if (write(file, "x", 1) != 1) {
            abort();
        }
        close(file);
    }
    const long ms = atol(setting("FAKE_NVRTC_SLEEP_MS", "0"));
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

FAKE int nvrtcCompileProgram(struct fake_program *program, int option_count,
                             const char *const *options)
{
    FAIL_IF_TOLD();
    count_compilation();
    for (int i = 0; i < option_count; i++) {
        program->number = mix(program->number, options[i]);
    }
    if (program->is_mistaken) {
        program->log = "kernel.cu(3): warning: this is not it\n"
                       "kernel.cu(7): error: identifier \"mistake\" is undefined\n\n"
                       "kernel.cu(9): error: expected a \";\"\n"
                       "2 errors detected in the compilation of \"kernel.cu\".\n";
        return 6;
    }
    program->log = program->is_careful ? "kernel.cu(2): warning: careful\n" : "";
    program->is_compiled = 1;
    return 0;
}

FAKE int nvrtcGetProgramLogSize(struct fake_program *program, size_t *bytes_out)
{
    FAIL_IF_TOLD();
    *bytes_out = program->log ? strlen(program->log) + 1 : 0;
    return 0;
}

FAKE int nvrtcGetProgramLog(struct fake_program *program, char *log)
{
    memcpy(log, program->log, strlen(program->log) + 1);
    return 0;
}

FAKE int nvrtcGetCUBINSize(struct fake_program *program, size_t *bytes_out)
{
    FAIL_IF_TOLD();
    *bytes_out = program->is_compiled ? 32 : 0;
    return 0;
}

FAKE int nvrtcGetCUBIN(struct fake_program *program, char *cubin)
{
    FAIL_IF_TOLD();
    memcpy(cubin, "\177ELF", 4);
    memset(cubin + 4, 'f', 20);
    memcpy(cubin + 24, &program->number, 8);
    return 0;
}
