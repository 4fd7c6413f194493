/* What one run prints, as a table, JSON, CSV and in other tools' formats, when it has more or less
 * than most runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/decision.h"
#include "sim/output/exchange.h"
#include "tests/check.h"
#include "tests/scarce.h"
#include "tests/small_run.h"

enum form { TEXT, JSON, CSV, VLLM, SGLANG, LLMD };

static struct small_run run;

static enum kvt_status print(enum form form, FILE *file, struct kvt_err *err)
{
    switch (form) {
    case TEXT:
        return kvt_summary_text(&run.summary, file, err);
    case JSON:
        return kvt_summary_json(&run.summary, file, err);
    case CSV:
        return kvt_summary_csv(&run.summary, file, err);
    case VLLM:
        return kvt_exchange_write(KVT_EXCHANGE_VLLM, &run.summary, file, err);
    case SGLANG:
        return kvt_exchange_write(KVT_EXCHANGE_SGLANG, &run.summary, file, err);
    case LLMD:
        break;
    }
    return kvt_exchange_write(KVT_EXCHANGE_LLMD, &run.summary, file, err);
}

/* ---- what a test changes in the run by hand ---- */

static void as_it_is(struct kvt_result *r)
{
    (void)r;
}

static void with_tenants(struct kvt_result *r)
{
    static const int16_t tenant[SMALL_RUN_ROWS] = {0, 1, 1, 0, 2, 2, 2, 2};
    r->tenants = 3;
    r->tenant = tenant;
}

static void with_odd_texts(struct kvt_result *r)
{
    r->title = "caf\xe9\x1b[2J\x7f of \"one\"";
    r->model = r->fleet = r->config = NULL;
}

static void without_series(struct kvt_result *r)
{
    run.replicas[1].series = NULL;
    run.replicas[1].is_down = true;
    r->end = 0;
}

static void with_many_replicas(struct kvt_result *r)
{
    static struct kvt_result_replica replicas[40];
    for (int i = 0; i < 40; i++)
        replicas[i] = run.replicas[0];
    r->replicas = replicas;
    r->replica_count = 40;
}

static void cut_short(struct kvt_result *r)
{
    r->interrupted = true;
    r->timing = (struct kvt_timing){true, 2, 0.25, 0.5, 0.5, 0.125};
    r->events = 0;
}

static void before_the_first_event(struct kvt_result *r)
{
    r->timing = (struct kvt_timing){true, 2, -1, -1, -1, -1};
}

static void of_a_closed_loop(struct kvt_result *r)
{
    r->concurrency = 4;
}

static void where_nothing_arrived(struct kvt_result *r)
{
    r->rows = 0;
    r->itl = NULL;
}

static void of_one_request(struct kvt_result *r)
{
    r->rows = 2;
    r->itl = NULL;
}

static void with_a_crash(struct kvt_result *r)
{
    static const struct kvt_result_strike strike = {.fault = "node-fault", .variant = "crash"};
    r->strikes = &strike;
    r->strike_count = 1;
    run.replicas[0].restarts = 2;
    run.replicas[1].is_down = true;
}

static void begin(void (*change)(struct kvt_result *))
{
    static const struct kvt_result_role roles[] = {
        {.name = "serve", .gpu = "h100-sxm", .replicas = 2, .gpus_per_replica = 1, .tp = 1},
        {.name = "decode", .gpu = "h100-sxm", .replicas = 1, .gpus_per_replica = 1, .tp = 1}};
    small_run_begin(&run);
    run.result.roles = roles;
    run.result.role_count = 2;
    change(&run.result);
    small_run_summarise(&run);
}

