/*
 * tag.h - the tag of a page: what it is made of, and when two of them look alike
 *
 * A tag is `bits` bits that say for whom a page is. What it is made of (bind): the owner (request),
 * the position (which page of the request's text), the generation (allocations of the page so far),
 * the incarnation (restarts of the node). Value 0 is reserved for a page that is free, so a reader
 * of a freed page never passes.
 *
 *   counter   1 + (hash(owner, position, incarnation) + generation) mod (2^bits - 1)
 *   random    1 + hash(owner, position, incarnation, generation) mod (2^bits - 1)
 *
 * Only what is bound enters. A counter is sure to tell a page from its last 2^bits - 2 generations
 * and is blind at the wrap; a random tag misses any other tag with probability 1 / (2^bits - 1).
 */
#ifndef KVT_FAULT_TAG_H
#define KVT_FAULT_TAG_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/names.h"

struct kvt_tag_kind {
    int32_t bits;  /* 4..64 */
    uint32_t bind; /* kvt_guard_bind bits */
    bool random;
    uint64_t seed; /* of the hash */
};

/* For whom a page is, or was when its bytes were written. */
struct kvt_tag_fields {
    int32_t owner, position;
    uint32_t generation, incarnation;
};

#define KVT_TAG_FREE 0

/* Different values that a page in use can have. */
double kvt_tag_values(const struct kvt_tag_kind *kind);

/* Whether tags of these two could have been equal by chance: they differ in something that is
 * hashed. A counter tells generations of one owner and place apart for sure, until it wraps. */
bool kvt_tag_by_chance(const struct kvt_tag_kind *kind, const struct kvt_tag_fields *a,
                       const struct kvt_tag_fields *b);

uint64_t kvt_tag_value(const struct kvt_tag_kind *kind, const struct kvt_tag_fields *fields);

#endif
