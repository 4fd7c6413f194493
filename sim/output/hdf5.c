#include "sim/output/hdf5.h"

#include <assert.h>
#include <gnu/libc-version.h>
#include <gsl/gsl_version.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sim/base/assert.h"
#include "sim/output/h5.h"
#include "sim/output/log.h"
#include "sim/output/parts.h"

#define BLOCK_ROWS 65536 /* converted at a time */

/* ---- pieces: a group, an attribute, a column ---- */

/* Objects of one file being written. */
struct writer {
    struct kvt_h5 h5;
    hid_t file;
    hid_t dataset_list, group_list;
    int64_t *scratch; /* [BLOCK_ROWS] */
};

static hid_t group_make(struct writer *w, hid_t at, const char *name)
{
    if (w->h5.failed)
        return -1;
    return kvt_h5_id(&w->h5, "H5Gcreate",
                     H5Gcreate2(at, name, H5P_DEFAULT, w->group_list, H5P_DEFAULT));
}

static void group_close(struct writer *w, hid_t group)
{
    if (group >= 0)
        kvt_h5_done(&w->h5, "H5Gclose", H5Gclose(group));
}

static void attribute_i64(struct writer *w, hid_t at, const char *name, int64_t value)
{
    kvt_h5_attribute(&w->h5, at, name, H5T_STD_I64LE, &value);
}

static void attribute_f64(struct writer *w, hid_t at, const char *name, double value)
{
    kvt_h5_attribute(&w->h5, at, name, H5T_IEEE_F64LE, &value);
}

static void attribute_text(struct writer *w, hid_t at, const char *name, const char *text)
{
    if (text != NULL)
        kvt_h5_attribute_text(&w->h5, at, name, text);
}

/* A column as it lies in memory; nothing when it was not kept. */
static void column_write(struct writer *w, hid_t at, const char *name, hid_t type,
                         const void *values, int64_t rows)
{
    if (values != NULL)
        kvt_h5_column(&w->h5, at, name, type, values, rows, w->dataset_list);
}

/* Ticks become ns, and KVT_NEVER -1, block by block in the scratch. */
static void column_write_ns(struct writer *w, hid_t at, const char *name, const kvt_ticks ticks[],
                            int64_t rows)
{
    if (w->h5.failed || ticks == NULL)
        return;
    hsize_t extent = (hsize_t)rows;
    hid_t dataset = kvt_h5_dataset(&w->h5, at, name, H5T_STD_I64LE, 1, &extent, w->dataset_list);
    hid_t space = dataset < 0 ? -1 : kvt_h5_id(&w->h5, "H5Dget_space", H5Dget_space(dataset));
    for (int64_t first = 0; space >= 0 && first < rows && !w->h5.failed; first += BLOCK_ROWS) {
        int64_t count = rows - first < BLOCK_ROWS ? rows - first : BLOCK_ROWS;
        for (int64_t i = 0; i < count; i++) {
            kvt_ticks t = ticks[first + i];
            w->scratch[i] = t == KVT_NEVER ? -1 : kvt_ns_from_ticks(t);
        }
        hsize_t start = (hsize_t)first, length = (hsize_t)count;
        hid_t memory = kvt_h5_id(&w->h5, "H5Screate_simple", H5Screate_simple(1, &length, NULL));
        if (memory < 0 ||
            !kvt_h5_done(&w->h5, "H5Sselect_hyperslab",
                         H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &length, NULL)))
            break;
        kvt_h5_done(&w->h5, "H5Dwrite",
                    H5Dwrite(dataset, H5T_STD_I64LE, memory, space, H5P_DEFAULT, w->scratch));
        kvt_h5_done(&w->h5, "H5Sclose", H5Sclose(memory));
    }
    if (space >= 0)
        kvt_h5_done(&w->h5, "H5Sclose", H5Sclose(space));
    kvt_h5_dataset_close(&w->h5, dataset);
}

/* ---- the groups of the layout ---- */

