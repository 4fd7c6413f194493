/* Engines on real memory: what they hold, what they generate, and that tokens do not depend on who
 * else is there. With the plain kernels, whose rows do not know of each other: equal means equal.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive.h"
#include "runtime/planned.h"
#include "tests/check.h"
#include "tests/devices.h"
#include "tests/runtime/fleets.h"

static const char disaggregated[] = FLEETS_DISAGGREGATED("13", "8", "60", "40");
static const char colocated[] = FLEETS_COLOCATED("12", "8", "50", "40");

struct stale {                   /* a reader whose table is stale */
    int32_t request, slot, page; /* slot of its list shows page (of the core) */
    int32_t from;                /* from this position on */
};

struct how { /* a world is made; zeroed: the plain kernels, nothing wrong */
    enum kvt_backend backend;
    const struct stale *stale;
    bool apart;              /* the host does not see the memory of the devices */
    bool poisoned_pages;     /* pages hold NaN before they are written */
    bool poisoned_weights;   /* a norm of the last replica's first layer is NaN */
    enum kvt_status ends_as; /* after so many steps */
    int32_t ends_after;
};

struct world {
    struct kvt_config config;
    struct kvt_runtime runtime;
    struct kvt_drive drive;
    struct kvt_order order;
    int threads, steps; /* steps: that the clock was asked for */
    const struct how *how;
    struct kvt_stop stop;
};

/* The clock of these runs: what crowds a pool must not depend on the machine. */
static double fixed_time(void *context, int32_t replica, const struct kvt_step *step)
{
    struct world *world = context;
    (void)replica;
    if (++world->steps == world->how->ends_after && world->how->ends_as == KVT_EINTR)
        kvt_stop_ask(&world->stop);
    return step->chunk_count > 0 ? 0.001 : 0.004;
}

static void device_fails(void *context, int32_t replica)
{
    struct world *world = context;
    (void)replica;
    if (world->steps + 1 == world->how->ends_after && world->how->ends_as == KVT_EDEVICE)
        kvt_err_set(&world->runtime.failure, KVT_EDEVICE, "the device is gone");
}

static void show_stale(void *context, int32_t replica, const struct kvt_planned *plan,
                       struct kvt_rows *rows)
{
    const struct world *world = context;
    const struct stale *stale = world->how->stale;
    (void)replica;
    for (int32_t e = 0; stale != NULL && e < plan->entry_count; e++) {
        const struct kvt_entry *entry = &plan->entries[e];
        if (entry->request == stale->request && entry->position >= stale->from)
            rows->page_table[entry->begin + stale->slot] = kvt_pool_page(stale->page);
    }
}

/* Bytes of 0xff are NaN in BF16, in the FP8 of the pages, and as a scale. */
static void poison_pages(const struct kvt_runtime *runtime)
{
    for (int32_t i = 0; i < runtime->replica_count; i++) {
        const struct kvt_kv_pool *pool = &runtime->replicas[i].pool;
        for (int32_t l = 0; l < pool->layers; l++)
            memset(pool->layer[l], 0xff,
                   (size_t)(pool->pages + 1) * (size_t)pool->layout.page_bytes);
    }
}

static bool run_as(struct world *world, const char *text, const char *const sets[],
                   int32_t set_count, const struct how *how)
{
    struct kvt_err err = {0};
    *world = (struct world){.how = how};
    world->threads = omp_get_max_threads();
    omp_set_num_threads(1); /* kernels this small only wait for each other */
    struct kvt_runtime_want want = {.backend = how->backend, .tag_check = true, .repeats = 1};
    CHECK_OK(
        kvt_config_parse(&world->config, "c.yaml", text, strlen(text), "", sets, set_count, &err),
        err);
    if (err.status != KVT_OK)
        return false;
    devices_are(how->apart, NULL);
    CHECK_OK(kvt_runtime_init(&world->runtime, &world->config, &want, &err), err);
    devices_are(false, NULL);
    if (err.status != KVT_OK)
        return false;
    const struct kvt_real_replica *last =
        &world->runtime.replicas[world->runtime.replica_count - 1];
    if (how->poisoned_weights)
        last->weights.layers[0].attention_norm[0] = 0x7fc0;
    world->drive.runtime = &world->runtime;
    world->drive.order = &world->order;
    world->drive.time = fixed_time;
    world->drive.time_context = world;
    world->drive.stop = &world->stop;
    world->runtime.hooks =
        (struct kvt_runtime_hooks){.context = world, .adjust = show_stale, .ran = device_fails};
    CHECK_OK(kvt_drive_begin(&world->drive, &world->config, &err), err);
    if (err.status == KVT_OK && how->poisoned_pages)
        poison_pages(&world->runtime);
    if (err.status == KVT_OK)
        CHECK_I64(kvt_drive_run(&world->drive, &err), how->ends_as, err.text);
    world->runtime.hooks = (struct kvt_runtime_hooks){.context = NULL}; /* how goes away */
    return err.status == how->ends_as;
}

