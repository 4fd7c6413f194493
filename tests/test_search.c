/* Searches: the same winner as running everything, bounds that drop only what misses, answers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/plan/search.h"
#include "sim/plan/sweep.h"
#include "tests/check.h"

static struct kvt_err err;

struct world {
    struct kvt_config config;
    struct kvt_points points;
    struct kvt_search search;
};

static struct world w;

static bool world_begin(const char *path, const char *const sets[], int32_t set_count)
{
    enum kvt_status status = kvt_config_load(&w.config, path, sets, set_count, &err);
    CHECK_OK(status, err);
    if (status == KVT_OK)
        status = kvt_points_init(&w.points, &w.config, path, sets, set_count, &err);
    CHECK_OK(status, err);
    return status == KVT_OK;
}

static void world_end(void)
{
    kvt_points_release(&w.points);
    kvt_config_release(&w.config);
}

static void search(bool exhaustive, int32_t threads)
{
    const struct kvt_search_options how = {.exhaustive = exhaustive, .threads = threads};
    CHECK_OK(kvt_search_run(&w.search, &w.points, &how, &err), err);
}

/* Small enough for every run of the tests. */
static const char small[] =
    "model: llama-3.1-8b\n"
    "engine: vllm\n"
    "fleet:\n"
    "  serve:\n"
    "    replicas: {choices: [1, 2, 3]}\n"
    "    gpu: {choices: [h100-sxm, l4, t4]}\n"
    "    parallel: {tp: {choices: [1, 2]}, dp: {choices: [1, 2]}}\n"
    "workload:\n"
    "  open: {rate: 12 req/s, arrivals: poisson, input: {lognormal: {mean: 900, p99: 4000}},\n"
    "         output: 60, requests: 300}\n"
    "slo: {ttft: {p90: 400 ms}, itl: {p99: 50 ms}}\n"
    "cost: {h100-sxm: 2.5 USD/h, l4: 0.6 USD/h, t4: 0.3 USD/h}\n"
    "plan: {resamples: 10}\n";

static bool small_begin(const char *const sets[], int32_t set_count)
{
    static char path[300];
    snprintf(path, sizeof path, "%s", check_temp("search.yaml"));
    CHECK_OK(kvt_file_write(path, small, strlen(small), &err), err);
    return world_begin(path, sets, set_count);
}

/* ---- against running everything ---- */

/* The winner by definition, from a sweep of every point: of those that meet the SLO in their run
 * and in enough resamples the one that costs least, then has most left. */
static int64_t winner_of_everything(void)
{
    static struct kvt_sweep all;
    struct kvt_ranks alone = {.count = 1};
    const struct kvt_sweep_options how = {.resamples = (int32_t)w.config.plan.resamples};
    const char *key = w.config.plan.objective == KVT_OBJECTIVE_GPUS ? "gpus" : "cost_usd_per_h";
    int64_t best = -1;
    double least = (double)INFINITY, worst = (double)INFINITY;
    CHECK_OK(kvt_sweep_run(&all, &w.points, &alone, &how, &err), err);
    int32_t confidence = kvt_point_column(&all.columns, "slo_confidence");
    int32_t ttft = kvt_point_column(&all.columns, "slo_ttft_p90_ms");
    int32_t itl = kvt_point_column(&all.columns, "slo_itl_p99_ms");
    CHECK(confidence >= 0 && ttft >= 0 && itl >= 0);
    for (int64_t i = 0; i < all.count && confidence >= 0 && ttft >= 0 && itl >= 0; i++) {
        double objective = kvt_sweep_value(&all, kvt_point_column(&all.columns, key), i);
        bool meets = kvt_sweep_value(&all, kvt_point_column(&all.columns, "slo_met"), i) == 1 &&
                     kvt_sweep_value(&all, kvt_point_column(&all.columns, "rejected"), i) == 0 &&
                     kvt_sweep_value(&all, confidence, i) >= w.config.plan.confidence;
        double here = fmax(kvt_sweep_value(&all, ttft, i) / (1e3 * w.config.slo.ttft.seconds[0]),
                           kvt_sweep_value(&all, itl, i) / (1e3 * w.config.slo.itl.seconds[0]));
        if (!meets || objective > least || (objective == least && here >= worst))
            continue;
        best = i;
        least = objective;
        worst = here;
    }
    kvt_sweep_release(&all);
    return best;
}

