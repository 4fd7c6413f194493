/* Keys explained, keys of roles and workloads that do not fit together, and the word for each
 * status. */
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/config_texts.h"

static void a_key_is_explained_or_the_nearest_is_named(void)
{
    static const struct {
        const char *path, *want; /* want begins with '!': what the refusal holds */
    } rows[] = {
        {"run.seed", "run.seed\n  "},
        {"cost.h200-sxm", "  set      --set 'cost.h200-sxm=3.5 USD/h'\n"},
        {"slo.ttft.p99.9", "slo.ttft.p99.9\n"},
        {"published", "  keys\n    "},
        {"published[3].metric", "published[3].metric\n"},
        {"fleet.serve.tp_size", "fleet.serve.tp_size\n"},
        {"fleet.serve.guard", "a section, or the name of a key in it\n"},
        {"", "!there is no key \"\"; kvtwin config keys lists all"},
        {"run.sed", "!there is no key \"run.sed\": did you mean \"run.seed\"; "},
        {"run.sed", "!kvtwin config keys lists all"},
        {"qqqqqqqqqqqqqqqqqq", "!there is no key \"qqqqqqqqqqqqqqqqqq\"; kvtwin"},
        {"run.seed.x", "!there is no key \"run.seed.x\""},
        {"fleet.serve.tp_size.x", "!there is no key \"fleet.serve.tp_size.x\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_err err = {0};
        bool refused = rows[i].want[0] == '!';
        char *text = kvt_config_explain(rows[i].path, &err);
        CHECK_I64(text == NULL, refused, rows[i].path);
        CHECK_I64(err.status, refused ? KVT_EUSAGE : KVT_OK, rows[i].path);
        CHECK_HOLDS(text == NULL ? err.text : text, rows[i].want + refused, rows[i].path);
        free(text);
    }
}

#define FLEET(x)  "model: m\nfleet: {" x "}\n"
#define LOAD(x)   "model: m\nfleet: {serve: {gpu: g}}\nworkload: {" x "}\n"
#define GUARDS(x) "model: m\nfleet: {serve: {gpu: g, guard: {" x "}}}\n"
#define MOE(x)    "model: m\nfleet: {serve: {gpu: g, parallel: {" x ", moe_a2a: deepep}}}\n"

static void roles_loads_and_guards_fit_together_or_are_refused(void)
{
    static const struct {
        const char *text, *message; /* NULL: they do */
    } rows[] = {
        {FLEET("serve: {gpu: g}"), NULL},
        {FLEET("prefill: {gpu: g}, decode: {gpu: g}"), NULL},
        {FLEET("serve: {gpu: g}, prefill: {gpu: g}"),
         "fleet.prefill: excludes fleet.serve (line 2)"},
        {FLEET("serve: {gpu: g}, decode: {gpu: g}"), "fleet.decode: excludes fleet.serve (line 2)"},
        {FLEET("prefill: {gpu: g}"), "want prefill and decode together, got prefill alone"},
        {FLEET("decode: {gpu: g}"), "want prefill and decode together, got decode alone"},
        {FLEET(""), "fleet: want serve, or prefill and decode, got neither"},
        {MOE("tp: 4, ep: 4"), NULL},
        {MOE("tp: 4, ep: 2"), "deepep wants ep = tp and more than one GPU, got ep 2 and tp 4"},
        {MOE("tp: 1, ep: 1"), "deepep wants ep = tp and more than one GPU, got ep 1 and tp 1"},
        {MOE("tp: 4, ep: 3"), "fleet.serve.parallel.ep: want a divisor of tp (4), got 3"},
        {GUARDS("tag-side: {bind: [owner]}, tag-inband: {bind: [owner]}"), NULL},
        {GUARDS("tag-side: {bind: [owner]}, tag-inband: {bind: [position]}"),
         "tag-inband.bind: want what tag-side has"},
        {GUARDS("tag-side: {bind: [owner]}, tag-inband: {bind: [owner, position]}"),
         "tag-inband.bind: want what tag-side has"},
        {GUARDS("tag-side: {bind: [owner]}, fifo: {}, tag-inband: {bits: 8}"), NULL},
        {LOAD("open: {rate: 1 req/s, requests: 2, input: 9, output: 9, prefixes: {groups: 2, "
              "tokens: 4, "
              "share: 0.5}}"),
         NULL},
        {LOAD("open: {rate: 1 req/s, requests: 2, input: 9, output: 9, prefixes: {groups: 2, "
              "tokens: 0, "
              "share: 0.5}}"),
         "want groups and tokens above 0 beside share"},
        {LOAD("open: {rate: 1 req/s, requests: 2, input: 9, output: 9, prefixes: {groups: 0, "
              "tokens: 4, "
              "share: 0.5}}"),
         "want groups and tokens above 0 beside share"},
        {LOAD("open: {rate: 1 req/s, input: 9, output: 9}"),
         "want requests here or run.until, got no end"},
        {LOAD("closed: {concurrency: 1, requests: 2, input: 9, prefill_only: true}"), NULL},
        {LOAD("closed: {concurrency: 1, requests: 2, input: 9, output: 1, prefill_only: true}"),
         NULL},
        {LOAD("closed: {concurrency: 1, requests: 2, input: 9, output: 2, prefill_only: true}"),
         "workload.closed.output: want 1 with prefill_only"},
        {LOAD(
             "closed: {concurrency: 1, requests: 2, input: 9, output: {uniform: {min: 1, max: 1}}, "
             "prefill_only: true}"),
         "workload.closed.output: want 1 with prefill_only"},
        {LOAD("closed: {concurrency: 1, requests: 2, input: 9}"),
         "output is missing; want tokens of an output"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_config config;
        struct kvt_err err = {0};
        enum kvt_status status = parse(&config, rows[i].text, NULL, 0, &err);
        if (rows[i].message == NULL)
            CHECK_OK(status, err);
        else
            CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
        CHECK_I64(status, rows[i].message == NULL ? KVT_OK : KVT_ECONFIG, rows[i].text);
        kvt_config_release(&config);
    }
}

static void each_status_has_a_word(void)
{
    static const struct {
        enum kvt_status status;
        const char *text;
    } rows[] = {
#define X(name, code, text) {KVT_##name, text},
        KVT_STATUSES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_TEXT(kvt_status_text(rows[i].status), rows[i].text, rows[i].text);
    CHECK_HOLDS(kvt_status_text(KVT_ENOMEM), "memory", "5");
}

const struct check_test check_config_keys[] = {
    {"a key is explained or the nearest is named", a_key_is_explained_or_the_nearest_is_named,
     false},
    {"roles, loads and guards fit together or are refused",
     roles_loads_and_guards_fit_together_or_are_refused, false},
    {"each status has a word", each_status_has_a_word, false},
    {NULL, NULL, false},
};
