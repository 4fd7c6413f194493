#include "sim/output/bench_result.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/base/json.h"

#define BENCH_BYTES_MAX ((size_t)1 << 30)
#define RUNS_MAX        4096
#define NAN_TEXT        "n"       /* what stands for a NaN of Python's */
#define TOKENS_MAX      (1 << 26) /* of one prompt or output, as in a trace */
#define NUMBER_MAX      1e18
#define SECONDS_MAX     1e9 /* of one latency */
#define START_SPAN_MAX  1e6 /* s between the first start and the last */
#define GOT_BYTES       32

#define X(name, ours, theirs) ours,
const char *const kvt_bench_metric_names[KVT_BENCH_METRIC_COUNT] = {KVT_BENCH_METRICS(X)};
#undef X
#define X(name, ours, theirs) theirs,
static const char *const sglang_names[KVT_BENCH_METRIC_COUNT] = {KVT_BENCH_METRICS(X)};
#undef X

/* One object on its way in. */
struct reading {
    const json_t *object;
    struct kvt_where where;
    struct kvt_err *err;
    enum kvt_status status;
    struct kvt_bench_run *run;
};

/* Only the first message of a run is kept. */
__attribute__((format(printf, 2, 3))) static void refuse(struct reading *r, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->status == KVT_OK)
        r->status = kvt_err_at(r->err, KVT_ECONFIG, r->where, "%s", text);
}

static const char *kind_of(const json_t *value)
{
    static const char *const names[] = {"an object",     "a list", "a text", "a whole number",
                                        "a real number", "true",   "false",  "null"};
    return names[json_typeof(value)];
}

/* A number as it is, else what kind of value it is. */
static const char *text_of(const json_t *value, char got[GOT_BYTES])
{
    if (!json_is_number(value))
        return kind_of(value);
    snprintf(got, GOT_BYTES, "%.12g", json_number_value(value));
    return got;
}

/* A number of at least min; missing where it is null or not there. */
static double number_or(struct reading *r, const char *field, double min, double missing)
{
    const json_t *value = json_object_get(r->object, field);
    bool nan = json_is_string(value) && strcmp(json_string_value(value), NAN_TEXT) == 0;
    if (value == NULL || json_is_null(value) || nan)
        return missing;
    if (!json_is_number(value)) {
        refuse(r, "field \"%s\": want a number, found %s", field, kind_of(value));
        return missing;
    }
    double number = json_number_value(value);
    if (!(number >= min && number < NUMBER_MAX)) {
        refuse(r, "field \"%s\": want a number from %g to %g, got %g", field, min, NUMBER_MAX,
               number);
        return missing;
    }
    return number;
}

static int64_t count_of(struct reading *r, const char *field, double min)
{
    const json_t *value = json_object_get(r->object, field);
    if (value == NULL || json_is_null(value))
        refuse(r, "field \"%s\": wanted in a benchmark result, not found", field);
    return (int64_t)number_or(r, field, min, min);
}

/* A rate may be the word inf, too. */
static double rate_of(struct reading *r)
{
    const json_t *value = json_object_get(r->object, "request_rate");
    if (value == NULL || json_is_null(value)) {
        refuse(r, "field \"request_rate\": wanted in a benchmark result, not found");
        return 0.0;
    }
    if (json_is_string(value) && strcmp(json_string_value(value), "inf") == 0)
        return 0.0;
    if (json_is_string(value)) {
        refuse(r, "field \"request_rate\": want a number or \"inf\", got \"%.40s\"",
               json_string_value(value));
        return 0.0;
    }
    double rate = number_or(r, "request_rate", 0.0, 0.0);
    if (rate <= 0.0)
        refuse(r, "field \"request_rate\": want more than 0, got %g", rate);
    return rate;
}

/* ---- what was measured ---- */

static void read_metrics(struct reading *r)
{
    const char *const *names = r->run->sglang ? sglang_names : kvt_bench_metric_names;
    bool any = false;
    for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++) {
        r->run->metric[m] = number_or(r, names[m], 0.0, (double)NAN);
        any = any || r->run->metric[m] > 0.0;
    }
    if (!any)
        refuse(r, "fields \"%s\" and others: want a measured throughput or latency, found none",
               names[KVT_BENCH_OUTPUT_THROUGHPUT]);
}

/* ---- details ---- */

static const json_t *list_of(struct reading *r, const char *field)
{
    const json_t *list = json_object_get(r->object, field);
    if (list == NULL || json_is_null(list))
        return NULL;
    if (!json_is_array(list)) {
        refuse(r, "field \"%s\": want a list, found %s", field, kind_of(list));
        return NULL;
    }
    return json_array_size(list) > 0 ? list : NULL;
}

