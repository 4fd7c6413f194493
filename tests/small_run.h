/*
 * small_run.h - a run by hand, times in ms. Warm-up ends at 10, so request 0 is not counted.
 *   request   arrival  first  finish  input  output  fate
 *      0         0       50     150     100     5    completed, not counted
 *      1        10       60     260     200     5    completed: TTFT 50, TPOT 50, E2EL 250
 *      2        20      140     140     300     1    completed: TTFT 120, no TPOT, E2EL 120
 *      3        30        -       -  999999     9    rejected
 *      4        40       70       -     400     7    running at the end
 *      5        50      100     130     500     4    completed: TTFT 50, TPOT 10, E2EL 80
 *      6        55        -       -     600     2    aborted
 *      7     never        -       -     700     2    pending
 * Duration: 10 to 260 = 0.25 s. Completed 3: 12 req/s. Tokens in 1000, out 10.
 * SLO: TTFT p90 <= 100, ITL p99 <= 20. Goodput: request 5 alone, 4 req/s.
 */
#ifndef KVT_TESTS_SMALL_RUN_H
#define KVT_TESTS_SMALL_RUN_H

#include "sim/output/summary.h"

enum { SMALL_RUN_ROWS = 8 };

/* What result points to; a test may change it and summarise again. */
struct small_run {
    struct kvt_arena arena;
    kvt_ticks arrival[SMALL_RUN_ROWS], first[SMALL_RUN_ROWS], finish[SMALL_RUN_ROWS];
    struct kvt_histogram itl;
    struct kvt_series series[2];
    struct kvt_result_replica replicas[2];
    struct kvt_result result;
    struct kvt_summary summary;
};

void small_run_begin(struct small_run *run);
void small_run_end(struct small_run *run);

/* Summarise again what a test changed in result. */
void small_run_summarise(struct small_run *run);

#endif
