/* fit_parts.h - law and surface of one fit (fit_law.c, fit_surface.c, fit_form.c); not for others
 */
#ifndef KVT_COST_FIT_PARTS_H
#define KVT_COST_FIT_PARTS_H

#include "sim/cost/fit.h"
#include "sim/cost/surface.h"

struct kvt_form_axis {
    int32_t size, knots;
    double doubling;  /* knots double from the least size up to this one; 0: evenly spread */
    const double *at; /* [knots]: these instead; NULL: from the rows */
};

/* What is fitted for a family: parameters, exponent, and the axes of its surface. */
struct kvt_form {
    unsigned parameters; /* bits of kvt_parameter */
    double p;
    double bending;  /* of the surface: weight of a squared second difference, against one row */
    double surprise; /* of the surface: residuals beyond this count less */
    struct kvt_form_axis axes[KVT_SURFACE_AXES]; /* knots 0 ends them */
    bool by_model; /* experts: a surface per model, with these axes: */
    struct kvt_form_axis model_axes[KVT_SURFACE_AXES];
};
const struct kvt_form *kvt_form_of(const struct kvt_series *series);

/* Where a search for the law starts: the guess of its family, or of a kernel like it. */
struct kvt_law kvt_form_start(const struct kvt_series *series, const struct kvt_form *form,
                              const struct kvt_gpu *gpu);

/* Improve law's parameters on the samples from 1 to KVT_FIT_STARTS starts, the first of which is
 * the law itself. No bandwidth beyond bandwidth_max: what is faster comes from a cache, and that is
 * for the surface to say. False: no memory, or GSL found no descent. */
#define KVT_FIT_STARTS 4
bool kvt_fit_law(struct kvt_law *law, unsigned parameters, int starts, double bandwidth_max,
                 const struct kvt_sample *const samples[], int64_t count);

/* The surface over axes (the form's, of its kind) that fits what law leaves over. NULL: no memory.
 */
struct kvt_surface *kvt_fit_surface(const struct kvt_law *law, const struct kvt_form *form,
                                    const struct kvt_form_axis axes[],
                                    const struct kvt_sample *const samples[], int64_t count);

/* Where the samples lie, by every size but routing and weight_bits: the law's grid. */
void kvt_fit_grid(struct kvt_law *law, const struct kvt_sample *const samples[], int64_t count);

/* A parameter by its index: kvt_parameter, then the times at later points. */
double *kvt_parameter_of(struct kvt_law *law, int parameter);

/* d ln(time) / d ln(parameter) at a row. */
double kvt_parameter_slope(const struct kvt_law *law, int parameter, const struct kvt_work *work);

/* Fill the fit's parameters: those of the law alone, from the rows that it was fitted to, taken as
 * independent. False: no memory, or singular (fit_parameters.c). */
bool kvt_fit_parameters(struct kvt_fit *fit, const struct kvt_law *law, unsigned parameters,
                        const struct kvt_sample *const samples[], int64_t count);

/* Rows that kvt_fit_law takes of so many: every stride-th, since more add nothing. */
int64_t kvt_fit_stride(int64_t count);

/* Leave out the balanced rows of models that run faster so than with skewed routing, though they
 * should read every expert: their router's groups reach a part of them only. Returns the rows
 * (fit_judge.c). */
int64_t kvt_series_judge_routing(struct kvt_series *series);

/* Few rows (fit_small.c): a law without a surface, whose parameters are those that the rows feel
 * and suffice for; fills laws, parameters, errors (five folds) and interval of the fit. False: no
 * memory, or singular. */
bool kvt_fit_small(struct kvt_fit *fit, const struct kvt_form *form, const struct kvt_gpu *gpu,
                   const struct kvt_sample *const samples[], int64_t count);

/* A hash by which rows and shapes are dealt out. */
uint64_t kvt_fit_hash(uint64_t x);

/* The weight of a residual in the next round: 1/sqrt(1 + (residual/scale)^2). */
double kvt_fit_weight(double residual, double scale);

#endif
