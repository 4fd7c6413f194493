/* What a configuration refuses: every message with its place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/yaml.h"
#include "tests/check.h"
#include "tests/config_texts.h"
#include "tests/scarce.h"

/* ---- bad files: each row with its whole message ---- */

#define SERVE      "model: m\nfleet:\n  serve:\n    gpu: g\n"
#define OPEN(rest) SERVE "workload: {open: {rate: 1 req/s, requests: 3, " rest "}}\n"

struct bad_row {
    const char *note, *text, *want;
};

static void check_bad(const struct bad_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kvt_config c;
        struct kvt_err err = {0};
        CHECK_FAILS(parse(&c, rows[i].text, NULL, 0, &err), err, KVT_ECONFIG);
        CHECK_TEXT(err.text, rows[i].want, rows[i].note);
        CHECK(c.store == NULL);
    }
}

static void a_bad_value_is_refused_with_its_line_and_column(void)
{
    static const struct bad_row rows[] = {
        {"bare number", SERVE "run: {until: 30}\n",
         "c.yaml:5:14: run.until: want a time such as \"10 us\", got the bare number 30"},
        {"wrong unit", SERVE "run: {until: 30 GB}\n",
         "c.yaml:5:14: run.until: want a time such as \"10 us\", got \"30 GB\", which is of "
         "another kind"},
        {"unknown unit", SERVE "run: {until: 30 parsecs}\n",
         "c.yaml:5:14: run.until: want a time such as \"10 us\", got \"30 parsecs\": unknown unit "
         "\"parsecs\""},
        {"negative", SERVE "run: {warmup: -3 s}\n",
         "c.yaml:5:15: run.warmup: want a time such as \"10 us\", at least 0 s, got \"-3 s\""},
        {"NaN", SERVE "    memory: {fraction: .nan}\n",
         "c.yaml:5:24: fleet.serve.memory.fraction: want a number, got \".nan\""},
        {"nan", SERVE "    memory: {fraction: nan}\n",
         "c.yaml:5:24: fleet.serve.memory.fraction: want a number, got \"nan\""},
        {"infinity", SERVE "    memory: {fraction: .inf}\n",
         "c.yaml:5:24: fleet.serve.memory.fraction: want a number, got \".inf\""},
        {"fraction 0", SERVE "    memory: {fraction: 0}\n",
         "c.yaml:5:24: fleet.serve.memory.fraction: want a number above 0, at most 1, got \"0\""},
        {"fraction above 1", SERVE "    memory: {fraction: 1.01}\n",
         "c.yaml:5:24: fleet.serve.memory.fraction: want a number above 0, at most 1, got "
         "\"1.01\""},
        {"below the range", SERVE "    replicas: 0\n",
         "c.yaml:5:15: fleet.serve.replicas: want a whole number from 1 to 100000, got \"0\""},
        {"a fraction for a count", SERVE "    replicas: 2.5\n",
         "c.yaml:5:15: fleet.serve.replicas: want a whole number from 1 to 100000, got \"2.5\""},
        {"too big for 64 bits", SERVE "    replicas: 99999999999999999999\n",
         "c.yaml:5:15: fleet.serve.replicas: want a whole number from 1 to 100000, got "
         "\"99999999999999999999\""},
        {"hexadecimal", SERVE "    replicas: 0x10\n",
         "c.yaml:5:15: fleet.serve.replicas: want a whole number from 1 to 100000, got \"0x10\""},
        {"list for a number", SERVE "    replicas: [1, 2]\n",
         "c.yaml:5:15: fleet.serve.replicas: want a whole number from 1 to 100000, got a list"},
        {"nothing", SERVE "    replicas:\n",
         "c.yaml:5:14: fleet.serve.replicas: want a whole number from 1 to 100000, got nothing"},
        {"name", SERVE "    kv: fp9\n",
         "c.yaml:5:9: fleet.serve.kv: want one of bf16, fp8, fp8-plain, fp8-scaled or nvfp4, got "
         "\"fp9\"; did you mean \"fp8\"?"},
        {"line break in a name", SERVE "    kv: \"a\\nb\"\n",
         "c.yaml:5:9: fleet.serve.kv: want one of bf16, fp8, fp8-plain, fp8-scaled or nvfp4, got "
         "\"a?b\""},
        {"yes for true", SERVE "    scheduler: {overlap: yes}\n",
         "c.yaml:5:26: fleet.serve.scheduler.overlap: want true or false, got \"yes\""},
        {"number for a map", SERVE "    memory: 3\n",
         "c.yaml:5:13: fleet.serve.memory: want a mapping, got \"3\""},
        {"list for a map", SERVE "    memory: [1]\n",
         "c.yaml:5:13: fleet.serve.memory: want a mapping, got a list"},
        {"negative seed", SERVE "run: {seed: -1}\n",
         "c.yaml:5:13: run.seed: want a whole number from 0 to 2^64-1, got \"-1\""},
        {"seed of 65 bits", SERVE "run: {seed: 18446744073709551616}\n",
         "c.yaml:5:13: run.seed: want a whole number from 0 to 2^64-1, got "
         "\"18446744073709551616\""},
        {"empty text", SERVE "title: ''\n", "c.yaml:5:8: title: want text, got \"\""},
        {"nothing for a map", SERVE "    memory:\n",
         "c.yaml:5:12: fleet.serve.memory: want a mapping, got nothing"},
        {"tags made of nothing", SERVE "    guard: {tag-side: {bind: []}}\n",
         "c.yaml:5:30: fleet.serve.guard.tag-side.bind: want a list of owner, position, generation "
         "or incarnation, got an empty list"},
        {"null for a text", SERVE "title: ~\n", "c.yaml:5:8: title: want text, got nothing"},
        {"map for a text", SERVE "title: {a: b}\n", "c.yaml:5:8: title: want text, got a mapping"},
        {"no percentile", SERVE "slo: {ttft: {q90: 1 s}}\n",
         "c.yaml:5:14: slo.ttft.q90: want mean or a percentile above 0 and below 100 such as "
         "p99.9"},
        {"a percentile with a sign", SERVE "slo: {ttft: {p+90: 1 s}}\n",
         "c.yaml:5:14: slo.ttft.p+90: want mean or a percentile above 0 and below 100 such as "
         "p99.9"},
        {"price", SERVE "cost: {g: 3.5}\n",
         "c.yaml:5:11: cost.g: want a price such as \"3.5 USD/h\", got the bare number 3.5"},
        {"zero rate", SERVE "workload: {open: {rate: 0 req/s, input: 1, output: 1, requests: 3}}\n",
         "c.yaml:5:25: workload.open.rate: want a request rate such as \"4 req/s\" above 0 req/s, "
         "got \"0 req/s\""},
        {"half a token", OPEN("input: 1.5, output: 1"),
         "c.yaml:5:54: workload.open.input: want a whole number from 1 to 1000000000, got \"1.5\""},
        {"percentile 101", SERVE "slo: {ttft: {p101: 1 s}}\n",
         "c.yaml:5:14: slo.ttft.p101: want mean or a percentile above 0 and below 100 such as "
         "p99.9"},
        {"percentile 100", SERVE "slo: {ttft: {p100: 1 s}}\n",
         "c.yaml:5:14: slo.ttft.p100: want mean or a percentile above 0 and below 100 such as "
         "p99.9"},
        {"percentile 0", SERVE "slo: {ttft: {p0: 1 s}}\n",
         "c.yaml:5:14: slo.ttft.p0: want mean or a percentile above 0 and below 100 such as "
         "p99.9"},
        {"median", SERVE "slo: {ttft: {median: 1 s}}\n",
         "c.yaml:5:14: slo.ttft.median: want mean or a percentile above 0 and below 100 such as "
         "p99.9"},
        {"target without a percentile", SERVE "slo: {itl: 50 ms}\n",
         "c.yaml:5:12: slo.itl: want a mapping such as {p90: 2 s, mean: 1 s}, got \"50 ms\""},
        {"tag parameters",
         SERVE "    guard: {tag-side: {bits: 3, bind: [owner, pos], check: sometimes}}\n",
         "c.yaml:5:30: fleet.serve.guard.tag-side.bits: want a whole number from 4 to 64, got "
         "\"3\"\n"
         "c.yaml:5:39: fleet.serve.guard.tag-side.bind: want a list of owner, position, generation "
         "or incarnation, got \"pos\"\n"
         "c.yaml:5:60: fleet.serve.guard.tag-side.check: want one of once, before-read, "
         "before-write, after-step or sampled, got \"sometimes\""},
    };
    check_bad(rows, sizeof rows / sizeof rows[0]);
}

