#include "sim/des/link.h"

#include <stdio.h>
#include <string.h>

#include "sim/base/random.h"
#include "sim/des/timeline.h"
#include "tests/check.h"

#define GB 1e9
#define NS KVT_TICKS_PER_NS /* at 1 GB/s a byte takes one */

static struct kvt_arena arena;
static struct kvt_link link_;

static void link_of(const double *capacity, int32_t ports, int32_t requests)
{
    struct kvt_err err = {0};
    kvt_arena_release(&arena);
    CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
    CHECK_OK(kvt_link_init(&link_, &arena, ports, capacity, requests, &err), err);
}

/* Take out what ends next; its time, or KVT_NEVER. *request is -1 if a flow only ran dry. */
static kvt_ticks next_end(int32_t *request)
{
    kvt_ticks next = kvt_link_next(&link_);
    *request = next == KVT_NEVER ? -1 : kvt_link_take_ended(&link_, next);
    return next;
}

static void ends(int32_t want, kvt_ticks at, const char *note)
{
    int32_t request;
    CHECK_I64(next_end(&request), at, note);
    CHECK_I64(request, want, note);
}

/* n flows of 1000 bytes at 1 GB/s, a rate of 2^30: all end after n microseconds, or a tick later
 * where n does not divide the rate. */
static void equal_flows_share_equally(void)
{
    static const double ports[] = {GB, GB};
    for (int32_t n = 1; n <= 8; n++) {
        link_of(ports, 2, 8);
        for (int32_t r = 0; r < n; r++)
            kvt_link_add(&link_, 0, r, 0, 1, 1000, true);
        kvt_ticks end = n * 1000 * NS + ((1 << 30) % n != 0);
        for (int32_t r = 0; r < n; r++)
            ends(r, end, "in the order of their start");
        ends(-1, KVT_NEVER, "nothing is left");
        CHECK_I64(link_.busy, end, "time with something on the link");
        CHECK_I64(link_.bytes, n * 1000, "bytes");
    }
}

/* A has 1000 bytes from 0 on, B 1000 from 500 ns on: A is half through, then both have half the
 * rate: A ends at 1500 ns, when B has 500 left and the link to itself: 2000 ns. */
static void a_later_flow_takes_half(void)
{
    static const double ports[] = {GB, GB};
    link_of(ports, 2, 2);
    kvt_link_add(&link_, 0, 0, 0, 1, 1000, true);
    kvt_link_add(&link_, 500 * NS, 1, 0, 1, 1000, true);
    ends(0, 1500 * NS, "the first");
    ends(1, 2000 * NS, "the second");
}

/*
 * Ports 0 and 1 send (1 GB/s each), 2 and 3 receive (1.5 and 1 GB/s). Flows a: 0 to 2, b: 0 to 3,
 * c: 1 to 2. Port 0 is the tightest: a and b have 1/2. c has what is left of port 2, 1 GB/s, which
 * is all that port 1 has. When b is through (500 bytes, 1 us), a may have 1, but port 2 has 1.5 for
 * a and c: 3/4 each.
 */
static void shares_are_max_min_over_the_ports(void)
{
    static const double ports[] = {GB, GB, 1.5 * GB, GB};
    link_of(ports, 4, 3);
    kvt_link_add(&link_, 0, 0, 0, 2, 2000, true);
    kvt_link_add(&link_, 0, 1, 0, 3, 500, true);
    kvt_link_add(&link_, 0, 2, 1, 2, 1750, true);
    CHECK_I64(link_.flows[0].rate, 1 << 29, "a");
    CHECK_I64(link_.flows[1].rate, 1 << 29, "b");
    CHECK_I64(link_.flows[2].rate, 1 << 30, "c");
    ends(1, 1000 * NS, "b");
    CHECK_I64(link_.flows[0].rate, 3 << 28, "a");
    CHECK_I64(link_.flows[1].rate, 3 << 28, "c");
    ends(2, 2000 * NS, "c: 750 bytes at 3/4");
    ends(0, 2750 * NS, "a: 1500 - 750 bytes at 1");
}

