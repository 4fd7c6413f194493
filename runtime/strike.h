/*
 * strike.h - faults carried out on real memory, and what is seen of them there
 *
 * The fault layer (sim/fault) says what a strike does: a deed. Here it is done: an entry of the
 * page table that the kernels get is changed, the sender's bytes are written into pages that others
 * own by then, bits of pages and tags are flipped, pages are left as they were or filled with NaN.
 * What follows is not taken from the fault layer but looked up in memory:
 *
 *   guards     before a step (or after it) each of its requests is checked: tags in a side array,
 *              which only the allocator writes, by the tag_check kernel; tags and canaries in the
 *              pages' headers, digests of the bytes. A failure leaves the action of the guard's
 *              policy, and the page where quarantine wants it; the driver carries both out.
 *   exposure   after a step ran, the bytes of every token that it covered, in the pages of the
 *              table that it used, are folded and set beside what these tokens ought to hold
 *              (shadow.h)
 *   outcome    from what was observed: who was exposed, what was let out afterwards, who was
 *              aborted, what is still held or waiting at the end
 *
 * Time is the simulated one. A step runs when it starts; where a strike touched the memory of its
 * replica meanwhile it runs once more, with the same rows, when it ends: so it has read what was
 * there at both ends. Bytes that are transferred in order land when their message comes.
 *
 * Transfers carry the header of a page (kv_page.h): the canary as it is, the tag translated from
 * that of the source page to that of the target page, so that a source page with another's tag
 * gives a wrong one.
 *
 * A request that is retracted takes along what its table shows, wrong or not; it comes back into
 * other pages with a tag and a canary that are new, and with digests of what came back. One that is
 * computed or sent again begins with nothing of the old.
 *
 * Limits: a page that was given to two is sorted out when the first of them leaves it; one strike a
 * run. A node's crash fills its pool with NaN, and so are withheld pages.
 */
#ifndef KVT_RUNTIME_STRIKE_H
#define KVT_RUNTIME_STRIKE_H

#include "runtime/engine.h"
#include "runtime/planned.h"
#include "runtime/shadow.h"
#include "sim/fault/faults.h"

struct kvt_wire {   /* a request's pages between two replicas, in the layout of the second */
    uint8_t *bytes; /* owned; NULL: nothing */
    uint64_t *truth, *noted; /* owned, [pages][tokens of a page]; noted of all slots */
    int32_t pages, tokens;
};

struct kvt_source { /* pages that a request is sent from */
    int32_t pages;
    int32_t *page;           /* in memory */
    uint64_t *tag;           /* that each ought to carry */
    uint64_t *truth, *noted; /* [pages][tokens of a page], of when the list was made */
    void *memory;            /* owned: all of the above */
};

struct kvt_real_entry { /* of a page table, changed by a strike */
    int32_t replica, request, index;
    int32_t page; /* of the core */
    uint32_t generation;
    int32_t victim; /* who holds that page; KVT_NONE */
};

struct kvt_real_request {
    bool exposed, read_wrong;    /* now; at any time */
    bool marked, found, arrived; /* marked: a guard's mark that was left set; found: one fired */
    bool wrote;                  /* behind what was sent */
    bool recovers;               /* a guard has it computed or sent again */
    int32_t over_read;           /* replica where it reads its last page to the end; KVT_NONE */
    int32_t before;              /* tokens put out before the first wrong one */
    int32_t held;                /* pages from here on have not landed; -1: all have */
    struct kvt_wire wire;
    int32_t chained; /* tokens of its text that are in chain */
    uint64_t *kept;  /* owned: of a retracted one what its pages ought to hold */
    int32_t kept_pages;
};

struct kvt_real_side {                  /* the side array of a replica */
    struct kvt_page_tag *device, *host; /* owned, [pages + 1] */
    struct kvt_real_seen {
        int32_t owner;
        uint32_t generation;
        bool used;
    } * seen; /* owned; what the allocator said last */
    int32_t *list;
};

#define KVT_REAL_ENTRIES 16

/* As struct kvt_fault_result, from what was seen in memory. */
struct kvt_real_result {
    bool activated, exposed, detected, cross_tenant, crashed;
    enum kvt_fault_outcome outcome;
    int32_t hit, lost, saved; /* saved: computed or fetched again */
    int32_t withheld;         /* pages that were put out of reach */
    int32_t retracted;        /* requests that came back from host memory, each time */
    int64_t leaked;
    int64_t steps, repeated, tokens_read; /* repeated: ran again at their end */
    bool output_changed;                  /* of an exposed request, or of another */
    bool others_changed;
};

