/* Strikes on real pages end as the simulation says, and a bug that is planted there is seen. */
#include <stdio.h>
#include <string.h>

#include "runtime/fault_trial.h"
#include "sim/plan/simulate.h"
#include "tests/check.h"

#define GPU "{file: tests/runtime/small-gpu.yaml}"

/* Two tenants, a pool that is roomy enough for nobody to be retracted, and free lists that give a
 * page that came back last to the next. */
#define FLEET(model, kv, prefill_more, decode_more)                                                \
    "model: {file: tests/runtime/" model ".yaml}\n"                                                \
    "engine: sglang\n"                                                                             \
    "fleet:\n"                                                                                     \
    "  prefill: {gpu: " GPU ", kv: bf16, page_tokens: 16, memory: {fraction: 0.5, pages: 40},\n"   \
    "            scheduler: {chunk_tokens: 48, max_running: 8" prefill_more "}}\n"                 \
    "  decode: {gpu: " GPU ", kv: " kv ", page_tokens: 16,\n"                                      \
    "           memory: {fraction: 0.5, pages: 48}" decode_more ",\n"                              \
    "           scheduler: {max_running: 8, reserved_decode_tokens: 1}}\n"                         \
    "  link: {bandwidth: 20 MB/s, latency: 100 us, stream: by-chunk}\n"
#define LOAD(more)                                                                                 \
    "workload: {open: {rate: 300 req/s, requests: 16, input: {uniform: {min: 17, max: 60}},\n"     \
    "           output: {uniform: {min: 8, max: 40}}" more "}}\n"                                  \
    "run: {seed: 3}\n"

static const char gqa[] = FLEET("tiny-gqa", "fp8-scaled", "", "") LOAD("");
static const char mla[] = FLEET("tiny-mla", "fp8", "", "") LOAD("");

/* Pages are scarce, transfers slow, and clients go away. */
static const char busy[] =
    "model: {file: tests/runtime/tiny-gqa.yaml}\n"
    "engine: sglang\n"
    "fleet:\n"
    "  prefill: {gpu: " GPU ", kv: bf16, page_tokens: 16, memory: {fraction: 0.5, pages: 16},\n"
    "            scheduler: {chunk_tokens: 48, max_running: 8}}\n"
    "  decode: {gpu: " GPU ", kv: fp8-scaled, page_tokens: 16,\n"
    "           memory: {fraction: 0.5, pages: 16},\n"
    "           scheduler: {max_running: 8, reserved_decode_tokens: 1}}\n"
    "  link: {bandwidth: 4 MB/s, latency: 1 ms, stream: by-chunk}\n"
    "workload: {open: {rate: 300 req/s, requests: 16, input: {uniform: {min: 17, max: 60}},\n"
    "           output: {uniform: {min: 8, max: 40}}}, aborts: {share: 0.3, after: 60 ms}}\n"
    "run: {seed: 5}\n";

static const char prefix[] =
    "model: {file: tests/runtime/tiny-gqa.yaml}\n"
    "engine: sglang\n"
    "fleet:\n"
    "  serve: {gpu: " GPU ", kv: fp8-scaled, page_tokens: 16, memory: {fraction: 0.5, pages: 48},\n"
    "          scheduler: {chunk_tokens: 48, max_running: 8, prefix_cache: true}}\n"
    "workload: {open: {rate: 40 req/s, requests: 16, input: {uniform: {min: 66, max: 80}},\n"
    "           output: {uniform: {min: 4, max: 16}},\n"
    "           prefixes: {groups: 2, tokens: 64, share: 1}}}\n"
    "run: {seed: 3}\n";

static struct kvt_fault_trials run(const char *text, const char *const sets[], int32_t set_count,
                                   int32_t skip)
{
    static struct kvt_config config;
    struct kvt_fault_trials trials = {0};
    struct kvt_err err = {0};
    struct kvt_fault_trials_want want = {.backend = KVT_BACKEND_CPU, .skip = skip};
    CHECK_OK(kvt_config_parse(&config, "c.yaml", text, strlen(text), "", sets, set_count, &err),
             err);
    if (err.status != KVT_OK)
        return trials;
    CHECK_OK(kvt_fault_trials_run(&config, &want, &trials, &err), err);
    kvt_config_release(&config);
    return trials;
}

/* How many disagree; the first is told. */
static int32_t disagreements(const struct kvt_fault_trials *trials)
{
    int32_t count = 0;
    for (int64_t i = 0; i < trials->count; i++) {
        const struct kvt_fault_trial *t = &trials->trials[i];
        char line[200];
        if (t->agrees)
            continue;
        snprintf(line, sizeof line, "%s/%s at %.6f s: simulated %s%s, real %s%s",
                 kvt_fault_names[t->kind], kvt_fault_variants[t->strike.variant].name,
                 kvt_seconds_from_ticks(t->strike.time), kvt_outcome_names[t->simulated.outcome],
                 t->simulated.exposed ? " exposed" : "", kvt_outcome_names[t->real.outcome],
                 t->real.exposed ? " exposed" : "");
        CHECK_NOTE(count > 0, line);
        count++;
    }
    return count;
}

