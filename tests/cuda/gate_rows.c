// gate_rows.c: the gate for what users get. Compiles the kernel of every tuning row, at the head
// dims and masks that it serves, for its architecture, with NVRTC as a plan would; no GPU is
// needed. Fails on a stack frame, a spill, a wgmma that ptxas serialised (messages C75xx), a
// warning, more registers than the row promises, and on a row that no problem gets. Without NVRTC
// it says so and exits with 77.
//
//   gate_rows [PART...]    all kernels, or those whose names contain one of the parts
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/desc.h"
#include "cuda/kernel_family.h"
#include "cuda/nvrtc.h"

enum { KERNELS_MAX = 1024, LOG_BYTES = 1 << 16 };

struct kernel {
    attn_kernel_choice_t choice;
    int32_t part;
    attn_kernel_text_t text;
};
static struct kernel kernels[KERNELS_MAX];
static int count;

// ---- which kernels

static void add_kernel(const attn_kernel_choice_t *choice, int32_t part)
{
    attn_kernel_text_t text;
    attn_kernel_text_fill(&text, choice, part);
    for (int i = 0; i < count; i++) {
        if (strcmp(kernels[i].text.name, text.name) == 0) {
            return;
        }
    }
    if (count == KERNELS_MAX) {
        fprintf(stderr, "gate: more than %d kernels\n", KERNELS_MAX);
        exit(1);
    }
    kernels[count].choice = *choice;
    kernels[count].part = part;
    attn_kernel_text_fill(&kernels[count].text, choice, part);
    count++;
}

static void add_problem(const attn_desc_t *desc, attn_op_t op, int32_t compute)
{
    attn_desc_t full;
    attn_gpu_t gpu;
    attn_kernel_choice_t choice;
    attn_gpu_of_arch(compute, &gpu);
    if (attn_desc_check(desc, op, &full) != ATTN_OK ||
        attn_kernel_choose(&full, op, &gpu, &choice) != ATTN_OK) {
        return;
    }
    for (int32_t part = 0; part <= choice.family->part_count; part++) {
        if (attn_kernel_has_part(&choice, part)) {
            add_kernel(&choice, part);
        }
    }
}

enum { NO_MASK, UPPER, BOTH, NO_KEYS, MASKS };

static void add_shape(int64_t s, int64_t d_qk, int64_t d_v, int mask, attn_dtype_t dtype)
{
    static const int32_t computes[] = {80, 89, 90, 100, 103, 120};
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, 1, s, mask == NO_KEYS ? 0 : s, 16, 16, d_qk);
    desc.d_v = d_v;
    desc.backend = ATTN_BACKEND_CUDA;
    desc.causal = mask == UPPER;
    desc.window_left = mask == BOTH ? 100 : -1;
    desc.window_right = mask == BOTH ? 0 : -1;
    for (size_t i = 0; i < sizeof(computes) / sizeof(computes[0]); i++) {
        add_problem(&desc, ATTN_FORWARD, computes[i]);
        add_problem(&desc, ATTN_BACKWARD, computes[i]);
        desc.deterministic = mask == BOTH;
        add_problem(&desc, ATTN_BACKWARD, computes[i]);
        desc.deterministic = 0;
    }
}

// A mask tensor, and lists of blocks, alone.
static void add_map(const attn_desc_t *plain)
{
    attn_desc_t desc = *plain;
    desc.mask.present = 1;
    add_problem(&desc, ATTN_FORWARD, 90);
    desc.mask.present = 0;
    desc.block_sparse = 1;
    desc.blocks_per_row = 1;
    for (int64_t block = 64; block <= 128; block *= 2) {
        desc.block_q = desc.block_kv = block;
        add_problem(&desc, ATTN_FORWARD, 90);
    }
}

// Options of the scores, alone and in sets; the dims of each of their rows. stride_d of Q: with
// another than 1 operands are gathered.
static void add_options(int64_t stride_d)
{
    static const int64_t dims[] = {64, 128, 192, 256};
    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
        attn_desc_t desc;
        attn_desc_init(&desc, ATTN_BF16);
        attn_desc_set_shape(&desc, 1, 4096, 4096, 16, 16, dims[i]);
        desc.backend = ATTN_BACKEND_CUDA;
        desc.q.stride_d = stride_d;
        desc.causal = 1;
        desc.window_left = 100;
        add_map(&desc);
        desc.softcap = 30.0f;
        desc.has_alibi = 1;
        desc.scale = -1.0f;
        add_problem(&desc, ATTN_FORWARD, 90);
        desc.dropout_p = 0.1f;
        add_problem(&desc, ATTN_FORWARD, 90);
        desc.softcap = 0.0f;
        desc.o.dtype = ATTN_F32;
        desc.mask.present = 1;
        add_problem(&desc, ATTN_FORWARD, 90);
        desc.has_alibi = 0;
        desc.bias.present = 1;
        desc.bias.dtype = ATTN_F32;
        add_problem(&desc, ATTN_FORWARD, 90);
        desc.block_sparse = 1;
        for (int64_t block = 64; block <= 128; block *= 2) {
            desc.block_q = desc.block_kv = block;
            desc.blocks_per_row = 1;
            add_problem(&desc, ATTN_FORWARD, 90);
        }
    }
}