static void an_unknown_key_is_refused_with_a_suggestion(void)
{
    static const struct bad_row rows[] = {
        {"in a role", SERVE "    replica: 2\n",
         "c.yaml:5:5: fleet.serve.replica: unknown key; did you mean \"replicas\"?"},
        {"at the top", "model: m\nfleets: {}\nfleet: {serve: {gpu: g}}\n",
         "c.yaml:2:1: fleets: unknown key; did you mean \"fleet\"?"},
        {"an alias", SERVE "    max_num_seq: 3\n",
         "c.yaml:5:5: fleet.serve.max_num_seq: unknown key; did you mean \"max_num_seqs\"?"},
        {"an alias outside of a role", SERVE "block_size: 3\n",
         "c.yaml:5:1: block_size: unknown key; want one of title, model, engine, fleet, workload, "
         "slo, cost, calibration, residual, run, plan, faults, published"},
        {"nothing near", SERVE "run: {xyzzy: 1}\n",
         "c.yaml:5:7: run.xyzzy: unknown key; want one of seed, warmup, until, series_points"},
        {"none at all", SERVE "    guard: {fifo: {bits: 3}}\n",
         "c.yaml:5:20: fleet.serve.guard.fifo.bits: unknown key; want no key"},
        {"swapped letters", SERVE "slo: {tftt: {p99: 50 ms}}\n",
         "c.yaml:5:7: slo.tftt: unknown key; did you mean \"ttft\"?"},
        {"a guard's parameter", SERVE "    guard: {tag-side: {bit: 3}}\n",
         "c.yaml:5:24: fleet.serve.guard.tag-side.bit: unknown key; did you mean \"bits\"?"},
        {"a guard", SERVE "    guard: fifo+leese\n",
         "c.yaml:5:12: fleet.serve.guard: unknown name \"leese\"; did you mean \"lease\"?"},
        {"a process", OPEN("input: 1, output: 1, arrivals: possion"),
         "c.yaml:5:78: workload.open.arrivals: unknown name \"possion\"; did you mean "
         "\"poisson\"?"},
    };
    check_bad(rows, sizeof rows / sizeof rows[0]);
}

