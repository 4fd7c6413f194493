#include "sim/plan/fault_rates.h"

#include <math.h>
#include <stdlib.h>

#include "sim/plan/fault_plan.h"

#define HOUR 3600.0

struct draw {
    const struct kvt_simulation *base;
    const struct kvt_config *config;
    uint64_t seed;
    double inflate;
    struct kvt_strike *strikes;
    int32_t count;
    double log_weight, mean; /* mean: strikes without inflation */
    double hazard;           /* H of fault_rates.h, so far */
    double skip;             /* hazard up to the first strike; < 0: it fell, or any may */
    double from, until;      /* s */
};

/* ---- checks ------------------------------------------------------------------------------- */

/* Variants that wait for an event of a transfer; of them, the one that waits for an abort. */
static bool waits_for_transfer(int32_t variant)
{
    switch (variant) {
    case KVT_STRIKE_FREE_SENDER:
    case KVT_STRIKE_WRITE_TRANSFER:
    case KVT_STRIKE_PARTIAL_EARLY:
    case KVT_STRIKE_PARTIAL_LOST:
    case KVT_STRIKE_MESSAGE_DONE:
    case KVT_STRIKE_MESSAGE_ACK:
    case KVT_STRIKE_MESSAGE_TWICE:
    case KVT_STRIKE_MESSAGE_OTHER:
        return true;
    default:
        return false;
    }
}

static enum kvt_status check_share(const struct draw *draw, const struct kvt_config_rate *row,
                                   int32_t variant, struct kvt_err *err)
{
    const char *name = kvt_fault_variants[variant].name, *per = kvt_rate_names[row->per];
    bool abort = row->per == KVT_RATE_ABORT;
    if (row->rate > 1)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.rates: a rate per %s is a share: want 0 to 1, got %g", per,
                          row->rate);
    if (abort ? variant != KVT_STRIKE_WRITE_ABORT : !waits_for_transfer(variant))
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.rates: %s/%s does not strike per %s", kvt_fault_names[row->fault],
                          name, per);
    if (!draw->base->des.core.disaggregated || draw->config->workload.decode_only)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.rates: nothing is handed from prefill to decode here");
    if (abort && draw->base->patience == NULL)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.rates: per abort, but workload.aborts lets nobody go away");
    if (row->lemons > 0)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.rates: lemons are GPUs: want a rate per gpu-hour or gb-hour");
    return KVT_OK;
}

/* ---- drawing ------------------------------------------------------------------------------ */

static enum kvt_status add(struct draw *draw, const struct kvt_config_rate *row, int32_t variant,
                           double at, int32_t replica, int32_t request, struct kvt_stream *stream,
                           struct kvt_err *err)
{
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[variant];
    if (draw->count == KVT_STRIKES_MAX)
        return kvt_err_at(err, KVT_ELIMIT, row->where,
                          "faults.rates: more than %d strikes in one run", KVT_STRIKES_MAX);
    struct kvt_strike strike = {
        .time = kvt_ticks_from_seconds(floor(at * 1e6) / 1e6),
        .row = -1,
        .variant = variant,
        .replica = replica,
        .request = request,
        .page = KVT_NONE,
        .amount = row->amount < 0 ? info->amount : row->amount,
        .delay = kvt_ticks_from_seconds(row->delay < 0 ? info->delay_s : row->delay),
    };
    if (row->exponential) {
        strike.mean = strike.delay;
        double mean = kvt_seconds_from_ticks(strike.mean);
        strike.delay = kvt_ticks_from_seconds(-log1p(-kvt_stream_unit(stream)) * mean);
    }
    if (variant == KVT_STRIKE_NODE_CRASH) /* a node that is down does not go down */
        for (int32_t i = 0; i < draw->count; i++) {
            const struct kvt_strike *s = &draw->strikes[i];
            if (s->variant == variant && s->replica == replica &&
                s->time < strike.time + strike.delay && strike.time < s->time + s->delay)
                return KVT_OK;
        }
    int32_t place = draw->count++;
    for (; place > 0 && draw->strikes[place - 1].time > strike.time; place--)
        draw->strikes[place] = draw->strikes[place - 1];
    draw->strikes[place] = strike;
    return KVT_OK;
}

static struct kvt_stream stream_of(const struct draw *draw, int32_t row, bool parts, int32_t number)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, draw->seed, KVT_PURPOSE_FAULT,
                    UINT64_C(7) << 61 | (uint64_t)row << 48 | (uint64_t)parts << 47 |
                        (uint64_t)number);
    return stream;
}

