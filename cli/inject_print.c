#include <stdio.h>
#include <string.h>

#include "cli/inject_real.h"

static bool is_same_guard(const struct kvt_inject_row *a, const struct kvt_inject_row *b)
{
    return strcmp(a->config, b->config) == 0 && strcmp(a->guard, b->guard) == 0 &&
           a->check == b->check && a->policy == b->policy && a->tag_bits == b->tag_bits;
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
        snprintf(out, KVT_INJECT_NAME_BYTES + 64, "%s (%s%s%s%s)", row->guard, bits,
                 kvt_check_names[row->check], row->policy != KVT_POLICY_ABORT ? ", " : "",
                 row->policy != KVT_POLICY_ABORT ? kvt_policy_names[row->policy] : "");
    return out;
}

/* ---- printing ----------------------------------------------------------------------------- */

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

static void print_cell_json(const struct kvt_inject_row *row, FILE *out)
{
    const struct kvt_cell *cell = &row->cell;
    const char *estimator;
    struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
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
            "\"detected_after_leak\": %lld, \"mean_detection_ms\": %.17g",
            (long long)cell->false_aborts, 1e9 * escapes.p, 1e9 * escapes.low, 1e9 * escapes.high,
            estimator, escapes.effective, (long long)cell->cross_tenant, (long long)cell->hit,
            (long long)cell->lost, (long long)cell->leaked, (long long)cell->detected_late,
            detection_ms(cell));
    fprintf(out,
            ", \"on_hit\": \"%s\", \"requests_saved\": %lld, \"recovery_tokens\": %lld, "
            "\"requests_spoiled\": %lld, \"blast_radius_mean\": %.17g, \"blast_radius_max\": "
            "%lld, \"held_page_s\": %.17g, \"goodput\": %.17g, \"clean_request_throughput\": "
            "%.17g, \"clean_mean_tpot_ms\": %.17g, \"guard_bytes_per_gpu\": %lld, "
            "\"clean_requests\": %lld, "
            "\"clean_false_aborts\": %lld, \"clean_pages_left\": %lld, \"clean_unfinished\": %lld, "
            "\"clean_fenced_page_s\": %.17g}",
            kvt_policy_names[row->policy], (long long)cell->saved, (long long)cell->again,
            (long long)cell->spoiled, per(cell->spoiled, cell->activated),
            (long long)cell->spoiled_most, cell->held_page_s, kvt_cell_goodput(cell),
            clean_throughput(cell), 1e3 * cell->clean.mean_tpot_s,
            (long long)cell->clean.guard_bytes, (long long)cell->clean.requests,
            (long long)cell->clean.false_aborts, (long long)cell->clean.pages_left,
            (long long)cell->clean.unfinished, cell->clean.fenced_page_s);
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
            "\"false_aborts\": %d, \"leaked_tokens\": %lld, \"requests_saved\": %d, "
            "\"recovery_tokens\": %lld, \"held_page_s\": %.17g",
            row->config, kvt_fault_names[info->kind], info->name, row->guard,
            kvt_seconds_from_ticks(row->strike.time), result->activated ? "true" : "false",
            result->exposed ? "true" : "false", result->detected ? "true" : "false",
            kvt_outcome_names[result->outcome], result->cross_tenant ? "true" : "false",
            result->hit, result->lost, result->false_aborts, (long long)result->leaked,
            result->saved, (long long)result->again, result->held_page_s);
    if (row->expected)
        fprintf(out, ", \"expected\": \"%s\"", kvt_outcome_names[row->expectation]);
    fputc('}', out);
}

static const char *estimator_of(const struct kvt_inject_row *row)
{
    static const char *const names[] = {"counted", "importance", "splitting"};
    return names[row->estimator];
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
static void print_rate_json(const struct kvt_inject_row *row, const char *before, FILE *out)
{
    const struct kvt_fault_estimate *estimate = &row->estimate;
    struct kvt_estimate escapes = kvt_fault_estimate_escapes(estimate);
    fprintf(out,
            "%s\n  {\"config\": \"%s\", \"guard\": \"%s\", \"check\": \"%s\", "
            "\"tag_bits\": %d, \"runs\": %lld, \"requests\": %lld, \"strikes\": %lld, "
            "\"activated\": %lld, \"strikes_per_run\": %.17g, \"inflate\": %.17g, "
            "\"escapes_per_1e9_requests\": %.17g, \"ci_low\": %.17g, \"ci_high\": %.17g, "
            "\"estimator\": \"%s\", \"effective_samples\": %.17g, \"largest_share\": %.17g",
            before, row->config, row->guard, kvt_check_names[row->check], row->tag_bits,
            (long long)estimate->runs, (long long)estimate->requests, (long long)estimate->strikes,
            (long long)estimate->activated, estimate->mean, estimate->inflate, 1e9 * escapes.p,
            1e9 * escapes.low, 1e9 * escapes.high, estimator_of(row), escapes.effective,
            escapes.largest_share);
    if (row->estimator == KVT_ESTIMATE_SPLITTING)
        print_levels_json(&estimate->levels, out);
    fputc('}', out);
}

static void print_rates_text(const struct kvt_inject_report *report, bool csv)
{
    char guard[KVT_INJECT_NAME_BYTES + 64];
    bool first = true;
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        if (!row->rated)
            continue;
        struct kvt_estimate escapes = kvt_fault_estimate_escapes(&row->estimate);
        if (first && csv)
            puts("config,guard,runs,strikes,escapes_per_1e9_requests,ci_low,ci_high,estimator,"
                 "effective_samples");
        else if (first)
            printf("%-44s%8s%9s%16s%27s%12s%11s\n", "guard", "runs", "strikes", "escapes / 1e9",
                   "95 % interval", "estimator", "effective");
        first = false;
        printf(csv ? "%s,%s,%lld,%lld,%.9g,%.9g,%.9g,%s,%.9g\n"
                   : "%.0s%-44s%8lld%9lld%16.4g%14.4g to %9.4g%12s%11.1f\n",
               row->config, csv ? row->guard : guard_text(row, guard),
               (long long)row->estimate.runs, (long long)row->estimate.strikes, 1e9 * escapes.p,
               1e9 * escapes.low, 1e9 * escapes.high, estimator_of(row), escapes.effective);
    }
}

