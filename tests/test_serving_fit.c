/* Constants of a server from benchmarks of it: the twin itself is the server, with constants that
 * are known, and what is fitted to its results must hold them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cost/calibration_print.h"
#include "sim/output/summary.h"
#include "sim/plan/bench_load.h"
#include "sim/plan/serving_fit.h"
#include "sim/plan/simulate.h"
#include "tests/cost_parts.h"

#define MOE                                                                                        \
    "model: qwen3-30b-a3b\nengine: sglang\nfleet:\n  serve: {gpu: h200-sxm, kv: bf16, "            \
    "memory: {fraction: 0.85}}\n"
#define DENSE                                                                                      \
    "model: llama-3.1-8b\nengine: vllm\nfleet:\n  serve: {gpu: h100-sxm, kv: bf16, "               \
    "memory: {fraction: 0.9}}\n"

/* A family and the time (skew: share) that the server really has. */
struct truth {
    enum kvt_family family;
    double value;
};

static void set_law(struct kvt_calibration *c, const struct truth *truth)
{
    for (int32_t i = 0; i < c->law_count; i++) {
        struct kvt_law *law = &c->laws[i];
        if (law->family != truth->family || law->guess)
            continue;
        if (truth->family >= KVT_FAMILY_EXPERTS_BF16 && truth->family <= KVT_FAMILY_EXPERTS_FP4)
            law->skew = law->kind == KVT_LAW_ROOFLINE ? truth->value : 0.0;
        else
            law->t0 = truth->value;
    }
}

/* The shipped calibration with other constants, as a file. */
static void write_truth(const char *path, const char *gpu_name, const char *engine,
                        const struct truth truths[], int count)
{
    struct kvt_gpu gpu;
    struct kvt_calibration c;
    struct kvt_err err = {0};
    CHECK_OK(kvt_gpu_load(&gpu, gpu_name, -1.0, &err), err);
    CHECK_OK(kvt_calibration_load(&c, NULL, &gpu, engine, NULL, &err), err);
    for (int i = 0; i < count; i++)
        set_law(&c, &truths[i]);
    FILE *out = fopen(path, "w");
    kvt_calibration_print(&c, "truth", out);
    fclose(out);
    kvt_calibration_release(&c);
}

static uint64_t hash_of(uint64_t x)
{
    x = (x + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 32;
}

/* What a client would have written of a closed load: one JSON object. noise: of ln(metric). */
static void run_server(const char *text, const char *calibration, int concurrency, double noise,
                       bool sglang, FILE *out)
{
    static struct kvt_summary summary;
    char config_text[1024];
    struct kvt_config config;
    struct kvt_simulation simulation;
    struct kvt_result result;
    struct kvt_arena arena;
    struct kvt_err err = {0};
    int requests = concurrency * 4 < 8 ? 8 : concurrency * 4;
    snprintf(config_text, sizeof config_text,
             "%sworkload: {closed: {concurrency: %d, input: 800, output: 150, requests: %d}}\n"
             "calibration: {%s: %s}\n",
             text, concurrency, requests, strstr(text, "h200") != NULL ? "h200-sxm" : "h100-sxm",
             calibration);
    CHECK_OK(
        kvt_config_parse(&config, "server", config_text, strlen(config_text), "", NULL, 0, &err),
        err);
    struct kvt_simulate_options how = {0};
    CHECK_OK(kvt_simulation_init(&simulation, &config, &how, &err), err);
    CHECK_OK(kvt_simulation_run(&simulation, &how, &err), err);
    CHECK_OK(kvt_simulation_result(&simulation, &result, &err), err);
    CHECK_OK(kvt_arena_init(&arena, 16 << 20, &err), err);
    CHECK_OK(kvt_summary_init(&summary, &result, &arena, &err), err);
    fprintf(out,
            "{\"backend\": \"%s\", \"request_rate\": %s, \"max_concurrency\": %d, "
            "\"completed\": %d, \"total_input_tokens\": %d, \"total_output_tokens\": %d",
            sglang ? "sglang" : "vllm", sglang ? "Infinity" : "\"inf\"", concurrency, requests,
            requests * 800, requests * 150);
    for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++) {
        const char *name = kvt_bench_metric_names[m];
        const struct kvt_metric *metric = kvt_summary_find(&summary, name);
        char own[64];
        snprintf(own, sizeof own, "%s", name);
        char *e2el = strstr(own, "e2el");
        if (sglang && m == KVT_BENCH_TOTAL_THROUGHPUT)
            snprintf(own, sizeof own, "total_throughput");
        else if (sglang && e2el != NULL)
            snprintf(e2el, sizeof own - (size_t)(e2el - own), "e2e_latency_ms");
        double x = (double)(hash_of((uint64_t)m * 1000 + (uint64_t)concurrency) >> 11) / 0x1p53;
        fprintf(out, ", \"%s\": %.9g", own, metric->real * exp(noise * (2.0 * x - 1.0)));
    }
    fprintf(out, "}\n");
    kvt_arena_release(&arena);
    kvt_simulation_release(&simulation);
    kvt_config_release(&config);
}