static int32_t tokens_at(struct reading *r, const json_t *list, size_t i, const char *field)
{
    const json_t *value = json_array_get(list, i);
    double tokens = json_is_number(value) ? json_number_value(value) : -1.0;
    char got[GOT_BYTES];
    if (!(tokens >= 0.0 && tokens <= TOKENS_MAX && tokens == floor(tokens)))
        refuse(r, "field \"%s\": want whole numbers from 0 to %d, item %zu is %s", field,
               TOKENS_MAX, i, text_of(value, got));
    return r->status == KVT_OK ? (int32_t)tokens : 0;
}

struct detail {
    double start;
    int32_t input, output, place;
};

static int by_start(const void *x, const void *y)
{
    const struct detail *a = x, *b = y;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->place - b->place;
}

/* Requests in the order of their starts, which count from the first. */
static bool sort_by_start(struct kvt_bench_run *run)
{
    struct detail *all = malloc((size_t)run->detailed * sizeof *all);
    for (int32_t i = 0; all != NULL && i < run->detailed; i++)
        all[i] = (struct detail){run->start[i], run->input[i], run->output[i], i};
    if (all != NULL)
        qsort(all, (size_t)run->detailed, sizeof *all, by_start);
    for (int32_t i = 0; all != NULL && i < run->detailed; i++) {
        run->start[i] = all[i].start - all[0].start;
        run->input[i] = all[i].input;
        run->output[i] = all[i].output;
    }
    bool sorted = all != NULL;
    free(all);
    return sorted;
}

static void read_details(struct reading *r)
{
    struct kvt_bench_run *run = r->run;
    const json_t *input = list_of(r, "input_lens"), *output = list_of(r, "output_lens");
    const json_t *start = list_of(r, "start_times");
    size_t count = input != NULL && output != NULL ? json_array_size(input) : 0;
    if (count == 0)
        return;
    if (json_array_size(output) != count)
        refuse(r, "field \"output_lens\": want %zu item%s as in input_lens, got %zu", count,
               kvt_plural((int64_t)count), json_array_size(output));
    if (start != NULL && json_array_size(start) != count)
        start = NULL; /* of another set of requests */
    run->input = malloc(count * sizeof *run->input);
    run->output = malloc(count * sizeof *run->output);
    run->start = start != NULL ? malloc(count * sizeof *run->start) : NULL;
    if (run->input == NULL || run->output == NULL || (start != NULL && run->start == NULL))
        r->status = kvt_err_at(r->err, KVT_ENOMEM, r->where, "no memory for its requests");
    for (size_t i = 0; i < count && r->status == KVT_OK; i++) {
        int32_t in = tokens_at(r, input, i, "input_lens");
        int32_t out = tokens_at(r, output, i, "output_lens");
        if (in < 1 || out < 1) /* it failed */
            continue;
        const json_t *at = start != NULL ? json_array_get(start, i) : NULL;
        if (start != NULL && !json_is_number(at))
            refuse(r, "field \"start_times\": want numbers, item %zu is %s", i, kind_of(at));
        if (start != NULL)
            run->start[run->detailed] = json_number_value(at);
        run->input[run->detailed] = in;
        run->output[run->detailed++] = out;
    }
    if (r->status != KVT_OK || run->detailed == 0 || run->start == NULL)
        return;
    if (!sort_by_start(run))
        r->status = kvt_err_at(r->err, KVT_ENOMEM, r->where, "no memory for its requests");
    else if (!(run->start[run->detailed - 1] < START_SPAN_MAX))
        refuse(r, "field \"start_times\": want at most %g s from the first to the last, got %g",
               START_SPAN_MAX, run->start[run->detailed - 1]);
}

/* ---- latencies of each request ---- */

static bool list_begin(struct reading *r, struct kvt_bench_list *list, size_t room)
{
    list->seconds = r->status == KVT_OK ? calloc(room + 1, sizeof *list->seconds) : NULL;
    if (list->seconds == NULL && r->status == KVT_OK)
        r->status = kvt_err_at(r->err, KVT_ENOMEM, r->where, "no memory for its requests");
    return list->seconds != NULL;
}

static double seconds_at(struct reading *r, const json_t *list, size_t i, const char *field)
{
    const json_t *value = json_array_get(list, i);
    double seconds = json_is_number(value) ? json_number_value(value) : -1.0;
    char got[GOT_BYTES];
    if (!(seconds >= 0.0 && seconds < SECONDS_MAX))
        refuse(r, "field \"%s\": want seconds from 0 to %g, item %zu is %s", field, SECONDS_MAX, i,
               text_of(value, got));
    return seconds;
}

