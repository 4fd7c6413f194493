/*
 * arena.h - memory with one lifetime: taken piece by piece, given back at once
 *
 * An arena reserves address space for `limit` bytes and lets the kernel supply pages on first
 * touch, so a generous limit costs nothing. Pieces are zeroed and aligned to 64 bytes (a cache
 * line). All state of a run lives in one arena and refers to itself by index, so that the arena
 * can be copied as a whole.
 *
 * Take everything at set-up: the event loop never calls into here.
 *
 * Jobs of many short runs release and initialise the same few arenas over and over. Each thread
 * therefore keeps what it released, up to KVT_ARENA_KEPT mappings, and the next arena that fits
 * into one takes it over: no call of the system, no page faults, and no lock that all threads of
 * the process share. What was used of it is cleared by then, so an arena cannot tell. A mapping
 * that is kept holds at most KVT_ARENA_KEPT_BYTES of memory, beyond that it is given back: a thread
 * keeps at most 64 MiB, until it ends. With KVT_SLOW_CHECKS nothing is kept, so that the use of a
 * released arena faults.
 */
#ifndef KVT_BASE_ARENA_H
#define KVT_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/base/status.h"

#define KVT_ARENA_KEPT       8
#define KVT_ARENA_KEPT_BYTES ((size_t)8 << 20)

struct kvt_arena {
    unsigned char *base;
    size_t used, limit; /* bytes */
    size_t mapped;      /* bytes of address space, at least limit */
};

/* Reserve limit bytes (rounded up to an OS page). KVT_ENOMEM with the size on failure, and an arena
 * that holds nothing and may be released. */
enum kvt_status kvt_arena_init(struct kvt_arena *arena, size_t limit, struct kvt_err *err);

/* Give everything back, to the thread or to the system; the arena is then empty and may be
 * initialised again. By any thread. */
void kvt_arena_release(struct kvt_arena *arena);

/* count zeroed items of size_bytes each, or NULL when the arena is full. count may be 0. O(1). */
void *kvt_arena_take(struct kvt_arena *arena, size_t count, size_t size_bytes);

/* The same as a status, with a message that names what was wanted. *out is set on success. */
enum kvt_status kvt_arena_get(struct kvt_arena *arena, size_t count, size_t size_bytes,
                              const char *what, void *out, struct kvt_err *err);

/* A copy of text in the arena, or NULL when it is full. */
char *kvt_arena_text(struct kvt_arena *arena, const char *text);

/* For tests: each call to take from an arena asks `fails` whether it does; NULL: none does. */
void kvt_arena_set_fails(bool (*fails)(void));

#endif
