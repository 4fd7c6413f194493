#include "sim/fault/tag.h"

#include <math.h>

/* The finaliser of splitmix64: every bit of x reaches every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t kvt_tag_value(const struct kvt_tag_kind *kind, const struct kvt_tag_fields *fields)
{
    uint64_t hash = mix(kind->seed + UINT64_C(0x9e3779b97f4a7c15));
    if (kind->bind & KVT_BIND_OWNER)
        hash = mix(hash ^ (uint32_t)fields->owner);
    if (kind->bind & KVT_BIND_POSITION)
        hash = mix(hash ^ (UINT64_C(1) << 32 | (uint32_t)fields->position));
    if (kind->bind & KVT_BIND_INCARNATION)
        hash = mix(hash ^ (UINT64_C(2) << 32 | fields->incarnation));
    if (kind->bind & KVT_BIND_GENERATION)
        hash = kind->random ? mix(hash ^ (UINT64_C(3) << 32 | fields->generation))
                            : hash + fields->generation;
    uint64_t values = kind->bits >= 64 ? UINT64_MAX : (UINT64_C(1) << kind->bits) - 1;
    return 1 + hash % values;
}

double kvt_tag_values(const struct kvt_tag_kind *kind)
{
    return ldexp(1, kind->bits) - 1;
}

bool kvt_tag_by_chance(const struct kvt_tag_kind *kind, const struct kvt_tag_fields *a,
                       const struct kvt_tag_fields *b)
{
    return ((kind->bind & KVT_BIND_OWNER) && a->owner != b->owner) ||
           ((kind->bind & KVT_BIND_POSITION) && a->position != b->position) ||
           ((kind->bind & KVT_BIND_INCARNATION) && a->incarnation != b->incarnation) ||
           ((kind->bind & KVT_BIND_GENERATION) && kind->random && a->generation != b->generation);
}