/* The gaps of request i, at the end of the list; their sum. */
static double take_gaps(struct reading *r, const json_t *itls, size_t i)
{
    const json_t *gaps = json_array_get(itls, i);
    double sum = 0.0;
    if (itls != NULL && !json_is_array(gaps))
        refuse(r, "field \"itls\": want a list for each request, item %zu is %s", i, kind_of(gaps));
    for (size_t g = 0; g < json_array_size(gaps) && r->status == KVT_OK; g++) {
        double gap = seconds_at(r, gaps, g, "itls");
        sum += gap;
        r->run->itl.seconds[r->run->itl.count++] = gap;
    }
    return sum;
}

static void read_latencies(struct reading *r)
{
    struct kvt_bench_run *run = r->run;
    const json_t *input = list_of(r, "input_lens"), *output = list_of(r, "output_lens");
    const json_t *ttfts = list_of(r, "ttfts"), *itls = list_of(r, "itls");
    const json_t *e2els = list_of(r, "latencies");
    size_t count = json_array_size(ttfts), gaps = 0;
    if (count == 0 || json_array_size(input) != count || json_array_size(output) != count)
        return;
    itls = json_array_size(itls) == count ? itls : NULL;
    e2els = json_array_size(e2els) == count ? e2els : NULL;
    for (size_t i = 0; i < count && itls != NULL; i++)
        gaps += json_array_size(json_array_get(itls, i));
    if (!list_begin(r, &run->ttft, count) || !list_begin(r, &run->tpot, count) ||
        !list_begin(r, &run->e2el, count) || !list_begin(r, &run->itl, gaps))
        return;
    for (size_t i = 0; i < count && r->status == KVT_OK; i++) {
        int32_t out = tokens_at(r, output, i, "output_lens");
        if (tokens_at(r, input, i, "input_lens") < 1 || out < 1) /* it failed */
            continue;
        double ttft = seconds_at(r, ttfts, i, "ttfts"), sum = take_gaps(r, itls, i);
        double e2el = e2els != NULL ? seconds_at(r, e2els, i, "latencies") : ttft + sum;
        run->ttft.seconds[run->ttft.count++] = ttft;
        if (e2els == NULL && itls == NULL)
            continue;
        run->e2el.seconds[run->e2el.count++] = e2el;
        if (out > 1 && e2el >= ttft)
            run->tpot.seconds[run->tpot.count++] = (e2el - ttft) / (out - 1);
    }
}

/* ---- one object ---- */

static const char *text_or(const struct reading *r, const char *field)
{
    const char *text = json_string_value(json_object_get(r->object, field));
    return text != NULL ? text : "";
}

static bool has(const struct reading *r, const char *field)
{
    return json_object_get(r->object, field) != NULL;
}

static void read_client(struct reading *r)
{
    struct kvt_bench_run *run = r->run;
    bool vllm = has(r, "total_token_throughput") || has(r, "model_id") || has(r, "tokenizer_id");
    run->sglang = !vllm && (has(r, "total_throughput") || has(r, "input_throughput") ||
                            has(r, "mean_e2e_latency_ms"));
    if (!vllm && !run->sglang)
        refuse(r, "want a result of vllm bench serve (with total_token_throughput) or of SGLang's "
                  "bench_serving (with total_throughput), found neither");
    const char *backend = text_or(r, "backend");
    const char *engine = strncmp(backend, "vllm", 4) == 0     ? "vllm"
                         : strncmp(backend, "sglang", 6) == 0 ? "sglang"
                                                              : "";
    snprintf(run->engine, sizeof run->engine, "%s", engine);
    snprintf(run->model, sizeof run->model, "%s", text_or(r, "model_id"));
}

static void read_run(struct reading *r)
{
    struct kvt_bench_run *run = r->run;
    run->line = r->where.line;
    read_client(r);
    if (r->status != KVT_OK)
        return;
    run->completed = count_of(r, "completed", 0.0);
    if (run->completed < 1)
        refuse(r, "field \"completed\": want at least one completed request, got 0");
    if (run->completed > INT32_MAX)
        refuse(r, "field \"completed\": want at most %d, got %g", INT32_MAX,
               (double)run->completed);
    run->input_tokens = count_of(r, "total_input_tokens", 1.0);
    run->output_tokens = count_of(r, "total_output_tokens", 1.0);
    if (run->input_tokens < run->completed || run->output_tokens < run->completed)
        refuse(r, "field \"total_%s_tokens\": want at least one token for each completed request",
               run->input_tokens < run->completed ? "input" : "output");
    run->rate = rate_of(r);
    run->burstiness = number_or(r, "burstiness", 0.0, 1.0);
    run->concurrency = (int64_t)number_or(r, "max_concurrency", 1.0, 0.0);
    run->prompts = (int64_t)number_or(r, "num_prompts", 1.0, (double)run->completed);
    run->duration = number_or(r, "duration", 0.0, 0.0);
    read_metrics(r);
    read_details(r);
    read_latencies(r);
}

