// progress.c: the progress bar.
#define _DEFAULT_SOURCE
#include "progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { BAR_MAX_CELLS = 30, BAR_MIN_CELLS = 5, DEFAULT_COLUMNS = 80 };
static const double redraw_s = 0.1;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int terminal_columns(FILE *stream)
{
    struct winsize size;
    const int failed = ioctl(fileno(stream), TIOCGWINSZ, &size);
    return !failed && size.ws_col > 0 ? size.ws_col : DEFAULT_COLUMNS;
}

void io_progress_begin(struct io_progress *progress, FILE *stream, const char *label, int64_t total)
{
    const char *term = getenv("TERM");
    const bool can_move = term && *term && strcmp(term, "dumb") != 0;
    const bool shows = stream && isatty(fileno(stream)) && can_move;
    const double now = now_s();
    // Counting the start as a draw keeps work of less than redraw_s from flashing a bar.
    *progress = (struct io_progress){.stream = shows ? stream : NULL,
                                     .label = label,
                                     .total = total,
                                     .start_s = now,
                                     .last_draw_s = now};
}

// "0:07" or "1:02:03"; "-:--" while unknown.
static void format_eta(double seconds, char *text, size_t text_bytes)
{
    if (!(seconds >= 0 && seconds < 360000)) {
        snprintf(text, text_bytes, "-:--");
        return;
    }
    const int whole = (int)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(text, text_bytes, "%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, text_bytes, "%d:%02d", whole / 60, whole % 60);
    }
}

static void draw(struct io_progress *progress, int64_t done, double elapsed_s)
{
    const double share = (double)done / (double)progress->total;
    char eta[32];
    format_eta(done > 0 ? elapsed_s * (1.0 - share) / share : -1.0, eta, sizeof(eta));
    char tail[96];
    const int tail_bytes =
        snprintf(tail, sizeof(tail), "%3d %%  %lld/%lld  eta %s", (int)(100.0 * share),
                 (long long)done, (long long)progress->total, eta);
    // A line that wraps could not be wiped, so the bar, then the label, give way.
    const int columns = terminal_columns(progress->stream) - 1;
    const int label_bytes = (int)strlen(progress->label);
    const int room = columns - label_bytes - tail_bytes - 4; // "label [bar] tail"
    const int cells = room > BAR_MAX_CELLS ? BAR_MAX_CELLS : room;
    if (cells < BAR_MIN_CELLS) {
        fprintf(progress->stream, "\r%.*s\x1b[K", columns, tail);
        return;
    }
    static const char full[] = "##############################";
    static const char empty[] = "..............................";
    const int filled = (int)(share * cells);
    fprintf(progress->stream, "\r%s [%.*s%.*s] %s\x1b[K", progress->label, filled, full,
            cells - filled, empty, tail);
}

void io_progress_update(struct io_progress *progress, int64_t done)
{
    if (!progress->stream) {
        return;
    }
    const double now = now_s();
    const bool is_last = progress->total > 0 && done >= progress->total;
    if (now - progress->last_draw_s < redraw_s && !(is_last && progress->drawn)) {
        return;
    }
    progress->last_draw_s = now;
    progress->drawn = true;
    if (progress->total > 0) {
        const int64_t bounded = done < 0 ? 0 : is_last ? progress->total : done;
        draw(progress, bounded, now - progress->start_s);
    } else {
        fprintf(progress->stream, "\r%.40s  %lld\x1b[K", progress->label, (long long)done);
    }
    fflush(progress->stream);
}

void io_progress_end(struct io_progress *progress)
{
    if (progress->stream && progress->drawn) {
        fputs("\r\x1b[K", progress->stream);
        fflush(progress->stream);
    }
    progress->stream = NULL;
}
