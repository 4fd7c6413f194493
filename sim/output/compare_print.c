/*
 * compare_print.c - a comparison as text, JSON and CSV
 */
#include <csv.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/output/compare.h"
#include "sim/output/log.h"
#include "sim/output/parts.h"

static const char *const sides[2] = {"A", "B"};

static const char *or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

/* b / a - 1; whether there is one. */
static bool relative(const struct kvt_pair *pair, double *difference)
{
    if (!pair->is_number || pair->text[0] == NULL || pair->text[1] == NULL || pair->number[0] == 0)
        return false;
    *difference = pair->number[1] / pair->number[0] - 1;
    return isfinite(*difference);
}

/* ---- text ---- */

static void print_record(const struct kvt_comparison *c, int side, int32_t i, const char *mark,
                         FILE *file)
{
    char words[160];
    const struct kvt_run_reader *run = &c->runs[side];
    kvt_decision_print(&c->context[side][i], run->names, run->name_count, words, sizeof words);
    fprintf(file, "%2s %10" PRId64 "  %s\n", mark, c->context_first + i, words);
}

static void print_divergence(const struct kvt_comparison *c, FILE *file)
{
    int32_t before = (int32_t)(c->divergence - c->context_first);
    for (int32_t i = 0; i < before; i++)
        print_record(c, 0, i, "", file);
    for (int side = 0; side < 2; side++) {
        for (int32_t i = before; i < c->context_count[side]; i++)
            print_record(c, side, i, sides[side], file);
        if (c->context_count[side] <= before)
            fprintf(file, "%2s %10" PRId64 "  the log ends here\n", sides[side], c->divergence);
    }
}

static void print_logs(const struct kvt_comparison *c, FILE *file)
{
    if (!c->logged[0] && !c->logged[1])
        fprintf(file, "Decisions: neither run has a log\n");
    else if (!c->logged[0] || !c->logged[1])
        fprintf(file, "Decisions: %s has no log\n", sides[c->logged[0] ? 1 : 0]);
    else if (c->logs_equal)
        fprintf(file, "Decisions: all %" PRId64 " equal\n", c->runs[0].decision_count);
    else {
        fprintf(file,
                "Decisions: %" PRId64 " in A, %" PRId64 " in B; they part at record %" PRId64
                " (from 0)\n",
                c->runs[0].decision_count, c->runs[1].decision_count, c->divergence);
        print_divergence(c, file);
    }
}

static void print_requests(const struct kvt_comparison *c, FILE *file)
{
    if (c->requests_different == 0)
        fprintf(file, "Requests: all %" PRId64 " equal\n", c->request_count[0]);
    else
        fprintf(file,
                "Requests: %" PRId64 " in A, %" PRId64 " in B; %" PRId64
                " differ, the first is number %" PRId64 " (from 0)\n",
                c->request_count[0], c->request_count[1], c->requests_different,
                c->first_different);
}

static void print_lines(char side, const char *text, FILE *file)
{
    fprintf(file, "     %c  ", side);
    for (; *text != '\0'; text++)
        if (*text == '\n')
            fputs("\n        ", file);
        else
            fputc(*text, file);
    fputc('\n', file);
}

static void print_long(const struct kvt_pair *pair, const char *a, const char *b, FILE *file)
{
    fprintf(file, " %c %s\n", pair->equal ? ' ' : '*', pair->name);
    print_lines('A', a, file);
    print_lines('B', b, file);
}

