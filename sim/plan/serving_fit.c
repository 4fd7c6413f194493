#include "sim/plan/serving_fit.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan/serving_world.h"

enum { P = KVT_HOST_CONSTANT_COUNT };

#define DIFFERENCE  0.05 /* of a unit, each way, for derivatives */
#define FELT        5e-3 /* a usual change moves the metrics by this much in the mean square */
#define APART       0.15 /* of an effect, that the others do not explain */
#define LIKE        0.9  /* correlation from which one constant stands for another */
#define SPREAD_MIN  2e-3 /* of the residuals: no benchmark repeats better */
#define WALL        10.0 /* residual of a unit beyond a bound */
#define ITERATIONS  30
#define SKEW_LEAST  0.01
#define FLOOR_SHARE 0.95 /* of the least TPOT: a floor there is felt */
#define FLOOR_GAIN  0.5  /* of the squares that must be left for a raised floor to be believed */

#define X(name, text) text,
const char *const kvt_host_constant_names[P] = {KVT_HOST_CONSTANTS(X)};
#undef X

/* What a constant is counted in, what is a usual change of it in that unit, and its bounds. */
static const struct {
    double unit, usual, least, most;
} scales[P] = {
    [KVT_HOST_CONSTANT_LAYER] = {10e-6, 3.0, 0.0, 10e-3},
    [KVT_HOST_CONSTANT_HOST] = {1e-3, 3.0, 0.0, 1.0},
    [KVT_HOST_CONSTANT_REQUEST] = {10e-3, 5.0, 0.0, 10.0},
    [KVT_HOST_CONSTANT_SKEW] = {0.1, 4.0, SKEW_LEAST, 1.0},
};

struct problem {
    struct kvt_serving_world *world;
    struct kvt_serving_residual *rows; /* all; those that are fitted count */
    int32_t row_count;
    size_t fitted;  /* rows */
    double base[P]; /* of those that are not turned */
    int which[P];   /* that are turned */
    size_t turned;
    double *metrics; /* [runs * KVT_BENCH_METRIC_COUNT] of the last evaluation */
    enum kvt_status status;
    struct kvt_err *err;
};

static double clip(int p, double x)
{
    double value = x * scales[p].unit;
    return fmin(fmax(value, scales[p].least), scales[p].most);
}

/* Simulate all runs with these values. */
static bool evaluate(struct problem *p, const double values[P])
{
    kvt_serving_world_set(p->world, values);
    for (int32_t r = 0; r < p->world->count && p->status == KVT_OK; r++)
        p->status =
            kvt_serving_world_run(p->world, r, &p->metrics[r * KVT_BENCH_METRIC_COUNT], p->err);
    return p->status == KVT_OK;
}

/* GSL gives NULL, or a fit that ends early. */
static void out_of_memory(struct problem *p)
{
    p->status = kvt_err_set(p->err, KVT_ENOMEM, "no memory to fit");
}

static double simulated(const struct problem *p, const struct kvt_serving_residual *row)
{
    return p->metrics[row->run * KVT_BENCH_METRIC_COUNT + (int)row->metric];
}

static void values_at(const struct problem *p, const gsl_vector *x, double values[P])
{
    memcpy(values, p->base, sizeof p->base);
    for (size_t i = 0; i < p->turned; i++)
        values[p->which[i]] = clip(p->which[i], gsl_vector_get(x, i));
}

/* ln(simulated / measured) of the fitted rows into out[0..fitted-1]. */
static bool logs_at(struct problem *p, const double values[P], gsl_vector *out)
{
    size_t at = 0;
    if (!evaluate(p, values))
        return false;
    for (int32_t i = 0; i < p->row_count; i++)
        if (p->rows[i].fitted)
            gsl_vector_set(out, at++, log(simulated(p, &p->rows[i]) / p->rows[i].observed));
    return true;
}

