#include "sim/fault/proportion.h"

#include <gsl/gsl_cdf.h>

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
