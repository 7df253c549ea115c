// cmd_cache.c: attn cache, the compiled GPU kernels that this user has, or that a pack holds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attn.h"
#include "command.h"
#include "io/json_out.h"
#include "io/table.h"

struct cache_options {
    const char *pack;
    int64_t max_mib;
    bool json;
};

static const struct option cache_table[] = {
    {"pack", 0, OPTION_TEXT, offsetof(struct cache_options, pack), "FILE", 0, 0, NULL,
     "look at a pack instead of the folder (show, check)"},
    {"max-mib", 0, OPTION_INT, offsetof(struct cache_options, max_mib), "N", 0, 1e9, NULL,
     "size to trim to; default 256"},
    {"json", 0, OPTION_FLAG, offsetof(struct cache_options, json), NULL, 0, 0, NULL,
     "print as JSON"},
};

// What a walk over the kernels counts, and where it prints them.
struct walk {
    struct io_table *table;
    struct io_json *json;
    bool only_faults;
    int64_t kernels, bytes, faults;
};

static void show_json(struct walk *walk, const attn_kernel_info_t *kernel)
{
    io_json_object_begin(walk->json, NULL);
    io_json_string(walk->json, "file", kernel->file);
    io_json_string(walk->json, "kernel", kernel->fault ? NULL : kernel->name);
    io_json_string(walk->json, "arch", kernel->fault ? NULL : kernel->arch);
    io_json_integer(walk->json, "compiler", kernel->compiler);
    io_json_integer(walk->json, "bytes", kernel->bytes);
    io_json_integer(walk->json, "used", kernel->used_s);
    io_json_string(walk->json, "fault", kernel->fault);
    io_json_object_end(walk->json);
}

static void show_row(struct walk *walk, const attn_kernel_info_t *kernel)
{
    char used[32] = "";
    const time_t seconds = (time_t)kernel->used_s;
    const struct tm *date = localtime(&seconds);
    if (date) {
        strftime(used, sizeof(used), "%Y-%m-%d %H:%M", date);
    }
    io_table_cell(walk->table, "%s", kernel->fault ? kernel->file : kernel->name);
    io_table_cell(walk->table, "%s", kernel->arch);
    io_table_cell(walk->table, "%d.%d", kernel->compiler / 1000, kernel->compiler % 1000 / 10);
    io_table_cell(walk->table, "%lld", (long long)kernel->bytes);
    io_table_cell(walk->table, "%s", used);
    io_table_cell(walk->table, "%s", kernel->fault ? kernel->fault : "good");
}

static void visit(void *user, const attn_kernel_info_t *kernel)
{
    struct walk *walk = user;
    walk->kernels++;
    walk->bytes += kernel->bytes;
    walk->faults += kernel->fault != NULL;
    if (walk->only_faults && !kernel->fault) {
        return;
    }
    if (walk->json) {
        show_json(walk, kernel);
    } else {
        show_row(walk, kernel);
    }
}

static int fail_status(attn_status_t status, struct io_error *err)
{
    return io_fail(err, "%s: %s", attn_status_string(status), attn_last_error());
}

// The place's name: a pack's own, or the folder's, or why there is none.
static void place_of(const struct cache_options *options, char *text, size_t bytes)
{
    if (options->pack) {
        snprintf(text, bytes, "%s", options->pack);
    } else if (attn_runtime_text("cache", text, bytes) != ATTN_OK) {
        snprintf(text, bytes, "%s", attn_last_error());
    }
}

static int show_text(const struct cache_options *options, struct walk *walk, struct io_error *err)
{
    static const char *const columns[] = {"<kernel", "<arch",      "<NVRTC",
                                          ">bytes",  "<last used", "<state"};
    char place[4200];
    place_of(options, place, sizeof(place));
    if (io_table_create(&walk->table, 6, columns, err)) {
        return -1;
    }
    const attn_status_t status = attn_kernels_visit(options->pack, visit, walk);
    int failed = status ? fail_status(status, err) : 0;
    if (!failed && (walk->only_faults ? walk->faults : walk->kernels) > 0) {
        failed = io_table_print(walk->table, stdout, err);
    }
    if (!failed) {
        printf("%s: kernels %lld, bytes %lld, damaged %lld\n", place, (long long)walk->kernels,
               (long long)walk->bytes, (long long)walk->faults);
    }
    io_table_destroy(walk->table);
    return failed;
}

static int show_json_document(const struct cache_options *options, struct walk *walk,
                              struct io_error *err)
{
    struct io_json out;
    char place[4200];
    place_of(options, place, sizeof(place));
    walk->json = &out;
    io_json_begin(&out, stdout);
    io_json_object_begin(&out, NULL);
    io_json_string(&out, "place", place);
    io_json_array_begin(&out, "kernels");
    const attn_status_t status = attn_kernels_visit(options->pack, visit, walk);
    io_json_array_end(&out);
    io_json_integer(&out, "count", walk->kernels);
    io_json_integer(&out, "bytes", walk->bytes);
    io_json_integer(&out, "damaged", walk->faults);
    io_json_object_end(&out);
    const int failed = io_json_finish(&out, "standard output", err);
    return status ? fail_status(status, err) : failed;
}

static int trim(const struct cache_options *options, struct io_error *err)
{
    int64_t removed;
    const attn_status_t status = attn_cache_trim(options->max_mib << 20, &removed);
    if (status) {
        return fail_status(status, err);
    }
    if (!options->json) {
        printf("removed %lld\n", (long long)removed);
        return 0;
    }
    struct io_json out;
    io_json_begin(&out, stdout);
    io_json_object_begin(&out, NULL);
    io_json_integer(&out, "removed", removed);
    io_json_object_end(&out);
    return io_json_finish(&out, "standard output", err);
}

int cmd_cache(int argc, char **argv)
{
    struct cache_options options = {.max_mib = 256};
    struct command_line line = {
        .usage = "attn cache [show|check|trim] [options]",
        .description =
            "The GPU kernels that were compiled for this user. show lists them, check\n"
            "lists those that are damaged and has exit status 1 if there are any, trim\n"
            "removes damaged ones and then the longest unused. The folder is ATTN_CACHE,\n"
            "else XDG_CACHE_HOME/libattn, else HOME/.cache/libattn; ATTN_CACHE=off keeps\n"
            "kernels in memory only.",
        .examples = "  attn cache\n"
                    "  attn cache check --pack kernels.pack\n"
                    "  attn cache trim --max-mib 64\n",
        .max_positional = 1,
    };
    options_add_group(&line, "Options", cache_table, OPTIONS_COUNT(cache_table), &options);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    const char *verb = line.n_positional ? line.positional[0] : "show";
    struct io_error err = {{0}};
    struct walk walk = {.only_faults = strcmp(verb, "check") == 0};
    int status;
    if (strcmp(verb, "trim") == 0 && options.pack) {
        status = io_fail(&err, "--pack: a pack is not trimmed; make a new one");
    } else if (strcmp(verb, "trim") == 0) {
        status = trim(&options, &err);
    } else if (strcmp(verb, "show") == 0 || walk.only_faults) {
        status = options.json ? show_json_document(&options, &walk, &err)
                              : show_text(&options, &walk, &err);
    } else {
        status = io_fail(&err, "'%s': expected show, check or trim", verb);
    }
    if (status) {
        return command_fail("cache", &err);
    }
    return command_end("cache",
                       walk.only_faults && walk.faults ? COMMAND_CHECK_FAILED : COMMAND_OK);
}
