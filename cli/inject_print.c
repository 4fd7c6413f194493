#include <stdio.h>
#include <string.h>

#include "cli/inject.h"

static bool is_same_guard(const struct kvt_inject_row *a, const struct kvt_inject_row *b)
{
    return strcmp(a->guard, b->guard) == 0 && a->check == b->check && a->tag_bits == b->tag_bits;
}

/* "tag-side (16 bits, before-read)" */
static const char *guard_text(const struct kvt_inject_row *row,
                              char out[KVT_INJECT_NAME_BYTES + 64])
{
    char bits[24] = "";
    if (row->tag_bits > 0)
        snprintf(bits, sizeof bits, "%d bits, ", row->tag_bits);
    if (strpbrk(row->guard, "-") == NULL && strcmp(row->guard, "digest") != 0 &&
        strcmp(row->guard, "canary") != 0)
        snprintf(out, KVT_INJECT_NAME_BYTES + 64, "%s", row->guard);
    else
        snprintf(out, KVT_INJECT_NAME_BYTES + 64, "%s (%s%s)", row->guard, bits,
                 kvt_check_names[row->check]);
    return out;
}

/* ---- printing ----------------------------------------------------------------------------- */

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void print_cell_json(const struct kvt_inject_row *row, FILE *out)
{
    const struct kvt_cell *cell = &row->cell;
    const char *estimator;
    struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
    int64_t detected = cell->outcomes[KVT_OUTCOME_DETECTED];
    fprintf(out,
            "{\"config\": \"%s\", \"fault\": \"%s\", \"guard\": \"%s\", \"check\": \"%s\", "
            "\"tag_bits\": %d, \"injected\": %lld, \"activated\": %lld, \"exposed\": %lld",
            row->config, kvt_fault_names[cell->kind], row->guard, kvt_check_names[row->check],
            row->tag_bits, (long long)cell->injected, (long long)cell->activated,
            (long long)cell->exposed);
    for (int i = 0; i < KVT_OUTCOME_COUNT; i++)
        fprintf(out, ", \"%s\": %lld", kvt_outcome_names[i], (long long)cell->outcomes[i]);
    fprintf(out,
            ", \"false_aborts\": %lld, \"escapes_per_1e9\": %.17g, \"ci_low\": %.17g, \"ci_high\": "
            "%.17g, \"estimator\": \"%s\", \"effective_samples\": %.17g, \"cross_tenant\": %lld, "
            "\"requests_hit\": %lld, \"requests_lost\": %lld, \"leaked_tokens\": %lld, "
            "\"detected_after_leak\": %lld, \"mean_detection_ms\": %.17g}",
            (long long)cell->false_aborts, 1e9 * escapes.p, 1e9 * escapes.low, 1e9 * escapes.high,
            estimator, escapes.effective, (long long)cell->cross_tenant, (long long)cell->hit,
            (long long)cell->lost, (long long)cell->leaked, (long long)cell->detected_late,
            detected > 0 ? 1e3 * cell->latency_s / (double)detected : 0);
}

bool kvt_inject_is_as_expected(const struct kvt_inject_row *row)
{
    return !row->planned || !row->expected || row->result.outcome == row->expectation;
}

static void print_strike_json(const struct kvt_inject_row *row, FILE *out)
{
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
    const struct kvt_fault_result *result = &row->result;
    fprintf(out,
            "{\"config\": \"%s\", \"fault\": \"%s\", \"variant\": \"%s\", \"guard\": \"%s\", "
            "\"at_s\": %.17g, \"activated\": %s, \"exposed\": %s, \"detected\": %s, \"outcome\": "
            "\"%s\", \"cross_tenant\": %s, \"requests_hit\": %d, \"requests_lost\": %d, "
            "\"false_aborts\": %d, \"leaked_tokens\": %lld",
            row->config, kvt_fault_names[info->kind], info->name, row->guard,
            kvt_seconds_from_ticks(row->strike.time), result->activated ? "true" : "false",
            result->exposed ? "true" : "false", result->detected ? "true" : "false",
            kvt_outcome_names[result->outcome], result->cross_tenant ? "true" : "false",
            result->hit, result->lost, result->false_aborts, (long long)result->leaked);
    if (row->expected)
        fprintf(out, ", \"expected\": \"%s\"", kvt_outcome_names[row->expectation]);
    fputc('}', out);
}

static void print_json(const struct kvt_inject_report *report)
{
    for (int planned = 0; planned < 2; planned++) {
        const char *before = "";
        fputs(planned ? "], \"strikes\": [" : "{\"matrix\": [", stdout);
        for (int32_t i = 0; i < report->count; i++) {
            if (report->rows[i].planned != (planned != 0))
                continue;
            fprintf(stdout, "%s\n  ", before);
            (planned ? print_strike_json : print_cell_json)(&report->rows[i], stdout);
            before = ",";
        }
    }
    fputs("]}\n", stdout);
}

