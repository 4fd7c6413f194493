#include "sim/output/compare.h"

#include <stdlib.h>
#include <string.h>

#include "sim/output/log.h"

/* Find the first record that differs, block by block; *at is the number of equal ones before it. */
static enum kvt_status find_divergence(struct kvt_comparison *c, int64_t shorter,
                                       struct kvt_decision *blocks[2], int64_t *at,
                                       struct kvt_err *err)
{
    for (*at = 0; *at < shorter;) {
        int64_t count = shorter - *at < KVT_LOG_BLOCK ? shorter - *at : KVT_LOG_BLOCK;
        for (int side = 0; side < 2; side++)
            KVT_TRY(kvt_run_reader_decisions(&c->runs[side], *at, count, blocks[side], err));
        for (int64_t i = 0; i < count; i++, (*at)++)
            if (memcmp(&blocks[0][i], &blocks[1][i], sizeof blocks[0][i]) != 0)
                return KVT_OK;
    }
    return KVT_OK;
}

static enum kvt_status read_context(struct kvt_comparison *c, struct kvt_err *err)
{
    c->context_first = c->divergence < KVT_CONTEXT ? 0 : c->divergence - KVT_CONTEXT;
    for (int side = 0; side < 2; side++) {
        int64_t end = c->divergence + KVT_CONTEXT + 1;
        if (end > c->runs[side].decision_count)
            end = c->runs[side].decision_count;
        c->context_count[side] = (int32_t)(end - c->context_first);
        if (c->context_count[side] > 0)
            KVT_TRY(kvt_run_reader_decisions(&c->runs[side], c->context_first,
                                             c->context_count[side], c->context[side], err));
    }
    return KVT_OK;
}

static enum kvt_status compare_logs(struct kvt_comparison *c, struct kvt_err *err)
{
    c->divergence = -1;
    c->logs_equal = true;
    for (int side = 0; side < 2; side++)
        c->logged[side] = c->runs[side].decisions > 0;
    if (!c->logged[0] || !c->logged[1])
        return KVT_OK;
    struct kvt_decision *blocks[2] = {malloc(KVT_LOG_BLOCK * sizeof *blocks[0]),
                                      malloc(KVT_LOG_BLOCK * sizeof *blocks[1])};
    int64_t counts[2] = {c->runs[0].decision_count, c->runs[1].decision_count};
    int64_t shorter = counts[0] < counts[1] ? counts[0] : counts[1], at = 0;
    enum kvt_status status = blocks[0] == NULL || blocks[1] == NULL
                                 ? kvt_err_set(err, KVT_ENOMEM, "no memory to compare two logs")
                                 : find_divergence(c, shorter, blocks, &at, err);
    free(blocks[0]);
    free(blocks[1]);
    KVT_TRY(status);
    c->logs_equal = at == counts[0] && at == counts[1];
    if (c->logs_equal)
        return KVT_OK;
    c->divergence = at;
    return read_context(c, err);
}

/* Mark the rows in which a column of /requests differs. */
static enum kvt_status compare_column(struct kvt_comparison *c, const char *path, bool differs[],
                                      int64_t rows, struct kvt_err *err)
{
    double *values[2] = {NULL, NULL};
    enum kvt_status status = KVT_OK;
    for (int side = 0; side < 2 && status == KVT_OK; side++) {
        int64_t count;
        status = kvt_run_reader_column(&c->runs[side], path, &values[side], &count, err);
        if (status == KVT_OK && count != c->request_count[side])
            status = kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = c->runs[side].path},
                                "the columns of /requests differ in length");
    }
    for (int64_t r = 0; status == KVT_OK && r < rows; r++)
        differs[r] = differs[r] || values[0][r] != values[1][r];
    free(values[0]);
    free(values[1]);
    return status;
}

