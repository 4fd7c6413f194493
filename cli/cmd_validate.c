/*
 * cmd_validate.c - run the fleet of a config on real memory and set what was predicted beside it
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/backend.h"
#include "cli/fields.h"
#include "cli/simulate_outputs.h"
#include "runtime/validate.h"
#include "sim/base/json.h"

static const struct kvt_cli_option options[] = {
    {"backend", "NAME", "where it runs: cpu (default) or cuda"},
    {"short", NULL, "few requests, and times judge nothing: half a minute"},
    {"laws", NULL, "print the measured kernel laws, as a calibration, instead of the result"},
    {"log", "FILE", "write every decision of the free run to a text file, one a line"},
    {"decisions", NULL, "with -o: put every decision into the file, for kvtwin diff"},
    {NULL, NULL, NULL},
};

/* ---- text ----------------------------------------------------------------------------------- */

static void print_capacity(const struct kvt_validation *v)
{
    puts("capacity          pages predicted      measured   weights, MiB      measured");
    for (int32_t i = 0; i < v->roles; i++) {
        const struct kvt_role_capacity *c = &v->capacity[i];
        printf("  %-14s %17lld %13lld %14.1f %13.1f\n", c->name, (long long)c->predicted_pages,
               (long long)c->measured_pages, (double)c->predicted_weights / 1048576,
               (double)c->measured_weights / 1048576);
    }
    if (v->kv_ratio.measured > 0)
        printf("  %-14s %17.3f %13.3f\n", "tokens, ratio", v->kv_ratio.predicted,
               v->kv_ratio.measured);
}

static void print_steps(const struct kvt_validation *v)
{
    printf("replay            %lld decisions in %lld calls: %s\n", (long long)v->decisions,
           (long long)v->calls, v->decisions_equal ? "all equal" : "they differ");
    printf("steps             %lld in %lld blocks: error %.1f %% median, %.1f %% p90; %.0f %% of "
           "blocks inside\n",
           (long long)v->steps.count, (long long)v->steps.blocks, 100 * v->steps.median,
           100 * v->steps.p90, 100 * v->steps.inside);
    printf("  interval        a block of 50 takes %+.1f to %+.1f %% of what is predicted (90 %%)\n",
           100 * v->steps.low, 100 * v->steps.high);
    printf("  laws alone      %.1f %% median, with one factor a family for the whole run\n",
           100 * v->steps.laws_median);
    printf("  preempted       %lld flagged; %.1f %% median without them\n",
           (long long)v->steps.flagged, 100 * v->steps.calm_median);
    printf("  decode          %lld of %lld steps run, %.1f ms median\n",
           (long long)v->steps.decodes, (long long)v->steps_run, 1e3 * v->steps.decode_s);
    printf("  run twice       %.1f %% median difference\n", 100 * v->repeat_median);
    printf("  read            all threads %.2f of one (%.2f to %.2f), %d shifts; threads %s\n",
           v->canary.median, v->canary.low, v->canary.high, v->canary.shifts,
           v->pinned ? "pinned" : "not pinned");
    puts("  kernels                 laws alone, s   predicted, s    measured, s    of all steps");
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        for (int f = 0; f < KVT_FACTOR_COUNT; f++) {
            const struct kvt_miss *miss = &v->misses[role][f];
            if (miss->measured_s > 0 && miss->predicted_s > 0)
                printf("    %-8s %-10s %15.3f %14.3f %14.3f %+13.1f %%\n", kvt_role_names[role],
                       kvt_factor_names[f], miss->laws_s, miss->predicted_s, miss->measured_s,
                       100 * miss->share);
        }
}

static void print_pair(const char *name, const struct kvt_pair *pair, const char *unit)
{
    printf("  %-15s %.4g predicted, %.4g measured %s: %+.1f %%\n", name, pair->predicted,
           pair->measured, unit, 100 * pair->error);
}

