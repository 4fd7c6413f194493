/*
 * faults.h - faults that strike a run, what its guards see of them, and what really happened
 *
 * The core believes that a page table names the right pages and that a page holds what was written
 * to it. A fault makes the device differ from that belief. So the truth is the core's state plus a
 * list of *deviations*: request r, at page `index` of its text, reads a page that is not its own,
 * or its own page with bytes that are not. The simulated system never looks at this list
 * (TigerBeetle's "pristine memory plus a fault overlay"); a run without faults has none and costs
 * nothing.
 *
 *   strike      at its time, or at the first fitting event from then on: it makes deviations
 *               (strike.c)
 *   check       before a step runs, after it ran, or when the guard says so: each deviation of a
 *               request in the step is put to the guards of its role (check.c). What a guard sees
 *               follows from real tag values (tag.h), so aliases happen as often as they should
 *   exposure    a step that is not stopped reads wrong bytes: from there on every token of the
 *               request is wrong, whatever happens to the page
 *   outcome     at the end each strike has one outcome, with the tokens that leaked, the requests
 *               that were hit, and whether bytes of another tenant were among what was read
 *
 * A driver (sim/des, runtime/) owns one of these per run, feeds it the core's decisions (it is the
 * sink of the core's log and passes them on), tells it when steps start and end, and carries out
 * the actions that it leaves.
 *
 * Guards that prevent: deferred-free (premature-free, late-write), zero-on-free (residue), lease
 * (stale readers younger than its term, leaks), request-id (misdirected and repeated messages).
 * Guards that detect, by what of a deviation they see:
 *
 *                     reads another   bytes of a late   part not   flipped   poisoned   tag
 *                     page            or other writer   landed     bytes     prefix     flipped
 *   tag-side          by value        no                no         no        no         fires
 *   tag-inband        by value        by value          by value   no        no         fires
 *   digest            no              yes               yes        yes       no         no
 *   canary            yes             yes               yes        no        yes        no
 *
 * A page of another request that holds the same text (equal prompts up to its end) is read without
 * harm: only its tags differ. What is wrong at prefill comes along to decode, whose guards look at
 * it there: canary and in-band tag are part of the page, a digest where prefill keeps one.
 */
#ifndef KVT_FAULT_FAULTS_H
#define KVT_FAULT_FAULTS_H

#include "sim/base/random.h"
#include "sim/fault/kinds.h"
#include "sim/fault/rare.h"
#include "sim/fault/tag.h"
#include "sim/serve/core.h"

struct kvt_guards { /* of one role */
    uint32_t on;    /* bit of each enum kvt_guard_kind */
    enum kvt_guard_check check;
    enum kvt_on_hit on_hit;
    double sample;   /* of checks that are made, for `sampled` */
    kvt_ticks lease; /* term */
    struct kvt_tag_kind tag;
};

static inline bool kvt_guards_have(const struct kvt_guards *guards, enum kvt_guard_kind kind)
{
    return guards->on >> kind & 1;
}

enum kvt_deviation_kind {
    KVT_READS_OTHER,    /* the table names another page */
    KVT_BYTES_OTHER,    /* the page was overwritten by another writer */
    KVT_BYTES_PARTIAL,  /* part of the page's bytes never arrived, or not yet */
    KVT_BYTES_FLIPPED,  /* bits changed under everybody's feet */
    KVT_BYTES_POISONED, /* a shared page holds another text than its key says */
    KVT_BYTES_RESIDUE,  /* bytes nobody wrote for this request are read */
    KVT_BYTES_COPIED,   /* one of the above that went through host memory: stamped anew */
    KVT_TAG_FLIPPED,    /* only the tag is wrong */
    KVT_NOTHING_WRONG,  /* a false alarm waits to fire */
};

