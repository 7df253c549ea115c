// compare.c: see compare.h.
#include "compare.h"

#include <math.h>

static bool same_special(double a, double b)
{
    return (isnan(a) && isnan(b)) || (isinf(a) && isinf(b) && (a > 0) == (b > 0));
}

struct error_stats compare_tensors(const struct io_tensor *got, const struct io_tensor *reference)
{
    struct error_stats stats = {0};
    double squares = 0.0;
    for (int64_t i = 0; i < reference->count; i++) {
        const double a = io_tensor_get(got, i);
        const double b = io_tensor_get(reference, i);
        if (!isfinite(a) || !isfinite(b)) {
            if (!same_special(a, b)) {
                stats.worst = stats.mismatches == 0 ? i : stats.worst;
                stats.mismatches++;
            }
            continue;
        }
        const double error = fabs(a - b);
        squares += error * error;
        stats.max_reference = fmax(stats.max_reference, fabs(b));
        if (error > stats.max_abs) {
            stats.max_abs = error;
            stats.worst = stats.mismatches == 0 ? i : stats.worst;
        }
    }
    stats.rms = reference->count ? sqrt(squares / (double)reference->count) : 0.0;
    return stats;
}

double compare_unit_roundoff(enum io_dtype dtype)
{
    switch (dtype) {
    case IO_F16: return 0x1p-11;
    case IO_BF16: return 0x1p-8;
    case IO_F8E4M3: return 0x1p-4;
    case IO_F8E5M2: return 0x1p-3;
    case IO_F64: return 0x1p-53;
    default: return 0x1p-24;
    }
}

double compare_tolerance(enum io_dtype dtype, const struct error_stats *plain, double factor)
{
    // Rounding at the largest magnitude: one to the result's type, and a few fp32 ones on the way
    // (exp2 and the rescaling of partial sums, which the plain implementation does not have).
    const double rounding = compare_unit_roundoff(dtype) + 4.0 * 0x1p-24;
    return factor * plain->max_abs + rounding * plain->max_reference;
}
