/*
 * surface.h - what a law leaves over: a fitted correction on a grid of sizes
 *
 * Kernels change their tiles and splits with their sizes in ways that no short formula follows. A
 * surface multiplies the time of a law by exp(c), where c lies on knots over one to five sizes and
 * is linear between them in the logarithm of each size (multilinear), flat outside. So far away
 * from everything measured, the law alone decides.
 *
 * The knots are fitted by least squares to all rows near them (fit_surface.c), a surface is much
 * smaller than the table behind it, and holds none of its rows.
 */
#ifndef KVT_COST_SURFACE_H
#define KVT_COST_SURFACE_H

#include <stdint.h>

#include "sim/cost/laws.h"

/* Sizes that an axis may have: those of kvt_dim and these. */
/* clang-format off */
#define KVT_AXES(X) X(BATCH, "batch") X(LENGTH, "length") X(BYTES, "bytes") X(FLOPS, "flops")
/* clang-format on */
#define X(name, text) KVT_AXIS_##name,
enum kvt_axis { KVT_AXIS_FIRST = KVT_DIM_COUNT - 1, KVT_AXES(X) KVT_AXIS_COUNT };
#undef X
extern const char *const kvt_axis_names[KVT_AXIS_COUNT];

#define KVT_SURFACE_AXES   5
#define KVT_SURFACE_KNOTS  32
#define KVT_SURFACE_VALUES 16384
#define KVT_SURFACE_STEPS  200.0 /* of a value of 1 in a file: half percents */

/* Long surfaces are packed in a file: a value in half percents plus this, two digits of base 64. */
#define KVT_SURFACE_PACKED_ZERO 2048
extern const char kvt_surface_digits[65];

struct kvt_surface_axis {
    int32_t size; /* kvt_dim or kvt_axis */
    int32_t count;
    double at[KVT_SURFACE_KNOTS];     /* increasing, above 0 */
    double log_at[KVT_SURFACE_KNOTS]; /* their logarithms */
};

struct kvt_surface {
    int32_t axes;  /* 1 to KVT_SURFACE_AXES */
    int32_t count; /* product of the axes' counts */
    struct kvt_surface_axis axis[KVT_SURFACE_AXES];
    double *values; /* [count], natural logarithms of factors, the last axis runs fastest */
};

/* The size of work along an axis: tokens of context per request for "length". */
double kvt_axis_size(int32_t axis, const struct kvt_work *work);

/* The corners around work: their indices into values and their weights, which sum to 1. Returns how
 * many, at most 32. */
int32_t kvt_surface_corners(const struct kvt_surface *surface, const struct kvt_work *work,
                            int32_t index[32], double weight[32]);

/* The factor at work: exp of the interpolated value. Pure; 30 to 80 ns. */
double kvt_surface_factor(const struct kvt_surface *surface, const struct kvt_work *work);

/* Sets count and the logarithms, and allocates values (zero). NULL values: no memory. */
void kvt_surface_finish(struct kvt_surface *surface);

/* A malloc'ed copy, or NULL; both are released by kvt_surface_free (NULL is fine). */
struct kvt_surface *kvt_surface_copy(const struct kvt_surface *surface);
void kvt_surface_free(struct kvt_surface *surface);

#endif
