/*
 * validate.h - the same fleet simulated and run: what was predicted beside what was measured
 *
 *   capacity    pages by the memory ledger; pages that devices granted until they refused
 *   schedule    the simulator runs the config with the laws measured here: an order of calls
 *   replay      that order on real memory, each step twice: decisions must be equal to the last
 *               page. Stretches of five steps calibrate and are predicted in turns (factors.h), so
 *               that a machine that drifts drifts for both; predicted steps are judged one by one
 *               and in blocks of 50. What the laws alone would miss by, with one factor a family
 *               for the whole run, is told beside it
 *   tag check   some decode steps again, with and without their check, in turns
 *   free run    engines keep the clock. Every eighth step is run once more, off the clock; from
 *               those steps, which the result does not count, follow the factors with which the
 *               simulator then runs the config. Rates and means are compared, and the first
 *               decision that differs is told
 *
 * Threads are pinned. A step with an involuntary switch is flagged, and errors are told with and
 * without those. Every 50 steps a canary is read (canary.h): where it shifts by more than 15 %,
 * steps before it no longer calibrate those behind.
 *
 * Verdict: fail when decisions, pages, tags or the tokens of a step run twice are wrong, or when
 * times miss their bounds; and inconclusive when the same steps run twice differ by more than a
 * tenth, so that the machine cannot judge. Bounds: median error of a step at most the larger of 8 %
 * and one and a half times the repeat error, 85 % of blocks inside their 90 % interval, throughput
 * and mean TPOT of the free run within 12 %, the tag check's cost inside its measured interval (99
 * %, resampled).
 */
#ifndef KVT_RUNTIME_VALIDATE_H
#define KVT_RUNTIME_VALIDATE_H

#include "runtime/drive.h"
#include "runtime/factors.h"

#define KVT_BLOCK_STEPS 50
#define KVT_TAG_PAIRS   4 /* of a step that is compared with and without its check */

enum kvt_verdict { KVT_VERDICT_PASS, KVT_VERDICT_FAIL, KVT_VERDICT_INCONCLUSIVE };
extern const char *const kvt_verdict_names[3];

struct kvt_validate_want {
    enum kvt_backend backend;
    bool brief; /* few requests, and times judge nothing */
    FILE *talk; /* NULL: none */
    const struct kvt_stop *stop;
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

struct kvt_miss { /* a kernel family's share of what predicted steps missed by */
    double measured_s, predicted_s, laws_s; /* laws_s: without factors */
    double share;                           /* predicted - measured, of the time of all steps */
};

struct kvt_validation {
    int32_t roles;
    struct kvt_role_capacity capacity[KVT_ROLE_COUNT];
    struct kvt_pair kv_ratio; /* tokens of decode's pages over prefill's, of equal bytes; 0: n/a */
    struct kvt_replay replay;
    bool decisions_equal;
    int64_t decisions, calls;
    struct {
        int64_t count, flagged, blocks; /* predicted steps; those with a switch; their blocks */
        double median, p90, inside, calm_median; /* calm: without those flagged */
        double laws_median;                      /* with one factor a family for the whole run */
        double low, high;                        /* interval of a block: measured/predicted - 1 */
        int64_t decodes;                         /* of all steps, those without prompt tokens */
        double decode_s;                         /* their median */
    } steps;
    double repeat_median;
    struct {
        double median, low, high; /* read rate of all threads over one; 5 % and 95 % */
        int32_t shifts;
    } canary;
    bool pinned;
    int64_t steps_run; /* in the replay */
    struct kvt_miss misses[KVT_ROLE_COUNT][KVT_FACTOR_COUNT];
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
    int64_t tokens_again, tokens_changed; /* of steps that ran once more, on the same pages */
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

/* ---- validate_steps.c: what records of steps say --------------------------------------------- */

struct kvt_step_log {
    struct kvt_step_record *records; /* owned, as all below */
    int64_t count, room;
    double *tag_ratio; /* time with the check over time without, minus 1; of one step */
    int64_t tag_count, tag_room;
    double *canary; /* one before each block */
    int64_t canary_count, canary_room;
    bool full;
};

/* Predict and judge odd stretches. */
enum kvt_status kvt_validate_steps(struct kvt_validation *validation,
                                   const struct kvt_step_log *run,
                                   struct kvt_predictor predictors[KVT_ROLE_COUNT],
                                   struct kvt_err *err);

/* Set the predictors' factors to the means of all steps. */
enum kvt_status kvt_validate_factors(const struct kvt_step_log *run,
                                     struct kvt_predictor predictors[KVT_ROLE_COUNT],
                                     struct kvt_err *err);

/* Median of the compared steps, and its interval by resampling them. */
enum kvt_status kvt_validate_tags(struct kvt_validation *validation, const struct kvt_step_log *run,
                                  struct kvt_predictor predictors[KVT_ROLE_COUNT], uint64_t seed,
                                  struct kvt_err *err);

/* ---- validate_judge.c ------------------------------------------------------------------------ */

/* Verdict and reason; brief: times judge nothing. */
void kvt_validate_judge(struct kvt_validation *validation, bool brief);

#endif
