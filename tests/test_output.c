#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/output/hdf5.h"
#include "sim/output/log.h"
#include "sim/output/progress.h"
#include "sim/output/summary.h"
#include "tests/check.h"
#include "tests/small_run.h"

static struct small_run run;

enum { ROWS = SMALL_RUN_ROWS, MS = KVT_TICKS_PER_MS };

static void run_begin(void)
{
    small_run_begin(&run);
}

static void run_end(void)
{
    small_run_end(&run);
}

typedef enum kvt_status (*printer)(const struct kvt_summary *, FILE *, struct kvt_err *);

/* What a printer writes; static storage, one at a time. */
static const char *printed(printer print)
{
    static char text[16384];
    struct kvt_err err = {0};
    FILE *file = tmpfile();
    CHECK_OK(print(&run.summary, file, &err), err);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static double metric(const char *name)
{
    const struct kvt_metric *found = kvt_summary_find(&run.summary, name);
    CHECK_NOTE(found != NULL && found->has_value, name);
    if (found == NULL)
        return 0;
    return found->kind == KVT_METRIC_REAL ? found->real : (double)found->count;
}

static void the_metrics_of_a_small_run_are_those_by_hand(void)
{
    static const struct {
        const char *name;
        double want;
    } rows[] = {
        {"completed", 3},
        {"rejected", 1},
        {"aborted", 1},
        {"running", 1},
        {"arrived", 6},
        {"duration", 0.25},
        {"request_throughput", 12},
        {"output_throughput", 40},
        {"total_token_throughput", 4040},
        {"total_input_tokens", 1000},
        {"total_output_tokens", 10},
        {"mean_ttft_ms", 220.0 / 3},
        {"median_ttft_ms", 50},
        {"p90_ttft_ms", 106},
        {"p99_ttft_ms", 118.6},
        {"mean_tpot_ms", 30},
        {"median_tpot_ms", 30},
        {"p90_tpot_ms", 46},
        {"mean_itl_ms", 230.0 / 7},
        {"median_itl_ms", 50},
        {"mean_e2el_ms", 150},
        {"median_e2el_ms", 120},
        {"request_goodput", 4},
        {"preemptions", 3},
        {"prefix_hit_fraction", 0.256},
        {"evicted_pages", 3},
        {"pages_peak_fraction", 0.75},
        {"slo_ttft_p90_met", 0},
        {"slo_itl_p99_met", 0},
        {"slo_met", 0},
        {"output_throughput_per_gpu", 20},
        {"cost_usd_per_mtok", 7.2 * 0.25 / 3600 / 1010e-6},
        {"seed", 2385},
    };
    run_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_CLOSE(metric(rows[i].name), rows[i].want, 2e-3, rows[i].name);
    CHECK_CLOSE(metric("mean_ttft_ms"), 220.0 / 3, 1e-9, "means are exact");
    CHECK_TEXT(kvt_summary_find(&run.summary, "digest")->text, "0123456789abcdef", "digest");
    run_end();
}

static void goodput_takes_what_meets_the_bounds_exactly(void)
{
    /* Request 1 has a TTFT of 50 ms and a mean ITL of 50 ms; request 5 has 50 and 10. */
    static const struct {
        kvt_ticks ttft, itl;
        double want;
    } rows[] = {
        {50 * (kvt_ticks)MS, 50 * (kvt_ticks)MS, 8},
        {50 * (kvt_ticks)MS, 50 * (kvt_ticks)MS - 1, 4},
        {50 * (kvt_ticks)MS - 1, 50 * (kvt_ticks)MS, 0},
        {120 * (kvt_ticks)MS, 1, 4}, /* request 2 has no gap */
    };
    run_begin();
    struct kvt_err err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run.result.slo[0].limit = rows[i].ttft;
        run.result.slo[1].limit = rows[i].itl;
        CHECK_OK(kvt_summary_init(&run.summary, &run.result, &run.arena, &err), err);
        CHECK_CLOSE(metric("request_goodput"), rows[i].want, 1e-12, "a row");
    }
    /* With two bounds on one latency the looser one says what a request must meet. */
    run.result.slo[2] = (struct kvt_slo_bound){KVT_LATENCY_ITL, 0.5, 50 * (kvt_ticks)MS};
    run.result.slo_count = 3;
    CHECK_OK(kvt_summary_init(&run.summary, &run.result, &run.arena, &err), err);
    CHECK_CLOSE(metric("request_goodput"), 12, 1e-12, "all three");
    run_end();
}

