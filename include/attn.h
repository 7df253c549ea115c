// attn.h: the whole public interface of libattn, exact attention as a C library.
//
//   describe   fill an attn_desc_t: dtypes, lengths, heads, strides, mask, options
//   plan       attn_plan_create(): checks everything, chooses the kernel, knows the workspace size
//   run        attn_forward() / attn_backward(): pointers in, results out, nothing else
//
// What is computed, for query row i and key j of one batch entry b and query head h (K/V head h /
// (heads_q / heads_kv)):
//
//   s[j] = scale * dot(q[i], k[j])                                          0 <= j < length of K/V
//   s[j] = softcap > 0 ? softcap * tanh(s[j] / softcap) : s[j]
//   s[j] = s[j] + bias[b,h,i,j] - slope[h] * |i + offset - j|               each term if given
//   s[j] = -inf where the mask hides j          causal, window, mask tensor, blocks, padding
//   lse  = log(exp(sink[h]) + sum_j exp(s[j]))                              the sink term if given
//   o    = sum_j exp(s[j] - lse) * v[j]              dropout multiplies weights by 0 or 1/keep
//
// offset aligns queries with keys: (length of K/V - length of Q) for ATTN_ALIGN_BOTTOM_RIGHT, the
// default, and 0 for ATTN_ALIGN_TOP_LEFT. Row i is at key position i + offset; causal hides j > i +
// offset.
//
// Guarantees, the same on every backend:
//   - a row that sees no key gives o = 0, lse = -inf (with a sink: lse = sink) and gradients 0;
//   - NaN goes in and out in the rows that see it and nowhere else; hidden keys and padding may
//     hold anything;
//   - lengths of zero are legal everywhere; all offsets are 64-bit;
//   - every failure is a status, never a signal or a message on a stream; attn_last_error() says
//     which argument and why.
//
// Threads: contexts and plans are immutable after creation; any number of threads may use one at
// once. Functions without a plan may be called from any thread. attn_last_error() is per thread.
// Strides count elements. Structs start with struct_size: fill them with the *_init function, so
// that a program compiled against an older header keeps working with a newer library. The *_init
// functions are inline, to know the caller's sizes; bindings of other languages call *_init_sized
// with the size of their struct, and for the *_args structs write zeros and struct_size.
//
// Method: FlashAttention (Dao et al., 2022, arXiv:2205.14135), FlashAttention-2 (arXiv:2307.08691),
// -3 (arXiv:2407.08608).
#ifndef ATTN_H
#define ATTN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0

#if defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

// -------------------------------------------------------------------------------------------------
// Status

// One list: name, value, text. Values never change.
#define ATTN_STATUS_LIST(X)                                                                        \
    X(ATTN_OK, 0, "ok")                                                                            \
    X(ATTN_INVALID_ARGUMENT, 1, "invalid argument")                                                \
    X(ATTN_UNSUPPORTED, 2, "unsupported: legal, but no kernel here does it")                       \
    X(ATTN_NO_DEVICE, 3, "no such device")                                                         \
    X(ATTN_OUT_OF_MEMORY, 4, "out of memory")                                                      \
    X(ATTN_WORKSPACE_TOO_SMALL, 5, "workspace too small")                                          \
    X(ATTN_COMPILE_FAILED, 6, "kernel compilation failed")                                         \
    X(ATTN_DRIVER_ERROR, 7, "driver error")                                                        \
    X(ATTN_IO_ERROR, 8, "input/output error")                                                      \
    X(ATTN_INTERNAL_ERROR, 9, "internal error: please report it")

typedef enum attn_status {
#define ATTN_STATUS_ENUM(name, value, text) name = value,
    ATTN_STATUS_LIST(ATTN_STATUS_ENUM)
#undef ATTN_STATUS_ENUM
} attn_status_t;

// The text of a status, "unknown status" for other values. Static storage.
ATTN_API const char *attn_status_string(attn_status_t status);

