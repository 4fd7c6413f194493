/*
 * reproduce.h - rows of "published beside simulated", whatever table they come from
 *
 * A list collects rows; kvt_reproduce_print writes them as text, JSON or CSV with a summary per
 * metric. error is predicted / observed - 1. Values that are not there are NaN and become null.
 */
#ifndef KVT_CLI_REPRODUCE_H
#define KVT_CLI_REPRODUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/table.h"

struct kvt_reproduced {
    char row[64]; /* row_id of a table, or name of a published file */
    char metric[48];
    double observed, predicted; /* NaN: not there */
    double unfitted;            /* of a fit: what is predicted without its constants; NaN */
    double low, high;           /* interval of the prediction; NaN: none */
    bool below;                 /* what was observed is a bound from above */
    double pool_error;          /* of device memory, of capacity rows; NaN elsewhere */
    char kind[16];              /* "fitted" or "predicted" */
    bool supported;
    bool reliable;    /* of a benchmark table: a row that a fit may learn from */
    char reason[160]; /* why not supported */
    char group[16];   /* engine of capacity rows that state their fraction, else "" */
};

/* What a fit found for one engine on one GPU: the config's residual.layer and residual.request. */
struct kvt_fitted_constants {
    char engine[16], gpu[64];
    char left_out[64];      /* the model that took no part and is tried with them; "": none */
    int32_t points, models; /* that they were fitted to; 0: this is the only model */
    double layer, request;  /* s; NaN: nothing says what it is */
};

struct kvt_reproduced_list {
    struct kvt_reproduced *rows; /* owned */
    int32_t count;
    int64_t room;
    bool fitted;                            /* predictions are those with constants */
    struct kvt_fitted_constants *constants; /* owned */
    int32_t constant_count;
    int64_t constant_room;
};

/* A new row at the end, zeroed, its numbers NaN; NULL without memory. */
struct kvt_reproduced *kvt_reproduced_add(struct kvt_reproduced_list *list);
struct kvt_fitted_constants *kvt_reproduced_add_constants(struct kvt_reproduced_list *list);
void kvt_reproduced_free(struct kvt_reproduced_list *list);

/* published: the keys of published files (name, published, simulated, kind); otherwise those of
 * tables (row_id, observed, predicted, status). */
enum kvt_status kvt_reproduced_print(const struct kvt_reproduced_list *list, bool published,
                                     enum kvt_cli_format format, struct kvt_err *err);

/* Run the load of a published file and fill the row's prediction; with resamples, its interval. */
struct kvt_config;
struct kvt_config_result;
enum kvt_status kvt_reproduce_serving(const struct kvt_config *config,
                                      const struct kvt_config_result *result, int32_t resamples,
                                      struct kvt_reproduced *row, struct kvt_err *err);

/* Add the rows of a capacity table (form of truth/capacity.csv). */
enum kvt_status kvt_reproduce_capacity(const char *path, struct kvt_reproduced_list *list,
                                       struct kvt_err *err);

/* Add the rows of a benchmark table (form of truth/serving.csv). guess: rows on GPUs without a
 * shipped calibration are priced by the data sheet. fit: two constants for each engine and GPU are
 * fitted to the reliable rows of all models but the row's own, and predictions are made with them;
 * unfitted holds those without. Three passes over the table instead of one.
 * resamples: behind each interval; 0: none. */
enum kvt_status kvt_reproduce_servers(const char *path, bool guess, bool fit, int32_t resamples,
                                      struct kvt_reproduced_list *list, struct kvt_err *err);

/* The config that a row of such a table makes, as YAML in *text (malloc'ed). */
enum kvt_status kvt_reproduce_server_config(const char *path, const char *row_id, bool guess,
                                            char **text, struct kvt_err *err);

/* Add the rows of one published file (configs/published/NAME.yaml, or a path), or of all of them in
 * the order of their names when name is NULL. Rows of runs get an interval from so many resamples
 * (resample.h; 0: none), rows of capacity none: a ledger has no error that is known. */
enum kvt_status kvt_reproduce_published(const char *name, int32_t resamples,
                                        struct kvt_reproduced_list *list, struct kvt_err *err);

#endif
