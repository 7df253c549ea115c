// Opening NVRTC and calling it (NVRTC documentation, CUDA 12.0). Which text a kernel is and where
// its cubin goes is the callers' business.
#include "nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "library_symbol.h"
#include "nvrtc_find.h"

typedef int32_t nvrtc_result;
typedef struct _nvrtcProgram *nvrtc_program;

enum { NVRTC_SUCCESS = 0, NVRTC_OUT_OF_MEMORY = 1 };

// X(field, symbol, parameters). All return an nvrtc_result.
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(version, "nvrtcVersion", (int32_t * major_out, int32_t * minor_out))                         \
    X(arch_count, "nvrtcGetNumSupportedArchs", (int32_t * count_out))                              \
    X(archs, "nvrtcGetSupportedArchs", (int32_t * list))                                           \
    X(create, "nvrtcCreateProgram",                                                                \
      (nvrtc_program * program_out, const char *text, const char *name, int32_t header_count,      \
       const char *const *headers, const char *const *header_names))                               \
    X(destroy, "nvrtcDestroyProgram", (nvrtc_program * program))                                   \
    X(compile, "nvrtcCompileProgram",                                                              \
      (nvrtc_program program, int32_t option_count, const char *const *options))                   \
    X(log_bytes, "nvrtcGetProgramLogSize", (nvrtc_program program, size_t * bytes_out))            \
    X(log, "nvrtcGetProgramLog", (nvrtc_program program, char *log))                               \
    X(cubin_bytes, "nvrtcGetCUBINSize", (nvrtc_program program, size_t * bytes_out))               \
    X(cubin, "nvrtcGetCUBIN", (nvrtc_program program, char *cubin))

struct attn_nvrtc {
#define NVRTC_FIELD(field, symbol, parameters) nvrtc_result(*field) parameters;
    NVRTC_FUNCTIONS(NVRTC_FIELD)
#undef NVRTC_FIELD
    // Text of a result; the one function that does not return one.
    const char *(*error_string)(nvrtc_result result);
    int32_t version_number;
    char path[4096];
};

static pthread_once_t find_once = PTHREAD_ONCE_INIT;
static attn_nvrtc_t found;
static attn_status_t find_status;
static attn_error_text_t find_error;

// -------------------------------------------------------------------------------------------------
// Finding

typedef struct find_state {
    int is_found;
    char refused[256]; // the last file that was there and would not do, and why
} find_state_t;

// Why the opened library will not do, or NULL.
static const char *fill_from(void *library)
{
    static char reason[128];
    int ok = attn_library_symbol(library, "nvrtcGetErrorString", &found.error_string);
#define NVRTC_LOOK_UP(field, symbol, parameters)                                                   \
    ok = ok && attn_library_symbol(library, symbol, &found.field);
    NVRTC_FUNCTIONS(NVRTC_LOOK_UP)
#undef NVRTC_LOOK_UP
    int32_t major = 0;
    int32_t minor = 0;
    if (!ok) {
        return "lacks functions of NVRTC 12.0";
    }
    if (found.version(&major, &minor) != NVRTC_SUCCESS) {
        return "does not tell its version";
    }
    found.version_number = major * 1000 + minor * 10;
    if (found.version_number < ATTN_NVRTC_VERSION_MIN) {
        (void)snprintf(reason, sizeof(reason), "is NVRTC %d.%d, needed is %d.%d or newer", major,
                       minor, ATTN_NVRTC_VERSION_MIN / 1000, ATTN_NVRTC_VERSION_MIN % 1000 / 10);
        return reason;
    }
    return NULL;
}

static int try_path(void *user, const char *path)
{
    find_state_t *const state = user;
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        if (strchr(path, '/') != NULL) {
            (void)snprintf(state->refused, sizeof(state->refused), "%s", dlerror());
        }
        return 0;
    }
    const char *const reason = fill_from(library);
    if (reason != NULL) {
        (void)snprintf(state->refused, sizeof(state->refused), "%s %s", path, reason);
        (void)dlclose(library);
        return 0;
    }
    (void)snprintf(found.path, sizeof(found.path), "%s", path);
    state->is_found = 1;
    return 1;
}

