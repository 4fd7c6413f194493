/*
 * What the guards of a role see of a deviation, and when they look.
 */
#include "sim/fault/parts.h"

/* Whether a tag differs from what its reader expects. When aliases are forced, tags that could be
 * equal by chance are equal, and the run's weight bears that chance, whether or not these happen to
 * be; when they are drawn, luck says. */
static bool differs(struct kvt_faults *faults, const struct kvt_guards *guards,
                    struct kvt_deviation *d, const struct kvt_tag_fields *stored, bool is_free)
{
    bool plain = !faults->force_aliases && !faults->draw_aliases;
    if (plain || is_free || !kvt_tag_by_chance(&guards->tag, &d->expected, stored))
        return (is_free ? KVT_TAG_FREE : kvt_tag_value(&guards->tag, stored)) !=
               kvt_tag_value(&guards->tag, &d->expected);
    if (faults->draw_aliases) {
        d->compared = true;
        return d->luck * kvt_tag_values(&guards->tag) >= 1;
    }
    if (!d->forced) {
        kvt_force(1 / kvt_tag_values(&guards->tag), &faults->log_weight);
        kvt_force(1 / kvt_tag_values(&guards->tag), &faults->results[d->strike].log_weight);
    }
    d->forced = true;
    return false;
}

/* Whether any guard that is on would fire if it looked now. */
static bool would_fire(struct kvt_faults *faults, const struct kvt_guards *guards,
                       struct kvt_deviation *d)
{
    bool side = kvt_guards_have(guards, KVT_GUARD_TAG_SIDE);
    bool inband = kvt_guards_have(guards, KVT_GUARD_TAG_INBAND);
    bool digest = kvt_guards_have(guards, KVT_GUARD_DIGEST);
    bool canary = kvt_guards_have(guards, KVT_GUARD_CANARY);
    if (d->kind == KVT_NOTHING_WRONG)
        return (guards->on & KVT_GUARDS_LOOK) != 0;
    if (d->kind == KVT_TAG_FLIPPED)
        return side || (inband && !d->stamped);
    if (d->waits)
        return side && differs(faults, guards, d, &d->owned, d->owner_free);
    bool moved =
        d->kind == KVT_READS_OTHER || d->kind == KVT_BYTES_OTHER || d->kind == KVT_BYTES_PARTIAL;
    if (canary && !d->stamped && !d->alike && (moved || d->kind == KVT_BYTES_POISONED))
        return true;
    if (digest && d->source_index == KVT_NONE && !d->alike &&
        (d->kind == KVT_BYTES_OTHER || d->kind == KVT_BYTES_PARTIAL ||
         d->kind == KVT_BYTES_FLIPPED))
        return true;
    return (side && differs(faults, guards, d, &d->owned, d->owner_free)) ||
           (inband && !d->stamped && differs(faults, guards, d, &d->written, false));
}

/* The reader's place in the oldest step of a replica. */
struct place {
    bool decodes, first; /* first: of its steps here, the first */
    const struct kvt_chunk *chunk;
    int32_t tail;      /* page index that the step writes to */
    int32_t end;       /* tokens when the step has run */
    int32_t generated; /* output tokens before the step */
};

static bool find_place(const struct kvt_faults *faults, int32_t id, int32_t r, struct place *place)
{
    const struct kvt_core *core = faults->core;
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_step *step = &replica->steps[replica->oldest];
    const struct kvt_request *request = &core->requests[r];
    *place = (struct place){.generated = request->generated};
    if (replica->in_flight == 0)
        return false;
    bool computes = request->state == KVT_REQUEST_PREFILL || request->state == KVT_REQUEST_RUNNING;
    for (int32_t i = 0; i < step->chunk_count; i++) { /* a member's: its last, under overlap */
        if (step->chunks[i].request != r || !computes)
            continue;
        place->chunk = &step->chunks[i];
        place->first = step->chunks[i].end - step->chunks[i].tokens == request->cached;
        place->end = step->chunks[i].end;
        place->tail = (place->end - 1) / replica->spec.page_tokens;
        place->generated -= step->chunks[i].last;
        return true;
    }
    if (step->decodes == 0 || request->state != KVT_REQUEST_RUNNING ||
        request->joined > replica->batch.committed)
        return false;
    int64_t run = replica->batch.committed - request->joined;
    place->decodes = true;
    place->first = run == 0;
    place->end = (int32_t)(request->context + run + 1);
    place->tail = (place->end - 1) / replica->spec.page_tokens;
    place->generated = request->generated + (int32_t)run;
    return true;
}

