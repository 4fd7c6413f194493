#include "tests/world.h"

#include <string.h>

static struct kvt_stream dice;

static int64_t draw(int64_t low, int64_t high)
{
    return low + (int64_t)kvt_stream_below(&dice, (uint64_t)(high - low + 1));
}

static bool chance(int64_t percent)
{
    return draw(1, 100) <= percent;
}

/* Few distinct values, so that step ends, arrivals and transfers of several replicas coincide. */
static void draw_costs(struct world *world, int role, int32_t batch_max, bool coarse)
{
    struct kvt_costs *costs = &world->costs[role];
    int64_t unit = coarse ? 1000 : 1;
    *costs = (struct kvt_costs){.batch_max = batch_max, .rows = world->rows[role]};
    int64_t base = (world->is_clockwork ? 1 : draw(1, coarse ? 4 : 40)) * 1000,
            per_request = coarse ? 0 : draw(0, 300);
    int64_t slope = coarse ? 0 : draw(0, 20);
    int32_t segments = coarse ? 1 : (int32_t)draw(1, 4);
    int64_t step = draw(1, 200);
    for (int32_t b = 1; b <= batch_max; b++) {
        struct kvt_cost_row *row = &costs->rows[b];
        *row = (struct kvt_cost_row){.base = base + b * per_request, .segments = segments};
        for (int32_t s = 1; s < segments; s++) {
            row->start[s] = row->start[s - 1] + step * (s + b);
            row->slope[s - 1] = slope * s;
            row->value[s] =
                row->value[s - 1] + row->slope[s - 1] * (row->start[s] - row->start[s - 1]);
        }
        row->slope[segments - 1] = slope * segments;
    }
    world->token_at[1] = 4096;
    world->token_time[1] = 4096 * draw(1, 50) * unit;
    if (world->is_clockwork)
        world->token_time[0] = world->token_time[1] = 1000;
    else if (coarse && chance(70)) /* as long for any prompt: decode takes most of the time */
        world->token_time[0] = world->token_time[1] = draw(1, 20) * unit;
    costs->token_knots = 2;
    costs->token_at = world->token_at;
    costs->token_time = world->token_time;
    costs->pair_slope = coarse ? 0 : draw(0, 1 << 22);
    costs->prefill_base = world->is_clockwork ? 0 : draw(0, 20) * 1000;
    costs->row_cost = coarse ? 0 : draw(0, 500);
    costs->copy_slope = coarse ? 0 : draw(0, 50);
}

/* Of few pages mostly, so that they run out. */
static int32_t draw_pages(const struct world *world, int32_t page_tokens)
{
    if (world->is_long)
        return (int32_t)(draw(300, 1500) * 1024 / page_tokens);
    int32_t pages = (int32_t)draw(8, chance(50) ? 40 : 400) * 64 / page_tokens + 1;
    return pages < 8 ? (int32_t)draw(2, 24) : pages;
}

static void draw_role(struct world *world, enum kvt_role role, int32_t page_tokens, bool coarse)
{
    struct kvt_replica_spec *spec = &world->roles[role];
    int32_t batch = (int32_t)draw(1, 24);
    *spec = (struct kvt_replica_spec){
        .role = role,
        .engine = chance(50) ? KVT_ENGINE_SGLANG : KVT_ENGINE_VLLM,
        .pages = draw_pages(world, page_tokens),
        .page_tokens = page_tokens,
        .window = chance(40) ? (int32_t)draw(2, 120) : 0,
        .overlap = chance(50),
        .free_order = chance(50) ? KVT_FREE_LIFO : KVT_FREE_FIFO,
        .chunk_tokens = (int32_t)draw(1, 8) * (world->is_long ? 4096 : 64),
        .batch_tokens = (int32_t)draw(1, 16) * (world->is_long ? 4096 : 64),
        .max_running = batch,
        .max_model_len = chance(90) ? 1 << 20 : (int32_t)draw(100, 800),
        .conservativeness = chance(70) ? 1 : 0.3,
        .reserved_decode_tokens = (int32_t)draw(0, chance(80) ? 64 : 600),
    };
    /* A chunk holds a page at least (the config says so); prompts may be far shorter than one. */
    if (spec->chunk_tokens < page_tokens)
        spec->chunk_tokens = page_tokens;
    if (spec->engine == KVT_ENGINE_VLLM && spec->batch_tokens < batch + 1)
        spec->batch_tokens = batch + 1;
    spec->prefix_cache = role != KVT_ROLE_DECODE && chance(40);
    draw_costs(world, (int)role, batch, coarse);
    if (spec->window > 0)
        world->costs[role].window_slope = coarse ? 0 : draw(0, 30);
    world->costs[role].window = spec->window;
    world->spec.costs[role] = &world->costs[role];
    world->spec.core.roles[role] = spec;
    world->spec.core.replicas[role] = (int32_t)draw(1, 3);
    world->spec.core.routers[role] = (enum kvt_router)draw(0, KVT_ROUTER_COUNT - 1);
}

