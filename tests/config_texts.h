/*
 * config_texts.h - the texts that both suites of the configuration use
 */
#ifndef KVT_TESTS_CONFIG_TEXTS_H
#define KVT_TESTS_CONFIG_TEXTS_H

#include <string.h>

#include "sim/config/config.h"

/* The smallest configuration; lines 1 to 4. What follows may go on inside of the role. */
#define SERVE "model: m\nfleet:\n  serve:\n    gpu: g\n"

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

/* Parse text as dir/c.yaml would be. */
static inline enum kvt_status parse(struct kvt_config *config, const char *text,
                                    const char *const sets[], int32_t set_count,
                                    struct kvt_err *err)
{
    return kvt_config_parse(config, "c.yaml", text, strlen(text), "dir", sets, set_count, err);
}

#endif
