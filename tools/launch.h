// launch.h: contexts from options, and one call for plan, workspace and run.
#ifndef ATTN_TOOLS_LAUNCH_H
#define ATTN_TOOLS_LAUNCH_H

#include "attn.h"
#include "problem.h"

// A context as --isa, --threads and --verbose say.
int launch_context(const struct problem_options *options, attn_context_t **context_out,
                   struct io_error *err);

// A plan with its workspace, to run many times.
struct launch {
    attn_plan_t *plan;
    void *workspace;
    size_t workspace_bytes;
    bool is_device; // its pointers are a GPU's, and this command's are not
};

int launch_create(struct launch *launch, attn_context_t *context, const attn_desc_t *desc,
                  attn_op_t op, struct io_error *err);
void launch_destroy(struct launch *launch);
int launch_forward(const struct launch *launch, const attn_forward_args_t *args,
                   struct io_error *err);
int launch_backward(const struct launch *launch, const attn_backward_args_t *args,
                    struct io_error *err);

// All of the above for one run. kernel (LAUNCH_NAME_BYTES) may be NULL.
enum { LAUNCH_NAME_BYTES = 64 };
int launch_once(attn_context_t *context, const struct problem *problem, attn_op_t op, char *kernel,
                struct io_error *err);

// Seconds of the monotonic clock.
double launch_clock(void);

#endif
