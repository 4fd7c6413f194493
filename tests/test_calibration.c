/* Laws in closed form, and calibration files good and bad. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/cost/calibration.h"
#include "sim/cost/guess.h"
#include "tests/cost_parts.h"

static void a_roofline_is_launch_plus_the_norm_of_its_sides(void)
{
    struct kvt_law law = {.kind = KVT_LAW_ROOFLINE,
                          .t0 = 1e-6,
                          .serial = 1e-9,
                          .bandwidth = 1e12,
                          .flops = 1e15,
                          .p = 2};
    struct kvt_work work = {.bytes = 3e6, .flops = 4e9};
    enum kvt_limit limit;
    work.dim[KVT_DIM_K] = 500;
    CHECK_CLOSE(kvt_law_time(&law, &work, &limit), 1.5e-6 + 5e-6, 1e-12, "3-4-5");
    CHECK_I64(limit, KVT_LIMIT_COMPUTE, "the larger side");
    law.p = 1;
    CHECK_CLOSE(kvt_law_time(&law, &work, &limit), 1.5e-6 + 7e-6, 1e-12, "a sum");
    law.p = 3;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 1.5e-6 + 1e-6 * cbrt(27.0 + 64.0), 1e-12, "cubes");
    law.p = 3.5;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL),
                1.5e-6 + 1e-6 * pow(pow(3, 3.5) + pow(4, 3.5), 1 / 3.5), 1e-12, "any p");
    law.pad = 10;
    law.p = 1;
    work.tile_flops = 1e8;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 1.5e-6 + 8e-6, 1e-12, "wasted rows");
    work.tile_flops = 1e12;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 1.5e-6 + 11e-6, 1e-12, "at most as much again");
    law.flops = 0;
    CHECK_CLOSE(kvt_law_time(&law, &work, &limit), 1.5e-6 + 3e-6, 1e-12, "a side that is free");
    CHECK_I64(limit, KVT_LIMIT_MEMORY, "");
}

static void decode_is_linear_in_context_but_for_the_split(void)
{
    struct kvt_law law = {
        .kind = KVT_LAW_DECODE, .t0 = 1e-5, .bandwidth = 1e12, .p = 3, .tokens = 100};
    struct kvt_work work = {.batch = 4, .context = 4000, .token_bytes = 1000, .token_flops = 1e6};
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 1e-5 + 4400 * 1e-9, 1e-12, "bytes");
    law.flops = 1e15;
    double both = 1e-9 * cbrt(2.0);
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 1e-5 + 4400 * both, 1e-12, "a norm per token");
    law.split = 5e-6, law.split_tokens = 1000;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 1e-5 + 4400 * both + 2.5e-6, 1e-12,
                "half of the split term at 1,000 tokens a request");
}

static void a_sparse_module_scans_everything_and_reads_a_window(void)
{
    struct kvt_law law = {.kind = KVT_LAW_SPARSE,
                          .bandwidth = 1e12,
                          .index_bandwidth = 5e11,
                          .p = 3,
                          .points = 2,
                          .at = {1, 16},
                          .time = {1e-5, 4e-5}};
    struct kvt_work work = {
        .batch = 4, .context = 40000, .windowed = 8000, .token_bytes = 1000, .index_bytes = 100};
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 2e-5 + 8000 * 1e-9 + 40000 * 2e-10, 1e-12,
                "batch 4 lies half way between 1 and 16 in logarithms");
    work.batch = 64;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 4e-5 + 8e-6 + 8e-6, 1e-12, "flat outside");
}

static void buckets_and_knots_interpolate_and_extend(void)
{
    struct kvt_law law = {.kind = KVT_LAW_BUCKETS,
                          .points = 2,
                          .at = {1, 4},
                          .time = {1e-6, 3e-6},
                          .rate = {1e12, 5e11}};
    struct kvt_work work = {0};
    work.dim[KVT_DIM_N] = work.dim[KVT_DIM_K] = 2000; /* 2 MB of 4-bit weights */
    work.dim[KVT_DIM_M] = 1;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 3e-6, 1e-12, "first bucket");
    work.dim[KVT_DIM_M] = 2;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 5e-6, 1e-12, "half way");
    work.dim[KVT_DIM_M] = 8;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 14e-6, 1e-12, "proportional beyond");
    law = (struct kvt_law){
        .kind = KVT_LAW_KNOTS, .points = 3, .at = {1e3, 1e4, 1e6}, .time = {4e-6, 4e-6, 16e-6}};
    work.bytes = 1;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 4e-6, 1e-12, "flat below");
    work.bytes = 1e5;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 8e-6, 1e-12, "log-log between");
    work.bytes = 3e6;
    CHECK_CLOSE(kvt_law_time(&law, &work, NULL), 48e-6, 1e-12, "proportional beyond");
}

