// Kernel families: a text in src/device with everything that the host must know about it, and the
// choice among them. For each family, in this order and apart from each other:
//
//   legal      may the family do this problem on this GPU? If not, why
//   canonical  which configuration the problem needs: compile-time axes that results depend on
//   best       which tuning row of the family fits it best: axes that speed depends on
#ifndef ATTN_CUDA_KERNEL_FAMILY_H
#define ATTN_CUDA_KERNEL_FAMILY_H

#include "gpu_kernel.h"
#include "kernel_config.h"

// Options of the scores that a row is for: those that work on elements, which need registers, or a
// mask tensor and block lists alone, which a row for the others serves as well. 0: none.
enum { ATTN_ROW_OPTIONS = 1, ATTN_ROW_TILE_MAP = 2 };

// Numbers that set speed, with the reason for them and when it was found.
typedef struct attn_tuning_row {
    // Which configurations it is for: 0 means any.
    int32_t arch;
    int32_t d_max;   // largest head dim
    int32_t mask;    // 1: with a mask, 2: without one
    int32_t options; // ATTN_ROW_*; 0: for kernels without options of the scores
    int32_t s_max;   // longest sequence of queries; such a row is not for a batch-invariant plan
    int32_t gather;  // the same: of operands that are copied (1) or that TMA brings (0)
    int32_t packed;  // 1: only for tiles that heads of a group share
    // What it sets.
    int32_t tile_m;
    int32_t tile_n;
    int32_t stages;
    int32_t warpgroups;
    int32_t ctas;
    int32_t load_registers;
    int32_t compute_registers;
    int32_t ping_pong;
    int32_t separate_o;
    int32_t pair;
    int32_t registers_max; // that ptxas may give a thread: the gate's promise
    const char *reason;
    const char *date;
} attn_tuning_row_t;

typedef struct attn_kernel_family attn_kernel_family_t;

// A kernel that runs before or after the family's main one, in the same configuration but for its
// kind.
typedef struct attn_kernel_part {
    attn_kernel_kind_t kind;
    const char *path; // of the text, relative to src
    int32_t registers_max;
    int32_t (*shared_bytes)(const attn_kernel_config_t *config);
    // NULL: always.
    int (*is_needed)(const attn_kernel_config_t *config);
} attn_kernel_part_t;

// The main kernel is part 0.
#define ATTN_KERNEL_PARTS_MAX 3

// What was chosen for a problem.
typedef struct attn_kernel_choice {
    const attn_kernel_family_t *family;
    const attn_tuning_row_t *row;
    attn_kernel_config_t config;
} attn_kernel_choice_t;

// A plan that is ready to run.
typedef struct attn_cuda_plan {
    const attn_gpu_t *gpu;
    attn_kernel_choice_t choice;
    const attn_gpu_kernel_t *kernels[ATTN_KERNEL_PARTS_MAX]; // NULL: a part that it does not need
} attn_cuda_plan_t;

#define ATTN_REASON_BYTES 256

struct attn_kernel_family {
    const char *name;
    attn_op_t op;
    const char *path;                // of the text, relative to src
    const attn_kernel_part_t *parts; // from part 1 on
    int32_t part_count;              // of these
    const attn_tuning_row_t *rows;
    int32_t row_count;
    // 1, or 0 with the reason.
    int (*legal)(const attn_desc_t *desc, const attn_gpu_t *gpu, char reason[ATTN_REASON_BYTES]);
    void (*canonical)(const attn_desc_t *desc, const attn_gpu_t *gpu, attn_kernel_config_t *config);
    // Dynamic shared memory of one CTA.
    int32_t (*shared_bytes)(const attn_kernel_config_t *config);
    size_t (*workspace_bytes)(const attn_desc_t *desc, const attn_gpu_t *gpu,
                              const attn_kernel_config_t *config);
    // Adds lines about a problem's kernel; NULL: nothing to say.
    void (*explain)(const attn_desc_t *desc, attn_text_t *text);
    // Launches. Nothing but arithmetic and the launch itself.
    attn_status_t (*forward)(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                             const attn_forward_args_t *args, void *workspace, void *stream);
    attn_status_t (*backward)(const attn_cuda_plan_t *cuda, const attn_desc_t *desc,
                              const attn_backward_args_t *args, void *workspace, void *stream);
};

// All families, the preferred ones first; NULL ends the list.
extern const attn_kernel_family_t *const attn_kernel_families[];

// Applies the best row of the family to a canonical configuration. NULL if no row is for it.
const attn_tuning_row_t *attn_kernel_best(const attn_kernel_family_t *family,
                                          const attn_desc_t *desc, attn_kernel_config_t *config);

// Tries one family: 1 with the choice, or 0 with the reason.
int attn_kernel_try(const attn_kernel_family_t *family, const attn_desc_t *desc, attn_op_t op,
                    const attn_gpu_t *gpu, attn_kernel_choice_t *choice_out,
                    char reason[ATTN_REASON_BYTES]);

// The first family that can. Errors: ATTN_UNSUPPORTED with every family's reason.
attn_status_t attn_kernel_choose(const attn_desc_t *desc, attn_op_t op, const attn_gpu_t *gpu,
                                 attn_kernel_choice_t *choice_out);

// Whether a choice has the part: what it has none of need not be compiled.
int attn_kernel_has_part(const attn_kernel_choice_t *choice, int32_t part);

// Of one of a choice's kernels.
int32_t attn_kernel_shared_bytes(const attn_kernel_choice_t *choice, int32_t part);
int32_t attn_kernel_registers_max(const attn_kernel_choice_t *choice, int32_t part);

// The text of one of a choice's kernels, to be compiled for gpu. prologue must live as long as the
// request.
typedef struct attn_kernel_text {
    char name[ATTN_KERNEL_NAME_BYTES];
    char arch[ATTN_ARCH_BYTES];
    char prologue[ATTN_KERNEL_PROLOGUE_BYTES];
    attn_kernel_request_t request; // points into the rest
} attn_kernel_text_t;
void attn_kernel_text_fill(attn_kernel_text_t *text, const attn_kernel_choice_t *choice,
                           int32_t part);

// A GPU that need not be there, to compile for: what every one of its compute capability has.
void attn_gpu_of_arch(int32_t compute, attn_gpu_t *gpu_out);

#endif
