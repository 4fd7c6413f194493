#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/base/random.h"
#include "sim/des/engine.h"
#include "tests/check.h"

/*
 * The whole engine against closed forms of queueing theory. One replica that serves one request at
 * a time is M/G/1: requests come at random, a prompt takes its tokens x TOKEN (prefill only), or an
 * answer its tokens x STEP (decode only, so that a service is one macro-step). The mean wait is
 * Pollaczek and Khinchin's
 *
 *     W = lambda E[S^2] / 2 (1 - rho)    E[S^2] = 2 E[S]^2 (exponential) or E[S]^2 (fixed)
 *
 * and must lie within the interval that batch means give: no tolerance is guessed.
 */
#define REQUESTS 250000
#define BATCHES  20
#define TOKEN    (50 * KVT_TICKS_PER_US)
#define STEP     (10 * KVT_TICKS_PER_MS)
#define CHANCE   0.999 /* that a right engine is inside the interval; the seed is fixed */

static struct queue {
    struct kvt_arena arena;
    struct kvt_des des;
    struct kvt_des_spec spec;
    struct kvt_replica_spec role;
    struct kvt_costs costs;
    struct kvt_cost_row rows[33];
    int64_t token_at[2];
    kvt_ticks token_time[2];
    int32_t input[REQUESTS], output[REQUESTS];
    kvt_ticks arrival[REQUESTS];
} queue;

static void costs_are_linear(int32_t batch_max)
{
    for (int32_t b = 1; b <= batch_max; b++)
        queue.rows[b] = (struct kvt_cost_row){.base = STEP, .segments = 1};
    queue.token_at[1] = 1;
    queue.token_time[1] = TOKEN;
    queue.costs = (struct kvt_costs){.batch_max = batch_max,
                                     .rows = queue.rows,
                                     .token_knots = 2,
                                     .token_at = queue.token_at,
                                     .token_time = queue.token_time};
}

static void queue_of(int32_t requests, enum kvt_role role, int32_t running)
{
    kvt_arena_release(&queue.arena);
    memset(&queue, 0, sizeof queue);
    costs_are_linear(running);
    queue.role = (struct kvt_replica_spec){.role = role,
                                           .engine = KVT_ENGINE_VLLM,
                                           .pages = 1 << 16,
                                           .page_tokens = 1024,
                                           .chunk_tokens = 1 << 20,
                                           .batch_tokens = 1 << 20,
                                           .max_running = running,
                                           .max_model_len = 1 << 20,
                                           .conservativeness = 1};
    struct kvt_core_spec *core = &queue.spec.core;
    core->roles[role] = &queue.role;
    core->replicas[role] = 1;
    core->request_count = requests;
    core->input = queue.input;
    core->output = queue.output;
    core->tenants = 1;
    core->decode_only = role == KVT_ROLE_DECODE;
    queue.spec.costs[role] = &queue.costs;
    queue.spec.arrival = queue.arrival;
    queue.spec.until = KVT_NEVER;
    queue.spec.series_points = 16;
}

/* A check of every invariant after every step walks over every request: not over so many. */
static void run(void)
{
    struct kvt_err err = {0};
    bool before = kvt_paranoid;
    kvt_paranoid = before && queue.spec.core.request_count <= 300;
    CHECK_OK(kvt_arena_init(&queue.arena, kvt_des_bytes(&queue.spec), &err), err);
    CHECK_OK(kvt_des_init(&queue.des, &queue.arena, &queue.spec, &err), err);
    while (kvt_des_step(&queue.des, 1000))
        ;
    CHECK_OK(kvt_des_finish(&queue.des, false, &err), err);
    kvt_paranoid = before;
}

/* Poisson arrivals; lengths with mean `mean`, exponential or fixed. */
static void draw_load(uint64_t seed, double rate_per_s, double mean, bool exponential)
{
    gsl_rng *arrivals = gsl_rng_alloc(kvt_rng_type), *lengths = gsl_rng_alloc(kvt_rng_type);
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_ARRIVAL, 0);
    kvt_rng_attach(arrivals, &stream);
    kvt_stream_init(&stream, seed, KVT_PURPOSE_INPUT, 0);
    kvt_rng_attach(lengths, &stream);
    double now = 0;
    for (int32_t r = 0; r < queue.spec.core.request_count; r++) {
        now += gsl_ran_exponential(arrivals, 1 / rate_per_s);
        double length = exponential ? ceil(gsl_ran_exponential(lengths, mean) - 0.5) : mean;
        queue.arrival[r] = kvt_ticks_from_seconds(now);
        bool decodes = queue.spec.core.decode_only;
        int32_t tokens = length < 1 ? 1 : (int32_t)length;
        queue.input[r] = decodes ? 1 : tokens;
        queue.output[r] = decodes ? tokens : 1;
    }
    gsl_rng_free(arrivals);
    gsl_rng_free(lengths);
}

