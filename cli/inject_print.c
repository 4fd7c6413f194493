#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/inject_real.h"

static bool is_same_guard(const struct kvt_inject_row *a, const struct kvt_inject_row *b)
{
    return strcmp(a->config, b->config) == 0 && strcmp(a->guard, b->guard) == 0 &&
           a->check == b->check && a->on_hit == b->on_hit && a->tag_bits == b->tag_bits;
}

/* "tag-side (16 bits, before-read)" */
static const char *guard_text(const struct kvt_inject_row *row,
                              char out[KVT_INJECT_NAME_BYTES + 64])
{
    char bits[24] = "";
    if (row->tag_bits > 0)
        snprintf(bits, sizeof bits, "%d bits, ", row->tag_bits);
    if (!row->looks)
        snprintf(out, KVT_INJECT_NAME_BYTES + 64, "%s", row->guard);
    else
        snprintf(out, KVT_INJECT_NAME_BYTES + 64, "%s (%s%s%s%s)", row->guard, bits,
                 kvt_check_names[row->check], row->on_hit != KVT_ON_HIT_ABORT ? ", " : "",
                 row->on_hit != KVT_ON_HIT_ABORT ? kvt_on_hit_names[row->on_hit] : "");
    return out;
}

/* ---- rows as fields ----------------------------------------------------------------------- */

