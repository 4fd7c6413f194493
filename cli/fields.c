#include "cli/fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "sim/base/assert.h"

void kvt_csv_field(FILE *file, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"')
            fputc('"', file);
        fputc(*c, file);
    }
    fputc('"', file);
}

void kvt_csv_number(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.12g", value);
}

/* ---- a row ---- */

_Static_assert(sizeof(union kvt_field_value) == 8, "a value of HDF5");

static union kvt_field_value *add(struct kvt_fields *fields, const char *name,
                                  enum kvt_field_kind kind)
{
    kvt_assert(fields->count < KVT_FIELDS_MAX);
    struct kvt_field *field = &fields->list[fields->count++];
    *field = (struct kvt_field){.name = name, .kind = kind, .printed = true};
    return &field->value;
}

void kvt_field_text(struct kvt_fields *fields, const char *name, const char *value)
{
    add(fields, name, KVT_FIELD_TEXT)->text = value;
}

void kvt_field_count(struct kvt_fields *fields, const char *name, int64_t value)
{
    add(fields, name, KVT_FIELD_COUNT)->count = value;
}

void kvt_field_truth(struct kvt_fields *fields, const char *name, bool value)
{
    add(fields, name, KVT_FIELD_TRUTH)->count = value;
}

void kvt_field_real(struct kvt_fields *fields, const char *name, double value)
{
    add(fields, name, KVT_FIELD_REAL)->real = value;
}

void kvt_field_hide(struct kvt_fields *fields)
{
    kvt_assert(fields->count > 0);
    fields->list[fields->count - 1].printed = false;
}

static void print_text(const char *text, FILE *out)
{
    json_t *value = text != NULL ? kvt_json_text(text) : json_null();
    (void)json_dumpf(value, out, JSON_ENCODE_ANY);
    json_decref(value);
}

static void print_json(const struct kvt_field *field, FILE *out)
{
    switch (field->kind) {
    case KVT_FIELD_TEXT:
        print_text(field->value.text, out);
        return;
    case KVT_FIELD_COUNT:
        fprintf(out, "%" PRId64, field->value.count);
        return;
    case KVT_FIELD_TRUTH:
        fputs(field->value.count != 0 ? "true" : "false", out);
        return;
    case KVT_FIELD_REAL:
        if (isfinite(field->value.real))
            fprintf(out, "%.17g", field->value.real);
        else
            fputs("null", out);
        return;
    }
}

void kvt_fields_json(const struct kvt_fields *fields, FILE *out)
{
    const char *comma = "";
    for (int32_t i = 0; i < fields->count; i++) {
        const struct kvt_field *field = &fields->list[i];
        if (!field->printed)
            continue;
        fprintf(out, "%s\"%s\": ", comma, field->name);
        print_json(field, out);
        comma = ", ";
    }
}

static void print_csv(const struct kvt_field *field, FILE *out)
{
    if (field->kind == KVT_FIELD_TEXT)
        kvt_csv_field(out, field->value.text != NULL ? field->value.text : "");
    else if (field->kind == KVT_FIELD_REAL)
        kvt_csv_number(out, field->value.real);
    else
        fprintf(out, "%" PRId64, field->value.count);
}

void kvt_fields_csv(const struct kvt_fields *fields, bool names, FILE *out)
{
    const char *comma = "";
    for (int32_t i = 0; i < fields->count; i++) {
        if (!fields->list[i].printed)
            continue;
        fputs(comma, out);
        if (names)
            kvt_csv_field(out, fields->list[i].name);
        else
            print_csv(&fields->list[i], out);
        comma = ",";
    }
    fputc('\n', out);
}
