/*
 * bench_engine.c - how fast a run is: the engine alone, and the whole process
 *
 * Engine alone: requests of 512 tokens in and 128 out at 1 and 8 replicas, pages of 64 tokens,
 * prefix cache and guards off; then with the output doubled, which must not cost more, since cost
 * grows with decisions and not with tokens. The bare loop of a binary heap that holds one event per
 * request under way (take the earliest, put it back later) says what an event costs at least.
 *
 * Whole process: fork, exec, read the trace, write the HDF5 file. The best of the repeats, since
 * other load on the machine only ever adds time.
 */
#define _DEFAULT_SOURCE /* wait4 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/random.h"
#include "sim/plan/simulate.h"

#define REPEATS 7

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- a bare binary heap ---- */

struct entry {
    int64_t time, sequence;
};

static void heap_sink(struct entry *heap, int32_t count)
{
    struct entry top = heap[0];
    int32_t i = 0;
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= count)
            break;
        child += child + 1 < count && heap[child + 1].time < heap[child].time;
        if (heap[child].time >= top.time)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = top;
}

/* ns per event of a heap of `count` events that come back after a random while. */
static double bare_heap_ns(int32_t count)
{
    enum { EVENTS = 500000, MOST = 4096 };
    static struct entry heap[MOST];
    struct kvt_stream stream;
    kvt_stream_init(&stream, 1, KVT_PURPOSE_TEST, 0);
    count = count < 2 ? 2 : count > MOST ? MOST : count;
    memset(heap, 0, sizeof heap);
    double start = now_s();
    for (int64_t i = 0; i < EVENTS; i++) {
        heap[0].time += 1 + kvt_stream_u32(&stream) % 1000;
        heap[0].sequence = i;
        heap_sink(heap, count);
    }
    return (now_s() - start) * 1e9 / EVENTS;
}

/* ---- the engine ---- */

#define REQUESTS 200000

struct speed {
    double requests_per_s, events_per_request, ns_per_event;
    int32_t under_way; /* requests in the batches, on average */
};

static enum kvt_status load_config(struct kvt_config *config, int32_t replicas, int32_t output,
                                   struct kvt_err *err)
{
    char text[1024];
    snprintf(text, sizeof text,
             "model: llama-3.1-8b\nengine: vllm\nfleet:\n  serve: {replicas: %d, gpu: h100-sxm, "
             "parallel: {tp: 1}, weights: fp8, kv: bf16, page_tokens: 64, router: round-robin, "
             "scheduler: {prefix_cache: false}}\n"
             "workload: {open: {rate: %d req/s, input: 512, output: %d, requests: %d}}\n",
             replicas, 20 * replicas, output, REQUESTS);
    return kvt_config_parse(config, "bench", text, strlen(text), "", NULL, 0, err);
}

static enum kvt_status engine_speed(const struct kvt_config *config, struct speed *speed,
                                    struct kvt_err *err)
{
    static struct kvt_simulation simulation;
    struct kvt_simulate_options options = {0};
    KVT_TRY(kvt_simulation_init(&simulation, config, &options, err));
    KVT_TRY(kvt_simulation_run(&simulation, &options, err));
    double engine_s = simulation.engine_s, events = (double)simulation.des.events, running = 0;
    for (int32_t i = 0; i < simulation.des.core.replica_count; i++)
        running += kvt_series_mean_all(&simulation.des.observer.series[i], KVT_GAUGE_RUNNING);
    *speed = (struct speed){REQUESTS / engine_s, events / REQUESTS, engine_s * 1e9 / events,
                            (int32_t)running};
    kvt_simulation_release(&simulation);
    return KVT_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[REPEATS])
{
    qsort(values, REPEATS, sizeof values[0], by_value);
    return values[REPEATS / 2];
}

