#include "sim/cost/fit_calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/surface.h"

#define CONVERTS 1.5 /* so much slower than 16 bits: converting, not attending */

void kvt_fits_judge(struct kvt_fit fits[], int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        struct kvt_fit *fit = &fits[i];
        const struct kvt_series *s = fit->series;
        double log_ratio = 0.0;
        for (int32_t k = 0; k < count; k++) {
            const struct kvt_series *other = fits[k].series;
            if (s->family != KVT_FAMILY_MLA_DECODE_FP8 ||
                other->family != KVT_FAMILY_MLA_DECODE_BF16 || fits[k].law_count == 0 ||
                strcmp(s->stack, other->stack) != 0 || strcmp(s->version, other->version) != 0)
                continue;
            log_ratio = 0.0;
            for (int64_t r = 0; r < s->count; r++)
                log_ratio += log(s->samples[r].time / kvt_fit_time(&fits[k], &s->samples[r].work));
            log_ratio /= (double)s->count;
        }
        if (log_ratio < log(CONVERTS) || fit->bad)
            continue;
        snprintf(fit->trouble, sizeof fit->trouble,
                 "8-bit KV takes %.1f times as long as 16-bit KV: the cache is converted at every "
                 "call",
                 exp(log_ratio));
        fit->bad = true;
    }
}

/* Numbers in versions compare as numbers, pre-releases ("1.3.0rc20") as they come. */
static int version_compare(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            char *a_end, *b_end;
            unsigned long x = strtoul(a, &a_end, 10), y = strtoul(b, &b_end, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a = a_end, b = b_end;
            continue;
        }
        if (*a != *b)
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        a++, b++;
    }
    return (*a != '\0') - (*b != '\0');
}

/* Negative: a is nearer to what a step runs. */
static int nearer(const struct kvt_fit *a, const struct kvt_fit *b, const char *stack)
{
    const struct kvt_series *s = a->series, *t = b->series;
    int own = (strcmp(s->stack, stack) != 0) - (strcmp(t->stack, stack) != 0);
    if (own != 0)
        return own;
    if (s->rank != t->rank)
        return s->rank < t->rank ? -1 : 1;
    int version = version_compare(s->version, t->version);
    if (version != 0)
        return -version;
    if (a->rows != b->rows)
        return a->rows > b->rows ? -1 : 1;
    return strcmp(s->name, t->name);
}

const struct kvt_fit *kvt_fits_for(const struct kvt_fit fits[], int32_t count,
                                   const struct kvt_series *series)
{
    const struct kvt_fit *best = NULL;
    for (int32_t i = 0; i < count; i++) {
        if (fits[i].law_count == 0)
            continue;
        if (strcmp(fits[i].series->name, series->name) == 0)
            return &fits[i];
        if (series->family == KVT_SERIES_NONE || fits[i].series->family != series->family)
            continue;
        if (best == NULL || nearer(&fits[i], best, series->stack) < 0)
            best = &fits[i];
    }
    return best;
}

static bool same_when(const struct kvt_law *a, const struct kvt_law *b)
{
    return memcmp(a->when, b->when, sizeof a->when) == 0;
}

static bool has_law(const struct kvt_calibration *c, const struct kvt_law *law)
{
    for (int32_t i = 0; i < c->law_count; i++)
        if (c->laws[i].family == law->family && same_when(&c->laws[i], law))
            return true;
    return false;
}

