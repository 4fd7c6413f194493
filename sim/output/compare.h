/*
 * compare.h - two runs side by side: where their decisions part, what it did to the metrics
 *
 * Two runs are equal when they decided the same (equal digests, and equal logs where both have one)
 * and every metric and every column of every request is equal. Configuration and versions are
 * compared too, since they explain a difference, but do not make one.
 */
#ifndef KVT_OUTPUT_COMPARE_H
#define KVT_OUTPUT_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/output/pairs.h"
#include "sim/output/reader.h"

#define KVT_CONTEXT 3 /* records shown before and after a divergence */

struct kvt_comparison {
    struct kvt_run_reader runs[2]; /* A and B, open */
    bool logged[2];
    bool logs_equal;       /* true too where they cannot be compared */
    int64_t divergence;    /* index of the first record that differs, or -1 */
    int64_t context_first; /* of context[][0] */
    int32_t context_count[2];
    struct kvt_decision context[2][2 * KVT_CONTEXT + 1];
    int64_t request_count[2];
    int64_t requests_different; /* in a column that both have; rows that one run alone has, too */
    int64_t first_different;    /* index of the first such request, or -1 */
    struct kvt_pairs metrics, config, meta;
    bool equal;
};

/* Read and compare. Release in any case. */
enum kvt_status kvt_comparison_init(struct kvt_comparison *comparison, const char *path_a,
                                    const char *path_b, struct kvt_err *err);
void kvt_comparison_release(struct kvt_comparison *comparison);

enum kvt_status kvt_comparison_text(const struct kvt_comparison *comparison, FILE *file,
                                    struct kvt_err *err);
enum kvt_status kvt_comparison_json(const struct kvt_comparison *comparison, FILE *file,
                                    struct kvt_err *err);
enum kvt_status kvt_comparison_csv(const struct kvt_comparison *comparison, FILE *file,
                                   struct kvt_err *err);

#endif