struct bench {
    struct kvt_config config;
    struct kvt_bench_file file;
    struct kvt_serving_run runs[16];
};

/* Runs of a server with these constants at four loads, read back as its user would. */
static void bench_begin(struct bench *b, const char *text, const char *gpu, const char *engine,
                        const struct truth truths[], int count, double noise)
{
    static const int loads[] = {1, 4, 16, 64};
    char path[64], *json = NULL;
    size_t bytes = 0;
    struct kvt_err err = {0};
    bool sglang = strcmp(engine, "sglang") == 0;
    snprintf(path, sizeof path, "/tmp/kvtwin-truth-%ld.yaml", (long)getpid());
    write_truth(path, gpu, engine, truths, count);
    FILE *out = open_memstream(&json, &bytes);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        run_server(text, path, loads[i], noise, sglang, out);
    fclose(out);
    unlink(path);
    CHECK_OK(kvt_config_parse(&b->config, "server", text, strlen(text), "", NULL, 0, &err), err);
    CHECK_OK(kvt_bench_file_parse(&b->file, "bench.json", json, bytes, &err), err);
    for (int32_t i = 0; i < b->file.count; i++)
        b->runs[i] = (struct kvt_serving_run){"bench.json", &b->file.runs[i]};
    free(json);
}

static void bench_end(struct bench *b)
{
    kvt_bench_file_release(&b->file);
    kvt_config_release(&b->config);
}

static void check_holds_truth(const struct kvt_serving_fit *fit, enum kvt_host_constant which,
                              double truth, double width)
{
    const struct kvt_serving_constant *c = &fit->constants[which];
    char note[200];
    snprintf(note, sizeof note, "%s: %g (%g to %g), truth %g; %s", kvt_host_constant_names[which],
             c->value, c->low, c->high, truth, c->why);
    CHECK_NOTE(c->fitted && c->low <= truth && truth <= c->high, note);
    CHECK_NOTE(c->high - c->low < width, note);
}

static void a_server_of_experts_is_found_again(void)
{
    static const struct truth truths[] = {{KVT_FAMILY_LAYER_GQA_MOE, 50e-6},
                                          {KVT_FAMILY_REQUEST, 40e-3},
                                          {KVT_FAMILY_EXPERTS_BF16, 0.7}};
    struct bench b;
    struct kvt_serving_fit fit;
    struct kvt_err err = {0};
    bench_begin(&b, MOE, "h200-sxm", "sglang", truths, 3, 0.02);
    CHECK_OK(kvt_serving_fit(&fit, &b.config, b.runs, b.file.count, 1, NULL, NULL, &err), err);
    check_holds_truth(&fit, KVT_HOST_CONSTANT_LAYER, 50e-6, 10e-6);
    check_holds_truth(&fit, KVT_HOST_CONSTANT_REQUEST, 40e-3, 10e-3);
    check_holds_truth(&fit, KVT_HOST_CONSTANT_SKEW, 0.7, 0.15);
    CHECK_TEXT(fit.constants[KVT_HOST_CONSTANT_HOST].why, "no metric of these runs feels it", "");
    for (int32_t i = 0; i < fit.residual_count; i++)
        if (fit.residuals[i].fitted)
            CHECK_CLOSE(fit.residuals[i].after, fit.residuals[i].observed, 0.03,
                        kvt_bench_metric_names[fit.residuals[i].metric]);
    CHECK_I64(fit.residual_count, 4 * KVT_BENCH_METRIC_COUNT, "every metric is compared");
    kvt_serving_fit_release(&fit);
    /* Two loads cannot tell routing from gaps. */
    CHECK_OK(kvt_serving_fit(&fit, &b.config, b.runs, 2, 1, NULL, NULL, &err), err);
    CHECK_TEXT(fit.constants[KVT_HOST_CONSTANT_SKEW].why, "it takes runs of three loads", "");
    CHECK_NOTE(!fit.constants[KVT_HOST_CONSTANT_SKEW].fitted, "");
    kvt_serving_fit_release(&fit);
    bench_end(&b);
}

