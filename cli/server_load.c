#include "cli/server_load.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/cost/calibration.h"

#define NODE_GPUS          8    /* of one NVLink island of the calibrated GPUs */
#define WAVES              10   /* requests per client where a row does not say */
#define OPEN_REQUESTS      1000 /* the same at a rate */
#define RUNNING_MAX        65536
#define SHAREGPT_MAX       1024 /* tokens; the benchmarks leave longer ones out */
#define SHAREGPT_INPUT_CV  1.2
#define SHAREGPT_OUTPUT_CV 0.9
#define VLLM_ASYNC_MINOR   14 /* vLLM plans one step ahead from 0.14 on */

static void lower_field(const struct kvt_server_row *row, const char *column, char *out,
                        size_t bytes)
{
    kvt_server_lower(kvt_server_field(row, column), out, bytes);
}

/* ---- what the notes quote of the command line ---- */

/* Where a word of the notes starts that is a flag, or the same words in prose. */
static const char *flag_in(const char *notes, const char *flag)
{
    size_t length = strlen(flag);
    for (const char *at = strstr(notes, flag); at != NULL; at = strstr(at + 1, flag)) {
        char before = at > notes ? at[-1] : ' ', after = at[length];
        if ((before == ' ' || before == '-') && strchr(" =;,", after) != NULL)
            return at + length;
    }
    return NULL;
}

/* The number after a flag: "--max-num-seqs=512", "max-running 80"; 0 where there is none. */
static int64_t flag_count(const char *notes, const char *const flags[])
{
    for (int i = 0; flags[i] != NULL; i++) {
        const char *after = flag_in(notes, flags[i]);
        if (after == NULL || *after == '\0')
            continue;
        long value = strtol(after + 1, NULL, 10);
        if (value > 0 && value <= 1000000000)
            return value;
    }
    return 0;
}

static bool read_limits(struct kvt_server_row *row, struct kvt_server_load *load)
{
    static const char *const batch[] = {"max-num-batched-tokens", NULL};
    static const char *const chunk[] = {"chunked-prefill-size", "chunked prefill", NULL};
    static const char *const running[] = {"max-num-seqs", "max-running-requests", "max-running",
                                          NULL};
    static const char *const length[] = {"max-model-len", "context-length", NULL};
    char notes[4096];
    lower_field(row, "notes", notes, sizeof notes);
    load->batch_tokens = flag_count(notes, batch);
    load->chunk_tokens = flag_count(notes, chunk);
    load->max_running = flag_count(notes, running);
    load->max_model_len = flag_count(notes, length);
    if (load->max_running > RUNNING_MAX)
        return kvt_server_refuse(row, "a limit of %lld running requests",
                                 (long long)load->max_running);
    load->overlap = -1;
    if (row->want.engine == KVT_ENGINE_VLLM)
        load->overlap = row->minor >= VLLM_ASYNC_MINOR;
    if (flag_in(notes, "async-scheduling") != NULL)
        load->overlap = strstr(notes, "no-async-scheduling") == NULL;
    if (strstr(notes, "disable-overlap-schedule") != NULL)
        load->overlap = 0;
    if (strstr(notes, "enforce-eager") != NULL || strstr(notes, "enforce_eager") != NULL ||
        strstr(notes, "disable-cuda-graph ") != NULL)
        return kvt_server_refuse(row, "without CUDA graphs: decode steps are not calibrated");
    return true;
}

/* ---- lengths ---- */

