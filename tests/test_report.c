/* The report: points of distributions, rates by bin, figures as text, and what a run file lacks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/output/h5_items.h"
#include "sim/output/hdf5.h"
#include "sim/report/cdf.h"
#include "sim/report/points.h"
#include "sim/report/svg.h"
#include "tests/check.h"
#include "tests/points_file.h"

/*
 * A run by hand: two requests on one replica, times in s.
 *    request  arrival  first  finish  input  output
 *       0        0       1      5      100     8
 *       1        2       3      3       50     1
 * In flight: 1 in [0, 2), 2 in [2, 3), 1 in [3, 5): the sum of latencies 6 over 5 s is 1.2.
 */
enum { ROWS = 2 };
#define S KVT_TICKS_PER_S

static const kvt_ticks arrivals[ROWS] = {0, 2 * S}, firsts[ROWS] = {1 * S, 3 * S};
static const kvt_ticks finishes[ROWS] = {5 * S, 3 * S};
static const int32_t inputs[ROWS] = {100, 50}, outputs[ROWS] = {8, 1}, zeros[ROWS] = {0, 0};
static const uint8_t fates[ROWS] = {KVT_FATE_COMPLETED, KVT_FATE_COMPLETED};
static const int16_t replicas[ROWS] = {0, 0};

static void write_run(const char *path, const char *title)
{
    static struct kvt_summary summary;
    static const char *const entries[] = {"weights", "kv pool", "free"};
    static const int64_t bytes[] = {60, 30, 10};
    struct kvt_arena arena;
    struct kvt_series series;
    struct kvt_err err = {0};
    struct kvt_run_file file;
    CHECK_OK(kvt_arena_init(&arena, (size_t)8 << 20, &err), err);
    CHECK_OK(kvt_series_init(&series, &arena, 8, &err), err);
    kvt_series_set(&series, 0, (const int64_t[]){1, 3, 40});
    kvt_series_set(&series, 5 * S, (const int64_t[]){0, 0, 0});
    struct kvt_result_replica replica = {
        .name = "serve-0", .series = &series, .pages = 80, .pages_peak = 40};
    struct kvt_result_role role = {.name = "serve",
                                   .gpu = "h100-sxm",
                                   .replicas = 1,
                                   .gpus_per_replica = 4,
                                   .memory_bytes = 100,
                                   .entry_count = 3,
                                   .entries = entries,
                                   .bytes = bytes};
    struct kvt_result_strike strike = {.fault = "late-write",
                                       .variant = "transfer",
                                       .outcome = "escaped",
                                       .time = 1 * S,
                                       .exposed_at = 2 * S,
                                       .detected_at = KVT_NEVER,
                                       .replica = -1,
                                       .activated = true,
                                       .hit = 1,
                                       .leaked = 7};
    struct kvt_result result = {
        .title = title,
        .model = "tiny",
        .fleet = "serve: 1 x 4 h100-sxm",
        .config = "model: tiny\npublished:\n  - {metric: output_throughput, concurrency: 1, "
                  "value: 1.5}\n",
        .rows = ROWS,
        .arrival = arrivals,
        .first_token = firsts,
        .finish = finishes,
        .input = inputs,
        .output = outputs,
        .fate = fates,
        .prefill_replica = replicas,
        .decode_replica = replicas,
        .preemptions = zeros,
        .cached = zeros,
        .end = 5 * S,
        .replica_count = 1,
        .replicas = &replica,
        .role_count = 1,
        .roles = &role,
        .strike_count = 1,
        .strikes = &strike,
        .slo_count = 1,
        .slo = {{KVT_LATENCY_TTFT, 0.9, 2 * S}},
    };
    CHECK_OK(kvt_summary_init(&summary, &result, &arena, &err), err);
    CHECK_OK(kvt_run_file_begin(&file, path, &err), err);
    CHECK_OK(kvt_run_file_finish(&file, &summary, &err), err);
    kvt_arena_release(&arena);
}

