/*
 * cmd_trace.c - traces from the shell: import any known format, generate one, look at one
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/config/config.h"
#include "sim/plan/load.h"
#include "sim/trace/generate.h"
#include "sim/trace/stats.h"
#include "sim/trace/trace.h"

/* clang-format off */
static const struct kvt_cli_option options[] = {
    {"speed", "X", "import, stats: divide the times between arrivals by X; default 1"},
    {"rate", "REQ_PER_S", "generate: mean arrivals per second; 0 for all at once"},
    {"requests", "N", "generate: how many; default: until --until"},
    {"until", "SECONDS", "generate: no arrivals at or after this time"},
    {"arrivals", "KIND", "generate: poisson, constant, gamma:CV, weibull:SHAPE or on-off:ON:OFF "
                         "(mean seconds); default poisson"},
    {"stamp", "SECONDS", "generate: round arrivals down to multiples of this; default 0, exact"},
    {"input-tokens", "LENGTHS", "generate: prompts, as N, uniform:MIN:MAX, "
                                "lognormal:MEAN:P99[:MAX] or from:TRACE"},
    {"output-tokens", "LENGTHS", "generate: outputs, in the same forms"},
    {"prefixes", "GROUPS:SHARE:TOKENS", "generate: a fraction SHARE of the requests starts with "
                                        "one of GROUPS prefixes"},
    {"block-tokens", "N", "generate: tokens of one hash of a prompt with prefixes; default 64"},
    {NULL, NULL, NULL},
};
/* clang-format on */

/* ---- import ---- */

static enum kvt_status output_check(const struct kvt_cli *cli, struct kvt_err *err)
{
    if (cli->output == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "want -o FILE for the trace, got none");
    return KVT_OK;
}

static enum kvt_status trace_load(const struct kvt_cli *cli, struct kvt_trace *trace,
                                  struct kvt_err *err)
{
    double speed;
    KVT_TRY(kvt_cli_get_double(cli, "speed", 1, &speed, err));
    if (!(speed > 0 && speed <= 1e9))
        return kvt_err_set(err, KVT_EUSAGE, "--speed: want more than 0 and at most 1e9, got %g",
                           speed);
    KVT_TRY(kvt_trace_read(trace, cli->operands[1], speed, err));
    if (trace->dropped > 0)
        kvt_cli_say(cli, 0, "%s: dropped %d row%s without output tokens (failed requests)",
                    cli->operands[1], trace->dropped, kvt_plural(trace->dropped));
    return KVT_OK;
}

static enum kvt_status trace_store(const struct kvt_cli *cli, const struct kvt_trace *trace,
                                   struct kvt_err *err)
{
    KVT_TRY(kvt_trace_write(trace, cli->output, err));
    kvt_cli_say(cli, 0, "%s: wrote %d request%s over %.6g s", cli->output, trace->count,
                kvt_plural(trace->count), kvt_seconds_from_ticks(trace->arrival[trace->count - 1]));
    return KVT_OK;
}

static enum kvt_status run_import(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_trace trace;
    KVT_TRY(output_check(cli, err));
    KVT_TRY(trace_load(cli, &trace, err));
    enum kvt_status status = trace_store(cli, &trace, err);
    kvt_trace_release(&trace);
    return status;
}

/* ---- generate ---- */

#define PARTS_MAX 3

/* "NAME:A:B": the numbers after the name. Returns how many there are, or -1 when one is no number
 * or there are too many. */
static int32_t numbers_after(const char *text, double numbers[PARTS_MAX])
{
    int32_t count = 0;
    for (const char *colon = strchr(text, ':'); colon != NULL; count++) {
        char part[64];
        const char *next = strchr(colon + 1, ':');
        size_t length = next != NULL ? (size_t)(next - colon - 1) : strlen(colon + 1);
        if (count == PARTS_MAX || length >= sizeof part)
            return -1;
        memcpy(part, colon + 1, length);
        part[length] = '\0';
        if (kvt_double_parse(part, &numbers[count], NULL) != KVT_OK)
            return -1;
        colon = next;
    }
    return count;
}