/* How much more than a GPU like all others this replica's GPUs err together. */
static double parts_of(const struct draw *draw, int32_t row, const struct kvt_config_rate *rate,
                       int32_t replica, int32_t gpus)
{
    if (rate->lemons <= 0 || rate->lemons >= 1)
        return gpus;
    double sum = 0;
    struct kvt_stream stream = stream_of(draw, row, true, replica);
    for (int32_t gpu = 0; gpu < gpus; gpu++)
        sum += kvt_stream_unit(&stream) < rate->lemons ? rate->carry / rate->lemons
                                                       : (1 - rate->carry) / (1 - rate->lemons);
    return sum;
}

/* Whether nothing falls in the next part, of this hazard, for the first strike lies behind it. */
static bool is_before_first(struct draw *draw, double hazard)
{
    draw->hazard += hazard;
    if (draw->skip < hazard)
        return false;
    draw->skip -= hazard;
    return true;
}

static enum kvt_status draw_process(struct draw *draw, int32_t row,
                                    const struct kvt_config_rate *rate, int32_t variant,
                                    struct kvt_err *err)
{
    const struct kvt_core *core = &draw->base->des.core;
    for (int32_t id = 0; id < core->replica_count; id++) {
        const struct kvt_memory *memory =
            &draw->base->fleet->roles[core->replicas[id].spec.role].plan.memory;
        double per_s = rate->rate / HOUR;
        if (rate->per != KVT_RATE_HOUR)
            per_s *= parts_of(draw, row, rate, id, memory->gpus_per_replica);
        if (rate->per == KVT_RATE_GB_HOUR)
            per_s *= 1e-9 * (double)memory->kv_pool_bytes;
        double inflated = per_s * draw->inflate, span = draw->until - draw->from;
        struct kvt_stream stream = stream_of(draw, row, false, id);
        draw->mean += per_s * span;
        draw->log_weight += (inflated - per_s) * span;
        double until = is_before_first(draw, per_s * span) ? draw->from : draw->until;
        double at = draw->from, first = draw->skip;
        while (inflated > 0 && until > at) {
            at += (first >= 0 ? first : -log1p(-kvt_stream_unit(&stream))) / inflated;
            first = -1;
            if (at >= until)
                break;
            draw->skip = -1;
            draw->log_weight -= log(draw->inflate);
            KVT_TRY(add(draw, rate, variant, at, id, KVT_NONE, &stream, err));
        }
    }
    return KVT_OK;
}

static enum kvt_status draw_shares(struct draw *draw, int32_t row,
                                   const struct kvt_config_rate *rate, int32_t variant,
                                   struct kvt_err *err)
{
    const struct kvt_trace *trace = &draw->base->trace;
    double p = rate->rate, biased = p * draw->inflate;
    biased = draw->inflate > 1 && biased > 0.5 ? fmax(p, 0.5) : biased;
    for (int32_t r = 0; r < trace->count; r++) {
        double at = kvt_seconds_from_ticks(trace->arrival[r]);
        bool leaves = rate->per != KVT_RATE_ABORT || draw->base->patience[r] != KVT_NEVER;
        if (!leaves || trace->output[r] < 2 || at < draw->from || at >= draw->until)
            continue;
        struct kvt_stream stream = stream_of(draw, row, false, r);
        draw->mean += p;
        bool falls = draw->skip >= 0;
        if (is_before_first(draw, -log1p(-p)))
            continue;
        if (!falls && p > 0)
            falls = kvt_bias_event(&stream, p, biased, &draw->log_weight);
        draw->skip = -1;
        if (falls)
            KVT_TRY(add(draw, rate, variant, at, KVT_NONE, r, &stream, err));
    }
    return KVT_OK;
}

static enum kvt_status draw_row(struct draw *draw, int32_t row, struct kvt_err *err)
{
    const struct kvt_config_rate *rate = &draw->config->faults.rates.rows[row];
    bool share = rate->per == KVT_RATE_TRANSFER || rate->per == KVT_RATE_ABORT;
    const char *name = rate->variant;
    if (name == NULL && rate->per == KVT_RATE_ABORT && rate->fault == KVT_FAULT_LATE_WRITE)
        name = "abort";
    int32_t variant;
    KVT_TRY(kvt_fault_find_variant(rate->fault, name, "faults.rates", rate->where, &variant, err));
    if (rate->delay > KVT_STRIKE_DELAY_MAX_S)
        return kvt_err_at(err, KVT_ECONFIG, rate->where,
                          "faults.rates: want a delay of at most %g s, got %g s",
                          KVT_STRIKE_DELAY_MAX_S, rate->delay);
    if (rate->amount >= 0)
        KVT_TRY(kvt_fault_check_amount(variant, rate->amount, "faults.rates", rate->where, err));
    if (!share && rate->lemons > 0 && rate->per == KVT_RATE_HOUR)
        return kvt_err_at(err, KVT_ECONFIG, rate->where,
                          "faults.rates: lemons are GPUs: want a rate per gpu-hour or gb-hour");
    if (!share)
        return draw_process(draw, row, rate, variant, err);
    KVT_TRY(check_share(draw, rate, variant, err));
    return draw_shares(draw, row, rate, variant, err);
}