static int residuals(const gsl_vector *x, void *data, gsl_vector *out)
{
    struct problem *p = data;
    double values[P];
    values_at(p, x, values);
    if (!logs_at(p, values, out))
        return GSL_EFAILED;
    for (size_t i = 0; i < p->turned; i++) {
        double beyond = gsl_vector_get(x, i) - values[p->which[i]] / scales[p->which[i]].unit;
        gsl_vector_set(out, p->fitted + i, WALL * beyond);
    }
    return GSL_SUCCESS;
}

/* d ln(simulated) / d x by differences of a twentieth of a unit, inside the bounds. */
static int slopes(const gsl_vector *x, void *data, gsl_matrix *out)
{
    struct problem *p = data;
    gsl_vector *up = gsl_vector_alloc(p->fitted), *down = gsl_vector_alloc(p->fitted);
    if (up == NULL || down == NULL)
        out_of_memory(p);
    gsl_matrix_set_zero(out);
    for (size_t i = 0; p->status == KVT_OK && i < p->turned; i++) {
        double high[P], low[P];
        int c = p->which[i];
        values_at(p, x, high);
        memcpy(low, high, sizeof low);
        high[c] = clip(c, high[c] / scales[c].unit + DIFFERENCE);
        low[c] = clip(c, low[c] / scales[c].unit - DIFFERENCE);
        if (!logs_at(p, high, up) || !logs_at(p, low, down))
            break;
        double width = (high[c] - low[c]) / scales[c].unit;
        gsl_vector_sub(up, down);
        for (size_t k = 0; k < p->fitted; k++)
            gsl_matrix_set(out, k, i, gsl_vector_get(up, k) / width);
        double own = gsl_vector_get(x, i) - high[c] / scales[c].unit;
        if (fabs(own) > DIFFERENCE * 1.5)
            gsl_matrix_set(out, p->fitted + i, i, WALL);
    }
    gsl_vector_free(up);
    gsl_vector_free(down);
    return p->status == KVT_OK ? GSL_SUCCESS : GSL_EFAILED;
}

/* ---- which constants the runs can tell ---- */

static void keep(struct kvt_serving_constant *constant, const char *format, const char *what)
{
    snprintf(constant->why, sizeof constant->why, "%s%s", format, what);
}

/* Take constant c unless the runs do not feel it, or the ones taken before explain its effect.
 * basis has the orthonormal effects of those. */
static void consider(struct problem *p, struct kvt_serving_fit *fit, int c, gsl_vector *effect,
                     gsl_matrix *basis)
{
    struct kvt_serving_constant *constant = &fit->constants[c];
    double norm = gsl_blas_dnrm2(effect), most = 0.0;
    int like = -1;
    if (norm * scales[c].usual / sqrt((double)p->fitted) < FELT) {
        keep(constant, "no metric of these runs feels it", "");
        return;
    }
    if (p->turned + 1 >= p->fitted) {
        keep(constant, "there are too few metrics", "");
        return;
    }
    gsl_vector_scale(effect, 1.0 / norm);
    for (size_t i = 0; i < p->turned; i++) {
        double share;
        gsl_vector_view column = gsl_matrix_column(basis, i);
        gsl_blas_ddot(&column.vector, effect, &share);
        gsl_blas_daxpy(-share, &column.vector, effect);
        if (fabs(share) > most)
            most = fabs(share), like = p->which[i];
    }
    double apart = gsl_blas_dnrm2(effect);
    if (like >= 0 && apart < APART) {
        keep(constant, "these runs do not tell it apart from ", kvt_host_constant_names[like]);
        return;
    }
    gsl_vector_scale(effect, 1.0 / apart);
    gsl_matrix_set_col(basis, p->turned, effect);
    p->which[p->turned++] = c;
}

