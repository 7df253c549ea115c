// Launching src/device/common/mask_survey.c for a family whose kernels read tile maps: the map's
// shape, its memory, the launch.
#ifndef ATTN_CUDA_SURVEY_LAUNCH_H
#define ATTN_CUDA_SURVEY_LAUNCH_H

#include "../shared/gpu_forward_params.h"
#include "kernel_family.h"

// Of a part of that kind.
int attn_survey_is_needed(const attn_kernel_config_t *config);
int32_t attn_survey_shared_bytes(const attn_kernel_config_t *config);

// The map of the problem's mask tensor and block lists, for the tiles of config, at `words`.
size_t attn_survey_map_bytes(const attn_desc_t *desc, const attn_kernel_config_t *config);
attn_gpu_tile_map_t attn_survey_map(const attn_desc_t *desc, const attn_kernel_config_t *config,
                                    void *words);

// Fills score's map from its mask and the lists of args, and sets the counter (NULL: none) to 0.
// Errors: as attn_gpu_launch.
attn_status_t attn_survey_run(const attn_cuda_plan_t *cuda, int32_t part, const attn_desc_t *desc,
                              const attn_forward_args_t *args, const attn_gpu_score_t *score,
                              uint32_t *counter, void *stream);

#endif
