// bench_gemm.c: see bench_gemm.h. Names and values are those of the cuBLAS API reference.
#include "bench_gemm.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "device_memory.h"
#include "random_fill.h"

enum {
    CUBLAS_OP_N = 0,
    CUDA_R_16BF = 14,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_GEMM_DEFAULT = -1,
    SEED_ELEMENTS = 1 << 20, // random ones, repeated over the matrix
};
#define MATRIX_BYTES ((size_t)BENCH_GEMM_SIZE * BENCH_GEMM_SIZE * 2)

typedef struct cublasContext *cublas_handle;

static struct {
    cublas_handle handle;
    void *a, *b, *c;
    int (*create)(cublas_handle *handle);
    int (*destroy)(cublas_handle handle);
    int (*gemm)(cublas_handle handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
} blas;

static void *open_library(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

// Random numbers at the beginning of a matrix, doubled until it is full.
static int fill_matrix(const struct io_tensor *seed, void *matrix, struct io_error *err)
{
    char *const to = matrix;
    if (device_upload(matrix, seed->data, seed->bytes, err)) {
        return -1;
    }
    for (size_t done = seed->bytes; done < MATRIX_BYTES; done *= 2) {
        if (device_copy(to + done, to, done, err)) {
            return -1;
        }
    }
    return device_wait(err);
}

static int make_matrices(struct io_error *err)
{
    const int64_t shape[1] = {SEED_ELEMENTS};
    struct io_tensor seed;
    if (io_tensor_init(&seed, "gemm", IO_BF16, 1, shape, err)) {
        return -1;
    }
    random_fill(&seed, 1, "gemm", 1.0, 0.5);
    int status = device_alloc(MATRIX_BYTES, "a matrix", &blas.a, err) ||
                         device_alloc(MATRIX_BYTES, "a matrix", &blas.b, err) ||
                         device_alloc(MATRIX_BYTES, "a matrix", &blas.c, err) ||
                         fill_matrix(&seed, blas.a, err) || fill_matrix(&seed, blas.b, err)
                     ? -1
                     : 0;
    io_tensor_clear(&seed);
    return status;
}

int bench_gemm_open(bool *found_out, struct io_error *err)
{
    void *library = open_library();
    *found_out = library && !gpu_driver_symbol(library, "cublasCreate_v2", &blas.create) &&
                 !gpu_driver_symbol(library, "cublasDestroy_v2", &blas.destroy) &&
                 !gpu_driver_symbol(library, "cublasGemmEx", &blas.gemm);
    if (!*found_out) {
        return 0;
    }
    const int result = blas.create(&blas.handle);
    if (result) {
        blas.handle = NULL;
        return io_fail(err, "cublasCreate: error %d", result);
    }
    return make_matrices(err);
}

void bench_gemm_close(void)
{
    void **const matrices[] = {&blas.a, &blas.b, &blas.c};
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        device_free(*matrices[i]);
        *matrices[i] = NULL;
    }
    if (blas.handle) {
        (void)blas.destroy(blas.handle);
    }
    blas.handle = NULL;
}

int bench_gemm_start(struct io_error *err)
{
    const float one = 1.0f;
    const float zero = 0.0f;
    const int n = BENCH_GEMM_SIZE;
    const int result = blas.gemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, blas.a,
                                 CUDA_R_16BF, n, blas.b, CUDA_R_16BF, n, &zero, blas.c, CUDA_R_16BF,
                                 n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return result ? io_fail(err, "cublasGemmEx: error %d", result) : 0;
}
