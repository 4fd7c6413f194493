#include "sim/plan/bench_load.h"

#include <math.h>

#include "sim/trace/generate.h"

#define REACHED 0.8 /* of a limit, by Little's law: from here on it is what binds */

int64_t kvt_bench_concurrency(const struct kvt_bench_run *run)
{
    int64_t all = run->detailed > 0 ? run->detailed : run->completed;
    int64_t limit = run->concurrency > 0 && run->concurrency < all ? run->concurrency : all;
    if (run->rate <= 0.0)
        return limit;
    double latency = run->metric[KVT_BENCH_MEAN_E2EL];
    if (isnan(latency)) {
        double output = (double)run->output_tokens / (double)run->completed;
        latency =
            run->metric[KVT_BENCH_MEAN_TTFT] + (output - 1.0) * run->metric[KVT_BENCH_MEAN_TPOT];
    }
    bool reached = 1e-3 * latency * run->rate >= REACHED * (double)limit; /* NaN: no */
    return run->concurrency > 0 && reached ? limit : 0;
}

static void set_lengths(struct kvt_trace *trace, const struct kvt_bench_run *run)
{
    int64_t in = run->input_tokens / run->completed, more_in = run->input_tokens % run->completed;
    int64_t out = run->output_tokens / run->completed;
    int64_t more_out = run->output_tokens % run->completed;
    for (int32_t i = 0; i < trace->count; i++) {
        trace->input[i] = run->detailed > 0 ? run->input[i] : (int32_t)(in + (i < more_in));
        trace->output[i] = run->detailed > 0 ? run->output[i] : (int32_t)(out + (i < more_out));
        if (run->detailed > 0 && run->start != NULL && run->rate > 0.0)
            trace->arrival[i] = kvt_ticks_from_seconds(run->start[i]);
    }
}

enum kvt_status kvt_bench_load(struct kvt_trace *trace, struct kvt_config *config,
                               const struct kvt_bench_run *run, struct kvt_err *err)
{
    struct kvt_config_workload *w = &config->workload;
    int64_t concurrency = kvt_bench_concurrency(run);
    struct kvt_trace_spec spec = {
        .seed = config->run.seed,
        .rate = concurrency > 0 ? 0.0 : run->rate,
        .requests = run->detailed > 0 ? run->detailed : run->completed,
        .until = -1.0,
        .gaps = run->burstiness == 1.0 ? KVT_GAPS_POISSON : KVT_GAPS_GAMMA,
        .cv = run->burstiness > 0.0 ? 1.0 / sqrt(run->burstiness) : 1.0,
        .input =
            {.kind = KVT_LENGTHS_FIXED, .mean = 1.0, .min = -1, .max = -1, .p99 = -1, .cv = -1},
    };
    spec.output = spec.input;
    double longest =
        fmax((double)run->input_tokens, (double)run->output_tokens) / (double)run->completed;
    if (longest >= KVT_TRACE_TOKENS_MAX)
        return kvt_err_set(err, KVT_ECONFIG, "want at most %d tokens a request, got %g",
                           KVT_TRACE_TOKENS_MAX, longest);
    KVT_TRY(kvt_trace_generate(trace, &spec, err));
    set_lengths(trace, run);
    *w = (struct kvt_config_workload){
        .kind = concurrency > 0 ? KVT_WORKLOAD_CLOSED : KVT_WORKLOAD_OPEN,
        .where = w->where,
        .trace_speed = 1.0,
        .rate = spec.rate,
        .requests = spec.requests,
        .concurrency = concurrency,
    };
    config->run.until = -1.0;
    config->run.warmup = 0.0;
    return KVT_OK;
}
