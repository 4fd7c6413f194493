#include "runtime/factors.h"

#include <stdlib.h>
#include <string.h>

void kvt_family_times(struct kvt_family_times *times, const struct kvt_step_record *record,
                      struct kvt_predictor *predictor)
{
    double rest = 0.5 * (record->time[0] + record->time[1]);
    memset(times, 0, sizeof *times);
    times->role = record->role;
    kvt_predictor_families(predictor, &record->load, times->predicted);
    for (int p = 0; p < KVT_PART_COUNT; p++) {
        if (kvt_part_factors[p] == KVT_FACTOR_SMALL)
            continue;
        times->measured[kvt_part_factors[p]] += record->part[p];
        rest -= record->part[p];
    }
    times->measured[KVT_FACTOR_SMALL] = rest > 0 ? rest : 0;
}

static int by_ratio(const void *a, const void *b)
{
    const struct kvt_weighed *x = a, *y = b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static double weighted_median(struct kvt_weighed *items, int64_t count)
{
    double sum = 0, seen = 0;
    qsort(items, (size_t)count, sizeof *items, by_ratio);
    for (int64_t i = 0; i < count; i++)
        sum += items[i].weight;
    for (int64_t i = 0; i < count; i++) {
        seen += items[i].weight;
        if (2 * seen >= sum)
            return items[i].ratio;
    }
    return 1;
}

struct search {
    const struct kvt_family_times *steps;
    int64_t count;
    int32_t role, family, epoch; /* epoch -1: any */
    struct kvt_weighed *items;
    int64_t near, found;
};

static void search_stretch(struct search *s, int64_t stretch)
{
    int64_t first = stretch * KVT_STRETCH_STEPS;
    if (stretch < 0 || first >= s->count || !kvt_calibrates(first))
        return;
    for (int64_t i = first; i < first + KVT_STRETCH_STEPS && i < s->count; i++) {
        const struct kvt_family_times *step = &s->steps[i];
        double want = step->predicted[s->family], got = step->measured[s->family];
        if (step->role == s->role && want > 0 && got > 0 &&
            (s->epoch < 0 || step->epoch == s->epoch))
            s->items[s->found++] = (struct kvt_weighed){got / want, want};
    }
}

/* Outwards from a stretch, both sides at a time, until there are enough. */
static void search_near(struct search *s, int64_t stretch)
{
    int64_t stretches = (s->count + KVT_STRETCH_STEPS - 1) / KVT_STRETCH_STEPS;
    s->found = 0;
    for (int64_t d = 1; d <= stretches && s->found < s->near; d++) {
        search_stretch(s, stretch - d);
        search_stretch(s, stretch + d);
    }
}

void kvt_factors_near(const struct kvt_family_times *steps, int64_t count, int64_t stretch,
                      int64_t near, struct kvt_weighed *scratch, kvt_factors factors)
{
    struct search s = {.steps = steps, .count = count, .items = scratch, .near = near};
    for (s.role = 0; s.role < KVT_ROLE_COUNT; s.role++)
        for (s.family = 0; s.family < KVT_FACTOR_COUNT; s.family++) {
            s.epoch = steps[stretch * KVT_STRETCH_STEPS].epoch;
            search_near(&s, stretch);
            if (s.found == 0) {
                s.epoch = -1;
                search_near(&s, stretch);
            }
            factors[s.role][s.family] = weighted_median(scratch, s.found);
        }
}

void kvt_factors_median(const struct kvt_family_times *steps, int64_t count,
                        struct kvt_weighed *scratch, kvt_factors factors)
{
    struct search s = {.steps = steps, .count = count, .epoch = -1, .items = scratch};
    for (s.role = 0; s.role < KVT_ROLE_COUNT; s.role++)
        for (s.family = 0; s.family < KVT_FACTOR_COUNT; s.family++) {
            s.found = 0;
            for (int64_t i = 0; i * KVT_STRETCH_STEPS < count; i++)
                search_stretch(&s, i);
            factors[s.role][s.family] = weighted_median(scratch, s.found);
        }
}

void kvt_factors_mean(const struct kvt_family_times *steps, int64_t count, kvt_factors factors)
{
    kvt_factors predicted = {{0}}, measured = {{0}};
    for (int64_t i = 0; i < count; i++)
        for (int f = 0; f < KVT_FACTOR_COUNT; f++) {
            predicted[steps[i].role][f] += steps[i].predicted[f];
            measured[steps[i].role][f] += steps[i].measured[f];
        }
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        for (int f = 0; f < KVT_FACTOR_COUNT; f++)
            factors[role][f] = predicted[role][f] > 0 ? measured[role][f] / predicted[role][f] : 1;
}
