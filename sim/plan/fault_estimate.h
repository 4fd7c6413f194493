/*
 * fault_estimate.h - requests with wrong tokens per request, at the rates of a config
 *
 * Each run is the config's load with a plan of its own, drawn from faults.rates (fault_rates.h).
 *
 *   counted      plans as the rates say; tags are equal when they happen to be
 *   importance   rates are inflated so that about one strike falls per run, whose weight is the
 *                ratio of the plan's densities; tags that could be equal by chance are, and what
 *                escapes for the sake of that strike is weighed by that chance as well
 *
 * Both estimate the same: escaped requests of a run, over its requests. An escape of 1e-9 per
 * request takes as many weighted runs as one of 1e-3; `effective` says how many equal runs they are
 * worth (rare.h). Where strikes come close together, forcing one tag keeps a request that would
 * have been aborted in the fleet while the next one falls: an error of the order of that overlap.
 */
#ifndef KVT_PLAN_FAULT_ESTIMATE_H
#define KVT_PLAN_FAULT_ESTIMATE_H

#include "sim/plan/campaign.h"

struct kvt_fault_estimate {
    struct kvt_tally tally; /* of runs: escaped requests */
    int64_t runs, requests; /* requests of one run */
    int64_t strikes, activated;
    double inflate; /* of the rates; 1: counted */
    double mean;    /* strikes per run at the rates as they are */
};

/* config->faults.trials runs. importance: inflate by `inflate`, or so that one strike falls per run
 * where it is 0. The same for any number of threads. KVT_EINTR when stopped. */
enum kvt_status kvt_fault_estimate(const struct kvt_config *config,
                                   const struct kvt_campaign_options *options, bool importance,
                                   double inflate, struct kvt_fault_estimate *estimate,
                                   struct kvt_err *err);

/* Escaped requests per request, with an interval of 95 %. */
struct kvt_estimate kvt_fault_estimate_escapes(const struct kvt_fault_estimate *estimate);

#endif
