/*
 * parts.h - what the files of sim/output share among themselves
 */
#ifndef KVT_OUTPUT_PARTS_H
#define KVT_OUTPUT_PARTS_H

#include <jansson.h>

#include "sim/output/summary.h"

/* "ttft" and "TTFT", by enum kvt_latency. */
extern const char *const kvt_latency_keys[KVT_LATENCY_COUNT];
extern const char *const kvt_latency_labels[KVT_LATENCY_COUNT];

#ifndef KVT_VERSION
#define KVT_VERSION "0"
#endif

/* Paths and what damaged files hold need not be UTF-8, as JSON must be: then only ASCII is kept.
 * Nor need numbers be finite: then null. */
json_t *kvt_json_text(const char *text);
json_t *kvt_json_real(double value);

#define KVT_TIMINGS_MAX 12

/* The timing as metrics; none unless it is to be shown. Read when printed, since the wall time
 * runs on while outputs are written. Returns how many. */
int32_t kvt_timing_list(const struct kvt_result *result, struct kvt_metric out[KVT_TIMINGS_MAX]);

#endif
