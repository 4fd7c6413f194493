/*
 * fault_trial.h - the same strike simulated and carried out on real memory, trial by trial
 *
 * A trial is a run of the config with one strike. It is run twice: as a campaign runs it (sim/plan/
 * campaign.h), where exposure and detection follow from deviations, and with the runtime's engines
 * behind the same core (strike.h), where they are found in memory. Both take their step times from
 * the cost model, so the same requests meet at the same times. They agree when exposure and outcome
 * are the same. Whether bytes of another tenant were read is compared apart, and whether tokens
 * came out differently from a run without a strike is told apart: a flipped bit may not show.
 *
 * Strikes are those of the config's classes, drawn as for a campaign but for three things: bits are
 * flipped on decode (or serve) replicas only, since a flip before a hand-off may vanish in the
 * conversion to FP8; delays are drawn below a quarter of the time in which strikes fall, since
 * seconds of a fleet are longer than a run of this size; variants that kvt_fault_trial_why_not
 * names are replaced by others of their class.
 *
 * Guards: all, with every check and policy. Which page of which step a sampled check looks at is
 * one draw in both (kvt_faults_sample).
 */
#ifndef KVT_RUNTIME_FAULT_TRIAL_H
#define KVT_RUNTIME_FAULT_TRIAL_H

#include "runtime/strike.h"
#include "sim/base/stop.h"
#include "sim/base/tell.h"
#include "sim/config/config.h"

struct kvt_fault_trial {
    enum kvt_fault_kind kind;
    struct kvt_strike strike;
    struct kvt_fault_result simulated;
    struct kvt_real_result real;
    bool agrees, same_tenants;
};

struct kvt_fault_trials_want {
    enum kvt_backend backend;
    int32_t threads;             /* each with engines of its own; 0: as OpenMP has. cuda: 1 */
    int32_t skip;                /* a planted bug (strike.h); -1: none */
    const struct kvt_stop *stop; /* NULL: never */
    struct kvt_tell tell;
};

struct kvt_fault_trials {
    struct kvt_fault_trial *trials; /* owned, by class and number */
    int64_t count;
};

/* Why strikes of this variant are not carried out on real memory; NULL: they are. */
const char *kvt_fault_trial_why_not(const struct kvt_config *config,
                                    enum kvt_fault_variant variant);

/* The trials of config->faults. config may get a smaller memory.pages (kvt_runtime_init).
 * KVT_NEGATIVE where a run without a strike is not clean; KVT_EINTR, and what the engines report.
 * trials is released in any case. */
enum kvt_status kvt_fault_trials_run(struct kvt_config *config,
                                     const struct kvt_fault_trials_want *want,
                                     struct kvt_fault_trials *trials, struct kvt_err *err);
void kvt_fault_trials_release(struct kvt_fault_trials *trials);

#endif
