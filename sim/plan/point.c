#include "sim/plan/point.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ------------------------------------------------------------------------------ */

static void add_column(struct kvt_point_columns *columns, const char *name, const char *end)
{
    char whole[56];
    snprintf(whole, sizeof whole, "%s%s", name, end);
    if (columns->count == KVT_POINT_COLUMNS_MAX || kvt_point_column(columns, whole) >= 0)
        return;
    memcpy(columns->names[columns->count++], whole, sizeof whole);
}

int32_t kvt_point_column(const struct kvt_point_columns *columns, const char *name)
{
    for (int32_t i = 0; i < columns->count; i++)
        if (strcmp(columns->names[i], name) == 0)
            return i;
    return -1;
}

/* Every metric that a run of this SLO can have, by measuring a run of nothing. */
static enum kvt_status list_metrics(struct kvt_point_columns *columns,
                                    const struct kvt_config_slo *slo, int32_t resamples,
                                    struct kvt_err *err)
{
    static const int32_t none = 0;
    struct kvt_result_replica replica = {.name = "serve-0"};
    struct kvt_result result = {
        .gpus = 1, .cost_usd_per_h = 1, .cached = &none, .replica_count = 1, .replicas = &replica};
    struct kvt_arena arena;
    struct kvt_summary *summary = malloc(sizeof *summary);
    if (summary == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the columns of a sweep");
    kvt_result_set_slo(&result, slo);
    enum kvt_status status = kvt_arena_init(&arena, KVT_SUMMARY_BYTES, err);
    if (status == KVT_OK)
        status = kvt_summary_init(summary, &result, &arena, err);
    for (int32_t m = 0; status == KVT_OK && m < summary->metric_count; m++) {
        const struct kvt_metric *metric = &summary->metrics[m];
        if (metric->kind == KVT_METRIC_TEXT || metric->describes)
            continue;
        add_column(columns, metric->name, "");
        if (resamples == 0 || metric->is_given || metric->kind == KVT_METRIC_TRUTH)
            continue;
        add_column(columns, metric->name, "_low");
        add_column(columns, metric->name, "_high");
    }
    kvt_arena_release(&arena);
    free(summary);
    return status;
}

/* The SLO of each choice of a domain below slo; others are as the config has them. */
static enum kvt_status list_slo_choices(struct kvt_point_columns *columns,
                                        const struct kvt_points *points, int32_t resamples,
                                        struct kvt_err *err)
{
    int64_t stride = points->count;
    for (int32_t d = 0; d < points->config->domains; d++) {
        const struct kvt_config_domain *domain = kvt_config_domain(points->config, d);
        stride /= domain->count;
        for (int32_t i = 0; strncmp(domain->path, "slo", 3) == 0 && i < domain->count; i++) {
            struct kvt_config *chosen = malloc(sizeof *chosen);
            struct kvt_err own = {0};
            if (chosen == NULL)
                return kvt_err_set(err, KVT_ENOMEM, "no memory for the columns of a sweep");
            enum kvt_status status = kvt_points_choose(points, i * stride, NULL, 0, chosen, &own);
            if (status == KVT_OK) {
                status = list_metrics(columns, &chosen->slo, resamples, err);
                kvt_config_release(chosen);
            } else {
                status = kvt_point_ends_the_job(status) ? kvt_err_set(err, status, "%s", own.text)
                                                        : KVT_OK;
            }
            free(chosen);
            KVT_TRY(status);
        }
    }
    return KVT_OK;
}

enum kvt_status kvt_point_columns_init(struct kvt_point_columns *columns,
                                       const struct kvt_points *points, int32_t resamples,
                                       struct kvt_err *err)
{
    *columns = (struct kvt_point_columns){0};
    KVT_TRY(list_metrics(columns, &points->config->slo, resamples, err));
    KVT_TRY(list_slo_choices(columns, points, resamples, err));
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        add_column(columns, kvt_role_names[role], "_busy_fraction");
        add_column(columns, kvt_role_names[role], "_pages_peak_fraction");
    }
    if (resamples > 0)
        add_column(columns, "slo_confidence", "");
    return KVT_OK;
}

/* ---- values ------------------------------------------------------------------------------- */

static void put(const struct kvt_point_columns *columns, const char *name, const char *end,
                double value, double values[])
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", name, end);
    int32_t at = kvt_point_column(columns, whole);
    if (at >= 0)
        values[at] = value;
}

static void put_roles(const struct kvt_point_columns *columns, const struct kvt_evaluation *e,
                      double values[])
{
    const struct kvt_core *core = &e->simulation.des.core;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!e->simulation.config->roles[role].present)
            continue;
        double busy = 0, peak = 0;
        int32_t count = 0;
        for (int32_t i = 0; i < e->result.replica_count; i++) {
            const struct kvt_result_replica *replica = &e->result.replicas[i];
            if ((int)core->replicas[i].spec.role != role)
                continue;
            count++;
            busy += (double)replica->busy;
            peak = fmax(peak, (double)replica->pages_peak / (double)replica->pages);
        }
        if (count == 0 || e->result.end <= 0)
            continue;
        put(columns, kvt_role_names[role], "_busy_fraction",
            busy / ((double)count * (double)e->result.end), values);
        put(columns, kvt_role_names[role], "_pages_peak_fraction", peak, values);
    }
}

