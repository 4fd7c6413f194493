/* What a search found, in relation: the front, the next cheaper one, one more replica, the rate. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan/search_parts.h"

#define DOUBLINGS 6    /* of the traffic, up or down, before the search for its limit gives up */
#define PRECISION 1.01 /* of that limit */

static bool was_run(const struct kvt_candidate *c)
{
    return c->state == KVT_CANDIDATE_MISSES || c->state == KVT_CANDIDATE_UNSURE ||
           c->state == KVT_CANDIDATE_MEETS;
}

/* ---- the front ---------------------------------------------------------------------------- */

/* The latency that a front is drawn over: the first percentile of the SLO, else the usual one. */
static int32_t front_column(const struct kvt_search *search, const char *key,
                            const struct kvt_config_target *target, const char *otherwise)
{
    char name[56], percentile[16];
    if (target->count == 0)
        return kvt_point_column(&search->columns, otherwise);
    kvt_percentile_print(target->percentile[0], percentile, sizeof percentile);
    snprintf(name, sizeof name, "slo_%s_%s_ms", key, percentile);
    int32_t column = kvt_point_column(&search->columns, name);
    return column >= 0 ? column : kvt_point_column(&search->columns, otherwise);
}

static double at(const struct kvt_candidate *c, int32_t column)
{
    double value = column >= 0 ? c->values[column] : 0;
    return isnan(value) ? 0 : value; /* nobody has a gap: none is the best */
}

