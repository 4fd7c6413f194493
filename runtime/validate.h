/*
 * validate.h - the same fleet simulated and run: what was predicted beside what was measured
 *
 *   capacity    pages by the memory ledger; pages that devices granted until they refused
 *   schedule    the simulator runs the config with the laws measured here: an order of calls
 *   replay      that order on real memory, each step twice: decisions must be equal to the last
 *               page; times are compared in blocks of 50 steps, even blocks calibrate the factors
 *               (predict.h) and odd ones are predicted, so that a machine that drifts drifts for
 * both tag check   some decode steps again, with and without their check, in turns free run engines
 * keep the clock; the simulator runs the config with the calibrated predictions; rates are compared
 * and the first decision that differs is told
 *
 * Verdict: fail when decisions, pages or tags are wrong, or when times miss their bounds; and
 * inconclusive when the same steps run twice differ by more than a tenth, so that the machine
 * cannot judge. Bounds: median error of a step at most the larger of 8 % and one and a half times
 * the repeat error, 85 % of the odd blocks inside their 90 % interval, throughput and mean TPOT of
 * the free run within 12 %.
 */
#ifndef KVT_RUNTIME_VALIDATE_H
#define KVT_RUNTIME_VALIDATE_H

#include "runtime/drive.h"
#include "runtime/predict.h"

#define KVT_BLOCK_STEPS 50

enum kvt_verdict { KVT_VERDICT_PASS, KVT_VERDICT_FAIL, KVT_VERDICT_INCONCLUSIVE };
extern const char *const kvt_verdict_names[3];

struct kvt_validate_want {
    enum kvt_backend backend;
    bool brief; /* few requests, and times judge nothing */
    FILE *talk; /* NULL: none */
    const volatile sig_atomic_t *stop;
    void (*sink)(void *context, const struct kvt_decision *decision); /* of the free run; NULL */
    void *context;
};

struct kvt_role_capacity {
    const char *name;
    int64_t predicted_pages, measured_pages, predicted_weights, measured_weights;
    double page_token_bytes; /* of one token over all layers */
};

struct kvt_pair {                      /* one figure */
    double predicted, measured, error; /* error: predicted / measured - 1 */
};

struct kvt_miss { /* a kernel family's share of what validation blocks missed by */
    const char *name;
    double measured_s, predicted_s, share; /* share: of the measured time of all steps */
};

struct kvt_validation {
    int32_t roles;
    struct kvt_role_capacity capacity[KVT_ROLE_COUNT];
    struct kvt_pair kv_ratio; /* tokens of decode's pages over prefill's, of equal bytes; 0: n/a */
    struct kvt_replay replay;
    bool decisions_equal;
    int64_t decisions, calls;
    struct {
        int64_t count, flagged, blocks; /* validation steps; those with a switch; blocks */
        double median, p90, inside, flagged_median;
    } steps;
    double repeat_median;
    double factors[KVT_FACTOR_COUNT];
    struct kvt_miss misses[KVT_FACTOR_COUNT];
    struct {
        double predicted, measured, low, high;
        int64_t pairs, pages_checked, failures;
    } tag_check;
    struct {
        struct kvt_pair throughput, tpot, ttft, duration;
        int64_t preemptions, predicted_preemptions, moved_bytes, saved_bytes;
        int64_t divergence; /* first decision that differs, times aside; -1: none */
        struct kvt_decision got, wanted;
        int64_t decisions;
    } free_run;
    int64_t poisoned;
    enum kvt_verdict verdict;
    char why[400]; /* of a verdict that is not pass */
    char device[96];
    char *laws;              /* owned: the calibration measured for the last role, as YAML */
    struct kvt_drive *drive; /* owned: the free run, for its result */
};

/* config may get a smaller memory.pages (kvt_runtime_init). validation is released in any case. */
enum kvt_status kvt_validate(struct kvt_validation *validation, struct kvt_config *config,
                             const struct kvt_validate_want *want, struct kvt_err *err);
void kvt_validation_release(struct kvt_validation *validation);

/* ---- validate_steps.c: what the records of a replay say -------------------------------------- */

struct kvt_step_log {
    struct kvt_step_record *records; /* owned */
    int64_t count, room;
    double *tag_ratio; /* owned: time with the check over time without, minus 1 */
    int64_t tag_count, tag_room;
    bool full;
};

/* Fit the factors of the predictors to even blocks, judge odd ones. */
void kvt_validate_steps(struct kvt_validation *validation, const struct kvt_step_log *run,
                        struct kvt_predictor predictors[KVT_ROLE_COUNT]);

/* Median of the pairs, and the interval of 90 % by resampling them. */
void kvt_validate_tags(struct kvt_validation *validation, const struct kvt_step_log *run,
                       struct kvt_predictor predictors[KVT_ROLE_COUNT], uint64_t seed);

#endif