/* Bytes may come in pieces. A dry flow leaves its share to the others and keeps its place. */
static void a_dry_flow_leaves_its_share(void)
{
    static const double ports[] = {GB, GB};
    link_of(ports, 2, 2);
    kvt_link_add(&link_, 0, 0, 0, 1, 500, false);
    kvt_link_add(&link_, 0, 1, 0, 1, 2000, true);
    ends(-1, 1000 * NS, "the first runs dry");
    CHECK_I64(link_.flows[1].rate, 1 << 30, "the second has it all");
    kvt_link_add(&link_, 2000 * NS, 0, 0, 1, 100, true); /* the second has 500 left */
    ends(0, 2200 * NS, "100 bytes at half");
    ends(1, 2600 * NS, "400 bytes at 1");
    link_of(ports, 2, 2);
    kvt_link_add(&link_, 0, 0, 0, 1, 500, false);
    CHECK(!kvt_link_close(&link_, 100 * NS, 1));
    CHECK(kvt_link_close(&link_, 100 * NS, 0));
    ends(0, 500 * NS, "closed: what is on the link still arrives");
    kvt_link_add(&link_, 600 * NS, 0, 0, 1, 0, true);
    ends(0, 600 * NS, "no bytes take no time");
}

/* A link with less than a byte a second for each flow crawls, but never stops or turns. */
static void a_starved_link_crawls(void)
{
    static const double ports[] = {3, 2, 1, 5, 1};
    link_of(ports, 5, 64);
    for (int32_t r = 0; r < 64; r++)
        kvt_link_add(&link_, r, r, r % 3, 3 + r % 2, 1 + r, true);
    int32_t ended = 0, request;
    for (kvt_ticks last = 0; ended < 64; ended++) {
        for (int32_t i = 0; i < link_.count; i++)
            CHECK(link_.flows[i].rate >= 1);
        kvt_ticks next = next_end(&request);
        CHECK(next >= last && next != KVT_NEVER && request >= 0);
        last = next;
    }
    CHECK_I64(link_.count, 0, "all are through");
    static const double slow[] = {1, 1};
    link_of(slow, 2, 1);
    kvt_link_add(&link_, KVT_NEVER - 5, 0, 0, 1, INT64_C(1) << 41, true);
    CHECK_I64(kvt_link_next(&link_), KVT_NEVER, "out of reach");
}

/* Max-min: every flow has a port that is full, and on which no other flow has more. Rates round
 * down: a port is full when less than one unit a flow is left. */
static int unfair_flows(int32_t ports)
{
    int unfair = 0;
    int64_t used[8] = {0}, most[8] = {0};
    int32_t users[8] = {0};
    for (int32_t i = 0; i < link_.count; i++) {
        const struct kvt_flow *flow = &link_.flows[i];
        const int32_t at[2] = {flow->source, flow->sink};
        for (int end = 0; end < 2; end++) {
            used[at[end]] += flow->rate;
            users[at[end]]++;
            most[at[end]] = flow->rate > most[at[end]] ? flow->rate : most[at[end]];
        }
    }
    for (int32_t port = 0; port < ports; port++)
        unfair += used[port] > link_.capacity[port];
    for (int32_t i = 0; i < link_.count; i++) {
        const struct kvt_flow *flow = &link_.flows[i];
        bool source = used[flow->source] + users[flow->source] > link_.capacity[flow->source] &&
                      flow->rate + 1 >= most[flow->source];
        bool sink = used[flow->sink] + users[flow->sink] > link_.capacity[flow->sink] &&
                    flow->rate + 1 >= most[flow->sink];
        unfair += flow->left > 0 && !source && !sink;
    }
    return unfair;
}