static attn_status_t find(void)
{
    find_state_t state = {0};
    attn_nvrtc_find(try_path, &state);
    ATTN_RETURN_IF(
        !state.is_found, ATTN_COMPILE_FAILED,
        "no NVRTC (libnvrtc.so.12 or .13): %s; name it in ATTN_NVRTC, or use a pack made "
        "by attn compile (ATTN_PACK)",
        state.refused[0] != '\0' ? state.refused : "not in any usual place");
    return ATTN_OK;
}

static void find_and_remember(void)
{
    attn_error_text_t before;
    attn_error_save(&before);
    find_status = find();
    attn_error_save(&find_error);
    attn_error_restore(&before);
}

attn_status_t attn_nvrtc_get(const attn_nvrtc_t **nvrtc_out)
{
    (void)pthread_once(&find_once, find_and_remember);
    *nvrtc_out = &found;
    ATTN_RETURN_IF(find_status != ATTN_OK, find_status, "%s", find_error.text);
    return ATTN_OK;
}

int32_t attn_nvrtc_version(const attn_nvrtc_t *nvrtc)
{
    return nvrtc->version_number;
}

const char *attn_nvrtc_path(const attn_nvrtc_t *nvrtc)
{
    return nvrtc->path;
}

// -------------------------------------------------------------------------------------------------
// Compiling

// An architecture that this NVRTC is too old for deserves a better text than "invalid option".
static attn_status_t check_arch(const attn_nvrtc_t *nvrtc, const attn_compile_job_t *job)
{
    int32_t list[256];
    int32_t count;
    if (nvrtc->arch_count(&count) != NVRTC_SUCCESS || count < 1 || count > 256 ||
        nvrtc->archs(list) != NVRTC_SUCCESS) {
        return ATTN_OK;
    }
    const int32_t wanted = (int32_t)strtol(job->arch + strlen("sm_"), NULL, 10);
    for (int32_t i = 0; i < count; i++) {
        if (list[i] == wanted) {
            return ATTN_OK;
        }
    }
    return attn_fail(ATTN_COMPILE_FAILED,
                     "kernel %s: %s is unknown to NVRTC %d.%d (%s), which knows sm_%d to sm_%d",
                     job->name, job->arch, nvrtc->version_number / 1000,
                     nvrtc->version_number % 1000 / 10, nvrtc->path, list[0], list[count - 1]);
}

// The compiler's words; the caller frees them. NULL if there are none, or no memory for them.
static char *read_log(const attn_nvrtc_t *nvrtc, nvrtc_program program)
{
    size_t bytes = 0;
    if (nvrtc->log_bytes(program, &bytes) != NVRTC_SUCCESS || bytes <= 1) {
        return NULL;
    }
    char *const log = malloc(bytes + 1);
    if (log != NULL && nvrtc->log(program, log) != NVRTC_SUCCESS) {
        free(log);
        return NULL;
    }
    if (log != NULL) {
        log[bytes] = '\0';
    }
    return log;
}

static void log_lines(const attn_context_t *context, attn_log_level_t level, const char *text)
{
    while (*text != '\0') {
        const size_t bytes = strcspn(text, "\n");
        if (bytes > 0) {
            attn_log(context, level, "nvrtc: %.*s", (int)bytes, text);
        }
        text += bytes + (text[bytes] == '\n');
    }
}

