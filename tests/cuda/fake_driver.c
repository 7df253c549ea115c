// A driver that is none: a shared object with the functions of libcuda.so.1 that libattn and the
// attn command call, so that every way in which a driver can fail is a test on any machine. It runs
// no kernel; device memory is the host's. It keeps count of what it was asked to do (fake_state).
// Environment:
//
//   FAKE_CUDA_VERSION   what cuDriverGetVersion says; 13000
//   FAKE_CUDA_DEVICES   compute capabilities: "90,100" is two GPUs; "90"
//   FAKE_CUDA_FAIL      "FUNCTION=RESULT": this function fails so; several with commas
//
// Compiled with -DFAKE_WITHOUT_LAUNCH it lacks one function, as a damaged driver does.
#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE __attribute__((visibility("default")))
enum { CONTEXT_DEPTH = 8, DEVICES_MAX = 8 };

static struct fake_state state;
// Contexts are places in these arrays: [0] primary, [1] somebody's own.
static char contexts[DEVICES_MAX][2];
// Which context is current is a thread's own matter.
static _Thread_local cu_context stack[CONTEXT_DEPTH];
static _Thread_local int depth;

FAKE struct fake_state *fake_state_get(void)
{
    return &state;
}

FAKE cu_context fake_context_of(int device, int is_primary)
{
    return (cu_context)(void *)&contexts[device][is_primary ? 0 : 1];
}

static int device_of(cu_context context)
{
    return (int)(((char *)context - &contexts[0][0]) / 2);
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

// What FAKE_CUDA_FAIL says of the function.
static cu_result result_of(const char *function)
{
    const char *at = setting("FAKE_CUDA_FAIL", "");
    const size_t bytes = strlen(function);
    for (; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, function, bytes) == 0 && at[bytes] == '=') {
            return (cu_result)atoi(at + bytes + 1);
        }
    }
    return CU_SUCCESS;
}

#define FAIL_IF_TOLD()                                                                             \
    do {                                                                                           \
        const cu_result told_ = result_of(__func__);                                               \
        if (told_ != CU_SUCCESS) {                                                                 \
            return told_;                                                                          \
        }                                                                                          \
    } while (0)

