#include "sim/output/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/hdf5.h"

enum kvt_status kvt_decision_log_begin(struct kvt_decision_log *log, struct kvt_run_file *run,
                                       const char *text_path, struct kvt_err *err)
{
    *log = (struct kvt_decision_log){.run = run};
    log->block = malloc(KVT_LOG_BLOCK * sizeof *log->block);
    if (log->block == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the decision log");
    if (text_path == NULL)
        return KVT_OK;
    enum kvt_status status = kvt_output_open(&log->output, text_path, &log->text, err);
    if (status != KVT_OK)
        kvt_decision_log_abandon(log);
    return status;
}

static void block_print(struct kvt_decision_log *log)
{
    char words[160];
    for (int32_t i = 0; i < log->used; i++) {
        kvt_decision_print(&log->block[i], log->names, log->name_count, words, sizeof words);
        if (fprintf(log->text, "%s\n", words) < 0) {
            kvt_output_failed(&log->output, &log->failure);
            return;
        }
    }
}

void kvt_decision_log_flush(struct kvt_decision_log *log)
{
    if (log->failure.count == 0 && log->run != NULL)
        (void)kvt_run_file_log(log->run, log->block, log->used, &log->failure);
    if (log->failure.count == 0 && log->text != NULL)
        block_print(log);
    log->total += log->used;
    log->used = 0;
}

enum kvt_status kvt_decision_log_finish(struct kvt_decision_log *log, struct kvt_err *err)
{
    kvt_decision_log_flush(log);
    enum kvt_status status = log->failure.status;
    if (status != KVT_OK)
        kvt_err_set(err, status, "%s", log->failure.text);
    if (log->text != NULL && status == KVT_OK)
        status = kvt_output_commit(&log->output, err);
    kvt_decision_log_abandon(log);
    return status;
}

void kvt_decision_log_abandon(struct kvt_decision_log *log)
{
    kvt_output_abandon(&log->output);
    free(log->block);
    *log = (struct kvt_decision_log){0};
}

const char *kvt_decision_print(const struct kvt_decision *decision, const char *const names[],
                               int32_t name_count, char *out, size_t size_bytes)
{
    char request[24] = "-", replica[32] = "router";
    if (decision->request >= 0)
        snprintf(request, sizeof request, "%" PRId32, decision->request);
    if (decision->replica >= 0 && names != NULL && decision->replica < name_count)
        snprintf(replica, sizeof replica, "%s", names[decision->replica]);
    else if (decision->replica >= 0)
        snprintf(replica, sizeof replica, "replica-%d", decision->replica);
    bool known = decision->kind >= 0 && decision->kind < KVT_DECISION_KINDS;
    int64_t ns = decision->time >> 10;
    snprintf(out, size_bytes, "%" PRId64 ".%09" PRId64 "+%04d s  request %-8s %-12s %-10s %" PRId64,
             ns / 1000000000, ns % 1000000000, (int)(decision->time & 1023), request, replica,
             known ? kvt_decision_name((enum kvt_decision_kind)decision->kind) : "?",
             decision->count);
    return out;
}
