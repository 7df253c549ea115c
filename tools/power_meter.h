// power_meter.h: clock and energy of a GPU, by NVIDIA's management library where it is there.
#ifndef ATTN_TOOLS_POWER_METER_H
#define ATTN_TOOLS_POWER_METER_H

// Opens the library for the GPU that device_open made current. Without it all readings are NaN.
void power_meter_open(int ordinal);
double power_meter_clock_mhz(void); // of the multiprocessors, now
double power_meter_joules(void);    // since the driver was loaded

#endif