/* The effects at the shipped constants decide. */
static bool choose(struct problem *p, struct kvt_serving_fit *fit)
{
    struct problem all = *p;
    gsl_vector *x = gsl_vector_alloc(P), *effect = gsl_vector_alloc(p->fitted);
    gsl_matrix *effects = gsl_matrix_alloc(p->fitted + P, P);
    gsl_matrix *basis = gsl_matrix_alloc(p->fitted, P);
    bool fine = x != NULL && effect != NULL && effects != NULL && basis != NULL;
    all.turned = 0;
    for (int c = 0; fine && c < P; c++) {
        gsl_vector_set(x, all.turned, p->base[c] / scales[c].unit);
        if (p->world->missing[c] == NULL)
            all.which[all.turned++] = c;
        else
            keep(&fit->constants[c], p->world->missing[c], "");
    }
    fine = fine && slopes(x, &all, effects) == GSL_SUCCESS;
    p->status = all.status;
    for (size_t i = 0; fine && i < all.turned; i++) {
        for (size_t k = 0; k < p->fitted; k++)
            gsl_vector_set(effect, k, gsl_matrix_get(effects, k, i));
        consider(p, fit, all.which[i], effect, basis);
    }
    gsl_vector_free(x);
    gsl_vector_free(effect);
    gsl_matrix_free(effects);
    gsl_matrix_free(basis);
    return fine;
}

/* ---- the fit ---- */

/* (J' J)^-1 of the constants in turn into c, which is zero and stays so where it is singular. From
 * J = Q R: GSL's own covariance crashes where memory ends. */
static void covariance(struct problem *p, const gsl_matrix *jacobian, double c[P][P])
{
    size_t n = p->turned, order[P] = {0};
    double tau[P], norm[P];
    int sign;
    gsl_vector_view t = gsl_vector_view_array(tau, n), m = gsl_vector_view_array(norm, n);
    gsl_permutation pivots = {.size = n, .data = order};
    gsl_matrix *qr = gsl_matrix_alloc(jacobian->size1, n);
    if (qr == NULL) {
        out_of_memory(p);
        return;
    }
    gsl_matrix_memcpy(qr, jacobian);
    gsl_linalg_QRPT_decomp(qr, &t.vector, &pivots, &sign, &m.vector);
    gsl_matrix_view r = gsl_matrix_submatrix(qr, 0, 0, n, n);
    bool fine = gsl_linalg_QRPT_rank(qr, -1.0) == n &&
                gsl_linalg_tri_invert(CblasUpper, CblasNonUnit, &r.matrix) == GSL_SUCCESS;
    for (size_t i = 0; fine && i < n; i++)
        for (size_t k = 0; k < n; k++) {
            double sum = 0.0;
            for (size_t j = i > k ? i : k; j < n; j++)
                sum += gsl_matrix_get(qr, i, j) * gsl_matrix_get(qr, k, j);
            c[order[i]][order[k]] = sum;
        }
    gsl_matrix_free(qr);
}

/* Half of each interval, in units, from the covariance (HUGE_VAL where it is singular), and for
 * each constant the one that it is most like. */
static void half_widths(struct problem *p, const gsl_matrix *jacobian, const gsl_vector *residual,
                        double half[P], int like[P])
{
    double c[P][P] = {{0.0}}, square = 0.0, freedom = (double)p->fitted - (double)p->turned;
    for (size_t i = 0; i < p->fitted; i++)
        square += gsl_vector_get(residual, i) * gsl_vector_get(residual, i);
    double spread = fmax(sqrt(square / freedom), SPREAD_MIN);
    double t = gsl_cdf_tdist_Pinv(0.975, freedom);
    covariance(p, jacobian, c);
    for (size_t i = 0; i < p->turned; i++) {
        double variance = c[i][i], most = LIKE;
        half[i] = variance > 0.0 ? t * spread * sqrt(variance) : HUGE_VAL;
        like[i] = -1;
        for (size_t k = 0; variance > 0.0 && k < p->turned; k++) {
            double both = variance * c[k][k];
            double alike = both > 0.0 ? fabs(c[i][k]) / sqrt(both) : 0.0;
            if (k != i && alike > most)
                most = alike, like[i] = p->which[k];
        }
    }
}

