#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/fleet.h"

enum { PREFILL, DECODE }; /* the ids of the two replicas */

static struct fleet fleet;

static const struct kvt_pages *pool(int32_t replica)
{
    return &fleet.core.replicas[replica].pages;
}

static enum kvt_request_state state_of(int32_t r)
{
    return (enum kvt_request_state)fleet.core.requests[r].state;
}

static void two_roles(enum kvt_engine engine)
{
    fleet_begin(&fleet);
    fleet_role(&fleet, KVT_ROLE_PREFILL, engine);
    fleet_role(&fleet, KVT_ROLE_DECODE, engine);
}

/*
 * What happens, a letter each, to request r:
 *   a arrives  x is cancelled  t its transfer is done  k is acknowledged
 *   p prefill plans  P prefill commits  d decode plans  D decode commits
 */
static void play(const char *script, int32_t r)
{
    for (const char *c = script; *c != '\0'; c++) {
        switch (*c) {
        case 'a':
            kvt_core_arrive(&fleet.core, r);
            break;
        case 'x':
            kvt_core_cancel(&fleet.core, r);
            break;
        case 't':
            kvt_core_transfer_done(&fleet.core, r);
            break;
        case 'k':
            kvt_core_acknowledge(&fleet.core, r);
            break;
        case 'p':
        case 'd':
            (void)fleet_plan(&fleet, *c == 'p' ? PREFILL : DECODE);
            break;
        case 'P':
        case 'D':
            fleet_commit(&fleet, *c == 'P' ? PREFILL : DECODE);
            break;
        default:
            CHECK_NOTE(*c == ' ', script);
        }
        fleet_effects(&fleet);
    }
}

/* 12 tokens in, 3 out, chunks of 8, pages of 4: what each side holds after each message. */
static void decode_reserves_and_prefill_holds_until_it_hears(void)
{
    static const struct {
        const char *note, *script, *told;
        enum kvt_request_state state;
        int32_t prefill, decode; /* pages held */
    } rows[] = {
        {"nothing is computed before pages are reserved", "a p", "", KVT_REQUEST_RESERVING, 0, 0},
        {"decode reserves the prompt's pages", "d", "", KVT_REQUEST_WAITING, 0, 3},
        {"prefill takes pages as it goes", "p", "[0+8]", KVT_REQUEST_PREFILL, 2, 3},
        {"the first piece leaves with the first chunk", "P", "send0:8", KVT_REQUEST_PREFILL, 2, 3},
        {"the last piece", "p P", "[0+4!] send0:4! first0", KVT_REQUEST_SENDING, 3, 3},
        {"decode has it, prefill has not heard", "t", "ack0", KVT_REQUEST_READY, 3, 3},
        {"decode may run before prefill hears", "d D", "[d1@13]", KVT_REQUEST_RUNNING, 3, 4},
        {"the acknowledgement frees prefill's pages", "k", "", KVT_REQUEST_RUNNING, 0, 4},
        {"the last token frees decode's", "d D", "[d1@14] done0", KVT_REQUEST_COMPLETED, 0, 0},
    };
    for (int engine = 0; engine < KVT_ENGINE_COUNT; engine++) {
        two_roles((enum kvt_engine)engine);
        fleet_request(&fleet, 12, 3);
        fleet_build(&fleet);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            play(rows[i].script, 0);
            CHECK_TEXT(fleet_told(&fleet), rows[i].told, rows[i].note);
            CHECK_I64(state_of(0), rows[i].state, rows[i].note);
            CHECK_I64(pool(PREFILL)->held, rows[i].prefill, rows[i].note);
            CHECK_I64(pool(DECODE)->held, rows[i].decode, rows[i].note);
        }
    }
}

