/*
 * What splitting asks of a run: how far it has come, and another future from here.
 */
#include <math.h>

#include "sim/fault/parts.h"

enum { LEVEL_STRUCK = 1, LEVEL_GIVEN, LEVEL_WRONG, LEVEL_READ = KVT_FAULT_LEVELS - 1 };

/* ---- luck --------------------------------------------------------------------------------- */

double kvt_fault_luck(const struct kvt_faults *faults, int32_t deviation)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, faults->seed, KVT_PURPOSE_TAG,
                    UINT64_C(1) << 63 | (uint64_t)deviation);
    return kvt_stream_unit(&stream);
}

/* Luck below which `groups` groups of four bits are equal; the last group ends with the tag. */
static double bound(const struct kvt_tag_kind *tag, int32_t groups)
{
    return fmax(ldexp(1, -4 * groups), 1 / kvt_tag_values(tag));
}

/* Whether luck decides of this deviation: a guard looks at a tag that could be equal by chance, and
 * at none that surely differs. */
static bool is_lucky(const struct kvt_faults *faults, const struct kvt_deviation *d)
{
    const struct kvt_guards *guards = kvt_fault_guards(faults, d->replica);
    bool side = kvt_guards_have(guards, KVT_GUARD_TAG_SIDE);
    bool inband = kvt_guards_have(guards, KVT_GUARD_TAG_INBAND) && !d->stamped;
    if (side && d->owner_free)
        return false;
    return (side && kvt_tag_by_chance(&guards->tag, &d->expected, &d->owned)) ||
           (inband && kvt_tag_by_chance(&guards->tag, &d->expected, &d->written));
}

/* ---- levels ------------------------------------------------------------------------------- */

static bool is_given_away(const struct kvt_faults *faults, const struct kvt_landing *landing)
{
    const struct kvt_pages *pages = &faults->core->replicas[landing->replica].pages;
    for (int32_t i = 0; i < landing->count; i++) {
        const int32_t *entry = &faults->landing_pages[(size_t)(landing->first + i) * 3];
        if (pages->generation[entry[0]] != (uint32_t)entry[1] && pages->owner[entry[0]] != KVT_NONE)
            return true;
    }
    return false;
}

/* It was read, and no tag is left that could tell. */
static bool is_through(const struct kvt_faults *faults, const struct kvt_deviation *d)
{
    double values = kvt_tag_values(&kvt_fault_guards(faults, d->replica)->tag);
    return d->exposed && (!is_lucky(faults, d) || (d->compared && d->luck * values < 1));
}

static bool is_ahead(const struct kvt_faults *faults, const struct kvt_deviation *d)
{
    return d->open && kvt_fault_is_wrong(d) && !is_through(faults, d);
}

/* Of a strike with wrong bytes that nobody has told yet: by the page that is likeliest to. */
static int32_t level_of(const struct kvt_faults *faults, int32_t strike)
{
    int32_t level = LEVEL_READ;
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        const struct kvt_deviation *d = &faults->deviations[i];
        if (d->strike == strike && is_ahead(faults, d) && LEVEL_WRONG + d->agreed < level)
            level = LEVEL_WRONG + d->agreed;
    }
    return level;
}

int32_t kvt_faults_level(const struct kvt_faults *faults)
{
    int32_t level = 0, last = KVT_NONE;
    for (int32_t i = 0; i < faults->count && level < LEVEL_STRUCK; i++)
        if (faults->results[i].activated)
            level = LEVEL_STRUCK;
    for (int32_t i = 0; i < faults->landing_count && level < LEVEL_GIVEN; i++)
        if (is_given_away(faults, &faults->landings[i]))
            level = LEVEL_GIVEN;
    for (int32_t i = 0; i < faults->deviation_count && level < LEVEL_READ; i++) {
        const struct kvt_deviation *d = &faults->deviations[i];
        if (!d->open || !kvt_fault_is_wrong(d) || d->strike == last ||
            faults->results[d->strike].detected)
            continue;
        last = d->strike;
        int32_t here = level_of(faults, last);
        level = here > level ? here : level;
    }
    return level;
}

/* ---- another future ----------------------------------------------------------------------- */

/* Of one strike: all its bytes come at one time. */
static kvt_ticks another_delay(uint64_t seed, int32_t strike, kvt_ticks mean)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_FAULT, UINT64_C(5) << 61 | (uint64_t)strike);
    return kvt_ticks_from_seconds(-log1p(-kvt_stream_unit(&stream)) * kvt_seconds_from_ticks(mean));
}

static void resample_luck(struct kvt_faults *faults, int32_t at)
{
    struct kvt_deviation *d = &faults->deviations[at];
    const struct kvt_tag_kind *tag = &kvt_fault_guards(faults, d->replica)->tag;
    if (!is_ahead(faults, d) || d->compared || !is_lucky(faults, d))
        return;
    double now = bound(tag, d->agreed), next = bound(tag, d->agreed + 1);
    d->luck = now * kvt_fault_luck(faults, at);
    if (d->luck >= next)
        d->compared = true;
    else if (next < now)
        d->agreed++;
}

void kvt_faults_resample(struct kvt_faults *faults, struct kvt_strike strikes[], uint64_t seed)
{
    kvt_ticks now = faults->core->log.now;
    faults->seed = seed;
    for (int32_t i = 0; i < faults->count; i++)
        if (strikes[i].mean > 0 && !faults->results[i].activated)
            strikes[i].delay = another_delay(seed, i, strikes[i].mean);
    for (int32_t i = 0; i < faults->landing_count; i++) {
        struct kvt_landing *landing = &faults->landings[i];
        kvt_ticks mean = strikes[landing->strike].mean;
        if (mean > 0 && landing->time != KVT_NEVER)
            landing->time = now + another_delay(seed, landing->strike, mean);
    }
    for (int32_t i = 0; i < faults->deviation_count; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        const struct kvt_strike *s = &strikes[d->strike];
        if (d->open && s->mean > 0 && s->variant == KVT_STRIKE_PARTIAL_EARLY)
            d->heals = now + another_delay(seed, d->strike, s->mean);
        resample_luck(faults, i);
    }
}
