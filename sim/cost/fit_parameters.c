/* How well the rows of a fit tell the parameters of its law. */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_linalg.h>
#include <math.h>

#include "sim/cost/fit_parts.h"

#define SCALE       0.1  /* residuals beyond this count less; as in fit_law.c */
#define STEP        1e-4 /* of a logarithm, for derivatives */
#define KNOWN       0.7  /* half an interval, in logarithms, up to which a parameter is known */
#define MEMBERS_MAX (KVT_PARAMETER_COUNT + KVT_LAW_POINTS)

double *kvt_parameter_of(struct kvt_law *law, int parameter)
{
    double *const members[] = {
#define X(name, member) &law->member,
        KVT_PARAMETERS(X)
#undef X
    };
    return parameter >= KVT_PARAMETER_TIME ? &law->time[parameter - KVT_PARAMETER_TIME]
                                           : members[parameter];
}

double kvt_parameter_slope(const struct kvt_law *law, int parameter, const struct kvt_work *work)
{
    struct kvt_law up = *law, down = *law;
    *kvt_parameter_of(&up, parameter) *= exp(STEP);
    *kvt_parameter_of(&down, parameter) *= exp(-STEP);
    return log(kvt_law_time(&up, work, NULL) / kvt_law_time(&down, work, NULL)) / (2.0 * STEP);
}

/* The covariance of the parameters' logarithms, of an M-estimator with the weights of fit_law.c:
 * sum(psi^2) / (n - p) / mean(psi')^2 * inv(J'J). False: J'J is singular. */
static bool covariance(const struct kvt_law *law, const int which[], size_t p,
                       const struct kvt_sample *const samples[], int64_t count, gsl_matrix *out)
{
    double psi2 = 0.0, bend = 0.0, row[MEMBERS_MAX];
    gsl_matrix_set_zero(out);
    for (int64_t i = 0; i < count; i++) {
        double r = log(kvt_law_time(law, &samples[i]->work, NULL) / samples[i]->time);
        double w = kvt_fit_weight(r, SCALE);
        psi2 += w * r * w * r;
        bend += w * w * w / (double)count;
        for (size_t a = 0; a < p; a++)
            row[a] = kvt_parameter_slope(law, which[a], &samples[i]->work);
        for (size_t a = 0; a < p; a++)
            for (size_t b = 0; b < p; b++)
                *gsl_matrix_ptr(out, a, b) += row[a] * row[b];
    }
    for (size_t a = 0; a < p; a++) /* so that an unfelt one does not stop the others */
        *gsl_matrix_ptr(out, a, a) += 1e-9;
    if (gsl_linalg_cholesky_decomp1(out) != 0 || gsl_linalg_cholesky_invert(out) != 0)
        return false;
    double freedom = fmax(1.0, (double)count - (double)p);
    gsl_matrix_scale(out, psi2 / freedom / (bend * bend));
    return true;
}

bool kvt_fit_parameters(struct kvt_fit *fit, const struct kvt_law *fitted, unsigned parameters,
                        const struct kvt_sample *const samples[], int64_t count)
{
    int which[MEMBERS_MAX];
    size_t p = 0;
    struct kvt_law law = *fitted;
    law.surface = NULL;
    for (int i = 0; i < KVT_PARAMETER_COUNT; i++)
        if (parameters >> i & 1)
            which[p++] = i;
    size_t shown = p;
    for (int32_t k = 1; (parameters >> KVT_PARAMETER_TIME & 1) && k < law.points; k++)
        which[p++] = KVT_PARAMETER_COUNT + k - 1;
    gsl_matrix *c = gsl_matrix_alloc(p, p);
    bool fine = c != NULL && covariance(&law, which, p, samples, count, c);
    double t = gsl_cdf_tdist_Pinv(0.975, fmax(1.0, (double)count - (double)p));
    for (size_t a = 0; fine && a < shown && fit->parameter_count < KVT_FIT_PARAMETERS; a++) {
        double half = t * sqrt(gsl_matrix_get(c, a, a)), value = *kvt_parameter_of(&law, which[a]);
        struct kvt_fit_parameter *out = &fit->parameters[fit->parameter_count++];
        *out = (struct kvt_fit_parameter){.name = kvt_parameter_names[which[a]],
                                          .value = value,
                                          .low = value * exp(-fmin(half, 20.0)),
                                          .high = value * exp(fmin(half, 20.0)),
                                          .known = half <= KNOWN};
    }
    gsl_matrix_free(c);
    return fine;
}