static void compare_winners(const char *path, const char *const sets[], int32_t set_count)
{
    if (path == NULL ? !small_begin(sets, set_count) : !world_begin(path, sets, set_count))
        return;
    search(false, 0);
    CHECK_NOTE(w.search.best >= 0, "there is a best");
    CHECK_I64(w.search.best, winner_of_everything(), "the winner");
    kvt_search_release(&w.search);
    world_end();
}

static void the_winner_is_that_of_running_everything(void)
{
    static const char *const front[] = {"plan.front=false"};
    compare_winners(NULL, NULL, 0);
    compare_winners(NULL, front, 1);
    compare_winners("configs/examples/plan-split.yaml", NULL, 0);
}

/* Domains in which more is not better: what a search takes for granted is the order of cost, never
 * that a dearer fleet serves better. */
static void more_may_be_worse_or_cheaper(void)
{
    static const char *const sets[][3] = {
        /* the dearest GPU is the slowest, the fastest the cheapest */
        {"cost={h100-sxm: 0.5 USD/h, l4: 4 USD/h, t4: 9 USD/h}", "plan.front=false", NULL},
        /* a larger batch of prompts breaks the ITL that a smaller one keeps */
        {"fleet={choices: ["
         "{serve: {replicas: 2, gpu: h100-sxm, scheduler: {batch_tokens: 8192}}},"
         "{serve: {replicas: 3, gpu: h100-sxm, scheduler: {batch_tokens: 8192}}},"
         "{serve: {replicas: 2, gpu: h100-sxm, scheduler: {batch_tokens: 1024}}},"
         "{serve: {replicas: 4, gpu: h100-sxm, scheduler: {batch_tokens: 8192}}}]}",
         "slo={ttft: {p90: 400 ms}, itl: {p99: 22 ms}}", "plan.front=false"},
        /* replicas that a router does not use are only dearer */
        {"fleet.serve={gpu: h100-sxm, replicas: {choices: [6, 1, 4, 2]}, router: {choices: "
         "[least-tokens, round-robin]}}",
         "plan.front=false", NULL},
    };
    for (int i = 0; i < 3; i++)
        compare_winners(NULL, sets[i], sets[i][2] != NULL ? 3 : 2);
}

static void the_winner_of_the_shipped_domains_is_that_of_running_everything(void)
{
    static const char *const sets[] = {"run.until=3 min", "fleet.serve.replicas={choices: [4, 8]}",
                                       "plan.resamples=10"};
    compare_winners("configs/examples/plan.yaml", sets, 3);
    compare_winners("configs/examples/plan-moe.yaml", NULL, 0);
}

static void what_a_bound_drops_misses_when_it_is_run(void)
{
    static const char *const sets[] = {"slo={ttft: {p90: 60 ms}, itl: {p99: 14 ms}}",
                                       "slo={ttft: {p90: 400 ms}, e2el: {p90: 900 ms}}",
                                       "workload.open.rate=60 req/s",
                                       "fleet.serve.scheduler.max_model_len=2000"};
    for (int i = 0; i < 4; i++) {
        static enum kvt_candidate_state states[36];
        int64_t pruned = 0;
        if (!small_begin(&sets[i], 1))
            return;
        search(false, 0);
        for (int64_t c = 0; c < w.search.count; c++)
            states[c] = w.search.candidates[c].state;
        kvt_search_release(&w.search);
        search(true, 0);
        for (int64_t c = 0; c < w.search.count; c++) {
            if (states[c] != KVT_CANDIDATE_PRUNED)
                continue;
            pruned++;
            CHECK_I64(w.search.candidates[c].state, KVT_CANDIDATE_MISSES, sets[i]);
        }
        CHECK_NOTE(pruned > 0, sets[i]);
        kvt_search_release(&w.search);
        world_end();
    }
}

