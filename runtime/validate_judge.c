/* What the figures of a validation add up to. */
#include <math.h>

#include "runtime/validate.h"

#define STEP_BOUND    0.08
#define REPEAT_FACTOR 1.5
#define INSIDE_BOUND  0.85
#define FREE_BOUND    0.12
#define REPEAT_BOUND  0.10

/* ---- verdict -------------------------------------------------------------------------------- */

static void judge(struct kvt_validation *v, enum kvt_verdict verdict, const char *why)
{
    if (v->verdict == KVT_VERDICT_FAIL ||
        (v->verdict != KVT_VERDICT_PASS && verdict != KVT_VERDICT_FAIL))
        return; /* the first of the worst kind is told */
    v->verdict = verdict;
    snprintf(v->why, sizeof v->why, "%s", why);
}

static void judge_times(struct kvt_validation *v)
{
    char why[200];
    double bound = fmax(STEP_BOUND, REPEAT_FACTOR * v->repeat_median);
    const enum kvt_verdict miss = KVT_VERDICT_FAIL;
    if (kvt_device_clock_jumps() > 0) {
        snprintf(why, sizeof why, "the system's clock went back %d time%s: no time can be judged",
                 kvt_device_clock_jumps(), kvt_plural(kvt_device_clock_jumps()));
        judge(v, KVT_VERDICT_INCONCLUSIVE, why);
        return;
    }
    if (v->repeat_median > REPEAT_BOUND) {
        snprintf(why, sizeof why,
                 "the same steps run twice differ by %.1f %% in the median, more than %.0f %%: the "
                 "machine is too noisy to judge times",
                 100 * v->repeat_median, 100 * REPEAT_BOUND);
        judge(v, KVT_VERDICT_INCONCLUSIVE, why);
        return;
    }
    if (v->steps.median > bound) {
        snprintf(why, sizeof why, "steps: median error %.1f %%, want at most %.1f %%",
                 100 * v->steps.median, 100 * bound);
        judge(v, miss, why);
    }
    if (v->steps.inside < INSIDE_BOUND) {
        snprintf(why, sizeof why, "blocks: %.0f %% inside their interval, want at least %.0f %%",
                 100 * v->steps.inside, 100 * INSIDE_BOUND);
        judge(v, miss, why);
    }
    if (!(fabs(v->free_run.throughput.error) <= FREE_BOUND)) {
        snprintf(why, sizeof why, "free run: throughput %+.1f %%, want within %.0f %%",
                 100 * v->free_run.throughput.error, 100 * FREE_BOUND);
        judge(v, miss, why);
    }
    if (!(fabs(v->free_run.tpot.error) <= FREE_BOUND)) {
        snprintf(why, sizeof why, "free run: mean TPOT %+.1f %%, want within %.0f %%",
                 100 * v->free_run.tpot.error, 100 * FREE_BOUND);
        judge(v, miss, why);
    }
    if (v->tag_check.predicted < v->tag_check.low || v->tag_check.predicted > v->tag_check.high) {
        snprintf(why, sizeof why, "tag check: %.2f %% predicted, want %.2f to %.2f %%",
                 100 * v->tag_check.predicted, 100 * v->tag_check.low, 100 * v->tag_check.high);
        judge(v, miss, why);
    }
}

void kvt_validate_judge(struct kvt_validation *validation, bool brief)
{
    struct kvt_validation *v = validation;
    char why[200];
    for (int32_t i = 0; i < v->roles; i++) {
        if (v->capacity[i].predicted_pages == v->capacity[i].measured_pages)
            continue;
        snprintf(why, sizeof why, "%s: %lld pages predicted, %lld fit", v->capacity[i].name,
                 (long long)v->capacity[i].predicted_pages,
                 (long long)v->capacity[i].measured_pages);
        judge(v, KVT_VERDICT_FAIL, why);
    }
    if (!v->decisions_equal) {
        snprintf(why, sizeof why, "replay: decision %lld differs", (long long)v->replay.divergence);
        judge(v, KVT_VERDICT_FAIL, why);
    }
    if (v->tag_check.failures > 0)
        judge(v, KVT_VERDICT_FAIL, "tags: pages failed their check without a fault");
    if (v->tokens_changed > 0)
        judge(v, KVT_VERDICT_FAIL, "tokens: a step that ran twice gave others");
    if (v->poisoned > 0)
        judge(v, KVT_VERDICT_FAIL, "activations are not finite");
    if (!brief)
        judge_times(v);
}