static void each_run_says_what_it_has_and_leaves_out_what_it_lacks(void)
{
    static const struct {
        void (*change)(struct kvt_result *);
        enum form form;
        const char *want, *never;
    } rows[] = {
        {with_tenants, JSON,
         "{\n      \"arrived\": 2,\n      \"running\": 0,\n      \"completed\": 2,", NULL},
        {as_it_is, JSON, "\"model\"", "\"tenants\""},
        {with_odd_texts, JSON, "\"title\": \"caf?\\u001B[2J\x7f of \\\"one\\\"\"", "\"model\""},
        {with_odd_texts, TEXT, "caf\xe9 [2J  of \"one\"\n====", "serve: 2 x 1"},
        {with_odd_texts, VLLM,
         "\"label\": \"caf?\\u001B[2J\x7f of \\\"one\\\"\", \"model_id\": \"\"", NULL},
        {with_odd_texts, LLMD, "\"name\": \"unknown\"", "tiny"},
        {with_odd_texts, LLMD, "\"config\": \"\"", NULL},
        {as_it_is, LLMD, "\"role\": \"replica\"", "component_health"},
        {as_it_is, LLMD, "\"role\": \"decode\"", "description"},
        {without_series, JSON,
         "\"name\": \"serve-1\",\n      \"busy_fraction\": 0.0,\n      \"pages\": 100", NULL},
        {without_series, TEXT, "serve-1             0.00      0.00      0.00     0.0000     0.7500",
         NULL},
        {without_series, LLMD, "\"replica_id\": \"serve-0\"", "\"replica_id\": \"serve-1\""},
        {without_series, LLMD, "kv_cache_usage", "gpu_utilization"},
        {with_many_replicas, TEXT, "and 24 more: --format json lists all", NULL},
        {cut_short, TEXT, "Interrupted: what follows covers the part that ran", "per event"},
        {cut_short, JSON, "\"events\": 0", "ns_per_event"},
        {before_the_first_event, CSV, ",wall_s,events\n", "engine_s"},
        {of_a_closed_loop, VLLM, "\"request_rate\": \"inf\", \"max_concurrency\": 4,", NULL},
        {of_a_closed_loop, LLMD, "\"concurrency\": 4", "rate_qps"},
        {as_it_is, VLLM, "\"output_lens\": [5, 1, 0, 0, 4, 0]", "itls"},
        {as_it_is, VLLM, "\"errors\": [\"\", \"\", \"rejected\", \"running\", \"\", \"aborted\"]",
         "pending"},
        {as_it_is, SGLANG, "\"start_times\": [0.010000000, 0.020000000, 0.030000000,", "model_id"},
        {as_it_is, LLMD, "\"rate_qps\"", "\"fixed\""},
        {where_nothing_arrived, VLLM, "\"request_rate\": \"inf\"", "NaN"},
        {where_nothing_arrived, SGLANG, "\"request_rate\": Infinity, \"max_concurrency\": null",
         "NaN"},
        {where_nothing_arrived, CSV, ",,,,", "nan"},
        {where_nothing_arrived, JSON, "\"value_ms\": null", "nan"},
        {where_nothing_arrived, LLMD, "\"total\": 0", "input_length"},
        {where_nothing_arrived, LLMD, "\"latency\": {}", "input_token_rate"},
        {of_one_request, LLMD, "\"distribution\": \"fixed\"", "other"},
        {of_one_request, VLLM, "\"std_ttft_ms\": 0, ", NULL},
        {with_a_crash, LLMD, "\"total_restarts\": 2", NULL},
        {with_a_crash, LLMD,
         "\"replica_id\": \"serve-1\",\n            \"restarts\": 0,\n"
         "            \"healthy\": false",
         NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static char text[32768];
        char note[200];
        struct kvt_err err = {0};
        begin(rows[i].change);
        FILE *file = tmpfile();
        CHECK_OK(print(rows[i].form, file, &err), err);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        snprintf(note, sizeof note, "row %zu", i);
        CHECK_HOLDS(text, rows[i].want, note);
        CHECK_NOTE(rows[i].never == NULL || strstr(text, rows[i].never) == NULL, note);
        small_run_end(&run);
    }
}

static enum kvt_status print_it(const void *context, uint64_t *digest, struct kvt_err *err)
{
    char *text = NULL;
    size_t count = 0;
    FILE *file = open_memstream(&text, &count);
    if (file == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a file");
    enum kvt_status status = print(*(const enum form *)context, file, err);
    fclose(file);
    for (size_t i = 0; status == KVT_OK && i < count; i++)
        *digest = kvt_digest_add(*digest, (unsigned char)text[i]);
    free(text);
    return status;
}

static void everything(struct kvt_result *r)
{
    with_tenants(r);
    with_odd_texts(r);
    with_a_crash(r);
    cut_short(r);
}

static void without_memory_it_is_told(void)
{
    static const enum form forms[] = {JSON, VLLM, SGLANG, LLMD};
    begin(everything);
    run.summary.metrics[0].has_interval = true;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        scarce_each(print_it, &forms[i], i == 3 ? 5 : 1, kvt_exchange_names[i > 0 ? i - 1 : 0]);
    small_run_end(&run);
}

const struct check_test check_printing[] = {
    {"each run says what it has and leaves out what it lacks",
     each_run_says_what_it_has_and_leaves_out_what_it_lacks, false},
    {"without memory it is told", without_memory_it_is_told, false},
    {NULL, NULL, false},
};
