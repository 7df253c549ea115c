// cp.async: every size, with and without zeros behind the bytes that are read, groups, and the
// arrival on an mbarrier.
#include "../../../src/device/ptx/cp_async.h"
#include "../probe.h"

// Bytes of shared memory for each form: 16 for each of 128 threads.
enum { CP_FORM_BYTES = 2048, CP_FORMS = 7 };

DEVICE void start_copies(const struct probe_params *p, uint32_t smem)
{
    uint32_t t = thread_idx();
    uint32_t bytes = ld_global_u32(p->in + 2048 + t);
    cp_async_4(smem + 4 * t, p->in + (t ^ 5));
    cp_async_8(smem + CP_FORM_BYTES + 8 * t, p->in + 2 * (t ^ 9));
    cp_async_16(smem + 2 * CP_FORM_BYTES + 16 * t, p->in + 4 * (t ^ 17));
    cp_async_commit_group();
    cp_async_4_zfill(smem + 3 * CP_FORM_BYTES + 4 * t, p->in + t, bytes % 5);
    cp_async_8_zfill(smem + 4 * CP_FORM_BYTES + 8 * t, p->in + 2 * t, bytes % 9);
    cp_async_commit_group();
    cp_async_16_zfill(smem + 5 * CP_FORM_BYTES + 16 * t, p->in + 4 * t, bytes % 17);
}

KERNEL(128) probe_cp_async(const GRID_CONSTANT struct probe_params p)
{
    uint32_t smem = dynamic_smem() + PROBE_DATA;
    uint32_t bar = dynamic_smem() + PROBE_BARRIERS;
    uint32_t own = smem + 2 * CP_FORM_BYTES + 16 * thread_idx();
    if (thread_idx() == 0) {
        mbarrier_init(bar, 128);
    }
    probe_copy_in(smem, p.in + 4096, CP_FORMS * CP_FORM_BYTES / 4, 128);
    start_copies(&p, smem);
    cp_async_wait_group(1); // the first group, of which 16 bytes are this thread's own
    st_global_u32(p.out + thread_idx(), ld_shared_u32(own + 8));
    cp_async_wait_all();
    cta_sync();
    cp_async_16(smem + 6 * CP_FORM_BYTES + 16 * (thread_idx() ^ 33), p.in + 4 * thread_idx());
    cp_async_mbarrier_arrive_noinc(bar);
    while (!mbarrier_try_wait(bar, 0)) {
    }
    probe_copy_out(p.out + 128, smem, CP_FORMS * CP_FORM_BYTES / 4, 128);
}
