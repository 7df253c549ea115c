// CTAs that go one after the other, the last first, and hand words on: by releases and acquires at
// GPU and system scope, by fences, by counting atomics.
#include "../probe.h"

enum { FLAGS_THREADS = 64, FLAGS_CTAS = 6, FLAGS_DATA = 64 }; // out: flags, counts, then data

DEVICE void hand_on(uint32_t *flags, uint32_t turn)
{
    switch (turn % 3) {
    case 0: st_release_gpu_u32(flags, turn + 1); break;
    case 1: red_release_gpu_add_u32(flags, 1); break;
    default:
        fence_acq_rel_gpu();
        st_relaxed_gpu_u32(flags, turn + 1);
        break;
    }
}

KERNEL(FLAGS_THREADS) probe_flags(const GRID_CONSTANT struct probe_params p)
{
    uint32_t turn = grid_dim_x() - 1 - block_idx_x();
    uint32_t *data = p.out + FLAGS_DATA;
    uint32_t t = thread_idx();
    if (t == 0) {
        if (turn % 2) {
            wait_equal_gpu_u32(p.out, turn);
        } else {
            wait_at_least_gpu_u32(p.out, turn);
        }
        st_global_u32(p.out + 16 + turn, atom_acq_rel_sys_add_u32(p.out + 1, turn));
    }
    cta_sync();
    uint32_t before = turn ? ld_global_u32(data + FLAGS_THREADS * (turn - 1) + (t ^ 21)) : 0;
    st_global_u32(data + FLAGS_THREADS * turn + t, 3 * before + ld_global_u32(p.in + t));
    cta_sync();
    if (t == 0) {
        hand_on(p.out, turn);
    }
}
