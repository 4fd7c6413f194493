/*
 * parts.h - what the files of sim/output share among themselves
 */
#ifndef KVT_OUTPUT_PARTS_H
#define KVT_OUTPUT_PARTS_H

#include "sim/output/summary.h"

/* "ttft" and "TTFT", by enum kvt_latency. */
extern const char *const kvt_latency_keys[KVT_LATENCY_COUNT];
extern const char *const kvt_latency_labels[KVT_LATENCY_COUNT];

/* What each latency is shown by, in this order: metrics are called mean_ttft_ms, p90_itl_ms ... */
#define KVT_STATISTICS 4
extern const char *const kvt_statistic_keys[KVT_STATISTICS];

#ifndef KVT_VERSION
#define KVT_VERSION "0"
#endif

#define KVT_TIMINGS_MAX 12

/* The timing as metrics; none unless it is to be shown. Read when printed, since the wall time
 * runs on while outputs are written. Returns how many. */
int32_t kvt_timing_list(const struct kvt_result *result, struct kvt_metric out[KVT_TIMINGS_MAX]);

#endif
