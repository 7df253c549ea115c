// attn_pack_create: the kernels that a list of problems needs on a list of architectures, each
// once, and those that need no problem, in one file.
#include <stdlib.h>
#include <string.h>

#include "../core/desc.h"
#include "../core/status.h"
#include "gpu_shared_kernel.h"
#include "kernel_family.h"
#include "kernel_pack.h"

typedef struct part_list {
    attn_pack_part_t *parts;
    void **memory; // parts' data
    size_t count;
    size_t room;
} part_list_t;

static void part_list_free(part_list_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->memory[i]);
    }
    free(list->parts);
    free(list->memory);
}

static int is_listed(const part_list_t *list, const attn_kernel_key_t *key)
{
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(list->parts[i].hash, key->hash, ATTN_SHA256_BYTES) == 0) {
            return 1;
        }
    }
    return 0;
}

static attn_status_t add_image(part_list_t *list, const attn_kernel_image_t *image)
{
    if (is_listed(list, &image->key)) {
        return ATTN_OK;
    }
    const size_t bytes = attn_kernel_entry_bytes(&image->entry);
    void *const data = malloc(bytes);
    ATTN_RETURN_IF(data == NULL, ATTN_OUT_OF_MEMORY, "kernel %s: no memory for %zu bytes",
                   image->entry.name, bytes);
    attn_kernel_entry_write(&image->entry, data);
    attn_pack_part_t *const part = &list->parts[list->count];
    *part = (attn_pack_part_t){.data = data, .bytes = bytes};
    memcpy(part->hash, image->key.hash, ATTN_SHA256_BYTES);
    list->memory[list->count++] = data;
    return ATTN_OK;
}

static attn_status_t add_kernel(const attn_context_t *context, const attn_kernel_request_t *request,
                                part_list_t *list)
{
    attn_kernel_image_t image;
    ATTN_FORWARD_ERROR(attn_kernel_image_get(context, request, 1, &image));
    const attn_status_t status = add_image(list, &image);
    attn_kernel_image_free(&image);
    return status;
}

// Kernels that no descriptor asks for: they are few and small.
static attn_status_t add_shared(const attn_context_t *context, int32_t compute, part_list_t *list)
{
    for (int32_t which = 0; which < ATTN_GPU_SHARED_COUNT; which++) {
        attn_gpu_shared_text_t text;
        attn_gpu_shared_text_fill(&text, (attn_gpu_shared_t)which, compute);
        ATTN_FORWARD_ERROR(add_kernel(context, &text.request, list));
    }
    return ATTN_OK;
}

static attn_status_t add_problem(const attn_context_t *context, const attn_desc_t *desc,
                                 attn_op_t op, int32_t compute, part_list_t *list)
{
    attn_desc_t wanted;
    ATTN_FORWARD_ERROR(attn_desc_read(desc, &wanted));
    wanted.backend = ATTN_BACKEND_CUDA;
    attn_desc_t full;
    ATTN_FORWARD_ERROR(attn_desc_check(&wanted, op, &full));
    attn_gpu_t gpu;
    attn_gpu_of_arch(compute, &gpu);
    attn_kernel_choice_t choice;
    ATTN_FORWARD_ERROR(attn_kernel_choose(&full, op, &gpu, &choice));
    for (int32_t part = 0; part <= choice.family->part_count; part++) {
        if (!attn_kernel_has_part(&choice, part)) {
            continue;
        }
        attn_kernel_text_t text;
        attn_kernel_text_fill(&text, &choice, part);
        ATTN_FORWARD_ERROR(add_kernel(context, &text.request, list));
    }
    return ATTN_OK;
}

// One architecture of the list at *archs, which moves behind it; 0 at the end.
static attn_status_t next_arch(const char **archs, int32_t *compute_out)
{
    const size_t bytes = strcspn(*archs, ",");
    *compute_out = attn_arch_compute(*archs, bytes);
    ATTN_RETURN_IF(*compute_out == 0, ATTN_INVALID_ARGUMENT,
                   "archs: \"%.*s\", expected names as sm_80, sm_90a, sm_100a", (int)bytes, *archs);
    *archs += bytes;
    // "sm_90a," ends in an empty name, which is none.
    *archs += **archs == ',';
    return ATTN_OK;
}

static size_t count_archs(const char *archs)
{
    size_t count = 1;
    for (; *archs != '\0'; archs++) {
        count += *archs == ',';
    }
    return count;
}

static attn_status_t collect(const attn_context_t *context, const char *archs,
                             const attn_desc_t *const *descs, const attn_op_t *ops, size_t count,
                             part_list_t *list)
{
    list->room = count_archs(archs) * (count * ATTN_KERNEL_PARTS_MAX + ATTN_GPU_SHARED_COUNT);
    list->parts = calloc(list->room, sizeof(*list->parts));
    list->memory = calloc(list->room, sizeof(*list->memory));
    ATTN_RETURN_IF(list->parts == NULL || list->memory == NULL, ATTN_OUT_OF_MEMORY,
                   "pack: no memory for %zu kernels", list->room);
    do {
        int32_t compute;
        ATTN_FORWARD_ERROR(next_arch(&archs, &compute));
        for (size_t i = 0; i < count; i++) {
            const attn_status_t status = add_problem(context, descs[i], ops[i], compute, list);
            attn_error_text_t reason;
            attn_error_save(&reason);
            ATTN_RETURN_IF(status != ATTN_OK, status, "descs[%zu]: %.480s", i, reason.text);
        }
        ATTN_FORWARD_ERROR(add_shared(context, compute, list));
    } while (*archs != '\0');
    return ATTN_OK;
}

attn_status_t attn_pack_create(const attn_context_t *context, const char *path, const char *archs,
                               const attn_desc_t *const *descs, const attn_op_t *ops, size_t count,
                               int64_t *kernels_out)
{
    ATTN_RETURN_IF(path == NULL, ATTN_INVALID_ARGUMENT, "path: NULL");
    ATTN_RETURN_IF(archs == NULL, ATTN_INVALID_ARGUMENT, "archs: NULL");
    ATTN_RETURN_IF(descs == NULL || ops == NULL || count == 0, ATTN_INVALID_ARGUMENT,
                   "descs, ops: NULL or none of them");
    ATTN_RETURN_IF(kernels_out == NULL, ATTN_INVALID_ARGUMENT, "kernels_out: NULL");
    *kernels_out = 0;
    part_list_t list = {0};
    attn_status_t status = collect(attn_context_resolve(context), archs, descs, ops, count, &list);
    if (status == ATTN_OK) {
        status = attn_pack_write(path, list.parts, list.count);
    }
    if (status == ATTN_OK) {
        *kernels_out = (int64_t)list.count;
    }
    part_list_free(&list);
    return status;
}
