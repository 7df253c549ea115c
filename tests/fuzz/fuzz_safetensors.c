// fuzz_safetensors.c: any bytes as a .safetensors file. All tensors of what is accepted are read,
// and written to a copy that must be accepted, too.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

// The copy holds the same tensors, in the writer's own layout. It may refuse odd names.
static void check_copy(const struct io_tensor *tensors, size_t n)
{
    char *copy = NULL;
    size_t copy_bytes = 0;
    struct io_error err;
    struct io_safetensors *file = NULL;
    FILE *stream = open_memstream(&copy, &copy_bytes);
    require(stream != NULL);
    const int refused = io_safetensors_write(stream, "copy", tensors, n, NULL, 0, &err);
    require(fclose(stream) == 0);
    if (!refused) {
        require(io_safetensors_parse(copy, copy_bytes, "copy", &file, &err) == 0);
        require(io_safetensors_count(file) == n);
        for (size_t i = 0; i < n; i++) {
            struct io_tensor back;
            require(io_safetensors_read(file, tensors[i].name, &back, &err) == 0);
            require(back.dtype == tensors[i].dtype && back.ndim == tensors[i].ndim);
            require(memcmp(back.shape, tensors[i].shape, sizeof(back.shape)) == 0);
            require(back.bytes == tensors[i].bytes);
            require(memcmp(back.data, tensors[i].data, back.bytes) == 0);
            io_tensor_clear(&back);
        }
        io_safetensors_close(file);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *image, size_t image_bytes)
{
    struct io_error err = {0};
    struct io_safetensors *file = NULL;
    if (io_safetensors_parse(image, image_bytes, "fuzz", &file, &err)) {
        require(file == NULL && strncmp(err.text, "fuzz: ", 6) == 0);
        return 0;
    }
    const size_t n = io_safetensors_count(file);
    struct io_tensor *tensors = calloc(n + 1, sizeof(*tensors));
    require(tensors != NULL);
    size_t n_read = 0;
    size_t total_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct io_safetensors_entry *entry = io_safetensors_entry_at(file, i);
        struct io_tensor *tensor = &tensors[n_read];
        if (io_safetensors_read(file, entry->name, tensor, &err)) {
            require(entry->dtype == IO_DTYPE_NONE);
            continue;
        }
        require(tensor->bytes == entry->bytes);
        total_bytes += tensor->bytes;
        n_read++;
    }
    require(total_bytes <= image_bytes); // no byte belongs to two tensors
    (void)io_safetensors_metadata(file, "format");
    check_copy(tensors, n_read);
    for (size_t i = 0; i < n_read; i++) {
        io_tensor_clear(&tensors[i]);
    }
    free(tensors);
    io_safetensors_close(file);
    return 0;
}
