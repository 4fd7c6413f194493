/* Files that benchmark clients write: what is read of them, and what is refused with its place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/output/bench_result.h"
#include "tests/check.h"

static enum kvt_status parse(struct kvt_bench_file *file, const char *text, struct kvt_err *err)
{
    char *copy = strdup(text);
    *err = (struct kvt_err){0};
    enum kvt_status status = kvt_bench_file_parse(file, "bench.json", copy, strlen(copy), err);
    free(copy);
    return status;
}

static void a_result_of_vllm_is_read(void)
{
    static const char text[] =
        "{\"date\": \"20260701-120000\", \"backend\": \"vllm\", \"model_id\": \"org/model\",\n"
        " \"num_prompts\": 3, \"request_rate\": 2.5, \"burstiness\": 0.5, \"max_concurrency\": "
        "null,\n"
        " \"duration\": 10.5, \"completed\": 2, \"failed\": 1, \"total_input_tokens\": 300,\n"
        " \"total_output_tokens\": 30, \"request_throughput\": 0.19, \"output_throughput\": "
        "2.857,\n"
        " \"total_token_throughput\": 31.4, \"mean_ttft_ms\": 12.5, \"p99_tpot_ms\": NaN,\n"
        " \"input_lens\": [200, 50, 100], \"output_lens\": [10, 0, 20],\n"
        " \"start_times\": [101.5, 100.0, 100.25], \"errors\": [\"\", \"NaN \\\"Infinity\", "
        "\"\"]}\n";
    struct kvt_bench_file file;
    struct kvt_err err;
    CHECK_OK(parse(&file, text, &err), err);
    if (file.count == 0)
        return;
    const struct kvt_bench_run *run = &file.runs[0];
    CHECK_I64(file.count, 1, "");
    CHECK_NOTE(!run->sglang, "the client");
    CHECK_TEXT(run->engine, "vllm", "the server");
    CHECK_TEXT(run->model, "org/model", "");
    CHECK_CLOSE(run->rate, 2.5, 0, "");
    CHECK_CLOSE(run->burstiness, 0.5, 0, "");
    CHECK_I64(run->concurrency, 0, "null: not limited");
    CHECK_I64(run->prompts, 3, "sent");
    CHECK_I64(run->completed, 2, "");
    CHECK_CLOSE(run->metric[KVT_BENCH_MEAN_TTFT], 12.5, 0, "");
    CHECK_NOTE(isnan(run->metric[KVT_BENCH_P99_TPOT]), "Python's NaN is no value");
    CHECK_NOTE(isnan(run->metric[KVT_BENCH_MEAN_E2EL]), "not given");
    CHECK_I64(run->detailed, 2, "the one without output failed");
    CHECK_I64(run->input[0], 100, "by their starts");
    CHECK_I64(run->output[1], 10, "");
    CHECK_CLOSE(run->start[1], 1.25, 1e-12, "after the first");
    kvt_bench_file_release(&file);
}

static void results_of_sglang_are_a_run_a_line(void)
{
    static const char text[] =
        "{\"backend\": \"sglang-oai\", \"request_rate\": Infinity, \"max_concurrency\": 16,"
        " \"completed\": 64, \"total_input_tokens\": 64000, \"total_output_tokens\": 6400,"
        " \"total_throughput\": 900.5, \"mean_e2e_latency_ms\": 1234.5}\n\n"
        "{\"backend\": \"sglang\", \"request_rate\": 4.0, \"max_concurrency\": null, "
        "\"completed\": 1,"
        " \"total_input_tokens\": 1, \"total_output_tokens\": 1, \"input_throughput\": 3,"
        " \"output_throughput\": 1}\n";
    struct kvt_bench_file file;
    struct kvt_err err;
    CHECK_OK(parse(&file, text, &err), err);
    CHECK_I64(file.count, 2, "");
    if (file.count < 2)
        return;
    CHECK_NOTE(file.runs[0].sglang && file.runs[1].sglang, "the client");
    CHECK_TEXT(file.runs[0].engine, "sglang", "the server");
    CHECK_CLOSE(file.runs[0].rate, 0, 0, "Infinity: as fast as the concurrency allows");
    CHECK_I64(file.runs[0].concurrency, 16, "");
    CHECK_I64(file.runs[0].prompts, 64, "as many as completed");
    CHECK_CLOSE(file.runs[0].metric[KVT_BENCH_TOTAL_THROUGHPUT], 900.5, 0, "its own name");
    CHECK_CLOSE(file.runs[0].metric[KVT_BENCH_MEAN_E2EL], 1234.5, 0, "its own name");
    CHECK_I64(file.runs[1].line, 3, "");
    CHECK_CLOSE(file.runs[1].rate, 4, 0, "");
    kvt_bench_file_release(&file);
}

#define GOOD                                                                                       \
    "\"model_id\": \"m\", \"request_rate\": \"inf\", \"total_input_tokens\": 9, "                  \
    "\"total_output_tokens\": 9, \"output_throughput\": 5"

#define DETAILS GOOD ", \"completed\": 2, \"input_lens\": [1, 2], \"output_lens\": [3, 1]"

/* What does not belong to the requests is not used; requests that failed are left out. */
static void details_are_used_as_far_as_they_fit(void)
{
    static const struct {
        const char *text;
        int32_t detailed, ttfts, tpots, e2els, itls;
        int32_t first_input;
    } rows[] = {
        {"{" GOOD ", \"completed\": 2}", 0, 0, 0, 0, 0, 0},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": [], \"output_lens\": []}", 0, 0, 0, 0, 0, 0},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": [4], \"output_lens\": null}", 0, 0, 0, 0, 0,
         0},
        {"{" DETAILS "}", 2, 0, 0, 0, 0, 1},
        {"{" DETAILS ", \"start_times\": [7]}", 2, 0, 0, 0, 0, 1},
        {"{" DETAILS ", \"start_times\": [5, 4]}", 2, 0, 0, 0, 0, 2},
        {"{" DETAILS ", \"start_times\": [5, 5]}", 2, 0, 0, 0, 0, 1},
        {"{" DETAILS ", \"ttfts\": [1]}", 2, 0, 0, 0, 0, 1},
        {"{" DETAILS ", \"ttfts\": [1, 2]}", 2, 2, 0, 0, 0, 1},
        {"{" DETAILS ", \"ttfts\": [1, 2], \"itls\": [[1, 1]]}", 2, 2, 0, 0, 0, 1},
        {"{" DETAILS ", \"ttfts\": [1, 2], \"itls\": [[1, 1], []]}", 2, 2, 1, 2, 2, 1},
        {"{" DETAILS ", \"ttfts\": [1, 2], \"latencies\": [0.5, 3]}", 2, 2, 0, 2, 0, 1},
        {"{" GOOD ", \"completed\": 1, \"input_lens\": [0, 5], \"output_lens\": [1, 2],"
         " \"ttfts\": [1, 2], \"latencies\": [2, 3]}",
         1, 1, 1, 1, 0, 5},
        {"{" GOOD ", \"completed\": 1, \"input_lens\": [3, 5], \"output_lens\": [0, 2],"
         " \"ttfts\": [1, 2], \"itls\": [[], [1]]}",
         1, 1, 1, 1, 1, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_bench_file file;
        struct kvt_err err;
        CHECK_OK(parse(&file, rows[i].text, &err), err);
        if (file.count == 0)
            continue;
        const struct kvt_bench_run *run = &file.runs[0];
        CHECK_I64(run->detailed, rows[i].detailed, rows[i].text);
        CHECK_I64(run->ttft.count, rows[i].ttfts, rows[i].text);
        CHECK_I64(run->tpot.count, rows[i].tpots, rows[i].text);
        CHECK_I64(run->e2el.count, rows[i].e2els, rows[i].text);
        CHECK_I64(run->itl.count, rows[i].itls, rows[i].text);
        if (run->detailed > 0)
            CHECK_I64(run->input[0], rows[i].first_input, rows[i].text);
        kvt_bench_file_release(&file);
    }
}

