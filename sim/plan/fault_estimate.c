#include "sim/plan/fault_estimate.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fault/proportion.h"
#include "sim/plan/fault_rates.h"

const char *const kvt_fault_estimator_names[KVT_ESTIMATE_COUNT] = {"counted", "importance",
                                                                   "splitting"};

#define RUNS_OF_A_PART 8 /* in a row by one thread: the unit of work, and of adding up in order */

struct job {
    const struct kvt_simulation *base;
    const struct kvt_campaign_options *options;
    enum kvt_fault_estimator estimator;
    double inflate;
    struct kvt_splitter *splits; /* [threads] of splitting */
    int32_t threads;
    int64_t runs, done;
    struct part {
        struct kvt_tally tally;
        int64_t strikes, activated;
    } * parts;
    struct kvt_err err; /* of the first run that failed */
};

static uint64_t seed_of(const struct job *job, int64_t run)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, job->base->config->run.seed, KVT_PURPOSE_FAULT,
                    UINT64_C(6) << 61 | (uint64_t)run);
    return kvt_stream_u64(&stream);
}

static enum kvt_status run_once(const struct job *job, int64_t number, struct kvt_strike strikes[],
                                struct part *part, struct kvt_err *err)
{
    struct kvt_simulation simulation;
    uint64_t seed = seed_of(job, number);
    int32_t count;
    double log_weight;
    KVT_TRY(kvt_fault_draw_plan(job->base, seed, job->inflate, strikes, &count, &log_weight, err));
    part->strikes += count;
    if (count == 0) { /* nothing can go wrong */
        kvt_tally_add(&part->tally, 0, 0);
        return KVT_OK;
    }
    struct kvt_simulate_options how = {
        .exact = job->options->exact, .named = true, .strikes = strikes, .strike_count = count};
    KVT_TRY(kvt_simulation_init_with_errors(&simulation, job->base, NULL, &how, err));
    simulation.faults->seed = seed;
    simulation.faults->force_aliases = job->estimator == KVT_ESTIMATE_IMPORTANCE;
    enum kvt_status status = kvt_simulation_run(&simulation, &how, err);
    for (int32_t i = 0; i < count; i++)
        part->activated += simulation.faults->results[i].activated;
    kvt_tally_add(&part->tally, kvt_fault_escaped(simulation.faults), log_weight);
    kvt_simulation_release(&simulation);
    return status;
}

/* One root. Whether a strike found its target tells its level: passed[0]. */
static enum kvt_status split_once(const struct job *job, struct kvt_splitter *split, int64_t number,
                                  struct kvt_strike strikes[], struct part *part,
                                  struct kvt_err *err)
{
    uint64_t seed = seed_of(job, number);
    int32_t count;
    double log_chance, value = 0;
    KVT_TRY(kvt_fault_draw_struck_plan(job->base, seed, strikes, &count, &log_chance, err));
    if (count > KVT_SPLIT_STRIKES_MAX)
        return kvt_err_at(err, KVT_ELIMIT, job->base->config->faults.where,
                          "faults: %d strikes in one run, and splitting takes %d at most: these "
                          "rates can be counted",
                          count, KVT_SPLIT_STRIKES_MAX);
    part->strikes += count;
    int64_t passed = split->levels.passed[0];
    if (count > 0)
        KVT_TRY(kvt_split_root(split, strikes, count, seed, &value, err));
    part->activated += split->levels.passed[0] - passed;
    kvt_tally_add(&part->tally, value, log_chance);
    return KVT_OK;
}

static enum kvt_status run_number(const struct job *job, int64_t number,
                                  struct kvt_strike strikes[], struct part *part,
                                  struct kvt_err *err)
{
    if (job->estimator == KVT_ESTIMATE_SPLITTING)
        return split_once(job, &job->splits[omp_get_thread_num()], number, strikes, part, err);
    return run_once(job, number, strikes, part, err);
}

static void run_part(struct job *job, int64_t number)
{
    struct kvt_err err = {0};
    struct kvt_strike *strikes = malloc(KVT_STRIKES_MAX * sizeof *strikes);
    if (strikes == NULL)
        kvt_err_set(&err, KVT_ENOMEM, "no memory for %d strikes", KVT_STRIKES_MAX);
    int64_t end = (number + 1) * RUNS_OF_A_PART;
    for (int64_t i = number * RUNS_OF_A_PART; i < end && i < job->runs && err.status == KVT_OK; i++)
        run_number(job, i, strikes, &job->parts[number], &err);
    free(strikes);
#pragma omp critical(estimate)
    {
        job->done += RUNS_OF_A_PART;
        if (err.status != KVT_OK && job->err.status == KVT_OK)
            job->err = err;
        kvt_tell(&job->options->tell, (double)job->done / (double)job->runs, job->done);
    }
}

static bool is_over(const struct job *job)
{
    return kvt_stop_asked(job->options->stop) || job->err.status != KVT_OK;
}

