// launch.c: see launch.h. Every failure carries the library's own reason.
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_memory.h"

static void print_log(void *user, attn_log_level_t level, const char *text)
{
    (void)user;
    static const char *const names[] = {"", "error", "warning", "info"};
    fprintf(stderr, "libattn %s: %s\n", names[level & 3], text);
}

static int fail_status(attn_status_t status, struct io_error *err)
{
    const char *reason = attn_last_error();
    return io_fail(err, "%s%s%s", attn_status_string(status), *reason ? ": " : "", reason);
}

int launch_context(const struct problem_options *options, attn_context_t **context_out,
                   struct io_error *err)
{
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.isa = (attn_isa_t)options->isa;
    config.workers = (int32_t)options->threads;
    if (options->verbose) {
        config.log = print_log;
        config.log_level = ATTN_LOG_INFO;
    }
    const attn_status_t status = attn_context_create(&config, context_out);
    return status ? fail_status(status, err) : 0;
}

int launch_create(struct launch *launch, attn_context_t *context, const attn_desc_t *desc,
                  attn_op_t op, struct io_error *err)
{
    memset(launch, 0, sizeof(*launch));
    launch->op = op;
    launch->is_device = desc->backend == ATTN_BACKEND_CUDA;
    const attn_status_t status = attn_plan_create(context, desc, op, &launch->plan);
    if (status) {
        return fail_status(status, err);
    }
    launch->workspace_bytes = attn_plan_workspace_bytes(launch->plan);
    return 0;
}

void launch_destroy(struct launch *launch)
{
    attn_plan_destroy(launch->plan);
    if (launch->is_device) {
        device_free(launch->workspace);
    } else {
        free(launch->workspace);
    }
    if (launch->device) {
        device_problem_destroy(launch->device);
    }
    free(launch->device);
    memset(launch, 0, sizeof(*launch));
}

int launch_load_workspace(struct launch *launch, struct io_error *err)
{
    if (launch->is_device) {
        return device_alloc(launch->workspace_bytes, "workspace", &launch->workspace, err) ||
                       device_spoil(launch->workspace, launch->workspace_bytes, err)
                   ? -1
                   : 0;
    }
    launch->workspace = malloc(launch->workspace_bytes ? launch->workspace_bytes : 1);
    return launch->workspace ? 0
                             : io_fail(err, "out of memory for a workspace of %zu bytes",
                                       launch->workspace_bytes);
}

static int load_device(struct launch *launch, const struct problem *problem, struct io_error *err)
{
    launch->device = calloc(1, sizeof(*launch->device));
    if (!launch->device) {
        return io_fail(err, "out of memory");
    }
    if (device_open((int)problem->desc.device_index, err) ||
        device_problem_create(launch->device, problem, err)) {
        return -1;
    }
    launch->args = launch->device->args;
    return launch_load_workspace(launch, err);
}

int launch_load(struct launch *launch, const struct problem *problem, struct io_error *err)
{
    launch->args = problem->args;
    return launch->is_device ? load_device(launch, problem, err)
                             : launch_load_workspace(launch, err);
}

int launch_start(const struct launch *launch, struct io_error *err)
{
    const attn_status_t status =
        launch->op == ATTN_FORWARD ? attn_forward(launch->plan, &launch->args.in, launch->workspace,
                                                  launch->workspace_bytes, NULL)
                                   : attn_backward(launch->plan, &launch->args, launch->workspace,
                                                   launch->workspace_bytes, NULL);
    return status ? fail_status(status, err) : 0;
}

int launch_run(const struct launch *launch, struct io_error *err)
{
    const int status = launch_start(launch, err);
    return status || !launch->is_device ? status : device_wait(err);
}

int launch_fetch(const struct launch *launch, struct problem *problem, struct io_error *err)
{
    return launch->device ? device_problem_fetch(launch->device, problem, err) : 0;
}

int launch_once(attn_context_t *context, struct problem *problem, attn_op_t op, char *kernel,
                struct io_error *err)
{
    struct launch launch;
    int status = launch_create(&launch, context, &problem->desc, op, err);
    if (!status && kernel) {
        snprintf(kernel, LAUNCH_NAME_BYTES, "%s", attn_plan_kernel_name(launch.plan));
    }
    status = status ? status : launch_load(&launch, problem, err);
    status = status ? status : launch_run(&launch, err);
    status = status ? status : launch_fetch(&launch, problem, err);
    launch_destroy(&launch);
    return status;
}

double launch_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
