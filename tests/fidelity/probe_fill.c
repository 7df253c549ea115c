// Random numbers of every type.
#include "../../src/device/ptx/math_ops.h"
#include "prepare.h"
#include "probe_words.h"
#include <math.h>
#include <string.h>

static uint32_t random_word(test_rng_t *rng)
{
    return (uint32_t)(test_rng_next(rng) >> 32);
}

// A number near a limit of the narrow formats, or half-way between two of theirs.
static uint32_t rounded_word(test_rng_t *rng)
{
    static const uint32_t special[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0x7f800001, 0x477fe000, 0x477ff000, 0x43e00000, 0x43e80000,
                                       0x47600000, 0x47680000, 0x33000000, 0x33000001, 0x3a800000,
                                       0x37000000, 0x00000001, 0x007fffff, 0x7f7fffff, 0x7f7f8000};
    enum { SPECIALS = sizeof special / sizeof special[0] };
    uint32_t bits = random_word(rng);
    switch (random_word(rng) % 4) {
    case 0: return special[random_word(rng) % SPECIALS] ^ (bits & 0x80000000);
    case 1: return (bits & 0x807fffff) | (127 - 26 + random_word(rng) % 44) << 23;
    case 2: // few mantissa bits: ties
        return (bits & 0x807fffff & (~0u << (random_word(rng) % 24))) |
               (127 - 20 + random_word(rng) % 40) << 23;
    default: return bits;
    }
}

static uint32_t word_of(test_rng_t *rng, fill kind)
{
    switch (kind) {
    case FILL_BITS: return random_word(rng);
    case FILL_ROUNDED: return rounded_word(rng);
    case FILL_NORMAL: return bits_of_f32((float)test_rng_normal(rng));
    case FILL_WIDE: return (random_word(rng) & 0x807fffff) | (1 + random_word(rng) % 254) << 23;
    case FILL_EXPONENT: return bits_of_f32((float)(test_rng_unit(rng) * 252.0 - 126.0));
    }
    return 0;
}

void fill_words(test_rng_t *rng, uint32_t *words, size_t count, fill kind)
{
    for (size_t i = 0; i < count; i++) {
        words[i] = word_of(rng, kind);
    }
}

uint32_t encode_element(int type, bool is_b, float x)
{
    bool e5m2 =
        type == TYPE_E5M2 || (type == TYPE_E4M3_E5M2 && is_b) || (type == TYPE_E5M2_E4M3 && !is_b);
    switch (type) {
    case TYPE_F16: return pack_f16x2(x, 0.0f) & 0xffff;
    case TYPE_BF16: return pack_bf16x2(x, 0.0f) & 0xffff;
    default: return (e5m2 ? pack_e5m2x2(x, 0.0f) : pack_e4m3x2(x, 0.0f)) & 0xff;
    }
}

void fill_elements(test_rng_t *rng, void *elements, size_t bytes, int type, bool is_b,
                   bool is_whole)
{
    size_t size = type == TYPE_F16 || type == TYPE_BF16 ? 2 : 1;
    for (size_t at = 0; at < bytes; at += size) {
        float x =
            is_whole ? (float)test_rng_range(rng, -4, 4) : (float)(2.0 * test_rng_unit(rng) - 1.0);
        uint32_t bits = encode_element(type, is_b, x);
        memcpy((char *)elements + at, &bits, size);
    }
}
