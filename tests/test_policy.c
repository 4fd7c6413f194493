#include "sim/serve/router.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/fleet.h"

static struct fleet fleet;

static const struct kvt_replica *replica(void)
{
    return &fleet.core.replicas[0];
}

/* 5 in 3 out, 12 in 2 out, 3 in 1 out, all there at once, to the end. */
static void three_requests(enum kvt_engine engine)
{
    fleet_begin(&fleet);
    fleet_role(&fleet, KVT_ROLE_SERVE, engine);
    fleet_request(&fleet, 5, 3);
    fleet_request(&fleet, 12, 2);
    fleet_request(&fleet, 3, 1);
    fleet_build(&fleet);
    for (int32_t r = 0; r < 3; r++)
        fleet_arrive(&fleet, r);
    fleet_run(&fleet, 0, 50);
}

/*
 * SGLang, chunks of 8, pages of 4. Requests 5 in 3 out, 12 in 2 out, 3 in 1 out, all there.
 * Request 0 takes 5 tokens, which count as 2 pages: the chunk is spent. Then 8 of the 12; then the
 * other 4 and request 2 in what is left. Prompts come first; only then both running ones decode:
 * they read 5 + 1 and 12 + 1 tokens. Request 1 has its second and last token, then request 0.
 */
static void sglang_computes_prompts_first_in_chunks(void)
{
    three_requests(KVT_ENGINE_SGLANG);
    CHECK_TEXT(fleet_told(&fleet),
               "[0+5!] first0 [1+8] [1+4! 2+3!] first1 first2 done2 [d2@19] done1 [d1@7] done0",
               "three requests");
    CHECK_I64(replica()->pages.free, 100, "all pages are back");
    CHECK_I64(replica()->pages.held_peak, 6, "2 + 3 + 1");
}

/*
 * vLLM, 8 tokens a step in all. Requests as above. Request 0 takes 5, request 1 the other 3. Then
 * one token goes to the decode of request 0 and 7 to request 1; then 1, 2 and 3 of request 2.
 */
static void vllm_mixes_prompts_with_decode(void)
{
    three_requests(KVT_ENGINE_VLLM);
    CHECK_TEXT(fleet_told(&fleet),
               "[0+5! 1+3] first0 [1+7 d1@6] [1+2! 2+3! d1@7] done0 first1 first2 done2 [d1@13] "
               "done1",
               "three requests");
    CHECK_I64(replica()->pages.free, 100, "all pages are back");
}

/*
 * SGLang admits against growth: 10 pages of 4, ratio 0.7. Request 0 (8 in, 12 out) runs: 8 pages
 * are free, 32 tokens, less 0.7 x 11 = 7 that it is expected to add: 25. Request 1 (8 in, 13 out)
 * asks for 8 + 13 + 4 = 25, which is not below 25; with 12 out it would be admitted.
 */
static void sglang_admits_against_expected_growth(void)
{
    for (int32_t output = 12; output <= 13; output++) {
        fleet_begin(&fleet);
        fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_SGLANG)->pages = 10;
        fleet_request(&fleet, 8, 12);
        fleet_request(&fleet, 8, output);
        fleet_build(&fleet);
        fleet_arrive(&fleet, 0);
        fleet_run(&fleet, 0, 1);
        fleet_arrive(&fleet, 1);
        fleet_run(&fleet, 0, 1);
        CHECK_TEXT(fleet_told(&fleet),
                   output == 12 ? "[0+8!] first0 [1+8!] first1" : "[0+8!] first0 [d1@9]",
                   "one token more or less");
        CHECK_I64(replica()->blocked, output == 13, "it waits until something is given back");
    }
}

/*
 * SGLang retracts: 7 pages of 4, nearly no growth expected. Requests 4 in 12 out, 4 in 12 out, 8 in
 * 6 out come one by one and hold 1 + 1 + 2 pages; the first decode takes 3 more. Four steps on the
 * contexts are 8, 8, 12 and three pages are wanted, none free. All have 5 tokens: the longest input
 * goes, request 2. Four steps on (contexts 12, 12) two are wanted and one is free: equal outputs,
 * equal inputs, so the later one goes. It waits behind request 2, which comes back with 8 + 5
 * tokens to compute when request 0 is done, and has its last token at once; then request 1 with
 * 4 + 9.
 */
