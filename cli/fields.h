/*
 * fields.h - values of a result as JSON and CSV have them, alone and as a row of named ones
 *
 * A row is filled once, in the order of printing, and serves JSON, CSV and HDF5, which so cannot
 * disagree. Names and texts are borrowed. A text of NULL and a number that is not finite are null
 * in JSON and an empty field in CSV, where numbers have twelve digits.
 */
#ifndef KVT_CLI_FIELDS_H
#define KVT_CLI_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/json.h"

/* ---- one value ---- */

/* A text, in quotes where it needs them. */
void kvt_csv_field(FILE *file, const char *text);
void kvt_csv_number(FILE *file, double value);

/* ---- a row ---- */

enum kvt_field_kind { KVT_FIELD_TEXT, KVT_FIELD_COUNT, KVT_FIELD_TRUTH, KVT_FIELD_REAL };

/* count: COUNT; TRUTH: 0 or 1. All of them have eight bytes, as a column of HDF5 wants. */
union kvt_field_value {
    const char *text;
    int64_t count;
    double real;
};

struct kvt_field {
    const char *name;
    enum kvt_field_kind kind;
    bool printed; /* in JSON and CSV; else in the file alone */
    union kvt_field_value value;
};

#define KVT_FIELDS_MAX 48

struct kvt_fields {
    int32_t count;
    struct kvt_field list[KVT_FIELDS_MAX];
};

void kvt_field_text(struct kvt_fields *fields, const char *name, const char *value);
void kvt_field_count(struct kvt_fields *fields, const char *name, int64_t value);
void kvt_field_truth(struct kvt_fields *fields, const char *name, bool value);
void kvt_field_real(struct kvt_fields *fields, const char *name, double value);

/* The field added last is not printed. */
void kvt_field_hide(struct kvt_fields *fields);

/* `"name": value, "name": value`, without braces around; reals have all their digits. */
void kvt_fields_json(const struct kvt_fields *fields, FILE *out);

/* A line of CSV: the names, or the values. */
void kvt_fields_csv(const struct kvt_fields *fields, bool names, FILE *out);

#endif
