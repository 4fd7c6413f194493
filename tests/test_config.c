#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/config/config.h"
#include "sim/config/schema.h"
#include "tests/check.h"

/* The example of the design, as it stands there. */
static const char design_example[] =
    "model: kimi-k2.6                     # configs/models/\n"
    "engine: sglang\n"
    "fleet:\n"
    "  prefill: {replicas: 1, gpu: h200-sxm, parallel: {tp: 8}, weights: int4-g32, kv: bf16, "
    "memory: {fraction: 0.84}}\n"
    "  decode:  {replicas: 1, gpu: h200-sxm, parallel: {tp: 8}, weights: int4-g32, kv: fp8, "
    "page_tokens: 64,\n"
    "            memory: {fraction: 0.84}, guard: {tag-side: {bits: 64, "
    "bind: [owner, position, generation], check: before-read}}}\n"
    "  link: {bandwidth: 50 GB/s, per: gpu, latency: 10 us, stream: by-layer}\n"
    "workload: {trace: traces/conversation-sample.csv}\n"
    "slo: {ttft: {p90: 2 s}, itl: {p99: 50 ms}}\n"
    "cost: {h200-sxm: 3.5 USD/h}\n"
    "calibration: {h200-sxm: h200-sglang}\n"
    "run: {seed: 1, warmup: 30 s, until: 1 h}\n";

static enum kvt_status parse(struct kvt_config *config, const char *text, const char *const sets[],
                             int32_t set_count, struct kvt_err *err)
{
    return kvt_config_parse(config, "c.yaml", text, strlen(text), "dir", sets, set_count, err);
}

