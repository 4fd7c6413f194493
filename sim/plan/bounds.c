#include "sim/plan/bounds.h"

#include <gsl/gsl_sort.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define MARGIN 1.004 /* bins of the histograms are this wide */

#define X(name, text) text,
const char *const kvt_bound_texts[KVT_BOUND_COUNT] = {KVT_BOUNDS(X)};
#undef X

struct judge {
    const struct kvt_simulation *simulation;
    const struct kvt_config *config;
    enum kvt_role prefill, decode; /* whose steps: both SERVE when colocated */
    int64_t count;                 /* requests that count in the metrics */
    double *prompts, *whole;       /* [count] seconds of each prompt alone, of each request alone */
    double gap;                    /* s between two tokens */
    double latency;                /* s of a first token beside the steps */
    double span;                   /* s from the first counted arrival to the last */
    bool has_gaps;
    double least; /* of value/limit, of the bound that is broken */
    char *detail;
    size_t size_bytes;
};

static double seconds(double ticks)
{
    return ticks / (double)KVT_TICKS_PER_S;
}

/* tokens(x) of costs.h, beyond the last knot as there. */
static double token_ticks(const struct kvt_costs *costs, double x)
{
    int32_t low = 0, last = costs->token_knots - 1;
    if (last == 0)
        return (double)costs->token_time[0];
    while (low < last - 1 && (double)costs->token_at[low + 1] <= x)
        low++;
    double width = (double)(costs->token_at[low + 1] - costs->token_at[low]);
    double rise = (double)(costs->token_time[low + 1] - costs->token_time[low]);
    return (double)costs->token_time[low] + rise / width * (x - (double)costs->token_at[low]);
}

/* The least time of tokens(x)/x for 1 <= x <= most. Linear between knots, so that the least lies at
 * a knot or at an end. */
static double least_rate(const struct kvt_costs *costs, int64_t most)
{
    double least = fmin(token_ticks(costs, 1), token_ticks(costs, (double)most) / (double)most);
    for (int32_t k = 0; k < costs->token_knots && costs->token_at[k] <= most; k++)
        if (costs->token_at[k] > 0)
            least = fmin(least, (double)costs->token_time[k] / (double)costs->token_at[k]);
    return least;
}

/* The least of tokens(x) - rate * x for from <= x <= most, likewise. */
static double least_beside(const struct kvt_costs *costs, double rate, int64_t from, int64_t most)
{
    double least = fmin(token_ticks(costs, (double)from) - rate * (double)from,
                        token_ticks(costs, (double)most) - rate * (double)most);
    for (int32_t k = 0; k < costs->token_knots; k++)
        if (costs->token_at[k] > from && costs->token_at[k] < most)
            least = fmin(least, (double)costs->token_time[k] - rate * (double)costs->token_at[k]);
    return least;
}

static double pair_ticks(const struct kvt_costs *costs, int64_t tokens)
{
    double pairs = 0.5 * (double)tokens * ((double)tokens + 1);
    return (double)costs->pair_slope * pairs / 1048576.0;
}

/* A prompt with the prefill GPUs for itself; what a cache may know already is not counted. */
static double prompt_alone(const struct judge *j, int64_t tokens)
{
    const struct kvt_fleet_role *role = &j->simulation->fleet->roles[j->prefill];
    tokens = role->replica.prefix_cache ? 1 : tokens;
    double steps = least_rate(&role->costs, tokens) * (double)tokens +
                   pair_ticks(&role->costs, tokens) + (double)role->costs.prefill_base +
                   (double)role->costs.row_cost;
    return seconds(fmax(steps, (double)role->costs.prefill_floor));
}

/* The cheapest step that gives a request its next token. */
static double least_gap(const struct judge *j)
{
    const struct kvt_costs *costs = &j->simulation->fleet->roles[j->decode].costs;
    double least = (double)INFINITY;
    for (int32_t b = 1; b <= costs->batch_max; b++)
        least = fmin(least, (double)costs->rows[b].base + (double)costs->rows[b].value[0]);
    if (j->decode == KVT_ROLE_SERVE) /* its decode may ride along with a prompt */
        least = fmin(least, fmax((double)costs->prefill_base + least_rate(costs, 1),
                                 (double)costs->prefill_floor));
    return seconds(least);
}

static bool is_counted(const struct judge *j, int32_t r)
{
    kvt_ticks arrival = j->simulation->trace.arrival[r];
    return arrival >= j->simulation->des.spec.warmup && arrival <= j->simulation->des.spec.until;
}

