/* inject_real.h - `kvtwin inject --backend`: strikes carried out on real memory beside simulated
 * ones */
#ifndef KVT_CLI_INJECT_REAL_H
#define KVT_CLI_INJECT_REAL_H

#include "cli/inject.h"
#include "runtime/device.h"

struct kvt_inject_disagreement; /* a trial that ended otherwise: inject_real.c */

struct kvt_inject_real {
    enum kvt_backend backend;
    struct kvt_inject_disagreement *disagreements; /* owned */
    int64_t disagreement_count, room;
    int64_t trials, agree, exposed, same_tenants, output_changed, steps, repeated, tokens_read;
    uint32_t left_out; /* bit of each enum kvt_fault_variant that was asked for and not tried */
    const char *why[KVT_STRIKE_COUNT];
};

/* Run the trials of a config both ways; cells[KVT_FAULT_COUNT] get what real memory showed. */
enum kvt_status kvt_inject_real_run(struct kvt_inject_real *real, struct kvt_config *config,
                                    const struct kvt_inject_row *row,
                                    const struct kvt_campaign_options *how, struct kvt_cell cells[],
                                    struct kvt_err *err);

/* `"trials": ..., "not_expressed": [...]`, without braces around; or the same for people. */
void kvt_inject_real_print(const struct kvt_inject_real *real, enum kvt_cli_format format);

void kvt_inject_real_release(struct kvt_inject_real *real);

#endif
