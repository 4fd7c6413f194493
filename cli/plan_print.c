#include "cli/plan_print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/fields.h"
#include "cli/settings.h"
#include "sim/output/interval.h"

#define REASONS_MAX 24
#define FRONT_SHOWN 12

static double value_of(const struct kvt_search *search, const struct kvt_candidate *c,
                       const char *name)
{
    int32_t column = kvt_point_column(&search->columns, name);
    return column >= 0 && c->values != NULL ? c->values[column] : (double)NAN;
}

static const char *settings_of(const struct kvt_search *search, int64_t number, char out[400])
{
    if (search->points->config->domains == 0)
        return "the config as it is";
    return kvt_settings_text(search->points, number, out, 400);
}

/* ---- for people --------------------------------------------------------------------------- */

/* With as many digits after the point as the value was given with. */
static void print_limit(double ms, char *out, size_t size_bytes)
{
    int32_t decimals = 0;
    double scaled = ms;
    while (decimals < 9 && fabs(scaled - round(scaled)) > 1e-6 * scaled) {
        scaled *= 10;
        decimals++;
    }
    kvt_number_print(ms, decimals, out, size_bytes);
}

/* "TTFT p90  412 ± 30 ms of 1,000" for each bound of the SLO. */
static void print_target(const struct kvt_search *search, const struct kvt_candidate *c,
                         const char *label, const char *key, const struct kvt_config_target *target,
                         FILE *out)
{
    for (int32_t i = 0; i < target->count; i++) {
        char name[64], percentile[16], value[64], limit[32];
        kvt_percentile_print(target->percentile[i], percentile, sizeof percentile);
        snprintf(name, sizeof name, "slo_%s_%s_ms", key, percentile);
        double point = value_of(search, c, name);
        if (isnan(point))
            continue;
        snprintf(name, sizeof name, "slo_%s_%s_ms_low", key, percentile);
        double low = value_of(search, c, name);
        snprintf(name, sizeof name, "slo_%s_%s_ms_high", key, percentile);
        double high = value_of(search, c, name);
        if (isnan(low) || isnan(high))
            low = high = point;
        kvt_interval_print(point, low, high, point < 100 ? 1 : 0, value, sizeof value);
        print_limit(1e3 * target->seconds[i], limit, sizeof limit);
        fprintf(out, "  %s %-5s", label, percentile);
        kvt_print_right(out, value, 16);
        fprintf(out, " ms, want %s ms\n", limit);
    }
}

static void print_slo(const struct kvt_search *search, const struct kvt_candidate *c, FILE *out)
{
    const struct kvt_config_slo *slo = &search->points->config->slo;
    print_target(search, c, "TTFT", "ttft", &slo->ttft, out);
    print_target(search, c, "ITL ", "itl", &slo->itl, out);
    print_target(search, c, "E2EL", "e2el", &slo->e2el, out);
}

/* Requests that ended early in its run: a fault took them, or their client went away. The SLO says
 * nothing of them. */
static void print_lost(const struct kvt_search *search, const struct kvt_candidate *c, FILE *out)
{
    double aborted = value_of(search, c, "aborted"), arrived = value_of(search, c, "arrived");
    if (aborted > 0)
        fprintf(out,
                "  %.0f of %.0f requests are aborted (%.2g %%), of which the SLO says nothing\n",
                aborted, arrived, 100 * aborted / arrived);
}

static void print_price(const struct kvt_candidate *c, FILE *out)
{
    fprintf(out, "%d GPU%s", c->gpus, kvt_plural(c->gpus));
    if (c->usd_per_h > 0)
        fprintf(out, ", %.2f USD/h", c->usd_per_h);
}

static void print_load(const struct kvt_search *search, const struct kvt_candidate *c, FILE *out)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        char name[64];
        snprintf(name, sizeof name, "%s_busy_fraction", kvt_role_names[role]);
        double busy = value_of(search, c, name);
        snprintf(name, sizeof name, "%s_pages_peak_fraction", kvt_role_names[role]);
        if (!isnan(busy))
            fprintf(out, "; %s busy %.0f %%, %.0f %% of its KV pages at the peak",
                    kvt_role_names[role], 100 * busy, 100 * value_of(search, c, name));
    }
}

