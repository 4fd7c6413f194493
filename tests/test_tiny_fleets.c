/*
 * Every order in which things can happen to three requests on fleets of four
 * pages.
 *
 * A happening is what a driver tells the core: an arrival, a plan, the end of a
 * step or of a transfer, an acknowledgement, a client that goes away. As a
 * driver does, a replica plans only when it is awake, and must be awake when
 * there is something to do. All sequences of STEPS happenings are walked as a
 * tree; after each of them every invariant holds, each page has one owner and
 * never grows younger, and a core whose pools only count has decided the same.
 * From where a sequence ends the fleet runs on until nothing is left to do:
 * then every request must be gone and every page back.
 */
#include <stdio.h>
#include <string.h>

#include "sim/serve/core.h"
#include "tests/check.h"

#define PAGES       4
#define PAGE_TOKENS 2
#define REQUESTS    3
#define REPLICAS    2
#define STEPS_MAX   12
#define ARENA_BYTES 16384

enum { NAMED, COUNTED, CORES };

static const int32_t input[REQUESTS] = {3, 4, 2}, output[REQUESTS] = {3, 2, 4};
static const uint64_t hashes[] = {1, 2, 1, 3,
                                  1}; /* of two tokens each: the first page is the same */
static const int64_t hash_begin[REQUESTS + 1] = {0, 2, 4, 5};

/* All that a happening may change. */
static struct state {
    struct kvt_core core[CORES];
    bool awake[REPLICAS], acking[REQUESTS], sent[REQUESTS]; /* sent: the last piece is */
    int32_t arrived;
    unsigned char arena[CORES][ARENA_BYTES];
} now, saved[STEPS_MAX + 1];

static struct kvt_arena arenas[CORES];
static struct kvt_replica_spec roles[KVT_ROLE_COUNT];
static int cores; /* 1 where pages must have names */
static const char *wrong;
static struct {
    int64_t preemptions, aborted, evicted;
} seen; /* that it was worth it */

static void build(const struct kvt_core_spec *plain)
{
    struct kvt_err err = {0};
    memset(&now, 0, sizeof now);
    for (int c = 0; c < cores; c++) {
        struct kvt_core_spec spec = *plain;
        for (int role = 0; role < KVT_ROLE_COUNT; role++)
            roles[role].named = c == NAMED;
        kvt_arena_release(&arenas[c]);
        CHECK_OK(kvt_arena_init(&arenas[c], ARENA_BYTES, &err), err);
        CHECK_OK(kvt_core_init(&now.core[c], &arenas[c], &spec, &err), err);
    }
}

static void save(int depth)
{
    for (int c = 0; c < cores; c++)
        memcpy(now.arena[c], arenas[c].base, arenas[c].used);
    saved[depth] = now;
}

static void put_back(int depth)
{
    now = saved[depth];
    for (int c = 0; c < cores; c++)
        memcpy(arenas[c].base, now.arena[c], arenas[c].used);
}

/* ---- what must hold
 * ----------------------------------------------------------------------- */

static void must(bool holds, const char *what)
{
    if (!holds && wrong == NULL)
        wrong = what;
}

/* Each page by itself: who has it. */
static void look_at_pages(int32_t id)
{
    const struct kvt_core *core = &now.core[NAMED];
    const struct kvt_replica *replica = &core->replicas[id];
    const struct kvt_pages *pages = &replica->pages;
    int32_t owners[PAGES] = {0};
    for (int32_t r = 0; r < REQUESTS; r++) {
        const struct kvt_request *request = &core->requests[r];
        bool away = replica->spec.role == KVT_ROLE_DECODE;
        const struct kvt_holding *h = away ? &request->away : &request->home;
        if ((away ? request->decode_replica : request->replica) != id)
            continue;
        int32_t own = 0;
        for (int32_t page = h->first; page != KVT_NONE && own <= PAGES; page = pages->next[page]) {
            must(pages->owner[page] == r, "a page is in the list of another request");
            owners[page]++;
            own++;
        }
        must(own == h->pages - h->shared, "a request's pages are not as many as it says");
    }
    for (int32_t page = 0; page < PAGES; page++) {
        bool entry = replica->spec.prefix_cache && replica->prefix.locks[page] >= 0;
        owners[page] += entry;
        bool taken = pages->state[page] == KVT_PAGE_HELD || pages->state[page] == KVT_PAGE_CACHED;
        must(owners[page] == taken, "a page has two owners, or is lost");
    }
}