static void print_free(const struct kvt_validation *v)
{
    char line[200];
    printf("tag check         %.3f %% predicted, %.3f %% measured (99 %%: %.3f to %.3f) in %lld "
           "pairs\n",
           100 * v->tag_check.predicted, 100 * v->tag_check.measured, 100 * v->tag_check.low,
           100 * v->tag_check.high, (long long)v->tag_check.pairs);
    printf("  pages           %lld checked, %lld failed\n", (long long)v->tag_check.pages_checked,
           (long long)v->tag_check.failures);
    printf("tokens            %lld generated again, %lld of them others\n",
           (long long)v->tokens_again, (long long)v->tokens_changed);
    puts("free run");
    print_pair("throughput", &v->free_run.throughput, "tok/s");
    print_pair("mean TPOT", &v->free_run.tpot, "ms");
    print_pair("mean TTFT", &v->free_run.ttft, "ms");
    print_pair("duration", &v->free_run.duration, "s");
    printf(
        "  retractions     %lld predicted, %lld measured; %.1f MiB handed over, %.1f MiB saved\n",
        (long long)v->free_run.predicted_preemptions, (long long)v->free_run.preemptions,
        (double)v->free_run.moved_bytes / 1048576, (double)v->free_run.saved_bytes / 1048576);
    if (v->free_run.divergence < 0) {
        printf("  decisions       all %lld as simulated\n", (long long)v->free_run.decisions);
        return;
    }
    printf("  decisions       the first that differs is %lld of %lld:\n",
           (long long)v->free_run.divergence, (long long)v->free_run.decisions);
    if (v->free_run.wanted.kind >= 0)
        printf("    simulated     %s\n",
               kvt_decision_print(&v->free_run.wanted, NULL, 0, line, sizeof line));
    if (v->free_run.got.kind >= 0)
        printf("    run           %s\n",
               kvt_decision_print(&v->free_run.got, NULL, 0, line, sizeof line));
}

static void print_text(const struct kvt_validation *v)
{
    printf("device            %s\n", v->device);
    print_capacity(v);
    print_steps(v);
    print_free(v);
    printf("verdict           %s%s%s\n", kvt_verdict_names[v->verdict],
           v->why[0] != '\0' ? ": " : "", v->why);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *pair_json(const struct kvt_pair *pair)
{
    json_t *object = json_object();
    json_object_set_new(object, "predicted", kvt_json_real(pair->predicted));
    json_object_set_new(object, "measured", kvt_json_real(pair->measured));
    json_object_set_new(object, "error", kvt_json_real(pair->error));
    return object;
}

static json_t *capacity_json(const struct kvt_validation *v)
{
    int64_t predicted = 0, measured = 0;
    json_t *roles = json_array();
    for (int32_t i = 0; i < v->roles; i++) {
        const struct kvt_role_capacity *c = &v->capacity[i];
        predicted += c->predicted_pages;
        measured += c->measured_pages;
        json_array_append_new(roles,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", c->name,
                                        "predicted_pages", (json_int_t)c->predicted_pages,
                                        "measured_pages", (json_int_t)c->measured_pages,
                                        "predicted_weights_bytes", (json_int_t)c->predicted_weights,
                                        "measured_weights_bytes", (json_int_t)c->measured_weights));
    }
    json_t *object = json_object();
    json_object_set_new(object, "predicted_pages", json_integer(predicted));
    json_object_set_new(object, "measured_pages", json_integer(measured));
    json_object_set_new(object, "roles", roles);
    if (v->kv_ratio.measured > 0)
        json_object_set_new(object, "kv_ratio", pair_json(&v->kv_ratio));
    return object;
}

static json_t *steps_json(const struct kvt_validation *v)
{
    json_t *object = json_object();
    json_object_set_new(object, "count", json_integer(v->steps.count));
    json_object_set_new(object, "run", json_integer(v->steps_run));
    json_object_set_new(object, "median_abs_error", kvt_json_real(v->steps.median));
    json_object_set_new(object, "p90_abs_error", kvt_json_real(v->steps.p90));
    json_object_set_new(object, "laws_median_abs_error", kvt_json_real(v->steps.laws_median));
    json_object_set_new(object, "inside_interval", kvt_json_real(v->steps.inside));
    json_object_set_new(
        object, "interval",
        json_pack("[o, o]", kvt_json_real(v->steps.low), kvt_json_real(v->steps.high)));
    json_object_set_new(object, "blocks", json_integer(v->steps.blocks));
    json_object_set_new(object, "flagged", json_integer(v->steps.flagged));
    json_object_set_new(object, "unflagged_median_abs_error", kvt_json_real(v->steps.calm_median));
    json_object_set_new(object, "decode_steps", json_integer(v->steps.decodes));
    json_object_set_new(object, "median_decode_ms", kvt_json_real(1e3 * v->steps.decode_s));
    return object;
}