static void bad_yaml_is_refused_with_its_line_and_column(void)
{
    static const struct bad_row rows[] = {
        {"key twice", SERVE "    gpu: h\n", "c.yaml:5:5: \"gpu\" is given twice; first at 4:5"},
        {"zero byte in quotes", "model: \"a\\0b\"\n", "c.yaml:1:8: want text, got a zero byte"},
        {"cycle", "model: &a {x: *a}\n",
         "c.yaml:1:15: *a lies inside its own anchor (line 1): a cycle"},
        {"no anchor", "model: *a\n", "c.yaml:1:8: *a: no such anchor before it"},
        {"tab", "model: m\nfleet:\n\tserve: {}\n",
         "c.yaml:3:1: a tab cannot indent YAML; use spaces"},
        {"tab after spaces", "model: m\nfleet:\n  serve:\n  \tgpu: g\n",
         "c.yaml:4:3: a tab cannot indent YAML; use spaces"},
        {"open list", "model: [a\nfleet: {}\n",
         "c.yaml:2:6: bad YAML: did not find expected ',' or ']' while parsing a flow sequence "
         "that starts at 1:8"},
        {"second document", SERVE "---\nmodel: x\n",
         "c.yaml:5:1: want one document, got a second one"},
        {"tag", "model: !include x.yaml\n",
         "c.yaml:1:8: want a plain value, got the tag \"!include\""},
        {"list at the top", "- a\n- b\n",
         "c.yaml:1:1: want a mapping with keys such as model and fleet, got a list"},
        {"empty", "",
         "c.yaml:1:1: want a mapping with keys such as model and fleet, got an empty "
         "file"},
        {"comments only", "# nothing\n",
         "c.yaml:1:1: want a mapping with keys such as model and fleet, got an empty file"},
        {"not UTF-8", "model: m\ntitle: caf\xe9\nfleet: {}\n",
         "c.yaml:2:11: want UTF-8 text, got byte 0xe9: invalid trailing UTF-8 octet"},
        {"a column counts characters", "title: \xc3\xa9\xc3\xa9 \x07\n",
         "c.yaml:1:11: want UTF-8 text, got byte 0x07: control characters are not allowed"},
        {"list as a key", "? [a, b]\n: 1\n", "c.yaml:1:3: want a key, got a list"},
        {"merge of a number", SERVE "<<: 3\n", "c.yaml:5:5: <<: want a mapping, got \"3\""},
    };
    check_bad(rows, sizeof rows / sizeof rows[0]);
    struct kvt_config c;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_config_parse(&c, "c.yaml", "model: m\0", 9, "", NULL, 0, &err), err,
                KVT_ECONFIG);
    CHECK_TEXT(err.text,
               "c.yaml:1:9: want UTF-8 text, got byte 0x00: control characters are not allowed",
               "zero byte");
}

