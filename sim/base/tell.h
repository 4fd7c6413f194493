/*
 * tell.h - how far a long job is, told to whoever wants to know
 *
 * The job tells as often as it likes, from one thread at a time; who listens decides what to show
 * (sim/output/progress.h). Nothing comes back: a result never depends on it.
 */
#ifndef KVT_BASE_TELL_H
#define KVT_BASE_TELL_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: nobody listens. */
struct kvt_tell {
    void (*listener)(void *context, double fraction, int64_t done); /* done of the whole's parts */
    void *context;
};

static inline void kvt_tell(const struct kvt_tell *tell, double fraction, int64_t done)
{
    if (tell->listener != NULL)
        tell->listener(tell->context, fraction, done);
}

#endif
