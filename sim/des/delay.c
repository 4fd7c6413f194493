#include "sim/des/delay.h"

enum kvt_status kvt_delay_init(struct kvt_delay *delay, struct kvt_arena *arena, int32_t most,
                               struct kvt_err *err)
{
    *delay = (struct kvt_delay){.capacity = 16};
    while (delay->capacity < (uint32_t)most)
        delay->capacity *= 2;
    KVT_TRY(kvt_arena_get(arena, delay->capacity, sizeof(int32_t), "delays", &delay->request, err));
    return kvt_arena_get(arena, delay->capacity, sizeof(kvt_ticks), "delays", &delay->time, err);
}

kvt_ticks kvt_delay_next(const struct kvt_delay *delay)
{
    return delay->count > 0 ? delay->time[delay->first & (delay->capacity - 1)] : KVT_NEVER;
}

void kvt_delay_put(struct kvt_delay *delay, int32_t request, kvt_ticks time)
{
    kvt_assert(delay->count < delay->capacity);
    uint32_t at = (delay->first + delay->count++) & (delay->capacity - 1);
    delay->request[at] = request;
    delay->time[at] = time;
}

int32_t kvt_delay_take(struct kvt_delay *delay)
{
    kvt_assert(delay->count > 0);
    delay->count--;
    return delay->request[delay->first++ & (delay->capacity - 1)];
}

bool kvt_delay_holds(const struct kvt_delay *delay, int32_t request)
{
    for (uint32_t i = 0; i < delay->count; i++)
        if (delay->request[(delay->first + i) & (delay->capacity - 1)] == request)
            return true;
    return false;
}