static void the_example_of_the_design_is_read(void)
{
    struct kvt_config c;
    struct kvt_err err = {0};
    CHECK_OK(parse(&c, design_example, NULL, 0, &err), err);
    if (err.count > 0)
        return;
    const struct kvt_config_role *prefill = &c.roles[KVT_ROLE_PREFILL];
    const struct kvt_config_role *decode = &c.roles[KVT_ROLE_DECODE];
    CHECK_TEXT(c.model.name, "kimi-k2.6", "model");
    CHECK_I64(c.model.where.line, 1, "its line");
    CHECK_I64(c.model.where.column, 8, "its column");
    CHECK(prefill->present && decode->present && !c.roles[KVT_ROLE_SERVE].present);
    CHECK_I64(prefill->parallel.tp, 8, "tp");
    CHECK_I64(prefill->parallel.pp, 1, "pp by default");
    CHECK_I64(prefill->weights, KVT_WEIGHTS_INT4_G32, "weights");
    CHECK(prefill->weights_set);
    CHECK_I64(prefill->kv, KVT_KV_BF16, "prefill kv");
    CHECK_I64(prefill->page_tokens, KVT_UNSET, "page of prefill is the engine's");
    CHECK(prefill->guard.on[KVT_GUARD_NONE] && !prefill->guard.on[KVT_GUARD_TAG_SIDE]);
    CHECK_I64(decode->kv, KVT_KV_FP8, "decode kv");
    CHECK_I64(decode->page_tokens, 64, "page");
    CHECK(decode->guard.on[KVT_GUARD_TAG_SIDE] && !decode->guard.on[KVT_GUARD_NONE]);
    CHECK_I64(decode->guard.tag_bits, 64, "bits");
    CHECK_I64(decode->guard.tag_bind, KVT_BIND_OWNER | KVT_BIND_POSITION | KVT_BIND_GENERATION,
              "bind");
    CHECK_I64(decode->guard.check, KVT_CHECK_BEFORE_READ, "check");
    CHECK_CLOSE(decode->memory.fraction, 0.84, 0, "fraction");
    CHECK(decode->memory.capacity < 0);
    CHECK_I64(decode->memory.pages, KVT_UNSET, "pages");
    CHECK_CLOSE(c.link.bandwidth, 50e9, 0, "bandwidth");
    CHECK_CLOSE(c.link.latency, 10e-6, 0, "latency");
    CHECK_I64(c.link.stream, KVT_STREAM_BY_LAYER, "stream");
    CHECK_I64(c.workload.kind, KVT_WORKLOAD_TRACE, "kind");
    CHECK_TEXT(c.workload.trace, "dir/traces/conversation-sample.csv", "from the file's folder");
    CHECK_CLOSE(c.slo.ttft.percentile[0], 0.9, 0, "p90");
    CHECK_CLOSE(c.slo.ttft.seconds[0], 2, 0, "2 s");
    CHECK_CLOSE(c.slo.itl.seconds[0], 0.05, 0, "50 ms");
    CHECK_TEXT(c.cost.key[0], "h200-sxm", "cost");
    CHECK_CLOSE(c.cost.value[0], 3.5, 0, "USD/h");
    CHECK_TEXT(c.calibration.text[0], "h200-sglang", "calibration");
    CHECK_CLOSE(c.run.until, 3600, 0, "until");
    CHECK_I64(c.domains, 0, "domains");
    kvt_config_release(&c);
}

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
         "slo, cost, calibration, run, published"},
        {"nothing near", SERVE "run: {xyzzy: 1}\n",
         "c.yaml:5:7: run.xyzzy: unknown key; want one of seed, warmup, until, series_points"},
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
    for (char name = 'b'; name < 'k'; name++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", name,
            name, name - 1, name - 1, name - 1, name - 1, name - 1, name - 1, name - 1, name - 1);
    err = (struct kvt_err){0};
    CHECK_FAILS(parse(&c, text, NULL, 0, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "more than 200000 values (aliases count as often as they are used)",
                "aliases of aliases");
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

/* ---- what is accepted ---- */

static struct kvt_config parse_good(const char *text, const char *const sets[], int32_t set_count)
{
    struct kvt_config c;
    struct kvt_err err = {0};
    CHECK_OK(parse(&c, text, sets, set_count, &err), err);
    return c;
}

static void aliases_of_other_engines_mean_our_keys(void)
{
    struct kvt_config c = parse_good(
        SERVE "    tensor_parallel_size: 8\n    pp_size: 2\n    dp_size: 4\n    ep_size: 2\n"
              "    decode_context_parallel_size: 2\n    block_size: 32\n"
              "    gpu_memory_utilization: 0.9\n    kv_cache_dtype: fp8_e4m3\n"
              "    max_num_seqs: 17\n    max_num_batched_tokens: 8191\n"
              "    enable_prefix_caching: false\n    max_model_len: 4097\n"
              "    num_gpu_blocks_override: 1013\n    chunked_prefill_size: 2049\n"
              "    num_speculative_tokens: 3\n",
        NULL, 0);
    const struct kvt_config_role *r = &c.roles[KVT_ROLE_SERVE];
    CHECK_I64(r->parallel.tp, 8, "tensor_parallel_size");
    CHECK_I64(r->parallel.pp, 2, "pp_size");
    CHECK_I64(r->parallel.dp, 4, "dp_size");
    CHECK_I64(r->parallel.ep, 2, "ep_size");
    CHECK_I64(r->parallel.dcp, 2, "decode_context_parallel_size");
    CHECK_I64(r->page_tokens, 32, "block_size");
    CHECK_CLOSE(r->memory.fraction, 0.9, 0, "gpu_memory_utilization");
    CHECK_I64(r->kv, KVT_KV_FP8, "kv_cache_dtype");
    CHECK_I64(r->scheduler.max_running, 17, "max_num_seqs");
    CHECK_I64(r->scheduler.batch_tokens, 8191, "max_num_batched_tokens");
    CHECK(r->scheduler.prefix_cache_set && !r->scheduler.prefix_cache);
    CHECK_I64(r->scheduler.max_model_len, 4097, "max_model_len");
    CHECK_I64(r->memory.pages, 1013, "num_gpu_blocks_override");
    CHECK_I64(r->scheduler.chunk_tokens, 2049, "chunked_prefill_size");
    CHECK_I64(r->draft_tokens, 3, "num_speculative_tokens");
    kvt_config_release(&c);
}

static void line_ends_anchors_and_merges_are_understood(void)
{
    struct kvt_config c = parse_good("\xef\xbb\xbfmodel: m\r\nfleet:\r\n"
                                     "  prefill: &role\r\n    gpu: {name: g, memory: 96 GiB}\r\n"
                                     "    parallel: &p {tp: 8}\r\n"
                                     "  decode:\r\n    <<: *role\r\n    kv: fp8\r\n",
                                     NULL, 0);
    const struct kvt_config_role *decode = &c.roles[KVT_ROLE_DECODE];
    CHECK_TEXT(decode->gpu.name, "g", "merged");
    CHECK_CLOSE(decode->memory.capacity, 96 * 0x1p30, 0, "merged");
    CHECK_I64(decode->parallel.tp, 8, "merged");
    CHECK_I64(decode->kv, KVT_KV_FP8, "its own");
    CHECK_I64(c.roles[KVT_ROLE_PREFILL].kv, KVT_KV_BF16, "not the other's");
    CHECK(c.link_present);
    CHECK_CLOSE(c.link.bandwidth, 50e9, 0, "the default link");
    CHECK_I64(c.link.stream, KVT_STREAM_BY_CHUNK, "the default link");
    kvt_config_release(&c);
}

static void short_forms_mean_the_long_ones(void)
{
    struct kvt_config c = parse_good(
        "model: {hf_config: x/config.json}\nfleet: {serve: {gpu: {file: /abs/g.yaml}, "
        "guard: fifo+tag-inband}}\n"
        "workload:\n  open:\n    rate: 240 req/min\n    arrivals: {on_off: {on: 5 s, off: 20 s}}\n"
        "    input: {lognormal: {mean: 1155, p99: 4142, max: 14050}}\n    output: 211\n"
        "    prefixes: {groups: 7, share: 0.4, tokens: 512}\n"
        "run: {until: 1 h}\ncalibration: {g: cal/x.yaml}\n",
        NULL, 0);
    CHECK_TEXT(c.model.hf_config, "dir/x/config.json", "from the file's folder");
    CHECK_TEXT(c.roles[KVT_ROLE_SERVE].gpu.file, "/abs/g.yaml", "absolute");
    CHECK(c.roles[KVT_ROLE_SERVE].guard.on[KVT_GUARD_FIFO]);
    CHECK(c.roles[KVT_ROLE_SERVE].guard.on[KVT_GUARD_TAG_INBAND]);
    CHECK(!c.roles[KVT_ROLE_SERVE].guard.on[KVT_GUARD_NONE]);
    CHECK_I64(c.workload.kind, KVT_WORKLOAD_OPEN, "open");
    CHECK_CLOSE(c.workload.rate, 4, 1e-15, "240 a minute");
    CHECK_I64(c.workload.arrivals.kind, KVT_ARRIVALS_ON_OFF, "on_off");
    CHECK_CLOSE(c.workload.arrivals.off, 20, 0, "off");
    CHECK_I64(c.workload.input.kind, KVT_DIST_LOGNORMAL, "lognormal");
    CHECK_CLOSE(c.workload.input.p99, 4142, 0, "p99");
    CHECK_CLOSE(c.workload.input.max, 14050, 0, "clipped");
    CHECK(c.workload.input.min < 0 && c.workload.input.cv < 0);
    CHECK_I64(c.workload.output.kind, KVT_DIST_FIXED, "fixed");
    CHECK_CLOSE(c.workload.output.mean, 211, 0, "fixed");
    CHECK_I64(c.workload.prefixes.groups, 7, "groups");
    CHECK_TEXT(c.calibration.text[0], "dir/cal/x.yaml", "a calibration with a slash is a path");
    kvt_config_release(&c);
    c = parse_good(SERVE "workload: {closed: {concurrency: 2, input: 5, requests: 9, "
                         "prefill_only: true}}\n",
                   NULL, 0);
    CHECK_CLOSE(c.workload.output.mean, 1, 0, "prefill_only ends with the first token");
    kvt_config_release(&c);
}

/* ---- --set ---- */

static void sets_are_laid_over_the_file_in_order(void)
{
    static const char *const sets[] = {
        "fleet.decode.kv=fp8-plain",
        "fleet.decode.replicas=3",
        "fleet.decode.replicas=5",
        "workload.open.rate=2 req/s",
        "workload.open.input={uniform: {min: 3, max: 7}}",
        "workload.open.output=11",
        "workload.open.requests=13",
        "slo={e2el: {p99.9: 2 s}}",
        "slo.e2el.mean=1 s",
        "fleet.prefill.gpu.memory=96 GB",
        "fleet.decode.guard.lease={}",
        "fleet.decode.block_size=32",
        "run.until=null",
        "model.file=m.yaml",
        "fleet.decode.tp_size=4",
        "cost.h100.pcie=2 USD/h",
    };
    struct kvt_config c = parse_good(design_example, sets, (int32_t)(sizeof sets / sizeof sets[0]));
    const struct kvt_config_role *decode = &c.roles[KVT_ROLE_DECODE];
    CHECK_I64(decode->kv, KVT_KV_FP8_PLAIN, "one key of a role");
    CHECK_I64(decode->replicas, 5, "the last one wins");
    CHECK_I64(decode->page_tokens, 32, "an alias sets the key it means");
    CHECK_I64(decode->parallel.tp, 4, "an alias of a key below");
    CHECK(decode->guard.on[KVT_GUARD_LEASE] && decode->guard.on[KVT_GUARD_TAG_SIDE]);
    CHECK_I64(c.workload.kind, KVT_WORKLOAD_OPEN, "replaces the kind of load");
    CHECK(c.workload.trace == NULL);
    CHECK_CLOSE(c.workload.input.max, 7, 0, "YAML flow");
    CHECK_I64(c.slo.ttft.count, 0, "a set replaces the whole value");
    CHECK_I64(c.slo.e2el.count, 2, "and another adds to it");
    CHECK_CLOSE(c.slo.e2el.percentile[0], 0.999, 1e-15, "a key with a dot");
    CHECK_TEXT(c.roles[KVT_ROLE_PREFILL].gpu.name, "h200-sxm", "the short form keeps its name");
    CHECK_CLOSE(c.roles[KVT_ROLE_PREFILL].memory.capacity, 96e9, 0, "beside another key");
    CHECK(c.run.until < 0);
    CHECK_TEXT(c.model.file, "m.yaml", "a path from the working directory");
    CHECK(c.model.name == NULL);
    CHECK_I64(c.cost.count, 2, "free keys may hold dots");
    kvt_config_release(&c);
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

/* ---- domains ---- */

static void a_domain_keeps_its_choices_and_the_field_takes_the_first(void)
{
    struct kvt_config c = parse_good(
        SERVE "    replicas: {range: {min: 2, max: 8, step: 3}}\n"
              "    kv: {choices: [fp8, bf16]}\n"
              "    parallel: {choices: [{tp: 8}, {tp: 4, dp: 2}]}\n"
              "    memory: {fraction: {range: {min: 0.7, max: 0.9, step: 0.1}}}\n"
              "workload: {closed: {concurrency: [1, 8, 32], input: 7, output: 3, requests: 5}}\n"
              "run: {warmup: {range: {min: 500 ms, max: 2 s, step: 500 ms}}}\n",
        NULL, 0);
    static const struct {
        const char *path, *last;
        int32_t count, line;
    } rows[] = {
        {"fleet.serve.replicas", "8", 3, 5},
        {"fleet.serve.kv", "bf16", 2, 6},
        {"fleet.serve.parallel", "{tp: 4, dp: 2}", 2, 7},
        {"fleet.serve.memory.fraction", "0.9", 3, 8},
        {"workload.closed.concurrency", "32", 3, 9},
        {"run.warmup", "2 s", 4, 10},
    };
    CHECK_I64(c.domains, 6, "domains");
    for (int32_t i = 0; i < c.domains && i < 6; i++) {
        const struct kvt_config_domain *domain = kvt_config_domain(&c, i);
        CHECK_TEXT(domain->path, rows[i].path, "path");
        CHECK_I64(domain->count, rows[i].count, rows[i].path);
        CHECK_TEXT(domain->texts[domain->count - 1], rows[i].last, rows[i].path);
        CHECK_I64(domain->where.line, rows[i].line, rows[i].path);
    }
    CHECK_I64(c.where_domain.line, 5, "the first one's place");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].replicas, 2, "first of a range");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].kv, KVT_KV_FP8, "first of the choices");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].parallel.tp, 8, "first of the choices");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].parallel.dp, 1, "other choices leave no trace");
    CHECK_CLOSE(c.run.warmup, 0.5, 0, "first of a range");
    kvt_config_release(&c);
    /* What a domain says is what a --set of that choice means. */
    c = parse_good(
        "model: m\nfleet: {serve: {gpu: g}}\nworkload: {trace: {choices: [a.csv, b.csv]}}\n", NULL,
        0);
    CHECK_TEXT(kvt_config_domain(&c, 0)->texts[1], "dir/b.csv", "a path is resolved");
    CHECK_TEXT(c.workload.trace, "dir/a.csv", "and so is the first");
    kvt_config_release(&c);
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
        {"backwards", SERVE "    replicas: {range: {min: 4, max: 2, step: 1}}\n",
         "c.yaml:5:23: fleet.serve.replicas: want min <= max and at most 10000 values in a range"},
        {"standing still", SERVE "    replicas: {range: {min: 1, max: 2, step: 0}}\n",
         "c.yaml:5:46: fleet.serve.replicas.step: want a whole number above 0, got \"0\""},
        {"no step", SERVE "    replicas: {range: {min: 1, max: 2}}\n",
         "c.yaml:5:23: fleet.serve.replicas.step: is missing; want the distance of two values"},
        {"of names", SERVE "    kv: {range: {min: 1, max: 2, step: 1}}\n",
         "c.yaml:5:17: fleet.serve.kv: want choices; a range is for numbers"},
        {"endless", SERVE "    replicas: {range: {min: 1, max: 100000, step: 1}}\n",
         "c.yaml:5:23: fleet.serve.replicas: want min <= max and at most 10000 values in a range"},
    };
    check_bad(rows, sizeof rows / sizeof rows[0]);
}

