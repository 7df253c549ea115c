// struct_size at work: how a program compiled against one header and a library of another version
// understand each other. Fields are only ever appended, 0 is the value of "not used" for every
// appended one, and struct_size tells where the caller's knowledge ends.
#include "import.h"

#include <string.h>

#include "status.h"

// No header's struct is near; larger values come from memory that no *_init function has seen.
#define STRUCT_BYTES_MAX 4096u

static attn_status_t check_struct_size(const char *name, size_t size)
{
    ATTN_RETURN_IF(size < 2 * sizeof(size_t) || size > STRUCT_BYTES_MAX, ATTN_INVALID_ARGUMENT,
                   "%s.struct_size: %zu, fill the struct with its *_init function first", name,
                   size);
    return ATTN_OK;
}

// Copies size bytes into the room of bytes; the excess must be 0.
static attn_status_t import_bytes(const char *name, void *destination, size_t bytes,
                                  const void *source, size_t size)
{
    const unsigned char *from = source;
    for (size_t i = bytes; i < size; i++) {
        ATTN_RETURN_IF(from[i] != 0, ATTN_UNSUPPORTED,
                       "%s: sets a field at byte %zu that version %s does not know", name, i,
                       attn_version_string());
    }
    memcpy(destination, source, size < bytes ? size : bytes);
    return ATTN_OK;
}

attn_status_t attn_import(const char *name, void *destination, size_t bytes, const void *source)
{
    ATTN_RETURN_IF(source == NULL, ATTN_INVALID_ARGUMENT, "%s: NULL", name);
    size_t size;
    memcpy(&size, source, sizeof(size));
    ATTN_FORWARD_ERROR(check_struct_size(name, size));
    ATTN_FORWARD_ERROR(import_bytes(name, destination, bytes, source, size));
    memcpy(destination, &bytes, sizeof(bytes));
    return ATTN_OK;
}

void attn_export(void *destination, size_t size, const void *full, size_t bytes)
{
    if (size < sizeof(size)) {
        return;
    }
    memset(destination, 0, size);
    memcpy(destination, full, size < bytes ? size : bytes);
    memcpy(destination, &size, sizeof(size));
}

attn_status_t attn_import_forward_args(attn_forward_args_t *destination,
                                       const attn_forward_args_t *source)
{
    attn_forward_args_init(destination);
    return attn_import("args", destination, sizeof(*destination), source);
}

attn_status_t attn_import_backward_args(attn_backward_args_t *destination,
                                        const attn_backward_args_t *source)
{
    attn_backward_args_init(destination);
    ATTN_RETURN_IF(source == NULL, ATTN_INVALID_ARGUMENT, "args: NULL");
    const size_t in_begin = offsetof(attn_backward_args_t, in);
    ATTN_FORWARD_ERROR(check_struct_size("args", source->struct_size));
    ATTN_RETURN_IF(source->struct_size < in_begin + sizeof(size_t), ATTN_INVALID_ARGUMENT,
                   "args.struct_size: %zu, too small", source->struct_size);
    const size_t in_bytes = source->in.struct_size;
    ATTN_FORWARD_ERROR(check_struct_size("args.in", in_bytes));
    ATTN_RETURN_IF(in_bytes > source->struct_size - in_begin, ATTN_INVALID_ARGUMENT,
                   "args.in.struct_size: %zu, more than args.struct_size %zu allows", in_bytes,
                   source->struct_size);
    ATTN_FORWARD_ERROR(
        attn_import("args.in", &destination->in, sizeof(destination->in), &source->in));

    const size_t rest_begin = in_begin + sizeof(destination->in);
    return import_bytes("args", (unsigned char *)destination + rest_begin,
                        sizeof(*destination) - rest_begin,
                        (const unsigned char *)source + in_begin + in_bytes,
                        source->struct_size - in_begin - in_bytes);
}