// Operands that are gathered, with the most code.
static void add_gathered(int64_t d_qk, int64_t d_v)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 1, 1024, 1024, 16, 16, d_qk);
    desc.d_v = d_v;
    desc.backend = ATTN_BACKEND_CUDA;
    desc.window_left = 100;
    desc.window_right = 0;
    desc.q.stride_d = 2;
    add_problem(&desc, ATTN_FORWARD, 90);
}

// Heads that share tiles: decoding a few tokens.
static void add_packed(int64_t d, int64_t heads_q, int64_t stride_d)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 1, 3, 4096, heads_q, 1, d);
    desc.backend = ATTN_BACKEND_CUDA;
    desc.causal = 1;
    desc.q.stride_d = stride_d;
    add_problem(&desc, ATTN_FORWARD, 90);
    desc.window_left = 100;
    desc.softcap = 30.0f;
    desc.o.dtype = ATTN_F32;
    add_problem(&desc, ATTN_FORWARD, 90);
    desc.softcap = 0.0f;
    desc.has_sink = 1;
    add_problem(&desc, ATTN_FORWARD, 90);
}

// Every rounded head dim without a mask and with both limits, which is the most code; pairs of
// unlike dims; the other masks, types and lengths where head dims are usual.
static void add_all(void)
{
    static const int64_t pairs[][2] = {{192, 128}, {64, 256}, {256, 64}, {128, 64}, {64, 128},
                                       {16, 256},  {256, 16}, {96, 80},  {128, 192}};
    static const int64_t usual[] = {64, 96, 128, 192, 256};
    static const int64_t lengths[] = {128, 512, 1024, 2048};
    const int64_t s = 16384;
    add_options(1);
    add_options(2);
    add_shape(s, 64, 64, NO_KEYS, ATTN_BF16);
    add_shape(s, 64, 64, NO_KEYS, ATTN_F32);
    for (int64_t d = 16; d <= 256; d += 16) {
        add_shape(s, d, d, NO_MASK, ATTN_BF16);
        add_shape(s, d, d, BOTH, ATTN_BF16);
    }
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        add_shape(s, pairs[i][0], pairs[i][1], BOTH, ATTN_BF16);
        add_gathered(pairs[i][0], pairs[i][1]);
    }
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        add_gathered(usual[i], usual[i]);
        add_packed(usual[i], 3, 1);
        add_packed(usual[i], 40, 1);
        add_packed(usual[i], 8, 2);
        add_shape(s, usual[i], usual[i], UPPER, ATTN_BF16);
        add_shape(s, usual[i], usual[i], BOTH, ATTN_F16);
        for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
            add_shape(lengths[j], usual[i], usual[i], NO_MASK, ATTN_BF16);
            add_shape(lengths[j], usual[i], usual[i], UPPER, ATTN_BF16);
        }
    }
}

static int count_unreached_rows(void)
{
    int unreached = 0;
    for (int f = 0; attn_kernel_families[f] != NULL; f++) {
        const attn_kernel_family_t *family = attn_kernel_families[f];
        for (int32_t r = 0; r < family->row_count; r++) {
            int is_reached = 0;
            for (int i = 0; i < count; i++) {
                is_reached |= kernels[i].choice.row == &family->rows[r];
            }
            if (!is_reached) {
                printf("gate: FAILED family %s: no problem gets tuning row %d (%s)\n", family->name,
                       (int)r, family->rows[r].reason);
                unreached++;
            }
        }
    }
    return unreached;
}

// Drops the kernels that are not asked for.
static void keep_named(int argc, char **argv)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int is_wanted = argc == 1;
        for (int part = 1; part < argc; part++) {
            is_wanted |= strstr(kernels[i].text.name, argv[part]) != NULL;
        }
        if (is_wanted) {
            const attn_kernel_choice_t choice = kernels[i].choice;
            kernels[kept].choice = choice;
            kernels[kept].part = kernels[i].part;
            attn_kernel_text_fill(&kernels[kept].text, &choice, kernels[kept].part);
            kept++;
        }
    }
    count = kept;
}