static void keys_that_do_not_fit_together_are_refused(void)
{
    static const struct bad_row rows[] = {
        {"nothing given", "title: x\n",
         "c.yaml:1:1: model: is missing; want the model that is served: a name, or a map\n"
         "c.yaml:1:1: fleet: is missing; want the replicas: serve, or prefill and decode"},
        {"no gpu", "model: m\nfleet: {serve: {replicas: 1}}\n",
         "c.yaml:2:16: fleet.serve.gpu: is missing; want the GPU of this role: a name, or a map"},
        {"no role", "model: m\nfleet: {link: {}}\n",
         "c.yaml:2:8: fleet: want serve, or prefill and decode, got neither"},
        {"prefill alone", "model: m\nfleet: {prefill: {gpu: g}}\n",
         "c.yaml:2:8: fleet: want prefill and decode together, got prefill alone"},
        {"serve beside prefill",
         "model: m\nfleet: {prefill: {gpu: g}, decode: {gpu: g}, serve: {gpu: g}}\n",
         "c.yaml:2:18: fleet.prefill: excludes fleet.serve (line 2)"},
        {"link of a serving fleet", SERVE "  link: {bandwidth: 1 GB/s}\n",
         "c.yaml:5:9: fleet.link: want it between prefill and decode only, got a fleet that "
         "serves"},
        {"alias and key", SERVE "    block_size: 16\n    page_tokens: 32\n",
         "c.yaml:5:5: fleet.serve.block_size: means page_tokens, which is given too at 6:5"},
        {"alias and key below", SERVE "    tensor_parallel_size: 4\n    parallel: {tp: 2}\n",
         "c.yaml:5:5: fleet.serve.tensor_parallel_size: means parallel.tp, which is given too at "
         "6:16"},
        {"alias beside a domain",
         SERVE "    parallel: {choices: [{tp: 2}]}\n    tensor_parallel_size: 4\n",
         "c.yaml:6:5: fleet.serve.tensor_parallel_size: means parallel.tp, which is given too"},
        {"alias and key in a choice",
         "model: m\nfleet: {serve: {choices: [{gpu: g}, {gpu: g, page_tokens: 3, page_size: "
         "4}]}}\n",
         "c.yaml:2:62: fleet.serve.page_size: means page_tokens, which is given too at 2:46"},
        {"two aliases", SERVE "    mem_fraction_static: 0.8\n    gpu_memory_utilization: 0.9\n",
         "c.yaml:6:5: fleet.serve.gpu_memory_utilization: means memory.fraction, which is given "
         "too at 5:5"},
        {"two kinds of load",
         SERVE "workload: {trace: a.csv, closed: {concurrency: 1, input: 1, output: 1, requests: "
               "3}}\n",
         "c.yaml:5:26: workload.closed: excludes trace, which is given too at 5:12"},
        {"no kind of load", SERVE "workload: {}\n",
         "c.yaml:5:11: workload: want one of trace, open, closed, got none of them"},
        {"name and file", "model: {name: a, file: b}\nfleet: {serve: {gpu: g}}\n",
         "c.yaml:1:18: model.file: excludes name, which is given too at 1:9"},
        {"dp", SERVE "    parallel: {tp: 8, dp: 3}\n",
         "c.yaml:5:27: fleet.serve.parallel.dp: want a divisor of tp (8), got 3"},
        {"ep", SERVE "    parallel: {tp: 8, ep: 3}\n",
         "c.yaml:5:27: fleet.serve.parallel.ep: want a divisor of tp (8), got 3"},
        {"dcp", SERVE "    parallel: {tp: 8, dp: 2, dcp: 8}\n",
         "c.yaml:5:35: fleet.serve.parallel.dcp: want a divisor of tp/dp (4), got 8"},
        {"until", SERVE "run: {warmup: 10 s, until: 10 s}\n",
         "c.yaml:5:28: run.until: want a time after run.warmup (10 s), got 10 s"},
        {"odd series", SERVE "run: {series_points: 7}\n",
         "c.yaml:5:22: run.series_points: want an even number (points merge in pairs), got 7"},
        {"decode_only without decode",
         SERVE "workload: {closed: {concurrency: 1, input: 1, output: 1, requests: 3, decode_only: "
               "true}}\n",
         "c.yaml:5:84: workload.closed.decode_only: want a fleet with a decode role"},
        {"prefill_only with outputs",
         SERVE "workload: {closed: {concurrency: 1, input: 1, output: 5, requests: 3, "
               "prefill_only: true}}\n",
         "c.yaml:5:55: workload.closed.output: want 1 with prefill_only"},
        {"no end", SERVE "workload: {closed: {concurrency: 1, input: 1, output: 5}}\n",
         "c.yaml:5:20: workload.closed: want requests here or run.until, got no end"},
        {"no output", SERVE "workload: {closed: {concurrency: 1, input: 1, requests: 5}}\n",
         "c.yaml:5:20: workload.closed: output is missing; want tokens of an output"},
        {"gamma without cv", OPEN("input: 1, output: 1, arrivals: gamma"),
         "c.yaml:5:78: workload.open.arrivals.gamma.cv: is missing; want coefficient of variation "
         "of the gaps; 1 is Poisson"},
        {"two processes", OPEN("input: 1, output: 1, arrivals: {gamma: {cv: 2}, poisson: {}}"),
         "c.yaml:5:95: workload.open.arrivals.poisson: excludes gamma, which is given too at "
         "5:79"},
        {"p99 below the mean", OPEN("output: 1, input: {lognormal: {mean: 100, p99: 90}}"),
         "c.yaml:5:65: workload.open.input: want p99 above the mean and at most 14.96 times it, as "
         "a lognormal's is, got 90 and a mean of 100"},
        {"p99 that no lognormal has", OPEN("output: 1, input: {lognormal: {mean: 100, p99: 9000}}"),
         "c.yaml:5:65: workload.open.input: want p99 above the mean and at most 14.96 times it, as "
         "a lognormal's is, got 9000 and a mean of 100"},
        {"min above max", OPEN("output: 1, input: {uniform: {min: 9, max: 3}}"),
         "c.yaml:5:65: workload.open.input: want min at most max, got 9 and 3"},
        {"none beside a guard", SERVE "    guard: none+fifo\n",
         "c.yaml:5:12: fleet.serve.guard: want none alone, got it beside other guards"},
        {"neither p99 nor cv", OPEN("output: 1, input: {lognormal: {mean: 100}}"),
         "c.yaml:5:65: workload.open.input: want p99 or cv beside mean, got neither"},
        {"open without an end", SERVE "workload: {open: {rate: 1 req/s, input: 1, output: 5}}\n",
         "c.yaml:5:18: workload.open: want requests here or run.until, got no end"},
        {"a share of no prefix", OPEN("input: 1, output: 1, prefixes: {share: 0.5}"),
         "c.yaml:5:78: workload.open.prefixes: want groups and tokens above 0 beside share"},
        {"both halves alone",
         "model: m\nfleet: {prefill: {gpu: g}, decode: {gpu: g}}\n"
         "workload: {closed: {concurrency: 1, input: 1, output: 1, requests: 3, decode_only: true, "
         "prefill_only: true}}\n",
         "c.yaml:3:20: workload.closed: decode_only and prefill_only exclude each other"},
        {"two sets of tag parameters",
         SERVE "    guard: {tag-side: {bits: 8}, tag-inband: {bits: 16}}\n",
         "c.yaml:5:53: fleet.serve.guard.tag-inband.bits: want what tag-side has, as all guards of "
         "a role share it"},
        {"published",
         SERVE "published: [{metric: x}, {metric: y, value: 1, below: 2}, {metric: z, value: 3, "
               "role: decod}]\n",
         "c.yaml:5:13: published[0]: want one of value, below, got none of them\n"
         "c.yaml:5:48: published[1].below: excludes value, which is given too at 5:38\n"
         "c.yaml:5:87: published[2].role: want one of prefill, decode or serve, got \"decod\"; did "
         "you mean \"decode\"?"},
    };
    check_bad(rows, sizeof rows / sizeof rows[0]);
}

