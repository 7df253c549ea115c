// Choosing a kernel: legal, canonical, best.
#include "kernel_family.h"

#include <stdio.h>
#include <string.h>

#include "../core/status.h"

extern const attn_kernel_family_t attn_sm90_forward_family;
extern const attn_kernel_family_t attn_sm90_backward_family;
extern const attn_kernel_family_t attn_fill_family;

const attn_kernel_family_t *const attn_kernel_families[] = {
    &attn_sm90_forward_family, &attn_sm90_backward_family, &attn_fill_family, NULL};

// As a row's `options` say it.
static int32_t score_options(const attn_kernel_config_t *config)
{
    if (config->any_scale || config->softcap || config->alibi || config->bias || config->dropout) {
        return ATTN_ROW_OPTIONS;
    }
    return config->bool_mask || config->block_lists ? ATTN_ROW_TILE_MAP : 0;
}

static int options_fit(const attn_tuning_row_t *row, const attn_kernel_config_t *config)
{
    const int32_t options = score_options(config);
    return row->options == options ||
           (options == ATTN_ROW_TILE_MAP && row->options == ATTN_ROW_OPTIONS);
}

static int row_fits(const attn_tuning_row_t *row, const attn_desc_t *desc,
                    const attn_kernel_config_t *config)
{
    const int32_t d = config->d_qk > config->d_v ? config->d_qk : config->d_v;
    const int32_t mask = config->mask != 0 ? 1 : 2;
    // The lengths decide whether a bound can hide a key at all: a mask speaks of s_q too.
    const int speaks_of_s_q = row->s_max != 0 || row->mask != 0;
    // A tile is in a list or it is not.
    const int divides_blocks = !config->block_lists || (desc->block_q % row->tile_m == 0 &&
                                                        desc->block_kv % row->tile_n == 0);
    return divides_blocks && (row->arch == 0 || row->arch == config->arch) &&
           (row->d_max == 0 || d <= row->d_max) && (row->mask == 0 || row->mask == mask) &&
           options_fit(row, config) && row->gather == config->gather &&
           (!row->packed || config->pack_gqa != 0) &&
           (row->s_max == 0 || desc->s_q <= row->s_max) &&
           !(speaks_of_s_q && desc->batch_invariant);
}

const attn_tuning_row_t *attn_kernel_best(const attn_kernel_family_t *family,
                                          const attn_desc_t *desc, attn_kernel_config_t *config)
{
    for (int32_t i = 0; i < family->row_count; i++) {
        const attn_tuning_row_t *const row = &family->rows[i];
        if (!row_fits(row, desc, config)) {
            continue;
        }
        config->tile_m = row->tile_m;
        config->tile_n = row->tile_n;
        config->stages = row->stages;
        config->warpgroups = row->warpgroups;
        config->ctas = row->ctas;
        config->load_registers = row->load_registers;
        config->compute_registers = row->compute_registers;
        config->ping_pong = row->ping_pong;
        config->separate_o = row->separate_o;
        config->pair = row->pair;
        return row;
    }
    return NULL;
}

int attn_kernel_try(const attn_kernel_family_t *family, const attn_desc_t *desc, attn_op_t op,
                    const attn_gpu_t *gpu, attn_kernel_choice_t *choice_out,
                    char reason[ATTN_REASON_BYTES])
{
    *choice_out = (attn_kernel_choice_t){.family = family};
    if (family->op != op) {
        (void)snprintf(reason, ATTN_REASON_BYTES, "it is for the %s pass",
                       family->op == ATTN_FORWARD ? "forward" : "backward");
        return 0;
    }
    if (!family->legal(desc, gpu, reason)) {
        return 0;
    }
    family->canonical(desc, gpu, &choice_out->config);
    choice_out->row = attn_kernel_best(family, desc, &choice_out->config);
    if (choice_out->row == NULL) {
        (void)snprintf(reason, ATTN_REASON_BYTES, "no tuning row is for d %d/%d on sm_%d",
                       (int)choice_out->config.d_qk, (int)choice_out->config.d_v,
                       (int)gpu->compute);
        return 0;
    }
    const int32_t shared = family->shared_bytes(&choice_out->config);
    if (shared > gpu->shared_bytes) {
        (void)snprintf(reason, ATTN_REASON_BYTES,
                       "it needs %d bytes of shared memory, a block of this GPU has %d",
                       (int)shared, (int)gpu->shared_bytes);
        return 0;
    }
    return 1;
}

