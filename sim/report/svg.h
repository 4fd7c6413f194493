/*
 * svg.h - figures as SVG text: axes, curves, bands, bars, points and marks; nothing else
 *
 * A figure is a struct kvt_chart that the caller fills and kvt_chart_print writes. Colours are
 * classes (c0 to c9), so that one style sheet (kvt_svg_style) serves light, dark and paper; a
 * figure that stands alone carries the sheet. All figures are KVT_SVG_WIDTH wide and scale with
 * their place: on a phone one fills the screen, on a desk two stand side by side, and the letters
 * can be read in both.
 *
 * Equal charts give equal bytes: coordinates have one decimal, nothing depends on fonts.
 */
#ifndef KVT_REPORT_SVG_H
#define KVT_REPORT_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define KVT_SVG_WIDTH  440
#define KVT_SVG_HEIGHT 264 /* of a chart */
#define KVT_SVG_COLORS 10

enum kvt_curve_kind {
    KVT_CURVE_LINE,
    KVT_CURVE_BAND,   /* between y and top */
    KVT_CURVE_BARS,   /* from 0 to y, each from x to the next one's x */
    KVT_CURVE_POINTS, /* small dots */
    KVT_CURVE_RINGS,  /* large rings */
};

enum kvt_axis_unit {
    KVT_AXIS_NUMBER,  /* 1.5k */
    KVT_AXIS_SECONDS, /* 20 ms */
    KVT_AXIS_PERCENT, /* 0.2 is 20 % */
};

struct kvt_curve {
    const char *label; /* in the legend; NULL: not there */
    enum kvt_curve_kind kind;
    int32_t color;
    bool dashed;
    const double *x, *y, *top; /* borrowed, [count]; points that are not finite are left out */
    int32_t count;
};

struct kvt_mark { /* a vertical line */
    double x;
    const char *label;
};

#define KVT_CURVES_MAX 12
#define KVT_MARKS_MAX  6

struct kvt_chart {
    const char *title, *x_label, *y_label;
    enum kvt_axis_unit x_unit, y_unit;
    bool x_log, y_log;
    int32_t curve_count, mark_count;
    struct kvt_curve curves[KVT_CURVES_MAX];
    struct kvt_mark marks[KVT_MARKS_MAX];
};

/* Whether any curve has a point to draw. */
bool kvt_chart_has_points(const struct kvt_chart *chart);

/* Write the figure as one <svg> element. alone: a file of its own, with its style sheet. */
void kvt_chart_print(const struct kvt_chart *chart, bool alone, FILE *out);

/* The style sheet of all figures. */
void kvt_svg_style(FILE *out);

/* ---- for figures that are no charts ---- */

void kvt_svg_begin(const char *title, double height, bool alone, FILE *out);
void kvt_svg_end(FILE *out);

/* Text with <, > and & written as entities; what is not UTF-8 becomes a question mark. */
void kvt_svg_text(const char *text, FILE *out);

/* A number for people: "1.5k", "20 ms", "40 %". Returns out. */
const char *kvt_axis_print(double value, enum kvt_axis_unit unit, char out[32]);

#endif
