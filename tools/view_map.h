// view_map.h: pictures of an attention map and of a mask's tiles.
#ifndef ATTN_TOOLS_VIEW_MAP_H
#define ATTN_TOOLS_VIEW_MAP_H

#include "attention_map.h"
#include "attn.h"

// The lines of a text file, as labels. NULL lines: none.
struct view_labels {
    char **lines;
    int64_t n;
};
int view_labels_read(const char *path, struct view_labels *labels, struct io_error *err);
void view_labels_destroy(struct view_labels *labels);

struct view_map_style {
    const char *title;
    struct view_labels row_labels, key_labels; // counts match the map's, or NULL lines
    bool linear; // colours follow the weight itself, not its square root
};

// An .svg has at most VIEW_SVG_MAX_CELLS cells.
enum { VIEW_SVG_MAX_CELLS = 512 * 512 };
int view_map_save(const char *path, const struct attention_map *map,
                  const struct view_map_style *style, struct io_error *err);

// tiles: map->rows x map->cols of 0 skipped, 1 partial, 2 full.
int view_tiles_save(const char *path, const attn_tile_map_t *map, const uint8_t *tiles,
                    const attn_desc_t *desc, const char *title, struct io_error *err);

#endif
