// Finds the best CPU instruction set. An instruction set counts only if the processor has it, the
// operating system saves its registers (XCR0), and the build contains its kernels (ATTN_HAVE_*,
// from src/CMakeLists.txt). Bits: Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2A, CPUID; volume 1, section 13.3, XCR0.
#include "cpuid.h"

#if defined(__x86_64__)

#include <cpuid.h>

#define LEAF1_ECX_NEEDED (1u << 12 | 1u << 27 | 1u << 28 | 1u << 29) // FMA, OSXSAVE, AVX, F16C
#define LEAF7_EBX_AVX2 (1u << 5)
#define LEAF7_EBX_AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) // F, DQ, BW, VL
#define LEAF7_1_EAX_AVX512_BF16 (1u << 5)
#define XCR0_AVX 0x06u    // xmm and ymm
#define XCR0_AVX512 0xe6u // the above, opmask, zmm 0-15 upper halves, zmm 16-31

static uint32_t xcr0_low(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static int has_all(uint32_t value, uint32_t bits)
{
    return (value & bits) == bits;
}

static attn_isa_t machine_isa(void)
{
    uint32_t eax;
    uint32_t ebx;
    uint32_t ecx;
    uint32_t edx;
    // OSXSAVE is among the needed bits: without it xgetbv must not run.
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has_all(ecx, LEAF1_ECX_NEEDED)) {
        return ATTN_ISA_SCALAR;
    }
    const uint32_t xcr0 = xcr0_low();
    if (!has_all(xcr0, XCR0_AVX) || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
        !has_all(ebx, LEAF7_EBX_AVX2)) {
        return ATTN_ISA_SCALAR;
    }
    if (!has_all(xcr0, XCR0_AVX512) || !has_all(ebx, LEAF7_EBX_AVX512)) {
        return ATTN_ISA_AVX2;
    }
    const uint32_t last_subleaf = eax;
    if (last_subleaf < 1 || !__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) ||
        !has_all(eax, LEAF7_1_EAX_AVX512_BF16)) {
        return ATTN_ISA_AVX512;
    }
    return ATTN_ISA_AVX512_BF16;
}

#else

static attn_isa_t machine_isa(void)
{
    return ATTN_ISA_SCALAR;
}

#endif

// Each set needs all before it, in the build as in the machine.
static attn_isa_t build_isa(void)
{
#if defined(ATTN_HAVE_AVX512_BF16)
    return ATTN_ISA_AVX512_BF16;
#elif defined(ATTN_HAVE_AVX512)
    return ATTN_ISA_AVX512;
#elif defined(ATTN_HAVE_AVX2)
    return ATTN_ISA_AVX2;
#else
    return ATTN_ISA_SCALAR;
#endif
}

attn_isa_t attn_cpu_best_isa(void)
{
    const attn_isa_t machine = machine_isa();
    const attn_isa_t build = build_isa();
    return machine < build ? machine : build;
}