static void sglang_retracts_the_shortest_output(void)
{
    fleet_begin(&fleet);
    struct kvt_replica_spec *spec = fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_SGLANG);
    spec->pages = 7;
    spec->chunk_tokens = 16;
    spec->conservativeness = 1e-6;
    fleet_request(&fleet, 4, 12);
    fleet_request(&fleet, 4, 12);
    fleet_request(&fleet, 8, 6);
    fleet_build(&fleet);
    for (int32_t r = 0; r < 3; r++) {
        fleet_arrive(&fleet, r);
        fleet_run(&fleet, 0, 1);
    }
    CHECK_TEXT(fleet_told(&fleet), "[0+4!] first0 [1+4!] first1 [2+8!] first2", "one by one");
    fleet_run(&fleet, 0, 4);
    CHECK_TEXT(fleet_told(&fleet), "[d3@19] [d3@22] [d3@25] [d3@28]", "until the pool is full");
    fleet_run(&fleet, 0, 1);
    CHECK_TEXT(fleet_told(&fleet), "out2 [d2@18]", "the longest input");
    CHECK_I64(replica()->ratio + replica()->ratio_decay, INT64_C(1) << 32,
              "(2 x (5 + 20)) / (24 + 1), at most 1, and a step on");
    fleet_run(&fleet, 0, 50);
    CHECK_TEXT(fleet_told(&fleet),
               "[d2@20] [d2@22] [d2@24] out1 [d1@13] [d1@14] [d1@15] done0 [2+13!] token2 done2 "
               "[1+13!] token1 [d1@14] [d1@15] done1",
               "to the end");
    CHECK_I64(replica()->pages.free, 7, "all pages are back");
    CHECK_I64(fleet.core.preemptions, 2, "two retractions");
}

/*
 * vLLM preempts: 5 pages of 4, 16 tokens a step. Requests 4 in 8 out twice, 4 in 2 out. The first
 * decode wants 3 pages and finds 2: the last of the running goes. Four steps on the other two want
 * 2 and find 1: request 1 goes, to the front of the queue, before request 2, which was there
 * before. Request 3 came in between and waits behind both. When request 0 is done, 5 pages take
 * request 1 (4 + 5 tokens, 3 pages) and request 2 (4 + 1, 2 pages; its second token is its last).
 */
static void vllm_preempts_the_latest_to_the_front(void)
{
    fleet_begin(&fleet);
    struct kvt_replica_spec *spec = fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_VLLM);
    spec->pages = 5;
    spec->batch_tokens = 16;
    fleet_request(&fleet, 4, 8);
    fleet_request(&fleet, 4, 8);
    fleet_request(&fleet, 4, 2);
    fleet_request(&fleet, 4, 1);
    fleet_build(&fleet);
    for (int32_t r = 0; r < 3; r++)
        fleet_arrive(&fleet, r);
    fleet_run(&fleet, 0, 2);
    CHECK_TEXT(fleet_told(&fleet), "[0+4! 1+4! 2+4!] first0 first1 first2 out2 [d2@10]",
               "the tail");
    fleet_arrive(&fleet, 3);
    fleet_run(&fleet, 0, 50);
    CHECK_TEXT(
        fleet_told(&fleet),
        "[d2@12] [d2@14] [d2@16] out1 [d1@9] [d1@10] [d1@11] done0 [1+9! 2+5!] token1 token2 "
        "done2 [3+4! d1@10] first3 done3 [d1@11] done1",
        "to the end");
    CHECK_I64(replica()->pages.free, 5, "all pages are back");
}

/* vLLM: a prompt that is only half computed is the first to go when the others need pages: pages
 * 3, request 0 (4 in, 6 out) and 4 of the 8 tokens of request 1. */