/* The mean before clipping at max that leaves `mean` after it. */
static double unclipped_mean(double mean, double cv, double max)
{
    double sigma = sqrt(log(1 + cv * cv)), low = mean, high = 8 * mean;
    for (int i = 0; i < 50; i++) {
        double middle = 0.5 * (low + high), mu = log(middle) - 0.5 * sigma * sigma;
        double z = (log(max) - mu) / sigma;
        double clipped = middle * gsl_cdf_ugaussian_P(z - sigma) + max * gsl_cdf_ugaussian_Q(z);
        if (clipped < mean)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

static struct kvt_server_lengths uniform(double min, double max)
{
    min = fmax(round(min), 1);
    max = fmax(round(max), min);
    return (struct kvt_server_lengths){.kind = KVT_SERVER_UNIFORM, .min = min, .max = max};
}

static bool lengths_of(struct kvt_server_row *row, const char *column, double n, double cv,
                       struct kvt_server_lengths *lengths)
{
    char kind[64], dataset[64], end;
    double low, high;
    lower_field(row, "length_dist", kind, sizeof kind);
    lower_field(row, "dataset", dataset, sizeof dataset);
    bool random = strncmp(dataset, "random", 6) == 0;
    bool none = kind[0] == '\0';
    if (none && strncmp(dataset, "sharegpt", 8) == 0)
        snprintf(kind, sizeof kind, "sharegpt");
    *lengths = (struct kvt_server_lengths){.kind = KVT_SERVER_FIXED, .mean = n};
    if (strcmp(kind, "fixed") == 0 || (none && !random && kind[0] == '\0'))
        return true;
    if (strcmp(kind, "uniform") == 0 || strcmp(kind, "nominal") == 0 || kind[0] == '\0') {
        *lengths = uniform(1, strcmp(kind, "uniform") == 0 ? 2 * n - 1 : n);
        return true;
    }
    /* Beyond a double it is infinity, which no range admits. NOLINTBEGIN(cert-err34-c) */
    if (sscanf(kind, "%lf-%lf%c", &low, &high, &end) == 3 && end == 'x' && low > 0 && low <= high &&
        high < 100) {
        *lengths = uniform(low * n, high * n);
        return true;
    }
    if (sscanf(kind, "+-%lf%c", &low, &end) == 2 && end == '%' && low > 0 && low < 100) {
        *lengths = uniform((1 - low / 100) * n, (1 + low / 100) * n);
        return true;
    }
    /* NOLINTEND(cert-err34-c) */
    if (strncmp(kind, "sharegpt", 8) == 0) {
        double max = fmax(SHAREGPT_MAX, 3 * n);
        *lengths = (struct kvt_server_lengths){
            .kind = KVT_SERVER_LOGNORMAL, .mean = unclipped_mean(n, cv, max), .cv = cv, .max = max};
        return true;
    }
    return kvt_server_refuse(row, "length_dist \"%.60s\" of %s is not one that is known", kind,
                             column);
}

static bool read_lengths(struct kvt_server_row *row, struct kvt_server_load *load)
{
    int64_t input, output;
    if (!kvt_server_count(row, "isl_tokens", 0, &input) ||
        !kvt_server_count(row, "osl_tokens", load->prefill_only ? 1 : 0, &output))
        return false;
    if (input == 0 || output == 0)
        return kvt_server_refuse(row, "the row states no length of %s",
                                 input == 0 ? "prompts" : "outputs");
    if (!lengths_of(row, "isl_tokens", (double)input, SHAREGPT_INPUT_CV, &load->input))
        return false;
    if (output == 1) {
        load->output = (struct kvt_server_lengths){.kind = KVT_SERVER_FIXED, .mean = 1};
        return true;
    }
    return lengths_of(row, "osl_tokens", (double)output, SHAREGPT_OUTPUT_CV, &load->output);
}

/* ---- arrivals ---- */

static bool read_arrivals(struct kvt_server_row *row, struct kvt_server_load *load)
{
    char rate[32];
    lower_field(row, "request_rate_rps", rate, sizeof rate);
    if (!kvt_server_count(row, "concurrency", 0, &load->concurrency) ||
        !kvt_server_count(row, "num_requests", 0, &load->requests))
        return false;
    bool at_once = strcmp(rate, "inf") == 0;
    if (rate[0] != '\0' && !at_once &&
        (kvt_double_parse(rate, &load->rate, NULL) != KVT_OK || !(load->rate > 0) ||
         load->rate > 1e6))
        return kvt_server_refuse(row, "request_rate_rps is \"%.20s\", want a rate or inf", rate);
    if (load->concurrency == 0 && load->rate <= 0 && !at_once)
        return kvt_server_refuse(row, "the row states neither a concurrency nor a request rate");
    if (load->concurrency == 0 && at_once && load->requests == 0)
        return kvt_server_refuse(row, "all requests at once, but the row does not say how many");
    if (load->concurrency == 0 && at_once)
        load->concurrency = load->requests;
    if (load->requests == 0)
        load->requests = load->concurrency > 0 ? WAVES * load->concurrency : OPEN_REQUESTS;
    if (load->requests > 1000000)
        return kvt_server_refuse(row, "more than a million requests");
    return true;
}

static bool read_statistic(struct kvt_server_row *row, struct kvt_server_load *load)
{
    static const struct {
        const char *text, *name;
    } names[] = {{"", "mean"},         {"mean", "mean"}, {"p50", "median"},
                 {"median", "median"}, {"p90", "p90"},   {"p99", "p99"}};
    char text[32];
    lower_field(row, "latency_stat", text, sizeof text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i].text) == 0) {
            load->statistic = names[i].name;
            return true;
        }
    }
    return kvt_server_refuse(row, "latency_stat \"%.20s\" is not one that is known", text);
}

