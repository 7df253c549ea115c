// A test in a process of its own: the library asks for the driver, the compiler and its environment
// once per process, so each answer to that question needs a new one.
#ifndef ATTN_TESTS_CUDA_CHILD_H
#define ATTN_TESTS_CUDA_CHILD_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attn.h"

// In the child only: cmocka's asserts jump to the parent's runner.
#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition,         \
                    attn_last_error());                                                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHILD_SAYS(part)                                                                           \
    do {                                                                                           \
        if (strstr(attn_last_error(), (part)) == NULL) {                                           \
            fprintf(stderr, "%s:%d: '%s' does not say '%s'\n", __FILE__, __LINE__,                 \
                    attn_last_error(), (part));                                                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

// cmocka catches these to fail a test and go on with the next one, in the child too.
static inline void die_of_faults(void)
{
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        (void)signal(faults[i], SIG_DFL);
    }
}

// Runs body in a child with these variables set ("NAME=VALUE", NULL at the end).
static inline void in_child(void (*body)(void), const char *const *variables)
{
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        die_of_faults();
        for (size_t i = 0; variables[i] != NULL; i++) {
            (void)putenv((char *)(uintptr_t)variables[i]);
        }
        body();
        fflush(NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the child ended with status %#x", (unsigned)status);
    }
}

// Whether there is a kernel, or says why not. This process must not touch the GPU: its children
// could not use it then.
static inline bool child_supports(attn_desc_t desc, attn_op_t op)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const bool is_able = attn_supports(NULL, &desc, op) == ATTN_OK;
        if (!is_able) {
            printf("skipped: %s\n", attn_last_error());
            fflush(NULL);
        }
        _exit(is_able ? 0 : 77);
    }
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

#define IN_CHILD(body, ...) in_child((body), (const char *const[]){__VA_ARGS__, NULL})

#endif