static void ten_errors_are_reported_at_once(void)
{
    struct kvt_config c;
    struct kvt_err err = {0};
    CHECK_FAILS(parse(&c,
                      SERVE "    kv: a\n    weights: b\n    replicas: c\n    router: d\n"
                            "    page_tokens: e\n    draft_tokens: f\n"
                            "    memory: {fraction: g, reserve: h}\n"
                            "    scheduler: {overlap: i, max_running: j, chunk_tokens: k}\n",
                      NULL, 0, &err),
                err, KVT_ECONFIG);
    CHECK_I64(err.count, 11, "all are counted");
    CHECK_HOLDS(err.text, "c.yaml:5:9: fleet.serve.kv:", "first");
    CHECK_HOLDS(err.text, "c.yaml:12:42: fleet.serve.scheduler.max_running:", "tenth");
    CHECK(strstr(err.text, "chunk_tokens") == NULL);
    CHECK_HOLDS(err.text, "more errors follow", "the rest");
}

static void what_is_too_large_is_a_limit(void)
{
    static char text[1200000];
    struct kvt_config c;
    struct kvt_err err = {0};
    memset(text, '[', 65);
    text[65] = '\0';
    CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ELIMIT);
    CHECK_TEXT(err.text, "c.yaml:1:65: more than 64 levels", "depth");
    size_t used = (size_t)snprintf(text, sizeof text, "a: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (int name = 'b'; name < 'k'; name++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", name,
            name, name - 1, name - 1, name - 1, name - 1, name - 1, name - 1, name - 1, name - 1);
    err = (struct kvt_err){0};
    CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "more than 200000 values (aliases count as often as they are used)",
                "aliases of aliases");
    static const char endless[] = SERVE "    replicas: {range: {min: 1, max: 10001, step: 1}}\n";
    err = (struct kvt_err){0};
    CHECK_FAILS(parse(&c, endless, NULL, 0, &err), err, KVT_ELIMIT);
    CHECK_TEXT(err.text,
               "c.yaml:5:23: fleet.serve.replicas: want at most 10000 values in a range, got 10001",
               "the number of values");
    used = (size_t)snprintf(text, sizeof text, SERVE "engine: ");
    memset(text + used, 'x', 1000000);
    text[used + 1000000] = '\0';
    err = (struct kvt_err){0};
    CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ECONFIG);
    CHECK_TEXT(err.text,
               "c.yaml:5:9: engine: want one of sglang or vllm, got \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
               "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"",
               "a quote has at most 80 characters");
    CHECK_FAILS(kvt_config_parse(&c, "c.yaml", text, KVT_YAML_BYTES + 1, "", NULL, 0, &err), err,
                KVT_ELIMIT);
}

