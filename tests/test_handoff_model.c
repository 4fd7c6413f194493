/*
 * Walks of the model of the hand-off (tests/spin/handoff.pml) through the serving core.
 *
 * A walk is what the model prints: a line for each transition, with the state that the core must
 * show after it. The committed walks are from random seeds; `make spin` draws others and names
 * their file in KVT_WALKS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "tests/check.h"
#include "tests/fleet.h"

enum { PREFILL, DECODE };                   /* the ids of the two replicas */
enum { REQUESTS = 3, OF_REQUEST = 6 };      /* numbers of a request */
enum { SHOWN = REQUESTS * OF_REQUEST + 9 }; /* numbers of a line after the = */

static struct fleet fleet;

/* What the core does not know: who is awake, and what is under way on the link. */
static struct {
    bool awake[2], acking[REQUESTS], last[REQUESTS];
    int32_t wire[REQUESTS]; /* pieces sent, not yet written */
} world;

static void begin(void)
{
    fleet_begin(&fleet);
    struct kvt_replica_spec *prefill = fleet_role(&fleet, KVT_ROLE_PREFILL, KVT_ENGINE_VLLM);
    struct kvt_replica_spec *decode = fleet_role(&fleet, KVT_ROLE_DECODE, KVT_ENGINE_VLLM);
    prefill->page_tokens = decode->page_tokens = 5;
    prefill->named = decode->named = true;
    prefill->batch_tokens = 4;
    prefill->pages = 3;
    decode->pages = 4;
    for (int i = 0; i < REQUESTS; i++)
        fleet_request(&fleet, 8, 2);
    fleet_build(&fleet);
    memset(&world, 0, sizeof world);
}

static void carry_out(void)
{
    for (int32_t i = 0; i < fleet.core.effect_count; i++) {
        const struct kvt_effect *effect = &fleet.core.effects[i];
        if (effect->kind == KVT_EFFECT_WAKE)
            world.awake[effect->replica] = true;
        if (effect->kind == KVT_EFFECT_SEND) {
            world.wire[effect->request]++;
            world.last[effect->request] = effect->last;
        }
        if (effect->kind == KVT_EFFECT_ACK)
            world.acking[effect->request] = true;
        if (effect->kind == KVT_EFFECT_ABORT && fleet.core.requests[effect->request].in_transfer)
            world.last[effect->request] = true; /* the rest is cut off */
    }
    fleet.core.effect_count = 0;
    kvt_core_validate(&fleet.core);
    fleet.text[0] = '\0';
}

static void commit(int32_t replica)
{
    kvt_core_commit(&fleet.core, replica, 1);
    world.awake[replica] = true;
}

static void plan(int32_t replica)
{
    world.awake[replica] = false;
    (void)kvt_core_plan(&fleet.core, replica);
}

/* A node takes with it whoever has been routed to it: here everyone. */
static void crash(void)
{
    for (int32_t r = 0; r < REQUESTS; r++)
        kvt_core_cancel(&fleet.core, r);
}

/* False when the core, or what is on the link, does not allow the transition. */
static bool make(const char *what, int32_t id)
{
    struct kvt_core *core = &fleet.core;
    if (strcmp(what, "arrive") == 0)
        kvt_core_arrive(core, id);
    else if (strcmp(what, "cancel") == 0)
        kvt_core_cancel(core, id);
    else if (strcmp(what, "plan_p") == 0)
        plan(PREFILL);
    else if (strcmp(what, "plan_d") == 0)
        plan(DECODE);
    else if (strcmp(what, "commit_p") == 0)
        commit(PREFILL);
    else if (strcmp(what, "commit_d") == 0)
        commit(DECODE);
    else if (strcmp(what, "early") == 0) {
        kvt_core_transfer_begin(core, id);
        world.wire[id]++;
    } else if (strcmp(what, "land") == 0) {
        if (world.wire[id]-- == 0)
            return false;
    } else if (strcmp(what, "done") == 0) {
        if (world.wire[id] > 0 || !world.last[id])
            return false;
        kvt_core_transfer_done(core, id);
    } else if (strcmp(what, "ack") == 0) {
        if (!world.acking[id])
            return false;
        world.acking[id] = false;
        kvt_core_acknowledge(core, id);
    } else if (strcmp(what, "crash") == 0)
        crash();
    else if (strcmp(what, "restart") == 0)
        world.awake[id] = true;
    else
        return strcmp(what, "lose") == 0 || strcmp(what, "end") == 0;
    carry_out();
    return true;
}

