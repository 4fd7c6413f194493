/*
 * exchange.h - a simulated run in the formats that benchmark tools write, so that theirs read it
 *
 *   vllm     the JSON of `vllm bench serve --save-detailed`: one object
 *   sglang   the line that SGLang's bench_serving appends with --output-details
 *   llm-d    llm-d-benchmark's report v0.2 as JSON, with component_health when there were faults
 *
 * Counted requests are those of the summary. Lists are in seconds and have one item a request in
 * the order of arrival; one that was rejected, aborted or still runs has no output, TTFT 0, and
 * says so in `errors`. `itls` (a list a request, of the gaps between its tokens) is there when the
 * result has the times of tokens. Not written, because a run does not know it: generated texts,
 * dates, users. `request_rate` is what arrived over the time between first and last arrival; a
 * closed loop's is infinite, as the tools write it: "inf" in vLLM's, Infinity in SGLang's.
 * `backend` is "kvtwin".
 *
 * bench_result.h reads the first two back.
 */
#ifndef KVT_OUTPUT_EXCHANGE_H
#define KVT_OUTPUT_EXCHANGE_H

#include "sim/output/summary.h"

/* clang-format off */
#define KVT_EXCHANGES(X) \
    X(VLLM,   "vllm")    \
    X(SGLANG, "sglang")  \
    X(LLMD,   "llm-d")
/* clang-format on */
#define X(name, text) KVT_EXCHANGE_##name,
enum kvt_exchange { KVT_EXCHANGES(X) KVT_EXCHANGE_COUNT };
#undef X
extern const char *const kvt_exchange_names[KVT_EXCHANGE_COUNT];

/* Write the run to file. KVT_ENOMEM only; the caller looks at the stream. */
enum kvt_status kvt_exchange_write(enum kvt_exchange format, const struct kvt_summary *summary,
                                   FILE *file, struct kvt_err *err);

/* ---- for the files of this folder ---- */

/* Standard deviation of a latency in ticks, of values known by the middles of
 * their bins. */
double kvt_exchange_deviation(const struct kvt_histogram *h);

/* Arrivals a second between the first and the last counted one; 0 where there
 * are fewer than two, and in a closed loop. */
double kvt_exchange_rate(const struct kvt_result *result);

enum kvt_status kvt_exchange_llmd(const struct kvt_summary *summary, FILE *file,
                                  struct kvt_err *err);

#endif