/* ---- what is modelled ---- */

static bool read_mode(struct kvt_server_row *row, struct kvt_server_load *load)
{
    char mode[32], dataset[64];
    lower_field(row, "mode", mode, sizeof mode);
    lower_field(row, "dataset", dataset, sizeof dataset);
    load->prefill_only = strcmp(mode, "prefill_only") == 0;
    if (row->want.of_free)
        return kvt_server_refuse(row, "no scheduler profile for TensorRT-LLM");
    if (strcmp(mode, "pd_disagg") == 0)
        return kvt_server_refuse(row, "a table has no columns for the roles of a split fleet");
    if (mode[0] != '\0' && strcmp(mode, "colocated") != 0 && !load->prefill_only)
        return kvt_server_refuse(row, "mode \"%.20s\": the load is not stated", mode);
    if (row->want.draft_tokens > 0)
        return kvt_server_refuse(row, "speculative decoding: acceptance is not modelled");
    if (strstr(dataset, "agentic") != NULL)
        return kvt_server_refuse(row, "what requests share is not stated (agentic replay)");
    return true;
}

static bool has_experts(const struct kvt_model *model)
{
    for (int32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].mlp.experts > 0)
            return true;
    return false;
}

static bool check_server(struct kvt_server_row *row, bool guess)
{
    const struct kvt_layout *layout = &row->want.layout;
    if (row->gpu.bandwidth <= 0)
        return kvt_server_refuse(row, "of the GPU \"%.60s\" only the memory is known",
                                 kvt_server_field(row, "gpu"));
    if (layout->tp * layout->pp > NODE_GPUS)
        return kvt_server_refuse(row,
                                 "%d GPUs of one server: collectives between nodes are not "
                                 "calibrated",
                                 layout->tp * layout->pp);
    if (row->replicas > 1 && has_experts(&row->model) && layout->ep > layout->tp)
        return kvt_server_refuse(row, "experts spread over data-parallel servers");
    if (has_experts(&row->model) && layout->tp % layout->ep != 0)
        return kvt_server_refuse(row, "ep %d does not divide tp %d", layout->ep, layout->tp);
    if (row->all_linears && has_experts(&row->model))
        return kvt_server_refuse(row, "4-bit weights of every linear of an MoE model");
    const char *stack = kvt_engine_names[row->want.engine];
    if (guess || kvt_calibration_is_shipped(&row->gpu, stack))
        return true;
    return kvt_server_refuse(row, "no calibration for %s under %s (--guess takes the data sheet)",
                             row->gpu.name, stack);
}

bool kvt_server_load_read(struct kvt_server_row *row, struct kvt_server_load *load, bool guess)
{
    *load = (struct kvt_server_load){0};
    return read_mode(row, load) && check_server(row, guess) && read_limits(row, load) &&
           read_lengths(row, load) && read_arrivals(row, load) && read_statistic(row, load);
}

/* ---- the config ---- */

