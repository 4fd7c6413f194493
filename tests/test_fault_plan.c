#include "sim/plan/fault_rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/plan/fault_estimate.h"
#include "tests/check.h"

static const char fleet[] =
    "model: llama-3.1-70b\n"
    "fleet:\n"
    "  prefill: {gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64}\n"
    "  decode: {replicas: 2, gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64,\n"
    "           memory: {pages: 1200}}\n"
    "  link: {bandwidth: 200 MB/s, per: gpu}\n"
    "workload:\n"
    "  aborts: {share: 0.3, after: 2 s}\n"
    "  open: {rate: 4 req/s, input: {lognormal: {mean: 1155, p99: 4142}},\n"
    "         output: {lognormal: {mean: 211, p99: 700}}}\n"
    "run: {seed: 3, until: 60 s}\n";

static struct kvt_strike strikes[KVT_STRIKES_MAX];
static struct kvt_fault_result results[KVT_STRIKES_MAX];
static struct kvt_config config;
static struct kvt_simulation base;

/* A simulation of the fleet with these faults; false, and a failed check, when it cannot be. */
static bool begin(const char *faults, const char *set)
{
    static char text[65536];
    struct kvt_err err = {0};
    const char *sets[] = {set};
    struct kvt_simulate_options how = {.named = true};
    snprintf(text, sizeof text, "%sfaults:\n%s", fleet, faults);
    CHECK_OK(
        kvt_config_parse(&config, "plan.yaml", text, strlen(text), ".", sets, set != NULL, &err),
        err);
    if (err.status == KVT_OK)
        CHECK_OK(kvt_simulation_init(&base, &config, &how, &err), err);
    return err.status == KVT_OK;
}

static void end(void)
{
    kvt_simulation_release(&base);
    kvt_config_release(&config);
}

static int32_t draw(uint64_t seed, double inflate, double *log_weight)
{
    struct kvt_err err = {0};
    int32_t count = 0;
    CHECK_OK(kvt_fault_draw_plan(&base, seed, inflate, strikes, &count, log_weight, &err), err);
    return count;
}

/* ---- rates -------------------------------------------------------------------------------- */

static void a_rate_per_hour_strikes_as_often_as_it_says(void)
{
    double weight, sum = 0, mean = 3 * 300 / 60.0; /* three replicas, one minute */
    if (!begin("  rates: [{fault: wrong-map, rate: 300, per: hour}]\n", NULL))
        return;
    for (uint64_t seed = 0; seed < 400; seed++)
        sum += draw(seed, 1, &weight);
    CHECK(fabs(sum / 400 - mean) < 4 * sqrt(mean / 400));
    CHECK(weight == 0);
    int32_t count = draw(5, 1, &weight);
    for (int32_t i = 1; i < count; i++)
        CHECK(strikes[i - 1].time <= strikes[i].time);
    end();
}

static void memory_errors_are_as_many_as_there_is_memory(void)
{
    double weight, sum = 0;
    if (!begin("  rates: [{fault: bit-flip, rate: 1, per: gb-hour}]\n", NULL))
        return;
    double bytes = 0;
    for (int32_t id = 0; id < base.des.core.replica_count; id++)
        bytes += 4 * (double)base.fleet->roles[base.des.core.replicas[id].spec.role]
                         .plan.memory.kv_pool_bytes;
    double mean = bytes * 1e-9 / 60;
    for (uint64_t seed = 0; seed < 1000; seed++)
        sum += draw(seed, 1, &weight);
    CHECK_NOTE(fabs(sum / 1000 - mean) < 4 * sqrt(mean / 1000), "GB of all ranks, one minute");
    end();
}

/* One GPU in twenty carries nearly all: the mean stays, the runs differ much more. */
static void lemons_carry_most_and_change_no_mean(void)
{
    const char *const rows[2] = {
        "  rates: [{fault: bit-flip, rate: 50, per: gpu-hour}]\n",
        "  rates: [{fault: bit-flip, rate: 50, per: gpu-hour, lemons: 0.05, carry: 0.98}]\n"};
    double mean[2], variance[2];
    for (int way = 0; way < 2; way++) {
        double weight, sum = 0, squares = 0, runs = 3000;
        if (!begin(rows[way], NULL))
            return;
        for (uint64_t seed = 0; seed < 3000; seed++) {
            double count = draw(seed, 1, &weight);
            sum += count;
            squares += count * count;
        }
        mean[way] = sum / runs;
        variance[way] = squares / runs - mean[way] * mean[way];
        end();
    }
    CHECK_CLOSE(mean[0], 10, 0.03, "twelve GPUs, one minute");
    CHECK(fabs(mean[1] - 10) < 4 * sqrt(variance[1] / 3000));
    CHECK_CLOSE(variance[0], mean[0], 0.1, "Poisson");
    CHECK(variance[1] > 5 * variance[0]);
}

