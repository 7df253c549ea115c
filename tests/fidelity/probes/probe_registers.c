// setmaxnreg: a warpgroup gives registers away, and two others hold more numbers than they began
// with: none is lost.
#include "../../../src/device/ptx/math_ops.h"
#include "../../../src/device/ptx/register.h"
#include "../probe.h"

enum { REGISTERS_HELD = 192, REGISTERS_GROUP = 128 };

KERNEL(3 * REGISTERS_GROUP) probe_registers(const GRID_CONSTANT struct probe_params p)
{
    uint32_t t = thread_idx();
    if (t < REGISTERS_GROUP) {
        ROLE("give");
        setmaxnreg_dec(24);
        st_global_u32(p.out + t, ld_global_u32(p.in + t));
        return;
    }
    ROLE("hold");
    setmaxnreg_inc(240);
    float held[REGISTERS_HELD];
    UNROLL
    for (uint32_t i = 0; i < REGISTERS_HELD; i++) {
        held[i] = ld_global_f32(p.in + i * REGISTERS_GROUP + t);
    }
    barrier_sync(1, 2 * REGISTERS_GROUP); // all of them are loaded before any is used
    float sum = 0.0f;
    UNROLL
    for (uint32_t i = 0; i < REGISTERS_HELD; i++) {
        sum = fma_f32(sum, 0.5f, held[i]);
    }
    st_global_f32(p.out + t, sum);
}