/* Sets replace values of the text; the runtime stays open for the test to look at. */
static bool run_world(struct world *world, const char *text, const char *const sets[],
                      int32_t set_count, const struct stale *stale)
{
    const struct how how = {.backend = KVT_BACKEND_REFERENCE, .stale = stale};
    return run_as(world, text, sets, set_count, &how);
}

static void end_world(struct world *world)
{
    kvt_drive_release(&world->drive);
    kvt_runtime_release(&world->runtime);
    kvt_order_release(&world->order);
    kvt_config_release(&world->config);
    omp_set_num_threads(world->threads);
}

/* Requests whose tokens differ between two runs of one trace. */
static int32_t different(const struct world *a, const struct world *b)
{
    const struct kvt_trace *trace = &a->drive.simulation.trace;
    int32_t count = 0;
    for (int32_t r = 0; r < trace->count; r++) {
        size_t tokens = (size_t)trace->input[r] + (size_t)trace->output[r];
        count += memcmp(kvt_runtime_text(&a->runtime, r), kvt_runtime_text(&b->runtime, r),
                        tokens * sizeof(int32_t)) != 0;
    }
    return count;
}

/* Distinct output tokens of a run: a model that says one thing only proves nothing. */
static int32_t vocabulary(const struct world *world)
{
    const struct kvt_trace *trace = &world->drive.simulation.trace;
    static bool seen[1 << 16];
    int32_t count = 0;
    memset(seen, 0, sizeof seen);
    for (int32_t r = 0; r < trace->count; r++) {
        const int32_t *text = kvt_runtime_text(&world->runtime, r) + trace->input[r];
        for (int32_t i = 0; i < trace->output[r]; i++) {
            count += !seen[text[i] & 0xffff];
            seen[text[i] & 0xffff] = true;
        }
    }
    return count;
}

static int64_t preemptions(const struct world *world)
{
    return world->drive.simulation.des.core.preemptions;
}

static void a_device_never_passes_its_limit(void)
{
    struct kvt_device device;
    struct kvt_err err = {0};
    CHECK_OK(kvt_device_open(&device, KVT_BACKEND_CPU, 10000, &err), err);
    void *a, *b, *c;
    CHECK_OK(kvt_device_take(&device, 6000, "a", &a, &err), err);
    CHECK_I64(device.used, 6016, "rounded up to 64");
    CHECK_FAILS(kvt_device_take(&device, 4000, "b", &b, &err), err, KVT_ENOMEM);
    CHECK(b == NULL);
    CHECK_HOLDS(err.text, "b: want 4032 bytes of device memory, 6016 of 10000", "what and where");
    err = (struct kvt_err){0};
    CHECK_OK(kvt_device_take(&device, 3968, "c", &c, &err), err);
    CHECK_I64(device.used, 9984, "nearly full");
    kvt_device_give(&device, a, 6000);
    kvt_device_give(&device, c, 3968);
    CHECK_I64(device.used, 0, "all given back");
    CHECK_I64(device.peak, 9984, "the peak is kept");
    kvt_device_close(&device);
}

static void without_cuda_the_device_says_so(void)
{
    struct kvt_device device;
    struct kvt_err err = {0};
    if (kvt_device_open(&device, KVT_BACKEND_CUDA, 1 << 20, &err) == KVT_OK) {
        kvt_device_close(&device); /* there is a GPU */
        return;
    }
    CHECK(err.status == KVT_EDEVICE);
    CHECK(strstr(err.text, "built without CUDA") != NULL || strstr(err.text, "cuda: ") == err.text);
}

