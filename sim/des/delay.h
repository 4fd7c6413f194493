/*
 * delay.h - things that happen a fixed time after they were put in: first in, first out
 *
 * A ring of requests and times. Cost: O(1), but for holds: O(count).
 */
#ifndef KVT_DES_DELAY_H
#define KVT_DES_DELAY_H

#include <stdbool.h>

#include "sim/base/arena.h"
#include "sim/base/ticks.h"

struct kvt_delay {
    int32_t *request; /* ring of `capacity`, a power of two */
    kvt_ticks *time;
    uint32_t capacity, first, count;
};

/* Room for `most` at once. */
enum kvt_status kvt_delay_init(struct kvt_delay *delay, struct kvt_arena *arena, int32_t most,
                               struct kvt_err *err);

/* When the first is due, or KVT_NEVER. */
kvt_ticks kvt_delay_next(const struct kvt_delay *delay);

/* Times never fall from one put to the next. */
void kvt_delay_put(struct kvt_delay *delay, int32_t request, kvt_ticks time);

/* The first in line. */
int32_t kvt_delay_take(struct kvt_delay *delay);

bool kvt_delay_holds(const struct kvt_delay *delay, int32_t request);

#endif
