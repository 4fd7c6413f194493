/*
 * bench_trace.c - how fast traces are generated, written and read
 *
 * The best of five, since other load on the machine only ever adds time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim/trace/generate.h"
#include "sim/trace/trace.h"

#define ROWS    1000000
#define REPEATS 5

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void line_print(const char *what, int32_t rows, double best_s)
{
    printf("%-34s %8d rows  %8.2f ms  %6.1f ns/row\n", what, rows, best_s * 1e3,
           best_s * 1e9 / rows);
}

static enum kvt_status bench_read(const char *what, const char *path, struct kvt_err *err)
{
    double best = 1e9;
    int32_t rows = 0;
    if (access(path, R_OK) != 0) {
        printf("%-34s skipped: no %s\n", what, path);
        return KVT_OK;
    }
    for (int i = 0; i < REPEATS; i++) {
        struct kvt_trace trace;
        double start = now_s();
        KVT_TRY(kvt_trace_read(&trace, path, 1, err));
        double took = now_s() - start;
        best = took < best ? took : best;
        rows = trace.count;
        kvt_trace_release(&trace);
    }
    line_print(what, rows, best);
    return KVT_OK;
}

static enum kvt_status bench_generate(const char *path, struct kvt_err *err)
{
    const struct kvt_lengths_spec lengths = {
        .kind = KVT_LENGTHS_LOGNORMAL, .mean = 1155, .p99 = 4142, .min = -1, .max = -1, .cv = -1};
    const struct kvt_trace_spec spec = {
        .seed = 1, .rate = 64, .requests = ROWS, .until = -1, .input = lengths, .output = lengths};
    double best = 1e9;
    struct kvt_trace trace = {0};
    for (int i = 0; i < REPEATS; i++) {
        kvt_trace_release(&trace);
        double start = now_s();
        KVT_TRY(kvt_trace_generate(&trace, &spec, err));
        double took = now_s() - start;
        best = took < best ? took : best;
    }
    line_print("generate, Poisson and lognormal", trace.count, best);
    double start = now_s();
    enum kvt_status status = kvt_trace_write(&trace, path, err);
    line_print("write and flush", trace.count, now_s() - start);
    kvt_trace_release(&trace);
    return status;
}

int main(void)
{
    char path[64];
    struct kvt_err err = {0};
    snprintf(path, sizeof path, "/tmp/kvt-bench-%ld.csv", (long)getpid());
    enum kvt_status status = bench_generate(path, &err);
    if (status == KVT_OK)
        status = bench_read("read our own CSV", path, &err);
    unlink(path);
    if (status == KVT_OK)
        status = bench_read("read Azure conversation",
                            "../shared/traces/AzureLLMInferenceTrace_conv.csv", &err);
    if (status == KVT_OK)
        status = bench_read("read Mooncake conversation",
                            "../shared/traces/mooncake_conversation.jsonl", &err);
    if (status != KVT_OK)
        fprintf(stderr, "bench_trace: %s\n", err.text);
    return status;
}
