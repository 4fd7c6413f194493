/*
 * The chain with a closed form: a request aborts in mid-transfer (2e-3), its writer stalls (1e-4),
 * its page goes to another before the write lands (rates 2/s and 10/s: 1/6), the tag aliases
 * (1/256).
 */
#include "sim/fault/rare.h"

#include <math.h>
#include <stdio.h>

#include "sim/fault/proportion.h"
#include "tests/check.h"

#define ABORT 2e-3
#define STALL 1e-4
#define REUSE 2.0
#define LAND  10.0
#define ALIAS (1.0 / 256)

static const double chain = ABORT * STALL * (REUSE / (REUSE + LAND)) * ALIAS;

/* An exponential delay drawn at rate `biased` instead of rate. */
static double bias_delay(struct kvt_stream *stream, double rate, double biased, double *log_weight)
{
    double delay = -log1p(-kvt_stream_unit(stream)) / biased;
    *log_weight += log(rate / biased) - (rate - biased) * delay;
    return delay;
}

static struct kvt_estimate by_forcing(int64_t runs, uint64_t seed)
{
    struct kvt_tally tally = {0};
    for (int64_t i = 0; i < runs; i++) {
        struct kvt_stream stream;
        kvt_stream_init(&stream, seed, KVT_PURPOSE_FAULT, (uint64_t)i);
        double log_weight = 0;
        kvt_force(ABORT, &log_weight);
        kvt_force(STALL, &log_weight);
        double reuse = bias_delay(&stream, REUSE, REUSE, &log_weight);
        double land = bias_delay(&stream, LAND, LAND, &log_weight);
        kvt_tally_add(&tally, reuse < land ? ALIAS : 0, log_weight);
    }
    return kvt_tally_estimate(&tally, 0.95);
}

static struct kvt_estimate by_importance(int64_t runs, uint64_t seed, double bias, double slow)
{
    struct kvt_tally tally = {0};
    for (int64_t i = 0; i < runs; i++) {
        struct kvt_stream stream;
        kvt_stream_init(&stream, seed, KVT_PURPOSE_FAULT, (uint64_t)i);
        double w = 0;
        bool escapes =
            kvt_bias_event(&stream, ABORT, bias, &w) && kvt_bias_event(&stream, STALL, bias, &w);
        if (escapes) {
            double reuse = bias_delay(&stream, REUSE, REUSE, &w);
            double land = bias_delay(&stream, LAND, slow, &w);
            escapes = reuse < land && kvt_bias_event(&stream, ALIAS, 0.5, &w);
        }
        kvt_tally_add(&tally, escapes, w);
    }
    return kvt_tally_estimate(&tally, 0.95);
}

static void forcing_is_within_1_percent(void)
{
    struct kvt_estimate e = by_forcing(200000, 1);
    CHECK_CLOSE(e.p, chain, 0.01, "");
    CHECK(e.low <= chain && chain <= e.high);
}

static void importance_sampling_is_within_2_percent(void)
{
    struct kvt_estimate e = by_importance(1000000, 1, 0.5, 2);
    CHECK_CLOSE(e.p, chain, 0.02, "");
    CHECK(e.low <= chain && chain <= e.high);
    CHECK(e.effective > 1000 && e.effective <= (double)e.hits * (1 + 1e-12));
    CHECK(e.largest_share < 0.01);
}

static void intervals_of_importance_sampling_cover_their_level(void)
{
    int inside = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct kvt_estimate e = by_importance(4000, seed, 0.5, 2);
        inside += e.low <= chain && chain <= e.high;
    }
    CHECK_NOTE(inside >= 178, "of 200 intervals at 95 %"); /* 190 -+ 4 standard errors */
}

static void an_unbiased_run_has_weight_one(void)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, 3, KVT_PURPOSE_FAULT, 0);
    double w = 0;
    for (int i = 0; i < 100; i++)
        kvt_bias_event(&stream, 0.3, 0.3, &w);
    CHECK(w == 0);
}

static void runs_in_parts_add_up_to_the_whole(void)
{
    struct kvt_tally whole = {0}, parts[4] = {{0}}, sum = {0};
    for (int i = 0; i < 1000; i++) {
        double value = i % 7 == 0, w = -0.25 * (i % 4);
        kvt_tally_add(&whole, value, w);
        kvt_tally_add(&parts[i / 250], value, w);
    }
    for (int i = 0; i < 4; i++)
        kvt_tally_merge(&sum, &parts[i]);
    struct kvt_estimate a = kvt_tally_estimate(&whole, 0.9), b = kvt_tally_estimate(&sum, 0.9);
    CHECK_I64(b.runs, a.runs, "");
    CHECK_I64(b.hits, a.hits, "");
    CHECK_CLOSE(b.p, a.p, 1e-12, "");
    CHECK_CLOSE(b.high, a.high, 1e-12, "");
}

static void no_hit_is_no_certainty(void)
{
    struct kvt_tally none = {0};
    struct kvt_estimate e = kvt_tally_estimate(&none, 0.95);
    CHECK(e.low == 0 && e.high == 1);
    for (int run = 0; run < 1000; run++)
        kvt_tally_add(&none, 0, -20);
    e = kvt_tally_estimate(&none, 0.9);
    CHECK(e.p == 0 && e.low == 0);
    CHECK_CLOSE(e.high, 1 - pow(0.05, 1e-3), 1e-9, "as for a count");
    struct kvt_interval i = kvt_clopper_pearson(0, 1000, 0.9);
    CHECK(i.low == 0);
    CHECK_CLOSE(i.high, 1 - pow(0.05, 1e-3), 1e-9, "the rule of three: 3/n");
    i = kvt_clopper_pearson(0, 0, 0.95);
    CHECK_NOTE(i.low == 0 && i.high == 1, "no trials");
}

static void hits_alone_are_no_certainty_either(void)
{
    struct kvt_tally all = {0};
    for (int run = 0; run < 40; run++)
        kvt_tally_add(&all, 1, log(0.25));
    struct kvt_estimate e = kvt_tally_estimate(&all, 0.95);
    CHECK_CLOSE(e.p, 0.25, 1e-12, "");
    CHECK_CLOSE(e.low, 0.25 * pow(0.025, 1.0 / 40), 1e-9, "as for a count");
    CHECK(e.high >= e.p);
}

static void intervals_of_counts_have_their_known_values(void)
{
    struct kvt_interval i = kvt_clopper_pearson(10, 100, 0.95);
    CHECK_CLOSE(i.low, 0.04900469, 1e-6, "");
    CHECK_CLOSE(i.high, 0.17622260, 1e-6, "");
}

const struct check_test check_rare[] = {
    {"forcing is within 1 % of the closed form", forcing_is_within_1_percent, false},
    {"importance sampling is within 2 % of the closed form",
     importance_sampling_is_within_2_percent, false},
    {"intervals of importance sampling cover their level",
     intervals_of_importance_sampling_cover_their_level, false},
    {"an unbiased run has weight one", an_unbiased_run_has_weight_one, false},
    {"runs in parts add up to the whole", runs_in_parts_add_up_to_the_whole, false},
    {"no hit is no certainty", no_hit_is_no_certainty, false},
    {"hits alone are no certainty either", hits_alone_are_no_certainty_either, false},
    {"intervals of counts have their known values", intervals_of_counts_have_their_known_values,
     false},
    {0},
};
