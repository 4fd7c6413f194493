/* Engines on real memory: what they hold, what they generate, and that tokens do not depend on who
 * else is there. With the plain kernels, whose rows do not know of each other: equal means equal.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive.h"
#include "tests/check.h"

#define GPU "{file: tests/runtime/small-gpu.yaml}"

static const char disaggregated[] =
    "model: {file: tests/runtime/tiny-gqa.yaml}\n"
    "engine: sglang\n"
    "fleet:\n"
    "  prefill: {gpu: " GPU ", kv: bf16, page_tokens: 16, memory: {fraction: 0.5, pages: 40},\n"
    "            scheduler: {chunk_tokens: 48, max_running: 8}}\n"
    "  decode: {gpu: " GPU ", kv: fp8-scaled, page_tokens: 16,\n"
    "           memory: {fraction: 0.5, pages: 13},\n"
    "           scheduler: {max_running: 8, reserved_decode_tokens: 1}}\n"
    "  link: {bandwidth: 1 GB/s, latency: 10 us, stream: by-chunk}\n"
    "workload: {open: {rate: 2000 req/s, requests: 8, input: {uniform: {min: 17, max: 60}},\n"
    "           output: {uniform: {min: 8, max: 40}}}}\n"
    "run: {seed: 3}\n";

static const char colocated[] =
    "model: {file: tests/runtime/tiny-mla.yaml}\n"
    "engine: vllm\n"
    "fleet:\n"
    "  serve: {gpu: " GPU ", weights: int4-g32, kv: fp8, page_tokens: 16,\n"
    "          memory: {fraction: 0.9, pages: 12},\n"
    "          scheduler: {chunk_tokens: 48, max_running: 8, max_model_len: 512}}\n"
    "workload: {open: {rate: 2000 req/s, requests: 8, input: {uniform: {min: 17, max: 50}},\n"
    "           output: {uniform: {min: 8, max: 40}}}}\n"
    "run: {seed: 5}\n";

struct world {
    struct kvt_config config;
    struct kvt_runtime runtime;
    struct kvt_drive drive;
    struct kvt_order order;
    int threads;
};

/* The clock of these runs: what crowds a pool must not depend on the machine. */
static double fixed_time(void *context, int32_t replica, const struct kvt_step *step)
{
    (void)context;
    (void)replica;
    return step->chunk_count > 0 ? 0.001 : 0.004;
}

/* Sets replace values of the text; the runtime stays open for the test to look at. */
static bool run_world(struct world *world, const char *text, const char *const sets[],
                      int32_t set_count, const struct kvt_stale *stale, bool tag_check)
{
    struct kvt_err err = {0};
    *world = (struct world){0};
    world->threads = omp_get_max_threads();
    omp_set_num_threads(1); /* kernels this small only wait for each other */
    struct kvt_runtime_want want = {
        .backend = KVT_BACKEND_REFERENCE, .tag_check = tag_check, .repeats = 1};
    CHECK_OK(
        kvt_config_parse(&world->config, "c.yaml", text, strlen(text), "", sets, set_count, &err),
        err);
    if (err.status != KVT_OK)
        return false;
    CHECK_OK(kvt_runtime_init(&world->runtime, &world->config, &want, &err), err);
    if (err.status != KVT_OK)
        return false;
    if (stale != NULL)
        world->runtime.stale = *stale;
    world->drive.runtime = &world->runtime;
    world->drive.order = &world->order;
    world->drive.time = fixed_time;
    CHECK_OK(kvt_drive_begin(&world->drive, &world->config, &err), err);
    if (err.status == KVT_OK)
        CHECK_OK(kvt_drive_run(&world->drive, &err), err);
    return err.status == KVT_OK;
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
    CHECK_I64(kvt_device_pieces_until_refusal(&device, 1000), 3, "three more of 1024");
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
    bool ran = run_world(&crowded, disaggregated, NULL, 0, NULL, true);
    ran = run_world(&alone, disaggregated, apart, 3, NULL, true) && ran;
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
    bool ran = run_world(&crowded, colocated, NULL, 0, NULL, true);
    ran = run_world(&alone, colocated, apart, 2, NULL, true) && ran;
    if (ran) {
        CHECK_NOTE(preemptions(&crowded) > 0, "requests are computed again");
        CHECK_I64(different(&crowded, &alone), 0, "requests with other tokens");
        CHECK_NOTE(vocabulary(&alone) > 60, "the model has something to say");
        CHECK_I64(crowded.runtime.counts.failures, 0, "tags");
    }
    end_world(&alone);
    end_world(&crowded);
}

