/*
 * place.h - the bytes of an input as a text, or as a file with a path
 *
 * One file of this process, in memory where the system has such a folder: it is made once and
 * rewritten for each input, which costs a tenth of making and removing one. Gone at exit.
 */
#ifndef KVT_TESTS_FUZZ_PLACE_H
#define KVT_TESTS_FUZZ_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* The path of a file that holds count bytes now; borrowed, always the same. Ends in .yaml, by which
 * some readers tell a path from a name. Aborts when it cannot be written. */
const char *place_bytes(const void *bytes, size_t count);

/* The text head, the bytes and a zero: allocated to the byte, so that an overrun is seen; the
 * caller frees it. Aborts without memory. */
char *place_text(const char *head, const void *bytes, size_t count);

/* Cut a text into its lines that are not empty, at most so many: how many there are. */
int32_t place_lines(char *text, const char *lines[], int32_t most);

/* Let names mean the few models and GPUs below tests/fuzz/data, instead of all that are shipped:
 * a name that is not known is compared with all of them. Before anything has been looked up. */
void place_catalogue(void);

#endif
