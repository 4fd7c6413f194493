/*
 * list.h - an array that grows by one item at a time
 *
 * For lists whose length nobody knows beforehand; never in the event loop. The room doubles, so
 * that n items cost O(n) copies in all.
 */
#ifndef KVT_BASE_LIST_H
#define KVT_BASE_LIST_H

#include <stdint.h>
#include <stdlib.h>

/* The list with room for one item more than count, moved where it had to grow; NULL without memory:
 * the old one stays as it is. items: malloc'ed, or NULL with *room 0; each: bytes of an item. */
static inline void *kvt_list_grow(void *items, int64_t count, int64_t *room, size_t each)
{
    if (count < *room)
        return items;
    int64_t more = *room > 0 ? 2 * *room : 64;
    void *grown = realloc(items, (size_t)more * each);
    if (grown != NULL)
        *room = more;
    return grown;
}

#endif