void kvt_point_values(const struct kvt_point_columns *columns, const struct kvt_evaluation *e,
                      double values[])
{
    for (int32_t i = 0; i < columns->count; i++)
        values[i] = (double)NAN;
    for (int32_t m = 0; m < e->summary.metric_count; m++) {
        const struct kvt_metric *metric = &e->summary.metrics[m];
        put(columns, metric->name, "", kvt_metric_number(metric), values);
        if (!metric->has_interval)
            continue;
        put(columns, metric->name, "_low", metric->low, values);
        put(columns, metric->name, "_high", metric->high, values);
    }
    put_roles(columns, e, values);
    if (e->resamples.count > 0)
        put(columns, "slo_confidence", "", kvt_resamples_share(&e->resamples, "slo_met"), values);
}

/* ---- a run -------------------------------------------------------------------------------- */

static void fail(struct kvt_point *point, const struct kvt_point_columns *columns,
                 enum kvt_status status, const char *message)
{
    point->status = status;
    snprintf(point->message, sizeof point->message, "%.*s", KVT_POINT_MESSAGE - 1, message);
    for (int32_t i = 0; i < columns->count; i++)
        point->values[i] = (double)NAN;
}

bool kvt_point_ends_the_job(enum kvt_status status)
{
    return status == KVT_EINTR || status == KVT_ENOMEM || status == KVT_EDEVICE ||
           status == KVT_EIO;
}

struct workplace {
    struct kvt_config config;
    struct kvt_evaluation evaluation;
};

static enum kvt_status run(struct kvt_point *point, struct workplace *at,
                           const struct kvt_point_columns *columns, int32_t resamples,
                           const struct kvt_stop *stop, struct kvt_err *err)
{
    const struct kvt_simulate_options options = {.planned = true, .stop = stop};
    const struct kvt_resample_options resample = {
        .count = resamples, .seed = at->config.run.seed, .stop = stop};
    KVT_TRY(kvt_evaluate(&at->evaluation, &at->config, &options, &resample, err));
    point->digest = at->evaluation.result.digest;
    kvt_point_values(columns, &at->evaluation, point->values);
    kvt_evaluation_release(&at->evaluation);
    return KVT_OK;
}

enum kvt_status kvt_point_run(struct kvt_point *point, const struct kvt_points *points,
                              int64_t number, const struct kvt_point_columns *columns,
                              int32_t resamples, const struct kvt_stop *stop, struct kvt_err *err)
{
    struct kvt_err own = {0};
    struct workplace *at = malloc(sizeof *at);
    if (at == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a run");
    point->status = KVT_OK;
    point->digest = 0;
    point->message[0] = '\0';
    enum kvt_status status = kvt_points_choose(points, number, NULL, 0, &at->config, &own);
    if (status == KVT_OK) {
        status = run(point, at, columns, resamples, stop, &own);
        kvt_config_release(&at->config);
    }
    free(at);
    if (status != KVT_OK && kvt_point_ends_the_job(status))
        return kvt_err_set(err, status, "%s", own.text);
    if (status != KVT_OK)
        fail(point, columns, status, own.text);
    return KVT_OK;
}

/* ---- as bytes ----------------------------------------------------------------------------- */

struct packed { /* then the values, then the message without its zero byte */
    uint64_t digest;
    int32_t status, columns;
};

size_t kvt_point_bytes_max(const struct kvt_point_columns *columns)
{
    return sizeof(struct packed) + (size_t)columns->count * sizeof(double) + KVT_POINT_MESSAGE;
}

size_t kvt_point_pack(const struct kvt_point *point, const struct kvt_point_columns *columns,
                      unsigned char *out)
{
    struct packed head = {
        .digest = point->digest, .status = (int32_t)point->status, .columns = columns->count};
    size_t values = (size_t)columns->count * sizeof(double), text = strlen(point->message);
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, point->values, values);
    memcpy(out + sizeof head + values, point->message, text);
    return sizeof head + values + text;
}

bool kvt_point_unpack(struct kvt_point *point, const struct kvt_point_columns *columns,
                      const unsigned char *bytes, size_t count)
{
    struct packed head;
    size_t values = (size_t)columns->count * sizeof(double), fixed = sizeof head + values;
    if (count < fixed || count - fixed >= sizeof point->message)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (head.columns != columns->count)
        return false;
    point->digest = head.digest;
    point->status = (enum kvt_status)head.status;
    memcpy(point->values, bytes + sizeof head, values);
    memcpy(point->message, bytes + fixed, count - fixed);
    point->message[count - fixed] = '\0';
    return true;
}
