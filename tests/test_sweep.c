/* Sweeps: the order of points, any number of threads, points that cannot be run, going on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/plan/sweep.h"
#include "tests/check.h"

#define CONFIG check_temp("sweep.yaml")

static struct kvt_err err;

/* 2 x 3 x 2 points; of tp 2 with dp 3 nothing can be made. */
static const char small[] =
    "model: qwen3-0.6b\n"
    "engine: vllm\n"
    "fleet:\n"
    "  serve:\n"
    "    gpu: h100-sxm\n"
    "    parallel: {tp: 2, dp: {choices: [1, 3]}}\n"
    "    scheduler: {batch_tokens: {range: {min: 512, max: 1536, step: 512}}}\n"
    "workload:\n"
    "  closed: {concurrency: [2, 8], input: 300, output: 20, requests: 24}\n"
    "slo: {ttft: {p90: 1 s}}\n";

struct world {
    char path[300], output[300];
    struct kvt_config config;
    struct kvt_points points;
    struct kvt_sweep sweep;
};

static struct world w;

static bool world_begin(const char *text, const char *const sets[], int32_t set_count)
{
    snprintf(w.path, sizeof w.path, "%s", CONFIG);
    snprintf(w.output, sizeof w.output, "%s", check_temp("sweep.h5"));
    CHECK_OK(kvt_file_write(w.path, text, strlen(text), &err), err);
    enum kvt_status status = kvt_config_load(&w.config, w.path, sets, set_count, &err);
    CHECK_OK(status, err);
    if (status == KVT_OK)
        status = kvt_points_init(&w.points, &w.config, w.path, sets, set_count, &err);
    CHECK_OK(status, err);
    return status == KVT_OK;
}

static void world_end(void)
{
    kvt_points_release(&w.points);
    kvt_config_release(&w.config);
    remove(w.path);
}

static enum kvt_status sweep(struct kvt_sweep_options how, struct kvt_err *why)
{
    struct kvt_ranks alone = {.count = 1};
    return kvt_sweep_run(&w.sweep, &w.points, &alone, &how, why);
}

static double value(const char *name, int64_t point)
{
    int32_t column = kvt_point_column(&w.sweep.columns, name);
    CHECK_NOTE(column >= 0, name);
    return column < 0 ? 0 : kvt_sweep_value(&w.sweep, column, point);
}

static void the_last_domain_runs_fastest(void)
{
    struct kvt_config chosen;
    if (!world_begin(small, NULL, 0))
        return;
    CHECK_I64(w.points.count, 12, "points");
    CHECK_TEXT(kvt_points_text(&w.points, 0, 2), "2", "the first concurrency");
    CHECK_TEXT(kvt_points_text(&w.points, 1, 2), "8", "the second point");
    CHECK_TEXT(kvt_points_text(&w.points, 2, 1), "1024", "then the batch");
    CHECK_TEXT(kvt_points_text(&w.points, 6, 0), "3", "then dp");
    CHECK_OK(kvt_points_choose(&w.points, 5, NULL, 0, &chosen, &err), err);
    CHECK_I64(chosen.domains, 0, "all are chosen");
    CHECK_I64(chosen.roles[KVT_ROLE_SERVE].scheduler.batch_tokens, 1536, "batch");
    CHECK_I64(chosen.workload.concurrency, 8, "concurrency");
    kvt_config_release(&chosen);
    struct kvt_err why = {0};
    CHECK_FAILS(kvt_points_choose(&w.points, 6, NULL, 0, &chosen, &why), why, KVT_ECONFIG);
    CHECK_HOLDS(why.text, "want a divisor of tp (2), got 3", "what contradicts");
    world_end();
}