bool kvt_faults_sample(const struct kvt_faults *faults, int32_t r, int32_t index, int64_t step,
                       double share)
{
    struct kvt_stream stream;
    uint64_t page = kvt_digest_add(KVT_DIGEST_START, (uint64_t)(uint32_t)r << 32 | (uint32_t)index);
    kvt_stream_init(&stream, faults->seed, KVT_PURPOSE_TAG, kvt_digest_add(page, (uint64_t)step));
    return kvt_stream_unit(&stream) < share;
}

static bool looks_before(const struct kvt_faults *faults, const struct kvt_guards *guards,
                         const struct kvt_deviation *d, const struct place *place)
{
    switch (guards->check) {
    case KVT_CHECK_ONCE:
        return place->first;
    case KVT_CHECK_BEFORE_READ:
        return true;
    case KVT_CHECK_BEFORE_WRITE:
        return d->index == place->tail;
    case KVT_CHECK_SAMPLED:
        return kvt_faults_sample(faults, d->reader, d->index,
                                 faults->core->replicas[d->replica].batch.committed,
                                 guards->sample);
    case KVT_CHECK_AFTER_STEP:
    case KVT_CHECK_COUNT:
        break;
    }
    return false;
}

/* Whether the step reads what is wrong: pages up to the one it writes; of a last page with old
 * bytes the rest, if there is one. */
static bool reads(const struct kvt_faults *faults, const struct kvt_deviation *d,
                  const struct place *place)
{
    int32_t tokens = faults->core->replicas[d->replica].spec.page_tokens;
    return d->index <= place->tail && (d->kind != KVT_BYTES_RESIDUE || place->end % tokens != 0);
}

static bool reads_now(const struct kvt_faults *faults, int32_t id, struct kvt_deviation *d,
                      struct place *place)
{
    const struct kvt_pages *pages = &faults->core->replicas[d->replica].pages;
    if (d->kind == KVT_READS_OTHER && pages->generation[d->page] != d->owned.generation)
        d->alike = false; /* that page was handed out again */
    return d->open && d->replica == id && find_place(faults, id, d->reader, place) &&
           reads(faults, d, place);
}

bool kvt_fault_has_written(const struct kvt_faults *faults, const struct kvt_deviation *d)
{
    int32_t tokens = faults->core->replicas[d->replica].spec.page_tokens;
    return !d->appended &&
           kvt_fault_written(faults->core, d->replica, d->source) > d->source_index * tokens;
}

static bool writes_now(const struct kvt_faults *faults, const struct kvt_deviation *d)
{
    struct place place;
    if (!find_place(faults, d->replica, d->source, &place))
        return false;
    return d->appended ? place.tail == d->source_index : place.tail >= d->source_index;
}

bool kvt_fault_waits(const struct kvt_faults *faults, const struct kvt_deviation *d)
{
    return d->waits && !kvt_fault_has_written(faults, d) && !writes_now(faults, d);
}

/* The reader reads wrong bytes from now on, having put out `generated` right tokens. */
static void expose(struct kvt_faults *faults, struct kvt_deviation *d, int32_t generated)
{
    struct kvt_fault_result *result = &faults->results[d->strike];
    if (d->exposed || !kvt_fault_is_wrong(d))
        return;
    d->exposed = true;
    d->generated = generated;
    for (int32_t i = 0; i < faults->deviation_count; i++) { /* one request counts once */
        const struct kvt_deviation *other = &faults->deviations[i];
        if (other != d && other->open && other->exposed && other->reader == d->reader &&
            other->strike == d->strike) {
            d->generated = other->generated;
            return;
        }
    }
    result->hit++;
    if (!result->exposed)
        result->exposed_at = faults->core->log.now;
    result->exposed = true;
    const uint16_t *tenant = faults->core->tenant;
    if (d->source != KVT_NONE && tenant != NULL && tenant[d->source] != tenant[d->reader])
        result->cross_tenant = true;
}

/* A request that failed a check once more after it was computed again is aborted: whatever is wrong
 * with it stays. */
static enum kvt_fault_action_kind action_of(const struct kvt_guards *guards, bool again)
{
    if (guards->on_hit == KVT_ON_HIT_ABORT || again)
        return KVT_FAULT_CANCEL;
    return guards->on_hit == KVT_ON_HIT_REFETCH ? KVT_FAULT_REFETCH : KVT_FAULT_RECOMPUTE;
}

static bool has_fired(const struct kvt_faults *faults, int32_t reader)
{
    bool fired = false;
    for (int32_t i = 0; i < faults->deviation_count; i++)
        fired = fired || (faults->deviations[i].fired && faults->deviations[i].reader == reader);
    return fired;
}

enum kvt_fault_action_kind kvt_faults_found(struct kvt_faults *faults, int32_t id, int32_t page,
                                            int32_t r, bool again)
{
    const struct kvt_guards *guards = kvt_fault_guards(faults, id);
    enum kvt_fault_action_kind kind = action_of(guards, again);
    if (kvt_guards_have(guards, KVT_GUARD_QUARANTINE))
        kvt_fault_quarantine(faults, id, page);
    kvt_fault_act(faults, (struct kvt_fault_action){.kind = kind, .request = r});
    return kind;
}