static void print_carries(const struct kvt_search *search, FILE *out)
{
    const char *what = search->best >= 0      ? "keeps it"
                       : search->carries >= 1 ? "its own run, without resamples, keeps it"
                                              : "would keep it";
    if (isinf(search->carries))
        fprintf(out, "  %s at 64 times this traffic\n", what);
    else if (!isnan(search->carries))
        fprintf(out, "  %s up to %.2f times this traffic (%.3g req/s)\n", what, search->carries,
                search->carries * search->rate);
}

static void print_more(const struct kvt_search *search, const struct kvt_candidate *best, FILE *out)
{
    for (int role = 0; role < KVT_ROLE_COUNT; role++) {
        const struct kvt_search_more *more = &search->more[role];
        if (!more->known)
            continue;
        int gpus = more->with.gpus - best->gpus;
        fprintf(out, "one more %s replica (+%d GPU%s", kvt_role_names[role], gpus,
                kvt_plural(gpus));
        if (best->usd_per_h > 0)
            fprintf(out, ", +%.2f USD/h", more->with.usd_per_h - best->usd_per_h);
        fprintf(out, "): %s at %.2f of its bound, from %.2f\n", more->with.limit, more->with.worst,
                best->worst);
    }
}

/* "TTFT p90 (ms)" of slo_ttft_p90_ms, of p90_ttft_ms. */
static void print_column(const struct kvt_search *search, int32_t column, const char *label,
                         FILE *out)
{
    char heading[48];
    const char *name = search->columns.names[column];
    const char *percentile = strncmp(name, "slo_", 4) == 0 ? strchr(name + 4, '_') + 1 : name;
    snprintf(heading, sizeof heading, "%s %.*s (ms)", label, (int)strcspn(percentile, "_"),
             percentile);
    kvt_print_right(out, heading, 16);
}

static void print_front(const struct kvt_search *search, FILE *out)
{
    char text[400], number[32];
    if (search->front_count < 2)
        return;
    fputs("\ncost against latency, no other candidate is better in one and as good in the rest:\n"
          "     GPUs     USD/h",
          out);
    print_column(search, search->front_ttft, "TTFT", out);
    print_column(search, search->front_itl, "ITL", out);
    fputc('\n', out);
    for (int64_t i = 0; i < search->front_count && i < FRONT_SHOWN; i++) {
        const struct kvt_candidate *c = &search->candidates[search->front[i]];
        fprintf(out, "%c%8d%10.2f", search->front[i] == search->best ? '*' : ' ', c->gpus,
                c->usd_per_h);
        kvt_print_right(
            out, kvt_number_print(c->values[search->front_ttft], 0, number, sizeof number), 16);
        kvt_print_right(
            out, kvt_number_print(c->values[search->front_itl], 1, number, sizeof number), 16);
        fprintf(out, "   %s\n", settings_of(search, search->front[i], text));
    }
    if (search->front_count > FRONT_SHOWN)
        fprintf(out, "  ... and %" PRId64 " more (--format json)\n",
                search->front_count - FRONT_SHOWN);
}

static void print_reasons(const struct kvt_search *search, FILE *out)
{
    static char texts[REASONS_MAX][KVT_REASON_BYTES];
    int64_t counts[REASONS_MAX];
    int32_t count = kvt_search_reasons(search, texts, counts, REASONS_MAX);
    fprintf(out,
            "\n%" PRId64 " candidate%s, %" PRId64 " run, %" PRId64 " ruled out by bounds, %" PRId64
            " could not be built\n",
            search->count, kvt_plural(search->count), search->evaluated,
            search->states[KVT_CANDIDATE_PRUNED],
            search->states[KVT_CANDIDATE_CONTRADICTS] + search->states[KVT_CANDIDATE_UNFIT]);
    for (int32_t i = 0; i < count; i++)
        fprintf(out, "%8" PRId64 "  %s\n", counts[i], texts[i]);
}

