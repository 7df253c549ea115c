// launch.h: contexts from options, and one way to plan and run, on the CPU and on a GPU.
#ifndef ATTN_TOOLS_LAUNCH_H
#define ATTN_TOOLS_LAUNCH_H

#include "attn.h"
#include "device_problem.h"
#include "problem.h"

// A context as --isa, --threads and --verbose say.
int launch_context(const struct problem_options *options, attn_context_t **context_out,
                   struct io_error *err);

// A plan, and from launch_load on the memory that it runs in, to run many times.
struct launch {
    attn_plan_t *plan;
    attn_op_t op;
    bool is_device;
    attn_backward_args_t args; // the problem's, or a GPU's
    void *workspace;           // the host's memory, or a GPU's
    size_t workspace_bytes;
    struct device_problem *device; // NULL on the CPU
};

int launch_create(struct launch *launch, attn_context_t *context, const attn_desc_t *desc,
                  attn_op_t op, struct io_error *err);
void launch_destroy(struct launch *launch);
// Takes the workspace alone, of the host or, where device_open was called, of the GPU.
int launch_load_workspace(struct launch *launch, struct io_error *err);
// Takes the workspace; for a GPU also copies the problem there, which must outlive it.
int launch_load(struct launch *launch, const struct problem *problem, struct io_error *err);
// Runs; a GPU is still at it on return.
int launch_start(const struct launch *launch, struct io_error *err);
// Runs, and waits for the end.
int launch_run(const struct launch *launch, struct io_error *err);
// Brings the results of a GPU to the problem.
int launch_fetch(const struct launch *launch, struct problem *problem, struct io_error *err);

// All of the above for one run. kernel (LAUNCH_NAME_BYTES) may be NULL.
enum { LAUNCH_NAME_BYTES = 96 };
int launch_once(attn_context_t *context, struct problem *problem, attn_op_t op, char *kernel,
                struct io_error *err);

// Seconds of the monotonic clock.
double launch_clock(void);

#endif