static double per(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static double clean_throughput(const struct kvt_cell *cell)
{
    const struct kvt_clean *clean = &cell->clean;
    return clean->duration_s > 0 ? (double)clean->requests / clean->duration_s : 0;
}

static double detection_ms(const struct kvt_cell *cell)
{
    int64_t detected = cell->outcomes[KVT_OUTCOME_DETECTED];
    return detected > 0 ? 1e3 * cell->latency_s / (double)detected : 0;
}

void kvt_inject_cell_fields(const struct kvt_inject_row *row, struct kvt_fields *f)
{
    const struct kvt_cell *cell = &row->cell;
    const struct kvt_clean *clean = &cell->clean;
    const char *estimator;
    struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
    f->count = 0;
    kvt_field_text(f, "config", row->config);
    kvt_field_text(f, "fault", kvt_fault_names[cell->kind]);
    kvt_field_text(f, "guard", row->guard);
    kvt_field_text(f, "check", kvt_check_names[row->check]);
    kvt_field_count(f, "tag_bits", row->tag_bits);
    kvt_field_count(f, "injected", cell->injected);
    kvt_field_count(f, "activated", cell->activated);
    kvt_field_count(f, "exposed", cell->exposed);
    for (int i = 0; i < KVT_OUTCOME_COUNT; i++)
        kvt_field_count(f, kvt_outcome_names[i], cell->outcomes[i]);
    kvt_field_count(f, "false_aborts", cell->false_aborts);
    kvt_field_real(f, "escapes_per_1e9", 1e9 * escapes.p);
    kvt_field_real(f, "ci_low", 1e9 * escapes.low);
    kvt_field_real(f, "ci_high", 1e9 * escapes.high);
    kvt_field_text(f, "estimator", estimator);
    kvt_field_real(f, "effective_samples", escapes.effective);
    kvt_field_count(f, "cross_tenant", cell->cross_tenant);
    kvt_field_count(f, "requests_hit", cell->hit);
    kvt_field_count(f, "requests_lost", cell->lost);
    kvt_field_count(f, "leaked_tokens", cell->leaked);
    kvt_field_count(f, "detected_after_leak", cell->detected_late);
    kvt_field_real(f, "mean_detection_ms", detection_ms(cell));
    kvt_field_text(f, "on_hit", kvt_on_hit_names[row->on_hit]);
    kvt_field_count(f, "requests_saved", cell->saved);
    kvt_field_count(f, "recovery_tokens", cell->again);
    kvt_field_count(f, "requests_spoiled", cell->spoiled);
    kvt_field_real(f, "blast_radius_mean", per(cell->spoiled, cell->activated));
    kvt_field_count(f, "blast_radius_max", cell->spoiled_most);
    kvt_field_real(f, "held_page_s", cell->held_page_s);
    kvt_field_real(f, "goodput", kvt_cell_goodput(cell));
    kvt_field_real(f, "clean_request_throughput", clean_throughput(cell));
    kvt_field_real(f, "clean_mean_tpot_ms", 1e3 * clean->mean_tpot_s);
    kvt_field_count(f, "guard_bytes_per_gpu", clean->guard_bytes);
    kvt_field_count(f, "clean_requests", clean->requests);
    kvt_field_count(f, "clean_false_aborts", clean->false_aborts);
    kvt_field_count(f, "clean_pages_left", clean->pages_left);
    kvt_field_count(f, "clean_unfinished", clean->unfinished);
    kvt_field_real(f, "clean_fenced_page_s", clean->fenced_page_s);
    kvt_field_real(f, "detection_s_sum", cell->latency_s);
    kvt_field_hide(f);
    kvt_field_real(f, "clean_duration_s", clean->duration_s);
    kvt_field_hide(f);
    kvt_field_real(f, "tag_alias", row->tag_bits > 0 ? 1 / (ldexp(1, row->tag_bits) - 1) : 1);
    kvt_field_hide(f);
}

bool kvt_inject_is_as_expected(const struct kvt_inject_row *row)
{
    return !row->planned || !row->expected || row->result.outcome == row->expectation;
}

static void strike_fields(const struct kvt_inject_row *row, struct kvt_fields *f)
{
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
    const struct kvt_fault_result *result = &row->result;
    f->count = 0;
    kvt_field_text(f, "config", row->config);
    kvt_field_text(f, "fault", kvt_fault_names[info->kind]);
    kvt_field_text(f, "variant", info->name);
    kvt_field_text(f, "guard", row->guard);
    kvt_field_real(f, "at_s", kvt_seconds_from_ticks(row->strike.time));
    kvt_field_truth(f, "activated", result->activated);
    kvt_field_truth(f, "exposed", result->exposed);
    kvt_field_truth(f, "detected", result->detected);
    kvt_field_text(f, "outcome", kvt_outcome_names[result->outcome]);
    kvt_field_truth(f, "cross_tenant", result->cross_tenant);
    kvt_field_count(f, "requests_hit", result->hit);
    kvt_field_count(f, "requests_lost", result->lost);
    kvt_field_count(f, "false_aborts", result->false_aborts);
    kvt_field_count(f, "leaked_tokens", result->leaked);
    kvt_field_count(f, "requests_saved", result->saved);
    kvt_field_count(f, "recovery_tokens", result->again);
    kvt_field_real(f, "held_page_s", result->held_page_s);
    kvt_field_text(f, "expected", row->expected ? kvt_outcome_names[row->expectation] : NULL);
}

/* How a run was split; levels that nobody reached are left out. */
static void print_levels_json(const struct kvt_split_levels *levels, FILE *out)
{
    fprintf(out, ", \"clones\": %lld, \"levels\": [", (long long)levels->clones);
    for (int32_t i = 0; i < KVT_FAULT_LEVELS; i++)
        if (levels->entered[i] > 0)
            fprintf(out, "%s{\"level\": %d, \"entered\": %lld, \"passed\": %lld, \"factor\": %d}",
                    i > 0 ? ", " : "", i, (long long)levels->entered[i],
                    (long long)levels->passed[i], levels->factor[i] > 1 ? levels->factor[i] : 1);
    fputc(']', out);
}

/* Escapes per request at the config's rates. */
static void rate_fields(const struct kvt_inject_row *row, struct kvt_fields *f)
{
    const struct kvt_fault_estimate *estimate = &row->estimate;
    struct kvt_estimate escapes = kvt_fault_estimate_escapes(estimate);
    f->count = 0;
    kvt_field_text(f, "config", row->config);
    kvt_field_text(f, "guard", row->guard);
    kvt_field_text(f, "check", kvt_check_names[row->check]);
    kvt_field_count(f, "tag_bits", row->tag_bits);
    kvt_field_count(f, "runs", estimate->runs);
    kvt_field_count(f, "requests", estimate->requests);
    kvt_field_count(f, "strikes", estimate->strikes);
    kvt_field_count(f, "activated", estimate->activated);
    kvt_field_real(f, "strikes_per_run", estimate->mean);
    kvt_field_real(f, "inflate", estimate->inflate);
    kvt_field_real(f, "escapes_per_1e9_requests", 1e9 * escapes.p);
    kvt_field_real(f, "ci_low", 1e9 * escapes.low);
    kvt_field_real(f, "ci_high", 1e9 * escapes.high);
    kvt_field_text(f, "estimator", kvt_fault_estimator_names[row->estimator]);
    kvt_field_real(f, "effective_samples", escapes.effective);
    kvt_field_real(f, "largest_share", escapes.largest_share);
}

/* The rows of a report are of three kinds; each has its list of fields. */
enum kind { CELL, STRIKE, RATE, KINDS };
static const char *const kind_names[KINDS] = {"matrix", "strikes", "rates"};

static enum kind kind_of(const struct kvt_inject_row *row)
{
    return row->rated ? RATE : row->planned ? STRIKE : CELL;
}

static void fields_of(const struct kvt_inject_row *row, struct kvt_fields *f)
{
    void (*const fill[KINDS])(const struct kvt_inject_row *, struct kvt_fields *) = {
        kvt_inject_cell_fields, strike_fields, rate_fields};
    fill[kind_of(row)](row, f);
}

/* ---- printing ----------------------------------------------------------------------------- */

static void print_rates_text(const struct kvt_inject_report *report)
{
    char guard[KVT_INJECT_NAME_BYTES + 64];
    bool first = true;
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        if (kind_of(row) != RATE)
            continue;
        struct kvt_estimate escapes = kvt_fault_estimate_escapes(&row->estimate);
        if (first)
            printf("%-44s%8s%9s%16s%27s%12s%11s\n", "guard", "runs", "strikes", "escapes / 1e9",
                   "95 % interval", "estimator", "effective");
        first = false;
        printf("%-44s%8lld%9lld%16.4g%14.4g to %9.4g%12s%11.1f\n", guard_text(row, guard),
               (long long)row->estimate.runs, (long long)row->estimate.strikes, 1e9 * escapes.p,
               1e9 * escapes.low, 1e9 * escapes.high, kvt_fault_estimator_names[row->estimator],
               escapes.effective);
    }
}