/* ---- printing ---- */

/* Make two configurations that should mean the same comparable byte by byte: texts are compared
 * here, and texts and places are taken out. */
static void compare_texts(const struct kvt_rule *rule, char *a, char *b)
{
    char *x = a + rule->offset, *y = b + rule->offset;
    if (rule->where > 0) {
        memset(a + rule->where - 1, 0, sizeof(struct kvt_where));
        memset(b + rule->where - 1, 0, sizeof(struct kvt_where));
    }
    if (rule->kind == KVT_RULE_SECTION)
        for (const struct kvt_rule *child = rule->children; child->key != NULL; child++)
            compare_texts(child, x, y);
    if (rule->kind != KVT_RULE_TEXT && rule->kind != KVT_RULE_PATH)
        return;
    const char **left = (const char **)(void *)x, **right = (const char **)(void *)y;
    CHECK_NOTE((*left == NULL) == (*right == NULL), rule->key);
    if (*left != NULL && *right != NULL)
        CHECK_TEXT(*left, *right, rule->key);
    *left = *right = NULL;
}

static void compare_named(struct kvt_config_named *a, struct kvt_config_named *b)
{
    CHECK_I64(a->count, b->count, "named");
    for (int32_t i = 0; i < a->count && i < b->count; i++) {
        CHECK_TEXT(a->key[i], b->key[i], "key");
        if (a->text[i] != NULL && b->text[i] != NULL)
            CHECK_TEXT(a->text[i], b->text[i], "text");
        CHECK((a->text[i] == NULL) == (b->text[i] == NULL));
        CHECK_CLOSE(a->value[i], b->value[i], 0, "value");
    }
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
}