static void write_requests(struct writer *w, const struct kvt_result *r)
{
    hid_t group = group_make(w, w->file, "requests");
    column_write_ns(w, group, "arrival", r->arrival, r->rows);
    column_write_ns(w, group, "first_token", r->first_token, r->rows);
    column_write_ns(w, group, "finish", r->finish, r->rows);
    column_write(w, group, "input", H5T_STD_I32LE, r->input, r->rows);
    column_write(w, group, "output", H5T_STD_I32LE, r->output, r->rows);
    column_write(w, group, "fate", H5T_STD_U8LE, r->fate, r->rows);
    column_write(w, group, "prefill_replica", H5T_STD_I16LE, r->prefill_replica, r->rows);
    column_write(w, group, "decode_replica", H5T_STD_I16LE, r->decode_replica, r->rows);
    column_write(w, group, "preemptions", H5T_STD_I32LE, r->preemptions, r->rows);
    column_write(w, group, "cached", H5T_STD_I32LE, r->cached, r->rows);
    column_write(w, group, "tenant", H5T_STD_I16LE, r->tenant, r->rows);
#define X(name, text) " " text
    attribute_text(w, group, "fates", &KVT_FATES(X)[1]);
#undef X
    group_close(w, group);
}

/* The means of each gauge, times its unit. */
static void series_write(struct writer *w, hid_t group, const struct kvt_series *series,
                         const char *const gauges[], const double units[])
{
    double *means = (void *)w->scratch, ns = (double)KVT_TICKS_PER_NS;
    kvt_assert(series->used <= BLOCK_ROWS);
    for (int32_t g = 0; g < KVT_GAUGE_COUNT && !w->h5.failed; g++) {
        for (int32_t i = 0; i < series->used; i++)
            means[i] = kvt_series_mean(series, i, (enum kvt_gauge)g) * units[g];
        column_write(w, group, gauges[g], H5T_IEEE_F64LE, means, series->used);
    }
    attribute_f64(w, group, "width_ns", (double)series->width / ns);
    attribute_f64(w, group, "end_ns", (double)series->since / ns);
}

static void write_replica(struct writer *w, hid_t at, const struct kvt_result_replica *replica)
{
    static const char *const gauges[KVT_GAUGE_COUNT] = {"running", "waiting", "pages"};
    static const double units[KVT_GAUGE_COUNT] = {1, 1, 1};
    hid_t group = group_make(w, at, replica->name);
    if (replica->series != NULL)
        series_write(w, group, replica->series, gauges, units);
    if (replica->series != NULL && replica->preempted != NULL) {
        kvt_assert(replica->preempted->width == replica->series->width);
        column_write(w, group, "preempted", H5T_STD_I64LE, replica->preempted->count,
                     replica->series->used);
    }
    attribute_i64(w, group, "pages", replica->pages);
    attribute_i64(w, group, "pages_peak", replica->pages_peak);
    attribute_i64(w, group, "steps", replica->steps);
    attribute_i64(w, group, "preemptions", replica->preemptions);
    attribute_i64(w, group, "evictions", replica->evictions);
    attribute_i64(w, group, "busy_ns", kvt_ns_from_ticks(replica->busy));
    group_close(w, group);
}

/* The replicas' names with a space between them, as one attribute. */
static void write_series(struct writer *w, const struct kvt_result *r)
{
    hid_t group = group_make(w, w->file, "series");
    size_t bytes = 1;
    for (int32_t i = 0; i < r->replica_count; i++)
        bytes += strlen(r->replicas[i].name) + 1;
    char *names = calloc(bytes, 1), *end = names;
    if (names == NULL) {
        w->h5.failed = true;
        kvt_err_set(w->h5.err, KVT_ENOMEM, "no memory for the names of the replicas");
        w->h5.status = KVT_ENOMEM;
    }
    for (int32_t i = 0; names != NULL && i < r->replica_count; i++) {
        write_replica(w, group, &r->replicas[i]);
        end +=
            snprintf(end, bytes - (size_t)(end - names), i > 0 ? " %s" : "%s", r->replicas[i].name);
    }
    attribute_text(w, group, "names", names);
    free(names);
    group_close(w, group);
}

static void write_memory(struct writer *w, const struct kvt_result *r)
{
    char names[256] = "";
    if (r->role_count == 0)
        return;
    hid_t group = group_make(w, w->file, "memory");
    for (int32_t i = 0; i < r->role_count; i++) {
        const struct kvt_result_role *role = &r->roles[i];
        hid_t at = group_make(w, group, role->name);
        attribute_text(w, at, "gpu", role->gpu);
        attribute_i64(w, at, "replicas", role->replicas);
        attribute_i64(w, at, "gpus_per_replica", role->gpus_per_replica);
        attribute_i64(w, at, "memory_bytes", role->memory_bytes);
        for (int32_t e = 0; e < role->entry_count; e++)
            attribute_i64(w, at, role->entries[e], role->bytes[e]);
        group_close(w, at);
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? " " : "", role->name);
    }
    attribute_text(w, group, "names", names);
    group_close(w, group);
}

