// The plan, and the table through which core calls a backend. Core knows backends by this table
// alone.
#ifndef ATTN_CORE_PLAN_H
#define ATTN_CORE_PLAN_H

#include "attn.h"
#include "context.h"

#define ATTN_KERNEL_NAME_BYTES 192
// Core aligns the caller's workspace and adds the room for it to what the backend asks for.
#define ATTN_WORKSPACE_ALIGN 64u

typedef struct attn_backend_ops attn_backend_ops_t;

struct attn_plan {
    attn_context_t *context;
    const attn_backend_ops_t *backend;
    attn_op_t op;
    // Checked and resolved: no ATTN_STRIDE_AUTO, scale a number, causal folded into window_right,
    // windows that cannot hide a key are -1, dtypes of results set.
    attn_desc_t desc;
    char kernel_name[ATTN_KERNEL_NAME_BYTES];
    size_t workspace_bytes;
    // What the backend decided. attn_tile_map shows the tiles; the rest is the backend's own, shown
    // by its explain.
    attn_isa_t isa;
    int64_t tile_q;
    int64_t tile_kv;
    int64_t num_splits; // >= 1
    int64_t split_keys; // keys per split, a multiple of tile_kv
    int32_t is_decode;  // few query rows: the dims are the vector lanes
    void *prepared;     // what the backend's prepare made, NULL before it and without one
};

// A growing text in the caller's buffer: counts what did not fit.
typedef struct attn_text {
    char *data;
    size_t bytes;
    size_t needed; // without the final 0
} attn_text_t;
__attribute__((format(printf, 2, 3))) void attn_text_add(attn_text_t *text, const char *format,
                                                         ...);

struct attn_backend_ops {
    // Pointers of a run are a device's: the host cannot read them, and a stream may be given.
    int32_t is_device;
    // Fills the plan's lower part from context, op and desc; fails with the reason if there is no
    // kernel. Cheap: asked for every question about a problem.
    attn_status_t (*choose)(attn_plan_t *plan);
    // Makes a chosen plan ready to run, and undoes it; NULL: nothing to do. May take seconds.
    attn_status_t (*prepare)(attn_plan_t *plan);
    void (*release)(attn_plan_t *plan);
    // Adds lines about a chosen plan.
    void (*explain)(const attn_plan_t *plan, attn_text_t *text);
    // Arguments are checked by core. workspace is 64-byte aligned.
    attn_status_t (*forward)(const attn_plan_t *plan, const attn_forward_args_t *args,
                             void *workspace, void *stream);
    attn_status_t (*backward)(const attn_plan_t *plan, const attn_backward_args_t *args,
                              void *workspace, void *stream);
    attn_status_t (*merge)(const attn_context_t *context, const attn_merge_desc_t *desc,
                           const float *o_part, const float *lse_part, void *o, float *lse,
                           void *stream);
    attn_status_t (*append)(const attn_context_t *context, const attn_append_desc_t *desc,
                            const attn_append_args_t *args, void *stream);
};

extern const attn_backend_ops_t attn_backend_cpu;
extern const attn_backend_ops_t attn_backend_reference; // merge and append are the cpu's
extern const attn_backend_ops_t attn_backend_cuda;

// The backend of a checked descriptor's field.
const attn_backend_ops_t *attn_backend_find(attn_backend_t backend);

// Fills a plan in the caller's memory without a reference to the context: for a question about it,
// or to be copied.
attn_status_t attn_plan_fill(attn_plan_t *plan, const attn_context_t *context,
                             const attn_desc_t *desc, attn_op_t op);

#endif
