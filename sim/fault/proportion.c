#include "sim/fault/proportion.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

static double two_sided(double level)
{
    return gsl_cdf_ugaussian_Pinv(0.5 + level / 2);
}

struct kvt_interval kvt_wilson(int64_t hits, int64_t trials, double level)
{
    if (trials <= 0)
        return (struct kvt_interval){0, 1};
    double n = (double)trials, p = (double)hits / n, z = two_sided(level), z2 = z * z / n;
    double middle = (p + z2 / 2) / (1 + z2);
    double half = z * sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2);
    return (struct kvt_interval){hits == 0 ? 0 : middle - half, hits == trials ? 1 : middle + half};
}

struct kvt_interval kvt_clopper_pearson(int64_t hits, int64_t trials, double level)
{
    if (trials <= 0)
        return (struct kvt_interval){0, 1};
    double tail = (1 - level) / 2, k = (double)hits, misses = (double)(trials - hits);
    return (struct kvt_interval){
        hits == 0 ? 0 : gsl_cdf_beta_Pinv(tail, k, misses + 1),
        hits == trials ? 1 : gsl_cdf_beta_Qinv(tail, k + 1, misses),
    };
}

double kvt_trials_for(double p, double error, double level)
{
    double z = two_sided(level);
    return ceil(z * z * p * (1 - p) / (error * error));
}
