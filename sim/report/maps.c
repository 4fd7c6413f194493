/*
 * maps.c - the figures without axes on both sides: memory maps, the timeline of faults
 */
#include <math.h>
#include <string.h>

#include "sim/report/parts.h"

#define GIB 1073741824.0

/* ---- memory ---- */

static int color_of(const char *entry)
{
    static const struct {
        const char *name;
        int color;
    } known[] = {{"weights", 0}, {"kv pool", 1},      {"activations", 2},   {"cuda graphs", 3},
                 {"other", 4},   {"context", 7},      {"driver", 6},        {"tags", 5},
                 {"reserve", 8}, {"padding page", 8}, {"page rounding", 8}, {"free", 9}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, entry) == 0)
            return known[i].color;
    return 8;
}

/* Entries of less than a two-thousandth are left out of the list, except tags. */
static bool is_listed(const struct kvt_report_memory *memory, int32_t i)
{
    const struct kvt_report_entry *entry = &memory->entries[i];
    return entry->bytes * 2000 >= memory->memory_bytes || strcmp(entry->name, "tags") == 0;
}

static double map_height(const struct kvt_report_memory *memory)
{
    int32_t listed = 0;
    for (int32_t i = 0; i < memory->entry_count; i++)
        listed += is_listed(memory, i);
    int32_t lines = (listed + 1) / 2;
    return 66 + 16.0 * lines;
}

static void draw_map(const struct kvt_report_memory *memory, double y, FILE *out)
{
    const double left = 6, width = KVT_SVG_WIDTH - 12;
    double x = left;
    int32_t listed = 0;
    fprintf(out, "<text x=\"%.0f\" y=\"%.1f\">%d x %d ", left, y + 14, memory->replicas,
            memory->gpus_per_replica);
    kvt_svg_text(memory->gpu, out);
    fprintf(out, ", %.1f GiB each</text>\n", memory->memory_bytes / GIB);
    for (int32_t i = 0; i < memory->entry_count; i++) {
        const struct kvt_report_entry *entry = &memory->entries[i];
        double share = entry->bytes / memory->memory_bytes;
        double part = fmin(share * width, left + width - x);
        if (part > 0)
            fprintf(out,
                    "<rect class=\"b c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"24\"/>",
                    color_of(entry->name), x, y + 21, part);
        x += part;
        if (!is_listed(memory, i))
            continue;
        int32_t above = listed / 2;
        double at = left + (listed % 2) * (width / 2 + 8), line = y + 63 + 16.0 * above;
        listed++;
        fprintf(out,
                "<rect class=\"b c%d\" x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">",
                color_of(entry->name), at, line - 9, at + 15, line);
        kvt_svg_text(entry->name, out);
        fprintf(out,
                "</text><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.2f GiB</text>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.1f %%</text>\n",
                at + width / 2 - 60, line, entry->bytes / GIB, at + width / 2 - 10, line,
                share * 100);
    }
}

void kvt_draw_memory(const struct kvt_report_run *run, int32_t role, bool alone, FILE *out)
{
    char title[64];
    const struct kvt_report_memory *memory = &run->memory[role];
    snprintf(title, sizeof title, "Memory of one GPU: %s", memory->role);
    kvt_svg_begin(title, 24 + map_height(memory), alone, out);
    draw_map(memory, 24, out);
    kvt_svg_end(out);
}

/* ---- faults ---- */

static int color_of_outcome(const char *outcome)
{
    return strcmp(outcome, "escaped") == 0    ? 5
           : strcmp(outcome, "detected") == 0 ? 0
           : strcmp(outcome, "masked") == 0   ? 2
                                              : 8;
}

static void draw_strike(const struct kvt_report_strike *strike, double end_s, double y, FILE *out)
{
    const double left = 190, width = KVT_SVG_WIDTH - 20 - left;
    int color = color_of_outcome(strike->outcome);
    double at = left + fmin(strike->time_s / end_s, 1) * width;
    double last = fmax(strike->time_s, isfinite(strike->exposed_s) ? strike->exposed_s : 0);
    last = fmax(last, isfinite(strike->detected_s) ? strike->detected_s : 0);
    double until = left + fmin(last / end_s, 1) * width;
    fprintf(out, "<text x=\"6\" y=\"%.1f\">", y + 4);
    kvt_svg_text(strike->fault, out);
    fputc(' ', out);
    kvt_svg_text(strike->variant, out);
    fputs(": ", out);
    kvt_svg_text(strike->outcome, out);
    fprintf(out,
            "</text><path class=\"g\" d=\"M%.1f %.1fH%.1f\"/><path class=\"l c%d\" d=\"M%.1f "
            "%.1fH%.1f\"/><circle class=\"b c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
            left, y, left + width, color, at, y, until, color, at, y);
    if (isfinite(strike->exposed_s))
        fprintf(out, "<circle class=\"o c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", color,
                left + fmin(strike->exposed_s / end_s, 1) * width, y);
    if (isfinite(strike->detected_s))
        fprintf(out, "<path class=\"l c%d\" d=\"M%.1f %.1fv12\"/>", color,
                left + fmin(strike->detected_s / end_s, 1) * width, y - 6);
    fputc('\n', out);
}

void kvt_draw_faults(const struct kvt_report_run *run, bool alone, FILE *out)
{
    double end_s = run->end_s > 0 ? run->end_s : 1;
    double bottom = 44 + 20.0 * run->strike_count;
    kvt_svg_begin("Faults", bottom + 34, alone, out);
    fputs("<text x=\"190\" y=\"17\">dot: struck, ring: wrong bytes read, bar: seen</text>\n", out);
    for (int32_t i = 0; i < run->strike_count; i++)
        draw_strike(&run->strikes[i], end_s, 44 + 20.0 * i, out);
    char text[32];
    for (int i = 0; i <= 4; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                190 + i * (KVT_SVG_WIDTH - 210) / 4.0, bottom + 10,
                kvt_axis_print(end_s * i / 4, KVT_AXIS_SECONDS, text));
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">time</text>\n",
            190 + (KVT_SVG_WIDTH - 210) / 2.0, bottom + 26);
    kvt_svg_end(out);
}