/* Fill prompts and whole, and tell how many requests are rejected of those that arrive. */
static int64_t measure(struct judge *j, int64_t *arrived)
{
    const struct kvt_trace *trace = &j->simulation->trace;
    bool closed = j->config->workload.kind == KVT_WORKLOAD_CLOSED;
    kvt_ticks first = KVT_NEVER, last = 0;
    int64_t rejected = 0;
    *arrived = 0;
    j->gap = least_gap(j);
    for (int32_t r = 0; r < trace->count; r++) {
        int64_t need, have;
        if (!closed && !is_counted(j, r))
            continue;
        (*arrived)++;
        if (!kvt_core_can_serve(&j->simulation->des.core, r, &need, &have)) {
            if (rejected++ == 0)
                snprintf(j->detail, j->size_bytes, "a request needs %" PRId64 " tokens of %" PRId64,
                         need, have);
            continue;
        }
        first = trace->arrival[r] < first ? trace->arrival[r] : first;
        last = trace->arrival[r] > last ? trace->arrival[r] : last;
        j->prompts[j->count] = prompt_alone(j, trace->input[r]);
        j->whole[j->count] = j->prompts[j->count] + j->latency + j->gap * (trace->output[r] - 1);
        j->has_gaps = j->has_gaps || trace->output[r] > 1;
        j->count++;
    }
    j->span = j->count > 0 ? seconds((double)(last - first)) : 0;
    return rejected;
}

/* The rank (from 0) whose value a percentile is at least; -1 for a mean. */
static int64_t rank_of(const struct judge *j, double percentile)
{
    return percentile > 0 ? (int64_t)(percentile * (double)(j->count - 1)) : -1;
}

/* Whether sorted values[count] + extra break a target; the figures go to detail. */
static bool breaks(struct judge *j, const struct kvt_config_target *target, const double sorted[],
                   double extra, const char *what)
{
    for (int32_t i = 0; i < target->count; i++) {
        int64_t rank = rank_of(j, target->percentile[i]);
        double value = 0;
        for (int64_t r = 0; rank < 0 && r < j->count; r++)
            value += sorted[r] / (double)j->count;
        /* One rank lower: a request that arrives as the run ends may count or not. */
        value = rank > 0 ? sorted[rank - 1] : rank == 0 ? sorted[0] : value;
        if (value + extra <= target->seconds[i] * MARGIN)
            continue;
        j->least = (value + extra) / target->seconds[i] / MARGIN;
        snprintf(j->detail, j->size_bytes, "%s of an idle fleet is %.4g ms, want %.4g ms", what,
                 1e3 * (value + extra), 1e3 * target->seconds[i]);
        return true;
    }
    return false;
}

/* ---- work ---------------------------------------------------------------------------------- */

/* Seconds of GPU of each counted request at least, and what of it was asked for. */
struct work {
    double *prompts, *decodes; /* [count] sorted; decodes: beyond the first token */
    double *pages;             /* [count] sorted: of the decode role's pool, for the prompt */
    double prompt_sum, decode_sum;
    int64_t count;
};

/* Prices of what a step does, in ticks, whose sum no step is faster than: rate for each prompt
 * token, alpha for each decode, beta for each token of their contexts. */
struct plane {
    double rate, alpha, beta;
};

/* The largest alpha that goes with a rate and a beta. beta is not above the slope of any row's last
 * segment, so that line(b, c) - beta * c is least where a segment starts. most: tokens of a step
 * that has prompts too; 0: no step of this role has. */
static struct plane plane_of(const struct kvt_costs *costs, double rate, double beta, int64_t most)
{
    struct plane plane = {.rate = rate, .alpha = (double)INFINITY, .beta = beta};
    for (int32_t b = 1; b <= costs->batch_max; b++) {
        const struct kvt_cost_row *row = &costs->rows[b];
        double base = (double)row->base;
        if (b < most) /* beside prompts: tokens(b + m) - rate * m for m >= 1 */
            base = fmin(base, rate * b + least_beside(costs, rate, b + 1, most));
        for (int32_t s = 0; s < row->segments; s++) {
            double line = (double)row->value[s] - beta * (double)row->start[s];
            plane.alpha = fmin(plane.alpha, (base + line) / b);
        }
    }
    return plane;
}

/* The largest beta that plane_of takes. */
static double steepest(const struct kvt_costs *costs)
{
    double least = (double)INFINITY;
    for (int32_t b = 1; b <= costs->batch_max; b++)
        least = fmin(least, (double)costs->rows[b].slope[costs->rows[b].segments - 1]);
    return least;
}

static double decode_work(const struct plane *plane, int64_t input, int64_t output)
{
    double n = (double)output - 1;
    return seconds(plane->alpha * n + plane->beta * (n * (double)input + n * (n - 1) / 2));
}

