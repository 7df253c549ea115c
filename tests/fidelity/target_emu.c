// The emulator as a machine. Every run is checked as strictly as it can: a probe that breaks a rule
// says nothing about the hardware.
#include "probe_table.h"
#include "target.h"
#include <stdlib.h>
#include <string.h>

int32_t probe_literals[PROBE_LITERALS];

static void *allocate(const void *host, size_t bytes)
{
    void *memory = run_alloc(bytes);
    memcpy(memory, host, bytes);
    return memory;
}

static void release(void *address, size_t bytes)
{
    (void)bytes;
    free(address);
}

// What an entry is called with: the kernel beside its parameters.
struct call {
    void (*function)(const struct probe_params p);
    const struct probe_params *params;
};

static void call_function(const void *params)
{
    const struct call *call = params;
    call->function(*call->params);
}

// The oldest GPU that the emulator is and that has the probe's instructions.
static uint32_t arch_of(const struct probe *probe)
{
    int32_t first = probe_first_compute(probe->kernel->gpus);
    return first > 90 ? (uint32_t)first : 90;
}

static struct emu_launch launch_of(const struct run *run, const struct probe_kernel *kernel,
                                   const struct call *call, const struct emu_buffer *buffers)
{
    return (struct emu_launch){.name = kernel->symbol,
                               .arch = arch_of(run->probe),
                               .entry = kernel->entry ? kernel->entry : call_function,
                               .params = kernel->entry ? (const void *)run->params : call,
                               .grid = {run->grid[0], run->grid[1], run->grid[2]},
                               .threads = run->threads,
                               .cluster = run->cluster,
                               .smem_bytes = run->smem_bytes,
                               .resident = run->resident,
                               .buffers = buffers,
                               .buffer_count = run->buffer_count,
                               .check = EMU_CHECK_STRICT};
}

static const char *execute(struct run *run, emu_async async)
{
    static struct emu_result result;
    struct emu_buffer buffers[RUN_BUFFERS];
    for (uint32_t i = 0; i < run->buffer_count; i++) {
        const struct run_buffer *b = &run->buffers[i];
        buffers[i] = (struct emu_buffer){b->name, b->address, b->bytes, b->writable};
    }
    memcpy(probe_literals, run->literals, sizeof probe_literals);
    const struct probe_kernel *kernel = run->probe->kernel;
    const struct probe_kernel *next = run->probe->second;
    const struct probe_params *params = (const void *)run->params;
    const struct call call = {kernel->function, params};
    const struct call next_call = {next ? next->function : NULL, params};
    struct emu_launch first = launch_of(run, kernel, &call, buffers);
    first.async = async;
    first.seed = (uint32_t)async;
    struct emu_launch second = launch_of(run, next ? next : kernel, &next_call, buffers);
    emu_status status =
        next ? emu_launch_pair(&first, &second, &result) : emu_launch(&first, &result);
    for (uint32_t i = 0; i < run->buffer_count; i++) {
        memcpy(run->buffers[i].host, run->buffers[i].address, run->buffers[i].bytes);
    }
    return status == EMU_OK ? NULL : result.text;
}

static const char *execute_late(struct run *run)
{
    return execute(run, EMU_LATE);
}

static const char *execute_early(struct run *run)
{
    return execute(run, EMU_EARLY);
}

static const char *execute_random(struct run *run)
{
    return execute(run, EMU_RANDOM);
}

const struct target target_emu_late = {"emulator, late", allocate, release, emu_tensor_map_encode,
                                       execute_late};
const struct target target_emu_early = {"emulator, early", allocate, release, emu_tensor_map_encode,
                                        execute_early};
const struct target target_emu_random = {"emulator, random", allocate, release,
                                         emu_tensor_map_encode, execute_random};
