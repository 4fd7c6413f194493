/*
 * reproduce_fit.h - one constant for one engine and GPU, fitted to all models but one
 *
 * A point is a row's answer to the constant c, taken as a line: at c it shows base + slope*c. The
 * constant of a group (an engine on a GPU) without model m makes the sum of
 * |base + slope*c - observed| / observed smallest, over the points of the group's other models,
 * each model with the same weight however many rows it has. The calibration, which says 0, counts
 * as one model more, so that a single other model does not have it all its way. The sum is convex
 * and made of straight pieces: c is a weighted median of the points' own solutions and 0. It is
 * exact, needs no start, and a row that is far off counts no more than one that is a little off.
 *
 * Rows of model m take no part in the constant that m is tried with: what is said of them is a
 * prediction.
 */
#ifndef KVT_CLI_REPRODUCE_FIT_H
#define KVT_CLI_REPRODUCE_FIT_H

#include <stdint.h>

#define KVT_FIT_NONE (-1) /* no model is left out */

/* A point without a slope above 0 or an observed value says nothing and is passed over. */
struct kvt_fit_point {
    int32_t group, model; /* any numbers >= 0 */
    double base, slope, observed;
};

struct kvt_fit_value {
    double value;           /* NaN: no point is left */
    int32_t points, models; /* that it was fitted to, the calibration not counted */
};

/* scratch: room for count + 1 points. O(count^2). */
struct kvt_fit_value kvt_fit_left_out(const struct kvt_fit_point points[], int32_t count,
                                      int32_t group, int32_t model, struct kvt_fit_point scratch[]);

#endif
