/*
 * progress.h - a bar on stderr while a run goes on, erased at its end
 *
 * Fed with a fraction as often as the caller likes; draws at most six times a second and never
 * before half a second has passed, so that short runs show nothing. Looks at the wall clock, and
 * therefore lives outside the engine: nothing it does reaches a result.
 */
#ifndef KVT_OUTPUT_PROGRESS_H
#define KVT_OUTPUT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct kvt_progress {
    bool shown;              /* false: every call does nothing */
    bool drawn;              /* something is on the screen */
    const char *what, *unit; /* "simulating", "requests"; borrowed */
    int64_t start_ns, next_ns;
};

/* shown is the caller's decision: a terminal or --progress=always, and not -q. */
void kvt_progress_begin(struct kvt_progress *progress, const char *what, const char *unit,
                        bool shown);

/* The listener of a kvt_tell, with a struct kvt_progress: fraction in [0, 1], done in units. It
 * looks at the clock (some 50 ns): tell it every thousand events or so. */
void kvt_progress_tell(void *progress, double fraction, int64_t done);

/* Erase the bar. Call it before anything else is said on stderr. */
void kvt_progress_end(struct kvt_progress *progress);

#endif
