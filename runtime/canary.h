/*
 * canary.h - is this still the machine that was measured?
 *
 * Threads are pinned, each to a processor of its own, so that none moves while it is timed. The
 * canary is a read of memory by one thread and by all of them: their ratio says whether others
 * share the memory's bandwidth or a processor. It costs some 10 ms.
 */
#ifndef KVT_RUNTIME_CANARY_H
#define KVT_RUNTIME_CANARY_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/base/status.h"

struct kvt_canary {
    unsigned char *memory; /* owned */
    size_t bytes;
};

/* Pin each thread of OpenMP to one of the processors that the process may use. False, and nothing
 * is pinned, where there are fewer processors than threads, or the system refuses. */
bool kvt_pin_threads(void);

/* Let them run where they could before. */
void kvt_unpin_threads(void);

enum kvt_status kvt_canary_init(struct kvt_canary *canary, struct kvt_err *err);
void kvt_canary_release(struct kvt_canary *canary);

/* Rate of all threads over rate of one, the median of three; 1 with one thread. */
double kvt_canary_ratio(const struct kvt_canary *canary);

#endif