static bool kind_is(const char *text, const char *name)
{
    size_t count = strlen(name);
    return strncmp(text, name, count) == 0 && (text[count] == '\0' || text[count] == ':');
}

static enum kvt_status arrivals_parse(const char *text, struct kvt_trace_spec *spec,
                                      struct kvt_err *err)
{
    double numbers[PARTS_MAX];
    int32_t count = numbers_after(text, numbers);
    if (kind_is(text, "poisson") && count == 0) {
        spec->gaps = KVT_GAPS_POISSON;
    } else if (kind_is(text, "constant") && count == 0) {
        spec->gaps = KVT_GAPS_CONSTANT;
    } else if (kind_is(text, "gamma") && count == 1) {
        spec->gaps = KVT_GAPS_GAMMA;
        spec->cv = numbers[0];
    } else if (kind_is(text, "weibull") && count == 1) {
        spec->gaps = KVT_GAPS_WEIBULL;
        spec->shape = numbers[0];
    } else if (kind_is(text, "on-off") && count == 2) {
        spec->gaps = KVT_GAPS_ON_OFF;
        spec->on = numbers[0];
        spec->off = numbers[1];
    } else {
        return kvt_err_set(err, KVT_EUSAGE,
                           "--arrivals: want poisson, constant, gamma:CV, weibull:SHAPE or "
                           "on-off:ON:OFF, got \"%s\"",
                           text);
    }
    return KVT_OK;
}

/* source keeps the trace that an empirical length draws from; the caller releases it. */
static enum kvt_status lengths_parse(const struct kvt_cli *cli, const char *option,
                                     struct kvt_lengths_spec *spec, struct kvt_trace *source,
                                     struct kvt_err *err)
{
    const char *text = kvt_cli_get(cli, option);
    double numbers[PARTS_MAX];
    if (text == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "want --%s, got none", option);
    bool input = strcmp(option, "input-tokens") == 0;
    *spec = (struct kvt_lengths_spec){.mean = -1,
                                      .min = -1,
                                      .max = -1,
                                      .p99 = -1,
                                      .cv = -1,
                                      .where.file = input ? "--input-tokens" : "--output-tokens"};
    if (strncmp(text, "from:", 5) == 0) {
        spec->kind = KVT_LENGTHS_EMPIRICAL;
        KVT_TRY(kvt_cli_check_input(cli, option, text + 5, err));
        KVT_TRY(kvt_trace_read(source, text + 5, 1, err));
        spec->sample = input ? source->input : source->output;
        spec->sample_count = source->count;
        return KVT_OK;
    }
    int32_t count = numbers_after(text, numbers);
    if (kind_is(text, "lognormal") && (count == 2 || count == 3)) {
        spec->kind = KVT_LENGTHS_LOGNORMAL;
        spec->mean = numbers[0];
        spec->p99 = numbers[1];
        spec->max = count == 3 ? numbers[2] : -1;
    } else if (kind_is(text, "uniform") && count == 2) {
        spec->kind = KVT_LENGTHS_UNIFORM;
        spec->min = numbers[0];
        spec->max = numbers[1];
    } else if (count != 0 || kvt_double_parse(text, &spec->mean, NULL) != KVT_OK) {
        return kvt_err_set(
            err, KVT_EUSAGE,
            "--%s: want N, uniform:MIN:MAX, lognormal:MEAN:P99[:MAX] or from:TRACE, got "
            "\"%s\"",
            option, text);
    }
    double whole[] = {spec->kind == KVT_LENGTHS_FIXED ? spec->mean : 1, spec->min, spec->max};
    for (int i = 0; i < 3; i++)
        if (whole[i] != floor(whole[i]))
            return kvt_err_set(err, KVT_EUSAGE, "--%s: want a whole number of tokens, got %g",
                               option, whole[i]);
    return KVT_OK;
}