/* Budget by the fraction: pages are counted until the device refuses. */
static void check_capacity(const char *text, const char *what)
{
    static const char *const sets[] = {"fleet.prefill.memory.pages=null",
                                       "fleet.decode.memory.pages=null"};
    struct kvt_config config;
    struct kvt_runtime runtime;
    struct kvt_err err = {0};
    struct kvt_runtime_want want = {.backend = KVT_BACKEND_REFERENCE, .repeats = 1};
    CHECK_OK(kvt_config_parse(&config, "c.yaml", text, strlen(text), "", sets, 2, &err), err);
    CHECK_OK(kvt_runtime_init(&runtime, &config, &want, &err), err);
    for (int32_t i = 0; i < runtime.replica_count && err.status == KVT_OK; i++) {
        const struct kvt_real_replica *replica = &runtime.replicas[i];
        CHECK_I64(replica->measured_pages, replica->predicted_pages, what);
        CHECK_CLOSE((double)replica->weights.bytes, (double)replica->predicted_weights, 0.001,
                    "weights");
    }
    kvt_runtime_release(&runtime);
    kvt_config_release(&config);
}

static void pages_until_refusal_are_those_of_the_ledger(void)
{
    check_capacity(disaggregated, "tiny-gqa");
}

static void tokens_do_not_depend_on_who_else_is_served(void)
{
    static struct world crowded, alone;
    static const char *const apart[] = {"workload.open.rate=0.001 req/s",
                                        "fleet.prefill.memory.pages=200",
                                        "fleet.decode.memory.pages=200"};
    bool ran = run_world(&crowded, disaggregated, NULL, 0, NULL);
    ran = run_world(&alone, disaggregated, apart, 3, NULL) && ran;
    if (ran) {
        CHECK_NOTE(preemptions(&crowded) > 0, "the pool is tight enough for retractions");
        CHECK_I64(preemptions(&alone), 0, "nobody is in the way");
        CHECK_I64(different(&crowded, &alone), 0, "requests with other tokens");
        CHECK_NOTE(vocabulary(&alone) > 100, "the model has something to say");
        CHECK_I64(crowded.runtime.counts.failures, 0, "tags");
        CHECK_NOTE(crowded.runtime.counts.checks > 400, "pages were checked");
        CHECK_NOTE(crowded.runtime.counts.restored_bytes > 0, "KV came back from host memory");
        CHECK_I64(crowded.runtime.replicas[1].forward.poisoned, 0, "everything is finite");
    }
    end_world(&alone);
    end_world(&crowded);
}

static void tokens_survive_preemption_and_mixed_batches(void)
{
    static struct world crowded, alone;
    static const char *const apart[] = {"workload.open.rate=0.001 req/s",
                                        "fleet.serve.memory.pages=200"};
    bool ran = run_world(&crowded, colocated, NULL, 0, NULL);
    ran = run_world(&alone, colocated, apart, 2, NULL) && ran;
    if (ran) {
        CHECK_NOTE(preemptions(&crowded) > 0, "requests are computed again");
        CHECK_I64(different(&crowded, &alone), 0, "requests with other tokens");
        CHECK_NOTE(vocabulary(&alone) > 60, "the model has something to say");
        CHECK_I64(crowded.runtime.counts.failures, 0, "tags");
    }
    end_world(&alone);
    end_world(&crowded);
}

/* A q of low rank that is wider than anything else of a row. */
static void tokens_survive_a_wide_q(void)
{
    static struct world crowded, alone;
    static const char *const sets[] = {"model={file: tests/runtime/tiny-mla-wide.yaml}",
                                       "fleet.serve.memory.pages=200",
                                       "workload.open.rate=0.001 req/s"};
    bool ran = run_world(&crowded, colocated, sets, 2, NULL);
    ran = run_world(&alone, colocated, sets, 3, NULL) && ran;
    if (ran)
        CHECK_I64(different(&crowded, &alone), 0, "requests with other tokens");
    end_world(&alone);
    end_world(&crowded);
}

static void overlap_gives_the_same_tokens(void)
{
    static struct world ahead, plain;
    static const char *const sets[] = {"fleet.prefill.scheduler.overlap=false",
                                       "fleet.decode.scheduler.overlap=false"};
    bool ran = run_world(&ahead, disaggregated, NULL, 0, NULL);
    ran = run_world(&plain, disaggregated, sets, 2, NULL) && ran;
    if (ran)
        CHECK_I64(different(&ahead, &plain), 0, "requests with other tokens");
    end_world(&plain);
    end_world(&ahead);
}

