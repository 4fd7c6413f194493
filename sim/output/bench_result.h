/*
 * bench_result.h - what a benchmark client measured on a real server, read from its own file
 *
 * Two clients are known, told apart by their fields:
 *
 *   vllm bench serve --save-result (or --append-result)   one JSON object, or one a line
 *   python -m sglang.bench_serving --output-file          one JSON object a line, a run each
 *
 * A run has a load (requests, rate or concurrency, lengths) and outcomes by the names that this
 * project's summary has too. With --save-detailed or --output-details it also has the lengths of
 * each request, its TTFT and the gaps between its tokens, and vLLM's its start. Lists are in
 * seconds, aggregates in milliseconds; SGLang calls E2EL e2e_latency and writes Infinity, which
 * JSON does not know, for an unlimited rate.
 *
 * It lies in sim/output because outputs own these names and may be set beside such a file; it
 * includes base alone. The fields read: backend, model_id, num_prompts, completed, failed,
 * request_rate, burstiness, max_concurrency, total_input_tokens, total_output_tokens, duration,
 * input_lens, output_lens, start_times, ttfts, itls, latencies, and the metrics below. Others are
 * ignored.
 *
 * Everything is checked: what is no JSON, has neither client's fields, lacks a field, has a number
 * of the wrong kind or sign, or completed no request is a KVT_ECONFIG with file, line and field.
 */
#ifndef KVT_OUTPUT_BENCH_RESULT_H
#define KVT_OUTPUT_BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

/* clang-format off */
/* X(constant, vLLM's name and ours, SGLang's name) */
#define KVT_BENCH_LATENCIES(X, NAME, ours, theirs)                                                 \
    X(MEAN_##NAME, "mean_" ours "_ms", "mean_" theirs "_ms")                                       \
    X(MEDIAN_##NAME, "median_" ours "_ms", "median_" theirs "_ms")                                 \
    X(P99_##NAME, "p99_" ours "_ms", "p99_" theirs "_ms")
#define KVT_BENCH_METRICS(X)                                                                       \
    X(REQUEST_THROUGHPUT, "request_throughput", "request_throughput")                              \
    X(OUTPUT_THROUGHPUT, "output_throughput", "output_throughput")                                 \
    X(TOTAL_THROUGHPUT, "total_token_throughput", "total_throughput")                              \
    KVT_BENCH_LATENCIES(X, TTFT, "ttft", "ttft")                                                   \
    KVT_BENCH_LATENCIES(X, TPOT, "tpot", "tpot")                                                   \
    KVT_BENCH_LATENCIES(X, ITL, "itl", "itl")                                                      \
    KVT_BENCH_LATENCIES(X, E2EL, "e2el", "e2e_latency")
/* clang-format on */

enum kvt_bench_metric {
#define X(name, ours, theirs) KVT_BENCH_##name,
    KVT_BENCH_METRICS(X)
#undef X
        KVT_BENCH_METRIC_COUNT
};
extern const char *const kvt_bench_metric_names[KVT_BENCH_METRIC_COUNT]; /* ours */

struct kvt_bench_list { /* one value a request (ITL: a gap), of those that completed */
    double *seconds;    /* owned */
    int64_t count;      /* 0: not given */
};

struct kvt_bench_run {
    bool sglang;         /* the client */
    char engine[16];     /* of the server, as the client was told: "vllm", "sglang"; "" unknown */
    char model[128];     /* as the client was told; "" */
    int32_t line;        /* where the object starts */
    int64_t prompts;     /* requests sent; completed where the file does not say */
    int64_t completed;   /* >= 1 */
    double rate;         /* requests/s; 0: as fast as the concurrency allows */
    double burstiness;   /* shape of the gamma gaps; 1: Poisson */
    int64_t concurrency; /* most at once; 0: not limited */
    int64_t input_tokens, output_tokens; /* of the completed, in all */
    double duration;                     /* s; 0: not given */
    int32_t detailed;        /* requests below, those that completed; 0: only totals are known */
    int32_t *input, *output; /* [detailed] tokens; owned */
    double *start;           /* [detailed] s after the first; owned; NULL: not given */
    /* TPOT follows from the others; E2EL too where the file has no latencies. */
    struct kvt_bench_list ttft, tpot, itl, e2el;
    double metric[KVT_BENCH_METRIC_COUNT]; /* NaN: not given */
};

struct kvt_bench_file {
    struct kvt_bench_run *runs; /* owned */
    int32_t count;              /* >= 1 */
};

/* Read all runs of one file, plain or gzip. On failure the file is empty. */
enum kvt_status kvt_bench_file_read(struct kvt_bench_file *file, const char *path,
                                    struct kvt_err *err);

/* The same from memory; text is changed. */
enum kvt_status kvt_bench_file_parse(struct kvt_bench_file *file, const char *path, char *text,
                                     size_t count, struct kvt_err *err);

void kvt_bench_file_release(struct kvt_bench_file *file);

#endif