static enum kvt_status run_all(struct job *job, struct kvt_fault_estimate *estimate,
                               struct kvt_err *err)
{
    int64_t parts = (job->runs + RUNS_OF_A_PART - 1) / RUNS_OF_A_PART;
    job->parts = calloc((size_t)parts, sizeof *job->parts);
    if (job->parts == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %lld runs", (long long)job->runs);
#pragma omp parallel for schedule(dynamic) num_threads(job->threads)
    for (int64_t i = 0; i < parts; i++) {
        bool over;
#pragma omp critical(estimate)
        over = is_over(job);
        if (!over)
            run_part(job, i);
    }
    for (int64_t i = 0; i < parts; i++) {
        kvt_tally_merge(&estimate->tally, &job->parts[i].tally);
        estimate->strikes += job->parts[i].strikes;
        estimate->activated += job->parts[i].activated;
    }
    free(job->parts);
    if (job->err.status != KVT_OK) {
        *err = job->err;
        return err->status;
    }
    if (is_over(job))
        return kvt_err_set(err, KVT_EINTR, "interrupted after %lld of %lld run%s",
                           (long long)estimate->tally.runs, (long long)job->runs,
                           kvt_plural(job->runs));
    return KVT_OK;
}

/* ---- splitting ---------------------------------------------------------------------------- */

/* Roots of their own numbers, after those of the runs: the factors must not know these. */
static enum kvt_status run_pilot(struct job *job, struct kvt_err *err)
{
    struct kvt_strike *strikes = malloc(KVT_STRIKES_MAX * sizeof *strikes);
    struct part unused = {.strikes = 0};
    enum kvt_status status = KVT_OK;
    if (strikes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d strikes", KVT_STRIKES_MAX);
    for (int64_t i = 0; i < (job->runs + 7) / 8 && status == KVT_OK && !is_over(job); i++) {
        status = split_once(job, &job->splits[0], job->runs + i, strikes, &unused, err);
        kvt_split_adapt(&job->splits[0].levels);
    }
    free(strikes);
    return status;
}

static enum kvt_status begin_splits(struct job *job, struct kvt_err *err)
{
    const struct kvt_config_faults *faults = &job->base->config->faults;
    kvt_ticks until = faults->until < 0 ? -1 : kvt_ticks_from_seconds(faults->until);
    struct kvt_simulate_options how = {.exact = job->options->exact};
    job->splits = calloc((size_t)job->threads, sizeof *job->splits);
    if (job->splits == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d threads", job->threads);
    for (int32_t i = 0; i < job->threads; i++) {
        job->splits[i].branch = job->options->branch;
        KVT_TRY(kvt_trunk_init(&job->splits[i].trunk, job->base->config, &how,
                               KVT_SPLIT_STRIKES_MAX, kvt_ticks_from_seconds(faults->from), until,
                               job->options->branch, err));
    }
    KVT_TRY(run_pilot(job, err));
    struct kvt_split_levels found = {.clones = 0};
    memcpy(found.factor, job->splits[0].levels.factor, sizeof found.factor);
    for (int32_t i = 0; i < job->threads; i++)
        job->splits[i].levels = found;
    return KVT_OK;
}

static void end_splits(struct job *job, struct kvt_split_levels *levels)
{
    for (int32_t i = 0; job->splits != NULL && i < job->threads; i++) {
        const struct kvt_split_levels *part = &job->splits[i].levels;
        levels->clones += part->clones;
        for (int32_t level = 0; level < KVT_FAULT_LEVELS; level++) {
            levels->entered[level] += part->entered[level];
            levels->passed[level] += part->passed[level];
            levels->factor[level] = part->factor[level];
        }
        kvt_split_release(&job->splits[i]);
    }
    free(job->splits);
}

enum kvt_status kvt_fault_estimate(const struct kvt_config *config,
                                   const struct kvt_campaign_options *options,
                                   enum kvt_fault_estimator estimator, double inflate,
                                   struct kvt_fault_estimate *estimate, struct kvt_err *err)
{
    struct kvt_simulation base;
    struct kvt_simulate_options how = {.named = true, .talk = options->talk};
    if (config->faults.rates.count == 0 || config->faults.plan.count > 0)
        return kvt_err_at(err, KVT_ECONFIG, config->faults.where,
                          "faults: an estimate per request wants rates, and no plan");
    if (config->faults.trials > KVT_TRIALS_MAX)
        return kvt_err_at(err, KVT_ELIMIT, config->faults.where,
                          "faults.trials: want at most %d runs, got %lld", KVT_TRIALS_MAX,
                          (long long)config->faults.trials);
    KVT_TRY(kvt_simulation_init(&base, config, &how, err));
    *estimate = (struct kvt_fault_estimate){
        .runs = config->faults.trials, .requests = base.trace.count, .inflate = 1};
    enum kvt_status status = kvt_fault_plan_mean(&base, &estimate->mean, err);
    if (status == KVT_OK && estimator == KVT_ESTIMATE_IMPORTANCE && estimate->mean > 0)
        estimate->inflate = inflate > 0 ? inflate : fmax(1, 1 / estimate->mean);
    if (estimate->mean == 0) /* nothing strikes: no run has anything to split */
        estimator = KVT_ESTIMATE_COUNTED;
    struct job job = {.base = &base,
                      .options = options,
                      .estimator = estimator,
                      .inflate = estimate->inflate,
                      .threads = options->threads > 0 ? options->threads : omp_get_max_threads(),
                      .runs = estimate->runs};
    if (status == KVT_OK && estimator == KVT_ESTIMATE_SPLITTING)
        status = begin_splits(&job, err);
    if (status == KVT_OK)
        status = run_all(&job, estimate, err);
    end_splits(&job, &estimate->levels);
    kvt_simulation_release(&base);
    return status;
}

struct kvt_estimate kvt_fault_estimate_escapes(const struct kvt_fault_estimate *estimate)
{
    struct kvt_estimate e = kvt_tally_estimate(&estimate->tally, 0.95);
    double requests = estimate->requests > 0 ? (double)estimate->requests : 1;
    if (e.hits == 0 && e.runs > 0) { /* splitting begins at a strike; no strike, no escape */
        bool split = estimate->levels.entered[0] > 0;
        double any = -expm1(-estimate->mean);
        e.high = split ? e.high * any : fmin(e.high, any);
    }
    e.p /= requests;
    e.low /= requests;
    e.high /= requests;
    e.error /= requests;
    return e;
}