static int capabilities(int32_t *list)
{
    int count = 0;
    const char *at = setting("FAKE_CUDA_DEVICES", "90");
    while (*at != '\0' && count < DEVICES_MAX) {
        char *end;
        list[count++] = (int32_t)strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

FAKE cu_result cuGetErrorName(cu_result result, const char **name_out)
{
    static const struct {
        cu_result result;
        const char *name;
    } names[] = {
        {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].result == result) {
            *name_out = names[i].name;
            return CU_SUCCESS;
        }
    }
    return CU_INVALID_VALUE;
}

FAKE cu_result cuGetErrorString(cu_result result, const char **text_out)
{
    *text_out = "as told";
    return result == CU_SUCCESS ? CU_INVALID_VALUE : CU_SUCCESS;
}

FAKE cu_result cuDriverGetVersion(int32_t *version_out)
{
    FAIL_IF_TOLD();
    *version_out = atoi(setting("FAKE_CUDA_VERSION", "13000"));
    return CU_SUCCESS;
}

FAKE cu_result cuInit(uint32_t flags)
{
    FAIL_IF_TOLD();
    state.inits++;
    return flags == 0 ? CU_SUCCESS : CU_INVALID_VALUE;
}

FAKE cu_result cuDeviceGetCount(int32_t *count_out)
{
    FAIL_IF_TOLD();
    int32_t list[DEVICES_MAX];
    *count_out = capabilities(list);
    return CU_SUCCESS;
}

FAKE cu_result cuDeviceGet(cu_device *device_out, int32_t ordinal)
{
    FAIL_IF_TOLD();
    *device_out = ordinal;
    return CU_SUCCESS;
}

FAKE cu_result cuDeviceGetName(char *text, int32_t bytes, cu_device device)
{
    FAIL_IF_TOLD();
    (void)snprintf(text, (size_t)bytes, "Fake GPU %d", (int)device);
    return CU_SUCCESS;
}

FAKE cu_result cuDeviceGetAttribute(int32_t *value_out, int32_t attribute, cu_device device)
{
    FAIL_IF_TOLD();
    int32_t list[DEVICES_MAX];
    const int count = capabilities(list);
    if (device >= count) {
        return CU_INVALID_DEVICE;
    }
    switch (attribute) {
    case CU_DEVICE_COMPUTE_MAJOR: *value_out = list[device] / 10; break;
    case CU_DEVICE_COMPUTE_MINOR: *value_out = list[device] % 10; break;
    case CU_DEVICE_MULTIPROCESSORS: *value_out = 132 + device; break;
    case CU_DEVICE_SHARED_BYTES: *value_out = 232448; break;
    case CU_DEVICE_L2_BYTES: *value_out = 62914560; break;
    case CU_DEVICE_CLOCK_KHZ: *value_out = 1980000; break;
    case CU_DEVICE_MEMORY_CLOCK_KHZ: *value_out = 3201000; break;
    default: return CU_INVALID_VALUE;
    }
    return CU_SUCCESS;
}

FAKE cu_result cuDeviceTotalMem_v2(size_t *bytes_out, cu_device device)
{
    FAIL_IF_TOLD();
    (void)device;
    *bytes_out = (size_t)141 << 30;
    return CU_SUCCESS;
}

FAKE cu_result cuDevicePrimaryCtxRetain(cu_context *context_out, cu_device device)
{
    FAIL_IF_TOLD();
    state.retains++;
    *context_out = fake_context_of(device, 1);
    return CU_SUCCESS;
}

FAKE cu_result cuCtxGetCurrent(cu_context *context_out)
{
    FAIL_IF_TOLD();
    *context_out = depth > 0 ? stack[depth - 1] : NULL;
    return CU_SUCCESS;
}

FAKE cu_result cuCtxGetDevice(cu_device *device_out)
{
    FAIL_IF_TOLD();
    if (depth == 0) {
        return CU_INVALID_VALUE;
    }
    *device_out = device_of(stack[depth - 1]);
    return CU_SUCCESS;
}

FAKE cu_result cuCtxPushCurrent_v2(cu_context context)
{
    FAIL_IF_TOLD();
    if (depth == CONTEXT_DEPTH) {
        return CU_INVALID_VALUE;
    }
    stack[depth++] = context;
    state.pushes++;
    return CU_SUCCESS;
}

FAKE cu_result cuCtxPopCurrent_v2(cu_context *context_out)
{
    FAIL_IF_TOLD();
    if (depth == 0) {
        return CU_INVALID_VALUE;
    }
    *context_out = stack[--depth];
    state.pops++;
    return CU_SUCCESS;
}

// An image is whatever begins like an ELF file, as a cubin does.
FAKE cu_result cuLibraryLoadData(cu_library *library_out, const void *image, void *jit_options,
                                 void **jit_values, uint32_t jit_count, void *library_options,
                                 void **library_values, uint32_t library_count)
{
    FAIL_IF_TOLD();
    if (jit_options || jit_values || jit_count || library_options || library_values ||
        library_count) {
        return CU_INVALID_VALUE;
    }
    if (memcmp(image, "\177ELF", 4) != 0) {
        return CU_INVALID_IMAGE;
    }
    state.loads++;
    *library_out = (cu_library)(void *)&state.loads;
    return CU_SUCCESS;
}

FAKE cu_result cuLibraryUnload(cu_library library)
{
    FAIL_IF_TOLD();
    (void)library;
    state.unloads++;
    return CU_SUCCESS;
}

FAKE cu_result cuLibraryGetKernel(cu_kernel *kernel_out, cu_library library, const char *name)
{
    FAIL_IF_TOLD();
    (void)library;
    (void)snprintf(state.kernel, sizeof(state.kernel), "%s", name);
    *kernel_out = (cu_kernel)(void *)state.kernel;
    return CU_SUCCESS;
}

FAKE cu_result cuKernelSetAttribute(int32_t attribute, int32_t value, cu_kernel kernel,
                                    cu_device device)
{
    FAIL_IF_TOLD();
    (void)kernel;
    (void)device;
    if (attribute != CU_FUNCTION_DYNAMIC_SHARED_BYTES) {
        return CU_INVALID_VALUE;
    }
    state.shared_bytes = value;
    return CU_SUCCESS;
}

FAKE cu_result cuKernelGetFunction(cu_function *function_out, cu_kernel kernel)
{
    FAIL_IF_TOLD();
    *function_out = (cu_function)(void *)kernel;
    return depth > 0 ? CU_SUCCESS : CU_INVALID_VALUE;
}

FAKE cu_result cuFuncGetAttribute(int32_t *value_out, int32_t attribute, cu_function function)
{
    FAIL_IF_TOLD();
    (void)function;
    *value_out = attribute == CU_FUNCTION_REGISTERS ? 40 : 0;
    return CU_SUCCESS;
}

#ifndef FAKE_WITHOUT_LAUNCH
FAKE cu_result cuLaunchKernelEx(const cu_launch_config *config, cu_function function,
                                void **parameters, void **extra)
{
    FAIL_IF_TOLD();
    if (function == NULL || parameters == NULL || extra != NULL) {
        return CU_INVALID_VALUE;
    }
    // Without a stream of the caller's the context must be there.
    if (config->stream == NULL && depth == 0) {
        return CU_INVALID_VALUE;
    }
    state.launches++;
    state.config = *config;
    state.context = depth > 0 ? stack[depth - 1] : NULL;
    return CU_SUCCESS;
}
#endif

FAKE cu_result cuMemsetD32Async(cu_address address, uint32_t value, size_t count, cu_stream stream)
{
    FAIL_IF_TOLD();
    if (address == 0 || address % 4 != 0 || count == 0 || (stream == NULL && depth == 0)) {
        return CU_INVALID_VALUE;
    }
    uint32_t *const words = (uint32_t *)(uintptr_t)address;
    for (size_t i = 0; i < count; i++) {
        words[i] = value;
    }
    return CU_SUCCESS;
}

// -------------------------------------------------------------------------------------------------
// What libattn's callers use: memory, copies, events

FAKE cu_result cuDeviceGetPCIBusId(char *text, int32_t bytes, cu_device device)
{
    FAIL_IF_TOLD();
    (void)snprintf(text, (size_t)bytes, "0000:0%d:00.0", (int)device);
    return CU_SUCCESS;
}

FAKE cu_result cuCtxSetCurrent(cu_context context)
{
    FAIL_IF_TOLD();
    depth = context != NULL;
    stack[0] = context;
    return CU_SUCCESS;
}

FAKE cu_result cuCtxSynchronize(void)
{
    FAIL_IF_TOLD();
    return depth > 0 ? CU_SUCCESS : CU_INVALID_VALUE;
}

FAKE cu_result cuMemAlloc_v2(cu_address *address_out, size_t bytes)
{
    FAIL_IF_TOLD();
    void *memory = NULL;
    if (depth == 0 || bytes == 0 || posix_memalign(&memory, 256, bytes) != 0) {
        return bytes > 0 && depth > 0 ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
    }
    *address_out = (cu_address)(uintptr_t)memory;
    return CU_SUCCESS;
}

FAKE cu_result cuMemFree_v2(cu_address address)
{
    FAIL_IF_TOLD();
    free((void *)(uintptr_t)address);
    return CU_SUCCESS;
}

FAKE cu_result cuMemcpyHtoD_v2(cu_address to, const void *from, size_t bytes)
{
    FAIL_IF_TOLD();
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CU_SUCCESS;
}

FAKE cu_result cuMemcpyDtoH_v2(void *to, cu_address from, size_t bytes)
{
    FAIL_IF_TOLD();
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CU_SUCCESS;
}

FAKE cu_result cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, cu_stream stream)
{
    FAIL_IF_TOLD();
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return CU_SUCCESS;
}

