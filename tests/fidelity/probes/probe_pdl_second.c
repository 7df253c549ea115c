// griddepcontrol, the kernel that starts early: it waits, and then sees all that the first wrote.
#include "../../../src/device/ptx/pdl.h"
#include "../probe.h"

KERNEL(128) probe_pdl_second(const GRID_CONSTANT struct probe_params p)
{
    uint32_t count = 128 * grid_dim_x();
    uint32_t i = 128 * block_idx_x() + thread_idx();
    uint32_t own = ld_global_u32(p.in + i); // nobody writes it
    griddep_wait();
    st_global_u32(p.out + count + i, own ^ ld_global_u32(p.out + (i + 128 * 7 + 5) % count));
}
