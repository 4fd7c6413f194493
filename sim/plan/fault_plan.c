#include "sim/plan/fault_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TABLE_BIT_MAX 30 /* of an entry of a page table: page numbers are below 2^30 */

struct kvt_guards kvt_guards_of(const struct kvt_config_guard *guard)
{
    struct kvt_guards guards = {
        .check = guard->check,
        .on_hit = guard->on_hit,
        .sample = guard->sample,
        .lease = kvt_ticks_from_seconds(guard->lease > 0 ? guard->lease : 0),
        .tag = {.bits = guard->tag_bits > 0 ? guard->tag_bits : 64,
                .bind = guard->tag_bind,
                .random = guard->tag_order == KVT_TAG_RANDOM},
    };
    for (int kind = 0; kind < KVT_GUARD_COUNT; kind++)
        if (guard->on[kind] && kind != KVT_GUARD_NONE)
            guards.on |= UINT32_C(1) << kind;
    return guards;
}

/* The variant of this class and name (NULL: its first); -1 when there is none. */
static int32_t variant_of(enum kvt_fault_kind kind, const char *name)
{
    for (int32_t i = 0; i < KVT_STRIKE_COUNT; i++)
        if (kvt_fault_variants[i].kind == kind &&
            (name == NULL || strcmp(name, kvt_fault_variants[i].name) == 0))
            return i;
    return -1;
}

enum kvt_status kvt_fault_find_variant(enum kvt_fault_kind kind, const char *name, const char *key,
                                       struct kvt_where where, int32_t *variant,
                                       struct kvt_err *err)
{
    char names[256] = "";
    size_t used = 0;
    *variant = variant_of(kind, name);
    if (*variant >= 0)
        return KVT_OK;
    if (kind == KVT_FAULT_NONE)
        return kvt_err_at(err, KVT_ECONFIG, where, "%s: want a class that strikes, got none", key);
    for (int32_t i = 0; i < KVT_STRIKE_COUNT && used < sizeof names; i++)
        if (kvt_fault_variants[i].kind == kind)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used > 0 ? ", " : "", kvt_fault_variants[i].name);
    return kvt_err_at(err, KVT_ECONFIG, where, "%s: %s has no variant \"%.40s\"; it has %s", key,
                      kvt_fault_names[kind], name, names);
}

/* What amount means of a variant: a share, a factor, or a number of things. */
static bool is_share(int32_t variant)
{
    return variant == KVT_STRIKE_WRITE_TRANSFER || variant == KVT_STRIKE_WRITE_ABORT ||
           variant == KVT_STRIKE_PARTIAL_EARLY || variant == KVT_STRIKE_PARTIAL_LOST ||
           variant == KVT_STRIKE_LIVENESS_WITHHELD;
}

enum kvt_status kvt_fault_check_amount(int32_t variant, double amount, const char *key,
                                       struct kvt_where where, struct kvt_err *err)
{
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[variant];
    if (is_share(variant) && amount > 1)
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: the amount of %s/%s is a share: want 0 to 1, got %g", key,
                          kvt_fault_names[info->kind], info->name, amount);
    if (variant == KVT_STRIKE_NODE_SLOW && amount < 1)
        return kvt_err_at(
            err, KVT_ECONFIG, where,
            "%s: the amount of %s/%s is how many times slower: want 1 or more, got %g", key,
            kvt_fault_names[info->kind], info->name, amount);
    if (variant == KVT_STRIKE_FLIP_TABLE && (amount > TABLE_BIT_MAX || amount != floor(amount)))
        return kvt_err_at(err, KVT_ECONFIG, where,
                          "%s: the amount of %s/%s is which bit: want a whole number from 0 to %d, "
                          "got %g",
                          key, kvt_fault_names[info->kind], info->name, TABLE_BIT_MAX, amount);
    return KVT_OK;
}

static int32_t index_or_none(int64_t value)
{
    return value == KVT_UNSET ? KVT_NONE : (int32_t)value;
}

static enum kvt_status read_row(const struct kvt_config *config,
                                const struct kvt_config_strike *row, int32_t replicas,
                                struct kvt_strike *strike, struct kvt_err *err)
{
    int32_t variant;
    KVT_TRY(
        kvt_fault_find_variant(row->fault, row->variant, "faults.plan", row->where, &variant, err));
    if (row->replica != KVT_UNSET && row->replica >= replicas)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.plan: replica %lld of a fleet of %d", (long long)row->replica,
                          replicas);
    if (config->run.until >= 0 && row->at > config->run.until)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.plan: a strike at %g s, but run.until is %g s", row->at,
                          config->run.until);
    if (row->at > KVT_STRIKE_AT_MAX_S)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.plan: want a strike at %g s at most, got %g s",
                          KVT_STRIKE_AT_MAX_S, row->at);
    if (row->delay > KVT_STRIKE_DELAY_MAX_S)
        return kvt_err_at(err, KVT_ECONFIG, row->where,
                          "faults.plan: want a delay of at most %g s, got %g s",
                          KVT_STRIKE_DELAY_MAX_S, row->delay);
    const struct kvt_fault_variant_info *info = &kvt_fault_variants[variant];
    *strike = (struct kvt_strike){
        .time = kvt_ticks_from_seconds(row->at),
        .variant = variant,
        .replica = index_or_none(row->replica),
        .request = index_or_none(row->request),
        .page = index_or_none(row->page),
        .amount = row->amount < 0 ? info->amount : row->amount,
        .delay = kvt_ticks_from_seconds(row->delay < 0 ? info->delay_s : row->delay),
    };
    return kvt_fault_check_amount(variant, strike->amount, "faults.plan", row->where, err);
}