struct tally {
    int32_t exposed, detected, escaped, changed, saved, retracted;
};

static struct tally tally(const struct kvt_fault_trials *trials)
{
    struct tally tally = {0};
    for (int64_t i = 0; i < trials->count; i++) {
        const struct kvt_real_result *real = &trials->trials[i].real;
        tally.exposed += real->exposed;
        tally.detected += real->detected;
        tally.escaped += real->outcome == KVT_OUTCOME_ESCAPED;
        tally.changed += real->output_changed;
        tally.saved += real->saved;
        tally.retracted += real->retracted;
    }
    return tally;
}

static struct tally try_guard(const char *text, const char *kinds, const char *guard, int32_t skip,
                              int32_t *other)
{
    char kinds_set[200], guard_set[120];
    snprintf(kinds_set, sizeof kinds_set, "faults.kinds=%s", kinds);
    snprintf(guard_set, sizeof guard_set, "fleet.%s.guard=%s", text == prefix ? "serve" : "decode",
             guard);
    const char *sets[] = {"faults.everywhere=true", "faults.trials=6", kinds_set, guard_set};
    struct kvt_fault_trials trials = run(text, sets, 4, skip);
    struct tally result = tally(&trials);
    CHECK_NOTE(trials.count > 0, "trials ran");
    *other = skip < 0 ? disagreements(&trials) : 0;
    for (int64_t i = 0; i < trials.count && skip >= 0; i++)
        *other += !trials.trials[i].agrees;
    kvt_fault_trials_release(&trials);
    return result;
}

static void real_strikes_end_as_simulated_ones(void)
{
    int32_t other;
    struct tally all = try_guard(gqa,
                                 "[stale-reader, premature-free, late-write, wrong-map, "
                                 "double-free, partial-transfer, message-fault, residue, bit-flip]",
                                 "none", -1, &other);
    CHECK_I64(other, 0, "disagreements");
    CHECK_NOTE(all.escaped > 10, "without a guard much gets out");
    CHECK_I64(all.detected, 0, "and nothing is seen");
    CHECK_NOTE(all.changed > 5, "it shows in tokens");
}

/* What the allocator writes beside a page cannot tell who wrote it last; what the writer writes
 * into it can. */
static void side_tags_miss_late_writes_and_inband_tags_catch_them(void)
{
    int32_t other;
    struct tally none = try_guard(gqa, "[late-write]", "none", -1, &other);
    CHECK_I64(other, 0, "no guard: disagreements");
    struct tally side =
        try_guard(gqa, "[late-write]", "{tag-side: {bits: 32, check: before-read}}", -1, &other);
    CHECK_I64(other, 0, "tag-side: disagreements");
    struct tally inband =
        try_guard(gqa, "[late-write]", "{tag-inband: {bits: 32, check: before-read}}", -1, &other);
    CHECK_I64(other, 0, "tag-inband: disagreements");
    CHECK_NOTE(none.escaped > 0, "late writes are read");
    CHECK_I64(side.escaped, none.escaped, "tag-side lets every one through");
    CHECK_I64(side.detected, 0, "tag-side sees none");
    CHECK_I64(inband.escaped, 0, "tag-inband lets none through");
    CHECK_NOTE(inband.detected >= none.escaped, "tag-inband sees them");
}

static void latents_are_struck_alike(void)
{
    int32_t other;
    struct tally all = try_guard(mla, "[stale-reader, late-write, bit-flip]",
                                 "{digest: {check: before-read}}", -1, &other);
    CHECK_I64(other, 0, "disagreements");
    CHECK_NOTE(all.detected > 0, "digests see what was changed under them");
    CHECK_NOTE(all.escaped > 0, "and not who reads whose page");
}

/* The executor leaves something out: that must not go unseen. */
static void a_deed_that_is_not_done_is_seen(void)
{
    int32_t other;
    try_guard(gqa, "[late-write]", "none", KVT_DEED_LAND, &other);
    CHECK_NOTE(other > 0, "late writes that do not land");
    try_guard(gqa, "[stale-reader]", "none", KVT_DEED_TABLE, &other);
    CHECK_NOTE(other > 0, "tables that do not change");
    try_guard(gqa, "[partial-transfer]", "{canary: {check: before-read}}", KVT_DEED_HOLD, &other);
    CHECK_NOTE(other > 0, "transfers that are whole");
}

