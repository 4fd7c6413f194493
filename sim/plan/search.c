#include "sim/plan/search.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "sim/output/h5_items.h"
#include "sim/plan/search_parts.h"

struct job {
    struct kvt_search *search;
    const struct kvt_search_options *options;
    int64_t *order; /* candidates by objective; [count] */
    int64_t done;
    _Atomic enum kvt_status status; /* threads look at it without the lock */
    struct kvt_err err;
};

static bool is_stopped(const struct job *job)
{
    return job->status != KVT_OK || kvt_stop_asked(job->options->stop);
}

static void note(struct job *job, const struct kvt_err *why)
{
#pragma omp critical(kvt_search)
    {
        if (why->status != KVT_OK && job->status == KVT_OK) {
            job->status = why->status;
            job->err = *why;
        }
        job->done++;
        kvt_tell(&job->options->tell, (double)job->done / (2.0 * (double)job->search->count),
                 job->done / 2);
    }
}

static int32_t threads_of(const struct job *job)
{
    return job->options->threads > 0 ? job->options->threads : (int32_t)omp_get_max_threads();
}

static void price_all(struct job *job)
{
    struct kvt_search *search = job->search;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(job))
    for (int64_t i = 0; i < search->count; i++) {
        struct kvt_err why = {0};
        if (is_stopped(job))
            continue;
        kvt_candidate_price(&search->candidates[i], search->points, i, &why);
        note(job, &why);
    }
}

/* ---- order -------------------------------------------------------------------------------- */

static const struct kvt_candidate *sorted; /* of the sort under way; one thread sorts */

static int compare(double x, double y)
{
    return (x > y) - (x < y);
}

/* By objective, then by what is left of the SLO, then by number; those without a price last. */
static int by_rank(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const struct kvt_candidate *x = &sorted[i], *y = &sorted[j];
    int order = isnan(x->objective) - isnan(y->objective);
    if (order == 0 && !isnan(x->objective))
        order = compare(x->objective, y->objective);
    if (order == 0)
        order = compare(x->worst, y->worst);
    return order != 0 ? order : (i > j) - (i < j);
}

static void sort(struct job *job)
{
    sorted = job->search->candidates;
    qsort(job->order, (size_t)job->search->count, sizeof *job->order, by_rank);
}

/* ---- runs --------------------------------------------------------------------------------- */

/* Run those of order[from..to-1] that can be. */
static void run_some(struct job *job, int64_t from, int64_t to)
{
    struct kvt_search *search = job->search;
    const struct kvt_assess_how how = {.prune = !job->options->exhaustive,
                                       .stop = job->options->stop};
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(job))
    for (int64_t k = from; k < to; k++) {
        struct kvt_err why = {0};
        struct kvt_candidate *candidate = &search->candidates[job->order[k]];
        if (is_stopped(job))
            continue;
        if (candidate->state == KVT_CANDIDATE_MISSES)
            kvt_candidate_assess(candidate, search, job->order[k], &how, NULL, &why);
        note(job, &why);
    }
}

/* Resample those that meet the SLO, in order, until one is sure. Returns whether there is one. */
static bool find_best(struct job *job, int64_t count)
{
    struct kvt_search *search = job->search;
    const struct kvt_config_plan *plan = &search->points->config->plan;
    const struct kvt_assess_how how = {.resamples = (int32_t)plan->resamples,
                                       .stop = job->options->stop};
    for (int64_t k = 0; k < count && !is_stopped(job) && search->best < 0; k++) {
        struct kvt_candidate *candidate = &search->candidates[job->order[k]];
        struct kvt_err why = {0};
        if (candidate->state != KVT_CANDIDATE_MEETS)
            continue;
        if (plan->resamples > 0 &&
            kvt_candidate_assess(candidate, search, job->order[k], &how, NULL, &why) != KVT_OK) {
            job->status = why.status;
            job->err = why;
        } else if (candidate->state == KVT_CANDIDATE_MEETS) {
            search->best = job->order[k];
        }
    }
    return search->best >= 0;
}

