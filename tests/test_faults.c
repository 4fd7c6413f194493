#include "sim/fault/faults.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/fault/proportion.h"
#include "sim/plan/campaign.h"
#include "sim/plan/fault_plan.h"
#include "sim/plan/simulate.h"
#include "tests/check.h"

/* ---- tags --------------------------------------------------------------------------------- */

static double miss_rate(int32_t bits, bool random)
{
    struct kvt_tag_kind kind = {bits, KVT_BIND_OWNER | KVT_BIND_POSITION | KVT_BIND_GENERATION,
                                random, 7};
    int64_t equal = 0, pairs = 2000000;
    for (int64_t i = 0; i < pairs; i++) {
        struct kvt_tag_fields a = {(int32_t)i, 3, 5, 0}, b = {(int32_t)i + 1, 3, 9, 0};
        equal += kvt_tag_value(&kind, &a) == kvt_tag_value(&kind, &b);
    }
    return (double)equal / (double)pairs;
}

static void tags_alias_as_often_as_their_width_says(void)
{
    for (int32_t bits = 4; bits <= 12; bits += 4)
        for (int random = 0; random < 2; random++) {
            double p = 1 / (ldexp(1, bits) - 1), got = miss_rate(bits, random != 0);
            double error = sqrt(p / 2000000);
            CHECK_NOTE(fabs(got - p) < 4 * error, random ? "random" : "counter");
        }
}

static void a_counter_is_blind_only_when_it_wraps(void)
{
    for (int32_t bits = 4; bits <= 12; bits += 4) {
        struct kvt_tag_kind kind = {bits, KVT_BIND_OWNER | KVT_BIND_GENERATION, false, 7};
        int64_t wrap = (INT64_C(1) << bits) - 1;
        struct kvt_tag_fields now = {1, 0, 100000, 0}, then = now;
        for (int64_t age = 1; age <= 3 * wrap; age++) {
            then.generation = now.generation - (uint32_t)age;
            bool equal = kvt_tag_value(&kind, &now) == kvt_tag_value(&kind, &then);
            CHECK_NOTE(equal == (age % wrap == 0), "missed exactly at the wrap");
        }
    }
}

static void a_page_in_use_never_looks_free(void)
{
    struct kvt_tag_kind kind = {4, KVT_BIND_GENERATION, false, 0};
    for (uint32_t generation = 0; generation < 100; generation++) {
        struct kvt_tag_fields fields = {.generation = generation};
        uint64_t value = kvt_tag_value(&kind, &fields);
        CHECK(value != KVT_TAG_FREE && value < 16);
    }
}

static void what_is_not_bound_does_not_matter(void)
{
    struct kvt_tag_kind kind = {64, KVT_BIND_OWNER, false, 0};
    struct kvt_tag_fields a = {1, 2, 3, 4}, b = {1, 9, 9, 9}, c = {2, 2, 3, 4};
    CHECK(kvt_tag_value(&kind, &a) == kvt_tag_value(&kind, &b));
    CHECK(kvt_tag_value(&kind, &a) != kvt_tag_value(&kind, &c));
    CHECK(!kvt_tag_by_chance(&kind, &a, &b));
    CHECK(kvt_tag_by_chance(&kind, &a, &c));
}

/* ---- campaigns ---------------------------------------------------------------------------- */

static const char fleet[] =
    "model: llama-3.1-70b\n"
    "fleet:\n"
    "  prefill: {gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64,\n"
    "            scheduler: {prefix_cache: true}}\n"
    "  decode: {replicas: 2, gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64,\n"
    "           memory: {pages: 1200}}\n"
    "  link: {bandwidth: 2 GB/s, per: gpu}\n"
    "workload:\n"
    "  open: {rate: 4 req/s, arrivals: {gamma: {cv: 2}}, input: {lognormal: {mean: 1155, p99: "
    "4142}},\n"
    "         output: {lognormal: {mean: 211, p99: 700}}, prefixes: {groups: 4, share: 0.6, "
    "tokens: "
    "512}}\n"
    "run: {seed: 3, until: 60 s}\n"
    "faults: {trials: 24, from: 10 s, until: 50 s, everywhere: true}\n";