static void a_floor_of_the_host_is_found_though_none_is_felt_at_first(void)
{
    static const struct truth truths[] = {{KVT_FAMILY_HOST_FLOOR, 9e-3},
                                          {KVT_FAMILY_REQUEST, 40e-3}};
    struct bench b;
    struct kvt_serving_fit fit;
    struct kvt_err err = {0};
    bench_begin(&b, MOE, "h200-sxm", "sglang", truths, 2, 0.01);
    CHECK_OK(kvt_serving_fit(&fit, &b.config, b.runs, b.file.count, 1, NULL, NULL, &err), err);
    check_holds_truth(&fit, KVT_HOST_CONSTANT_HOST, 9e-3, 1e-3);
    check_holds_truth(&fit, KVT_HOST_CONSTANT_REQUEST, 40e-3, 10e-3);
    CHECK_TEXT(fit.constants[KVT_HOST_CONSTANT_HOST].family, "host-floor", "");
    kvt_serving_fit_release(&fit);
    bench_end(&b);
}

static void what_runs_cannot_tell_apart_is_kept_and_said(void)
{
    static const struct truth truths[] = {{KVT_FAMILY_HOST_STEP, 2e-3},
                                          {KVT_FAMILY_REQUEST, 60e-3}};
    struct bench b;
    struct kvt_serving_fit fit;
    struct kvt_err err = {0};
    bench_begin(&b, DENSE, "h100-sxm", "vllm", truths, 2, 0.03);
    CHECK_OK(kvt_serving_fit(&fit, &b.config, b.runs, b.file.count, 1, NULL, NULL, &err), err);
    check_holds_truth(&fit, KVT_HOST_CONSTANT_REQUEST, 60e-3, 20e-3);
    const struct kvt_serving_constant *layer = &fit.constants[KVT_HOST_CONSTANT_LAYER];
    const struct kvt_serving_constant *host = &fit.constants[KVT_HOST_CONSTANT_HOST];
    CHECK_TEXT(host->family, "host-step", "");
    CHECK_NOTE(layer->fitted != host->fitted, "one stands for both");
    CHECK_HOLDS(layer->fitted ? host->why : layer->why, "these runs do not tell it apart from", "");
    CHECK_CLOSE(32.0 * layer->value + host->value, 32.0 * 16e-6 + 2e-3, 0.15, "their sum is known");
    CHECK_TEXT(fit.constants[KVT_HOST_CONSTANT_SKEW].why, "the model has no experts", "");
    kvt_serving_fit_release(&fit);
    bench_end(&b);
}

static void the_calibration_is_the_shipped_one_with_the_constants_replaced(void)
{
    static const struct truth truths[] = {{KVT_FAMILY_LAYER_GQA_MOE, 50e-6},
                                          {KVT_FAMILY_REQUEST, 40e-3}};
    struct bench b;
    struct kvt_serving_fit fit, again;
    struct kvt_calibration shipped, read;
    struct kvt_gpu gpu;
    struct kvt_err err = {0};
    bench_begin(&b, MOE, "h200-sxm", "sglang", truths, 2, 0.01);
    CHECK_OK(kvt_serving_fit(&fit, &b.config, b.runs, b.file.count, 3, NULL, NULL, &err), err);
    CHECK_OK(kvt_serving_fit(&again, &b.config, b.runs, b.file.count, 3, NULL, NULL, &err), err);
    CHECK_OK(kvt_gpu_load(&gpu, "h200-sxm", -1.0, &err), err);
    CHECK_OK(kvt_calibration_load(&shipped, NULL, &gpu, "sglang", NULL, &err), err);
    char *text = cost_print(&fit.calibration), *twice = cost_print(&again.calibration);
    CHECK_TEXT(twice, text, "the same results give the same bytes");
    CHECK_OK(kvt_calibration_parse(&read, "cal.yaml", text, strlen(text), &gpu, NULL, &err), err);
    CHECK_TEXT(read.name, "h200-sglang-fitted", "");
    CHECK_HOLDS(read.source, "constants of the host fitted to 3 benchmark files", "");
    int changed = 0;
    for (int32_t i = 0; i < shipped.law_count && i < read.law_count; i++) {
        const struct kvt_law *was = &shipped.laws[i], *is = &read.laws[i];
        CHECK_I64(is->family, was->family, "the same laws in the same order");
        bool fitted = strstr(is->source, "fitted to 3 benchmark files") != NULL;
        if (!fitted)
            CHECK_CLOSE(is->t0, was->t0, 1e-4, kvt_family_names[is->family]);
        if (fitted && is->kind == KVT_LAW_CONSTANT)
            CHECK_NOTE(is->scatter_time > 0.0, "its interval goes with it");
        changed += fitted;
    }
    int meant = 0;
    for (int c = 0; c < KVT_HOST_CONSTANT_COUNT; c++)
        meant += fit.constants[c].fitted;
    CHECK_I64(changed, meant, "as many as were fitted");
    free(text);
    free(twice);
    kvt_calibration_release(&read);
    kvt_calibration_release(&shipped);
    kvt_serving_fit_release(&fit);
    kvt_serving_fit_release(&again);
    bench_end(&b);
}