/* Each column of A that B has too: another version's may have more. */
static enum kvt_status compare_columns(struct kvt_comparison *c, bool differs[], int64_t rows,
                                       struct kvt_err *err)
{
    char **names;
    int32_t count;
    enum kvt_status status = kvt_run_reader_names(&c->runs[0], "requests", &names, &count, err);
    for (int32_t i = 0; i < count; i++) {
        char path[96];
        snprintf(path, sizeof path, "requests/%.80s", names[i]);
        if (status == KVT_OK && kvt_run_reader_has(&c->runs[1], path))
            status = compare_column(c, path, differs, rows, err);
        if (status == KVT_OK && c->runs[1].unread != KVT_OK)
            status = kvt_err_at(err, c->runs[1].unread, (struct kvt_where){.file = c->runs[1].path},
                                "/requests cannot be read");
        free(names[i]);
    }
    free(names);
    return status;
}

static enum kvt_status compare_requests(struct kvt_comparison *c, struct kvt_err *err)
{
    c->first_different = -1;
    for (int side = 0; side < 2; side++) {
        double *arrivals;
        KVT_TRY(kvt_run_reader_column(&c->runs[side], "requests/arrival", &arrivals,
                                      &c->request_count[side], err));
        free(arrivals);
    }
    int64_t a = c->request_count[0], b = c->request_count[1], rows = a < b ? a : b;
    bool *differs = calloc((size_t)rows + 1, sizeof *differs);
    if (differs == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to compare two runs");
    enum kvt_status status = compare_columns(c, differs, rows, err);
    for (int64_t r = 0; r < rows; r++) {
        if (differs[r] && c->first_different < 0)
            c->first_different = r;
        c->requests_different += differs[r];
    }
    if (a != b && c->first_different < 0)
        c->first_different = rows;
    c->requests_different += a > b ? a - b : b - a;
    free(differs);
    return status;
}

static enum kvt_status add_values(struct kvt_comparison *c, int side, const char *group,
                                  struct kvt_pairs *pairs, struct kvt_stored *stored,
                                  struct kvt_err *err)
{
    KVT_TRY(kvt_run_reader_values(&c->runs[side], group, stored, err));
    for (int32_t i = 0; i < stored->count; i++) {
        const struct kvt_stored_value *value = &stored->values[i];
        char number[32];
        snprintf(number, sizeof number, "%.12g", value->number);
        KVT_TRY(kvt_pairs_add(pairs, side, value->name, value->is_text ? value->text : number,
                              value->is_text ? NULL : &value->number, err));
    }
    return KVT_OK;
}

static enum kvt_status compare_side(struct kvt_comparison *c, int side, struct kvt_stored *stored,
                                    struct kvt_err *err)
{
    KVT_TRY(add_values(c, side, "summary", &c->metrics, stored, err));
    KVT_TRY(add_values(c, side, "meta", &c->meta, stored, err));
    char *config = NULL;
    KVT_TRY(kvt_run_reader_config(&c->runs[side], &config, err));
    enum kvt_status status = kvt_pairs_add_yaml(&c->config, side, c->runs[side].path, config, err);
    free(config);
    return status;
}

enum kvt_status kvt_comparison_init(struct kvt_comparison *comparison, const char *path_a,
                                    const char *path_b, struct kvt_err *err)
{
    struct kvt_comparison *c = comparison;
    memset(c, 0, sizeof *c);
    KVT_TRY(kvt_run_reader_open(&c->runs[0], path_a, err));
    KVT_TRY(kvt_run_reader_open(&c->runs[1], path_b, err));
    KVT_TRY(compare_logs(c, err));
    KVT_TRY(compare_requests(c, err));
    struct kvt_stored *stored = malloc(sizeof *stored);
    if (stored == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to compare two runs");
    enum kvt_status status = compare_side(c, 0, stored, err);
    if (status == KVT_OK)
        status = compare_side(c, 1, stored, err);
    free(stored);
    KVT_TRY(status);
    kvt_pairs_judge(&c->metrics);
    kvt_pairs_judge(&c->config);
    kvt_pairs_judge(&c->meta);
    /* The digest is among the metrics. */
    c->equal = c->logs_equal && c->requests_different == 0 && c->metrics.different == 0;
    return KVT_OK;
}

void kvt_comparison_release(struct kvt_comparison *comparison)
{
    for (int side = 0; side < 2; side++)
        kvt_run_reader_close(&comparison->runs[side]);
    kvt_pairs_release(&comparison->metrics);
    kvt_pairs_release(&comparison->config);
    kvt_pairs_release(&comparison->meta);
}
