/*
 * fuzz_trace.c - the trace reader against any bytes
 *
 *   make fuzz          or build/fuzz/fuzz_trace -max_len=2000 -dict=tests/fuzz/trace.dict CORPUS
 *
 * Whatever the bytes are, the reader returns a trace that keeps its invariants or one message with
 * a place and no memory; a trace that was read survives being measured.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/trace/stats.h"
#include "sim/trace/trace.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void trace_check(const struct kvt_trace *trace)
{
    kvt_assert(trace->count >= 1);
    kvt_assert(trace->arrival[0] == 0);
    for (int32_t i = 0; i < trace->count; i++) {
        kvt_assert(i == 0 || trace->arrival[i] >= trace->arrival[i - 1]);
        kvt_assert(trace->input[i] >= 1 && trace->input[i] <= KVT_TRACE_TOKENS_MAX);
        kvt_assert(trace->output[i] >= 1 && trace->output[i] <= KVT_TRACE_TOKENS_MAX);
        kvt_assert(trace->tenant == NULL || trace->tenant[i] < trace->tenants);
        if (trace->hash_begin != NULL)
            kvt_assert(kvt_trace_hash_count(trace, i) ==
                       (trace->input[i] + trace->block_tokens - 1) / trace->block_tokens);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kvt_trace trace;
    struct kvt_trace_stats stats;
    struct kvt_err err = {0};
    char *text = place_text("", data, size);
    if (kvt_trace_parse(&trace, "fuzz", text, size, 1, &err) == KVT_OK) {
        trace_check(&trace);
        kvt_assert(err.count == 0);
        kvt_assert(kvt_trace_measure(&trace, &stats, &err) == KVT_OK);
        kvt_trace_release(&trace);
    } else {
        kvt_assert(err.count == 1);
        kvt_assert(strncmp(err.text, "fuzz:", 5) == 0);
        kvt_assert(trace.arrival == NULL && trace.hashes == NULL);
    }
    free(text);
    return 0;
}
