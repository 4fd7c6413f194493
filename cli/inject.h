/*
 * inject.h - what `kvtwin inject` found, and how it says so (cmd_inject.c, inject_print.c)
 */
#ifndef KVT_CLI_INJECT_H
#define KVT_CLI_INJECT_H

#include "cli/cli.h"
#include "cli/fields.h"
#include "sim/plan/fault_estimate.h"

#define KVT_INJECT_NAME_BYTES 160

struct kvt_inject_row { /* of the matrix, or of a plan */
    char config[KVT_INJECT_NAME_BYTES], guard[KVT_INJECT_NAME_BYTES];
    enum kvt_guard_check check;
    enum kvt_on_hit on_hit;
    bool looks;       /* a guard of it has a check and an action on a hit */
    int32_t tag_bits; /* 0: no tag */
    bool planned, rated;
    enum kvt_fault_estimator estimator; /* of a rated one */
    struct kvt_fault_estimate estimate; /* of a rated one */
    int64_t number;                     /* of the config, over all operands and domains */
    struct kvt_cell cell;
    struct kvt_strike strike;
    struct kvt_fault_result result;
    bool expected; /* the config says how it ends */
    enum kvt_fault_outcome expectation;
};

struct kvt_inject_report {
    struct kvt_inject_row *rows; /* owned */
    int32_t count;
    int64_t room;
    int64_t configs;              /* run so far */
    struct kvt_inject_real *real; /* on real memory as well (inject_real.h); NULL: not */
};

/* Whether a strike of a plan ended as the config says; true where it says nothing. */
bool kvt_inject_is_as_expected(const struct kvt_inject_row *row);

/* A row of the matrix: keys of JSON, columns of CSV, datasets of /cells in the file. */
void kvt_inject_cell_fields(const struct kvt_inject_row *row, struct kvt_fields *fields);

/* JSON: one object; CSV: a table for each kind of rows there is, with the keys of JSON. */
void kvt_inject_print(const struct kvt_inject_report *report, enum kvt_cli_format format);

#endif
