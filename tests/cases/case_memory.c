// case_memory.c: see case_memory.h.
#define _DEFAULT_SOURCE // MAP_ANONYMOUS, MAP_NORESERVE
#include "case_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

fenced_t fenced_copy(const void *data, size_t bytes)
{
    const size_t page = page_bytes();
    const size_t room = (bytes + page - 1) / page * page;
    fenced_t fenced = {.memory_bytes = room + page};
    fenced.memory =
        mmap(NULL, fenced.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(fenced.memory != MAP_FAILED);
    fenced.data = fenced.memory + room - bytes;
    memcpy(fenced.data, data, bytes);
    assert_int_equal(mprotect(fenced.memory + room, page, PROT_NONE), 0);
    return fenced;
}

void fenced_close(const fenced_t *fenced, size_t bytes)
{
    const size_t before = (size_t)(fenced->data - fenced->memory);
    const size_t closed = (before + bytes) / page_bytes() * page_bytes();
    assert_int_equal(mprotect(fenced->memory, closed, PROT_NONE), 0);
}

void fenced_free(fenced_t *fenced)
{
    munmap(fenced->memory, fenced->memory_bytes);
}

void *sparse_create(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        printf("skipped: the system gives no %zu bytes of address space\n", bytes);
        skip();
    }
    return memory;
}

void sparse_free(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}
