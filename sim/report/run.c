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

double kvt_report_metric(const struct kvt_report_run *run, const char *name)
{
    return kvt_stored_number(run->summary, name);
}

const char *kvt_report_key(const struct kvt_report_run *run, const char *path)
{
    for (int32_t i = 0; i < run->keys.count; i++)
        if (strcmp(run->keys.pairs[i].name, path) == 0)
            return run->keys.pairs[i].text[0];
    return NULL;
}

static enum kvt_status read_values(struct kvt_report_run *run, const char *group,
                                   struct kvt_stored **values, struct kvt_err *err)
{
    *values = malloc(sizeof **values);
    if (*values == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for /%s", group);
    return kvt_run_reader_values(&run->reader, group, *values, err);
}

static enum kvt_status read_texts(struct kvt_report_run *run, struct kvt_err *err)
{
    run->title = kvt_run_reader_text(&run->reader, "/meta", "title");
    run->model = kvt_run_reader_text(&run->reader, "/meta", "model");
    run->fleet = kvt_run_reader_text(&run->reader, "/meta", "fleet");
    run->end_s = kvt_stored_number(run->meta, "end_ns") / NS;
    run->warmup_s = kvt_stored_number(run->meta, "warmup_ns") / NS;
    if (!(run->end_s >= 0) || !(run->warmup_s >= 0))
        return damaged(run, "/meta does not say when it ended", err);
    KVT_TRY(kvt_run_reader_config(&run->reader, &run->config, err));
    return kvt_pairs_add_yaml(&run->keys, 0, run->reader.path, run->config, err);
}

/* ---- columns ---- */

static enum kvt_status read_columns(struct kvt_report_run *run, struct kvt_err *err)
{
    static const char *const names[KVT_REPORT_COLUMNS] = {
        "requests/arrival", "requests/first_token", "requests/finish",     "requests/input",
        "requests/output",  "requests/fate",        "requests/preemptions"};
    static const char *const histograms[KVT_LATENCY_COUNT] = {"histograms/ttft", "histograms/tpot",
                                                              "histograms/itl", "histograms/e2el"};
    for (int c = 0; c < KVT_REPORT_COLUMNS; c++) {
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
                                   struct kvt_err *err)
{
    KVT_TRY(kvt_run_reader_values(&run->reader, group, run->part, err));
    raw->width_s = kvt_stored_number(run->part, "width_ns") / NS;
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
    struct kvt_report_replica *replica = &run->replicas[i];
    struct kvt_report_role *role = role_of(run, run->reader.names[i]);
    struct raw_series raw = {0};
    char group[80];
    snprintf(group, sizeof group, "series/%.60s", run->reader.names[i]);
    if (role == NULL)
        return damaged(run, "/series names more roles than a fleet has", err);
    enum kvt_status status = read_series(run, group, gauges, &raw, err);
    if (status == KVT_OK && role->replicas == 0)
        status = open_role(run, role, &raw, err);
    if (status == KVT_OK && raw.points != role->points)
        status = damaged(run, "the time series of a role differ in length", err);
    if (status == KVT_OK)
        status = add_preempted(run, role, group, err);
    if (status == KVT_OK) {
        *replica = (struct kvt_report_replica){
            .name = run->reader.names[i],
            .pages = kvt_stored_number(run->part, "pages"),
            .pages_peak = kvt_stored_number(run->part, "pages_peak"),
            .steps = kvt_stored_number(run->part, "steps"),
            .preemptions = kvt_stored_number(run->part, "preemptions"),
            .busy_s = kvt_stored_number(run->part, "busy_ns") / NS,
        };
        add_replica(run, role, &raw, replica);
    }
    release_raw(&raw);
    return status;
}

static enum kvt_status read_link(struct kvt_report_run *run, struct kvt_err *err)
{
    static const char *const gauges[] = {"flows", "stalled", "rate"};
    struct raw_series raw = {0};
    struct kvt_report_link *link = &run->link;
    if (!kvt_run_reader_has(&run->reader, "link"))
        return KVT_OK;
    enum kvt_status status = read_series(run, "link", gauges, &raw, err);
    int32_t points = (int32_t)raw.points;
    if (status == KVT_OK && !(take(&link->seconds, points) && take(&link->use, points)))
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for the series of the link");
    if (status == KVT_OK) {
        link->bytes = kvt_stored_number(run->part, "bytes");
        link->busy_s = kvt_stored_number(run->part, "busy_ns") / NS;
        link->bytes_per_s = kvt_stored_number(run->part, "bytes_per_s");
        link->points = points;
        for (int32_t i = 0; i < points; i++) {
            double to = fmin((i + 1) * raw.width_s, run->end_s);
            link->seconds[i] = (i * raw.width_s + to) / 2;
            link->use[i] = raw.gauges[2][i] / link->bytes_per_s;
        }
    }
    release_raw(&raw);
    return status;
}

/* ---- memory and faults ---- */

static void read_entries(struct kvt_report_memory *memory, const struct kvt_stored *stored)
{
    static const char *const ours[] = {"gpu", "replicas", "gpus_per_replica", "memory_bytes"};
    memory->replicas = (int32_t)fmin(kvt_stored_number(stored, "replicas"), 1e9);
    memory->gpus_per_replica = (int32_t)fmin(kvt_stored_number(stored, "gpus_per_replica"), 1e9);
    memory->memory_bytes = kvt_stored_number(stored, "memory_bytes");
    snprintf(memory->gpu, sizeof memory->gpu, "%.63s", kvt_stored_text(stored, "gpu"));
    for (int32_t i = 0; i < stored->count && memory->entry_count < KVT_REPORT_ENTRIES; i++) {
        const struct kvt_stored_value *value = &stored->values[i];
        bool entry = !value->is_text && value->number > 0;
        for (size_t o = 0; o < sizeof ours / sizeof *ours; o++)
            entry = entry && strcmp(value->name, ours[o]) != 0;
        if (!entry)
            continue;
        struct kvt_report_entry *at = &memory->entries[memory->entry_count++];
        snprintf(at->name, sizeof at->name, "%.39s", value->name);
        at->bytes = value->number;
    }
}

static enum kvt_status read_memory(struct kvt_report_run *run, struct kvt_err *err)
{
    char *names = kvt_run_reader_text(&run->reader, "/memory", "names"), *rest = NULL, path[64];
    enum kvt_status status = KVT_OK;
    for (char *name = names != NULL ? strtok_r(names, " ", &rest) : NULL;
         name != NULL && status == KVT_OK && run->memory_count < KVT_REPORT_ROLES;
         name = strtok_r(NULL, " ", &rest)) {
        struct kvt_report_memory *memory = &run->memory[run->memory_count];
        snprintf(memory->role, sizeof memory->role, "%.31s", name);
        snprintf(path, sizeof path, "memory/%.31s", name);
        status = kvt_run_reader_values(&run->reader, path, run->part, err);
        if (status == KVT_OK)
            read_entries(memory, run->part);
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
    const struct kvt_stored *values = run->part;
    for (int32_t i = 0; i < KVT_REPORT_STRIKES; i++) {
        char path[32];
        snprintf(path, sizeof path, "faults/%d", i);
        if (!kvt_run_reader_has(&run->reader, path))
            break;
        KVT_TRY(kvt_run_reader_values(&run->reader, path, run->part, err));
        struct kvt_report_strike *strike = &run->strikes[run->strike_count++];
        snprintf(strike->fault, sizeof strike->fault, "%.31s", kvt_stored_text(values, "fault"));
        snprintf(strike->variant, sizeof strike->variant, "%.31s",
                 kvt_stored_text(values, "variant"));
        snprintf(strike->outcome, sizeof strike->outcome, "%.31s",
                 kvt_stored_text(values, "outcome"));
        strike->time_s = seconds_or_none(kvt_stored_number(values, "time_ns"));
        strike->exposed_s = seconds_or_none(kvt_stored_number(values, "exposed_ns"));
        strike->detected_s = seconds_or_none(kvt_stored_number(values, "detected_ns"));
        strike->hit = kvt_stored_number(values, "hit");
        strike->lost = kvt_stored_number(values, "lost");
        strike->leaked = kvt_stored_number(values, "leaked");
        strike->activated = kvt_stored_number(values, "activated") > 0;
    }
    return KVT_OK;
}

/* ---- the run ---- */

static enum kvt_status read_parts(struct kvt_report_run *run, struct kvt_err *err)
{
    KVT_TRY(read_values(run, "summary", &run->summary, err));
    KVT_TRY(read_values(run, "meta", &run->meta, err));
    run->part = malloc(sizeof *run->part);
    if (run->part == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the series");
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
    free(run->part);
    free(run->title);
    free(run->model);
    free(run->fleet);
    free(run->config);
    free(run->replicas);
    for (int c = 0; c < KVT_REPORT_COLUMNS; c++)
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
    *run = (struct kvt_report_run){0};
}
