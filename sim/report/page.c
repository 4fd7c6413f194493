/*
 * page.c - the HTML page around the figures
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/output/interval.h"
#include "sim/output/parts.h"
#include "sim/report/parts.h"

static const char style[] =
    ":root{color-scheme:light dark;--ink:#14181f;--soft:#5d6674;--line:#e3e6eb;--back:#f5f6f8;"
    "--card:#fff;--good:#16875f;--bad:#c43a4b}\n"
    "@media (prefers-color-scheme:dark) and (not print){:root{--ink:#eef1f5;--soft:#9aa3b0;"
    "--line:#2a313c;--back:#0e1116;--card:#171c24;--good:#4ecb9b;--bad:#ff8390}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "main{max-width:1120px;margin:0 auto;padding:20px 16px 48px}"
    "h1{font-size:1.5rem;line-height:1.25;margin:0 0 4px}h2{font-size:1.05rem;margin:28px 0 10px}"
    "p{margin:0}.soft{color:var(--soft);font-size:.86rem}.fleet{white-space:pre-line}"
    ".grid{display:grid;gap:12px;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))"
    "}.cards{display:grid;gap:10px;grid-template-columns:repeat(auto-fit,minmax(148px,1fr));"
    "margin-top:16px}.card,figure,.table,pre{background:var(--card);border:1px solid var(--line);"
    "border-radius:8px}.card{padding:10px 12px}.card b{display:block;font-size:1.3rem;"
    "font-variant-numeric:tabular-nums;line-height:1.3}figure{margin:0;padding:8px 8px 4px;"
    "break-inside:avoid}figure svg{display:block;width:100%;height:auto}"
    ".table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.88rem;"
    "font-variant-numeric:tabular-nums}th,td{padding:6px 12px;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--line)}th{font-weight:600;color:var(--soft)}"
    "tr:last-child td{border-bottom:0}th:first-child,td:first-child{text-align:left}"
    ".why{text-align:left;white-space:normal;min-width:16em}.good{color:var(--good)}.bad{color:var("
    "--bad)}pre{margin:0;padding:12px;overflow:auto;"
    "max-height:26rem;font-size:.8rem;line-height:1.45}\n"
    "@media (max-width:520px){th,td{padding:5px 8px}.cards{grid-template-columns:1fr 1fr}}\n"
    "@media print{@page{size:A4;margin:12mm}body{background:#fff;font-size:11px}"
    "main{max-width:none;padding:0}.grid{grid-template-columns:1fr 1fr;gap:8px}"
    ".cards{grid-template-columns:repeat(6,1fr)}.card b{font-size:1rem}pre{max-height:none;"
    "white-space:pre-wrap;font-size:8px}.table,.card{break-inside:avoid}h2{break-after:avoid}"
    "th,td{padding:3px 6px}}\n";

/* ---- numbers ---- */

/* A metric with half its interval where the run has one; a dash where it has no value. */
static const char *metric_text(const struct kvt_report_run *run, const char *name, int decimals,
                               char out[96])
{
    char end[64];
    double value = kvt_report_metric(run, name);
    snprintf(end, sizeof end, "%.50s_low", name);
    double low = kvt_report_metric(run, end);
    snprintf(end, sizeof end, "%.50s_high", name);
    double high = kvt_report_metric(run, end);
    if (!isfinite(value))
        snprintf(out, 96, "\xe2\x80\x93");
    else if (isfinite(low) && isfinite(high))
        kvt_interval_print(value, low, high, decimals, out, 96);
    else
        kvt_number_print(value, decimals, out, 96);
    return out;
}

static int decimals_of(double value)
{
    double size = fabs(value);
    return size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3;
}

static const char *number_text(double value, char out[96])
{
    if (!isfinite(value))
        snprintf(out, 96, "\xe2\x80\x93");
    else
        kvt_number_print(value, decimals_of(value), out, 96);
    return out;
}

static const char *shown(const struct kvt_report_run *run, const char *name, char out[96])
{
    return metric_text(run, name, decimals_of(kvt_report_metric(run, name)), out);
}

/* ---- the top ---- */