static void print_pairs(const char *title, const struct kvt_pairs *pairs, bool all, FILE *file)
{
    if (pairs->different == 0) {
        fprintf(file, "%s: all %" PRId32 " equal\n", title, pairs->count);
        return;
    }
    fprintf(file, "%s: %" PRId32 " of %" PRId32 " differ\n", title, pairs->different, pairs->count);
    fprintf(file, "   %-36s %18s %18s %12s\n", "", "A", "B", "B/A - 1");
    for (int32_t i = 0; i < pairs->count; i++) {
        const struct kvt_pair *pair = &pairs->pairs[i];
        if (pair->equal && !all)
            continue;
        char difference[24] = "";
        double value;
        if (!pair->equal && relative(pair, &value))
            snprintf(difference, sizeof difference, " %+12.4g", value);
        const char *a = or_dash(pair->text[0]), *b = or_dash(pair->text[1]);
        if (strlen(a) > 18 || strlen(b) > 18) /* what would burst the columns, or has lines */
            print_long(pair, a, b, file);
        else
            fprintf(file, " %c %-36s %18s %18s%s\n", pair->equal ? ' ' : '*', pair->name, a, b,
                    difference);
    }
}

enum kvt_status kvt_comparison_text(const struct kvt_comparison *comparison, FILE *file,
                                    struct kvt_err *err)
{
    (void)err; /* the same shape as the other formats */
    const struct kvt_comparison *c = comparison;
    fprintf(file, "A: %s\nB: %s\n", c->runs[0].path, c->runs[1].path);
    fprintf(file, "%s\n\n", c->equal ? "The runs are equal." : "The runs differ.");
    print_logs(c, file);
    print_requests(c, file);
    print_pairs("Metrics", &c->metrics, true, file);
    print_pairs("Configuration", &c->config, false, file);
    print_pairs("Seed, versions and the like", &c->meta, false, file);
    return KVT_OK;
}

/* ---- JSON ---- */

static json_t *side_json(const struct kvt_pair *pair, int side)
{
    if (pair->text[side] == NULL)
        return json_null();
    return pair->is_number ? kvt_json_real(pair->number[side]) : kvt_json_text(pair->text[side]);
}

