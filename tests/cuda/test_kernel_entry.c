// Compiled kernels as bytes: the hash, the format, and every way of being damaged.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernel_entry.h"
#include "cuda/kernel_key.h"
#include "cuda/sha256.h"

// ---- SHA-256

static void expect_hash(const char *text, size_t repeats, size_t step, const char *want)
{
    attn_sha256_t sha;
    attn_sha256_init(&sha);
    const size_t bytes = strlen(text);
    for (size_t i = 0; i < repeats; i++) {
        for (size_t at = 0; at < bytes; at += step) {
            attn_sha256_add(&sha, text + at, bytes - at < step ? bytes - at : step);
        }
    }
    uint8_t hash[ATTN_SHA256_BYTES];
    char hex[2 * ATTN_SHA256_BYTES + 1];
    attn_sha256_end(&sha, hash);
    attn_sha256_hex(hash, hex);
    assert_string_equal(hex, want);
}

// The examples of FIPS 180-2, appendix B, and of NIST's file of short messages.
static void test_sha256(void **state)
{
    (void)state;
    for (size_t step = 1; step < 120; step += 7) {
        expect_hash("", 1, step,
                    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        expect_hash("abc", 1, step,
                    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        expect_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, step,
                    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        // 55, 56 and 64 bytes: the padding just fits, just does not, and fills a block of its own.
        expect_hash("aaaaaaaaaaa", 5, step,
                    "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
        expect_hash("aaaaaaaa", 7, step,
                    "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
        expect_hash("aaaaaaaa", 8, step,
                    "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    }
    expect_hash("aaaaaaaaaa", 100000, 10,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// ---- entries

static const attn_kernel_entry_t sample = {
    .compiler = 13000,
    .name = "sm90_fwd_bf16",
    .arch = "sm_90a",
    .key = "key text",
    .key_bytes = 8,
    .cubin = "\177ELF and more",
    .cubin_bytes = 13,
};

static uint8_t *sample_bytes(size_t *bytes_out)
{
    *bytes_out = attn_kernel_entry_bytes(&sample);
    uint8_t *data = malloc(*bytes_out);
    assert_non_null(data);
    attn_kernel_entry_write(&sample, data);
    return data;
}

static void test_round_trip(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *data = sample_bytes(&bytes);
    attn_kernel_entry_t entry;
    assert_null(attn_kernel_entry_parse(data, bytes, &entry));
    assert_int_equal(entry.compiler, 13000);
    assert_string_equal(entry.name, "sm90_fwd_bf16");
    assert_string_equal(entry.arch, "sm_90a");
    assert_int_equal(entry.key_bytes, 8);
    assert_memory_equal(entry.key, "key text", 8);
    assert_int_equal(entry.cubin_bytes, 13);
    assert_memory_equal(entry.cubin, sample.cubin, 13);
    free(data);
}

// Each bit of it matters, and so does each byte at the end.
static void test_damage(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *data = sample_bytes(&bytes);
    attn_kernel_entry_t entry;
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const char *reason = attn_kernel_entry_parse(data, bytes, &entry);
        if (reason == NULL) {
            fail_msg("bit %zu can be changed", bit);
        }
        assert_null(entry.name);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < bytes; cut++) {
        uint8_t *shorter = malloc(cut + 1); // a sanitizer sees reads past the end
        assert_non_null(shorter);
        memcpy(shorter, data, cut);
        assert_non_null(attn_kernel_entry_parse(shorter, cut, &entry));
        free(shorter);
    }
    uint8_t *longer = calloc(1, bytes + 1);
    assert_non_null(longer);
    memcpy(longer, data, bytes);
    assert_non_null(attn_kernel_entry_parse(longer, bytes + 1, &entry));
    free(longer);
    free(data);
}

// Right checksums over wrong content: somebody made it so.
static void test_forged(void **state)
{
    (void)state;
    attn_kernel_entry_t forged = sample;
    uint8_t data[512];
    attn_kernel_entry_t entry;
    forged.name = "../../evil";
    attn_kernel_entry_write(&forged, data);
    assert_string_equal(attn_kernel_entry_parse(data, attn_kernel_entry_bytes(&forged), &entry),
                        "without a name");
    forged.name = "";
    attn_kernel_entry_write(&forged, data);
    assert_string_equal(attn_kernel_entry_parse(data, attn_kernel_entry_bytes(&forged), &entry),
                        "without a name");
    forged = sample;
    forged.cubin = "#!/bin/sh";
    forged.cubin_bytes = 9;
    attn_kernel_entry_write(&forged, data);
    assert_string_equal(attn_kernel_entry_parse(data, attn_kernel_entry_bytes(&forged), &entry),
                        "without a cubin");
}

// ---- keys

static attn_kernel_key_t key_of(const char *arch, const char *prologue, const char *option,
                                const char *text)
{
    static attn_source_set_t set;
    set.count = 2;
    set.list[0] = (attn_source_t){"a.c", text};
    set.list[1] = (attn_source_t){"b.h", "b"};
    const attn_kernel_request_t request = {.name = "name",
                                           .arch = arch,
                                           .path = "a.c",
                                           .prologue = prologue,
                                           .options = {option},
                                           .option_count = option != NULL};
    attn_kernel_key_t key;
    assert_int_equal(attn_kernel_key_make(&request, &set, &key), ATTN_OK);
    return key;
}

static void test_keys(void **state)
{
    (void)state;
    attn_kernel_key_t keys[] = {
        key_of("sm_90a", "#define A\n", NULL, "text"),
        key_of("sm_100a", "#define A\n", NULL, "text"),
        key_of("sm_90a", "#define B\n", NULL, "text"),
        key_of("sm_90a", "#define A\n", "-lineinfo", "text"),
        key_of("sm_90a", "#define A\n", NULL, "text "),
        // The part behind swallowed by the one before it: the lengths tell them apart.
        key_of("sm_90a", "#define A\n", NULL, "textsource b.h 1\nb"),
    };
    const size_t count = sizeof(keys) / sizeof(keys[0]);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(keys[i].hash, keys[j].hash, ATTN_SHA256_BYTES);
        }
    }
    attn_kernel_key_t again = key_of("sm_90a", "#define A\n", NULL, "text");
    assert_int_equal(again.bytes, keys[0].bytes);
    assert_memory_equal(again.text, keys[0].text, again.bytes);
    attn_kernel_key_free(&again);
    for (size_t i = 0; i < count; i++) {
        attn_kernel_key_free(&keys[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_forged),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
