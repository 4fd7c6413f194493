#include "cli/inject_real.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/fault_trial.h"
#include "sim/base/list.h"

struct kvt_inject_disagreement {
    char config[KVT_INJECT_NAME_BYTES], guard[KVT_INJECT_NAME_BYTES];
    struct kvt_fault_trial trial;
};

static enum kvt_status add(struct kvt_inject_real *real, const struct kvt_inject_row *row,
                           const struct kvt_fault_trial *trial, struct kvt_err *err)
{
    void *grown = kvt_list_grow(real->disagreements, real->disagreement_count, &real->room,
                                sizeof *real->disagreements);
    if (grown == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for more than %lld disagreements",
                           (long long)real->disagreement_count);
    real->disagreements = grown;
    struct kvt_inject_disagreement *d = &real->disagreements[real->disagreement_count++];
    memcpy(d->config, row->config, sizeof d->config);
    memcpy(d->guard, row->guard, sizeof d->guard);
    d->trial = *trial;
    return KVT_OK;
}

static void count(struct kvt_inject_real *real, struct kvt_cell *cell,
                  const struct kvt_fault_trial *trial)
{
    const struct kvt_real_result *result = &trial->real;
    real->trials++;
    real->agree += trial->agrees;
    real->exposed += result->exposed;
    real->same_tenants += trial->same_tenants;
    real->output_changed += result->output_changed;
    real->steps += result->steps;
    real->repeated += result->repeated;
    real->tokens_read += result->tokens_read;
    cell->injected++;
    cell->activated += result->activated;
    cell->variants[trial->strike.variant] += result->activated;
    cell->exposed += result->exposed;
    cell->outcomes[result->outcome]++;
    cell->cross_tenant += result->cross_tenant;
    cell->hit += result->hit;
    cell->lost += result->lost;
    cell->leaked += result->leaked;
    cell->detected_late += result->detected && result->leaked > 0;
}

enum kvt_status kvt_inject_real_run(struct kvt_inject_real *real, struct kvt_config *config,
                                    const struct kvt_inject_row *row,
                                    const struct kvt_campaign_options *how, struct kvt_cell cells[],
                                    struct kvt_err *err)
{
    struct kvt_fault_trials trials;
    struct kvt_fault_trials_want want = {.backend = real->backend,
                                         .threads = how->threads,
                                         .skip = -1,
                                         .stop = how->stop,
                                         .tell = how->tell};
    for (int32_t v = 0; v < KVT_STRIKE_COUNT; v++) {
        const char *why = kvt_fault_trial_why_not(config, (enum kvt_fault_variant)v);
        if (why == NULL || !(config->faults.kinds >> kvt_fault_variants[v].kind & 1))
            continue;
        real->left_out |= UINT32_C(1) << v;
        real->why[v] = why;
    }
    for (int32_t kind = 0; kind < KVT_FAULT_COUNT; kind++)
        cells[kind] = (struct kvt_cell){.kind = (enum kvt_fault_kind)kind};
    enum kvt_status status = kvt_fault_trials_run(config, &want, &trials, err);
    for (int64_t i = 0; i < trials.count && status == KVT_OK; i++) {
        count(real, &cells[trials.trials[i].kind], &trials.trials[i]);
        if (!trials.trials[i].agrees)
            status = add(real, row, &trials.trials[i], err);
    }
    kvt_fault_trials_release(&trials);
    return status;
}

/* ---- printing ----------------------------------------------------------------------------- */

static const char *name_of(int32_t variant)
{
    return kvt_fault_variants[variant].name;
}

static const char *class_of(int32_t variant)
{
    return kvt_fault_names[kvt_fault_variants[variant].kind];
}

/* A row of a list of objects. */
static void print_row(const struct kvt_fields *fields, bool first)
{
    fputs(first ? "\n  {" : ",\n  {", stdout);
    kvt_fields_json(fields, stdout);
    putchar('}');
}