static void print_json(const struct kvt_inject_report *report)
{
    for (int planned = 0; planned < 2; planned++) {
        const char *before = "";
        fputs(planned ? "], \"strikes\": [" : "{\"matrix\": [", stdout);
        for (int32_t i = 0; i < report->count; i++) {
            if (report->rows[i].rated || report->rows[i].planned != (planned != 0))
                continue;
            fprintf(stdout, "%s\n  ", before);
            (planned ? print_strike_json : print_cell_json)(&report->rows[i], stdout);
            before = ",";
        }
    }
    fputs("], \"rates\": [", stdout);
    const char *before = "";
    for (int32_t i = 0; i < report->count; i++) {
        if (!report->rows[i].rated)
            continue;
        print_rate_json(&report->rows[i], before, stdout);
        before = ",";
    }
    fputs("]", stdout);
    if (report->real != NULL) {
        fputs(", ", stdout);
        kvt_inject_real_print(report->real, KVT_FORMAT_JSON);
    }
    fputs("}\n", stdout);
}

static void print_cells_csv(const struct kvt_inject_report *report)
{
    puts("config,fault,guard,injected,activated,exposed,masked,detected,escaped,"
         "undetected_harmless,hung,crashed,false_aborts,leaked_tokens,escapes_per_1e9,ci_low,"
         "ci_high,estimator,effective_samples,requests_saved,recovery_tokens,requests_spoiled,"
         "held_page_s,goodput,mean_detection_ms");
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        const struct kvt_cell *cell = &row->cell;
        const int64_t *n = cell->outcomes;
        const char *estimator;
        if (row->planned || row->rated)
            continue;
        struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
        printf("%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%.9g,%.9g,%.9g,"
               "%s,%.9g",
               row->config, kvt_fault_names[cell->kind], row->guard, (long long)cell->injected,
               (long long)cell->activated, (long long)cell->exposed, (long long)n[0],
               (long long)n[1], (long long)n[2], (long long)n[3], (long long)n[4], (long long)n[5],
               (long long)cell->false_aborts, (long long)cell->leaked, 1e9 * escapes.p,
               1e9 * escapes.low, 1e9 * escapes.high, estimator, escapes.effective);
        printf(",%lld,%lld,%lld,%.9g,%.9g,%.9g\n", (long long)cell->saved, (long long)cell->again,
               (long long)cell->spoiled, cell->held_page_s, kvt_cell_goodput(cell),
               detection_ms(cell));
    }
}

/* What the strikes of one guard cost, beside what they did. */
static void print_costs(const struct kvt_inject_row rows[], int32_t count)
{
    const struct kvt_clean *clean = &rows[0].cell.clean;
    printf("  without a strike: %lld requests, %.3f req/s, TPOT %.3f ms; %lld false aborts, %lld "
           "pages "
           "left; %.1f MB a GPU; fences held %.1f page-s\n",
           (long long)clean->requests, clean_throughput(&rows[0].cell), 1e3 * clean->mean_tpot_s,
           (long long)clean->false_aborts, (long long)clean->pages_left,
           1e-6 * (double)clean->guard_bytes, clean->fenced_page_s);
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
        if (!first->planned && !first->rated) {
            while (end < report->count && !report->rows[end].planned && !report->rows[end].rated &&
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
        cells = cells || (!report->rows[i].planned && !report->rows[i].rated);
    if (cells)
        (format == KVT_FORMAT_CSV ? print_cells_csv : print_cells_text)(report);
    print_strikes_text(report, format == KVT_FORMAT_CSV);
    print_rates_text(report, format == KVT_FORMAT_CSV);
    if (report->real != NULL)
        kvt_inject_real_print(report->real, format);
}
