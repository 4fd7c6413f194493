#include "sim/output/exchange.h"
#include "sim/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "sim/output/bench_result.h"
#include "sim/output/parts.h"

#define X(name, text) text,
const char *const kvt_exchange_names[KVT_EXCHANGE_COUNT] = {KVT_EXCHANGES(X)};
#undef X

double kvt_exchange_deviation(const struct kvt_histogram *h)
{
    double sum = 0, mean = kvt_histogram_mean(h);
    for (int32_t bin = 0; h->count > 0 && bin < KVT_BINS; bin++) {
        if (h->bins[bin] == 0)
            continue;
        double low = (double)kvt_histogram_bin_low(bin);
        double middle = (low + (double)kvt_histogram_bin_low(bin + 1) - 1) / 2;
        sum += (double)h->bins[bin] * (middle - mean) * (middle - mean);
    }
    return h->count > 1 && h->min < h->max ? sqrt(sum / (double)h->count) : 0;
}

static bool is_counted(const struct kvt_result *result, int64_t row)
{
    return result->fate[row] != KVT_FATE_PENDING && result->arrival[row] >= result->warmup;
}

double kvt_exchange_rate(const struct kvt_result *result)
{
    kvt_ticks first = KVT_NEVER, last = -1;
    int64_t count = 0;
    for (int64_t row = 0; row < result->rows && result->concurrency == 0; row++) {
        if (!is_counted(result, row))
            continue;
        first = result->arrival[row] < first ? result->arrival[row] : first;
        last = result->arrival[row] > last ? result->arrival[row] : last;
        count++;
    }
    return last > first ? (double)(count - 1) * (double)KVT_TICKS_PER_S / (double)(last - first)
                        : 0;
}

/* ---- one key each ---- */

static void print_text(FILE *file, const char *key, const char *value)
{
    json_t *text = kvt_json_text(value != NULL ? value : "");
    fprintf(file, "\"%s\": ", key);
    (void)json_dumpf(text, file, JSON_ENCODE_ANY);
    fputs(", ", file);
    json_decref(text);
}

static void print_real(FILE *file, const char *key, double value)
{
    if (isfinite(value))
        fprintf(file, "\"%s\": %.12g, ", key, value);
    else
        fprintf(file, "\"%s\": null, ", key);
}

static double real_of(const struct kvt_summary *summary, const char *name)
{
    return kvt_metric_number(kvt_summary_find(summary, name));
}

/* ---- lists ---- */

enum list { INPUTS, OUTPUTS, TTFTS, STARTS, LATENCIES, ERRORS };

static void print_item(FILE *file, const struct kvt_result *r, enum list list, int64_t row)
{
    bool done = r->fate[row] == KVT_FATE_COMPLETED;
    double per_s = (double)KVT_TICKS_PER_S;
    switch (list) {
    case INPUTS:
        fprintf(file, "%" PRId32, r->input[row]);
        break;
    case OUTPUTS:
        fprintf(file, "%" PRId32, done ? r->output[row] : 0);
        break;
    case TTFTS:
        fprintf(file, "%.9g", done ? (double)(r->first_token[row] - r->arrival[row]) / per_s : 0);
        break;
    case STARTS:
        fprintf(file, "%.9f", (double)r->arrival[row] / per_s);
        break;
    case LATENCIES:
        fprintf(file, "%.9g", done ? (double)(r->finish[row] - r->arrival[row]) / per_s : 0);
        break;
    case ERRORS:
        fprintf(file, "\"%s\"", done ? "" : kvt_fate_names[r->fate[row]]);
        break;
    }
}

static void print_list(FILE *file, const struct kvt_summary *summary, const char *key,
                       enum list list, const char *after)
{
    const struct kvt_result *r = summary->result;
    bool any = false;
    fprintf(file, "\"%s\": [", key);
    for (int64_t row = 0; row < r->rows; row++) {
        if (!is_counted(r, row))
            continue;
        fputs(any ? ", " : "", file);
        print_item(file, r, list, row);
        any = true;
    }
    fprintf(file, "]%s", after);
}