static const char head[] = "calibration: mine\ngpu: h200-sxm\nstack: sglang\nsource: test\nlaws:\n";

static enum kvt_status parse(struct kvt_calibration *c, const char *before, const char *laws,
                             struct kvt_err *err)
{
    char text[4096];
    snprintf(text, sizeof text, "%s%s", before, laws);
    *err = (struct kvt_err){0};
    return kvt_calibration_parse(c, "cal.yaml", text, strlen(text), &cost_gpu, NULL, err);
}

static void the_first_law_that_admits_is_used(void)
{
    struct kvt_calibration c;
    struct kvt_err err;
    CHECK_OK(
        parse(&c, head,
              "- {family: gemm-bf16, law: roofline, t0: 2 us, when: {n: [10, 20]}, source: a}\n"
              "- {family: host-floor, law: constant, t0: 1 ms, source: b}\n"
              "- {family: gemm-bf16, law: roofline, t0: 3 us, when: {n: 30}, source: c}\n"
              "- {family: gemm-bf16, law: roofline, t0: 4 us, when: {k: [0, 5]}, source: d}\n",
              &err),
        err);
    struct kvt_work work = {0};
    work.dim[KVT_DIM_K] = 9;
    static const struct {
        double n, t0;
    } rows[] = {{10, 2e-6}, {20, 2e-6}, {30, 3e-6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        work.dim[KVT_DIM_N] = rows[i].n;
        CHECK_CLOSE(kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &work)->t0, rows[i].t0, 1e-12,
                    "by n");
    }
    work.dim[KVT_DIM_N] = 31;
    CHECK(kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &work)->guess);
    work.dim[KVT_DIM_K] = 5;
    CHECK_CLOSE(kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &work)->t0, 4e-6, 1e-12, "by k");
    CHECK(kvt_calibration_law(&c, KVT_FAMILY_GEMM_FP8, &work)->guess);
    CHECK_CLOSE(c.skew, 1.0, 1e-12, "uniform unless said");
    kvt_calibration_release(&c);
}

