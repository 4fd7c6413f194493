#include "tests/small_run.h"

#include "tests/check.h"

enum { ROWS = SMALL_RUN_ROWS, MS = KVT_TICKS_PER_MS };

void small_run_summarise(struct small_run *run)
{
    struct kvt_err err = {0};
    CHECK_OK(kvt_summary_init(&run->summary, &run->result, &run->arena, &err), err);
}

void small_run_begin(struct small_run *run)
{
    static const int32_t ms[ROWS][3] = {{0, 50, 150}, {10, 60, 260},  {20, 140, 140}, {30, -1, -1},
                                        {40, 70, -1}, {50, 100, 130}, {55, -1, -1},   {90, -1, -1}};
    static const int32_t input[ROWS] = {100, 200, 300, 999999, 400, 500, 600, 700};
    static const int32_t output[ROWS] = {5, 5, 1, 9, 7, 4, 2, 2};
    static const int32_t cached[ROWS] = {0, 64, 128, 0, 0, 64, 0, 0};
    static const int32_t preemptions[ROWS] = {9, 1, 0, 0, 0, 2, 0, 0};
    static const int16_t replica[ROWS] = {0, 1, 0, -1, 1, 0, 0, -1};
    static const uint8_t fate[ROWS] = {KVT_FATE_COMPLETED, KVT_FATE_COMPLETED, KVT_FATE_COMPLETED,
                                       KVT_FATE_REJECTED,  KVT_FATE_RUNNING,   KVT_FATE_COMPLETED,
                                       KVT_FATE_ABORTED,   KVT_FATE_PENDING};
    struct kvt_err err = {0};
    CHECK_OK(kvt_arena_init(&run->arena, (size_t)8 << 20, &err), err);
    for (int i = 0; i < ROWS; i++) {
        run->arrival[i] = ms[i][0] * (kvt_ticks)MS;
        run->first[i] = ms[i][1] < 0 ? KVT_NEVER : ms[i][1] * (kvt_ticks)MS;
        run->finish[i] = ms[i][2] < 0 ? KVT_NEVER : ms[i][2] * (kvt_ticks)MS;
    }
    CHECK_OK(kvt_histogram_init(&run->itl, &run->arena, &err), err);
    kvt_histogram_add(&run->itl, 50 * (kvt_ticks)MS, 4);
    kvt_histogram_add(&run->itl, 10 * (kvt_ticks)MS, 3);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(kvt_series_init(&run->series[i], &run->arena, 8, &err), err);
        kvt_series_set(&run->series[i], 0, (const int64_t[]){2 + i, 1, 40});
        kvt_series_set(&run->series[i], 130 * (kvt_ticks)MS, (const int64_t[]){1, 0, 20});
        kvt_series_set(&run->series[i], 260 * (kvt_ticks)MS, (const int64_t[]){0, 0, 0});
        run->replicas[i] = (struct kvt_result_replica){.name = i == 0 ? "serve-0" : "serve-1",
                                                       .series = &run->series[i],
                                                       .pages = 100,
                                                       .pages_peak = 40 + 35 * i,
                                                       .steps = 7 + i,
                                                       .preemptions = 12 * i,
                                                       .busy = 65 * (1 + i) * (kvt_ticks)MS};
    }
    run->result = (struct kvt_result){.seed = 2385,
                                      .digest = UINT64_C(0x0123456789abcdef),
                                      .model = "tiny, bf16",
                                      .fleet = "serve: 2 x 1 h100-sxm, bf16",
                                      .config = "model: tiny\nrun: {seed: 2385}\n",
                                      .rows = ROWS,
                                      .arrival = run->arrival,
                                      .first_token = run->first,
                                      .finish = run->finish,
                                      .input = input,
                                      .output = output,
                                      .fate = fate,
                                      .prefill_replica = replica,
                                      .decode_replica = replica,
                                      .preemptions = preemptions,
                                      .cached = cached,
                                      .end = 260 * (kvt_ticks)MS,
                                      .warmup = 10 * (kvt_ticks)MS,
                                      .itl = &run->itl,
                                      .events = 31,
                                      .steps = 15,
                                      .evicted_pages = 3,
                                      .replica_count = 2,
                                      .replicas = run->replicas,
                                      .slo_count = 2,
                                      .slo = {{KVT_LATENCY_TTFT, 0.9, 100 * (kvt_ticks)MS},
                                              {KVT_LATENCY_ITL, 0.99, 20 * (kvt_ticks)MS}},
                                      .gpus = 2,
                                      .cost_usd_per_h = 7.2};
    small_run_summarise(run);
}

void small_run_end(struct small_run *run)
{
    kvt_arena_release(&run->arena);
}