static kvt_ticks service_of(int32_t r)
{
    return queue.spec.core.decode_only ? queue.output[r] * STEP : queue.input[r] * TOKEN;
}

static kvt_ticks wait_of(int32_t r)
{
    return queue.des.observer.finish[r] - service_of(r) - queue.arrival[r];
}

/* Mean wait in seconds of the requests after the first tenth, and the half width of its interval
 * from the means of consecutive batches. */
static double mean_wait(double *half_width)
{
    int32_t count = queue.spec.core.request_count, skipped = count / 10;
    int32_t size = (count - skipped) / BATCHES;
    double sum = 0, squares = 0;
    for (int32_t batch = 0; batch < BATCHES; batch++) {
        double batch_sum = 0;
        for (int32_t i = 0; i < size; i++)
            batch_sum += kvt_seconds_from_ticks(wait_of(skipped + batch * size + i));
        sum += batch_sum / size;
        squares += batch_sum / size * (batch_sum / size);
    }
    double mean = sum / BATCHES, variance = (squares - sum * mean) / (BATCHES - 1);
    *half_width = gsl_cdf_tdist_Pinv(1 - (1 - CHANCE) / 2, BATCHES - 1) * sqrt(variance / BATCHES);
    return mean;
}

static void one_server_waits_as_pollaczek_and_khinchin_say(void)
{
    static const struct {
        const char *note;
        enum kvt_role role;
        bool exponential;
        double rho;
    } rows[] = {
        {"M/M/1 of prompts, half loaded", KVT_ROLE_SERVE, true, 0.5},
        {"M/M/1 of prompts, busy", KVT_ROLE_SERVE, true, 0.7},
        {"M/D/1 of prompts, half loaded", KVT_ROLE_SERVE, false, 0.5},
        {"M/D/1 of prompts, busy", KVT_ROLE_SERVE, false, 0.8},
        {"M/M/1 of macro-steps, half loaded", KVT_ROLE_DECODE, true, 0.5},
        {"M/M/1 of macro-steps, busy", KVT_ROLE_DECODE, true, 0.7},
        {"M/D/1 of macro-steps, busy", KVT_ROLE_DECODE, false, 0.8},
    };
    const double mean = 400; /* tokens; rounded to whole ones, E[S^2] is off by 1e-6 */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double token = kvt_seconds_from_ticks(rows[i].role == KVT_ROLE_SERVE ? TOKEN : STEP);
        double service = mean * token, rate = rows[i].rho / service, half_width;
        queue_of(REQUESTS, rows[i].role, 1);
        draw_load(7 + i, rate, mean, rows[i].exponential);
        run();
        double want =
            rate * service * service * (rows[i].exponential ? 2 : 1) / 2 / (1 - rows[i].rho);
        double got = mean_wait(&half_width);
        CHECK_CLOSE(got, want, half_width / want, rows[i].note);
        CHECK_NOTE(half_width < 0.12 * want, "the interval says something");
        kvt_ticks work = 0, waits = 0;
        int32_t early = 0;
        for (int32_t r = 0; r < REQUESTS; r++) {
            work += service_of(r);
            waits += wait_of(r);
            early += wait_of(r) < 0;
        }
        CHECK_I64(early, 0, "nobody starts before it arrives");
        CHECK_I64(queue.des.lanes[0].busy, work, "the server works as long as there is work");
        /* Of N requests the utilisation spreads by 1/sqrt(N) for each sum that is random. */
        double busy = (double)work / (double)queue.des.now;
        double spread = sqrt((rows[i].exponential ? 2.0 : 1.0) / REQUESTS);
        CHECK_CLOSE(busy, rows[i].rho, spread * gsl_cdf_ugaussian_Pinv(1 - (1 - CHANCE) / 2),
                    rows[i].note);
        /* Little's law, to the tick: the queue's integral over time is the sum of the waits. */
        double length = kvt_series_mean_all(&queue.des.observer.series[0], KVT_GAUGE_WAITING);
        CHECK_CLOSE(length * (double)queue.des.now, (double)waits, 1e-12, "L = lambda W");
    }
}