static void bad_files_are_refused_with_their_place(void)
{
#define LAW "- family: gemm-bf16\n  law: roofline\n  source: a\n"
    static const struct {
        const char *head, *laws, *message;
    } rows[] = {
        {"", "", "cal.yaml:1:1: a calibration: want a mapping, got nothing"},
        {"- 1\n", "", "cal.yaml:1:1: a calibration: want a mapping, got a list"},
        {"a: [1\n", "", "cal.yaml:2:1: bad YAML: "},
        {"gpu: h200-sxm\nstack: s\nsource: t\nlaws: []\n", "",
         "1:1: calibration: wanted here, not given"},
        {"calibration: x\ngpu: h100-sxm\nstack: s\nsource: t\nlaws: []\n", "",
         "cal.yaml:2:6: gpu: this calibration is for \"h100-sxm\", wanted one for \"h200-sxm\""},
        {"calibration: x\ngpu: h200\nstack: s\nsource: t\nskew: 1.5\nlaws: []\n", "",
         "5:7: skew: want 0 to 1, got 1.5"},
        {"calibration: x\ngpu: h200\nstack: s\nsource: t\nlaws: 7\n", "",
         "laws: want a list of laws"},
        {head, "- 7\n", "cal.yaml:6:3: laws: want a mapping"},
        {head, LAW "  t0: 1 us\n  bandwith: 1 TB/s\n",
         "cal.yaml:10:3: unknown key \"bandwith\"; did you mean \"bandwidth\"?"},
        {head, LAW "  t0: 1 us\n  t0: 2 us\n", "\"t0\" is given twice"},
        {head, LAW, "t0: wanted by law \"roofline\", not given"},
        {head, LAW "  t0: 1\n", "cal.yaml:9:7: t0: "},
        {head, LAW "  t0: 1 GB\n", "cal.yaml:9:7: t0: "},
        {head, LAW "  t0: nan us\n", "cal.yaml:9:7: t0: "},
        {head, LAW "  t0: -1 us\n", "t0: want at least 0, got \"-1 us\""},
        {head, LAW "  t0: [1 us]\n", "t0: want "},
        {head, LAW "  t0: 1 us\n  bandwidth: 0 TB/s\n", "bandwidth: want more than 0"},
        {head, LAW "  t0: 1 us\n  split: 1 us\n", "split: law \"roofline\" does not take it"},
        {head, LAW "  t0: 1 us\n  when: 7\n", "when: want a mapping"},
        {head, LAW "  t0: 1 us\n  skew: 2\n", "skew: want 0 to 1, got 2"},
        {head, LAW "  t0: 1 us\n  when: {heds: 7}\n", "did you mean \"heads\"?"},
        {head, LAW "  t0: 1 us\n  when: {heads: [1, 2, 3]}\n",
         "heads: want [min, max], got 3 items"},
        {head, LAW "  t0: 1 us\n  grid: {n: [9, 3]}\n", "n: want min <= max, got 9 and 3"},
        {head, LAW "  t0: 1 us\n  held_out: {rows: 3}\n", "median: wanted here, not given"},
        {head, "- family: gemm-bf61\n  law: roofline\n  source: a\n",
         "family: unknown \"gemm-bf61\"; did you mean \"gemm-bf16\"?"},
        {head, "- family: gemm-bf16\n  law: linear\n  source: a\n", "law: unknown \"linear\""},
        {head, "- family: gemm-bf16\n  law: constant\n  t0: 1 us\n",
         "source: wanted here, not given"},
        {head, "- {family: all-reduce, law: knots, at: [1, 2], time: [1 us], source: a}\n",
         "time: want 2 items as in \"at\", got 1"},
        {head, "- {family: all-reduce, law: knots, at: [2, 1], time: [1 us, 1 us], source: a}\n",
         "at: want increasing numbers, got 1 after 2"},
        {head, "- {family: all-reduce, law: knots, at: [], time: [], source: a}\n",
         "at: want a list of 1 to 24 items"},
        {head,
         "- {family: mla-decode-bf16, law: decode, t0: 1 us, bandwidth: 1 TB/s, split: 1 us, "
         "source: a}\n",
         "split_tokens: wanted with split, not given"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_calibration c;
        struct kvt_err err;
        CHECK_FAILS(parse(&c, rows[i].head, rows[i].laws, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].laws);
        CHECK_NOTE(c.laws == NULL, "nothing is left behind");
    }
#undef LAW
}

static void several_mistakes_are_said_at_once(void)
{
    struct kvt_calibration c;
    struct kvt_err err;
    CHECK_FAILS(parse(&c, head,
                      "- {family: a, law: b, source: c}\n- {family: d, law: e, source: f}\n", &err),
                err, KVT_ECONFIG);
    CHECK_I64(err.count, 4, "two a law");
}

static void names_that_are_not_there_are_input_errors(void)
{
    struct kvt_calibration c;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_calibration_load(&c, "h200-nothing", &cost_gpu, "sglang", NULL, &err), err,
                KVT_EIO);
    CHECK_HOLDS(err.text, "configs/calibrations/h200-nothing.yaml", "");
    struct kvt_gpu bare = {.name = "mine"};
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_calibration_load(&c, NULL, &bare, "sglang", NULL, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "GPU \"mine\" is known by its memory only", "");
}