/* Families of prompts share their first blocks. */
static int64_t draw_hashes(struct world *world, int32_t r, int64_t used)
{
    int32_t block = world->spec.core.block_tokens;
    uint64_t family = (uint64_t)draw(0, 3), shared = (uint64_t)draw(0, 12);
    int32_t blocks = (world->input[r] + block - 1) / block;
    for (int32_t b = 0; b < blocks; b++)
        world->hashes[used++] =
            (uint64_t)b < shared ? family * 1000 + (uint64_t)b : (uint64_t)r * 100000 + (uint64_t)b;
    return used;
}

static void draw_requests(struct world *world, bool coarse)
{
    int32_t count = (int32_t)draw(1, chance(50) ? 40 : WORLD_REQUESTS_MAX);
    int64_t longest_in = chance(50) ? 60 : 700, longest_out = chance(50) ? 30 : 300;
    int64_t gap = draw(0, 1) ? draw(1, 60) * 1000 : draw(1, 2000) * 1000;
    bool equal = chance(25); /* everyone asks for the same: finishes tie */
    world->spec.core.block_tokens = chance(50) ? 64 : (int32_t)draw(47, 100);
    if (world->is_long) {
        count = (int32_t)draw(1, 30);
        longest_in = 300000;
        longest_out = chance(50) ? 300 : 6000; /* past what admission allows for, 4096 */
        gap *= 100;
        world->spec.core.block_tokens = (int32_t)draw(20000, 40000);
    }
    int64_t in = draw(1, longest_in), out = draw(1, longest_out);
    kvt_ticks now = 0;
    int64_t used = 0;
    for (int32_t r = 0; r < count; r++) {
        world->input[r] = (int32_t)(equal ? in : draw(1, longest_in));
        world->output[r] = (int32_t)(equal ? out : draw(1, longest_out));
        world->arrival[r] = now;
        world->tenant[r] = (uint16_t)draw(0, world->spec.core.tenants - 1);
        if (!chance(30))
            now += coarse ? draw(0, gap / 1000) * 1000 : draw(0, gap);
        world->hash_begin[r] = used;
        used = draw_hashes(world, r, used);
    }
    world->hash_begin[count] = used;
    world->spec.core.request_count = count;
}

/* How the requests come and what is asked of them. */
static void draw_load(struct world *world, bool disaggregated)
{
    struct kvt_des_spec *spec = &world->spec;
    int32_t count = spec->core.request_count;
    int64_t mode = draw(0, 9);
    spec->core.decode_only = disaggregated && mode == 0;
    spec->core.prefill_only = mode == 1;
    if (spec->core.prefill_only)
        for (int32_t r = 0; r < count; r++)
            world->output[r] = 1;
    spec->concurrency = chance(35) ? draw(1, 40) : 0;
    spec->think = world->is_clockwork || chance(65) ? 0 : draw(0, 100) * 1000;
    spec->latency = world->is_clockwork || chance(70) ? 0 : draw(0, 20) * 1000;
    spec->until = chance(80) ? KVT_NEVER : world->arrival[count - 1 - count / 4];
    spec->warmup = chance(50) ? 0 : world->arrival[count / 3];
    spec->arrival = world->arrival;
    spec->series_points = 16;
    world->cancels = chance(50) ? (int32_t)draw(1, 20) : 0;
    if (!chance(30))
        return;
    int64_t timeout = chance(50) ? draw(0, 400) * 1000 : KVT_NEVER;
    for (int32_t r = 0; r < count; r++)
        world->patience[r] = chance(15) ? draw(0, 200) * 1000 : timeout;
    spec->patience = world->patience;
}

