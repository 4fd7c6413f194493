#include "cli/simulate_outputs.h"

#include <string.h>

static void take(void *context, const struct kvt_decision *decision)
{
    struct kvt_simulate_outputs *outputs = context;
    if (outputs->has_log)
        kvt_decision_log_add(&outputs->log, decision);
    if (outputs->has_trace)
        kvt_perfetto_add(&outputs->trace, decision);
}

static enum kvt_status begin_export(struct kvt_simulate_outputs *outputs, const struct kvt_cli *cli,
                                    const char *text, struct kvt_simulate_options *options,
                                    struct kvt_err *err)
{
    const char *colon = strchr(text, ':');
    size_t bytes = colon != NULL ? (size_t)(colon - text) : 0;
    int format = 0;
    while (format < KVT_EXCHANGE_COUNT && (strlen(kvt_exchange_names[format]) != bytes ||
                                           memcmp(kvt_exchange_names[format], text, bytes) != 0))
        format++;
    if (colon == NULL || format == KVT_EXCHANGE_COUNT || colon[1] == '\0')
        return kvt_err_set(err, KVT_EUSAGE,
                           "--export: want vllm:FILE, sglang:FILE or llm-d:FILE, got \"%.80s\"",
                           text);
    if (outputs->export_count == KVT_EXPORTS_MAX)
        return kvt_err_set(err, KVT_EUSAGE, "--export: want at most %d", KVT_EXPORTS_MAX);
    struct kvt_export *at = &outputs->exports[outputs->export_count];
    KVT_TRY(kvt_cli_check_output(cli, "export", colon + 1, err));
    at->format = (enum kvt_exchange)format;
    options->tokens = options->tokens || at->format != KVT_EXCHANGE_LLMD;
    KVT_TRY(kvt_output_begin(&at->output, colon + 1, err));
    outputs->export_count++;
    return KVT_OK;
}

static enum kvt_status begin_log(struct kvt_simulate_outputs *outputs, const struct kvt_cli *cli,
                                 struct kvt_simulate_options *options, struct kvt_err *err)
{
    const char *text = kvt_cli_get(cli, "log");
    bool decisions = kvt_cli_get(cli, "decisions") != NULL;
    if (decisions && cli->output == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "--decisions wants -o FILE beside it");
    KVT_TRY(kvt_cli_check_output(cli, "log", text, err));
    if (cli->output != NULL) {
        KVT_TRY(kvt_run_file_begin(&outputs->file, cli->output, err));
        outputs->has_file = true;
    }
    if (text == NULL && !decisions)
        return KVT_OK;
    KVT_TRY(kvt_decision_log_begin(&outputs->log, decisions ? &outputs->file : NULL, text, err));
    outputs->has_log = true;
    options->named = true;
    return KVT_OK;
}

enum kvt_status kvt_simulate_outputs_begin(struct kvt_simulate_outputs *outputs,
                                           const struct kvt_cli *cli,
                                           struct kvt_simulate_options *options,
                                           struct kvt_err *err)
{
    const char *trace = kvt_cli_get(cli, "perfetto");
    int32_t at = 0;
    KVT_TRY(begin_log(outputs, cli, options, err));
    KVT_TRY(kvt_cli_check_output(cli, "perfetto", trace, err));
    if (trace != NULL) {
        KVT_TRY(kvt_perfetto_begin(&outputs->trace, trace, err));
        outputs->has_trace = true;
    }
    for (const char *text = kvt_cli_next(cli, "export", &at); text != NULL;
         text = kvt_cli_next(cli, "export", &at))
        KVT_TRY(begin_export(outputs, cli, text, options, err));
    if (outputs->has_log || outputs->has_trace) {
        options->sink = take;
        options->context = outputs;
    }
    return KVT_OK;
}

enum kvt_status kvt_simulate_outputs_open(struct kvt_simulate_outputs *outputs,
                                          const struct kvt_simulation *simulation,
                                          struct kvt_err *err)
{
    int32_t replicas = simulation->des.core.replica_count;
    outputs->log.names = simulation->names;
    outputs->log.name_count = replicas;
    return outputs->has_trace
               ? kvt_perfetto_open(&outputs->trace, simulation->trace.count, replicas, err)
               : KVT_OK;
}

static enum kvt_status finish_export(struct kvt_export *at, const struct kvt_summary *summary,
                                     struct kvt_err *err)
{
    FILE *file = kvt_output_stream(&at->output, err);
    if (file == NULL)
        return KVT_EIO;
    KVT_TRY(kvt_exchange_write(at->format, summary, file, err));
    return kvt_output_commit(&at->output, err);
}

enum kvt_status kvt_simulate_outputs_finish(struct kvt_simulate_outputs *outputs,
                                            const struct kvt_summary *summary, struct kvt_err *err)
{
    if (outputs->has_log) {
        outputs->has_log = false;
        KVT_TRY(kvt_decision_log_finish(&outputs->log, err));
    }
    if (outputs->has_file) {
        outputs->has_file = false;
        KVT_TRY(kvt_run_file_finish(&outputs->file, summary, err));
    }
    if (outputs->has_trace) {
        outputs->has_trace = false;
        KVT_TRY(kvt_perfetto_finish(&outputs->trace, summary->result, err));
    }
    for (int32_t i = 0; i < outputs->export_count; i++)
        KVT_TRY(finish_export(&outputs->exports[i], summary, err));
    return KVT_OK;
}

void kvt_simulate_outputs_abandon(struct kvt_simulate_outputs *outputs)
{
    if (outputs->has_log)
        kvt_decision_log_abandon(&outputs->log);
    if (outputs->has_file)
        kvt_run_file_abandon(&outputs->file);
    if (outputs->has_trace)
        kvt_perfetto_abandon(&outputs->trace);
    for (int32_t i = 0; i < outputs->export_count; i++)
        kvt_output_abandon(&outputs->exports[i].output);
    *outputs = (struct kvt_simulate_outputs){0};
}