static void a_stale_page_changes_tokens_and_is_caught(void)
{
    static struct world good, bad;
    static const char *const sets[] = {"workload.open.rate=0.001 req/s",
                                       "fleet.decode.memory.pages=200"};
    /* The second page of request 2 is page 7 of the pool to its readers, from position 40 on. */
    const struct stale stale = {.request = 2, .slot = 0, .page = 150, .from = 40};
    bool ran = run_world(&good, disaggregated, sets, 2, NULL);
    ran = run_world(&bad, disaggregated, sets, 2, &stale) && ran;
    if (ran) {
        CHECK_I64(different(&good, &bad), 1, "its tokens change, nobody else's do");
        CHECK_I64(good.runtime.counts.failures, 0, "before");
        CHECK_NOTE(bad.runtime.counts.failures > 0, "the check sees it");
        for (int32_t r = 0; r < bad.drive.simulation.trace.count; r++)
            CHECK_I64(bad.runtime.failed[r], r == 2, "whom it blames");
    }
    end_world(&bad);
    end_world(&good);
}

static void check_guard(const char *rate)
{
    static struct world good, bad;
    const char *const sets[] = {rate, "fleet.decode.memory.pages=200",
                                "fleet.decode.guard.tag-side.check=before-read"};
    const struct stale stale = {
        .request = 2, .slot = 0, .page = 150, .from = 61}; /* not in prefill */
    struct kvt_replay replay;
    struct kvt_err err = {0};
    bool ran = run_world(&good, disaggregated, sets, 3, NULL);
    ran = run_world(&bad, disaggregated, sets, 3, &stale) && ran;
    const struct kvt_simulation *simulation = &bad.drive.simulation;
    if (ran) {
        const struct kvt_core *core = &simulation->des.core;
        CHECK_I64(good.drive.simulation.des.core.counts[0].aborted, 0,
                  "a guard that finds nothing");
        CHECK_I64(core->counts[0].aborted, 1, "aborted");
        CHECK_I64(core->requests[2].state, KVT_REQUEST_ABORTED, "whom");
        CHECK_I64(bad.runtime.counts.failures, 2, "that step and the one planned behind it");
        int64_t misses = 0;
        for (int64_t i = 0; i < bad.order.decision_count; i++) {
            const struct kvt_decision *decision = &bad.order.decisions[i];
            if (decision->kind != KVT_DECIDE_CHECK_MISS)
                continue;
            misses++;
            CHECK_I64(decision->request, 2, "of whom a page is bad");
            CHECK_I64(decision->count, stale.page, "which page");
            CHECK_I64(decision[1].kind, KVT_DECIDE_ABORT, "what follows");
        }
        CHECK_I64(misses, 1, "found");
        /* The core alone decides the same. */
        CHECK_OK(kvt_replay_run(&replay, &bad.order, &simulation->des.spec, &simulation->trace,
                                NULL, 3, NULL, &err),
                 err);
        CHECK_I64(replay.divergence, -1, "in virtual time");
        CHECK(replay.digest == core->log.digest);
    }
    end_world(&bad);
    end_world(&good);
}

/* Alone, and in the midst of a batch. */
static void a_guard_aborts_whom_it_finds_a_bad_page_of(void)
{
    check_guard("workload.open.rate=0.001 req/s");
    check_guard("workload.open.rate=2000 req/s");
}

/* Fast kernels: the same bits from run to run, and in a replay. */
static void fast_kernels_repeat_themselves(void)
{
    static const char *const texts[] = {disaggregated, colocated};
    static struct world first, second;
    const struct how how = {.backend = KVT_BACKEND_CPU};
    for (size_t i = 0; i < 2; i++) {
        struct kvt_replay replay;
        struct kvt_err err = {0};
        bool ran = run_as(&first, texts[i], NULL, 0, &how);
        ran = run_as(&second, texts[i], NULL, 0, &how) && ran;
        if (ran) {
            struct kvt_simulation *simulation = &first.drive.simulation;
            CHECK_I64(different(&first, &second), 0, "requests with other tokens");
            CHECK_I64(first.runtime.counts.failures, 0, "tags");
            CHECK_NOTE(preemptions(&first) > 0, "with retractions");
            CHECK_OK(kvt_replay_run(&replay, &first.order, &simulation->des.spec,
                                    &simulation->trace, &first.runtime,
                                    simulation->config->run.seed, NULL, &err),
                     err);
            CHECK_I64(replay.divergence, -1, "on real memory");
            CHECK_I64(different(&first, &second), 0, "requests with other tokens in a replay");
        }
        end_world(&second);
        end_world(&first);
    }
}