static void random_flows_are_shared_fairly(void)
{
    struct kvt_stream dice;
    kvt_stream_init(&dice, 77123, KVT_PURPOSE_TEST, 5);
    int unfair = 0;
    int64_t delivered = 0;
    for (int round = 0; round < 200; round++) {
        double ports[8];
        for (int port = 0; port < 8; port++)
            ports[port] = (double)(1 + kvt_stream_below(&dice, 100)) * 1e8;
        link_of(ports, 8, 24);
        kvt_ticks now = 0;
        int64_t sent = 0;
        int32_t request;
        for (int32_t r = 0; r < 24; r++) {
            now += (kvt_ticks)kvt_stream_below(&dice, 2000) * NS;
            while (kvt_link_next(&link_) <= now) {
                (void)next_end(&request);
                unfair += unfair_flows(8);
            }
            int64_t bytes = 1 + (int64_t)kvt_stream_below(&dice, 30000);
            kvt_link_add(&link_, now, r, (int32_t)kvt_stream_below(&dice, 4),
                         4 + (int32_t)kvt_stream_below(&dice, 4), bytes, true);
            sent += bytes;
            unfair += unfair_flows(8);
        }
        while (next_end(&request) != KVT_NEVER)
            unfair += unfair_flows(8);
        delivered += sent - link_.bytes + link_.count;
    }
    CHECK_I64(unfair, 0, "flows without a bottleneck");
    CHECK_I64(delivered, 0, "all that was sent has gone through");
}

/* ---- timeline ------------------------------------------------------------------------------ */

static void ties_go_to_the_lower_slot(void)
{
    struct kvt_timeline timeline;
    struct kvt_err err = {0};
    for (int32_t slots = 1; slots <= 9; slots++) {
        kvt_arena_release(&arena);
        CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
        CHECK_OK(kvt_timeline_init(&timeline, &arena, slots, &err), err);
        CHECK_I64(kvt_timeline_time(&timeline, kvt_timeline_next(&timeline)), KVT_NEVER, "empty");
        for (int32_t slot = slots - 1; slot >= 0; slot--)
            kvt_timeline_set(&timeline, slot, 50);
        for (int32_t slot = 0; slot < slots; slot++) {
            CHECK_I64(kvt_timeline_next(&timeline), slot, "in the order of slots");
            kvt_timeline_set(&timeline, slot, slot + 1 < slots ? 51 : KVT_NEVER);
        }
    }
}

static void the_next_slot_is_the_earliest_after_any_moves(void)
{
    struct kvt_timeline timeline;
    struct kvt_err err = {0};
    struct kvt_stream dice;
    kvt_stream_init(&dice, 99, KVT_PURPOSE_TEST, 6);
    int wrong = 0;
    for (int32_t slots = 1; slots <= 33; slots += 4) {
        kvt_ticks times[33];
        kvt_arena_release(&arena);
        CHECK_OK(kvt_arena_init(&arena, 1 << 20, &err), err);
        CHECK_OK(kvt_timeline_init(&timeline, &arena, slots, &err), err);
        for (int32_t slot = 0; slot < slots; slot++)
            times[slot] = KVT_NEVER;
        for (int move = 0; move < 2000; move++) {
            int32_t slot = (int32_t)kvt_stream_below(&dice, (uint64_t)slots), best = 0;
            times[slot] = kvt_stream_below(&dice, 5) == 0 ? KVT_NEVER
                                                          : (kvt_ticks)kvt_stream_below(&dice, 40);
            kvt_timeline_set(&timeline, slot, times[slot]);
            for (int32_t other = 1; other < slots; other++)
                best = times[other] < times[best] ? other : best;
            wrong += kvt_timeline_next(&timeline) != best;
        }
    }
    CHECK_I64(wrong, 0, "moves");
    kvt_arena_release(&arena);
}

const struct check_test check_link[] = {
    {"equal flows share equally", equal_flows_share_equally, false},
    {"a later flow takes half", a_later_flow_takes_half, false},
    {"shares are max-min over the ports", shares_are_max_min_over_the_ports, false},
    {"a dry flow leaves its share", a_dry_flow_leaves_its_share, false},
    {"a starved link crawls", a_starved_link_crawls, false},
    {"random flows are shared fairly", random_flows_are_shared_fairly, false},
    {"ties go to the lower slot", ties_go_to_the_lower_slot, false},
    {"the next slot is the earliest after any moves", the_next_slot_is_the_earliest_after_any_moves,
     false},
    {NULL, NULL, false},
};