static json_t *canary_json(const struct kvt_validation *v)
{
    return json_pack("{s:o, s:o, s:o, s:i, s:b}", "median", kvt_json_real(v->canary.median), "low",
                     kvt_json_real(v->canary.low), "high", kvt_json_real(v->canary.high), "shifts",
                     (int)v->canary.shifts, "pinned", (int)v->pinned);
}

static json_t *kernels_json(const struct kvt_validation *v)
{
    json_t *rows = json_array();
    for (int role = 0; role < KVT_ROLE_COUNT; role++)
        for (int f = 0; f < KVT_FACTOR_COUNT; f++) {
            const struct kvt_miss *miss = &v->misses[role][f];
            if (miss->measured_s <= 0 || miss->predicted_s <= 0)
                continue;
            json_array_append_new(rows,
                                  json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "role",
                                            kvt_role_names[role], "family", kvt_factor_names[f],
                                            "laws_s", kvt_json_real(miss->laws_s), "predicted_s",
                                            kvt_json_real(miss->predicted_s), "measured_s",
                                            kvt_json_real(miss->measured_s), "share_of_steps",
                                            kvt_json_real(miss->share)));
        }
    return rows;
}

static json_t *tags_json(const struct kvt_validation *v)
{
    return json_pack(
        "{s:o, s:o, s:[o, o], s:I, s:I, s:I}", "predicted_overhead",
        kvt_json_real(v->tag_check.predicted), "measured_overhead",
        kvt_json_real(v->tag_check.measured), "interval", kvt_json_real(v->tag_check.low),
        kvt_json_real(v->tag_check.high), "pairs", (json_int_t)v->tag_check.pairs, "pages_checked",
        (json_int_t)v->tag_check.pages_checked, "failures", (json_int_t)v->tag_check.failures);
}

static json_t *decision_json(const struct kvt_decision *decision)
{
    if (decision->kind < 0)
        return json_null();
    return json_pack("{s:s, s:i, s:i, s:I}", "kind",
                     kvt_decision_name((enum kvt_decision_kind)decision->kind), "request",
                     (int)decision->request, "replica", (int)decision->replica, "count",
                     (json_int_t)decision->count);
}

static json_t *free_json(const struct kvt_validation *v)
{
    json_t *object = json_object();
    json_object_set_new(object, "output_throughput", pair_json(&v->free_run.throughput));
    json_object_set_new(object, "mean_tpot_ms", pair_json(&v->free_run.tpot));
    json_object_set_new(object, "mean_ttft_ms", pair_json(&v->free_run.ttft));
    json_object_set_new(object, "duration", pair_json(&v->free_run.duration));
    json_object_set_new(object, "preemptions",
                        json_pack("{s:I, s:I}", "predicted",
                                  (json_int_t)v->free_run.predicted_preemptions, "measured",
                                  (json_int_t)v->free_run.preemptions));
    json_object_set_new(object, "moved_bytes", json_integer(v->free_run.moved_bytes));
    json_object_set_new(object, "saved_bytes", json_integer(v->free_run.saved_bytes));
    json_object_set_new(object, "decisions", json_integer(v->free_run.decisions));
    json_t *first = json_null();
    if (v->free_run.divergence >= 0)
        first =
            json_pack("{s:I, s:o, s:o}", "index", (json_int_t)v->free_run.divergence, "simulated",
                      decision_json(&v->free_run.wanted), "run", decision_json(&v->free_run.got));
    json_object_set_new(object, "first_divergence", first);
    return object;
}

