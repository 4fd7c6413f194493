/*
 * engine.h - the serving core on real memory: what a driver's decisions do to pages and tokens
 *
 * An engine stands behind every replica of a fleet: a device with the memory of that GPU, the
 * model's weights, a pool of real pages, and the kernels of a step. A driver moves the core
 * (sim/des/engine.h in free running, drive.h along a recorded order) and tells the engine of its
 * calls; the log sink tells it of retractions and returns:
 *
 *     plan      the new step is written down: which requests, which positions, which pages
 *     start     pages that were retracted by that plan are saved, those that came back restored,
 *               tags are checked, the step's kernels run, its tokens are read
 *     deliver   the KV of a request goes from its prefill pages into its decode pages, converted
 *               where the layouts differ, with the tags of the pages it lands in
 *
 * The plan of step n + 1 is made before step n runs (overlap), so a step is written down when it is
 * planned and what a plan does to pages waits for its own step. What is still in flight is fenced
 * by the core, so nothing here needs a lock.
 *
 * One machine stands for all GPUs of the fleet: engines run one at a time, each with all of it, and
 * each has a clock of its own, which advances by the wall time that its steps took. Transfers take
 * what the link of the config gives them; their bytes move when they are delivered.
 *
 * Text: prompts are drawn from the seed (equal hashes, equal tokens), outputs are the model's
 * greedy tokens. They are kept by position, so a step that is run twice, or a request that is
 * computed again, writes what was there. text(r)[input ..] is what request r would be answered.
 *
 * Tags (pool.h): every page of every request of a step that holds tokens already is checked before
 * the step reads it, when `tag_check` is set or the role's guard is tag-side with check
 * before-read. A failure is counted, its request is marked; and where the guard is set the driver
 * aborts it (found), before any token of that step leaves.
 */
#ifndef KVT_RUNTIME_ENGINE_H
#define KVT_RUNTIME_ENGINE_H

#include "runtime/forward.h"
#include "runtime/tag_batch.h"
#include "sim/base/stop.h"
#include "sim/config/config.h"
#include "sim/des/engine.h"
#include "sim/plan/role_memory.h"
#include "sim/trace/trace.h"

struct kvt_runtime_want {
    enum kvt_backend backend;
    bool tag_check;
    const struct kvt_stop *stop; /* NULL: never */
    int32_t repeats;  /* a step's kernels run so many times; at least 1, at most KVT_REPEATS */
    bool page_header; /* pages have room for a tag that travels with them (kv_page.h) */
};

#define KVT_REPEATS 4

/* What one step was and took. */
struct kvt_step_record {
    int32_t replica, role;
    struct kvt_step_load load;   /* costs.h */
    int32_t requests, pages;     /* pages: that were checked */
    double time[KVT_REPEATS];    /* s, wall; of each repeat */
    double moved;                /* s: saving and restoring pages before it */
    double part[KVT_PART_COUNT]; /* s; mean of the repeats */
    int32_t switches;            /* involuntary context switches meanwhile */
};

struct kvt_runtime_counts {
    int64_t steps, rows, checks, failures; /* checks and failures: pages */
    int64_t saved_bytes, restored_bytes, moved_bytes;
    int64_t again, changed; /* tokens of a step that ran before; those that came out others */
    double moved_s;         /* in hand-offs */
};

enum { KVT_FAILED = 1, KVT_FAILED_FOUND }; /* of a request: a tag check did; and a guard told */

struct kvt_found_page {             /* by a guard that aborts */
    int32_t request, replica, page; /* page of the core; KVT_NONE: another of them */
};

#define KVT_PLANS (KVT_STEPS_IN_FLIGHT + 1) /* in flight, and the one that is being written down */

struct kvt_planned;
struct kvt_planned_op;
struct kvt_saved;

/* Who changes (strike.h) and follows what runs; each NULL: nobody. */
struct kvt_runtime_hooks {
    void *context;
    /* A step ran, and what later plans do to its pages is done. */
    void (*record)(void *context, const struct kvt_step_record *record);
    /* The rows of a step before it runs, to be changed. */
    void (*adjust)(void *context, int32_t replica, const struct kvt_planned *plan,
                   struct kvt_rows *rows);
    /* A step ran; what later plans do to its pages comes after. */
    void (*ran)(void *context, int32_t replica);
    /* A page was handed out; or pages of a retracted request are about to be saved, from others if
     * its list is changed; or they were restored. */
    void (*moves)(void *context, int32_t replica, const struct kvt_planned_op *op, int32_t *pages);
};