static void print_json(const struct kvt_inject_real *real)
{
    struct kvt_fields f = {.count = 0};
    kvt_field_text(&f, "backend", kvt_backend_names[real->backend]);
    kvt_field_count(&f, "trials", real->trials);
    kvt_field_count(&f, "agree", real->agree);
    kvt_field_count(&f, "exposed", real->exposed);
    kvt_field_count(&f, "same_tenants", real->same_tenants);
    kvt_field_count(&f, "output_changed", real->output_changed);
    kvt_field_count(&f, "steps", real->steps);
    kvt_field_count(&f, "steps_again", real->repeated);
    kvt_field_count(&f, "tokens_read", real->tokens_read);
    kvt_fields_json(&f, stdout);
    fputs(",\n\"disagreements\": [", stdout);
    for (int64_t i = 0; i < real->disagreement_count; i++) {
        const struct kvt_inject_disagreement *d = &real->disagreements[i];
        const struct kvt_fault_trial *t = &d->trial;
        f.count = 0;
        kvt_field_text(&f, "config", d->config);
        kvt_field_text(&f, "guard", d->guard);
        kvt_field_text(&f, "fault", kvt_fault_names[t->kind]);
        kvt_field_text(&f, "variant", name_of(t->strike.variant));
        kvt_field_real(&f, "at_s", kvt_seconds_from_ticks(t->strike.time));
        kvt_field_text(&f, "simulated", kvt_outcome_names[t->simulated.outcome]);
        kvt_field_truth(&f, "simulated_exposed", t->simulated.exposed);
        kvt_field_text(&f, "real", kvt_outcome_names[t->real.outcome]);
        kvt_field_truth(&f, "real_exposed", t->real.exposed);
        print_row(&f, i == 0);
    }
    fputs("],\n\"not_expressed\": [", stdout);
    bool first = true;
    for (int32_t v = 0; v < KVT_STRIKE_COUNT; v++) {
        if (!(real->left_out >> v & 1))
            continue;
        f.count = 0;
        kvt_field_text(&f, "fault", class_of(v));
        kvt_field_text(&f, "variant", name_of(v));
        kvt_field_text(&f, "reason", real->why[v]);
        print_row(&f, first);
        first = false;
    }
    printf("]");
}

void kvt_inject_real_print(const struct kvt_inject_real *real, enum kvt_cli_format format)
{
    if (format == KVT_FORMAT_JSON) {
        print_json(real);
        return;
    }
    if (format == KVT_FORMAT_CSV)
        return; /* the matrix alone */
    printf("\nreal pages (%s)   %lld of %lld trials agree with the simulation; bytes that were not "
           "the reader's were read in %lld, and showed in the tokens of %lld\n"
           "  read            %lld tokens in %lld steps, %lld of them once more at their end; "
           "tenants alike in %lld trials\n",
           kvt_backend_names[real->backend], (long long)real->agree, (long long)real->trials,
           (long long)real->exposed, (long long)real->output_changed, (long long)real->tokens_read,
           (long long)real->steps, (long long)real->repeated, (long long)real->same_tenants);
    for (int64_t i = 0; i < real->disagreement_count; i++) {
        const struct kvt_inject_disagreement *d = &real->disagreements[i];
        const struct kvt_fault_trial *t = &d->trial;
        printf("  disagrees       %s/%s at %.6f s, guard %s: simulated %s%s, real %s%s\n",
               kvt_fault_names[t->kind], name_of(t->strike.variant),
               kvt_seconds_from_ticks(t->strike.time), d->guard,
               kvt_outcome_names[t->simulated.outcome], t->simulated.exposed ? ", exposed" : "",
               kvt_outcome_names[t->real.outcome], t->real.exposed ? ", exposed" : "");
    }
    for (int32_t v = 0; v < KVT_STRIKE_COUNT; v++)
        if (real->left_out >> v & 1)
            printf("  not expressed   %s/%s: %s\n", class_of(v), name_of(v), real->why[v]);
}

void kvt_inject_real_release(struct kvt_inject_real *real)
{
    free(real->disagreements);
    *real = (struct kvt_inject_real){0};
}