/* No strike may fall on a replica that an earlier one of the plan has taken down; while one slows
 * it no second one may, nor may one of the same moment take it down. */
static enum kvt_status check_order(const struct kvt_config *config,
                                   const struct kvt_strike strikes[], int32_t count,
                                   struct kvt_err *err)
{
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_strike *first = &strikes[i];
        bool down = first->variant == KVT_STRIKE_NODE_CRASH;
        if ((!down && first->variant != KVT_STRIKE_NODE_SLOW) || first->replica == KVT_NONE)
            continue;
        for (int32_t j = i + 1; j < count; j++) {
            const struct kvt_strike *s = &strikes[j];
            if (s->replica != first->replica || s->time >= first->time + first->delay ||
                (!down && s->variant != KVT_STRIKE_NODE_SLOW &&
                 (s->variant != KVT_STRIKE_NODE_CRASH || s->time > first->time)))
                continue;
            return kvt_err_at(err, KVT_ECONFIG, config->faults.plan.rows[s->row].where,
                              "faults.plan: %s/%s of replica %d at %g s, but it is %s from %g s to "
                              "%g s by strike %d of the plan",
                              kvt_fault_names[kvt_fault_variants[s->variant].kind],
                              kvt_fault_variants[s->variant].name, s->replica,
                              kvt_seconds_from_ticks(s->time), down ? "down" : "slow",
                              kvt_seconds_from_ticks(first->time),
                              kvt_seconds_from_ticks(first->time + first->delay), first->row + 1);
        }
    }
    return KVT_OK;
}

enum kvt_status kvt_fault_plan(const struct kvt_config *config, struct kvt_strike strikes[],
                               int32_t *count, struct kvt_err *err)
{
    int32_t replicas = kvt_config_replicas(config);
    *count = 0;
    for (int32_t i = 0; i < config->faults.plan.count; i++) {
        struct kvt_strike strike;
        KVT_TRY(read_row(config, &config->faults.plan.rows[i], replicas, &strike, err));
        strike.row = i;
        int32_t at = (*count)++; /* rows of one time stay in their order */
        for (; at > 0 && strikes[at - 1].time > strike.time; at--)
            strikes[at] = strikes[at - 1];
        strikes[at] = strike;
    }
    return check_order(config, strikes, *count, err);
}

enum kvt_status kvt_fault_check_targets(const struct kvt_config *config,
                                        const struct kvt_core *core, const char *const names[],
                                        const struct kvt_strike strikes[], int32_t count,
                                        struct kvt_err *err)
{
    for (int32_t i = 0; i < count; i++) {
        const struct kvt_strike *s = &strikes[i];
        struct kvt_where where = config->faults.plan.rows[s->row].where;
        if (s->request >= core->request_count)
            return kvt_err_at(err, KVT_ECONFIG, where, "faults.plan: request %d of a load of %d",
                              s->request, core->request_count);
        for (int32_t id = 0; id < core->replica_count; id++)
            if ((s->replica == KVT_NONE || s->replica == id) &&
                s->page >= core->replicas[id].pages.total)
                return kvt_err_at(err, KVT_ECONFIG, where,
                                  "faults.plan: page %d of a pool of %d on %s", s->page,
                                  core->replicas[id].pages.total, names[id]);
    }
    return KVT_OK;
}

enum kvt_status kvt_fault_check_window(const struct kvt_config *config, struct kvt_err *err)
{
    const struct kvt_config_faults *faults = &config->faults;
    double end = config->run.until;
    if (faults->until >= 0 && faults->until <= faults->from)
        return kvt_err_at(err, KVT_ECONFIG, kvt_config_where(config, "faults.until"),
                          "faults.until: want it after faults.from (%g s), got %g s", faults->from,
                          faults->until);
    if (end >= 0 && faults->until > end)
        return kvt_err_at(err, KVT_ECONFIG, kvt_config_where(config, "faults.until"),
                          "faults.until: want it at run.until (%g s) or before, got %g s", end,
                          faults->until);
    if (end >= 0 && faults->from >= end)
        return kvt_err_at(err, KVT_ECONFIG, kvt_config_where(config, "faults.from"),
                          "faults.from: want it before run.until (%g s), got %g s", end,
                          faults->from);
    return KVT_OK;
}

struct kvt_strike kvt_fault_draw(uint64_t seed, enum kvt_fault_kind kind, int64_t trial,
                                 kvt_ticks from, kvt_ticks until)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_FAULT, (uint64_t)kind << 48 | (uint64_t)trial);
    int32_t first = variant_of(kind, NULL), count = 0;
    while (first + count < KVT_STRIKE_COUNT && kvt_fault_variants[first + count].kind == kind &&
           first + count != KVT_STRIKE_WRITE_ABORT)
        count++;
    int32_t variant = first + (int32_t)kvt_stream_below(&stream, (uint64_t)count);
    kvt_ticks span = until > from ? until - from : 1;
    return (struct kvt_strike){
        .time = from + (kvt_ticks)kvt_stream_below(&stream, (uint64_t)span),
        .variant = variant,
        .replica = KVT_NONE,
        .request = KVT_NONE,
        .page = KVT_NONE,
        .amount = kvt_fault_variants[variant].amount,
        .delay = kvt_ticks_from_seconds(kvt_fault_variants[variant].delay_s),
    };
}

uint64_t kvt_fault_trial_seed(uint64_t seed, enum kvt_fault_kind kind, int64_t trial)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, seed, KVT_PURPOSE_FAULT,
                    UINT64_C(1) << 63 | (uint64_t)kind << 48 | (uint64_t)trial);
    return kvt_stream_u64(&stream);
}
