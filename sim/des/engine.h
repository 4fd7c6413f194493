/*
 * engine.h - the serving core in virtual time
 *
 * The engine owns the clock. It takes the next thing that happens from the timeline, tells the
 * core, carries out the effects, and gives every replica that is at a step end its next step. A
 * step takes what its role's frozen costs say (sim/cost/costs.h); a transfer what its share of the
 * link gives.
 *
 * Order at one time: arrivals, transfers, acknowledgements, then replicas by number. So a request
 * that arrives exactly when a step ends is seen by the plan made at that end.
 *
 * Macro-steps: where the core says that a decode step may repeat k times, the engine schedules the
 * end of the k-th and nothing in between. Whatever would change the plan earlier cuts the run at
 * the first step end that could see it. With `exact` every step is an event of its own; times,
 * digest and histograms are the same to the last bit.
 *
 * A tap turns it into the driver of real engines (runtime/engine.h): it hears of every call that is
 * made to the core, in order, and may run each step itself; the step then takes what the tap says.
 *
 * INITIALIZE, STEP, DONE: the caller owns the loop (progress, SIGINT). Nothing allocates after
 * init.
 */
#ifndef KVT_DES_ENGINE_H
#define KVT_DES_ENGINE_H

#include "sim/cost/costs.h"
#include "sim/des/delay.h"
#include "sim/des/link.h"
#include "sim/des/observe.h"
#include "sim/des/timeline.h"
#include "sim/fault/faults.h"
#include "sim/serve/core.h"

/* What the time of a step depends on. */
static inline struct kvt_step_load kvt_des_load(const struct kvt_step *step)
{
    return (struct kvt_step_load){.decodes = step->decodes,
                                  .context = step->context,
                                  .windowed = step->windowed,
                                  .prompt_tokens = step->prompt_tokens,
                                  .pairs = step->pairs,
                                  .prompt_ends = step->prompt_ends,
                                  .copied_tokens = step->copied_tokens,
                                  .freed_tokens = step->freed_tokens};
}

struct kvt_link_spec {
    double bytes_per_s; /* of one `per` */
    enum kvt_link_scope per;
    int32_t prefill_gpus, decode_gpus; /* of one replica */
    kvt_ticks latency;                 /* of the last piece, and of the acknowledgement */
    enum kvt_stream_mode stream;
    int32_t layers;          /* by-layer: pieces of a chunk */
    int64_t bytes_per_token; /* over all ranks of the decode replica that get a copy */
};

/* Calls to the core, as a tap hears of them. PLAN after the call and only when it gave a step, the
 * others before it. */
/* clang-format off */
#define KVT_CALLS(X)                                                      \
    X(ARRIVE,   "arrive")   /* id: request */                              \
    X(PLAN,     "plan")     /* id: replica */                              \
    X(IDLE,     "idle")     /* id: replica; a plan that found nothing */   \
    X(START,    "start")    /* id: replica; its oldest step begins */      \
    X(COMMIT,   "commit")   /* id: replica */                              \
    X(TRANSFER, "transfer") /* id: request; its first bytes leave early */ \
    X(DELIVER,  "deliver")  /* id: request */                              \
    X(ACK,      "ack")      /* id: request */                              \
    X(CANCEL,   "cancel")   /* id: request */
/* clang-format on */
#define X(name, text) KVT_CALL_##name,
enum kvt_call { KVT_CALLS(X) KVT_CALL_COUNT };
#undef X

struct kvt_des_tap {
    void *context;
    void (*tell)(void *context, enum kvt_call call, int32_t id, kvt_ticks now);
    /* Run the oldest planned step of a replica and say what it took (at least a tick); NULL: the
     * costs say. */
    kvt_ticks (*run)(void *context, int32_t replica, const struct kvt_step *step);
    /* A request that a guard of the real engines found a bad page of, KVT_NONE: no more. It is
     * aborted as the simulated guards abort (sim/fault). Asked after each event; NULL: never. */
    int32_t (*next_abort)(void *context);
};

struct kvt_des_spec {
    struct kvt_core_spec core;
    const struct kvt_costs *costs[KVT_ROLE_COUNT]; /* with overlap or host time already in them */
    struct kvt_link_spec link;
    kvt_ticks *arrival;        /* [core.request_count]; a closed loop fills it as it goes */
    const kvt_ticks *patience; /* [core.request_count] from arrival until the client goes away,
                                * KVT_NEVER; NULL: nobody does */
    int64_t concurrency;       /* > 0: closed loop, that many requests under way */
    kvt_ticks think;           /* closed: from a request's end to the next arrival */
    kvt_ticks latency; /* between a client and the router: HTTP, tokenizer; part of the TTFT */
    kvt_ticks until;   /* no arrivals after this */
    kvt_ticks warmup;
    int32_t series_points;
    bool exact;
    bool late_ack; /* decode says that a transfer is complete when the request's first step has been
                    * checked, so that it can be transferred again until then */
    const struct kvt_des_tap *tap; /* borrowed; NULL: none. With one, steps run one by one */
};

struct kvt_lane { /* one replica in time */
    bool running;
    struct kvt_run run;
    kvt_ticks end;                    /* of the run as planned */
    kvt_ticks busy;                   /* time spent in steps */
    int64_t steps;                    /* steps ended */
    kvt_ticks down_until, slow_until; /* faults; 0 */
    int64_t slow_permille;
};

struct kvt_des {
    struct kvt_des_spec spec;
    struct kvt_core core;
    struct kvt_timeline timeline;
    struct kvt_link link;
    struct kvt_observer observer;
    struct kvt_lane *lanes;        /* [replicas] */
    struct kvt_timeline deadlines; /* slot r: when the client of r goes away; valid with patience */
    struct kvt_delay deliveries, acknowledgements, returns; /* returns: closed-loop arrivals */
    int32_t next_arrival;                                   /* request */
    kvt_ticks now;
    int32_t position; /* the last slot handled at this time: what comes before is past */
    int64_t events;
    struct kvt_faults *faults; /* NULL: none; set by kvt_des_set_faults */
    int64_t *ahead_bytes;      /* by-layer: [requests] of the chunk that is being computed */
};

/* Everything is taken from the arena. The spec's arrays are borrowed. */
enum kvt_status kvt_des_init(struct kvt_des *engine, struct kvt_arena *arena,
                             const struct kvt_des_spec *spec, struct kvt_err *err);

/* Let faults (initialised on engine->core, borrowed) strike this run. Before the first step. A run
 * with faults may end with requests or pages that nobody will come back for. */
void kvt_des_set_faults(struct kvt_des *engine, struct kvt_faults *faults);

/* Handle up to events of what happens next. False when nothing happens any more. */
bool kvt_des_step(struct kvt_des *engine, int64_t events);

/* The client of request r goes away at time at, which lies before whatever happens next; like an
 * arrival it comes before everything else at that time. */
void kvt_des_cancel(struct kvt_des *engine, int32_t r, kvt_ticks at);

/* Call when the loop ends: gauges are closed. KVT_ELIMIT, with the first of them, if requests are
 * left that nothing will ever serve. */
enum kvt_status kvt_des_finish(struct kvt_des *engine, bool interrupted, struct kvt_err *err);

/* Bytes of arena that kvt_des_init will take, at most. */
size_t kvt_des_bytes(const struct kvt_des_spec *spec);

#endif
