/*
 * handoff.pml - the hand-off of sim/serve/ as a model that spin checks
 *
 * One prefill and one decode replica, N requests of two pages: two chunks at prefill, two output
 * tokens. A transition is one call of the serving core, or one thing that the wire does:
 *
 *     arrive cancel plan_p commit_p plan_d commit_d done ack   calls of core.h
 *     early                                                    bytes leave before the chunk is
 *                                                              committed (stream: by-layer)
 *     land                                                     one piece is written
 *     lose                                                     the word that all has landed is lost
 *     crash restart                                            a node goes down with its requests
 *
 * Any order is possible that a driver could see: a piece may land long after its request went away.
 * A client may go away at any moment, or never does (patient), or has a long timeout: it goes away
 * once a word about its request was lost, which mends it. No word of a patient one is lost.
 *
 * What must hold:
 *   - no page is free, or another request's, while a write to it (decode) or a read of it (prefill)
 *     is under way: `hold` after every transition
 *   - no page is lost: free and held make the pool after every transition, and all are free in the
 *     end
 *   - nobody waits for ever: where nothing can happen any more every request is completed or
 *     aborted (the assertion at the end), and nothing happens for ever (pan -l: no cycle)
 *
 * A replica is planned only when the core has asked for it (awake), as the event loop does; so a
 * wake that the core forgets is a request that waits for ever. Pages have names here, to see who
 * writes where; which free page is taken is left open to the core (lifo, fifo).
 *
 * make spin checks all this, plants bugs (BUG_...) that must be found, and replays random walks of
 * this model through sim/serve/ (tests/test_handoff_model.c), which must agree after every
 * transition on the state that `state_now` prints. Size: N, PP, DP.
 */
#ifndef N
#define N 3
#endif
#ifndef PP
#define PP 3 /* pages of the prefill pool: one request and a half */
#endif
#ifndef DP
#define DP 4 /* of the decode pool: two requests */
#endif
#define NEED      2 /* pages, and chunks, of a request */
#define FULL(n)   ((1 << (n)) - 1)
#define LOWEST(m) ((m) & (~(m) + 1))
#define COUNT(m)  (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1) + (((m) >> 3) & 1))

/* enum kvt_request_state */
#define FUTURE    0
#define RESERVING 1
#define WAITING   2
#define PREFILL   3
#define SENDING   4
#define READY     5
#define RUNNING   6
#define COMPLETED 8
#define ABORTED   10
#define LIVE(r)   (state[r] != FUTURE && state[r] < COMPLETED)

byte state[N], computed[N];
byte home[N], away[N];   /* pages held, a bit each */
byte home_fences[N], away_fences[N];
bit home_releasing[N], away_releasing[N], in_transfer[N], draining[N];
byte free_p = FULL(PP), free_d = FULL(DP);
bit blocked_p, blocked_d, awake_p, awake_d, down_p, down_d;
byte chunked, step_p;    /* request + 1, or 0 */
bit step_d, early;       /* early: of the chunk in flight */
chan reserving = [N] of { byte };
chan waiting = [N] of { byte };
chan ready = [N] of { byte };

/* The wire and the world outside. */
byte wire[N];              /* pieces under way */
byte source[N], target[N]; /* pages that they are read from and written to */
bit closing[N], lost[N], delivered[N], acking[N], patient[N], slow[N];
byte arrived;
bit doomed, crashed;
hidden byte i, q;

inline hold()
{
    d_step {
        i = 0;
        do
        :: i < N ->
            assert(wire[i] == 0 || ((target[i] & free_d) == 0 && (source[i] & free_p) == 0));
            q = 0;
            do
            :: q < N ->
                assert(q == i || wire[i] == 0 ||
                       ((target[i] & away[q]) == 0 && (source[i] & home[q]) == 0));
                assert(q == i || ((home[i] & home[q]) == 0 && (away[i] & away[q]) == 0));
                q++
            :: else -> break
            od;
            assert((home[i] & free_p) == 0 && (away[i] & free_d) == 0);
            i++
        :: else -> break
        od;
        i = 0;
        q = 0;
        do
        :: i < N -> q = q + COUNT(home[i]); i++
        :: else -> break
        od;
        assert(q + COUNT(free_p) == PP);
        i = 0;
        q = 0;
        do
        :: i < N -> q = q + COUNT(away[i]); i++
        :: else -> break
        od;
        assert(q + COUNT(free_d) == DP);
        i = 0;
        q = 0
    }
}

/* What the core must show after the transition: per request state, pages and fences at prefill,
 * pages and fences at decode, in transfer; then per replica free pages, step in flight, blocked,
 * awake; the request whose prompt is under way. */
inline state_now()
{
    hold();
    d_step {
        printf(" =");
        i = 0;
        do
        :: i < N ->
            printf(" %d %d %d %d %d %d", state[i], COUNT(home[i]), home_fences[i], COUNT(away[i]),
                   away_fences[i], in_transfer[i]);
            i++
        :: else -> break
        od;
        printf(" %d %d %d %d", COUNT(free_p), step_p != 0, blocked_p, awake_p);
        printf(" %d %d %d %d %d\n", COUNT(free_d), step_d, blocked_d, awake_d, chunked - 1);
        i = 0
    }
}

