#include "cli/reproduce_fit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define CALIBRATION (-2) /* stands for a model */

static double solution(const struct kvt_fit_point *point)
{
    return (point->observed - point->base) / point->slope;
}

static int by_solution(const void *a, const void *b)
{
    double x = solution(a), y = solution(b);
    return (x > y) - (x < y);
}

static bool says_something(const struct kvt_fit_point *point)
{
    return point->observed > 0 && point->slope > 0 && isfinite(point->base);
}

static int32_t points_of(const struct kvt_fit_point kept[], int32_t count, int32_t model)
{
    int32_t points = 0;
    for (int32_t i = 0; i < count; i++)
        points += kept[i].model == model;
    return points;
}

/* How steep the point's share of the sum is: the points of its model share a weight of 1. */
static double weight(const struct kvt_fit_point kept[], int32_t count, int32_t i)
{
    return kept[i].slope / kept[i].observed / points_of(kept, count, kept[i].model);
}

static int32_t models_of(const struct kvt_fit_point kept[], int32_t count)
{
    int32_t models = 0;
    for (int32_t i = 0; i < count; i++)
        models += points_of(kept, i, kept[i].model) == 0;
    return models;
}

/* The calibration as a model of one point: its solution is 0, its weight that of a mean model. */
static struct kvt_fit_point calibration_of(const struct kvt_fit_point kept[], int32_t count,
                                           int32_t models)
{
    double all = 0;
    for (int32_t i = 0; i < count; i++)
        all += weight(kept, count, i);
    return (struct kvt_fit_point){
        .model = CALIBRATION, .base = 1, .slope = all / models, .observed = 1};
}

struct kvt_fit_value kvt_fit_left_out(const struct kvt_fit_point points[], int32_t count,
                                      int32_t group, int32_t model, struct kvt_fit_point scratch[])
{
    struct kvt_fit_value fit = {.value = (double)NAN};
    int32_t n = 0;
    for (int32_t i = 0; i < count; i++)
        if (points[i].group == group && points[i].model != model && says_something(&points[i]))
            scratch[n++] = points[i];
    fit.points = n;
    fit.models = models_of(scratch, n);
    if (n == 0)
        return fit;
    scratch[n] = calibration_of(scratch, n, fit.models);
    n++;
    qsort(scratch, (size_t)n, sizeof *scratch, by_solution);
    double all = 0, below = 0;
    for (int32_t i = 0; i < n; i++)
        all += weight(scratch, n, i);
    int32_t i = 0;
    while (i + 1 < n && below + weight(scratch, n, i) < 0.5 * all * (1 - 1e-12))
        below += weight(scratch, n, i++);
    fit.value = solution(&scratch[i]);
    /* half lies on either side: the sum is flat up to the next, and the middle is as good */
    below += weight(scratch, n, i);
    if (i + 1 < n && below <= 0.5 * all * (1 + 1e-12))
        fit.value = 0.5 * (fit.value + solution(&scratch[i + 1]));
    return fit;
}