/* The page as text; free it. NULL after a failed check. */
static char *page_of(const char *path, const char *const compare[], int32_t count)
{
    static struct kvt_report report;
    struct kvt_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    enum kvt_status status = kvt_report_read(&report, path, compare, count, &err);
    check_status(status, &err, KVT_OK, "kvt_report_read", __FILE__, __LINE__);
    FILE *out = status == KVT_OK ? open_memstream(&text, &bytes) : NULL;
    if (out != NULL) {
        CHECK_OK(kvt_report_html(&report, out, &err), err);
        fclose(out);
    }
    kvt_report_release(&report);
    return text;
}

static void a_distribution_is_a_few_hundred_points(void)
{
    struct kvt_cdf cdf;
    struct kvt_err err = {0};
    enum { COUNT = 100000 };
    double *values = malloc(COUNT * sizeof *values);
    if (values == NULL)
        return;
    for (int i = 0; i < COUNT; i++)
        values[i] = (COUNT - i) * 1e-5;
    CHECK_OK(kvt_cdf_of_values(&cdf, values, COUNT, &err), err);
    free(values);
    CHECK_NOTE(cdf.count > 200 && cdf.count < 400, "points");
    CHECK_CLOSE(cdf.x[0], 1e-5, 1e-12, "starts at the least");
    CHECK_CLOSE(cdf.x[cdf.count - 1], 1.0, 1e-12, "ends at the most");
    CHECK_CLOSE(cdf.y[cdf.count - 1], 1.0, 1e-12, "all of them");
    for (int32_t i = 1; i < cdf.count; i++)
        CHECK_NOTE(cdf.y[i] - cdf.y[i - 1] < 0.0045 && fabs(cdf.y[i] - cdf.x[i]) < 1e-4,
                   "uniform values lie on the diagonal");
    kvt_cdf_release(&cdf);
}

static void rates_of_bins_add_up(void)
{
    struct kvt_flow_bins bins;
    double out[5];
    CHECK(kvt_flow_bins_init(&bins, 5, 5));
    kvt_flow_bins_add(&bins, 0.5, 2.5, 8); /* 4 a second */
    kvt_flow_bins_add(&bins, 3, 3, 7);     /* at once */
    kvt_flow_bins_take(&bins, out);
    static const double want[5] = {2, 4, 2, 7, 0};
    for (int i = 0; i < 5; i++)
        check_close(out[i] + 1, want[i] + 1, 1e-9, "rate of a bin", "", __FILE__, __LINE__);
}