static void print_best(const struct kvt_search *search, FILE *out)
{
    char text[400];
    const struct kvt_config_plan *plan = &search->points->config->plan;
    const struct kvt_candidate *best = &search->candidates[search->best];
    double mtok = value_of(search, best, "cost_usd_per_mtok");
    fputs("best: ", out);
    print_price(best, out);
    if (!isnan(mtok))
        fprintf(out, ", %.3f USD/Mtok", mtok);
    fprintf(out, "\n  %s\n", settings_of(search, search->best, text));
    print_slo(search, best, out);
    print_lost(search, best, out);
    if (plan->lose > 0)
        fprintf(out, "  also with %" PRId64 " replica%s of any role down\n", plan->lose,
                kvt_plural(plan->lose));
    if (plan->resamples > 0)
        fprintf(out, "  meets the SLO in %.0f %% of %" PRId64 " resample%s, want %.0f %%\n",
                100 * best->confidence, plan->resamples, kvt_plural(plan->resamples),
                100 * plan->confidence);
    print_carries(search, out);
    fprintf(out, "limited by %s at %.2f of its bound", best->limit, best->worst);
    print_load(search, best, out);
    fputc('\n', out);
    if (search->cheaper >= 0) {
        const struct kvt_candidate *c = &search->candidates[search->cheaper];
        fputs("next cheaper: ", out);
        print_price(c, out);
        if (c->state == KVT_CANDIDATE_UNSURE)
            fprintf(out, ": meets the SLO in only %.0f %% of the resamples", 100 * c->confidence);
        else
            fprintf(out, ": %s", c->message);
        fprintf(out, "\n  %s\n", settings_of(search, search->cheaper, text));
    }
    print_more(search, best, out);
}

/* No candidate was run: what kills most of them comes first. */
static void print_none(const struct kvt_search *search, FILE *out)
{
    static char texts[REASONS_MAX][KVT_REASON_BYTES];
    int64_t counts[REASONS_MAX];
    int32_t count = kvt_search_reasons(search, texts, counts, REASONS_MAX);
    fputs("nothing meets the SLO: no candidate can be run", out);
    if (count > 0)
        fprintf(out, ", %" PRId64 " of %" PRId64 " because:\n  %s", counts[0], search->count,
                texts[0]);
    fputc('\n', out);
}

void kvt_plan_print_text(const struct kvt_search *search, FILE *out)
{
    char text[400];
    if (search->best >= 0) {
        print_best(search, out);
    } else if (search->closest >= 0) {
        const struct kvt_candidate *c = &search->candidates[search->closest];
        fputs("nothing meets the SLO; the closest: ", out);
        print_price(c, out);
        fprintf(out, "\n  %s\n  misses: %s\n", settings_of(search, search->closest, text),
                c->state == KVT_CANDIDATE_UNSURE ? "the confidence wanted" : c->message);
        if (c->state == KVT_CANDIDATE_UNSURE)
            fprintf(out, "  meets the SLO in %.0f %% of the resamples\n", 100 * c->confidence);
        print_slo(search, c, out);
        print_carries(search, out);
        print_more(search, c, out);
    } else {
        print_none(search, out);
    }
    print_front(search, out);
    print_reasons(search, out);
}

/* ---- for programs ------------------------------------------------------------------------- */

static json_t *metrics_json(const struct kvt_search *search, const struct kvt_candidate *c)
{
    json_t *metrics = json_object();
    for (int32_t m = 0; m < search->columns.count; m++)
        if (!isnan(c->values[m]))
            json_object_set_new(metrics, search->columns.names[m], kvt_json_real(c->values[m]));
    return metrics;
}

/* number -1: it is none of the candidates (one more replica). */
static json_t *candidate_json(const struct kvt_search *search, const struct kvt_candidate *c,
                              int64_t number)
{
    json_t *object = json_object();
    if (number >= 0) {
        json_object_set_new(object, "number", json_integer(number));
        json_object_set_new(object, "settings", kvt_settings_json(search->points, number));
    }
    json_object_set_new(object, "state", json_string(kvt_candidate_state_names[c->state]));
    json_object_set_new(object, "gpus", json_integer(c->gpus));
    json_object_set_new(object, "cost_usd_per_h", kvt_json_real(c->usd_per_h));
    if (number >= 0)
        json_object_set_new(object, "objective", kvt_json_real(c->objective));
    json_object_set_new(object, "limited_by", kvt_json_text(c->limit));
    json_object_set_new(object, "worst_of_bound", kvt_json_real(c->worst));
    json_object_set_new(object, "confidence",
                        kvt_json_real(number >= 0 ? c->confidence : (double)NAN));
    json_object_set_new(object, "message", kvt_json_text(c->message));
    json_object_set_new(object, "metrics", metrics_json(search, c));
    return object;
}