/* Everything at once, or in the order of the objective until the best is known. Candidates of equal
 * objective belong together: which of them is best follows from their runs. */
static void run_all(struct job *job)
{
    struct kvt_search *search = job->search;
    const struct kvt_config_plan *plan = &search->points->config->plan;
    bool whole = plan->front || plan->objective == KVT_OBJECTIVE_USD_PER_MTOK;
    int64_t from = 0, to = 0;
    sort(job);
    while (from < search->count && !is_stopped(job)) {
        to = whole ? search->count : from + 1;
        double objective = search->candidates[job->order[from]].objective;
        while (to < search->count && search->candidates[job->order[to]].objective == objective)
            to++;
        run_some(job, from, to);
        from = to;
        sort(job);
        if (!whole && find_best(job, to))
            break;
    }
    if (whole)
        find_best(job, search->count);
    for (int64_t k = to; k < search->count; k++)
        if (search->candidates[job->order[k]].state == KVT_CANDIDATE_MISSES)
            search->candidates[job->order[k]].state = KVT_CANDIDATE_DEARER;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static enum kvt_status take_memory(struct job *job, struct kvt_err *err)
{
    struct kvt_search *search = job->search;
    size_t count = (size_t)search->count, columns = (size_t)search->columns.count;
    search->candidates = calloc(count, sizeof *search->candidates);
    search->front = calloc(count, sizeof *search->front);
    job->order = calloc(count, sizeof *job->order);
    double *values = calloc(count * columns, sizeof *values);
    if (search->candidates == NULL || search->front == NULL || job->order == NULL ||
        values == NULL) {
        free(values);
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %" PRId64 " candidates", search->count);
    }
    for (size_t i = 0; i < count * columns; i++)
        values[i] = (double)NAN;
    for (size_t i = 0; i < count; i++) {
        search->candidates[i].values = values + i * columns;
        job->order[i] = (int64_t)i;
    }
    return KVT_OK;
}

static void count_states(struct kvt_search *search)
{
    for (int64_t i = 0; i < search->count; i++)
        search->states[search->candidates[i].state]++;
    search->evaluated = search->states[KVT_CANDIDATE_MISSES] +
                        search->states[KVT_CANDIDATE_UNSURE] + search->states[KVT_CANDIDATE_MEETS];
}

/* Where nothing can be run and the question is at fault, not the fleets: say so, by the largest. */
static enum kvt_status check_question(const struct kvt_search *search, struct kvt_err *err)
{
    const struct kvt_candidate *worst = NULL;
    for (int64_t i = 0; i < search->count; i++) {
        const struct kvt_candidate *c = &search->candidates[i];
        if (c->state == KVT_CANDIDATE_MISSES)
            return KVT_OK;
        if (c->is_unanswerable && (worst == NULL || c->gpus > worst->gpus))
            worst = c;
    }
    return worst == NULL ? KVT_OK : kvt_err_set(err, KVT_ECONFIG, "%s", worst->message);
}

/* ---- pruned candidates that may be the closest -------------------------------------------- */

#define TURN 8 /* that are run at once; not the number of threads, for equal results */

static int by_least(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int order = compare(sorted[i].least, sorted[j].least);
    return order != 0 ? order : (i > j) - (i < j);
}

/* Nothing meets the SLO: run those that bounds had dropped until no bound of the others leaves them
 * nearer to it than the nearest run. */
static void run_pruned(struct job *job)
{
    struct kvt_search *search = job->search;
    const struct kvt_assess_how how = {.stop = job->options->stop};
    double nearest = (double)INFINITY;
    int64_t count = 0;
    for (int64_t i = 0; i < search->count; i++) {
        nearest = fmin(nearest, search->candidates[i].worst);
        if (search->candidates[i].state == KVT_CANDIDATE_PRUNED)
            job->order[count++] = i;
    }
    sorted = search->candidates;
    qsort(job->order, (size_t)count, sizeof *job->order, by_least);
    for (int64_t from = 0; from < count && !is_stopped(job); from += TURN) {
        int64_t to = from + TURN < count ? from + TURN : count;
        if (!(search->candidates[job->order[from]].least < nearest))
            break;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_of(job))
        for (int64_t k = from; k < to; k++) {
            struct kvt_err why = {0};
            if (!is_stopped(job))
                kvt_candidate_assess(&search->candidates[job->order[k]], search, job->order[k],
                                     &how, NULL, &why);
            if (why.status != KVT_OK)
                note(job, &why);
        }
        for (int64_t k = from; k < to; k++)
            nearest = fmin(nearest, search->candidates[job->order[k]].worst);
    }
}

