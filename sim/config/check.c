/* What must hold between keys. Each rule on one key alone is in the schema. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "sim/config/schema.h"

/* exp(z^2/2) at the 99th percentile, z = 2.3263: a lognormal's p99 is at most this many means. */
#define LOGNORMAL_P99_MAX 14.96

struct checker {
    const struct kvt_config *config;
    struct kvt_err *err;
};

__attribute__((format(printf, 3, 4))) static void
complain(const struct checker *c, const char *path, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    kvt_err_at(c->err, KVT_ECONFIG, kvt_config_where(c->config, path), "%s: %s", path, text);
}

static void check_parallel(const struct checker *c, enum kvt_role role)
{
    const struct kvt_config_parallel *p = &c->config->roles[role].parallel;
    char path[64];
    const char *name = kvt_role_names[role];
    if (p->tp % p->dp != 0) {
        snprintf(path, sizeof path, "fleet.%s.parallel.dp", name);
        complain(c, path, "want a divisor of tp (%d), got %d", p->tp, p->dp);
    } else if (p->tp / p->dp % p->dcp != 0) {
        snprintf(path, sizeof path, "fleet.%s.parallel.dcp", name);
        complain(c, path, "want a divisor of tp/dp (%d), got %d", p->tp / p->dp, p->dcp);
    }
    if (p->tp % p->ep != 0) {
        snprintf(path, sizeof path, "fleet.%s.parallel.ep", name);
        complain(c, path, "want a divisor of tp (%d), got %d", p->tp, p->ep);
    } else if (p->moe_a2a == KVT_MOE_A2A_DEEPEP && (p->ep != p->tp || p->tp == 1)) {
        snprintf(path, sizeof path, "fleet.%s.parallel.moe_a2a", name);
        complain(c, path, "deepep wants ep = tp and more than one GPU, got ep %d and tp %d", p->ep,
                 p->tp);
    }
}

static bool node_equals(const struct kvt_yaml *a, const struct kvt_yaml *b)
{
    bool equal = a->kind == b->kind && a->count == b->count && strcmp(a->text, b->text) == 0;
    const struct kvt_yaml *x = a->first, *y = b->first;
    for (; equal && x != NULL; x = x->next, y = y->next)
        equal = node_equals(x, y);
    return equal;
}

/* All guards of a role share bits, bind and check: complain where guard has another value for the
 * parameter one than a guard before it. */
static void check_shared(const struct checker *c, const struct kvt_yaml *guards,
                         const struct kvt_yaml *guard, const struct kvt_yaml *one, const char *path)
{
    for (const struct kvt_yaml *before = guards->first; before != guard; before = before->next) {
        const struct kvt_yaml *other =
            before->kind == KVT_YAML_MAP ? kvt_yaml_find(before, one->key) : NULL;
        if (other == NULL || node_equals(other, one))
            continue;
        kvt_err_at(c->err, KVT_ECONFIG, one->where,
                   "%s.%s.%s: want what %s has, as all guards of a role share it", path, guard->key,
                   one->key, before->key);
        return;
    }
}

static void check_guard(const struct checker *c, enum kvt_role role)
{
    const struct kvt_config_guard *guard = &c->config->roles[role].guard;
    char path[64];
    bool others = false, looks = false;
    for (int32_t i = KVT_GUARD_NONE + 1; i < KVT_GUARD_COUNT; i++) {
        others = others || guard->on[i];
        looks = looks || (guard->on[i] && (KVT_GUARDS_LOOK >> i & 1) != 0);
    }
    snprintf(path, sizeof path, "fleet.%s.guard", kvt_role_names[role]);
    if (guard->on[KVT_GUARD_NONE] && others)
        complain(c, path, "want none alone, got it beside other guards");
    const enum kvt_guard_kind between[] = {KVT_GUARD_LEASE, KVT_GUARD_REQUEST_ID};
    for (int i = 0; i < 2; i++)
        if (role == KVT_ROLE_SERVE && guard->on[between[i]])
            complain(c, path,
                     "%s is for messages between prefill and decode: a serve role has none",
                     kvt_guard_names[between[i]]);
    if (guard->on[KVT_GUARD_QUARANTINE] && !looks)
        complain(c, path,
                 "quarantine is for pages that failed a check: want a tag, digest or canary beside "
                 "it");
    if (guard->sample_set && guard->check != KVT_CHECK_SAMPLED)
        complain(c, path, "sample is for check: sampled, got check: %s",
                 kvt_check_names[guard->check]);
    const struct kvt_config_store *store = c->config->store;
    const struct kvt_yaml *node = kvt_yaml_find(store->root, "fleet");
    node = node != NULL && node->kind == KVT_YAML_MAP ? kvt_yaml_find(node, kvt_role_names[role])
                                                      : NULL;
    node = node != NULL && node->kind == KVT_YAML_MAP ? kvt_yaml_find(node, "guard") : NULL;
    const struct kvt_rule any = {0};
    if (node == NULL || node->kind != KVT_YAML_MAP || kvt_yaml_domain(&any, node) != NULL)
        return;
    for (const struct kvt_yaml *child = node->first; child != NULL; child = child->next)
        for (const struct kvt_yaml *one = child->first; one != NULL; one = one->next)
            check_shared(c, node, child, one, path);
}

