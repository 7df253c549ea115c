// griddepcontrol, the kernel that another one depends on: it lets that one start and then goes on
// writing.
#include "../../../src/device/ptx/pdl.h"
#include "../probe.h"

KERNEL(128) probe_pdl_first(const GRID_CONSTANT struct probe_params p)
{
    uint32_t i = 128 * block_idx_x() + thread_idx();
    griddep_launch_dependents();
    uint32_t x = ld_global_u32(p.in + i);
    for (uint32_t step = 0; step < 64; step++) {
        x = x * 1664525u + 1013904223u;
        st_global_u32(p.out + i, x);
    }
}
