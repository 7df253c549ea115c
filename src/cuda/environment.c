// Environment variables: see environment.h.
#include "environment.h"

#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/auxv.h>
#endif

static int has_more_rights(void)
{
#ifdef __linux__
    // Also true for capabilities that the program file brings.
    if (getauxval(AT_SECURE) != 0) {
        return 1;
    }
#endif
    return getuid() != geteuid() || getgid() != getegid();
}

const char *attn_environment(const char *name)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' || has_more_rights() ? NULL : value;
}
