// cmd_view.c: attn view, pictures of attention maps and masks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_map.h"
#include "command.h"
#include "launch.h"
#include "problem.h"
#include "view_canvas.h"
#include "view_map.h"

struct view_options {
    struct problem_options problem;
    const char *out, *tokens, *key_tokens, *title;
    int64_t head, sequence;
    bool linear;
};

#define FIELD(member) offsetof(struct view_options, member)

static const struct option view_table[] = {
    {"out", 'o', OPTION_TEXT, FIELD(out), "FILE", 0, 0, NULL, "the picture, .svg or .png"},
    {"head", 0, OPTION_INT, FIELD(head), "N", 0, 1e9, NULL, "map: which query head, from 0"},
    {"sequence", 0, OPTION_INT, FIELD(sequence), "N", 0, 1e9, NULL,
     "map: which sequence of the batch, from 0"},
    {"tokens", 0, OPTION_TEXT, FIELD(tokens), "FILE", 0, 0, NULL,
     "map: labels of the rows, one a line; also of the keys if there are as many"},
    {"key-tokens", 0, OPTION_TEXT, FIELD(key_tokens), "FILE", 0, 0, NULL,
     "map: labels of the keys"},
    {"title", 0, OPTION_TEXT, FIELD(title), "TEXT", 0, 0, NULL, "instead of the problem's shape"},
    {"linear", 0, OPTION_FLAG, FIELD(linear), NULL, 0, 0, NULL,
     "map: colours follow the weight itself, not its square root"},
};

// ------------------------------------------------------------------------------------------------
// Attention map

static int read_labels(const char *path, int64_t expected, struct view_labels *labels,
                       struct io_error *err)
{
    if (view_labels_read(path, labels, err)) {
        return -1;
    }
    if (labels->n != expected) {
        return io_fail(err, "%s: %lld lines, the map has %lld", path, (long long)labels->n,
                       (long long)expected);
    }
    return 0;
}

static int draw_map(const struct view_options *options, const struct attention_map *map,
                    const char *title, struct io_error *err)
{
    struct view_map_style style = {.title = title, .linear = options->linear};
    const char *key_tokens = options->key_tokens                         ? options->key_tokens
                             : options->tokens && map->rows == map->keys ? options->tokens
                                                                         : NULL;
    int status = 0;
    if (options->tokens) {
        status = read_labels(options->tokens, map->rows, &style.row_labels, err);
    }
    if (!status && key_tokens) {
        status = read_labels(key_tokens, map->keys, &style.key_labels, err);
    }
    status = status ? status : view_map_save(options->out, map, &style, err);
    view_labels_destroy(&style.row_labels);
    view_labels_destroy(&style.key_labels);
    return status;
}

static int view_map(const struct view_options *options, bool *disagrees_out, struct io_error *err)
{
    struct problem_options inputs = options->problem;
    struct problem problem = {0};
    struct attention_map map = {0};
    attn_context_t *context = NULL;
    char title[320];
    char shape[256];
    // The weights do not depend on v: k may stand in for it.
    if (!inputs.v && !inputs.input) {
        inputs.v = inputs.k;
    }
    int status = problem_create(&problem, &inputs, false, err);
    status = status ? status : problem_add_forward_results(&problem, err);
    status = status ? status : launch_context(&inputs, &context, err);
    // The library checks lengths and tables before our own code walks them.
    status = status ? status : launch_once(context, &problem, ATTN_FORWARD, NULL, err);
    if (!status) {
        status = attention_map_create(&problem, options->sequence, options->head, &map, err);
    }
    if (!status) {
        status = attention_map_verify(&map, &problem, options->sequence, options->head, err);
        *disagrees_out = status != 0;
    }
    if (!status) {
        problem_title(&problem, shape, sizeof(shape));
        snprintf(title, sizeof(title), "sequence %lld, head %lld of: %s",
                 (long long)options->sequence, (long long)options->head, shape);
        status = draw_map(options, &map, options->title ? options->title : title, err);
    }
    if (!status) {
        printf("%s: %lld rows x %lld keys, largest weight %.4g; lse agrees with the library\n",
               options->out, (long long)map.rows, (long long)map.keys, (double)map.largest);
    }
    attention_map_destroy(&map);
    attn_context_destroy(context);
    problem_destroy(&problem);
    return status;
}