static enum kvt_status prefixes_parse(const struct kvt_cli *cli, struct kvt_trace_spec *spec,
                                      struct kvt_err *err)
{
    const char *text = kvt_cli_get(cli, "prefixes");
    double numbers[PARTS_MAX];
    char colon_first[80];
    int64_t block;
    KVT_TRY(kvt_cli_get_int(cli, "block-tokens", 1, KVT_TRACE_TOKENS_MAX, 64, &block, err));
    spec->block_tokens = (int32_t)block;
    if (text == NULL)
        return KVT_OK;
    snprintf(colon_first, sizeof colon_first, ":%s", text);
    if (strlen(text) >= sizeof colon_first - 1 || numbers_after(colon_first, numbers) != 3 ||
        !(numbers[0] >= 1 && numbers[0] <= 1e9) || !(numbers[2] >= 1 && numbers[2] <= 1e9))
        return kvt_err_set(err, KVT_EUSAGE,
                           "--prefixes: want GROUPS:SHARE:TOKENS such as 40:0.5:2048, got \"%s\"",
                           text);
    spec->prefix_groups = (int64_t)numbers[0];
    spec->prefix_share = numbers[1];
    spec->prefix_tokens = (int64_t)numbers[2];
    return KVT_OK;
}

static enum kvt_status spec_parse(const struct kvt_cli *cli, struct kvt_trace_spec *spec,
                                  struct kvt_trace sources[2], struct kvt_err *err)
{
    const char *arrivals = kvt_cli_get(cli, "arrivals");
    static const char *const of_config[] = {"set", "print-config", NULL};
    KVT_TRY(kvt_cli_refuse(cli, of_config, "wants a config, got none", err));
    *spec = (struct kvt_trace_spec){.seed = cli->seed_given ? cli->seed : 1,
                                    .where.file = "trace generate",
                                    .where_rate.file = "--rate",
                                    .where_until.file = "--until",
                                    .where_stamp.file = "--stamp",
                                    .where_gaps.file = "--arrivals",
                                    .where_prefixes.file = "--prefixes"};
    if (kvt_cli_get(cli, "rate") == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "trace generate: want --rate, got none");
    KVT_TRY(kvt_cli_get_double(cli, "rate", 0, &spec->rate, err));
    KVT_TRY(kvt_cli_get_int(cli, "requests", 1, KVT_TRACE_ROWS_MAX, -1, &spec->requests, err));
    KVT_TRY(kvt_cli_get_double(cli, "until", -1, &spec->until, err));
    KVT_TRY(kvt_cli_get_double(cli, "stamp", 0, &spec->stamp, err));
    if (spec->requests < 0 && spec->until < 0)
        return kvt_err_set(err, KVT_EUSAGE, "want --requests or --until, got neither");
    KVT_TRY(arrivals_parse(arrivals != NULL ? arrivals : "poisson", spec, err));
    KVT_TRY(prefixes_parse(cli, spec, err));
    KVT_TRY(lengths_parse(cli, "input-tokens", &spec->input, &sources[0], err));
    return lengths_parse(cli, "output-tokens", &spec->output, &sources[1], err);
}

static enum kvt_status generate_by_options(const struct kvt_cli *cli, struct kvt_trace *trace,
                                           struct kvt_err *err)
{
    struct kvt_trace_spec spec;
    struct kvt_trace sources[2] = {{0}, {0}};
    struct kvt_err why = {0};
    enum kvt_status status = spec_parse(cli, &spec, sources, err);
    if (status == KVT_OK && kvt_trace_generate(trace, &spec, &why) != KVT_OK)
        status =
            kvt_err_set(err, why.status == KVT_ECONFIG ? KVT_EUSAGE : why.status, "%s", why.text);
    kvt_trace_release(&sources[0]);
    kvt_trace_release(&sources[1]);
    return status;
}

static enum kvt_status generate_by_config(const struct kvt_cli *cli, struct kvt_trace *trace,
                                          bool *done, struct kvt_err *err)
{
    struct kvt_config config;
    struct kvt_load load;
    for (const struct kvt_cli_option *option = options; option->name != NULL; option++)
        if (kvt_cli_get(cli, option->name) != NULL)
            return kvt_err_set(err, KVT_EUSAGE,
                               "want --%s or a config, got both; with a config use --set",
                               option->name);
    KVT_TRY(kvt_cli_config(cli, cli->operands[1], &config, done, err));
    if (*done)
        return KVT_OK;
    enum kvt_status status = kvt_load_init(&load, &config, err); /* refuses what is not generated */
    if (status == KVT_OK) {
        kvt_load_release(&load);
        status = kvt_load_trace(trace, &config, err);
    }
    kvt_config_release(&config);
    return status;
}

