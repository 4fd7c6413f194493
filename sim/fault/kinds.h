/*
 * kinds.h - what can go wrong with KV pages, and how it ends
 *
 * Fourteen classes, F1 to F14, each in one or more variants. A strike has a time, a target (or
 * none: one is drawn from the strike's own stream), and two numbers whose meaning is the variant's.
 * Armed ones (*) wait from their time on for the first event that fits.
 *
 * premature-free/step does harm only where prefill and transfer of a whole prompt fit into the
 * decode step in flight (a small prompt, a fast prefill, a slow decode GPU). Otherwise the write is
 * over before anything of the new owner is there: a decode replica reserves pages before prefill
 * starts, and where one replica does both, the new owner's prompt runs in a later step.
 *
 *    class, variant           what happens                              amount       delay
 *  1 stale-reader page        reads a page that was its own once        generations  age of it
 *  2 premature-free sender *  prefill's pages go back while they are being sent
 *                   step *    finished; pages go back, a step writes on
 *  3 late-write transfer *    aborts in transfer; pages go back, the    share late   until it
 *                             rest of the bytes lands later                          lands
 *              abort *        the same, when a client goes away          share late   until it
 *                             by itself in transfer                                  lands
 *  4 wrong-map swap           two entries of its page table change places
 *              foreign        an entry names a page of another request
 *              next           an entry names the page after its own
 *  5 prefix-poison entry      a cached page holds another text
 *  6 double-free page *       a page that is held is handed out again
 *  7 leak page                free pages are lost                       pages
 *  8 partial-transfer early * read before the rest has landed           share in     until then
 *                     lost *  the rest never lands                      share in
 *  9 message-fault lost-done *   decode never hears of a transfer's end
 *                  lost-ack *    prefill never hears that it may let go
 *                  duplicate *   decode hears of it twice
 *                  misdirected * decode takes it for another request's
 * 10 residue nan *            a new page keeps old bytes that are read
 * 11 bit-flip kv              bits of a page                            bits
 *             table           a bit of an entry of a page table         which bit    (node down)
 *             tag             the tag of a page
 * 12 node-fault crash         a replica loses everything                             down for
 *               slow          its steps take longer                     factor       for so long
 * 13 liveness withheld        free pages wait for acknowledgements      share        for so long
 * 14 false-alarm alarm        a guard fires without a cause
 */
#ifndef KVT_FAULT_KINDS_H
#define KVT_FAULT_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/names.h"
#include "sim/base/ticks.h"

/* clang-format off */
/* Variant, its class, its name, defaults of amount and delay (s), and why it cannot be carried out
 * on real memory (NULL: runtime/strike.h can). */
#define KVT_FAULT_VARIANTS(X)                                                \
    X(STALE_PAGE,        STALE_READER,     "page",        1,   1,    NULL)   \
    X(FREE_SENDER,       PREMATURE_FREE,   "sender",      0,   0,    NULL)   \
    X(FREE_STEP,         PREMATURE_FREE,   "step",        0,   0,    NULL)   \
    X(WRITE_TRANSFER,    LATE_WRITE,       "transfer",    0.5, 6,    NULL)   \
    X(WRITE_ABORT,       LATE_WRITE,       "abort",       0.5, 6,    NULL)   \
    X(MAP_SWAP,          WRONG_MAP,        "swap",        0,   0,    NULL)   \
    X(MAP_FOREIGN,       WRONG_MAP,        "foreign",     0,   0,    NULL)   \
    X(MAP_NEXT,          WRONG_MAP,        "next",        0,   0,    NULL)   \
    X(POISON_ENTRY,      PREFIX_POISON,    "entry",       0,   0,    NULL)   \
    X(FREE_TWICE,        DOUBLE_FREE,      "page",        0,   0,    NULL)   \
    X(LEAK_PAGE,         LEAK,             "page",        1,   0,    NULL)   \
    X(PARTIAL_EARLY,     PARTIAL_TRANSFER, "early",       0.5, 0.05, NULL)   \
    X(PARTIAL_LOST,      PARTIAL_TRANSFER, "lost",        0.5, 0,    NULL)   \
    X(MESSAGE_DONE,      MESSAGE_FAULT,    "lost-done",   0,   0,    NULL)   \
    X(MESSAGE_ACK,       MESSAGE_FAULT,    "lost-ack",    0,   0,    NULL)   \
    X(MESSAGE_TWICE,     MESSAGE_FAULT,    "duplicate",   0,   0,    NULL)   \
    X(MESSAGE_OTHER,     MESSAGE_FAULT,    "misdirected", 0,   0,    NULL)   \
    X(RESIDUE_NAN,       RESIDUE,          "nan",         0,   0,    NULL)   \
    X(FLIP_KV,           BIT_FLIP,         "kv",          1,   0,    NULL)   \
    X(FLIP_TABLE,        BIT_FLIP,         "table",       0,   0,    NULL)   \
    X(FLIP_TAG,          BIT_FLIP,         "tag",         1,   0,    NULL)   \
    X(NODE_CRASH,        NODE_FAULT,       "crash",       0,   30,   NULL)   \
    X(NODE_SLOW,         NODE_FAULT,       "slow",        3,   30,           \
      "steps take the simulated time: a slow node changes no byte or table") \
    X(LIVENESS_WITHHELD, LIVENESS,         "withheld",    0.9, 30,   NULL)   \
    X(ALARM,             FALSE_ALARM,      "alarm",       0,   0,    NULL)
/* clang-format on */

#define X(name, kind, text, amount, delay, unreal) KVT_STRIKE_##name,
enum kvt_fault_variant { KVT_FAULT_VARIANTS(X) KVT_STRIKE_COUNT };
#undef X

struct kvt_fault_variant_info {
    enum kvt_fault_kind kind;
    const char *name;
    double amount, delay_s; /* defaults */
    const char *unreal;     /* why not on real memory, or NULL */
};

extern const bool kvt_fault_is_armed[KVT_FAULT_COUNT];
extern const struct kvt_fault_variant_info kvt_fault_variants[KVT_STRIKE_COUNT];

/* One fault of a plan. */
struct kvt_strike {
    kvt_ticks time;
    int32_t row;                    /* of the plan it was written in; 0 */
    int32_t variant;                /* enum kvt_fault_variant */
    int32_t replica, request, page; /* KVT_NONE: drawn when it strikes; page: number in the pool */
    double amount;
    kvt_ticks delay;
    kvt_ticks mean; /* delay was drawn from an exponential distribution of it; 0: it was not */
};

#endif
