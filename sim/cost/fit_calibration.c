#include "sim/cost/fit_calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/surface.h"

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

enum kvt_status kvt_kernel_rule_parse(struct kvt_kernel_rule *rule, const char *text,
                                      struct kvt_err *err)
{
    size_t name = strcspn(text, ":=");
    const char *kernel = strchr(text, '=');
    *rule = (struct kvt_kernel_rule){0};
    while (rule->family < KVT_FAMILY_COUNT &&
           (strlen(kvt_family_names[rule->family]) != name ||
            strncmp(kvt_family_names[rule->family], text, name) != 0))
        rule->family++;
    if (kernel == NULL || kernel[1] == '\0' || strlen(kernel + 1) >= sizeof rule->kernel)
        return kvt_err_set(err, KVT_EUSAGE,
                           "kernel: want FAMILY=KERNEL or FAMILY:HIDDEN=KERNEL, got \"%.60s\"",
                           text);
    if (rule->family == KVT_FAMILY_COUNT)
        return kvt_err_set(err, KVT_EUSAGE, "kernel: no family is named \"%.*s\"", (int)name, text);
    if (text[name] == ':') {
        char *end;
        rule->hidden = strtod(text + name + 1, &end);
        if (end != kernel || !(rule->hidden >= 1.0))
            return kvt_err_set(err, KVT_EUSAGE,
                               "kernel: want a hidden size after \":\", got \"%.60s\"", text);
    }
    snprintf(rule->kernel, sizeof rule->kernel, "%s", kernel + 1);
    return KVT_OK;
}

static bool same_when(const struct kvt_law *a, const struct kvt_law *b)
{
    for (int d = 0; d < KVT_DIM_COUNT; d++)
        if (a->when[d].min != b->when[d].min || a->when[d].max != b->when[d].max)
            return false;
    return true;
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

static void set_plus_minus(double half[KVT_PARAMETER_TIME], const struct kvt_fit *fit)
{
    for (int32_t i = 0; i < fit->parameter_count; i++)
        for (int p = 0; p < KVT_PARAMETER_TIME; p++)
            if (fit->parameters[i].known &&
                strcmp(fit->parameters[i].name, kvt_parameter_names[p]) == 0)
                half[p] = 0.5 * log(fit->parameters[i].high / fit->parameters[i].low);
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
    if (law == &fit->laws[fit->law_count - 1])
        set_plus_minus(out.plus_minus, fit);
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

/* Whether a law rests on the kernel that a rule wants for its model; -1: no rule speaks of it. */
static int is_wished(const struct kvt_build_wishes *wishes, const struct kvt_fit *fit,
                     const struct kvt_law *law)
{
    for (int32_t i = 0; i < wishes->rule_count; i++) {
        const struct kvt_kernel_rule *rule = &wishes->rules[i];
        bool model = rule->hidden == 0.0 || law->when[KVT_DIM_HIDDEN].max == rule->hidden;
        if (rule->family == (int32_t)law->family && model)
            return strstr(fit->series->dtype, rule->kernel) != NULL;
    }
    return -1;
}

/* The fit whose general law stands for models that no table has: of the wished kernel and the
 * nearest, but for an older table with many more models. */
static const struct kvt_fit *broadest(const struct kvt_fit *order[], int32_t count,
                                      const struct kvt_build_wishes *wishes)
{
    const struct kvt_fit *most = NULL;
    int best = -2;
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_fit *fit = order[i];
        int wished = is_wished(wishes, fit, &fit->laws[fit->law_count - 1]);
        bool near = strcmp(fit->series->stack, order[0]->series->stack) == 0 &&
                    fit->series->rank == order[0]->series->rank;
        if (most == NULL || wished > best || (wished == best && near && fit->rows > 2 * most->rows))
            most = fit, best = wished;
    }
    return most;
}

/* The laws of one family from its fits in the given order: those of single models first, of the
 * wished kernel before others. */
static enum kvt_status add_family(struct kvt_calibration *c, const struct kvt_fit *order[],
                                  int32_t count, const struct kvt_build_wishes *wishes,
                                  struct kvt_err *err)
{
    for (int wanted = 1; wanted >= 0; wanted--)
        for (int32_t i = 0; i < count; i++)
            for (int32_t k = 0; k < order[i]->law_count; k++) {
                struct kvt_law law = annotated(order[i], &order[i]->laws[k]);
                bool now = (is_wished(wishes, order[i], &law) != 0) == wanted;
                if (now && !is_general(&law) && !has_law(c, &law))
                    KVT_TRY(add_law(c, &law, err));
            }
    const struct kvt_fit *most = broadest(order, count, wishes);
    for (int32_t k = 0; most != NULL && k < most->law_count; k++) {
        struct kvt_law law = annotated(most, &most->laws[k]);
        if (is_general(&law) && !has_law(c, &law))
            KVT_TRY(add_law(c, &law, err));
    }
    return KVT_OK;
}

static bool is_kept(const struct kvt_build_wishes *wishes, int32_t family)
{
    for (int32_t i = 0; i < wishes->rule_count; i++)
        if (wishes->rules[i].family == family && strcmp(wishes->rules[i].kernel, "keep") == 0)
            return wishes->keep != NULL;
    return false;
}

static enum kvt_status fill(struct kvt_calibration *c, const struct kvt_fit fits[], int32_t count,
                            const struct kvt_build_wishes *wishes, struct kvt_err *err)
{
    const struct kvt_calibration *keep = wishes->keep;
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
        if (is_kept(wishes, family))
            n = 0;
        for (int32_t i = 0; keep != NULL && i < keep->law_count; i++) {
            const struct kvt_law *law = &keep->laws[i];
            bool served = law->skew > 0.0; /* was fitted to serving, which no table overrides */
            if ((int32_t)law->family == family && !law->guess && (n == 0 || served))
                KVT_TRY(add_law(c, law, err));
        }
        KVT_TRY(add_family(c, order, n, wishes, err));
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
                                      const struct kvt_build_wishes *wishes, struct kvt_err *err)
{
    const struct kvt_calibration *keep = wishes->keep;
    const char *gpu = wishes->gpu, *stack = wishes->stack;
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
    enum kvt_status status = fill(c, fits, count, wishes, err);
    if (status != KVT_OK)
        kvt_calibration_release(c);
    return status;
}