/* Output tokens that two runs share before they first differ, of those of all requests. */
static double shared(const struct world *a, const struct world *b)
{
    const struct kvt_trace *trace = &a->drive.simulation.trace;
    int64_t same = 0, all = 0;
    for (int32_t r = 0; r < trace->count; r++) {
        const int32_t *x = kvt_runtime_text(&a->runtime, r) + trace->input[r];
        const int32_t *y = kvt_runtime_text(&b->runtime, r) + trace->input[r];
        int32_t n = 0;
        while (n < trace->output[r] && x[n] == y[n])
            n++;
        same += n;
        all += trace->output[r];
    }
    return (double)same / (double)all;
}

/* The fast kernels round elsewhere than their definitions; greedy tokens of a model without
 * training are near ties now and then, and after one the texts part. */
static void fast_kernels_say_what_the_plain_ones_say(void)
{
    static const char *const texts[] = {disaggregated, colocated};
    static struct world fast, plain;
    const struct how how = {.backend = KVT_BACKEND_CPU};
    for (size_t i = 0; i < 2; i++) {
        bool ran = run_as(&fast, texts[i], NULL, 0, &how);
        ran = run_world(&plain, texts[i], NULL, 0, NULL) && ran;
        if (ran)
            CHECK_NOTE(shared(&fast, &plain) > 0.4, "of the tokens before the first other one");
        end_world(&plain);
        end_world(&fast);
    }
}

static void what_pages_held_before_never_shows(void)
{
    static const char *const texts[] = {disaggregated, colocated};
    static const enum kvt_backend backends[] = {KVT_BACKEND_REFERENCE, KVT_BACKEND_CPU};
    static struct world clean, poisoned;
    for (size_t i = 0; i < 4; i++) {
        const struct how how = {.backend = backends[i / 2]};
        const struct how bad = {.backend = backends[i / 2], .poisoned_pages = true};
        bool ran = run_as(&clean, texts[i % 2], NULL, 0, &how);
        ran = run_as(&poisoned, texts[i % 2], NULL, 0, &bad) && ran;
        if (ran) {
            CHECK_I64(different(&clean, &poisoned), 0, "requests with other tokens");
            for (int32_t k = 0; k < poisoned.runtime.replica_count; k++)
                CHECK_I64(poisoned.runtime.replicas[k].forward.poisoned, 0, "not finite");
        }
        end_world(&poisoned);
        end_world(&clean);
    }
}

static void tokens_do_not_depend_on_whose_memory_it_is(void)
{
    static const char *const texts[] = {disaggregated, colocated};
    static struct world seen, unseen;
    for (size_t i = 0; i < 2; i++) {
        const struct how how = {.backend = KVT_BACKEND_CPU};
        const struct how apart = {.backend = KVT_BACKEND_CPU, .apart = true};
        bool ran = run_as(&seen, texts[i], NULL, 0, &how);
        ran = run_as(&unseen, texts[i], NULL, 0, &apart) && ran;
        if (ran) {
            const struct kvt_device *device = &unseen.runtime.replicas[0].device;
            CHECK(!device->ops->host_memory);
            CHECK_NOTE(device->peak > seen.runtime.replicas[0].device.peak, "room for the copies");
            CHECK_I64(different(&seen, &unseen), 0, "requests with other tokens");
            CHECK_NOTE(preemptions(&unseen) > 0, "with retractions");
            CHECK_I64(unseen.runtime.counts.failures, 0, "tags");
        }
        end_world(&unseen);
        end_world(&seen);
    }
}

static void weights_that_are_not_finite_are_told(void)
{
    static struct world world;
    const struct how how = {.backend = KVT_BACKEND_CPU, .poisoned_weights = true};
    if (run_as(&world, disaggregated, NULL, 0, &how)) {
        CHECK_I64(world.runtime.replicas[0].forward.poisoned, 0, "prefill has its own weights");
        CHECK_NOTE(world.runtime.replicas[1].forward.poisoned > 0, "decode");
        CHECK_I64(world.runtime.counts.failures, 0, "tags are fine");
    }
    end_world(&world);
}