static bool load(struct kvt_config *config, const char *text, const char *set, const char *more)
{
    struct kvt_err err = {0};
    const char *sets[2] = {set, more};
    int32_t count = (set != NULL) + (more != NULL);
    CHECK_OK(kvt_config_parse(config, "faults.yaml", text, strlen(text), ".", sets, count, &err),
             err);
    return err.status == KVT_OK;
}

static struct kvt_cell cells[KVT_FAULT_COUNT];

/* Thousands of trials: debug and sanitize builds check every invariant after every step in those
 * without a guard alone. */
static void run_cells(const char *guard, const char *more, struct kvt_campaign_options how)
{
    static struct kvt_config config;
    struct kvt_err err = {0};
    bool before = kvt_paranoid;
    if (!load(&config, fleet, guard, more))
        return;
    kvt_paranoid = before && strcmp(guard, "fleet.decode.guard=none") == 0;
    CHECK_OK(kvt_campaign_run(&config, &how, cells, &err), err);
    kvt_paranoid = before;
    kvt_config_release(&config);
}

static int64_t outcome(enum kvt_fault_kind kind, enum kvt_fault_outcome which)
{
    return cells[kind].outcomes[which];
}

static const struct kvt_campaign_options quick = {.threads = 2, .branch = true};

/* Planted bugs: each class in turn, without a guard and under one that looks. The shadow tells how
 * the first ends; a class that the guard is blind to it still counts as escaped, or as what it
 * cost.
 */
static const struct {
    enum kvt_fault_kind kind;
    enum kvt_fault_outcome unguarded, guarded;
} planted[] = {
    {KVT_FAULT_STALE_READER, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_PREMATURE_FREE, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_LATE_WRITE, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_WRONG_MAP, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_PREFIX_POISON, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_ESCAPED},
    {KVT_FAULT_DOUBLE_FREE, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_LEAK, KVT_OUTCOME_HARMLESS, KVT_OUTCOME_HARMLESS},
    {KVT_FAULT_PARTIAL_TRANSFER, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_MESSAGE_FAULT, KVT_OUTCOME_HUNG, KVT_OUTCOME_HUNG},
    {KVT_FAULT_RESIDUE, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_ESCAPED},
    {KVT_FAULT_BIT_FLIP, KVT_OUTCOME_ESCAPED, KVT_OUTCOME_DETECTED},
    {KVT_FAULT_NODE_FAULT, KVT_OUTCOME_CRASHED, KVT_OUTCOME_CRASHED},
    {KVT_FAULT_LIVENESS, KVT_OUTCOME_HARMLESS, KVT_OUTCOME_HARMLESS},
    {KVT_FAULT_FALSE_ALARM, KVT_OUTCOME_MASKED, KVT_OUTCOME_DETECTED}, /* nothing fires: no harm */
};

/* How many of the planted classes struck and ended as the table says, among others. */
static int32_t found(bool guarded)
{
    int32_t count = 0;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        enum kvt_fault_kind kind = planted[i].kind;
        enum kvt_fault_outcome want = guarded ? planted[i].guarded : planted[i].unguarded;
        bool is_found = cells[kind].activated > 0 && outcome(kind, want) > 0;
        CHECK_NOTE(is_found, kvt_fault_names[kind]);
        count += is_found;
    }
    return count;
}

static void fourteen_of_fourteen_planted_classes_are_found(void)
{
    run_cells("fleet.decode.guard=none", NULL, quick);
    CHECK_I64(found(false), KVT_FAULT_COUNT - 1, "classes told without a guard");
    for (int kind = KVT_FAULT_NONE + 1; kind < KVT_FAULT_COUNT; kind++) {
        int64_t sum = 0;
        for (int i = 0; i < KVT_OUTCOME_COUNT; i++)
            sum += cells[kind].outcomes[i];
        CHECK_I64(sum, cells[kind].injected, "every strike ends in one way");
        CHECK_I64(outcome((enum kvt_fault_kind)kind, KVT_OUTCOME_DETECTED), 0, "no guard");
    }
    run_cells("fleet.decode.guard={tag-inband: {check: before-read}, digest: {check: before-read}}",
              NULL, quick);
    CHECK_I64(found(true), 14, "classes told under a tag in band and a digest");
    CHECK_I64(KVT_FAULT_COUNT - 1, 14, "classes");
}