/* ---- the file ---- */

/* Python writes Infinity and NaN, which are no JSON: put texts of the same length in their place,
 * outside of texts. */
static void replace_infinities(char *text, size_t count)
{
    bool inside = false;
    for (size_t i = 0; i < count; i++) {
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
        else if (!inside && count - i >= 8 && memcmp(text + i, "Infinity", 8) == 0) {
            memcpy(text + i, "   \"inf\"", 8);
            i += 7;
        } else if (!inside && count - i >= 3 && memcmp(text + i, "NaN", 3) == 0) {
            memcpy(text + i, "\"n\"", 3);
            i += 2;
        }
    }
}

static enum kvt_status add_run(struct kvt_bench_file *file, const json_t *object,
                               struct kvt_where where, struct kvt_err *err)
{
    if (!json_is_object(object))
        return kvt_err_at(err, KVT_ECONFIG, where, "want a JSON object, found %s", kind_of(object));
    if (file->count == RUNS_MAX)
        return kvt_err_at(err, KVT_ELIMIT, where, "want at most %d runs in a file", RUNS_MAX);
    size_t room = (size_t)file->count + 1;
    struct kvt_bench_run *grown = realloc(file->runs, room * sizeof *grown);
    if (grown == NULL)
        return kvt_err_at(err, KVT_ENOMEM, where, "no memory for a run");
    file->runs = grown;
    grown[file->count] = (struct kvt_bench_run){0};
    struct reading r = {.object = object, .where = where, .err = err, .run = &grown[file->count++]};
    read_run(&r);
    return r.status;
}

static size_t skip_space(const char *text, size_t at, size_t count, int32_t *line)
{
    for (; at < count && strchr(" \t\r\n", text[at]) != NULL; at++)
        *line += text[at] == '\n';
    return at;
}

enum kvt_status kvt_bench_file_parse(struct kvt_bench_file *file, const char *path, char *text,
                                     size_t count, struct kvt_err *err)
{
    enum kvt_status status = KVT_OK;
    int32_t line = 1;
    *file = (struct kvt_bench_file){0};
    replace_infinities(text, count);
    size_t at = skip_space(text, 0, count, &line);
    if (at == count)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path},
                          "want the result of a benchmark, found an empty file");
    while (at < count && status == KVT_OK) {
        json_error_t why;
        struct kvt_where where = {.file = path, .line = line};
        kvt_json_begin(); /* jansson takes a lack of memory for a mistake in the text */
        json_t *object =
            json_loadb(text + at, count - at, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &why);
        if (kvt_json_failed()) {
            json_decref(object);
            status = kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", path);
            break;
        }
        if (object == NULL) {
            where.line = line + why.line - 1;
            where.column = why.column;
            status = kvt_err_at(err, KVT_ECONFIG, where, "not JSON: %s", why.text);
            break;
        }
        size_t end = at + (size_t)why.position;
        status = add_run(file, object, where, err);
        json_decref(object);
        for (; at < end; at++)
            line += text[at] == '\n';
        at = skip_space(text, at, count, &line);
    }
    if (status != KVT_OK)
        kvt_bench_file_release(file);
    return status;
}

enum kvt_status kvt_bench_file_read(struct kvt_bench_file *file, const char *path,
                                    struct kvt_err *err)
{
    struct kvt_text text;
    *file = (struct kvt_bench_file){0};
    KVT_TRY(kvt_text_read(path, BENCH_BYTES_MAX, &text, err));
    enum kvt_status status = kvt_bench_file_parse(file, path, text.bytes, text.count, err);
    kvt_text_free(&text);
    return status;
}

void kvt_bench_file_release(struct kvt_bench_file *file)
{
    for (int32_t i = 0; i < file->count; i++) {
        free(file->runs[i].input);
        free(file->runs[i].output);
        free(file->runs[i].start);
        free(file->runs[i].ttft.seconds);
        free(file->runs[i].tpot.seconds);
        free(file->runs[i].itl.seconds);
        free(file->runs[i].e2el.seconds);
    }
    free(file->runs);
    *file = (struct kvt_bench_file){0};
}
