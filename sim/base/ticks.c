#include "sim/base/ticks.h"

#include <math.h>

kvt_ticks kvt_ticks_from_seconds(double seconds)
{
    kvt_assert(seconds >= 0);
    double ticks = nearbyint(seconds * (double)KVT_TICKS_PER_S);
    return ticks >= 9223372036854774784.0 ? KVT_NEVER - 1 : (kvt_ticks)ticks;
}