/* A GPU that nobody calibrated: the constants are the only laws, and the file reads back. */
static void constants_alone_make_a_calibration_where_none_is_shipped(void)
{
    static const char text[] =
        "model: llama-3.1-8b\nengine: vllm\nfleet:\n  serve: {gpu: a100-80g, "
        "kv: bf16, memory: {fraction: 0.9}}\n";
    char json[] = "{\"backend\": \"openai\", \"model_id\": \"m\", \"request_rate\": \"inf\", "
                  "\"max_concurrency\": 2, \"completed\": 8, \"total_input_tokens\": 4000, "
                  "\"total_output_tokens\": 800, \"mean_ttft_ms\": 200.0, \"mean_tpot_ms\": 25.0, "
                  "\"output_throughput\": 74.0}";
    struct kvt_config config;
    struct kvt_bench_file file;
    struct kvt_serving_fit fit;
    struct kvt_calibration read;
    struct kvt_gpu gpu;
    struct kvt_err err = {0};
    CHECK_OK(kvt_config_parse(&config, "server", text, strlen(text), "", NULL, 0, &err), err);
    CHECK_OK(kvt_bench_file_parse(&file, "bench.json", json, strlen(json), &err), err);
    struct kvt_serving_run run = {"bench.json", &file.runs[0]};
    CHECK_OK(kvt_serving_fit(&fit, &config, &run, 1, 1, NULL, NULL, &err), err);
    CHECK_NOTE(fit.constants[KVT_HOST_CONSTANT_REQUEST].fitted, "");
    char *printed = cost_print(&fit.calibration);
    CHECK_OK(kvt_gpu_load(&gpu, "a100-80g", -1.0, &err), err);
    CHECK_OK(kvt_calibration_parse(&read, "cal.yaml", printed, strlen(printed), &gpu, NULL, &err),
             err);
    struct kvt_work work = {0};
    const struct kvt_law *law = kvt_calibration_law(&read, KVT_FAMILY_REQUEST, &work);
    CHECK_NOTE(!law->guess, "it is written");
    CHECK_CLOSE(law->t0, fit.constants[KVT_HOST_CONSTANT_REQUEST].value, 1e-4, "");
    CHECK_NOTE(kvt_calibration_law(&read, KVT_FAMILY_GEMM_BF16, &work)->guess, "still a guess");
    free(printed);
    kvt_calibration_release(&read);
    kvt_serving_fit_release(&fit);
    kvt_bench_file_release(&file);
    kvt_config_release(&config);
}

/* ---- loads ---- */

static struct kvt_bench_run totals(void)
{
    struct kvt_bench_run run = {.engine = "sglang",
                                .line = 1,
                                .prompts = 7,
                                .completed = 7,
                                .burstiness = 1.0,
                                .input_tokens = 703,
                                .output_tokens = 75};
    for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++)
        run.metric[m] = (double)NAN;
    run.metric[KVT_BENCH_MEAN_TPOT] = 10.0;
    run.metric[KVT_BENCH_MEAN_TTFT] = 100.0;
    return run;
}

