// fuzz_npy.c: any bytes as an .npy file. What is accepted must survive writing and reading again.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

// Written once, the tensor must read back equal.
static void check_round_trip(const struct io_tensor *tensor, const struct io_npy_options *options)
{
    char *copy = NULL;
    size_t copy_bytes = 0;
    struct io_error err;
    struct io_tensor back;
    FILE *stream = open_memstream(&copy, &copy_bytes);
    require(stream != NULL);
    require(io_npy_write(stream, "copy", tensor, &err) == 0);
    require(fclose(stream) == 0);
    require(io_npy_parse(copy, copy_bytes, "copy", options, &back, &err) == 0);
    require(back.dtype == tensor->dtype && back.ndim == tensor->ndim);
    require(memcmp(back.shape, tensor->shape, sizeof(back.shape)) == 0);
    require(back.bytes == tensor->bytes && memcmp(back.data, tensor->data, back.bytes) == 0);
    io_tensor_clear(&back);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes)
{
    static const struct io_npy_options options = {.void1 = IO_F8E4M3, .void2 = IO_BF16};
    struct io_error err = {0};
    struct io_tensor tensor;
    if (io_npy_parse(image, image_bytes, "fuzz", &options, &tensor, &err)) {
        require(strncmp(err.text, "fuzz: ", 6) == 0);
        return 0;
    }
    require(tensor.bytes < image_bytes); // never more than the file holds
    double sum = 0;
    for (int64_t i = 0; i < tensor.count; i++) {
        sum += io_tensor_get(&tensor, i);
    }
    volatile double sink = sum; // keeps the reads
    (void)sink;
    if (tensor.dtype != IO_F8E5M2) { // V1 reads back as e4m3 with these options
        check_round_trip(&tensor, &options);
    }
    io_tensor_clear(&tensor);
    return 0;
}