void world_draw(struct world *world, uint64_t seed)
{
    kvt_stream_init(&dice, seed, KVT_PURPOSE_TEST, 1);
    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->is_long = chance(6);
    world->is_clockwork = chance(20);
    bool coarse = world->is_clockwork || chance(30), disaggregated = chance(50);
    int32_t page_tokens = (int32_t[]){1, 2, 7, 16, 64, 256, 1024}[draw(0, chance(70) ? 4 : 6)];
    if (world->is_long)
        page_tokens = (int32_t[]){64, 256, 1024}[draw(0, 2)];
    if (disaggregated) {
        draw_role(world, KVT_ROLE_PREFILL, page_tokens, coarse);
        draw_role(world, KVT_ROLE_DECODE, page_tokens, coarse);
    } else {
        draw_role(world, KVT_ROLE_SERVE, page_tokens, coarse);
    }
    struct kvt_des_spec *spec = &world->spec;
    spec->core.tenants = (int32_t)(chance(60) ? 1 : draw(2, WORLD_TENANTS_MAX));
    draw_requests(world, coarse);
    spec->core.input = world->input;
    spec->core.output = world->output;
    spec->core.tenant = world->tenant;
    if (chance(70)) {
        spec->core.hash_begin = world->hash_begin;
        spec->core.hashes = world->hashes;
    }
    spec->link = (struct kvt_link_spec){
        .bytes_per_s = (double)draw(1, 100) * 1e8,
        .per = (enum kvt_link_scope)draw(0, KVT_LINK_SCOPE_COUNT - 1),
        .prefill_gpus = 8,
        .decode_gpus = (int32_t)draw(1, 8),
        .latency = draw(0, 10) * 1000,
        .stream = (enum kvt_stream_mode)draw(0, KVT_STREAM_COUNT - 1),
        .layers = (int32_t)draw(1, 8),
        .bytes_per_token = draw(1, 1000),
    };
    draw_load(world, disaggregated);
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        world->roles[role].zeroes = chance(20);
    spec->late_ack = disaggregated && chance(30);
}

/* ---- faults ------------------------------------------------------------------------------- */

static double draw_amount(int32_t variant)
{
    switch (variant) {
    case KVT_STRIKE_NODE_SLOW:
        return (double)draw(1, 6);
    case KVT_STRIKE_STALE_PAGE:
    case KVT_STRIKE_LEAK_PAGE:
    case KVT_STRIKE_FLIP_KV:
    case KVT_STRIKE_FLIP_TAG:
        return (double)draw(1, 4);
    default:
        return (double)draw(0, 10) / 10;
    }
}

static void draw_guards(struct kvt_guards *guards)
{
    *guards = (struct kvt_guards){
        .check = (enum kvt_guard_check)draw(0, KVT_CHECK_COUNT - 1),
        .on_hit = (enum kvt_on_hit)draw(0, KVT_ON_HIT_COUNT - 1),
        .sample = (double)draw(1, 10) / 10,
        .lease = draw(0, 200) * 1000,
        .tag = {.bits = chance(50) ? 4 : (int32_t)draw(4, 64),
                .bind = (uint32_t)draw(1, (1 << KVT_BIND_COUNT) - 1),
                .random = chance(50),
                .seed = (uint64_t)draw(0, 9)},
    };
    for (int kind = KVT_GUARD_NONE + 1; kind < KVT_GUARD_COUNT; kind++)
        if (chance(25))
            guards->on |= UINT32_C(1) << kind;
}

void world_draw_faults(struct world *world)
{
    kvt_stream_init(&dice, world->seed, KVT_PURPOSE_TEST, 2);
    int32_t count = world->spec.core.request_count;
    kvt_ticks until = world->arrival[count - 1] + draw(1, 2000) * 1000, now = 0;
    world->strike_count = (int32_t)draw(1, WORLD_STRIKES_MAX);
    for (int32_t i = 0; i < world->strike_count; i++) {
        now += chance(20) ? 0 : draw(0, until / world->strike_count);
        int32_t variant = (int32_t)draw(0, KVT_STRIKE_COUNT - 1);
        world->strikes[i] = (struct kvt_strike){
            .time = now,
            .row = i,
            .variant = variant,
            .replica = KVT_NONE,
            .request = chance(70) ? KVT_NONE : (int32_t)draw(0, count - 1),
            .page = KVT_NONE,
            .amount = draw_amount(variant),
            .delay = draw(0, 400) * 1000,
        };
    }
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        draw_guards(&world->guards[role]);
}

