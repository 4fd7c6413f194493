/*
 * Up to three requests on a pool of a few pages: every length, every order in which they come, by
 * macro-steps and step by step, on pools that count and on pools that name pages.
 *
 * A step takes 1,000 ticks and one more for each token of context, so that some arrivals fall on
 * the end of a step, some between two.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/world.h"

#define REQUESTS 3
#define LENGTHS  4 /* of a request */
#define GAPS     3
#define STEP     1000

static const int32_t lengths[LENGTHS][2] = {{1, 1}, {2, 9}, {3, 3}, {4, 6}};
static const kvt_ticks gaps[GAPS] = {0, STEP, 2 * STEP + 7};

static struct world world;
static int64_t wrong, preempted, rejected;

static void set_role(enum kvt_role role, int variant, int32_t pages)
{
    enum kvt_engine engine = (enum kvt_engine)(variant & 1);
    world.roles[role] = (struct kvt_replica_spec){
        .role = role,
        .engine = engine,
        .pages = pages,
        .page_tokens = 2,
        .overlap = (variant & 2) != 0,
        .free_order = KVT_FREE_FIFO,
        .chunk_tokens = 2,
        .batch_tokens = engine == KVT_ENGINE_VLLM ? 4 : 100,
        .max_running = 3,
        .max_model_len = 1 << 20,
        .conservativeness = 0.3,
        .reserved_decode_tokens = 1,
    };
    struct kvt_costs *costs = &world.costs[role];
    *costs = (struct kvt_costs){.batch_max = 3, .rows = world.rows[role], .token_knots = 2};
    for (int32_t b = 1; b <= 3; b++)
        world.rows[role][b] = (struct kvt_cost_row){.base = STEP, .segments = 1, .slope = {1}};
    world.token_at[1] = 4096;
    world.token_time[1] = 4096;
    costs->token_at = world.token_at;
    costs->token_time = world.token_time;
    world.spec.costs[role] = costs;
    world.spec.core.roles[role] = &world.roles[role];
    world.spec.core.replicas[role] = 1;
}

static void begin(bool disaggregated, int variant, int32_t pages)
{
    memset(&world, 0, sizeof world);
    if (disaggregated) {
        set_role(KVT_ROLE_PREFILL, variant & 1, pages);
        set_role(KVT_ROLE_DECODE, variant, pages);
    } else {
        set_role(KVT_ROLE_SERVE, variant, pages);
    }
    struct kvt_des_spec *spec = &world.spec;
    spec->core.tenants = 1;
    spec->core.input = world.input;
    spec->core.output = world.output;
    spec->link =
        (struct kvt_link_spec){.bytes_per_s = 1e9,
                               .prefill_gpus = 1,
                               .decode_gpus = 1,
                               .stream = (enum kvt_stream_mode)(variant % KVT_STREAM_COUNT),
                               .layers = 2,
                               .bytes_per_token = 1};
    spec->until = KVT_NEVER;
    spec->arrival = world.arrival;
    spec->series_points = 4;
}

static void run_both_ways(void)
{
    struct world_outcome macro, exact;
    world_run(&world, false, false, &macro);
    world_run(&world, true, true, &exact);
    const char *what = world_difference(&exact, &macro);
    if (macro.arrived != macro.completed + macro.rejected)
        what = "a request is lost";
    preempted += macro.preemptions;
    rejected += macro.rejected;
    if (what != NULL && wrong++ == 0) {
        printf("    %s:", what);
        for (int32_t r = 0; r < world.spec.core.request_count; r++)
            printf(" %d+%d at %lld", world.input[r], world.output[r], (long long)world.arrival[r]);
        printf("\n");
    }
}

/* Request r and all after it take every length and every gap. The depth is REQUESTS. */
static void with_requests(int32_t count)
{
    int32_t worlds = 1;
    for (int32_t r = 0; r < count; r++)
        worlds *= LENGTHS * (r > 0 ? GAPS : 1);
    world.spec.core.request_count = count;
    for (int32_t i = 0; i < worlds; i++) {
        int32_t digits = i;
        for (int32_t r = 0; r < count; r++) {
            const int32_t *length = lengths[digits % LENGTHS];
            digits /= LENGTHS;
            world.input[r] = length[0];
            world.output[r] = length[1];
            world.arrival[r] = r == 0 ? 0 : world.arrival[r - 1] + gaps[digits % GAPS];
            digits /= r == 0 ? 1 : GAPS;
        }
        run_both_ways();
    }
}

static void run_all(bool disaggregated, int32_t fewest, int32_t most)
{
    wrong = preempted = rejected = 0;
    for (int variant = 0; variant < 4; variant++)
        for (int32_t pages = fewest; pages <= most; pages++) {
            begin(disaggregated, variant, pages);
            for (int32_t count = 1; count <= REQUESTS; count++)
                with_requests(count);
        }
    CHECK_I64(wrong, 0, "worlds that differ");
}

static void three_requests_on_one_replica_of_few_pages(void)
{
    run_all(false, 3, 5);
    CHECK_NOTE(preempted > 300 && rejected > 1000, "it was worth it");
}

static void three_requests_from_prefill_to_decode_of_few_pages(void)
{
    run_all(true, 4, 4);
    CHECK_NOTE(rejected > 1000, "it was worth it");
}

const struct check_test check_tiny_worlds[] = {
    {"three requests on one replica of few pages", three_requests_on_one_replica_of_few_pages,
     false},
    {"three requests from prefill to decode of few pages",
     three_requests_from_prefill_to_decode_of_few_pages, false},
    {NULL, NULL, false},
};