/* Turn the chosen constants until the residuals are least. half: of the intervals. */
static bool solve(struct problem *p, gsl_vector *x, double half[P], int like[P])
{
    gsl_multifit_nlinear_fdf fdf = {
        .f = residuals, .df = slopes, .n = p->fitted + p->turned, .p = p->turned, .params = p};
    gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *work =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, fdf.n, fdf.p);
    if (work == NULL) {
        out_of_memory(p);
        return false;
    }
    int info, why = gsl_multifit_nlinear_init(x, &fdf, work);
    if (why == GSL_SUCCESS)
        why = gsl_multifit_nlinear_driver(ITERATIONS, 1e-4, 1e-6, 1e-6, NULL, NULL, &info, work);
    if (why == GSL_ENOMEM)
        out_of_memory(p);
    if (p->status == KVT_OK) {
        gsl_vector_memcpy(x, gsl_multifit_nlinear_position(work));
        half_widths(p, gsl_multifit_nlinear_jac(work), gsl_multifit_nlinear_residual(work), half,
                    like);
    }
    gsl_multifit_nlinear_free(work);
    return p->status == KVT_OK;
}

/* The constant whose interval is widest against what is usual, or against half of itself, if it is
 * wider than both. */
static size_t least_known(const struct problem *p, const gsl_vector *x, const double half[P])
{
    size_t worst = p->turned;
    double most = 1.0;
    for (size_t i = 0; i < p->turned; i++) {
        double width = half[i] / fmax(scales[p->which[i]].usual, 0.5 * gsl_vector_get(x, i));
        if (width > most)
            most = width, worst = i;
    }
    return worst;
}

static void set_constants(const struct problem *p, struct kvt_serving_fit *fit, const gsl_vector *x,
                          const double half[P])
{
    for (size_t i = 0; i < p->turned; i++) {
        int c = p->which[i];
        struct kvt_serving_constant *constant = &fit->constants[c];
        double at = gsl_vector_get(x, i);
        constant->value = clip(c, at);
        constant->low = clip(c, at - half[i]);
        constant->high = clip(c, at + half[i]);
        constant->fitted = true;
    }
}

/* Fit, and again without what came out unknown. */
static bool fit_constants(struct problem *p, struct kvt_serving_fit *fit)
{
    gsl_vector *x = gsl_vector_alloc(P);
    double half[P];
    int like[P];
    bool fine = x != NULL;
    while (fine && p->turned > 0) {
        gsl_vector_view turned = gsl_vector_subvector(x, 0, p->turned);
        for (size_t i = 0; i < p->turned; i++)
            gsl_vector_set(x, i, p->base[p->which[i]] / scales[p->which[i]].unit);
        fine = solve(p, &turned.vector, half, like);
        if (!fine)
            break;
        size_t worst = least_known(p, x, half);
        if (worst == p->turned)
            break;
        struct kvt_serving_constant *kept = &fit->constants[p->which[worst]];
        if (like[worst] >= 0)
            keep(kept, "these runs do not tell it apart from ",
                 kvt_host_constant_names[like[worst]]);
        else
            keep(kept, "its interval is wider than what is usual", "");
        for (size_t i = worst; i + 1 < p->turned; i++)
            p->which[i] = p->which[i + 1];
        p->turned--;
    }
    if (fine)
        set_constants(p, fit, x, half);
    gsl_vector_free(x);
    return fine;
}

/* ---- rows ---- */

static bool is_given(const struct kvt_bench_run *run, enum kvt_bench_metric metric)
{
    return run->metric[metric] > 0.0;
}

/* The first of some metrics that the run has takes part. */
static bool first_of(const struct kvt_bench_run *run, enum kvt_bench_metric metric,
                     const enum kvt_bench_metric order[], int count)
{
    for (int i = 0; i < count; i++)
        if (is_given(run, order[i]))
            return order[i] == metric;
    return false;
}

static bool takes_part(const struct kvt_bench_run *run, enum kvt_bench_metric metric)
{
    static const enum kvt_bench_metric ttft[] = {KVT_BENCH_MEAN_TTFT, KVT_BENCH_MEDIAN_TTFT};
    static const enum kvt_bench_metric tpot[] = {KVT_BENCH_MEAN_TPOT, KVT_BENCH_MEDIAN_TPOT,
                                                 KVT_BENCH_MEAN_ITL, KVT_BENCH_MEDIAN_ITL};
    bool closed = run->rate <= 0.0; /* at a rate the throughput is the rate */
    return first_of(run, metric, ttft, 2) || first_of(run, metric, tpot, 4) ||
           (closed && metric == KVT_BENCH_OUTPUT_THROUGHPUT);
}

