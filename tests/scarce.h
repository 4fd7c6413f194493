/*
 * scarce.h - memory that runs out: the Nth allocation from now on fails, the others do as they
 * should
 *
 * The linker puts these in front of malloc, calloc, realloc, aligned_alloc, strdup, open_memstream,
 * mmap, munmap and free for every object of the test program (Makefile), so that what shared
 * libraries take for themselves is neither counted nor failed. Between scarce_begin and scarce_end
 * each block that was taken is known by its address until it is given back: what is left was lost.
 * Threads may allocate at the same time; which of them is the Nth is then chance.
 *
 *     for (long n = 1, calls = n; n <= calls; n++) {
 *         scarce_begin(n);
 *         ... run and release everything ...
 *         calls = scarce_end(&left);
 *     }
 */
#ifndef KVT_TESTS_SCARCE_H
#define KVT_TESTS_SCARCE_H

#include <stdint.h>

/* The allocation of that number fails, counted from 1; 0: none. Not nested. */
void scarce_begin(long number);

struct scarce_left {
    int64_t blocks, mapped_bytes;
};

/* Nothing fails any more. How many allocations there were; *left: what was taken since and has not
 * been given back. */
long scarce_end(struct scarce_left *left);

#endif
