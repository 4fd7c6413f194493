/* Resamples: closed forms, who shares errors, and that threads and outputs cannot matter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "sim/base/file.h"
#include "sim/config/config.h"
#include "sim/output/interval.h"
#include "sim/plan/evaluate.h"
#include "tests/check.h"

#define CALIBRATION check_temp("resample.yaml")
#define Z95         1.6448536269514722

static struct kvt_err err;

/* ---- a run of four clients, and calibrations in which little takes time ---- */

struct world {
    struct kvt_config config;
    struct kvt_evaluation run; /* the point; resamples are taken apart */
    struct kvt_resamples resamples;
};

static struct world a, b;

/* A law of each family: nothing takes time and nothing errs, but for the rows given, "family: time,
 * error": error is the end of a law. */
struct law_row {
    enum kvt_family family;
    const char *time, *error;
};

static void write_calibration(const struct law_row rows[], int count)
{
    static const char exact[] = "unseen: {rows: 1, median: 0, mean: 0, p90: 0, low: 1, high: 1}";
    static char text[16384];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "calibration: t\ngpu: h200-sxm\nstack: sglang\nsource: s\n"
                                   "laws:\n");
    for (int f = 0; f < KVT_FAMILY_COUNT; f++) {
        const char *time = "0 us", *error = exact;
        for (int i = 0; i < count; i++)
            if ((int)rows[i].family == f)
                time = rows[i].time, error = rows[i].error != NULL ? rows[i].error : exact;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "- {family: %s, law: constant, t0: %s, %s, source: s}\n",
                                 kvt_family_names[f], time, error);
    }
    CHECK_OK(kvt_file_write(CALIBRATION, text, strlen(text), &err), err);
}

static void world_begin(struct world *w, const char *kv)
{
    char text[1024];
    snprintf(text, sizeof text,
             "model: llama-3.1-8b\nengine: sglang\ncalibration: {h200-sxm: %s}\nfleet:\n"
             "  prefill: {gpu: h200-sxm, kv: bf16}\n  decode: {gpu: h200-sxm, kv: %s}\n"
             "  link: {bandwidth: 50 GB/s, per: gpu, latency: 10 us}\n"
             "workload: {closed: {concurrency: 4, input: 1000, output: 50, requests: 16, "
             "decode_only: true}}\nslo: {itl: {p99: 100 ms}}\ncost: {h200-sxm: 3 USD/h}\n",
             CALIBRATION, kv);
    memset(w, 0, sizeof *w);
    CHECK_OK(kvt_config_parse(&w->config, "c", text, strlen(text), ".", NULL, 0, &err), err);
    CHECK_OK(kvt_evaluate(&w->run, &w->config, NULL, NULL, &err), err);
}

static void resample(struct world *w, int32_t count)
{
    struct kvt_resample_options how = {.count = count, .seed = 1};
    kvt_resamples_release(&w->resamples);
    CHECK_OK(kvt_resample(&w->resamples, &w->run.simulation, &w->run.summary, &how, &err), err);
}

static void world_end(struct world *w)
{
    kvt_resamples_release(&w->resamples);
    kvt_evaluation_release(&w->run);
    kvt_config_release(&w->config);
    remove(CALIBRATION);
}

static const double *values(const struct world *w, const char *name)
{
    const double *found = kvt_resamples_values(&w->resamples, name);
    CHECK_NOTE(found != NULL, name);
    return found;
}

static double point(const struct world *w, const char *name)
{
    return kvt_evaluation_metric(&w->run, name);
}

static double width(const struct world *w, const char *name)
{
    struct kvt_interval interval;
    CHECK_OK(kvt_resamples_interval(&w->resamples, name, point(w, name), &interval, &err), err);
    return interval.high - interval.low;
}

/* ---- quantiles ---- */

