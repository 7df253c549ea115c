// The driver and its GPUs: every way in which loading them can end, and whose context is current.
// The drivers are fakes, named by ATTN_CUDA_LIBRARY.
#include "child.h"

#include <pthread.h>

#include "cuda/driver.h"
#include "cuda/gpu_device.h"
#include "fake_driver_access.h"

#define FAKE "ATTN_CUDA_LIBRARY=" FAKE_DRIVER_PATH

// ---- loading

static void no_library(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_NO_DEVICE);
    CHILD_SAYS("no NVIDIA driver");
    CHILD_SAYS("/nowhere/libcuda.so.1");
    // The same again: nothing is tried twice.
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_NO_DEVICE);
    const attn_gpu_t *gpu;
    CHILD_CHECK(attn_gpu_get(0, &gpu) == ATTN_NO_DEVICE && gpu == NULL);
    CHILD_SAYS("/nowhere/libcuda.so.1");
}

static void old_driver(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_DRIVER_ERROR);
    CHILD_SAYS("it is for CUDA 11.4, needed is one for CUDA 12.0");
}

static void missing_symbol(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_DRIVER_ERROR);
    CHILD_SAYS("no function cuLaunchKernelEx");
}

static void no_driver_at_all(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_DRIVER_ERROR);
    CHILD_SAYS("no function cuDriverGetVersion");
}

static void init_fails_no_device(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_NO_DEVICE);
    CHILD_SAYS("cuInit: CUDA_ERROR_NO_DEVICE (100), as told");
}

static void init_fails_otherwise(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_DRIVER_ERROR);
    CHILD_SAYS("cuInit: unknown error (803)");
}

static void loads(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_OK);
    CHILD_CHECK(driver->version == 13000 && driver->launch != NULL);
    CHILD_CHECK(strcmp(attn_last_error(), "") == 0);
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_OK);
    CHILD_CHECK(fake_state()->inits == 1);
}

static void test_loading(void **state)
{
    (void)state;
    IN_CHILD(no_library, "ATTN_CUDA_LIBRARY=/nowhere/libcuda.so.1");
    IN_CHILD(old_driver, FAKE, "FAKE_CUDA_VERSION=11040");
    IN_CHILD(missing_symbol, "ATTN_CUDA_LIBRARY=" FAKE_DAMAGED_PATH);
    IN_CHILD(old_driver, "ATTN_CUDA_LIBRARY=" FAKE_DAMAGED_PATH, "FAKE_CUDA_VERSION=11040");
    IN_CHILD(no_driver_at_all, "ATTN_CUDA_LIBRARY=libm.so.6");
    IN_CHILD(init_fails_no_device, FAKE, "FAKE_CUDA_FAIL=cuInit=100");
    IN_CHILD(init_fails_otherwise, FAKE, "FAKE_CUDA_FAIL=cuInit=803");
    IN_CHILD(loads, FAKE);
}

// ---- GPUs

static void two_gpus(void)
{
    int32_t count;
    CHILD_CHECK(attn_gpu_count(&count) == ATTN_OK && count == 2);
    const attn_gpu_t *gpu;
    CHILD_CHECK(attn_gpu_get(1, &gpu) == ATTN_OK);
    CHILD_CHECK(gpu->ordinal == 1 && gpu->compute == 100 && gpu->multiprocessors == 133);
    CHILD_CHECK(strcmp(gpu->name, "Fake GPU 1") == 0 && gpu->shared_bytes == 232448);
    CHILD_CHECK(gpu->clock_khz == 1980000 && gpu->memory_clock_khz == 3201000);
    CHILD_CHECK(gpu->memory_bytes == (int64_t)141 << 30 && gpu->l2_bytes == 62914560);
    CHILD_CHECK(attn_gpu_get(0, &gpu) == ATTN_OK && gpu->compute == 90);
    CHILD_CHECK(attn_gpu_get(2, &gpu) == ATTN_NO_DEVICE);
    CHILD_SAYS("device_index: 2, this process sees 2 GPUs");
    CHILD_CHECK(attn_gpu_get(-1, &gpu) == ATTN_NO_DEVICE);
    // Nobody ran anything: no context was made.
    CHILD_CHECK(fake_state()->retains == 0 && fake_state()->pushes == 0);
}