static void a_load_comes_out_to_the_token(void)
{
    static const char text[] = MOE;
    struct kvt_config config;
    struct kvt_trace trace;
    struct kvt_err err = {0};
    struct kvt_bench_run run = totals();
    CHECK_OK(kvt_config_parse(&config, "server", text, strlen(text), "", NULL, 0, &err), err);
    CHECK_OK(kvt_bench_load(&trace, &config, &run, &err), err);
    int64_t input = 0, output = 0;
    for (int32_t i = 0; i < trace.count; i++)
        input += trace.input[i], output += trace.output[i];
    CHECK_I64(trace.count, 7, "");
    CHECK_I64(input, 703, "");
    CHECK_I64(output, 75, "");
    CHECK_I64(config.workload.concurrency, 7, "neither rate nor limit: all at once");
    kvt_trace_release(&trace);
    run.rate = 4.0;
    run.concurrency = 3;
    CHECK_I64(kvt_bench_concurrency(&run), 0, "4/s x 0.2 s: the limit of 3 is not reached");
    run.rate = 40.0;
    CHECK_I64(kvt_bench_concurrency(&run), 3, "40/s x 0.2 s: the limit binds");
    run.rate = 4.0;
    run.burstiness = 0.25;
    int32_t in[] = {5, 6, 7}, out[] = {3, 2, 1};
    double start[] = {0.0, 0.5, 2.0};
    run.detailed = 3;
    run.input = in;
    run.output = out;
    CHECK_OK(kvt_bench_load(&trace, &config, &run, &err), err);
    CHECK_I64(config.workload.concurrency, 0, "");
    CHECK_NOTE(trace.arrival[2] > 0 && trace.input[2] == 7 && trace.output[0] == 3, "own lengths");
    kvt_trace_release(&trace);
    run.start = start;
    CHECK_OK(kvt_bench_load(&trace, &config, &run, &err), err);
    CHECK_I64(trace.arrival[2], kvt_ticks_from_seconds(2.0), "own starts");
    kvt_trace_release(&trace);
    kvt_config_release(&config);
}

static void runs_that_cannot_be_fitted_to_say_why(void)
{
    static const char text[] = MOE;
    struct kvt_config config;
    struct kvt_serving_fit fit;
    struct kvt_bench_run runs[3] = {totals(), totals(), totals()};
    const char *messages[] = {
        "bench.json:1: field \"backend\": is a run on vllm, the config server describes sglang",
        ("bench.json:1: field \"mean_tpot_ms\": want it, mean_ttft_ms or (without a rate) "
         "output_throughput"),
        "bench.json:1: 7 of its 7 requests cannot be served by the config"};
    struct kvt_err err = {0};
    snprintf(runs[0].engine, sizeof runs[0].engine, "vllm");
    runs[1].metric[KVT_BENCH_MEAN_TPOT] = runs[1].metric[KVT_BENCH_MEAN_TTFT] = (double)NAN;
    runs[1].metric[KVT_BENCH_P99_E2EL] = 5.0;
    runs[2].input_tokens = 7 * 200000;
    CHECK_OK(kvt_config_parse(&config, "server", text, strlen(text), "", NULL, 0, &err), err);
    for (int i = 0; i < 3; i++) {
        struct kvt_serving_run run = {"bench.json", &runs[i]};
        err = (struct kvt_err){0};
        CHECK_FAILS(kvt_serving_fit(&fit, &config, &run, 1, 1, NULL, NULL, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, messages[i], "");
    }
    const struct kvt_stop stop = {.asked = true};
    struct kvt_bench_run good = totals();
    struct kvt_serving_run run = {"bench.json", &good};
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_serving_fit(&fit, &config, &run, 1, 1, NULL, &stop, &err), err, KVT_EINTR);
    kvt_config_release(&config);
}

/* clang-format off */
const struct check_test check_serving_fit[] = {
    {"a server of experts is found again", a_server_of_experts_is_found_again, false},
    {"a floor of the host is found though none is felt at first",
     a_floor_of_the_host_is_found_though_none_is_felt_at_first, false},
    {"what runs cannot tell apart is kept and said", what_runs_cannot_tell_apart_is_kept_and_said,
     false},
    {"the calibration is the shipped one with the constants replaced",
     the_calibration_is_the_shipped_one_with_the_constants_replaced, false},
    {"constants alone make a calibration where none is shipped",
     constants_alone_make_a_calibration_where_none_is_shipped, false},
    {"a load comes out to the token", a_load_comes_out_to_the_token, false},
    {"runs that cannot be fitted to say why", runs_that_cannot_be_fitted_to_say_why, false},
    {NULL, NULL, false},
};
/* clang-format on */
