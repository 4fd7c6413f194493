#include "sim/plan/campaign.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fault/proportion.h"
#include "sim/plan/fault_plan.h"
#include "sim/plan/fault_rates.h"
#include "sim/plan/trunk.h"

#define EVENTS_PER_LOOK 64 /* between looks at whether a trial is settled */

/* ---- trials ------------------------------------------------------------------------------- */

static const struct kvt_fault_result *run_trial(struct kvt_trunk *trunk,
                                                const struct kvt_strike *strike, uint64_t seed,
                                                bool force, bool branch)
{
    struct kvt_faults *faults = trunk->simulation.faults;
    kvt_trunk_branch(trunk, strike, 1, seed);
    faults->force_aliases = force;
    bool more = true;
    while (more && !(branch && kvt_faults_are_settled(faults)))
        more = kvt_des_step(&trunk->simulation.des, EVENTS_PER_LOOK);
    kvt_faults_finish(faults);
    return &faults->results[0];
}

static void count_result(struct kvt_cell *cell, const struct kvt_strike *strike,
                         const struct kvt_fault_result *result)
{
    cell->injected++;
    cell->activated += result->activated;
    cell->variants[strike->variant] += result->activated;
    cell->exposed += result->exposed;
    cell->outcomes[result->outcome]++;
    cell->cross_tenant += result->cross_tenant;
    cell->hit += result->hit;
    cell->lost += result->lost;
    cell->false_aborts += result->false_aborts;
    cell->leaked += result->leaked;
    cell->saved += result->saved;
    cell->again += result->again;
    cell->spoiled += result->spoiled;
    if (result->spoiled > cell->spoiled_most)
        cell->spoiled_most = result->spoiled;
    cell->held_page_s += result->held_page_s;
    if (!result->detected)
        return;
    cell->detected_late += result->leaked > 0;
    kvt_ticks since = result->exposed ? result->exposed_at : strike->time;
    cell->latency_s += kvt_seconds_from_ticks(result->detected_at - since);
}

static void merge(struct kvt_cell *cell, const struct kvt_cell *part)
{
    cell->injected += part->injected;
    cell->activated += part->activated;
    cell->exposed += part->exposed;
    for (int i = 0; i < KVT_OUTCOME_COUNT; i++)
        cell->outcomes[i] += part->outcomes[i];
    for (int i = 0; i < KVT_STRIKE_COUNT; i++)
        cell->variants[i] += part->variants[i];
    cell->cross_tenant += part->cross_tenant;
    cell->hit += part->hit;
    cell->lost += part->lost;
    cell->false_aborts += part->false_aborts;
    cell->leaked += part->leaked;
    cell->saved += part->saved;
    cell->again += part->again;
    cell->spoiled += part->spoiled;
    if (part->spoiled_most > cell->spoiled_most)
        cell->spoiled_most = part->spoiled_most;
    cell->held_page_s += part->held_page_s;
    cell->detected_late += part->detected_late;
    cell->latency_s += part->latency_s;
    kvt_tally_merge(&cell->forced, &part->forced);
}

#define PART KVT_PART_TRIALS

struct work {
    const struct kvt_config *config;
    const struct kvt_campaign_options *options;
    kvt_ticks from, until;
    struct kvt_trunk *trunks; /* [threads] */
    struct kvt_part *parts;
    int64_t per_kind, part_count, done;
    int32_t trunk_count;
    atomic_bool failed; /* to keep a part, says err; threads look at it without the lock */
    struct kvt_err *err;
    enum kvt_fault_kind kinds[KVT_FAULT_COUNT];
};

static bool tags_decide(const struct kvt_config *config)
{
    bool tagged = false;
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        tagged = tagged || (config->roles[role].present &&
                            (config->roles[role].guard.on[KVT_GUARD_TAG_SIDE] ||
                             config->roles[role].guard.on[KVT_GUARD_TAG_INBAND]));
    return tagged;
}

static void run_part(struct work *work, int64_t number)
{
    const struct kvt_config *config = work->config;
    struct kvt_trunk *trunk = &work->trunks[omp_get_thread_num()];
    enum kvt_fault_kind kind = work->kinds[number / work->per_kind];
    struct kvt_part *part = &work->parts[number];
    int64_t first = number % work->per_kind * PART;
    bool tagged = tags_decide(config) && !work->options->count_only, branch = work->options->branch;
    part->first = first;
    for (int64_t trial = first; trial < first + PART && trial < config->faults.trials; trial++) {
        struct kvt_strike strike =
            kvt_fault_draw(config->run.seed, kind, trial, work->from, work->until);
        uint64_t seed = kvt_fault_trial_seed(config->run.seed, kind, trial);
        const struct kvt_fault_result *result = run_trial(trunk, &strike, seed, false, branch);
        count_result(&part->cell, &strike, result);
        part->strikes[part->count] = strike;
        part->results[part->count++] = *result;
        if (!tagged)
            continue;
        result = run_trial(trunk, &strike, seed, true, branch);
        kvt_tally_add(&part->cell.forced, result->outcome == KVT_OUTCOME_ESCAPED,
                      trunk->simulation.faults->log_weight);
    }
}