static enum kvt_status draw_all(const struct kvt_simulation *base, uint64_t seed, double inflate,
                                double skip, struct kvt_strike strikes[], struct draw *draw,
                                struct kvt_err *err)
{
    const struct kvt_config *config = base->config;
    const struct kvt_trace *trace = &base->trace;
    *draw = (struct draw){.base = base,
                          .config = config,
                          .seed = seed,
                          .inflate = inflate,
                          .strikes = strikes,
                          .skip = skip};
    draw->from = config->faults.from;
    draw->until = config->faults.until >= 0 ? config->faults.until
                  : config->run.until >= 0
                      ? config->run.until
                      : kvt_seconds_from_ticks(trace->arrival[trace->count - 1]);
    KVT_TRY(kvt_fault_check_window(config, err));
    KVT_TRY(kvt_fault_plan(config, strikes, &draw->count, err));
    KVT_TRY(
        kvt_fault_check_targets(config, &base->des.core, base->names, strikes, draw->count, err));
    for (int32_t row = 0; row < config->faults.rates.count; row++)
        KVT_TRY(draw_row(draw, row, err));
    return KVT_OK;
}

enum kvt_status kvt_fault_draw_plan(const struct kvt_simulation *base, uint64_t seed,
                                    double inflate, struct kvt_strike strikes[], int32_t *count,
                                    double *log_weight, struct kvt_err *err)
{
    struct draw draw;
    KVT_TRY(draw_all(base, seed, inflate, -1, strikes, &draw, err));
    *count = draw.count;
    *log_weight = draw.log_weight;
    return KVT_OK;
}

enum kvt_status kvt_fault_draw_struck_plan(const struct kvt_simulation *base, uint64_t seed,
                                           struct kvt_strike strikes[], int32_t *count,
                                           double *log_chance, struct kvt_err *err)
{
    struct draw draw;
    KVT_TRY(draw_all(base, seed, 1, HUGE_VAL, strikes, &draw, err));
    double chance = -expm1(-draw.hazard);
    if (!(chance > 0))
        return kvt_err_at(err, KVT_ECONFIG, base->config->faults.where,
                          "faults: its rates let nothing strike");
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_FAULT, UINT64_C(3) << 61);
    double skip = -log1p(-chance * kvt_stream_unit(&stream));
    KVT_TRY(draw_all(base, seed, 1, skip, strikes, &draw, err));
    *count = draw.count;
    *log_chance = log(chance);
    return KVT_OK;
}

enum kvt_status kvt_fault_plan_mean(const struct kvt_simulation *base, double *mean,
                                    struct kvt_err *err)
{
    struct draw draw;
    struct kvt_strike *strikes = malloc(KVT_STRIKES_MAX * sizeof *strikes);
    if (strikes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d strikes", KVT_STRIKES_MAX);
    enum kvt_status status = draw_all(base, base->config->run.seed, 1, -1, strikes, &draw, err);
    *mean = draw.mean;
    free(strikes);
    return status;
}

/* ---- printing ----------------------------------------------------------------------------- */

void kvt_fault_print_plan(const struct kvt_strike strikes[], int32_t count, FILE *out)
{
    fputs(count > 0 ? "  plan:\n" : "  plan: []\n", out);
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_strike *s = &strikes[i];
        const struct kvt_fault_variant_info *info = &kvt_fault_variants[s->variant];
        fprintf(out, "  - {fault: %s, variant: %s, at: %.6f s", kvt_fault_names[info->kind],
                info->name, kvt_seconds_from_ticks(s->time));
        if (s->replica != KVT_NONE)
            fprintf(out, ", replica: %d", s->replica);
        if (s->request != KVT_NONE)
            fprintf(out, ", request: %d", s->request);
        if (s->page != KVT_NONE)
            fprintf(out, ", page: %d", s->page);
        fprintf(out, ", amount: %.17g, delay: %.9f s}\n", s->amount,
                kvt_seconds_from_ticks(s->delay));
    }
}
