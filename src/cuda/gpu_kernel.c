// The process's table of loaded kernels. Kernels are loaded as CUlibrary, which belongs to no
// context (CUDA Driver API, "Library Management"): one load serves every GPU of the architecture
// and every context of the caller's.
#include "gpu_kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

typedef enum slot_state { SLOT_EMPTY, SLOT_BEING_MADE, SLOT_READY } slot_state_t;

typedef struct slot {
    struct slot *next;
    char *name;
    char *arch;
    char *prologue;
    slot_state_t state;
    uint64_t attempts;    // that have ended
    attn_status_t status; // of the last attempt
    attn_error_text_t error;
    attn_gpu_kernel_t kernel;
    cu_library library;
    atomic_uint_fast64_t prepared; // bit i: ready on GPU i
} slot_t;

// Guards the list and every slot's state.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t state_changed = PTHREAD_COND_INITIALIZER;
static slot_t *slots;

static void slot_free(slot_t *slot)
{
    if (slot != NULL) {
        free(slot->name);
        free(slot->arch);
        free(slot->prologue);
        free(slot);
    }
}

// The request's slot, made if there is none; NULL without memory. The mutex is held.
static slot_t *slot_of(const attn_kernel_request_t *request)
{
    for (slot_t *slot = slots; slot != NULL; slot = slot->next) {
        if (strcmp(slot->name, request->name) == 0 && strcmp(slot->arch, request->arch) == 0 &&
            strcmp(slot->prologue, request->prologue) == 0) {
            return slot;
        }
    }
    slot_t *const slot = calloc(1, sizeof(*slot));
    if (slot == NULL) {
        return NULL;
    }
    slot->name = strdup(request->name);
    slot->arch = strdup(request->arch);
    slot->prologue = strdup(request->prologue);
    if (slot->name == NULL || slot->arch == NULL || slot->prologue == NULL) {
        slot_free(slot);
        return NULL;
    }
    slot->next = slots;
    slots = slot;
    return slot;
}

static attn_status_t load_image(const attn_gpu_t *gpu, const attn_kernel_image_t *image,
                                slot_t *slot)
{
    const attn_driver_t *const driver = gpu->driver;
    cu_result result =
        driver->library_load(&slot->library, image->entry.cubin, NULL, NULL, 0, NULL, NULL, 0);
    ATTN_RETURN_IF(result != CU_SUCCESS, attn_driver_fail(driver, "cuLibraryLoadData", result),
                   "kernel %s by NVRTC %d.%d for a driver of CUDA %d.%d: %.300s", slot->name,
                   image->entry.compiler / 1000, image->entry.compiler % 1000 / 10,
                   driver->version / 1000, driver->version % 1000 / 10, attn_last_error());
    result = driver->library_kernel(&slot->kernel.kernel, slot->library, slot->name);
    if (result != CU_SUCCESS) {
        (void)driver->library_unload(slot->library);
        ATTN_RETURN_IF(1, attn_driver_fail(driver, "cuLibraryGetKernel", result),
                       "kernel %s: %.300s", slot->name, attn_last_error());
    }
    slot->kernel.origin = image->origin;
    return ATTN_OK;
}

static attn_status_t make(const attn_context_t *context, const attn_gpu_t *gpu,
                          const attn_kernel_request_t *request, slot_t *slot)
{
    attn_kernel_image_t image;
    ATTN_FORWARD_ERROR(attn_kernel_image_get(context, request, 0, &image));
    // The driver copies the image.
    const attn_status_t status = load_image(gpu, &image, slot);
    attn_kernel_image_free(&image);
    return status;
}

