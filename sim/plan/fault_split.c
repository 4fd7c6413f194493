#include "sim/plan/fault_split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double kvt_fault_escaped(const struct kvt_faults *faults)
{
    double sum = 0;
    for (int32_t i = 0; i < faults->count; i++) {
        const struct kvt_fault_result *result = &faults->results[i];
        if (result->outcome == KVT_OUTCOME_ESCAPED)
            sum += result->spoiled * exp(result->log_weight);
    }
    return sum;
}

/* On to a level above this one, or to the end: then the same level. */
static int32_t go_on(struct kvt_splitter *split, int32_t level)
{
    struct kvt_faults *faults = split->trunk.simulation.faults;
    int32_t here = kvt_faults_level(faults);
    split->levels.entered[level]++;
    while (here <= level && !(split->branch && kvt_faults_are_settled(faults)) &&
           kvt_des_step(&split->trunk.simulation.des, 1))
        here = kvt_faults_level(faults);
    return here > level ? here : level;
}

static enum kvt_status push(struct kvt_splitter *split, struct kvt_split_frame *frame,
                            int32_t level, double weight, struct kvt_err *err)
{
    size_t bytes = (size_t)split->trunk.room * sizeof *frame->strikes;
    if (frame->strikes == NULL)
        frame->strikes = malloc(bytes);
    if (frame->strikes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a state of %zu bytes", bytes);
    memcpy(frame->strikes, split->trunk.strikes, bytes);
    frame->level = level;
    frame->left = split->levels.factor[level];
    frame->weight = weight / frame->left;
    return kvt_state_keep(&frame->state, &split->trunk.simulation, err);
}

/* The next clone of the state in frame: number `clone` of its root. */
static void pull(struct kvt_splitter *split, struct kvt_split_frame *frame, uint64_t root,
                 uint64_t clone)
{
    struct kvt_simulation *simulation = &split->trunk.simulation;
    struct kvt_stream stream;
    kvt_stream_init(&stream, root, KVT_PURPOSE_FAULT, UINT64_C(2) << 61 | clone);
    frame->left--;
    split->levels.clones++;
    kvt_state_put_back(&frame->state, simulation);
    memcpy(split->trunk.strikes, frame->strikes,
           (size_t)split->trunk.room * sizeof *frame->strikes);
    kvt_faults_resample(simulation->faults, split->trunk.strikes, kvt_stream_u64(&stream));
    kvt_des_set_faults(&simulation->des, simulation->faults);
}

enum kvt_status kvt_split_root(struct kvt_splitter *split, const struct kvt_strike strikes[],
                               int32_t count, uint64_t seed, double *value, struct kvt_err *err)
{
    struct kvt_faults *faults = split->trunk.simulation.faults;
    double weight = 1;
    int32_t level = 0, depth = 0;
    uint64_t clone = 0;
    kvt_trunk_branch(&split->trunk, strikes, count, seed);
    faults->draw_aliases = true;
    for (*value = 0;;) {
        int32_t reached = go_on(split, level);
        double escaped = 0;
        if (reached == level) {
            kvt_faults_finish(faults);
            escaped = kvt_fault_escaped(faults);
        }
        split->levels.passed[level] += reached > level || escaped > 0;
        *value += weight * escaped;
        if (reached > level && split->levels.factor[reached] <= 1) {
            level = reached;
            continue;
        }
        if (reached > level)
            KVT_TRY(push(split, &split->frames[depth++], reached, weight, err));
        while (depth > 0 && split->frames[depth - 1].left == 0)
            depth--;
        if (depth == 0)
            return KVT_OK;
        struct kvt_split_frame *top = &split->frames[depth - 1];
        level = top->level;
        weight = top->weight;
        pull(split, top, seed, ++clone);
    }
}

void kvt_split_adapt(struct kvt_split_levels *levels)
{
    for (int32_t i = 1; i < KVT_FAULT_LEVELS; i++) {
        double share = (double)(levels->passed[i] + 1) / (double)(levels->entered[i] + 2);
        levels->factor[i] = (int32_t)fmin(round(1 / share), KVT_SPLIT_FACTOR_MAX);
    }
}

void kvt_split_release(struct kvt_splitter *split)
{
    for (int32_t i = 0; i < KVT_FAULT_LEVELS; i++) {
        kvt_state_release(&split->frames[i].state);
        free(split->frames[i].strikes);
    }
    kvt_trunk_release(&split->trunk);
    *split = (struct kvt_splitter){.branch = false};
}
