// Fibers: a stack for each CUDA thread, and the switch between them.
//
// A switch saves what the calling convention wants kept, exchanges stack pointers and returns on
// the other stack: about 15 instructions. (ucontext would do the same but for a system call each
// time, some 50 times slower.) A fiber is always entered from the scheduler and leaves to it. After
// an error it is simply never entered again.
#include "state.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum {
#ifdef FIBER_ASAN
    STACK_BYTES = 256 * 1024 // red zones and fake frames need more
#else
    STACK_BYTES = 64 * 1024
#endif
};

void emu_switch(void **save, void *load);

#if defined(__x86_64__)
enum { SAVED_WORDS = 6, ENTRY_WORD = 6 };
__asm__(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size emu_switch,.-emu_switch\n");
#elif defined(__aarch64__)
// x19 to x30 (x30 is where to return to) and the low halves of v8 to v15.
enum { SAVED_WORDS = 20, ENTRY_WORD = 11 };
__asm__(".text\n.globl emu_switch\n.type emu_switch,%function\nemu_switch:\n"
        "sub sp,sp,#160\n"
        "stp x19,x20,[sp,#0]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp,#0]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "add sp,sp,#160\nret\n"
        ".size emu_switch,.-emu_switch\n");
#else
#error "the emulator's fiber switch is written for x86-64 and aarch64"
#endif

static size_t stack_count(void)
{
    return (size_t)machine.cluster_size * machine.launch.threads;
}

bool fibers_create(struct cluster *cluster)
{
    cluster->fibers = calloc(stack_count(), sizeof *cluster->fibers);
    if (!cluster->fibers) {
        return false;
    }
    void *stacks = mmap(NULL, stack_count() * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        free(cluster->fibers);
        cluster->fibers = NULL;
        return false;
    }
    for (size_t i = 0; i < stack_count(); i++) {
        cluster->fibers[i].stack = (uint8_t *)stacks + i * STACK_BYTES;
    }
    return true;
}

void fibers_destroy(struct cluster *cluster)
{
    if (cluster->fibers) {
#ifdef FIBER_ASAN
        __asan_unpoison_memory_region(cluster->fibers[0].stack, stack_count() * STACK_BYTES);
#endif
        munmap(cluster->fibers[0].stack, stack_count() * STACK_BYTES);
        free(cluster->fibers);
        cluster->fibers = NULL;
    }
}

static void arrived_in_fiber(void)
{
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(machine.current->sanitizer_stack, NULL, NULL);
#endif
}

void fiber_leave(void)
{
    struct fiber *fiber = machine.current;
#ifdef FIBER_ASAN
    // The main stack's bounds are what finish_switch_fiber told at the last entry; NULL lets it
    // look them up.
    extern const void *emu_main_stack_bottom;
    extern size_t emu_main_stack_bytes;
    __sanitizer_start_switch_fiber(&fiber->sanitizer_stack, emu_main_stack_bottom,
                                   emu_main_stack_bytes);
#endif
    emu_switch(&fiber->stack_pointer, machine.main_stack_pointer);
    arrived_in_fiber();
}

#ifdef FIBER_ASAN
const void *emu_main_stack_bottom;
size_t emu_main_stack_bytes;
#endif

static void fiber_main(void)
{
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, &emu_main_stack_bottom, &emu_main_stack_bytes);
#endif
    machine.launch.entry(machine.launch.params);
    wgmma_thread_end();
    copies_thread_end();
    tmem_thread_end();
    if (machine.current->bulk.open ||
        machine.current->bulk.complete < machine.current->bulk.committed) {
        emu_fail(EMU_FAULT, "the thread ended without waiting for its bulk stores");
    }
    machine.current->wait = FINISHED;
    for (;;) {
        fiber_leave();
    }
}

// Tops of stacks are staggered: at equal distances all threads' frames would fall into the same
// cache sets.
void fiber_prepare(struct fiber *fiber)
{
#ifdef FIBER_ASAN
    __asan_unpoison_memory_region(fiber->stack, STACK_BYTES);
#endif
    uintptr_t top = (uintptr_t)fiber->stack + STACK_BYTES - 64 - fiber->thread % 61 * 192;
    void **sp = (void **)(top & ~(uintptr_t)15);
#if defined(__x86_64__)
    *--sp = NULL; // keeps the stack aligned as after a call
    *--sp = (void *)(uintptr_t)fiber_main;
    sp -= SAVED_WORDS;
#else
    sp -= SAVED_WORDS;
    sp[ENTRY_WORD] = (void *)(uintptr_t)fiber_main;
#endif
    fiber->stack_pointer = sp;
    fiber->sanitizer_stack = NULL;
}

void fiber_run(struct fiber *fiber)
{
    machine.current = fiber;
    machine.result->switches++;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&machine.main_sanitizer_stack, fiber->stack, STACK_BYTES);
#endif
    emu_switch(&machine.main_stack_pointer, fiber->stack_pointer);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(machine.main_sanitizer_stack, NULL, NULL);
#endif
    machine.current = NULL;
}