static void print_cells_text(const struct kvt_inject_report *report, bool csv)
{
    const struct kvt_inject_row *before = NULL;
    char guard[KVT_INJECT_NAME_BYTES + 64];
    if (csv)
        puts("config,fault,guard,injected,activated,exposed,masked,detected,escaped,"
             "undetected_harmless,hung,crashed,false_aborts,leaked_tokens,escapes_per_1e9,ci_low,"
             "ci_high,estimator,effective_samples");
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_cell *cell = &report->rows[i].cell;
        const int64_t *n = cell->outcomes;
        const char *estimator;
        if (report->rows[i].planned)
            continue;
        struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
        if (csv) {
            printf("%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%.9g,%.9g,%.9g,"
                   "%s,%.9g\n",
                   report->rows[i].config, kvt_fault_names[cell->kind], report->rows[i].guard,
                   (long long)cell->injected, (long long)cell->activated, (long long)cell->exposed,
                   (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3],
                   (long long)n[4], (long long)n[5], (long long)cell->false_aborts,
                   (long long)cell->leaked, 1e9 * escapes.p, 1e9 * escapes.low, 1e9 * escapes.high,
                   estimator, escapes.effective);
            continue;
        }
        if (before == NULL || !is_same_guard(before, &report->rows[i])) {
            printf("%sguard %s, percent of the strikes (false aborts and tokens are counts)\n"
                   "  %-17s%9s%8s%8s%9s%9s%9s%6s%8s%7s%9s%13s\n",
                   i > 0 ? "\n" : "", guard_text(&report->rows[i], guard), "fault", "strikes",
                   "struck", "masked", "detected", "escaped", "harmless", "hung", "crashed",
                   "false", "leaked", "escapes/1e9");
        }
        before = &report->rows[i];
        printf("  %-17s%9lld%8.1f%8.1f%9.1f%9.1f%9.1f%6.1f%8.1f%7lld%9lld%13.4g\n",
               kvt_fault_names[cell->kind], (long long)cell->injected,
               100 * share(cell->activated, cell->injected), 100 * share(n[0], cell->injected),
               100 * share(n[1], cell->injected), 100 * share(n[2], cell->injected),
               100 * share(n[3], cell->injected), 100 * share(n[4], cell->injected),
               100 * share(n[5], cell->injected), (long long)cell->false_aborts,
               (long long)cell->leaked, 1e9 * escapes.p);
    }
}

static void print_strikes_text(const struct kvt_inject_report *report, bool csv)
{
    bool first = true;
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        if (!row->planned)
            continue;
        const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
        if (first && csv)
            puts("config,fault,variant,guard,at_s,outcome,requests_hit,requests_lost,"
                 "leaked_tokens,cross_tenant");
        else if (first)
            printf("%-32s%-28s%-16s%9s  %-20s%5s%6s%8s\n", "config", "fault", "guard", "at (s)",
                   "outcome", "hit", "lost", "leaked");
        first = false;
        char fault[64];
        snprintf(fault, sizeof fault, "%s/%s", kvt_fault_names[info->kind], info->name);
        if (csv)
            printf("%s,%s,%s,%s,%.9g,%s,%d,%d,%lld,%d\n", row->config, kvt_fault_names[info->kind],
                   info->name, row->guard, kvt_seconds_from_ticks(row->strike.time),
                   kvt_outcome_names[row->result.outcome], row->result.hit, row->result.lost,
                   (long long)row->result.leaked, row->result.cross_tenant);
        else
            printf("%-32s%-28s%-16s%9.3f  %-20s%5d%6d%8lld%s\n", row->config, fault, row->guard,
                   kvt_seconds_from_ticks(row->strike.time),
                   row->result.activated ? kvt_outcome_names[row->result.outcome] : "never struck",
                   row->result.hit, row->result.lost, (long long)row->result.leaked,
                   kvt_inject_is_as_expected(row) ? "" : "  not as expected");
    }
}

void kvt_inject_print(const struct kvt_inject_report *report, enum kvt_cli_format format)
{
    bool cells = false;
    if (format == KVT_FORMAT_JSON) {
        print_json(report);
        return;
    }
    for (int32_t i = 0; i < report->count; i++)
        cells = cells || !report->rows[i].planned;
    if (cells)
        print_cells_text(report, format == KVT_FORMAT_CSV);
    print_strikes_text(report, format == KVT_FORMAT_CSV);
}
