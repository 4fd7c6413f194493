/*
 * parts.h - what the files of this folder share; see faults.h for the whole
 *
 * strike.c makes deviations, watch.c follows the core's decisions, check.c asks the guards.
 */
#ifndef KVT_FAULT_PARTS_H
#define KVT_FAULT_PARTS_H

#include "sim/fault/faults.h"

/* Page number `index` of r's text on a replica, shared ones included; KVT_NONE when r has fewer. */
int32_t kvt_fault_page_at(const struct kvt_core *core, int32_t replica, int32_t r, int32_t index);

/* Whether a page is in the prefix index: full, whoever wrote it. */
bool kvt_fault_is_entry(const struct kvt_replica *replica, int32_t page);

/* What the allocator says of a page now. position is looked up in the prefix index, or among the
 * owner's pages. */
struct kvt_tag_fields kvt_fault_fields(const struct kvt_faults *faults, int32_t replica,
                                       int32_t page);

/* Add a deviation that the caller fills in; NULL when there are too many, or the reader is gone.
 * The reader expects what the allocator says of its page, and tags say the same until the caller
 * changes them. */
struct kvt_deviation *kvt_fault_deviate(struct kvt_faults *faults, int32_t strike, int32_t replica,
                                        int32_t reader, int32_t index,
                                        enum kvt_deviation_kind kind);

/* Uniform: how near a deviation's tags come to being equal; level.c. */
double kvt_fault_luck(const struct kvt_faults *faults, int32_t deviation);

/* Wrong bytes; not a tag or an alarm alone. */
static inline bool kvt_fault_is_wrong(const struct kvt_deviation *d)
{
    return d->kind != KVT_TAG_FLIPPED && d->kind != KVT_NOTHING_WRONG && !d->alike;
}

/* Whether page `index` of either request's text is one of its prompt, and both prompts are the same
 * up to its end: by their hashes, without any they are not. O(hashes). */
bool kvt_fault_same_text(const struct kvt_core *core, int32_t replica, int32_t a, int32_t b,
                         int32_t index);

void kvt_fault_act(struct kvt_faults *faults, struct kvt_fault_action action);

/* The reader reads wrong bytes from now on. */
void kvt_fault_expose_running(struct kvt_faults *faults, struct kvt_deviation *d);

/* The reader is gone, with `generated` tokens out in all: its deviations end. Whether wrong tokens
 * went out. */
bool kvt_fault_close(struct kvt_faults *faults, int32_t reader, int32_t generated);

/* What r has not written by now of what is another's it never will: it leaves its pages, or has
 * left the batch that it was in. */
void kvt_fault_writes_no_more(struct kvt_faults *faults, int32_t r, bool has_left);

/* Whether the source has written its page by a transfer or an earlier step. */
bool kvt_fault_has_written(const struct kvt_faults *faults, const struct kvt_deviation *d);

/* Nothing is wrong with the bytes yet, nor after the step under way. */
bool kvt_fault_waits(const struct kvt_faults *faults, const struct kvt_deviation *d);

/* Tokens of r whose KV is written on this replica. */
int32_t kvt_fault_written(const struct kvt_core *core, int32_t replica, int32_t r);

static inline void kvt_fault_do(struct kvt_faults *faults, struct kvt_deed deed)
{
    if (faults->hands != NULL)
        faults->hands(faults->hands_context, &deed);
}

/* The sink of the core's log. */
void kvt_fault_see(void *context, const struct kvt_decision *decision);

/* ---- targets: strike.c ---- */

/* The strike's own stream: the same draws whatever else happens. */
struct kvt_stream kvt_fault_stream(const struct kvt_faults *faults, int32_t strike);

int32_t kvt_fault_pages(const struct kvt_faults *faults, int32_t replica, int32_t r);
const struct kvt_guards *kvt_fault_guards(const struct kvt_faults *faults, int32_t replica);
void kvt_fault_wake(struct kvt_faults *faults, int32_t replica);

/* A page of the prefix index is bad: whoever shares it now, or will, reads it. */
void kvt_fault_poison(struct kvt_faults *faults, int32_t strike, int32_t replica, int32_t page,
                      enum kvt_deviation_kind kind);

/* ---- what strikes, by the files that do it ---- */

void kvt_fault_strike_table(struct kvt_faults *faults, int32_t strike); /* strike.c */
void kvt_fault_strike_node(struct kvt_faults *faults, int32_t strike);  /* pool.c, and below */
void kvt_fault_withhold(struct kvt_faults *faults, int32_t strike);
void kvt_fault_give_back(struct kvt_faults *faults, int32_t at);
void kvt_fault_crash(struct kvt_faults *faults, int32_t strike, int32_t replica, kvt_ticks down);
void kvt_fault_free_twice(struct kvt_faults *faults, int32_t replica, int32_t r, int32_t page);
void kvt_fault_finished(struct kvt_faults *faults, int32_t replica, int32_t r); /* transfer.c */
void kvt_fault_sending(struct kvt_faults *faults, int32_t r);
void kvt_fault_aborting(struct kvt_faults *faults, int32_t r);
void kvt_fault_abort_transfer(struct kvt_faults *faults, int32_t strike, int32_t r);
int32_t kvt_fault_in_transfer(const struct kvt_faults *faults, int32_t strike);
void kvt_fault_land_due(struct kvt_faults *faults);

/* The page leaves service as soon as it is free. */
void kvt_fault_quarantine(struct kvt_faults *faults, int32_t replica, int32_t page);

/* What the step in flight wrote to pages that were given away lands now. */
void kvt_fault_land_step(struct kvt_faults *faults, int32_t replica);

/* An armed strike of this variant that may strike request r on this replica, taken off the list;
 * KVT_NONE. */
int32_t kvt_fault_take_armed(struct kvt_faults *faults, enum kvt_fault_variant variant,
                             int32_t replica, int32_t r);

#endif