/* ---- sim/serve/replica.c: giving pages back ---- */

inline release_home(r)
{
    if
    :: home_fences[r] > 0 -> home_releasing[r] = 1
    :: else ->
        home_releasing[r] = 0;
        free_p = free_p | home[r];
        home[r] = 0;
#ifndef BUG_NO_WAKE
        if
        :: blocked_p -> blocked_p = 0; awake_p = 1
        :: else
        fi
#endif
    fi
}

inline release_away(r)
{
    if
#ifdef BUG_FREE_ON_ABORT
    :: false -> skip
#else
    :: away_fences[r] > 0 -> away_releasing[r] = 1
#endif
    :: else ->
        away_releasing[r] = 0;
        free_d = free_d | away[r];
        away[r] = 0;
        if
        :: blocked_d -> blocked_d = 0; awake_d = 1
        :: else
        fi
    fi
}

inline unfence_home(r)
{
    home_fences[r]--;
    if
    :: home_fences[r] == 0 && home_releasing[r] -> release_home(r)
    :: else
    fi
}

inline unfence_away(r)
{
    away_fences[r]--;
    if
    :: away_fences[r] == 0 && away_releasing[r] -> release_away(r)
    :: else
    fi
}

/* ---- sim/serve/handoff.c ---- */

inline begin(r)
{
    if
    :: !in_transfer[r] ->
        in_transfer[r] = 1;
#ifndef BUG_FREE_BEFORE_ACK
        home_fences[r]++;
#endif
        away_fences[r]++;
        target[r] = away[r]
    :: else
    fi;
    source[r] = home[r]
}

inline transfer_done(r)
{
    if
    :: state[r] == SENDING -> state[r] = READY; ready!r; awake_d = 1
    :: else
    fi;
#ifdef BUG_LEAK
    away_fences[r]--;
#else
    unfence_away(r);
#endif
    delivered[r] = 1;
    acking[r] = 1
}

inline acknowledge(r)
{
    acking[r] = 0;
    in_transfer[r] = 0;
#ifndef BUG_FREE_BEFORE_ACK
    unfence_home(r)
#endif
}

/* ---- sim/serve/vllm.c at prefill: a chunk of one page a step, the prompt under way first ---- */

inline chunk(r)
{
    i = LOWEST(free_p);
    free_p = free_p & ~i;
    home[r] = home[r] | i;
    i = 0;
    home_fences[r]++;
    computed[r]++;
    step_p = r + 1;
    early = 0;
    chunked = (computed[r] == NEED -> 0 : r + 1)
}

inline plan_p()
{
    awake_p = 0;
    if
    :: chunked != 0 && free_p != 0 -> q = chunked - 1; chunk(q)
    :: chunked != 0 && free_p == 0 -> blocked_p = 1
    :: chunked == 0 && !blocked_p && nempty(waiting) && free_p != 0 ->
        waiting?q;
        state[q] = PREFILL;
        chunk(q)
    :: chunked == 0 && nempty(waiting) && (blocked_p || free_p == 0) -> blocked_p = 1
    :: chunked == 0 && empty(waiting) -> skip
    fi;
    q = 0
}

inline commit_p()
{
    q = step_p - 1;
    step_p = 0;
    awake_p = 1;
    if
    :: state[q] != ABORTED ->
        begin(q);
        wire[q]++;
        if
        :: computed[q] == NEED -> closing[q] = 1; state[q] = SENDING; release_home(q)
        :: else
        fi
    :: else
    fi;
    unfence_home(q);
    early = 0;
    q = 0
}

/* ---- sim/serve/decode.c ---- */

inline plan_d()
{
    awake_d = 0;
    do
    :: !blocked_d && nempty(reserving) && COUNT(free_d) >= NEED ->
        reserving?q;
        i = 0;
        do
        :: i < NEED ->
            away[q] = away[q] | LOWEST(free_d);
            free_d = free_d & ~LOWEST(free_d);
            i++
        :: else -> break
        od;
        i = 0;
        state[q] = WAITING;
        waiting!q;
        if
        :: !blocked_p -> awake_p = 1
        :: else
        fi
    :: !blocked_d && nempty(reserving) && COUNT(free_d) < NEED -> blocked_d = 1
    :: blocked_d || empty(reserving) -> break
    od;
    do
    :: nempty(ready) -> ready?q; state[q] = RUNNING; step_d = 1
    :: empty(ready) -> break
    od;
    if
    :: step_d || empty(reserving) -> skip
    :: !step_d && nempty(reserving) -> blocked_d = 1
    fi;
    q = 0
}