/* The gaps between the tokens of each request; [] of one that did not complete. */
static enum kvt_status print_gaps(FILE *file, const struct kvt_summary *summary,
                                  struct kvt_err *err)
{
    const struct kvt_result *r = summary->result;
    kvt_ticks *times = NULL;
    int32_t longest = 1;
    for (int64_t row = 0; row < r->rows; row++)
        longest = r->output[row] > longest ? r->output[row] : longest;
    times = malloc((size_t)longest * sizeof *times);
    if (times == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the tokens of a request");
    enum kvt_status status = KVT_OK;
    const char *before = "";
    fputs(", \"itls\": [", file);
    for (int64_t row = 0; row < r->rows && status == KVT_OK; row++) {
        int64_t count = 0;
        if (!is_counted(r, row))
            continue;
        if (r->fate[row] == KVT_FATE_COMPLETED)
            status = kvt_token_log_times(r->tokens, (int32_t)row, times, longest, &count, err);
        count = count < longest ? count : longest; /* a fault may give out tokens twice */
        fprintf(file, "%s[", before);
        before = ", ";
        for (int64_t i = 1; i < count; i++)
            fprintf(file, "%s%.9g", i > 1 ? ", " : "",
                    (double)(times[i] - times[i - 1]) / (double)KVT_TICKS_PER_S);
        fputc(']', file);
    }
    fputc(']', file);
    free(times);
    return status;
}

static enum kvt_status print_lists(FILE *file, const struct kvt_summary *summary,
                                   struct kvt_err *err)
{
    print_list(file, summary, "input_lens", INPUTS, ", ");
    print_list(file, summary, "output_lens", OUTPUTS, ", ");
    print_list(file, summary, "ttfts", TTFTS, ", ");
    print_list(file, summary, "latencies", LATENCIES, ", ");
    print_list(file, summary, "start_times", STARTS, ", ");
    print_list(file, summary, "errors", ERRORS, "");
    return summary->result->tokens != NULL ? print_gaps(file, summary, err) : KVT_OK;
}

/* ---- the two benchmarks ---- */

/* names: a latency is called so by the tool; percentiles that it has. */
static void print_latencies(FILE *file, const struct kvt_summary *summary,
                            const char *const names[KVT_LATENCY_COUNT])
{
    char ours[48], theirs[48];
    for (int l = 0; l < KVT_LATENCY_COUNT; l++) {
        for (int s = 0; s < KVT_STATISTICS; s++) {
            snprintf(ours, sizeof ours, "%s_%s_ms", kvt_statistic_keys[s], kvt_latency_keys[l]);
            snprintf(theirs, sizeof theirs, "%s_%s_ms", kvt_statistic_keys[s], names[l]);
            print_real(file, theirs, real_of(summary, ours));
        }
        snprintf(theirs, sizeof theirs, "std_%s_ms", names[l]);
        print_real(file, theirs,
                   kvt_exchange_deviation(&summary->latencies[l]) / (double)KVT_TICKS_PER_MS);
    }
}

static enum kvt_status print_vllm(FILE *file, const struct kvt_summary *summary,
                                  struct kvt_err *err)
{
    static const char *const names[KVT_LATENCY_COUNT] = {"ttft", "tpot", "itl", "e2el"};
    const struct kvt_result *r = summary->result;
    double rate = kvt_exchange_rate(r);
    fputs("{\"backend\": \"kvtwin\", ", file);
    print_text(file, "label", r->title);
    print_text(file, "model_id", r->model);
    print_real(file, "num_prompts", (double)summary->counted.arrived);
    if (rate > 0)
        print_real(file, "request_rate", rate);
    else
        fputs("\"request_rate\": \"inf\", ", file);
    print_real(file, "max_concurrency", r->concurrency > 0 ? (double)r->concurrency : (double)NAN);
    print_real(file, "duration", real_of(summary, "duration"));
    print_real(file, "completed", real_of(summary, "completed"));
    print_real(file, "failed",
               (double)(summary->counted.arrived - summary->counted.fates[KVT_FATE_COMPLETED]));
    print_real(file, "total_input_tokens", (double)summary->input_tokens);
    print_real(file, "total_output_tokens", (double)summary->output_tokens);
    print_real(file, "request_throughput", real_of(summary, "request_throughput"));
    print_real(file, "request_goodput",
               r->slo_count > 0 ? real_of(summary, "request_goodput") : (double)NAN);
    print_real(file, "output_throughput", real_of(summary, "output_throughput"));
    print_real(file, "total_token_throughput", real_of(summary, "total_token_throughput"));
    print_latencies(file, summary, names);
    KVT_TRY(print_lists(file, summary, err));
    fputs("}\n", file);
    return KVT_OK;
}

static enum kvt_status print_sglang(FILE *file, const struct kvt_summary *summary,
                                    struct kvt_err *err)
{
    static const char *const names[KVT_LATENCY_COUNT] = {"ttft", "tpot", "itl", "e2e_latency"};
    const struct kvt_result *r = summary->result;
    double rate = kvt_exchange_rate(r), duration = real_of(summary, "duration");
    const struct kvt_histogram *e2el = &summary->latencies[KVT_LATENCY_E2EL];
    double flying = (double)e2el->sum / (double)KVT_TICKS_PER_S / duration;
    fputs("{\"backend\": \"kvtwin\", ", file);
    print_text(file, "dataset_name", r->title);
    if (rate > 0)
        print_real(file, "request_rate", rate);
    else
        fputs("\"request_rate\": Infinity, ", file);
    print_real(file, "max_concurrency", r->concurrency > 0 ? (double)r->concurrency : (double)NAN);
    print_real(file, "duration", duration);
    print_real(file, "completed", real_of(summary, "completed"));
    print_real(file, "total_input_tokens", (double)summary->input_tokens);
    print_real(file, "total_output_tokens", (double)summary->output_tokens);
    print_real(file, "total_output_tokens_retokenized", (double)summary->output_tokens);
    print_real(file, "request_throughput", real_of(summary, "request_throughput"));
    print_real(file, "input_throughput", (double)summary->input_tokens / duration);
    print_real(file, "output_throughput", real_of(summary, "output_throughput"));
    print_real(file, "total_throughput", real_of(summary, "total_token_throughput"));
    print_latencies(file, summary, names);
    print_real(file, "concurrency", flying);
    fputs("\"accept_length\": null, ", file);
    KVT_TRY(print_lists(file, summary, err));
    fputs("}\n", file);
    return KVT_OK;
}

static enum kvt_status print_as(enum kvt_exchange format, const struct kvt_summary *summary,
                                FILE *file, struct kvt_err *err)
{
    switch (format) {
    case KVT_EXCHANGE_VLLM:
        return print_vllm(file, summary, err);
    case KVT_EXCHANGE_SGLANG:
        return print_sglang(file, summary, err);
    case KVT_EXCHANGE_LLMD:
        return kvt_exchange_llmd(summary, file, err);
    case KVT_EXCHANGE_COUNT:
        break;
    }
    return KVT_OK;
}

enum kvt_status kvt_exchange_write(enum kvt_exchange format, const struct kvt_summary *summary,
                                   FILE *file, struct kvt_err *err)
{
    kvt_json_begin();
    KVT_TRY(print_as(format, summary, file, err));
    return kvt_json_check(err);
}