static int by_objective(const void *a, const void *b)
{
    const struct kvt_candidate *x = *(const struct kvt_candidate *const *)a;
    const struct kvt_candidate *y = *(const struct kvt_candidate *const *)b;
    int order = (x->objective > y->objective) - (x->objective < y->objective);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Candidates that meet the SLO and that no other one equals or beats in all three. Of equal ones
 * the first stays. */
static enum kvt_status draw_front(struct kvt_search *search, struct kvt_err *err)
{
    const struct kvt_config_slo *slo = &search->points->config->slo;
    int32_t ttft = front_column(search, "ttft", &slo->ttft, "p90_ttft_ms");
    int32_t itl = front_column(search, "itl", &slo->itl, "p99_itl_ms");
    search->front_ttft = ttft;
    search->front_itl = itl;
    struct kvt_candidate **meets = calloc((size_t)search->count, sizeof *meets);
    int64_t count = 0;
    if (meets == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a front");
    for (int64_t i = 0; i < search->count; i++)
        if (search->candidates[i].state == KVT_CANDIDATE_MEETS)
            meets[count++] = &search->candidates[i];
    qsort(meets, (size_t)count, sizeof *meets, by_objective);
    for (int64_t i = 0; i < count; i++) {
        struct kvt_candidate *c = meets[i];
        c->on_front = true;
        for (int64_t j = 0; j < count && meets[j]->objective <= c->objective && c->on_front; j++) {
            const struct kvt_candidate *o = meets[j];
            bool equal = o->objective == c->objective && at(o, ttft) == at(c, ttft) &&
                         at(o, itl) == at(c, itl);
            if (o != c && at(o, ttft) <= at(c, ttft) && at(o, itl) <= at(c, itl) &&
                (!equal || j < i))
                c->on_front = false;
        }
        if (c->on_front)
            search->front[search->front_count++] = c - search->candidates;
    }
    free(meets);
    return KVT_OK;
}

/* ---- neighbours --------------------------------------------------------------------------- */

/* Whether a is a better answer than b to what comes nearest. */
static bool is_nearer(const struct kvt_candidate *a, const struct kvt_candidate *b)
{
    if (a->worst != b->worst)
        return a->worst < b->worst;
    return a->objective < b->objective;
}

static void find_neighbours(struct kvt_search *search)
{
    const struct kvt_candidate *all = search->candidates;
    for (int64_t i = 0; i < search->count; i++) {
        const struct kvt_candidate *c = &all[i];
        if (search->best < 0) {
            if (was_run(c) && (search->closest < 0 || is_nearer(c, &all[search->closest])))
                search->closest = i;
            continue;
        }
        bool judged = was_run(c) || c->state == KVT_CANDIDATE_PRUNED;
        if (!judged || !(c->objective < all[search->best].objective))
            continue;
        const struct kvt_candidate *o = search->cheaper >= 0 ? &all[search->cheaper] : NULL;
        if (o == NULL || c->objective > o->objective ||
            (c->objective == o->objective && is_nearer(c, o)))
            search->cheaper = i;
    }
}

static enum kvt_status buy_one_more(struct kvt_search *search, int64_t number,
                                    const struct kvt_search_options *options, struct kvt_err *err)
{
    struct kvt_config *config = malloc(sizeof *config);
    if (config == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a candidate");
    enum kvt_status status = kvt_points_choose(search->points, number, NULL, 0, config, err);
    for (int role = 0; status == KVT_OK && role < KVT_ROLE_COUNT; role++) {
        struct kvt_search_more *more = &search->more[role];
        char set[80];
        const struct kvt_assess_how how = {.more = set, .stop = options->stop};
        if (!config->roles[role].present)
            continue;
        more->with =
            (struct kvt_candidate){.values = calloc((size_t)search->columns.count, sizeof(double))};
        if (more->with.values == NULL) {
            status = kvt_err_set(err, KVT_ENOMEM, "no memory for a candidate");
            break;
        }
        snprintf(set, sizeof set, "fleet.%s.replicas=%d", kvt_role_names[role],
                 config->roles[role].replicas + 1);
        status = kvt_candidate_assess(&more->with, search, number, &how, NULL, err);
        more->known = status == KVT_OK && was_run(&more->with);
        if (more->known) {
            more->with.gpus =
                (int32_t)more->with.values[kvt_point_column(&search->columns, "gpus")];
            int32_t usd = kvt_point_column(&search->columns, "cost_usd_per_h");
            more->with.usd_per_h = usd >= 0 ? more->with.values[usd] : (double)NAN;
        }
    }
    kvt_config_release(config);
    free(config);
    return status;
}

/* ---- the rate that it carries ------------------------------------------------------------- */

struct probe {
    const struct kvt_search *search;
    int64_t number;
    const struct kvt_search_options *options;
    double speed, rate; /* of the config's load, one of them */
    double *values;
};

/* Whether the candidate meets the SLO at so many times the traffic. */
static enum kvt_status meets_at(const struct probe *probe, double factor, bool *meets,
                                struct kvt_err *err)
{
    char set[80];
    const struct kvt_assess_how how = {.more = set, .prune = true, .stop = probe->options->stop};
    struct kvt_candidate candidate = {.values = probe->values};
    if (probe->rate > 0)
        snprintf(set, sizeof set, "workload.open.rate=%.9g req/s", probe->rate * factor);
    else
        snprintf(set, sizeof set, "workload.trace.speed=%.9g", probe->speed * factor);
    KVT_TRY(kvt_candidate_assess(&candidate, probe->search, probe->number, &how, NULL, err));
    *meets = candidate.state == KVT_CANDIDATE_MEETS;
    return KVT_OK;
}

/* The largest factor that meets the SLO, by bisection: more traffic is taken as never easier. NaN
 * where no factor does, infinite where all that were tried do. */
static enum kvt_status bisect(const struct probe *probe, bool meets_now, double *carries,
                              struct kvt_err *err)
{
    double low = 1, high = 1;
    bool meets = meets_now;
    for (int i = 0; i < DOUBLINGS && meets == meets_now; i++) {
        double factor = meets_now ? 2 * high : low / 2;
        KVT_TRY(meets_at(probe, factor, &meets, err));
        if (meets_now) {
            low = high;
            high = factor;
        } else {
            high = low;
            low = factor;
        }
    }
    if (meets == meets_now) {
        *carries = meets_now ? (double)INFINITY : (double)NAN;
        return KVT_OK;
    }
    while (high > low * PRECISION) {
        double middle = sqrt(low * high);
        KVT_TRY(meets_at(probe, middle, &meets, err));
        if (meets)
            low = middle;
        else
            high = middle;
    }
    *carries = low;
    return KVT_OK;
}

static enum kvt_status find_carries(struct kvt_search *search, int64_t number,
                                    const struct kvt_search_options *options, struct kvt_err *err)
{
    struct probe probe = {.search = search, .number = number, .options = options};
    struct kvt_config *config = malloc(sizeof *config);
    probe.values = calloc((size_t)search->columns.count, sizeof *probe.values);
    if (config == NULL || probe.values == NULL) {
        free(config);
        free(probe.values);
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a candidate");
    }
    enum kvt_status status = kvt_points_choose(search->points, number, NULL, 0, config, err);
    if (status == KVT_OK) {
        bool open = config->workload.kind == KVT_WORKLOAD_OPEN;
        probe.rate = open ? config->workload.rate : 0;
        probe.speed = config->workload.trace_speed;
        struct kvt_candidate now = {.values = probe.values};
        const struct kvt_assess_how how = {.stop = options->stop};
        status = kvt_candidate_assess(&now, search, number, &how, &search->rate, err);
        if (status == KVT_OK && config->workload.kind != KVT_WORKLOAD_CLOSED)
            status = bisect(&probe, now.state == KVT_CANDIDATE_MEETS, &search->carries, err);
        kvt_config_release(config);
    }
    free(config);
    free(probe.values);
    return status;
}

enum kvt_status kvt_search_explain(struct kvt_search *search,
                                   const struct kvt_search_options *options, struct kvt_err *err)
{
    find_neighbours(search);
    KVT_TRY(draw_front(search, err));
    int64_t number = search->best >= 0 ? search->best : search->closest;
    if (number < 0)
        return KVT_OK;
    KVT_TRY(buy_one_more(search, number, options, err));
    return find_carries(search, number, options, err);
}

/* ---- reasons ------------------------------------------------------------------------------ */

/* The message behind "--set key=value: ", where it begins with one of the sets of the candidate, or
 * behind "file:line:column: ". */
static const char *without_place(const struct kvt_points *points, int64_t number,
                                 const char *message)
{
    char set[KVT_POINT_MESSAGE];
    for (int32_t d = 0; d < points->config->domains; d++) {
        int bytes =
            snprintf(set, sizeof set, "--set %s=%s: ", kvt_config_domain(points->config, d)->path,
                     kvt_points_text(points, number, d));
        if (bytes < (int)sizeof set && strncmp(message, set, (size_t)bytes) == 0)
            return message + bytes;
    }
    for (int32_t i = 0; i < points->set_count; i++) {
        int bytes = snprintf(set, sizeof set, "--set %s: ", points->sets[i]);
        if (bytes < (int)sizeof set && strncmp(message, set, (size_t)bytes) == 0)
            return message + bytes;
    }
    const char *stop = strstr(message, ": ");
    bool has_place = stop != NULL && strpbrk(message, ":") < stop;
    return has_place ? stop + 2 : message;
}

/* The first clause of a message. */
static void first_clause(const char *text, char out[KVT_REASON_BYTES])
{
    size_t used = 0;
    for (const char *c = text; *c != '\0' && *c != '\n' && used + 1 < KVT_REASON_BYTES; c++) {
        bool ends = c[0] == ';' ||
                    (c[0] == ':' && c[1] == ' ' && used > 20 && strncmp(text, "fleet.", 6) != 0);
        if (ends)
            break;
        out[used++] = *c;
    }
    out[used] = '\0';
}

/* Bytes of the number that stands alone at text[at], or of an N in the place of one; 0: none. */
static size_t number_at(const char *text, size_t at)
{
    bool begins = at > 0 && (text[at - 1] == ' ' || text[at - 1] == '(');
    size_t bytes = 0;
    if (!begins)
        return 0;
    if (text[at] == 'N' && !isalnum((unsigned char)text[at + 1]))
        return 1;
    while (isdigit((unsigned char)text[at + bytes]) ||
           (bytes > 0 && text[at + bytes] == '.' && isdigit((unsigned char)text[at + bytes + 1])))
        bytes++;
    return bytes;
}

/* Whether two reasons differ in numbers alone; then both, an N for each number that differs, into
 * *reason. */
static bool merge_reasons(char reason[KVT_REASON_BYTES], const char *other)
{
    char both[KVT_REASON_BYTES] = "";
    size_t a = 0, b = 0, used = 0;
    while (reason[a] != '\0' || other[b] != '\0') {
        size_t count = number_at(reason, a), others = number_at(other, b);
        bool equal = count == others && memcmp(&reason[a], &other[b], count) == 0;
        if (count > 0 && others > 0) {
            memcpy(&both[used], equal ? &reason[a] : "N", equal ? count : 1);
            used += equal ? count : 1;
            a += count;
            b += others;
        } else if (reason[a] == other[b]) {
            both[used++] = reason[a++];
            b++;
        } else {
            return false;
        }
    }
    memcpy(reason, both, used);
    reason[used] = '\0';
    return true;
}

static void reason_of(const struct kvt_search *search, int64_t number, char out[KVT_REASON_BYTES])
{
    const struct kvt_candidate *c = &search->candidates[number];
    out[0] = '\0';
    switch (c->state) {
    case KVT_CANDIDATE_CONTRADICTS:
    case KVT_CANDIDATE_UNFIT:
        first_clause(without_place(search->points, number, c->message), out);
        break;
    case KVT_CANDIDATE_PRUNED:
        snprintf(out, KVT_REASON_BYTES, "%s", kvt_bound_texts[c->bound]);
        break;
    case KVT_CANDIDATE_MISSES:
        snprintf(out, KVT_REASON_BYTES, "misses %s", c->limit);
        break;
    case KVT_CANDIDATE_UNSURE:
        snprintf(out, KVT_REASON_BYTES, "meets the SLO, but not with the confidence wanted");
        break;
    case KVT_CANDIDATE_DEARER:
        snprintf(out, KVT_REASON_BYTES, "costs more than the best");
        break;
    case KVT_CANDIDATE_MEETS:
    case KVT_CANDIDATE_STATE_COUNT:
        break;
    }
}

int32_t kvt_search_reasons(const struct kvt_search *search, char (*texts)[KVT_REASON_BYTES],
                           int64_t counts[], int32_t most)
{
    int32_t count = 0;
    for (int64_t i = 0; i < search->count; i++) {
        char reason[KVT_REASON_BYTES];
        reason_of(search, i, reason);
        int32_t at_index = 0;
        if (reason[0] == '\0')
            continue;
        while (at_index < count && !merge_reasons(texts[at_index], reason))
            at_index++;
        if (at_index == most)
            continue;
        if (at_index == count) {
            counts[count] = 0;
            memcpy(texts[count++], reason, sizeof reason);
        }
        counts[at_index]++;
    }
    for (int32_t i = 1; i < count; i++) /* few: by count, the first of equal ones first */
        for (int32_t j = i; j > 0 && counts[j] > counts[j - 1]; j--) {
            char text[KVT_REASON_BYTES];
            int64_t number = counts[j];
            memcpy(text, texts[j], sizeof text);
            memcpy(texts[j], texts[j - 1], sizeof text);
            memcpy(texts[j - 1], text, sizeof text);
            counts[j] = counts[j - 1];
            counts[j - 1] = number;
        }
    return count;
}
