/*
 * fault_split.h - a run that is split where it comes nearer to wrong tokens
 *
 * Fixed splitting, depth first (Garvels, "The splitting method in rare event simulation", 2000;
 * L'Ecuyer, Demers and Tuffin, "Rare events, splitting, and quasi-Monte Carlo", 2007). A root is a
 * branch of the trunk with its strikes. Whenever a run reaches a level for the first time
 * (kvt_faults_level), `factor` clones of its whole state go on from there, each with another future
 * (kvt_faults_resample, from the root's seed and the clone's own number) and 1 / factor of its
 * weight. The value of a root is the sum of what its leaves end with, by their weights: its mean is
 * that of a plain run, whatever the factors, and roots are independent, so that the variance of the
 * mean of roots is estimated by that of the roots (rare.h).
 *
 * A pilot finds the factors: 1 / the share of the runs at a level that go on to a higher one, or to
 * an escape.
 *
 * Memory: a state per level that runs stood on at once. Cost of a clone: a copy of the state, and
 * its events until nothing is open.
 */
#ifndef KVT_PLAN_FAULT_SPLIT_H
#define KVT_PLAN_FAULT_SPLIT_H

#include "sim/plan/trunk.h"

#define KVT_SPLIT_FACTOR_MAX 16

struct kvt_split_levels { /* by level; [0] is a root's start */
    int64_t entered[KVT_FAULT_LEVELS], passed[KVT_FAULT_LEVELS]; /* runs there; of them, those
                                                                  * that went on or escaped */
    int32_t factor[KVT_FAULT_LEVELS];                            /* 0 and 1: no split */
    int64_t clones;
};

struct kvt_splitter { /* of one thread; zeroed but for trunk and factors */
    struct kvt_trunk trunk;
    struct kvt_split_levels levels;
    struct kvt_split_frame {
        struct kvt_state state;
        struct kvt_strike *strikes; /* [trunk.room] */
        int32_t level, left;        /* clones to go on yet */
        double weight;              /* of each */
    } frames[KVT_FAULT_LEVELS];
    bool branch; /* runs end when nothing is open; otherwise at their end */
};

/* Split one root. *value: what it escaped with, requests with wrong tokens. KVT_ENOMEM. */
enum kvt_status kvt_split_root(struct kvt_splitter *split, const struct kvt_strike strikes[],
                               int32_t count, uint64_t seed, double *value, struct kvt_err *err);

/* Factors from what was entered and passed so far. */
void kvt_split_adapt(struct kvt_split_levels *levels);

/* Requests that escaped with wrong tokens in a run that was finished, each by the chance of the
 * tags that were forced for it. */
double kvt_fault_escaped(const struct kvt_faults *faults);

void kvt_split_release(struct kvt_splitter *split);

#endif