struct kvt_deviation {
    int32_t strike; /* index in the plan */
    int32_t kind;   /* enum kvt_deviation_kind */
    int32_t replica, reader, index, page;
    int32_t source;                 /* whose bytes are read; KVT_NONE: nobody's */
    struct kvt_tag_fields expected; /* by the reader */
    struct kvt_tag_fields written;  /* by the writer of the bytes: in-band */
    struct kvt_tag_fields owned;    /* by the allocator: side array */
    bool owner_free;                /* the page is free: its side tag is the reserved value */
    kvt_ticks heals;                /* KVT_NEVER */
    bool exposed, open, forced, fired;
    int32_t source_index; /* which page of its own text the source writes there, in good faith and
                           * with its digest; KVT_NONE: not so */
    bool appended;        /* by its steps from now on only */
    bool stamped;         /* the reader went on writing the page: its header is as it should be */
    bool waits;           /* it has not yet: at most the page's side tag is wrong */
    bool alike;           /* it holds the same text: the tags may be wrong, the bytes are not */
    int32_t generated;    /* output tokens of the reader before its first wrong one */
    double luck;          /* with draw_aliases: uniform; its tags are equal below 1 / values */
    int32_t agreed;       /* so many groups of four bits are known to be equal: level.c */
    bool compared;        /* luck is known: a guard looked, or the next group differs */
};

struct kvt_fault_result { /* of one strike */
    bool activated, exposed, detected;
    enum kvt_fault_outcome outcome;
    bool cross_tenant;    /* bytes of another tenant were read */
    int32_t hit;          /* requests that read wrong bytes */
    int32_t lost;         /* requests aborted by a guard or with their node */
    int32_t false_aborts; /* hits of guards on clean bytes */
    int32_t spoiled;      /* requests that were lost or put out wrong tokens */
    int32_t saved;        /* requests that were computed or fetched again */
    int64_t again;        /* tokens that this took */
    double log_weight;    /* of tags that were forced to be equal for its sake */
    double held_page_s;   /* pages out of use for its sake, by seconds */
    int64_t leaked;       /* wrong tokens that went out */
    kvt_ticks exposed_at, detected_at;
};

enum kvt_fault_action_kind {
    KVT_FAULT_CANCEL,    /* request: a guard, or its node's end, aborts it */
    KVT_FAULT_RECOMPUTE, /* request: a guard has it computed again, or aborted where it cannot */
    KVT_FAULT_REFETCH,   /* request: the same, transferred again where the sender still has it */
    KVT_FAULT_UNFENCE,   /* request, replica: a writer to its pages is known to be quiet */
    KVT_FAULT_DOWN,      /* replica runs no step until `until` */
    KVT_FAULT_SLOW,      /* replica's steps take permille / 1000 times as long until `until` */
    KVT_FAULT_ACK,       /* request: prefill's lease on its transfer ended */
    KVT_FAULT_WAKE,      /* replica: its steps must be looked at again */
};

struct kvt_fault_action {
    enum kvt_fault_action_kind kind;
    int32_t strike; /* of a recompute or refetch ... */
    bool leaked;    /* ... after wrong tokens went out */
    int32_t request, replica;
    kvt_ticks until;
    int64_t permille;
};

enum kvt_message { KVT_MESSAGE_DONE, KVT_MESSAGE_ACK };

struct kvt_landing { /* bytes under way to pages that were given away */
    int32_t strike, replica, request, tenant;
    kvt_ticks time;
    int32_t count;
    int32_t first; /* in landing_pages */
    bool step;     /* of the step in flight: lands when it ends */
    bool deferred; /* the pages wait for it */
    bool sender;   /* pages that are read by a transfer: it ends when its message comes */
    int32_t slot;  /* token within the page; -1: the whole page */
};

struct kvt_poisoned { /* a page of a prefix index whose bytes are wrong, for all who share it */
    int32_t strike, replica, page;
    uint32_t generation;
    enum kvt_deviation_kind kind;
};

struct kvt_withheld { /* free pages that are out of reach */
    int32_t strike, replica, pages;
    int32_t first; /* linked through pages->next */
    kvt_ticks until;
};

struct kvt_late_ack { /* a lost acknowledgement that a lease makes up for */
    int32_t strike, request;
    kvt_ticks time;
};

