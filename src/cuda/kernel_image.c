// The order in which machine code is looked for: see kernel_image.h.
#include "kernel_image.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "environment.h"
#include "kernel_pack.h"
#include "nvrtc.h"

#define PACKS_MAX 64

const char *attn_kernel_origin_name(attn_kernel_origin_t origin)
{
    static const char *const names[] = {"pack", "cache folder", "compiler"};
    return names[origin];
}

// -------------------------------------------------------------------------------------------------
// Packs: opened once per process, before anybody may have changed them

static pthread_once_t packs_once = PTHREAD_ONCE_INIT;
static attn_pack_t *packs[PACKS_MAX];
static char packs_trouble[PACKS_MAX][256]; // of the pack that could not be opened, "" if it could
static int packs_count;

static void open_packs(void)
{
    const char *at = attn_environment("ATTN_PACK");
    while (at != NULL && *at != '\0' && packs_count < PACKS_MAX) {
        const size_t bytes = strcspn(at, ":");
        char *const path = strndup(at, bytes);
        if (path != NULL && bytes > 0) {
            const char *reason;
            packs[packs_count] = attn_pack_open(path, &reason);
            if (packs[packs_count] == NULL) {
                (void)snprintf(packs_trouble[packs_count], sizeof(packs_trouble[0]), "%s: %s", path,
                               reason[0] != '\0' ? reason : "no such file");
            }
            packs_count++;
        }
        free(path);
        at += bytes + (at[bytes] == ':');
    }
}

static int find_in_packs(const attn_context_t *context, const attn_kernel_key_t *key,
                         attn_cache_hit_t *hit_out)
{
    (void)pthread_once(&packs_once, open_packs);
    for (int i = 0; i < packs_count; i++) {
        if (packs[i] == NULL) {
            attn_log(context, ATTN_LOG_WARNING, "ATTN_PACK: %s", packs_trouble[i]);
        } else if (attn_pack_find(packs[i], context, key, hit_out)) {
            return 1;
        }
    }
    return 0;
}

// -------------------------------------------------------------------------------------------------
// Compiling

static int jit_is_allowed(void)
{
    const char *const value = attn_environment("ATTN_JIT");
    return value == NULL || strcmp(value, "0") != 0;
}

static attn_status_t compile(const attn_nvrtc_t *nvrtc, const attn_context_t *context,
                             const attn_kernel_request_t *request, const attn_source_set_t *sources,
                             attn_kernel_image_t *image)
{
    char arch[64];
    (void)snprintf(arch, sizeof(arch), "--gpu-architecture=%s", request->arch);
    const char *options[ATTN_KERNEL_OPTIONS_MAX + 1] = {arch};
    memcpy(options + 1, request->options, sizeof(request->options));
    const size_t text_bytes = strlen(request->prologue) + strlen(request->path) + 32;
    char *const text = malloc(text_bytes);
    ATTN_RETURN_IF(text == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory", request->name);
    (void)snprintf(text, text_bytes, "%s#include \"%s\"\n", request->prologue, request->path);
    const attn_compile_job_t job = {.name = request->name,
                                    .text = text,
                                    .headers = sources->list,
                                    .header_count = sources->count,
                                    .options = options,
                                    .option_count = request->option_count + 1,
                                    .arch = request->arch};
    void *cubin;
    size_t cubin_bytes;
    const attn_status_t status = attn_nvrtc_compile(nvrtc, context, &job, &cubin, &cubin_bytes);
    free(text);
    ATTN_FORWARD_ERROR(status);
    image->data = cubin;
    image->origin = ATTN_KERNEL_FROM_COMPILER;
    image->entry = (attn_kernel_entry_t){.compiler = attn_nvrtc_version(nvrtc),
                                         .name = request->name,
                                         .arch = request->arch,
                                         .key = image->key.text,
                                         .key_bytes = image->key.bytes,
                                         .cubin = cubin,
                                         .cubin_bytes = cubin_bytes};
    return ATTN_OK;
}

static void take_hit(attn_kernel_image_t *image, const attn_cache_hit_t *hit,
                     attn_kernel_origin_t origin)
{
    image->data = hit->data;
    image->entry = hit->entry;
    image->origin = origin;
}

// Everything but packs. The compiler is opened before the folder is read, since its version decides
// which kernels there are up to date; without one, any will do.
static attn_status_t get_without_packs(const attn_context_t *context,
                                       const attn_kernel_request_t *request,
                                       const attn_source_set_t *sources, attn_kernel_image_t *image)
{
    const int may_compile = jit_is_allowed();
    const attn_nvrtc_t *nvrtc = NULL;
    const attn_status_t nvrtc_status = may_compile ? attn_nvrtc_get(&nvrtc) : ATTN_OK;
    const int has_compiler = may_compile && nvrtc_status == ATTN_OK;
    attn_cache_hit_t hit;
    if (attn_cache_find(context, &image->key, has_compiler ? attn_nvrtc_version(nvrtc) : 0, &hit)) {
        take_hit(image, &hit, ATTN_KERNEL_FROM_CACHE);
        return ATTN_OK;
    }
    ATTN_RETURN_IF(!may_compile, ATTN_COMPILE_FAILED,
                   "kernel %s for %s: in no pack and not in the cache folder, and ATTN_JIT=0 "
                   "forbids to compile it",
                   request->name, request->arch);
    if (!has_compiler) {
        attn_error_text_t reason;
        attn_error_save(&reason);
        return attn_fail(nvrtc_status, "kernel %s for %s: %.380s", request->name, request->arch,
                         reason.text);
    }
    ATTN_FORWARD_ERROR(compile(nvrtc, context, request, sources, image));
    attn_cache_keep(context, &image->key, &image->entry);
    return ATTN_OK;
}

static attn_status_t get(const attn_context_t *context, const attn_kernel_request_t *request,
                         int without_packs, const attn_source_set_t *sources,
                         attn_kernel_image_t *image)
{
    ATTN_FORWARD_ERROR(attn_kernel_key_make(request, sources, &image->key));
    attn_cache_hit_t hit;
    if (!without_packs && find_in_packs(context, &image->key, &hit)) {
        take_hit(image, &hit, ATTN_KERNEL_FROM_PACK);
        return ATTN_OK;
    }
    return get_without_packs(context, request, sources, image);
}

attn_status_t attn_kernel_image_get(const attn_context_t *context,
                                    const attn_kernel_request_t *request, int without_packs,
                                    attn_kernel_image_t *image_out)
{
    *image_out = (attn_kernel_image_t){0};
    attn_source_set_t *const sources = malloc(sizeof(*sources));
    ATTN_RETURN_IF(sources == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory", request->name);
    attn_error_text_t before;
    attn_error_save(&before);
    attn_status_t status = attn_source_collect(request->path, sources);
    if (status == ATTN_OK) {
        status = get(context, request, without_packs, sources, image_out);
    }
    attn_source_clear(sources);
    free(sources);
    if (status != ATTN_OK) {
        attn_kernel_image_free(image_out);
        return status;
    }
    attn_error_restore(&before);
    attn_log(context, ATTN_LOG_INFO, "kernel %s for %s: %zu bytes from the %s", request->name,
             request->arch, image_out->entry.cubin_bytes,
             attn_kernel_origin_name(image_out->origin));
    return ATTN_OK;
}

void attn_kernel_image_free(attn_kernel_image_t *image)
{
    free(image->data);
    attn_kernel_key_free(&image->key);
    *image = (attn_kernel_image_t){0};
}