static void a_bad_set_is_refused_by_its_own_text(void)
{
    static const struct {
        const char *set, *want;
        enum kvt_status status;
    } rows[] = {
        {"abc", "--set abc: want KEY=VALUE, got no \"=\"", KVT_EUSAGE},
        {"=3", "--set =3: want a key such as run.seed before the \"=\"", KVT_EUSAGE},
        {"a..b=3", "--set a..b=3: want a key such as run.seed before the \"=\"", KVT_EUSAGE},
        {"fleet.decod.kv=fp8",
         "--set fleet.decod.kv=fp8: fleet.decod: unknown key; did you mean \"decode\"?",
         KVT_ECONFIG},
        {"run.sed=3", "--set run.sed=3: run.sed: unknown key; did you mean \"seed\"?", KVT_ECONFIG},
        {"run.seed=",
         "--set run.seed=: run.seed: want a whole number from 0 to 2^64-1, got nothing",
         KVT_ECONFIG},
        {"slo={ttft: {p90: 2}}",
         "--set slo={ttft: {p90: 2}}: slo.ttft.p90: want a time such as \"10 us\", got the bare "
         "number 2",
         KVT_ECONFIG},
        {"slo={ttft", "--set slo={ttft: bad YAML: did not find expected ',' or '}'", KVT_ECONFIG},
        {"fleet.serve={gpu: h, block_size: 16, page_tokens: 3}",
         "--set fleet.serve={gpu: h, block_size: 16, page_tokens: 3}: fleet.serve.block_size: "
         "means "
         "page_tokens, which is given too",
         KVT_ECONFIG},
        {"fleet.decode.replicas.x=1",
         "--set fleet.decode.replicas.x=1: cannot set a key of replicas, which is \"1\"; set the "
         "whole",
         KVT_ECONFIG},
        {"fleet.decode.tp_size.x=1",
         "--set fleet.decode.tp_size.x=1: want a key such as run.seed before the \"=\"",
         KVT_EUSAGE},
        {"fleet.serve={gpu: g}",
         "c.yaml:4:12: fleet.prefill: excludes fleet.serve (--set fleet.serve={gpu: g})",
         KVT_ECONFIG},
        {"model={name: a, file: b}",
         "--set model={name: a, file: b}: model.file: excludes name, which is given too",
         KVT_ECONFIG},
        {"fleet=null",
         "c.yaml:1:1: fleet: is missing; want the replicas: serve, or prefill and "
         "decode",
         KVT_ECONFIG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config c;
        struct kvt_err err = {0};
        CHECK_FAILS(parse(&c, design_example, &rows[i].set, 1, &err), err, rows[i].status);
        CHECK_HOLDS(err.text, rows[i].want, rows[i].set);
    }
}

static void every_choice_is_judged_like_the_value_itself(void)
{
    static const struct bad_row rows[] = {
        {"no choice", SERVE "    replicas: {choices: []}\n",
         "c.yaml:5:25: fleet.serve.replicas: want a list of 1 to 10000 choices, got an empty one"},
        {"second", SERVE "    replicas: {choices: [1, two, 3]}\n",
         "c.yaml:5:29: fleet.serve.replicas: want a whole number from 1 to 100000, got \"two\""},
        {"inside of a section", SERVE "    parallel: {choices: [{tp: 8}, {tp: 4, dq: 2}]}\n",
         "c.yaml:5:43: fleet.serve.parallel.dq: unknown key; did you mean \"dp\"?"},
        {"domain in a domain", SERVE "    parallel: {choices: [{tp: 8}, {tp: {choices: [1]}}]}\n",
         "c.yaml:5:50: fleet.serve.parallel.tp: want a value, got a domain within a domain"},
        {"twice", SERVE "    kv: {choices: [bf16, fp8, bf16]}\n",
         "c.yaml:5:31: fleet.serve.kv: want choices that differ, got bf16 a second time"},
        {"twice, sections", SERVE "    parallel: {choices: [{tp: 8}, {tp: 4}, {tp: 4}]}\n",
         "c.yaml:5:44: fleet.serve.parallel: want choices that differ, got {tp: 4} a second time"},
        {"twice, short",
         "model: m\nfleet: {serve: {gpu: g}}\n"
         "workload: {closed: {concurrency: [1, 2, 1], input: 3, output: 4}}\n",
         "c.yaml:3:41: workload.closed.concurrency: want choices that differ, got 1 a second time"},
        {"both", SERVE "    replicas: {choices: [1], range: {min: 1, max: 2, step: 1}}\n",
         "c.yaml:5:15: fleet.serve.replicas: want a domain of one key, choices or range, got "
         "\"choices\" and \"range\""},
        {"choices and more", SERVE "    parallel: {tp: 8, choices: [{tp: 2}]}\n",
         "c.yaml:5:15: fleet.serve.parallel: want a domain of one key, choices or range, got "
         "\"tp\" and \"choices\""},
        {"no list", SERVE "    replicas: {choices: 3}\n",
         "c.yaml:5:25: fleet.serve.replicas: want a list of 1 to 10000 choices, got \"3\""},
        {"no map", SERVE "    replicas: {range: 3}\n",
         "c.yaml:5:23: fleet.serve.replicas: want a mapping, got \"3\""},
        {"other keys", SERVE "    replicas: {range: {min: 1, max: 3, step: 1, stop: 4}}\n",
         "c.yaml:5:49: fleet.serve.replicas.stop: unknown key; did you mean \"step\"?"},
        {"unit in a range", SERVE "run: {warmup: {range: {min: 1, max: 3 s, step: 1 s}}}\n",
         "c.yaml:5:29: run.warmup.min: want a time such as \"10 us\", got the bare number 1"},
        {"backwards", SERVE "    replicas: {range: {min: 4, max: 2, step: 1}}\n",
         "c.yaml:5:23: fleet.serve.replicas: want min <= max, got 4 and 2"},
        {"standing still", SERVE "    replicas: {range: {min: 1, max: 2, step: 0}}\n",
         "c.yaml:5:46: fleet.serve.replicas.step: want a whole number above 0, got \"0\""},
        {"no step", SERVE "    replicas: {range: {min: 1, max: 2}}\n",
         "c.yaml:5:23: fleet.serve.replicas.step: is missing; want the distance of two values"},
        {"of names", SERVE "    kv: {range: {min: 1, max: 2, step: 1}}\n",
         "c.yaml:5:17: fleet.serve.kv: want choices; a range is for numbers"},
    };
    check_bad(rows, sizeof rows / sizeof rows[0]);
}

static void files_that_cannot_be_read_are_input_errors(void)
{
    struct kvt_config c;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_config_load(&c, "no/such.yaml", NULL, 0, &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "no/such.yaml: cannot open:", "missing");
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_config_load(&c, "configs", NULL, 0, &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "configs: want a file, got a folder", "folder");
}

static void a_load_that_runs_out_of_memory_says_so(void)
{
    static const char *const sets[] = {"run.seed=3", "fleet.decode.tp_size=4",
                                       "fleet.decode.replicas={range: {min: 1, max: 3, step: 1}}"};
    long n = 1;
    enum kvt_status status = KVT_ENOMEM;
    for (; status == KVT_ENOMEM && n < 5000; n++) {
        struct kvt_config c;
        struct kvt_err err = {0};
        scarce_arena_at(n);
        status = parse(&c, design_example, sets, 3, &err);
        scarce_arena_at(0);
        if (status == KVT_ENOMEM)
            CHECK(err.count > 0 && c.store == NULL);
        kvt_config_release(&c);
    }
    CHECK_I64(status, KVT_OK, "it ends well");
    CHECK(n > 100);
}

static void more_entries_than_there_is_room_for_are_refused(void)
{
    static const struct {
        const char *head, *entry, *want;
    } rows[] = {
        {"cost: {", "g%d: 1 USD/h, ", "c.yaml:5:222: cost.g16: want at most 16 entries"},
        {"slo: {itl: {", "p%d: 1 s, ", "slo.itl.p9: want at most 8 targets of one metric"},
        {"published: [", "{metric: m%d, value: 1}, ", "published[64]: want at most 64 rows"},
        {"run: {", "k%d: 1, ", "more errors follow"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static char text[200000];
        size_t used = (size_t)snprintf(text, sizeof text, SERVE "%s", rows[i].head);
        for (int n = i == 1 ? 1 : 0; n < 70; n++) {
            char entry[64];
            const char *mark = strstr(rows[i].entry, "%d");
            snprintf(entry, sizeof entry, "%.*s%d%s", (int)(mark - rows[i].entry), rows[i].entry, n,
                     mark + 2);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", entry);
        }
        const char *close = i == 1 ? "}}" : i == 2 ? "]" : "}";
        snprintf(text + used, sizeof text - used, "%s\n", close);
        struct kvt_config c;
        struct kvt_err err = {0};
        CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].want, rows[i].head);
    }
    static char text[200000];
    size_t used = (size_t)snprintf(text, sizeof text, "model: {");
    for (int n = 0; n <= KVT_YAML_KEYS; n++)
        used += (size_t)snprintf(text + used, sizeof text - used, "k%d: 1, ", n);
    snprintf(text + used, sizeof text - used, "}\n");
    struct kvt_config c;
    struct kvt_err err = {0};
    CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "more than 4096 keys in one mapping", "keys");
    used = 0;
    for (int map = 0; map < 2; map++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "a%d: &a%d {", map, map);
        for (int n = 0; n < KVT_YAML_KEYS / 2 + 1; n++)
            used += (size_t)snprintf(text + used, sizeof text - used, "k%d_%d: 1, ", map, n);
        used += (size_t)snprintf(text + used, sizeof text - used, "}\n");
    }
    snprintf(text + used, sizeof text - used, "model: {<<: [*a0, *a1]}\n");
    err = (struct kvt_err){0};
    CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "more than 4096 keys in one mapping", "merged keys");
}

