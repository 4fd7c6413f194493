/*
 * fault_estimate.h - requests with wrong tokens per request, at the rates of a config
 *
 * Each run is the config's load with a plan of its own, drawn from faults.rates (fault_rates.h).
 *
 *   counted      plans as the rates say; tags are equal when they happen to be
 *   importance   rates are inflated so that about one strike falls per run, whose weight is the
 *                ratio of the plan's densities; tags that could be equal by chance are, and what
 *                escapes for the sake of that strike is weighed by that chance as well
 *   splitting    plans are drawn given that a strike falls, whose chance is known; a run is split
 *                where it comes nearer to wrong tokens (fault_split.h), and tags are equal with
 *                their chance. A pilot of an eighth of the runs finds the factors
 *
 * All estimate the same: escaped requests of a run, over its requests. An escape of 1e-9 per
 * request takes as many weighted runs as one of 1e-3; `effective` says how many equal runs they are
 * worth (rare.h). Forcing a tag settles tags of any width at once, but does nothing for what
 * hangs on the time at which bytes land; splitting does, and takes longer for wide tags. Where
 * strikes come close together, forcing one tag keeps a request that would have been aborted in the
 * fleet while the next one falls: an error of the order of that overlap.
 */
#ifndef KVT_PLAN_FAULT_ESTIMATE_H
#define KVT_PLAN_FAULT_ESTIMATE_H

#include "sim/plan/campaign.h"
#include "sim/plan/fault_split.h"

enum kvt_fault_estimator {
    KVT_ESTIMATE_COUNTED,
    KVT_ESTIMATE_IMPORTANCE,
    KVT_ESTIMATE_SPLITTING,
    KVT_ESTIMATE_COUNT
};
extern const char *const kvt_fault_estimator_names[KVT_ESTIMATE_COUNT];

#define KVT_SPLIT_STRIKES_MAX 32 /* of one run that is split */

struct kvt_fault_estimate {
    struct kvt_tally tally; /* of runs: escaped requests */
    int64_t runs, requests; /* requests of one run */
    int64_t strikes, activated;
    double inflate;                 /* of the rates; 1: as they are */
    double mean;                    /* strikes per run at the rates as they are */
    struct kvt_split_levels levels; /* splitting */
};

/* config->faults.trials runs. importance: inflate by `inflate`, or so that one strike falls per run
 * where it is 0. The same for any number of threads. KVT_EINTR when stopped; KVT_ELIMIT for more
 * strikes in a run than can be split. */
enum kvt_status kvt_fault_estimate(const struct kvt_config *config,
                                   const struct kvt_campaign_options *options,
                                   enum kvt_fault_estimator estimator, double inflate,
                                   struct kvt_fault_estimate *estimate, struct kvt_err *err);

/* Escaped requests per request, with an interval of 95 %. Where no run escaped, its upper end is
 * that of Clopper and Pearson for one request a run, given a strike where runs are split. */
struct kvt_estimate kvt_fault_estimate_escapes(const struct kvt_fault_estimate *estimate);

#endif
