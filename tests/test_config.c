/* What a configuration means: forms, --set, domains, and the way back to text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/config/schema.h"
#include "tests/check.h"
#include "tests/config_texts.h"

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
        SERVE "    tensor-parallel-size: 8\n    pp_size: 2\n    dp_size: 4\n    ep_size: 2\n"
              "    decode_context_parallel_size: 2\n    block_size: 32\n"
              "    gpu_memory_utilization: 0.9\n    kv_cache_dtype: fp8_e4m3\n"
              "    max_num_seqs: 17\n    max_num_batched_tokens: 8191\n"
              "    enable_prefix_caching: false\n    max_model_len: 4097\n"
              "    num_gpu_blocks_override: 1013\n    chunked_prefill_size: 2049\n"
              "    num_speculative_tokens: 3\n",
        NULL, 0);
    const struct kvt_config_role *r = &c.roles[KVT_ROLE_SERVE];
    CHECK_I64(r->parallel.tp, 8, "tensor-parallel-size");
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
    struct kvt_config c = parse_good("model: m\r\nfleet:\r\n"
                                     "  prefill: &role\r\n    gpu: {name: g, memory: 96 GiB}\r\n"
                                     "    parallel: &p {tp: 8}\r\n"
                                     "  decode:\r\n    <<: *role\r\n    kv: fp8\r\n"
                                     "  link:\r\n",
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

static void a_merge_adds_only_the_keys_that_are_not_there(void)
{
    struct kvt_config c = parse_good("model: m\nfleet:\n"
                                     "  prefill: &a {gpu: g, kv: fp8, page_tokens: 16}\n"
                                     "  decode:\n"
                                     "    page_tokens: 32\n"
                                     "    <<: [{gpu: h, weights: fp8}, *a]\n",
                                     NULL, 0);
    const struct kvt_config_role *decode = &c.roles[KVT_ROLE_DECODE];
    CHECK_TEXT(decode->gpu.name, "h", "the first of several wins");
    CHECK_I64(decode->weights, KVT_WEIGHTS_FP8, "from the first");
    CHECK_I64(decode->kv, KVT_KV_FP8, "from the second");
    CHECK_I64(decode->page_tokens, 32, "its own, though it stands before");
    kvt_config_release(&c);
    static const char *const sets[] = {"fleet.prefill.kv=bf16"};
    c = parse_good("model: m\nfleet: {prefill: &a {gpu: g, kv: fp8}, decode: *a}\n", sets, 1);
    CHECK_I64(c.roles[KVT_ROLE_PREFILL].kv, KVT_KV_BF16, "set");
    CHECK_I64(c.roles[KVT_ROLE_DECODE].kv, KVT_KV_FP8, "an alias is a copy");
    kvt_config_release(&c);
}

static void a_set_replaces_what_an_alias_in_the_file_gave(void)
{
    static const char *const sets[] = {"fleet.serve.page_tokens=32", "fleet.serve.tp_size=4"};
    struct kvt_config c = parse_good(SERVE "    block_size: 16\n    parallel: {tp: 8}\n", sets, 2);
    CHECK_I64(c.roles[KVT_ROLE_SERVE].page_tokens, 32, "key over alias");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].parallel.tp, 4, "alias over key");
    kvt_config_release(&c);
}

static void an_empty_file_may_be_filled_by_sets(void)
{
    static const char *const sets[] = {"model=m", "fleet.serve.gpu=g",
                                       "fleet.serve.guard=fifo+zero-on-free",
                                       "fleet.serve.guard.canary.check=sampled"};
    struct kvt_config c = parse_good("", sets, 4);
    const struct kvt_config_guard *guard = &c.roles[KVT_ROLE_SERVE].guard;
    CHECK_TEXT(c.model.name, "m", "model");
    CHECK(guard->on[KVT_GUARD_FIFO] && guard->on[KVT_GUARD_ZERO_ON_FREE] &&
          guard->on[KVT_GUARD_CANARY]);
    CHECK_I64(guard->check, KVT_CHECK_SAMPLED, "check");
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
    CHECK_I64(c.workload.arrivals.kind, KVT_GAPS_ON_OFF, "on_off");
    CHECK_CLOSE(c.workload.arrivals.off, 20, 0, "off");
    CHECK_I64(c.workload.input.kind, KVT_LENGTHS_LOGNORMAL, "lognormal");
    CHECK_CLOSE(c.workload.input.p99, 4142, 0, "p99");
    CHECK_CLOSE(c.workload.input.max, 14050, 0, "clipped");
    CHECK(c.workload.input.min < 0 && c.workload.input.cv < 0);
    CHECK_I64(c.workload.output.kind, KVT_LENGTHS_FIXED, "fixed");
    CHECK_CLOSE(c.workload.output.mean, 211, 0, "fixed");
    CHECK_I64(c.workload.prefixes.groups, 7, "groups");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].guard.tag_bind,
              KVT_BIND_OWNER | KVT_BIND_POSITION | KVT_BIND_GENERATION, "bind by default");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].guard.tag_bits, 64, "bits by default");
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
    static const char *const many[] = {
        "fleet.serve.parallel={tp: {choices: [1]}, pp: {choices: [1]}, ep: {choices: [1]}}",
        "fleet.serve.scheduler={chunk_tokens: {choices: [1]}, max_running: {choices: [2, null]}}",
    };
    struct kvt_err err = {0};
    CHECK_FAILS(parse(&c, SERVE, many, 2, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "fleet.serve.scheduler.max_running: want a whole number", "null");
    c = parse_good(SERVE
                   "    parallel: {tp: {choices: [1, 2]}, pp: {choices: [1, 3]}, ep: {choices: "
                   "[1]},\n      dp: {choices: [1]}, dcp: {choices: [1]}}\n"
                   "    kv: {choices: [bf16]}\n    router: {choices: [round-robin]}\n"
                   "    memory: {choices: [{fraction: 0.5}]}\n    replicas: {choices: [3, 4]}\n"
                   "    draft_tokens: {choices: [0, 1]}\n",
                   NULL, 0);
    CHECK_I64(c.domains, 10, "any number of them");
    CHECK_TEXT(kvt_config_domain(&c, 0)->path, "fleet.serve.parallel.tp", "the first stays");
    CHECK_TEXT(kvt_config_domain(&c, 9)->texts[1], "1", "the last");
    kvt_config_release(&c);
    /* What a domain says is what a --set of that choice means. */
    c = parse_good(
        "model: m\nfleet: {serve: {gpu: g}}\nworkload: {trace: {choices: [a.csv, b.csv]}}\n", NULL,
        0);
    CHECK_TEXT(kvt_config_domain(&c, 0)->texts[1], "dir/b.csv", "a path is resolved");
    CHECK_TEXT(c.workload.trace, "dir/a.csv", "and so is the first");
    kvt_config_release(&c);
    static const char *const sets[] = {"workload.trace={choices: [{file: x.csv, speed: 2}]}",
                                       "fleet.serve={choices: [{gpu: g, tp_size: 2}, {gpu: h}]}",
                                       "run.series_points={range: {min: 2, max: 10001, step: 1}}"};
    c = parse_good(SERVE "calibration: {choices: [{g: a}, {g: p/b, h: c}]}\n", sets, 3);
    CHECK_TEXT(kvt_config_domain(&c, 0)->path, "fleet.serve", "a whole role");
    CHECK_TEXT(kvt_config_domain(&c, 0)->texts[0], "{gpu: g, parallel: {tp: 2}}",
               "without aliases");
    CHECK_I64(c.roles[KVT_ROLE_SERVE].parallel.tp, 2, "its first choice");
    CHECK_TEXT(kvt_config_domain(&c, 1)->texts[1], "{g: dir/p/b, h: c}", "calibrations");
    CHECK_TEXT(kvt_config_domain(&c, 2)->texts[0], "{file: x.csv, speed: 2}",
               "a path on the command line is meant from here");
    CHECK_I64(kvt_config_domain(&c, 3)->count, 10000, "as many as are allowed");
    kvt_config_release(&c);
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
        "                conservativeness: 0.30000000000000004, reserved_decode_tokens: 0,\n"
        "                host_floor: 1.7 ms}\n"
        "    guard: {digest: {check: sampled}, canary: {}, quarantine: }\n    router: "
        "least-tokens\n"
        "workload:\n  open: {rate: 3.7 req/min, arrivals: {weibull: {shape: 0.7}},\n"
        "         input: {lognormal: {mean: 100.5, cv: 1.7, min: 3}}, output: {empirical: {file: "
        "x.csv}},\n         requests: 17, prefixes: {groups: 2, share: 0.1, tokens: 3}}\n"
        "slo: {ttft: {p50: 1 ms, p99.9: 0.0333 s, mean: 1 us}, e2el: {p90: 1 h}}\n"
        "cost: {\"g: 1\": 0.1 USD/h, b: 2 USD/h}\ncalibration: {g: p/q.yaml, h: name}\n"
        "run: {seed: 18446744073709551615, warmup: 0.1 s, until: 33.3333333333 min, "
        "series_points: 8}\n"
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
        if (c.workload.trace != NULL)
            CHECK_NOTE(access(c.workload.trace, R_OK) == 0, c.workload.trace);
        kvt_config_release(&c);
    }
}