static void a_replay_makes_the_recorded_decisions(void)
{
    static struct world world;
    struct kvt_replay replay;
    struct kvt_err err = {0};
    if (!run_world(&world, disaggregated, NULL, 0, NULL)) {
        end_world(&world);
        return;
    }
    struct kvt_simulation *simulation = &world.drive.simulation;
    const struct kvt_trace *trace = &simulation->trace;
    size_t tokens = (size_t)world.runtime.text_begin[trace->count];
    int32_t *text = malloc(tokens * sizeof *text);
    memcpy(text, world.runtime.text, tokens * sizeof *text);
    CHECK_OK(
        kvt_replay_run(&replay, &world.order, &simulation->des.spec, trace, NULL, 3, NULL, &err),
        err);
    CHECK_I64(replay.divergence, -1, "in virtual time");
    CHECK_I64(replay.decisions, world.order.decision_count, "all of them");
    CHECK(replay.digest == simulation->des.core.log.digest);
    CHECK_OK(kvt_replay_run(&replay, &world.order, &simulation->des.spec, trace, &world.runtime, 3,
                            NULL, &err),
             err);
    CHECK_I64(replay.divergence, -1, "on real memory");
    CHECK(memcmp(text, world.runtime.text, tokens * sizeof *text) == 0);
    free(text);
    /* One page of one decision is another: the replay says which. */
    int64_t at = world.order.decision_count / 2;
    while (world.order.decisions[at].kind != KVT_DECIDE_ALLOC)
        at++;
    world.order.decisions[at].count++;
    CHECK_OK(
        kvt_replay_run(&replay, &world.order, &simulation->des.spec, trace, NULL, 3, NULL, &err),
        err);
    CHECK_I64(replay.divergence, at, "the tampered decision");
    end_world(&world);
}

/* Weights in FP8 with a scale a row: by both backends, of dense layers and of experts. */
static void weights_in_fp8_run(void)
{
    static struct world fast, plain;
    const struct how how = {.backend = KVT_BACKEND_CPU};
    const char *const sets[] = {"fleet.serve.weights=fp8", "workload.open.requests=2",
                                "workload.open.output=8"};
    bool ran = run_as(&fast, colocated, sets, 3, &how);
    ran = run_world(&plain, colocated, sets, 3, NULL) && ran;
    if (ran)
        CHECK_NOTE(shared(&fast, &plain) > 0.4, "of the tokens before the first other one");
    end_world(&plain);
    end_world(&fast);
}

static void a_run_ends_where_it_fails_or_is_stopped(void)
{
    static struct world world;
    for (int i = 0; i < 2; i++) {
        const struct how how = {.ends_after = 5, .ends_as = i == 0 ? KVT_EDEVICE : KVT_EINTR};
        if (run_as(&world, colocated, NULL, 0, &how))
            CHECK_I64(world.steps, 5 + i, "a stop is seen by the next step");
        end_world(&world);
    }
}

const struct check_test check_runtime[] = {
    {"a run ends where it fails or is stopped", a_run_ends_where_it_fails_or_is_stopped, false},
    {"a device never passes its limit", a_device_never_passes_its_limit, false},
    {"without CUDA the device says so", without_cuda_the_device_says_so, false},
    {"pages until refusal are those of the ledger", pages_until_refusal_are_those_of_the_ledger,
     false},
    {"tokens do not depend on who else is served", tokens_do_not_depend_on_who_else_is_served,
     false},
    {"tokens survive preemption and mixed batches", tokens_survive_preemption_and_mixed_batches,
     false},
    {"tokens survive a wide q", tokens_survive_a_wide_q, false},
    {"overlap gives the same tokens", overlap_gives_the_same_tokens, false},
    {"a stale page changes tokens and is caught", a_stale_page_changes_tokens_and_is_caught, false},
    {"a guard aborts whom it finds a bad page of", a_guard_aborts_whom_it_finds_a_bad_page_of,
     false},
    {"fast kernels repeat themselves", fast_kernels_repeat_themselves, false},
    {"fast kernels say what the plain ones say", fast_kernels_say_what_the_plain_ones_say, false},
    {"what pages held before never shows", what_pages_held_before_never_shows, false},
    {"tokens do not depend on whose memory it is", tokens_do_not_depend_on_whose_memory_it_is,
     false},
    {"weights that are not finite are told", weights_that_are_not_finite_are_told, false},
    {"a replay makes the recorded decisions", a_replay_makes_the_recorded_decisions, false},
    {"weights in FP8 run", weights_in_fp8_run, false},
    {NULL, NULL, false},
};
