// Runs a kernel of a few lines on the emulator: what the tests of single instructions share.
#ifndef EMU_SMALL_KERNEL_H
#define EMU_SMALL_KERNEL_H

#include "emu.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static _Alignas(128) uint32_t input[4096];
static _Alignas(128) uint32_t output[4096];

static struct emu_launch small_launch(void (*entry)(const void *), uint32_t threads)
{
    static const struct emu_buffer buffers[] = {{"input", input, sizeof input, 0},
                                                {"output", output, sizeof output, 1}};
    for (uint32_t i = 0; i < 4096; i++) {
        input[i] = i * 2654435761u;
    }
    memset(output, 0xff, sizeof output);
    return (struct emu_launch){.name = "small",
                               .entry = entry,
                               .grid = {1, 1, 1},
                               .threads = threads,
                               .smem_bytes = 32768,
                               .buffers = buffers,
                               .buffer_count = 2,
                               .check = EMU_CHECK_STRICT};
}

static inline void expect_ok_launch(struct emu_launch launch)
{
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        struct emu_result result;
        launch.async = (emu_async)async;
        launch.seed = (uint32_t)async;
        if (emu_launch(&launch, &result) != EMU_OK) {
            fail_msg("async %d: %s", async, result.text);
        }
    }
}

static inline void expect_ok(void (*entry)(const void *), uint32_t threads)
{
    expect_ok_launch(small_launch(entry, threads));
}

// Every schedule must find it, in these words.
static inline void expect_error_launch(struct emu_launch launch, emu_status status,
                                       const char *words)
{
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        struct emu_result result;
        launch.async = (emu_async)async;
        launch.seed = (uint32_t)async;
        if (emu_launch(&launch, &result) != status || !strstr(result.text, words)) {
            fail_msg("async %d: expected %d '%s', got %d '%s'", async, (int)status, words,
                     (int)result.status, result.text);
        }
    }
}

static inline void expect_error(void (*entry)(const void *), uint32_t threads, emu_status status,
                                const char *words)
{
    expect_error_launch(small_launch(entry, threads), status, words);
}

#endif