static enum kvt_status run_generate(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_trace trace = {0};
    bool done = false;
    if (!cli->print_config)
        KVT_TRY(output_check(cli, err));
    if (cli->operand_count > 1)
        KVT_TRY(generate_by_config(cli, &trace, &done, err));
    else
        KVT_TRY(generate_by_options(cli, &trace, err));
    if (done)
        return KVT_OK;
    enum kvt_status status = trace_store(cli, &trace, err);
    kvt_trace_release(&trace);
    return status;
}

/* ---- stats ---- */

/* One list for all formats: X(name in json and csv, what the text says, unit, value). */
/* clang-format off */
#define STATS_ROWS(X)                                                                     \
    X("requests", "requests", "", s->count)                                               \
    X("dropped", "rows dropped", "", s->dropped)                                          \
    X("tenants", "tenants", "", s->tenants)                                               \
    X("duration", "first to last arrival", "s", s->duration)                              \
    X("request_rate", "arrival rate", "req/s", s->rate)                                   \
    X("distinct_stamps", "distinct arrival times", "", s->stamps)                         \
    X("gap_cv", "cv of the gaps", "", s->gap_cv)                                          \
    X("input_mean", "input mean", "tokens", s->input.mean)                                \
    X("input_p50", "input p50", "tokens", s->input.p50)                                   \
    X("input_p90", "input p90", "tokens", s->input.p90)                                   \
    X("input_p99", "input p99", "tokens", s->input.p99)                                   \
    X("input_max", "input max", "tokens", s->input.max)                                   \
    X("input_total", "input total", "tokens", s->input.total)                             \
    X("output_mean", "output mean", "tokens", s->output.mean)                             \
    X("output_p50", "output p50", "tokens", s->output.p50)                                \
    X("output_p90", "output p90", "tokens", s->output.p90)                                \
    X("output_p99", "output p99", "tokens", s->output.p99)                                \
    X("output_max", "output max", "tokens", s->output.max)                                \
    X("output_total", "output total", "tokens", s->output.total)                          \
    X("block_tokens", "tokens of a block", "tokens", block_tokens)                        \
    X("blocks", "prompt blocks", "", s->blocks)                                           \
    X("block_reuse", "share reusable", "", s->reuse)
/* clang-format on */

struct stats_row {
    const char *name, *label, *unit;
    double value;
};
#define X(name, label, unit, value) +1
enum { STATS_ROW_COUNT = STATS_ROWS(X) };
#undef X

static void stats_rows(const struct kvt_trace_stats *s, int32_t block_tokens,
                       struct stats_row rows[STATS_ROW_COUNT])
{
    int32_t i = 0;
#define X(name, label, unit, value)                                                                \
    rows[i++] = (struct stats_row){(name), (label), (unit), (double)(value)};
    STATS_ROWS(X)
#undef X
}

static enum kvt_status stats_print_json(const struct stats_row rows[STATS_ROW_COUNT],
                                        struct kvt_err *err)
{
    json_t *object = json_object();
    for (int32_t i = 0; i < STATS_ROW_COUNT; i++) {
        double value = rows[i].value;
        bool is_whole = value == floor(value);
        json_object_set_new(object, rows[i].name,
                            is_whole ? json_integer((json_int_t)value) : kvt_json_real(value));
    }
    return kvt_json_print(object, 12, stdout, err);
}

