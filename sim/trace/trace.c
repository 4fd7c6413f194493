#include "sim/trace/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/trace/formats.h"
#include "sim/trace/scan.h"

#define TRACE_BYTES_MAX ((size_t)32 << 30)

static enum kvt_status speed_apply(struct kvt_trace *trace, const char *name, double speed,
                                   struct kvt_err *err)
{
    struct kvt_where where = {.file = name};
    if (!(speed > 0 && speed <= 1e9))
        return kvt_err_at(err, KVT_ECONFIG, where, "want a speed in (0, 1e9], got %g", speed);
    if (!((double)trace->arrival[trace->count - 1] / speed <
          (double)KVT_TRACE_SPAN_S_MAX * (double)KVT_TICKS_PER_S))
        return kvt_err_at(
            err, KVT_ECONFIG, where, "want a trace of at most 100 days, got %g days at speed %g",
            kvt_seconds_from_ticks(trace->arrival[trace->count - 1]) / speed / 86400, speed);
    for (int32_t i = 0; speed != 1 && i < trace->count; i++)
        trace->arrival[i] = (kvt_ticks)nearbyint((double)trace->arrival[i] / speed);
    return KVT_OK;
}

static enum kvt_status text_read(struct kvt_trace *trace, struct kvt_scan *scan,
                                 struct kvt_err *err)
{
    struct kvt_where where = {.file = scan->file};
    KVT_TRY(kvt_scan_row(scan, err));
    if (scan->row == NULL)
        return kvt_err_at(err, KVT_ECONFIG, where, "want a trace, got an empty file");
    const char *at = scan->row;
    while (*at == ' ' || *at == '\t')
        at++;
    if (*at == '[')
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, at),
                          "want one JSON object a line, got a list; ShareGPT holds text: tokenise "
                          "it and give a CSV of input_tokens,output_tokens");
    return *at == '{' ? kvt_trace_jsonl_read(trace, scan, err)
                      : kvt_trace_csv_read(trace, scan, err);
}

enum kvt_status kvt_trace_parse(struct kvt_trace *trace, const char *name, const char *text,
                                size_t count, double speed, struct kvt_err *err)
{
    struct kvt_scan scan;
    *trace = (struct kvt_trace){0};
    KVT_TRY(kvt_scan_begin(&scan, name, text, count, err));
    KVT_TRY(text_read(trace, &scan, err));
    enum kvt_status status = speed_apply(trace, name, speed, err);
    if (status != KVT_OK)
        kvt_trace_release(trace);
    return status;
}

enum kvt_status kvt_trace_read(struct kvt_trace *trace, const char *path, double speed,
                               struct kvt_err *err)
{
    struct kvt_text text;
    *trace = (struct kvt_trace){0};
    KVT_TRY(kvt_text_read(path, TRACE_BYTES_MAX, &text, err));
    enum kvt_status status = kvt_trace_parse(trace, path, text.bytes, text.count, speed, err);
    kvt_text_free(&text);
    return status;
}

void kvt_trace_release(struct kvt_trace *trace)
{
    free(trace->arrival);
    free(trace->input);
    free(trace->output);
    free(trace->tenant);
    free(trace->hash_begin);
    free(trace->hashes);
    *trace = (struct kvt_trace){0};
}

static void rows_print(const struct kvt_trace *trace, FILE *file)
{
    fputs("arrival_ns,input_tokens,output_tokens", file);
    if (trace->tenant != NULL)
        fputs(",tenant", file);
    if (trace->hash_begin != NULL)
        fprintf(file, ",hashes:%d", trace->block_tokens);
    fputc('\n', file);
    for (int32_t i = 0; i < trace->count && !ferror(file); i++) {
        fprintf(file, "%" PRId64 ",%d,%d", kvt_ns_from_ticks(trace->arrival[i]), trace->input[i],
                trace->output[i]);
        if (trace->tenant != NULL)
            fprintf(file, ",%u", (unsigned)trace->tenant[i]);
        if (trace->hash_begin != NULL) {
            for (int64_t h = trace->hash_begin[i]; h < trace->hash_begin[i + 1]; h++)
                fprintf(file, "%c%" PRIu64, h == trace->hash_begin[i] ? ',' : '|',
                        trace->hashes[h]);
        }
        fputc('\n', file);
    }
}

enum kvt_status kvt_trace_write(const struct kvt_trace *trace, const char *path,
                                struct kvt_err *err)
{
    struct kvt_output output;
    FILE *file;
    KVT_TRY(kvt_output_open(&output, path, &file, err));
    rows_print(trace, file);
    return kvt_output_commit(&output, err);
}