/*
 * Little's law where many run at once: decode, up to 32 together, macro-steps or exact ones. From
 * an empty start to an empty end the integral of those in the system is the sum of their times.
 */
static void requests_in_the_system_are_rate_times_time(void)
{
    for (int exact = 0; exact < 2; exact++) {
        queue_of(3000, KVT_ROLE_DECODE, 32);
        queue.spec.exact = exact == 1;
        draw_load(99, 20 / (40 * kvt_seconds_from_ticks(STEP)), 40, true);
        run();
        kvt_ticks times = 0;
        for (int32_t r = 0; r < 3000; r++)
            times += queue.des.observer.finish[r] - queue.arrival[r];
        const struct kvt_series *series = &queue.des.observer.series[0];
        double in_system = kvt_series_mean_all(series, KVT_GAUGE_WAITING) +
                           kvt_series_mean_all(series, KVT_GAUGE_RUNNING);
        CHECK_CLOSE(in_system * (double)queue.des.now, (double)times, 1e-12, "L = lambda W");
        CHECK_NOTE(in_system > 15 && in_system < 25, "about 20 at once");
    }
}

/*
 * A closed loop of N clients with think time Z: each is thinking, waiting or in service, so over
 * a long run N = X (R + Z) with throughput X and response time R. One server, fixed service S:
 * with N = 3 and Z = 2 S the server is always busy once all have come: R = S, then 2 S, 3 S, and
 * from then on each waits until its turn comes: R = N S - Z = S.
 */
static void a_closed_loop_keeps_its_clients_busy(void)
{
    queue_of(300, KVT_ROLE_DECODE, 1);
    for (int32_t r = 0; r < 300; r++) {
        queue.input[r] = 1;
        queue.output[r] = 5;
    }
    queue.spec.concurrency = 3;
    queue.spec.think = 2 * 5 * STEP;
    run();
    const kvt_ticks service = 5 * STEP;
    for (int32_t r = 0; r < 300; r++) {
        CHECK_I64(queue.des.observer.finish[r], (r + 1) * service, "one after the other");
        CHECK_I64(queue.arrival[r], r < 3 ? 0 : (r - 3 + 1) * service + queue.spec.think,
                  "a client comes back after it has thought");
    }
    CHECK_I64(queue.des.now, 300 * service, "the server is always busy");
    queue_of(50, KVT_ROLE_DECODE, 1);
    for (int32_t r = 0; r < 50; r++)
        queue.input[r] = queue.output[r] = 1;
    queue.spec.concurrency = 80; /* more than requests */
    queue.spec.until = 0;        /* arrivals at the end of arrivals still come */
    run();
    CHECK_I64(queue.des.core.counts[0].completed, 50, "all came at 0");
}

/* Events do not grow with tokens: a decode of any length is a few, one step ahead or not. */
static void a_long_answer_costs_no_more_events(void)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        int64_t events[2];
        for (int length = 0; length < 2; length++) {
            queue_of(100, KVT_ROLE_DECODE, 32);
            queue.role.overlap = overlap == 1;
            for (int32_t r = 0; r < 100; r++) {
                queue.input[r] = 64;
                queue.output[r] = length == 0 ? 50 : 5000;
            }
            run();
            events[length] = queue.des.events;
        }
        CHECK_I64(events[1], events[0], "a hundred times as long");
        CHECK_NOTE(events[0] <= 4 * 100, "four events a request");
    }
}

/* ---- hand-off ------------------------------------------------------------------------------ */

/*
 * 16 tokens in, 2 out; chunks of 8; a prompt token takes 1 us, a decode step 5 us, KV of 1000 bytes
 * a token. Latency 2 us. When the decode step ends, in us:
 *
 *   whole, 1 GB/s       16 prefill, 16 on the link, 2                            34 + 5
 *   by chunk, 1 GB/s    first chunk 8..16, second 16..24, 2                      26 + 5
 *   by layer, 4 layers  3/4 of a chunk after a quarter of its step: 2..8, rest 8..10; second chunk
 *                       10..16, its rest 16..18, 2                               20 + 5
 *   by layer, half      the link is never idle from 2 on: 32 us of bytes, 2      36 + 5
 *   by chunk, half      8..24, 24..40, 2                                         42 + 5
 *   two prefill replicas at once into one decode port, by chunk: each has half  42 + 5
 *   the same, but the link is per GPU and decode has 2: no sharing              26 + 5
 */
