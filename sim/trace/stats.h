/*
 * stats.h - what a trace looks like: rate, burstiness, lengths, shared blocks
 *
 * Quantiles interpolate between the two nearest values, as numpy does. A block is reusable when an
 * earlier request had the same hash after the same hashes, so this is what a prefix cache that
 * never evicts would serve.
 */
#ifndef KVT_TRACE_STATS_H
#define KVT_TRACE_STATS_H

#include "sim/trace/trace.h"

struct kvt_length_stats {
    double mean, p50, p90, p99, max; /* tokens */
    int64_t total;
};

struct kvt_trace_stats {
    int32_t count, dropped, tenants;
    double duration; /* s, first to last arrival */
    double rate;     /* requests/s over it; 0 when all arrive at once */
    int32_t stamps;  /* distinct arrival times */
    double gap_cv;   /* standard deviation / mean of the gaps; 0 when all arrive at once */
    struct kvt_length_stats input, output;
    int64_t blocks, blocks_reused; /* 0 without hashes */
    double reuse;                  /* blocks_reused / blocks */
};

/* KVT_ENOMEM is the only failure. O(n log n). */
enum kvt_status kvt_trace_measure(const struct kvt_trace *trace, struct kvt_trace_stats *stats,
                                  struct kvt_err *err);

#endif