static void a_side_array_misses_late_writes_and_a_tag_in_band_catches_them(void)
{
    run_cells("fleet.decode.guard={tag-side: {check: before-read}}", NULL, quick);
    int64_t missed = outcome(KVT_FAULT_LATE_WRITE, KVT_OUTCOME_ESCAPED);
    CHECK(missed > 0);
    CHECK_I64(outcome(KVT_FAULT_LATE_WRITE, KVT_OUTCOME_DETECTED), 0, "side array");
    CHECK_I64(outcome(KVT_FAULT_STALE_READER, KVT_OUTCOME_ESCAPED), 0, "it sees stale readers");
    CHECK(outcome(KVT_FAULT_STALE_READER, KVT_OUTCOME_DETECTED) > 0);
    run_cells("fleet.decode.guard={tag-inband: {check: before-read}}", NULL, quick);
    CHECK_I64(outcome(KVT_FAULT_LATE_WRITE, KVT_OUTCOME_ESCAPED), 0, "in band");
    CHECK(outcome(KVT_FAULT_LATE_WRITE, KVT_OUTCOME_DETECTED) > 0);
    CHECK_I64(outcome(KVT_FAULT_PARTIAL_TRANSFER, KVT_OUTCOME_ESCAPED), 0, "in band");
}

static void guards_prevent_what_they_are_for(void)
{
    run_cells("fleet.decode.guard=deferred-free", NULL, quick);
    CHECK_I64(outcome(KVT_FAULT_LATE_WRITE, KVT_OUTCOME_ESCAPED), 0, "deferred-free");
    CHECK_I64(outcome(KVT_FAULT_PREMATURE_FREE, KVT_OUTCOME_ESCAPED), 0, "deferred-free");
    run_cells("fleet.decode.guard=zero-on-free", NULL, quick);
    CHECK_I64(outcome(KVT_FAULT_RESIDUE, KVT_OUTCOME_ESCAPED), 0, "zero-on-free");
    run_cells("fleet.decode.guard=lease", NULL, quick);
    CHECK_I64(outcome(KVT_FAULT_STALE_READER, KVT_OUTCOME_ESCAPED), 0, "lease");
    CHECK_I64(outcome(KVT_FAULT_LEAK, KVT_OUTCOME_HARMLESS), 0, "lost pages come back");
    run_cells("fleet.decode.guard={digest: {check: before-read}}", "faults.trials=150", quick);
    CHECK(outcome(KVT_FAULT_BIT_FLIP, KVT_OUTCOME_DETECTED) > 0);
    CHECK(outcome(KVT_FAULT_WRONG_MAP, KVT_OUTCOME_ESCAPED) > 0);
}

static void a_check_after_the_step_lets_nothing_out(void)
{
    run_cells("fleet.decode.guard={tag-inband: {check: before-read}}", NULL, quick);
    int64_t before = cells[KVT_FAULT_LATE_WRITE].leaked;
    run_cells("fleet.decode.guard={tag-inband: {check: after-step}}", NULL, quick);
    CHECK_NOTE(before > 0, "bytes land under a running step, which was checked already");
    CHECK_I64(cells[KVT_FAULT_LATE_WRITE].leaked, 0, "tokens that went out");
}

/* A narrow tag is missed often enough to count; forcing must find the same. */
static void forced_aliases_agree_with_counted_ones(void)
{
    run_cells("fleet.decode.guard={tag-side: {bits: 4, values: random, check: before-read}}",
              "faults={trials: 1500, from: 10 s, until: 50 s, everywhere: true, kinds: "
              "[stale-reader]}",
              quick);
    const struct kvt_cell *cell = &cells[KVT_FAULT_STALE_READER];
    struct kvt_interval counted =
        kvt_clopper_pearson(cell->outcomes[KVT_OUTCOME_ESCAPED], cell->injected, 0.99);
    const char *estimator;
    struct kvt_estimate forced = kvt_cell_escapes(cell, &estimator);
    CHECK_TEXT(estimator, "forced", "");
    CHECK(counted.low <= forced.p && forced.p <= counted.high);
    CHECK_CLOSE(forced.p, (double)cell->activated / (double)cell->injected / 15, 0.02, "1/(2^4-1)");
    CHECK(forced.high - forced.low < (counted.high - counted.low) / 5);
}