static void a_set_inside_of_a_domain_or_a_list_is_refused(void)
{
    static const struct {
        const char *text, *set, *want;
    } rows[] = {
        {SERVE "    parallel: {choices: [{tp: 2}]}\n", "fleet.serve.parallel.tp=1",
         "--set fleet.serve.parallel.tp=1: cannot set a key of parallel, which is a domain; set "
         "the "
         "whole"},
        {SERVE "    parallel: [1]\n", "fleet.serve.parallel.tp=1",
         "--set fleet.serve.parallel.tp=1: cannot set a key of parallel, which is a list; set the "
         "whole"},
        {"- a\n", "run.seed=1",
         "--set run.seed=1: cannot set a key of the file, which is a list; set the whole"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config c;
        struct kvt_err err = {0};
        CHECK_FAILS(parse(&c, rows[i].text, &rows[i].set, 1, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].want, rows[i].set);
    }
}

/* clang-format off */
const struct check_test check_config_errors[] = {
    {"a bad value is refused with its line and column",
     a_bad_value_is_refused_with_its_line_and_column, false},
    {"an unknown key is refused with a suggestion", an_unknown_key_is_refused_with_a_suggestion,
     false},
    {"bad YAML is refused with its line and column", bad_yaml_is_refused_with_its_line_and_column,
     false},
    {"keys that do not fit together are refused", keys_that_do_not_fit_together_are_refused, false},
    {"ten errors are reported at once", ten_errors_are_reported_at_once, false},
    {"what is too large is a limit", what_is_too_large_is_a_limit, false},
    {"a bad set is refused by its own text", a_bad_set_is_refused_by_its_own_text, false},
    {"every choice is judged like the value itself", every_choice_is_judged_like_the_value_itself,
     false},
    {"more entries than there is room for are refused",
     more_entries_than_there_is_room_for_are_refused, false},
    {"a set inside of a domain or a list is refused", a_set_inside_of_a_domain_or_a_list_is_refused,
     false},
    {"files that cannot be read are input errors", files_that_cannot_be_read_are_input_errors,
     false},
    {"a load that runs out of memory says so", a_load_that_runs_out_of_memory_says_so, false},
    {NULL, NULL, false},
};
/* clang-format on */
