#include "sim/fault/rare.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

#include "sim/fault/proportion.h"

void kvt_tally_add(struct kvt_tally *tally, double value, double log_weight)
{
    tally->runs++;
    if (value == 0)
        return;
    double part = value * exp(log_weight);
    tally->hits++;
    tally->sum += part;
    tally->squares += part * part;
    if (part > tally->largest)
        tally->largest = part;
}

void kvt_tally_merge(struct kvt_tally *tally, const struct kvt_tally *other)
{
    tally->runs += other->runs;
    tally->hits += other->hits;
    tally->sum += other->sum;
    tally->squares += other->squares;
    if (other->largest > tally->largest)
        tally->largest = other->largest;
}

struct kvt_estimate kvt_tally_estimate(const struct kvt_tally *tally, double level)
{
    struct kvt_estimate estimate = {.low = 0, .high = 1, .error = 1};
    estimate.runs = tally->runs;
    estimate.hits = tally->hits;
    if (tally->runs < 2)
        return estimate;
    double n = (double)tally->runs, z = gsl_cdf_ugaussian_Pinv(0.5 + level / 2);
    estimate.p = tally->sum / n;
    estimate.error = sqrt(fmax(0, tally->squares / n - estimate.p * estimate.p) / (n - 1));
    estimate.low = fmax(0, estimate.p - z * estimate.error);
    estimate.high = estimate.p + z * estimate.error;
    if (tally->hits == 0)
        estimate.high = kvt_clopper_pearson(0, tally->runs, level).high;
    if (tally->hits == tally->runs) {
        double least = estimate.p * kvt_clopper_pearson(tally->runs, tally->runs, level).low;
        estimate.low = fmin(estimate.low, least);
    }
    if (tally->squares > 0) {
        estimate.effective = tally->sum * tally->sum / tally->squares;
        estimate.largest_share = tally->largest / tally->sum;
    }
    return estimate;
}

void kvt_force(double p, double *log_weight)
{
    *log_weight += log(p);
}

bool kvt_bias_event(struct kvt_stream *stream, double p, double biased, double *log_weight)
{
    bool happens = kvt_stream_unit(stream) < biased;
    if (p != biased)
        *log_weight += happens ? log(p / biased) : log1p(-p) - log1p(-biased);
    return happens;
}