static enum kvt_status print_json(const struct kvt_validation *v, const char *backend,
                                  struct kvt_err *err)
{
    json_t *object = json_object();
    json_object_set_new(object, "backend", json_string(backend));
    json_object_set_new(object, "device", json_string(v->device));
    json_object_set_new(object, "decisions_equal", json_boolean(v->decisions_equal));
    json_object_set_new(object, "decisions", json_integer(v->decisions));
    json_object_set_new(object, "capacity", capacity_json(v));
    json_object_set_new(object, "steps", steps_json(v));
    json_object_set_new(object, "repeat",
                        json_pack("{s:o}", "median_abs_error", kvt_json_real(v->repeat_median)));
    json_object_set_new(object, "read_ratio", canary_json(v));
    json_object_set_new(object, "kernels", kernels_json(v));
    json_object_set_new(object, "tag_check", tags_json(v));
    json_object_set_new(object, "tokens",
                        json_pack("{s:I, s:I}", "again", (json_int_t)v->tokens_again, "changed",
                                  (json_int_t)v->tokens_changed));
    json_object_set_new(object, "free_run", free_json(v));
    json_object_set_new(object, "verdict", json_string(kvt_verdict_names[v->verdict]));
    if (v->why[0] != '\0')
        json_object_set_new(object, "reason", json_string(v->why));
    return kvt_json_print(object, 9, stdout, err);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* The free run, as `simulate` keeps one. */
static enum kvt_status keep(struct kvt_simulate_outputs *outputs, struct kvt_simulation *simulation,
                            struct kvt_err *err)
{
    static struct kvt_summary summary;
    struct kvt_result result;
    struct kvt_arena arena;
    KVT_TRY(kvt_simulate_outputs_open(outputs, simulation, err));
    KVT_TRY(kvt_simulation_result(simulation, &result, err));
    KVT_TRY(kvt_arena_init(&arena, (size_t)16 << 20, err));
    enum kvt_status status = kvt_summary_init(&summary, &result, &arena, err);
    if (status == KVT_OK)
        status = kvt_simulate_outputs_finish(outputs, &summary, err);
    kvt_arena_release(&arena);
    return status;
}

static enum kvt_status validate(const struct kvt_cli *cli, struct kvt_config *config,
                                struct kvt_simulate_outputs *outputs, struct kvt_err *err)
{
    struct kvt_validation v;
    struct kvt_validate_want want = {.brief = kvt_cli_get(cli, "short") != NULL,
                                     .talk = cli->verbosity >= 0 ? stderr : NULL,
                                     .stop = &kvt_cli_interrupted};
    KVT_TRY(kvt_cli_backend(cli, &want.backend, err));
    struct kvt_simulate_options kept = {0};
    KVT_TRY(kvt_simulate_outputs_begin(outputs, cli, &kept, err));
    want.sink = kept.sink;
    want.context = kept.context;
    enum kvt_status status = kvt_validate(&v, config, &want, err);
    kvt_cli_say_clock(cli);
    if (status == KVT_OK)
        status = keep(outputs, &v.drive->simulation, err);
    if (status == KVT_OK && kvt_cli_get(cli, "laws") != NULL)
        fputs(v.laws, stdout);
    else if (status == KVT_OK && cli->format == KVT_FORMAT_JSON)
        status = print_json(&v, kvt_backend_names[want.backend], err);
    else if (status == KVT_OK)
        print_text(&v);
    if (status == KVT_OK && v.verdict != KVT_VERDICT_PASS)
        status = kvt_err_set(err, KVT_NEGATIVE, "%s: %s", kvt_verdict_names[v.verdict], v.why);
    kvt_validation_release(&v);
    return status;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static struct kvt_config config;
    static struct kvt_simulate_outputs outputs;
    bool done;
    if (cli->format == KVT_FORMAT_CSV)
        return kvt_err_set(err, KVT_EUSAGE,
                           "--format: want text or json, a validation is no table");
    KVT_TRY(kvt_cli_config(cli, cli->operands[0], &config, &done, err));
    if (done)
        return KVT_OK;
    outputs = (struct kvt_simulate_outputs){0};
    enum kvt_status status = validate(cli, &config, &outputs, err);
    kvt_simulate_outputs_abandon(&outputs);
    kvt_config_release(&config);
    return status;
}

const struct kvt_command kvt_command_validate = {
    .name = "validate",
    .operands = "CONFIG",
    .help = "run the fleet on real memory; predicted against measured",
    .description =
        "The fleet of the config is simulated, and the same schedule is run: real weights "
        "(synthetic), real pages, real kernels, on this machine. Printed are pages predicted and "
        "granted, whether every decision was equal, the error of step times in alternating blocks "
        "of 50 steps, the cost of the tag check, and a free run beside its simulation. The verdict "
        "is pass, fail or inconclusive; the last two exit with 1. With -o the free run goes into "
        "an HDF5 file as simulate writes it.",
    .example = "kvtwin validate configs/examples/validate-cpu.yaml\n"
               "kvtwin validate configs/examples/validate-cpu-mla.yaml --short --format json",
    .uses = KVT_USES_CONFIG | KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .run = run,
};