static enum kvt_status search_all(struct job *job, struct kvt_err *err)
{
    price_all(job);
    if (job->status == KVT_OK && !is_stopped(job))
        KVT_TRY(check_question(job->search, err));
    run_all(job);
    if (job->search->best < 0)
        run_pruned(job);
    if (job->status != KVT_OK && job->status != KVT_EINTR)
        return kvt_err_set(err, job->status, "%s", job->err.text);
    if (is_stopped(job))
        return kvt_err_set(err, KVT_EINTR,
                           "interrupted after %" PRId64 " of %" PRId64 " candidate%s",
                           job->done / 2, job->search->count, kvt_plural(job->search->count));
    count_states(job->search);
    return kvt_search_explain(job->search, job->options, err);
}

/* What is asked for is no choice: a search over SLOs would take the laxest. */
static enum kvt_status check_config(const struct kvt_config *config, struct kvt_err *err)
{
    if (config->slo.ttft.count + config->slo.itl.count + config->slo.e2el.count == 0)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = config->path},
                          "want an slo that the fleet has to keep, got none");
    for (int32_t d = 0; d < config->domains; d++) {
        const struct kvt_config_domain *domain = kvt_config_domain(config, d);
        if (strncmp(domain->path, "slo", 3) == 0 || strncmp(domain->path, "plan", 4) == 0)
            return kvt_err_at(err, KVT_ECONFIG, domain->where,
                              "%s: want one value, which every fleet is judged by, got a domain "
                              "(sweep takes it)",
                              domain->path);
    }
    return KVT_OK;
}

enum kvt_status kvt_search_run(struct kvt_search *search, const struct kvt_points *points,
                               const struct kvt_search_options *options, struct kvt_err *err)
{
    *search = (struct kvt_search){.points = points,
                                  .count = points->count,
                                  .best = -1,
                                  .closest = -1,
                                  .cheaper = -1,
                                  .carries = (double)NAN,
                                  .rate = (double)NAN};
    const struct kvt_config *config = points->config;
    KVT_TRY(check_config(config, err));
    KVT_TRY(kvt_point_columns_init(&search->columns, points, (int32_t)config->plan.resamples, err));
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a search");
    job->search = search;
    job->options = options;
    enum kvt_status status = take_memory(job, err);
    if (status == KVT_OK)
        status = search_all(job, err);
    free(job->order);
    free(job);
    return status;
}

void kvt_search_release(struct kvt_search *search)
{
    if (search->candidates != NULL)
        free(search->candidates[0].values);
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        free(search->more[role].with.values);
    free(search->candidates);
    free(search->front);
    *search = (struct kvt_search){0};
}

/* ---- the file ----------------------------------------------------------------------------- */

#define OWN_COLUMNS 8 /* of candidates, beside settings and metrics */

