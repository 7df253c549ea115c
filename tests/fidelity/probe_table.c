// The table of probes: see probe_table.h.
#include "probe_table.h"
#include "probe_words.h"

// The kernels, probes/probe_NAME.c: GPUs, threads, sections of the PTX ISA.
#define KERNELS(X)                                                                                 \
    X(math, SINCE_SM80, 128, "Floating Point Instructions: fma, max; cvt")                         \
    X(approx, SINCE_SM80, 128, "Floating Point Instructions: ex2, lg2, rcp")                       \
    X(memory, SINCE_SM80, 128, "ld, st, atom, red")                                                \
    X(warp, SINCE_SM80, 128, "shfl.sync, vote.sync, redux.sync, elect.sync")                       \
    X(matrix, SINCE_SM90, 32, "ldmatrix, stmatrix")                                                \
    X(cp_async, SINCE_SM80, 128, "cp.async, cp.async.mbarrier.arrive")                             \
    X(barriers, SINCE_SM90, 256, "barrier.cta, mbarrier")                                          \
    X(flags, SINCE_SM80, 64, "ld.acquire, st.release, red, atom, fence.acq_rel")                   \
    X(registers, HOPPER, 384, "setmaxnreg")                                                        \
    X(pdl_first, SINCE_SM90, 128, "griddepcontrol.launch_dependents")                              \
    X(pdl_second, SINCE_SM90, 128, "griddepcontrol.wait")                                          \
    X(bulk, SINCE_SM90, 128, "cp.async.bulk, cp.reduce.async.bulk")                                \
    X(tma, SINCE_SM90, 128, "cp.async.bulk.tensor, cp.reduce.async.bulk.tensor")                   \
    X(multicast, SINCE_SM90, 128, "cp.async.bulk and .tensor: .multicast::cluster")                \
    X(cluster, SINCE_SM90, 128, "mapa, barrier.cluster, mbarrier, ld and st.shared::cluster")      \
    X(mma_sync, SINCE_SM89, 128, "mma.sync.m16n8k16, m16n8k32")                                    \
    X(wgmma, HOPPER, 128, "wgmma.mma_async, Matrix Descriptor Format")                             \
    X(packed_math, BLACKWELL, 128, "add, sub, mul, fma.f32x2, max of three")                       \
    X(pair_load, BLACKWELL, 128, "cp.async.bulk.tensor: .cta_group::2")                            \
    X(tensor_shapes, BLACKWELL, 128, "tcgen05.ld, tcgen05.st, tcgen05.alloc")                      \
    X(tensor_copy, BLACKWELL, 128, "tcgen05.cp, tcgen05.shift")                                    \
    X(tensor_mma, BLACKWELL, 128, "tcgen05.mma, tcgen05.commit")

#define KERNEL_OF(name, gpus_, threads_, section_)                                                 \
    void probe_##name(const struct probe_params p);                                                \
    static const struct probe_kernel kernel_##name = {"tests/fidelity/probes/probe_" #name ".c",   \
                                                      "probe_" #name,                              \
                                                      section_,                                    \
                                                      gpus_,                                       \
                                                      threads_,                                    \
                                                      probe_##name,                                \
                                                      NULL,                                        \
                                                      NULL};
KERNELS(KERNEL_OF)

