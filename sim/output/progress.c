#include "sim/output/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define FIRST_NS    INT64_C(500000000)
#define INTERVAL_NS INT64_C(170000000) /* just under six a second */
#define BAR         30

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void kvt_progress_begin(struct kvt_progress *progress, const char *what, const char *unit,
                        bool shown)
{
    *progress = (struct kvt_progress){.shown = shown, .what = what, .unit = unit};
    if (!shown)
        return;
    progress->start_ns = now_ns();
    progress->next_ns = progress->start_ns + FIRST_NS;
}

static void draw(struct kvt_progress *progress, double fraction, int64_t done, double passed_s)
{
    char bar[BAR + 1];
    int full = (int)(fraction * BAR);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    double left_s = fraction > 0 ? passed_s / fraction - passed_s : 0;
    /* \r and "erase to the end of the line": one line, drawn over itself. */
    fprintf(stderr, "\r%s [%s] %3.0f %%  %" PRId64 " %s  %.0f s left\033[K", progress->what, bar,
            fraction * 100, done, progress->unit, left_s);
    fflush(stderr);
    progress->drawn = true;
}

void kvt_progress_tell(void *context, double fraction, int64_t done)
{
    struct kvt_progress *progress = context;
    if (!progress->shown)
        return;
    int64_t now = now_ns();
    if (now < progress->next_ns)
        return;
    progress->next_ns = now + INTERVAL_NS;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    draw(progress, fraction, done, (double)(now - progress->start_ns) * 1e-9);
}

void kvt_progress_end(struct kvt_progress *progress)
{
    if (progress->drawn) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    *progress = (struct kvt_progress){0};
}