static bool is_stopped(const struct kvt_campaign_options *options)
{
    return kvt_stop_asked(options->stop);
}

static void run_parts(struct work *work, int32_t threads)
{
    const struct kvt_campaign_options *options = work->options;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < work->part_count; i++) {
        const struct kvt_part_store *store = options->store;
        const struct kvt_part *known = store != NULL ? store->known(store->context, i) : NULL;
        if (is_stopped(options) || work->failed)
            continue;
        if (known != NULL)
            work->parts[i] = *known;
        else
            run_part(work, i);
#pragma omp critical(campaign)
        {
            if (known == NULL && store != NULL && !work->failed)
                work->failed =
                    store->finished(store->context, i, &work->parts[i], work->err) != KVT_OK;
            work->done++;
            kvt_tell(&options->tell, (double)work->done / (double)work->part_count,
                     work->done * PART);
        }
    }
}

/* A run without a strike: nothing may fire. */
static struct kvt_clean run_clean(struct work *work, struct kvt_cell *cell)
{
    struct kvt_trunk *trunk = &work->trunks[0];
    const struct kvt_simulation *simulation = &trunk->simulation;
    const struct kvt_strike never = {.time = KVT_NEVER};
    kvt_trunk_branch(trunk, &never, 1, work->config->run.seed);
    while (kvt_des_step(&trunk->simulation.des, 4096))
        continue;
    kvt_faults_finish(trunk->simulation.faults);
    cell->false_aborts += trunk->simulation.faults->results[0].false_aborts;
    const struct kvt_core *core = &simulation->des.core;
    const struct kvt_observer *observer = &simulation->des.observer;
    bool serves = simulation->fleet->present[KVT_ROLE_SERVE];
    const struct kvt_memory *memory =
        &simulation->fleet->roles[serves ? KVT_ROLE_SERVE : KVT_ROLE_DECODE].plan.memory;
    struct kvt_clean clean = {.guard_bytes = memory->ledger[KVT_LEDGER_TAGS],
                              .false_aborts = simulation->faults->results[0].false_aborts,
                              .unfinished = core->live};
    kvt_core_audit(core);
    for (int32_t i = 0; i < core->replica_count; i++) {
        clean.pages_left += core->replicas[i].pages.held;
        clean.fenced_page_s += core->replicas[i].fenced_page_s;
    }
    int64_t counted = 0;
    double sum = 0;
    kvt_ticks last = 0;
    for (int32_t r = 0; r < core->request_count; r++) {
        const struct kvt_request *request = &core->requests[r];
        if (request->state != KVT_REQUEST_COMPLETED)
            continue;
        clean.requests++;
        last = observer->finish[r] > last ? observer->finish[r] : last;
        if (request->output < 2)
            continue;
        sum += kvt_seconds_from_ticks(observer->finish[r] - observer->first_token[r]) /
               (request->output - 1);
        counted++;
    }
    clean.duration_s = kvt_seconds_from_ticks(last);
    clean.mean_tpot_s = counted > 0 ? sum / (double)counted : 0;
    return clean;
}

double kvt_cell_goodput(const struct kvt_cell *cell)
{
    double spoiled = cell->injected > 0 ? (double)cell->spoiled / (double)cell->injected : 0;
    double right = fmax(0, (double)cell->clean.requests - spoiled);
    return cell->clean.duration_s > 0 ? right / cell->clean.duration_s : 0;
}

