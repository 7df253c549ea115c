// The report as tables, and the floor that it implies.
#include "emu_report.h"
#include <stdbool.h>

// 4096: 989.4 TFLOP/s dense bf16 of an H100 SXM5 at 132 multiprocessors and 1.83 GHz ("NVIDIA H100
// Tensor Core GPU Architecture"); twice that for 8 bits, and for sm_100. MUFU, FMA, conversions:
// CUDA C++ Programming Guide, "Arithmetic Instructions", results per clock cycle per
// multiprocessor. Shared memory: 32 banks of 4 bytes.
const struct emu_rates emu_rates_sm90 = {"sm_90", 4096, 8192, 16, 128, 64, 128};
const struct emu_rates emu_rates_sm100 = {"sm_100", 8192, 16384, 16, 128, 64, 128};
const struct emu_rates emu_rates_sm103 = {"sm_103", 8192, 16384, 32, 128, 64, 128};

static struct emu_counts sum_roles(const struct emu_report *report)
{
    struct emu_counts sum = {.role = "all"};
    for (uint32_t i = 0; i < report->role_count; i++) {
        const struct emu_counts *c = &report->roles[i];
        sum.mma_flops_16 += c->mma_flops_16;
        sum.mma_flops_8 += c->mma_flops_8;
        sum.mma_shared_bytes += c->mma_shared_bytes;
        sum.mufu += c->mufu;
        sum.fma += c->fma;
        sum.conversions += c->conversions;
        sum.shared_read_bytes += c->shared_read_bytes;
        sum.shared_write_bytes += c->shared_write_bytes;
        sum.shared_wavefronts += c->shared_wavefronts;
        sum.tma_bytes += c->tma_bytes;
        sum.global_bytes += c->global_bytes;
    }
    return sum;
}

struct emu_floor emu_report_floor(const struct emu_report *report, const struct emu_rates *rates)
{
    struct emu_counts c = sum_roles(report);
    double ctas = report->ctas ? (double)report->ctas : 1.0;
    return (struct emu_floor){.mma = ((double)c.mma_flops_16 / rates->mma_flops_16 +
                                      (double)c.mma_flops_8 / rates->mma_flops_8) /
                                     ctas,
                              .mufu = (double)c.mufu / rates->mufu / ctas,
                              .fma = (double)c.fma / rates->fma / ctas,
                              .conversions = (double)c.conversions / rates->conversions / ctas,
                              .shared = ((double)c.shared_wavefronts +
                                         (double)c.mma_shared_bytes / rates->shared_bytes +
                                         (double)c.tma_bytes / rates->shared_bytes) /
                                        ctas};
}

static void print_role(FILE *file, const struct emu_counts *c)
{
    fprintf(file, "%-16s %12.3f %10llu %10llu %10llu %10llu %10llu %10llu %10llu %10llu\n",
            c->role[0] ? c->role : "(none)", (double)(c->mma_flops_16 + c->mma_flops_8) * 1e-6,
            (unsigned long long)c->mufu, (unsigned long long)c->fma,
            (unsigned long long)c->conversions,
            (unsigned long long)(c->shared_read_bytes + c->shared_write_bytes),
            (unsigned long long)c->shared_wavefronts, (unsigned long long)c->mma_shared_bytes,
            (unsigned long long)c->tma_bytes, (unsigned long long)c->global_bytes);
}

static bool is_empty(const struct emu_counts *c)
{
    return c->mma_flops_16 + c->mma_flops_8 + c->mufu + c->fma + c->conversions +
               c->shared_read_bytes + c->shared_write_bytes + c->tma_bytes + c->global_bytes ==
           0;
}

void emu_report_print(FILE *file, const struct emu_report *report, const struct emu_rates *rates)
{
    fprintf(file, "%-16s %12s %10s %10s %10s %10s %10s %10s %10s %10s\n", "role", "MMA Mflop",
            "MUFU", "FMA", "conversion", "shared B", "wavefronts", "MMA sh. B", "TMA B",
            "global B");
    for (uint32_t i = 0; i < report->role_count; i++) {
        if (!is_empty(&report->roles[i])) {
            print_role(file, &report->roles[i]);
        }
    }
    struct emu_counts sum = sum_roles(report);
    print_role(file, &sum);
    fprintf(file, "\n%-40s %-18s %10s %10s %10s\n", "line", "instruction", "by warps", "wavefronts",
            "conflicts");
    for (uint32_t i = 0; i < report->site_count; i++) {
        const struct emu_site *s = &report->sites[i];
        char line[320];
        snprintf(line, sizeof line, "%s:%d", s->file, s->line);
        fprintf(file, "%-40s %-18s %10llu %10llu %10llu\n", line, s->instruction,
                (unsigned long long)s->executions, (unsigned long long)s->wavefronts,
                (unsigned long long)s->conflicts);
    }
    struct emu_floor floor = emu_report_floor(report, rates);
    fprintf(file,
            "\nfloor on %s, cycles per CTA: MMA %.0f, MUFU %.0f, FMA %.0f, conversions %.0f, "
            "shared %.0f\n",
            rates->name, floor.mma, floor.mufu, floor.fma, floor.conversions, floor.shared);
}
