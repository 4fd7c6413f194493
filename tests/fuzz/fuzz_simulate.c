/*
 * fuzz_simulate.c - whole runs of small loads on small pools, whatever a config says
 *
 * Input: the text of a config. Traces are left out, and what makes a run long is cut: replicas,
 * requests, lengths, pages. What is left is refused with a message, or it runs by macro-steps and
 * step by step to the same digest, loses no request, and has a summary.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/plan/evaluate.h"
#include "sim/plan/fault_plan.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static struct kvt_strike strikes[KVT_STRIKES_MAX];

static bool is_small(const struct kvt_config_lengths *lengths, double most)
{
    return lengths->kind != KVT_LENGTHS_EMPIRICAL && lengths->mean <= most &&
           lengths->min <= most && lengths->max <= most && lengths->p99 <= most &&
           lengths->cv <= 10;
}

/* Leave out what reads files, and cut the rest to a few thousand steps. False: not to be run. */
static bool cut(struct kvt_config *config)
{
    struct kvt_config_workload *w = &config->workload;
    if (config->domains > 0 || config->model.name == NULL || config->calibration.count > 0 ||
        (w->kind != KVT_WORKLOAD_OPEN && w->kind != KVT_WORKLOAD_CLOSED) ||
        !is_small(&w->input, 1000) || !is_small(&w->output, 300) || w->prefixes.tokens > 1000 ||
        w->prefixes.groups > 8)
        return false;
    if (w->requests == KVT_UNSET || w->requests > 20)
        w->requests = 20;
    if (w->concurrency > 20 || config->run.series_points > 1000)
        return false;
    for (int r = 0; r < KVT_ROLE_COUNT; r++) {
        struct kvt_config_role *role = &config->roles[r];
        if (!role->present)
            continue;
        if (role->gpu.name == NULL || role->replicas > 3 || role->scheduler.max_running > 512)
            return false;
        if (role->memory.pages == KVT_UNSET || role->memory.pages > 500)
            role->memory.pages = 100;
        if (role->scheduler.max_running == KVT_UNSET)
            role->scheduler.max_running = 64;
        if (role->page_tokens > 100000)
            return false;
    }
    return true;
}

/* Status of the run; digest and the number of requests that came. */
static enum kvt_status run(const struct kvt_config *config, bool exact, int32_t struck,
                           uint64_t *digest)
{
    static struct kvt_evaluation e;
    static struct kvt_err err;
    memset(&err, 0, sizeof err);
    struct kvt_simulate_options options = {
        .exact = exact, .strikes = struck > 0 ? strikes : NULL, .strike_count = struck};
    enum kvt_status status = kvt_evaluate(&e, config, &options, NULL, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    if (status != KVT_OK)
        return status;
    struct kvt_core *core = &e.simulation.des.core;
    int64_t ended = core->live;
    for (int32_t t = 0; t < core->tenants; t++)
        ended += core->counts[t].completed + core->counts[t].rejected + core->counts[t].aborted -
                 core->counts[t].arrived;
    kvt_assert(ended == 0);
    kvt_assert(struck > 0 || config->run.until >= 0 || core->live == 0);
    kvt_core_validate(core);
    double duration = kvt_evaluation_metric(&e, "duration");
    kvt_assert(isnan(duration) || duration >= 0);
    *digest = core->log.digest;
    kvt_evaluation_release(&e);
    return KVT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct kvt_err err;
    struct kvt_config config;
    uint64_t macro = 0, exact = 0;
    int32_t struck = 0;
    place_catalogue();
    memset(&err, 0, sizeof err);
    if (memchr(bytes, 0, count) != NULL ||
        kvt_config_parse(&config, "fuzz", (const char *)bytes, count, "", NULL, 0, &err) != KVT_OK)
        return 0;
    if (cut(&config) && kvt_fault_plan(&config, strikes, &struck, &err) == KVT_OK) {
        enum kvt_status status = run(&config, false, struck, &macro);
        kvt_assert(run(&config, true, struck, &exact) == status && exact == macro);
    }
    kvt_config_release(&config);
    return 0;
}