static enum kvt_status list_rows(struct problem *p, struct kvt_serving_fit *fit)
{
    size_t room = (size_t)p->world->count * KVT_BENCH_METRIC_COUNT;
    fit->residuals = calloc(room, sizeof *fit->residuals);
    if (fit->residuals == NULL)
        return kvt_err_set(p->err, KVT_ENOMEM, "no memory for %zu residuals", room);
    for (int32_t r = 0; r < p->world->count; r++) {
        const struct kvt_bench_run *run = p->world->runs[r].run;
        size_t before = p->fitted;
        for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++) {
            struct kvt_serving_residual row = {
                .run = r, .metric = (enum kvt_bench_metric)m, .observed = run->metric[m]};
            double shipped = p->metrics[r * KVT_BENCH_METRIC_COUNT + m];
            if (!is_given(run, row.metric) || !(shipped > 0.0))
                continue;
            row.fitted = takes_part(run, row.metric);
            row.before = shipped;
            p->fitted += row.fitted;
            fit->residuals[fit->residual_count++] = row;
        }
        if (p->fitted == before)
            return kvt_err_at(p->err, KVT_ECONFIG,
                              (struct kvt_where){.file = p->world->runs[r].path, .line = run->line},
                              "field \"mean_tpot_ms\": want it, mean_ttft_ms or (without a rate) "
                              "output_throughput to fit to, found none");
    }
    p->rows = fit->residuals;
    p->row_count = fit->residual_count;
    return KVT_OK;
}

/* ---- the calibration ---- */

/* What is written: the laws that decode asked for, with the constants that were fitted. */
static void take_calibration(struct kvt_serving_fit *fit, struct kvt_serving_world *world,
                             int32_t files)
{
    struct kvt_calibration *own = &world->bases[0].fleet->roles[world->role].price.calibration;
    char source[sizeof own->source], name[sizeof own->name];
    fit->calibration = *own;
    *own = (struct kvt_calibration){0};
    struct kvt_calibration *c = &fit->calibration;
    for (int p = 0; p < P; p++) {
        const struct kvt_serving_constant *constant = &fit->constants[p];
        if (!constant->fitted)
            continue;
        struct kvt_law *law = &c->laws[world->places[world->role].law[p]];
        if (p == KVT_HOST_CONSTANT_SKEW) {
            char old[sizeof law->source];
            memcpy(old, law->source, sizeof old);
            snprintf(law->source, sizeof law->source,
                     "%.300s; skew fitted to %d benchmark files (%.3g to %.3g)", old, files,
                     constant->low, constant->high);
        } else {
            law->bandwidth = law->flops = law->scatter = 0.0; /* a guess may have had them */
            law->scatter_time = 0.84 * 0.5 * (constant->high - constant->low); /* 90 of 95 % */
            snprintf(law->source, sizeof law->source,
                     "fitted to %d benchmark files; 95 %% interval %.4g to %.4g us, was %.4g us",
                     files, 1e6 * constant->low, 1e6 * constant->high, 1e6 * constant->shipped);
        }
        law->guess = false;
    }
    snprintf(source, sizeof source,
             "constants of the host fitted to %d benchmark files; else: %.300s", files, c->source);
    snprintf(name, sizeof name, "%.50s-fitted", c->name);
    memcpy(c->source, source, sizeof source);
    memcpy(c->name, name, sizeof name);
}

/* ---- the whole ---- */

