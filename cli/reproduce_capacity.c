/*
 * reproduce_capacity.c - a table of start-up logs of real servers, beside what the ledger says
 *
 * Outcomes are read only to print them beside the prediction, after support was decided.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/reproduce.h"
#include "cli/server_row.h"

#define GIB 1073741824.0

static double observed_pool(const struct kvt_server_row *row)
{
    double gib = kvt_server_outcome(row, "kv_gib_per_gpu");
    return isnan(gib) ? kvt_server_outcome(row, "kv_gib_implied") : gib;
}

static double observed_bytes(const struct kvt_server_row *row)
{
    double bytes = kvt_server_outcome(row, "obs_bytes_per_token_per_gpu");
    return isnan(bytes) ? kvt_server_outcome(row, "exp_bytes_per_token_per_gpu") : bytes;
}

struct result {
    const char *metric;
    double observed, predicted, pool_error;
    bool needs_fraction; /* and more: the pool */
};

static enum kvt_status add(struct kvt_reproduced_list *list, const struct kvt_server_row *row,
                           const struct result *result, const char *reason, struct kvt_err *err)
{
    struct kvt_reproduced *out = kvt_reproduced_add(list);
    if (out == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
    snprintf(out->row, sizeof out->row, "%s", kvt_server_field(row, "row_id"));
    snprintf(out->metric, sizeof out->metric, "%s", result->metric);
    out->observed = result->observed;
    out->supported = reason == NULL;
    if (reason != NULL) {
        snprintf(out->reason, sizeof out->reason, "%s", reason);
        return KVT_OK;
    }
    out->predicted = result->predicted;
    out->pool_error = result->pool_error;
    if (kvt_server_field(row, "mem_fraction")[0] != '\0')
        snprintf(out->group, sizeof out->group, "%s",
                 row->want.of_free ? "trtllm" : kvt_engine_names[row->want.engine]);
    return KVT_OK;
}

static enum kvt_status add_supported(struct kvt_reproduced_list *list,
                                     const struct kvt_server_row *row, struct kvt_err *err)
{
    struct kvt_memory memory;
    struct kvt_err why = {0};
    enum kvt_status status = kvt_memory_plan(&row->want, &memory, &why);
    if (status != KVT_OK && memory.weights_bytes == 0) {
        struct result none = {.metric = "bytes_per_token_per_gpu", .observed = observed_bytes(row)};
        return add(list, row, &none, why.text, err);
    }
    /* What does not fit is predicted too: a budget below zero, and no tokens. */
    double pool = status == KVT_OK ? (double)memory.kv_pool_bytes : (double)memory.budget_bytes;
    double seen = observed_pool(row), tokens = kvt_server_outcome(row, "kv_tokens");
    double weights = kvt_server_outcome(row, "weights_gib_per_gpu");
    const struct result results[] = {
        {"bytes_per_token_per_gpu", observed_bytes(row), memory.kv_bytes_per_token, (double)NAN,
         false},
        {"weights_gib_per_gpu", weights, (double)memory.weights_bytes / GIB, (double)NAN, false},
        {"kv_gib_per_gpu", seen, pool / GIB, (pool - seen * GIB) / (double)memory.visible_bytes,
         true},
        {"kv_tokens", tokens, (double)memory.kv_tokens, (double)NAN, true},
    };
    bool stated = kvt_server_field(row, "mem_fraction")[0] != '\0';
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const char *reason =
            results[i].needs_fraction && !stated ? "the row states no memory fraction" : NULL;
        KVT_TRY(add(list, row, &results[i], reason, err));
    }
    return KVT_OK;
}

enum kvt_status kvt_reproduce_capacity(const char *path, struct kvt_reproduced_list *list,
                                       struct kvt_err *err)
{
    static const char *const needed[] = {"row_id", "engine", "model", "gpu"};
    struct kvt_table table;
    KVT_TRY(kvt_table_read(&table, path, err));
    enum kvt_status status = KVT_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (kvt_table_column(&table, needed[i]) < 0)
            status = kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path, .line = 1},
                                "want a column \"%s\"", needed[i]);
    for (int32_t i = 0; i < table.row_count && status == KVT_OK; i++) {
        struct kvt_server_row row = {.table = &table, .index = i};
        if (kvt_server_read(&row)) {
            status = add_supported(list, &row, err);
            continue;
        }
        if (kvt_server_ends(&row)) {
            status = kvt_err_set(err, row.status, "%s", row.reason);
            break;
        }
        struct result none = {.metric = "bytes_per_token_per_gpu",
                              .observed = observed_bytes(&row)};
        status = add(list, &row, &none, row.reason, err);
    }
    kvt_table_free(&table);
    return status;
}