/* Tokens of the largest step with prompts. */
static int64_t largest_step(const struct judge *j)
{
    const struct kvt_replica_spec *spec = &j->simulation->fleet->roles[j->prefill].replica;
    int64_t prompts =
        spec->batch_tokens > spec->chunk_tokens ? spec->batch_tokens : spec->chunk_tokens;
    return prompts + spec->max_running; /* decodes ride along */
}

static void measure_work(const struct judge *j, const struct plane *plane, struct work *work)
{
    const struct kvt_trace *trace = &j->simulation->trace;
    const struct kvt_fleet_role *prefill = &j->simulation->fleet->roles[j->prefill];
    int32_t page = j->simulation->fleet->roles[j->decode].replica.page_tokens;
    work->count = 0;
    work->prompt_sum = work->decode_sum = 0;
    for (int32_t r = 0; r < trace->count; r++) {
        int64_t need, have, i = work->count;
        if (!is_counted(j, r) || !kvt_core_can_serve(&j->simulation->des.core, r, &need, &have))
            continue;
        work->prompts[i] =
            seconds(plane->rate * trace->input[r] + pair_ticks(&prefill->costs, trace->input[r]));
        if (prefill->replica.prefix_cache)
            work->prompts[i] = 0;
        work->decodes[i] = decode_work(plane, trace->input[r], trace->output[r]);
        work->pages[i] = ceil((double)trace->input[r] / page);
        work->prompt_sum += work->prompts[i];
        work->decode_sum += work->decodes[i];
        work->count++;
    }
}

/* All of it could be done between the arrivals: no share of it breaks anything. */
static bool is_little(const struct judge *j, const struct work *work)
{
    double prefill = j->config->roles[j->prefill].replicas * j->span;
    double decode = j->config->roles[j->decode].replicas * j->span;
    double beside = j->prefill == j->decode ? work->prompt_sum : 0;
    return work->prompt_sum <= prefill && work->decode_sum + beside <= decode;
}

static void sort_work(const struct work *work)
{
    gsl_sort(work->prompts, 1, (size_t)work->count);
    gsl_sort(work->decodes, 1, (size_t)work->count);
    gsl_sort(work->pages, 1, (size_t)work->count);
}

/* How many requests can at most be past their first token and not yet done. Newcomers are let in
 * only while nobody waits to come back (SGLang's colocated scheduler puts who is retracted last:
 * nothing is known of it), and each then holds the pages of its prompt, all but the one under
 * way. */
static int64_t most_in_flight(const struct judge *j, const struct work *work)
{
    const struct kvt_replica_spec *spec = &j->simulation->fleet->roles[j->decode].replica;
    int64_t replicas = j->config->roles[j->decode].replicas, held = 0;
    bool split = j->decode == KVT_ROLE_DECODE;
    if (!split && j->config->engine != KVT_ENGINE_VLLM)
        return work->count;
    int64_t slots = replicas * spec->max_running * (split ? 2 : 1);
    double pages = (double)(replicas * spec->pages);
    while (!spec->prefix_cache && held < work->count && (pages -= work->pages[held]) >= 0)
        held++;
    held = spec->prefix_cache ? work->count : held + replicas;
    return slots < held ? slots : held;
}

static double sum_of_least(const double sorted[], int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += sorted[i];
    return sum;
}

/* Whether `sum` seconds of work fit into the GPUs of a role until `limit` after the last arrival.
 */
static bool breaks_room(struct judge *j, enum kvt_role role, double sum, double limit,
                        const char *what)
{
    double replicas = j->config->roles[role].replicas;
    double room = replicas * (j->span + limit * MARGIN);
    if (sum <= room)
        return false;
    j->least = (sum / replicas - j->span) / limit / MARGIN;
    snprintf(j->detail, j->size_bytes, "%s take %.4g s of the %s GPUs, which have %.4g s", what,
             sum, kvt_role_names[role], room);
    return true;
}

/* By the last arrival and the limit after it the share of the requests that a bound asks for have
 * their first token, and all of them are done but those in flight; with `whole` all are done. */
static bool breaks_work(struct judge *j, const struct work *work, bool whole)
{
    const struct kvt_config_target *target = whole ? &j->config->slo.e2el : &j->config->slo.ttft;
    int64_t flying = whole ? 0 : most_in_flight(j, work);
    for (int32_t i = 0; i < target->count; i++) {
        int64_t rank = rank_of(j, target->percentile[i]);
        rank = rank < work->count ? rank : work->count;
        double prompts = sum_of_least(work->prompts, rank), limit = target->seconds[i];
        double decodes = sum_of_least(work->decodes, rank - flying);
        if (breaks_room(j, j->prefill, prompts, limit, "prompts"))
            return true;
        if (j->prefill == j->decode)
            decodes += prompts;
        if (decodes > 0 && breaks_room(j, j->decode, decodes, limit, "output tokens"))
            return true;
    }
    return false;
}