static void write_link(struct writer *w, const struct kvt_result_link *link)
{
    static const char *const gauges[KVT_GAUGE_COUNT] = {"flows", "stalled", "rate"};
    const double units[KVT_GAUGE_COUNT] = {1, 1, (double)KVT_TICKS_PER_S / 0x1p40};
    const struct kvt_series *series = link->series;
    if (series == NULL)
        return;
    hid_t group = group_make(w, w->file, "link");
    series_write(w, group, series, gauges, units);
    attribute_f64(w, group, "bytes_per_s", link->bytes_per_s);
    attribute_i64(w, group, "bytes", link->bytes);
    attribute_i64(w, group, "busy_ns", kvt_ns_from_ticks(link->busy));
    group_close(w, group);
}

static int64_t ns_or_none(kvt_ticks time)
{
    return time == KVT_NEVER ? -1 : kvt_ns_from_ticks(time);
}

static void write_faults(struct writer *w, const struct kvt_result *r)
{
    if (r->strike_count == 0)
        return;
    hid_t group = group_make(w, w->file, "faults");
    for (int32_t i = 0; i < r->strike_count; i++) {
        const struct kvt_result_strike *strike = &r->strikes[i];
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        hid_t at = group_make(w, group, name);
        attribute_text(w, at, "fault", strike->fault);
        attribute_text(w, at, "variant", strike->variant);
        attribute_text(w, at, "outcome", strike->outcome);
        attribute_i64(w, at, "time_ns", ns_or_none(strike->time));
        attribute_i64(w, at, "exposed_ns", ns_or_none(strike->exposed_at));
        attribute_i64(w, at, "detected_ns", ns_or_none(strike->detected_at));
        attribute_i64(w, at, "replica", strike->replica);
        attribute_i64(w, at, "activated", strike->activated);
        attribute_i64(w, at, "hit", strike->hit);
        attribute_i64(w, at, "lost", strike->lost);
        attribute_i64(w, at, "leaked", strike->leaked);
        group_close(w, at);
    }
    group_close(w, group);
}

static void write_histograms(struct writer *w, const struct kvt_summary *s)
{
    hid_t group = group_make(w, w->file, "histograms");
    for (int32_t l = 0; l < KVT_LATENCY_COUNT && !w->h5.failed; l++) {
        const struct kvt_histogram *h = &s->latencies[l];
        static_assert(2 * KVT_BINS <= BLOCK_ROWS, "the scratch holds a whole histogram");
        uint64_t *pairs = (uint64_t *)w->scratch;
        hsize_t extent[2] = {0, 2};
        for (int32_t bin = 0; h->count > 0 && bin < KVT_BINS; bin++) {
            if (h->bins[bin] == 0)
                continue;
            pairs[2 * extent[0]] = kvt_histogram_bin_low(bin);
            pairs[2 * extent[0]++ + 1] = h->bins[bin];
        }
        hid_t dataset = kvt_h5_dataset(&w->h5, group, kvt_latency_keys[l], H5T_STD_U64LE, 2, extent,
                                       w->dataset_list);
        if (dataset >= 0 && extent[0] > 0)
            kvt_h5_done(&w->h5, "H5Dwrite",
                        H5Dwrite(dataset, H5T_STD_U64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, pairs));
        kvt_h5_dataset_close(&w->h5, dataset);
    }
    group_close(w, group);
}

static void write_metric(struct writer *w, hid_t at, const struct kvt_metric *metric)
{
    char name[56];
    if (!metric->has_value)
        return;
    switch (metric->kind) {
    case KVT_METRIC_COUNT:
    case KVT_METRIC_TRUTH:
        attribute_i64(w, at, metric->name, metric->count);
        break;
    case KVT_METRIC_REAL:
        attribute_f64(w, at, metric->name, metric->real);
        break;
    case KVT_METRIC_TEXT:
        attribute_text(w, at, metric->name, metric->text);
        break;
    }
    if (!metric->has_interval)
        return;
    snprintf(name, sizeof name, "%s_low", metric->name);
    attribute_f64(w, at, name, metric->low);
    snprintf(name, sizeof name, "%s_high", metric->name);
    attribute_f64(w, at, name, metric->high);
}