// ------------------------------------------------------------------------------------------------
// Mask

static int get_tiles(attn_context_t *context, const attn_desc_t *desc, attn_tile_map_t *map,
                     uint8_t **tiles_out, struct io_error *err)
{
    attn_status_t status = attn_tile_map(context, desc, map, NULL, 0);
    if (status) {
        return io_fail(err, "%s: %s", attn_status_string(status), attn_last_error());
    }
    enum { MAX_TILES = 1 << 24 };
    if (map->rows > MAX_TILES || map->cols > MAX_TILES || map->rows * map->cols > MAX_TILES) {
        return io_fail(err, "%lld x %lld tiles: too many for a picture", (long long)map->rows,
                       (long long)map->cols);
    }
    const size_t bytes = (size_t)(map->rows * map->cols);
    *tiles_out = malloc(bytes + 1);
    if (!*tiles_out) {
        return io_fail(err, "out of memory for %zu tiles", bytes);
    }
    status = attn_tile_map(context, desc, map, *tiles_out, bytes);
    if (status) {
        return io_fail(err, "%s: %s", attn_status_string(status), attn_last_error());
    }
    return 0;
}

static int view_mask(const struct view_options *options, struct io_error *err)
{
    struct problem problem = {0};
    attn_context_t *context = NULL;
    attn_tile_map_t map = {0};
    uint8_t *tiles = NULL;
    char title[256];
    int status = problem_create(&problem, &options->problem, true, err);
    status = status ? status : launch_context(&options->problem, &context, err);
    status = status ? status : get_tiles(context, &problem.desc, &map, &tiles, err);
    if (!status) {
        problem_title(&problem, title, sizeof(title));
        status = view_tiles_save(options->out, &map, tiles, &problem.desc,
                                 options->title ? options->title : title, err);
    }
    if (!status) {
        printf("%s: %lld x %lld tiles of %lld rows x %lld keys\n", options->out,
               (long long)map.rows, (long long)map.cols, (long long)map.tile_q,
               (long long)map.tile_kv);
    }
    free(tiles);
    attn_context_destroy(context);
    problem_destroy(&problem);
    return status;
}

int cmd_view(int argc, char **argv)
{
    struct view_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn view map|mask -o FILE.svg|FILE.png [options]",
        .description =
            "map:  the attention weights of one head, computed from q and k with all the options\n"
            "      below except dropout; keys that a row does not see are grey. The row sums are\n"
            "      compared with the library's. At most 4096 rows and keys.\n"
            "mask: which tiles of the score matrix the kernel skips, masks or takes in full. "
            "Needs\n"
            "      no operands.",
        .examples =
            "  attn view map --q q.npy --k k.npy --head 3 --causal -o map.png\n"
            "  attn view map -i minilm.safetensors:layer3. --head 0 --tokens tokens.txt -o m.svg\n"
            "  attn view mask --seqlen 4096 --causal -o mask.svg\n"
            "  attn view mask --seqlen 1024,4096 --window 512,0 -o mask.png\n",
        .max_positional = 1,
    };
    options_add_group(&line, "Picture", view_table, OPTIONS_COUNT(view_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_ALL);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    const char *what = line.n_positional ? line.positional[0] : "";
    const bool is_map = strcmp(what, "map") == 0;
    bool disagrees = false;
    int status = 0;
    if (!is_map && strcmp(what, "mask") != 0) {
        status = io_fail(&err, "'%s': say what to draw, map or mask", what);
    } else if (!options.out || view_format_of(options.out) == VIEW_NONE) {
        status = io_fail(&err, "give --out FILE.svg or FILE.png");
    } else {
        status = is_map ? view_map(&options, &disagrees, &err) : view_mask(&options, &err);
    }
    if (status) {
        status = command_fail("view", &err);
        return disagrees ? COMMAND_CHECK_FAILED : status;
    }
    return command_end("view", COMMAND_OK);
}