static const struct probe probes[] = {
    {"arithmetic.exact", &kernel_math, .cases = 4, .ctas = 32, .prepare = prepare_words,
     .words = {3 * 4096, 9 * 4096, FILL_ROUNDED, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"arithmetic.ex2", &kernel_approx, .cases = 2, .ctas = 64, .prepare = prepare_words,
     .literals = {APPROX_EX2},
     .words = {8192, 8192, FILL_EXPONENT, {WITHIN_ULPS, EMU_F32, 2.0, 0.0}}},
    {"arithmetic.ex2.limits", &kernel_approx, .cases = 2, .ctas = 64, .prepare = prepare_words,
     .literals = {APPROX_EX2},
     .words = {8192, 8192, FILL_ROUNDED, {WITHIN_ULPS, EMU_F32, 2.0, 0.0}}},
    {"arithmetic.lg2", &kernel_approx, .cases = 2, .ctas = 64, .prepare = prepare_words,
     .literals = {APPROX_LG2},
     .words = {8192, 8192, FILL_WIDE, {WITHIN_ULPS, EMU_F32, 2.0, 0x1p-22}}},
    {"arithmetic.lg2.limits", &kernel_approx, .cases = 2, .ctas = 64, .prepare = prepare_words,
     .literals = {APPROX_LG2},
     .words = {8192, 8192, FILL_ROUNDED, {WITHIN_ULPS, EMU_F32, 2.0, 0x1p-22}}},
    {"arithmetic.rcp", &kernel_approx, .cases = 2, .ctas = 64, .prepare = prepare_words,
     .literals = {APPROX_RCP}, .words = {8192, 8192, FILL_WIDE, {WITHIN_ULPS, EMU_F32, 1.0, 0.0}}},
    {"arithmetic.rcp.limits", &kernel_approx, .cases = 2, .ctas = 64, .prepare = prepare_words,
     .literals = {APPROX_RCP},
     .words = {8192, 8192, FILL_ROUNDED, {WITHIN_ULPS, EMU_F32, 1.0, 0.0}}},
    {"memory", &kernel_memory, .cases = 2, .prepare = prepare_words,
     .words = {2048, 2176, FILL_WIDE, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"warp", &kernel_warp, .cases = 4, .prepare = prepare_words,
     .words = {256, 2048, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"matrix", &kernel_matrix, .cases = 8, .prepare = prepare_words,
     .words = {1536, 32 * 14 + 1536, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"cp_async", &kernel_cp_async, .cases = 4, .prepare = prepare_words,
     .words = {8192, 128 + 7 * 512, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"bulk", &kernel_bulk, .cases = 2, .prepare = prepare_words,
     .words = {4096, 4096, FILL_NORMAL, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"barriers", &kernel_barriers, .cases = 2, .prepare = prepare_words,
     .words = {512, 528, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"registers", &kernel_registers, .cases = 2, .prepare = prepare_words,
     .words = {193 * 128 + 256, 384, FILL_NORMAL, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"flags", &kernel_flags, .cases = 2, .ctas = 6, .prepare = prepare_flags,
     .words = {64, 64 + 6 * 64, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"dependent_launch", &kernel_pdl_first, &kernel_pdl_second, .cases = 4, .ctas = 64,
     .prepare = prepare_words,
     .words = {64 * 128, 2 * 64 * 128, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"tma.store", &kernel_tma, .cases = 192, .prepare = prepare_tma_store},
    {"tma.reduce", &kernel_tma, .cases = 128, .prepare = prepare_tma_reduce},
    {"tma.multicast", &kernel_multicast, .cases = 16, .ctas = MULTICAST_CTAS,
     .cluster = MULTICAST_CTAS, .prepare = prepare_multicast},
    {"cluster.2", &kernel_cluster, .cases = 2, .ctas = 4, .cluster = 2, .prepare = prepare_words,
     .words = {4 * 128, 4 * 260, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"cluster.4", &kernel_cluster, .cases = 2, .ctas = 8, .cluster = 4, .prepare = prepare_words,
     .words = {8 * 128, 8 * 260, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"cluster.8", &kernel_cluster, .cases = 2, .ctas = 16, .cluster = 8, .prepare = prepare_words,
     .words = {16 * 128, 16 * 260, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"mma_sync.fragments", &kernel_mma_sync, .cases = TYPES, .ctas = 8,
     .prepare = prepare_mma_sync},
    {"mma_sync.rounding.16", &kernel_mma_sync, .cases = 2, .ctas = 64,
     .prepare = prepare_mma_sync_rounding},
    {"mma_sync.rounding.8", &kernel_mma_sync, .cases = 4, .ctas = 64,
     .prepare = prepare_mma_sync_rounding, .literals = {TYPE_E4M3}},
    {"wgmma.ss.every_n", &kernel_wgmma, .cases = TYPES * 32, .prepare = prepare_wgmma_n,
     .literals = {0, 0}},
    {"wgmma.rs.every_n", &kernel_wgmma, .cases = TYPES * 32, .prepare = prepare_wgmma_n,
     .literals = {0, 1}},
    {"wgmma.ss.layouts", &kernel_wgmma, .cases = TYPES * 16, .prepare = prepare_wgmma_layout,
     .literals = {0, 0}},
    {"wgmma.rs.layouts", &kernel_wgmma, .cases = TYPES * 16, .prepare = prepare_wgmma_layout,
     .literals = {0, 1}},
    {"wgmma.rounding.16", &kernel_wgmma, .cases = 4, .prepare = prepare_wgmma_rounding},
    {"wgmma.rounding.8", &kernel_wgmma, .cases = 8, .prepare = prepare_wgmma_rounding,
     .literals = {TYPE_E4M3}},
    {"packed_math", &kernel_packed_math, .cases = 2, .ctas = 8, .prepare = prepare_words,
     .words = {6 * 1024, 11 * 1024, FILL_ROUNDED, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"tma.pair", &kernel_pair_load, .cases = 8, .ctas = 2, .cluster = 2,
     .prepare = prepare_pair_load},
    {"tensor.shapes", &kernel_tensor_shapes, .cases = 4, .prepare = prepare_words,
     .words = {512 * 128, 1308 * 128, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"tensor.copy", &kernel_tensor_copy, .cases = 2, .prepare = prepare_words,
     .words = {2048 + 224 * 128, 224 * 128, FILL_BITS, {SAME_BITS, EMU_U32, 0.0, 0.0}}},
    {"tensor.mma", &kernel_tensor_mma, .cases = TYPES * 16, .prepare = prepare_tensor_mma},
    {"tensor.mma.pair", &kernel_tensor_mma, .cases = TYPES * 16, .ctas = 2, .cluster = 2,
     .prepare = prepare_tensor_mma, .literals = {1}},
};

// ladder_gemm.c and ladder_attention.c, compiled for each level and head dim, product_forward.c for
// each configuration.
#define LISTS(X)                                                                                   \
    X(ladder_2_0)                                                                                  \
    X(ladder_3_64)                                                                                 \
    X(ladder_3_128)                                                                                \
    X(ladder_4_0)                                                                                  \
    X(ladder_5_128)                                                                                \
    X(ladder_6_128)                                                                                \
    X(forward_bf16_64)                                                                             \
    X(forward_f16_128)                                                                             \
    X(forward_bf16_192_128)
#define LIST_DECLARED(name) extern const struct probe_list name;
#define LIST_ADDRESS(name) &name,
LISTS(LIST_DECLARED)

static const struct probe_list own = {probes, sizeof probes / sizeof probes[0]};
const struct probe_list *const probe_lists[] = {&own, LISTS(LIST_ADDRESS)};
const uint32_t probe_list_count = sizeof probe_lists / sizeof probe_lists[0];

// Architectures with features of their own end with the next one; what began with an older one
// stays.
static const struct {
    int32_t first;
    int32_t last;
} capabilities[] = {[SINCE_SM80] = {80, 9999}, [SINCE_SM89] = {89, 9999}, [SINCE_SM90] = {90, 9999},
                    [HOPPER] = {90, 90},       [BLACKWELL] = {100, 103},  [SM103] = {103, 103}};

bool probe_runs_on(probe_gpus gpus, int32_t compute)
{
    return compute >= capabilities[gpus].first && compute <= capabilities[gpus].last;
}

int32_t probe_first_compute(probe_gpus gpus)
{
    return capabilities[gpus].first;
}