static void axes_say_numbers_for_people(void)
{
    static const struct {
        double value;
        enum kvt_axis_unit unit;
        const char *text;
    } rows[] = {
        {0.02, KVT_AXIS_SECONDS, "20 ms"},  {1, KVT_AXIS_SECONDS, "1 s"},
        {100, KVT_AXIS_SECONDS, "100 s"},   {5e-5, KVT_AXIS_SECONDS, "50 us"},
        {1500, KVT_AXIS_NUMBER, "1.5k"},    {2e6, KVT_AXIS_NUMBER, "2M"},
        {0.25, KVT_AXIS_PERCENT, "25 %"},   {0, KVT_AXIS_NUMBER, "0"},
        {2000, KVT_AXIS_SECONDS, "2000 s"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_TEXT(kvt_axis_print(rows[i].value, rows[i].unit, text), rows[i].text, "");
}

static void a_chart_draws_its_points_in_its_frame(void)
{
    static const double x[] = {0, 5, 10, (double)NAN}, y[] = {0, 50, 100, 7};
    struct kvt_chart chart = {.title = "a < b & c",
                              .curve_count = 1,
                              .curves = {{.label = "one", .x = x, .y = y, .count = 4}}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    kvt_chart_print(&chart, false, out);
    fclose(out);
    CHECK_HOLDS(text, "a &lt; b &amp; c", "texts are escaped");
    CHECK_HOLDS(text, "M50.0 226.0L239.0 ", "the origin, then the middle");
    CHECK_HOLDS(text, "L428.0 52.0\"", "the end of both axes, and nothing of what is not finite");
    free(text);
}

static char *drawn(const struct kvt_chart *chart)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    kvt_chart_print(chart, false, out);
    fclose(out);
    return text;
}

static void texts_are_xml_whatever_they_hold(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"a<b>&\"c\"\t\n", "a&lt;b&gt;&amp;&quot;c&quot;\t\n"},
        {"\x01\x1f", "??"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc3", "?"},   /* ends early */
        {"\xc3(", "?("}, /* another one in place of its second byte */
        {"\xe2\x82", "??"},
        {"\x80\xbf", "??"},      /* begins with a later byte */
        {"\xc0\xaf", "??"},      /* '/' in two bytes */
        {"\xe0\x80\xaf", "???"}, /* and in three */
        {"\xf0\x80\x80\xaf", "????"},
        {"\xed\xa0\x80", "???"},      /* half of a pair */
        {"\xf4\x90\x80\x80", "????"}, /* beyond the last character */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xf5\x80\x80\x80", "????"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        kvt_svg_text(rows[i].text, out);
        fclose(out);
        CHECK_TEXT(text, rows[i].want, rows[i].text);
        free(text);
    }
}

/* The frame of the chart above: x 0 to 10 is 50 to 428, y 0 to 100 is 226 to 52. */
static void bands_and_bars_lie_where_their_numbers_are(void)
{
    static const double x[] = {0, 5, 10}, low[] = {0, 50, (double)NAN}, high[] = {100, 50, 100};
    static const double bars[] = {100, 0, 50};
    struct kvt_chart chart = {.title = "t",
                              .curve_count = 2,
                              .curves = {{.label = "line",
                                          .kind = KVT_CURVE_LINE,
                                          .x = x,
                                          .y = high,
                                          .count = 3,
                                          .dashed = true},
                                         {.label = "band",
                                          .kind = KVT_CURVE_BAND,
                                          .color = 4,
                                          .x = x,
                                          .y = low,
                                          .top = high,
                                          .count = 3}}};
    char *text = drawn(&chart);
    CHECK_HOLDS(text,
                "class=\"f c4\" d=\"M50.0 226.0L239.0 139.0L428.0 52.0L239.0 139.0L50.0 52.0Z\"",
                "forwards below, back above, without what is no number");
    CHECK_HOLDS(text, "class=\"l d c0\"", "dashed");
    free(text);
    chart.curves[1] = (struct kvt_curve){.kind = KVT_CURVE_BARS, .x = x, .y = bars, .count = 3};
    text = drawn(&chart);
    CHECK_HOLDS(text, "M50.0 226.0V52.0H238.5V226.0Z", "the first one, as wide as to the next");
    CHECK_HOLDS(text, "M428.0 226.0V139.0H616.5V226.0Z", "the last one, as wide as that before it");
    CHECK(strstr(text, "M239.0 226.0V226.0") == NULL);
    free(text);
}

static void axes_of_many_decades_have_few_marks(void)
{
    static const struct {
        double low, high;
        const char *there, *absent;
    } rows[] = {
        {1, 100, ">2</text>", ">3</text>"},       /* 1, 2, 5, 10, ... */
        {1, 1e4, ">10</text>", ">2</text>"},      /* each power */
        {1, 1e7, ">100</text>", ">10</text>"},    /* each second */
        {1e-3, 1e7, ">1k</text>", ">100</text>"}, /* each third */
        {20, 30, ">25</text>", ">50</text>"},     /* as an axis that is not logarithmic */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double x[] = {rows[i].low, rows[i].high}, y[] = {0.25, 0.75};
        struct kvt_chart chart = {
            .title = "t",
            .x_log = true,
            .curve_count = 1,
            .curves = {{.kind = KVT_CURVE_RINGS, .x = x, .y = y, .count = 2}}};
        char *text = drawn(&chart);
        CHECK_HOLDS(text, rows[i].there, "a mark");
        CHECK_NOTE(strstr(text, rows[i].absent) == NULL, rows[i].absent);
        CHECK_HOLDS(text, "r=\"4.5\"", "rings");
        free(text);
    }
}

static void a_page_says_what_the_run_did(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s", check_temp("report.h5"));
    write_run(path, "Tom & <Jerry>");
    char *page = page_of(path, NULL, 0), *again = page_of(path, NULL, 0);
    unlink(path);
    if (page == NULL || again == NULL)
        return;
    CHECK_TEXT(again, page, "equal files give equal pages");
    CHECK_HOLDS(page, "<h1>Tom &amp; &lt;Jerry&gt;</h1>", "title");
    CHECK_HOLDS(page, "Memory of one GPU: serve", "memory map");
    CHECK_HOLDS(page, ">60.0 %</text>", "share of the weights");
    CHECK_HOLDS(page, "<td>ttft p90<td>2,000<td>1,000<td class=\"good\">met", "SLO");
    CHECK_HOLDS(page, "late-write, transfer<td>1.000<td class=\"bad\">escaped<td>1<td>0<td>7",
                "the fault");
    CHECK_HOLDS(page, ">published</text>", "the published point");
    CHECK_HOLDS(page, "model: tiny", "the configuration");
    CHECK_NOTE(strstr(page, "<script") == NULL && strstr(page, "http") == NULL,
               "nothing from a network");
    CHECK_NOTE(strstr(page, "id=\"link\"") == NULL, "no figure of a link that is not there");
    free(page);
    free(again);
}

static void a_measured_run_stands_beside_it(void)
{
    static const char bench[] =
        "{\"backend\": \"vllm\", \"model_id\": \"m\", \"request_rate\": \"inf\", \"completed\": 2, "
        "\"total_input_tokens\": 150, \"total_output_tokens\": 9, \"output_throughput\": 3.6,\n"
        "\"request_throughput\": 0.5, \"mean_e2el_ms\": 4000, \"mean_ttft_ms\": 500,\n"
        "\"input_lens\": [100, 50, 9], \"output_lens\": [8, 1, 0], \"ttfts\": [0.75, 0.25, 0.0],\n"
        "\"itls\": [[1, 1, 0.5], [], []]}\n";
    char run_path[256], bench_path[256];
    snprintf(run_path, sizeof run_path, "%s", check_temp("beside.h5"));
    snprintf(bench_path, sizeof bench_path, "%s", check_temp("bench.json"));
    struct kvt_err err = {0};
    write_run(run_path, "x");
    CHECK_OK(kvt_file_write(bench_path, bench, strlen(bench), &err), err);
    const char *compare[] = {bench_path, run_path};
    static struct kvt_report report;
    CHECK_OK(kvt_report_read(&report, run_path, compare, 2, &err), err);
    CHECK_CLOSE(report.concurrency, 1.2, 1e-9, "mean in flight");
    CHECK_CLOSE(report.beside[0].concurrency, 2.0, 1e-9, "0.5 req/s that stay 4 s");
    CHECK_CLOSE(report.beside[1].concurrency, 1.2, 1e-9, "itself");
    const struct kvt_cdf *e2el = &report.beside[0].cdf[KVT_LATENCY_E2EL];
    CHECK_CLOSE(e2el->x[e2el->count - 1], 3.25, 1e-9, "TTFT and its gaps");
    const struct kvt_cdf *tpot = &report.beside[0].cdf[KVT_LATENCY_TPOT];
    CHECK_CLOSE(tpot->x[tpot->count - 1], 2.5 / 7, 1e-9, "gaps over tokens less one");
    CHECK_I64(report.beside[0].cdf[KVT_LATENCY_ITL].count, 7, "a start, and a stair for each gap");
    kvt_report_release(&report);
    char *page = page_of(run_path, compare, 2);
    if (page != NULL) {
        /* 9 tokens in 5 s. */
        CHECK_HOLDS(page, "<td>output_throughput<td>1.80<td>3.60<td>-50.0 %<td>1.80<td>+0.0 %", "");
        free(page);
    }
    unlink(run_path);
    unlink(bench_path);
}

static void a_run_file_cut_short_is_refused(void)
{
    char path[256], part_path[256];
    snprintf(path, sizeof path, "%s", check_temp("whole.h5"));
    snprintf(part_path, sizeof part_path, "%s", check_temp("part.h5"));
    struct kvt_err err = {0};
    struct kvt_text whole;
    static struct kvt_report report;
    write_run(path, "x");
    CHECK_OK(kvt_text_read(path, (size_t)1 << 24, &whole, &err), err);
    for (size_t part = 0; part < 64; part++) {
        struct kvt_err why = {0};
        CHECK_OK(kvt_file_write(part_path, whole.bytes, whole.count * part / 64, &err), err);
        CHECK_FAILS(kvt_report_read(&report, part_path, NULL, 0, &why), why, KVT_ECONFIG);
        CHECK_HOLDS(why.text, part_path, "which file");
        kvt_report_release(&report);
    }
    kvt_text_free(&whole);
    unlink(path);
    unlink(part_path);
}

/* ---- sweeps and searches ---- */

/* A search of three candidates by hand: 4 USD/h misses, 8 is the best, 16 is dearer and slower. */
static char *points_page_of(const char *path)
{
    struct kvt_points_page page;
    struct kvt_err err = {0};
    char *text = NULL;
    size_t bytes = 0;
    CHECK_OK(kvt_points_page_read(&page, path, &err), err);
    FILE *out = err.status == KVT_OK ? open_memstream(&text, &bytes) : NULL;
    if (out != NULL) {
        CHECK_OK(kvt_points_page_html(&page, out, &err), err);
        fclose(out);
    }
    kvt_points_page_release(&page);
    return text;
}

static void a_search_is_a_page(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s", check_temp("points.h5"));
    points_file_write(path, "plan");
    char *text = points_page_of(path);
    if (text == NULL)
        return;
    CHECK_HOLDS(text, "<h1>Search of 3 candidates</h1>", "what it is");
    CHECK_HOLDS(text, "<figure id=\"ttft\"><svg", "cost against latency");
    const char *best = strstr(text, "<tr class=\"good\"><td>bf16<td>2<td>best");
    const char *misses = strstr(text, "<td>1<td>misses");
    CHECK_NOTE(best != NULL && misses != NULL && best < misses, "the best comes first");
    CHECK_HOLDS(text, "want &lt;500&gt; ms", "what the other misses");
    free(text);
    points_file_write(path, "sweep");
    text = points_page_of(path);
    CHECK_HOLDS(text != NULL ? text : "", "<h1>Sweep of 3 points</h1>", "the same as a sweep");
    CHECK_HOLDS(text != NULL ? text : "", ">fleet.serve.replicas</text>", "the axis");
    free(text);
    unlink(path);
}

static void a_run_is_wanted_where_there_are_points(void)
{
    static struct kvt_report report;
    struct kvt_points_page page;
    char path[256];
    struct kvt_err err = {0}, other = {0};
    snprintf(path, sizeof path, "%s", check_temp("points.h5"));
    points_file_write(path, "sweep");
    CHECK_FAILS(kvt_report_read(&report, path, NULL, 0, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "want the file of a run (simulate -o), got that of a sweep", "");
    kvt_report_release(&report);
    write_run(path, "a run");
    CHECK_FAILS(kvt_points_page_read(&page, path, &other), other, KVT_ECONFIG);
    kvt_points_page_release(&page);
    unlink(path);
}

const struct check_test check_report[] = {
    {"a search is a page", a_search_is_a_page, false},
    {"a run is wanted where there are points", a_run_is_wanted_where_there_are_points, false},
    {"a distribution is a few hundred points", a_distribution_is_a_few_hundred_points, false},
    {"rates of bins add up", rates_of_bins_add_up, false},
    {"axes say numbers for people", axes_say_numbers_for_people, false},
    {"a chart draws its points in its frame", a_chart_draws_its_points_in_its_frame, false},
    {"texts are XML whatever they hold", texts_are_xml_whatever_they_hold, false},
    {"bands and bars lie where their numbers are", bands_and_bars_lie_where_their_numbers_are,
     false},
    {"axes of many decades have few marks", axes_of_many_decades_have_few_marks, false},
    {"a page says what the run did", a_page_says_what_the_run_did, false},
    {"a measured run stands beside it", a_measured_run_stands_beside_it, false},
    {"a run file cut short is refused", a_run_file_cut_short_is_refused, false},
    {NULL, NULL, false},
};