/* A load of outputs, whose prompts are nothing: one that a colocated fleet cannot decode in time,
 * one that the decode role of a split fleet cannot, and whole requests. What the bound says is
 * below what the run shows. */
static const char many_outputs[] =
    "model: llama-3.1-8b\n"
    "engine: vllm\n"
    "fleet:\n"
    "  choices:\n"
    "  - {serve: {replicas: 1, gpu: h100-sxm, scheduler: {max_running: 32}}}\n"
    "  - {serve: {replicas: 2, gpu: l4, scheduler: {max_running: 64}, router: least-tokens}}\n"
    "  - {prefill: {gpu: h100-sxm}, decode: {gpu: l4, scheduler: {max_running: 16}}}\n"
    "  - {serve: {replicas: 6, gpu: h100-sxm, router: least-tokens}}\n"
    "workload:\n"
    "  open: {rate: 40 req/s, arrivals: poisson, input: 64, output: {lognormal: {mean: 300,\n"
    "         p99: 1000}}, requests: 2000}\n"
    "slo: {ttft: {p90: 400 ms}}\n"
    "plan: {objective: gpus, resamples: 0}\n";

static void outputs_that_cannot_be_decoded_in_time_are_ruled_out(void)
{
    static const char *const slos[] = {"slo={ttft: {p90: 400 ms}}", "slo={e2el: {p90: 12 s}}"};
    char path[300];
    snprintf(path, sizeof path, "%s", check_temp("outputs.yaml"));
    CHECK_OK(kvt_file_write(path, many_outputs, strlen(many_outputs), &err), err);
    for (int i = 0; i < 2; i++) {
        double least[4];
        if (!world_begin(path, &slos[i], 1))
            return;
        search(false, 0);
        for (int c = 0; c < 4; c++) {
            const struct kvt_candidate *candidate = &w.search.candidates[c];
            least[c] = candidate->least;
            CHECK_I64(candidate->state, c < 3 ? KVT_CANDIDATE_PRUNED : KVT_CANDIDATE_MEETS,
                      slos[i]);
            if (c < 3 && (i == 0 || c == 0))
                CHECK_HOLDS(candidate->message, "output tokens take", "what is too much");
        }
        kvt_search_release(&w.search);
        search(true, 0);
        for (int c = 0; c < 3; c++)
            CHECK_NOTE(w.search.candidates[c].worst >= least[c] && least[c] > 1, slos[i]);
        kvt_search_release(&w.search);
        world_end();
    }
}

/* ---- answers ---- */

static void threads_change_nothing(void)
{
    double worst[36];
    if (!small_begin(NULL, 0))
        return;
    search(false, 1);
    int64_t best = w.search.best, front = w.search.front_count, count = w.search.count;
    double carries = w.search.carries;
    CHECK_I64(count, 36, "candidates");
    for (int64_t c = 0; c < count; c++)
        worst[c] = w.search.candidates[c].worst;
    kvt_search_release(&w.search);
    search(false, 3);
    CHECK_I64(w.search.best, best, "best");
    CHECK_I64(w.search.front_count, front, "front");
    CHECK(w.search.carries == carries);
    CHECK_I64(w.search.count, count, "candidates");
    for (int64_t c = 0; c < count; c++)
        CHECK(w.search.candidates[c].worst == worst[c]);
    kvt_search_release(&w.search);
    world_end();
}

static void an_slo_that_nothing_meets_has_a_closest_candidate(void)
{
    static const char *const sets[] = {"slo.itl.p99=4 ms", "fleet.serve.gpu=h100-sxm"};
    if (!small_begin(sets, 2))
        return;
    search(true, 0);
    CHECK_I64(w.search.best, -1, "no best");
    CHECK_I64(w.search.front_count, 0, "no front");
    CHECK(w.search.closest >= 0);
    for (int64_t c = 0; c < w.search.count; c++)
        CHECK(w.search.candidates[c].worst >= w.search.candidates[w.search.closest].worst);
    CHECK_HOLDS(w.search.candidates[w.search.closest].message, "ITL p99", "what it misses");
    kvt_search_release(&w.search);
    world_end();
}