// Makes the slot's kernel, or waits for whoever is making it. One who waited for an attempt that
// failed shares its failure; who comes later tries again.
static attn_status_t make_once(const attn_context_t *context, const attn_gpu_t *gpu,
                               const attn_kernel_request_t *request, slot_t *slot)
{
    (void)pthread_mutex_lock(&mutex);
    const uint64_t attempts = slot->attempts;
    while (slot->state == SLOT_BEING_MADE) {
        (void)pthread_cond_wait(&state_changed, &mutex);
    }
    if (slot->state == SLOT_READY || slot->attempts != attempts) {
        const attn_status_t status = slot->status;
        const attn_error_text_t error = slot->error;
        (void)pthread_mutex_unlock(&mutex);
        ATTN_RETURN_IF(status != ATTN_OK, status, "%s", error.text);
        return ATTN_OK;
    }
    slot->state = SLOT_BEING_MADE;
    (void)pthread_mutex_unlock(&mutex);

    const attn_status_t status = make(context, gpu, request, slot);

    (void)pthread_mutex_lock(&mutex);
    slot->attempts++;
    slot->status = status;
    attn_error_save(&slot->error);
    slot->state = status == ATTN_OK ? SLOT_READY : SLOT_EMPTY;
    (void)pthread_cond_broadcast(&state_changed);
    (void)pthread_mutex_unlock(&mutex);
    return status;
}

// Drivers load lazily, at the first launch; that may not be while a stream is captured, so it is
// done here, in the context that a launch from this thread would have.
static attn_status_t load_on_gpu(const attn_gpu_t *gpu, slot_t *slot, int32_t shared_bytes)
{
    const attn_driver_t *const driver = gpu->driver;
    ATTN_DRIVER_CHECK(driver, "cuKernelSetAttribute",
                      driver->kernel_set(CU_FUNCTION_DYNAMIC_SHARED_BYTES, shared_bytes,
                                         slot->kernel.kernel, gpu->handle));
    cu_function function;
    ATTN_DRIVER_CHECK(driver, "cuKernelGetFunction",
                      driver->kernel_function(&function, slot->kernel.kernel));
    int32_t registers;
    int32_t local_bytes;
    ATTN_DRIVER_CHECK(driver, "cuFuncGetAttribute",
                      driver->function_attribute(&registers, CU_FUNCTION_REGISTERS, function));
    ATTN_DRIVER_CHECK(driver, "cuFuncGetAttribute",
                      driver->function_attribute(&local_bytes, CU_FUNCTION_LOCAL_BYTES, function));
    atomic_store(&slot->kernel.registers, registers);
    atomic_store(&slot->kernel.local_bytes, local_bytes);
    return ATTN_OK;
}

static attn_status_t prepare_on_gpu(const attn_gpu_t *gpu, slot_t *slot, int32_t shared_bytes)
{
    const uint_fast64_t bit = (uint_fast64_t)1 << gpu->ordinal;
    if ((atomic_load_explicit(&slot->prepared, memory_order_acquire) & bit) != 0) {
        return ATTN_OK;
    }
    attn_gpu_scope_t scope;
    ATTN_FORWARD_ERROR(attn_gpu_enter(gpu, &scope));
    const attn_status_t status = load_on_gpu(gpu, slot, shared_bytes);
    attn_gpu_leave(&scope);
    if (status == ATTN_OK) {
        atomic_fetch_or_explicit(&slot->prepared, bit, memory_order_release);
    }
    return status;
}

attn_status_t attn_gpu_kernel_get(const attn_context_t *context, const attn_gpu_t *gpu,
                                  const attn_kernel_request_t *request, int32_t shared_bytes,
                                  const attn_gpu_kernel_t **kernel_out)
{
    (void)pthread_mutex_lock(&mutex);
    slot_t *const slot = slot_of(request);
    (void)pthread_mutex_unlock(&mutex);
    ATTN_RETURN_IF(slot == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory", request->name);
    ATTN_FORWARD_ERROR(make_once(context, gpu, request, slot));
    ATTN_FORWARD_ERROR(prepare_on_gpu(gpu, slot, shared_bytes));
    *kernel_out = &slot->kernel;
    return ATTN_OK;
}
