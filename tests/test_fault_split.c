/*
 * Splitting of whole runs, against what is known otherwise: closed forms, plain runs, weighted
 * runs.
 */
#include "sim/plan/fault_split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan/fault_estimate.h"
#include "sim/plan/fault_rates.h"
#include "tests/check.h"

static const char fleet[] =
    "model: llama-3.1-70b\n"
    "fleet:\n"
    "  prefill: {gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64}\n"
    "  decode: {replicas: 2, gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64,\n"
    "           memory: {pages: 700}}\n"
    "  link: {bandwidth: 200 MB/s, per: gpu}\n"
    "workload:\n"
    "  open: {rate: 4 req/s, input: {lognormal: {mean: 1155, p99: 4142}},\n"
    "         output: {lognormal: {mean: 211, p99: 700}}}\n"
    "run: {seed: 3, until: 40 s}\n";

static struct kvt_config config;

static bool load(const char *faults, const char *guard)
{
    static char text[65536];
    struct kvt_err err = {0};
    snprintf(text, sizeof text, "%sfaults:\n%s", fleet, faults);
    CHECK_OK(kvt_config_parse(&config, "split.yaml", text, strlen(text), ".", &guard, 1, &err),
             err);
    return err.status == KVT_OK;
}

static struct kvt_splitter *begin(const char *guard)
{
    static struct kvt_splitter split;
    struct kvt_simulate_options how = {.talk = NULL};
    struct kvt_err err = {0};
    if (!load("  everywhere: true\n", guard))
        return NULL;
    split = (struct kvt_splitter){.branch = true};
    CHECK_OK(kvt_trunk_init(&split.trunk, &config, &how, 4, 0, -1, true, &err), err);
    return err.status == KVT_OK ? &split : NULL;
}

static void end(struct kvt_splitter *split)
{
    kvt_split_release(split);
    kvt_config_release(&config);
}

static struct kvt_strike strike_of(int32_t variant, double at, double delay)
{
    return (struct kvt_strike){.time = kvt_ticks_from_seconds(at),
                               .variant = variant,
                               .replica = KVT_NONE,
                               .request = KVT_NONE,
                               .page = KVT_NONE,
                               .amount = kvt_fault_variants[variant].amount,
                               .delay = kvt_ticks_from_seconds(delay)};
}

static double value_of(struct kvt_splitter *split, const struct kvt_strike *strike, uint64_t seed)
{
    double value = 0;
    struct kvt_err err = {0};
    CHECK_OK(kvt_split_root(split, strike, 1, seed, &value, &err), err);
    return value;
}

/* The mean of so many roots of one strike, whose delay is drawn if it has a mean, with its error.
 */
static struct kvt_estimate mean_of(struct kvt_splitter *split, const struct kvt_strike *strike,
                                   int32_t roots)
{
    struct kvt_tally tally = {0};
    for (int32_t i = 0; i < roots; i++) {
        struct kvt_strike drawn = *strike;
        struct kvt_stream stream;
        kvt_stream_init(&stream, 5, KVT_PURPOSE_TEST, (uint64_t)i);
        if (strike->mean > 0)
            drawn.delay = (kvt_ticks)(-log1p(-kvt_stream_unit(&stream)) * (double)strike->mean);
        kvt_tally_add(&tally, value_of(split, &drawn, (uint64_t)i + 1), 0);
    }
    return kvt_tally_estimate(&tally, 0.95);
}

/* ---- closed forms ------------------------------------------------------------------------- */

/* An entry names another's page: every page that can be drawn escapes if and only if its tag is
 * equal, with chance 1 / (2^bits - 1). */