static void kv_arrives_when_it_should(void)
{
    static const struct {
        const char *note;
        enum kvt_stream_mode stream;
        double bytes_per_s;
        int32_t requests, decode_gpus;
        enum kvt_link_scope per;
        int64_t want_us;
    } rows[] = {
        {"whole", KVT_STREAM_WHOLE, 1e9, 1, 1, KVT_LINK_PER_REPLICA, 39},
        {"by chunk", KVT_STREAM_BY_CHUNK, 1e9, 1, 1, KVT_LINK_PER_REPLICA, 31},
        {"by layer", KVT_STREAM_BY_LAYER, 1e9, 1, 1, KVT_LINK_PER_REPLICA, 25},
        {"by layer, half the rate", KVT_STREAM_BY_LAYER, 0.5e9, 1, 1, KVT_LINK_PER_REPLICA, 41},
        {"by chunk, half the rate", KVT_STREAM_BY_CHUNK, 0.5e9, 1, 1, KVT_LINK_PER_REPLICA, 47},
        {"two into one", KVT_STREAM_BY_CHUNK, 1e9, 2, 1, KVT_LINK_PER_REPLICA, 47},
        {"two into one of two GPUs", KVT_STREAM_BY_CHUNK, 1e9, 2, 2, KVT_LINK_PER_GPU, 31},
        {"one link for the fleet", KVT_STREAM_BY_CHUNK, 1e9, 2, 2, KVT_LINK_PER_FLEET, 47},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        size_t row = i / 2;
        queue_of(rows[row].requests, KVT_ROLE_DECODE, 4);
        struct kvt_replica_spec prefill = queue.role;
        prefill.role = KVT_ROLE_PREFILL;
        prefill.batch_tokens = prefill.chunk_tokens = 8;
        prefill.page_tokens = queue.role.page_tokens = 8;
        prefill.engine = i % 2 == 0 ? KVT_ENGINE_VLLM : KVT_ENGINE_SGLANG;
        queue.spec.core.decode_only = false;
        queue.spec.core.roles[KVT_ROLE_PREFILL] = &prefill;
        queue.spec.core.replicas[KVT_ROLE_PREFILL] = 2;
        queue.spec.costs[KVT_ROLE_PREFILL] = &queue.costs;
        queue.token_time[1] = KVT_TICKS_PER_US;
        for (int32_t b = 1; b <= 4; b++)
            queue.rows[b].base = 5 * KVT_TICKS_PER_US;
        queue.spec.link = (struct kvt_link_spec){.bytes_per_s = rows[row].bytes_per_s,
                                                 .per = rows[row].per,
                                                 .prefill_gpus = 1,
                                                 .decode_gpus = rows[row].decode_gpus,
                                                 .latency = 2 * KVT_TICKS_PER_US,
                                                 .stream = rows[row].stream,
                                                 .layers = 4,
                                                 .bytes_per_token = 1000};
        for (int32_t r = 0; r < rows[row].requests; r++) {
            queue.input[r] = 16;
            queue.output[r] = 2;
        }
        run();
        for (int32_t r = 0; r < rows[row].requests; r++) {
            CHECK_I64(queue.des.observer.first_token[r], 16 * KVT_TICKS_PER_US, rows[row].note);
            CHECK_I64(queue.des.observer.finish[r], rows[row].want_us * KVT_TICKS_PER_US,
                      rows[row].note);
        }
    }
    kvt_arena_release(&queue.arena);
}

const struct check_test check_queueing[] = {
    {"one server waits as Pollaczek and Khinchin say",
     one_server_waits_as_pollaczek_and_khinchin_say, false},
    {"requests in the system are rate times time", requests_in_the_system_are_rate_times_time,
     false},
    {"a closed loop keeps its clients busy", a_closed_loop_keeps_its_clients_busy, false},
    {"a long answer costs no more events", a_long_answer_costs_no_more_events, false},
    {"KV arrives when it should", kv_arrives_when_it_should, false},
    {NULL, NULL, false},
};