static enum kvt_status run_stats(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_trace trace;
    struct kvt_trace_stats stats;
    struct stats_row rows[STATS_ROW_COUNT];
    KVT_TRY(trace_load(cli, &trace, err));
    enum kvt_status status = kvt_trace_measure(&trace, &stats, err);
    stats_rows(&stats, trace.block_tokens, rows);
    kvt_trace_release(&trace);
    if (status != KVT_OK)
        return status;
    switch (cli->format) {
    case KVT_FORMAT_TEXT:
        for (int32_t i = 0; i < STATS_ROW_COUNT; i++)
            printf(rows[i].value == floor(rows[i].value) ? "%-22s  %12.0f%s%s\n"
                                                         : "%-22s  %12.6g%s%s\n",
                   rows[i].label, rows[i].value, rows[i].unit[0] != '\0' ? " " : "", rows[i].unit);
        return KVT_OK;
    case KVT_FORMAT_JSON:
        return stats_print_json(rows, err);
    case KVT_FORMAT_CSV:
        for (int32_t i = 0; i < STATS_ROW_COUNT; i++)
            printf("%s%s", i > 0 ? "," : "", rows[i].name);
        for (int32_t i = 0; i < STATS_ROW_COUNT; i++)
            printf("%c%.12g", i > 0 ? ',' : '\n', rows[i].value);
        putchar('\n');
        return KVT_OK;
    }
    return KVT_OK;
}

/* ---- the command ---- */

/* An option of another action is a mistake, not something to pass over. */
static enum kvt_status options_check(const struct kvt_cli *cli, bool generates, struct kvt_err *err)
{
    static const char *const of_config[] = {"set", "seed", "print-config", NULL};
    static const char *const of_file[] = {"output", NULL};
    if (!generates)
        KVT_TRY(kvt_cli_refuse(cli, of_config, "is for trace generate", err));
    if (strcmp(cli->operands[0], "stats") == 0)
        KVT_TRY(kvt_cli_refuse(cli, of_file, "is for a trace: stats writes none", err));
    for (const struct kvt_cli_option *option = options; option->name != NULL; option++) {
        bool is_of_generate = strncmp(option->help, "generate:", 9) == 0;
        if (is_of_generate != generates && kvt_cli_get(cli, option->name) != NULL)
            return kvt_err_set(err, KVT_EUSAGE, "trace %s takes no --%s", cli->operands[0],
                               option->name);
    }
    return KVT_OK;
}

static enum kvt_status run_trace(const struct kvt_cli *cli, struct kvt_err *err)
{
    static const struct {
        const char *name;
        int32_t operands_min, operands_max; /* after the name of the action */
        enum kvt_status (*run)(const struct kvt_cli *cli, struct kvt_err *err);
    } actions[] = {
        {"import", 1, 1, run_import}, {"generate", 0, 1, run_generate}, {"stats", 1, 1, run_stats}};
    const char *action = cli->operands[0];
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        int32_t operands = cli->operand_count - 1;
        if (strcmp(action, actions[i].name) != 0)
            continue;
        if (operands < actions[i].operands_min || operands > actions[i].operands_max)
            return kvt_err_set(
                err, KVT_EUSAGE, "trace %s: want %s, got %d", action,
                actions[i].operands_min == 1 ? "one trace file" : "at most one config", operands);
        KVT_TRY(options_check(cli, strcmp(action, "generate") == 0, err));
        return actions[i].run(cli, err);
    }
    return kvt_err_set(err, KVT_EUSAGE, "trace: want import, generate or stats, got \"%s\"",
                       action);
}

const struct kvt_command kvt_command_trace = {
    .name = "trace",
    .operands = "import FILE | generate [CONFIG] | stats FILE",
    .help = "import, generate or describe a trace of requests",
    .description =
        "import reads a trace of any known format (Azure, Mooncake, BurstGPT, Bailian, Vidur,\n"
        "Splitwise, lengths alone, our own CSV; plain or gzip) and writes it as our own CSV:\n"
        "arrival_ns,input_tokens,output_tokens and, where the trace has them, tenant and "
        "hashes:N.\n"
        "generate makes one from the open load of a config, or from options that describe it;\n"
        "the same seed gives the same bytes.\n"
        "stats prints rate, burstiness, lengths, and the share of prompt blocks that a prefix\n"
        "cache without limit would serve.",
    .example = "kvtwin trace generate --rate 5.5 --requests 2000 --input-tokens "
               "lognormal:1155:4142 --output-tokens lognormal:211:601 -o load.csv\n"
               "kvtwin trace stats load.csv",
    .uses = KVT_USES_OUTPUT | KVT_USES_CONFIG,
    .operands_min = 1,
    .operands_max = 2,
    .options = options,
    .run = run_trace,
};
