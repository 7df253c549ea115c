// wgmma: D = A B (+ D) from a raw image of shared memory through any descriptors, and from a raw
// fragment of A; D is shown as each thread holds it.
//
// Literals: type, whether A is in registers, major of A, major of B, n.
#include "../../../src/device/common/descriptor.h"
#include "../../../src/device/ptx/math_ops.h"
#include "../../../src/device/ptx/wgmma.h"
#include "../probe.h"
#include "../probe_words.h"

#define IN_REGISTERS PROBE_1
#define MAJOR_A PROBE_2
#define MAJOR_B PROBE_3
#define N PROBE_4
#ifdef __CUDACC__
#define N_MAX N
#else
#define N_MAX 256
#endif

DEVICE void multiply_ss(float *d, uint64_t da, uint64_t db, uint32_t acc)
{
    switch (PROBE_0) {
    case TYPE_F16: wgmma_ss_f16(N, d, da, db, acc, MAJOR_A, MAJOR_B); break;
    case TYPE_BF16: wgmma_ss_bf16(N, d, da, db, acc, MAJOR_A, MAJOR_B); break;
    case TYPE_E4M3: wgmma_ss_e4m3(N, d, da, db, acc); break;
    case TYPE_E5M2: wgmma_ss_e5m2(N, d, da, db, acc); break;
    case TYPE_E4M3_E5M2: wgmma_ss_e4m3_e5m2(N, d, da, db, acc); break;
    default: wgmma_ss_e5m2_e4m3(N, d, da, db, acc); break;
    }
}

DEVICE void multiply_rs(float *d, const uint32_t *a, uint64_t db, uint32_t acc)
{
    switch (PROBE_0) {
    case TYPE_F16: wgmma_rs_f16(N, d, a, db, acc, MAJOR_B); break;
    case TYPE_BF16: wgmma_rs_bf16(N, d, a, db, acc, MAJOR_B); break;
    case TYPE_E4M3: wgmma_rs_e4m3(N, d, a, db, acc); break;
    case TYPE_E5M2: wgmma_rs_e5m2(N, d, a, db, acc); break;
    case TYPE_E4M3_E5M2: wgmma_rs_e4m3_e5m2(N, d, a, db, acc); break;
    default: wgmma_rs_e5m2_e4m3(N, d, a, db, acc); break;
    }
}

// The address is in units of 16 bytes in the low bits.
DEVICE uint64_t descriptor_of(const uint32_t *words, uint32_t base)
{
    return ((uint64_t)words[1] << 32 | words[0]) + (base >> 4);
}

// in: the image, a fragment of A, D.
KERNEL(128) probe_wgmma(const GRID_CONSTANT struct probe_params p)
{
    const uint32_t image_words = (WGMMA_A_BYTES + WGMMA_B_BYTES) / 4;
    uint32_t data = dynamic_smem() + PROBE_DATA;
    uint32_t t = thread_idx();
    float d[N_MAX / 2];
    uint32_t a[4];
    probe_copy_in(data, p.in, image_words, 128);
    ld_global_v4_u32(a, p.in + image_words + 4 * t);
    UNROLL
    for (int i = 0; i < N / 2; i++) {
        d[i] = ld_global_f32(p.in + image_words + 512 + 128 * (uint32_t)i + t);
        WGMMA_PIN(d[i]);
    }
    uint64_t desc_a = descriptor_of(p.words + WGMMA_A_LOW, data);
    uint64_t desc_b = descriptor_of(p.words + WGMMA_B_LOW, data + WGMMA_A_BYTES);
    wgmma_fence();
    if (IN_REGISTERS) {
        multiply_rs(d, a, desc_b, p.words[WGMMA_ACCUMULATES]);
    } else {
        multiply_ss(d, desc_a, desc_b, p.words[WGMMA_ACCUMULATES]);
    }
    wgmma_commit_group();
    wgmma_wait_group(0);
    UNROLL
    for (int i = 0; i < N / 2; i++) {
        WGMMA_PIN(d[i]);
        st_global_f32(p.out + 128 * (uint32_t)i + t, d[i]);
    }
}