static void a_tag_is_equal_as_often_as_its_width_says(void)
{
    static const struct {
        const char *guard;
        int32_t bits;
    } rows[] = {
        {"fleet.decode.guard={tag-side: {bits: 8, values: random, check: before-read}}", 8},
        {"fleet.decode.guard={tag-inband: {bits: 16, values: random, check: before-read}}", 16},
        {"fleet.decode.guard={tag-inband: {bits: 16, values: random, check: after-step}}", 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_splitter *split = begin(rows[i].guard);
        if (split == NULL)
            return;
        struct kvt_strike strike = strike_of(KVT_STRIKE_MAP_NEXT, 20, 0);
        mean_of(split, &strike, 60);
        kvt_split_adapt(&split->levels);
        mean_of(split, &strike, 60);
        kvt_split_adapt(&split->levels);
        struct kvt_estimate e = mean_of(split, &strike, 300);
        double p = 1 / (ldexp(1, rows[i].bits) - 1);
        CHECK_NOTE(fabs(e.p - p) < 4 * e.error, rows[i].guard);
        CHECK_NOTE(e.error < 0.2 * p, "with 300 roots");
        end(split);
    }
}

/* A run of one strike escapes if its late bytes come after the page has been given to another and
 * written by it, at a time that bisection finds; an exponential time of mean m is later with
 * probability exp(-time / m). */
static void late_bytes_land_as_late_as_their_distribution_says(void)
{
    struct kvt_splitter *split = begin("fleet.decode.guard=none");
    if (split == NULL)
        return;
    double early = 0, late = 0.2, mean = 0.006;
    for (int i = 0; i < 24; i++) {
        double middle = (early + late) / 2;
        struct kvt_strike strike = strike_of(KVT_STRIKE_WRITE_TRANSFER, 22, middle);
        *(value_of(split, &strike, 1) > 0 ? &late : &early) = middle;
    }
    double p = exp(-late / mean);
    CHECK_NOTE(p > 1e-3 && p < 0.05, "rare");
    struct kvt_strike strike = strike_of(KVT_STRIKE_WRITE_TRANSFER, 22, mean);
    strike.mean = strike.delay;
    for (int way = 0; way < 2; way++) { /* split at every level; then as a pilot says */
        for (int32_t level = 1; level < KVT_FAULT_LEVELS && way == 0; level++)
            split->levels.factor[level] = 6;
        struct kvt_estimate e = mean_of(split, &strike, 600);
        CHECK_NOTE(fabs(e.p - p) < 4 * e.error, way == 0 ? "every level" : "pilot");
        CHECK_NOTE(e.error < 0.25 * p, way == 0 ? "every level" : "pilot");
        kvt_split_adapt(&split->levels);
    }
    end(split);
}

static void without_a_factor_a_root_is_a_plain_run(void)
{
    struct kvt_splitter *split = begin("fleet.decode.guard=none");
    if (split == NULL)
        return;
    struct kvt_faults *faults = split->trunk.simulation.faults;
    for (int32_t i = 0; i < 10; i++) {
        struct kvt_strike strike = strike_of(KVT_STRIKE_MAP_FOREIGN, 15 + i, 0);
        double value = value_of(split, &strike, 1);
        kvt_trunk_branch(&split->trunk, &strike, 1, 1);
        while (kvt_des_step(&split->trunk.simulation.des, 1000))
            continue;
        kvt_faults_finish(faults);
        CHECK(value == kvt_fault_escaped(faults));
    }
    CHECK_I64(split->levels.clones, 0, "clones");
    end(split);
}

/* ---- plans with a strike ------------------------------------------------------------------ */

static void a_plan_with_a_strike_is_as_likely_as_it_says(void)
{
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    struct kvt_simulate_options how = {.named = true};
    struct kvt_simulation base;
    struct kvt_err err = {0};
    double struck = 0, any = 0, sum = 0, late = 0, given = 0, given_late = 0, weight, runs = 20000;
    if (!load("  from: 10 s\n  until: 30 s\n"
              "  rates: [{fault: wrong-map, rate: 20, per: hour},\n"
              "          {fault: partial-transfer, rate: 0.005, per: transfer}]\n",
              "run.seed=3"))
        return;
    CHECK_OK(kvt_simulation_init(&base, &config, &how, &err), err);
    for (uint64_t seed = 0; seed < (uint64_t)runs; seed++) {
        int32_t count;
        CHECK_OK(kvt_fault_draw_plan(&base, seed, 1, strikes, &count, &weight, &err), err);
        any += count > 0;
        sum += count;
        for (int32_t i = 0; i < count; i++)
            late += strikes[i].time > kvt_ticks_from_seconds(25);
        CHECK_OK(kvt_fault_draw_struck_plan(&base, seed, strikes, &count, &weight, &err), err);
        struck = exp(weight);
        CHECK(count > 0);
        given += struck * count;
        for (int32_t i = 0; i < count; i++)
            given_late += struck * (strikes[i].time > kvt_ticks_from_seconds(25));
    }
    CHECK_CLOSE(struck, any / runs, 4 * sqrt(struck / runs) / struck, "chance of a strike");
    CHECK_CLOSE(given, sum, 0.05, "strikes of a run");
    CHECK_CLOSE(given_late, late, 0.08, "and where they fall");
    kvt_simulation_release(&base);
    kvt_config_release(&config);
}

/* ---- other estimators --------------------------------------------------------------------- */

static struct kvt_estimate estimate(enum kvt_fault_estimator estimator, const char *trials,
                                    int32_t threads, struct kvt_fault_estimate *all)
{
    struct kvt_campaign_options how = {.threads = threads, .branch = true};
    struct kvt_err err = {0};
    config.faults.trials = strtol(trials, NULL, 10);
    CHECK_OK(kvt_fault_estimate(&config, &how, estimator, 0, all, &err), err);
    return kvt_fault_estimate_escapes(all);
}

static bool agree(const struct kvt_estimate *a, const struct kvt_estimate *b)
{
    return fabs(a->p - b->p) < 3 * sqrt(a->error * a->error + b->error * b->error);
}

/* At rates that are high enough to count: several strikes fall in some runs. */
static void it_agrees_with_counting_at_inflated_rates(void)
{
    struct kvt_fault_estimate all;
    if (!load("  everywhere: true\n  from: 5 s\n"
              "  rates: [{fault: late-write, rate: 60, per: hour, delay: 0.5 s, exponential: "
              "true}]\n",
              "fleet.decode.guard={tag-inband: {bits: 4, values: random, check: before-read}}"))
        return;
    struct kvt_estimate naive = estimate(KVT_ESTIMATE_COUNTED, "2000", 2, &all);
    struct kvt_estimate split = estimate(KVT_ESTIMATE_SPLITTING, "300", 2, &all);
    CHECK(naive.hits >= 10);
    CHECK(all.levels.clones > 1000);
    CHECK(agree(&naive, &split));
    CHECK_NOTE(300 * split.error * split.error < 2000 * naive.error * naive.error / 2,
               "a run tells more than twice as much");
    kvt_config_release(&config);
}

static void it_agrees_with_importance_sampling(void)
{
    struct kvt_fault_estimate all, again;
    if (!load("  everywhere: true\n"
              "  rates: [{fault: wrong-map, variant: foreign, rate: 0.001, per: hour}]\n",
              "fleet.decode.guard={tag-side: {bits: 8, values: random, check: before-read}}"))
        return;
    struct kvt_estimate weighted = estimate(KVT_ESTIMATE_IMPORTANCE, "400", 2, &all);
    struct kvt_estimate split = estimate(KVT_ESTIMATE_SPLITTING, "400", 2, &all);
    CHECK(agree(&weighted, &split));
    CHECK(split.effective > 50 && split.error < 0.2 * split.p);
    CHECK_NOTE(split.p < 1e-7, "counting would take 1e9 runs");
    estimate(KVT_ESTIMATE_SPLITTING, "400", 1, &again);
    CHECK_NOTE(memcmp(&all, &again, sizeof again) == 0, "for any number of threads");
    kvt_config_release(&config);
}

static void what_cannot_be_split_is_refused(void)
{
    struct kvt_campaign_options how = {.threads = 1, .branch = true};
    struct kvt_fault_estimate all;
    struct kvt_err err = {0};
    if (!load("  rates: [{fault: wrong-map, rate: 6000, per: hour}]\n", "faults.trials=8"))
        return;
    CHECK_FAILS(kvt_fault_estimate(&config, &how, KVT_ESTIMATE_SPLITTING, 0, &all, &err), err,
                KVT_ELIMIT);
    CHECK_HOLDS(err.text, "splitting takes 32 at most: these rates can be counted", "");
    kvt_config_release(&config);
}

static void where_nothing_strikes_nothing_escapes(void)
{
    struct kvt_fault_estimate all;
    static const enum kvt_fault_estimator ways[] = {KVT_ESTIMATE_COUNTED, KVT_ESTIMATE_IMPORTANCE,
                                                    KVT_ESTIMATE_SPLITTING};
    if (!load("  rates: [{fault: wrong-map, rate: 0, per: hour}]\n", "faults.trials=8"))
        return;
    for (int i = 0; i < 3; i++) {
        struct kvt_estimate none = estimate(ways[i], "8", 1, &all);
        CHECK(none.p == 0 && none.low == 0 && none.high == 0);
        CHECK_I64(all.strikes, 0, "strikes");
    }
    kvt_config_release(&config);
}

const struct check_test check_fault_split[] = {
    {"a tag is equal as often as its width says", a_tag_is_equal_as_often_as_its_width_says, false},
    {"late bytes land as late as their distribution says",
     late_bytes_land_as_late_as_their_distribution_says, false},
    {"without a factor a root is a plain run", without_a_factor_a_root_is_a_plain_run, false},
    {"a plan with a strike is as likely as it says", a_plan_with_a_strike_is_as_likely_as_it_says,
     false},
    {"it agrees with counting at inflated rates", it_agrees_with_counting_at_inflated_rates, false},
    {"it agrees with importance sampling", it_agrees_with_importance_sampling, false},
    {"what cannot be split is refused", what_cannot_be_split_is_refused, false},
    {"where nothing strikes nothing escapes", where_nothing_strikes_nothing_escapes, false},
    {0},
};