static json_t *numbered_json(const struct kvt_search *search, int64_t number)
{
    return number < 0 ? json_null() : candidate_json(search, &search->candidates[number], number);
}

static json_t *reasons_json(const struct kvt_search *search)
{
    static char texts[REASONS_MAX][KVT_REASON_BYTES];
    int64_t counts[REASONS_MAX];
    int32_t count = kvt_search_reasons(search, texts, counts, REASONS_MAX);
    json_t *list = json_array();
    for (int32_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:o, s:I}", "reason", kvt_json_text(texts[i]),
                                              "candidates", (json_int_t)counts[i]));
    return list;
}

enum kvt_status kvt_plan_print_json(const struct kvt_search *search, FILE *out, struct kvt_err *err)
{
    const struct kvt_config_plan *plan = &search->points->config->plan;
    json_t *object = json_object(), *front = json_array(), *more = json_object();
    for (int64_t i = 0; i < search->front_count; i++)
        json_array_append_new(front, numbered_json(search, search->front[i]));
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        if (search->more[role].known)
            json_object_set_new(more, kvt_role_names[role],
                                candidate_json(search, &search->more[role].with, -1));
    json_object_set_new(object, "objective", json_string(kvt_objective_names[plan->objective]));
    json_object_set_new(object, "best", numbered_json(search, search->best));
    json_object_set_new(object, "closest", numbered_json(search, search->closest));
    json_object_set_new(object, "next_cheaper", numbered_json(search, search->cheaper));
    json_object_set_new(object, "one_more_replica", more);
    json_object_set_new(object, "goodput_factor", kvt_json_real(search->carries));
    json_object_set_new(object, "goodput_rate", kvt_json_real(search->carries * search->rate));
    json_object_set_new(object, "pareto", front);
    json_object_set_new(object, "candidates", json_integer(search->count));
    json_object_set_new(object, "evaluated", json_integer(search->evaluated));
    json_t *states = json_object();
    for (int i = 0; i < KVT_CANDIDATE_STATE_COUNT; i++)
        json_object_set_new(states, kvt_candidate_state_names[i],
                            json_integer((json_int_t)search->states[i]));
    json_object_set_new(object, "states", states);
    json_object_set_new(object, "reasons", reasons_json(search));
    return kvt_json_print(object, 12, out, err);
}

static void print_number(double value, FILE *out)
{
    fputc(',', out);
    kvt_csv_number(out, value);
}

void kvt_plan_print_csv(const struct kvt_search *search, FILE *out)
{
    int32_t domains = search->points->config->domains;
    fputs("candidate", out);
    for (int32_t d = 0; d < domains; d++) {
        fputc(',', out);
        kvt_csv_field(out, kvt_config_domain(search->points->config, d)->path);
    }
    fputs(",state,is_best,on_front,gpus_of_fleet,usd_per_h,objective,worst_of_bound,confidence,"
          "message",
          out);
    for (int32_t m = 0; m < search->columns.count; m++)
        fprintf(out, ",%s", search->columns.names[m]);
    fputc('\n', out);
    for (int64_t i = 0; i < search->count; i++) {
        const struct kvt_candidate *c = &search->candidates[i];
        fprintf(out, "%" PRId64, i);
        for (int32_t d = 0; d < domains; d++) {
            fputc(',', out);
            kvt_csv_field(out, kvt_points_text(search->points, i, d));
        }
        fprintf(out, ",%s,%d,%d,%d", kvt_candidate_state_names[c->state], i == search->best,
                c->on_front, c->gpus);
        print_number(c->usd_per_h, out);
        print_number(c->objective, out);
        print_number(c->worst, out);
        print_number(c->confidence, out);
        fputc(',', out);
        kvt_csv_field(out, c->message);
        for (int32_t m = 0; m < search->columns.count; m++)
            print_number(c->values[m], out);
        fputc('\n', out);
    }
}