static void the_text_table_reads_like_this(void)
{
    run_begin();
    static const char want[] =
        /* clang-format off */
        "tiny, bf16\n"
        "serve: 2 x 1 h100-sxm, bf16\n"
        "========================= Serving result =========================\n"
        "Completed requests:                                              3\n"
        "Rejected requests:                                               1\n"
        "Aborted requests:                                                1\n"
        "Still running:                                                   1\n"
        "Duration (s):                                                 0.25\n"
        "Total input tokens:                                           1000\n"
        "Total output tokens:                                            10\n"
        "Request throughput (req/s):                                  12.00\n"
        "Output token throughput (tok/s):                             40.00\n"
        "Total token throughput (tok/s):                            4040.00\n"
        "Request goodput (req/s):                                      4.00\n"
        "Preemptions:                                                     3\n"
        "Prefix cache hits (fraction of input):                        0.26\n"
        "Peak KV pages in use (fraction):                              0.75\n"
        "Output throughput per GPU (tok/s):                           20.00\n"
        "Cost (USD/h):                                                 7.20\n"
        "Cost (USD/Mtok, in and out):                                  0.50\n"
        "Cost (USD/Mtok, output):                                     50.00\n"
        "-------------------------- Latency (ms) --------------------------\n"
        "                    mean        median           p90           p99\n"
        "TTFT               73.33         50.05        106.01        118.60\n"
        "TPOT               30.00         30.00         46.00         49.60\n"
        "ITL                32.86         49.95         49.99         50.00\n"
        "E2EL              150.00        119.93        223.99        247.40\n"
        "------------------------------ SLO -------------------------------\n"
        "TTFT p90 <= 100.00 ms                           106.01 ms   missed\n"
        "ITL p99 <= 20.00 ms                              50.00 ms   missed\n"
        "----------------- Replicas (means over the run) ------------------\n"
        "                    busy   running   waiting  KV in use    KV peak\n"
        "serve-0             0.25      1.50      0.50     0.3000     0.4000\n"
        "serve-1             0.50      2.00      0.50     0.3000     0.7500\n"
        "==================================================================\n"
        "seed 2385, digest 0123456789abcdef\n";
    /* clang-format on */
    CHECK_TEXT(printed(kvt_summary_text), want, "golden");
    run_end();
}

static void json_says_the_same_and_keeps_its_order(void)
{
    run_begin();
    json_error_t error;
    json_t *object = json_loads(printed(kvt_summary_json), 0, &error);
    CHECK_NOTE(object != NULL, error.text);
    const char *first = json_object_iter_key(json_object_iter(object));
    CHECK_TEXT(first, "request_throughput", "the contract's first key");
    CHECK_CLOSE(json_number_value(json_object_get(object, "p90_ttft_ms")), metric("p90_ttft_ms"),
                1e-11, "twelve digits");
    CHECK(json_is_integer(json_object_get(object, "completed")));
    CHECK(json_object_get(object, "timing") == NULL);
    CHECK(json_object_get(object, "events") == NULL);
    json_t *slo = json_object_get(object, "slo");
    CHECK_I64((int64_t)json_array_size(slo), 2, "bounds");
    CHECK_TEXT(json_string_value(json_object_get(json_array_get(slo, 1), "percentile")), "p99",
               "judged apart");
    CHECK(json_is_false(json_object_get(json_array_get(slo, 1), "met")));
    json_decref(object);
    run.result.timing = (struct kvt_timing){true, 2, -1, -1, 0.5, -1};
    object = json_loads(printed(kvt_summary_json), 0, &error);
    json_t *timing = json_object_get(object, "timing");
    CHECK_CLOSE(json_number_value(json_object_get(timing, "requests_per_s")), 14, 1e-12, "7 / 0.5");
    CHECK_CLOSE(json_number_value(json_object_get(timing, "steps_per_s")), 30, 1e-12, "15 / 0.5");
    CHECK_I64(json_integer_value(json_object_get(timing, "events")), 31, "events");
    json_decref(object);
    run_end();
}