struct kvt_real {
    struct kvt_runtime *runtime; /* borrowed, as the next */
    struct kvt_faults *faults;
    struct kvt_shadow *shadows; /* owned, [replicas], as the next */
    struct kvt_real_side *sides;
    bool *dirty;
    int32_t **table;   /* owned, [replicas][table_max] pages in memory, of the step under way */
    uint64_t **want;   /* owned, beside it: the tags that these ought to carry */
    uint64_t *digest;  /* owned, [tokens of a page] */
    uint64_t *headers; /* owned, [2 * entries of a step] */
    struct kvt_writers writers;
    struct kvt_real_request *requests; /* owned, [count] */
    uint64_t *chain;                   /* owned, as the runtime's texts */
    struct kvt_real_entry entries[KVT_REAL_ENTRIES];
    int32_t entry_count;
    struct kvt_landing cut; /* of the strike; count 0 and no step: none */
    struct kvt_wire late;   /* its bytes */
    struct kvt_source sender;
    int32_t sender_request, step_request;  /* KVT_NONE */
    int32_t residue_replica, residue_page; /* to be handed out with old bytes; KVT_NONE */
    uint8_t *row;                          /* owned, a page: the token that lands late is in it */
    struct kvt_real_result result;
    int32_t skip; /* a planted bug: deeds of this kind (enum kvt_deed_kind) are not done; -1 */
    struct kvt_err failure;
};

/* Stand behind a run: the runtime was just bound to its core, the faults will strike it. Sets the
 * runtime's adjust, the faults' hands and sink. KVT_ENOMEM. */
enum kvt_status kvt_real_begin(struct kvt_real *real, struct kvt_runtime *runtime,
                               struct kvt_faults *faults, struct kvt_err *err);
void kvt_real_release(struct kvt_real *real);

/* The driver called the core (struct kvt_des_tap); steps are run here. */
void kvt_real_tell(void *real, enum kvt_call call, int32_t id, kvt_ticks now);

/* The run ended: the outcome. */
void kvt_real_finish(struct kvt_real *real);

/* ---- for the files of this module ------------------------------------------------------------ */

static inline struct kvt_real_replica *kvt_real_replica_of(const struct kvt_real *real, int32_t id)
{
    return &real->runtime->replicas[id];
}

static inline const struct kvt_guards *kvt_real_guards(const struct kvt_real *real, int32_t id)
{
    return real->faults->guards[real->runtime->core->replicas[id].spec.role];
}

static inline bool kvt_real_guarded(const struct kvt_real *real, int32_t id,
                                    enum kvt_guard_kind kind)
{
    return kvt_guards_have(kvt_real_guards(real, id), kind);
}

/* The changed entry of a request's table at index, or NULL. */
const struct kvt_real_entry *kvt_real_entry(const struct kvt_real *real, int32_t id, int32_t r,
                                            int32_t index);

/* The fold of the first tokens of r's text. */
uint64_t kvt_real_chain(struct kvt_real *real, int32_t r, int32_t tokens);

uint64_t kvt_real_tag(const struct kvt_real *real, int32_t id, int32_t owner, int32_t index,
                      uint32_t generation);

/* strike_step.c: the runtime's hooks; a step at its end, where memory changed under it. */
void kvt_real_adjust(void *real, int32_t id, const struct kvt_planned *plan, struct kvt_rows *rows);
void kvt_real_ran(void *real, int32_t id);
void kvt_real_moves(void *real, int32_t id, const struct kvt_planned_op *op, int32_t *pages);
void kvt_real_run_again(struct kvt_real *real, int32_t id);

/* r writes nothing more in steps of id that were planned; its pages are given back: what strikes
 * changed of its table goes with them. */
void kvt_real_stop_entries(struct kvt_real *real, int32_t id, int32_t r);
void kvt_real_drop_entries(struct kvt_real *real, int32_t r);
void kvt_real_drop_aliases(struct kvt_real *real, int32_t r); /* only pages that two have */

/* strike_deed.c. strike: whether it was done. fill: all bytes of a page in memory. unalias: one of
 * the two that have a page has left. */
bool kvt_real_strike(struct kvt_real *real, const struct kvt_deed *deed);
void kvt_real_fill(struct kvt_real *real, int32_t id, int32_t page, int value);
void kvt_real_unalias(struct kvt_real *real, const struct kvt_real_entry *entry);

/* strike_look.c: before a step, after it ran, and at its end. */
void kvt_real_prepare(struct kvt_real *real, int32_t id);
void kvt_real_check(struct kvt_real *real, int32_t id, bool ran);
void kvt_real_observe(struct kvt_real *real, int32_t id);
void kvt_real_write_side(struct kvt_real *real, int32_t id, int32_t page, uint64_t tag);
void kvt_real_allocator(struct kvt_real *real, int32_t id);

/* strike_wire.c. */
void kvt_wire_release(struct kvt_wire *wire);
enum kvt_status kvt_real_source(struct kvt_real *real, int32_t r, struct kvt_source *source,
                                struct kvt_err *err);
enum kvt_status kvt_real_stage(struct kvt_real *real, int32_t r, const struct kvt_source *source,
                               struct kvt_wire *wire, struct kvt_err *err);
void kvt_real_arrive(struct kvt_real *real, int32_t r, int32_t told);
void kvt_real_heal(struct kvt_real *real, int32_t r);

#endif