// Why the last failing call of this thread failed: "s_q: -3, expected >= 0". Never NULL; "" before
// any failure; valid until this thread's next failing call. A successful call leaves it as it is.
ATTN_API const char *attn_last_error(void);

// The library's version as MAJOR * 10000 + MINOR * 100 + PATCH, which can differ from this
// header's.
ATTN_API int attn_version(void);
// "0.1.0", static storage.
ATTN_API const char *attn_version_string(void);

// -------------------------------------------------------------------------------------------------
// Vocabulary

typedef enum attn_dtype {
    ATTN_F32 = 0,
    ATTN_F16 = 1,
    ATTN_BF16 = 2,
    ATTN_F8_E4M3 = 3, // OCP 8-bit float, finite only, 0x7f is NaN
    ATTN_F8_E5M2 = 4, // OCP 8-bit float with infinities
    ATTN_F64 = 5,     // ATTN_BACKEND_REFERENCE only
} attn_dtype_t;

// Bytes per element; 0 for other values.
ATTN_API size_t attn_dtype_bytes(attn_dtype_t dtype);

typedef enum attn_backend {
    // the CPU: where pointers must point to may not depend on the machine
    ATTN_BACKEND_AUTO = 0,
    ATTN_BACKEND_CPU = 1, // tiled kernels; every pointer is host memory
    // the formula above in fp64, row by row: slow, for checking; host memory
    ATTN_BACKEND_REFERENCE = 2,
    // an NVIDIA GPU; pointers are device memory. So far the forward pass on Hopper (sm_90) has a
    // kernel, f16 and bf16; attn_explain() names what it lacks
    ATTN_BACKEND_CUDA = 3,
} attn_backend_t;

typedef enum attn_op {
    ATTN_FORWARD = 0,
    ATTN_BACKWARD = 1,
} attn_op_t;

typedef enum attn_align {
    ATTN_ALIGN_BOTTOM_RIGHT = 0, // FlashAttention, MLX: the last query sees the last key
    // PyTorch SDPA, JAX, ONNX without a cache: the first query sees the first key
    ATTN_ALIGN_TOP_LEFT = 1,
} attn_align_t;

// CPU instruction sets in order; each kernel set needs all before it. One list: name, value, text.
#define ATTN_ISA_LIST(X)                                                                           \
    X(ATTN_ISA_AUTO, 0, "auto") /* the best that the machine has */                                \
    X(ATTN_ISA_SCALAR, 1, "scalar")                                                                \
    X(ATTN_ISA_AVX2, 2, "avx2")               /* AVX2, FMA, F16C */                                \
    X(ATTN_ISA_AVX512, 3, "avx512")           /* F, BW, DQ, VL */                                  \
    X(ATTN_ISA_AVX512_BF16, 4, "avx512_bf16") /* the above with VDPBF16PS */

typedef enum attn_isa {
#define ATTN_ISA_ENUM(name, value, text) name = value,
    ATTN_ISA_LIST(ATTN_ISA_ENUM)
#undef ATTN_ISA_ENUM
} attn_isa_t;

// Entries of the list: grows when it does.
#define ATTN_ISA_ONE(name, value, text) +1
#define ATTN_ISA_COUNT (0 ATTN_ISA_LIST(ATTN_ISA_ONE))

// A stride with this value is derived from the shape: dense, in the order of the struct's fields.
// It is the room of the dims inside it, the largest size * |stride| of them, at least 1: a dim
// with stride 0 takes none. So a mask of (batch, 1, 1, s_kv) in memory is stride_h = stride_q = 0
// and the rest AUTO, which makes stride_b s_kv.
#define ATTN_STRIDE_AUTO INT64_MIN

// -------------------------------------------------------------------------------------------------
// Context: where a process plugs in its allocator, thread pool and log. NULL means the default
// context everywhere.

typedef struct attn_context attn_context_t;

