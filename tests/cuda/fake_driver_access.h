// The fake driver that the library has opened, as a test's child asks it.
#ifndef ATTN_TESTS_FAKE_DRIVER_ACCESS_H
#define ATTN_TESTS_FAKE_DRIVER_ACCESS_H

#include <dlfcn.h>

#include "child.h"
#include "fake_driver.h"

// The same driver that the library has opened.
static inline void *fake_symbol(const char *name)
{
    void *library = dlopen(FAKE_DRIVER_PATH, RTLD_NOW | RTLD_NOLOAD);
    CHILD_CHECK(library != NULL);
    void *symbol = dlsym(library, name);
    CHILD_CHECK(symbol != NULL);
    return symbol;
}

static inline struct fake_state *fake_state(void)
{
    struct fake_state *(*get)(void);
    void *symbol = fake_symbol("fake_state_get");
    memcpy(&get, &symbol, sizeof(get));
    return get();
}

static inline cu_context fake_context(int device, int is_primary)
{
    cu_context (*get)(int, int);
    void *symbol = fake_symbol("fake_context_of");
    memcpy(&get, &symbol, sizeof(get));
    return get(device, is_primary);
}

#endif
