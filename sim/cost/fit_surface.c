/*
 * The knots of one surface: weighted least squares with a penalty on second differences along every
 * axis, so that knots without rows continue their neighbours. The normal equations are sparse in a
 * way that no general library knows (a row touches at most 32 knots of up to 16,384, the penalty is
 * a stencil), so they are solved by conjugate gradients without ever being written down.
 */
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/fit_parts.h"

#define RIDGE      1e-2 /* weight of a squared value: pulls knots without rows to the law */
#define ROUNDS     5
#define ITERATIONS 60
#define TOLERANCE  1e-4

struct system {
    const struct kvt_surface *surface;
    int64_t rows;
    double bending, surprise;
    int32_t corners;              /* room per row */
    int32_t *index;               /* [rows * corners] */
    double *share;                /* [rows * corners]; 0 past the last corner of a row */
    double *residual;             /* [rows]: what is to be explained */
    double *weight;               /* [rows] */
    double *r, *d, *q, *diagonal; /* [count]: of the conjugate gradients */
};

/* out += bending * D'D x along one axis, of stride steps between neighbours: second differences
 * that are zero on a straight line, however the knots are spread. */
static void add_bending(const struct system *m, int32_t axis, const double x[], double out[])
{
    const struct kvt_surface *s = m->surface;
    int32_t stride = 1, n = s->axis[axis].count;
    const double *log_at = s->axis[axis].log_at;
    for (int32_t a = axis + 1; a < s->axes; a++)
        stride *= s->axis[a].count;
    for (int32_t i = 0; i < s->count; i++) {
        int32_t at = i / stride % n;
        if (at == 0 || at == n - 1)
            continue;
        double before = log_at[at] - log_at[at - 1], after = log_at[at + 1] - log_at[at];
        double low = 2.0 * after / (before + after), high = 2.0 - low;
        double bend = m->bending * (low * x[i - stride] - 2.0 * x[i] + high * x[i + stride]);
        out[i - stride] += low * bend;
        out[i] -= 2.0 * bend;
        out[i + stride] += high * bend;
    }
}

static double row_value(const struct system *m, int64_t row, const double x[])
{
    const int32_t *index = &m->index[row * m->corners];
    const double *share = &m->share[row * m->corners];
    double value = 0.0;
    for (int32_t c = 0; c < m->corners; c++)
        value += share[c] * x[index[c]];
    return value;
}

static void add_row(const struct system *m, int64_t row, double amount, double out[])
{
    const int32_t *index = &m->index[row * m->corners];
    const double *share = &m->share[row * m->corners];
    for (int32_t c = 0; c < m->corners; c++)
        out[index[c]] += amount * share[c];
}

/* out = (A'WA + penalties) x */
static void multiply(const struct system *m, const double x[], double out[])
{
    for (int32_t i = 0; i < m->surface->count; i++)
        out[i] = RIDGE * x[i];
    for (int32_t a = 0; a < m->surface->axes; a++)
        add_bending(m, a, x, out);
    for (int64_t row = 0; row < m->rows; row++)
        add_row(m, row, m->weight[row] * row_value(m, row, x), out);
}

static void set_diagonal(struct system *m)
{
    for (int32_t i = 0; i < m->surface->count; i++)
        m->diagonal[i] = RIDGE + 4.0 * m->bending * m->surface->axes;
    for (int64_t row = 0; row < m->rows; row++)
        for (int32_t c = 0; c < m->corners; c++) {
            double share = m->share[row * m->corners + c];
            m->diagonal[m->index[row * m->corners + c]] += m->weight[row] * share * share;
        }
}