typedef enum attn_log_level {
    ATTN_LOG_ERROR = 1,
    ATTN_LOG_WARNING = 2,
    ATTN_LOG_INFO = 3
} attn_log_level_t;

// Called with one line without a newline; text is valid during the call only. May be called from
// any thread.
typedef void (*attn_log_fn)(void *user, attn_log_level_t level, const char *text);
// Returns bytes aligned to 64, or NULL. Called by create and plan functions only, never by a run.
typedef void *(*attn_alloc_fn)(void *user, size_t bytes);
typedef void (*attn_free_fn)(void *user, void *ptr);
// Calls task(task_arg, i, worker) once for each i in [0, count), on any threads in any order, and
// returns when all are done. worker is in [0, workers) and never used by two calls at once.
typedef void (*attn_task_fn)(void *task_arg, int64_t i, int32_t worker);
typedef void (*attn_parallel_for_fn)(void *user, int64_t count, attn_task_fn task, void *task_arg);

typedef struct attn_context_config {
    size_t struct_size;
    // highest CPU instruction set to use; the environment variable ATTN_ISA can only lower it
    attn_isa_t isa;
    // threads a CPU run may use; 0 = all that OpenMP offers; with parallel_for: its number of
    // workers, >= 1
    int32_t workers;
    // NULL: OpenMP if the library was built with it, else one thread
    attn_parallel_for_fn parallel_for;
    void *parallel_for_user;
    attn_alloc_fn alloc; // NULL together with free: the C library's
    attn_free_fn free;
    void *alloc_user;
    attn_log_fn log; // NULL: silent
    void *log_user;
    attn_log_level_t log_level; // lines above this level are not made
} attn_context_config_t;

// Fills a config with the defaults: everything automatic, silent.
ATTN_API void attn_context_config_init_sized(attn_context_config_t *config, size_t struct_size);
static inline void attn_context_config_init(attn_context_config_t *config)
{
    attn_context_config_init_sized(config, sizeof(*config));
}

// Makes a context from a config (NULL: the defaults). Environment:
// ATTN_ISA, a text of ATTN_ISA_LIST, is read here.
// Errors: ATTN_INVALID_ARGUMENT, ATTN_NO_DEVICE (an instruction set that the machine lacks),
// ATTN_OUT_OF_MEMORY.
ATTN_API attn_status_t attn_context_create(const attn_context_config_t *config,
                                           attn_context_t **context_out);
// Plans keep their context alive. NULL is allowed.
ATTN_API void attn_context_destroy(attn_context_t *context);
// The instruction set that the context's CPU runs use (never ATTN_ISA_AUTO).
ATTN_API attn_isa_t attn_context_isa(const attn_context_t *context);
// Threads that a CPU run of this context uses at most.
ATTN_API int32_t attn_context_workers(const attn_context_t *context);
// Whether this machine and build can run the instruction set.
ATTN_API int attn_isa_available(attn_isa_t isa);
// "avx512_bf16"; "unknown" for other values. Static storage.
ATTN_API const char *attn_isa_name(attn_isa_t isa);

// -------------------------------------------------------------------------------------------------
// Describe

// One operand. Element (b, s, h, d) is at b*stride_b + s*stride_s + h*stride_h + d*stride_d.
// Dense: b in [0, batch). Packed (varlen): stride_b is not used and s counts rows of the whole
// pack. Paged K/V: b is the page, s the row within the page. Strides may be 0 (broadcast) for
// inputs, negative, and not a multiple of anything; outputs must not overlap themselves.
typedef struct attn_tensor {
    attn_dtype_t dtype;
    int64_t stride_b;
    int64_t stride_s;
    int64_t stride_h;
    int64_t stride_d; // 1 is fast; others work through a copy of each tile
} attn_tensor_t;

