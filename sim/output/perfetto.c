#include "sim/output/perfetto.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

#define NOBODY      (-1)
#define FILE_BUFFER ((size_t)1 << 20)

enum { PREFILL, DECODE, HANDOFF, TRANSFER, RESUMED };
static const char *const phases[] = {"prefill", "decode", "hand-off", "transfer", "resumed"};

enum kvt_status kvt_perfetto_begin(struct kvt_perfetto *trace, const char *path,
                                   struct kvt_err *err)
{
    *trace = (struct kvt_perfetto){0};
    return kvt_output_open(&trace->output, path, &trace->file, err);
}

enum kvt_status kvt_perfetto_open(struct kvt_perfetto *trace, int64_t rows, int32_t replicas,
                                  struct kvt_err *err)
{
    trace->requests = calloc((size_t)rows + 1, sizeof *trace->requests);
    trace->lanes = calloc((size_t)replicas + 1, sizeof *trace->lanes);
    if (trace->requests == NULL || trace->lanes == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a trace of %" PRId64 " requests", rows);
    trace->rows = rows;
    trace->replicas = replicas;
    for (int64_t r = 0; r < rows; r++) {
        trace->requests[r].decode_replica = NOBODY;
        trace->requests[r].slices[0].replica = trace->requests[r].slices[1].replica = NOBODY;
    }
    setvbuf(trace->file, NULL, _IOFBF, FILE_BUFFER);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", trace->file);
    return KVT_OK;
}

void kvt_perfetto_abandon(struct kvt_perfetto *trace)
{
    kvt_output_abandon(&trace->output);
    for (int32_t i = 0; trace->lanes != NULL && i < trace->replicas; i++)
        free(trace->lanes[i].busy);
    free(trace->lanes);
    free(trace->requests);
    *trace = (struct kvt_perfetto){0};
}

/* ---- lanes ---- */

/* The lowest free lane; one more where all are busy. NOBODY without memory. */
static int32_t lane_take(struct kvt_perfetto *trace, int32_t replica)
{
    struct kvt_perfetto_lanes *lanes = &trace->lanes[replica];
    int32_t word = 0;
    while (word < lanes->words && lanes->busy[word] == UINT64_MAX)
        word++;
    if (word == lanes->words) {
        int32_t words = lanes->words > 0 ? 2 * lanes->words : 4;
        uint64_t *busy = realloc(lanes->busy, (size_t)words * sizeof *busy);
        if (busy == NULL) {
            kvt_err_set(&trace->failure, KVT_ENOMEM, "no memory for the lanes of a trace");
            return NOBODY;
        }
        memset(busy + lanes->words, 0, (size_t)(words - lanes->words) * sizeof *busy);
        lanes->busy = busy;
        lanes->words = words;
    }
    int32_t bit = __builtin_ctzll(~lanes->busy[word]), lane = word * 64 + bit;
    lanes->busy[word] |= UINT64_C(1) << bit;
    lanes->peak = lane >= lanes->peak ? lane + 1 : lanes->peak;
    return lane;
}

static void lane_free(struct kvt_perfetto *trace, int32_t replica, int32_t lane)
{
    trace->lanes[replica].busy[lane / 64] &= ~(UINT64_C(1) << lane % 64);
}

/* ---- events ---- */

/* Process 0 is the idle one of any system, for a reader of traces; thread numbers are one's own in
 * all of them, for a name is given to a number. */
static int32_t process_of(int32_t replica)
{
    return replica + 2;
}

static int32_t thread_of(const struct kvt_perfetto *trace, int32_t replica, int32_t lane)
{
    return (lane + 1) * (trace->replicas + 2) + process_of(replica);
}

/* The fields that all events have; the caller writes the rest from a comma on,
 * and the brace. */
static FILE *event(struct kvt_perfetto *trace, const char *name, char kind, int32_t process,
                   int32_t thread, kvt_ticks time)
{
    int64_t ns = kvt_ns_from_ticks(time);
    fprintf(trace->file,
            "%s\n{\"name\":\"%s\",\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d",
            trace->events++ > 0 ? "," : "", name, kind, process, thread, ns / 1000,
            (int)(ns % 1000));
    return trace->file;
}

static void instant(struct kvt_perfetto *trace, const char *name, const struct kvt_decision *d,
                    const char *what)
{
    FILE *out = event(trace, name, 'i', process_of(d->replica), process_of(d->replica), d->time);
    fprintf(out, ",\"s\":\"%c\",\"args\":{\"request\":%d,\"%s\":%" PRId64 "}}",
            d->replica >= 0 ? 'p' : 'g', d->request, what, d->count);
}

static struct kvt_perfetto_slice *slice_on(struct kvt_perfetto_request *request, int32_t replica)
{
    for (int i = 0; i < 2; i++)
        if (request->slices[i].replica == replica)
            return &request->slices[i];
    return NULL;
}

/* The arrow of a hand-off, from the slice in which prefill sent the first KV to the one in which
 * decode has it all. A reader of the trace binds an end of an arrow to the slice that is open in
 * its lane once the events are sorted by time, those of one time in the order of the file: so each
 * end stands right behind its slice, and lies inside it. */
static void arrow(struct kvt_perfetto *trace, const struct kvt_perfetto_slice *slice, int64_t r,
                  kvt_ticks end)
{
    struct kvt_perfetto_request *request = &trace->requests[r];
    bool is_decode = slice->replica == request->decode_replica;
    char kind;
    if (request->sent && !request->has_start && !is_decode && request->sent_at <= end)
        kind = 's';
    else if (request->sent && !request->has_end && is_decode && slice->phase == DECODE)
        kind = 'f';
    else
        return;
    bool later = kind == 's' && request->sent_at > slice->start;
    request->has_start = request->has_start || kind == 's';
    request->has_end = request->has_end || kind == 'f';
    FILE *out = event(trace, "hand-off", kind, process_of(slice->replica),
                      thread_of(trace, slice->replica, slice->lane),
                      later ? request->sent_at : slice->start);
    fprintf(out, ",\"cat\":\"hand-off\",\"id\":%" PRId64 "%s}", r,
            kind == 'f' ? ",\"bp\":\"e\"" : "");
}

static void print_slice(struct kvt_perfetto *trace, const struct kvt_perfetto_slice *slice,
                        int64_t r, kvt_ticks end)
{
    int64_t ns = kvt_ns_from_ticks(end) - kvt_ns_from_ticks(slice->start);
    FILE *out = event(trace, phases[slice->phase], 'X', process_of(slice->replica),
                      thread_of(trace, slice->replica, slice->lane), slice->start);
    fprintf(out,
            ",\"dur\":%" PRId64 ".%03d,\"cat\":\"request\",\"args\":{\"request\":%" PRId64 "}}",
            ns / 1000, (int)(ns % 1000), r);
    arrow(trace, slice, r, end);
}

static void close_slice(struct kvt_perfetto *trace, int64_t r, int32_t replica, kvt_ticks time)
{
    struct kvt_perfetto_slice *slice = slice_on(&trace->requests[r], replica);
    if (slice == NULL)
        return;
    print_slice(trace, slice, r, time);
    lane_free(trace, replica, slice->lane);
    slice->replica = NOBODY;
}

/* The request enters a phase on a replica, in the lane that it has there or in
 * a new one. */
static void open_slice(struct kvt_perfetto *trace, int64_t r, int32_t replica, int phase,
                       kvt_ticks time)
{
    struct kvt_perfetto_slice *slice = slice_on(&trace->requests[r], replica);
    if (slice != NULL && slice->phase == phase)
        return; /* a further chunk */
    if (slice != NULL) {
        print_slice(trace, slice, r, time);
        slice->start = time;
        slice->phase = (int16_t)phase;
        return;
    }
    slice = slice_on(&trace->requests[r], NOBODY);
    int32_t lane = slice != NULL ? lane_take(trace, replica) : NOBODY;
    if (lane != NOBODY)
        *slice = (struct kvt_perfetto_slice){time, lane, (int16_t)replica, (int16_t)phase};
}

static void send(struct kvt_perfetto *trace, const struct kvt_decision *d)
{
    struct kvt_perfetto_request *request = &trace->requests[d->request];
    if (request->sent)
        return;
    request->sent = true;
    request->sent_at = d->time;
    if (request->decode_replica != NOBODY)
        open_slice(trace, d->request, request->decode_replica, TRANSFER, d->time);
}

static void first_token(struct kvt_perfetto *trace, const struct kvt_decision *d)
{
    struct kvt_perfetto_request *request = &trace->requests[d->request];
    bool away = request->decode_replica != NOBODY && request->decode_replica != d->replica;
    request->first = true;
    open_slice(trace, d->request, d->replica, away ? HANDOFF : DECODE, d->time);
}

static void leave(struct kvt_perfetto *trace, const struct kvt_decision *d)
{
    for (int i = 0; i < 2; i++) {
        int32_t replica = trace->requests[d->request].slices[i].replica;
        if (replica != NOBODY)
            close_slice(trace, d->request, replica, d->time);
    }
}

static void add_of_request(struct kvt_perfetto *trace, const struct kvt_decision *d)
{
    struct kvt_perfetto_request *request = &trace->requests[d->request];
    switch ((enum kvt_decision_kind)d->kind) {
    case KVT_DECIDE_RESERVE:
        request->decode_replica = d->replica;
        break;
    case KVT_DECIDE_ADMIT:
        open_slice(trace, d->request, d->replica, request->first ? RESUMED : PREFILL, d->time);
        break;
    case KVT_DECIDE_FIRST:
        first_token(trace, d);
        break;
    case KVT_DECIDE_SEND:
        send(trace, d);
        break;
    case KVT_DECIDE_RECV:
        open_slice(trace, d->request, d->replica, DECODE, d->time);
        break;
    case KVT_DECIDE_ACK:
        close_slice(trace, d->request, d->replica, d->time);
        break;
    case KVT_DECIDE_PREEMPT:
        close_slice(trace, d->request, d->replica, d->time);
        instant(trace, "preempted", d, "pages");
        break;
    case KVT_DECIDE_RESUME:
        open_slice(trace, d->request, d->replica, RESUMED, d->time);
        break;
    case KVT_DECIDE_FINISH:
        leave(trace, d);
        break;
    case KVT_DECIDE_ABORT:
        leave(trace, d);
        instant(trace, "aborted", d, "tokens");
        break;
    case KVT_DECIDE_REJECT:
        instant(trace, "rejected", d, "tokens");
        break;
    case KVT_DECIDE_ARRIVE:
    case KVT_DECIDE_ROUTE:
    case KVT_DECIDE_SHARE:
    case KVT_DECIDE_ALLOC:
    case KVT_DECIDE_WRITE:
    case KVT_DECIDE_CHECK:
    case KVT_DECIDE_FREE:
    case KVT_DECIDE_EVICT:
    case KVT_DECIDE_INJECT:
    case KVT_DECIDE_CHECK_MISS:
    case KVT_DECIDE_ESCAPE:
    case KVT_DECIDE_QUARANTINE:
    case KVT_DECISION_KINDS:
        break;
    }
}

void kvt_perfetto_add(struct kvt_perfetto *trace, const struct kvt_decision *d)
{
    static const struct {
        enum kvt_decision_kind kind;
        const char *name;
    } instants[] = {{KVT_DECIDE_INJECT, "fault"},
                    {KVT_DECIDE_CHECK_MISS, "guard"},
                    {KVT_DECIDE_ESCAPE, "escape"},
                    {KVT_DECIDE_QUARANTINE, "quarantine"}};
    if (trace->failure.status != KVT_OK || d->kind == KVT_DECIDE_ALLOC ||
        d->kind == KVT_DECIDE_WRITE || d->kind == KVT_DECIDE_CHECK)
        return;
    kvt_assert(d->request < trace->rows && d->replica < trace->replicas);
    for (size_t i = 0; i < sizeof instants / sizeof *instants; i++)
        if (d->kind == (int16_t)instants[i].kind)
            instant(trace, instants[i].name, d, "page");
    if (d->request >= 0)
        add_of_request(trace, d);
}

/* ---- counters and names, when the run is over ---- */

static void counters(struct kvt_perfetto *trace, const struct kvt_result *result)
{
    for (int32_t i = 0; i < result->replica_count; i++) {
        const struct kvt_series *series = result->replicas[i].series;
        for (int32_t p = 0; series != NULL && p < series->used; p++) {
            kvt_ticks time = p * series->width;
            FILE *out = event(trace, "requests", 'C', process_of(i), process_of(i), time);
            fprintf(out, ",\"args\":{\"running\":%.6g,\"waiting\":%.6g}}",
                    kvt_series_mean(series, p, KVT_GAUGE_RUNNING),
                    kvt_series_mean(series, p, KVT_GAUGE_WAITING));
            out = event(trace, "KV pages", 'C', process_of(i), process_of(i), time);
            fprintf(out, ",\"args\":{\"in use\":%.9g}}",
                    kvt_series_mean(series, p, KVT_GAUGE_PAGES));
        }
    }
    const struct kvt_series *series = result->link.series;
    for (int32_t p = 0; series != NULL && p < series->used; p++) {
        FILE *out = event(trace, "link", 'C', process_of(-1), process_of(-1), p * series->width);
        double rate = kvt_series_mean(series, p, (enum kvt_gauge)2);
        fprintf(out, ",\"args\":{\"GB/s\":%.6g}}", rate * ((double)KVT_TICKS_PER_S / 0x1p40) / 1e9);
    }
}

static void name_of(struct kvt_perfetto *trace, const char *kind, int32_t process, int32_t thread,
                    const char *name)
{
    FILE *out = event(trace, kind, 'M', process, thread, 0);
    fprintf(out, ",\"args\":{\"name\":\"%s\"}}", name);
}

static void names(struct kvt_perfetto *trace, const struct kvt_result *result)
{
    char text[32];
    name_of(trace, "process_name", process_of(-1), process_of(-1), "fleet");
    for (int32_t i = 0; i < result->replica_count; i++) {
        int32_t process = process_of(i);
        name_of(trace, "process_name", process, process, result->replicas[i].name);
        for (int32_t lane = 0; lane < trace->lanes[i].peak; lane++) {
            int32_t thread = thread_of(trace, i, lane);
            snprintf(text, sizeof text, "lane %d", lane + 1);
            name_of(trace, "thread_name", process, thread, text);
            fprintf(event(trace, "thread_sort_index", 'M', process, thread, 0),
                    ",\"args\":{\"sort_index\":%d}}", lane + 1);
        }
    }
}

enum kvt_status kvt_perfetto_finish(struct kvt_perfetto *trace, const struct kvt_result *result,
                                    struct kvt_err *err)
{
    enum kvt_status status = trace->failure.status;
    if (status == KVT_OK) {
        for (int64_t r = 0; r < trace->rows; r++)
            for (int i = 0; i < 2; i++)
                if (trace->requests[r].slices[i].replica != NOBODY)
                    print_slice(trace, &trace->requests[r].slices[i], r, result->end);
        counters(trace, result);
        names(trace, result);
        fprintf(trace->file,
                "\n],\"otherData\":{\"program\":\"kvtwin\",\"digest\":\"%016" PRIx64 "\"}}\n",
                result->digest);
    } else {
        kvt_err_set(err, status, "%s", trace->failure.text);
    }
    if (status == KVT_OK)
        status = kvt_output_commit(&trace->output, err);
    kvt_perfetto_abandon(trace);
    return status;
}