static double dot(const double a[], const double b[], int32_t count)
{
    double sum = 0.0;
    for (int32_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Conjugate gradients from the values that are there. */
static void solve(struct system *m, double x[])
{
    int32_t count = m->surface->count;
    set_diagonal(m);
    multiply(m, x, m->q);
    memset(m->r, 0, (size_t)count * sizeof *m->r);
    for (int64_t row = 0; row < m->rows; row++)
        add_row(m, row, m->weight[row] * m->residual[row], m->r);
    for (int32_t i = 0; i < count; i++) {
        m->r[i] -= m->q[i];
        m->d[i] = m->r[i] / m->diagonal[i];
    }
    double old = dot(m->r, m->d, count), first = old;
    for (int k = 0; k < ITERATIONS && old > TOLERANCE * TOLERANCE * first; k++) {
        multiply(m, m->d, m->q);
        double step = old / dot(m->d, m->q, count);
        double new = 0.0;
        for (int32_t i = 0; i < count; i++) {
            x[i] += step * m->d[i];
            m->r[i] -= step * m->q[i];
            new += m->r[i] * m->r[i] / m->diagonal[i];
        }
        for (int32_t i = 0; i < count; i++)
            m->d[i] = m->r[i] / m->diagonal[i] + new / old * m->d[i];
        old = new;
    }
}

/* Knots of an axis: the sizes that occur when they are few; else those that double up to where the
 * form says, and the rest evenly in logarithms up to the largest, three digits each. scratch has
 * count places. */
static void set_knots(struct kvt_surface_axis *axis, const struct kvt_form_axis *form,
                      const struct kvt_sample *const samples[], int64_t count, double scratch[])
{
    axis->size = form->size;
    for (; form->at != NULL && axis->count < form->knots; axis->count++)
        axis->at[axis->count] = form->at[axis->count];
    if (form->at != NULL)
        return;
    for (int64_t i = 0; i < count; i++)
        scratch[i] = kvt_axis_size(form->size, &samples[i]->work);
    gsl_sort(scratch, 1, (size_t)count);
    int64_t distinct = 0;
    for (int64_t i = 0; i < count; i++)
        if (scratch[i] > 0.0 && (distinct == 0 || scratch[i] > scratch[distinct - 1] * 1.0005))
            scratch[distinct++] = scratch[i];
    if (distinct <= form->knots) {
        for (int64_t i = 0; i < distinct; i++)
            axis->at[i] = scratch[i];
        axis->count = (int32_t)distinct;
        if (distinct == 0)
            axis->at[axis->count++] = 1.0;
        return;
    }
    double first = scratch[0];
    while (first < form->doubling && axis->count + 2 < form->knots) {
        axis->at[axis->count++] = first;
        first *= 2.0;
    }
    double low = log(first), high = log(scratch[distinct - 1]);
    int32_t rest = form->knots - axis->count;
    for (int32_t i = 0; i < rest; i++) {
        double at = exp(low + (high - low) * i / (rest - 1));
        double digits = pow(10.0, floor(log10(at)) - 2.0);
        axis->at[axis->count++] = round(at / digits) * digits;
    }
}

static bool system_init(struct system *m, const struct kvt_surface *surface, int64_t rows)
{
    size_t count = (size_t)surface->count, n = (size_t)rows;
    *m = (struct system){.surface = surface, .rows = rows, .corners = 1 << surface->axes};
    size_t corners = (size_t)m->corners;
    m->index = calloc(n * corners, sizeof *m->index);
    m->share = calloc(n * corners, sizeof *m->share);
    m->residual = malloc(n * sizeof *m->residual);
    m->weight = malloc(n * sizeof *m->weight);
    m->r = malloc(4 * count * sizeof *m->r);
    if (m->index == NULL || m->share == NULL || m->residual == NULL || m->weight == NULL ||
        m->r == NULL)
        return false;
    m->d = m->r + count;
    m->q = m->d + count;
    m->diagonal = m->q + count;
    return true;
}

static void system_release(struct system *m)
{
    free(m->index);
    free(m->share);
    free(m->residual);
    free(m->weight);
    free(m->r);
}

static void fit_values(struct system *m, struct kvt_surface *surface, const struct kvt_law *law,
                       const struct kvt_sample *const samples[])
{
    for (int64_t i = 0; i < m->rows; i++) {
        int32_t index[32];
        double share[32];
        int32_t corners = kvt_surface_corners(surface, &samples[i]->work, index, share);
        memcpy(&m->index[i * m->corners], index, (size_t)corners * sizeof *index);
        memcpy(&m->share[i * m->corners], share, (size_t)corners * sizeof *share);
        m->residual[i] = log(samples[i]->time / kvt_law_time(law, &samples[i]->work, NULL));
        m->weight[i] = 1.0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        solve(m, surface->values);
        for (int64_t i = 0; i < m->rows; i++)
            m->weight[i] =
                kvt_fit_weight(m->residual[i] - row_value(m, i, surface->values), m->surprise);
    }
    for (int32_t i = 0; i < surface->count; i++) /* as a file will have it */
        surface->values[i] =
            fmax(-KVT_SURFACE_PACKED_ZERO, fmin(KVT_SURFACE_PACKED_ZERO - 1.0,
                                                round(KVT_SURFACE_STEPS * surface->values[i]))) /
            KVT_SURFACE_STEPS;
}

struct kvt_surface *kvt_fit_surface(const struct kvt_law *law, const struct kvt_form *form,
                                    const struct kvt_form_axis axes[],
                                    const struct kvt_sample *const samples[], int64_t count)
{
    struct kvt_surface *surface = calloc(1, sizeof *surface);
    double *scratch = malloc((size_t)count * sizeof *scratch);
    struct system m = {0};
    if (surface != NULL && scratch != NULL) {
        for (int32_t a = 0; a < KVT_SURFACE_AXES && axes[a].knots > 0; a++)
            set_knots(&surface->axis[surface->axes++], &axes[a], samples, count, scratch);
        kvt_surface_finish(surface);
    }
    bool memory = surface != NULL && surface->values != NULL && system_init(&m, surface, count);
    m.bending = form->bending;
    m.surprise = form->surprise;
    if (memory)
        fit_values(&m, surface, law, samples);
    system_release(&m);
    free(scratch);
    if (!memory) {
        kvt_surface_free(surface);
        return NULL;
    }
    return surface;
}