static void nothing_is_left_over(const char *note, int64_t aborted)
{
    const struct kvt_core *core = &fleet.core;
    CHECK_I64(core->live, 0, note);
    CHECK_I64(core->counts[0].aborted, aborted, note);
    CHECK_I64(core->counts[0].completed, core->counts[0].arrived - aborted, note);
    for (int32_t i = 0; i < core->replica_count; i++) {
        const struct kvt_replica *replica = &core->replicas[i];
        CHECK_I64(replica->pages.held, 0, note);
        CHECK_I64(replica->load_tokens + replica->load_requests, 0, note);
        CHECK_I64(replica->expected + replica->chunked, KVT_NONE, note);
        CHECK_I64(replica->waiting.count + replica->reserving.count + replica->ready.count +
                      replica->retracted.count + replica->draining.count +
                      replica->batch.members.count,
                  0, note);
    }
    for (int32_t r = 0; r < core->request_count; r++)
        CHECK_I64(core->requests[r].home.fences + core->requests[r].away.fences, 0, note);
}

/* The driver closes the flow of a request that goes away; what was on the link still arrives. */
static void a_cancel_in_any_state_leaves_the_pools_whole(void)
{
    static const struct {
        const char *note, *before;
        enum kvt_request_state state;
        const char *after;
        bool aborts;
    } rows[] = {
        {"not here yet", "", KVT_REQUEST_FUTURE, "a d p P p P t d D k d D", false},
        {"waits for pages", "a", KVT_REQUEST_RESERVING, "d p", true},
        {"waits for prefill", "a d", KVT_REQUEST_WAITING, "p d", true},
        {"its first chunk runs", "a d p", KVT_REQUEST_PREFILL, "P p", true},
        {"between two chunks, a piece on the link", "a d p P", KVT_REQUEST_PREFILL, "p t k", true},
        {"its last chunk runs, a piece on the link", "a d p P p", KVT_REQUEST_PREFILL, "P t k",
         true},
        {"the same, the link is faster", "a d p P p", KVT_REQUEST_PREFILL, "t P k", true},
        {"the same, the acknowledgement too", "a d p P p", KVT_REQUEST_PREFILL, "t k P", true},
        {"all on the link", "a d p P p P", KVT_REQUEST_SENDING, "t k", true},
        {"arrived, not acknowledged", "a d p P p P t", KVT_REQUEST_READY, "d k", true},
        {"arrived and acknowledged", "a d p P p P t k", KVT_REQUEST_READY, "d", true},
        {"in a step, not acknowledged", "a d p P p P t d", KVT_REQUEST_RUNNING, "D k", true},
        {"in a step", "a d p P p P t k d", KVT_REQUEST_RUNNING, "D d", true},
        {"between two steps", "a d p P p P t k d D", KVT_REQUEST_RUNNING, "d", true},
        {"done", "a d p P p P t k d D d D", KVT_REQUEST_COMPLETED, "", false},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        size_t row = i / 2;
        two_roles(i % 2 == 0 ? KVT_ENGINE_SGLANG : KVT_ENGINE_VLLM);
        fleet_request(&fleet, 12, 3);
        fleet.roles[PREFILL].named = fleet.roles[DECODE].named = true;
        fleet_build(&fleet);
        play(rows[row].before, 0);
        CHECK_I64(state_of(0), rows[row].state, rows[row].note);
        (void)fleet_told(&fleet);
        play("x", 0);
        CHECK_TEXT(fleet_told(&fleet), rows[row].aborts ? "gone0" : "", rows[row].note);
        play("x", 0);
        CHECK_TEXT(fleet_told(&fleet), "", "a second time is once too often");
        play(rows[row].after, 0);
        nothing_is_left_over(rows[row].note, rows[row].aborts);
    }
}

/* One step ahead: the step that was planned with the request in it runs for nobody. */
static void a_cancel_waits_for_the_steps_that_know_the_request(void)
{
    two_roles(KVT_ENGINE_SGLANG);
    fleet.roles[DECODE].overlap = true;
    fleet.roles[DECODE].named = true;
    fleet_request(&fleet, 12, 9);
    fleet_build(&fleet);
    play("a d p P p P t k d d", 0);
    CHECK_I64(fleet.core.replicas[DECODE].in_flight, 2, "two steps planned");
    play("x", 0);
    CHECK_I64(pool(DECODE)->held, 4, "both may still read and write");
    play("D", 0);
    CHECK_I64(pool(DECODE)->held, 4, "the second one still may");
    play("D", 0);
    nothing_is_left_over("after both", 1);
}