// A (batch, heads_q, s_q, s_kv) operand that may be broadcast: set the stride of a dimension of
// size 1 to 0.
typedef struct attn_mask_tensor {
    int32_t present; // 0: not used, the pointer in the arguments must be NULL
    attn_dtype_t dtype;
    int64_t stride_b;
    int64_t stride_h;
    int64_t stride_q;
    int64_t stride_k;
} attn_mask_tensor_t;

// fp32 factors that multiply a stored value: real = stored * factor[b*stride_b + h*stride_h + (s /
// rows)*stride_s]. Per tensor: all strides 0. b is the sequence, also where kv_batch_idx or pages
// say where K and V lie; s counts within the sequence; h is the K/V head for K and V.
typedef struct attn_descale {
    int32_t present;
    int32_t rows; // rows of the sequence that share a factor, >= 1
    int64_t stride_b;
    int64_t stride_h;
    int64_t stride_s;
} attn_descale_t;

typedef struct attn_desc {
    size_t struct_size;
    attn_backend_t backend;
    int32_t device_index; // GPU ordinal; 0 for the CPU

    // Shape. With varlen or used lengths s_q and s_kv are upper bounds of one sequence's lengths.
    int64_t batch;   // sequences
    int64_t s_q;     // query rows per sequence
    int64_t s_kv;    // key rows per sequence
    int64_t heads_q; // a multiple of heads_kv
    int64_t heads_kv;
    int64_t d_qk; // 1 .. 65536
    int64_t d_v;
    // o's dtype: q's, or ATTN_F32 (partial results), or any for fp8 inputs
    attn_tensor_t q, k, v, o;
    attn_tensor_t dq, dk, dv, do_; // backward only; dtypes follow q, k, v, o unless set to ATTN_F32
    // fp32 (batch, heads_q, s_q); packed: (heads_q, total_q)
    int64_t lse_stride_b, lse_stride_h, lse_stride_s;

    // Lengths. The arrays are given with the run.
    // q, o, lse are packed; cu_seqlens_q (batch + 1) says where each sequence starts
    int32_t varlen_q;
    int32_t varlen_kv; // k, v are packed, cu_seqlens_kv
    // rows of the packed q, o; cu_seqlens_q[batch] <= total_q, rows past it get o = 0
    int64_t total_q;
    int64_t total_kv;
    // seqused_q (batch): rows in use, the others get o = 0, lse = -inf, gradients 0
    int32_t has_seqused_q;
    int32_t has_seqused_kv; // seqused_kv (batch)
    int32_t has_leftpad_kv; // leftpad_kv (batch): keys before it are hidden
    // kv_batch_idx (batch): K/V batch entry of each sequence; forward only
    int32_t has_kv_batch_idx;
    int64_t kv_batch; // batch entries that K/V hold then

    // Paged K/V, forward only: page_table (batch, pages_per_seq), k and v are (num_pages,
    // page_size, heads_kv, d).
    int32_t paged_kv;
    int64_t page_size; // >= 1
    // ids outside [0, num_pages) are refused where the host can see them, else read as hidden keys
    int64_t num_pages;
    int64_t pages_per_seq; // page_table's row length; s_kv <= page_size * pages_per_seq
    int64_t page_table_stride_b;

    // Scores
    float scale;   // NaN (the default): 1 / sqrt(d_qk)
    float softcap; // 0: off

    // Masks; all that are given apply together.
    int32_t causal; // the same as window_right = 0
    attn_align_t align;
    // keys to the left of the row's own position that are seen, inclusive; -1: unbounded
    int64_t window_left;
    int64_t window_right;    // to the right; -1: unbounded
    attn_mask_tensor_t mask; // uint8: 0 hides; dtype is ignored
    attn_mask_tensor_t bias; // f32, f16, bf16; -inf hides
    int32_t has_alibi;       // alibi_slopes fp32: slope(b, h) at b*alibi_stride_b + h
    int64_t alibi_stride_b;  // 0: slopes are (heads_q)
    int32_t has_sink;        // sink (heads_q), fp32 logits; -inf is none

    // Block sparsity: for each (b, h, query block) the ascending list of K/V blocks that are looked
    // at.
    int32_t block_sparse;
    int64_t block_q, block_kv; // rows and keys per block, >= 1
    // room in a list: block_index is (batch, heads_q, ceil(s_q/block_q), blocks_per_row)
    int64_t blocks_per_row;
    // in lists, for block_count; block_index uses them times blocks_per_row
    int64_t block_stride_b, block_stride_h;

    // Dropout of weights: Philox4x32-7, the same bits for the same seed, offset and element on
    // every backend.
    float dropout_p; // probability of dropping, [0, 1), applied in steps of 2^-16; 0: off

    attn_descale_t q_descale, k_descale, v_descale; // fp8 inputs

    // Results
    int32_t wants_lse;   // forward writes lse
    int32_t has_dlse;    // backward reads dlse, the gradient that reaches the lse
    int32_t wants_dsink; // backward writes dsink (heads_q)
    // backward writes the bias gradient, fp32 or the bias's dtype; stride 0 sums over that
    // dimension
    attn_mask_tensor_t dbias;

    // How
    // pieces that the keys are cut into when queries are few: 0 chosen by the library, 1 never
    int32_t num_splits;
    int32_t deterministic; // backward gives the same bits every time; the CPU always does
    // a row's bits depend on its own sequence alone, not on s_q, batch or heads; decode gets slower
    int32_t batch_invariant;
} attn_desc_t;

