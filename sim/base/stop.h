/*
 * stop.h - a request to stop: a signal handler or a test makes it, long runs look for it
 *
 * It is made once and never taken back. Any thread may look at any time, which costs one load; what
 * was asked is seen soon, and orders no other memory. A handler may ask, as no lock is taken.
 * The owner is who can be asked; the others borrow a pointer to it, NULL where nobody can ask. Who
 * asked may want to know whether somebody has seen it: what reads a pipe does not look.
 */
#ifndef KVT_BASE_STOP_H
#define KVT_BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a signal handler sets it");

/* Zeroed: nothing was asked. */
struct kvt_stop {
    atomic_bool asked;
    atomic_bool *seen; /* borrowed; set by who looks after that; NULL: nobody wants to know */
};

static inline void kvt_stop_ask(struct kvt_stop *stop)
{
    atomic_store_explicit(&stop->asked, true, memory_order_relaxed);
}

static inline bool kvt_stop_asked(const struct kvt_stop *stop)
{
    if (stop == NULL || !atomic_load_explicit(&stop->asked, memory_order_relaxed))
        return false;
    if (stop->seen != NULL)
        atomic_store_explicit(stop->seen, true, memory_order_relaxed);
    return true;
}

#endif
