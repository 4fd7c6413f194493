/* Two runs side by side, from the files that they wrote. */
#include <hdf5.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/output/compare.h"
#include "sim/output/hdf5.h"
#include "sim/output/log.h"
#include "tests/check.h"
#include "tests/scarce.h"

enum { MS = KVT_TICKS_PER_MS };

/* What the files of a test differ in. */
struct variant {
    const char *config;
    int64_t records; /* logged; 0: no log */
    int64_t changed; /* index of the record that differs; -1: none */
    int32_t finish_ms;
    uint64_t seed;
    int32_t rejected_input; /* tokens of the request that no metric counts */
    int32_t rows;           /* requests; 0: two */
    bool empty_log, judged; /* a log without records; an SLO, whose metrics others lack */
    bool later;             /* its changed record is of a later version: kind and replica unknown */
    const char *title;
};

static const struct variant plain = {.config = "run: {seed: 3}\n",
                                     .records = 20000,
                                     .changed = -1,
                                     .finish_ms = 120,
                                     .seed = 3,
                                     .rejected_input = 200};

static const char *path_of(const char *name)
{
    static char paths[4][96];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "build/test-compare-%ld-%s", (long)getpid(), name);
    return path;
}

static void log_records(struct kvt_run_file *file, const struct variant *v)
{
    struct kvt_err err = {0};
    struct kvt_decision_log log;
    CHECK_OK(kvt_decision_log_begin(&log, file, NULL, &err), err);
    for (int64_t i = 0; i < v->records; i++) {
        struct kvt_decision record = {.time = i * 4096,
                                      .count = i == v->changed ? 4711 : i % 9,
                                      .request = (int32_t)(i / 4),
                                      .replica = (int16_t)(i % 2 - 1),
                                      .kind = KVT_DECIDE_ADMIT};
        if (v->later && i == v->changed) {
            record.kind = 250;
            record.replica = 77;
        }
        kvt_decision_log_add(&log, &record);
    }
    CHECK_OK(kvt_decision_log_finish(&log, &err), err);
}

static void write_run(const char *path, struct variant v)
{
    struct kvt_err err = {0};
    struct kvt_arena arena;
    CHECK_OK(kvt_arena_init(&arena, (size_t)4 << 20, &err), err);
    const kvt_ticks arrival[] = {0, 10 * (kvt_ticks)MS, 20 * (kvt_ticks)MS};
    const kvt_ticks first[] = {9 * (kvt_ticks)MS, KVT_NEVER, KVT_NEVER};
    const kvt_ticks finish[] = {v.finish_ms * (kvt_ticks)MS, KVT_NEVER, KVT_NEVER};
    const int32_t input[] = {100, v.rejected_input, 7}, output[] = {4, 5, 6};
    const uint8_t fate[] = {KVT_FATE_COMPLETED, KVT_FATE_REJECTED, KVT_FATE_PENDING};
    const struct kvt_result_replica replica = {.name = "serve-0", .pages = 10, .pages_peak = 7};
    struct kvt_result result = {.seed = v.seed,
                                .config = v.config,
                                .title = v.title,
                                .rows = v.rows > 0 ? v.rows : 2,
                                .slo = {{KVT_LATENCY_TTFT, 0.9, 5 * (kvt_ticks)MS}},
                                .slo_count = v.judged ? 1 : 0,
                                .arrival = arrival,
                                .first_token = first,
                                .finish = finish,
                                .input = input,
                                .output = output,
                                .fate = fate,
                                .replica_count = 1,
                                .replicas = &replica};
    struct kvt_summary *summary = malloc(sizeof *summary);
    struct kvt_run_file file;
    CHECK_OK(kvt_summary_init(summary, &result, &arena, &err), err);
    CHECK_OK(kvt_run_file_begin(&file, path, &err), err);
    if (v.records > 0 || v.empty_log)
        log_records(&file, &v);
    CHECK_OK(kvt_run_file_finish(&file, summary, &err), err);
    free(summary);
    kvt_arena_release(&arena);
}

static struct kvt_comparison comparison;

static void compare(struct variant a, struct variant b)
{
    struct kvt_err err = {0};
    const char *path_a = path_of("a.h5"), *path_b = path_of("b.h5");
    write_run(path_a, a);
    write_run(path_b, b);
    CHECK_OK(kvt_comparison_init(&comparison, path_a, path_b, &err), err);
}

static void done(void)
{
    kvt_comparison_release(&comparison);
    CHECK_I64(unlink(path_of("a.h5")), 0, "a");
    CHECK_I64(unlink(path_of("b.h5")), 0, "b");
}

typedef enum kvt_status (*printer)(const struct kvt_comparison *, FILE *, struct kvt_err *);

