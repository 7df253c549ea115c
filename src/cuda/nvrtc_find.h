// Where NVRTC may be.
#ifndef ATTN_CUDA_NVRTC_FIND_H
#define ATTN_CUDA_NVRTC_FIND_H

// Calls try_path for one file after another until it returns 1. Names without a slash are the
// loader's to find.
void attn_nvrtc_find(int (*try_path)(void *user, const char *path), void *user);

#endif
