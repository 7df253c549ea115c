// cmd_info.c: attn info, what this library and this machine are: for bug reports and for wondering.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "command.h"
#include "io/json_out.h"
#include "launch.h"
#include "machine.h"

struct info_options {
    struct problem_options problem;
    bool json;
};

static const struct option info_table[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct info_options, json), NULL, 0, 0, NULL,
     "print as JSON"},
};

static const char *const variables[] = {
    "ATTN_ISA",        "ATTN_CACHE",    "ATTN_PACK",
    "ATTN_JIT",        "ATTN_NVRTC",    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_WAIT_POLICY",
};
enum { N_VARIABLES = sizeof(variables) / sizeof(variables[0]) };

struct backend_row {
    attn_backend_t backend;
    const char *name;
};
static const struct backend_row backends[] = {
    {ATTN_BACKEND_CPU, "cpu"}, {ATTN_BACKEND_REFERENCE, "reference"}, {ATTN_BACKEND_CUDA, "cuda"}};
enum { N_BACKENDS = sizeof(backends) / sizeof(backends[0]) };

// Whether a plain problem runs on the backend; reason is "" or why not.
static bool backend_works(attn_context_t *context, attn_backend_t backend, char *reason,
                          size_t reason_bytes)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 16, 16, 1, 1, 64);
    desc.backend = backend;
    const bool works = attn_supports(context, &desc, ATTN_FORWARD) == ATTN_OK;
    snprintf(reason, reason_bytes, "%s", works ? "" : attn_last_error());
    return works;
}

// What the library says of the driver, the compiler or the folder of kernels.
static void runtime_text(const char *part, char *text, size_t text_bytes)
{
    if (attn_runtime_text(part, text, text_bytes) != ATTN_OK) {
        snprintf(text, text_bytes, "%s", attn_last_error());
    }
}

static const char *const runtime_parts[] = {"driver", "compiler", "cache"};
enum { N_RUNTIME_PARTS = sizeof(runtime_parts) / sizeof(runtime_parts[0]) };

// Whether there is a GPU of this number.
static bool next_gpu(int32_t index, attn_gpu_info_t *info)
{
    memset(info, 0, sizeof(*info));
    info->struct_size = sizeof(*info);
    return attn_gpu_query(index, info) == ATTN_OK;
}

static void print_gpus(void)
{
    attn_gpu_info_t gpu;
    printf("GPUs\n");
    for (int32_t i = 0; next_gpu(i, &gpu); i++) {
        printf("  %-12d %s, compute capability %d.%d, %d multiprocessors, %.2f GHz, memory %.0f "
               "GiB at %.2f GHz\n",
               (int)i, gpu.name, gpu.compute / 10, gpu.compute % 10, gpu.multiprocessors,
               1e-6 * gpu.clock_khz, (double)gpu.memory_bytes / (1 << 30),
               1e-6 * gpu.memory_clock_khz);
    }
    for (int i = 0; i < N_RUNTIME_PARTS; i++) {
        char text[1024];
        runtime_text(runtime_parts[i], text, sizeof(text));
        printf("  %-12s %s\n", runtime_parts[i], text);
    }
}

static void gpus_json(struct io_json *out)
{
    attn_gpu_info_t gpu;
    io_json_array_begin(out, "gpus");
    for (int32_t i = 0; next_gpu(i, &gpu); i++) {
        io_json_object_begin(out, NULL);
        io_json_string(out, "name", gpu.name);
        io_json_integer(out, "compute", gpu.compute);
        io_json_integer(out, "multiprocessors", gpu.multiprocessors);
        io_json_integer(out, "clock_khz", gpu.clock_khz);
        io_json_integer(out, "memory_clock_khz", gpu.memory_clock_khz);
        io_json_integer(out, "memory_bytes", gpu.memory_bytes);
        io_json_integer(out, "l2_bytes", gpu.l2_bytes);
        io_json_integer(out, "shared_bytes", gpu.shared_bytes);
        io_json_object_end(out);
    }
    io_json_array_end(out);
    for (int i = 0; i < N_RUNTIME_PARTS; i++) {
        char text[1024];
        runtime_text(runtime_parts[i], text, sizeof(text));
        io_json_string(out, runtime_parts[i], text);
    }
}

