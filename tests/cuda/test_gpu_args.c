// The arguments of a run on a GPU, made from those of a run on the host.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu_args.h"

enum { BYTES = 64 };
static char host[3 * BYTES]; // two ranges that touch, and room that is nobody's
static char copies[2][BYTES];

static const struct gpu_range ranges[] = {
    {host, copies[0], BYTES},
    {host + BYTES, copies[1], BYTES},
};

// Where a host pointer goes.
static const void *moved(const void *pointer)
{
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = pointer;
    gpu_args_forward(&args, ranges, 2);
    return args.q;
}

static void test_places(void **state)
{
    (void)state;
    assert_ptr_equal(moved(host), copies[0]);
    assert_ptr_equal(moved(host + 5), copies[0] + 5);
    // The end of the first is the beginning of the second; the end of the second is its own.
    assert_ptr_equal(moved(host + BYTES), copies[1]);
    assert_ptr_equal(moved(host + 2 * BYTES), copies[1] + BYTES);
    assert_null(moved(host + 2 * BYTES + 1));
    assert_null(moved(NULL));
}

// The structs are struct_size and pointers. All of them point to the host, so that one that is not
// moved shows.
static void test_every_pointer(void **state)
{
    (void)state;
    attn_backward_args_t args;
    attn_backward_args_init(&args);
    void **const words = (void **)&args;
    for (size_t i = 0; i < sizeof(args) / sizeof(*words); i++) {
        words[i] = host;
    }
    args.struct_size = sizeof(args);
    args.in.struct_size = sizeof(args.in);
    gpu_args_backward(&args, ranges, 2);
    size_t moved_count = 0;
    for (size_t i = 0; i < sizeof(args) / sizeof(*words); i++) {
        assert_ptr_not_equal(words[i], host);
        moved_count += words[i] == copies[0];
    }
    assert_int_equal(moved_count, sizeof(args) / sizeof(*words) - 2);
    assert_int_equal(args.in.struct_size, sizeof(args.in));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_every_pointer),
    };
    return cmocka_run_group_tests_name("gpu_args", tests, NULL, NULL);
}
