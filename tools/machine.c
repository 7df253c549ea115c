// machine.c: see machine.h. Reads /proc/cpuinfo and /sys/devices/system/cpu/cpu0/cache.
#include "machine.h"

#include <stdio.h>
#include <string.h>

// First line of a small file without its newline; "" if it cannot be read.
static void read_line(const char *path, char *text, int text_bytes)
{
    text[0] = 0;
    FILE *stream = fopen(path, "r");
    if (!stream) {
        return;
    }
    if (fgets(text, text_bytes, stream)) {
        text[strcspn(text, "\n")] = 0;
    } else {
        text[0] = 0;
    }
    fclose(stream);
}

static void read_processor(char *text, size_t text_bytes)
{
    char line[256];
    snprintf(text, text_bytes, "unknown");
    FILE *stream = fopen("/proc/cpuinfo", "r");
    if (!stream) {
        return;
    }
    while (fgets(line, sizeof(line), stream)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = 0;
            snprintf(text, text_bytes, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    fclose(stream);
}

void machine_read(struct machine *machine)
{
    memset(machine, 0, sizeof(*machine));
    read_processor(machine->processor, sizeof(machine->processor));
    for (int i = 0; i < MACHINE_MAX_CACHES; i++) {
        static const char folder[] = "/sys/devices/system/cpu/cpu0/cache/index";
        char path[128];
        char level[16];
        char type[32];
        char size[32];
        long long kib = 0;
        snprintf(path, sizeof(path), "%s%d/level", folder, i);
        read_line(path, level, sizeof(level));
        snprintf(path, sizeof(path), "%s%d/type", folder, i);
        read_line(path, type, sizeof(type));
        snprintf(path, sizeof(path), "%s%d/size", folder, i);
        read_line(path, size, sizeof(size));
        if (sscanf(size, "%lldK", &kib) == 1 && level[0]) {
            const char *suffix = type[0] == 'D' ? "d" : type[0] == 'I' ? "i" : "";
            snprintf(machine->caches[machine->n_caches].name, sizeof(machine->caches[0].name),
                     "L%.8s%s", level, suffix);
            machine->caches[machine->n_caches++].kib = kib;
        }
    }
}