static bool cells_equal(const struct kvt_cell *a, const struct kvt_cell *b)
{
    return a->injected == b->injected && a->activated == b->activated && a->exposed == b->exposed &&
           a->leaked == b->leaked && a->lost == b->lost &&
           memcmp(a->outcomes, b->outcomes, sizeof a->outcomes) == 0 &&
           a->latency_s == b->latency_s && a->forced.sum == b->forced.sum;
}

static void threads_and_branching_change_nothing(void)
{
    static struct kvt_cell first[KVT_FAULT_COUNT];
    const char *guard = "fleet.decode.guard={tag-inband: {bits: 8, check: sampled}}";
    run_cells(guard, "faults.trials=20",
              (struct kvt_campaign_options){.threads = 1, .branch = true});
    memcpy(first, cells, sizeof first);
    for (int way = 0; way < 2; way++) {
        run_cells(guard, "faults.trials=20",
                  (struct kvt_campaign_options){.threads = 2, .branch = way == 0});
        for (int kind = 0; kind < KVT_FAULT_COUNT; kind++)
            CHECK_NOTE(cells_equal(&first[kind], &cells[kind]), kvt_fault_names[kind]);
    }
}

/* ---- runs --------------------------------------------------------------------------------- */

static uint64_t digest_of(const char *guard, const struct kvt_strike *strikes)
{
    static struct kvt_config config;
    static struct kvt_simulation simulation;
    struct kvt_err err = {0};
    if (!load(&config, fleet, guard, NULL))
        return 0;
    struct kvt_simulate_options how = {.strikes = strikes, .strike_count = strikes != NULL};
    CHECK_OK(kvt_simulation_init(&simulation, &config, &how, &err), err);
    CHECK_OK(kvt_simulation_run(&simulation, &how, &err), err);
    uint64_t digest = simulation.des.core.log.digest;
    kvt_simulation_release(&simulation);
    kvt_config_release(&config);
    return digest;
}

/* Guards that are off, and a fault layer without a strike, leave every decision as it was. */
static void without_a_strike_nothing_changes(void)
{
    struct kvt_strike never = {.time = KVT_NEVER};
    uint64_t plain = digest_of(NULL, NULL);
    CHECK(plain != 0);
    CHECK_NOTE(plain == digest_of("fleet.decode.guard=none", NULL), "guards off");
    CHECK_NOTE(plain == digest_of("fleet.decode.guard=none", &never), "and a fault layer");
    CHECK(digest_of("fleet.decode.guard={tag-side: {check: before-read}}", NULL) ==
          digest_of("fleet.decode.guard={tag-side: {check: before-read}}", &never));
}

/* A step that writes on to a page that is free finds another owner's bytes there only when they
 * came while it ran: prefill and transfer within one slow decode step. */
static void a_step_writes_on_where_a_prompt_comes_faster(void)
{
    static const char text[] =
        "model: llama-3.1-8b\n"
        "fleet:\n"
        "  prefill: {gpu: h100-sxm, page_tokens: 64}\n"
        "  decode: {gpu: l4, page_tokens: 64, memory: {pages: 200}}\n"
        "  link: {bandwidth: 50 GB/s, per: gpu}\n"
        "workload:\n"
        "  open: {rate: 12 req/s, input: {lognormal: {mean: 200, p99: 400}},\n"
        "         output: {lognormal: {mean: 60, p99: 150}}}\n"
        "run: {seed: 3, until: 60 s}\n"
        "faults:\n"
        "  rates: [{fault: premature-free, variant: step, rate: 6000, per: hour}]\n";
    static const char *const guards[] = {"fleet.decode.guard=none",
                                         "fleet.decode.guard={tag-inband: {check: before-read}}",
                                         "fleet.decode.guard=deferred-free"};
    static struct kvt_config config;
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    struct kvt_campaign_options how = {.threads = 1};
    int64_t ends[3][KVT_OUTCOME_COUNT] = {{0}};
    for (int guard = 0; guard < 3; guard++) {
        struct kvt_err err = {0};
        int32_t count = 0;
        if (!load(&config, text, guards[guard], NULL))
            return;
        CHECK_OK(kvt_fault_run(&config, &how, strikes, results, &count, &err), err);
        for (int32_t i = 0; i < count; i++)
            ends[guard][results[i].outcome]++;
        kvt_config_release(&config);
    }
    CHECK(ends[0][KVT_OUTCOME_ESCAPED] > 0);
    CHECK_I64(ends[1][KVT_OUTCOME_ESCAPED], 0, "a tag in band tells");
    CHECK(ends[1][KVT_OUTCOME_DETECTED] > 0);
    CHECK_I64(ends[2][KVT_OUTCOME_ESCAPED], 0, "deferred-free prevents");
}