static void look(void)
{
    for (int c = 0; c < cores; c++)
        kvt_core_validate(&now.core[c]);
    for (int32_t id = 0; id < now.core[NAMED].replica_count; id++)
        look_at_pages(id);
    if (cores > 1)
        must(now.core[NAMED].log.digest == now.core[COUNTED].log.digest,
             "pools that name and that count decide differently");
}

static void look_at_ages(const struct state *before)
{
    for (int32_t id = 0; id < now.core[NAMED].replica_count; id++) {
        const uint32_t *after = now.core[NAMED].replicas[id].pages.generation;
        size_t offset = (size_t)((const unsigned char *)after - arenas[NAMED].base);
        uint32_t past[PAGES];
        memcpy(past, before->arena[NAMED] + offset, sizeof past);
        for (int32_t page = 0; page < PAGES; page++)
            must(after[page] >= past[page], "a page grew younger");
    }
}

/* What a plan of the replica would decide now, asked as it stands or anew; nothing is changed. */
static uint64_t would_decide(int32_t id, bool anew)
{
    struct kvt_core *core = &now.core[NAMED];
    save(STEPS_MAX);
    if (anew)
        core->replicas[id].blocked = false;
    bool planned = kvt_core_plan(core, id) != NULL;
    uint64_t digest = kvt_digest_add(core->log.digest, planned);
    put_back(STEPS_MAX);
    return digest;
}

/* A replica that sleeps has nothing to do: were it asked, nothing would be decided. */
static void look_for_lost_wakes(void)
{
    const struct kvt_core *core = &now.core[NAMED];
    for (int32_t id = 0; id < core->replica_count; id++)
        if (!now.awake[id] && core->replicas[id].in_flight == 0)
            must(would_decide(id, true) == kvt_digest_add(core->log.digest, false),
                 "a replica sleeps that has something to do");
}

/* A member has left a batch before its end: whoever is still refused would be refused again. */
static void look_for_stale_refusals(void)
{
    for (int32_t id = 0; id < now.core[NAMED].replica_count; id++) {
        const struct kvt_replica *replica = &now.core[NAMED].replicas[id];
        if (replica->blocked && replica->in_flight <= replica->spec.overlap)
            must(would_decide(id, true) == would_decide(id, false),
                 "a replica refuses who would fit since a member left");
    }
}

/* ---- what can happen
 * ---------------------------------------------------------------------- */

static void carry_out(void)
{
    struct kvt_core *core = &now.core[NAMED];
    for (int32_t i = 0; i < core->effect_count; i++) {
        const struct kvt_effect *effect = &core->effects[i];
        if (effect->kind == KVT_EFFECT_WAKE)
            now.awake[effect->replica] = true;
        if (effect->kind == KVT_EFFECT_SEND)
            now.sent[effect->request] = effect->last;
        if (effect->kind == KVT_EFFECT_ACK)
            now.acking[effect->request] = true;
        if (effect->kind == KVT_EFFECT_ABORT && core->requests[effect->request].in_transfer)
            now.sent[effect->request] = true; /* the rest is cut off */
    }
    for (int c = 0; c < cores; c++)
        now.core[c].effect_count = 0;
}

static bool is_live(int32_t r)
{
    return r < now.arrived && now.core[NAMED].requests[r].state < KVT_REQUEST_COMPLETED;
}