static void csv_has_one_header_and_one_row_of_equal_length(void)
{
    run_begin();
    const char *text = printed(kvt_summary_csv);
    int commas[3] = {0}, line = 0;
    for (const char *c = text; *c != '\0' && line < 3; c++) {
        commas[line] += *c == ',';
        line += *c == '\n';
    }
    CHECK_I64(line, 2, "lines");
    CHECK(commas[0] > 30);
    CHECK_I64(commas[0], commas[1], "columns");
    CHECK(strncmp(text, "request_throughput,", 19) == 0);
    CHECK_HOLDS(text, "\n12,40,4040,", "the row");
    CHECK_HOLDS(text, "slo_ttft_p90_target_ms", "nested metrics are flat in CSV");
    run_end();
}

static void an_interval_adds_low_and_high(void)
{
    run_begin();
    struct kvt_metric *first = &run.summary.metrics[0];
    first->has_interval = true;
    first->low = 11.5;
    first->high = 12.5;
    CHECK_HOLDS(printed(kvt_summary_csv),
                "request_throughput,request_throughput_low,request_throughput_high,output", "CSV");
    CHECK_HOLDS(printed(kvt_summary_json), "\"request_throughput_low\": 11.5,", "JSON");
    CHECK_HOLDS(printed(kvt_summary_text), " 12.00 \xc2\xb1 0.50\n", "text");
    run_end();
}

static void nothing_completed_is_no_value_and_no_division(void)
{
    run_begin();
    static const uint8_t fates[ROWS] = {KVT_FATE_REJECTED, KVT_FATE_REJECTED, KVT_FATE_REJECTED};
    struct kvt_err err = {0};
    run.result.fate = fates;
    run.result.itl = NULL;
    CHECK_OK(kvt_summary_init(&run.summary, &run.result, &run.arena, &err), err);
    CHECK_CLOSE(metric("request_throughput"), 0, 0, "none a second");
    CHECK_CLOSE(metric("duration"), 0, 0, "nothing lasted");
    CHECK(!kvt_summary_find(&run.summary, "mean_ttft_ms")->has_value);
    CHECK_HOLDS(printed(kvt_summary_json), "\"mean_itl_ms\": null", "JSON");
    CHECK_HOLDS(printed(kvt_summary_text), "TTFT                   -", "text");
    CHECK(!run.summary.slo_all_met);
    run.result.slo_count = 0;
    run.result.rows = 0;
    CHECK_OK(kvt_summary_init(&run.summary, &run.result, &run.arena, &err), err);
    CHECK(run.summary.slo_all_met);
    CHECK_CLOSE(metric("arrived"), 0, 0, "an empty trace");
    run_end();
}

/* ---- files ---- */

static const char *folder(void)
{
    static char path[64];
    snprintf(path, sizeof path, "build/test-output-%ld", (long)getpid());
    CHECK_NOTE(mkdir(path, 0777) == 0 || errno == EEXIST, path);
    return path;
}

static const char *in_folder(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder(), name);
    return path[turn];
}

