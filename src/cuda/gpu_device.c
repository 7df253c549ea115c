// GPUs: asked about once per process, all of them, since asking is cheap beside loading the driver.
// Primary contexts cost hundreds of MiB of GPU memory each, so those are made one by one when a
// kernel is to run.
#include "gpu_device.h"

#include <pthread.h>
#include <stdatomic.h>

#include "../core/status.h"

typedef struct gpu_slot {
    attn_gpu_t gpu;
    attn_status_t status;
    attn_error_text_t error;
    pthread_mutex_t mutex; // held while primary is made
    _Atomic(cu_context) primary;
} gpu_slot_t;

static pthread_once_t list_once = PTHREAD_ONCE_INIT;
static gpu_slot_t slots[ATTN_GPUS_MAX];
static int32_t slot_count;
static attn_status_t list_status;
static attn_error_text_t list_error;

static attn_status_t read_gpu(const attn_driver_t *driver, int32_t ordinal, attn_gpu_t *gpu)
{
    gpu->driver = driver;
    gpu->ordinal = ordinal;
    ATTN_DRIVER_CHECK(driver, "cuDeviceGet", driver->device_get(&gpu->handle, ordinal));
    ATTN_DRIVER_CHECK(driver, "cuDeviceGetName",
                      driver->device_name(gpu->name, (int32_t)sizeof(gpu->name), gpu->handle));
    int32_t major;
    int32_t minor;
    const struct {
        int32_t attribute;
        int32_t *value_out;
    } wanted[] = {
        {CU_DEVICE_COMPUTE_MAJOR, &major},
        {CU_DEVICE_COMPUTE_MINOR, &minor},
        {CU_DEVICE_MULTIPROCESSORS, &gpu->multiprocessors},
        {CU_DEVICE_SHARED_BYTES, &gpu->shared_bytes},
        {CU_DEVICE_L2_BYTES, &gpu->l2_bytes},
        {CU_DEVICE_CLOCK_KHZ, &gpu->clock_khz},
        {CU_DEVICE_MEMORY_CLOCK_KHZ, &gpu->memory_clock_khz},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        ATTN_DRIVER_CHECK(
            driver, "cuDeviceGetAttribute",
            driver->device_attribute(wanted[i].value_out, wanted[i].attribute, gpu->handle));
    }
    gpu->compute = 10 * major + minor;
    size_t bytes;
    ATTN_DRIVER_CHECK(driver, "cuDeviceTotalMem", driver->device_memory(&bytes, gpu->handle));
    gpu->memory_bytes = (int64_t)bytes;
    return ATTN_OK;
}

static attn_status_t list_gpus(void)
{
    const attn_driver_t *driver;
    ATTN_FORWARD_ERROR(attn_driver_get(&driver));
    int32_t count;
    ATTN_DRIVER_CHECK(driver, "cuDeviceGetCount", driver->device_count(&count));
    ATTN_RETURN_IF(count < 1, ATTN_NO_DEVICE, "the NVIDIA driver sees no GPU");
    slot_count = count < ATTN_GPUS_MAX ? count : ATTN_GPUS_MAX;
    for (int32_t i = 0; i < slot_count; i++) {
        gpu_slot_t *const slot = &slots[i];
        (void)pthread_mutex_init(&slot->mutex, NULL);
        // One GPU that fails does not take the others with it.
        slot->status = read_gpu(driver, i, &slot->gpu);
        attn_error_save(&slot->error);
    }
    return ATTN_OK;
}

static void list_and_remember(void)
{
    attn_error_text_t before;
    attn_error_save(&before);
    list_status = list_gpus();
    attn_error_save(&list_error);
    attn_error_restore(&before);
}

attn_status_t attn_gpu_count(int32_t *count_out)
{
    (void)pthread_once(&list_once, list_and_remember);
    *count_out = slot_count;
    ATTN_RETURN_IF(list_status != ATTN_OK, list_status, "%s", list_error.text);
    return ATTN_OK;
}

attn_status_t attn_gpu_get(int32_t ordinal, const attn_gpu_t **gpu_out)
{
    *gpu_out = NULL;
    int32_t count;
    ATTN_FORWARD_ERROR(attn_gpu_count(&count));
    ATTN_RETURN_IF(ordinal < 0 || ordinal >= count, ATTN_NO_DEVICE,
                   "device_index: %d, this process sees %d GPU%s", ordinal, count,
                   count == 1 ? "" : "s");
    const gpu_slot_t *const slot = &slots[ordinal];
    ATTN_RETURN_IF(slot->status != ATTN_OK, slot->status, "device_index: %d: %s", ordinal,
                   slot->error.text);
    *gpu_out = &slot->gpu;
    return ATTN_OK;
}

// Kept for the life of the process: plans and the CUDA runtime use it side by side. A run finds it
// made and takes no lock.
static attn_status_t primary_context(const attn_gpu_t *gpu, cu_context *context_out)
{
    gpu_slot_t *const slot = &slots[gpu->ordinal];
    *context_out = atomic_load_explicit(&slot->primary, memory_order_acquire);
    if (*context_out != NULL) {
        return ATTN_OK;
    }
    cu_result result = CU_SUCCESS;
    (void)pthread_mutex_lock(&slot->mutex);
    *context_out = atomic_load_explicit(&slot->primary, memory_order_relaxed);
    if (*context_out == NULL) {
        result = gpu->driver->primary_retain(context_out, gpu->handle);
        if (result == CU_SUCCESS) {
            atomic_store_explicit(&slot->primary, *context_out, memory_order_release);
        }
    }
    (void)pthread_mutex_unlock(&slot->mutex);
    ATTN_DRIVER_CHECK(gpu->driver, "cuDevicePrimaryCtxRetain", result);
    return ATTN_OK;
}

attn_status_t attn_gpu_enter(const attn_gpu_t *gpu, attn_gpu_scope_t *scope_out)
{
    *scope_out = (attn_gpu_scope_t){.gpu = gpu};
    cu_context current;
    ATTN_DRIVER_CHECK(gpu->driver, "cuCtxGetCurrent", gpu->driver->context_current(&current));
    if (current != NULL) {
        cu_device device;
        ATTN_DRIVER_CHECK(gpu->driver, "cuCtxGetDevice", gpu->driver->context_device(&device));
        if (device == gpu->handle) {
            return ATTN_OK;
        }
    }
    cu_context primary;
    ATTN_FORWARD_ERROR(primary_context(gpu, &primary));
    ATTN_DRIVER_CHECK(gpu->driver, "cuCtxPushCurrent", gpu->driver->context_push(primary));
    scope_out->was_pushed = 1;
    return ATTN_OK;
}

void attn_gpu_leave(const attn_gpu_scope_t *scope)
{
    if (scope->was_pushed) {
        cu_context popped;
        (void)scope->gpu->driver->context_pop(&popped);
    }
}