static void compare(struct kvt_config *a, struct kvt_config *b)
{
    compare_texts(&kvt_schema, (char *)a, (char *)b);
    compare_named(&a->cost, &b->cost);
    compare_named(&a->calibration, &b->calibration);
    for (int32_t i = 0; i < KVT_PUBLISHED_MAX; i++) {
        struct kvt_config_result *x = &a->published.rows[i], *y = &b->published.rows[i];
        CHECK((x->metric == NULL) == (y->metric == NULL) &&
              (x->role == NULL) == (y->role == NULL) && (x->note == NULL) == (y->note == NULL));
        if (x->metric != NULL && y->metric != NULL)
            CHECK_TEXT(x->metric, y->metric, "metric");
        x->metric = x->role = x->note = y->metric = y->role = y->note = NULL;
        x->where = y->where = (struct kvt_where){0};
    }
    a->path = b->path = NULL;
    a->store = b->store = NULL;
    a->where_domain = b->where_domain = (struct kvt_where){0};
    CHECK(memcmp(a, b, sizeof *a) == 0);
}

static void check_round_trip(struct kvt_config *first, const char *note)
{
    struct kvt_config second;
    struct kvt_err err = {0};
    char *text = kvt_config_print(first);
    CHECK_OK(kvt_config_parse(&second, "printed", text, strlen(text), "", NULL, 0, &err), err);
    if (err.count == 0) {
        char *again = kvt_config_print(&second);
        CHECK_TEXT(strchr(again, '\n'), strchr(text, '\n'), note);
        struct kvt_config a = *first, b = second;
        compare(&a, &b);
        free(again);
        kvt_config_release(&second);
    }
    free(text);
}