static void vllm_preempts_an_unfinished_prompt_first(void)
{
    fleet_begin(&fleet);
    struct kvt_replica_spec *spec = fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_VLLM);
    spec->pages = 3;
    fleet_request(&fleet, 4, 6);
    fleet_request(&fleet, 8, 2);
    fleet_build(&fleet);
    fleet_arrive(&fleet, 0);
    fleet_arrive(&fleet, 1);
    fleet_run(&fleet, 0, 2);
    /* 0: first page full, the second for its next token; 1: one page; its second is not there. */
    CHECK_TEXT(fleet_told(&fleet), "[0+4! 1+4] first0 out1 [d1@5]", "it holds up nobody");
    fleet_run(&fleet, 0, 50);
    CHECK_TEXT(fleet_told(&fleet), "[d1@6] [d1@7] [d1@8] [d1@9] done0 [1+8!] first1 [d1@9] done1",
               "to the end");
}

/*
 * One step ahead: step n + 1 is planned when n starts. Request 0 (4 in, 3 out) has its last token
 * in step 2, but step 3 is planned by then: it runs for nobody, and the two pages stay held until
 * it has.
 */
static void one_step_ahead_runs_once_for_nobody(void)
{
    for (int engine = 0; engine < KVT_ENGINE_COUNT; engine++) {
        fleet_begin(&fleet);
        fleet_role(&fleet, KVT_ROLE_SERVE, (enum kvt_engine)engine)->overlap = true;
        fleet_request(&fleet, 4, 3);
        fleet_build(&fleet);
        fleet_arrive(&fleet, 0);
        CHECK(fleet_plan(&fleet, 0));
        CHECK(fleet_plan(&fleet, 0));
        fleet_commit(&fleet, 0);
        CHECK_TEXT(fleet_told(&fleet), "[0+4!] [d1@5] first0", "planned before its first token");
        CHECK(fleet_plan(&fleet, 0));
        fleet_commit(&fleet, 0);
        CHECK(fleet_plan(&fleet, 0));
        fleet_commit(&fleet, 0);
        CHECK_TEXT(fleet_told(&fleet), "[d1@6] [d1@7] done0", "one more was planned");
        CHECK_I64(fleet.core.live, 0, "the request is gone");
        CHECK_I64(replica()->pages.held, 2, "its pages are not");
        CHECK(!fleet_plan(&fleet, 0));
        fleet_commit(&fleet, 0);
        CHECK_TEXT(fleet_told(&fleet), "", "nothing comes of it");
        CHECK_I64(replica()->pages.held, 0, "now they are");
    }
}

/* Pages of 4; 8 hashed tokens are the same. The last token of a prompt is always computed, so of 8
 * tokens one page can be shared, of 9 two. */
static void a_cached_prefix_is_not_computed_again(void)
{
    static const uint64_t hashes[] = {5, 6, 5, 6, 5, 6};
    static const int64_t begin[] = {0, 2, 4, 6};
    for (int engine = 0; engine < KVT_ENGINE_COUNT; engine++) {
        fleet_begin(&fleet);
        struct kvt_replica_spec *spec = fleet_role(&fleet, KVT_ROLE_SERVE, (enum kvt_engine)engine);
        spec->prefix_cache = true;
        spec->chunk_tokens = 12;
        spec->batch_tokens = 12;
        fleet.spec.hash_begin = begin;
        fleet.spec.hashes = hashes;
        fleet.spec.block_tokens = 4;
        fleet_request(&fleet, 8, 1);
        fleet_request(&fleet, 8, 1);
        fleet_request(&fleet, 9, 1);
        fleet_build(&fleet);
        for (int32_t r = 0; r < 3; r++) {
            fleet_arrive(&fleet, r);
            fleet_run(&fleet, 0, 5);
        }
        CHECK_TEXT(fleet_told(&fleet),
                   "[0+8!] first0 done0 [1+4!] first1 done1 [2+1!] first2 done2", "new tokens");
        CHECK_I64(replica()->pages.cached, 2, "one copy of two pages");
        CHECK_I64(replica()->cached_tokens, 4 + 8, "found");
        CHECK_I64(replica()->prompt_tokens, 8 + 8 + 9, "asked for");
    }
}

static void write_down(void *context, const struct kvt_decision *decision)
{
    char *text = context;
    sprintf(text + strlen(text), "%s:%lld ",
            kvt_decision_name((enum kvt_decision_kind)decision->kind), (long long)decision->count);
}