static void fire(struct kvt_faults *faults, struct kvt_deviation *d, int32_t generated)
{
    struct kvt_fault_result *result = &faults->results[d->strike];
    if (!result->detected)
        result->detected_at = faults->core->log.now;
    result->detected = true;
    result->false_aborts += !kvt_fault_is_wrong(d);
    kvt_core_note(faults->core, KVT_DECIDE_CHECK_MISS, d->reader, d->replica, d->page);
    const struct kvt_guards *guards = faults->guards[faults->core->replicas[d->replica].spec.role];
    if (kvt_guards_have(guards, KVT_GUARD_QUARANTINE))
        kvt_fault_quarantine(faults, d->replica, d->page);
    int32_t reader = d->reader;
    enum kvt_fault_action_kind kind = action_of(guards, has_fired(faults, d->reader));
    result->lost += kind == KVT_FAULT_CANCEL;
    d->fired = true;
    bool leaked = kvt_fault_close(faults, d->reader, generated);
    result->spoiled += kind == KVT_FAULT_CANCEL && !leaked;
    kvt_fault_act(faults,
                  (struct kvt_fault_action){
                      .kind = kind, .strike = d->strike, .leaked = leaked, .request = d->reader});
    kvt_fault_writes_no_more(faults, reader, false);
}

void kvt_faults_step_starts(struct kvt_faults *faults, int32_t id)
{
    const struct kvt_guards *guards = faults->guards[faults->core->replicas[id].spec.role];
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_STARTS, .replica = id});
    for (int32_t i = 0; i < faults->deviation_count && faults->open[id] > 0; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        struct place place;
        if (!reads_now(faults, id, d, &place))
            continue;
        if (d->waits && kvt_fault_has_written(faults, d))
            d->waits = false;
        if (faults->hands == NULL && looks_before(faults, guards, d, &place) &&
            would_fire(faults, guards, d))
            fire(faults, d, place.generated);
    }
    /* Whoever was not stopped at any of its pages reads all of them. */
    for (int32_t i = 0; i < faults->deviation_count && faults->open[id] > 0; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        struct place place;
        if (!reads_now(faults, id, d, &place))
            continue;
        if (d->waits && writes_now(faults, d))
            d->waits = false;
        d->stamped |= d->index == place.tail && !d->waits; /* a writer's stamp is its last word */
        if (!d->waits)
            expose(faults, d, place.generated);
    }
}

void kvt_faults_step_ends(struct kvt_faults *faults, int32_t id)
{
    const struct kvt_guards *guards = faults->guards[faults->core->replicas[id].spec.role];
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_ENDS, .replica = id});
    bool looks = guards->check == KVT_CHECK_AFTER_STEP && faults->hands == NULL;
    for (int32_t i = 0; i < faults->deviation_count && faults->open[id] > 0; i++) {
        struct kvt_deviation *d = &faults->deviations[i];
        struct place place;
        if (d->kind == KVT_READS_OTHER && !d->exposed)
            continue; /* its table was changed under the step, which has its own copy */
        if (d->open && d->waits && kvt_fault_has_written(faults, d))
            d->waits = false;
        if (looks && reads_now(faults, id, d, &place) && would_fire(faults, guards, d))
            fire(faults, d, place.generated);
    }
    kvt_fault_land_step(faults, id);
    kvt_fault_do(faults, (struct kvt_deed){.kind = KVT_DEED_LANDED, .replica = id});
}

bool kvt_faults_watch(const struct kvt_faults *faults, int32_t id)
{
    const struct kvt_guards *guards = faults->guards[faults->core->replicas[id].spec.role];
    for (int32_t i = 0; i < faults->landing_count; i++)
        if (faults->landings[i].step && faults->landings[i].replica == id)
            return true;
    if (faults->open[id] > 0 &&
        (guards->check == KVT_CHECK_SAMPLED || guards->check == KVT_CHECK_AFTER_STEP))
        return true;
    for (int32_t i = 0; i < faults->deviation_count && faults->open[id] > 0; i++) {
        const struct kvt_deviation *d = &faults->deviations[i];
        if (d->open && d->replica == id && (!d->exposed || d->source_index != KVT_NONE))
            return true; /* what it is now may change with any step */
    }
    return false;
}

/* Bytes land under a step that is running: it has been checked, and reads them. */
void kvt_fault_expose_running(struct kvt_faults *faults, struct kvt_deviation *d)
{
    struct place place;
    if (find_place(faults, d->replica, d->reader, &place) && reads(faults, d, &place))
        expose(faults, d, place.generated);
}