static void too_many_points_are_refused_with_their_number(void)
{
    static const char *const sets[] = {
        "fleet.serve.replicas={range: {min: 1, max: 10000, step: 1}}",
        "run.warmup={range: {min: 1 s, max: 10000 s, step: 1 s}}",
        "workload.closed.requests={range: {min: 1, max: 10000, step: 1}}",
    };
    struct kvt_err why = {0};
    CHECK_OK(kvt_file_write(CONFIG, small, strlen(small), &err), err);
    CHECK_OK(kvt_config_load(&w.config, CONFIG, sets, 3, &err), err);
    CHECK_FAILS(kvt_points_init(&w.points, &w.config, CONFIG, sets, 3, &why), why, KVT_ELIMIT);
    CHECK_HOLDS(why.text, "want at most 1000000 points, got 1.2e+13", "their number");
    world_end();
}

static void a_point_that_cannot_be_run_stops_no_other(void)
{
    if (!world_begin(small, NULL, 0))
        return;
    CHECK_OK(sweep((struct kvt_sweep_options){.threads = 2}, &err), err);
    CHECK_I64(w.sweep.done_count, 12, "all are done");
    CHECK_I64(w.sweep.failed, 6, "half of them could not be run");
    for (int64_t i = 0; i < 12; i++) {
        bool fails = i >= 6;
        CHECK_I64(w.sweep.status[i], fails ? KVT_ECONFIG : KVT_OK, "status");
        CHECK(isnan(value("completed", i)) == fails);
        if (fails)
            CHECK_HOLDS(w.sweep.message[i], "want a divisor of tp (2), got 3", "why");
        else
            CHECK_CLOSE(value("completed", i), 24, 0, "requests");
    }
    CHECK(value("output_throughput", 1) > value("output_throughput", 0));
    CHECK(value("serve_busy_fraction", 1) > 0.5 && value("serve_busy_fraction", 1) <= 1);
    kvt_sweep_release(&w.sweep);
    world_end();
}

static void points_are_what_simulate_makes_of_them(void)
{
    static const char *const sets[] = {"fleet.serve.parallel.dp=1",
                                       "fleet.serve.scheduler.batch_tokens=1024",
                                       "workload.closed.concurrency=8"};
    static struct kvt_config config;
    static struct kvt_evaluation run;
    if (!world_begin(small, NULL, 0))
        return;
    CHECK_OK(sweep((struct kvt_sweep_options){.threads = 1}, &err), err);
    CHECK_OK(kvt_config_load(&config, w.path, sets, 3, &err), err);
    CHECK_OK(kvt_evaluate(&run, &config, NULL, NULL, &err), err);
    CHECK_I64((int64_t)w.sweep.digest[3], (int64_t)run.result.digest, "digest");
    CHECK_CLOSE(value("p99_itl_ms", 3), kvt_evaluation_metric(&run, "p99_itl_ms"), 0, "ITL");
    CHECK_CLOSE(value("slo_met", 3), 1, 0, "the SLO");
    kvt_evaluation_release(&run);
    kvt_config_release(&config);
    kvt_sweep_release(&w.sweep);
    world_end();
}

static void strikes_of_the_plan_fall_in_each_point(void)
{
    static const char *const sets[] = {
        "fleet.serve.parallel.dp=1", "fleet.serve.scheduler.batch_tokens=1024",
        "workload.closed.concurrency=8",
        "faults={plan: [{fault: node-fault, variant: crash, at: 5 ms, replica: 0, delay: 1 s}]}"};
    const struct kvt_simulate_options planned = {.planned = true};
    static struct kvt_evaluation whole, struck;
    if (!world_begin(small, sets, 4))
        return;
    CHECK_OK(sweep((struct kvt_sweep_options){.threads = 1}, &err), err);
    CHECK_OK(kvt_evaluate(&whole, &w.config, NULL, NULL, &err), err);
    CHECK_OK(kvt_evaluate(&struck, &w.config, &planned, NULL, &err), err);
    CHECK_I64((int64_t)w.sweep.digest[0], (int64_t)struck.result.digest, "as simulate strikes it");
    CHECK(w.sweep.digest[0] != whole.result.digest);
    kvt_evaluation_release(&struck);
    kvt_evaluation_release(&whole);
    kvt_sweep_release(&w.sweep);
    world_end();
}

