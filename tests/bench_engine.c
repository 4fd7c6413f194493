/*
 * bench_engine.c - how fast a run is: the engine alone, and the whole process
 *
 * Engine alone: requests of 512 tokens in and 128 out at 1 and 8 replicas, pages of 64 tokens,
 * prefix cache and guards off; then with the output doubled, which must not cost more, since cost
 * grows with decisions and not with tokens. The bare loop of a binary heap that holds as many
 * events (pop the earliest, put it back later) says what an event costs on this machine at least.
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
    enum { EVENTS = 2000000 };
    struct entry heap[512] = {0};
    double best = 1e9;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        struct kvt_stream stream;
        kvt_stream_init(&stream, 1, KVT_PURPOSE_TEST, 0);
        double start = now_s();
        for (int64_t i = 0; i < EVENTS; i++) {
            heap[0].time += 1 + kvt_stream_u32(&stream) % 1000;
            heap[0].sequence = i;
            heap_sink(heap, count);
        }
        double took = now_s() - start;
        best = took < best ? took : best;
    }
    return best * 1e9 / EVENTS;
}

/* ---- the engine ---- */

struct speed {
    double requests_per_s, events_per_request, ns_per_event;
};

static enum kvt_status engine_speed(int32_t replicas, int32_t output, struct speed *speed,
                                    struct kvt_err *err)
{
    char text[1024];
    int64_t requests = 200000;
    snprintf(text, sizeof text,
             "model: llama-3.1-8b\nengine: vllm\nfleet:\n  serve: {replicas: %d, gpu: h100-sxm, "
             "parallel: {tp: 1}, weights: fp8, kv: bf16, page_tokens: 64, router: round-robin, "
             "scheduler: {prefix_cache: false}}\n"
             "workload: {open: {rate: %d req/s, input: 512, output: %d, requests: %lld}}\n",
             replicas, 20 * replicas * 128 / output, output, (long long)requests);
    struct kvt_config config;
    KVT_TRY(kvt_config_parse(&config, "bench", text, strlen(text), "", NULL, 0, err));
    double best = 1e9;
    struct kvt_simulate_options options = {0};
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        static struct kvt_simulation simulation;
        KVT_TRY(kvt_simulation_init(&simulation, &config, &options, err));
        KVT_TRY(kvt_simulation_run(&simulation, &options, err));
        double engine_s = simulation.engine_s, events = (double)simulation.des.events;
        if (engine_s < best)
            *speed = (struct speed){(double)requests / engine_s, events / (double)requests,
                                    engine_s * 1e9 / events};
        best = engine_s < best ? engine_s : best;
        kvt_simulation_release(&simulation);
    }
    kvt_config_release(&config);
    return KVT_OK;
}

static enum kvt_status bench_engine(struct kvt_err *err)
{
    printf("engine alone, 512 in: 200,000 requests, best of %d\n", REPEATS);
    for (int32_t replicas = 1; replicas <= 8; replicas *= 8) {
        struct speed speed, doubled;
        double bare = bare_heap_ns(2 * replicas + 4);
        KVT_TRY(engine_speed(replicas, 128, &speed, err));
        KVT_TRY(engine_speed(replicas, 256, &doubled, err));
        printf("  %d replica%s  %9.0f requests/s  %.2f events/request  %5.1f ns/event = %.1f bare "
               "heap events of %.1f ns\n",
               replicas, replicas > 1 ? "s" : " ", speed.requests_per_s, speed.events_per_request,
               speed.ns_per_event, speed.ns_per_event / bare, bare);
        printf("     output 256 instead of 128: %+.1f %% time per request\n",
               100 * (speed.requests_per_s / doubled.requests_per_s - 1));
    }
    return KVT_OK;
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
            if (freopen("/dev/null", "w", stdout) == NULL)
                _exit(127);
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