static void shares_strike_their_requests(void)
{
    double weight;
    if (!begin("  rates: [{fault: late-write, rate: 0.5, per: abort},\n"
               "          {fault: partial-transfer, rate: 0.25, per: transfer}]\n",
               NULL))
        return;
    int64_t aborts = 0, leaving = 0, transfers = 0;
    int32_t count = draw(3, 1, &weight);
    for (int32_t r = 0; r < base.trace.count; r++)
        leaving += base.patience[r] != KVT_NEVER;
    for (int32_t i = 0; i < count; i++) {
        bool abort = strikes[i].variant == KVT_STRIKE_WRITE_ABORT;
        CHECK(!abort || base.patience[strikes[i].request] != KVT_NEVER);
        aborts += abort;
        transfers += strikes[i].variant == KVT_STRIKE_PARTIAL_EARLY;
    }
    CHECK_CLOSE((double)aborts, 0.5 * (double)leaving, 0.35, "half of those that leave");
    CHECK_CLOSE((double)transfers, 0.25 * base.trace.count, 0.35, "a quarter of all");
    end();
}

/* The mean of the weights is 1: they are a ratio of densities. */
static void inflated_plans_weigh_what_they_should(void)
{
    double sum = 0, struck = 0, plain = 0, weight;
    if (!begin("  rates: [{fault: partial-transfer, rate: 0.001, per: transfer},\n"
               "          {fault: wrong-map, rate: 2, per: hour}]\n",
               NULL))
        return;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        plain += draw(seed, 1, &weight);
        int32_t count = draw(seed + 10000, 3, &weight);
        sum += exp(weight);
        struck += count * exp(weight);
    }
    CHECK_CLOSE(sum / 4000, 1, 0.06, "mean weight");
    CHECK_CLOSE(struck / 4000, plain / 4000, 0.12, "strikes of a run");
    end();
}

/* Weighted runs at inflated rates, with tags that are forced to be equal, find what is counted. */
static void importance_sampling_agrees_with_counting(void)
{
    struct kvt_campaign_options how = {.threads = 2};
    struct kvt_fault_estimate counted, weighted, again;
    struct kvt_err err = {0};
    const char *faults = "  everywhere: true\n"
                         "  trials: 1200\n"
                         "  rates: [{fault: wrong-map, variant: foreign, rate: 12, per: hour}]\n";
    if (!begin(faults, "fleet.decode.guard={tag-side: {bits: 4, values: random, "
                       "check: before-read}}"))
        return;
    bool before = kvt_paranoid; /* on in debug and sanitize builds: too slow for 3,600 runs */
    kvt_paranoid = false;
    CHECK_OK(kvt_fault_estimate(&config, &how, KVT_ESTIMATE_COUNTED, 0, &counted, &err), err);
    CHECK_OK(kvt_fault_estimate(&config, &how, KVT_ESTIMATE_IMPORTANCE, 3, &weighted, &err), err);
    how.threads = 1;
    CHECK_OK(kvt_fault_estimate(&config, &how, KVT_ESTIMATE_IMPORTANCE, 3, &again, &err), err);
    kvt_paranoid = before;
    CHECK_NOTE(memcmp(&weighted, &again, sizeof again) == 0, "for any number of threads");
    struct kvt_estimate naive = kvt_fault_estimate_escapes(&counted);
    struct kvt_estimate rare = kvt_fault_estimate_escapes(&weighted);
    CHECK(naive.hits >= 10 && rare.effective > 50);
    CHECK(fabs(naive.p - rare.p) < 3 * sqrt(naive.error * naive.error + rare.error * rare.error));
    CHECK_NOTE(rare.error < naive.error / 2, "it is much closer with as many runs");
    end();
}

/* ---- plans -------------------------------------------------------------------------------- */