// Fills a descriptor with the defaults: everything off, one dtype, strides AUTO. The caller sets
// the rest.
ATTN_API void attn_desc_init_sized(attn_desc_t *desc, size_t struct_size, attn_dtype_t dtype);
static inline void attn_desc_init(attn_desc_t *desc, attn_dtype_t dtype)
{
    attn_desc_init_sized(desc, sizeof(*desc), dtype);
}
// Sets the six shape fields of a plain problem: batch, s_q, s_kv, heads_q, heads_kv, and d for both
// dims.
ATTN_API void attn_desc_set_shape(attn_desc_t *desc, int64_t batch, int64_t s_q, int64_t s_kv,
                                  int64_t heads_q, int64_t heads_kv, int64_t d);
// Sets the strides of every operand for dense (batch, heads, seqlen, dim) memory, PyTorch's order.
// Set the shape first.
ATTN_API attn_status_t attn_desc_set_bhsd(attn_desc_t *desc);

// ATTN_OK if attn_plan_create would succeed (but for memory); else the status, with the reason in
// attn_last_error().
ATTN_API attn_status_t attn_supports(const attn_context_t *context, const attn_desc_t *desc,
                                     attn_op_t op);

// Says in words which kernel would run and why, with tiles, splits and workspace; or which
// requirement each candidate fails. Writes at most bytes with a final 0 (text may be NULL if bytes
// is 0); *needed_out (may be NULL) is the whole length with the 0. Errors: ATTN_INVALID_ARGUMENT
// for NULL; an unsupported problem is explained, not an error.
ATTN_API attn_status_t attn_explain(const attn_context_t *context, const attn_desc_t *desc,
                                    attn_op_t op, char *text, size_t bytes, size_t *needed_out);

// How the mask looks to the kernel: a tile is 0 skipped, 1 partial (mask code runs), 2 full. Covers
// batch entry 0 with full lengths; knows causal, window; mask tensors, blocks and bias count as
// partial. tiles_out has rows*cols bytes, row major; pass NULL to get the counts and tile sizes
// only.
typedef struct attn_tile_map {
    int64_t tile_q, tile_kv; // rows and keys per tile
    int64_t rows, cols;      // tiles
} attn_tile_map_t;
ATTN_API attn_status_t attn_tile_map(const attn_context_t *context, const attn_desc_t *desc,
                                     attn_tile_map_t *map_out, uint8_t *tiles_out,
                                     size_t tiles_bytes);