int32_t world_pages(const struct world *world)
{
    int32_t most = 0;
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (world->roles[role].pages > most)
            most = world->roles[role].pages;
    return most;
}

static void count_decision(void *context, const struct kvt_decision *decision)
{
    int64_t *count = context;
    *count += decision->kind < KVT_DECISION_KINDS;
}

static uint64_t digest_of(uint64_t digest, const void *bytes, size_t count)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        digest = kvt_digest_add(digest, word);
    }
    return digest;
}

static void count_gaps(const struct kvt_des *des, struct world_outcome *outcome)
{
    const struct kvt_observer *seen = &des->observer;
    kvt_i128 ticks = 0;
    for (int32_t r = 0; r < des->core.request_count; r++) {
        if (des->core.requests[r].state != KVT_REQUEST_COMPLETED || seen->arrival[r] < seen->warmup)
            continue;
        outcome->gaps_missing += des->core.requests[r].output - 1;
        ticks += seen->finish[r] - seen->first_token[r];
    }
    outcome->gaps_missing -= (int64_t)seen->itl.count;
    outcome->gap_ticks_missing = (int64_t)(ticks - seen->itl.sum);
}

static uint64_t fault_digest(uint64_t digest, const struct kvt_fault_result *result)
{
    const int64_t parts[] = {result->outcome,      result->activated, result->exposed,
                             result->detected,     result->hit,       result->lost,
                             result->false_aborts, result->leaked,    result->exposed_at,
                             result->detected_at};
    return digest_of(digest, parts, sizeof parts);
}

static void outcome_of(struct kvt_des *des, struct world_outcome *outcome)
{
    const struct kvt_observer *seen = &des->observer;
    size_t rows = (size_t)des->core.request_count * sizeof(kvt_ticks);
    outcome->digest = des->core.log.digest;
    outcome->times = digest_of(1, seen->first_token, rows);
    outcome->times = digest_of(outcome->times, seen->finish, rows);
    outcome->gaps = digest_of(1, seen->itl.bins, KVT_BINS * sizeof(uint64_t));
    outcome->gaps = kvt_digest_add(outcome->gaps, (uint64_t)seen->itl.sum);
    outcome->gauges = 1;
    for (int32_t i = 0; i < des->core.replica_count; i++) {
        for (int32_t point = 0; point < seen->series[i].used; point++)
            for (int gauge = 0; gauge < KVT_GAUGE_COUNT; gauge++) {
                double mean = kvt_series_mean(&seen->series[i], point, (enum kvt_gauge)gauge);
                outcome->gauges = digest_of(outcome->gauges, &mean, sizeof mean);
            }
        outcome->cached += des->core.replicas[i].cached_tokens;
    }
    count_gaps(des, outcome);
    outcome->events = des->events;
    outcome->steps = seen->steps;
    for (int32_t tenant = 0; tenant < des->core.tenants; tenant++) {
        const struct kvt_counts *counts = &des->core.counts[tenant];
        outcome->arrived += counts->arrived;
        outcome->completed += counts->completed;
        outcome->rejected += counts->rejected;
        outcome->aborted += counts->aborted;
    }
    outcome->left = des->core.live;
    outcome->preemptions = des->core.preemptions;
    if (des->faults != NULL)
        for (int32_t i = 0; i < des->faults->count; i++)
            outcome->faults = fault_digest(outcome->faults, &des->faults->results[i]);
    outcome->end = des->now;
}

/* Cancels hang on simulated time alone, so that both ways of running see them at the same place:
 * request 7 i goes away when the clock first passes its arrival and a bit. */
