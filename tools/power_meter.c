// power_meter.c: see power_meter.h. Names and values are those of the NVML API reference.
#include "power_meter.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

#include "device_memory.h"

enum { NVML_CLOCK_SM = 1, BUS_ID_BYTES = 32 };
typedef struct nvmlDevice_st *nvml_device;

static struct {
    nvml_device device; // NULL: not there
    int (*init)(void);
    int (*by_bus_id)(const char *bus_id, nvml_device *device);
    int (*clock)(nvml_device device, int type, unsigned *mhz);
    int (*energy)(nvml_device device, unsigned long long *millijoules);
} nvml;

void power_meter_open(int ordinal)
{
    char bus_id[BUS_ID_BYTES];
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml.device = NULL;
    if (!library || gpu_driver_symbol(library, "nvmlInit_v2", &nvml.init) ||
        gpu_driver_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus_id) ||
        gpu_driver_symbol(library, "nvmlDeviceGetClockInfo", &nvml.clock) ||
        gpu_driver_symbol(library, "nvmlDeviceGetTotalEnergyConsumption", &nvml.energy)) {
        return;
    }
    // The order of GPUs is the driver's own here and there: the bus says which is which.
    if (nvml.init() || device_driver()->bus_id(bus_id, sizeof(bus_id), ordinal) ||
        nvml.by_bus_id(bus_id, &nvml.device)) {
        nvml.device = NULL;
    }
}

double power_meter_clock_mhz(void)
{
    unsigned mhz = 0;
    return nvml.device && !nvml.clock(nvml.device, NVML_CLOCK_SM, &mhz) ? (double)mhz : NAN;
}

double power_meter_joules(void)
{
    unsigned long long millijoules = 0;
    return nvml.device && !nvml.energy(nvml.device, &millijoules) ? (double)millijoules * 1e-3
                                                                  : NAN;
}