static void an_unknown_gpu_is_guessed_and_said_once(void)
{
    struct kvt_calibration c;
    struct kvt_err err = {0};
    struct kvt_gpu other = cost_gpu;
    char *text = NULL;
    size_t count = 0;
    FILE *talk = open_memstream(&text, &count);
    snprintf(other.name, sizeof other.name, "x900");
    other.alias_count = 0;
    CHECK_OK(kvt_calibration_load(&c, NULL, &other, "vllm", talk, &err), err);
    for (int f = 0; f < KVT_FAMILY_COUNT; f++) {
        struct kvt_work work = {.bytes = 1e6,
                                .flops = 1e9,
                                .batch = 1,
                                .context = 1000,
                                .windowed = 100,
                                .token_bytes = 1000,
                                .token_flops = 1e5};
        const struct kvt_law *law = kvt_calibration_law(&c, (enum kvt_family)f, &work);
        double t = kvt_calibration_time(&c, law, &work, NULL);
        CHECK_NOTE((law->guess || f == KVT_FAMILY_DIGEST) && t >= 0.0 && t < 1.0,
                   kvt_family_names[f]);
        CHECK_NOTE(law->source[0] != '\0', kvt_family_names[f]);
    }
    kvt_calibration_release(&c);
    snprintf(other.name, sizeof other.name, "h100-pcie");
    CHECK_OK(kvt_calibration_load(&c, NULL, &other, "vllm", NULL, &err), err);
    CHECK_TEXT(c.name, "data-sheet", "h100-vllm is of another board");
    fclose(talk);
    CHECK_TEXT(text,
               "kvtwin: warning: no calibration for x900 under vllm; step times are guesses from "
               "its data sheet\n",
               "one line");
    free(text);
    kvt_calibration_release(&c);
}

static void guesses_and_sizes_outside_the_grid_are_said_once(void)
{
    struct kvt_calibration c;
    struct kvt_err err = {0};
    char *text = NULL, yaml[1024];
    size_t count = 0;
    FILE *talk = open_memstream(&text, &count);
    snprintf(yaml, sizeof yaml, "%s%s", head,
             "- {family: gemm-bf16, law: roofline, t0: 1 us, grid: {n: [100, 200], m: [1, 2]}, "
             "source: a}\n");
    CHECK_OK(kvt_calibration_parse(&c, "cal.yaml", yaml, strlen(yaml), &cost_gpu, talk, &err), err);
    struct kvt_work work = {.bytes = 1};
    work.dim[KVT_DIM_M] = 64; /* varies all the time: not a reason to warn */
    work.dim[KVT_DIM_N] = 150;
    const struct kvt_law *law = kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &work);
    kvt_calibration_time(&c, law, &work, NULL);
    fflush(talk);
    CHECK_I64((int64_t)count, 0, "inside");
    for (int i = 0; i < 3; i++) {
        work.dim[KVT_DIM_N] = 50;
        kvt_calibration_time(&c, law, &work, NULL);
        kvt_calibration_time(&c, kvt_calibration_law(&c, KVT_FAMILY_GEMM_FP8, &work), &work, NULL);
    }
    fclose(talk);
    CHECK_TEXT(text,
               "kvtwin: warning: mine: gemm-bf16 was measured at n 100 to 200; at n 50 it is "
               "extrapolated\n"
               "kvtwin: warning: calibration mine has no law for gemm-fp8 of this size; guess: 80 "
               "% of the data sheet's bandwidth and 70 % of its matrix rate\n",
               "once each");
    free(text);
    kvt_calibration_release(&c);
}