FAKE cu_result cuMemsetD8_v2(cu_address address, uint8_t value, size_t bytes)
{
    FAIL_IF_TOLD();
    memset((void *)(uintptr_t)address, value, bytes);
    return CU_SUCCESS;
}

FAKE cu_result cuMemsetD8Async(cu_address address, uint8_t value, size_t bytes, cu_stream stream)
{
    FAIL_IF_TOLD();
    (void)stream;
    memset((void *)(uintptr_t)address, value, bytes);
    return CU_SUCCESS;
}

// An event is the number of launches and records before it, so that time passes without a clock:
// a millisecond with each launch, a little with each record.
typedef struct fake_event {
    int launches, records;
} fake_event_t;

FAKE cu_result cuEventCreate(fake_event_t **event_out, uint32_t flags)
{
    FAIL_IF_TOLD();
    (void)flags;
    *event_out = calloc(1, sizeof(**event_out));
    return *event_out != NULL ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

FAKE cu_result cuEventRecord(fake_event_t *event, cu_stream stream)
{
    FAIL_IF_TOLD();
    (void)stream;
    static atomic_int records;
    *event = (fake_event_t){state.launches, records++};
    return CU_SUCCESS;
}

FAKE cu_result cuEventSynchronize(fake_event_t *event)
{
    FAIL_IF_TOLD();
    (void)event;
    return CU_SUCCESS;
}

FAKE cu_result cuEventElapsedTime(float *ms_out, const fake_event_t *begin, const fake_event_t *end)
{
    FAIL_IF_TOLD();
    *ms_out =
        (float)(end->launches - begin->launches) + 1e-3f * (float)(end->records - begin->records);
    return CU_SUCCESS;
}

FAKE cu_result cuEventDestroy_v2(fake_event_t *event)
{
    FAIL_IF_TOLD();
    free(event);
    return CU_SUCCESS;
}

FAKE cu_result cuTensorMapEncodeTiled(void *map_out, int32_t type, uint32_t rank, void *address,
                                      const uint64_t *dims, const uint64_t *strides_bytes,
                                      const uint32_t *box, const uint32_t *element_strides,
                                      int32_t interleave, int32_t swizzle, int32_t l2_promotion,
                                      int32_t fill)
{
    FAIL_IF_TOLD();
    (void)strides_bytes;
    (void)element_strides;
    uint64_t *map = map_out;
    memset(map, 0, 128);
    map[0] = (uint64_t)(uintptr_t)address;
    map[1] = dims[0] << 32 | box[0];
    map[2] = (uint64_t)(type << 24 | interleave << 16 | swizzle << 12 | l2_promotion << 8 | fill);
    return rank >= 3 && rank <= 5 ? CU_SUCCESS : CU_INVALID_VALUE;
}