static const char *printed(printer print)
{
    static char text[16384];
    struct kvt_err err = {0};
    FILE *file = tmpfile();
    CHECK_OK(print(&comparison, file, &err), err);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void equal_runs_are_equal(void)
{
    compare(plain, plain);
    CHECK(comparison.equal);
    CHECK_I64(comparison.divergence, -1, "none");
    CHECK(comparison.metrics.count > 25);
    CHECK_I64(comparison.metrics.different, 0, "metrics");
    CHECK_HOLDS(printed(kvt_comparison_text), "The runs are equal.", "text");
    CHECK_HOLDS(printed(kvt_comparison_text), "Decisions: all 20000 equal", "text");
    done();
}

static void the_first_record_that_differs_is_found(void)
{
    /* The edges of a block of 16384 records, the first and the last record. */
    static const int64_t places[] = {0, 2, 16383, 16384, 19999};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct variant changed = plain;
        changed.changed = places[i];
        compare(plain, changed);
        CHECK(!comparison.equal);
        CHECK_I64(comparison.divergence, places[i], "index");
        int64_t at = comparison.divergence - comparison.context_first;
        CHECK_I64(at, places[i] < KVT_CONTEXT ? places[i] : KVT_CONTEXT, "context before");
        CHECK_I64(comparison.context[0][at].count, places[i] % 9, "A's record");
        CHECK_I64(comparison.context[1][at].count, 4711, "B's record");
        done();
    }
}

static void a_log_that_ends_early_differs_where_it_ends(void)
{
    struct variant shorter = plain;
    shorter.records = 19998;
    compare(plain, shorter);
    CHECK_I64(comparison.divergence, 19998, "the end of the shorter one");
    CHECK_I64(comparison.context_count[0], 5, "three before, two after");
    CHECK_I64(comparison.context_count[1], 3, "three before");
    CHECK_HOLDS(printed(kvt_comparison_text), " B      19998  the log ends here", "in words");
    done();
}

static void runs_without_logs_are_compared_by_their_metrics(void)
{
    struct variant a = plain, b = plain;
    a.records = 0;
    b.finish_ms = 150;
    compare(a, b);
    CHECK(!comparison.equal);
    CHECK_HOLDS(printed(kvt_comparison_text), "Decisions: A has no log", "in words");
    CHECK_HOLDS(printed(kvt_comparison_csv), "metric,duration,0.12,0.15,0.25,false\n", "CSV");
    json_t *object = json_loads(printed(kvt_comparison_json), 0, NULL);
    CHECK(json_is_false(json_object_get(object, "equal")));
    CHECK(json_is_null(json_object_get(json_object_get(object, "decisions"), "equal")));
    json_t *metrics = json_object_get(object, "metrics"), *row;
    size_t i;
    bool found = false;
    json_array_foreach(metrics, i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), "mean_e2el_ms") != 0)
            continue;
        found = true;
        CHECK_CLOSE(json_number_value(json_object_get(row, "a")), 120, 1e-12, "A");
        CHECK_CLOSE(json_number_value(json_object_get(row, "b")), 150, 1e-12, "B");
        CHECK_CLOSE(json_number_value(json_object_get(row, "difference")), 0.25, 1e-9, "B/A - 1");
    }
    CHECK(found);
    json_decref(object);
    done();
}