// Adds "name: reason" to a text that ends where it is full.
static void add_reason(char *text, size_t bytes, const char *name, const char *reason)
{
    const size_t used = strlen(text);
    (void)snprintf(text + used, bytes - used, "%s%s: %s", used > 0 ? "; " : "", name, reason);
}

attn_status_t attn_kernel_choose(const attn_desc_t *desc, attn_op_t op, const attn_gpu_t *gpu,
                                 attn_kernel_choice_t *choice_out)
{
    char reasons[3 * ATTN_REASON_BYTES] = "";
    for (int32_t i = 0; attn_kernel_families[i] != NULL; i++) {
        char reason[ATTN_REASON_BYTES];
        if (attn_kernel_try(attn_kernel_families[i], desc, op, gpu, choice_out, reason)) {
            return ATTN_OK;
        }
        add_reason(reasons, sizeof(reasons), attn_kernel_families[i]->name, reason);
    }
    return attn_fail(ATTN_UNSUPPORTED, "backend: cuda, no kernel for it on %s (sm_%d): %s",
                     gpu->name, (int)gpu->compute, reasons);
}

static const attn_kernel_part_t *part_of(const attn_kernel_choice_t *choice, int32_t part)
{
    return part == 0 ? NULL : &choice->family->parts[part - 1];
}

int attn_kernel_has_part(const attn_kernel_choice_t *choice, int32_t part)
{
    const attn_kernel_part_t *const own = part_of(choice, part);
    return own == NULL || own->is_needed == NULL || own->is_needed(&choice->config);
}

int32_t attn_kernel_shared_bytes(const attn_kernel_choice_t *choice, int32_t part)
{
    const attn_kernel_part_t *const own = part_of(choice, part);
    return (own ? own->shared_bytes : choice->family->shared_bytes)(&choice->config);
}

int32_t attn_kernel_registers_max(const attn_kernel_choice_t *choice, int32_t part)
{
    const attn_kernel_part_t *const own = part_of(choice, part);
    return own ? own->registers_max : choice->row->registers_max;
}

void attn_kernel_text_fill(attn_kernel_text_t *text, const attn_kernel_choice_t *choice,
                           int32_t part)
{
    const attn_kernel_part_t *const own = part_of(choice, part);
    attn_kernel_config_t config = choice->config;
    config.kind = own ? own->kind : config.kind;
    attn_kernel_config_name(&config, text->name);
    attn_arch_name(config.arch, text->arch);
    attn_kernel_config_prologue(&config, text->prologue);
    text->request = (attn_kernel_request_t){.name = text->name,
                                            .arch = text->arch,
                                            .path = own ? own->path : choice->family->path,
                                            .prologue = text->prologue};
}

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": shared memory of a
// block, and the multiprocessors of the largest part of each kind.
void attn_gpu_of_arch(int32_t compute, attn_gpu_t *gpu_out)
{
    static const struct {
        int32_t compute;
        int32_t shared_bytes;
        int32_t multiprocessors;
    } kinds[] = {{80, 163 << 10, 108}, {86, 99 << 10, 84},    {89, 99 << 10, 142},
                 {90, 227 << 10, 132}, {100, 227 << 10, 148}, {103, 227 << 10, 148},
                 {120, 99 << 10, 170}};
    *gpu_out = (attn_gpu_t){.compute = compute, .shared_bytes = 48 << 10, .multiprocessors = 1};
    (void)snprintf(gpu_out->name, sizeof(gpu_out->name), "any GPU of sm_%d", (int)compute);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].compute == compute) {
            gpu_out->shared_bytes = kinds[i].shared_bytes;
            gpu_out->multiprocessors = kinds[i].multiprocessors;
        }
    }
}