static void an_interval_has_the_ranks_of_a_twentieth(void)
{
    double v[40];
    for (int i = 0; i < 40; i++)
        v[i] = 40 - i;                                   /* 1 to 40, from the end */
    struct kvt_interval of = kvt_interval_of(v, 39, 20); /* 2 to 40 */
    CHECK_CLOSE(of.low, 3, 1e-12, "rank 2 of 39");
    CHECK_CLOSE(of.high, 39, 1e-12, "rank 38");
    of = kvt_interval_of(v, 24, 20); /* sorted: 2 to 25 */
    CHECK_CLOSE(of.low, 2.25, 1e-12, "rank 1.25 of 24");
    CHECK_CLOSE(of.high, 24.75, 1e-12, "rank 23.75");
    of = kvt_interval_of(v, 19, 11);
    CHECK_CLOSE(of.low, 2, 1e-12, "the smallest of 19");
    CHECK_CLOSE(of.high, 20, 1e-12, "the largest");
    of = kvt_interval_of(v, 3, 100);
    CHECK_CLOSE(of.low, 2, 1e-12, "few");
    CHECK_CLOSE(of.high, 100, 1e-12, "the point is inside");
    of = kvt_interval_of(v, 3, -5);
    CHECK_CLOSE(of.low, -5, 1e-12, "the point is inside");
    double holes[4] = {(double)NAN, 7, (double)NAN, 5};
    of = kvt_interval_of(holes, 4, 6);
    CHECK_CLOSE(of.low, 5, 1e-12, "runs without a value are left out");
    CHECK_CLOSE(of.high, 7, 1e-12, "");
    double none[2] = {(double)NAN, (double)NAN};
    of = kvt_interval_of(none, 2, 6);
    CHECK(isnan(of.low) && isnan(of.high));
}