void kvt_page_begin(const char *title, FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\"><title>",
          out);
    kvt_svg_text(title, out);
    fprintf(out, " - kvtwin</title>\n<style>\n%s", style);
    kvt_svg_style(out);
    fputs("</style></head>\n<body><main>\n", out);
}

static void print_head(const struct kvt_report *report, FILE *out)
{
    const struct kvt_report_run *run = &report->run;
    const char *title = run->title != NULL && run->title[0] != '\0' ? run->title
                        : run->model != NULL                        ? run->model
                                                                    : "A simulated run";
    kvt_page_begin(title, out);
    fputs("<header><h1>", out);
    kvt_svg_text(title, out);
    fputs("</h1>\n<p class=\"soft fleet\">", out);
    if (run->model != NULL && run->title != NULL) {
        kvt_svg_text(run->model, out);
        fputc('\n', out);
    }
    kvt_svg_text(run->fleet != NULL ? run->fleet : "", out);
    fputs("</p></header>\n", out);
    if (kvt_report_metric(run, "interrupted") > 0)
        fputs("<p class=\"bad\">The run was interrupted: this is the part that ran.</p>\n", out);
}

static void print_cards(const struct kvt_report_run *run, FILE *out)
{
    static const struct {
        const char *label, *name, *unit;
    } cards[] = {
        {"Output throughput", "output_throughput", "tok/s"},
        {"Total throughput", "total_token_throughput", "tok/s"},
        {"Requests", "request_throughput", "req/s"},
        {"Goodput", "request_goodput", "req/s"},
        {"TTFT, median", "median_ttft_ms", "ms"},
        {"TTFT, p99", "p99_ttft_ms", "ms"},
        {"TPOT, median", "median_tpot_ms", "ms"},
        {"ITL, p99", "p99_itl_ms", "ms"},
        {"E2EL, median", "median_e2el_ms", "ms"},
        {"Preemptions", "preemptions", ""},
        {"Peak of KV pages", "pages_peak_fraction", "of the pool"},
        {"Cost, output", "cost_usd_per_mtok_output", "USD/Mtok"},
    };
    char text[96];
    fputs("<section class=\"cards\" aria-label=\"Summary\">\n", out);
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        double value = kvt_report_metric(run, cards[i].name);
        if (!isfinite(value))
            continue;
        bool count = strcmp(cards[i].name, "preemptions") == 0;
        metric_text(run, cards[i].name, count ? 0 : decimals_of(value), text);
        char *sign = strstr(text, " \xc2\xb1 ");
        if (sign != NULL)
            *sign = '\0';
        fprintf(out,
                "<div class=\"card\"><span class=\"soft\">%s</span><b>%s</b><span class=\"soft\">"
                "%s%s %s</span></div>\n",
                cards[i].label, text, sign != NULL ? "\xc2\xb1 " : "", sign != NULL ? sign + 4 : "",
                cards[i].unit);
    }
    fputs("</section>\n", out);
}

/* ---- tables ---- */