static const char all_printed[] = "# every key; those in comments are left to what they say\n"
                                  "model: m\n"
                                  "engine: sglang\n"
                                  "fleet:\n"
                                  "  serve:\n"
                                  "    replicas: 1\n"
                                  "    gpu:\n"
                                  "      name: g\n"
                                  "      memory: 96 GB\n"
                                  "    parallel:\n"
                                  "      tp: 1\n"
                                  "      pp: 1\n"
                                  "      dp: 1\n"
                                  "      ep: 1\n"
                                  "      dcp: 1\n"
                                  "      moe_a2a: none\n"
                                  "    # weights: the checkpoint's own\n"
                                  "    kv: bf16\n"
                                  "    # page_tokens: the engine's default for the model\n"
                                  "    draft_tokens: 0\n"
                                  "    memory:\n"
                                  "      # fraction: the engine's default\n"
                                  "      reserve: 0 B\n"
                                  "      # pages: as many as fit\n"
                                  "    scheduler:\n"
                                  "      # chunk_tokens: the engine's default\n"
                                  "      # batch_tokens: the engine's default\n"
                                  "      # max_running: the engine's default\n"
                                  "      # max_model_len: the model's\n"
                                  "      # overlap: the engine's default\n"
                                  "      # prefix_cache: the engine's default\n"
                                  "      free_order: lifo\n"
                                  "      conservativeness: 1\n"
                                  "      reserved_decode_tokens: 512\n"
                                  "      # host_floor: the calibration's\n"
                                  "    guard: fifo+zero-on-free\n"
                                  "    router: round-robin\n"
                                  "workload:\n"
                                  "  open:\n"
                                  "    rate: 1 req/s\n"
                                  "    arrivals: poisson\n"
                                  "    input: 3\n"
                                  "    output:\n"
                                  "      lognormal:\n"
                                  "        mean: 4.5\n"
                                  "        cv: 0.1\n"
                                  "    prefixes:\n"
                                  "      groups: 0\n"
                                  "      share: 0\n"
                                  "      tokens: 0\n"
                                  "    requests: 2\n"
                                  "# calibration: the one that fits GPU and engine\n"
                                  "residual:\n"
                                  "  layer: 0 s\n"
                                  "  prefill_layer: 0 s\n"
                                  "  request: 0 s\n"
                                  "run:\n"
                                  "  seed: 1\n"
                                  "  warmup: 0 s\n"
                                  "  # until: the end of the trace or the number of requests\n"
                                  "  series_points: 512\n"
                                  "plan:\n"
                                  "  objective: usd-per-h\n"
                                  "  confidence: 0.9\n"
                                  "  resamples: 20\n"
                                  "  rejected: 0\n"
                                  "  lose: 0\n"
                                  "  front: true\n";

