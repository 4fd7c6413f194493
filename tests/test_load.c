#include <stdio.h>
#include <string.h>

#include "sim/plan/load.h"
#include "sim/trace/stats.h"
#include "tests/check.h"

/* A config with this workload, in a file t in folder traces/. */
static enum kvt_status config_of(struct kvt_config *config, const char *workload,
                                 struct kvt_err *err)
{
    char text[1024];
    snprintf(text, sizeof text,
             "model: kimi-k2.6\nengine: sglang\n"
             "fleet: {serve: {replicas: 1, gpu: h200-sxm, parallel: {tp: 8}}}\n%s\n",
             workload);
    *err = (struct kvt_err){0};
    return kvt_config_parse(config, "t", text, strlen(text), "traces", NULL, 0, err);
}

static void loads_become_the_traces_they_describe(void)
{
    static const struct {
        const char *workload;
        int32_t count, tenants;
        double rate, input, output, rel; /* means; rate 0: all at once */
    } rows[] = {
        {"workload: {trace: quickstart.csv}", 600, 1, 1.47686, 1151.485, 211.025, 1e-5},
        {"workload: {trace: {file: quickstart.csv, speed: 2}}", 600, 1, 2.95372, 1151.485, 211.025,
         1e-5},
        {"workload: {open: {rate: 8 req/s, arrivals: constant, input: 500, output: 7, "
         "requests: 17}}",
         17, 1, 8.5, 500, 7, 1e-9},
        {"workload: {open: {rate: 8 req/s, arrivals: constant, input: 500, output: 7}}\n"
         "run: {until: 2 s}",
         16, 1, 8.5333, 500, 7, 1e-4},
        {"workload: {open: {rate: 10 req/s, arrivals: {gamma: {cv: 2}}, requests: 40000, input: "
         "{lognormal: {mean: 1155, p99: 4142}}, output: {uniform: {min: 3, max: 9}}}}",
         40000, 1, 10, 1155, 6, 0.04},
        {"workload: {open: {rate: 10 req/s, arrivals: {on_off: {on: 1 s, off: 2 s}}, requests: "
         "40000, input: {empirical: {file: quickstart.csv}}, output: {empirical: {file: "
         "quickstart.csv}}}}",
         40000, 1, 10, 1151.485, 211.025, 0.04},
        {"workload: {closed: {concurrency: 4, input: 10000, output: 1000, requests: 9}}", 9, 1, 0,
         10000, 1000, 1e-9},
        {"workload: {closed: {concurrency: 4, input: 10000, prefill_only: true, requests: 9}}", 9,
         1, 0, 10000, 1, 1e-9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config config;
        struct kvt_trace trace = {0};
        struct kvt_trace_stats stats = {0};
        struct kvt_err err;
        CHECK_OK(config_of(&config, rows[i].workload, &err), err);
        if (err.count > 0)
            continue;
        CHECK_OK(kvt_load_trace(&trace, &config, &err), err);
        if (trace.count > 0)
            CHECK_OK(kvt_trace_measure(&trace, &stats, &err), err);
        CHECK_I64(trace.count, rows[i].count, rows[i].workload);
        CHECK_CLOSE(stats.rate, rows[i].rate, rows[i].rel, rows[i].workload);
        CHECK_CLOSE(stats.input.mean, rows[i].input, rows[i].rel, rows[i].workload);
        CHECK_CLOSE(stats.output.mean, rows[i].output, rows[i].rel, rows[i].workload);
        kvt_trace_release(&trace);
        kvt_config_release(&config);
    }
}

static void the_seed_of_the_run_is_that_of_the_load(void)
{
    struct kvt_trace traces[3];
    for (int i = 0; i < 3; i++) {
        static const int seeds[] = {1, 1, 2};
        char workload[512];
        struct kvt_config config;
        struct kvt_err err;
        snprintf(workload, sizeof workload,
                 "workload: {open: {rate: 8 req/s, input: 500, output: "
                 "{uniform: {min: 1, max: 1000}}, requests: 50, prefixes: {groups: 3, share: 0.5, "
                 "tokens: 256}}}\nrun: {seed: %d}",
                 seeds[i]);
        CHECK_OK(config_of(&config, workload, &err), err);
        CHECK_OK(kvt_load_trace(&traces[i], &config, &err), err);
        kvt_config_release(&config);
    }
    CHECK_I64(traces[0].block_tokens, KVT_LOAD_BLOCK_TOKENS, "hashes come with prefixes");
    CHECK_I64(kvt_trace_hash_count(&traces[0], 0), 8, "ceil(500 / 64)");
    size_t bytes = 50 * sizeof *traces[0].output;
    CHECK(memcmp(traces[0].output, traces[1].output, bytes) == 0);
    CHECK(memcmp(traces[0].output, traces[2].output, bytes) != 0);
    CHECK(memcmp(traces[0].arrival, traces[2].arrival, 50 * sizeof *traces[0].arrival) != 0);
    for (int i = 0; i < 3; i++)
        kvt_trace_release(&traces[i]);
}

static void loads_that_cannot_be_met_point_at_the_config(void)
{
    static const struct {
        const char *workload, *want;
        enum kvt_status status;
    } rows[] = {
        {"workload: {closed: {concurrency: 8, input: 5, output: 7}}\nrun: {until: 1 s}",
         "want workload.closed.requests, got none", KVT_ECONFIG},
        {"workload: {open: {rate: 8 req/s, input: 99000000, output: 7, requests: 9}}",
         "input: want a mean of 1 to 67108864 tokens, got 9.9e+07", KVT_ECONFIG},
        {"workload: {trace: none.csv}", "none.csv: cannot open", KVT_EIO},
        {"workload: {open: {rate: 8 req/s, input: {empirical: {file: none.csv}}, output: 7, "
         "requests: 9}}",
         "none.csv: cannot open", KVT_EIO},
        {"workload: {trace: {file: quickstart.csv, speed: 0.0000001}}",
         "quickstart.csv: want a trace of at most 100 days", KVT_ECONFIG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config config;
        struct kvt_trace trace;
        struct kvt_err err;
        CHECK_OK(config_of(&config, rows[i].workload, &err), err);
        if (err.count > 0)
            continue;
        CHECK_FAILS(kvt_load_trace(&trace, &config, &err), err, rows[i].status);
        CHECK_HOLDS(err.text, rows[i].want, rows[i].workload);
        if (rows[i].want[0] == 'w' || rows[i].want[0] == 'i')
            CHECK_HOLDS(err.text, "t:4:", "the line of the workload");
        CHECK(trace.arrival == NULL);
        kvt_config_release(&config);
    }
}

const struct check_test check_load[] = {
    {"a workload becomes the trace it describes", loads_become_the_traces_they_describe, false},
    {"the seed of the run is that of the load", the_seed_of_the_run_is_that_of_the_load, false},
    {"a load that cannot be met points at the config", loads_that_cannot_be_met_point_at_the_config,
     false},
    {NULL, NULL, false},
};
