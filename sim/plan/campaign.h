/*
 * campaign.h - trials of one fault each: what a guard catches of a class, and what gets past it
 *
 * One fault-free run of the config is the trunk. A trial takes the state of the trunk at the last
 * checkpoint before its strike, lets the strike fall, and runs on until nothing is left that could
 * change the outcome (kvt_faults_are_settled). A state is the arena of the run and the structs
 * around it: a copy put back in place. With branch false every trial runs from the start to the end
 * and comes out the same.
 *
 * A cell is one class under one config (whose guards are part of it). Trials are drawn from (seed,
 * class, number), so cells of different guards see the same strikes (common random numbers), and
 * any number of threads gives the same cell.
 *
 * How many escape of 1e9: the share of the trials that escaped, or, where a tag could be equal by
 * chance, a second set of trials in which it is (forcing), each weighed by that chance. The
 * interval is Clopper and Pearson's for shares and the normal one of the weighed mean otherwise.
 */
#ifndef KVT_PLAN_CAMPAIGN_H
#define KVT_PLAN_CAMPAIGN_H

#include "sim/base/stop.h"
#include "sim/base/tell.h"
#include "sim/config/config.h"
#include "sim/fault/faults.h"

/* The config's run without a strike: what its guards cost. */
struct kvt_clean {
    double duration_s;  /* to its last event */
    int64_t requests;   /* that completed */
    double mean_tpot_s; /* of those with two tokens at least */
    int64_t false_aborts, pages_left,
        unfinished;       /* hits of guards; pages and requests at its end */
    int64_t guard_bytes;  /* per GPU of the decode or serve role, beside the pages */
    double fenced_page_s; /* pages that only a fence held, by seconds: every free waits for it */
};

struct kvt_cell {
    enum kvt_fault_kind kind;
    int64_t injected, activated, exposed;
    int64_t outcomes[KVT_OUTCOME_COUNT]; /* they sum to injected */
    int64_t cross_tenant, hit, lost, false_aborts, leaked;
    int64_t saved, again;          /* requests made or sent again; tokens that this took */
    int64_t spoiled, spoiled_most; /* requests lost or with wrong tokens: in all, of one strike */
    double held_page_s;            /* pages out of use, by seconds */
    struct kvt_clean clean;        /* the same for all cells of a config */
    int64_t detected_late;         /* of the detected: after tokens had leaked */
    double latency_s;              /* sum of the times from exposure or strike to detection */
    int64_t variants[KVT_STRIKE_COUNT]; /* activated, by variant: every knob fired */
    struct kvt_tally forced;            /* of trials with forced aliases; runs 0: none */
};

#define KVT_TRIALS_MAX  100000000 /* of all classes of a campaign, or runs of an estimate */
#define KVT_PART_TRIALS 16 /* in a row by one thread: the unit of work, and of adding up in order */

struct kvt_part { /* plain bytes: it may be stored and read again by the same program */
    struct kvt_cell cell;
    int64_t first;
    int32_t count; /* trials */
    struct kvt_strike strikes[KVT_PART_TRIALS];
    struct kvt_fault_result results[KVT_PART_TRIALS];
};

/* Where finished parts are kept. known: a part that was finished before, or NULL; any thread.
 * finished: one thread at a time; ends the campaign when it is not KVT_OK. */
struct kvt_part_store {
    void *context;
    const struct kvt_part *(*known)(void *context, int64_t part);
    enum kvt_status (*finished)(void *context, int64_t part, const struct kvt_part *done,
                                struct kvt_err *err);
};

struct kvt_campaign_options {
    int32_t threads; /* 0: as OpenMP has */
    bool branch;
    bool exact;                         /* decode steps one by one: the same result */
    bool count_only;                    /* no forced aliases */
    const struct kvt_part_store *store; /* NULL: none */
    const struct kvt_stop *stop;        /* NULL: never */
    struct kvt_tell tell;
    FILE *talk;
};

/* Run the trials of config->faults (which has no plan and no domains) for each class of kinds:
 * cells[KVT_FAULT_COUNT], those not asked for have injected 0. KVT_EINTR when stopped, KVT_ELIMIT
 * for more than KVT_TRIALS_MAX. */
enum kvt_status kvt_campaign_run(const struct kvt_config *config,
                                 const struct kvt_campaign_options *options,
                                 struct kvt_cell cells[KVT_FAULT_COUNT], struct kvt_err *err);

/* One run of config->faults.plan with what its rates draw: results[i] is that of strikes[i] (both
 * KVT_STRIKES_MAX), whose row is -1 when it was drawn. */
enum kvt_status kvt_fault_run(const struct kvt_config *config,
                              const struct kvt_campaign_options *options,
                              struct kvt_strike strikes[], struct kvt_fault_result results[],
                              int32_t *count, struct kvt_err *err);

/* Requests per second that end with right tokens when one strike of the cell falls per run. */
double kvt_cell_goodput(const struct kvt_cell *cell);

/* Escapes per 1e9 strikes of a cell. *estimator: "counted" or "forced". */
struct kvt_estimate kvt_cell_escapes(const struct kvt_cell *cell, const char **estimator);

#endif