enum {
    ARRIVE,
    PLAN,
    COMMIT = PLAN + REPLICAS,
    CANCEL = COMMIT + REPLICAS,
    DONE = CANCEL + REQUESTS,
    ACK = DONE + REQUESTS,
    HAPPENINGS = ACK + REQUESTS
};

static bool can_happen(int what)
{
    const struct kvt_core *core = &now.core[NAMED];
    if (what == ARRIVE)
        return now.arrived < REQUESTS;
    if (what < CANCEL) {
        int32_t id = (what - PLAN) % REPLICAS;
        if (id >= core->replica_count)
            return false;
        const struct kvt_replica *replica = &core->replicas[id];
        return what >= COMMIT ? replica->in_flight > 0
                              : now.awake[id] && replica->in_flight <= replica->spec.overlap;
    }
    int32_t r = (what - CANCEL) % REQUESTS;
    return what < DONE  ? is_live(r)
           : what < ACK ? now.sent[r] && core->requests[r].in_transfer && !now.acking[r]
                        : now.acking[r];
}

static void tell(struct kvt_core *core, int what)
{
    int32_t id = (what - PLAN) % REPLICAS, r = (what - CANCEL) % REQUESTS;
    core->log.now++;
    if (what == ARRIVE)
        kvt_core_arrive(core, now.arrived);
    else if (what < COMMIT)
        (void)kvt_core_plan(core, id);
    else if (what < CANCEL)
        kvt_core_commit(core, id, 1);
    else if (what < DONE)
        kvt_core_cancel(core, r);
    else if (what < ACK)
        kvt_core_transfer_done(core, r);
    else
        kvt_core_acknowledge(core, r);
}

static void happen(int what)
{
    int32_t id = (what - PLAN) % REPLICAS, r = (what - CANCEL) % REQUESTS;
    bool leaves =
        what >= CANCEL && what < DONE && now.core[NAMED].requests[r].state == KVT_REQUEST_RUNNING;
    for (int c = 0; c < cores; c++)
        tell(&now.core[c], what);
    if (what == ARRIVE)
        now.arrived++;
    else if (what < COMMIT)
        now.awake[id] =
            now.core[NAMED].replicas[id].in_flight > 0 && now.core[NAMED].replicas[id].spec.overlap;
    else if (what < CANCEL)
        now.awake[id] = true;
    else if (what >= DONE && what < ACK)
        now.sent[r] = false;
    else if (what >= ACK)
        now.acking[r] = false;
    carry_out();
    look();
    if (leaves)
        look_for_stale_refusals();
}

/* Everything that is under way goes on to its end, and nobody goes away any
 * more. */
static void run_on(void)
{
    int happened = 0;
    for (bool more = true; more && happened < 200 && wrong == NULL;) {
        more = false;
        for (int what = 0; what < HAPPENINGS; what++)
            if ((what < CANCEL || what >= DONE) && can_happen(what)) {
                happen(what);
                happened++;
                more = true;
            }
    }
    const struct kvt_core *core = &now.core[NAMED];
    seen.preemptions += core->preemptions;
    seen.aborted += core->counts[0].aborted;
    must(happened < 200, "it never ends");
    must(core->live == 0, "a request waits for ever");
    for (int32_t id = 0; id < core->replica_count; id++)
        seen.evicted += core->replicas[id].prefix.evicted;
    for (int32_t id = 0; id < core->replica_count; id++)
        must(core->replicas[id].pages.held == 0, "a page is held for ever");
    for (int32_t id = 0; id < core->replica_count; id++)
        must(core->replicas[id].expected + core->replicas[id].load_requests == 0,
             "a replica waits for who is gone");
}

/* ---- the tree
 * -----------------------------------------------------------------------------
 */

static void tell_wrong(const int what[], int depth)
{
    printf("    %s after", wrong);
    for (int i = 0; i <= depth; i++)
        printf(" %d", what[i]);
    printf("\n");
}

