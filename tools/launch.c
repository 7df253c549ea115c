// launch.c: see launch.h. Every failure carries the library's own reason.
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    const attn_status_t status = attn_plan_create(context, desc, op, &launch->plan);
    if (status) {
        return fail_status(status, err);
    }
    launch->is_device = desc->backend == ATTN_BACKEND_CUDA;
    launch->workspace_bytes = attn_plan_workspace_bytes(launch->plan);
    launch->workspace = malloc(launch->workspace_bytes ? launch->workspace_bytes : 1);
    if (!launch->workspace) {
        const size_t bytes = launch->workspace_bytes;
        launch_destroy(launch);
        return io_fail(err, "out of memory for a workspace of %zu bytes", bytes);
    }
    return 0;
}

void launch_destroy(struct launch *launch)
{
    attn_plan_destroy(launch->plan);
    free(launch->workspace);
    memset(launch, 0, sizeof(*launch));
}

// A kernel that was handed host memory would end the GPU's context.
static int check_memory(const struct launch *launch, struct io_error *err)
{
    return launch->is_device ? io_fail(err, "--backend cuda: this command's arrays are in host "
                                            "memory; explain and compile take it")
                             : 0;
}

int launch_forward(const struct launch *launch, const attn_forward_args_t *args,
                   struct io_error *err)
{
    if (check_memory(launch, err)) {
        return -1;
    }
    const attn_status_t status =
        attn_forward(launch->plan, args, launch->workspace, launch->workspace_bytes, NULL);
    return status ? fail_status(status, err) : 0;
}

int launch_backward(const struct launch *launch, const attn_backward_args_t *args,
                    struct io_error *err)
{
    if (check_memory(launch, err)) {
        return -1;
    }
    const attn_status_t status =
        attn_backward(launch->plan, args, launch->workspace, launch->workspace_bytes, NULL);
    return status ? fail_status(status, err) : 0;
}

int launch_once(attn_context_t *context, const struct problem *problem, attn_op_t op, char *kernel,
                struct io_error *err)
{
    struct launch launch;
    if (launch_create(&launch, context, &problem->desc, op, err)) {
        return -1;
    }
    if (kernel) {
        snprintf(kernel, LAUNCH_NAME_BYTES, "%s", attn_plan_kernel_name(launch.plan));
    }
    const int status = op == ATTN_FORWARD ? launch_forward(&launch, &problem->args.in, err)
                                          : launch_backward(&launch, &problem->args, err);
    launch_destroy(&launch);
    return status;
}

double launch_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
