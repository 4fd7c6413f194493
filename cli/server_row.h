/*
 * server_row.h - what one row of a table says about the server it tells of
 *
 * Tables of start-up logs (truth/capacity.csv) and of benchmarks (truth/serving.csv) name a server
 * in the same columns: engine and version, model, GPU and its memory, counts and layout, dtypes,
 * fraction, page, max model length, speculative decoding. kvt_server_read turns them into what the
 * memory ledger wants. All other columns are outcomes, which it never looks at.
 *
 * A function that gives false has put the reason into the row: it is then one that we do not model.
 */
#ifndef KVT_CLI_SERVER_ROW_H
#define KVT_CLI_SERVER_ROW_H

#include "cli/table.h"
#include "sim/serve/memory.h"

struct kvt_server_row {
    const struct kvt_table *table;
    int32_t index;
    struct kvt_model model;
    struct kvt_gpu gpu;
    struct kvt_memory_want want; /* points at model and gpu: the row must not move */
    int32_t minor;    /* of vLLM's 0.minor; of a version that is only a date, by its month */
    int32_t replicas; /* whole servers side by side, behind one address */
    enum kvt_moe_a2a moe_a2a;
    bool all_linears;       /* a 4-bit recipe (AWQ, GPTQ) that takes every linear */
    char reason[160];       /* why it is not supported */
    enum kvt_status status; /* of its files; but for KVT_ECONFIG, the reason ends the command */
};

/* Read the inputs of row `index`; table and index are set, all else zero. */
bool kvt_server_read(struct kvt_server_row *row);

/* Whether a row that was refused ends the command: its files could not be read (status, reason). */
bool kvt_server_ends(const struct kvt_server_row *row);

/* The field of a column, "" where it is empty or not there. */
const char *kvt_server_field(const struct kvt_server_row *row, const char *column);

/* A whole number >= 1 in a column; fallback where the field is empty. */
bool kvt_server_count(struct kvt_server_row *row, const char *column, int64_t fallback,
                      int64_t *value);

/* A number that was observed; NaN where there is none. */
double kvt_server_outcome(const struct kvt_server_row *row, const char *column);

/* Always false. */
bool kvt_server_refuse(struct kvt_server_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void kvt_server_lower(const char *text, char *out, size_t bytes);

#endif
