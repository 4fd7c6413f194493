/* The parameters of one law: gsl_multifit_nlinear on logarithms. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>

#include "sim/cost/fit_parts.h"

#define SCALE      0.1  /* residuals beyond this count less */
#define PRIOR      0.05 /* pull of a logarithm towards its start, against one row: see below */
#define WALL       1e3  /* against one row, for a logarithm beyond its bound */
#define BEND       16.0 /* the same, for the second difference of times at three points */
#define ROUNDS     5
#define ITERATIONS 60
#define ROWS_MAX   2000 /* for a handful of parameters more rows add nothing */

double kvt_fit_weight(double residual, double scale)
{
    double x = residual / scale;
    return 1.0 / sqrt(1.0 + x * x);
}

/* One problem: the rows, the law that is being changed, and which of its members. The residuals of
 * the parameters themselves (weakly tied to their start) come after those of the rows: a parameter
 * that no row depends on would otherwise make the fit singular. */
#define MEMBERS_MAX (KVT_PARAMETER_COUNT + KVT_LAW_POINTS)
struct problem {
    struct kvt_law law;
    double *member[MEMBERS_MAX];
    enum kvt_parameter which[MEMBERS_MAX];
    double start[MEMBERS_MAX], most[MEMBERS_MAX];
    size_t members;
    const struct kvt_sample *const *samples;
    size_t rows, stride;
};

static void set_members(struct problem *p, const gsl_vector *x)
{
    for (size_t i = 0; i < p->members; i++) {
        double value = gsl_vector_get(x, i); /* exp of less stays a number */
        *p->member[i] = exp(fmax(-80.0, fmin(80.0, value)));
    }
}

static int residuals(const gsl_vector *x, void *data, gsl_vector *out)
{
    struct problem *p = data;
    set_members(p, x);
    for (size_t i = 0; i < p->rows; i++) {
        const struct kvt_sample *s = p->samples[i * p->stride];
        gsl_vector_set(out, i, log(kvt_law_time(&p->law, &s->work, NULL) / s->time));
    }
    for (size_t i = 0; i < p->members; i++) {
        double value = gsl_vector_get(x, i);
        double over = fmax(0.0, value - p->most[i]);
        gsl_vector_set(out, p->rows + i, PRIOR * (value - p->start[i]) + WALL * over);
        bool between = i > 0 && i + 1 < p->members && p->which[i - 1] == KVT_PARAMETER_TIME &&
                       p->which[i + 1] == KVT_PARAMETER_TIME;
        double bend =
            between ? gsl_vector_get(x, i - 1) - 2.0 * value + gsl_vector_get(x, i + 1) : 0.0;
        gsl_vector_set(out, p->rows + p->members + i, BEND * bend);
    }
    return GSL_SUCCESS;
}

static double cost_of(const gsl_vector *r, size_t rows)
{
    double cost = 0.0;
    for (size_t i = 0; i < rows; i++) {
        double x = gsl_vector_get(r, i) / SCALE;
        cost += sqrt(1.0 + x * x) - 1.0;
    }
    return cost;
}

/* All rounds from one start, which x holds; the end in x. Returns the robust cost, or infinity. */
static double solve(struct problem *p, gsl_multifit_nlinear_workspace *work, gsl_vector *x,
                    gsl_vector *weights)
{
    gsl_multifit_nlinear_fdf fdf = {
        .f = residuals, .n = p->rows + 2 * p->members, .p = p->members, .params = p};
    double cost = HUGE_VAL;
    gsl_vector_set_all(weights, 1.0);
    for (int round = 0; round < ROUNDS; round++) {
        int info;
        if (gsl_multifit_nlinear_winit(x, weights, &fdf, work) != GSL_SUCCESS)
            return HUGE_VAL;
        int status =
            gsl_multifit_nlinear_driver(ITERATIONS, 1e-6, 1e-8, 1e-8, NULL, NULL, &info, work);
        if (status != GSL_SUCCESS && status != GSL_EMAXITER && status != GSL_ENOPROG)
            return HUGE_VAL;
        gsl_vector_memcpy(x, gsl_multifit_nlinear_position(work));
        /* the workspace holds weighted residuals; take the plain ones */
        gsl_vector *r = gsl_multifit_nlinear_residual(work);
        residuals(x, p, r);
        cost = cost_of(r, p->rows);
        for (size_t i = 0; i < p->rows; i++)
            gsl_vector_set(weights, i, kvt_fit_weight(gsl_vector_get(r, i), SCALE));
    }
    return isfinite(cost) ? cost : HUGE_VAL;
}

/* Starts: as given; a slow launch; a slow memory; slow matrix units. */
static double start_factor(int start, enum kvt_parameter parameter)
{
    if (start == 1 && (parameter == KVT_PARAMETER_T0 || parameter == KVT_PARAMETER_TIME))
        return 3.0;
    if (start == 2 && parameter == KVT_PARAMETER_BANDWIDTH)
        return 0.3;
    if (start == 3 && parameter == KVT_PARAMETER_FLOPS)
        return 0.3;
    return 1.0;
}

int64_t kvt_fit_stride(int64_t count)
{
    return (count + ROWS_MAX - 1) / ROWS_MAX;
}

/* The members of p->law that are fitted, from where they are; times at all of its points. */
static void choose_members(struct problem *p, unsigned parameters, double bandwidth_max)
{
    for (int i = 0; i < KVT_PARAMETER_COUNT; i++) {
        int32_t count = i == KVT_PARAMETER_TIME ? p->law.points : 1;
        bool bounded = i == KVT_PARAMETER_BANDWIDTH;
        for (int32_t k = 0; (parameters >> i & 1) && k < count; k++) {
            double *member = kvt_parameter_of(&p->law, i + k);
            p->which[p->members] = (enum kvt_parameter)i;
            p->most[p->members] = bounded ? log(bandwidth_max) : HUGE_VAL;
            p->start[p->members] = log(bounded ? fmin(*member, bandwidth_max) : *member);
            p->member[p->members++] = member;
        }
    }
}

bool kvt_fit_law(struct kvt_law *law, unsigned parameters, int starts, double bandwidth_max,
                 const struct kvt_sample *const samples[], int64_t count)
{
    struct problem p = {.law = *law, .samples = samples};
    choose_members(&p, parameters, bandwidth_max);
    p.stride = (size_t)kvt_fit_stride(count);
    p.rows = (size_t)count / p.stride;
    gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
    how.trs = gsl_multifit_nlinear_trs_lm;
    gsl_multifit_nlinear_workspace *work = gsl_multifit_nlinear_alloc(
        gsl_multifit_nlinear_trust, &how, p.rows + 2 * p.members, p.members);
    gsl_vector *x = gsl_vector_alloc(p.members), *best = gsl_vector_alloc(p.members);
    gsl_vector *weights = gsl_vector_alloc(p.rows + 2 * p.members);
    double least = HUGE_VAL;
    bool memory = work != NULL && x != NULL && best != NULL && weights != NULL;
    for (int start = 0; memory && start < starts; start++) {
        for (size_t i = 0; i < p.members; i++)
            gsl_vector_set(x, i, p.start[i] + log(start_factor(start, p.which[i])));
        double cost = solve(&p, work, x, weights);
        if (cost < least) {
            least = cost;
            gsl_vector_memcpy(best, x);
        }
    }
    if (isfinite(least)) {
        set_members(&p, best);
        *law = p.law;
    }
    gsl_vector_free(x);
    gsl_vector_free(best);
    gsl_vector_free(weights);
    gsl_multifit_nlinear_free(work);
    return isfinite(least);
}
