/*
 * spelling.h - names as people write them
 *
 * Nothing here fails or keeps what it is given.
 */
#ifndef KVT_BASE_SPELLING_H
#define KVT_BASE_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

/* The name among count names that is nearest to text, or NULL when none is near: for "did you
 * mean". Distance counts insertions, deletions, replacements and swaps of neighbours. */
const char *kvt_nearest_name(const char *text, const char *const names[], size_t count);

/* "; did you mean \"NAME\"?", the end of a message about text, or "" when none is near. Returns
 * out. */
#define KVT_HINT_BYTES 96
const char *kvt_nearest_hint(const char *text, const char *const names[], size_t count,
                             char out[KVT_HINT_BYTES]);

/* Lower case, one '-' between words, nothing in parentheses; cut to fit. "NVIDIA H100 (80GB)" is
 * "nvidia-h100". */
void kvt_name_fold(const char *name, char *out, size_t size_bytes);

bool kvt_text_ends(const char *text, const char *end);

#endif
