// Plain loads and stores of every width, and atomics, each result in a place of its own.
#include "../../../src/device/ptx/math_ops.h"
#include "../probe.h"

KERNEL(128) probe_memory(const GRID_CONSTANT struct probe_params p)
{
    uint32_t t = thread_idx();
    uint32_t own = dynamic_smem() + PROBE_DATA + 32 * t;
    uint32_t *out = p.out + 16 * t;
    uint32_t r[4];
    ld_global_v4_u32(r, p.in + 4 * t);
    st_shared_v4_u32(own, r);
    st_shared_v2_u32(own + 16, r + 1);
    st_shared_u16(own + 6, r[3]);
    st_shared_u32(own + 24, ld_global_u16((const uint16_t *)(p.in + 4 * t) + 3));
    st_shared_f32(own + 28, ld_global_f32(p.in + t));
    ld_shared_v2_u32(r, own + 16);
    st_global_u32(out + 0, r[0] ^ r[1]);
    ld_shared_v4_u32(r, own);
    st_global_v4_u32(out + 4, r);
    st_global_u32(out + 1, ld_shared_u32(own + 24));
    st_global_f32(out + 2, ld_shared_f32(own + 28));
    st_global_u16(out + 3, ld_shared_u16(own + 2));
    st_global_u16((uint16_t *)(out + 3) + 1, r[0]);
    st_global_u8((unsigned char *)(out + 3) + 3,
                 ld_global_u8((const unsigned char *)(p.in + 4 * t) + 5));
    st_global_u32(out + 8, atom_shared_add_u32(own, r[1]));
    st_global_u32(out + 9, ld_shared_u32(own));
    st_global_u32(out + 10, atom_global_add_u32(out + 4, r[2]));
    st_global_u32(out + 11, atom_global_cas_u32(out + 5, t % 2 ? r[1] : ~r[1], 7));
    st_global_u32(out + 12, atom_acq_rel_gpu_add_u32(out + 6, r[3]));
    st_release_cta_u32(out + 13, ld_acquire_cta_u32(p.in + 512 + t));
    st_release_gpu_u32(out + 14, ld_relaxed_gpu_u32(p.in + 640 + t));
    red_release_sys_add_u32(out + 14, ld_acquire_sys_u32(p.in + 768 + t));
    st_relaxed_gpu_u32(out + 15, ld_acquire_gpu_u32(p.in + 896 + t));
    red_global_add_f32(p.out + 2048 + t, f32_of_bits(ld_global_u32(p.in + 1024 + t)));
}
