// Names and prologues of configurations: see kernel_config.h.
#include "kernel_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A text that grows in a buffer; what does not fit is cut, which the tests over all rows exclude.
typedef struct writer {
    char *text;
    size_t room;
    size_t used;
} writer_t;

__attribute__((format(printf, 2, 3))) static void add(writer_t *writer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int bytes =
        vsnprintf(writer->text + writer->used, writer->room - writer->used, format, list);
    va_end(list);
    const size_t left = writer->room - writer->used - 1;
    writer->used += (size_t)bytes < left ? (size_t)bytes : left;
}

static void add_axis(writer_t *writer, const char *letter, int32_t value)
{
    if (letter == NULL || value == 0) {
        return;
    }
    // Switches are words, figures follow a letter.
    if (letter[0] == '_' && value == 1) {
        add(writer, "%s", letter);
    } else {
        add(writer, "%s%d", letter, (int)value);
    }
}

void attn_kernel_config_name(const attn_kernel_config_t *config,
                             char name_out[ATTN_KERNEL_NAME_BYTES])
{
    static const char *const kinds[] = {"fill", "fwd", "bwd", "bwd_pre", "bwd_post", "survey"};
    writer_t writer = {name_out, ATTN_KERNEL_NAME_BYTES, 0};
    add(&writer, "sm%d_%s_", (int)config->arch, kinds[config->kind]);
    if (config->kind != ATTN_KERNEL_FILL) {
        add(&writer, "%s_", config->bf16 ? "bf16" : "f16");
    }
#define ADD_AXIS(field, name, letter) add_axis(&writer, letter, config->field);
    ATTN_KERNEL_AXES(ADD_AXIS)
#undef ADD_AXIS
}

void attn_kernel_config_prologue(const attn_kernel_config_t *config,
                                 char text_out[ATTN_KERNEL_PROLOGUE_BYTES])
{
    char kernel[ATTN_KERNEL_NAME_BYTES];
    attn_kernel_config_name(config, kernel);
    writer_t writer = {text_out, ATTN_KERNEL_PROLOGUE_BYTES, 0};
    add(&writer, "#define ATTN_CFG_KERNEL %s\n", kernel);
#define ADD_LINE(field, name, letter)                                                              \
    add(&writer, "#define ATTN_CFG_" #name " %d\n", (int)config->field);
    ATTN_KERNEL_AXES(ADD_LINE)
#undef ADD_LINE
}

// wgmma, tcgen05 and setmaxnreg belong to one architecture alone (PTX ISA, ".target", suffix a).
void attn_arch_name(int32_t compute, char name_out[ATTN_ARCH_BYTES])
{
    (void)snprintf(name_out, ATTN_ARCH_BYTES, "sm_%d%s", (int)compute, compute >= 90 ? "a" : "");
}

int32_t attn_arch_compute(const char *name, size_t bytes)
{
    char text[ATTN_ARCH_BYTES];
    if (bytes >= sizeof(text) || bytes < 5 || memcmp(name, "sm_", 3) != 0) {
        return 0;
    }
    memcpy(text, name, bytes);
    text[bytes] = '\0';
    const int32_t compute = (int32_t)strtol(text + 3, NULL, 10);
    char again[ATTN_ARCH_BYTES];
    attn_arch_name(compute, again);
    return compute >= 75 && strcmp(text, again) == 0 ? compute : 0;
}