/* 5 tokens in, 5 out, pages of 4: pages 0 and 1 for the prompt; the fourth token's KV needs one
 * more. The digest covers what is not about single pages. */
static void a_log_names_every_page(void)
{
    char text[1024] = "";
    fleet_begin(&fleet);
    fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_VLLM)->named = true;
    fleet_request(&fleet, 5, 5);
    fleet_build(&fleet);
    fleet.core.log.sink = write_down;
    fleet.core.log.context = text;
    fleet_arrive(&fleet, 0);
    fleet_run(&fleet, 0, 50);
    CHECK_TEXT(text, "ARRIVE:5 ROUTE:5 ADMIT:5 ALLOC:0 ALLOC:1 FIRST:5 ALLOC:2 FINISH:5 FREE:3 ",
               "in the order of decisions");
}

/* What each role needs, in whole pages of 4, to be able to serve a request at all. */
static void what_can_never_fit_is_refused(void)
{
    static const struct {
        const char *note;
        enum kvt_role role;
        enum kvt_engine engine;
        int32_t input, output, reserved, model_len;
        int64_t need;
    } rows[] = {
        {"vllm holds prompt and output", KVT_ROLE_SERVE, KVT_ENGINE_VLLM, 300, 97, 0, 9999, 400},
        {"vllm, a page too many", KVT_ROLE_SERVE, KVT_ENGINE_VLLM, 300, 101, 0, 9999, 404},
        {"sglang wants a page and a token beside", KVT_ROLE_SERVE, KVT_ENGINE_SGLANG, 300, 95, 0,
         9999, 400},
        {"sglang, one token too many", KVT_ROLE_SERVE, KVT_ENGINE_SGLANG, 300, 96, 0, 9999, 404},
        {"the model's own limit", KVT_ROLE_SERVE, KVT_ENGINE_VLLM, 30, 21, 0, 50, 51},
        {"at the model's own limit", KVT_ROLE_SERVE, KVT_ENGINE_VLLM, 30, 20, 0, 50, 52},
        {"decode keeps room in reserve", KVT_ROLE_DECODE, KVT_ENGINE_SGLANG, 300, 2, 101, 9999,
         404},
        {"decode holds prompt and output", KVT_ROLE_DECODE, KVT_ENGINE_SGLANG, 300, 100, 100, 9999,
         400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fleet_begin(&fleet);
        struct kvt_replica_spec *spec = fleet_role(&fleet, rows[i].role, rows[i].engine);
        spec->reserved_decode_tokens = rows[i].reserved;
        spec->max_model_len = rows[i].model_len;
        fleet.spec.decode_only = rows[i].role == KVT_ROLE_DECODE;
        fleet_request(&fleet, rows[i].input, rows[i].output);
        fleet_build(&fleet);
        int64_t need, have, limit = rows[i].model_len < 400 ? rows[i].model_len : 400;
        bool fits = kvt_core_can_serve(&fleet.core, 0, &need, &have);
        CHECK_I64(need, rows[i].need, rows[i].note);
        CHECK_I64(fits, need <= have, rows[i].note);
        fleet_arrive(&fleet, 0);
        fleet_run(&fleet, 0, 300);
        bool done = fleet.core.counts[0].completed == 1, refused = need > limit && !fits;
        CHECK_NOTE(fits ? done : refused && fleet.core.counts[0].rejected == 1, rows[i].note);
    }
}

static void routed(const char *note, const int32_t *want, int32_t count)
{
    for (int32_t r = 0; r < count; r++) {
        fleet_arrive(&fleet, r);
        CHECK_I64(fleet.core.requests[r].replica, want[r], note);
    }
}

static void a_router_chooses_as_it_says(void)
{
    static const int32_t input[] = {40, 12, 16, 8, 4, 4}, turns[] = {0, 1, 2, 0, 1, 2};
    /* 40 | 12 | 16; 8 to the 12: 20; 4 to the 16: 20; 4 to the lower number of two equal */
    static const int32_t least[] = {0, 1, 2, 1, 2, 1};
    for (int way = 0; way < 2; way++) {
        fleet_begin(&fleet);
        fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_VLLM);
        fleet.spec.replicas[KVT_ROLE_SERVE] = 3;
        fleet.spec.routers[KVT_ROLE_SERVE] =
            way == 0 ? KVT_ROUTER_ROUND_ROBIN : KVT_ROUTER_LEAST_TOKENS;
        for (size_t i = 0; i < sizeof input / sizeof input[0]; i++)
            fleet_request(&fleet, input[i], 1);
        fleet_request(&fleet, 4, 1);
        fleet_build(&fleet);
        routed(way == 0 ? "in turn" : "least tokens", way == 0 ? turns : least, 6);
        fleet_run(&fleet, 0, 50);
        fleet_arrive(&fleet, 6); /* replica 0 has nothing under way any more */
        CHECK_I64(fleet.core.requests[6].replica, 0, "next in turn, or the empty one");
    }
}