/* A single output token comes from prefill, but its KV is on the way already. */
static void one_output_token_ends_at_prefill(void)
{
    two_roles(KVT_ENGINE_SGLANG);
    fleet_request(&fleet, 12, 1);
    fleet_build(&fleet);
    play("a d p P p P", 0);
    CHECK_TEXT(fleet_told(&fleet), "[0+8] send0:8 [0+4!] send0:4! first0 done0", "at prefill");
    CHECK_I64(pool(PREFILL)->held, 3, "the transfer still reads");
    CHECK_I64(pool(DECODE)->held, 3, "and writes");
    play("t", 0);
    CHECK_I64(pool(DECODE)->held, 0, "written");
    play("k d", 0);
    CHECK_TEXT(fleet_told(&fleet), "ack0", "nothing decodes");
    nothing_is_left_over("one token", 0);
}

/*
 * Decode has 4 pages of 4. Requests 0 (4 in, 12 out) and 1 (4 in, 8 out) fill them; at contexts 8
 * both want a page and have made 5 tokens: the later one is pushed out to host memory. While it is
 * there nothing new is reserved (request 2); it comes back first, when request 0 is done, and its 8
 * tokens are copied, not computed.
 */
static void a_retracted_request_comes_back_before_new_ones(void)
{
    two_roles(KVT_ENGINE_SGLANG);
    fleet.roles[DECODE].pages = 4;
    fleet_request(&fleet, 4, 12);
    fleet_request(&fleet, 4, 8);
    fleet_request(&fleet, 4, 2);
    fleet_build(&fleet);
    play("a", 0);
    play("a d p P", 1);
    CHECK_TEXT(fleet_told(&fleet), "[0+4! 1+4!] send0:4! first0 send1:4! first1", "prefill");
    play("t k", 0);
    play("t k d D d D d D d D", 1);
    CHECK_TEXT(fleet_told(&fleet), "ack0 ack1 [d2@10] [d2@12] [d2@14] [d2@16]", "together");
    play("d D a", 2);
    CHECK_TEXT(fleet_told(&fleet), "out1 [d1@9]", "the later one");
    CHECK_I64(state_of(1), KVT_REQUEST_RETRACTED, "in host memory");
    play("d D d D d D d D d D d D", 0);
    CHECK_TEXT(fleet_told(&fleet), "[d1@10] [d1@11] [d1@12] [d1@13] [d1@14] [d1@15] done0",
               "the other one goes on alone");
    CHECK_I64(state_of(2), KVT_REQUEST_RESERVING, "nothing new in the meantime");
    CHECK(fleet_plan(&fleet, DECODE));
    CHECK_I64(fleet.core.replicas[DECODE].steps[fleet.core.replicas[DECODE].oldest].copied_tokens,
              8, "KV is copied back");
    CHECK_I64(state_of(1), KVT_REQUEST_RUNNING, "back");
    CHECK_I64(state_of(2), KVT_REQUEST_WAITING, "then the new one");
    play("D d D d D p P t k d D", 2);
    CHECK_TEXT(fleet_told(&fleet),
               "[d1@9] [d1@10] [d1@11] done1 [2+4!] send2:4! first2 ack2 [d1@5] done2",
               "to the end");
    nothing_is_left_over("three requests", 0);
}

/*
 * Decode has 4 pages of 4. Request 0 (4 in, 12 out) runs; request 1 (8 in, 4 out) has reserved 2
 * pages and is being computed. At context 8 request 0 wants a third page: it is alone, but another
 * one holds what it lacks and can run without it. It goes to host memory, and comes back when
 * request 1 is done.
 */
static void the_last_one_makes_room_for_one_on_its_way(void)
{
    two_roles(KVT_ENGINE_SGLANG);
    fleet.roles[DECODE].pages = 4;
    fleet_request(&fleet, 4, 12);
    fleet_request(&fleet, 8, 4);
    fleet_build(&fleet);
    play("a", 0);
    play("a d p P p", 1);
    play("t k dD dD dD dD d", 0);
    CHECK_TEXT(fleet_told(&fleet),
               "[0+4! 1+4] send0:4! first0 send1:4 [1+4!] ack0 [d1@5] [d1@6] [d1@7] [d1@8] out0",
               "alone");
    play("P t k dD dD dD dD", 1);
    CHECK_TEXT(fleet_told(&fleet), "send1:4! first1 ack1 [d1@9] [d1@10] [d1@11] done1 [d1@9]",
               "and back");
    CHECK_I64(state_of(0), KVT_REQUEST_RUNNING, "where it was");
}

