/*
 * scarce.h - what runs out: the Nth allocation from now on fails, the others do as they should
 *
 * The linker puts these in front of malloc, calloc, realloc, aligned_alloc, strdup, open_memstream,
 * mmap, munmap and free for every object of the test program (Makefile), so that what shared
 * libraries take for themselves is neither counted nor failed. So are calls to take from an arena,
 * and waits for a device. An mmap that fails fails again where it is tried once more at once.
 * Between scarce_begin and scarce_end each block that was taken is known by its address until it is
 * given back: what is left was lost. Threads may allocate at the same time; which of them is the
 * Nth is then chance.
 *
 *     bool fired = true;
 *     for (long n = 1; fired; n++) {
 *         scarce_begin(n);
 *         ... run and release everything ...
 *         fired = scarce_end(&left) >= n;
 *     }
 *
 * scarce_try does that for the calls that matter: from each place in the program that leads to any,
 * the first.
 */
#ifndef KVT_TESTS_SCARCE_H
#define KVT_TESTS_SCARCE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

/* The allocation of that number fails, counted from 1; 0: none. Not nested. */
void scarce_begin(long number);

struct scarce_left {
    int64_t blocks, mapped_bytes;
};

/* Nothing fails any more. How many allocations there were; *left: what was taken since and has not
 * been given back. */
long scarce_end(struct scarce_left *left);

/* A call of the test's own: count it; whether it is the one that fails. */
bool scarce_fails(void);

/* Run, and release everything; the status of the first failure. */
typedef enum kvt_status scarce_run(void *context, struct kvt_err *err);

/* A run that must succeed, then one for each call in the program that leads to something that may
 * fail, in which the first does that it leads to. That is told as KVT_ENOMEM, of a wait as
 * KVT_EDEVICE, and nothing is left. A run may do without what it asked for, at most `unhurt` times.
 * Each run has a thread of its own, which begins with no arena; `context` is for `run`. Returns how
 * many of them there were. */
long scarce_try(scarce_run *run, void *context, const char *name, long unhurt);

/* The call of number n (from 1) to take from any arena fails; 0: none. Not while watching. Returns
 * what was left of the number before: 0 once its call failed. */
long scarce_arena_at(long n);

/* Reads or prints something whole and releases it; *digest tells what came out. */
typedef enum kvt_status scarce_call(const void *context, uint64_t *digest, struct kvt_err *err);

/* Checks a call that ends well when nothing fails: with each stride-th of its allocations failing
 * in turn, and then each stride-th piece of an arena, it gives KVT_ENOMEM and a message, or the
 * same digest as ever, and nothing is lost. */
void scarce_each(scarce_call *call, const void *context, long stride, const char *name);

#endif