/* Replica 1 has 8 of request 2's 17 tokens: not half. It has 8 of request 3's 16: half. */
static void a_prefix_aware_router_goes_where_half_is_known(void)
{
    static const uint64_t hashes[] = {9, 9, 5, 6, 5, 6, 7, 8, 5, 6, 7, 3};
    static const int64_t begin[] = {0, 2, 4, 8, 12};
    fleet_begin(&fleet);
    fleet_role(&fleet, KVT_ROLE_SERVE, KVT_ENGINE_VLLM)->prefix_cache = true;
    fleet.spec.replicas[KVT_ROLE_SERVE] = 2;
    fleet.spec.routers[KVT_ROLE_SERVE] = KVT_ROUTER_PREFIX_AWARE;
    fleet.spec.hash_begin = begin;
    fleet.spec.hashes = hashes;
    fleet.spec.block_tokens = 4;
    fleet_request(&fleet, 8, 1);
    fleet_request(&fleet, 8, 1);
    fleet_request(&fleet, 17, 1);
    fleet_request(&fleet, 16, 1);
    fleet_build(&fleet);
    static const int32_t want[] = {0, 1};
    routed("nothing is known: least tokens", want, 2);
    fleet_run(&fleet, 0, 9);
    fleet_run(&fleet, 1, 9);
    fleet_arrive(&fleet, 2);
    CHECK_I64(fleet.core.requests[2].replica, 0, "less than half is known on replica 1");
    fleet_arrive(&fleet, 3);
    CHECK_I64(fleet.core.requests[3].replica, 1, "half is known on replica 1");
    fleet.core.replicas[1].load_tokens += 1000;
    CHECK_I64(kvt_router_choose(&fleet.core, KVT_ROLE_SERVE, 3), 1, "whatever the load in tokens");
    fleet.core.replicas[1].load_requests += 40; /* out of balance: more than 32 and 1.5 times */
    CHECK_I64(kvt_router_choose(&fleet.core, KVT_ROLE_SERVE, 3), 0, "least tokens instead");
    kvt_arena_release(&fleet.arena);
}

const struct check_test check_policy[] = {
    {"sglang computes prompts first, in chunks", sglang_computes_prompts_first_in_chunks, false},
    {"vllm mixes prompts with decode", vllm_mixes_prompts_with_decode, false},
    {"sglang admits against expected growth", sglang_admits_against_expected_growth, false},
    {"sglang retracts the shortest output", sglang_retracts_the_shortest_output, false},
    {"vllm preempts the latest, to the front", vllm_preempts_the_latest_to_the_front, false},
    {"vllm preempts an unfinished prompt first", vllm_preempts_an_unfinished_prompt_first, false},
    {"one step ahead runs once for nobody", one_step_ahead_runs_once_for_nobody, false},
    {"a cached prefix is not computed again", a_cached_prefix_is_not_computed_again, false},
    {"a log names every page", a_log_names_every_page, false},
    {"what can never fit is refused", what_can_never_fit_is_refused, false},
    {"a router chooses as it says", a_router_chooses_as_it_says, false},
    {"a prefix-aware router goes where half is known",
     a_prefix_aware_router_goes_where_half_is_known, false},
    {NULL, NULL, false},
};
