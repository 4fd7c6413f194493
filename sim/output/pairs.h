/*
 * pairs.h - named values of two runs, matched by name
 *
 * Side 0 is added first and gives the order; what only side 1 has follows. Values are compared as
 * they are printed: two numbers that print alike are equal.
 */
#ifndef KVT_OUTPUT_PAIRS_H
#define KVT_OUTPUT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

/* A key that one run or both have: of a metric, of the configuration, of /meta. */
struct kvt_pair {
    char *name;    /* owned */
    char *text[2]; /* owned; NULL where that run has none */
    bool is_number;
    double number[2];
    bool equal;
};

struct kvt_pairs {
    int32_t count;
    int32_t different;      /* pairs that are not equal; set by kvt_pairs_judge */
    int32_t next;           /* where the next look-up begins */
    struct kvt_pair *pairs; /* owned */
    int64_t room;
};

/* The value of name on this side; number is NULL for a text. Both are copied. Of a name that a side
 * has several times the first goes with the other side's first. */
enum kvt_status kvt_pairs_add(struct kvt_pairs *pairs, int side, const char *name, const char *text,
                              const double *number, struct kvt_err *err);

/* Every scalar of a YAML text under its path ("fleet.decode.kv", "choices[2]"). file names the text
 * in messages. */
enum kvt_status kvt_pairs_add_yaml(struct kvt_pairs *pairs, int side, const char *file,
                                   const char *yaml, struct kvt_err *err);

/* Compare when both sides are in. The ends of an interval (name_low, name_high) that one run has
 * and the other was not asked for are dropped. */
void kvt_pairs_judge(struct kvt_pairs *pairs);

void kvt_pairs_release(struct kvt_pairs *pairs);

#endif
