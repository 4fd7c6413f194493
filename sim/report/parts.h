/*
 * parts.h - what the files of sim/report share among themselves
 */
#ifndef KVT_REPORT_PARTS_H
#define KVT_REPORT_PARTS_H

#include "sim/report/report.h"
#include "sim/report/svg.h"

#define KVT_ARRAYS_MAX 32

/* A chart being filled, and the arrays that it borrows. */
struct kvt_drawing {
    struct kvt_chart chart;
    double *arrays[KVT_ARRAYS_MAX]; /* owned */
    int32_t array_count;
    char texts[KVT_CURVES_MAX][48]; /* labels of marks, or of curves */
    bool failed;                    /* no memory */
};

/* count zeroed numbers until the drawing is released; NULL marks it as failed. */
double *kvt_drawing_room(struct kvt_drawing *drawing, int32_t count);

/* Add a curve whose arrays were had; otherwise nothing. */
void kvt_drawing_add(struct kvt_drawing *drawing, struct kvt_curve curve);
void kvt_drawing_release(struct kvt_drawing *drawing);

/* The beginning of a page, up to where its header stands. */
void kvt_page_begin(const char *title, FILE *out);

/* Figures that are no charts. */
void kvt_draw_memory(const struct kvt_report_run *run, int32_t role, bool alone, FILE *out);
void kvt_draw_faults(const struct kvt_report_run *run, bool alone, FILE *out);

#endif