static void numbers_have_the_digits_of_their_interval(void)
{
    static const struct {
        double value, low, high;
        int decimals;
        const char *text;
    } rows[] = {
        {1558, 1518, 1598, 0, "1,558 \xc2\xb1 40"},
        {1557.6, 1517, 1599, 2, "1,558 \xc2\xb1 41"},
        {1234567, 1230000, 1240000, 0, "1,234,567 \xc2\xb1 5,000"},
        {8.99, 8.5, 9.5, 2, "8.99 \xc2\xb1 0.50"},
        {-1234.5, -1236, -1233, 0, "-1,234.5 \xc2\xb1 1.5"},
        {0.01571, 0.015, 0.016, 2, "0.01571 \xc2\xb1 0.00050"},
        {0, -3, 3, 0, "0.0 \xc2\xb1 3.0"},
        {1234.5, 1234.5, 1234.5, 2, "1,234.50"},
        {999, (double)NAN, (double)NAN, 0, "999"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[160];
        kvt_interval_print(rows[i].value, rows[i].low, rows[i].high, rows[i].decimals, out,
                           sizeof out);
        CHECK_TEXT(out, rows[i].text, "");
    }
    char tiny[6];
    CHECK_TEXT(kvt_number_print(1234567, 0, tiny, sizeof tiny), "1,234", "cut, and ended");
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    kvt_print_right(out, "1 \xc2\xb1 2", 7);
    kvt_print_right(out, "too long", 3);
    fclose(out);
    CHECK_TEXT(text, "  1 \xc2\xb1 2too long", "columns are characters, not bytes");
    free(text);
}

/* ---- closed forms ---- */

static void laws_without_error_give_intervals_without_width(void)
{
    static const struct law_row rows[] = {{KVT_FAMILY_GEMM_BF16, "20 us", NULL},
                                          {KVT_FAMILY_GQA_DECODE_BF16, "30 us", NULL},
                                          {KVT_FAMILY_HOST_FLOOR, "1 ms", NULL},
                                          {KVT_FAMILY_REQUEST, "5 ms", NULL}};
    write_calibration(rows, 4);
    world_begin(&a, "bf16");
    resample(&a, 20);
    CHECK_OK(kvt_resamples_annotate(&a.resamples, &a.run.summary, &err), err);
    int32_t with = 0;
    for (int32_t m = 0; m < a.run.summary.metric_count; m++) {
        const struct kvt_metric *metric = &a.run.summary.metrics[m];
        if (!metric->has_interval)
            continue;
        with++;
        CHECK_NOTE(metric->low == metric->high, metric->name);
        CHECK_NOTE(metric->low == point(&a, metric->name), metric->name);
    }
    CHECK(with > 30);
    static const char *const given[] = {
        "seed",   "gpus",    "cost_usd_per_h", "slo_itl_p99_target_ms",
        "digest", "slo_met", "resamples"};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        CHECK_NOTE(!kvt_summary_find(&a.run.summary, given[i])->has_interval, given[i]);
    CHECK_CLOSE(point(&a, "resamples"), 20, 1e-12, "");
    world_end(&a);
}

/* A step is one kernel: its time errs as the law does, resample by resample. */
static void one_kernel_has_the_interval_of_its_law(void)
{
    static const struct law_row rows[] = {{KVT_FAMILY_GQA_DECODE_BF16, "1 ms", "scatter: 0.25"}};
    write_calibration(rows, 1);
    world_begin(&a, "bf16");
    resample(&a, 500);
    struct kvt_work work = {0};
    work.dim[KVT_DIM_HEADS] = 32;
    work.dim[KVT_DIM_KV_HEADS] = 8;
    work.dim[KVT_DIM_HEAD_DIM] = 128;
    CHECK_CLOSE(point(&a, "mean_tpot_ms"), 32, 1e-6, "32 layers");
    const double *tpot = values(&a, "mean_tpot_ms");
    int32_t inside = 0;
    for (uint64_t r = 0; r < 500 && tpot != NULL; r++) {
        double z = kvt_error_draw(1, r, KVT_FAMILY_GQA_DECODE_BF16, &work);
        CHECK_CLOSE(tpot[r], 32 * exp(z / Z95 * log(1.25)), 1e-6, "");
        inside += tpot[r] >= 32 / 1.25 && tpot[r] <= 32 * 1.25;
    }
    CHECK_CLOSE(inside, 450, 0.045, "three sigma of nine in ten");
    struct kvt_interval interval;
    CHECK_OK(kvt_resamples_interval(&a.resamples, "mean_tpot_ms", 32, &interval, &err), err);
    CHECK_CLOSE(interval.low, 32 / 1.25, 0.03, "the interval of the law");
    CHECK_CLOSE(interval.high, 32 * 1.25, 0.03, "");
    world_end(&a);
}

static void a_wider_law_gives_a_wider_metric(void)
{
    static const char *const scatters[] = {"scatter: 0.05", "scatter: 0.1", "scatter: 0.4"};
    double before = 0;
    for (int i = 0; i < 3; i++) {
        const struct law_row rows[] = {{KVT_FAMILY_GEMM_BF16, "20 us", scatters[i]},
                                       {KVT_FAMILY_GQA_DECODE_BF16, "30 us", "scatter: 0.1"}};
        write_calibration(rows, 2);
        world_begin(&a, "bf16");
        resample(&a, 24);
        double now = width(&a, "output_throughput");
        CHECK_NOTE(now > 1.2 * before, scatters[i]);
        before = now;
        world_end(&a);
    }
}

/* ---- common random numbers ---- */

/* GEMMs have an error, attention has none: another KV dtype moves every resample by the same. */
static void configs_share_the_errors_of_shapes_that_both_have(void)
{
    static const struct law_row rows[] = {{KVT_FAMILY_GEMM_BF16, "50 us", "scatter: 0.3"},
                                          {KVT_FAMILY_GQA_DECODE_BF16, "40 us", NULL},
                                          {KVT_FAMILY_GQA_DECODE_FP8, "10 us", NULL}};
    write_calibration(rows, 3);
    world_begin(&a, "bf16");
    world_begin(&b, "fp8");
    resample(&a, 24);
    resample(&b, 24);
    const double *of_a = values(&a, "mean_tpot_ms"), *of_b = values(&b, "mean_tpot_ms");
    for (int32_t r = 0; r < 24; r++)
        CHECK_CLOSE(of_a[r] - of_b[r], 32 * 0.03, 1e-6, "32 layers of 30 us");
    CHECK_NOTE(width(&a, "mean_tpot_ms") > 1, "though each by itself is uncertain");
    world_end(&b);
    world_end(&a);
}

static void more_resamples_keep_the_first(void)
{
    static const struct law_row rows[] = {{KVT_FAMILY_GEMM_BF16, "50 us", "scatter: 0.3"}};
    write_calibration(rows, 1);
    world_begin(&a, "bf16");
    double first[5];
    kvt_ticks arrivals[16]; /* of a closed loop: where each run's own finishes put them */
    const kvt_ticks *of_point = a.run.simulation.trace.arrival;
    memcpy(arrivals, of_point, sizeof arrivals);
    CHECK(arrivals[15] > 0);
    resample(&a, 5);
    CHECK_NOTE(memcmp(arrivals, of_point, sizeof arrivals) == 0, "the point is left as it was");
    memcpy(first, values(&a, "mean_ttft_ms"), sizeof first);
    resample(&a, 9);
    CHECK(memcmp(first, values(&a, "mean_ttft_ms"), sizeof first) == 0);
    world_end(&a);
}

/* ---- threads, stops, extras ---- */

static void threads_do_not_matter(void)
{
#ifdef _OPENMP
    int before = omp_get_max_threads();
    static const struct law_row rows[] = {{KVT_FAMILY_GEMM_BF16, "50 us", "scatter: 0.3"},
                                          {KVT_FAMILY_LAYER_GQA_DENSE, "0 us", "scatter: 9 us"}};
    write_calibration(rows, 2);
    world_begin(&a, "bf16");
    omp_set_num_threads(1);
    resample(&a, 30);
    size_t count = (size_t)a.resamples.metric_count * 30;
    double *one = malloc(count * sizeof *one);
    memcpy(one, a.resamples.values, count * sizeof *one);
    for (int threads = 2; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        resample(&a, 30);
        CHECK(memcmp(one, a.resamples.values, count * sizeof *one) == 0);
    }
    omp_set_num_threads(before);
    free(one);
    world_end(&a);
#endif
}

static int32_t told;
static double last_fraction;

static void tell(void *context, double fraction, int64_t done)
{
    (void)context;
    told++;
    CHECK(done == told);
    last_fraction = fraction;
}

static double pages_of(const struct kvt_simulation *run)
{
    return (double)run->des.core.replicas[0].pages.total;
}

static void a_stop_and_one_more_value(void)
{
    static const struct law_row rows[] = {{KVT_FAMILY_GEMM_BF16, "50 us", "scatter: 0.3"}};
    struct kvt_stop stop = {0};
    write_calibration(rows, 1);
    world_begin(&a, "bf16");
    struct kvt_resample_options how = {.count = 7,
                                       .seed = 1,
                                       .exact = true,
                                       .extra_name = "pages",
                                       .extra = pages_of,
                                       .stop = &stop,
                                       .tell = {.listener = tell}};
    CHECK_OK(kvt_resample(&a.resamples, &a.run.simulation, &a.run.summary, &how, &err), err);
    CHECK_I64(told, 7, "progress");
    CHECK_CLOSE(last_fraction, 1, 1e-12, "");
    CHECK_CLOSE(values(&a, "pages")[6], pages_of(&a.run.simulation), 1e-12,
                "the pools are the base's");
    CHECK(kvt_resamples_values(&a.resamples, "no such metric") == NULL);
    resample(&a, 7);
    CHECK_I64(a.resamples.metric_count, a.run.summary.metric_count, "without the extra one");
    kvt_resamples_release(&a.resamples);
    kvt_stop_ask(&stop);
    told = 0;
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_resample(&a.resamples, &a.run.simulation, &a.run.summary, &how, &err), err,
                KVT_EINTR);
    err = (struct kvt_err){0};
    world_end(&a);
}