static void check_roles(const struct checker *c)
{
    const struct kvt_config_role *roles = c->config->roles;
    bool prefill = roles[KVT_ROLE_PREFILL].present, decode = roles[KVT_ROLE_DECODE].present;
    bool serve = roles[KVT_ROLE_SERVE].present;
    struct kvt_where where = roles[KVT_ROLE_SERVE].where;
    char place[160] = "";
    if (serve && where.line > 0)
        snprintf(place, sizeof place, "line %d", where.line);
    else if (serve)
        snprintf(place, sizeof place, "%.150s", where.file);
    if (serve && (prefill || decode))
        complain(c, prefill ? "fleet.prefill" : "fleet.decode", "excludes fleet.serve (%s)", place);
    else if (!serve && !prefill && !decode)
        complain(c, "fleet", "want serve, or prefill and decode, got neither");
    else if (!serve && !(prefill && decode))
        complain(c, "fleet", "want prefill and decode together, got %s alone",
                 prefill ? "prefill" : "decode");
    if (serve && c->config->link_present)
        complain(c, "fleet.link",
                 "want it between prefill and decode only, got a fleet that "
                 "serves");
    for (int32_t role = 0; role < KVT_ROLE_COUNT; role++) {
        if (!roles[role].present)
            continue;
        check_parallel(c, (enum kvt_role)role);
        check_guard(c, (enum kvt_role)role);
    }
}

static void check_lengths(const struct checker *c, const struct kvt_config_lengths *l,
                          const char *path)
{
    if (l->min > 0 && l->max > 0 && l->min > l->max)
        complain(c, path, "want min at most max, got %.12g and %.12g", l->min, l->max);
    if (l->kind != KVT_LENGTHS_LOGNORMAL)
        return;
    if (l->p99 < 0 && l->cv < 0)
        complain(c, path, "want p99 or cv beside mean, got neither");
    if (l->p99 >= 0 && (l->p99 <= l->mean || l->p99 > LOGNORMAL_P99_MAX * l->mean))
        complain(c, path,
                 "want p99 above the mean and at most %.2f times it, as a lognormal's is, "
                 "got %.12g and a mean of %.12g",
                 LOGNORMAL_P99_MAX, l->p99, l->mean);
}

static void check_open(const struct checker *c, const struct kvt_config_workload *w)
{
    check_lengths(c, &w->input, "workload.open.input");
    check_lengths(c, &w->output, "workload.open.output");
    if (w->requests == KVT_UNSET && c->config->run.until < 0)
        complain(c, "workload.open", "want requests here or run.until, got no end");
    if (w->prefixes.share > 0 && (w->prefixes.groups == 0 || w->prefixes.tokens == 0))
        complain(c, "workload.open.prefixes", "want groups and tokens above 0 beside share");
}

static void check_closed(const struct checker *c, const struct kvt_config_workload *w)
{
    const struct kvt_config_role *roles = c->config->roles;
    bool has_output = w->output.mean >= 0 || w->output.kind != KVT_LENGTHS_FIXED;
    check_lengths(c, &w->input, "workload.closed.input");
    check_lengths(c, &w->output, "workload.closed.output");
    if (w->requests == KVT_UNSET && c->config->run.until < 0)
        complain(c, "workload.closed", "want requests here or run.until, got no end");
    if (!has_output && !w->prefill_only)
        complain(c, "workload.closed", "output is missing; want tokens of an output");
    if (w->decode_only && w->prefill_only)
        complain(c, "workload.closed", "decode_only and prefill_only exclude each other");
    if (w->decode_only && !roles[KVT_ROLE_DECODE].present)
        complain(c, "workload.closed.decode_only", "want a fleet with a decode role");
    if (w->prefill_only && has_output &&
        (w->output.kind != KVT_LENGTHS_FIXED || w->output.mean > 1))
        complain(c, "workload.closed.output", "want 1 with prefill_only");
}

static void check_run(const struct checker *c)
{
    const struct kvt_config_run *run = &c->config->run;
    if (run->until >= 0 && run->until <= run->warmup)
        complain(c, "run.until", "want a time after run.warmup (%.12g s), got %.12g s", run->warmup,
                 run->until);
    if (run->series_points % 2 != 0)
        complain(c, "run.series_points",
                 "want an even number (points merge in pairs), got %" PRId64, run->series_points);
}

void kvt_config_check(const struct kvt_config *config, struct kvt_err *err)
{
    const struct checker c = {.config = config, .err = err};
    check_roles(&c);
    switch (config->workload.kind) {
    case KVT_WORKLOAD_OPEN:
        check_open(&c, &config->workload);
        break;
    case KVT_WORKLOAD_CLOSED:
        check_closed(&c, &config->workload);
        break;
    case KVT_WORKLOAD_NONE:
    case KVT_WORKLOAD_TRACE:
        break;
    }
    check_run(&c);
}
