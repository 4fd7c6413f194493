/*
 * place.h - the bytes of an input as a file with a path, for readers that take nothing else
 *
 * One file of this process, in memory where the system has such a folder: it is made once and
 * rewritten for each input, which costs a tenth of making and removing one. Gone at exit.
 */
#ifndef KVT_TESTS_FUZZ_PLACE_H
#define KVT_TESTS_FUZZ_PLACE_H

#include <stddef.h>

/* The path of a file that holds count bytes now; borrowed, always the same. Ends in .yaml, by which
 * some readers tell a path from a name. Aborts when it cannot be written. */
const char *place_bytes(const void *bytes, size_t count);

/* Let names mean the few models and GPUs below tests/fuzz/data, instead of all that are shipped:
 * a name that is not known is compared with all of them. Before anything has been looked up. */
void place_catalogue(void);

#endif
