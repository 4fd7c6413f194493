/*
 * error_factors.h - how far the laws may be from the truth: one factor per family and shape
 *
 * The error of a kernel family is mostly one of its law, not of its parameters: a projection that
 * is 10 % slower than its law is so in every layer and every step. So a resample of a run draws one
 * factor per family and shape, and keeps it for the whole run; errors of different shapes are
 * independent, those of 61 equal layers are one and the same.
 *
 *   shape      the sizes that a model and its layout fix, as held-out rows are clustered by them:
 *              n and k; heads, kv_heads and head_dim; hidden, inter, experts, topk and ranks.
 *              Not m, batch or context: a projection at m = 1 and at m = 64 shares its factor.
 *              Constants of hosts and gaps have no shape: one draw a family.
 *
 *   draw       a standard normal z: number `resample` of the Philox stream named after family and
 *              shape (purpose KVT_PURPOSE_COST). It knows neither GPU nor calibration nor what
 *              else is in the step: resample r of two configs shares the draws of the shapes that
 *              both have, and one kernel more moves no other (common random numbers). GPUs err
 *              alike: over the shapes of public GEMM, attention and expert tables the mean log
 *              errors of H100 and H200 are correlated by 0.6 to 1.0.
 *
 *   factor     exp(z/1.645 * ln(high)) for z > 0, exp(-z/1.645 * ln(low)) for z < 0: the median is
 *              the law, low and high are the 5 % and 95 % quantiles. Where an interval leaves out
 *              1 (the law is biased) the factor is log-normal between its ends.
 *
 *   constant   with a `scatter` in units of time: t0 + z/1.645 * scatter instead of a factor.
 *
 * What low and high are, the first that a law states (kvt_law_spread_of):
 *
 *   scatter    1/(1 + scatter) and 1 + scatter.
 *
 *   unseen     its low and high: of measured/predicted over shapes that took no part in the fit.
 *              Where less than 90 % of other unseen shapes lay inside (coverage), their logarithms
 *              grow as a normal's would.
 *
 *   p90        1/(1 + p90) and 1 + p90, of the error on rows that took no part in the fit; where
 *              a mean and a median alone are stated, p90 = max(2.06 mean, 2.44 median) of a normal.
 *
 *   nothing    2/3 and 1.5; for guesses 0.72 and 5.9 (where 90 % of 48,000 rows of 115 public
 *              kernel series lie beside their guesses), for guessed constants 1/3 and 3.
 *
 * Both ends hold the whole scatter of rows, of which much lies inside a shape: GEMM rows scatter by
 * 10 to 17 %, the means of their shapes by 2 to 3 %, since tiles change with m. A run that stays at
 * one batch size meets all of it; one that passes through many would see part of it average away,
 * which one factor a shape does not: intervals are then rather too wide than too narrow.
 */
#ifndef KVT_COST_ERROR_FACTORS_H
#define KVT_COST_ERROR_FACTORS_H

#include "sim/cost/laws.h"

#define KVT_ERROR_SHAPES 512 /* that are remembered; more are drawn again at each use */

/* Where 90 % of the true times lie, against what the law says. */
struct kvt_law_spread {
    double low, high; /* factors, 0 < low <= high */
    double shift;     /* s; of a constant: added, within +-shift */
};

struct kvt_error_factors {
    uint64_t seed, resample;
    int32_t count; /* of those remembered */
    struct kvt_error_entry {
        uint64_t key;
        const struct kvt_law *law; /* NULL: free */
        double factor, shift;      /* s */
    } entries[KVT_ERROR_SHAPES];
};

/* The errors of one resample of runs with this seed. Cheap; each thread needs its own. */
void kvt_error_factors_init(struct kvt_error_factors *errors, uint64_t seed, uint64_t resample);

/* The true time, in this resample, of work that law says takes time seconds. Not below zero, but
 * for layer-*: what is not listed may be overlap, which makes a layer shorter. 10 to 20 ns, 0.3 us
 * at the first use of a shape. */
double kvt_error_time(struct kvt_error_factors *errors, const struct kvt_law *law,
                      const struct kvt_work *work, double time);

/* The standard normal draw of a family and the shape of work. */
double kvt_error_draw(uint64_t seed, uint64_t resample, enum kvt_family family,
                      const struct kvt_work *work);

struct kvt_law_spread kvt_law_spread_of(const struct kvt_law *law);

#endif