/* The example that make demo runs: prompts, hand-offs, two roles. */
static void the_quickstart_has_intervals_around_its_point(void)
{
    char *path = kvt_path_join(kvt_data_folder(), "configs/examples/quickstart.yaml");
    struct kvt_resample_options how = {.count = 24, .seed = 1};
    memset(&a, 0, sizeof a);
    CHECK_OK(kvt_config_load(&a.config, path, NULL, 0, &err), err);
    free(path);
    CHECK_OK(kvt_evaluate(&a.run, &a.config, NULL, &how, &err), err);
    for (int32_t m = 0; m < a.run.summary.metric_count; m++) {
        const struct kvt_metric *metric = &a.run.summary.metrics[m];
        double value = metric->kind == KVT_METRIC_COUNT ? (double)metric->count : metric->real;
        if (metric->has_interval)
            CHECK_NOTE(metric->low <= value && value <= metric->high, metric->name);
    }
    const struct kvt_metric *tpot = kvt_summary_find(&a.run.summary, "mean_tpot_ms");
    CHECK_NOTE(tpot->low > 0.7 * tpot->real && tpot->low < 0.99 * tpot->real, "wide, not too wide");
    CHECK_NOTE(tpot->high < 1.4 * tpot->real && tpot->high > 1.01 * tpot->real, "");
    CHECK_CLOSE(kvt_summary_find(&a.run.summary, "completed")->low, 600, 1e-12, "all are served");
    world_end(&a);
}

/* clang-format off */
const struct check_test check_resample[] = {
    {"an interval has the ranks of a twentieth", an_interval_has_the_ranks_of_a_twentieth, false},
    {"numbers have the digits of their interval", numbers_have_the_digits_of_their_interval, false},
    {"laws without error give intervals without width",
     laws_without_error_give_intervals_without_width, false},
    {"one kernel has the interval of its law", one_kernel_has_the_interval_of_its_law, false},
    {"a wider law gives a wider metric", a_wider_law_gives_a_wider_metric, false},
    {"configs share the errors of shapes that both have",
     configs_share_the_errors_of_shapes_that_both_have, false},
    {"more resamples keep the first", more_resamples_keep_the_first, false},
    {"threads do not matter", threads_do_not_matter, false},
    {"a stop, and one more value", a_stop_and_one_more_value, false},
    {"the quickstart has intervals around its point",
     the_quickstart_has_intervals_around_its_point, false},
    {NULL, NULL, false},
};
/* clang-format on */
