#include "sim/des/timeline.h"

enum kvt_status kvt_timeline_init(struct kvt_timeline *timeline, struct kvt_arena *arena,
                                  int32_t slots, struct kvt_err *err)
{
    kvt_assert(slots > 0);
    int32_t leaves = 2;
    while (leaves < slots)
        leaves *= 2;
    timeline->leaves = leaves;
    KVT_TRY(kvt_arena_get(arena, (size_t)leaves, sizeof(kvt_ticks), "the timeline",
                          &timeline->times, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)leaves, sizeof(int32_t), "the timeline", &timeline->winner,
                          err));
    for (int32_t slot = 0; slot < leaves; slot++)
        timeline->times[slot] = KVT_NEVER;
    for (int32_t slot = 0; slot < leaves; slot++)
        kvt_timeline_set(timeline, slot, KVT_NEVER);
    return KVT_OK;
}