static void overlap_gives_the_same_tokens(void)
{
    static struct world ahead, plain;
    static const char *const sets[] = {"fleet.prefill.scheduler.overlap=false",
                                       "fleet.decode.scheduler.overlap=false"};
    bool ran = run_world(&ahead, disaggregated, NULL, 0, NULL, true);
    ran = run_world(&plain, disaggregated, sets, 2, NULL, true) && ran;
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
    struct kvt_stale stale = {.request = 2, .slot = 0, .page = 150, .from = 40};
    bool ran = run_world(&good, disaggregated, sets, 2, NULL, true);
    ran = run_world(&bad, disaggregated, sets, 2, &stale, true) && ran;
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

static void a_replay_makes_the_recorded_decisions(void)
{
    static struct world world;
    struct kvt_replay replay;
    struct kvt_err err = {0};
    if (!run_world(&world, disaggregated, NULL, 0, NULL, false)) {
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

static void what_cannot_run_is_refused(void)
{
    static const struct {
        const char *set, *message;
        enum kvt_status status;
    } rows[] = {
        {"fleet.prefill.parallel.tp=2", "the runtime wants one GPU a replica", KVT_ECONFIG},
        {"fleet.decode.kv=nvfp4", "no kernel reads it", KVT_ECONFIG},
        {"fleet.decode.kv=fp8", "want fp8-scaled", KVT_ECONFIG},
        {"fleet.decode.page_tokens=32", "pages are handed over one by one", KVT_ECONFIG},
        {"fleet.prefill.weights=mxfp4", "no kernel for mxfp4 weights", KVT_ECONFIG},
        {"model=qwen3-0.6b", "norms of q and k", KVT_ECONFIG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_config config;
        struct kvt_runtime runtime;
        struct kvt_err err = {0};
        struct kvt_runtime_want want = {.backend = KVT_BACKEND_REFERENCE, .repeats = 1};
        const char *sets[] = {"fleet.prefill.gpu=h100-sxm", "fleet.decode.gpu=h100-sxm",
                              rows[i].set};
        bool large = strncmp(rows[i].set, "model", 5) == 0;
        CHECK_OK(kvt_config_parse(&config, "c.yaml", disaggregated, strlen(disaggregated), "",
                                  large ? sets : sets + 2, large ? 3 : 1, &err),
                 err);
        CHECK_FAILS(kvt_runtime_init(&runtime, &config, &want, &err), err, rows[i].status);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].set);
        kvt_config_release(&config);
    }
}

const struct check_test check_runtime[] = {
    {"a device never passes its limit", a_device_never_passes_its_limit, false},
    {"without CUDA the device says so", without_cuda_the_device_says_so, false},
    {"pages until refusal are those of the ledger", pages_until_refusal_are_those_of_the_ledger,
     false},
    {"tokens do not depend on who else is served", tokens_do_not_depend_on_who_else_is_served,
     false},
    {"tokens survive preemption and mixed batches", tokens_survive_preemption_and_mixed_batches,
     false},
    {"overlap gives the same tokens", overlap_gives_the_same_tokens, false},
    {"a stale page changes tokens and is caught", a_stale_page_changes_tokens_and_is_caught, false},
    {"a replay makes the recorded decisions", a_replay_makes_the_recorded_decisions, false},
    {"what cannot run is refused", what_cannot_run_is_refused, false},
    {NULL, NULL, false},
};