static bool breaks_plane(struct judge *j, const struct plane *plane, struct work *work)
{
    measure_work(j, plane, work);
    if (is_little(j, work))
        return false;
    sort_work(work);
    return breaks_work(j, work, false) || breaks_work(j, work, true);
}

/* Several planes: which of them says most depends on the share of the prompts in the load. */
static enum kvt_bound judge_work(struct judge *j)
{
    static const double shares[] = {1, 0.5, 0};
    const struct kvt_costs *prefill = &j->simulation->fleet->roles[j->prefill].costs;
    const struct kvt_costs *decode = &j->simulation->fleet->roles[j->decode].costs;
    size_t bytes = (size_t)j->count * sizeof(double);
    struct work work = {.prompts = malloc(bytes), .decodes = malloc(bytes), .pages = malloc(bytes)};
    bool broken = false, mixed = j->prefill == j->decode;
    int64_t most = largest_step(j);
    double rate = least_rate(prefill, most);
    bool known = work.prompts != NULL && work.decodes != NULL && work.pages != NULL;
    for (int i = 0; known && i < (mixed ? 3 : 1) && !broken; i++)
        for (int turn = 0; turn < 2 && !broken; turn++) {
            struct plane plane = plane_of(decode, rate * shares[i],
                                          turn == 0 ? 0 : steepest(decode), mixed ? most : 0);
            broken = breaks_plane(j, &plane, &work);
        }
    free(work.prompts);
    free(work.decodes);
    free(work.pages);
    return broken ? KVT_BOUND_LOAD : KVT_BOUND_NONE;
}

static enum kvt_bound judge(struct judge *j, double rejected)
{
    const struct kvt_config_slo *slo = &j->config->slo;
    int64_t arrived, refused = measure(j, &arrived);
    if ((double)refused > rejected * (double)arrived)
        return KVT_BOUND_REJECTS;
    if (j->count == 0)
        return KVT_BOUND_NONE;
    for (int32_t i = 0; i < slo->itl.count && j->has_gaps; i++) {
        if (j->gap <= slo->itl.seconds[i] * MARGIN)
            continue;
        j->least = j->gap / slo->itl.seconds[i] / MARGIN;
        snprintf(j->detail, j->size_bytes, "the fastest step takes %.4g ms, want %.4g ms",
                 1e3 * j->gap, 1e3 * slo->itl.seconds[i]);
        return KVT_BOUND_ITL;
    }
    if (j->config->workload.kind == KVT_WORKLOAD_CLOSED)
        return KVT_BOUND_NONE;
    gsl_sort(j->prompts, 1, (size_t)j->count);
    gsl_sort(j->whole, 1, (size_t)j->count);
    if (breaks(j, &slo->ttft, j->prompts, j->latency, "TTFT"))
        return KVT_BOUND_TTFT;
    if (breaks(j, &slo->e2el, j->whole, 0, "E2EL"))
        return KVT_BOUND_E2EL;
    return judge_work(j);
}

enum kvt_status kvt_bounds_judge(const struct kvt_simulation *simulation, double rejected,
                                 enum kvt_bound *bound, double *least, char *detail,
                                 size_t size_bytes, struct kvt_err *err)
{
    bool split = simulation->fleet->present[KVT_ROLE_PREFILL];
    struct judge j = {.simulation = simulation,
                      .config = simulation->config,
                      .prefill = split ? KVT_ROLE_PREFILL : KVT_ROLE_SERVE,
                      .decode = split ? KVT_ROLE_DECODE : KVT_ROLE_SERVE,
                      .least = (double)INFINITY,
                      .detail = detail,
                      .size_bytes = size_bytes};
    *bound = KVT_BOUND_NONE;
    *least = 0;
    detail[0] = '\0';
    const struct kvt_config_workload *load = &simulation->config->workload;
    if (load->decode_only || load->prefill_only || load->aborts.share > 0 ||
        load->aborts.timeout > 0 || simulation->faults != NULL)
        return KVT_OK;
    j.latency = seconds((double)simulation->fleet->roles[j.prefill].costs.request_latency);
    size_t most = (size_t)simulation->trace.count + 1;
    double *both = malloc(2 * most * sizeof *both);
    if (both == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to judge %d requests",
                           simulation->trace.count);
    j.prompts = both;
    j.whole = both + most;
    *bound = judge(&j, rejected);
    *least = *bound == KVT_BOUND_NONE ? 0 : j.least;
    if (*bound == KVT_BOUND_NONE)
        detail[0] = '\0';
    free(both);
    return KVT_OK;
}