static const char *const shipped[] = {
    "configs/examples/quickstart.yaml",        "configs/examples/azure-conv.yaml",
    "configs/examples/mooncake-pd.yaml",       "configs/published/kimi-k2.6-bf16-kv.yaml",
    "configs/published/kimi-k2.6-fp8-kv.yaml", "configs/published/glm-5.2-fp8.yaml",
    "configs/published/glm-5.2-int4.yaml",     "configs/published/glm-5.2-tag-check.yaml",
};

static void the_effective_configuration_reads_back_as_the_same(void)
{
    static const char *const texts[] = {
        design_example,
        /* every section, odd numbers, texts that need quotes */
        "title: \"a: b # \\\"c\\\" \\\\ \\t\\xe9\"\nmodel: \"null\"\nengine: vllm\n"
        "fleet:\n  serve:\n    gpu: {file: \"a b.yaml\", memory: 97.3 GB}\n    weights: fp8-block\n"
        "    memory: {fraction: 0.123456789012345, reserve: 1.1 GiB, pages: 12345}\n"
        "    scheduler: {overlap: false, prefix_cache: true, free_order: fifo, chunk_tokens: 3,\n"
        "                conservativeness: 0.3, reserved_decode_tokens: 0}\n"
        "    guard: {digest: {check: sampled}, canary: {}, quarantine: }\n    router: "
        "least-tokens\n"
        "workload:\n  open: {rate: 3.7 req/min, arrivals: {weibull: {shape: 0.7}},\n"
        "         input: {lognormal: {mean: 100.5, cv: 1.7, min: 3}}, output: {empirical: {file: "
        "x.csv}},\n         requests: 17, prefixes: {groups: 2, share: 0.1, tokens: 3}}\n"
        "slo: {ttft: {p50: 1 ms, p99.9: 0.0333 s, mean: 1 us}, e2el: {p90: 1 h}}\n"
        "cost: {\"g: 1\": 0.1 USD/h, b: 2 USD/h}\ncalibration: {g: p/q.yaml, h: name}\n"
        "run: {seed: 18446744073709551615, warmup: 0.1 s, until: 33.3333333333 min, "
        "series_points: 7}\n"
        "published: [{metric: x, role: serve, concurrency: 3, below: -0.25, fitted: true, note: "
        "\"n, m\"}, {metric: y, value: 705 GiB}]\n",
        SERVE "    replicas: {range: {min: 2, max: 8, step: 3}}\n    kv: {choices: [fp8, bf16]}\n"
              "    gpu_memory_utilization: {choices: [0.7, 0.8]}\n"
              "workload: {trace: {choices: [a.csv, {file: b.csv, speed: 2}]}}\n",
        SERVE "    guard: none\nworkload: {open: {rate: 1 req/s, input: 3, output: 4, requests: 2, "
              "arrivals: constant}}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct kvt_config c = parse_good(texts[i], NULL, 0);
        check_round_trip(&c, "a text of this test");
        kvt_config_release(&c);
    }
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        struct kvt_config c;
        struct kvt_err err = {0};
        CHECK_OK(kvt_config_load(&c, shipped[i], NULL, 0, &err), err);
        if (err.count == 0)
            check_round_trip(&c, shipped[i]);
        kvt_config_release(&c);
    }
}

