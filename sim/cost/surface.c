#include "sim/cost/surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define X(name, text) text,
const char *const kvt_axis_names[KVT_AXIS_COUNT] = {KVT_DIMS(X) KVT_AXES(X)};
#undef X
const char kvt_surface_digits[65] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

double kvt_axis_size(int32_t axis, const struct kvt_work *work)
{
    switch (axis) {
    case KVT_AXIS_BATCH:
        return work->batch;
    case KVT_AXIS_LENGTH:
        return work->batch > 0.0 ? work->context / work->batch : 0.0;
    case KVT_AXIS_BYTES:
        return work->bytes;
    case KVT_AXIS_FLOPS:
        return work->flops;
    default:
        return work->dim[axis];
    }
}

/* The knot below size and the share of the next one; flat outside, and where the size is 0. */
static int32_t bracket(const struct kvt_surface_axis *axis, double size, double *share)
{
    int32_t last = axis->count - 1;
    *share = 0.0;
    if (last == 0 || !(size > axis->at[0]))
        return 0;
    if (size >= axis->at[last]) {
        *share = 1.0;
        return last - 1;
    }
    int32_t i = 0;
    while (axis->at[i + 1] <= size)
        i++;
    *share = (log(size) - axis->log_at[i]) / (axis->log_at[i + 1] - axis->log_at[i]);
    return i;
}

int32_t kvt_surface_corners(const struct kvt_surface *surface, const struct kvt_work *work,
                            int32_t index[32], double weight[32])
{
    int32_t corners = 1;
    index[0] = 0;
    weight[0] = 1.0;
    for (int32_t a = 0; a < surface->axes; a++) {
        const struct kvt_surface_axis *axis = &surface->axis[a];
        double share;
        int32_t low = bracket(axis, kvt_axis_size(axis->size, work), &share);
        int32_t before = corners;
        for (int32_t c = 0; c < before; c++) {
            int32_t base = index[c] * axis->count + low;
            if (share > 0.0) {
                index[corners] = base + 1;
                weight[corners++] = weight[c] * share;
            }
            index[c] = base;
            weight[c] *= 1.0 - share;
        }
    }
    return corners;
}

double kvt_surface_factor(const struct kvt_surface *surface, const struct kvt_work *work)
{
    int32_t index[32];
    double weight[32], value = 0.0;
    int32_t corners = kvt_surface_corners(surface, work, index, weight);
    for (int32_t c = 0; c < corners; c++)
        value += weight[c] * surface->values[index[c]];
    return exp(value);
}

void kvt_surface_finish(struct kvt_surface *surface)
{
    surface->count = 1;
    for (int32_t a = 0; a < surface->axes; a++) {
        struct kvt_surface_axis *axis = &surface->axis[a];
        surface->count *= axis->count;
        for (int32_t i = 0; i < axis->count; i++)
            axis->log_at[i] = log(axis->at[i]);
    }
    surface->values = calloc((size_t)surface->count, sizeof *surface->values);
}

struct kvt_surface *kvt_surface_copy(const struct kvt_surface *surface)
{
    struct kvt_surface *copy = malloc(sizeof *copy);
    if (copy == NULL)
        return NULL;
    *copy = *surface;
    copy->values = malloc((size_t)surface->count * sizeof *copy->values);
    if (copy->values == NULL) {
        free(copy);
        return NULL;
    }
    memcpy(copy->values, surface->values, (size_t)surface->count * sizeof *copy->values);
    return copy;
}

void kvt_surface_free(struct kvt_surface *surface)
{
    if (surface != NULL)
        free(surface->values);
    free(surface);
}