static void write_summary(struct writer *w, const struct kvt_summary *s)
{
    hid_t group = group_make(w, w->file, "summary");
    for (int32_t i = 0; i < s->metric_count; i++)
        if (!s->metrics[i].describes)
            write_metric(w, group, &s->metrics[i]);
    group_close(w, group);
}

static void write_config(struct writer *w, const char *config)
{
    const char *text = config != NULL ? config : "";
    hid_t type = w->h5.failed ? -1 : kvt_h5_text_type(&w->h5, strlen(text) + 1);
    hid_t dataset = kvt_h5_dataset(&w->h5, w->file, "config", type, 0, NULL, w->dataset_list);
    if (dataset >= 0)
        kvt_h5_done(&w->h5, "H5Dwrite",
                    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text));
    kvt_h5_dataset_close(&w->h5, dataset);
    if (type >= 0)
        kvt_h5_done(&w->h5, "H5Tclose", H5Tclose(type));
}

/* What libm and friends choose their code paths by. */
static const char *cpu_features(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return "x86-64 avx2 fma avx512f";
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"))
        return "x86-64 avx2 fma";
    return "x86-64";
#else
    return "other";
#endif
}

static void write_meta(struct writer *w, const struct kvt_result *r)
{
    hid_t group = group_make(w, w->file, "meta");
    char text[48];
    kvt_h5_attribute(&w->h5, group, "seed", H5T_STD_U64LE, &r->seed);
    snprintf(text, sizeof text, "%016" PRIx64, r->digest);
    attribute_text(w, group, "digest", text);
    attribute_text(w, group, "version", KVT_VERSION);
    attribute_text(w, group, "cpu", cpu_features());
    snprintf(text, sizeof text, "%d.%d.%d", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
    attribute_text(w, group, "hdf5", text);
    attribute_text(w, group, "zlib", zlibVersion());
    attribute_text(w, group, "gsl", gsl_version);
    attribute_text(w, group, "libc", gnu_get_libc_version());
    attribute_i64(w, group, "interrupted", r->interrupted);
    attribute_i64(w, group, "end_ns", kvt_ns_from_ticks(r->end));
    attribute_i64(w, group, "warmup_ns", kvt_ns_from_ticks(r->warmup));
    attribute_text(w, group, "title", r->title);
    attribute_text(w, group, "model", r->model);
    attribute_text(w, group, "fleet", r->fleet);
    group_close(w, group);
}

/* ---- the file ---- */

static void close_list(struct writer *w, hid_t list)
{
    if (list >= 0)
        kvt_h5_done(&w->h5, "H5Pclose", H5Pclose(list));
}

static struct kvt_h5 h5_of(struct kvt_run_file *run, struct kvt_err *err)
{
    return (struct kvt_h5){
        .path = run->output.path, .status = KVT_EIO, .failure = run->failure, .err = err};
}

enum kvt_status kvt_run_file_begin(struct kvt_run_file *run, const char *path, struct kvt_err *err)
{
    *run = (struct kvt_run_file){0};
    KVT_TRY(kvt_output_begin(&run->output, path, err));
    run->failure = calloc(1, sizeof *run->failure);
    struct kvt_h5 h5 = h5_of(run, err);
    if (run->failure == NULL)
        h5 = (struct kvt_h5){.failed = true,
                             .status = kvt_err_set(err, KVT_ENOMEM, "no memory for %s", path)};
    else
        run->file = kvt_h5_create(&h5, run->output.temp_path, run->failure);
    if (h5.failed)
        kvt_run_file_abandon(run);
    return h5.failed ? h5.status : KVT_OK;
}

/* Close what HDF5 holds; whether it could flush all of it. */
static void file_close(struct kvt_run_file *run, struct kvt_h5 *h5)
{
    if (run->decisions > 0)
        kvt_h5_done(h5, "H5Dclose", H5Dclose(run->decisions));
    if (run->file > 0)
        kvt_h5_done(h5, "H5Fclose", H5Fclose(run->file));
    run->decisions = 0;
    run->file = 0;
}

void kvt_run_file_abandon(struct kvt_run_file *run)
{
    struct kvt_h5 quiet = {.path = "", .status = KVT_EIO};
    file_close(run, &quiet);
    kvt_output_abandon(&run->output);
    free(run->failure);
    *run = (struct kvt_run_file){0};
}

/* The extendible dataset of the log. */
static void decisions_make(struct kvt_run_file *run, struct kvt_h5 *h5)
{
    hid_t type = kvt_h5_decision_type(h5);
    hsize_t none = 0, unlimited = H5S_UNLIMITED, chunk = KVT_LOG_BLOCK;
    hid_t space = kvt_h5_id(h5, "H5Screate_simple", H5Screate_simple(1, &none, &unlimited));
    hid_t list = kvt_h5_plain(h5, H5P_DATASET_CREATE);
    if (!h5->failed)
        kvt_h5_done(h5, "H5Pset_chunk", H5Pset_chunk(list, 1, &chunk));
    if (!h5->failed) {
        hid_t dataset = kvt_h5_id(
            h5, "H5Dcreate",
            H5Dcreate2(run->file, "decisions", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
        run->decisions = dataset < 0 ? 0 : dataset;
    }
    if (list >= 0)
        H5Pclose(list);
    if (space >= 0)
        H5Sclose(space);
    if (h5->failed)
        return;
    struct writer w = {.h5 = *h5};
#define X(name, digested, text) " " #name
    attribute_text(&w, run->decisions, "kinds", &KVT_DECISIONS(X)[1]);
#undef X
    h5->failed = w.h5.failed;
}

enum kvt_status kvt_run_file_log(struct kvt_run_file *run, const struct kvt_decision decisions[],
                                 int64_t count, struct kvt_err *err)
{
    kvt_assert(run->file > 0);
    struct kvt_h5 h5 = h5_of(run, err);
    if (run->decisions == 0)
        decisions_make(run, &h5);
    hsize_t total = (hsize_t)run->decision_count + (hsize_t)count;
    if (!h5.failed && count > 0 &&
        kvt_h5_done(&h5, "H5Dset_extent", H5Dset_extent(run->decisions, &total))) {
        struct kvt_h5_rows rows;
        kvt_h5_rows_open(&h5, run->decisions, run->decision_count, count, &rows);
        if (!h5.failed)
            kvt_h5_done(&h5, "H5Dwrite",
                        H5Dwrite(run->decisions, rows.type, rows.memory, rows.space, H5P_DEFAULT,
                                 decisions));
        kvt_h5_rows_close(&rows);
    }
    run->decision_count += h5.failed ? 0 : count;
    return h5.failed ? KVT_EIO : KVT_OK;
}

static void write_all(struct writer *w, const struct kvt_summary *summary)
{
    const struct kvt_result *r = summary->result;
    int32_t layout = KVT_RUN_LAYOUT;
    kvt_h5_attribute(&w->h5, w->file, "layout", H5T_STD_I32LE, &layout);
    attribute_text(w, w->file, "program", "kvtwin");
    write_requests(w, r);
    write_series(w, r);
    write_memory(w, r);
    write_link(w, &r->link);
    write_faults(w, r);
    write_histograms(w, summary);
    write_summary(w, summary);
    write_config(w, r->config);
    write_meta(w, r);
}

enum kvt_status kvt_run_file_finish(struct kvt_run_file *run, const struct kvt_summary *summary,
                                    struct kvt_err *err)
{
    kvt_assert(run->file > 0);
    struct writer w = {.h5 = h5_of(run, err),
                       .file = run->file,
                       .scratch = malloc(BLOCK_ROWS * sizeof *w.scratch)};
    if (w.scratch == NULL) {
        kvt_run_file_abandon(run);
        return kvt_err_set(err, KVT_ENOMEM, "no memory to write the results");
    }
    w.dataset_list = kvt_h5_plain(&w.h5, H5P_DATASET_CREATE);
    w.group_list = kvt_h5_plain(&w.h5, H5P_GROUP_CREATE);
    write_all(&w, summary);
    close_list(&w, w.dataset_list);
    close_list(&w, w.group_list);
    free(w.scratch);
    file_close(run, &w.h5);
    enum kvt_status status = w.h5.failed ? w.h5.status : kvt_output_commit(&run->output, err);
    kvt_run_file_abandon(run);
    return status;
}