/* What a strike does to pages, tables and messages, for a driver that does it to real memory
 * (runtime/strike.h). Nothing of it follows from a deviation. */
enum kvt_deed_kind {
    KVT_DEED_TABLE,    /* entry `index` of request's table names `page`, of `generation` */
    KVT_DEED_CUT,      /* the landing's pages go back while its bytes are under way */
    KVT_DEED_LAND,     /* the landing's bytes arrive */
    KVT_DEED_FLIP,     /* amount bits of the token in `slot` of page, or of its tag (variant) */
    KVT_DEED_POISON,   /* page gets another text */
    KVT_DEED_HOLD,     /* pages of request from index on will not have arrived when told */
    KVT_DEED_HEAL,     /* now they have */
    KVT_DEED_ARRIVE,   /* all else of request's bytes is there, and request `index` is told so */
    KVT_DEED_ALIAS,    /* entry `index` of request names page, which another holds */
    KVT_DEED_RESIDUE,  /* page keeps old bytes, and request reads its last page to the end */
    KVT_DEED_ALARM,    /* the guard's mark of request is set */
    KVT_DEED_WITHHOLD, /* page is out of the allocator's reach */
    KVT_DEED_CRASH,    /* replica's memory is lost */
    KVT_DEED_STARTS,   /* the oldest step of replica is about to run */
    KVT_DEED_ENDS,     /* it ran; before what it wrote late lands */
    KVT_DEED_LANDED,   /* and after */
};

struct kvt_deed {
    enum kvt_deed_kind kind;
    int32_t strike, variant, replica, request, index, page, slot;
    uint32_t generation;
    int32_t amount;
    const struct kvt_landing *landing;
};

#define KVT_DEVIATIONS_MAX  1024 /* of one strike; each further one brings room for */
#define KVT_DEVIATIONS_EACH 64
#define KVT_LANDINGS_MAX    64
#define KVT_FAULT_ACTIONS   4096 /* beside one for each request and each deviation */

struct kvt_faults {
    struct kvt_core *core;            /* borrowed */
    const struct kvt_strike *strikes; /* borrowed, [count], by time */
    int32_t count, next, armed_count;
    int32_t *armed;                   /* [count] strikes that wait for an event */
    struct kvt_fault_result *results; /* [count] */
    const struct kvt_guards *guards[KVT_ROLE_COUNT];
    uint64_t seed;
    bool force_aliases;               /* tags that could be equal by chance are */
    bool draw_aliases;                /* or are with that chance, drawn from seed and not hashed */
    double log_weight;                /* of the run, when forced */
    struct kvt_deviation *deviations; /* [deviation_capacity], open and closed */
    int32_t deviation_capacity;
    int32_t deviation_count, *open; /* [replicas] open ones that are read there */
    struct kvt_landing landings[KVT_LANDINGS_MAX];
    int32_t landing_count;
    int32_t *landing_pages; /* page, generation, index: three each */
    int32_t landing_page_count, landing_page_capacity;
    int32_t swapped[2];    /* misdirected: its message is still to come */
    uint32_t *incarnation; /* [replicas] restarts */
    struct kvt_withheld withheld[KVT_LANDINGS_MAX];
    int32_t withheld_count;
    struct kvt_late_ack late_acks[KVT_LANDINGS_MAX];
    int32_t late_ack_count;
    int32_t bad_pages[KVT_LANDINGS_MAX][2]; /* replica, page: to be taken out of service */
    int32_t bad_page_count;
    struct kvt_poisoned poisoned[16];
    int32_t poisoned_count;
    struct kvt_fault_action *actions; /* [action_capacity]: of one event */
    int32_t action_count, action_capacity;
    /* Real memory: does what strikes do, looks with its own guards, and sees for itself what was
     * read. NULL: deviations say. Set after kvt_faults_init. */
    void (*hands)(void *context, const struct kvt_deed *deed);
    void *hands_context;
    void (*sink)(void *context, const struct kvt_decision *decision); /* where decisions go on to */
    void *sink_context;
};

