// Where NVRTC may be: in the order of how plainly the user said so. Newest first where there are
// several.
//
//   ATTN_NVRTC                         that file and no other
//   the loader's own path              which also finds what this process has loaded already
//   CUDA_HOME, CUDA_PATH               /lib64, /lib
//   VIRTUAL_ENV, CONDA_PREFIX          NVIDIA's wheels in site-packages (since CUDA 13 one folder
//                                      for all of them, before one for each), conda's own lib
//   /usr/local/cuda, /usr/local/cuda-* /lib64
#include "nvrtc_find.h"

#include <glob.h>
#include <stdio.h>

#include "environment.h"

typedef struct search {
    int (*try_path)(void *user, const char *path);
    void *user;
} search_t;

static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

// Tries the files that match; glob sorts them, and the last has the highest version.
static int try_pattern(const search_t *search, const char *pattern)
{
    glob_t found;
    int done = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i > 0 && !done; i--) {
            done = search->try_path(search->user, found.gl_pathv[i - 1]);
        }
        globfree(&found);
    }
    return done;
}

// Tries every name in folder/below. Both may hold wildcards.
static int try_folder(const search_t *search, const char *folder, const char *below)
{
    char pattern[4096];
    for (size_t i = 0; i < NAME_COUNT; i++) {
        const int bytes = snprintf(pattern, sizeof(pattern), "%s/%s/%s", folder, below, names[i]);
        if (bytes > 0 && (size_t)bytes < sizeof(pattern) && try_pattern(search, pattern)) {
            return 1;
        }
    }
    return 0;
}

static int try_loader(const search_t *search)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        if (search->try_path(search->user, names[i])) {
            return 1;
        }
    }
    return 0;
}

void attn_nvrtc_find(int (*try_path)(void *user, const char *path), void *user)
{
    const char *const named = attn_environment("ATTN_NVRTC");
    if (named != NULL) {
        (void)try_path(user, named);
        return;
    }
    const search_t search = {try_path, user};
    if (try_loader(&search)) {
        return;
    }
    static const struct {
        const char *variable;
        const char *below;
    } places[] = {
        {"CUDA_HOME", "lib64"},
        {"CUDA_HOME", "lib"},
        {"CUDA_PATH", "lib64"},
        {"CUDA_PATH", "lib"},
        {"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/cu13/lib"},
        {"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
        {"CONDA_PREFIX", "lib/python3*/site-packages/nvidia/cu13/lib"},
        {"CONDA_PREFIX", "lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
        {"CONDA_PREFIX", "lib"},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *const folder = attn_environment(places[i].variable);
        if (folder != NULL && try_folder(&search, folder, places[i].below)) {
            return;
        }
    }
    if (!try_folder(&search, "/usr/local/cuda", "lib64")) {
        (void)try_folder(&search, "/usr/local/cuda-*", "lib64");
    }
}