static void clean(void)
{
    static const char *const names[] = {"a.h5", "b.h5", "log.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    /* Fails, and with it the test, where a temporary was left behind. */
    CHECK_I64(rmdir(folder()), 0, "no file is left");
}

static struct kvt_decision decision(int64_t i)
{
    return (struct kvt_decision){.time = i * 1009,
                                 .count = i % 77,
                                 .request = (int32_t)(i / 3),
                                 .replica = (int16_t)(i % 3 - 1),
                                 .kind = (int16_t)(i % KVT_DECISION_KINDS)};
}

static enum kvt_status write_run(const char *path, int64_t decisions, const char *text_path,
                                 struct kvt_err *err)
{
    struct kvt_run_file file;
    KVT_TRY(kvt_run_file_begin(&file, path, err));
    if (decisions > 0) {
        struct kvt_decision_log log;
        enum kvt_status status = kvt_decision_log_begin(&log, &file, text_path, err);
        for (int64_t i = 0; status == KVT_OK && i < decisions; i++) {
            struct kvt_decision record = decision(i);
            kvt_decision_log_add(&log, &record);
        }
        if (status == KVT_OK)
            status = kvt_decision_log_finish(&log, err);
        if (status != KVT_OK) {
            kvt_run_file_abandon(&file);
            return status;
        }
    }
    return kvt_run_file_finish(&file, &run.summary, err);
}

static void equal_runs_write_equal_bytes(void)
{
    run_begin();
    struct kvt_err err = {0};
    struct kvt_text a = {0}, b = {0};
    CHECK_OK(write_run(in_folder("a.h5"), 40000, NULL, &err), err);
    struct timespec second = {.tv_sec = 1, .tv_nsec = 10000000};
    nanosleep(&second, NULL); /* HDF5 would keep times in seconds */
    CHECK_OK(write_run(in_folder("b.h5"), 40000, NULL, &err), err);
    CHECK_OK(kvt_text_read(in_folder("a.h5"), 1u << 30, &a, &err), err);
    CHECK_OK(kvt_text_read(in_folder("b.h5"), 1u << 30, &b, &err), err);
    CHECK(a.count > 40000 * sizeof(struct kvt_decision));
    CHECK(a.count == b.count && memcmp(a.bytes, b.bytes, a.count) == 0);
    kvt_text_free(&a);
    kvt_text_free(&b);
    clean();
    run_end();
}

static void times_are_stored_in_ns(void)
{
    run_begin();
    struct kvt_err err = {0};
    int64_t finish[ROWS] = {0};
    int32_t layout = 0;
    run.finish[0] = 150 * (kvt_ticks)MS + 512; /* half a ns more */
    CHECK_OK(write_run(in_folder("a.h5"), 0, NULL, &err), err);
    hid_t file = H5Fopen(in_folder("a.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file >= 0);
    hid_t dataset = H5Dopen2(file, "/requests/finish", H5P_DEFAULT);
    CHECK(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, finish) >= 0);
    CHECK_I64(finish[0], 150000001, "rounded");
    CHECK_I64(finish[1], 260000000, "exact");
    CHECK_I64(finish[3], -1, "none");
    hid_t attribute = H5Aopen(file, "layout", H5P_DEFAULT);
    CHECK(H5Aread(attribute, H5T_NATIVE_INT32, &layout) >= 0);
    CHECK_I64(layout, KVT_RUN_LAYOUT, "layout");
    H5Aclose(attribute);
    H5Dclose(dataset);
    H5Fclose(file);
    clean();
    run_end();
}

static void a_full_disk_leaves_nothing_and_says_so(void)
{
    run_begin();
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    static const struct {
        rlim_t bytes;
        int64_t decisions;
    } rows[] = {{500, 0}, {6000, 0}, {100000, 20000}, {500000, 20000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_err err = {0};
        small = (struct rlimit){.rlim_cur = rows[i].bytes, .rlim_max = old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        enum kvt_status status = write_run(in_folder("a.h5"), rows[i].decisions, NULL, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        CHECK_I64(status, KVT_EIO, "exit code");
        CHECK_HOLDS(err.text, "a.h5: cannot write: File too large", "path and reason");
        CHECK(access(in_folder("a.h5"), F_OK) != 0);
        clean();
    }
    run_end();
}

static void an_unwritable_place_is_refused_before_the_run(void)
{
    struct kvt_err err = {0};
    struct kvt_run_file file;
    struct kvt_decision_log log;
    CHECK_FAILS(kvt_run_file_begin(&file, "build/no-such-folder/a.h5", &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "build/no-such-folder/a.h5: cannot write: No such file", "reason");
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_run_file_begin(&file, "/dev/full", &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "/dev/full", "path");
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_decision_log_begin(&log, NULL, "build/no-such-folder/log.txt", &err), err,
                KVT_EIO);
    CHECK_HOLDS(err.text, "build/no-such-folder/log.txt", "path");
    kvt_decision_log_abandon(&log);
    kvt_run_file_abandon(&file);
}

static void a_log_in_text_has_a_line_for_each_record(void)
{
    run_begin();
    struct kvt_err err = {0};
    struct kvt_text text = {0};
    CHECK_OK(write_run(in_folder("a.h5"), 20000, in_folder("log.txt"), &err), err);
    CHECK_OK(kvt_text_read(in_folder("log.txt"), 1u << 24, &text, &err), err);
    int64_t lines = 0;
    for (size_t i = 0; i < text.count; i++)
        lines += text.bytes[i] == '\n';
    CHECK_I64(lines, 20000, "lines");
    kvt_text_free(&text);
    char words[160];
    static const char *const names[] = {"prefill-0", "decode-0"};
    struct kvt_decision record = {.time = 1234567890123 * INT64_C(1024) + 7,
                                  .count = 12,
                                  .request = 17,
                                  .replica = 1,
                                  .kind = KVT_DECIDE_PREEMPT};
    CHECK_TEXT(kvt_decision_print(&record, names, 2, words, sizeof words),
               "1234.567890123+0007 s  request 17       decode-0     PREEMPT    12", "in words");
    record.request = record.replica = -1;
    CHECK_TEXT(kvt_decision_print(&record, NULL, 0, words, sizeof words),
               "1234.567890123+0007 s  request -        router       PREEMPT    12", "no request");
    clean();
    run_end();
}

/* What a call writes to stderr; static storage. */
static const char *told(struct kvt_progress *progress, void (*call)(struct kvt_progress *))
{
    static char text[512];
    FILE *file = tmpfile();
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    call(progress);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void tell_half(struct kvt_progress *progress)
{
    kvt_progress_tell(progress, 0.5, 4711);
}

static void a_progress_bar_draws_now_and_then_and_is_erased(void)
{
    struct kvt_progress progress;
    kvt_progress_begin(&progress, "simulating", "requests", false);
    progress.next_ns = 0;
    CHECK_TEXT(told(&progress, tell_half), "", "not shown");
    CHECK_TEXT(told(&progress, kvt_progress_end), "", "nothing to erase");
    kvt_progress_begin(&progress, "simulating", "requests", true);
    CHECK_TEXT(told(&progress, tell_half), "", "too early");
    progress.next_ns = 0; /* as if half a second had passed */
    CHECK_HOLDS(told(&progress, tell_half),
                "\rsimulating [###############...............]  50 %  4711 requests", "drawn");
    CHECK_TEXT(told(&progress, tell_half), "", "not again at once");
    CHECK_TEXT(told(&progress, kvt_progress_end), "\r\033[K", "erased");
    CHECK_TEXT(told(&progress, kvt_progress_end), "", "once");
}

const struct check_test check_output[] = {
    {.name = "the metrics of a small run are those by hand",
     .run = the_metrics_of_a_small_run_are_those_by_hand},
    {.name = "goodput takes what meets the bounds exactly",
     .run = goodput_takes_what_meets_the_bounds_exactly},
    {.name = "the text table reads like this", .run = the_text_table_reads_like_this},
    {.name = "JSON says the same and keeps its order",
     .run = json_says_the_same_and_keeps_its_order},
    {.name = "CSV has one header and one row of equal length",
     .run = csv_has_one_header_and_one_row_of_equal_length},
    {.name = "an interval adds low and high", .run = an_interval_adds_low_and_high},
    {.name = "nothing completed is no value and no division",
     .run = nothing_completed_is_no_value_and_no_division},
    {.name = "equal runs write equal bytes", .run = equal_runs_write_equal_bytes},
    {.name = "times are stored in ns", .run = times_are_stored_in_ns},
    {.name = "a full disk leaves nothing and says so",
     .run = a_full_disk_leaves_nothing_and_says_so},
    {.name = "an unwritable place is refused before the run",
     .run = an_unwritable_place_is_refused_before_the_run},
    {.name = "a log in text has a line for each record",
     .run = a_log_in_text_has_a_line_for_each_record},
    {.name = "a progress bar draws now and then and is erased",
     .run = a_progress_bar_draws_now_and_then_and_is_erased},
    {0},
};