static void print_text(attn_context_t *context, const struct machine *machine)
{
    printf("libattn      %s\n", attn_version_string());
    printf("processor    %s\n", machine->processor);
    printf("caches       ");
    for (int i = 0; i < machine->n_caches; i++) {
        printf("%s%s %lld KiB", i ? ", " : "", machine->caches[i].name,
               (long long)machine->caches[i].kib);
    }
    printf("%s\n", machine->n_caches ? "" : "unknown");
    printf("workers      %d\n", (int)attn_context_workers(context));
    printf("kernels      %s is used\n", attn_isa_name(attn_context_isa(context)));
    for (int isa = ATTN_ISA_SCALAR; isa < (int)ATTN_ISA_COUNT; isa++) {
        printf("  %-12s %s\n", attn_isa_name((attn_isa_t)isa),
               attn_isa_available((attn_isa_t)isa) ? "runs here" : "not here");
    }
    printf("backends\n");
    for (int i = 0; i < N_BACKENDS; i++) {
        char reason[256];
        const bool works = backend_works(context, backends[i].backend, reason, sizeof(reason));
        printf("  %-12s %s\n", backends[i].name, works ? "ready" : reason);
    }
    print_gpus();
    printf("environment\n");
    for (int i = 0; i < N_VARIABLES; i++) {
        const char *value = getenv(variables[i]);
        printf("  %-20s %s\n", variables[i], value ? value : "(not set)");
    }
}

static int print_json(attn_context_t *context, const struct machine *machine, struct io_error *err)
{
    struct io_json out;
    io_json_begin(&out, stdout);
    io_json_object_begin(&out, NULL);
    io_json_string(&out, "version", attn_version_string());
    io_json_string(&out, "processor", machine->processor);
    io_json_object_begin(&out, "caches_kib");
    for (int i = 0; i < machine->n_caches; i++) {
        io_json_integer(&out, machine->caches[i].name, machine->caches[i].kib);
    }
    io_json_object_end(&out);
    io_json_integer(&out, "workers", attn_context_workers(context));
    io_json_string(&out, "isa", attn_isa_name(attn_context_isa(context)));
    io_json_array_begin(&out, "isas_available");
    for (int isa = ATTN_ISA_SCALAR; isa < (int)ATTN_ISA_COUNT; isa++) {
        if (attn_isa_available((attn_isa_t)isa)) {
            io_json_string(&out, NULL, attn_isa_name((attn_isa_t)isa));
        }
    }
    io_json_array_end(&out);
    io_json_object_begin(&out, "backends");
    for (int i = 0; i < N_BACKENDS; i++) {
        char reason[256];
        const bool works = backend_works(context, backends[i].backend, reason, sizeof(reason));
        io_json_string(&out, backends[i].name, works ? "ready" : reason);
    }
    io_json_object_end(&out);
    gpus_json(&out);
    io_json_object_begin(&out, "environment");
    for (int i = 0; i < N_VARIABLES; i++) {
        io_json_string(&out, variables[i], getenv(variables[i]));
    }
    io_json_object_end(&out);
    io_json_object_end(&out);
    return io_json_finish(&out, "standard output", err);
}

int cmd_info(int argc, char **argv)
{
    struct info_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn info [--json]",
        .description = "Prints the library's version, the processor, its caches and instruction\n"
                       "sets, which backends work and why others do not, the GPUs with their\n"
                       "driver, compiler and folder of kernels, and the environment variables\n"
                       "that matter. ATTN_ISA lowers the instruction set to one of\n"
                       "those listed; OMP_NUM_THREADS sets the number of workers.",
        .examples = "  attn info\n"
                    "  ATTN_ISA=avx2 attn info --json\n",
    };
    options_add_group(&line, "Options", info_table, OPTIONS_COUNT(info_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_MACHINE);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    attn_context_t *context = NULL;
    struct machine machine;
    machine_read(&machine);
    int status = launch_context(&options.problem, &context, &err);
    if (!status && options.json) {
        status = print_json(context, &machine, &err);
    } else if (!status) {
        print_text(context, &machine);
    }
    attn_context_destroy(context);
    return status ? command_fail("info", &err) : command_end("info", COMMAND_OK);
}
