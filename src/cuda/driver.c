// Loading the driver: find the library, compare its version, look up every function, initialise.
// What a GPU is and which contexts it has is gpu_device.c's business.
#include "driver.h"

#include <pthread.h>

#include "../core/status.h"
#include "environment.h"
#include "library_symbol.h"

#define DRIVER_LIBRARY "libcuda.so.1"

// What the first call found, for every call after it.
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static attn_driver_t loaded;
static attn_status_t load_status;
static attn_error_text_t load_error;

static attn_status_t check_version(void *library, const char *path)
{
    cu_result (*get_version)(int32_t *);
    ATTN_RETURN_IF(!attn_library_symbol(library, "cuDriverGetVersion", &get_version),
                   ATTN_DRIVER_ERROR,
                   "%s: has no function cuDriverGetVersion; it is no NVIDIA driver", path);
    const cu_result result = get_version(&loaded.version);
    ATTN_RETURN_IF(result != CU_SUCCESS, ATTN_DRIVER_ERROR, "cuDriverGetVersion: error %d",
                   (int)result);
    ATTN_RETURN_IF(loaded.version < ATTN_DRIVER_VERSION_MIN, ATTN_DRIVER_ERROR,
                   "NVIDIA driver: it is for CUDA %d.%d, needed is one for CUDA %d.%d or newer",
                   loaded.version / 1000, loaded.version % 1000 / 10,
                   ATTN_DRIVER_VERSION_MIN / 1000, ATTN_DRIVER_VERSION_MIN % 1000 / 10);
    return ATTN_OK;
}

static attn_status_t look_up_all(void *library, const char *path)
{
#define ATTN_DRIVER_LOOK_UP(field, symbol, parameters)                                             \
    ATTN_RETURN_IF(!attn_library_symbol(library, symbol, &loaded.field), ATTN_DRIVER_ERROR,        \
                   "%s: has no function %s, though it is for CUDA %d.%d", path, symbol,            \
                   loaded.version / 1000, loaded.version % 1000 / 10);
    ATTN_DRIVER_FUNCTIONS(ATTN_DRIVER_LOOK_UP)
#undef ATTN_DRIVER_LOOK_UP
    return ATTN_OK;
}

static attn_status_t load(void)
{
    const char *const named = attn_environment("ATTN_CUDA_LIBRARY");
    const char *const path = named != NULL ? named : DRIVER_LIBRARY;
    // Never closed: the driver has threads of its own.
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ATTN_RETURN_IF(library == NULL, ATTN_NO_DEVICE, "no NVIDIA driver: %s", dlerror());
    ATTN_FORWARD_ERROR(check_version(library, path));
    ATTN_FORWARD_ERROR(look_up_all(library, path));
    ATTN_DRIVER_CHECK(&loaded, "cuInit", loaded.init(0));
    return ATTN_OK;
}

static void load_and_remember(void)
{
    attn_error_text_t before;
    attn_error_save(&before);
    load_status = load();
    attn_error_save(&load_error);
    attn_error_restore(&before);
}

attn_status_t attn_driver_get(const attn_driver_t **driver_out)
{
    (void)pthread_once(&load_once, load_and_remember);
    *driver_out = &loaded;
    ATTN_RETURN_IF(load_status != ATTN_OK, load_status, "%s", load_error.text);
    return ATTN_OK;
}

static attn_status_t status_of(cu_result result)
{
    switch (result) {
    case CU_OUT_OF_MEMORY: return ATTN_OUT_OF_MEMORY;
    case CU_NO_DEVICE:
    case CU_INVALID_DEVICE: return ATTN_NO_DEVICE;
    default: return ATTN_DRIVER_ERROR;
    }
}

attn_status_t attn_driver_fail(const attn_driver_t *driver, const char *what, cu_result result)
{
    const char *name = NULL;
    const char *text = NULL;
    if (driver->get_error_name(result, &name) != CU_SUCCESS || name == NULL) {
        name = "unknown error";
    }
    if (driver->get_error_string(result, &text) != CU_SUCCESS || text == NULL) {
        text = "";
    }
    return attn_fail(status_of(result), "%s: %s (%d)%s%s", what, name, (int)result,
                     text[0] != '\0' ? ", " : "", text);
}