/* Run, write, and read the file back. */
static struct kvt_text sweep_file(int32_t threads, int32_t resamples)
{
    struct kvt_text text = {0};
    CHECK_OK(sweep((struct kvt_sweep_options){.threads = threads, .resamples = resamples}, &err),
             err);
    CHECK_OK(kvt_sweep_write(&w.sweep, w.output, &err), err);
    CHECK_OK(kvt_text_read(w.output, 1 << 24, &text, &err), err);
    kvt_sweep_release(&w.sweep);
    remove(w.output);
    return text;
}

static void threads_change_no_byte_of_the_file(void)
{
    if (!world_begin(small, NULL, 0))
        return;
    struct kvt_text one = sweep_file(1, 3), three = sweep_file(3, 3), plain = sweep_file(3, 0);
    CHECK_I64((int64_t)one.count, (int64_t)three.count, "bytes");
    CHECK(one.count == three.count && memcmp(one.bytes, three.bytes, one.count) == 0);
    CHECK(plain.count < one.count);
    kvt_text_free(&one);
    kvt_text_free(&three);
    kvt_text_free(&plain);
    world_end();
}

/* Stops the sweep once so many points are done. */
struct stopper {
    struct kvt_stop stop;
    int64_t after;
};

static void stop_after(void *context, double fraction, int64_t done)
{
    struct stopper *stopper = context;
    (void)fraction;
    if (done >= stopper->after)
        kvt_stop_ask(&stopper->stop);
}

/* Run on so many threads until `after` points are done; w.sweep is not released. */
static void sweep_until(int64_t after, int32_t threads, struct kvt_err *why)
{
    struct stopper stopper = {.after = after};
    *why = (struct kvt_err){0};
    CHECK_FAILS(sweep((struct kvt_sweep_options){.threads = threads,
                                                 .output = w.output,
                                                 .stop = &stopper.stop,
                                                 .tell = {stop_after, &stopper}},
                      why),
                *why, KVT_EINTR);
}

static void a_stopped_sweep_goes_on_to_the_same_file(void)
{
    if (!world_begin(small, NULL, 0))
        return;
    struct kvt_text whole = sweep_file(2, 0), text = {0};
    for (int64_t after = 3; after <= 9; after += 3) {
        struct kvt_err why;
        sweep_until(after, 2, &why);
        CHECK_HOLDS(why.text, "of 12 points; the same command goes on from there", "what to do");
        CHECK(w.sweep.done_count >= after && w.sweep.done_count < 12);
        kvt_sweep_release(&w.sweep);
    }
    CHECK_OK(sweep((struct kvt_sweep_options){.threads = 1, .output = w.output}, &err), err);
    CHECK(w.sweep.resumed >= 9);
    CHECK_OK(kvt_sweep_write(&w.sweep, w.output, &err), err);
    CHECK_OK(kvt_text_read(w.output, 1 << 24, &text, &err), err);
    CHECK(text.count == whole.count && memcmp(text.bytes, whole.bytes, whole.count) == 0);
    char journal[320];
    snprintf(journal, sizeof journal, "%s.journal.0", w.output);
    CHECK_NOTE(access(journal, F_OK) != 0, "the journal is gone");
    kvt_text_free(&whole);
    kvt_text_free(&text);
    kvt_sweep_release(&w.sweep);
    remove(w.output);
    world_end();
}

