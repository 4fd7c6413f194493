#include "cli/inject_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/assert.h"
#include "sim/base/list.h"
#include "sim/output/h5_items.h"

/* ---- the journal -------------------------------------------------------------------------- */

static int64_t key_of(int64_t config, int64_t part)
{
    return config << 40 | part;
}

static enum kvt_status add(struct kvt_inject_store *store, int64_t key, const struct kvt_part *part,
                           struct kvt_err *err)
{
    void *grown = kvt_list_grow(store->records, store->count, &store->room, sizeof *store->records);
    if (grown == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for more than %lld parts",
                           (long long)store->count);
    store->records = grown;
    store->records[store->count++] = (struct kvt_inject_record){key, *part};
    return KVT_OK;
}

static enum kvt_status remember(void *context, int64_t key, const void *bytes, size_t count,
                                struct kvt_err *err)
{
    struct kvt_inject_store *store = context;
    struct kvt_part part;
    if (count != sizeof part)
        return kvt_err_set(err, KVT_ECONFIG, "%s.journal: a record of %zu bytes, want %zu",
                           store->output, count, sizeof part);
    memcpy(&part, bytes, sizeof part);
    return add(store, key, &part, err);
}

static int by_key(const void *a, const void *b)
{
    int64_t left = ((const struct kvt_inject_record *)a)->key;
    int64_t right = ((const struct kvt_inject_record *)b)->key;
    return (left > right) - (left < right);
}

/* Threads ask while another one adds, which may move the records: under one lock. */
static const struct kvt_part *known(void *context, int64_t part)
{
    struct kvt_inject_store *store = context;
    static _Thread_local struct kvt_part copy;
    bool found = false;
#pragma omp critical(inject_store)
    if (store->known > 0) {
        struct kvt_inject_record key = {.key = key_of(store->config, part)};
        const struct kvt_inject_record *record =
            bsearch(&key, store->records, (size_t)store->known, sizeof *store->records, by_key);
        found = record != NULL;
        if (found)
            copy = record->part;
    }
    return found ? &copy : NULL;
}

static enum kvt_status finished(void *context, int64_t part, const struct kvt_part *done,
                                struct kvt_err *err)
{
    struct kvt_inject_store *store = context;
    int64_t key = key_of(store->config, part);
    enum kvt_status status = kvt_journal_append(&store->journal, key, done, sizeof *done, err);
#pragma omp critical(inject_store)
    if (status == KVT_OK)
        status = add(store, key, done, err);
    return status;
}

enum kvt_status kvt_inject_store_open(struct kvt_inject_store *store, const char *output,
                                      const char *identity, struct kvt_err *err)
{
    char path[4096];
    *store = (struct kvt_inject_store){.output = output, .journal = {.file = -1}};
    store->face = (struct kvt_part_store){store, known, finished};
    int length = snprintf(path, sizeof path, "%s.journal", output);
    if (length < 0 || (size_t)length >= sizeof path)
        return kvt_err_set(err, KVT_EIO, "%s: a path that is too long for a journal", output);
    KVT_TRY(kvt_h5_items_check(output, path, identity, err));
    store->identity = strdup(identity);
    if (store->identity == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a journal");
    KVT_TRY(kvt_journal_open(&store->journal, path, identity, remember, store, err));
    if (store->count > 0)
        qsort(store->records, (size_t)store->count, sizeof *store->records, by_key);
    store->known = store->count;
    for (int64_t i = 0; i < store->known; i++)
        store->resumed += store->records[i].part.count;
    return KVT_OK;
}

void kvt_inject_store_close(struct kvt_inject_store *store)
{
    if (store->output != NULL)
        kvt_journal_close(&store->journal);
    free(store->records);
    free(store->identity);
    *store = (struct kvt_inject_store){.journal = {.file = -1}};
}

/* ---- the file ----------------------------------------------------------------------------- */

/* One trial; cell: of the file, by its row, or the number of a plan's config. */
static void trial_fields(const struct kvt_strike *strike, const struct kvt_fault_result *result,
                         int64_t cell, int64_t trial, struct kvt_fields *f)
{
    kvt_field_count(f, "cell", cell);
    kvt_field_count(f, "trial", trial);
    kvt_field_count(f, "variant", strike->variant);
    kvt_field_truth(f, "activated", result->activated);
    kvt_field_truth(f, "exposed", result->exposed);
    kvt_field_truth(f, "detected", result->detected);
    kvt_field_count(f, "outcome", result->outcome);
    kvt_field_count(f, "requests_hit", result->hit);
    kvt_field_count(f, "requests_lost", result->lost);
    kvt_field_count(f, "leaked_tokens", result->leaked);
    kvt_field_count(f, "requests_spoiled", result->spoiled);
    kvt_field_count(f, "requests_saved", result->saved);
    kvt_field_count(f, "recovery_tokens", result->again);
    kvt_field_truth(f, "cross_tenant", result->cross_tenant);
    kvt_field_real(f, "at_s", kvt_seconds_from_ticks(strike->time));
    kvt_field_real(f, "detected_at_s",
                   result->detected ? kvt_seconds_from_ticks(result->detected_at) : -1);
    kvt_field_real(f, "held_page_s", result->held_page_s);
}

/* A strike of a plan. */
static void strike_fields(const struct kvt_inject_row *row, int64_t number, struct kvt_fields *f)
{
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
    kvt_field_text(f, "config", row->config);
    kvt_field_text(f, "fault", kvt_fault_names[info->kind]);
    kvt_field_text(f, "guard", row->guard);
    kvt_field_text(f, "variant_name", info->name);
    trial_fields(&row->strike, &row->result, row->number, number, f);
}

/* A table on its way: a column for each field of its rows. */
struct sheet {
    struct kvt_fields columns;     /* their values are those of the row last added */
    union kvt_field_value *values; /* [columns][rows] */
    int64_t rows, next;
};

/* columns of *sheet are set. */
static bool sheet_init(struct sheet *sheet, int64_t rows)
{
    sheet->rows = rows;
    sheet->next = 0;
    sheet->values =
        calloc((size_t)(rows + 1) * (size_t)sheet->columns.count, sizeof *sheet->values);
    return sheet->values != NULL;
}

static void sheet_add(struct sheet *sheet, const struct kvt_fields *row)
{
    kvt_assert(row->count == sheet->columns.count);
    for (int32_t i = 0; i < row->count; i++)
        sheet->values[i * sheet->rows + sheet->next] = row->list[i].value;
    sheet->next++;
}

struct items {
    struct kvt_h5_item rows[128];
    int32_t count;
};

static void put(struct items *items, const char *group, const char *name, enum kvt_h5_kind kind,
                int64_t rows, const void *values)
{
    items->rows[items->count++] = (struct kvt_h5_item){group, name, kind, rows, values};
}

static void put_sheet(struct items *items, const char *group, const struct sheet *sheet)
{
    for (int32_t i = 0; i < sheet->columns.count; i++) {
        const struct kvt_field *column = &sheet->columns.list[i];
        put(items, group, column->name,
            column->kind == KVT_FIELD_TEXT   ? KVT_H5_TEXT
            : column->kind == KVT_FIELD_REAL ? KVT_H5_F64
                                             : KVT_H5_I64,
            sheet->rows, sheet->values + i * sheet->rows);
    }
}

/* The row of /cells that a part belongs to: configs have their cells in the order of classes. */
static int64_t cell_of(const struct kvt_inject_report *report, int64_t config,
                       enum kvt_fault_kind kind)
{
    int64_t cell = 0;
    for (int32_t i = 0; i < report->count; i++) {
        if (report->rows[i].planned || report->rows[i].rated)
            continue;
        if (report->rows[i].number == config && report->rows[i].cell.kind == kind)
            return cell;
        cell++;
    }
    return -1;
}

static void fill(const struct kvt_inject_store *store, const struct kvt_inject_report *report,
                 struct sheet *cells, struct sheet *trials, struct sheet *strikes)
{
    struct kvt_fields fields;
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        fields.count = 0;
        if (row->planned) {
            strike_fields(row, i, &fields);
            sheet_add(strikes, &fields);
        } else if (!row->rated) {
            kvt_inject_cell_fields(row, &fields);
            sheet_add(cells, &fields);
        }
    }
    for (int64_t i = 0; i < store->count; i++) {
        const struct kvt_inject_record *record = &store->records[i];
        const struct kvt_part *part = &record->part;
        enum kvt_fault_kind kind = kvt_fault_variants[part->strikes[0].variant].kind;
        int64_t cell = cell_of(report, record->key >> 40, kind);
        for (int32_t t = 0; t < part->count; t++) {
            fields.count = 0;
            trial_fields(&part->strikes[t], &part->results[t], cell, part->first + t, &fields);
            sheet_add(trials, &fields);
        }
    }
}