static void candidates_that_cannot_be_built_are_counted_by_reason(void)
{
    static char texts[8][KVT_REASON_BYTES];
    int64_t counts[8], sum = 0;
    if (!small_begin(NULL, 0))
        return;
    search(false, 0);
    CHECK_I64(w.search.states[KVT_CANDIDATE_CONTRADICTS], 9, "dp 2 of tp 1, for 3 x 3 others");
    CHECK(w.search.states[KVT_CANDIDATE_UNFIT] > 0);
    int32_t count = kvt_search_reasons(&w.search, texts, counts, 8);
    bool found = false, unfit = false;
    for (int32_t i = 0; i < count; i++) {
        sum += counts[i];
        found = found || strstr(texts[i], "want a divisor of tp (1), got 2") != NULL;
        unfit = unfit || strstr(texts[i], "llama-3.1-8b does not fit on t4") != NULL;
        CHECK(i == 0 || counts[i] <= counts[i - 1]);
    }
    CHECK(found && unfit);
    CHECK_I64(sum, w.search.count - w.search.states[KVT_CANDIDATE_MEETS],
              "all but those that meet");
    kvt_search_release(&w.search);
    world_end();
}

/* Bounds rule all of them out; the closest is known all the same, as without bounds. */
static void a_pruned_candidate_may_be_the_closest(void)
{
    static const char *const sets[] = {"slo={ttft: {p90: 12 ms}, itl: {p99: 4 ms}}",
                                       "fleet.serve.parallel={tp: {choices: [1, 2]}}"};
    if (!small_begin(sets, 2))
        return;
    search(true, 0);
    int64_t closest = w.search.closest;
    double worst = closest >= 0 ? w.search.candidates[closest].worst : 0;
    kvt_search_release(&w.search);
    search(false, 0);
    CHECK(closest >= 0);
    CHECK_I64(w.search.closest, closest, "the closest is that of running everything");
    if (w.search.closest >= 0)
        CHECK(w.search.candidates[w.search.closest].worst == worst);
    CHECK_NOTE(w.search.states[KVT_CANDIDATE_PRUNED] > 0, "not all of them were run for it");
    kvt_search_release(&w.search);
    world_end();
}

static void a_question_without_an_answer_is_refused(void)
{
    static const struct {
        const char *set, *text;
    } rows[] = {{"cost={l4: 1 USD/h}", "want the price of an hour of this GPU, got none"},
                {"plan.lose=3", "plan.lose: want fewer than the 3 serve replicas, got 3"},
                {"slo={choices: [{ttft: {p90: 1 s}}, {ttft: {p90: 2 s}}]}",
                 "slo: want one value, which every fleet is judged by, got a domain"}};
    const struct kvt_search_options how = {.threads = 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *sets[] = {"fleet.serve.gpu=h100-sxm", rows[i].set};
        struct kvt_err why = {0};
        if (!small_begin(sets, 2))
            return;
        CHECK_FAILS(kvt_search_run(&w.search, &w.points, &how, &why), why, KVT_ECONFIG);
        CHECK_HOLDS(why.text, rows[i].text, rows[i].set);
        kvt_search_release(&w.search);
        world_end();
    }
}

/* A fleet of which one role has a price is not cheap: its price is not known. */
static void a_fleet_with_half_a_price_has_none(void)
{
    static const char *const sets[] = {
        "fleet={choices: [{serve: {replicas: 2, gpu: h100-sxm}}, {prefill: {gpu: h100-sxm}, "
        "decode: {gpu: l40s}}]}",
        "cost={h100-sxm: 2.5 USD/h}"};
    if (!small_begin(sets, 2))
        return;
    search(false, 0);
    CHECK_I64(w.search.best, 0, "the one whose price is known");
    CHECK_I64(w.search.candidates[1].state, KVT_CANDIDATE_CONTRADICTS, "no price");
    CHECK_HOLDS(w.search.candidates[1].message, "cost.l40s", "whose");
    kvt_search_release(&w.search);
    world_end();
}