static void print_json(const struct kvt_inject_report *report)
{
    static struct kvt_fields fields;
    for (int kind = 0; kind < KINDS; kind++) {
        const char *before = "";
        printf("%s\"%s\": [", kind == 0 ? "{" : "], ", kind_names[kind]);
        for (int32_t i = 0; i < report->count; i++) {
            const struct kvt_inject_row *row = &report->rows[i];
            if ((int)kind_of(row) != kind)
                continue;
            fields_of(row, &fields);
            printf("%s\n  {", before);
            kvt_fields_json(&fields, stdout);
            if (row->rated && row->estimator == KVT_ESTIMATE_SPLITTING)
                print_levels_json(&row->estimate.levels, stdout);
            putchar('}');
            before = ",";
        }
    }
    fputs("]", stdout);
    if (report->real != NULL) {
        fputs(", ", stdout);
        kvt_inject_real_print(report->real, KVT_FORMAT_JSON);
    }
    fputs("}\n", stdout);
}

/* A table for each kind of rows. */
static void print_csv(const struct kvt_inject_report *report)
{
    static struct kvt_fields fields;
    for (int kind = 0; kind < KINDS; kind++) {
        bool first = true;
        for (int32_t i = 0; i < report->count; i++) {
            if ((int)kind_of(&report->rows[i]) != kind)
                continue;
            fields_of(&report->rows[i], &fields);
            if (first)
                kvt_fields_csv(&fields, true, stdout);
            kvt_fields_csv(&fields, false, stdout);
            first = false;
        }
    }
}