static void no_gpus(void)
{
    int32_t count;
    CHILD_CHECK(attn_gpu_count(&count) == ATTN_NO_DEVICE && count == 0);
    CHILD_SAYS("sees no GPU");
}

static void gpu_fails(void)
{
    const attn_gpu_t *gpu;
    CHILD_CHECK(attn_gpu_get(0, &gpu) == ATTN_DRIVER_ERROR && gpu == NULL);
    CHILD_SAYS("device_index: 0: cuDeviceGetName: unknown error (999)");
}

static void count_fails(void)
{
    const attn_gpu_t *gpu;
    CHILD_CHECK(attn_gpu_get(0, &gpu) == ATTN_OUT_OF_MEMORY);
    CHILD_SAYS("cuDeviceGetCount: CUDA_ERROR_OUT_OF_MEMORY");
}

static void test_gpus(void **state)
{
    (void)state;
    IN_CHILD(two_gpus, FAKE, "FAKE_CUDA_DEVICES=90,100");
    IN_CHILD(no_gpus, FAKE, "FAKE_CUDA_DEVICES=");
    IN_CHILD(gpu_fails, FAKE, "FAKE_CUDA_FAIL=cuDeviceGetName=999");
    IN_CHILD(count_fails, FAKE, "FAKE_CUDA_FAIL=cuDeviceGetCount=2");
}

// ---- contexts

// Pushes a caller's context (NULL: none), enters GPU 0, and looks at what is current then.
static void expect_context(cu_context callers, cu_context inside)
{
    const attn_gpu_t *gpu;
    CHILD_CHECK(attn_gpu_get(0, &gpu) == ATTN_OK);
    const attn_driver_t *driver = gpu->driver;
    if (callers != NULL) {
        CHILD_CHECK(driver->context_push(callers) == CU_SUCCESS);
    }
    attn_gpu_scope_t scope;
    cu_context current;
    CHILD_CHECK(attn_gpu_enter(gpu, &scope) == ATTN_OK);
    CHILD_CHECK(driver->context_current(&current) == CU_SUCCESS && current == inside);
    attn_gpu_leave(&scope);
    CHILD_CHECK(driver->context_current(&current) == CU_SUCCESS && current == callers);
    if (callers != NULL) {
        CHILD_CHECK(driver->context_pop(&current) == CU_SUCCESS);
    }
}

static void contexts(void)
{
    const attn_driver_t *driver;
    CHILD_CHECK(attn_driver_get(&driver) == ATTN_OK);
    const cu_context primary = fake_context(0, 1);
    expect_context(NULL, primary);
    expect_context(primary, primary);
    expect_context(fake_context(0, 0), fake_context(0, 0));
    expect_context(fake_context(1, 1), primary);
    expect_context(fake_context(1, 0), primary);
    CHILD_CHECK(fake_state()->retains == 1);
    CHILD_CHECK(fake_state()->pushes == fake_state()->pops);
}

static void context_fails(void)
{
    const attn_gpu_t *gpu;
    CHILD_CHECK(attn_gpu_get(0, &gpu) == ATTN_OK);
    attn_gpu_scope_t scope;
    CHILD_CHECK(attn_gpu_enter(gpu, &scope) == ATTN_OUT_OF_MEMORY);
    CHILD_SAYS("cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY");
    CHILD_CHECK(fake_state()->pushes == 0);
    attn_gpu_leave(&scope);
    CHILD_CHECK(fake_state()->pops == 0);
}

static void test_contexts(void **state)
{
    (void)state;
    IN_CHILD(contexts, FAKE, "FAKE_CUDA_DEVICES=90,100");
    IN_CHILD(context_fails, FAKE, "FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain=2");
}

// ---- threads

static void *gpu_from_thread(void *arg)
{
    (void)arg;
    const attn_gpu_t *gpu;
    return attn_gpu_get(0, &gpu) == ATTN_OK && gpu->compute == 90 ? arg : NULL;
}

static void many_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int marks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHILD_CHECK(pthread_create(&threads[i], NULL, gpu_from_thread, &marks[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *mark;
        CHILD_CHECK(pthread_join(threads[i], &mark) == 0);
        CHILD_CHECK(mark == &marks[i]);
    }
    CHILD_CHECK(fake_state()->inits == 1);
}

static void test_threads(void **state)
{
    (void)state;
    IN_CHILD(many_threads, FAKE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