static void another_seed_or_config_is_not_mixed_in(void)
{
    static const char *const sets[] = {"run.seed=2", "slo.ttft.p90=2 s"};
    if (!world_begin(small, NULL, 0))
        return;
    struct kvt_err why;
    sweep_until(2, 1, &why);
    kvt_sweep_release(&w.sweep);
    world_end();
    for (int i = 0; i < 2; i++) {
        why = (struct kvt_err){0};
        if (!world_begin(small, &sets[i], 1))
            return;
        CHECK_FAILS(sweep((struct kvt_sweep_options){.threads = 1, .output = w.output}, &why), why,
                    KVT_ECONFIG);
        CHECK_HOLDS(why.text, i == 0 ? "want \"seed 2\", got \"seed 1\"" : "belongs to another job",
                    "what differs");
        kvt_sweep_release(&w.sweep);
        world_end();
    }
    char journal[320];
    snprintf(journal, sizeof journal, "%s.journal.0", w.output);
    CHECK(remove(journal) == 0);
}

static void columns_hold_every_percentile_that_an_slo_may_name(void)
{
    static const char *const sets[] = {"slo.ttft={choices: [{p90: 1 s}, {p50: 1 s, mean: 2 s}]}"};
    if (!world_begin(small, sets, 1))
        return;
    struct kvt_point_columns columns;
    CHECK_OK(kvt_point_columns_init(&columns, &w.points, 0, &err), err);
    CHECK(kvt_point_column(&columns, "slo_ttft_p90_met") >= 0);
    CHECK(kvt_point_column(&columns, "slo_ttft_p50_ms") >= 0);
    CHECK(kvt_point_column(&columns, "slo_ttft_mean_ms") >= 0);
    CHECK(kvt_point_column(&columns, "slo_confidence") < 0);
    CHECK_OK(kvt_point_columns_init(&columns, &w.points, 20, &err), err);
    CHECK(kvt_point_column(&columns, "slo_confidence") >= 0);
    CHECK(kvt_point_column(&columns, "p90_ttft_ms_high") >= 0);
    CHECK(kvt_point_column(&columns, "gpus_high") < 0);
    world_end();
}

static void a_point_survives_being_packed(void)
{
    static unsigned char bytes[1024];
    static const struct kvt_point_columns columns = {.count = 2, .names = {"a", "b"}};
    double values[2] = {0.1, (double)NAN}, back[2] = {0};
    struct kvt_point point = {KVT_ELIMIT, 0x123456789abcdef, values, "no: way"};
    struct kvt_point copy = {.values = back};
    size_t count = kvt_point_pack(&point, &columns, bytes);
    CHECK(count <= kvt_point_bytes_max(&columns));
    CHECK(kvt_point_unpack(&copy, &columns, bytes, count));
    CHECK_I64(copy.status, KVT_ELIMIT, "status");
    CHECK_I64((int64_t)copy.digest, 0x123456789abcdef, "digest");
    CHECK_TEXT(copy.message, "no: way", "message");
    CHECK(back[0] == 0.1 && isnan(back[1]));
    CHECK(!kvt_point_unpack(&copy, &columns, bytes, 20));
    struct kvt_point_columns other = {.count = 1};
    CHECK(!kvt_point_unpack(&copy, &other, bytes, count));
}

const struct check_test check_sweep[] = {
    {"the last domain runs fastest", the_last_domain_runs_fastest, false},
    {"too many points are refused with their number", too_many_points_are_refused_with_their_number,
     false},
    {"a point that cannot be run stops no other", a_point_that_cannot_be_run_stops_no_other, false},
    {"points are what simulate makes of them", points_are_what_simulate_makes_of_them, false},
    {"strikes of the plan fall in each point", strikes_of_the_plan_fall_in_each_point, false},
    {"threads change no byte of the file", threads_change_no_byte_of_the_file, false},
    {"a stopped sweep goes on to the same file", a_stopped_sweep_goes_on_to_the_same_file, false},
    {"another seed or config is not mixed in", another_seed_or_config_is_not_mixed_in, false},
    {"columns hold every percentile that an SLO may name",
     columns_hold_every_percentile_that_an_slo_may_name, false},
    {"a point survives being packed", a_point_survives_being_packed, false},
    {NULL, NULL, false},
};