/* What a guard does beyond an abort, and a request that went through host memory, is the same. */
static void a_busy_fleet_fares_as_simulated(void)
{
    static const char *const guards[] = {
        "none",
        "{tag-inband: {bits: 32, check: sampled, sample: 0.5}}",
        "{canary: {check: before-read, on_hit: recompute}, quarantine: }",
        "{digest: {check: before-write, on_hit: refetch}}",
    };
    const char *kinds = "[premature-free, late-write, double-free, partial-transfer, "
                        "message-fault, liveness]";
    struct tally none = {0}, guarded = {0};
    int32_t other;
    for (int i = 0; i < 4; i++) {
        struct tally all = try_guard(busy, kinds, guards[i], -1, &other);
        CHECK_I64(other, 0, guards[i]);
        none.escaped += i == 0 ? all.escaped : 0;
        guarded.detected += i > 0 ? all.detected : 0;
        guarded.saved += all.saved;
        guarded.retracted += all.retracted;
    }
    CHECK_NOTE(none.escaped > 5, "without a guard much gets out");
    CHECK_NOTE(guarded.detected > 5, "guards see it");
    CHECK_NOTE(guarded.saved > 0, "somebody was computed again");
    CHECK_NOTE(guarded.retracted > 0, "somebody went through host memory");
}

/* A page of the prefix index: tags and digests are as its writer left them. */
static void a_poisoned_prefix_is_read_and_a_canary_sees_it(void)
{
    int32_t other;
    struct tally none = try_guard(prefix, "[prefix-poison, bit-flip]", "none", -1, &other);
    CHECK_I64(other, 0, "no guard: disagreements");
    CHECK_NOTE(none.escaped > 0, "whoever shares it reads it");
    struct tally digest =
        try_guard(prefix, "[prefix-poison]", "{digest: {check: before-read}}", -1, &other);
    CHECK_I64(other, 0, "digest: disagreements");
    CHECK_I64(digest.detected, 0, "a digest sees nothing");
    CHECK_NOTE(digest.escaped > 0, "poison gets past a digest");
    struct tally canary =
        try_guard(prefix, "[prefix-poison]", "{canary: {check: before-read}}", -1, &other);
    CHECK_I64(other, 0, "canary: disagreements");
    CHECK_I64(canary.detected, digest.escaped, "a canary sees every one");
    CHECK_I64(canary.escaped, 0, "and lets none through");
}

/* Real pages showed this: vllm acknowledges a transfer when the first step starts, and a client
 * that left before it kept prefill's pages for ever. */
static void clients_that_leave_before_their_first_step_keep_no_page(void)
{
    static const char text[] =
        "model: {file: tests/runtime/tiny-gqa.yaml}\n"
        "engine: vllm\n"
        "fleet:\n"
        "  prefill: {gpu: {name: cpu, memory: 64 MiB}, kv: bf16, page_tokens: 16,\n"
        "            memory: {fraction: 0.5, pages: 16},\n"
        "            scheduler: {chunk_tokens: 48, max_running: 8, prefix_cache: true}}\n"
        "  decode: {gpu: {name: cpu, memory: 64 MiB}, kv: fp8-scaled, page_tokens: 16,\n"
        "           memory: {fraction: 0.5, pages: 20},\n"
        "           scheduler: {max_running: 8, reserved_decode_tokens: 1}}\n"
        "  link: {bandwidth: 20 MB/s, latency: 100 us, stream: by-chunk}\n"
        "workload: {open: {rate: 1200 req/s, requests: 16, input: {uniform: {min: 66, max: 90}},\n"
        "           output: {uniform: {min: 2, max: 40}},\n"
        "           prefixes: {groups: 2, tokens: 64, share: 0.9}},\n"
        "           aborts: {share: 0.9, after: 50 ms}}\n";
    for (int seed = 5; seed <= 7; seed++) {
        static struct kvt_config config;
        static struct kvt_simulation simulation;
        struct kvt_simulate_options how = {0};
        struct kvt_err err = {0};
        char set[40];
        snprintf(set, sizeof set, "run.seed=%d", seed);
        const char *const sets[] = {set};
        CHECK_OK(kvt_config_parse(&config, "c.yaml", text, strlen(text), "", sets, 1, &err), err);
        CHECK_OK(kvt_simulation_init(&simulation, &config, &how, &err), err);
        while (kvt_des_step(&simulation.des, 256))
            continue;
        for (int32_t i = 0; i < simulation.des.core.replica_count; i++)
            CHECK_I64(simulation.des.core.replicas[i].pages.held, 0, "pages held at the end");
        kvt_simulation_release(&simulation);
        kvt_config_release(&config);
    }
}

const struct check_test check_fault_trial[] = {
    {"real strikes end as simulated ones", real_strikes_end_as_simulated_ones, false},
    {"side tags miss late writes and in-band tags catch them",
     side_tags_miss_late_writes_and_inband_tags_catch_them, false},
    {"latents are struck alike", latents_are_struck_alike, false},
    {"a deed that is not done is seen", a_deed_that_is_not_done_is_seen, false},
    {"a busy fleet fares as simulated", a_busy_fleet_fares_as_simulated, false},
    {"a poisoned prefix is read and a canary sees it",
     a_poisoned_prefix_is_read_and_a_canary_sees_it, false},
    {"clients that leave before their first step keep no page",
     clients_that_leave_before_their_first_step_keep_no_page, false},
    {NULL, NULL, false},
};