static void run_with_cancels(struct kvt_des *des, const struct world *world)
{
    bool more = true;
    for (int32_t i = 0; i < world->cancels && more; i++) {
        int32_t r = i * 7;
        if (r >= des->core.request_count)
            break;
        kvt_ticks at = world->arrival[r] + i * i * 2000 + (i % 4 == 0); /* mostly where steps end */
        while (more && kvt_timeline_time(&des->timeline, kvt_timeline_next(&des->timeline)) < at)
            more = kvt_des_step(des, 1);
        if (!more || des->now > at)
            continue;
        kvt_des_cancel(des, r, at);
    }
    while (kvt_des_step(des, 1000))
        ;
}

void world_spec(const struct world *world, bool named, struct kvt_replica_spec roles[],
                kvt_ticks arrival[], struct kvt_des_spec *spec)
{
    memcpy(arrival, world->arrival, sizeof world->arrival);
    *spec = world->spec;
    spec->arrival = arrival;
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        roles[role] = world->roles[role];
        roles[role].named = named || world->strike_count > 0;
        if (spec->core.roles[role] != NULL)
            spec->core.roles[role] = &roles[role];
    }
}

static enum kvt_status add_faults(const struct world *world, struct kvt_des *des,
                                  struct kvt_arena *arena, struct kvt_err *err)
{
    static struct kvt_faults faults;
    struct kvt_faults_spec spec = {
        .strikes = world->strikes, .count = world->strike_count, .seed = world->seed};
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        spec.guards[role] = &world->guards[role];
    KVT_TRY(kvt_faults_init(&faults, arena, &des->core, &spec, err));
    kvt_des_set_faults(des, &faults);
    return KVT_OK;
}

static void run(struct world *world, struct kvt_des_spec *spec,
                void (*sink)(void *context, const struct kvt_decision *decision), void *context,
                struct world_outcome *outcome)
{
    static struct kvt_des des;
    struct kvt_arena arena;
    size_t bytes = kvt_des_bytes(spec);
    if (world->strike_count > 0)
        bytes +=
            kvt_faults_bytes(world->strike_count, spec->core.request_count, KVT_ROLE_COUNT * 64);
    *outcome = (struct world_outcome){0};
    outcome->status = kvt_arena_init(&arena, bytes, &outcome->err);
    if (outcome->status != KVT_OK)
        return;
    outcome->status = kvt_des_init(&des, &arena, spec, &outcome->err);
    des.core.log.sink = sink;
    des.core.log.context = context;
    if (outcome->status == KVT_OK && world->strike_count > 0)
        outcome->status = add_faults(world, &des, &arena, &outcome->err);
    if (outcome->status == KVT_OK) {
        run_with_cancels(&des, world);
        outcome->status = kvt_des_finish(&des, false, &outcome->err);
        outcome_of(&des, outcome);
    }
    des.core.log.context = NULL; /* the caller's, who goes away */
    kvt_arena_release(&arena);
}

void world_run(struct world *world, bool exact, bool logged, struct world_outcome *outcome)
{
    static kvt_ticks arrival[WORLD_REQUESTS_MAX];
    struct kvt_replica_spec roles[KVT_ROLE_COUNT];
    struct kvt_des_spec spec;
    int64_t decisions = 0;
    world_spec(world, logged, roles, arrival, &spec);
    spec.exact = exact;
    run(world, &spec, logged ? count_decision : NULL, &decisions, outcome);
}

void world_run_tapped(struct world *world, const struct kvt_des_tap *tap,
                      void (*sink)(void *context, const struct kvt_decision *decision),
                      struct world_outcome *outcome)
{
    static kvt_ticks arrival[WORLD_REQUESTS_MAX];
    struct kvt_replica_spec roles[KVT_ROLE_COUNT];
    struct kvt_des_spec spec;
    world_spec(world, true, roles, arrival, &spec);
    spec.tap = tap;
    run(world, &spec, sink, tap->context, outcome);
}

const char *world_difference(const struct world_outcome *a, const struct world_outcome *b)
{
    return a->status != b->status             ? "status"
           : a->digest != b->digest           ? "digest"
           : a->times != b->times             ? "token times"
           : a->gaps != b->gaps               ? "gaps between tokens"
           : a->gauges != b->gauges           ? "gauges"
           : a->steps != b->steps             ? "steps"
           : a->preemptions != b->preemptions ? "preemptions"
           : a->faults != b->faults           ? "what came of a strike"
           : a->end != b->end                 ? "end"
                                              : NULL;
}