static void a_fleet_that_may_lose_a_replica_needs_more(void)
{
    static const char *const sets[] = {"plan.lose=1", "fleet.serve.gpu=h100-sxm",
                                       "fleet.serve.parallel={tp: 1}"};
    if (!small_begin(sets + 1, 2))
        return;
    search(false, 0);
    CHECK(w.search.best >= 0);
    int32_t alone = w.search.best >= 0 ? w.search.candidates[w.search.best].gpus : 0;
    kvt_search_release(&w.search);
    world_end();
    if (!small_begin(sets, 3))
        return;
    search(false, 0);
    CHECK(w.search.best >= 0);
    if (w.search.best >= 0)
        CHECK_I64(w.search.candidates[w.search.best].gpus, alone + 1, "one more than without");
    kvt_search_release(&w.search);
    world_end();
}

static void the_traffic_that_a_fleet_carries_is_found_by_bisection(void)
{
    static const char *const sets[] = {"fleet.serve={gpu: h100-sxm}", "plan.resamples=0"};
    char rate[64];
    const char *more[3] = {sets[0], sets[1], rate};
    if (!small_begin(sets, 2))
        return;
    search(false, 0);
    double carries = w.search.carries;
    CHECK(isfinite(carries) && carries > 0);
    CHECK_CLOSE(w.search.rate, 12, 0.1, "arrivals");
    kvt_search_release(&w.search);
    world_end();
    for (int more_traffic = 0; more_traffic < 2; more_traffic++) {
        snprintf(rate, sizeof rate, "workload.open.rate=%.9g req/s",
                 12 * carries * (more_traffic ? 1.02 : 1));
        if (!small_begin(more, 3))
            return;
        search(false, 0);
        CHECK_I64(w.search.best, more_traffic ? -1 : 0, "whether it meets the SLO");
        kvt_search_release(&w.search);
        world_end();
    }
}

static void a_search_without_an_slo_is_refused(void)
{
    static const char *const sets[] = {"slo=null"};
    const struct kvt_search_options how = {.threads = 1};
    struct kvt_err why = {0};
    if (!small_begin(sets, 1))
        return;
    CHECK_FAILS(kvt_search_run(&w.search, &w.points, &how, &why), why, KVT_ECONFIG);
    CHECK_HOLDS(why.text, "want an slo that the fleet has to keep, got none", "what is wanted");
    kvt_search_release(&w.search);
    world_end();
}

const struct check_test check_search[] = {
    {"the winner is that of running everything", the_winner_is_that_of_running_everything, false},
    {"the winner of the shipped domains is that of running everything",
     the_winner_of_the_shipped_domains_is_that_of_running_everything, true},
    {"more may be worse or cheaper", more_may_be_worse_or_cheaper, false},
    {"outputs that cannot be decoded in time are ruled out",
     outputs_that_cannot_be_decoded_in_time_are_ruled_out, false},
    {"a pruned candidate may be the closest", a_pruned_candidate_may_be_the_closest, false},
    {"a question without an answer is refused", a_question_without_an_answer_is_refused, false},
    {"a fleet with half a price has none", a_fleet_with_half_a_price_has_none, false},
    {"what a bound drops misses when it is run", what_a_bound_drops_misses_when_it_is_run, false},
    {"threads change nothing", threads_change_nothing, false},
    {"an SLO that nothing meets has a closest candidate",
     an_slo_that_nothing_meets_has_a_closest_candidate, false},
    {"candidates that cannot be built are counted by reason",
     candidates_that_cannot_be_built_are_counted_by_reason, false},
    {"a fleet that may lose a replica needs more", a_fleet_that_may_lose_a_replica_needs_more,
     false},
    {"the traffic that a fleet carries is found by bisection",
     the_traffic_that_a_fleet_carries_is_found_by_bisection, false},
    {"a search without an SLO is refused", a_search_without_an_slo_is_refused, false},
    {NULL, NULL, false},
};