/* Each way to differ, in each format: what is said, and what is not. */
static void a_difference_is_told_in_each_format(void)
{
    const struct variant none = {.config = plain.config, .finish_ms = 120, .seed = 3};
    struct variant b[9];
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        b[i] = plain;
    b[0].changed = 5;
    b[1].changed = 5;
    b[1].later = true;
    b[2].records = 4;
    b[3].records = 0;
    b[3].empty_log = true;
    b[4].records = 0;
    b[5].rows = 3;
    b[6].rows = 1;
    b[7].judged = true;
    b[8].config = "run: {seed: 3, name: \"a, \\\"b\\\"\", note: \"one\\ntwo\", "
                  "long: a-value-of-more-than-eighteen}\n";
    b[8].title = "of more than eighteen";
    const struct {
        struct variant a, b;
        printer print;
        const char *want, *never;
    } rows[] = {
        {plain, b[0], kvt_comparison_json, "\"divergence\": 5,\n    \"a\": [", "\"?\""},
        {plain, b[0], kvt_comparison_json,
         "\"index\": 5,\n        \"ticks\": 20480,\n        \"time_s\": 2e-8,\n"
         "        \"request\": 1,\n        \"replica\": \"serve-0\",\n"
         "        \"kind\": \"ADMIT\",\n        \"count\": 4711",
         NULL},
        {plain, b[0], kvt_comparison_json, "\"replica\": \"router\"", NULL},
        {plain, b[0], kvt_comparison_csv, "decisions,divergence,5,5,,false\ndecisions,record,",
         NULL},
        {plain, b[0], kvt_comparison_text, "they part at record 5 (from 0)\n            2  ", NULL},
        {plain, b[1], kvt_comparison_json, "\"kind\": \"?\"", NULL},
        {plain, b[1], kvt_comparison_text, " B          5  ", NULL},
        {plain, b[2], kvt_comparison_csv, ",,,false\n", "decisions,divergence,5"},
        {b[2], plain, kvt_comparison_text, " A          4  the log ends here", NULL},
        {plain, b[3], kvt_comparison_text, "20000 in A, 0 in B; they part at record 0", NULL},
        {b[3], plain, kvt_comparison_json, "\"count_a\": 0,", NULL},
        {plain, b[4], kvt_comparison_text, "Decisions: B has no log", NULL},
        {plain, b[4], kvt_comparison_json, "\"count_b\": null,\n    \"equal\": null", NULL},
        {none, none, kvt_comparison_text, "Decisions: neither run has a log", NULL},
        {plain, plain, kvt_comparison_json, "\"equal\": true,\n    \"divergence\": null", NULL},
        {plain, plain, kvt_comparison_csv, "kind,name,a,b,difference,equal\nmetric,", "decisions"},
        {plain, b[5], kvt_comparison_text,
         "Requests: 2 in A, 3 in B; 1 differ, the first is number 2 (from 0)", NULL},
        {b[5], b[6], kvt_comparison_json, "\"different\": 2,\n    \"first\": 1", NULL},
        {plain, b[7], kvt_comparison_text,
         "slo_ttft_p90_ms                                       -", NULL},
        {b[7], plain, kvt_comparison_csv, "metric,slo_ttft_p90_target_ms,5,,,false\n", NULL},
        {b[7], plain, kvt_comparison_json,
         "\"name\": \"slo_ttft_p90_target_ms\",\n      \"a\": 5.0,\n      \"b\": null,\n"
         "      \"difference\": null",
         NULL},
        {plain, b[8], kvt_comparison_csv, "config,run.name,,\"a, \"\"b\"\"\",,false\n", NULL},
        {plain, b[8], kvt_comparison_csv, "config,run.note,,\"one\ntwo\",,false\n", NULL},
        {plain, b[8], kvt_comparison_text,
         " * run.long\n     A  -\n     B  a-value-of-more-than-eighteen\n", NULL},
        {b[8], plain, kvt_comparison_text,
         " * run.long\n     A  a-value-of-more-than-eighteen\n     B  -\n", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char note[32];
        snprintf(note, sizeof note, "row %zu", i);
        compare(rows[i].a, rows[i].b);
        const char *text = printed(rows[i].print);
        CHECK_HOLDS(text, rows[i].want, note);
        CHECK_NOTE(rows[i].never == NULL || strstr(text, rows[i].never) == NULL, note);
        done();
    }
}

static enum kvt_status print_json(const void *context, uint64_t *digest, struct kvt_err *err)
{
    char *text = NULL;
    size_t count = 0;
    FILE *file = open_memstream(&text, &count);
    if (file == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a file");
    enum kvt_status status = kvt_comparison_json(context, file, err);
    fclose(file);
    for (size_t i = 0; status == KVT_OK && i < count; i++)
        *digest = kvt_digest_add(*digest, (unsigned char)text[i]);
    free(text);
    return status;
}

static void without_memory_for_json_it_is_told(void)
{
    struct variant b = plain;
    b.changed = 5;
    b.judged = true;
    b.config = "run: {seed: 4}\n";
    compare(plain, b);
    scarce_each(print_json, &comparison, 1, "a comparison as JSON");
    done();
}

static void a_different_config_or_seed_alone_makes_no_difference(void)
{
    struct variant b = plain;
    b.config = "run: {seed: 4, warmup: \"1 s\"}\n";
    b.seed = 4;
    compare(plain, b);
    CHECK(comparison.equal);
    CHECK_I64(comparison.config.different, 2, "keys");
    CHECK_HOLDS(printed(kvt_comparison_csv), "config,run.seed,3,4,,false\n", "changed");
    CHECK_HOLDS(printed(kvt_comparison_csv), "config,run.warmup,,1 s,,false\n", "new");
    CHECK_HOLDS(printed(kvt_comparison_csv), "meta,seed,3,4,0.333333333333,false\n", "seed");
    done();
}

static void a_request_that_differs_is_found(void)
{
    struct variant b = plain;
    b.rejected_input = 201;
    compare(plain, b);
    CHECK_I64(comparison.metrics.different, 0, "no metric tells");
    CHECK_I64(comparison.requests_different, 1, "requests");
    CHECK_I64(comparison.first_different, 1, "the second");
    CHECK(!comparison.equal);
    CHECK_HOLDS(printed(kvt_comparison_text),
                "Requests: 2 in A, 2 in B; 1 differ, the first is number 1 (from 0)", "in words");
    CHECK_HOLDS(printed(kvt_comparison_csv), "requests,first,1,1,,false\n", "CSV");
    json_t *object = json_loads(printed(kvt_comparison_json), 0, NULL);
    json_t *requests = json_object_get(object, "requests");
    CHECK_I64(json_integer_value(json_object_get(requests, "different")), 1, "JSON");
    json_decref(object);
    done();
}

static void yaml_becomes_paths(void)
{
    struct kvt_pairs pairs = {0};
    struct kvt_err err = {0};
    CHECK_OK(kvt_pairs_add_yaml(&pairs, 0, "a", "a: {b: 1, c: [2, {d: x}, []]}\ne:\n  f: \"1 s\"\n",
                                &err),
             err);
    static const char *const want[][2] = {
        {"a.b", "1"}, {"a.c[0]", "2"}, {"a.c[1].d", "x"}, {"e.f", "1 s"}};
    CHECK_I64(pairs.count, 4, "scalars");
    for (int32_t i = 0; i < pairs.count && i < 4; i++) {
        CHECK_TEXT(pairs.pairs[i].name, want[i][0], "path");
        CHECK_TEXT(pairs.pairs[i].text[0], want[i][1], "value");
    }
    CHECK_FAILS(kvt_pairs_add_yaml(&pairs, 1, "b.h5", "a: [1", &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "b.h5: the stored configuration cannot be read", "reason");
    kvt_pairs_release(&pairs);
}

static void change_layout(const char *path, int layout)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t attribute = H5Aopen(file, "layout", H5P_DEFAULT);
    CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &layout) >= 0);
    H5Aclose(attribute);
    H5Fclose(file);
}

