#include "sim/des/link.h"

#define NOBODY (-1)

/* Of bytes/s, at least 1 and at most 2^60. */
static int64_t rate_from_bytes_per_s(double bytes_per_s)
{
    double rate = bytes_per_s * ((double)KVT_RATE_TICKS / (double)KVT_TICKS_PER_S);
    if (rate < 1)
        return 1;
    return rate > 0x1p60 ? INT64_C(1) << 60 : (int64_t)rate;
}

enum kvt_status kvt_link_init(struct kvt_link *link, struct kvt_arena *arena, int32_t ports,
                              const double capacity_bytes_per_s[], int32_t requests,
                              struct kvt_err *err)
{
    *link = (struct kvt_link){.port_count = ports};
    size_t count = (size_t)ports, rows = (size_t)requests;
    const char *what = "the link";
    KVT_TRY(kvt_arena_get(arena, count, sizeof *link->capacity, what, &link->capacity, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *link->room, what, &link->room, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *link->users, what, &link->users, err));
    KVT_TRY(kvt_arena_get(arena, rows, sizeof *link->flows, what, &link->flows, err));
    KVT_TRY(kvt_arena_get(arena, rows, sizeof *link->flow_of, what, &link->flow_of, err));
    for (int32_t port = 0; port < ports; port++)
        link->capacity[port] = rate_from_bytes_per_s(capacity_bytes_per_s[port]);
    for (size_t request = 0; request < rows; request++)
        link->flow_of[request] = NOBODY;
    return KVT_OK;
}

enum kvt_status kvt_link_observe(struct kvt_link *link, struct kvt_arena *arena, int32_t points,
                                 struct kvt_err *err)
{
    KVT_TRY(kvt_arena_get(arena, 1, sizeof *link->series, "the link", &link->series, err));
    return kvt_series_init(link->series, arena, points, err);
}

static void observe(struct kvt_link *link)
{
    int64_t value[KVT_GAUGE_COUNT] = {[KVT_LINK_FLOWS] = link->count};
    if (link->series == NULL)
        return;
    for (int32_t i = 0; i < link->count; i++) {
        value[KVT_LINK_STALLED] += link->flows[i].rate == 0;
        value[KVT_LINK_RATE] += link->flows[i].rate;
    }
    kvt_series_set(link->series, link->now, value);
}

/* Progressive filling: the port with the smallest equal share fixes its flows; repeat. A flow that
 * has run dry takes no part. */
static void share(struct kvt_link *link)
{
    for (int32_t port = 0; port < link->port_count; port++) {
        link->room[port] = link->capacity[port];
        link->users[port] = 0;
    }
    int32_t unshared = 0;
    for (int32_t i = 0; i < link->count; i++) {
        struct kvt_flow *flow = &link->flows[i];
        flow->rate = flow->left > 0 ? NOBODY : 0;
        if (flow->left == 0)
            continue;
        link->users[flow->source]++;
        link->users[flow->sink] += flow->sink != flow->source;
        unshared++;
    }
    while (unshared > 0) {
        int32_t tightest = NOBODY;
        for (int32_t port = 0; port < link->port_count; port++)
            if (link->users[port] > 0 &&
                (tightest == NOBODY || link->room[port] / link->users[port] <
                                           link->room[tightest] / link->users[tightest]))
                tightest = port;
        int64_t each = link->room[tightest] / link->users[tightest];
        if (each < 1)
            each = 1; /* more flows than bytes a second: crawl, but never stop */
        for (int32_t i = 0; i < link->count; i++) {
            struct kvt_flow *flow = &link->flows[i];
            if (flow->rate != NOBODY || (flow->source != tightest && flow->sink != tightest))
                continue;
            flow->rate = each;
            link->room[flow->source] -= each;
            link->users[flow->source]--;
            if (flow->sink != flow->source) {
                link->room[flow->sink] -= each;
                link->users[flow->sink]--;
            }
            unshared--;
        }
    }
    observe(link);
}

static void advance(struct kvt_link *link, kvt_ticks now)
{
    kvt_ticks passed = now - link->now;
    kvt_assert(passed >= 0);
    link->now = now;
    if (passed == 0)
        return;
    bool moving = false;
    for (int32_t i = 0; i < link->count; i++) {
        struct kvt_flow *flow = &link->flows[i];
        moving = moving || flow->left > 0;
        kvt_i128 moved = (kvt_i128)flow->rate * passed;
        flow->left = moved >= flow->left ? 0 : flow->left - moved;
    }
    link->busy += moving ? passed : 0;
}

void kvt_link_add(struct kvt_link *link, kvt_ticks now, int32_t request, int32_t source,
                  int32_t sink, int64_t bytes, bool last)
{
    advance(link, now);
    int32_t i = link->flow_of[request];
    if (i == NOBODY) {
        i = link->count++;
        link->flow_of[request] = i;
        link->flows[i] = (struct kvt_flow){.source = source, .sink = sink, .request = request};
    }
    kvt_assert(!link->flows[i].last);
    kvt_assert(bytes >= 0);
    link->flows[i].left += (kvt_i128)bytes * KVT_RATE_TICKS;
    link->flows[i].last = last;
    link->bytes += bytes;
    share(link);
}

bool kvt_link_close(struct kvt_link *link, kvt_ticks now, int32_t request)
{
    advance(link, now);
    int32_t i = link->flow_of[request];
    if (i == NOBODY)
        return false;
    link->flows[i].last = true;
    return true;
}

bool kvt_link_has(const struct kvt_link *link, int32_t request)
{
    return link->flow_of[request] != NOBODY;
}

kvt_ticks kvt_link_next(const struct kvt_link *link)
{
    kvt_ticks next = KVT_NEVER;
    for (int32_t i = 0; i < link->count; i++) {
        const struct kvt_flow *flow = &link->flows[i];
        if (flow->left == 0 && !flow->last)
            continue; /* dry: waits for bytes */
        /* Ends within the time that the earliest so far leaves: no division for the others. */
        kvt_ticks room = next - link->now;
        if (flow->left > (kvt_i128)flow->rate * (room - 1))
            continue;
        if (flow->left == 0)
            return link->now;
        next = link->now + (kvt_ticks)((flow->left + flow->rate - 1) / flow->rate);
    }
    return next;
}

int32_t kvt_link_take_ended(struct kvt_link *link, kvt_ticks now)
{
    advance(link, now);
    for (int32_t i = 0; i < link->count; i++) {
        if (link->flows[i].left > 0 || !link->flows[i].last)
            continue;
        int32_t request = link->flows[i].request;
        link->flow_of[request] = NOBODY;
        link->count--;
        for (int32_t j = i; j < link->count; j++) { /* keep the order of start */
            link->flows[j] = link->flows[j + 1];
            link->flow_of[link->flows[j].request] = j;
        }
        share(link);
        return request;
    }
    share(link); /* a flow ran dry: the others get its share */
    return NOBODY;
}