// -------------------------------------------------------------------------------------------------
// Plan

typedef struct attn_plan attn_plan_t;

// Checks the descriptor, chooses the kernel, computes the workspace size. The descriptor is copied.
// Errors: ATTN_INVALID_ARGUMENT, ATTN_UNSUPPORTED, ATTN_NO_DEVICE, ATTN_OUT_OF_MEMORY.
ATTN_API attn_status_t attn_plan_create(attn_context_t *context, const attn_desc_t *desc,
                                        attn_op_t op, attn_plan_t **plan_out);
// No run may be using it. NULL is allowed.
ATTN_API void attn_plan_destroy(attn_plan_t *plan);
// Bytes of workspace a run needs. Grows with batch * heads * s_q at most, and with workers; with
// s_q * s_kv by two bits of each tile of a mask tensor or block lists, and no faster.
ATTN_API size_t attn_plan_workspace_bytes(const attn_plan_t *plan);
// The kernel's name, the same string in logs, tests and benchmarks: "cpu_avx512_fwd_f32". Lives as
// long as the plan.
ATTN_API const char *attn_plan_kernel_name(const attn_plan_t *plan);

// -------------------------------------------------------------------------------------------------
// Run. Workspace: any alignment, not shared by two runs at once; contents are garbage before and
// after. stream: a CUstream for a GPU plan, NULL for a CPU plan, whose run is done when it returns.
// Outputs are written only if all checks pass. Arrays of lengths, tables and lists are checked
// where the host can read them (CPU plans), else clamped.

typedef struct attn_forward_args {
    size_t struct_size;
    const void *q; // (batch, s_q, heads_q, d_qk)      packed: (total_q, heads_q, d_qk)
    // (batch, s_kv, heads_kv, d_qk)    packed: (total_kv, heads_kv, d_qk)   paged: (num_pages,
    // page_size, ...)
    const void *k;
    const void *v;                // (batch, s_kv, heads_kv, d_v)
    void *o;                      // (batch, s_q, heads_q, d_v)
    float *lse;                   // (batch, heads_q, s_q), natural log; NULL unless desc.wants_lse
    const int32_t *cu_seqlens_q;  // (batch + 1), first 0, not decreasing
    const int32_t *cu_seqlens_kv; // (batch + 1)
    const int32_t *seqused_q;     // (batch)
    const int32_t *seqused_kv;    // (batch)
    const int32_t *leftpad_kv;    // (batch)
    const int32_t *kv_batch_idx;  // (batch)
    const int32_t *page_table;    // (batch, pages_per_seq)
    const uint8_t *mask;
    const void *bias;
    const float *alibi_slopes;
    const float *sink;             // (heads_q)
    const int32_t *block_count;    // (batch, heads_q, ceil(s_q / block_q))
    const int32_t *block_index;    // (batch, heads_q, ceil(s_q / block_q), blocks_per_row)
    const uint64_t *dropout_state; // (2): seed, offset
    const float *q_descale, *k_descale, *v_descale;
} attn_forward_args_t;

static inline void attn_forward_args_init(attn_forward_args_t *args)
{
    memset(args, 0, sizeof(*args));
    args->struct_size = sizeof(*args);
}
// Errors: ATTN_INVALID_ARGUMENT (a missing or superfluous pointer, lengths or tables out of range),
// ATTN_WORKSPACE_TOO_SMALL.
ATTN_API attn_status_t attn_forward(const attn_plan_t *plan, const attn_forward_args_t *args,
                                    void *workspace, size_t workspace_bytes, void *stream);

typedef struct attn_backward_args {
    size_t struct_size;
    // what the forward pass was given, with the o and lse that it wrote (read here; lse is
    // required)
    attn_forward_args_t in;
    const void *do_;   // (batch, s_q, heads_q, d_v)
    const float *dlse; // like lse
    void *dq;          // like q
    void *dk;          // like k: summed over the query heads that share a K/V head
    void *dv;          // like v
    float *dsink;      // (heads_q)
    void *dbias;
} attn_backward_args_t;