static void files_that_are_no_runs_are_refused(void)
{
    const char *good = path_of("a.h5"), *bad = path_of("bad.h5");
    struct kvt_err err = {0};
    write_run(good, plain);
    CHECK_FAILS(kvt_comparison_init(&comparison, good, "build/no-such.h5", &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "build/no-such.h5: cannot read: No such file", "missing");
    kvt_comparison_release(&comparison);

    err = (struct kvt_err){0};
    CHECK_OK(kvt_file_write(bad, "a,b\n1,2\n", 8, &err), err);
    CHECK_FAILS(kvt_comparison_init(&comparison, bad, good, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "bad.h5: want an HDF5 file of kvtwin's, got something else", "a CSV");
    kvt_comparison_release(&comparison);

    struct kvt_text whole = {0};
    err = (struct kvt_err){0};
    CHECK_OK(kvt_text_read(good, 1u << 30, &whole, &err), err);
    static const size_t cuts[] = {0, 7, 40, 200, 5000, 400000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        err = (struct kvt_err){0};
        CHECK(cuts[i] < whole.count);
        CHECK_OK(kvt_file_write(bad, whole.bytes, cuts[i], &err), err);
        CHECK_FAILS(kvt_comparison_init(&comparison, good, bad, &err), err, KVT_ECONFIG);
        kvt_comparison_release(&comparison);
    }
    CHECK_HOLDS(err.text, "truncated file", "the last one says so");

    err = (struct kvt_err){0};
    CHECK_OK(kvt_file_write(bad, whole.bytes, whole.count, &err), err);
    change_layout(bad, 2);
    CHECK_FAILS(kvt_comparison_init(&comparison, good, bad, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "bad.h5: want layout 1, got 2", "another version");
    kvt_comparison_release(&comparison);

    err = (struct kvt_err){0};
    H5Fclose(H5Fcreate(bad, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    CHECK_FAILS(kvt_comparison_init(&comparison, good, bad, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "not one of a kvtwin run", "someone else's HDF5");
    kvt_comparison_release(&comparison);
    kvt_text_free(&whole);
    unlink(bad);
    unlink(good);
}

const struct check_test check_compare[] = {
    {.name = "equal runs are equal", .run = equal_runs_are_equal},
    {.name = "the first record that differs is found",
     .run = the_first_record_that_differs_is_found},
    {.name = "a log that ends early differs where it ends",
     .run = a_log_that_ends_early_differs_where_it_ends},
    {.name = "runs without logs are compared by their metrics",
     .run = runs_without_logs_are_compared_by_their_metrics},
    {.name = "a difference is told in each format", .run = a_difference_is_told_in_each_format},
    {.name = "without memory for JSON it is told", .run = without_memory_for_json_it_is_told},
    {.name = "a different config or seed alone makes no difference",
     .run = a_different_config_or_seed_alone_makes_no_difference},
    {.name = "a request that differs is found", .run = a_request_that_differs_is_found},
    {.name = "YAML becomes paths", .run = yaml_becomes_paths},
    {.name = "files that are no runs are refused", .run = files_that_are_no_runs_are_refused},
    {0},
};