static void a_printed_plan_ends_in_the_same_way(void)
{
    static struct kvt_fault_result again[KVT_STRIKES_MAX];
    static struct kvt_strike drawn[KVT_STRIKES_MAX];
    struct kvt_campaign_options how = {.threads = 1};
    struct kvt_err err = {0};
    int32_t count = 0, count_again = 0;
    char *text = NULL;
    size_t bytes = 0;
    if (!begin("  rates: [{fault: late-write, rate: 1, per: abort},\n"
               "          {fault: wrong-map, rate: 200, per: hour}]\n",
               NULL))
        return;
    CHECK_OK(kvt_fault_run(&config, &how, strikes, results, &count, &err), err);
    memcpy(drawn, strikes, sizeof drawn);
    FILE *out = open_memstream(&text, &bytes);
    kvt_fault_print_plan(strikes, count, out);
    fclose(out);
    end();
    if (begin(text, NULL)) {
        CHECK_OK(kvt_fault_run(&config, &how, strikes, again, &count_again, &err), err);
        end();
    }
    free(text);
    CHECK(count > 10);
    CHECK_I64(count_again, count, "strikes");
    int32_t struck = 0;
    for (int32_t i = 0; i < count && i < count_again; i++) {
        CHECK_I64(strikes[i].time, drawn[i].time, "to the tick");
        CHECK(memcmp(&again[i], &results[i], sizeof results[i]) == 0);
        struck += results[i].hit > 0;
    }
    CHECK(struck > 0);
}

static void what_cannot_be_drawn_is_refused(void)
{
    static const struct {
        const char *faults, *message;
    } bad[] = {
        {"  plan: [{fault: bit-flip, at: 1 s, replica: 1, page: 1200}]\n",
         "plan.yaml:13:10: faults.plan: page 1200 of a pool of 1200 on decode-0"},
        {"  plan: [{fault: wrong-map, at: 1 s, request: 100000}]\n", "request 100000 of a load of"},
        {"  plan:\n  - {fault: node-fault, variant: crash, at: 5 s, replica: 1, delay: 10 s}\n"
         "  - {fault: node-fault, variant: crash, at: 14 s, replica: 1}\n",
         "plan.yaml:15:5: faults.plan: node-fault/crash of replica 1 at 14 s, but it is down from "
         "5 s to 15 s by strike 1 of the plan"},
        {"  plan:\n  - {fault: node-fault, variant: slow, at: 5 s, replica: 1, delay: 10 s}\n"
         "  - {fault: node-fault, variant: crash, at: 5 s, replica: 1}\n",
         "node-fault/crash of replica 1 at 5 s, but it is slow from 5 s to 15 s by strike 1"},
        {"  plan: [{fault: partial-transfer, at: 5 s, amount: 1.5}]\n",
         "the amount of partial-transfer/early is a share: want 0 to 1, got 1.5"},
        {"  plan: [{fault: node-fault, variant: slow, at: 5 s, amount: 0.5}]\n",
         "want 1 or more, got 0.5"},
        {"  rates: [{fault: partial-transfer, rate: 2, per: transfer}]\n",
         "plan.yaml:13:11: faults.rates: a rate per transfer is a share: want 0 to 1, got 2"},
        {"  rates: [{fault: bit-flip, rate: 0.1, per: transfer}]\n",
         "bit-flip/kv does not strike per transfer"},
        {"  rates: [{fault: late-write, variant: soon, rate: 1, per: hour}]\n",
         "late-write has no variant \"soon\""},
        {"  rates: [{fault: late-write, rate: 1, per: hour, delay: 1e9 s, exponential: true}]\n",
         "want a delay of at most 100000 s, got 1e+09 s"},
        {"  rates: [{fault: bit-flip, rate: 1, per: hour, lemons: 0.1}]\n",
         "lemons are GPUs: want a rate per gpu-hour or gb-hour"},
        {"  rates: [{fault: bit-flip, rate: 1e9, per: hour}]\n",
         "more than 1024 strikes in one run"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kvt_err err = {0};
        int32_t count;
        double weight;
        if (!begin(bad[i].faults, NULL))
            continue;
        enum kvt_status status = kvt_fault_draw_plan(&base, 1, 1, strikes, &count, &weight, &err);
        CHECK_NOTE(status == KVT_ECONFIG || status == KVT_ELIMIT, bad[i].message);
        CHECK_HOLDS(err.text, bad[i].message, "");
        end();
    }
}

const struct check_test check_fault_plan[] = {
    {"a rate per hour strikes as often as it says", a_rate_per_hour_strikes_as_often_as_it_says,
     false},
    {"memory errors are as many as there is memory", memory_errors_are_as_many_as_there_is_memory,
     false},
    {"lemons carry most and change no mean", lemons_carry_most_and_change_no_mean, false},
    {"shares strike their requests", shares_strike_their_requests, false},
    {"inflated plans weigh what they should", inflated_plans_weigh_what_they_should, false},
    {"importance sampling agrees with counting", importance_sampling_agrees_with_counting, false},
    {"a printed plan ends in the same way", a_printed_plan_ends_in_the_same_way, false},
    {"what cannot be drawn is refused", what_cannot_be_drawn_is_refused, false},
    {0},
};
