#include "sim/fault/rare.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

double kvt_bias_delay(struct kvt_stream *stream, double rate, double biased, double *log_weight)
{
    double delay = -log1p(-kvt_stream_unit(stream)) / biased;
    *log_weight += log(rate / biased) - (rate - biased) * delay;
    return delay;
}

static enum kvt_status check(const struct kvt_splitting *s, struct kvt_err *err)
{
    if (s->levels < 1 || s->levels > 64)
        return kvt_err_set(err, KVT_ELIMIT, "splitting: %d levels; 1 to 64", s->levels);
    if (s->effort < 1 || s->effort > 100000000)
        return kvt_err_set(err, KVT_ELIMIT, "splitting: %d clones a level; 1 to 100000000",
                           s->effort);
    if (s->replications < 2 || s->replications > 10000)
        return kvt_err_set(err, KVT_ELIMIT, "splitting: %d replications; 2 to 10000, for an error",
                           s->replications);
    if (s->state_bytes < 1 || s->state_bytes > SIZE_MAX / 2 / (size_t)s->effort)
        return kvt_err_set(err, KVT_ELIMIT, "splitting: states of %zu bytes", s->state_bytes);
    return KVT_OK;
}

/* One replication: the product of the shares. Survivors of a level lie at the front of `from`. */
static double replicate(const struct kvt_splitting *s, int32_t replication, unsigned char *from,
                        unsigned char *to, int64_t survivors[])
{
    double p = 1;
    int64_t alive = 0;
    for (int32_t level = 0; level < s->levels; level++) {
        int64_t reached = 0;
        for (int32_t trial = 0; trial < s->effort; trial++) {
            struct kvt_stream stream; /* of its own: a clone must not repeat its parent's draws */
            kvt_stream_init(&stream, s->seed, KVT_PURPOSE_FAULT,
                            (uint64_t)replication << 40 | (uint64_t)level << 34 | (uint64_t)trial);
            unsigned char *state = to + (size_t)reached * s->state_bytes;
            if (level == 0)
                s->start(s->context, state, &stream);
            else
                memcpy(state, from + kvt_stream_below(&stream, (uint64_t)alive) * s->state_bytes,
                       s->state_bytes);
            if (s->advance(s->context, state, level, &stream))
                reached++;
        }
        survivors[level] += reached;
        p *= (double)reached / s->effort;
        if (reached == 0)
            return 0;
        unsigned char *swap = from;
        from = to;
        to = swap;
        alive = reached;
    }
    return p;
}

enum kvt_status kvt_splitting_run(const struct kvt_splitting *s, double level,
                                  struct kvt_estimate *estimate, struct kvt_err *err)
{
    *estimate = (struct kvt_estimate){.high = 1, .error = 1};
    enum kvt_status status = check(s, err);
    if (status != KVT_OK)
        return status;
    size_t bytes = (size_t)s->effort * s->state_bytes;
    unsigned char *states = malloc(2 * bytes);
    if (states == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "splitting: no memory for 2 x %d states of %zu bytes",
                           s->effort, s->state_bytes);
    int64_t survivors[64] = {0};
    double sum = 0, squares = 0, n = s->replications;
    for (int32_t r = 0; r < s->replications; r++) {
        double p = replicate(s, r, states, states + bytes, survivors);
        sum += p;
        squares += p * p;
        estimate->hits += p > 0;
    }
    free(states);
    double t = gsl_cdf_tdist_Pinv(0.5 + level / 2, n - 1);
    estimate->p = sum / n;
    estimate->error = sqrt(fmax(0, squares / n - estimate->p * estimate->p) / (n - 1));
    estimate->low = fmax(0, estimate->p - t * estimate->error);
    estimate->high = estimate->p + t * estimate->error;
    estimate->runs = (int64_t)s->levels * s->effort * s->replications;
    estimate->effective = (double)survivors[0];
    for (int32_t i = 1; i < s->levels; i++)
        estimate->effective = fmin(estimate->effective, (double)survivors[i]);
    return KVT_OK;
}