/* Columns of numbers in one block: [columns + 6][count]. */
static void fill(const struct kvt_search *search, double *reals, int64_t *wholes,
                 const char **texts)
{
    int64_t n = search->count, domains = search->points->config->domains;
    for (int64_t i = 0; i < n; i++) {
        const struct kvt_candidate *c = &search->candidates[i];
        for (int32_t m = 0; m < search->columns.count; m++)
            reals[m * n + i] = c->values[m];
        const double own[4] = {c->usd_per_h, c->objective, c->worst, c->confidence};
        for (int32_t m = 0; m < 4; m++)
            reals[(search->columns.count + m) * n + i] = own[m];
        wholes[i] = c->gpus;
        wholes[n + i] = c->on_front;
        for (int32_t d = 0; d < domains; d++)
            texts[d * n + i] = kvt_points_text(search->points, i, d);
        texts[domains * n + i] = kvt_candidate_state_names[c->state];
        texts[(domains + 1) * n + i] = c->message;
    }
}

static enum kvt_status write_items(const struct kvt_search *search, const char *path,
                                   struct kvt_h5_item *items, const double *reals,
                                   const int64_t *wholes, const char *const *texts,
                                   const char *config, struct kvt_err *err)
{
    static const char *const reals_names[4] = {"usd_per_h", "objective", "worst", "confidence"};
    static const char *const text_names[2] = {"state", "message"};
    static const int64_t layout = 1;
    int64_t n = search->count, seed = (int64_t)search->points->config->run.seed;
    int32_t count = 0, domains = search->points->config->domains;
#define ADD(...) items[count++] = (struct kvt_h5_item){__VA_ARGS__}
    ADD("", "layout", KVT_H5_ATTRIBUTE_I64, 0, &layout);
    ADD("", "program", KVT_H5_ATTRIBUTE_TEXT, 0, "kvtwin");
    ADD("", "kind", KVT_H5_ATTRIBUTE_TEXT, 0, "plan");
    ADD("", "config", KVT_H5_TEXT, 1, &config);
    for (int32_t d = 0; d < domains; d++)
        ADD("settings", kvt_config_domain(search->points->config, d)->path, KVT_H5_TEXT, n,
            texts + d * n);
    for (int32_t t = 0; t < 2; t++)
        ADD("candidates", text_names[t], KVT_H5_TEXT, n, texts + (domains + t) * n);
    ADD("candidates", "gpus", KVT_H5_I64, n, wholes);
    ADD("candidates", "on_front", KVT_H5_I64, n, wholes + n);
    for (int32_t m = 0; m < 4; m++)
        ADD("candidates", reals_names[m], KVT_H5_F64, n, reals + (search->columns.count + m) * n);
    for (int32_t m = 0; m < search->columns.count; m++)
        ADD("metrics", search->columns.names[m], KVT_H5_F64, n, reals + m * n);
    ADD("meta", "seed", KVT_H5_ATTRIBUTE_I64, 0, &seed);
    ADD("meta", "version", KVT_H5_ATTRIBUTE_TEXT, 0, KVT_VERSION);
    ADD("meta", "best", KVT_H5_ATTRIBUTE_I64, 0, &search->best);
#undef ADD
    return kvt_h5_items_write(path, items, count, err);
}

enum kvt_status kvt_search_write(const struct kvt_search *search, const char *path,
                                 struct kvt_err *err)
{
    size_t n = (size_t)search->count, domains = (size_t)search->points->config->domains;
    size_t columns = (size_t)search->columns.count;
    struct kvt_h5_item *items = calloc(domains + columns + OWN_COLUMNS + 8, sizeof *items);
    double *reals = calloc(n * (columns + 4), sizeof *reals);
    int64_t *wholes = calloc(n * 2, sizeof *wholes);
    const char **texts = calloc(n * (domains + 2), sizeof *texts);
    char *config = kvt_config_print(search->points->config);
    enum kvt_status status;
    if (items == NULL || reals == NULL || wholes == NULL || texts == NULL || config == NULL) {
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to write %s", path);
    } else {
        fill(search, reals, wholes, texts);
        status = write_items(search, path, items, reals, wholes, texts, config, err);
    }
    free(items);
    free(reals);
    free(wholes);
    free(texts);
    free(config);
    return status;
}