static void a_cancel_in_host_memory_leaves_the_pools_whole(void)
{
    two_roles(KVT_ENGINE_SGLANG);
    fleet.roles[DECODE].pages = 4;
    fleet_request(&fleet, 4, 12);
    fleet_request(&fleet, 4, 8);
    fleet_build(&fleet);
    play("a", 0);
    play("a d p P", 1);
    play("t k", 0);
    play("t k dD dD dD dD dD", 1);
    CHECK_I64(state_of(1), KVT_REQUEST_RETRACTED, "in host memory");
    play("x", 1);
    play("dD dD dD dD dD dD d", 0);
    nothing_is_left_over("one of two", 1);
}

/* The head of a queue that does not fit holds up those behind it; when it goes away they may go. */
static void a_cancelled_head_lets_the_next_one_in(void)
{
    for (int engine = 0; engine < KVT_ENGINE_COUNT; engine++) {
        fleet_begin(&fleet);
        struct kvt_replica_spec *spec = fleet_role(&fleet, KVT_ROLE_SERVE, (enum kvt_engine)engine);
        spec->pages = 10;
        spec->chunk_tokens = spec->batch_tokens = 40;
        spec->max_running = 4;
        fleet_request(&fleet, 16, 10);
        fleet_request(&fleet, 28, 4);
        fleet_request(&fleet, 4, 2);
        fleet_build(&fleet);
        fleet_arrive(&fleet, 0);
        fleet_run(&fleet, 0, 1);
        fleet_arrive(&fleet, 1);
        fleet_arrive(&fleet, 2);
        fleet_run(&fleet, 0, 1);
        CHECK_TEXT(fleet_told(&fleet), "[0+16!] first0 [d1@17]", "request 1 does not fit");
        kvt_core_cancel(&fleet.core, 1);
        fleet_effects(&fleet);
        fleet_run(&fleet, 0, 1);
        CHECK_TEXT(fleet_told(&fleet),
                   engine == KVT_ENGINE_VLLM ? "gone1 [2+4! d1@18] first2" : "gone1 [2+4!] first2",
                   "request 2 does");
    }
    two_roles(KVT_ENGINE_SGLANG);
    fleet.roles[DECODE].pages = 10;
    fleet_request(&fleet, 16, 10);
    fleet_request(&fleet, 28, 4);
    fleet_request(&fleet, 4, 2);
    fleet_build(&fleet);
    for (int32_t r = 0; r < 3; r++)
        play("a", r);
    play("d", 0);
    CHECK_I64(state_of(1), KVT_REQUEST_RESERVING, "does not fit");
    play("x d", 1);
    CHECK_I64(state_of(2), KVT_REQUEST_WAITING, "does");
    kvt_arena_release(&fleet.arena);
}

const struct check_test check_handoff[] = {
    {"decode reserves, prefill holds until it hears",
     decode_reserves_and_prefill_holds_until_it_hears, false},
    {"a cancel in any state leaves the pools whole", a_cancel_in_any_state_leaves_the_pools_whole,
     false},
    {"a cancel waits for the steps that know the request",
     a_cancel_waits_for_the_steps_that_know_the_request, false},
    {"one output token ends at prefill", one_output_token_ends_at_prefill, false},
    {"a retracted request comes back before new ones",
     a_retracted_request_comes_back_before_new_ones, false},
    {"the last one makes room for one on its way", the_last_one_makes_room_for_one_on_its_way,
     false},
    {"a cancel in host memory leaves the pools whole",
     a_cancel_in_host_memory_leaves_the_pools_whole, false},
    {"a cancelled head lets the next one in", a_cancelled_head_lets_the_next_one_in, false},
    {NULL, NULL, false},
};
