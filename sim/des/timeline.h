/*
 * timeline.h - what happens next: the earliest of a fixed set of slots
 *
 * Everything that can happen has a slot of its own with the time it happens next, or KVT_NEVER.
 * Order is (time, slot): slots are numbered by priority, then by replica or link, so two things at
 * the same time have one order, on every machine and in every mode. There are no event objects:
 * moving a time is all there is, and nothing allocates.
 *
 * A tournament tree over the slots: set is O(log slots), the next slot is at its root.
 */
#ifndef KVT_DES_TIMELINE_H
#define KVT_DES_TIMELINE_H

#include "sim/base/arena.h"
#include "sim/base/ticks.h"

struct kvt_timeline {
    int32_t leaves;   /* a power of two >= slots */
    kvt_ticks *times; /* [leaves] */
    int32_t *winner;  /* [leaves] heap order: winner[1] is the root's slot */
};

enum kvt_status kvt_timeline_init(struct kvt_timeline *timeline, struct kvt_arena *arena,
                                  int32_t slots, struct kvt_err *err);

static inline int32_t kvt_timeline_next(const struct kvt_timeline *timeline)
{
    return timeline->winner[1];
}

static inline kvt_ticks kvt_timeline_time(const struct kvt_timeline *timeline, int32_t slot)
{
    return timeline->times[slot];
}

static inline void kvt_timeline_set(struct kvt_timeline *timeline, int32_t slot, kvt_ticks time)
{
    const kvt_ticks *times = timeline->times;
    int32_t *winner = timeline->winner;
    timeline->times[slot] = time;
    int32_t node = (timeline->leaves + slot) >> 1;
    int32_t left = slot & ~1, right = left + 1; /* the two slots that meet at the first node */
    for (;;) {
        int32_t best = times[right] < times[left] ? right : left;
        winner[node] = best;
        if (node == 1)
            return;
        left = node & 1 ? winner[node - 1] : best;
        right = node & 1 ? best : winner[node + 1];
        node >>= 1;
    }
}

#endif