int32_t kvt_server_load_seeds(const struct kvt_server_load *load)
{
    bool fixed = load->input.kind == KVT_SERVER_FIXED && load->output.kind == KVT_SERVER_FIXED;
    if (fixed && load->concurrency > 0)
        return 1;
    return load->requests <= 50 ? 8 : load->requests <= 200 ? 4 : 1;
}

static void print_lengths(FILE *out, const char *key, const struct kvt_server_lengths *lengths)
{
    switch (lengths->kind) {
    case KVT_SERVER_FIXED:
        fprintf(out, "    %s: %.0f\n", key, lengths->mean);
        break;
    case KVT_SERVER_UNIFORM:
        fprintf(out, "    %s: {uniform: {min: %.0f, max: %.0f}}\n", key, lengths->min,
                lengths->max);
        break;
    case KVT_SERVER_LOGNORMAL:
        fprintf(out, "    %s: {lognormal: {mean: %.2f, cv: %.2f, max: %.0f}}\n", key, lengths->mean,
                lengths->cv, lengths->max);
        break;
    }
}

static void print_scheduler(FILE *out, const struct kvt_server_row *row,
                            const struct kvt_server_load *load)
{
    int64_t length = row->want.max_model_len > 0 ? row->want.max_model_len : load->max_model_len;
    const struct {
        const char *key;
        int64_t value;
    } limits[] = {{"batch_tokens", load->batch_tokens},
                  {"chunk_tokens", load->chunk_tokens},
                  {"max_running", load->max_running},
                  {"max_model_len", length}};
    const char *before = "    scheduler: {";
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].value <= 0)
            continue;
        fprintf(out, "%s%s: %lld", before, limits[i].key, (long long)limits[i].value);
        before = ", ";
    }
    if (load->overlap >= 0) {
        fprintf(out, "%soverlap: %s", before, load->overlap ? "true" : "false");
        before = ", ";
    }
    if (before[0] == ',')
        fputs("}\n", out);
}

static void print_server(FILE *out, const struct kvt_server_row *row,
                         const struct kvt_server_load *load)
{
    const struct kvt_memory_want *want = &row->want;
    struct kvt_model plain;
    struct kvt_err why = {0};
    fprintf(out, "model: {name: %s}\nengine: %s\nfleet:\n  serve:\n    replicas: %d\n",
            row->model.name, kvt_engine_names[want->engine], row->replicas);
    fprintf(out, "    gpu: %s\n", row->gpu.name);
    fprintf(out, "    parallel: {tp: %d, pp: %d, dp: %d, ep: %d, dcp: %d, moe_a2a: %s}\n",
            want->layout.tp, want->layout.pp, want->layout.dp,
            has_experts(&row->model) ? want->layout.ep : 1, want->layout.dcp,
            kvt_moe_a2a_names[row->moe_a2a]);
    if (kvt_model_load(&plain, row->model.name, &why) != KVT_OK ||
        plain.weights != row->model.weights)
        fprintf(out, "    weights: %s\n", kvt_weight_dtype_names[row->model.weights]);
    fprintf(out, "    kv: %s\n", kvt_kv_dtype_names[want->kv]);
    if (want->page_tokens > 0)
        fprintf(out, "    page_tokens: %lld\n", (long long)want->page_tokens);
    if (want->fraction > 0)
        fprintf(out, "    memory: {fraction: %.4f}\n", want->fraction);
    print_scheduler(out, row, load);
}

char *kvt_server_config(const struct kvt_server_row *row, const struct kvt_server_load *load)
{
    char *text = NULL;
    size_t count = 0;
    FILE *out = kvt_memory_open(&text, &count);
    if (out == NULL)
        return NULL;
    print_server(out, row, load);
    if (load->concurrency > 0)
        fprintf(out, "workload:\n  closed:\n    concurrency: %lld\n", (long long)load->concurrency);
    else
        fprintf(out, "workload:\n  open:\n    rate: %.9g req/s\n    arrivals: poisson\n",
                load->rate);
    fprintf(out, "    requests: %lld\n", (long long)load->requests);
    print_lengths(out, "input", &load->input);
    print_lengths(out, "output", &load->output);
    fputs("run: {seed: 1, series_points: 16}\n", out);
    kvt_memory_close(out, &text);
    return text;
}
