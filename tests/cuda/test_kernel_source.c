// The kernels' texts: what is embedded is what lies in the tree, and a kernel's set is complete.
#include "child.h"

#include <sys/stat.h>

#include "cuda/kernel_source.h"

#define KERNEL_PATH "device/common/fill_forward.c"

static const char *text_of(const attn_source_set_t *set, const char *words)
{
    for (int32_t i = 0; i < set->count; i++) {
        if (strcmp(set->list[i].path, words) == 0) {
            return set->list[i].text;
        }
    }
    return NULL;
}

static void test_embedded(void **state)
{
    (void)state;
    assert_true(attn_embedded_source_count > 10);
    int is_kernel_there = 0;
    for (int32_t i = 0; i < attn_embedded_source_count; i++) {
        const attn_source_t *source = &attn_embedded_sources[i];
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/%s", SOURCE_FOLDER, source->path);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        static char text[1 << 20];
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(source->text, text);
        is_kernel_there |= strcmp(source->path, KERNEL_PATH) == 0;
    }
    assert_true(is_kernel_there);
}

static void test_set(void **state)
{
    (void)state;
    static attn_source_set_t set;
    assert_int_equal(attn_source_collect(KERNEL_PATH, &set), ATTN_OK);
    assert_string_equal(set.list[0].path, KERNEL_PATH);
    // The same file under the two names that ask for it.
    assert_non_null(text_of(&set, "kernel.h"));
    assert_ptr_equal(text_of(&set, "kernel.h"), text_of(&set, "../common/kernel.h"));
    assert_non_null(text_of(&set, "../../shared/gpu_fill_params.h"));
    assert_non_null(text_of(&set, "shared_types.h"));
    // Nothing else, and nothing of the host.
    assert_null(text_of(&set, "stdint.h"));
    assert_null(text_of(&set, "../ptx/wgmma.h"));
    for (int32_t i = 0; i < set.count; i++) {
        for (int32_t j = 0; j < i; j++) {
            assert_string_not_equal(set.list[i].path, set.list[j].path);
        }
    }
    attn_source_clear(&set);
    assert_int_equal(attn_source_collect("device/common/none.c", &set), ATTN_INTERNAL_ERROR);
    assert_non_null(strstr(attn_last_error(), "device/common/none.c"));
    attn_source_clear(&set);
}

// ---- a folder instead

static char folder[256];

static void put(const char *below, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, below);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void reads_folder(void)
{
    static attn_source_set_t set;
    CHILD_CHECK(attn_source_collect("device/a/one.c", &set) == ATTN_OK);
    CHILD_CHECK(set.count == 3);
    CHILD_CHECK(strcmp(set.list[1].path, "../b/two.h") == 0);
    CHILD_CHECK(strcmp(set.list[1].text, "#include\"./../../shared/three.h\"\n") == 0);
    CHILD_CHECK(strcmp(set.list[2].path, "./../../shared/three.h") == 0);
    CHILD_CHECK(strcmp(set.list[2].text, "three") == 0);
    attn_source_clear(&set);
}

static void misses_file(void)
{
    static attn_source_set_t set;
    CHILD_CHECK(attn_source_collect("device/a/lost.c", &set) == ATTN_IO_ERROR);
    CHILD_SAYS("device/b/gone.h: No such file");
    attn_source_clear(&set);
}

static void leaves_tree(void)
{
    static attn_source_set_t set;
    CHILD_CHECK(attn_source_collect("device/a/out.c", &set) == ATTN_INTERNAL_ERROR);
    CHILD_SAYS("../../../etc/passwd");
    attn_source_clear(&set);
}

static void test_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/attn-source-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    put("device/a/one.c", "// #include \"no.h\"\n#  include \"../b/two.h\"\n#include <stdio.h>\n"
                          "#include \"../b/two.h\"\n#include \"cut\n");
    put("device/b/two.h", "#include\"./../../shared/three.h\"\n");
    put("shared/three.h", "three");
    put("device/a/lost.c", "#include \"../b/gone.h\"\n");
    put("device/a/out.c", "#include \"../../../etc/passwd\"\n");
    char variable[320];
    (void)snprintf(variable, sizeof(variable), "ATTN_KERNEL_SOURCE=%s", folder);
    IN_CHILD(reads_folder, variable);
    IN_CHILD(misses_file, variable);
    IN_CHILD(leaves_tree, variable);
    char command[300];
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedded),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
