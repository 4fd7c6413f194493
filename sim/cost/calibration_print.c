#include "sim/cost/calibration_print.h"

#include <math.h>
#include <string.h>

#include "sim/cost/surface.h"

#define COLUMNS      100
#define PLAIN_VALUES 64 /* surfaces up to this many values are written as numbers */

/* A value with the unit in which it reads best: its name and how many base units it is. */
struct unit {
    const char *name;
    double size;
};
static const struct unit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
static const struct unit rates[] = {{"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
static const struct unit flops[] = {{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
#define UNITS(array) array, (int)(sizeof(array) / sizeof(array)[0])

static void print_quantity(const char *key, double value, const struct unit units[], int count,
                           FILE *out)
{
    int u = count - 1;
    while (u > 0 && value < units[u].size)
        u--;
    fprintf(out, "%s%.5g %s", key, value / units[u].size, units[u].name);
}

/* Text in lines of at most COLUMNS, each after indent spaces, broken at spaces. */
static void print_folded(const char *text, int indent, FILE *out)
{
    int column = 0;
    while (*text != '\0') {
        int word = (int)strcspn(text, " \n");
        if (column > 0 && column + 1 + word > COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0)
            column = fprintf(out, "%*s", indent, "");
        else
            column += fprintf(out, " ");
        column += fprintf(out, "%.*s", word, text);
        text += word;
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

static void print_ranges(const char *key, const struct kvt_range ranges[KVT_DIM_COUNT], FILE *out)
{
    const char *before = "";
    for (int d = 0; d < KVT_DIM_COUNT; d++) {
        if (ranges[d].max <= 0.0)
            continue;
        fprintf(out, "%s%s: ", before[0] == '\0' ? key : before, kvt_dim_names[d]);
        if (ranges[d].min == ranges[d].max)
            fprintf(out, "%.10g", ranges[d].max);
        else
            fprintf(out, "[%.10g, %.10g]", ranges[d].min, ranges[d].max);
        before = ", ";
    }
    if (before[0] != '\0')
        fprintf(out, "}\n");
}

static void print_list(const char *key, const double values[], int32_t count,
                       const struct unit units[], int unit_count, FILE *out)
{
    fprintf(out, "%s[", key);
    for (int32_t i = 0; i < count; i++) {
        const char *comma = i > 0 ? ", " : "";
        if (units != NULL)
            print_quantity(comma, values[i], units, unit_count, out);
        else
            fprintf(out, "%s%.6g", comma, values[i]);
    }
    fprintf(out, "]\n");
}

static void print_numbers(const struct kvt_law *law, FILE *out)
{
    bool rooflike =
        law->kind == KVT_LAW_ROOFLINE || law->kind == KVT_LAW_DECODE || law->kind == KVT_LAW_SPARSE;
    if (law->kind == KVT_LAW_CONSTANT || law->kind == KVT_LAW_ROOFLINE ||
        law->kind == KVT_LAW_DECODE) {
        print_quantity("  t0: ", law->t0, UNITS(times), out);
        fputc('\n', out);
    }
    const struct {
        const char *key;
        double value;
        const struct unit *units;
        int unit_count;
    } rows[] = {{"serial", law->serial, UNITS(times)},
                {"bandwidth", law->bandwidth, UNITS(rates)},
                {"flops", law->flops, UNITS(flops)},
                {"split", law->split, UNITS(times)},
                {"index_bandwidth", law->index_bandwidth, UNITS(rates)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value <= 0.0)
            continue;
        fprintf(out, "  %s: ", rows[i].key);
        print_quantity("", rows[i].value, rows[i].units, rows[i].unit_count, out);
        fputc('\n', out);
    }
    const struct {
        const char *key;
        double value;
    } plain[] = {{"p", rooflike && law->p != 3.0 ? law->p : 0.0},
                 {"pad", law->pad},
                 {"skew", law->skew},
                 {"tokens", law->tokens},
                 {"split_tokens", law->split > 0.0 ? law->split_tokens : 0.0}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (plain[i].value > 0.0)
            fprintf(out, "  %s: %.5g\n", plain[i].key, plain[i].value);
    if (law->points > 0) {
        print_list("  at: ", law->at, law->points, NULL, 0, out);
        print_list("  time: ", law->time, law->points, UNITS(times), out);
        if (law->kind == KVT_LAW_BUCKETS)
            print_list("  rate: ", law->rate, law->points, UNITS(rates), out);
    }
}

static long half_percents(const struct kvt_surface *surface, int32_t i)
{
    return lround(surface->values[i] * KVT_SURFACE_STEPS);
}

static void print_plain(const struct kvt_surface *surface, FILE *out)
{
    fprintf(out, "    half_percent: >-\n");
    int column = 0;
    for (int32_t i = 0; i < surface->count; i++) {
        char text[16];
        int count = snprintf(text, sizeof text, "%ld", half_percents(surface, i));
        if (column == 0)
            column = fprintf(out, "      ");
        else
            column += fprintf(out, " ");
        column += fprintf(out, "%s", text);
        if (column + 1 + count + 2 > COLUMNS || i + 1 == surface->count) {
            fputc('\n', out);
            column = 0;
        }
    }
}

static void print_packed(const struct kvt_surface *surface, FILE *out)
{
    enum { VALUES_PER_LINE = 46 };
    fprintf(out, "    packed: >-");
    for (int32_t i = 0; i < surface->count; i++) {
        long value = half_percents(surface, i) + KVT_SURFACE_PACKED_ZERO;
        value = value < 0 ? 0 : value > 4095 ? 4095 : value;
        if (i % VALUES_PER_LINE == 0)
            fprintf(out, "\n      ");
        fputc(kvt_surface_digits[value / 64], out);
        fputc(kvt_surface_digits[value % 64], out);
    }
    fputc('\n', out);
}

/* The grid, but for sizes that `when` allows one value of. */
static void print_grid(const struct kvt_law *law, FILE *out)
{
    struct kvt_range grid[KVT_DIM_COUNT];
    for (int d = 0; d < KVT_DIM_COUNT; d++) {
        bool fixed = law->when[d].max > 0.0 && law->when[d].min == law->when[d].max;
        grid[d] = law->grid[d];
        if (fixed)
            grid[d] = (struct kvt_range){0};
    }
    print_ranges("  grid: {", grid, out);
}

static void print_plus_minus(const double half[KVT_PARAMETER_TIME], FILE *out)
{
    const char *before = "  plus_minus: {";
    for (int p = 0; p < KVT_PARAMETER_TIME; p++) {
        if (half[p] <= 0.0)
            continue;
        fprintf(out, "%s%s: %.2g", before, kvt_parameter_names[p], half[p]);
        before = ", ";
    }
    if (before[0] == ',')
        fprintf(out, "}\n");
}

static void print_surface(const struct kvt_surface *surface, FILE *out)
{
    fprintf(out, "  surface:\n    axes: [");
    for (int32_t a = 0; a < surface->axes; a++)
        fprintf(out, "%s%s", a > 0 ? ", " : "", kvt_axis_names[surface->axis[a].size]);
    fprintf(out, "]\n");
    for (int32_t a = 0; a < surface->axes; a++) {
        fprintf(out, "    %s: ", kvt_axis_names[surface->axis[a].size]);
        print_list("", surface->axis[a].at, surface->axis[a].count, NULL, 0, out);
    }
    if (surface->count > PLAIN_VALUES)
        print_packed(surface, out);
    else
        print_plain(surface, out);
}

static void print_unseen(const struct kvt_unseen *u, FILE *out)
{
    fprintf(out, "{rows: %lld, median: %.4f, mean: %.4f, p90: %.4f, low: %.4f, high: %.4f",
            (long long)u->rows, u->median, u->mean, u->p90, u->low, u->high);
    if (u->coverage > 0.0)
        fprintf(out, ", coverage: %.3f", u->coverage);
    fprintf(out, "}\n");
}

static void print_held_out(const struct kvt_law *law, FILE *out)
{
    fprintf(out, "{rows: %lld, median: %.4f, mean: %.4f", (long long)law->error_rows,
            law->error_median, law->error_mean);
    if (law->error_p90 > 0.0)
        fprintf(out, ", p90: %.4f", law->error_p90);
    if (law->repeat_floor > 0.0)
        fprintf(out, ", floor: %.4f", law->repeat_floor);
    fprintf(out, "}\n");
}

/* Laws of one fit share their source and their errors. */
static bool same_fit(const struct kvt_law *a, const struct kvt_law *b)
{
    const struct kvt_unseen *u = &a->unseen, *v = &b->unseen;
    return a->held_out && b->held_out && a->error_rows == b->error_rows &&
           a->error_median == b->error_median && a->error_mean == b->error_mean &&
           a->error_p90 == b->error_p90 && a->repeat_floor == b->repeat_floor &&
           u->rows == v->rows && u->median == v->median && u->mean == v->mean && u->p90 == v->p90 &&
           u->low == v->low && u->high == v->high && u->coverage == v->coverage &&
           strcmp(a->source, b->source) == 0;
}

static void print_scatter(const struct kvt_law *law, FILE *out)
{
    if (law->scatter > 0.0)
        fprintf(out, "  scatter: %.4g\n", law->scatter);
    if (law->scatter_time > 0.0) {
        print_quantity("  scatter: ", law->scatter_time, UNITS(times), out);
        fputc('\n', out);
    }
}

/* Errors and source; the first law of a fit names them by anchors (&), the others repeat them (*):
 * a fit of many models would else say the same a dozen times. */
static void print_origin(const struct kvt_calibration *calibration, int32_t index, FILE *out)
{
    const struct kvt_law *law = &calibration->laws[index];
    int32_t first = 0, last = calibration->law_count - 1;
    while (first < index && !same_fit(&calibration->laws[first], law))
        first++;
    while (last > index && !same_fit(&calibration->laws[last], law))
        last--;
    char anchor[32] = "";
    bool repeats = first < index;
    if (first < last && law->held_out)
        snprintf(anchor, sizeof anchor, "%sfit%d_", repeats ? "*" : "&", first);
    if (law->error_rows > 0 && repeats)
        fprintf(out, "  held_out: %serrors\n", anchor);
    else if (law->error_rows > 0) {
        fprintf(out, "  %s: ", law->held_out ? "held_out" : "in_sample");
        if (anchor[0] != '\0')
            fprintf(out, "%serrors ", anchor);
        print_held_out(law, out);
    }
    if (law->unseen.rows > 0 && repeats)
        fprintf(out, "  unseen: %sunseen\n", anchor);
    else if (law->unseen.rows > 0) {
        fprintf(out, "  unseen: ");
        if (anchor[0] != '\0')
            fprintf(out, "%sunseen ", anchor);
        print_unseen(&law->unseen, out);
    }
    print_scatter(law, out);
    if (repeats) {
        fprintf(out, "  source: %ssource\n", anchor);
        return;
    }
    fprintf(out, "  source: ");
    if (anchor[0] != '\0')
        fprintf(out, "%ssource ", anchor);
    fprintf(out, ">-\n");
    print_folded(law->source, 4, out);
}

void kvt_calibration_print(const struct kvt_calibration *calibration, const char *note, FILE *out)
{
    for (const char *line = note; *line != '\0';) {
        int count = (int)strcspn(line, "\n");
        fprintf(out, "# %.*s\n", count, line);
        line += count + (line[count] == '\n');
    }
    fprintf(out, "calibration: %s\ngpu: %s\nstack: %s\n", calibration->name, calibration->gpu,
            calibration->stack);
    if (calibration->version[0] != '\0')
        fprintf(out, "version: %s\n", calibration->version);
    fprintf(out, "skew: %.5g\nsource: >-\n", calibration->skew);
    print_folded(calibration->source, 4, out);
    fprintf(out, "laws:\n");
    for (int32_t i = 0; i < calibration->law_count; i++) {
        const struct kvt_law *law = &calibration->laws[i];
        if (law->guess)
            continue;
        fprintf(out, "- family: %s\n  law: %s\n", kvt_family_names[law->family],
                kvt_law_names[law->kind]);
        print_ranges("  when: {", law->when, out);
        print_numbers(law, out);
        print_plus_minus(law->plus_minus, out);
        print_grid(law, out);
        if (law->surface != NULL)
            print_surface(law->surface, out);
        print_origin(calibration, i, out);
    }
}