static enum kvt_status prepare(struct work *work, int32_t threads, struct kvt_err *err)
{
    const struct kvt_config_faults *faults = &work->config->faults;
    work->from = kvt_ticks_from_seconds(faults->from);
    work->until = faults->until < 0 ? -1 : kvt_ticks_from_seconds(faults->until);
    KVT_TRY(kvt_fault_check_window(work->config, err));
    bool strikes = (faults->kinds & ~UINT32_C(1)) != 0; /* otherwise one run, and no way back */
    bool branch = work->options->branch && strikes;
    threads = strikes ? threads : 1;
    work->trunks = calloc((size_t)threads, sizeof *work->trunks);
    work->trunk_count = threads;
    if (work->trunks == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d threads", threads);
    for (int32_t i = 0; i < threads; i++) {
        struct kvt_simulate_options how = {.exact = work->options->exact,
                                           .talk = i == 0 ? work->options->talk : NULL};
        KVT_TRY(kvt_trunk_init(&work->trunks[i], work->config, &how, 1, work->from, work->until,
                               branch, err));
    }
    work->until = work->trunks[0].until;
    if (work->until <= work->from)
        return kvt_err_at(err, KVT_ECONFIG, faults->where,
                          "faults: strikes from %g s, but the last request comes at %g s",
                          faults->from, kvt_seconds_from_ticks(work->until));
    work->per_kind = (faults->trials + PART - 1) / PART;
    int32_t kinds = 0;
    for (int32_t kind = KVT_FAULT_NONE + 1; kind < KVT_FAULT_COUNT; kind++)
        if (faults->kinds >> kind & 1)
            work->kinds[kinds++] = (enum kvt_fault_kind)kind;
    if (faults->trials > KVT_TRIALS_MAX / (kinds > 0 ? kinds : 1))
        return kvt_err_at(
            err, KVT_ELIMIT, faults->where,
            "faults.trials: want at most %d of all %d classes together, got %lld each",
            KVT_TRIALS_MAX, kinds, (long long)faults->trials);
    work->part_count = kinds * work->per_kind;
    work->parts = calloc((size_t)work->part_count + 1, sizeof *work->parts);
    return work->parts != NULL
               ? KVT_OK
               : kvt_err_set(err, KVT_ENOMEM, "no memory for %lld trials of %d classes",
                             (long long)faults->trials, kinds);
}

enum kvt_status kvt_campaign_run(const struct kvt_config *config,
                                 const struct kvt_campaign_options *options,
                                 struct kvt_cell cells[KVT_FAULT_COUNT], struct kvt_err *err)
{
    int32_t threads = options->threads > 0 ? options->threads : omp_get_max_threads();
    struct work work = {.config = config, .options = options, .err = err};
    for (int32_t kind = 0; kind < KVT_FAULT_COUNT; kind++)
        cells[kind] = (struct kvt_cell){.kind = (enum kvt_fault_kind)kind};
    enum kvt_status status = prepare(&work, threads, err);
    if (status == KVT_OK) {
        run_parts(&work, threads);
        for (int64_t i = 0; i < work.part_count; i++)
            merge(&cells[work.kinds[i / work.per_kind]], &work.parts[i].cell);
        if (work.failed)
            status = err->status;
        if (!is_stopped(options) && status == KVT_OK) {
            struct kvt_clean clean = run_clean(&work, &cells[KVT_FAULT_NONE]);
            for (int32_t kind = 0; kind < KVT_FAULT_COUNT; kind++)
                cells[kind].clean = clean;
        }
        if (is_stopped(options) && status == KVT_OK)
            status =
                kvt_err_set(err, KVT_EINTR, "interrupted after %lld of %lld trials",
                            (long long)(work.done * PART), (long long)(work.part_count * PART));
    }
    for (int32_t i = 0; work.trunks != NULL && i < work.trunk_count; i++)
        kvt_trunk_release(&work.trunks[i]);
    free(work.trunks);
    free(work.parts);
    return status;
}

enum kvt_status kvt_fault_run(const struct kvt_config *config,
                              const struct kvt_campaign_options *options,
                              struct kvt_strike strikes[], struct kvt_fault_result results[],
                              int32_t *count, struct kvt_err *err)
{
    struct kvt_simulation base, simulation;
    struct kvt_simulate_options how = {.named = true, .talk = options->talk};
    double log_weight;
    KVT_TRY(kvt_simulation_init(&base, config, &how, err));
    enum kvt_status status =
        kvt_fault_draw_plan(&base, config->run.seed, 1, strikes, count, &log_weight, err);
    how = (struct kvt_simulate_options){.exact = options->exact,
                                        .named = true,
                                        .strikes = strikes,
                                        .strike_count = *count,
                                        .stop = options->stop};
    if (status == KVT_OK)
        status = kvt_simulation_init_with_errors(&simulation, &base, NULL, &how, err);
    if (status != KVT_OK) {
        kvt_simulation_release(&base);
        return status;
    }
    status = kvt_simulation_run(&simulation, &how, err);
    for (int32_t i = 0; i < *count; i++)
        results[i] = simulation.faults->results[i];
    kvt_simulation_release(&simulation);
    kvt_simulation_release(&base);
    return status;
}

struct kvt_estimate kvt_cell_escapes(const struct kvt_cell *cell, const char **estimator)
{
    *estimator = cell->forced.runs > 0 ? "forced" : "counted";
    if (cell->forced.runs > 0)
        return kvt_tally_estimate(&cell->forced, 0.95);
    int64_t escaped = cell->outcomes[KVT_OUTCOME_ESCAPED];
    struct kvt_interval interval = kvt_clopper_pearson(escaped, cell->injected, 0.95);
    return (struct kvt_estimate){
        .p = cell->injected > 0 ? (double)escaped / (double)cell->injected : 0,
        .low = interval.low,
        .high = interval.high,
        .effective = (double)escaped,
        .runs = cell->injected,
        .hits = escaped,
    };
}