static inline void attn_backward_args_init(attn_backward_args_t *args)
{
    memset(args, 0, sizeof(*args));
    args->struct_size = sizeof(*args);
    args->in.struct_size = sizeof(args->in);
}
// dq, dk, dv may each be NULL if not wanted. Errors as attn_forward.
ATTN_API attn_status_t attn_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                     void *workspace, size_t workspace_bytes, void *stream);

// -------------------------------------------------------------------------------------------------
// GPUs and their kernels, which are compiled when a plan first needs them and kept: docs/gpu.md.

typedef struct attn_gpu_info {
    size_t struct_size; // set by the caller, also in what a function fills
    char name[128];
    int32_t compute, multiprocessors, clock_khz, memory_clock_khz; // compute: 90 is 9.0
    int64_t memory_bytes, l2_bytes, shared_bytes;                  // shared: of one block
} attn_gpu_info_t;
// Errors: ATTN_NO_DEVICE without a driver or past the last GPU, ATTN_DRIVER_ERROR.
ATTN_API attn_status_t attn_gpu_query(int32_t device_index, attn_gpu_info_t *info_out);
// part "driver", "compiler", "cache": in words, which and where; or ATTN_NO_DEVICE with why not.
ATTN_API attn_status_t attn_runtime_text(const char *part, char *text, size_t bytes);

typedef struct attn_kernel_info {
    size_t struct_size;
    const char *file, *name, *arch, *fault; // arch "sm_90a"; fault NULL, or why it is not used
    int32_t compiler;                       // 13000: NVRTC 13.0
    int64_t bytes, used_s;                  // last use, seconds since 1970
} attn_kernel_info_t;
typedef void (*attn_kernel_visit_fn)(void *user, const attn_kernel_info_t *kernel);
// The kernels in a pack, or of the cache folder for NULL. Errors: ATTN_IO_ERROR.
ATTN_API attn_status_t attn_kernels_visit(const char *pack, attn_kernel_visit_fn visit, void *user);
// Removes from the folder what is damaged, then the longest unused. Errors: ATTN_IO_ERROR.
ATTN_API attn_status_t attn_cache_trim(int64_t max_bytes, int64_t *removed_out);
// Compiles problems' GPU kernels for archs ("sm_90a,sm_100a") to a file. Errors: "descs[3]: ...".
ATTN_API attn_status_t attn_pack_create(const attn_context_t *context, const char *path,
                                        const char *archs, const attn_desc_t *const *descs,
                                        const attn_op_t *ops, size_t count, int64_t *kernels_out);

// -------------------------------------------------------------------------------------------------
// Merge: joins partial results over disjoint sets of keys, exactly:
//   lse = log sum_p exp(lse_p),  o = sum_p exp(lse_p - lse) * o_p
// A part with lse -inf (or +inf, as some libraries mark emptiness) counts nothing, whatever its o
// holds.

typedef struct attn_merge_desc {
    size_t struct_size;
    attn_backend_t backend;
    int32_t device_index;
    int64_t parts;
    int64_t batch, s_q, heads_q, d_v;
    // fp32, last stride 1; AUTO: (p, b, s, h, d)
    int64_t o_part_stride_p, o_part_stride_b, o_part_stride_s, o_part_stride_h;
    // fp32; AUTO: (p, b, h, s)
    int64_t lse_part_stride_p, lse_part_stride_b, lse_part_stride_h, lse_part_stride_s;
    attn_tensor_t o; // any floating dtype but fp8
    int64_t lse_stride_b, lse_stride_h, lse_stride_s;
} attn_merge_desc_t;

ATTN_API void attn_merge_desc_init_sized(attn_merge_desc_t *desc, size_t struct_size,
                                         attn_dtype_t o_dtype);
