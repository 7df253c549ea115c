// Our declarations of the driver API against the toolkit's own header; built where there is one.
#include <cuda.h>
#include <stddef.h>

#include "cuda/driver_api.h"

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)
// cu_result is an int32_t for CUresult, cu_device one for CUdevice; the other types are pointers.
SAME(sizeof(cu_result), sizeof(CUresult));
SAME(sizeof(cu_device), sizeof(CUdevice));
SAME(sizeof(cu_address), sizeof(CUdeviceptr));

SAME(CU_SUCCESS, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CU_DEVICE_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(CU_DEVICE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_DEVICE_MEMORY_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(CU_DEVICE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(CU_DEVICE_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_DEVICE_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_DEVICE_SHARED_BYTES, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CU_FUNCTION_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(CU_FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(CU_FUNCTION_DYNAMIC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(CU_LAUNCH_PROGRAMMATIC, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

SAME(sizeof(cu_launch_attribute), sizeof(CUlaunchAttribute));
SAME(offsetof(cu_launch_attribute, value), offsetof(CUlaunchAttribute, value));
SAME(sizeof(cu_launch_config), sizeof(CUlaunchConfig));
SAME(offsetof(cu_launch_config, grid), offsetof(CUlaunchConfig, gridDimX));
SAME(offsetof(cu_launch_config, block), offsetof(CUlaunchConfig, blockDimX));
SAME(offsetof(cu_launch_config, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(cu_launch_config, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(cu_launch_config, attributes), offsetof(CUlaunchConfig, attrs));
SAME(offsetof(cu_launch_config, attribute_count), offsetof(CUlaunchConfig, numAttrs));

int main(void)
{
    return 0;
}
