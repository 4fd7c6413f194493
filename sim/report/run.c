#include "sim/report/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS 1e9

static enum kvt_status damaged(const struct kvt_report_run *run, const char *what,
                               struct kvt_err *err)
{
    return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = run->reader.path},
                      "the run file is damaged: %s", what);
}

/* ---- values ---- */

static double value_of(const struct kvt_stored_value *values, int32_t count, const char *name)
{
    for (int32_t i = 0; i < count; i++)
        if (strcmp(values[i].name, name) == 0 && !values[i].is_text)
            return values[i].number;
    return (double)NAN;
}

static const char *text_of(const struct kvt_stored_value *values, int32_t count, const char *name)
{
    for (int32_t i = 0; i < count; i++)
        if (strcmp(values[i].name, name) == 0 && values[i].is_text)
            return values[i].text;
    return "";
}

double kvt_report_metric(const struct kvt_report_run *run, const char *name)
{
    return value_of(run->summary, run->summary_count, name);
}

const char *kvt_report_key(const struct kvt_report_run *run, const char *path)
{
    for (int32_t i = 0; i < run->keys.count; i++)
        if (strcmp(run->keys.pairs[i].name, path) == 0)
            return run->keys.pairs[i].text[0];
    return NULL;
}

static enum kvt_status read_values(struct kvt_report_run *run, const char *group,
                                   struct kvt_stored_value **values, int32_t *count,
                                   struct kvt_err *err)
{
    *values = calloc(KVT_STORED_MAX, sizeof **values);
    if (*values == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for /%s", group);
    return kvt_run_reader_values(&run->reader, group, *values, count, err);
}

static enum kvt_status read_texts(struct kvt_report_run *run, struct kvt_err *err)
{
    run->title = kvt_run_reader_text(&run->reader, "/meta", "title");
    run->model = kvt_run_reader_text(&run->reader, "/meta", "model");
    run->fleet = kvt_run_reader_text(&run->reader, "/meta", "fleet");
    run->end_s = value_of(run->meta, run->meta_count, "end_ns") / NS;
    run->warmup_s = value_of(run->meta, run->meta_count, "warmup_ns") / NS;
    if (!(run->end_s >= 0) || !(run->warmup_s >= 0))
        return damaged(run, "/meta does not say when it ended", err);
    KVT_TRY(kvt_run_reader_config(&run->reader, &run->config, err));
    return kvt_pairs_add_yaml(&run->keys, 0, run->reader.path, run->config, err);
}

/* ---- columns ---- */

static enum kvt_status read_columns(struct kvt_report_run *run, struct kvt_err *err)
{
    static const char *const names[KVT_COLUMN_COUNT] = {
        "requests/arrival", "requests/first_token", "requests/finish",     "requests/input",
        "requests/output",  "requests/fate",        "requests/preemptions"};
    static const char *const histograms[KVT_LATENCY_COUNT] = {"histograms/ttft", "histograms/tpot",
                                                              "histograms/itl", "histograms/e2el"};
    for (int c = 0; c < KVT_COLUMN_COUNT; c++) {
        int64_t rows;
        KVT_TRY(kvt_run_reader_column(&run->reader, names[c], &run->columns[c], &rows, err));
        if (c > 0 && rows != run->rows)
            return damaged(run, "the columns of /requests differ in length", err);
        run->rows = rows;
    }
    for (int l = 0; l < KVT_LATENCY_COUNT; l++) {
        int64_t numbers;
        KVT_TRY(
            kvt_run_reader_column(&run->reader, histograms[l], &run->histogram[l], &numbers, err));
        run->bins[l] = numbers / 2;
    }
    return KVT_OK;
}

/* ---- series ---- */

struct raw_series {
    double width_s, *gauges[KVT_REPORT_GAUGES]; /* owned */
    int64_t points;
};

static enum kvt_status read_series(struct kvt_report_run *run, const char *group,
                                   const char *const gauges[], struct raw_series *raw,
                                   struct kvt_stored_value *values, int32_t *count,
                                   struct kvt_err *err)
{
    KVT_TRY(kvt_run_reader_values(&run->reader, group, values, count, err));
    raw->width_s = value_of(values, *count, "width_ns") / NS;
    for (int g = 0; g < KVT_REPORT_GAUGES; g++) {
        char path[128];
        int64_t points;
        snprintf(path, sizeof path, "%.80s/%s", group, gauges[g]);
        KVT_TRY(kvt_run_reader_column(&run->reader, path, &raw->gauges[g], &points, err));
        if ((g > 0 && points != raw->points) || points > 1 << 20)
            return damaged(run, "the time series differ in length", err);
        raw->points = points;
    }
    return raw->points == 0 || raw->width_s > 0 ? KVT_OK
                                                : damaged(run, "a time series has no width", err);
}

static void release_raw(struct raw_series *raw)
{
    for (int g = 0; g < KVT_REPORT_GAUGES; g++)
        free(raw->gauges[g]);
    *raw = (struct raw_series){0};
}

static bool take(double **array, int32_t count)
{
    *array = calloc(count > 0 ? (size_t)count : 1, sizeof **array);
    return *array != NULL;
}

/* The role that a replica belongs to, by its name less the number: an old or a new one. */
static struct kvt_report_role *role_of(struct kvt_report_run *run, const char *replica)
{
    const char *dash = strrchr(replica, '-');
    size_t bytes = dash != NULL ? (size_t)(dash - replica) : strlen(replica);
    for (int32_t i = 0; i < run->role_count; i++)
        if (strlen(run->roles[i].name) == bytes && memcmp(run->roles[i].name, replica, bytes) == 0)
            return &run->roles[i];
    if (run->role_count == KVT_REPORT_ROLES || bytes >= sizeof run->roles[0].name)
        return NULL;
    struct kvt_report_role *role = &run->roles[run->role_count++];
    memcpy(role->name, replica, bytes);
    return role;
}

/* The first replica gives the grid of its role; all have the same one unless a file is patched. */
static enum kvt_status open_role(struct kvt_report_run *run, struct kvt_report_role *role,
                                 const struct raw_series *raw, struct kvt_err *err)
{
    int32_t points = (int32_t)raw->points;
    bool taken = take(&role->seconds, points);
    for (int g = 0; g < KVT_REPORT_GAUGES; g++)
        taken = take(&role->gauges[g].mean, points) && take(&role->gauges[g].low, points) &&
                take(&role->gauges[g].high, points) && taken;
    if (!taken)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the series of %s", role->name);
    role->points = points;
    for (int32_t i = 0; i < points; i++) {
        double from = i * raw->width_s, to = fmin((i + 1) * raw->width_s, run->end_s);
        role->seconds[i] = (from + to) / 2;
    }
    return KVT_OK;
}

/* Its preemptions by point; files of older versions have only their number. */
static enum kvt_status add_preempted(struct kvt_report_run *run, struct kvt_report_role *role,
                                     const char *group, struct kvt_err *err)
{
    double *values;
    int64_t points;
    char path[128];
    snprintf(path, sizeof path, "%.80s/preempted", group);
    if (!kvt_run_reader_has(&run->reader, path))
        return KVT_OK;
    KVT_TRY(kvt_run_reader_column(&run->reader, path, &values, &points, err));
    enum kvt_status status = KVT_OK;
    if (points != role->points)
        status = damaged(run, "the time series of a role differ in length", err);
    else if (role->preempted == NULL && !take(&role->preempted, role->points))
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for the series of %s", role->name);
    for (int32_t i = 0; status == KVT_OK && i < role->points; i++)
        role->preempted[i] += values[i];
    free(values);
    return status;
}

/* Add what a replica shows to its role and to its own means. */
static void add_replica(struct kvt_report_run *run, struct kvt_report_role *role,
                        const struct raw_series *raw, struct kvt_report_replica *replica)
{
    for (int g = 0; g < KVT_REPORT_GAUGES; g++) {
        double unit = g == KVT_REPORT_GAUGES - 1 ? 1 / fmax(replica->pages, 1) : 1, sum = 0;
        struct kvt_report_gauge *gauge = &role->gauges[g];
        for (int32_t i = 0; i < role->points; i++) {
            double value = raw->gauges[g][i] * unit;
            double width = fmin((i + 1) * raw->width_s, run->end_s) - i * raw->width_s;
            bool first = role->replicas == 0;
            gauge->mean[i] += (value - gauge->mean[i]) / (role->replicas + 1);
            gauge->low[i] = first ? value : fmin(gauge->low[i], value);
            gauge->high[i] = first ? value : fmax(gauge->high[i], value);
            sum += value * fmax(width, 0);
        }
        replica->mean[g] = run->end_s > 0 ? sum / run->end_s : 0;
    }
    role->replicas++;
}

static enum kvt_status read_replica(struct kvt_report_run *run, int32_t i, struct kvt_err *err)
{
    static const char *const gauges[] = {"running", "waiting", "pages"};
    struct kvt_stored_value *values = calloc(KVT_STORED_MAX, sizeof *values);
    struct kvt_report_replica *replica = &run->replicas[i];
    struct kvt_report_role *role = role_of(run, run->reader.names[i]);
    struct raw_series raw = {0};
    char group[80];
    int32_t count = 0;
    snprintf(group, sizeof group, "series/%.60s", run->reader.names[i]);
    enum kvt_status status = KVT_OK;
    if (values == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for %s", group);
    else if (role == NULL)
        status = damaged(run, "/series names more roles than a fleet has", err);
    if (status == KVT_OK)
        status = read_series(run, group, gauges, &raw, values, &count, err);
    if (status == KVT_OK && role->replicas == 0)
        status = open_role(run, role, &raw, err);
    if (status == KVT_OK && raw.points != role->points)
        status = damaged(run, "the time series of a role differ in length", err);
    if (status == KVT_OK)
        status = add_preempted(run, role, group, err);
    if (status == KVT_OK) {
        *replica = (struct kvt_report_replica){
            .name = run->reader.names[i],
            .pages = value_of(values, count, "pages"),
            .pages_peak = value_of(values, count, "pages_peak"),
            .steps = value_of(values, count, "steps"),
            .preemptions = value_of(values, count, "preemptions"),
            .evictions = value_of(values, count, "evictions"),
            .busy_s = value_of(values, count, "busy_ns") / NS,
        };
        add_replica(run, role, &raw, replica);
    }
    release_raw(&raw);
    free(values);
    return status;
}

static enum kvt_status read_link(struct kvt_report_run *run, struct kvt_err *err)
{
    static const char *const gauges[] = {"flows", "stalled", "rate"};
    static struct kvt_stored_value values[KVT_STORED_MAX];
    struct raw_series raw = {0};
    struct kvt_report_link *link = &run->link;
    int32_t count = 0;
    if (!kvt_run_reader_has(&run->reader, "link"))
        return KVT_OK;
    enum kvt_status status = read_series(run, "link", gauges, &raw, values, &count, err);
    int32_t points = (int32_t)raw.points;
    if (status == KVT_OK &&
        !(take(&link->seconds, points) && take(&link->use, points) && take(&link->flows, points)))
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for the series of the link");
    if (status == KVT_OK) {
        link->bytes = value_of(values, count, "bytes");
        link->busy_s = value_of(values, count, "busy_ns") / NS;
        link->bytes_per_s = value_of(values, count, "bytes_per_s");
        link->points = points;
        for (int32_t i = 0; i < points; i++) {
            double to = fmin((i + 1) * raw.width_s, run->end_s);
            link->seconds[i] = (i * raw.width_s + to) / 2;
            link->flows[i] = raw.gauges[0][i];
            link->use[i] = raw.gauges[2][i] / link->bytes_per_s;
        }
    }
    release_raw(&raw);
    return status;
}

/* ---- memory and faults ---- */

static void read_entries(struct kvt_report_memory *memory, const struct kvt_stored_value *values,
                         int32_t count)
{
    static const char *const ours[] = {"gpu", "replicas", "gpus_per_replica", "memory_bytes"};
    memory->replicas = (int32_t)fmin(value_of(values, count, "replicas"), 1e9);
    memory->gpus_per_replica = (int32_t)fmin(value_of(values, count, "gpus_per_replica"), 1e9);
    memory->memory_bytes = value_of(values, count, "memory_bytes");
    snprintf(memory->gpu, sizeof memory->gpu, "%.63s", text_of(values, count, "gpu"));
    for (int32_t i = 0; i < count && memory->entry_count < KVT_REPORT_ENTRIES; i++) {
        bool entry = !values[i].is_text && values[i].number > 0;
        for (size_t o = 0; o < sizeof ours / sizeof *ours; o++)
            entry = entry && strcmp(values[i].name, ours[o]) != 0;
        if (!entry)
            continue;
        struct kvt_report_entry *at = &memory->entries[memory->entry_count++];
        snprintf(at->name, sizeof at->name, "%.39s", values[i].name);
        at->bytes = values[i].number;
    }
}

static enum kvt_status read_memory(struct kvt_report_run *run, struct kvt_err *err)
{
    static struct kvt_stored_value values[KVT_STORED_MAX];
    char *names = kvt_run_reader_text(&run->reader, "/memory", "names"), *rest = NULL, path[64];
    enum kvt_status status = KVT_OK;
    for (char *name = names != NULL ? strtok_r(names, " ", &rest) : NULL;
         name != NULL && status == KVT_OK && run->memory_count < KVT_REPORT_ROLES;
         name = strtok_r(NULL, " ", &rest)) {
        struct kvt_report_memory *memory = &run->memory[run->memory_count];
        int32_t count = 0;
        snprintf(memory->role, sizeof memory->role, "%.31s", name);
        snprintf(path, sizeof path, "memory/%.31s", name);
        status = kvt_run_reader_values(&run->reader, path, values, &count, err);
        if (status == KVT_OK)
            read_entries(memory, values, count);
        run->memory_count += status == KVT_OK;
    }
    free(names);
    return status;
}

static double seconds_or_none(double ns)
{
    return ns >= 0 ? ns / NS : (double)NAN;
}

static enum kvt_status read_faults(struct kvt_report_run *run, struct kvt_err *err)
{
    static struct kvt_stored_value values[KVT_STORED_MAX];
    for (int32_t i = 0; i < KVT_REPORT_STRIKES; i++) {
        char path[32];
        int32_t count = 0;
        snprintf(path, sizeof path, "faults/%d", i);
        if (!kvt_run_reader_has(&run->reader, path))
            break;
        KVT_TRY(kvt_run_reader_values(&run->reader, path, values, &count, err));
        struct kvt_report_strike *strike = &run->strikes[run->strike_count++];
        snprintf(strike->fault, sizeof strike->fault, "%.31s", text_of(values, count, "fault"));
        snprintf(strike->variant, sizeof strike->variant, "%.31s",
                 text_of(values, count, "variant"));
        snprintf(strike->outcome, sizeof strike->outcome, "%.31s",
                 text_of(values, count, "outcome"));
        strike->time_s = seconds_or_none(value_of(values, count, "time_ns"));
        strike->exposed_s = seconds_or_none(value_of(values, count, "exposed_ns"));
        strike->detected_s = seconds_or_none(value_of(values, count, "detected_ns"));
        strike->replica = value_of(values, count, "replica");
        strike->hit = value_of(values, count, "hit");
        strike->lost = value_of(values, count, "lost");
        strike->leaked = value_of(values, count, "leaked");
        strike->activated = value_of(values, count, "activated") > 0;
    }
    return KVT_OK;
}

/* ---- the run ---- */

static enum kvt_status read_parts(struct kvt_report_run *run, struct kvt_err *err)
{
    KVT_TRY(read_values(run, "summary", &run->summary, &run->summary_count, err));
    KVT_TRY(read_values(run, "meta", &run->meta, &run->meta_count, err));
    KVT_TRY(read_texts(run, err));
    KVT_TRY(read_columns(run, err));
    run->replica_count = run->reader.name_count;
    run->replicas = calloc((size_t)run->replica_count + 1, sizeof *run->replicas);
    if (run->replicas == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the replicas");
    for (int32_t i = 0; i < run->replica_count; i++)
        KVT_TRY(read_replica(run, i, err));
    KVT_TRY(read_link(run, err));
    KVT_TRY(read_memory(run, err));
    KVT_TRY(read_faults(run, err));
    if (run->reader.unread == KVT_ENOMEM)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory to read it", run->reader.path);
    return run->reader.unread == KVT_OK ? KVT_OK : damaged(run, "parts cannot be read", err);
}

enum kvt_status kvt_report_run_read(struct kvt_report_run *run, const char *path,
                                    struct kvt_err *err)
{
    *run = (struct kvt_report_run){0};
    KVT_TRY(kvt_run_reader_open(&run->reader, path, err));
    return read_parts(run, err);
}

void kvt_report_run_release(struct kvt_report_run *run)
{
    kvt_run_reader_close(&run->reader);
    kvt_pairs_release(&run->keys);
    free(run->summary);
    free(run->meta);
    free(run->title);
    free(run->model);
    free(run->fleet);
    free(run->config);
    free(run->replicas);
    for (int c = 0; c < KVT_COLUMN_COUNT; c++)
        free(run->columns[c]);
    for (int l = 0; l < KVT_LATENCY_COUNT; l++)
        free(run->histogram[l]);
    for (int32_t r = 0; r < KVT_REPORT_ROLES; r++) {
        free(run->roles[r].seconds);
        free(run->roles[r].preempted);
        for (int g = 0; g < KVT_REPORT_GAUGES; g++) {
            free(run->roles[r].gauges[g].mean);
            free(run->roles[r].gauges[g].low);
            free(run->roles[r].gauges[g].high);
        }
    }
    free(run->link.seconds);
    free(run->link.use);
    free(run->link.flows);
    *run = (struct kvt_report_run){0};
}