struct kvt_page_moves {       /* the pages of a hand-off, in memory */
    struct kvt_mirror mirror; /* has all arrays below, of table_max */
    uint64_t *stamp;
    int32_t *source, *target, *tokens;
};

struct kvt_real_replica {
    struct kvt_device device;
    struct kvt_model_weights weights;
    struct kvt_page_layout layout;
    struct kvt_kv_pool pool;
    struct kvt_forward forward;
    struct kvt_rows rows;
    enum kvt_role role;
    bool guarded;                            /* by tag-side, before each read */
    int64_t predicted_pages, measured_pages; /* by the ledger; until the device refused */
    int64_t predicted_weights;               /* bytes, by the ledger */
    struct kvt_planned *planned;             /* [KVT_PLANS] owned */
    int32_t first, count;                    /* planned and not yet run */
    int32_t last;                            /* that ran */
    double moved;                            /* s of page moves that no step has been charged */
    struct kvt_tag_batch check;
    struct kvt_page_moves moves; /* into this replica */
};

struct kvt_runtime {
    struct kvt_runtime_want want;
    struct kvt_role_memory *plans;     /* owned, [KVT_ROLE_COUNT] */
    struct kvt_real_replica *replicas; /* owned, in the order of the core */
    int32_t replica_count;
    const struct kvt_core *core;   /* borrowed, from kvt_runtime_bind on */
    const struct kvt_trace *trace; /* borrowed */
    int32_t text_count;            /* requests of the trace */
    int64_t *text_begin;           /* owned, [count + 1] */
    int32_t *text;                 /* owned */
    struct kvt_saved *saved;       /* owned, [count]; KV in host memory */
    uint8_t *failed;               /* owned, [count]: KVT_FAILED.. when a tag check did */
    struct kvt_found_page *found;  /* owned, [count]: for which nobody has aborted yet */
    int32_t found_count;
    struct kvt_runtime_counts counts;
    struct kvt_runtime_hooks hooks;
    struct kvt_err failure; /* the first; later steps do nothing */
};

/* Open a device for each replica of the config, load weights, and find how many pages each holds.
 * Where that differs from the ledger's the smaller number is set in config (memory.pages), so that
 * the core and the memory agree. Pools are taken in kvt_runtime_bind. KVT_ECONFIG or KVT_ELIMIT for
 * what is not run, KVT_ENOMEM, KVT_EDEVICE; the engine is empty then, and may be released. */
enum kvt_status kvt_runtime_init(struct kvt_runtime *engine, struct kvt_config *config,
                                 const struct kvt_runtime_want *want, struct kvt_err *err);

/* Give the engine the core it stands behind and its trace: takes pools and activations, draws the
 * prompts. May be called again for another run of the same config: then pools and texts start anew
 * and weights stay. KVT_ENOMEM; the engine may be released or bound again then. */
enum kvt_status kvt_runtime_bind(struct kvt_runtime *engine, const struct kvt_core *core,
                                 const struct kvt_trace *trace, uint64_t seed, struct kvt_err *err);

void kvt_runtime_release(struct kvt_runtime *engine);

/* The driver called the core (struct kvt_des_tap). */
void kvt_runtime_tell(struct kvt_runtime *engine, enum kvt_call call, int32_t id);

/* Do to pages what the plan of a replica's oldest step does, before it runs: else kvt_runtime_run
 * does. */
void kvt_runtime_settle(struct kvt_runtime *engine, int32_t replica);

/* Run the oldest planned step of a replica: seconds of wall time, of one repeat. */
double kvt_runtime_run(struct kvt_runtime *engine, int32_t replica);

/* A decision was noted: the log's sink calls this first. */
void kvt_runtime_note(struct kvt_runtime *engine, const struct kvt_decision *decision);

/* Tokens of request r by position, input + output of them and what is behind; -1: not known. */
static inline const int32_t *kvt_runtime_text(const struct kvt_runtime *engine, int32_t r)
{
    return engine->text + engine->text_begin[r];
}

/* Run the step that was run last once more (the same rows and pages): seconds. With or without its
 * tag check. For comparisons side by side. */
double kvt_runtime_again(struct kvt_runtime *engine, int32_t replica, bool tag_check);

#endif
