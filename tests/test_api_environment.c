// A process whose ATTN_ISA is misspelt: the default context still exists, and everything that would
// compute on it says why not. Runs with ATTN_ISA=sse9.
#include "support.h"

#include <stdlib.h>

static void work_on_the_default_context_is_refused(void **state)
{
    (void)state;
    assert_string_equal(getenv("ATTN_ISA"), "sse9");
    assert_true(attn_isa_available(attn_context_isa(NULL)));
    assert_string_equal(attn_last_error(), "");
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 2, 2, 1, 1, 4);
    const char *text = "environment variable ATTN_ISA";
    assert_fails(attn_supports(NULL, &desc, ATTN_FORWARD), ATTN_INVALID_ARGUMENT, text);
    attn_plan_t *plan = NULL;
    assert_fails(attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan), ATTN_INVALID_ARGUMENT, text);
    attn_merge_desc_t merge;
    attn_merge_desc_init(&merge, ATTN_F32);
    assert_fails(attn_merge(NULL, &merge, NULL, NULL, NULL, NULL, NULL), ATTN_INVALID_ARGUMENT,
                 text);
    attn_append_desc_t append;
    attn_append_desc_init(&append, ATTN_F32);
    assert_fails(attn_append(NULL, &append, NULL, NULL), ATTN_INVALID_ARGUMENT, text);
    char explained[600];
    assert_ok(attn_explain(NULL, &desc, ATTN_FORWARD, explained, sizeof(explained), NULL));
    assert_non_null(strstr(explained, text));
    attn_context_t *context = NULL;
    assert_fails(attn_context_create(NULL, &context), ATTN_INVALID_ARGUMENT, "\"sse9\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_on_the_default_context_is_refused)};
    return cmocka_run_group_tests_name("api_environment", tests, NULL, NULL);
}