// The lines that name an error, as many as fit, with a blank for each newline.
static void first_errors(const char *log, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    while (*log != '\0' && used + 1 < text_bytes) {
        const size_t bytes = strcspn(log, "\n");
        char line[256];
        (void)snprintf(line, sizeof(line), "%.*s", (int)bytes, log);
        if (strstr(line, "error") != NULL) {
            const int added =
                snprintf(text + used, text_bytes - used, "%s%s", used > 0 ? "; " : "", line);
            used += added > 0 ? (size_t)added : 0;
        }
        log += bytes + (log[bytes] == '\n');
    }
}

static attn_status_t compile_failed(const attn_nvrtc_t *nvrtc, const attn_compile_job_t *job,
                                    nvrtc_result result, const char *log)
{
    char errors[384];
    first_errors(log != NULL ? log : "", errors, sizeof(errors));
    return attn_fail(result == NVRTC_OUT_OF_MEMORY ? ATTN_OUT_OF_MEMORY : ATTN_COMPILE_FAILED,
                     "kernel %s: %s", job->name,
                     errors[0] != '\0' ? errors : nvrtc->error_string(result));
}

static attn_status_t take_cubin(const attn_nvrtc_t *nvrtc, const attn_compile_job_t *job,
                                nvrtc_program program, void **cubin_out, size_t *cubin_bytes_out)
{
    nvrtc_result result = nvrtc->cubin_bytes(program, cubin_bytes_out);
    ATTN_RETURN_IF(result != NVRTC_SUCCESS || *cubin_bytes_out == 0, ATTN_COMPILE_FAILED,
                   "kernel %s: nvrtcGetCUBINSize: %s", job->name, nvrtc->error_string(result));
    char *const cubin = malloc(*cubin_bytes_out);
    ATTN_RETURN_IF(cubin == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory for %zu bytes",
                   job->name, *cubin_bytes_out);
    result = nvrtc->cubin(program, cubin);
    if (result != NVRTC_SUCCESS) {
        free(cubin);
        return attn_fail(ATTN_COMPILE_FAILED, "kernel %s: nvrtcGetCUBIN: %s", job->name,
                         nvrtc->error_string(result));
    }
    *cubin_out = cubin;
    return ATTN_OK;
}

static attn_status_t create_program(const attn_nvrtc_t *nvrtc, const attn_compile_job_t *job,
                                    nvrtc_program *program_out)
{
    const size_t count = (size_t)job->header_count;
    const char **const lists = malloc((2 * count + 1) * sizeof(*lists));
    ATTN_RETURN_IF(lists == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory for %zu headers",
                   job->name, count);
    for (size_t i = 0; i < count; i++) {
        lists[i] = job->headers[i].text;
        lists[count + i] = job->headers[i].path;
    }
    const nvrtc_result result =
        nvrtc->create(program_out, job->text, "kernel.cu", job->header_count, lists, lists + count);
    free(lists);
    return result == NVRTC_SUCCESS ? ATTN_OK : compile_failed(nvrtc, job, result, NULL);
}

attn_status_t attn_nvrtc_compile(const attn_nvrtc_t *nvrtc, const attn_context_t *context,
                                 const attn_compile_job_t *job, void **cubin_out,
                                 size_t *cubin_bytes_out)
{
    *cubin_out = NULL;
    *cubin_bytes_out = 0;
    ATTN_FORWARD_ERROR(check_arch(nvrtc, job));
    nvrtc_program program;
    ATTN_FORWARD_ERROR(create_program(nvrtc, job, &program));
    const nvrtc_result result = nvrtc->compile(program, job->option_count, job->options);
    char *const log = read_log(nvrtc, program);
    if (log != NULL) {
        log_lines(context, result == NVRTC_SUCCESS ? ATTN_LOG_WARNING : ATTN_LOG_ERROR, log);
    }
    const attn_status_t status = result == NVRTC_SUCCESS
                                     ? take_cubin(nvrtc, job, program, cubin_out, cubin_bytes_out)
                                     : compile_failed(nvrtc, job, result, log);
    free(log);
    (void)nvrtc->destroy(&program);
    return status;
}
