// Environment variables that name files: which library to load, where kernels are kept.
#ifndef ATTN_CUDA_ENVIRONMENT_H
#define ATTN_CUDA_ENVIRONMENT_H

// The variable's value; NULL if it is not set, empty, or not to be trusted: a program that runs
// with more rights than its user must not load what the user names.
const char *attn_environment(const char *name);

#endif