/* Choose, fit and simulate once more from p->base; *cost is the sum of squares of what is left. */
static bool attempt(struct problem *p, struct kvt_serving_fit *fit, double *cost)
{
    double values[P];
    for (int c = 0; c < P; c++)
        fit->constants[c] = (struct kvt_serving_constant){.family = p->world->family[c],
                                                          .shipped = p->world->shipped[c],
                                                          .value = p->world->shipped[c],
                                                          .low = p->world->shipped[c],
                                                          .high = p->world->shipped[c]};
    p->turned = 0;
    if (!choose(p, fit) || !fit_constants(p, fit))
        return false;
    for (int c = 0; c < P; c++)
        values[c] = fit->constants[c].value;
    if (!evaluate(p, values))
        return false;
    *cost = 0.0;
    for (int32_t i = 0; i < fit->residual_count; i++) {
        struct kvt_serving_residual *row = &fit->residuals[i];
        row->after = simulated(p, row);
        double log_ratio = row->fitted ? log(row->after / row->observed) : 0.0;
        *cost += log_ratio * log_ratio;
    }
    return true;
}

/* A floor of the host that lies below every step is not felt, and may yet be the truth: try from
 * one that just binds the quickest run. */
static bool try_floor(struct problem *p, struct kvt_serving_fit *fit, double cost)
{
    const int host = KVT_HOST_CONSTANT_HOST;
    double quickest = HUGE_VAL, other;
    struct kvt_serving_constant before[P];
    for (int32_t i = 0; i < fit->residual_count; i++)
        if (fit->residuals[i].metric == KVT_BENCH_MEAN_TPOT)
            quickest = fmin(quickest, 1e-3 * fit->residuals[i].observed);
    bool floors = strcmp(p->world->family[host], kvt_family_names[KVT_FAMILY_HOST_FLOOR]) == 0;
    if (!floors || fit->constants[host].fitted || !(FLOOR_SHARE * quickest > p->base[host]) ||
        !isfinite(quickest))
        return true;
    memcpy(before, fit->constants, sizeof before);
    p->base[host] = FLOOR_SHARE * quickest;
    if (!attempt(p, fit, &other))
        return false;
    if (fit->constants[host].fitted && other < FLOOR_GAIN * cost)
        return true;
    memcpy(fit->constants, before, sizeof before);
    return true;
}

static bool fit_all(struct problem *p, struct kvt_serving_fit *fit)
{
    double cost, values[P];
    if (!attempt(p, fit, &cost) || !try_floor(p, fit, cost))
        return false;
    for (int c = 0; c < P; c++)
        values[c] = fit->constants[c].value;
    if (!evaluate(p, values)) /* leaves the laws at them, too */
        return false;
    for (int32_t i = 0; i < fit->residual_count; i++)
        fit->residuals[i].after = simulated(p, &fit->residuals[i]);
    return true;
}

static enum kvt_status fit_world(struct kvt_serving_fit *fit, struct kvt_serving_world *world,
                                 struct kvt_err *err)
{
    struct problem p = {.world = world, .err = err};
    memcpy(p.base, world->shipped, sizeof p.base);
    p.metrics = calloc((size_t)world->count * KVT_BENCH_METRIC_COUNT, sizeof *p.metrics);
    if (p.metrics == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %d runs", world->count);
    if (evaluate(&p, p.base))
        p.status = list_rows(&p, fit);
    bool fine = p.status == KVT_OK && fit_all(&p, fit);
    free(p.metrics);
    if (p.status == KVT_OK && !fine)
        out_of_memory(&p);
    return p.status;
}

enum kvt_status kvt_serving_fit(struct kvt_serving_fit *fit, const struct kvt_config *config,
                                const struct kvt_serving_run runs[], int32_t count, int32_t files,
                                FILE *talk, const struct kvt_stop *stop, struct kvt_err *err)
{
    struct kvt_serving_world world;
    *fit = (struct kvt_serving_fit){.runs = count};
    KVT_TRY(kvt_serving_world_init(&world, config, runs, count, talk, stop, err));
    enum kvt_status status = fit_world(fit, &world, err);
    fit->simulations = world.simulations;
    if (status == KVT_OK)
        take_calibration(fit, &world, files);
    else
        kvt_serving_fit_release(fit);
    kvt_serving_world_release(&world);
    return status;
}

void kvt_serving_fit_release(struct kvt_serving_fit *fit)
{
    free(fit->residuals);
    kvt_calibration_release(&fit->calibration);
    *fit = (struct kvt_serving_fit){0};
}
