#include "sim/plan/bounds.h"

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
    char *detail;
    size_t size_bytes;
};

static double seconds(double ticks)
{
    return ticks / (double)KVT_TICKS_PER_S;
}

/* The least time of tokens(x)/x for 1 <= x <= most. Linear between knots, so that the least lies at
 * a knot or at most. */
static double least_rate(const struct kvt_costs *costs, int64_t most)
{
    double least = (double)INFINITY;
    int32_t last = costs->token_knots - 1;
    for (int32_t k = 0; k <= last && costs->token_at[k] <= most; k++)
        if (costs->token_at[k] > 0)
            least = fmin(least, (double)costs->token_time[k] / (double)costs->token_at[k]);
    int32_t k = 0;
    while (k < last && costs->token_at[k + 1] <= most)
        k++;
    int32_t low = k < last ? k : last - 1; /* beyond the last knot its segment goes on */
    if (last == 0)
        return fmin(least, (double)costs->token_time[0] / (double)most);
    double width = (double)(costs->token_at[low + 1] - costs->token_at[low]);
    double slope = (double)(costs->token_time[low + 1] - costs->token_time[low]) / width;
    double time = (double)costs->token_time[low] + slope * (double)(most - costs->token_at[low]);
    return fmin(least, time / (double)most);
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

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The rank (from 0) whose value a percentile is at least; -1 for a mean. */
static int64_t rank_of(const struct judge *j, double percentile)
{
    return percentile > 0 ? (int64_t)(percentile * (double)(j->count - 1)) : -1;
}

/* Whether sorted values[count] + extra break a target; the figures go to detail. */
static bool breaks(const struct judge *j, const struct kvt_config_target *target,
                   const double sorted[], double extra, const char *what)
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
        snprintf(j->detail, j->size_bytes, "%s of an idle fleet is %.4g ms, want %.4g ms", what,
                 1e3 * (value + extra), 1e3 * target->seconds[i]);
        return true;
    }
    return false;
}

/* The work of the prompts that must be done by the last arrival and the limit after it. */
static bool breaks_load(const struct judge *j)
{
    const struct kvt_config_target *target = &j->config->slo.ttft;
    const struct kvt_fleet_role *role = &j->simulation->fleet->roles[j->prefill];
    const struct kvt_trace *trace = &j->simulation->trace;
    int64_t most = role->replica.batch_tokens > role->replica.chunk_tokens
                       ? role->replica.batch_tokens
                       : role->replica.chunk_tokens;
    most += role->replica.max_running; /* decodes ride along */
    double rate = least_rate(&role->costs, most);
    if (role->replica.prefix_cache || target->count == 0)
        return false;
    double *work = malloc((size_t)j->count * sizeof *work);
    if (work == NULL)
        return false; /* nothing is known: it is run */
    int64_t count = 0;
    for (int32_t r = 0; r < trace->count; r++) {
        int64_t need, have;
        if (is_counted(j, r) && kvt_core_can_serve(&j->simulation->des.core, r, &need, &have))
            work[count++] =
                seconds(rate * trace->input[r] + pair_ticks(&role->costs, trace->input[r]));
    }
    qsort(work, (size_t)count, sizeof *work, by_value);
    bool broken = false;
    for (int32_t i = 0; i < target->count && !broken; i++) {
        int64_t rank = rank_of(j, target->percentile[i]);
        double sum = 0;
        for (int64_t r = 0; r < rank; r++)
            sum += work[r];
        double room =
            j->config->roles[j->prefill].replicas * (j->span + target->seconds[i] * MARGIN);
        broken = sum > room;
        if (broken)
            snprintf(j->detail, j->size_bytes,
                     "prompts take %.4g s of the %s GPUs, which have %.4g s", sum,
                     kvt_role_names[j->prefill], room);
    }
    free(work);
    return broken;
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
        snprintf(j->detail, j->size_bytes, "the fastest step takes %.4g ms, want %.4g ms",
                 1e3 * j->gap, 1e3 * slo->itl.seconds[i]);
        return KVT_BOUND_ITL;
    }
    if (j->config->workload.kind == KVT_WORKLOAD_CLOSED)
        return KVT_BOUND_NONE;
    qsort(j->prompts, (size_t)j->count, sizeof *j->prompts, by_value);
    qsort(j->whole, (size_t)j->count, sizeof *j->whole, by_value);
    if (breaks(j, &slo->ttft, j->prompts, j->latency, "TTFT"))
        return KVT_BOUND_TTFT;
    if (breaks(j, &slo->e2el, j->whole, 0, "E2EL"))
        return KVT_BOUND_E2EL;
    return breaks_load(j) ? KVT_BOUND_LOAD : KVT_BOUND_NONE;
}

enum kvt_status kvt_bounds_judge(const struct kvt_simulation *simulation, double rejected,
                                 enum kvt_bound *bound, char *detail, size_t size_bytes,
                                 struct kvt_err *err)
{
    bool split = simulation->fleet->present[KVT_ROLE_PREFILL];
    struct judge j = {.simulation = simulation,
                      .config = simulation->config,
                      .prefill = split ? KVT_ROLE_PREFILL : KVT_ROLE_SERVE,
                      .decode = split ? KVT_ROLE_DECODE : KVT_ROLE_SERVE,
                      .detail = detail,
                      .size_bytes = size_bytes};
    *bound = KVT_BOUND_NONE;
    detail[0] = '\0';
    const struct kvt_config_workload *load = &simulation->config->workload;
    if (load->decode_only || load->prefill_only || load->aborts.share > 0 ||
        load->aborts.timeout > 0 || simulation->faults != NULL)
        return KVT_OK;
    j.latency = seconds((double)simulation->fleet->roles[j.prefill].costs.request_latency);
    j.prompts = malloc(((size_t)simulation->trace.count + 1) * sizeof *j.prompts);
    j.whole = malloc(((size_t)simulation->trace.count + 1) * sizeof *j.whole);
    enum kvt_status status = KVT_OK;
    if (j.prompts == NULL || j.whole == NULL)
        status =
            kvt_err_set(err, KVT_ENOMEM, "no memory to judge %d requests", simulation->trace.count);
    else
        *bound = judge(&j, rejected);
    if (*bound == KVT_BOUND_NONE)
        detail[0] = '\0';
    free(j.prompts);
    free(j.whole);
    return status;
}