/* Sequences of `steps` happenings (0 at the first that went wrong). */
static int64_t walk(int steps)
{
    int what[STEPS_MAX], depth = 0;
    int64_t ends = 0;
    save(0);
    what[0] = 0;
    while (depth >= 0) {
        if (what[depth] == HAPPENINGS) {
            if (--depth >= 0)
                what[depth]++;
            continue;
        }
        put_back(depth);
        if (can_happen(what[depth])) {
            happen(what[depth]);
            look_at_ages(&saved[depth]);
            look_for_lost_wakes();
            if (depth + 1 == steps) {
                ends++;
                run_on();
            }
            if (wrong != NULL) {
                tell_wrong(what, depth);
                return 0;
            }
            if (depth + 1 < steps) {
                save(++depth);
                what[depth] = 0;
                continue;
            }
        }
        what[depth]++;
    }
    return ends;
}

static void set_role(struct kvt_core_spec *spec, enum kvt_role role, enum kvt_engine engine,
                     bool overlap, bool cache)
{
    roles[role] = (struct kvt_replica_spec){
        .role = role,
        .engine = engine,
        .pages = PAGES,
        .page_tokens = PAGE_TOKENS,
        .overlap = overlap,
        .prefix_cache = cache,
        .free_order = KVT_FREE_FIFO,
        .chunk_tokens = 2,
        .batch_tokens = engine == KVT_ENGINE_VLLM ? 4 : 100,
        .max_running = 2,
        .max_model_len = 1 << 20,
        .conservativeness = 0.3, /* so that pages run out */
        .reserved_decode_tokens = 1,
    };
    spec->roles[role] = &roles[role];
    spec->replicas[role] = 1;
}

static struct kvt_core_spec spec_of(bool cache)
{
    struct kvt_core_spec spec = {
        .request_count = REQUESTS, .input = input, .output = output, .tenants = 1};
    if (cache) {
        spec.hash_begin = hash_begin;
        spec.hashes = hashes;
        spec.block_tokens = PAGE_TOKENS;
    }
    return spec;
}

static void everything_that_can_happen_to_one_replica(void)
{
    int64_t ends = 0;
    memset(&seen, 0, sizeof seen);
    for (int i = 0; i < 8; i++) {
        bool cache = (i & 4) != 0;
        struct kvt_core_spec spec = spec_of(cache);
        cores = cache ? 1 : CORES;
        set_role(&spec, KVT_ROLE_SERVE, (enum kvt_engine)(i & 1), (i & 2) != 0, cache);
        build(&spec);
        ends += walk(10);
        CHECK_TEXT(wrong == NULL ? "" : wrong, "", "one replica");
        wrong = NULL;
    }
    CHECK_NOTE(ends > 30000, "there were sequences to walk");
    CHECK(seen.preemptions > 1000 && seen.aborted > 10000 && seen.evicted > 100);
}

static void everything_that_can_happen_on_the_way_from_prefill_to_decode(void)
{
    int64_t ends = 0;
    memset(&seen, 0, sizeof seen);
    for (int i = 0; i < 8; i++) {
        bool cache = (i & 4) != 0;
        struct kvt_core_spec spec = spec_of(cache);
        cores = cache ? 1 : CORES;
        set_role(&spec, KVT_ROLE_PREFILL, (enum kvt_engine)(i & 1), false, cache);
        set_role(&spec, KVT_ROLE_DECODE, (enum kvt_engine)(i & 1), (i & 2) != 0, false);
        build(&spec);
        ends += walk(9);
        CHECK_TEXT(wrong == NULL ? "" : wrong, "", "prefill and decode");
        wrong = NULL;
    }
    CHECK_NOTE(ends > 20000 && seen.aborted > 40000, "there were sequences to walk");
    for (int c = 0; c < CORES; c++)
        kvt_arena_release(&arenas[c]);
}

const struct check_test check_tiny_fleets[] = {
    {"everything that can happen to one replica", everything_that_can_happen_to_one_replica, false},
    {"everything that can happen on the way from prefill to decode",
     everything_that_can_happen_on_the_way_from_prefill_to_decode, false},
    {NULL, NULL, false},
};
