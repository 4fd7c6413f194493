#include "sim/fault/faults.h"

#include <stdio.h>
#include <string.h>

#include "sim/plan/campaign.h"
#include "sim/plan/simulate.h"
#include "tests/check.h"

/* Many strikes that a tag in band sees, on a fleet that hands off or one that does not. */
static const char disaggregated[] =
    "fleet:\n"
    "  prefill: {gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64}\n"
    "  decode: {replicas: 2, gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64,\n"
    "           memory: {pages: 700}, guard: {tag-inband: {check: before-read}, quarantine: {}}}\n"
    "  link: {bandwidth: 2 GB/s, per: gpu}\n";
static const char colocated[] =
    "fleet:\n"
    "  serve: {replicas: 2, gpu: h100-sxm, parallel: {tp: 4}, weights: fp8, page_tokens: 64,\n"
    "          memory: {pages: 900}, guard: {tag-inband: {check: before-read}, quarantine: {}}}\n";
static const char rest[] = "model: llama-3.1-70b\n"
                           "workload:\n"
                           "  aborts: {share: 0.1, after: 3 s}\n"
                           "  open: {rate: 5 req/s, input: {lognormal: {mean: 1155, p99: 4142}},\n"
                           "         output: {lognormal: {mean: 211, p99: 700}}}\n"
                           "run: {seed: 3, until: 60 s}\n"
                           "faults:\n"
                           "  everywhere: true\n"
                           "  rates:\n"
                           "  - {fault: wrong-map, variant: foreign, rate: 4000, per: hour}\n"
                           "  - {fault: stale-reader, rate: 2000, per: hour}\n";
static const char transfers[] =
    "  - {fault: partial-transfer, variant: lost, rate: 0.3, per: transfer}\n";

static struct kvt_strike strikes[KVT_STRIKES_MAX];
static struct kvt_fault_result results[KVT_STRIKES_MAX];

struct total {
    int64_t detected, lost, saved, again, leaked;
};

/* One run under --paranoid (kvt_paranoid): every event checks that no page and no request is lost.
 */
static struct total run(const char *fleet, const char *more, const char *set, bool exact)
{
    static struct kvt_config config;
    struct kvt_campaign_options how = {.threads = 1, .exact = exact};
    struct kvt_err err = {0};
    struct total total = {0};
    int32_t count = 0;
    char text[8192];
    snprintf(text, sizeof text, "%s%s%s", fleet, rest, more);
    CHECK_OK(kvt_config_parse(&config, "policies.yaml", text, strlen(text), ".", &set, 1, &err),
             err);
    if (err.status != KVT_OK)
        return total;
    bool before = kvt_paranoid;
    kvt_paranoid = true;
    CHECK_OK(kvt_fault_run(&config, &how, strikes, results, &count, &err), err);
    kvt_paranoid = before;
    kvt_config_release(&config);
    for (int32_t i = 0; i < count; i++) {
        total.detected += results[i].detected;
        total.lost += results[i].lost;
        total.saved += results[i].saved;
        total.again += results[i].again;
        total.leaked += results[i].leaked;
    }
    return total;
}

#define ON_HIT(role, policy)                                                                       \
    "fleet." role ".guard={tag-inband: {check: before-read, on_hit: " policy "}, quarantine: {}}"

static void a_request_is_aborted_by_default(void)
{
    struct total total =
        run(disaggregated, transfers, "fleet.decode.guard.tag-inband.on_hit=abort", false);
    CHECK(total.detected > 50);
    CHECK(total.lost >= total.detected);
    CHECK_I64(total.saved, 0, "nobody is computed again");
}

static void it_is_computed_again_where_it_decodes(void)
{
    struct total aborts = run(colocated, "", ON_HIT("serve", "abort"), false);
    struct total total = run(colocated, "", ON_HIT("serve", "recompute"), false);
    CHECK(total.saved > 20);
    CHECK_NOTE(total.again > 100 * total.saved, "its prompt and what was out");
    CHECK_NOTE(total.lost < aborts.lost / 2, "only who fails twice");
}

static void it_is_computed_again_by_prefill(void)
{
    struct total aborts = run(disaggregated, transfers, ON_HIT("decode", "abort"), false);
    struct total total = run(disaggregated, transfers, ON_HIT("decode", "recompute"), false);
    CHECK(total.saved > 50);
    CHECK(total.again > 100 * total.saved);
    CHECK(total.lost < aborts.lost / 2);
}

static void what_the_sender_holds_is_sent_again(void)
{
    struct total again = run(disaggregated, transfers, ON_HIT("decode", "recompute"), false);
    struct total total = run(disaggregated, transfers, ON_HIT("decode", "refetch"), false);
    CHECK(total.saved > 50);
    CHECK(total.lost <= again.lost + 10);
}

static void macro_steps_end_in_the_same_way(void)
{
    static struct kvt_fault_result first[KVT_STRIKES_MAX];
    const char *const sets[] = {ON_HIT("decode", "recompute"), ON_HIT("decode", "refetch")};
    for (int i = 0; i < 2; i++) {
        run(disaggregated, transfers, sets[i], true);
        memcpy(first, results, sizeof first);
        run(disaggregated, transfers, sets[i], false);
        CHECK(memcmp(first, results, sizeof first) == 0);
    }
    run(colocated, "", ON_HIT("serve", "recompute"), true);
    memcpy(first, results, sizeof first);
    run(colocated, "", ON_HIT("serve", "recompute"), false);
    CHECK(memcmp(first, results, sizeof first) == 0);
}

const struct check_test check_fault_policies[] = {
    {"a request is aborted by default", a_request_is_aborted_by_default, false},
    {"it is computed again where it decodes", it_is_computed_again_where_it_decodes, false},
    {"it is computed again by prefill", it_is_computed_again_by_prefill, false},
    {"what the sender holds is sent again", what_the_sender_holds_is_sent_again, false},
    {"macro-steps end in the same way", macro_steps_end_in_the_same_way, false},
    {0},
};
