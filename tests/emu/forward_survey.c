// The survey for the tiles of the forward kernel that a test is compiled for, in a file of its own:
// both kernels name what they are made of in the same way.
#undef ATTN_CFG_KERNEL
#define ATTN_CFG_KERNEL mask_survey
#define ATTN_CFG_BLOCK_M (ATTN_CFG_WARPGROUPS * 64)
#include "../../src/device/common/mask_survey.c"

void survey_entry(const void *params);

void survey_entry(const void *params)
{
    mask_survey(*(const attn_gpu_survey_params_t *)params);
}