static enum kvt_status write_file(const struct kvt_inject_store *store, const struct sheet *cells,
                                  const struct sheet *trials, const struct sheet *strikes,
                                  int64_t seed, struct kvt_err *err)
{
    static const int64_t layout = 1;
    struct items items = {.count = 0};
    put(&items, "", "layout", KVT_H5_ATTRIBUTE_I64, 0, &layout);
    put(&items, "", "program", KVT_H5_ATTRIBUTE_TEXT, 0, "kvtwin");
    put(&items, "", "kind", KVT_H5_ATTRIBUTE_TEXT, 0, "faults");
    put_sheet(&items, "cells", cells);
    put_sheet(&items, "trials", trials);
    put_sheet(&items, "strikes", strikes);
    put(&items, "meta", "seed", KVT_H5_ATTRIBUTE_I64, 0, &seed);
    put(&items, "meta", "version", KVT_H5_ATTRIBUTE_TEXT, 0, KVT_VERSION);
    put(&items, "meta", "identity", KVT_H5_TEXT, 1, &store->identity);
    return kvt_h5_items_write(store->output, items.rows, items.count, err);
}

enum kvt_status kvt_inject_store_finish(struct kvt_inject_store *store,
                                        const struct kvt_inject_report *report, uint64_t seed,
                                        struct kvt_err *err)
{
    static const struct kvt_inject_row no_row;
    struct sheet cells = {.next = 0}, trials = {.next = 0}, strikes = {.next = 0};
    int64_t planned = 0, rated = 0, count = 0;
    for (int32_t i = 0; i < report->count; i++)
        planned += report->rows[i].planned, rated += report->rows[i].rated;
    if (store->count > 0)
        qsort(store->records, (size_t)store->count, sizeof *store->records, by_key);
    for (int64_t i = 0; i < store->count; i++)
        count += store->records[i].part.count;
    store->trials = count;
    kvt_inject_cell_fields(&no_row, &cells.columns);
    trial_fields(&no_row.strike, &no_row.result, 0, 0, &trials.columns);
    strike_fields(&no_row, 0, &strikes.columns);
    bool room = sheet_init(&cells, report->count - planned - rated);
    room = sheet_init(&trials, count) && room;
    room = sheet_init(&strikes, planned) && room;
    enum kvt_status status = KVT_OK;
    if (!room)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to write %s", store->output);
    if (status == KVT_OK) {
        fill(store, report, &cells, &trials, &strikes);
        status = write_file(store, &cells, &trials, &strikes, (int64_t)seed, err);
    }
    if (status == KVT_OK)
        unlink(store->journal.path);
    free(cells.values);
    free(trials.values);
    free(strikes.values);
    return status;
}