static void bad_results_are_refused_with_file_line_and_field(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "bench.json: want the result of a benchmark, found an empty file"},
        {" \n \n", "found an empty file"},
        {"{\"a\": 1", "bench.json:1:7: not JSON: "},
        {"{\"model_id\": \"m\",\n \"completed\": }", "bench.json:2:15: not JSON: "},
        {"[1, 2]", "bench.json:1: want a JSON object, found a list"},
        {"Infinity", "bench.json:1: want a JSON object, found a text"},
        {"{\"a\": 1}", "bench.json:1: want a result of vllm bench serve"},
        {"{" GOOD "}",
         "bench.json:1: field \"completed\": wanted in a benchmark result, not found"},
        {"{" GOOD ", \"completed\": 0}",
         "field \"completed\": want at least one completed request, got 0"},
        {"{" GOOD ", \"completed\": -1}",
         "field \"completed\": want a number from 0 to 1e+18, got -1"},
        {"{" GOOD ", \"completed\": \"two\"}", "field \"completed\": want a number, found a text"},
        {"{" GOOD ", \"completed\": 10}",
         "field \"total_input_tokens\": want at least one token for each completed request"},
        {"{" GOOD ", \"completed\": 2}\n{" GOOD "}", "bench.json:2: field \"completed\": wanted"},
        {"{" GOOD ", \"completed\": 2, \"mean_ttft_ms\": \"fast\"}",
         "field \"mean_ttft_ms\": want a number, found a text"},
        {"{" GOOD ", \"completed\": 2, \"mean_ttft_ms\": -5}",
         "field \"mean_ttft_ms\": want a number from 0 to 1e+18"},
        {"{" GOOD ", \"completed\": 2, \"max_concurrency\": 0}", "field \"max_concurrency\": want"},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": [1, 2], \"output_lens\": [1]}",
         "field \"output_lens\": want 2 items as in input_lens, got 1"},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": [1, 2.5], \"output_lens\": [1, 2]}",
         "field \"input_lens\": want whole numbers from 0 to 67108864, item 1 is 2.5"},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": 7, \"output_lens\": [1]}",
         "field \"input_lens\": want a list, found a whole number"},
        {"{\"model_id\": \"m\", \"request_rate\": \"trace\", \"completed\": 1, "
         "\"total_input_tokens\": 9, \"total_output_tokens\": 9, \"output_throughput\": 5}",
         "field \"request_rate\": want a number or \"inf\", got \"trace\""},
        {"{\"model_id\": \"m\", \"request_rate\": 0, \"completed\": 1, "
         "\"total_input_tokens\": 9, \"total_output_tokens\": 9, \"output_throughput\": 5}",
         "field \"request_rate\": want more than 0"},
        {"{\"model_id\": \"m\", \"request_rate\": 1, \"completed\": 1, "
         "\"total_input_tokens\": 9, \"total_output_tokens\": 9}",
         "want a measured throughput or latency, found none"},
        {"true", "bench.json:1: want a JSON object, found true"},
        {"null", "bench.json:1: want a JSON object, found null"},
        {"{" GOOD ", \"completed\": 2, \"mean_ttft_ms\": false}",
         "field \"mean_ttft_ms\": want a number, found false"},
        {"{" GOOD ", \"completed\": 2, \"mean_ttft_ms\": {}}",
         "field \"mean_ttft_ms\": want a number, found an object"},
        {"{" GOOD ", \"completed\": 2, \"mean_ttft_ms\": 1e300}",
         "want a number from 0 to 1e+18, got 1e+300"},
        {"{" GOOD ", \"completed\": null}", "field \"completed\": wanted in a benchmark result"},
        {"{\"model_id\": \"m\", \"completed\": 1, \"total_input_tokens\": 9, "
         "\"total_output_tokens\": 9, \"output_throughput\": 5}",
         "field \"request_rate\": wanted in a benchmark result, not found"},
        {"{\"model_id\": \"m\", \"request_rate\": null, \"completed\": 1}",
         "field \"total_input_tokens\": wanted in a benchmark result, not found"},
        {"{\"model_id\": \"m\", \"request_rate\": 1, \"completed\": 3e9, "
         "\"total_input_tokens\": 4e9, \"total_output_tokens\": 4e9}",
         "field \"completed\": want at most 2147483647, got 3e+09"},
        {"{\"model_id\": \"m\", \"request_rate\": 1, \"completed\": 3, \"total_input_tokens\": 3, "
         "\"total_output_tokens\": 2}",
         "field \"total_output_tokens\": want at least one token"},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": [1], \"output_lens\": [67108865]}",
         "field \"output_lens\": want whole numbers from 0 to 67108864, item 0 is 67108865"},
        {"{" GOOD ", \"completed\": 2, \"input_lens\": [\"1\"], \"output_lens\": [1]}",
         "field \"input_lens\": want whole numbers"},
        {"{" DETAILS ", \"start_times\": [0, \"1\"]}",
         "field \"start_times\": want numbers, item 1 is a text"},
        {"{" DETAILS ", \"start_times\": [0, 1e12]}",
         "field \"start_times\": want at most 1e+06 s from the first to the last, got 1e+12"},
        {"{" DETAILS ", \"ttfts\": [0.5, -1]}",
         "field \"ttfts\": want seconds from 0 to 1e+09, item 1 is -1"},
        {"{" DETAILS ", \"ttfts\": [0.5, \"x\"]}",
         "field \"ttfts\": want seconds from 0 to 1e+09, item 1 is a text"},
        {"{" DETAILS ", \"ttfts\": [0.5, 1e9]}",
         "field \"ttfts\": want seconds from 0 to 1e+09, item 1 is 1000000000"},
        {"{" DETAILS ", \"ttfts\": {}}", "field \"ttfts\": want a list, found an object"},
        {"{" DETAILS ", \"ttfts\": [1, 1], \"itls\": [[], 3]}",
         "field \"itls\": want a list for each request, item 1 is a whole number"},
        {"{" DETAILS ", \"ttfts\": [1, 1], \"itls\": [[], [null]]}",
         "field \"itls\": want seconds from 0 to 1e+09, item 0 is null"},
        {"{" DETAILS ", \"ttfts\": [1, 1], \"latencies\": [2, true]}",
         "field \"latencies\": want seconds from 0 to 1e+09, item 1 is true"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_bench_file file;
        struct kvt_err err;
        CHECK_FAILS(parse(&file, rows[i].text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, "");
        CHECK_NOTE(file.runs == NULL && file.count == 0, "nothing is left");
        CHECK_NOTE(strchr(err.text, '\n') == NULL, "the first mistake of a run is told");
    }
    struct kvt_bench_file file;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_bench_file_read(&file, "no/such/bench.json", &err), err, KVT_EIO);
}

/* clang-format off */
const struct check_test check_bench_result[] = {
    {"a result of vLLM is read", a_result_of_vllm_is_read, false},
    {"results of SGLang are a run a line", results_of_sglang_are_a_run_a_line, false},
    {"details are used as far as they fit", details_are_used_as_far_as_they_fit, false},
    {"bad results are refused with file, line and field",
     bad_results_are_refused_with_file_line_and_field, false},
    {NULL, NULL, false},
};
/* clang-format on */