inline commit_d()
{
    step_d = 0;
    awake_d = 1;
    q = 0;
    do
    :: q < N ->
        if
        :: draining[q] -> draining[q] = 0; release_away(q)
        :: state[q] == RUNNING -> state[q] = COMPLETED; release_away(q)
        :: else
        fi;
        q++
    :: else -> break
    od;
    q = 0
}

/* ---- sim/serve/cancel.c, and what the driver does then: the rest of a flow is cut off, what is
 * under way still lands, and the end is told (again, where the word was lost) ---- */

inline cancel(r)
{
    if
    :: state[r] == RESERVING ->
        reserving?<i>; /* whoever stood behind the head may fit where it did not */
        if
        :: i == r -> blocked_d = 0; awake_d = 1
        :: else
        fi;
        i = 0;
        reserving??eval(r)
    :: state[r] == WAITING ->
        waiting?<i>; /* whoever stood behind the head may fit where it did not */
        if
        :: i == r -> blocked_p = 0; awake_p = 1
        :: else
        fi;
        i = 0;
        waiting??eval(r)
    :: state[r] == PREFILL ->
        chunked = (chunked == r + 1 -> 0 : chunked);
        if
        :: home[r] != 0 -> release_home(r)
        :: else
        fi
    :: state[r] == SENDING -> skip
    :: state[r] == READY -> ready??eval(r)
    :: state[r] == RUNNING ->
        blocked_d = 0;
        draining[r] = 1; /* it runs only while a step is in flight: its only one */
        awake_d = 1
    fi;
    if
    :: state[r] != RUNNING && away[r] != 0 -> release_away(r)
    :: else
    fi;
    state[r] = ABORTED;
    if
    :: in_transfer[r] -> closing[r] = 1; lost[r] = 0
    :: else
    fi
}

inline crash()
{
    crashed = 1;
    q = 0;
    do
    :: q < N ->
        if
        :: LIVE(q) -> cancel(q)
        :: else
        fi;
        q++
    :: else -> break
    od;
    q = 0
}

/* ---- what may happen ----
 * A random walk takes the next transition that is possible, from a random one on: the order below
 * gives the rare ones their share. */

#define CAN_DONE(r) (closing[r] && wire[r] == 0 && in_transfer[r] && !delivered[r] && !lost[r])

#define OF_REQUEST(r)                                                                              \
    :: atomic { CAN_DONE(r) && !patient[r] && state[r] == SENDING ->                               \
                printf("lose %d", r); lost[r] = 1; state_now() }                                   \
    :: atomic { LIVE(r) && !patient[r] && (lost[r] || !slow[r]) ->                                 \
                printf("cancel %d", r); cancel(r); state_now() }                                   \
    :: atomic { wire[r] > 0 -> printf("land %d", r); wire[r]--; state_now() }                      \
    :: atomic { CAN_DONE(r) -> printf("done %d", r); transfer_done(r); state_now() }               \
    :: atomic { acking[r] -> printf("ack %d", r); acknowledge(r); state_now() }

init {
    atomic {
        i = 0;
        do
        :: i < N ->
            if
            :: patient[i] = 1
            :: slow[i] = 1
            :: skip
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        if
        :: doomed = 1
        :: skip
        fi
    }
    do
    :: atomic { arrived < N ->
                printf("arrive %d", arrived);
                state[arrived] = RESERVING;
                reserving!arrived;
                arrived++;
                if
                :: !blocked_d -> awake_d = 1
                :: else
                fi;
                state_now() }
    :: atomic { awake_p && step_p == 0 && !down_p -> printf("plan_p 0"); plan_p(); state_now() }
    :: atomic { step_p != 0 -> printf("commit_p 0"); commit_p(); state_now() }
    :: atomic { awake_d && !step_d && !down_d -> printf("plan_d 0"); plan_d(); state_now() }
    :: atomic { step_d -> printf("commit_d 0"); commit_d(); state_now() }
    :: atomic { doomed && !crashed -> printf("crash 0"); crash(); down_p = 1; state_now() }
    :: atomic { doomed && !crashed -> printf("crash 1"); crash(); down_d = 1; state_now() }
    :: atomic { down_p -> printf("restart 0"); down_p = 0; awake_p = 1; state_now() }
    :: atomic { down_d -> printf("restart 1"); down_d = 0; awake_d = 1; state_now() }
    :: atomic { step_p != 0 && !early && state[step_p - 1] == PREFILL ->
                printf("early %d", step_p - 1);
                early = 1;
                q = step_p - 1;
                begin(q);
                wire[q]++;
                q = 0;
                state_now() }
    OF_REQUEST(0)
    OF_REQUEST(1)
#if N > 2
    OF_REQUEST(2)
#endif
    :: else -> break
    od;
    atomic {
        printf("end 0");
        i = 0;
        do
        :: i < N -> assert(state[i] == COMPLETED || state[i] == ABORTED); i++
        :: else -> break
        od;
        i = 0;
        assert(free_p == FULL(PP) && free_d == FULL(DP));
        state_now()
    }
}
