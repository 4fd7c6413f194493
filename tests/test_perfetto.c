/* Traces for ui.perfetto.dev: events as the format wants them, lanes without
 * overlap, flows in pairs, the same bytes for the same run. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/output/perfetto.h"
#include "sim/plan/simulate.h"
#include "tests/check.h"

static void take(void *context, const struct kvt_decision *decision)
{
    kvt_perfetto_add(context, decision);
}

/* The trace of a config; free it. */
static char *trace_of(const char *path, const char *const sets[], int32_t set_count, bool exact)
{
    static struct kvt_config config;
    static struct kvt_simulation simulation;
    struct kvt_perfetto trace;
    struct kvt_result result;
    struct kvt_err err = {0};
    struct kvt_text text = {0};
    char file[256];
    snprintf(file, sizeof file, "%s", check_temp("trace.json"));
    CHECK_OK(kvt_config_load(&config, path, sets, set_count, &err), err);
    CHECK_OK(kvt_perfetto_begin(&trace, file, &err), err);
    struct kvt_simulate_options how = {
        .exact = exact, .planned = true, .sink = take, .context = &trace};
    CHECK_OK(kvt_simulation_init(&simulation, &config, &how, &err), err);
    CHECK_OK(
        kvt_perfetto_open(&trace, simulation.trace.count, simulation.des.core.replica_count, &err),
        err);
    CHECK_OK(kvt_simulation_run(&simulation, &how, &err), err);
    CHECK_OK(kvt_simulation_result(&simulation, &result, &err), err);
    CHECK_OK(kvt_perfetto_finish(&trace, &result, &err), err);
    CHECK_OK(kvt_text_read(file, (size_t)1 << 30, &text, &err), err);
    kvt_simulation_release(&simulation);
    kvt_config_release(&config);
    unlink(file);
    return text.bytes;
}

struct slice {
    json_int_t process, thread, start, end; /* ns */
    json_int_t request;
    const char *name;
};

static int by_lane(const void *x, const void *y)
{
    const struct slice *a = x, *b = y;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static json_int_t ns_of(const json_t *event, const char *key)
{
    return (json_int_t)(json_number_value(json_object_get(event, key)) * 1000 + 0.5);
}

/* What a trace holds, of each kind of event. */
struct tally {
    int64_t slices, counters, names, instants, starts, ends;
    struct slice *list; /* owned */
    bool fits;          /* every event has the fields of its kind */
};

static bool has_fields(const json_t *event, const char *kind)
{
    bool common = json_is_string(json_object_get(event, "name")) &&
                  json_is_integer(json_object_get(event, "pid")) &&
                  json_is_integer(json_object_get(event, "tid")) &&
                  json_is_number(json_object_get(event, "ts")) &&
                  json_number_value(json_object_get(event, "ts")) >= 0;
    const json_t *args = json_object_get(event, "args");
    switch (kind[0]) {
    case 'X':
        return common && json_number_value(json_object_get(event, "dur")) >= 0 &&
               json_is_integer(json_object_get(args, "request"));
    case 'C':
        return common && json_object_size(args) > 0;
    case 'M':
        return common && json_object_size(args) == 1;
    case 'i':
        return common && json_is_string(json_object_get(event, "s"));
    case 's':
    case 'f':
        return common && json_is_integer(json_object_get(event, "id")) &&
               json_is_string(json_object_get(event, "cat"));
    default:
        return false;
    }
}

static struct tally tally_of(const json_t *root)
{
    const json_t *events = json_object_get(root, "traceEvents"), *event;
    struct tally tally = {.list = calloc(json_array_size(events) + 1, sizeof *tally.list),
                          .fits = true};
    size_t i;
    json_array_foreach(events, i, event)
    {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        tally.fits = tally.fits && kind != NULL && has_fields(event, kind);
        if (!tally.fits || tally.list == NULL)
            break;
        tally.counters += kind[0] == 'C';
        tally.names += kind[0] == 'M';
        tally.instants += kind[0] == 'i';
        tally.starts += kind[0] == 's';
        tally.ends += kind[0] == 'f';
        if (kind[0] != 'X')
            continue;
        tally.list[tally.slices++] = (struct slice){
            json_integer_value(json_object_get(event, "pid")),
            json_integer_value(json_object_get(event, "tid")),
            ns_of(event, "ts"),
            ns_of(event, "ts") + ns_of(event, "dur"),
            json_integer_value(json_object_get(json_object_get(event, "args"), "request")),
            json_string_value(json_object_get(event, "name"))};
    }
    if (tally.list != NULL)
        qsort(tally.list, (size_t)tally.slices, sizeof *tally.list, by_lane);
    return tally;
}

/* Lanes hold one request at a time; slices of a lane do not overlap. */
static void check_lanes(const struct tally *tally)
{
    int64_t overlaps = 0;
    for (int64_t i = 1; i < tally->slices; i++) {
        const struct slice *a = &tally->list[i - 1], *b = &tally->list[i];
        bool same = a->process == b->process && a->thread == b->thread;
        overlaps += same && b->start < a->end;
    }
    CHECK_I64(overlaps, 0, "slices that overlap in a lane");
}

static int64_t count_of(const struct tally *tally, const char *name)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tally->slices; i++)
        count += strcmp(tally->list[i].name, name) == 0;
    return count;
}

/* ---- as trace_processor imports it ---- */

