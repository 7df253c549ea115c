// The table of the driver's functions: see gpu_memory.h.
#include "gpu_memory.h"

struct gpu_functions gpu;

void gpu_load(void)
{
    const char *why = NULL;
    void *library = gpu_driver_open(&why);
#define GPU_LOOK_UP(field, symbol, parameters)                                                     \
    why = why != NULL ? why : gpu_driver_symbol(library, symbol, &gpu.field);
    GPU_DRIVER_FUNCTIONS(GPU_LOOK_UP)
    GPU_TEST_FUNCTIONS(GPU_LOOK_UP)
#undef GPU_LOOK_UP
    if (why != NULL) {
        fprintf(stderr, "%s\n", why);
        _exit(1);
    }
}
