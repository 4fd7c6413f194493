/* Any bytes as the result file of a benchmark client: runs that keep what the header promises, each
 * with the load that it makes, or a message with the file's name and no memory. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/bench_result.h"
#include "sim/plan/bench_load.h"
#include "tests/fuzz/place.h"

#define REQUESTS_MAX 1000

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void load_check(const struct kvt_bench_run *run)
{
    static struct kvt_config config;
    struct kvt_trace trace;
    struct kvt_err err = {0};
    if (run->detailed > REQUESTS_MAX || (run->detailed == 0 && run->completed > REQUESTS_MAX))
        return;
    memset(&config, 0, sizeof config);
    if (kvt_bench_load(&trace, &config, run, &err) != KVT_OK) {
        kvt_assert(err.count >= 1);
        return;
    }
    int64_t input = 0;
    for (int32_t i = 0; i < trace.count; i++) {
        kvt_assert(trace.input[i] >= 1 && trace.output[i] >= 0);
        kvt_assert(i == 0 || trace.arrival[i] >= trace.arrival[i - 1]);
        input += trace.input[i];
    }
    kvt_assert(run->detailed > 0 || input == run->input_tokens);
    kvt_trace_release(&trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char head[] = "{\"model_id\":\"m\",\"completed\":2,\"total_input_tokens\":9,"
                               "\"total_output_tokens\":9,\"request_rate\":Infinity,";
    struct kvt_bench_file file;
    struct kvt_err err = {0};
    const char *ahead = count > 0 && bytes[0] % 2 == 1 ? head : "";
    char *text = place_text(ahead, bytes, count);
    if (kvt_bench_file_parse(&file, "fuzz", text, strlen(ahead) + count, &err) == KVT_OK) {
        kvt_assert(file.count >= 1);
        for (int32_t i = 0; i < file.count; i++) {
            const struct kvt_bench_run *run = &file.runs[i];
            kvt_assert(run->completed >= 1 && run->rate >= 0.0 && run->concurrency >= 0);
            kvt_assert(run->input_tokens >= run->completed);
            load_check(run);
            for (int32_t k = 0; k < run->detailed; k++) {
                kvt_assert(run->input[k] >= 1 && run->output[k] >= 1);
                kvt_assert(run->start == NULL || k == 0 || run->start[k] >= run->start[k - 1]);
            }
        }
        kvt_bench_file_release(&file);
    } else {
        kvt_assert(err.count >= 1 && strncmp(err.text, "fuzz", 4) == 0 && file.runs == NULL);
    }
    free(text);
    return 0;
}