static void the_reference_page_is_current(void)
{
    struct kvt_text page;
    struct kvt_err err = {0};
    char *text = kvt_config_reference();
    CHECK_OK(kvt_text_read("docs/config-reference.md", 1 << 20, &page, &err), err);
    if (err.count == 0) {
        CHECK_NOTE(strcmp(text, page.bytes) == 0,
                   "build/kvtwin config reference > docs/config-reference.md");
        kvt_text_free(&page);
    }
    free(text);
}

static void every_key_can_be_set(void)
{
    char *keys = kvt_config_keys();
    int count = 0;
    for (char *key = strtok(keys, "\n"); key != NULL; key = strtok(NULL, "\n"), count++) {
        char set[256];
        const char *sets[] = {set};
        struct kvt_config c;
        struct kvt_err err = {0};
        snprintf(set, sizeof set, "%s=[[]]", key); /* no key takes this */
        CHECK_FAILS(parse(&c, design_example, sets, 1, &err), err, KVT_ECONFIG);
        CHECK_NOTE(strstr(err.text, "unknown") == NULL, key);
    }
    CHECK(count > 150);
    free(keys);
}

static void a_place_can_be_asked_for_later(void)
{
    struct kvt_config c = parse_good(design_example, NULL, 0);
    struct kvt_where where = kvt_config_where(&c, "fleet.decode.memory.fraction");
    CHECK_I64(where.line, 6, "line");
    CHECK_I64(where.column, 32, "column");
    where = kvt_config_where(&c, "fleet.decode.scheduler.chunk_tokens");
    CHECK_I64(where.line, 5, "what holds it");
    CHECK_I64(where.column, 12, "what holds it");
    CHECK_TEXT(where.file, "c.yaml", "file");
    kvt_config_release(&c);
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
        kvt_arena_fail_at(n);
        status = parse(&c, design_example, sets, 3, &err);
        kvt_arena_fail_at(0);
        if (status == KVT_ENOMEM)
            CHECK(err.count > 0 && c.store == NULL);
        kvt_config_release(&c);
    }
    CHECK_I64(status, KVT_OK, "it ends well");
    CHECK(n > 100);
}