/* More requests live on a replica than one event had room for once. */
static void a_crash_takes_any_number_of_requests(void)
{
    static const char text[] = "model: llama-3.1-8b\n"
                               "fleet:\n  serve: {gpu: h100-sxm}\n"
                               "workload:\n"
                               "  closed: {concurrency: 9000, requests: 9000, input: {fixed: 64}, "
                               "output: {fixed: 400}}\n"
                               "faults:\n"
                               "  plan: [{fault: node-fault, variant: crash, at: 1 s}]\n";
    static struct kvt_config config;
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    struct kvt_campaign_options how = {.threads = 1};
    struct kvt_err err = {0};
    int32_t count = 0;
    if (!load(&config, text, NULL, NULL))
        return;
    CHECK_OK(kvt_fault_run(&config, &how, strikes, results, &count, &err), err);
    CHECK(results[0].lost > 4096);
    CHECK_I64(results[0].outcome, KVT_OUTCOME_CRASHED, "");
    kvt_config_release(&config);
}

/* At 5 s all 40 requests decode, and nothing waits or is on its way. */
static void a_prefill_replica_takes_nobody_who_has_left_it(void)
{
    static const char text[] =
        "model: llama-3.1-8b\n"
        "fleet:\n  prefill: {gpu: h100-sxm, replicas: 2}\n  decode: {gpu: h100-sxm}\n"
        "workload:\n"
        "  closed: {concurrency: 40, requests: 40, input: {fixed: 64}, output: {fixed: 4000}}\n"
        "faults:\n"
        "  plan: [{fault: node-fault, variant: crash, at: 5 s, replica: 0, delay: 1 s}]\n";
    static struct kvt_config config;
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    struct kvt_campaign_options how = {.threads = 1};
    struct kvt_err err = {0};
    for (int32_t replica = 0; replica < 3; replica++) {
        char set[120];
        int32_t count = 0;
        snprintf(set, sizeof set,
                 "faults.plan=[{fault: node-fault, variant: crash, at: 5 s, replica: %d}]",
                 replica);
        if (!load(&config, text, set, NULL))
            return;
        CHECK_OK(kvt_fault_run(&config, &how, strikes, results, &count, &err), err);
        CHECK_I64(results[0].lost, replica == 2 ? 40 : 0, "the last is the decode replica");
        kvt_config_release(&config);
    }
}

static void a_clean_soak_aborts_nobody(void)
{
    struct kvt_strike never = {.time = KVT_NEVER};
    static struct kvt_config config;
    static struct kvt_simulation simulation;
    struct kvt_err err = {0};
    if (!load(&config, fleet,
              "fleet.decode.guard={fifo: {}, zero-on-free: {}, deferred-free: {}, lease: {}, "
              "request-id: {}, tag-side: {check: after-step}, tag-inband: {check: after-step}, "
              "digest: {check: after-step}, canary: {check: after-step}, quarantine: {}}",
              "run.until=2000 s"))
        return;
    struct kvt_simulate_options how = {.strikes = &never, .strike_count = 1};
    CHECK_OK(kvt_simulation_init(&simulation, &config, &how, &err), err);
    bool before = kvt_paranoid; /* not after every step: the requests are many */
    kvt_paranoid = false;
    CHECK_OK(kvt_simulation_run(&simulation, &how, &err), err);
    kvt_paranoid = before;
    const struct kvt_core *core = &simulation.des.core;
    kvt_core_validate(&simulation.des.core);
    CHECK(core->counts[0].arrived > 7000);
    CHECK_I64(core->counts[0].completed, core->counts[0].arrived, "nobody is aborted");
    for (int32_t i = 0; i < core->replica_count; i++) {
        CHECK_I64(core->replicas[i].pages.held, 0, "no page is lost");
        CHECK(kvt_pages_is_valid(&core->replicas[i].pages));
    }
    kvt_simulation_release(&simulation);
    kvt_config_release(&config);
}

