#include "sim/cost/laws.h"

#include <math.h>
#include <stddef.h>

#include "sim/base/assert.h"
#include "sim/cost/surface.h"

#define X(name, text, help) text,
const char *const kvt_family_names[KVT_FAMILY_COUNT] = {KVT_FAMILIES(X)};
#undef X
#define X(name, text) text,
const char *const kvt_law_names[KVT_LAW_KIND_COUNT] = {KVT_LAWS(X)};
const char *const kvt_dim_names[KVT_DIM_COUNT] = {KVT_DIMS(X)};
#undef X
#define X(name, member) #member,
const char *const kvt_parameter_names[KVT_PARAMETER_COUNT] = {KVT_PARAMETERS(X) "time[0]"};
#undef X
const char *const kvt_limit_names[KVT_LIMIT_COUNT] = {"launch", "memory", "compute", "link",
                                                      "host"};

/* The usual exponents without pow(), which would dominate the building of a table. */
static double pnorm(double a, double b, double p)
{
    double large = a > b ? a : b, small = a > b ? b : a;
    if (small <= 0.0)
        return large;
    double x = small / large;
    if (p == 1.0)
        return large + small;
    if (p == 2.0)
        return large * sqrt(1.0 + x * x);
    if (p == 3.0)
        return large * cbrt(1.0 + x * x * x);
    return large * pow(1.0 + pow(x, p), 1.0 / p);
}

static double over(double amount, double rate)
{
    return rate > 0.0 ? amount / rate : 0.0;
}

static enum kvt_limit largest(double launch, double memory, double compute)
{
    if (launch >= memory && launch >= compute)
        return KVT_LIMIT_LAUNCH;
    return memory >= compute ? KVT_LIMIT_MEMORY : KVT_LIMIT_COMPUTE;
}

/* Between the points around x on a log scale of at: index of the lower one and the share of the
 * upper one in 0..1; flat outside. */
static int32_t bracket(const struct kvt_law *law, double x, double *share)
{
    int32_t last = law->points - 1;
    *share = 0.0;
    if (x <= law->at[0] || last == 0)
        return 0;
    if (x >= law->at[last]) {
        *share = 1.0;
        return last - 1;
    }
    int32_t i = 0;
    while (law->at[i + 1] <= x)
        i++;
    *share = log(x / law->at[i]) / log(law->at[i + 1] / law->at[i]);
    return i;
}

static double time_at(const struct kvt_law *law, double x)
{
    double share;
    int32_t i = bracket(law, x, &share);
    return share == 0.0 ? law->time[i] : law->time[i] * pow(law->time[i + 1] / law->time[i], share);
}

static double decode_time(const struct kvt_law *law, const struct kvt_work *work,
                          enum kvt_limit *limit)
{
    double memory = over(work->token_bytes, law->bandwidth);
    double compute = over(work->token_flops, law->flops);
    double launch = law->t0;
    double rows = work->context + work->batch * law->tokens, scan = 0.0;
    if (law->kind == KVT_LAW_SPARSE) {
        launch += law->points > 0 ? time_at(law, work->batch) : 0.0;
        rows = work->windowed + work->batch * law->tokens;
        scan = over(work->context * work->index_bytes, law->index_bandwidth);
    }
    if (law->split > 0.0 && work->context > 0.0)
        launch += law->split * work->context / (work->context + work->batch * law->split_tokens);
    *limit = largest(launch, rows * memory + scan, rows * compute);
    return launch + scan + rows * pnorm(memory, compute, law->p);
}

static double buckets_time(const struct kvt_law *law, const struct kvt_work *work,
                           enum kvt_limit *limit)
{
    double share, weights = 0.5 * work->dim[KVT_DIM_N] * work->dim[KVT_DIM_K];
    int32_t i = bracket(law, work->dim[KVT_DIM_M], &share);
    double low = law->time[i] + over(weights, law->rate[i]);
    double launch = law->time[i];
    double t = low;
    if (share > 0.0) {
        double high = law->time[i + 1] + over(weights, law->rate[i + 1]);
        launch += share * (law->time[i + 1] - law->time[i]);
        t += share * (high - low);
    }
    *limit = largest(launch, t - launch, 0.0);
    double last = law->at[law->points - 1];
    return work->dim[KVT_DIM_M] > last ? t * (work->dim[KVT_DIM_M] / last) : t;
}

static double knots_time(const struct kvt_law *law, const struct kvt_work *work,
                         enum kvt_limit *limit)
{
    int32_t last = law->points - 1;
    double t = time_at(law, work->bytes);
    *limit = t < 2.0 * law->time[0] ? KVT_LIMIT_LAUNCH : KVT_LIMIT_LINK;
    return work->bytes > law->at[last] ? t * (work->bytes / law->at[last]) : t;
}

static double form_time(const struct kvt_law *law, const struct kvt_work *work,
                        enum kvt_limit *limit)
{
    switch (law->kind) {
    case KVT_LAW_CONSTANT:
        *limit = KVT_LIMIT_LAUNCH;
        return law->t0;
    case KVT_LAW_ROOFLINE: {
        double memory = over(work->bytes, law->bandwidth);
        double waste = law->pad * work->tile_flops;
        double flops = work->flops + (waste < work->flops ? waste : work->flops);
        double compute = over(flops, law->flops);
        double launch = law->t0 + law->serial * work->dim[KVT_DIM_K];
        *limit = largest(launch, memory, compute);
        return launch + pnorm(memory, compute, law->p);
    }
    case KVT_LAW_DECODE:
    case KVT_LAW_SPARSE:
        return decode_time(law, work, limit);
    case KVT_LAW_BUCKETS:
        return buckets_time(law, work, limit);
    case KVT_LAW_KNOTS:
        return knots_time(law, work, limit);
    case KVT_LAW_KIND_COUNT:
        break;
    }
    kvt_unreachable();
}

double kvt_law_time(const struct kvt_law *law, const struct kvt_work *work, enum kvt_limit *limit)
{
    enum kvt_limit ignored;
    double t = form_time(law, work, limit != NULL ? limit : &ignored);
    return law->surface == NULL ? t : t * kvt_surface_factor(law->surface, work);
}

bool kvt_law_admits(const struct kvt_law *law, const struct kvt_work *work)
{
    if (work->routed && law->skew > 0.0)
        return false;
    for (int d = 0; d < KVT_DIM_COUNT; d++)
        if (law->when[d].max > 0.0 &&
            (work->dim[d] < law->when[d].min || work->dim[d] > law->when[d].max))
            return false;
    return true;
}