/* What the strikes of one guard cost, beside what they did. */
static void print_costs(const struct kvt_inject_row rows[], int32_t count)
{
    const struct kvt_clean *clean = &rows[0].cell.clean;
    printf("  without a strike: %lld request%s, %.3f req/s, TPOT %.3f ms; %lld false abort%s, "
           "%lld page%s left; %.1f MB a GPU; fences held %.1f page-s\n",
           (long long)clean->requests, kvt_plural(clean->requests), clean_throughput(&rows[0].cell),
           1e3 * clean->mean_tpot_s, (long long)clean->false_aborts,
           kvt_plural(clean->false_aborts), (long long)clean->pages_left,
           kvt_plural(clean->pages_left), 1e-6 * (double)clean->guard_bytes, clean->fenced_page_s);
    printf("  %-17s%12s%12s%10s%8s%8s%12s%12s\n", "cost of a strike", "good req/s", "detect (ms)",
           "spoiled", "most", "saved", "made again", "page-s held");
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_cell *cell = &rows[i].cell;
        printf("  %-17s%12.4f%12.2f%10.3f%8lld%8lld%12lld%12.1f\n", kvt_fault_names[cell->kind],
               kvt_cell_goodput(cell), detection_ms(cell), per(cell->spoiled, cell->activated),
               (long long)cell->spoiled_most, (long long)cell->saved, (long long)cell->again,
               cell->held_page_s);
    }
}

static void print_outcomes(const struct kvt_inject_row rows[], int32_t count)
{
    char guard[KVT_INJECT_NAME_BYTES + 64];
    printf("guard %s, percent of the strikes (false alarms and tokens are counts)\n"
           "  %-17s%9s%8s%8s%9s%9s%9s%6s%8s%7s%9s%13s\n",
           guard_text(&rows[0], guard), "fault", "strikes", "struck", "masked", "detected",
           "escaped", "harmless", "hung", "crashed", "false", "leaked", "escapes/1e9");
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_cell *cell = &rows[i].cell;
        const int64_t *n = cell->outcomes, all = cell->injected;
        const char *estimator;
        struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
        printf("  %-17s%9lld%8.1f%8.1f%9.1f%9.1f%9.1f%6.1f%8.1f%7lld%9lld%13.4g\n",
               kvt_fault_names[cell->kind], (long long)all, 100 * per(cell->activated, all),
               100 * per(n[0], all), 100 * per(n[1], all), 100 * per(n[2], all),
               100 * per(n[3], all), 100 * per(n[4], all), 100 * per(n[5], all),
               (long long)cell->false_aborts, (long long)cell->leaked, 1e9 * escapes.p);
    }
}

static void print_cells_text(const struct kvt_inject_report *report)
{
    for (int32_t i = 0; i < report->count;) {
        const struct kvt_inject_row *first = &report->rows[i];
        int32_t end = i + 1;
        if (kind_of(first) == CELL) {
            while (end < report->count && kind_of(&report->rows[end]) == CELL &&
                   is_same_guard(first, &report->rows[end]))
                end++;
            if (i > 0)
                putchar('\n');
            print_outcomes(first, end - i);
            if (report->real == NULL) /* trials on real pages do not measure costs */
                print_costs(first, end - i);
        }
        i = end;
    }
}

static void print_strikes_text(const struct kvt_inject_report *report)
{
    bool first = true;
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        if (kind_of(row) != STRIKE)
            continue;
        const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
        if (first)
            printf("%-32s%-28s%-16s%9s  %-20s%5s%6s%8s\n", "config", "fault", "guard", "at (s)",
                   "outcome", "hit", "lost", "leaked");
        first = false;
        char fault[64];
        snprintf(fault, sizeof fault, "%s/%s", kvt_fault_names[info->kind], info->name);
        printf("%-32s%-28s%-16s%9.3f  %-20s%5d%6d%8lld%s\n", row->config, fault, row->guard,
               kvt_seconds_from_ticks(row->strike.time),
               row->result.activated ? kvt_outcome_names[row->result.outcome] : "never struck",
               row->result.hit, row->result.lost, (long long)row->result.leaked,
               kvt_inject_is_as_expected(row) ? "" : "  not as expected");
    }
}

void kvt_inject_print(const struct kvt_inject_report *report, enum kvt_cli_format format)
{
    if (format == KVT_FORMAT_JSON) {
        print_json(report);
        return;
    }
    if (format == KVT_FORMAT_CSV) {
        print_csv(report);
        return;
    }
    print_cells_text(report);
    print_strikes_text(report);
    print_rates_text(report);
    if (report->real != NULL)
        kvt_inject_real_print(report->real, format);
}
