#include "sim/report/svg.h"

#include <math.h>
#include <string.h>

#define LEFT   50.0
#define RIGHT  12.0
#define BOTTOM 38.0
#define LETTER 5.9 /* mean width of a letter of the legend */

/* ---- words ---- */

/* Bytes of the UTF-8 character at text, or 0. */
static size_t character(const unsigned char *text)
{
    if (text[0] < 0x80)
        return 1;
    size_t count = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc2 ? 2 : 0;
    for (size_t i = 1; i < count; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Not a longer form of a shorter one, half of a pair, or beyond the last character. */
    bool refused = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) ||
                   (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] >= 0x90) ||
                   text[0] > 0xf4;
    return refused ? 0 : count;
}

void kvt_svg_text(const char *text, FILE *out)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        size_t count = character(c);
        if (*c == '<')
            fputs("&lt;", out);
        else if (*c == '>')
            fputs("&gt;", out);
        else if (*c == '&')
            fputs("&amp;", out);
        else if (*c == '"')
            fputs("&quot;", out);
        else if (count == 0 || (*c < ' ' && *c != '\n' && *c != '\t'))
            fputc('?', out);
        else
            fwrite(c, 1, count, out);
        c += count > 0 ? count : 1;
    }
}

const char *kvt_axis_print(double value, enum kvt_axis_unit unit, char out[32])
{
    static const struct {
        double at;
        const char *text;
    } seconds[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}},
      numbers[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    double size = fabs(value);
    if (unit == KVT_AXIS_PERCENT) {
        snprintf(out, 32, "%.3g %%", value * 100);
        return out;
    }
    bool timed = unit == KVT_AXIS_SECONDS;
    size_t count = timed ? sizeof seconds / sizeof *seconds : sizeof numbers / sizeof *numbers;
    size_t i = 0;
    while (i + 1 < count && size < (timed ? seconds[i].at : numbers[i].at) * 0.9999)
        i++;
    if (size == 0)
        snprintf(out, 32, "0");
    else if (size / (timed ? seconds[i].at : numbers[i].at) >= 1000)
        snprintf(out, 32, "%.4g%s", value / (timed ? seconds[i].at : numbers[i].at),
                 timed ? seconds[i].text : numbers[i].text);
    else
        snprintf(out, 32, "%.3g%s", value / (timed ? seconds[i].at : numbers[i].at),
                 timed ? seconds[i].text : numbers[i].text);
    return out;
}

/* ---- the frame of every figure ---- */

void kvt_svg_style(FILE *out)
{
    static const char *const light[KVT_SVG_COLORS] = {"#2563c9", "#d9661f", "#16875f", "#a23b94",
                                                      "#a07c00", "#c43a4b", "#3f8fa8", "#7a6ad0",
                                                      "#8a8f98", "#d5d9df"};
    static const char *const dark[KVT_SVG_COLORS] = {"#74a7ff", "#ff9a56", "#4ecb9b", "#e48bd6",
                                                     "#dcb93f", "#ff8390", "#74c5dc", "#ad9fff",
                                                     "#8f96a3", "#3a4250"};
    fputs("svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
          "font-size:11px}svg text{fill:#49505c}svg .h{font-size:13px;font-weight:600;"
          "fill:#14181f}.g{stroke:#e3e6eb;stroke-width:1}.a{stroke:#9aa1ac;stroke-width:1}"
          ".m{stroke:#14181f;stroke-width:1;stroke-dasharray:2 3}.l{fill:none;stroke-width:1.7;"
          "stroke-linejoin:round}.d{stroke-dasharray:5 3}.f{stroke:none;fill-opacity:.18}"
          ".o{fill:none;stroke-width:2}.p{stroke:none;fill-opacity:.45}\n",
          out);
    for (int i = 0; i < KVT_SVG_COLORS; i++)
        fprintf(out, ".c%d{stroke:%s;fill:%s}", i, light[i], light[i]);
    fputs(".l,.o{fill:none}.b,.f,.p{stroke:none}\n@media (prefers-color-scheme:dark) and "
          "(not print){svg text{fill:#aab2bf}svg .h{fill:#eef1f5}.g{stroke:#2a313c}"
          ".a{stroke:#5d6674}.m{stroke:#eef1f5}",
          out);
    for (int i = 0; i < KVT_SVG_COLORS; i++)
        fprintf(out, ".c%d{stroke:%s;fill:%s}", i, dark[i], dark[i]);
    fputs(".l,.o{fill:none}.b,.f,.p{stroke:none}}\n", out);
}

