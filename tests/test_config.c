#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/config/config.h"
#include "sim/config/schema.h"
#include "tests/check.h"

#define SETS_MAX 8

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

const struct check_test check_config[] = {
    {"the example of the design is read", the_example_of_the_design_is_read, false},
    {NULL, NULL, false},
};