static void print_latencies(const struct kvt_report_run *run, FILE *out)
{
    char name[32], text[96];
    fputs("<div class=\"table\"><table><tr><th>Latency (ms)<th>mean<th>median<th>p90<th>p99</tr>\n",
          out);
    for (int l = 0; l < KVT_LATENCY_COUNT; l++) {
        fprintf(out, "<tr><td>%s", kvt_latency_labels[l]);
        for (int c = 0; c < KVT_STATISTICS; c++) {
            snprintf(name, sizeof name, "%s_%s_ms", kvt_statistic_keys[c], kvt_latency_keys[l]);
            fprintf(out, "<td>%s", shown(run, name, text));
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

static void print_counts(const struct kvt_report_run *run, FILE *out)
{
    static const char *const names[] = {"arrived", "completed", "rejected", "aborted", "running"};
    char text[96];
    fputs("<div class=\"table\"><table><tr><th>Requests", out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fprintf(out, "<th>%s", names[i]);
    fputs("</tr>\n<tr><td>counted", out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fprintf(out, "<td>%s", metric_text(run, names[i], 0, text));
    fprintf(out, "</tr></table></div>\n<p class=\"soft\" style=\"margin-top:8px\">%s s, ",
            shown(run, "duration", text));
    fprintf(out, "%s tokens in, ", metric_text(run, "total_input_tokens", 0, text));
    fprintf(out, "%s out", metric_text(run, "total_output_tokens", 0, text));
    if (kvt_report_metric(run, "prefix_hit_fraction") > 0)
        fprintf(out, ", %.1f %% of the input from the prefix cache",
                kvt_report_metric(run, "prefix_hit_fraction") * 100);
    if (isfinite(kvt_report_metric(run, "cost_usd_per_h")))
        fprintf(out, ", %s USD/h", shown(run, "cost_usd_per_h", text));
    fputs(".</p>\n", out);
}

/* One row a bound, from the summary's slo_<latency>_<percentile>_{target_ms,ms,met}. */
static void print_slo(const struct kvt_report_run *run, FILE *out)
{
    bool any = false;
    char name[72], text[96], limit[96];
    for (int32_t i = 0; i < run->summary->count; i++) {
        const char *key = run->summary->values[i].name, *end = strstr(key, "_target_ms");
        if (strncmp(key, "slo_", 4) != 0 || end == NULL)
            continue;
        if (!any)
            fputs("<h2>SLO</h2>\n<div class=\"table\"><table><tr><th>Bound<th>at most (ms)"
                  "<th>reached (ms)<th></tr>\n",
                  out);
        any = true;
        snprintf(name, sizeof name, "%.*s_met", (int)(end - key), key);
        bool met = kvt_report_metric(run, name) > 0;
        snprintf(name, sizeof name, "%.*s_ms", (int)(end - key), key);
        fputs("<tr><td>", out);
        for (const char *c = key + 4; c < end; c++)
            fputc(*c == '_' ? ' ' : *c, out);
        fprintf(out, "<td>%s<td>%s<td class=\"%s\">%s</tr>\n",
                number_text(run->summary->values[i].number, limit), shown(run, name, text),
                met ? "good" : "bad", met ? "met" : "missed");
    }
    if (any)
        fputs("</table></div>\n", out);
}

static void print_beside(const struct kvt_report *report, FILE *out)
{
    const struct kvt_report_run *run = &report->run;
    char text[96];
    if (report->beside_count == 0)
        return;
    fputs("<h2>Compared</h2>\n<div class=\"table\"><table><tr><th>Metric<th>simulated", out);
    for (int32_t i = 0; i < report->beside_count; i++) {
        fputs("<th>", out);
        kvt_svg_text(report->beside[i].label, out);
        fputs("<th>error", out);
    }
    fputs("</tr>\n", out);
    for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++) {
        double ours = kvt_report_metric(run, kvt_bench_metric_names[m]);
        bool any = false;
        for (int32_t i = 0; i < report->beside_count; i++)
            any = any || isfinite(report->beside[i].metric[m]);
        if (!any)
            continue;
        fprintf(out, "<tr><td>%s<td>%s", kvt_bench_metric_names[m], number_text(ours, text));
        for (int32_t i = 0; i < report->beside_count; i++) {
            double theirs = report->beside[i].metric[m];
            fprintf(out, "<td>%s<td>", number_text(theirs, text));
            double error = (ours / theirs - 1) * 100;
            if (isfinite(ours) && theirs > 0)
                fprintf(out, "%+.1f %%", fabs(error) < 0.05 ? 0.0 : error);
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n<p class=\"soft\" style=\"margin-top:8px\">Error: simulated over what "
          "stands beside it, less one.</p>\n",
          out);
}

#define REPLICAS_SHOWN 64

static void print_replicas(const struct kvt_report_run *run, FILE *out)
{
    fputs("<h2>Replicas</h2>\n<div class=\"table\"><table><tr><th>Replica<th>busy<th>running"
          "<th>waiting<th>KV in use<th>KV peak<th>steps<th>preemptions</tr>\n",
          out);
    for (int32_t i = 0; i < run->replica_count && i < REPLICAS_SHOWN; i++) {
        const struct kvt_report_replica *replica = &run->replicas[i];
        char steps[96], preemptions[96];
        fputs("<tr><td>", out);
        kvt_svg_text(replica->name, out);
        fprintf(out, "<td>%.1f %%<td>%.2f<td>%.2f<td>%.1f %%<td>%.1f %%<td>%s<td>%s</tr>\n",
                run->end_s > 0 ? replica->busy_s / run->end_s * 100 : 0, replica->mean[0],
                replica->mean[1], replica->mean[2] * 100,
                replica->pages_peak / fmax(replica->pages, 1) * 100,
                kvt_number_print(replica->steps, 0, steps, sizeof steps),
                kvt_number_print(replica->preemptions, 0, preemptions, sizeof preemptions));
    }
    fputs("</table></div>\n", out);
    if (run->replica_count > REPLICAS_SHOWN)
        fprintf(out, "<p class=\"soft\" style=\"margin-top:8px\">The first %d of %d.</p>\n",
                REPLICAS_SHOWN, run->replica_count);
    const struct kvt_report_link *link = &run->link;
    if (link->points > 0)
        fprintf(out,
                "<p class=\"soft\" style=\"margin-top:8px\">Hand-off link: %.1f GB in all, busy "
                "%.1f %% of the time, %.2f %% of its %.1f GB/s used.</p>\n",
                link->bytes / 1e9, run->end_s > 0 ? link->busy_s / run->end_s * 100 : 0,
                run->end_s > 0 ? link->bytes / link->bytes_per_s / run->end_s * 100 : 0,
                link->bytes_per_s / 1e9);
}

static void print_faults(const struct kvt_report_run *run, FILE *out)
{
    if (run->strike_count == 0)
        return;
    fputs("<h2>Faults</h2>\n<div class=\"table\"><table><tr><th>Fault<th>at (s)<th>outcome"
          "<th>read wrong bytes<th>aborted<th>wrong tokens out</tr>\n",
          out);
    for (int32_t i = 0; i < run->strike_count; i++) {
        const struct kvt_report_strike *strike = &run->strikes[i];
        bool escaped = strcmp(strike->outcome, "escaped") == 0;
        fputs("<tr><td>", out);
        kvt_svg_text(strike->fault, out);
        fputs(", ", out);
        kvt_svg_text(strike->variant, out);
        fprintf(out, "<td>%.3f<td class=\"%s\">", strike->time_s, escaped ? "bad" : "");
        kvt_svg_text(strike->activated ? strike->outcome : "found no target", out);
        fprintf(out, "<td>%.0f<td>%.0f<td>%.0f</tr>\n", strike->hit, strike->lost, strike->leaked);
    }
    fputs("</table></div>\n", out);
}

static void print_end(const struct kvt_report_run *run, FILE *out)
{
    fputs("<h2>Effective configuration</h2>\n<pre>", out);
    kvt_svg_text(run->config, out);
    fputs("</pre>\n<p class=\"soft\" style=\"margin-top:16px\">kvtwin", out);
    static const char *const names[] = {"version", "digest", "cpu"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const char *text = kvt_stored_text(run->meta, names[n]);
        if (text[0] == '\0')
            continue;
        fprintf(out, "%s%s ", n == 0 ? " " : ", ", n == 0 ? "" : names[n]);
        kvt_svg_text(text, out);
    }
    double seed = kvt_stored_number(run->meta, "seed");
    if (!isnan(seed))
        fprintf(out, ", seed %.0f", seed);
    fputs("</p>\n</main></body></html>\n", out);
}

enum kvt_status kvt_report_html(const struct kvt_report *report, FILE *out, struct kvt_err *err)
{
    const struct kvt_report_run *run = &report->run;
    print_head(report, out);
    print_cards(run, out);
    print_slo(run, out);
    fputs("<h2>Latency and requests</h2>\n", out);
    print_latencies(run, out);
    fputs("<div style=\"height:10px\"></div>\n", out);
    print_counts(run, out);
    print_beside(report, out);
    fputs("<h2>Figures</h2>\n<section class=\"grid\">\n", out);
    for (int f = 0; f < KVT_FIGURE_COUNT; f++) {
        bool any;
        KVT_TRY(kvt_report_figure(report, (enum kvt_figure)f, false, out, &any, err));
    }
    fputs("</section>\n", out);
    print_faults(run, out);
    print_replicas(run, out);
    print_end(run, out);
    return KVT_OK;
}