static json_t *pairs_json(const struct kvt_pairs *pairs, bool all)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < pairs->count; i++) {
        const struct kvt_pair *pair = &pairs->pairs[i];
        if (pair->equal && !all)
            continue;
        double value;
        bool has_value = relative(pair, &value);
        json_t *row = json_object();
        json_object_set_new(row, "name", kvt_json_text(pair->name));
        json_object_set_new(row, "a", side_json(pair, 0));
        json_object_set_new(row, "b", side_json(pair, 1));
        json_object_set_new(row, "difference", has_value ? json_real(value) : json_null());
        json_object_set_new(row, "equal", json_boolean(pair->equal));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *record_json(const struct kvt_comparison *c, int side, int32_t i)
{
    const struct kvt_run_reader *run = &c->runs[side];
    const struct kvt_decision *record = &c->context[side][i];
    bool known = record->kind >= 0 && record->kind < KVT_DECISION_KINDS;
    bool named = record->replica >= 0 && record->replica < run->name_count;
    json_t *row = json_object();
    json_object_set_new(row, "index", json_integer(c->context_first + i));
    json_object_set_new(row, "ticks", json_integer(record->time));
    json_object_set_new(row, "time_s", json_real(kvt_seconds_from_ticks(record->time)));
    json_object_set_new(row, "request", json_integer(record->request));
    json_object_set_new(row, "replica",
                        kvt_json_text(named ? run->names[record->replica] : "router"));
    json_object_set_new(
        row, "kind",
        json_string(known ? kvt_decision_name((enum kvt_decision_kind)record->kind) : "?"));
    json_object_set_new(row, "count", json_integer(record->count));
    return row;
}

static json_t *decisions_json(const struct kvt_comparison *c)
{
    static const char *const keys[2] = {"a", "b"}, *const counts[2] = {"count_a", "count_b"};
    json_t *object = json_object();
    for (int side = 0; side < 2; side++)
        json_object_set_new(object, counts[side],
                            c->logged[side] ? json_integer(c->runs[side].decision_count)
                                            : json_null());
    bool compared = c->logged[0] && c->logged[1];
    json_object_set_new(object, "equal", compared ? json_boolean(c->logs_equal) : json_null());
    json_object_set_new(object, "divergence",
                        c->divergence >= 0 ? json_integer(c->divergence) : json_null());
    for (int side = 0; side < 2 && c->divergence >= 0; side++) {
        json_t *list = json_array();
        for (int32_t i = 0; i < c->context_count[side]; i++)
            json_array_append_new(list, record_json(c, side, i));
        json_object_set_new(object, keys[side], list);
    }
    return object;
}

static json_t *requests_json(const struct kvt_comparison *c)
{
    json_t *object = json_object();
    json_object_set_new(object, "count_a", json_integer(c->request_count[0]));
    json_object_set_new(object, "count_b", json_integer(c->request_count[1]));
    json_object_set_new(object, "different", json_integer(c->requests_different));
    json_object_set_new(object, "first",
                        c->first_different >= 0 ? json_integer(c->first_different) : json_null());
    return object;
}

enum kvt_status kvt_comparison_json(const struct kvt_comparison *comparison, FILE *file,
                                    struct kvt_err *err)
{
    const struct kvt_comparison *c = comparison;
    kvt_json_begin();
    json_t *object = json_object();
    json_object_set_new(object, "equal", json_boolean(c->equal));
    json_object_set_new(object, "a", kvt_json_text(c->runs[0].path));
    json_object_set_new(object, "b", kvt_json_text(c->runs[1].path));
    json_object_set_new(object, "decisions", decisions_json(c));
    json_object_set_new(object, "requests", requests_json(c));
    json_object_set_new(object, "metrics", pairs_json(&c->metrics, true));
    json_object_set_new(object, "config", pairs_json(&c->config, false));
    json_object_set_new(object, "meta", pairs_json(&c->meta, false));
    return kvt_json_print(object, 12, file, err);
}

/* ---- CSV ---- */

static void csv_text(FILE *file, const char *text, char after)
{
    if (strpbrk(text, ",\"\n\r") != NULL)
        csv_fwrite(file, text, strlen(text));
    else
        fputs(text, file);
    fputc(after, file);
}

static void csv_pairs(const char *kind, const struct kvt_pairs *pairs, bool all, FILE *file)
{
    for (int32_t i = 0; i < pairs->count; i++) {
        const struct kvt_pair *pair = &pairs->pairs[i];
        if (pair->equal && !all)
            continue;
        char difference[32] = "";
        double value;
        if (relative(pair, &value))
            snprintf(difference, sizeof difference, "%.12g", value);
        csv_text(file, kind, ',');
        csv_text(file, pair->name, ',');
        csv_text(file, pair->text[0] != NULL ? pair->text[0] : "", ',');
        csv_text(file, pair->text[1] != NULL ? pair->text[1] : "", ',');
        csv_text(file, difference, ',');
        csv_text(file, pair->equal ? "true" : "false", '\n');
    }
}

enum kvt_status kvt_comparison_csv(const struct kvt_comparison *comparison, FILE *file,
                                   struct kvt_err *err)
{
    (void)err; /* the same shape as the other formats */
    const struct kvt_comparison *c = comparison;
    fprintf(file, "kind,name,a,b,difference,equal\n");
    if (c->divergence >= 0) {
        fprintf(file, "decisions,divergence,%" PRId64 ",%" PRId64 ",,false\n", c->divergence,
                c->divergence);
        int32_t at = (int32_t)(c->divergence - c->context_first);
        fprintf(file, "decisions,record");
        for (int side = 0; side < 2; side++) {
            char words[160] = "";
            if (at < c->context_count[side])
                kvt_decision_print(&c->context[side][at], c->runs[side].names,
                                   c->runs[side].name_count, words, sizeof words);
            fprintf(file, ",%s", words);
        }
        fprintf(file, ",,false\n");
    }
    if (c->requests_different > 0)
        fprintf(file, "requests,first,%" PRId64 ",%" PRId64 ",,false\n", c->first_different,
                c->first_different);
    csv_pairs("metric", &c->metrics, true, file);
    csv_pairs("config", &c->config, false, file);
    csv_pairs("meta", &c->meta, false, file);
    return KVT_OK;
}
