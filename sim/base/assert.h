/*
 * assert.h - checks that find bugs of ours, never mistakes of a user
 *
 * kvt_assert is always on and O(1): arguments, states, results. kvt_assert_slow walks whole
 * structures; it is on in debug and sanitize builds, and wherever kvt_paranoid was set (the
 * program's --paranoid). Anything that a config, a trace, a device or a full disk can cause is a
 * status (status.h) instead.
 *
 * A failure prints the place, the condition, and the context that kvt_assert_context last set (the
 * simulated time and seed of the run, with the command that repeats it), then aborts (exit 134).
 */
#ifndef KVT_BASE_ASSERT_H
#define KVT_BASE_ASSERT_H

#include <stdbool.h>

extern bool kvt_paranoid; /* set once by main(), before any thread starts */

/* Text to print with a failure; copied, at most 255 bytes, one per thread. */
void kvt_assert_context(const char *text);

_Noreturn void kvt_assert_fail(const char *file, int line, const char *condition)
    __attribute__((cold));

#define kvt_assert(x) ((x) ? (void)0 : kvt_assert_fail(__FILE__, __LINE__, #x))
#define kvt_assert_slow(x)                                                                         \
    (!kvt_paranoid || (x) ? (void)0 : kvt_assert_fail(__FILE__, __LINE__, #x))
#define kvt_unreachable() kvt_assert_fail(__FILE__, __LINE__, "unreachable")

#endif
