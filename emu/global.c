// Global memory: every pointer must lie in a buffer that the launch registered; loads, stores,
// reductions. Atomics are atomic because one thread runs at a time.
#define KERNEL_WITHOUT_SITES
#include "global.h"
#include "../src/device/ptx/memory_ops.h"
#include "count.h"

void check_global(const void *p, uint64_t bytes, bool write, const char *instruction)
{
    uintptr_t address = (uintptr_t)p;
    for (uint32_t i = 0; i < machine.launch.buffer_count; i++) {
        const struct emu_buffer *buffer = &machine.launch.buffers[i];
        uintptr_t begin = (uintptr_t)buffer->data;
        if (address < begin || address >= begin + buffer->bytes) {
            continue;
        }
        if (bytes > buffer->bytes - (address - begin)) {
            emu_fail(EMU_FAULT,
                     "%s of %llu bytes at offset %llu of buffer '%s', which has %llu bytes",
                     instruction, (unsigned long long)bytes, (unsigned long long)(address - begin),
                     buffer->name, (unsigned long long)buffer->bytes);
        }
        if (write && !buffer->writable) {
            emu_fail(EMU_FAULT, "%s writes to buffer '%s', which is for reading", instruction,
                     buffer->name);
        }
        return;
    }
    emu_fail(EMU_FAULT, "%s at global address %p, which is in no registered buffer", instruction,
             p);
}

void check_global_alignment(const void *p, uint32_t bytes, const char *instruction)
{
    if ((uintptr_t)p % bytes) {
        emu_fail(EMU_FAULT, "%s at global address %p: not %u-byte aligned", instruction, p, bytes);
    }
}

static void load(void *r, const void *p, uint32_t bytes)
{
    check_global_alignment(p, bytes, "ld.global");
    check_global_access(p, bytes, thread_global_access(ACCESS_LD_GLOBAL, GLOBAL_READ, SCOPE_CTA));
    memcpy(r, p, bytes);
    count_global(bytes);
    leave_site();
}

static void store(void *p, const void *r, uint32_t bytes)
{
    check_global_alignment(p, bytes, "st.global");
    check_global_access(p, bytes, thread_global_access(ACCESS_ST_GLOBAL, GLOBAL_WRITE, SCOPE_CTA));
    flags_overwritten(p, bytes);
    memcpy(p, r, bytes);
    count_global(bytes);
    leave_site();
}

uint32_t ld_global_u8(const void *p)
{
    uint8_t r;
    load(&r, p, sizeof r);
    return r;
}

uint32_t ld_global_u16(const void *p)
{
    uint16_t r;
    load(&r, p, sizeof r);
    return r;
}

uint32_t ld_global_u32(const void *p)
{
    uint32_t r;
    load(&r, p, sizeof r);
    return r;
}

float ld_global_f32(const void *p)
{
    float r;
    load(&r, p, sizeof r);
    return r;
}

void ld_global_v4_u32(uint32_t *r, const void *p)
{
    load(r, p, 16);
}

void st_global_u8(void *p, uint32_t value)
{
    uint8_t byte = (uint8_t)value;
    store(p, &byte, sizeof byte);
}

void st_global_u16(void *p, uint32_t value)
{
    uint16_t half = (uint16_t)value;
    store(p, &half, sizeof half);
}

void st_global_u32(void *p, uint32_t value)
{
    store(p, &value, sizeof value);
}

void st_global_f32(void *p, float value)
{
    store(p, &value, sizeof value);
}

void st_global_v2_f32(void *p, float x, float y)
{
    const float pair[2] = {x, y};
    store(p, pair, sizeof pair);
}

void st_global_v4_u32(void *p, const uint32_t *r)
{
    store(p, r, 16);
}

void red_global_add_f32(void *p, float value)
{
    check_global_alignment(p, sizeof value, "red.global");
    atomic_order(p, ACCESS_RED_GLOBAL, RELAXED, SCOPE_GPU);
    count_global(sizeof value);
    global_reduce_add(p, (const uint8_t *)&value, sizeof value, EMU_F32);
    leave_site();
}

static void add_element(uint8_t *global, const uint8_t *shared, emu_element element)
{
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t size = element_bytes(element);
    memcpy(&a, global, size);
    memcpy(&b, shared, size);
    if (element == EMU_F32) {
        float x;
        float y;
        memcpy(&x, &a, sizeof x);
        memcpy(&y, &b, sizeof y);
        x += y;
        memcpy(&a, &x, sizeof a);
    } else if (element == EMU_F16) {
        a = f16_from_f32(f32_from_f16((uint16_t)a) + f32_from_f16((uint16_t)b));
    } else if (element == EMU_BF16) {
        a = bf16_from_f32(f32_from_bf16((uint16_t)a) + f32_from_bf16((uint16_t)b));
    } else {
        a += b;
    }
    memcpy(global, &a, size);
}

void global_reduce_add(uint8_t *global, const uint8_t *shared, uint32_t bytes, emu_element element)
{
    for (uint32_t at = 0; at < bytes; at += element_bytes(element)) {
        add_element(global + at, shared + at, element);
    }
}