static void a_plan_strikes_as_it_is_written(void)
{
    static struct kvt_config config;
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    static struct kvt_fault_result results[KVT_STRIKES_MAX];
    struct kvt_err err = {0};
    struct kvt_campaign_options how = {.threads = 1};
    int32_t count;
    char text[2048];
    snprintf(text, sizeof text,
             "%.*s\nfaults:\n  plan:\n"
             "  - {fault: wrong-map, variant: foreign, at: 20 s}\n"
             "  - {fault: late-write, at: 10 s, delay: 2 s}\n",
             (int)(strstr(fleet, "\nfaults") - fleet), fleet);
    if (!load(&config, text, NULL, NULL))
        return;
    CHECK_OK(kvt_fault_run(&config, &how, strikes, results, &count, &err), err);
    CHECK_I64(count, 2, "strikes");
    CHECK_I64(strikes[0].variant, KVT_STRIKE_WRITE_TRANSFER, "by time");
    CHECK_I64(results[1].outcome, KVT_OUTCOME_ESCAPED, "a foreign page is read");
    CHECK(results[1].leaked > 0 && results[1].hit >= 1);
    kvt_config_release(&config);
}

static void a_plan_that_cannot_be_is_refused(void)
{
    static const struct {
        const char *row, *message;
    } bad[] = {
        {"{fault: late-write, variant: later, at: 1 s}",
         "late-write has no variant \"later\"; it has transfer, "},
        {"{fault: leak, at: 1 s, replica: 3}", "replica 3 of a fleet of 3"},
        {"{fault: leak, at: 61 s}", "a strike at 61 s, but run.until is 60 s"},
        {"{fault: none, at: 1 s}", "want a class that strikes, got none"},
        {"{fault: late-write, at: 1 s, delay: 1e9 s}", "of at most 100000 s, got 1e+09 s"},
    };
    static struct kvt_strike strikes[KVT_STRIKES_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static struct kvt_config config;
        struct kvt_err err = {0};
        int32_t count;
        char text[2048];
        snprintf(text, sizeof text, "%.*s\nfaults:\n  plan:\n  - %s\n",
                 (int)(strstr(fleet, "\nfaults") - fleet), fleet, bad[i].row);
        if (!load(&config, text, NULL, NULL))
            continue;
        CHECK_FAILS(kvt_fault_plan(&config, strikes, &count, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, bad[i].message, "");
        kvt_config_release(&config);
    }
}

const struct check_test check_faults[] = {
    {"tags alias as often as their width says", tags_alias_as_often_as_their_width_says, false},
    {"a counter is blind only when it wraps", a_counter_is_blind_only_when_it_wraps, false},
    {"a page in use never looks free", a_page_in_use_never_looks_free, false},
    {"what is not bound does not matter", what_is_not_bound_does_not_matter, false},
    {"fourteen of fourteen planted classes are found",
     fourteen_of_fourteen_planted_classes_are_found, false},
    {"a side array misses late writes and a tag in band catches them",
     a_side_array_misses_late_writes_and_a_tag_in_band_catches_them, false},
    {"guards prevent what they are for", guards_prevent_what_they_are_for, false},
    {"a check after the step lets nothing out", a_check_after_the_step_lets_nothing_out, false},
    {"forced aliases agree with counted ones", forced_aliases_agree_with_counted_ones, false},
    {"threads and branching change nothing", threads_and_branching_change_nothing, false},
    {"without a strike nothing changes", without_a_strike_nothing_changes, false},
    {"a step writes on where a prompt comes faster", a_step_writes_on_where_a_prompt_comes_faster,
     false},
    {"a crash takes any number of requests", a_crash_takes_any_number_of_requests, false},
    {"a prefill replica takes nobody who has left it",
     a_prefill_replica_takes_nobody_who_has_left_it, false},
    {"a clean soak aborts nobody", a_clean_soak_aborts_nobody, false},
    {"a plan strikes as it is written", a_plan_strikes_as_it_is_written, false},
    {"a plan that cannot be is refused", a_plan_that_cannot_be_is_refused, false},
    {0},
};