struct kvt_faults_spec {
    const struct kvt_strike *strikes; /* by time; borrowed */
    int32_t count;
    const struct kvt_guards *guards[KVT_ROLE_COUNT]; /* of present roles; borrowed */
    uint64_t seed;
};

/* Bytes of arena that faults of that many strikes take, at most. */
size_t kvt_faults_bytes(int32_t count, int32_t requests, int32_t replicas);

/* Take memory and become the sink of the core's log, in front of what is there. Pools are named. */
enum kvt_status kvt_faults_init(struct kvt_faults *faults, struct kvt_arena *arena,
                                struct kvt_core *core, const struct kvt_faults_spec *spec,
                                struct kvt_err *err);

/* When something strikes, lands, heals or ends by itself, or KVT_NEVER. */
kvt_ticks kvt_faults_next(const struct kvt_faults *faults);

/* Do what is due at core->log.now. Leaves actions. */
void kvt_faults_strike(struct kvt_faults *faults);

/* A step of replica was planned and is about to run (its oldest), or ran and its tokens are about
 * to be released. Leaves actions. */
void kvt_faults_step_starts(struct kvt_faults *faults, int32_t replica);
void kvt_faults_step_ends(struct kvt_faults *faults, int32_t replica);

/* Whether steps of this replica have to be run one by one now. */
bool kvt_faults_watch(const struct kvt_faults *faults, int32_t replica);

/* A message about request r is about to be delivered: the request it reaches, or KVT_NONE when it
 * is lost. */
int32_t kvt_faults_message(struct kvt_faults *faults, enum kvt_message message, int32_t r);

/* Whether a guard that samples looks at page index of r in this step of its replica: one draw each,
 * whatever else is drawn. */
bool kvt_faults_sample(const struct kvt_faults *faults, int32_t r, int32_t index, int64_t step,
                       double share);

/* A guard that looks at real memory fired at a page of r, once more or for the first time. Leaves
 * the action of its on_hit, and says which. */
enum kvt_fault_action_kind kvt_faults_found(struct kvt_faults *faults, int32_t replica,
                                            int32_t page, int32_t r, bool again);

/* A recompute or refetch was carried out, `tokens` of KV are made or sent again; or, tokens 0, it
 * could not be and the request was aborted. */
void kvt_faults_recovered(struct kvt_faults *faults, const struct kvt_fault_action *action,
                          int64_t tokens);

/* Take pages that guards condemned and nobody holds any more out of service. */
void kvt_faults_sweep(struct kvt_faults *faults);

/* Whether nothing is left that could change an outcome: the run need not go on for its sake. */
bool kvt_faults_are_settled(const struct kvt_faults *faults);

/* ---- splitting: level.c ---- */

/* How far the run has come on the way to wrong tokens, by its strike that came farthest:
 *
 *   1            it found its target: a client went away, a table changed
 *   2            bytes are under way to a page that is another's by now
 *   3            wrong bytes, or a wrong table, lie where a request will look
 *   3 + j        4 j bits of all tags that could tell are equal by chance
 *   the highest  they were read, and no tag is left that could tell
 *
 * Outside a run that is split (draw_aliases) no bits are known. O(strikes with deviations *
 * deviations + pages under way).
 */
#define KVT_FAULT_LEVELS 21
int32_t kvt_faults_level(const struct kvt_faults *faults);

/* Draw again, from seed, what is still open, given what has not happened so far: when late bytes
 * land or arrive (of strikes with a mean; an exponential time has no memory), what strikes draw
 * that have not fallen yet, samples of checks to come, and whether tags are equal that nobody has
 * compared. strikes: those of faults, whose delays change. The engine has to look again
 * (kvt_des_set_faults). */
void kvt_faults_resample(struct kvt_faults *faults, struct kvt_strike strikes[], uint64_t seed);

/* The run ended: give every strike its outcome. */
void kvt_faults_finish(struct kvt_faults *faults);

#endif