/* What an importer of Chrome's JSON does: events sorted by time, equal ones in the order of the
 * file; a lane's slices on a stack; an end of an arrow bound to the slice on top. */
struct imported {
    const json_t *event;
    json_int_t ns;
    size_t place;
};

static int by_time(const void *x, const void *y)
{
    const struct imported *a = x, *b = y;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static json_int_t whole(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(event, key));
}

/* The slice that is open in the lane of events[at] when it is its turn, or NULL: the last that
 * began before it. */
static const json_t *open_slice_at(const struct imported *events, size_t at)
{
    for (size_t i = at; i-- > 0;) {
        const json_t *e = events[i].event;
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0 ||
            whole(e, "tid") != whole(events[at].event, "tid"))
            continue;
        return events[i].ns + ns_of(e, "dur") >= events[at].ns ? e : NULL;
    }
    return NULL;
}

/* Arrows lead from where the request was prefilled to where it is decoded; a thread belongs to one
 * process; process 0 is nobody's. */
static void check_import(const json_t *root)
{
    const json_t *list = json_object_get(root, "traceEvents"), *event;
    size_t count = json_array_size(list), i;
    struct imported *events = calloc(count + 1, sizeof *events);
    json_int_t *process = calloc((size_t)1 << 16, sizeof *process);
    int64_t unbound = 0, wrong = 0, shared = 0;
    if (events == NULL || process == NULL) {
        free(events);
        free(process);
        return;
    }
    json_array_foreach(list, i, event) events[i] = (struct imported){event, ns_of(event, "ts"), i};
    qsort(events, count, sizeof *events, by_time);
    for (i = 0; i < count; i++) {
        const char *kind = json_string_value(json_object_get(events[i].event, "ph"));
        json_int_t thread = whole(events[i].event, "tid"), pid = whole(events[i].event, "pid");
        size_t slot = (size_t)thread & 0xffff;
        shared += pid <= 0 || thread <= 0 || (process[slot] != 0 && process[slot] != pid);
        process[slot] = pid;
        if (kind[0] != 's' && kind[0] != 'f')
            continue;
        const json_t *slice = open_slice_at(events, i);
        unbound += slice == NULL;
        if (slice == NULL)
            continue;
        const char *name = json_string_value(json_object_get(slice, "name"));
        bool fits = kind[0] == 'f' ? strcmp(name, "decode") == 0
                                   : strcmp(name, "hand-off") == 0 || strcmp(name, "prefill") == 0;
        wrong += !fits ||
                 whole(json_object_get(slice, "args"), "request") != whole(events[i].event, "id");
    }
    CHECK_I64(unbound, 0, "ends of arrows without a slice");
    CHECK_I64(wrong, 0, "ends of arrows at another request or phase");
    CHECK_I64(shared, 0, "threads of two processes, or of process 0");
    free(events);
    free(process);
}

static void a_trace_is_what_the_format_wants(void)
{
    char *text = trace_of("tests/twins/handoff.yaml", NULL, 0, false);
    char *exact = trace_of("tests/twins/handoff.yaml", NULL, 0, true);
    json_t *root = text != NULL ? json_loads(text, 0, NULL) : NULL;
    CHECK_NOTE(root != NULL, "it is JSON");
    CHECK_TEXT(exact, text, "step by step it is the same trace");
    struct tally tally = tally_of(root);
    CHECK_NOTE(tally.fits, "every event has its fields");
    check_lanes(&tally);
    check_import(root);
    CHECK_NOTE(tally.starts > 0, "there are hand-offs");
    CHECK_I64(tally.ends, tally.starts, "every hand-off that begins ends");
    CHECK_I64(count_of(&tally, "transfer"), tally.starts, "and has a transfer");
    CHECK_NOTE(tally.counters > 0 && tally.names > 0, "counters and names");
    free(tally.list);
    json_decref(root);
    free(text);
    free(exact);
}

static void preempted_requests_leave_their_lane_and_come_back(void)
{
    char *text = trace_of("tests/twins/pressure.yaml", NULL, 0, false);
    json_t *root = text != NULL ? json_loads(text, 0, NULL) : NULL;
    struct tally tally = tally_of(root);
    CHECK_NOTE(tally.fits, "every event has its fields");
    check_lanes(&tally);
    check_import(root);
    CHECK_NOTE(tally.instants > 1000, "preemptions are instants");
    CHECK_NOTE(count_of(&tally, "prefill") >= 1500, "each request was admitted");
    CHECK_I64(count_of(&tally, "decode"), 1500, "and made its first token once");
    free(tally.list);
    json_decref(root);
    free(text);
}

static void faults_are_instants(void)
{
    const char *const sets[] = {"fleet.decode.guard=none"};
    char *text = trace_of("configs/incidents/sglang-17259.yaml", sets, 1, false);
    if (text == NULL)
        return;
    CHECK_HOLDS(text, "{\"name\":\"fault\",\"ph\":\"i\"", "the strike");
    CHECK_HOLDS(text, "{\"name\":\"escape\",\"ph\":\"i\"", "what came of it");
    free(text);
}

const struct check_test check_perfetto[] = {
    {"a trace is what the format wants", a_trace_is_what_the_format_wants, false},
    {"preempted requests leave their lane and come back",
     preempted_requests_leave_their_lane_and_come_back, false},
    {"faults are instants", faults_are_instants, false},
    {NULL, NULL, false},
};