static enum kvt_status add_law(struct kvt_calibration *c, const struct kvt_law *law,
                               struct kvt_err *err)
{
    if (c->law_count == KVT_CALIBRATION_LAWS - KVT_FAMILY_COUNT)
        return kvt_err_set(err, KVT_ELIMIT, "a calibration holds at most %d laws",
                           KVT_CALIBRATION_LAWS - KVT_FAMILY_COUNT);
    struct kvt_law *copy = &c->laws[c->law_count];
    *copy = *law;
    if (law->surface != NULL && (copy->surface = kvt_surface_copy(law->surface)) == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a calibration");
    c->law_count++;
    return KVT_OK;
}

/* What the fit knows of itself goes to each of its laws. */
static struct kvt_law annotated(const struct kvt_fit *fit, const struct kvt_law *law)
{
    struct kvt_law out = *law;
    const struct kvt_series *s = fit->series;
    out.error_rows = fit->held.rows;
    out.error_median = fit->held.median;
    out.error_mean = fit->held.mean;
    out.error_p90 = fit->held.p90;
    out.repeat_floor = fit->floor;
    out.held_out = true;
    out.unseen = (struct kvt_unseen){.rows = fit->unseen.rows,
                                     .median = fit->unseen.median,
                                     .mean = fit->unseen.mean,
                                     .p90 = fit->unseen.p90,
                                     .low = fit->low,
                                     .high = fit->high,
                                     .coverage = fit->coverage};
    if (s->kind == KVT_LAW_SPARSE) /* one law for 8-bit projections, one for 16-bit ones */
        out.when[KVT_DIM_WEIGHT_BITS] =
            strstr(s->dtype, "bfloat16") != NULL && strstr(s->dtype, "block") == NULL
                ? (struct kvt_range){11.0, 16.0}
                : (struct kvt_range){1.0, 10.0};
    if (s->weight_bits > 0.0)
        out.when[KVT_DIM_WEIGHT_BITS] =
            (struct kvt_range){s->weight_bits - 0.05, s->weight_bits + 0.05};
    snprintf(out.source, sizeof out.source, "fitted to %lld rows of %s", (long long)fit->rows,
             s->name);
    return out;
}

static bool is_general(const struct kvt_law *law)
{
    for (int d = 0; d < KVT_DIM_COUNT; d++)
        if (law->when[d].max > 0.0)
            return false;
    return true;
}

/* The laws of one family from its fits in the given order: those of single models first. */
static enum kvt_status add_family(struct kvt_calibration *c, const struct kvt_fit *order[],
                                  int32_t count, struct kvt_err *err)
{
    const struct kvt_fit *most = count > 0 ? order[0] : NULL;
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_fit *fit = order[i];
        bool other = strcmp(fit->series->stack, order[0]->series->stack) != 0;
        if (!other && fit->series->rank == order[0]->series->rank && fit->rows > 2 * most->rows)
            most = fit; /* an older table with many more models */
        for (int32_t k = 0; k < fit->law_count; k++) {
            struct kvt_law law = annotated(fit, &fit->laws[k]);
            if (!is_general(&law) && !has_law(c, &law))
                KVT_TRY(add_law(c, &law, err));
        }
    }
    for (int32_t k = 0; most != NULL && k < most->law_count; k++) {
        struct kvt_law law = annotated(most, &most->laws[k]);
        if (is_general(&law) && !has_law(c, &law))
            KVT_TRY(add_law(c, &law, err));
    }
    return KVT_OK;
}

static enum kvt_status fill(struct kvt_calibration *c, const struct kvt_fit fits[], int32_t count,
                            const struct kvt_calibration *keep, struct kvt_err *err)
{
    const struct kvt_fit *order[64];
    for (int32_t family = 0; family < KVT_FAMILY_COUNT; family++) {
        int32_t n = 0;
        for (int32_t i = 0; i < count && n < 64; i++) {
            if (fits[i].series->family != family || fits[i].bad)
                continue;
            int32_t at = n++;
            for (; at > 0 && nearer(&fits[i], order[at - 1], c->stack) < 0; at--)
                order[at] = order[at - 1];
            order[at] = &fits[i];
        }
        for (int32_t i = 0; keep != NULL && i < keep->law_count; i++) {
            const struct kvt_law *law = &keep->laws[i];
            bool served = law->skew > 0.0; /* was fitted to serving, which no table overrides */
            if ((int32_t)law->family == family && !law->guess && (n == 0 || served))
                KVT_TRY(add_law(c, law, err));
        }
        KVT_TRY(add_family(c, order, n, err));
    }
    return KVT_OK;
}

/* The newest version of the calibration's own stack. */
static void set_version(struct kvt_calibration *c, const struct kvt_fit fits[], int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_series *s = fits[i].series;
        if (strcmp(s->stack, c->stack) == 0 && version_compare(s->version, c->version) > 0)
            snprintf(c->version, sizeof c->version, "%s", s->version);
    }
}

enum kvt_status kvt_calibration_build(struct kvt_calibration *calibration,
                                      const struct kvt_fit fits[], int32_t count,
                                      const struct kvt_calibration *keep, const char *gpu,
                                      const char *stack, struct kvt_err *err)
{
    struct kvt_calibration *c = calibration;
    *c = (struct kvt_calibration){.skew = keep != NULL ? keep->skew : 1.0};
    c->laws = calloc(KVT_CALIBRATION_LAWS, sizeof *c->laws);
    if (c->laws == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a calibration");
    snprintf(c->gpu, sizeof c->gpu, "%.63s", gpu);
    const struct kvt_fit *most = &fits[0];
    for (int32_t i = 1; i < count; i++)
        most = fits[i].rows > most->rows ? &fits[i] : most;
    snprintf(c->stack, sizeof c->stack, "%.31s", stack != NULL ? stack : most->series->stack);
    snprintf(c->name, sizeof c->name, "%.*s-%s", (int)strcspn(gpu, "-"), gpu, c->stack);
    set_version(c, fits, count);
    snprintf(c->source, sizeof c->source,
             "fitted by kvtwin calibrate to %d series of kernel tables; a law says which, and its "
             "errors are those of the whole series%s",
             count,
             keep != NULL ? ". Families without a table and constants of hosts and gaps are kept "
                            "from an earlier calibration"
                          : "");
    enum kvt_status status = fill(c, fits, count, keep, err);
    if (status != KVT_OK)
        kvt_calibration_release(c);
    return status;
}
