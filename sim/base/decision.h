/*
 * decision.h - what the serving core decided, in order: the run's digest and its log
 *
 * A decision changes the state of a request or of the pages it holds. Steps and passed checks are
 * not decisions. Every decision goes into a 64-bit digest, so that two runs with equal digests
 * decided the same at the same simulated times. The first promise of the program is: same config,
 * seed and version, same digest - at any optimisation level, with either compiler, with macro-steps
 * or exact steps, with or without a log.
 *
 * Page-level records (ALLOC of growth pages, WRITE, CHECK, page ids) exist only in the log: a run
 * that nobody watches need not name its pages, so they cannot be part of the digest.
 */
#ifndef KVT_BASE_DECISION_H
#define KVT_BASE_DECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/ticks.h"

/* clang-format off */
#define KVT_DECISIONS(X)                                                                     \
    X(ARRIVE,     true,  "a request reached the router; count is its input tokens")          \
    X(ROUTE,      true,  "the router chose the replica; count is its input tokens")          \
    X(REJECT,     true,  "a request can never fit; count is the tokens it would need")       \
    X(RESERVE,    true,  "decode reserved pages before prefill started; count is the pages") \
    X(SHARE,      true,  "a prefix hit: count pages are shared instead of computed")         \
    X(ADMIT,      true,  "a request, or its next chunk, joined a step; count is its new tokens")\
    X(ALLOC,      false, "a page was taken; count is the page")                              \
    X(WRITE,      false, "a page is written by a step or a transfer; count is the page")     \
    X(CHECK,      false, "a guard looked at a page and passed it; count is the page")        \
    X(FIRST,      true,  "the first output token; count is the context")                     \
    X(SEND,       true,  "prefill started to send; count is the tokens of the piece")        \
    X(RECV,       true,  "decode has the whole KV; count is the pages")                      \
    X(ACK,        true,  "prefill let go of its pages; count is the pages")                  \
    X(PREEMPT,    true,  "a running request lost its pages; count is the pages")             \
    X(RESUME,     true,  "a retracted request came back; count is the pages")                \
    X(FINISH,     true,  "the last output token; count is the output tokens")                \
    X(FREE,       true,  "a request's pages were given back; count is the pages")            \
    X(EVICT,      true,  "cached pages were dropped; count is the pages")                    \
    X(ABORT,      true,  "a request was cancelled; count is the output tokens so far")       \
    X(INJECT,     true,  "a fault struck; count is the page or node")                        \
    X(CHECK_MISS, true,  "a guard found a bad page; count is the page")                      \
    X(ESCAPE,     true,  "a token was computed from bad bytes; count is the page")           \
    X(QUARANTINE, true,  "a page was taken out of service; count is the page")
/* clang-format on */

enum kvt_decision_kind {
#define X(name, digested, text) KVT_DECIDE_##name,
    KVT_DECISIONS(X)
#undef X
        KVT_DECISION_KINDS
};

struct kvt_decision {
    kvt_ticks time;
    int64_t count;   /* what it counts is said above, per kind */
    int32_t request; /* index in the trace; -1 for none */
    int16_t replica; /* over the whole fleet; -1 for the router */
    int16_t kind;    /* enum kvt_decision_kind */
};

/* The digest of an empty run. */
#define KVT_DIGEST_START UINT64_C(0x6b767477696e0001)

/* Fold one more word into a digest (a murmur-style mix: order matters, every bit spreads). */
static inline uint64_t kvt_digest_add(uint64_t digest, uint64_t word)
{
    digest ^= word * UINT64_C(0x9e3779b97f4a7c15);
    digest = (digest << 31 | digest >> 33) * UINT64_C(0xbf58476d1ce4e5b9);
    return digest ^ digest >> 29;
}

static inline uint64_t kvt_digest_decision(uint64_t digest, const struct kvt_decision *decision)
{
    digest = kvt_digest_add(digest, (uint64_t)decision->time);
    digest = kvt_digest_add(digest, (uint64_t)decision->count);
    return kvt_digest_add(digest, (uint64_t)(uint32_t)decision->request << 32 |
                                      (uint64_t)(uint16_t)decision->replica << 16 |
                                      (uint64_t)(uint16_t)decision->kind);
}

/* "ARRIVE", "ROUTE", ... */
const char *kvt_decision_name(enum kvt_decision_kind kind);

/* Whether the kind is part of the digest. */
bool kvt_decision_is_digested(enum kvt_decision_kind kind);

#endif