void kvt_svg_begin(const char *title, double height, bool alone, FILE *out)
{
    if (alone)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
    fprintf(out, "<svg %sviewBox=\"0 0 %d %.0f\" role=\"img\"><title>",
            alone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", KVT_SVG_WIDTH, height);
    kvt_svg_text(title, out);
    fputs("</title>", out);
    if (alone) {
        fputs("<style>svg{background:#fff}\n", out);
        kvt_svg_style(out);
        fputs("@media (prefers-color-scheme:dark){svg{background:#14181f}}</style>", out);
    }
    fputs("<text class=\"h\" x=\"6\" y=\"17\">", out);
    kvt_svg_text(title, out);
    fputs("</text>\n", out);
}

void kvt_svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

/* ---- axes ---- */

struct axis {
    double low, high; /* of the values; logarithms on a log axis */
    double from, to;  /* of the drawing */
    bool is_log;
    enum kvt_axis_unit unit;
};

static double place(const struct axis *axis, double value)
{
    double at = axis->is_log ? log10(value) : value;
    return axis->from + (at - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

static bool is_drawn(const struct axis *axis, double value)
{
    return isfinite(value) && (!axis->is_log || value > 0);
}

static void widen(struct axis *axis, double value)
{
    if (!is_drawn(axis, value))
        return;
    double at = axis->is_log ? log10(value) : value;
    axis->low = fmin(axis->low, at);
    axis->high = fmax(axis->high, at);
}

/* 1, 2 or 5 times a power of ten: some five steps. */
static double step_of(double range)
{
    double raw = range / 6, base = pow(10, floor(log10(raw)));
    return raw > 5 * base ? 10 * base : raw > 2 * base ? 5 * base : raw > base ? 2 * base : base;
}

/* Ends that are not drawn one on the other. Linear axes without negative numbers start at 0;
 * rounded ones end on a step. */
static void round_ends(struct axis *axis, bool rounded)
{
    if (axis->low > axis->high)
        axis->low = 0, axis->high = 1;
    if (axis->is_log) {
        double room = fmax(0.02 * (axis->high - axis->low), 0.05);
        axis->low -= room;
        axis->high += room;
        return;
    }
    if (axis->low > 0)
        axis->low = 0;
    if (axis->high <= axis->low)
        axis->high = axis->low + 1;
    if (rounded) {
        double step = step_of(axis->high - axis->low);
        axis->high = ceil(axis->high / step - 1e-9) * step;
    }
}

static void print_tick(const struct axis *axis, double value, bool vertical, FILE *out)
{
    char text[32];
    double at = place(axis, value);
    kvt_axis_print(fabs(value) < 1e-12 * fabs(axis->high) ? 0 : value, axis->unit, text);
    if (vertical)
        fprintf(out,
                "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"end\">%s</text>",
                LEFT, at, KVT_SVG_WIDTH - RIGHT, LEFT - 5, at + 4, text);
    else
        fprintf(out,
                "<path class=\"a\" d=\"M%.1f %.1fv4\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"middle\">%s</text>",
                at, KVT_SVG_HEIGHT - BOTTOM, at, KVT_SVG_HEIGHT - BOTTOM + 15, text);
}

/* Within 0.7 of a decade a log axis may have none or one of 1, 2 and 5: it takes even steps. */
static void print_ticks(const struct axis *axis, bool vertical, FILE *out)
{
    double decades = axis->high - axis->low;
    if (!axis->is_log || decades < 0.7) {
        double low = axis->is_log ? pow(10, axis->low) : axis->low;
        double high = axis->is_log ? pow(10, axis->high) : axis->high, step = step_of(high - low);
        /* A few ticks, and room for their rounding: NOLINTBEGIN(*FloatLoopCounter,cert-flp30-c) */
        for (double value = ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step;
             value += step)
            print_tick(axis, value, vertical, out);
        /* NOLINTEND(*FloatLoopCounter,cert-flp30-c) */
        return;
    }
    static const double fine[] = {1, 2, 5};
    int parts = decades < 3 ? 3 : 1, skip = decades > 8 ? 3 : decades > 5 ? 2 : 1;
    for (int power = (int)floor(axis->low); power <= (int)ceil(axis->high); power++)
        for (int part = 0; part < parts && power % skip == 0; part++) {
            double value = fine[part] * pow(10, power), at = log10(value);
            if (at >= axis->low - 1e-9 && at <= axis->high + 1e-9)
                print_tick(axis, value, vertical, out);
        }
    fputc('\n', out);
}

/* ---- curves ---- */

static void print_path(const struct kvt_curve *curve, const struct axis *x, const struct axis *y,
                       FILE *out)
{
    char move = 'M';
    fprintf(out, "<path class=\"l%s c%d\" d=\"", curve->dashed ? " d" : "", curve->color);
    for (int32_t i = 0; i < curve->count; i++) {
        bool drawn = is_drawn(x, curve->x[i]) && is_drawn(y, curve->y[i]);
        if (drawn)
            fprintf(out, "%c%.1f %.1f", move, place(x, curve->x[i]), place(y, curve->y[i]));
        move = drawn ? 'L' : 'M';
    }
    fputs("\"/>\n", out);
}

static void print_band(const struct kvt_curve *curve, const struct axis *x, const struct axis *y,
                       FILE *out)
{
    char move = 'M';
    fprintf(out, "<path class=\"f c%d\" d=\"", curve->color);
    for (int32_t i = 0; i < 2 * curve->count; i++) {
        int32_t at = i < curve->count ? i : 2 * curve->count - 1 - i;
        double value = i < curve->count ? curve->y[at] : curve->top[at];
        if (!is_drawn(x, curve->x[at]) || !is_drawn(y, value))
            continue;
        fprintf(out, "%c%.1f %.1f", move, place(x, curve->x[at]), place(y, value));
        move = 'L';
    }
    fputs("Z\"/>\n", out);
}

static void print_bars(const struct kvt_curve *curve, const struct axis *x, const struct axis *y,
                       FILE *out)
{
    fprintf(out, "<path class=\"b c%d\" d=\"", curve->color);
    for (int32_t i = 0; i < curve->count; i++) {
        double next =
            i + 1 < curve->count ? curve->x[i + 1] : 2 * curve->x[i] - curve->x[i - (i > 0)];
        double left = place(x, curve->x[i]), right = place(x, next), top = place(y, curve->y[i]);
        if (curve->y[i] > 0)
            fprintf(out, "M%.1f %.1fV%.1fH%.1fV%.1fZ", left, y->from, top,
                    fmax(right - 0.5, left + 1), y->from);
    }
    fputs("\"/>\n", out);
}

static void print_points(const struct kvt_curve *curve, const struct axis *x, const struct axis *y,
                         FILE *out)
{
    bool rings = curve->kind == KVT_CURVE_RINGS;
    for (int32_t i = 0; i < curve->count; i++)
        if (is_drawn(x, curve->x[i]) && is_drawn(y, curve->y[i]))
            fprintf(out, "<circle class=\"%s c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>",
                    rings ? "o" : "p", curve->color, place(x, curve->x[i]), place(y, curve->y[i]),
                    rings ? "4.5" : "2.2");
    fputc('\n', out);
}

static void print_curve(const struct kvt_curve *curve, const struct axis *x, const struct axis *y,
                        FILE *out)
{
    switch (curve->kind) {
    case KVT_CURVE_LINE:
        print_path(curve, x, y, out);
        break;
    case KVT_CURVE_BAND:
        print_band(curve, x, y, out);
        break;
    case KVT_CURVE_BARS:
        print_bars(curve, x, y, out);
        break;
    case KVT_CURVE_POINTS:
    case KVT_CURVE_RINGS:
        print_points(curve, x, y, out);
        break;
    }
}

/* ---- legend and marks ---- */

static double letters(const char *text)
{
    double count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count * LETTER;
}

/* One row below the title, or more; with a NULL file only its height. */
static double print_legend(const struct kvt_chart *chart, FILE *out)
{
    double x = LEFT, y = 34;
    bool any = false;
    for (int32_t i = 0; i < chart->curve_count; i++) {
        const struct kvt_curve *curve = &chart->curves[i];
        if (curve->label == NULL || curve->count == 0)
            continue;
        double width = 22 + letters(curve->label) + 10;
        if (any && x + width > KVT_SVG_WIDTH) {
            x = LEFT;
            y += 15;
        }
        any = true;
        bool dot = curve->kind == KVT_CURVE_POINTS || curve->kind == KVT_CURVE_RINGS;
        if (out != NULL && dot)
            fprintf(out, "<circle class=\"%s c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
                    curve->kind == KVT_CURVE_RINGS ? "o" : "p", curve->color, x + 10, y - 4);
        else if (out != NULL && curve->kind == KVT_CURVE_LINE)
            fprintf(out, "<path class=\"l%s c%d\" d=\"M%.1f %.1fh18\"/>", curve->dashed ? " d" : "",
                    curve->color, x, y - 4);
        else if (out != NULL)
            fprintf(out, "<rect class=\"b c%d\" x=\"%.1f\" y=\"%.1f\" width=\"18\" height=\"8\"/>",
                    curve->color, x, y - 8);
        if (out != NULL) {
            fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">", x + 22, y);
            kvt_svg_text(curve->label, out);
            fputs("</text>\n", out);
        }
        x += width;
    }
    return any ? y : 19;
}

static void print_marks(const struct kvt_chart *chart, const struct axis *x, double top, FILE *out)
{
    for (int32_t i = 0; i < chart->mark_count; i++) {
        if (!is_drawn(x, chart->marks[i].x))
            continue;
        double at = place(x, chart->marks[i].x);
        bool left = at > KVT_SVG_WIDTH / 2.0;
        fprintf(out,
                "<path class=\"m\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"%s\">",
                at, top, KVT_SVG_HEIGHT - BOTTOM, at + (left ? -4 : 4),
                KVT_SVG_HEIGHT - BOTTOM - 6 - 13 * i, left ? "end" : "start");
        kvt_svg_text(chart->marks[i].label, out);
        fputs("</text>\n", out);
    }
}

/* ---- the chart ---- */

bool kvt_chart_has_points(const struct kvt_chart *chart)
{
    for (int32_t i = 0; i < chart->curve_count; i++)
        if (chart->curves[i].count > 0)
            return true;
    return false;
}

static void measure(const struct kvt_chart *chart, struct axis *x, struct axis *y)
{
    for (int32_t i = 0; i < chart->curve_count; i++) {
        const struct kvt_curve *curve = &chart->curves[i];
        for (int32_t p = 0; p < curve->count; p++) {
            widen(x, curve->x[p]);
            widen(y, curve->y[p]);
            if (curve->kind == KVT_CURVE_BAND)
                widen(y, curve->top[p]);
        }
    }
    for (int32_t i = 0; i < chart->mark_count; i++)
        widen(x, chart->marks[i].x);
    bool scatter = chart->curve_count > 0 && chart->curves[0].kind >= KVT_CURVE_POINTS;
    round_ends(x, scatter);
    round_ends(y, true);
}

void kvt_chart_print(const struct kvt_chart *chart, bool alone, FILE *out)
{
    double top = print_legend(chart, NULL) + 10, bottom = KVT_SVG_HEIGHT - BOTTOM;
    struct axis x = {.low = (double)INFINITY,
                     .high = -(double)INFINITY,
                     .from = LEFT,
                     .to = KVT_SVG_WIDTH - RIGHT};
    struct axis y = {
        .low = (double)INFINITY, .high = -(double)INFINITY, .from = bottom, .to = top + 8};
    x.is_log = chart->x_log;
    y.is_log = chart->y_log;
    x.unit = chart->x_unit;
    y.unit = chart->y_unit;
    measure(chart, &x, &y);
    kvt_svg_begin(chart->title, KVT_SVG_HEIGHT, alone, out);
    if (chart->y_label != NULL) {
        fprintf(out, "<text x=\"%.1f\" y=\"17\" text-anchor=\"end\">", KVT_SVG_WIDTH - RIGHT);
        kvt_svg_text(chart->y_label, out);
        fputs("</text>", out);
    }
    print_legend(chart, out);
    print_ticks(&y, true, out);
    print_ticks(&x, false, out);
    fprintf(out, "<path class=\"a\" d=\"M%.1f %.1fH%.1f\"/>\n", LEFT, bottom,
            KVT_SVG_WIDTH - RIGHT);
    for (int32_t i = 0; i < chart->curve_count; i++)
        print_curve(&chart->curves[i], &x, &y, out);
    print_marks(chart, &x, top, out);
    if (chart->x_label != NULL) {
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
                (LEFT + KVT_SVG_WIDTH - RIGHT) / 2, KVT_SVG_HEIGHT - 6.0);
        kvt_svg_text(chart->x_label, out);
        fputs("</text>", out);
    }
    kvt_svg_end(out);
}