static void what_is_printed_is_short_and_says_what_is_left_out(void)
{
    struct kvt_config c = parse_good(
        "model: m\nfleet: {serve: {gpu: {name: g, memory: 96 GB}, guard: zero-on-free+fifo}}\n"
        "workload: {open: {rate: 1 req/s, input: 3, output: {lognormal: {mean: 4.5, cv: 0.1}}, "
        "requests: 2}}\n",
        NULL, 0);
    char *text = kvt_config_print(&c);
    CHECK_TEXT(text, all_printed, "printed");
    free(text);
    kvt_config_release(&c);
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

/* clang-format off */
const struct check_test check_config[] = {
    {"the example of the design is read", the_example_of_the_design_is_read, false},
    {"aliases of other engines mean our keys", aliases_of_other_engines_mean_our_keys, false},
    {"line ends, anchors and merges are understood", line_ends_anchors_and_merges_are_understood,
     false},
    {"a merge adds only the keys that are not there",
     a_merge_adds_only_the_keys_that_are_not_there, false},
    {"a set replaces what an alias in the file gave",
     a_set_replaces_what_an_alias_in_the_file_gave, false},
    {"an empty file may be filled by sets", an_empty_file_may_be_filled_by_sets, false},
    {"short forms mean the long ones", short_forms_mean_the_long_ones, false},
    {"sets are laid over the file in order", sets_are_laid_over_the_file_in_order, false},
    {"a domain keeps its choices and the field takes the first",
     a_domain_keeps_its_choices_and_the_field_takes_the_first, false},
    {"the effective configuration reads back as the same",
     the_effective_configuration_reads_back_as_the_same, false},
    {"what is printed is short and says what is left out",
     what_is_printed_is_short_and_says_what_is_left_out, false},
    {"the reference page is current", the_reference_page_is_current, false},
    {"every key can be set", every_key_can_be_set, false},
    {"a place can be asked for later", a_place_can_be_asked_for_later, false},
    {NULL, NULL, false},
};
/* clang-format on */