/* The line of the model, in its order, from the core. */
static void show(int32_t shown[SHOWN])
{
    const struct kvt_core *core = &fleet.core;
    const struct kvt_replica *prefill = &core->replicas[PREFILL], *decode = &core->replicas[DECODE];
    for (int32_t r = 0; r < REQUESTS; r++) {
        const struct kvt_request *request = &core->requests[r];
        const int32_t of[OF_REQUEST] = {request->state,       request->home.pages,
                                        request->home.fences, request->away.pages,
                                        request->away.fences, request->in_transfer};
        memcpy(shown + r * OF_REQUEST, of, sizeof of);
    }
    const int32_t rest[9] = {prefill->pages.free,  prefill->in_flight,  prefill->blocked,
                             world.awake[PREFILL], decode->pages.free,  decode->in_flight,
                             decode->blocked,      world.awake[DECODE], prefill->chunked};
    memcpy(shown + REQUESTS * OF_REQUEST, rest, sizeof rest);
}

/* Page by page: what pieces under way are read from and written to is held by their request. */
static bool are_held(const struct kvt_pages *pages, const struct kvt_holding *holding, int32_t r)
{
    int32_t count = 0;
    for (int32_t page = holding->first; page != KVT_NONE; page = pages->next[page]) {
        if (pages->state[page] != KVT_PAGE_HELD || pages->owner[page] != r)
            return false;
        count++;
    }
    return count > 0 && count == holding->pages;
}

static bool what_flies_is_held(void)
{
    const struct kvt_core *core = &fleet.core;
    for (int32_t r = 0; r < REQUESTS; r++)
        if (world.wire[r] > 0 &&
            !(are_held(&core->replicas[PREFILL].pages, &core->requests[r].home, r) &&
              are_held(&core->replicas[DECODE].pages, &core->requests[r].away, r)))
            return false;
    return true;
}

/* One line; false when the core differs. */
static bool step(const char *line)
{
    char what[16], *after;
    int32_t shown[SHOWN];
    int used = 0;
    if (sscanf(line, " %15s %n", what, &used) != 1 || used == 0)
        return false;
    long id = strtol(line + used, &after, 10);
    if (after == line + used || strncmp(after, " =", 2) != 0 || id < 0 || id >= REQUESTS ||
        !make(what, (int32_t)id) || !what_flies_is_held())
        return false;
    show(shown);
    const char *at = after + 2;
    for (int i = 0; i < SHOWN; i++) {
        char *end;
        long wanted = strtol(at, &end, 10);
        if (end == at || wanted != shown[i]) {
            fprintf(stderr, "number %d of the state: %d\n", i + 1, shown[i]);
            return false;
        }
        at = end;
    }
    return true;
}

/* Lines of one walk up to its end; returns what follows, or NULL. */
static char *walk(char *text, int64_t *steps)
{
    begin();
    char *line = text;
    bool right = true, ended = false;
    while (line != NULL && *line != '\0' && right && !ended) {
        char *next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        ended = strncmp(line, "end", 3) == 0;
        right = step(line);
        CHECK_NOTE(right, line);
        (*steps)++;
        line = next;
    }
    CHECK_NOTE(!right || ended, "a walk has an end");
    return right && line != NULL && *line != '\0' ? line : NULL;
}

static void the_core_goes_where_the_model_goes(void)
{
    struct kvt_text text;
    struct kvt_err err = {0};
    const char *named = getenv("KVT_WALKS");
    CHECK_OK(kvt_text_read(named != NULL ? named : "tests/spin/walks.txt.gz", 1 << 28, &text, &err),
             err);
    if (text.bytes == NULL)
        return;
    int64_t walks = 0, steps = 0;
    for (char *at = text.bytes; at != NULL; walks++)
        at = walk(at, &steps);
    CHECK_NOTE(walks > 0 && steps > 10 * walks, "walks that lead somewhere");
    if (named != NULL)
        printf("    %lld walks of the model, %lld transitions\n", (long long)walks,
               (long long)steps);
    kvt_text_free(&text);
    kvt_arena_release(&fleet.arena);
}

const struct check_test check_handoff_model[] = {
    {"the core goes where the model goes", the_core_goes_where_the_model_goes, false},
    {NULL, NULL, false},
};
