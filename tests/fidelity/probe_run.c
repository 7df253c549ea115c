// Describing runs: see probe_run.h.
#include "probe_table.h"
#include "target.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *run_alloc(size_t bytes)
{
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!memory) {
        abort();
    }
    return memory;
}

size_t run_element_bytes(emu_element element)
{
    static const size_t bytes[] = {
        [EMU_U8] = 1, [EMU_U16] = 2, [EMU_F16] = 2, [EMU_BF16] = 2, [EMU_U32] = 4, [EMU_F32] = 4};
    return bytes[element];
}

static struct run_buffer *add_buffer(struct run *run, const char *name, void *host, size_t bytes)
{
    if (run->buffer_count == RUN_BUFFERS) {
        fprintf(stderr, "%s: more than %d buffers\n", run->probe->name, RUN_BUFFERS);
        abort();
    }
    struct run_buffer *buffer = &run->buffers[run->buffer_count++];
    *buffer = (struct run_buffer){.name = name, .host = host, .bytes = bytes};
    return buffer;
}

void *run_input(struct run *run, const char *name, void *host, size_t bytes)
{
    struct run_buffer *buffer = add_buffer(run, name, host, bytes);
    buffer->address = run->target->allocate(host, bytes);
    return buffer->address;
}

void *run_output(struct run *run, const char *name, void *host, size_t bytes, emu_writable writable,
                 struct comparison comparison)
{
    struct run_buffer *buffer = add_buffer(run, name, host, bytes);
    buffer->writable = writable;
    buffer->comparison = comparison;
    if (writable == EMU_OUTPUT) {
        memset(host, 0xff, bytes);
    }
    buffer->address = run->target->allocate(host, bytes);
    return buffer->address;
}

void run_map(const struct run *run, tensor_map *map_out, const struct emu_tensor *tensor)
{
    const char *wrong = run->target->encode(map_out, tensor);
    if (wrong) {
        fprintf(stderr, "%s: tensor map on %s: %s\n", run->probe->name, run->target->name, wrong);
        abort();
    }
}

// A stream of random numbers for each case of each probe: a run alone gets what it gets among all.
static test_rng_t rng_of(const struct probe *probe, uint32_t case_idx, uint64_t seed)
{
    uint64_t hash = case_idx;
    for (const char *c = probe->name; *c; c++) {
        hash = hash * 31 + (unsigned char)*c;
    }
    return test_rng_at(seed, hash);
}

void run_prepare(struct run *run, const struct target *target, const struct probe *probe,
                 uint32_t case_idx, uint64_t seed)
{
    memset(run, 0, sizeof *run);
    run->probe = probe;
    run->target = target;
    run->case_idx = case_idx;
    run->rng = rng_of(probe, case_idx, seed);
    memcpy(run->literals, probe->literals, sizeof run->literals);
    run->grid[0] = probe->ctas ? probe->ctas : 1;
    run->grid[1] = run->grid[2] = 1;
    run->threads = probe->kernel->threads;
    run->cluster = probe->cluster ? probe->cluster : 1;
    run->smem_bytes = PROBE_SMEM_BYTES;
    probe->prepare(run);
}

void run_free(struct run *run)
{
    for (uint32_t i = 0; i < run->buffer_count; i++) {
        run->target->release(run->buffers[i].address, run->buffers[i].bytes);
        free(run->buffers[i].host);
    }
    run->buffer_count = 0;
}