// ---- compiling

struct log {
    char text[LOG_BYTES];
    size_t used;
};

static void keep_line(void *user, attn_log_level_t level, const char *text)
{
    struct log *log = user;
    (void)level;
    const int bytes = snprintf(log->text + log->used, LOG_BYTES - log->used, "%s\n", text);
    log->used = bytes < 0 || (size_t)bytes >= LOG_BYTES - log->used ? LOG_BYTES - 1
                                                                    : log->used + (size_t)bytes;
}

// The figure in front of words, the largest of the whole log; -1 if the words are not there.
static long largest_before(const char *log, const char *words)
{
    long largest = -1;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at++) {
        const char *digits = at;
        while (digits > log && digits[-1] >= '0' && digits[-1] <= '9') {
            digits--;
        }
        const long figure = strtol(digits, NULL, 10);
        largest = figure > largest ? figure : largest;
    }
    return largest;
}

// NULL, or why the kernel does not pass.
static const char *judge(const struct kernel *kernel, const char *log, long *registers_out)
{
    *registers_out = largest_before(log, " registers");
    if (strstr(log, "C75") != NULL) {
        return "wgmma is serialised or changed by ptxas";
    }
    if (largest_before(log, " bytes stack frame") != 0) {
        return "a stack frame, or none is told";
    }
    if (largest_before(log, " bytes spill") != 0) {
        return "spills, or none are told";
    }
    if (strstr(log, "warning") != NULL) {
        return "warnings";
    }
    if (*registers_out < 1 ||
        *registers_out > attn_kernel_registers_max(&kernel->choice, kernel->part)) {
        return "more registers than its row promises, or none are told";
    }
    return NULL;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int next_kernel;
static int failed;

static void compile(const struct kernel *kernel, struct log *log)
{
    attn_context_config_t config;
    attn_context_t *context;
    attn_kernel_image_t image;
    memset(log, 0, sizeof(*log));
    attn_context_config_init(&config);
    config.log = keep_line;
    config.log_user = log;
    const char *reason = NULL;
    long registers = 0;
    struct timespec begin;
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    if (attn_context_create(&config, &context) != ATTN_OK) {
        reason = attn_last_error();
    } else {
        attn_kernel_request_t request = kernel->text.request;
        request.options[request.option_count++] = "--ptxas-options=-v";
        reason = attn_kernel_image_get(context, &request, 1, &image) != ATTN_OK
                     ? attn_last_error()
                     : judge(kernel, log->text, &registers);
        attn_kernel_image_free(&image);
        attn_context_destroy(context);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    (void)pthread_mutex_lock(&mutex);
    printf("gate: %s %s: %ld registers, %.2f s%s%s\n", reason ? "FAILED" : "ok    ",
           kernel->text.name, registers, seconds, reason ? ": " : "", reason ? reason : "");
    if (reason) {
        printf("%s", log->text);
        failed++;
    }
    (void)pthread_mutex_unlock(&mutex);
}

static void *compile_some(void *arg)
{
    struct log *log = malloc(sizeof(*log));
    for (;;) {
        (void)pthread_mutex_lock(&mutex);
        const int i = next_kernel++;
        (void)pthread_mutex_unlock(&mutex);
        if (log == NULL || i >= count) {
            break;
        }
        compile(&kernels[i], log);
    }
    free(log);
    return arg;
}

int main(int argc, char **argv)
{
    enum { THREADS_MAX = 64 };
    const attn_nvrtc_t *nvrtc;
    // A kernel that was kept has no compiler's words to judge, and the user's folder is the user's.
    if (setenv("ATTN_CACHE", "off", 1) != 0 || unsetenv("ATTN_PACK") != 0) {
        perror("gate_rows");
        return 1;
    }
    if (attn_nvrtc_get(&nvrtc) != ATTN_OK) {
        printf("gate: skipped: %s\n", attn_last_error());
        return 77;
    }
    add_all();
    failed = count_unreached_rows();
    keep_named(argc, argv);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const int threads = processors < 1             ? 1
                        : processors > THREADS_MAX ? THREADS_MAX
                                                   : (int)processors;
    pthread_t ids[THREADS_MAX];
    int started = 0;
    while (started < threads && pthread_create(&ids[started], NULL, compile_some, NULL) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    printf("gate: %d compiled, %d failed\n", next_kernel < count ? next_kernel : count, failed);
    return failed == 0 && count > 0 && started > 0 ? 0 : 1;
}
