#include "sim/trace/stats.h"

#include <gsl/gsl_sort_int.h>
#include <gsl/gsl_statistics_int.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/decision.h"

_Static_assert(sizeof(int) == sizeof(int32_t), "GSL's int statistics read our columns");

static enum kvt_status measure_lengths(const int32_t *tokens, int32_t count,
                                       struct kvt_length_stats *stats, struct kvt_err *err)
{
    size_t n = (size_t)count;
    int *sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to sort %d lengths", count);
    memcpy(sorted, tokens, n * sizeof *sorted);
    gsl_sort_int(sorted, 1, n);
    *stats = (struct kvt_length_stats){
        .p50 = gsl_stats_int_quantile_from_sorted_data(sorted, 1, n, 0.5),
        .p90 = gsl_stats_int_quantile_from_sorted_data(sorted, 1, n, 0.9),
        .p99 = gsl_stats_int_quantile_from_sorted_data(sorted, 1, n, 0.99),
        .max = sorted[n - 1]};
    for (size_t i = 0; i < n; i++)
        stats->total += sorted[i];
    stats->mean = (double)stats->total / (double)n;
    free(sorted);
    return KVT_OK;
}

static void measure_arrivals(const struct kvt_trace *trace, struct kvt_trace_stats *stats)
{
    const kvt_ticks *arrival = trace->arrival;
    int32_t gaps = trace->count - 1;
    double span = (double)(arrival[gaps] - arrival[0]);
    stats->stamps = 1;
    stats->duration = span / (double)KVT_TICKS_PER_S;
    if (span == 0)
        return;
    double mean = span / gaps, squares = 0;
    for (int32_t i = 1; i < trace->count; i++) {
        double off = (double)(arrival[i] - arrival[i - 1]) - mean;
        squares += off * off;
        stats->stamps += arrival[i] != arrival[i - 1];
    }
    stats->gap_cv = sqrt(squares / gaps) / mean;
    stats->rate = trace->count / stats->duration;
}

/* Chained hashes that were seen: open addressing, at most half full. uthash would take 56 bytes and
 * an allocation for each of what can be hundreds of millions of blocks; this takes 16. The order of
 * the table reaches no result, only whether a key is in it. */
static bool seen_add(uint64_t *table, uint64_t mask, uint64_t key)
{
    key += key == 0; /* 0 marks an empty place */
    uint64_t at = key & mask;
    while (table[at] != 0) {
        if (table[at] == key)
            return false;
        at = (at + 1) & mask;
    }
    table[at] = key;
    return true;
}

static enum kvt_status measure_reuse(const struct kvt_trace *trace, struct kvt_trace_stats *stats,
                                     struct kvt_err *err)
{
    int64_t blocks = trace->hash_begin[trace->count];
    uint64_t room = 16;
    while (room < 2 * (uint64_t)blocks)
        room *= 2;
    uint64_t *table = calloc(room, sizeof *table);
    if (table == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to look at %lld hashes", (long long)blocks);
    stats->blocks = blocks;
    for (int32_t i = 0; i < trace->count; i++) {
        uint64_t chain = KVT_DIGEST_START;
        for (int64_t h = trace->hash_begin[i]; h < trace->hash_begin[i + 1]; h++) {
            chain = kvt_digest_add(chain, trace->hashes[h]);
            stats->blocks_reused += !seen_add(table, room - 1, chain);
        }
    }
    stats->reuse = (double)stats->blocks_reused / (double)blocks;
    free(table);
    return KVT_OK;
}

enum kvt_status kvt_trace_measure(const struct kvt_trace *trace, struct kvt_trace_stats *stats,
                                  struct kvt_err *err)
{
    *stats = (struct kvt_trace_stats){
        .count = trace->count, .dropped = trace->dropped, .tenants = trace->tenants};
    measure_arrivals(trace, stats);
    KVT_TRY(measure_lengths(trace->input, trace->count, &stats->input, err));
    KVT_TRY(measure_lengths(trace->output, trace->count, &stats->output, err));
    return trace->hash_begin != NULL ? measure_reuse(trace, stats, err) : KVT_OK;
}
