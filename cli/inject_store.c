#include "cli/inject_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/output/h5_items.h"

/* ---- the journal -------------------------------------------------------------------------- */

static int64_t key_of(int64_t config, int64_t part)
{
    return config << 40 | part;
}

static enum kvt_status add(struct kvt_inject_store *store, int64_t key, const struct kvt_part *part,
                           struct kvt_err *err)
{
    if (store->count == store->room) {
        int64_t room = store->room * 2 + 64;
        struct kvt_inject_record *grown = realloc(store->records, (size_t)room * sizeof *grown);
        if (grown == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for %lld parts", (long long)room);
        store->records = grown;
        store->room = room;
    }
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

enum { CELL_I64 = 25, CELL_F64 = 11, CELL_TEXT = 6 };

static const char *const cell_text[CELL_TEXT] = {"config", "fault",  "guard",
                                                 "check",  "on_hit", "estimator"};
static const char *const cell_i64[CELL_I64] = {"tag_bits",
                                               "injected",
                                               "activated",
                                               "exposed",
                                               "masked",
                                               "detected",
                                               "escaped",
                                               "undetected_harmless",
                                               "hung",
                                               "crashed",
                                               "false_aborts",
                                               "cross_tenant",
                                               "requests_hit",
                                               "requests_lost",
                                               "leaked_tokens",
                                               "requests_saved",
                                               "recovery_tokens",
                                               "requests_spoiled",
                                               "blast_radius_max",
                                               "detected_after_leak",
                                               "guard_bytes_per_gpu",
                                               "clean_requests",
                                               "clean_false_aborts",
                                               "clean_pages_left",
                                               "clean_unfinished"};
static const char *const cell_f64[CELL_F64] = {
    "escapes_per_1e9",    "ci_low",  "ci_high",          "effective_samples",  "detection_s_sum",
    "held_page_s",        "goodput", "clean_duration_s", "clean_mean_tpot_ms", "tag_alias",
    "clean_fenced_page_s"};

static void cell_values(const struct kvt_inject_row *row, const char *text[], int64_t whole[],
                        double real[])
{
    const struct kvt_cell *cell = &row->cell;
    const int64_t *n = cell->outcomes;
    const char *estimator;
    struct kvt_estimate escapes = kvt_cell_escapes(cell, &estimator);
    const char *const texts[CELL_TEXT] = {row->config,
                                          kvt_fault_names[cell->kind],
                                          row->guard,
                                          kvt_check_names[row->check],
                                          kvt_policy_names[row->policy],
                                          estimator};
    const int64_t wholes[CELL_I64] = {row->tag_bits,
                                      cell->injected,
                                      cell->activated,
                                      cell->exposed,
                                      n[0],
                                      n[1],
                                      n[2],
                                      n[3],
                                      n[4],
                                      n[5],
                                      cell->false_aborts,
                                      cell->cross_tenant,
                                      cell->hit,
                                      cell->lost,
                                      cell->leaked,
                                      cell->saved,
                                      cell->again,
                                      cell->spoiled,
                                      cell->spoiled_most,
                                      cell->detected_late,
                                      cell->clean.guard_bytes,
                                      cell->clean.requests,
                                      cell->clean.false_aborts,
                                      cell->clean.pages_left,
                                      cell->clean.unfinished};
    const double reals[CELL_F64] = {1e9 * escapes.p,
                                    1e9 * escapes.low,
                                    1e9 * escapes.high,
                                    escapes.effective,
                                    cell->latency_s,
                                    cell->held_page_s,
                                    kvt_cell_goodput(cell),
                                    cell->clean.duration_s,
                                    1e3 * cell->clean.mean_tpot_s,
                                    row->tag_bits > 0 ? 1 / (__builtin_ldexp(1, row->tag_bits) - 1)
                                                      : 1,
                                    cell->clean.fenced_page_s};
    memcpy(text, texts, sizeof texts);
    memcpy(whole, wholes, sizeof wholes);
    memcpy(real, reals, sizeof reals);
}

enum { TRIAL_I64 = 14, TRIAL_F64 = 3 };
static const char *const trial_i64[TRIAL_I64] = {"cell",
                                                 "trial",
                                                 "variant",
                                                 "activated",
                                                 "exposed",
                                                 "detected",
                                                 "outcome",
                                                 "requests_hit",
                                                 "requests_lost",
                                                 "leaked_tokens",
                                                 "requests_spoiled",
                                                 "requests_saved",
                                                 "recovery_tokens",
                                                 "cross_tenant"};
static const char *const trial_f64[TRIAL_F64] = {"at_s", "detected_at_s", "held_page_s"};

static void trial_values(const struct kvt_strike *s, const struct kvt_fault_result *r, int64_t cell,
                         int64_t trial, int64_t whole[], double real[])
{
    const int64_t wholes[TRIAL_I64] = {
        cell,   trial,   s->variant, r->activated, r->exposed, r->detected, r->outcome,
        r->hit, r->lost, r->leaked,  r->spoiled,   r->saved,   r->again,    r->cross_tenant};
    const double reals[TRIAL_F64] = {kvt_seconds_from_ticks(s->time),
                                     r->detected ? kvt_seconds_from_ticks(r->detected_at) : -1,
                                     r->held_page_s};
    memcpy(whole, wholes, sizeof wholes);
    memcpy(real, reals, sizeof reals);
}

/* A table on its way: columns of texts, whole and real numbers, each [rows]. */
struct sheet {
    int64_t rows, next;
    const char **text;
    int64_t *whole;
    double *real;
};

static bool sheet_init(struct sheet *sheet, int64_t rows, int texts, int wholes, int reals)
{
    size_t room = (size_t)rows + 1;
    *sheet = (struct sheet){.rows = rows,
                            .text = calloc(room * (size_t)(texts + 1), sizeof *sheet->text),
                            .whole = calloc(room * (size_t)(wholes + 1), sizeof *sheet->whole),
                            .real = calloc(room * (size_t)(reals + 1), sizeof *sheet->real)};
    return sheet->text != NULL && sheet->whole != NULL && sheet->real != NULL;
}

static void sheet_free(struct sheet *sheet)
{
    free(sheet->text);
    free(sheet->whole);
    free(sheet->real);
}

static void sheet_add(struct sheet *sheet, const char *const text[], int texts,
                      const int64_t whole[], int wholes, const double real[], int reals)
{
    int64_t at = sheet->next++;
    for (int i = 0; i < texts; i++)
        sheet->text[i * sheet->rows + at] = text[i];
    for (int i = 0; i < wholes; i++)
        sheet->whole[i * sheet->rows + at] = whole[i];
    for (int i = 0; i < reals; i++)
        sheet->real[i * sheet->rows + at] = real[i];
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

static void put_sheet(struct items *items, const char *group, const struct sheet *sheet,
                      const char *const text[], int texts, const char *const whole[], int wholes,
                      const char *const real[], int reals)
{
    for (int i = 0; i < texts; i++)
        put(items, group, text[i], KVT_H5_TEXT, sheet->rows, sheet->text + i * sheet->rows);
    for (int i = 0; i < wholes; i++)
        put(items, group, whole[i], KVT_H5_I64, sheet->rows, sheet->whole + i * sheet->rows);
    for (int i = 0; i < reals; i++)
        put(items, group, real[i], KVT_H5_F64, sheet->rows, sheet->real + i * sheet->rows);
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
    const char *text[CELL_TEXT];
    int64_t whole[CELL_I64];
    double real[CELL_F64];
    for (int32_t i = 0; i < report->count; i++) {
        const struct kvt_inject_row *row = &report->rows[i];
        const struct kvt_fault_variant_info *info = &kvt_fault_variants[row->strike.variant];
        const char *const names[] = {row->config, kvt_fault_names[info->kind], row->guard,
                                     info->name};
        if (row->planned) {
            trial_values(&row->strike, &row->result, row->number, i, whole, real);
            sheet_add(strikes, names, 4, whole, TRIAL_I64, real, TRIAL_F64);
            continue;
        }
        if (row->rated)
            continue;
        cell_values(row, text, whole, real);
        sheet_add(cells, text, CELL_TEXT, whole, CELL_I64, real, CELL_F64);
    }
    for (int64_t i = 0; i < store->count; i++) {
        const struct kvt_inject_record *record = &store->records[i];
        const struct kvt_part *part = &record->part;
        enum kvt_fault_kind kind = kvt_fault_variants[part->strikes[0].variant].kind;
        int64_t cell = cell_of(report, record->key >> 40, kind);
        for (int32_t t = 0; t < part->count; t++) {
            trial_values(&part->strikes[t], &part->results[t], cell, part->first + t, whole, real);
            sheet_add(trials, NULL, 0, whole, TRIAL_I64, real, TRIAL_F64);
        }
    }
}

static enum kvt_status write_file(const struct kvt_inject_store *store, const struct sheet *cells,
                                  const struct sheet *trials, const struct sheet *strikes,
                                  int64_t seed, struct kvt_err *err)
{
    static const char *const strike_text[] = {"config", "fault", "guard", "variant_name"};
    static const int64_t layout = 1;
    struct items items = {.count = 0};
    put(&items, "", "layout", KVT_H5_ATTRIBUTE_I64, 0, &layout);
    put(&items, "", "program", KVT_H5_ATTRIBUTE_TEXT, 0, "kvtwin");
    put(&items, "", "kind", KVT_H5_ATTRIBUTE_TEXT, 0, "faults");
    put_sheet(&items, "cells", cells, cell_text, CELL_TEXT, cell_i64, CELL_I64, cell_f64, CELL_F64);
    put_sheet(&items, "trials", trials, NULL, 0, trial_i64, TRIAL_I64, trial_f64, TRIAL_F64);
    put_sheet(&items, "strikes", strikes, strike_text, 4, trial_i64, TRIAL_I64, trial_f64,
              TRIAL_F64);
    put(&items, "meta", "seed", KVT_H5_ATTRIBUTE_I64, 0, &seed);
    put(&items, "meta", "version", KVT_H5_ATTRIBUTE_TEXT, 0, KVT_VERSION);
    put(&items, "meta", "identity", KVT_H5_TEXT, 1, &store->identity);
    return kvt_h5_items_write(store->output, items.rows, items.count, err);
}

enum kvt_status kvt_inject_store_finish(struct kvt_inject_store *store,
                                        const struct kvt_inject_report *report, uint64_t seed,
                                        struct kvt_err *err)
{
    struct sheet cells, trials, strikes;
    int64_t planned = 0, rated = 0, count = 0;
    for (int32_t i = 0; i < report->count; i++)
        planned += report->rows[i].planned, rated += report->rows[i].rated;
    if (store->count > 0)
        qsort(store->records, (size_t)store->count, sizeof *store->records, by_key);
    for (int64_t i = 0; i < store->count; i++)
        count += store->records[i].part.count;
    store->trials = count;
    bool room = sheet_init(&cells, report->count - planned - rated, CELL_TEXT, CELL_I64, CELL_F64);
    room = sheet_init(&trials, count, 0, TRIAL_I64, TRIAL_F64) && room;
    room = sheet_init(&strikes, planned, 4, TRIAL_I64, TRIAL_F64) && room;
    enum kvt_status status = KVT_OK;
    if (!room)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to write %s", store->output);
    if (status == KVT_OK) {
        fill(store, report, &cells, &trials, &strikes);
        status = write_file(store, &cells, &trials, &strikes, (int64_t)seed, err);
    }
    if (status == KVT_OK)
        unlink(store->journal.path);
    sheet_free(&cells);
    sheet_free(&trials);
    sheet_free(&strikes);
    return status;
}
