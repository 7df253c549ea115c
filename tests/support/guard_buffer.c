// See guard_buffer.h.
#include "guard_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define GUARD_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARD_POISON 1
#endif
#endif
#ifdef GUARD_POISON
#include <sanitizer/asan_interface.h>
#endif

#define GUARD_BYTES ((size_t)256)
#define GUARD_VALUE 0xa5
#define FILL_VALUE 0xff

static size_t head_bytes(const guard_buffer_t *buffer)
{
    return (size_t)(buffer->data - buffer->memory);
}

static void guards_poison(const guard_buffer_t *buffer)
{
#ifdef GUARD_POISON
    ASAN_POISON_MEMORY_REGION(buffer->memory, head_bytes(buffer));
    ASAN_POISON_MEMORY_REGION(buffer->data + buffer->bytes, GUARD_BYTES);
#else
    (void)buffer;
#endif
}

static void guards_unpoison(const guard_buffer_t *buffer)
{
#ifdef GUARD_POISON
    ASAN_UNPOISON_MEMORY_REGION(buffer->memory, head_bytes(buffer));
    ASAN_UNPOISON_MEMORY_REGION(buffer->data + buffer->bytes, GUARD_BYTES);
#else
    (void)buffer;
#endif
}

guard_buffer_t guard_buffer_create(size_t bytes, size_t misalign)
{
    guard_buffer_t buffer = {.bytes = bytes};
    const size_t all = (bytes + 3 * GUARD_BYTES + misalign) / 64 * 64 + 64;
    buffer.memory = aligned_alloc(64, all);
    if (buffer.memory == NULL) {
        fprintf(stderr, "guard_buffer_create: no memory for %zu bytes\n", all);
        abort();
    }
    buffer.data = buffer.memory + GUARD_BYTES + misalign;
    memset(buffer.memory, GUARD_VALUE, head_bytes(&buffer));
    memset(buffer.data + bytes, GUARD_VALUE, GUARD_BYTES);
    memset(buffer.data, FILL_VALUE, bytes);
    guards_poison(&buffer);
    return buffer;
}

void guard_buffer_destroy(guard_buffer_t *buffer)
{
    if (buffer->memory != NULL) {
        guards_unpoison(buffer);
        free(buffer->memory);
    }
    memset(buffer, 0, sizeof(*buffer));
}

bool guard_buffer_is_fill(const guard_buffer_t *buffer, size_t at, size_t count)
{
    for (size_t n = at; n < at + count; n++) {
        if (buffer->data[n] != FILL_VALUE) {
            return false;
        }
    }
    return true;
}

static bool holds_guard(const unsigned char *bytes, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        if (bytes[n] != GUARD_VALUE) {
            return false;
        }
    }
    return true;
}

bool guard_buffer_intact(const guard_buffer_t *buffer)
{
    if (buffer->memory == NULL) {
        return true;
    }
    guards_unpoison(buffer);
    const bool intact = holds_guard(buffer->memory, head_bytes(buffer)) &&
                        holds_guard(buffer->data + buffer->bytes, GUARD_BYTES);
    guards_poison(buffer);
    return intact;
}