static inline void attn_merge_desc_init(attn_merge_desc_t *desc, attn_dtype_t o_dtype)
{
    attn_merge_desc_init_sized(desc, sizeof(*desc), o_dtype);
}
// lse may be NULL. o may be the same memory as o_part's part 0 if both are fp32 with the same
// strides. CPU: ready on return.
ATTN_API attn_status_t attn_merge(const attn_context_t *context, const attn_merge_desc_t *desc,
                                  const float *o_part, const float *lse_part, void *o, float *lse,
                                  void *stream);

// -------------------------------------------------------------------------------------------------
// KV append: writes new keys and values into a cache behind the rows in use, rotating keys (and
// queries) by position. RoPE: Su et al., 2021, arXiv:2104.09864. Token t of sequence b goes to
// position p = cache_seqlens[b] + t.

typedef enum attn_rotary {
    ATTN_ROTARY_NONE = 0,
    ATTN_ROTARY_INTERLEAVED = 1, // pairs (0,1), (2,3), ...: GPT-J
    ATTN_ROTARY_HALF = 2,        // pairs (i, i + rotary_dim/2): GPT-NeoX, Llama
} attn_rotary_t;

typedef struct attn_append_desc {
    size_t struct_size;
    attn_backend_t backend;
    int32_t device_index;
    int64_t batch, s_new, heads_kv, d_qk, d_v;
    attn_tensor_t k_new, v_new; // (batch, s_new, heads_kv, d); packed: (total_new, heads_kv, d)
    // (cache_batch, capacity, heads_kv, d); paged: (num_pages, page_size, heads_kv, d)
    attn_tensor_t k_cache, v_cache;
    int64_t cache_batch, capacity; // paged: capacity is not used
    int32_t varlen_new;            // cu_seqlens_new (batch + 1)
    int64_t total_new;
    int32_t has_cache_batch_idx;
    int32_t paged_kv;
    int64_t page_size, num_pages, pages_per_seq, page_table_stride_b;
    attn_rotary_t rotary;
    int64_t rotary_dim;       // even, <= d_qk; the dims behind it are copied
    int64_t rotary_positions; // rows of cos and sin, (rotary_positions, rotary_dim / 2) fp32
    // > 0: q is rotated too, from q to q_out, both (batch, s_new, heads_q, d_qk)
    int64_t heads_q;
    attn_tensor_t q, q_out;
} attn_append_desc_t;

typedef struct attn_append_args {
    size_t struct_size;
    const void *k_new, *v_new;
    void *k_cache, *v_cache;
    const int32_t *cache_seqlens;   // (batch): rows in use before the call
    const int32_t *cu_seqlens_new;  // (batch + 1)
    const int32_t *cache_batch_idx; // (batch)
    const int32_t *page_table;      // (batch, pages_per_seq)
    const float *rotary_cos, *rotary_sin;
    const void *q; // q may be equal to q_out
    void *q_out;
} attn_append_args_t;

ATTN_API void attn_append_desc_init_sized(attn_append_desc_t *desc, size_t struct_size,
                                          attn_dtype_t dtype);
static inline void attn_append_desc_init(attn_append_desc_t *desc, attn_dtype_t dtype)
{
    attn_append_desc_init_sized(desc, sizeof(*desc), dtype);
}
static inline void attn_append_args_init(attn_append_args_t *args)
{
    memset(args, 0, sizeof(*args));
    args->struct_size = sizeof(*args);
}
// Nothing is written if a token does not fit: "cache_seqlens[0] + 1 new = 65, capacity 64"; or if
// two tokens have one place, by a page or an entry that sequences share. On a GPU, whose memory the
// host cannot check, tokens that do not fit are left out. cache_seqlens is not changed.
ATTN_API attn_status_t attn_append(const attn_context_t *context, const attn_append_desc_t *desc,
                                   const attn_append_args_t *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif // ATTN_H