/* clang-format off */
const struct check_test check_config[] = {
    {"the example of the design is read", the_example_of_the_design_is_read, false},
    {"a bad value is refused with its line and column",
     a_bad_value_is_refused_with_its_line_and_column, false},
    {"an unknown key is refused with a suggestion", an_unknown_key_is_refused_with_a_suggestion,
     false},
    {"bad YAML is refused with its line and column", bad_yaml_is_refused_with_its_line_and_column,
     false},
    {"keys that do not fit together are refused", keys_that_do_not_fit_together_are_refused, false},
    {"ten errors are reported at once", ten_errors_are_reported_at_once, false},
    {"what is too large is a limit", what_is_too_large_is_a_limit, false},
    {"aliases of other engines mean our keys", aliases_of_other_engines_mean_our_keys, false},
    {"line ends, anchors and merges are understood", line_ends_anchors_and_merges_are_understood,
     false},
    {"short forms mean the long ones", short_forms_mean_the_long_ones, false},
    {"sets are laid over the file in order", sets_are_laid_over_the_file_in_order, false},
    {"a bad set is refused by its own text", a_bad_set_is_refused_by_its_own_text, false},
    {"a domain keeps its choices and the field takes the first",
     a_domain_keeps_its_choices_and_the_field_takes_the_first, false},
    {"every choice is judged like the value itself", every_choice_is_judged_like_the_value_itself,
     false},
    {"the effective configuration reads back as the same",
     the_effective_configuration_reads_back_as_the_same, false},
    {"the reference page is current", the_reference_page_is_current, false},
    {"every key can be set", every_key_can_be_set, false},
    {"a place can be asked for later", a_place_can_be_asked_for_later, false},
    {"files that cannot be read are input errors", files_that_cannot_be_read_are_input_errors,
     false},
    {"a load that runs out of memory says so", a_load_that_runs_out_of_memory_says_so, false},
    {NULL, NULL, false},
};
/* clang-format on */