/* Everything in turn, so that a drift of the machine touches all alike; ratios pair by pair. */
static enum kvt_status bench_replicas(int32_t replicas, struct kvt_err *err)
{
    struct kvt_config config, doubled;
    KVT_TRY(load_config(&config, replicas, 128, err));
    KVT_TRY(load_config(&doubled, replicas, 256, err));
    struct speed one, two;
    double rate[REPEATS], ns[REPEATS], bare[REPEATS], ratio[REPEATS], growth[REPEATS];
    KVT_TRY(engine_speed(&config, &one, err)); /* warm-up; says how many are under way */
    for (int i = 0; i < REPEATS; i++) {
        bare[i] = bare_heap_ns(one.under_way);
        KVT_TRY(engine_speed(&config, &one, err));
        KVT_TRY(engine_speed(&doubled, &two, err));
        rate[i] = one.requests_per_s;
        ns[i] = one.ns_per_event;
        ratio[i] = ns[i] / bare[i];
        growth[i] = one.requests_per_s / two.requests_per_s - 1;
    }
    printf("  %d replica%s %9.0f requests/s, %.2f events/request, %5.1f ns/event\n", replicas,
           replicas > 1 ? "s" : " ", median(rate), one.events_per_request, median(ns));
    printf("     a bare heap of one event per request under way (%d): %.1f ns/event, ratio %.1f\n",
           one.under_way, median(bare), median(ratio));
    printf("     twice the output tokens: %+.1f %% time per request\n", 100 * median(growth));
    kvt_config_release(&config);
    kvt_config_release(&doubled);
    return KVT_OK;
}

static enum kvt_status bench_engine(struct kvt_err *err)
{
    printf("engine alone, 512 in, 128 out, %d requests, medians of %d\n", REQUESTS, REPEATS);
    KVT_TRY(bench_replicas(1, err));
    return bench_replicas(8, err);
}

/* ---- the whole process ---- */

static void bench_process(const char *what, int64_t requests, const char *const argv[])
{
    double best = 1e9, best_cpu = 1e9;
    long peak_kib = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double start = now_s();
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (freopen("/dev/null", "w", stdout) == NULL ||
                freopen("/dev/null", "w", stderr) == NULL)
                _exit(127);
            /* It writes to none of them: NOLINTNEXTLINE(performance-no-int-to-ptr) */
            execv(argv[0], (char *const *)(uintptr_t)argv);
            _exit(127);
        }
        int status;
        struct rusage usage;
        if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0) {
            printf("  %-42s failed\n", what);
            return;
        }
        double took = now_s() - start;
        double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        best = took < best ? took : best;
        best_cpu = cpu < best_cpu ? cpu : best_cpu;
        peak_kib = usage.ru_maxrss > peak_kib ? usage.ru_maxrss : peak_kib;
    }
    printf("  %-42s %9.0f requests/s  %7.1f ms wall  %7.1f ms cpu  %5ld MiB\n", what,
           (double)requests / best, best * 1e3, best_cpu * 1e3, peak_kib / 1024);
}

static void bench_processes(void)
{
    static const char conv[] = "../shared/traces/AzureLLMInferenceTrace_conv.csv";
    static const char *const azure[] = {
        "build/kvtwin",
        "simulate",
        "configs/examples/azure-conv.yaml",
        "--set",
        "workload.trace=../shared/traces/AzureLLMInferenceTrace_conv.csv",
        "-o",
        "build/bench.h5",
        "-q",
        NULL};
    static const char *const make[] = {"build/kvtwin",
                                       "trace",
                                       "generate",
                                       "--rate",
                                       "300",
                                       "--requests",
                                       "1000000",
                                       "--input-tokens",
                                       "lognormal:1155:4142",
                                       "--output-tokens",
                                       "lognormal:211:601",
                                       "-o",
                                       "build/bench-trace.csv",
                                       NULL};
    static const char *const million[] = {"build/kvtwin",
                                          "simulate",
                                          "configs/examples/azure-conv.yaml",
                                          "--set",
                                          "fleet.serve.replicas=64",
                                          "--set",
                                          "workload.trace=build/bench-trace.csv",
                                          "-o",
                                          "build/bench.h5",
                                          "-q",
                                          NULL};
    printf("whole process, trace read and HDF5 written, best of %d\n", REPEATS);
    if (access(conv, R_OK) == 0)
        bench_process("Azure conv, 19,366 requests, 4 replicas", 19366, azure);
    else
        printf("  Azure conv: skipped, no %s\n", conv);
    bench_process("(generate a trace of 1,000,000)", 1000000, make);
    bench_process("1,000,000 requests, 64 replicas", 1000000, million);
    unlink("build/bench.h5");
    unlink("build/bench-trace.csv");
}

int main(void)
{
    struct kvt_err err = {0};
    if (bench_engine(&err) != KVT_OK) {
        fprintf(stderr, "bench_engine: %s\n", err.text);
        return err.status;
    }
    bench_processes();
    return 0;
}
