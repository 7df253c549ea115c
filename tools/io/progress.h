// progress.h: a progress bar on a terminal, and silence everywhere else.
//
//     check   [##########..............]  42 %  1260/3000  eta 0:07
//
// Redrawn at most ten times a second, wiped at the end. Not for use from several threads at once.
#ifndef ATTN_TOOLS_IO_PROGRESS_H
#define ATTN_TOOLS_IO_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct io_progress {
    FILE *stream; // NULL: silent
    const char *label;
    int64_t total;
    double start_s;     // monotonic clock
    double last_draw_s; // monotonic clock
    bool drawn;
};

// Starts a bar on stream (usually stderr); silent unless stream is a terminal that can move its
// cursor (TERM set, not "dumb"). label is borrowed. total <= 0: unknown, shows the count only.
void io_progress_begin(struct io_progress *progress, FILE *stream, const char *label,
                       int64_t total);
void io_progress_update(struct io_progress *progress, int64_t done);
// Wipes the bar, so that what is printed next starts on a clean line.
void io_progress_end(struct io_progress *progress);

#endif