static void shipped_files_load_and_state_their_sources(void)
{
    static const char *const names[] = {"h200-sglang", "h200-vllm", "h200-published-best",
                                        "h100-sglang", "h100-vllm", "b200-sglang",
                                        "b200-vllm"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct kvt_calibration c;
        struct kvt_err err = {0};
        struct kvt_gpu own = cost_gpu;
        own.alias_count = 0;
        snprintf(own.name, sizeof own.name, "%.4s-sxm", names[n]);
        CHECK_OK(kvt_calibration_load(&c, names[n], &own, "any", NULL, &err), err);
        CHECK_TEXT(c.name, names[n], "named as its file");
        for (int32_t i = 0; i < c.law_count; i++) {
            const struct kvt_law *law = &c.laws[i];
            CHECK_NOTE(strlen(law->source) >= 8, kvt_family_names[law->family]);
            CHECK_NOTE(law->error_rows == 0 || law->error_mean > 0.0,
                       "errors come with their rows");
            CHECK_NOTE(!law->held_out || (law->unseen.rows > 0 && law->unseen.low < 1.0 &&
                                          law->unseen.high > 1.0),
                       "what is held out has unseen shapes beside it, and an interval");
            CHECK_NOTE(law->bandwidth < 1.25 * 8e12 || law->family == KVT_FAMILY_MLA_BMM,
                       "no law reads faster than memory can, but from L2");
        }
        kvt_calibration_release(&c);
    }
}

/* What was read before is copied: it must be what reading says, of the file as it is now. */
static void a_file_that_changes_is_read_anew(void)
{
    char path[512], text[1024];
    snprintf(path, sizeof path, "%s", check_temp("cal.yaml"));
    struct kvt_err err = {0};
    struct kvt_gpu other = cost_gpu;
    other.bandwidth = 1e12;
    for (int i = 0; i < 60; i++) { /* more files than are kept, each three times */
        struct kvt_calibration c;
        double us = 1 + i / 3 % 20;
        int length =
            snprintf(text, sizeof text,
                     "%s- {family: gemm-bf16, law: constant, t0: %.0f us, source: a}\n", head, us);
        CHECK_OK(kvt_file_write(path, text, (size_t)length, &err), err);
        CHECK_OK(kvt_calibration_load(&c, path, i % 3 == 2 ? &other : &cost_gpu, "", NULL, &err),
                 err);
        struct kvt_work work = {.bytes = 1e6};
        const struct kvt_law *law = kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &work);
        CHECK_CLOSE(kvt_law_time(law, &work, NULL), 1e-6 * us, 1e-12, "as the file says");
        law = kvt_calibration_law(&c, KVT_FAMILY_GEMM_FP8, &work);
        CHECK_CLOSE(law->bandwidth, 0.8 * (i % 3 == 2 ? 1e12 : 4.8e12), 1e-12, "of that GPU");
        CHECK(!c.said[0]);
        c.said[0] = true;
        kvt_calibration_add(&c, KVT_FAMILY_GEMM_BF16, 1); /* leaves no trace */
        kvt_calibration_release(&c);
    }
    remove(path);
}

/* clang-format off */
const struct check_test check_calibration[] = {
    {"a roofline is launch plus the norm of its sides",
     a_roofline_is_launch_plus_the_norm_of_its_sides, false},
    {"decode is linear in context but for the split",
     decode_is_linear_in_context_but_for_the_split, false},
    {"a sparse module scans everything and reads a window",
     a_sparse_module_scans_everything_and_reads_a_window, false},
    {"buckets and knots interpolate and extend", buckets_and_knots_interpolate_and_extend, false},
    {"the first law that admits is used", the_first_law_that_admits_is_used, false},
    {"bad files are refused with their place", bad_files_are_refused_with_their_place, false},
    {"several mistakes are said at once", several_mistakes_are_said_at_once, false},
    {"names that are not there are input errors", names_that_are_not_there_are_input_errors, false},
    {"an unknown GPU is guessed and said once", an_unknown_gpu_is_guessed_and_said_once, false},
    {"guesses and sizes outside the grid are said once",
     guesses_and_sizes_outside_the_grid_are_said_once, false},
    {"shipped files load and state their sources",
     shipped_files_load_and_state_their_sources, false},
    {"a file that changes is read anew", a_file_that_changes_is_read_anew, false},
    {NULL, NULL, false},
};
/* clang-format on */
