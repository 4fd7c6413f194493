/* Tables in, laws out: known parameters come back, bad tables are named, files read as written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/cost/calibration_print.h"
#include "sim/cost/fit_calibration.h"
#include "sim/cost/surface.h"
#include "tests/cost_parts.h"

static const char path[] = "dir/h200_sxm-sglang-1.2-gemm_perf.csv";

/* A CSV text that grows. */
struct text {
    char *bytes;
    size_t count;
    FILE *file;
};

static void text_begin(struct text *text, const char *header)
{
    text->file = open_memstream(&text->bytes, &text->count);
    fprintf(text->file, "%s\n", header);
}

static const char *text_end(struct text *text)
{
    fclose(text->file);
    return text->bytes;
}

/* A factor near 1: ln of it is spread evenly over +-spread, by a counter. */
static double noise(int32_t *counter, double spread)
{
    uint64_t x = (uint64_t)++ * counter * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return exp(spread * ((double)(x >> 11) / (double)(UINT64_C(1) << 53) * 2.0 - 1.0));
}

static const char gemm_header[] = "version,op_name,kernel_source,gemm_dtype,m,n,k,latency";

/* GEMM rows of a known law, in ms. */
static struct kvt_law known_gemm(void)
{
    return (struct kvt_law){.kind = KVT_LAW_ROOFLINE,
                            .t0 = 4e-6,
                            .serial = 0.4e-9,
                            .bandwidth = 4.1e12,
                            .flops = 720e12,
                            .p = 3.0};
}

static void gemm_rows(FILE *out, double spread, double scale)
{
    struct kvt_law law = known_gemm();
    int32_t counter = 0;
    for (int n = 256; n <= 32768; n *= 2)
        for (int k = 512; k <= 32768; k *= 2)
            for (int m = 1; m <= 8192; m *= 4) {
                struct kvt_work w = {.bytes = 2.0 * n * k + 2.0 * m * ((double)n + k),
                                     .flops = 2.0 * m * n * k};
                w.dim[KVT_DIM_K] = k;
                double t = kvt_law_time(&law, &w, NULL) * noise(&counter, spread);
                fprintf(out, "1.2,gemm,cublas,bfloat16,%d,%d,%d,%.9g\n", m, n, k, t * scale);
            }
}

static enum kvt_status parse(struct kvt_tables *tables, const char *text, struct kvt_err *err)
{
    *tables = (struct kvt_tables){0};
    *err = (struct kvt_err){0};
    return kvt_tables_parse(tables, path, text, strlen(text), NULL, NULL, err);
}

static void known_parameters_come_back(void)
{
    struct text text;
    text_begin(&text, gemm_header);
    struct kvt_tables tables;
    struct kvt_fit fit;
    struct kvt_err err;
    gemm_rows(text.file, 0.05, 1e3);
    CHECK_OK(parse(&tables, text_end(&text), &err), err);
    CHECK_I64(tables.series_count, 1, "one dtype");
    CHECK_TEXT(tables.series[0].name, "sglang 1.2 gemm bfloat16", "stack, version, table, dtype");
    CHECK_OK(kvt_fit_series(&fit, &tables.series[0], &tables, &cost_gpu, &err), err);
    struct kvt_law known = known_gemm(), *law = &fit.laws[0];
    CHECK_CLOSE(law->t0, known.t0, 0.05, "t0");
    CHECK_CLOSE(law->serial, known.serial, 0.05, "serial");
    CHECK_CLOSE(law->bandwidth, known.bandwidth, 0.03, "bandwidth");
    CHECK_CLOSE(law->flops, known.flops, 0.03, "flops");
    CHECK_NOTE(!fit.bad && fit.trouble[0] == '\0' && fit.excluded == 0, fit.trouble);
    CHECK_NOTE(fit.held.rows > 40 && fit.held.rows < 120, "a fifth of four fifths of 392");
    CHECK_NOTE(fit.unseen.rows > 60 && fit.unseen.rows < 140, "a fifth of the shapes");
    CHECK_NOTE(fit.held.mean < 0.035 && fit.unseen.mean < 0.035, "the noise is 2.5 % in the mean");
    CHECK_NOTE(fit.low > 0.93 && fit.low < 0.97 && fit.high > 1.03 && fit.high < 1.07,
               "90 % of evenly spread noise of 5 %");
    CHECK_NOTE(fit.coverage > 0.8 && fit.coverage < 0.98, "coverage");
    int32_t inside = 0, count = 0;
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 8; j++, count++) { /* the truth between the rows */
            double n = 300 * pow(1.7, i), m = 2 * pow(3, j);
            struct kvt_work w = {.bytes = 2 * n * 5000 + 2 * m * (n + 5000),
                                 .flops = 2 * m * n * 5000};
            w.dim[KVT_DIM_M] = m, w.dim[KVT_DIM_N] = n, w.dim[KVT_DIM_K] = 5000;
            double ratio = kvt_law_time(&known, &w, NULL) / kvt_fit_time(&fit, &w);
            inside += ratio > fit.low && ratio < fit.high;
        }
    CHECK_I64(inside, count, "sizes that no row has are inside the interval");
    kvt_fit_release(&fit);
    kvt_tables_release(&tables);
    free(text.bytes);
}

static void decode_attention_comes_back(void)
{
    struct text text;
    text_begin(&text, "version,op_name,kernel_source,kv_cache_dtype,num_heads,"
                      "batch_size,isl,step,latency");
    struct kvt_law known = {.kind = KVT_LAW_DECODE,
                            .t0 = 9e-6,
                            .tokens = 180,
                            .bandwidth = 3.9e12,
                            .flops = 600e12,
                            .p = 3.0,
                            .split = 8e-6,
                            .split_tokens = 600};
    struct kvt_tables tables;
    struct kvt_fit fit;
    struct kvt_err err;
    int32_t counter = 7;
    for (int h = 8; h <= 128; h *= 2)
        for (int b = 1; b <= 256; b *= 2)
            for (int s = 16; s <= 65536; s *= 2) {
                struct kvt_work w = {.batch = b,
                                     .context = (double)b * s,
                                     .windowed = (double)b * s,
                                     .token_bytes = 1152,
                                     .token_flops = 2.0 * h * 1088};
                fprintf(text.file, "1.2,mla_generation,fa3,bfloat16,%d,%d,1,%d,%.9g\n", h, b, s - 1,
                        1e3 * kvt_law_time(&known, &w, NULL) * noise(&counter, 0.03));
            }
    CHECK_OK(parse(&tables, text_end(&text), &err), err);
    CHECK_OK(kvt_fit_series(&fit, &tables.series[0], &tables, &cost_gpu, &err), err);
    CHECK_CLOSE(fit.laws[0].bandwidth, known.bandwidth, 0.03, "bandwidth");
    CHECK_CLOSE(fit.laws[0].flops, known.flops, 0.05, "flops");
    CHECK_CLOSE(fit.laws[0].t0, known.t0, 0.05, "t0");
    CHECK_CLOSE(fit.laws[0].split, known.split, 0.15, "split");
    CHECK_NOTE(fit.held.mean < 0.025, "the noise is 1.5 % in the mean");
    kvt_fit_release(&fit);
    kvt_tables_release(&tables);
    free(text.bytes);
}

static void repeats_are_averaged_and_set_the_floor(void)
{
    struct kvt_tables tables;
    struct kvt_err err;
    double floor;
    const char *text = "op_name,gemm_dtype,m,n,k,latency\n"
                       "gemm,bfloat16,1,64,64,0.9\ngemm,bfloat16,2,64,64,5\n"
                       "gemm,bfloat16,1,64,64,1.1\n";
    CHECK_OK(parse(&tables, text, &err), err);
    struct kvt_series *s = &tables.series[0];
    CHECK_TEXT(s->version, "1.2", "from the file's name");
    kvt_series_average(s, &floor);
    CHECK_I64(s->count, 2, "different rows");
    CHECK_I64(s->rows, 3, "rows that were read");
    CHECK_CLOSE(floor, 0.1, 1e-12, "each 10 % from the mean");
    int one = s->samples[0].repeats == 2 ? 0 : 1;
    CHECK_CLOSE(s->samples[one].time, 1e-3, 1e-12, "the mean, in seconds");
    CHECK_I64(s->samples[one].line, 2, "the first row's line");
    kvt_tables_release(&tables);
}

static void bad_tables_are_refused_with_their_place(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "want a header and rows"},
        {"op_name,gemm_dtype,m,n,k,latency\n", "want a header and rows"},
        {"gemm_dtype,m,n,k,latency\nbfloat16,1,1,1,1\n",
         "csv:1: column \"op_name\": wanted in a table of kernel times, not found"},
        {"op_name,m,m\n1,2,3\n", "csv:1: column \"m\" is given twice"},
        {"op_name,gemm_dtype,m,n,k\ngemm,bfloat16,1,1,1\n",
         "csv:2: column \"latency\": wanted by op \"gemm\", not in the header"},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64,64,1\ngemm,bfloat16,1,64,64,nan\n",
         "csv:3: latency: "},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64,64,0\n",
         "csv:2: latency: want a time above 0 and below 1000 s, got 0 ms"},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64,64,-3\n", "csv:2: latency: want at"},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64,64,1e9\n",
         "csv:2: latency: want a time above 0 and below 1000 s"},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,0,64,64,1\n",
         "csv:2: m: want at least 1, got 0"},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,many,64,64,1\n", "csv:2: m: "},
        {"op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64\n",
         "csv:2: want 6 fields as in the header, got 4"},
        {"op_name,gemm_dtype,m,n,k,latency\ngem,bfloat16,1,1,1,1\n",
         "csv:2: op_name: unknown \"gem\"; did you mean \"gemm\"?"},
        {"op_name,gemm_dtype,m,n,k,latency\n\"gemm\"x,bfloat16,1,1,1,1\n", "csv:2: not CSV"},
        {"op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,"
         "moe_tp_size,moe_ep_size,distribution,latency\nmoe,x,fp8_block,1,1,1,1,1,1,1,zipf,1\n",
         "csv:2: distribution: want balanced or power_law_NUMBER, got \"zipf\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_tables tables;
        struct kvt_err err;
        CHECK_FAILS(parse(&tables, rows[i].text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, "");
        CHECK_HOLDS(err.text, "dir/h200_sxm-sglang-1.2-gemm_perf.csv", "the file");
        kvt_tables_release(&tables);
    }
}

static void a_calibration_is_for_one_gpu(void)
{
    struct kvt_tables tables;
    struct kvt_err err;
    const char *text = "op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64,64,1\n";
    CHECK_OK(parse(&tables, text, &err), err);
    CHECK_FAILS(kvt_tables_parse(&tables, "b200_sxm-sglang-1.2-gemm.csv", text, strlen(text), NULL,
                                 NULL, &err),
                err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "is a table of GPU \"b200_sxm\", the ones before are of \"h200_sxm\"",
                "");
    kvt_tables_release(&tables);
    err = (struct kvt_err){0};
    CHECK_FAILS(kvt_tables_parse(&tables, "own.csv", text, strlen(text), NULL, NULL, &err), err,
                KVT_ECONFIG);
    CHECK_HOLDS(err.text, "or --gpu and --stack", "");
    kvt_tables_release(&tables);
    CHECK_OK(kvt_tables_parse(&tables, "own.csv", text, strlen(text), "h200-sxm", "own", &err),
             err);
    CHECK_TEXT(tables.series[0].stack, "own", "");
    kvt_tables_release(&tables);
}

/* Fit the text's first series; the status, with err and fit filled. */
static enum kvt_status fit_text(const char *text, struct kvt_tables *tables, struct kvt_fit *fit,
                                struct kvt_err *err)
{
    *fit = (struct kvt_fit){0};
    enum kvt_status status = parse(tables, text, err);
    CHECK_OK(status, *err);
    return status != KVT_OK ? status
                            : kvt_fit_series(fit, &tables->series[0], tables, &cost_gpu, err);
}

static void what_cannot_be_fitted_says_why(void)
{
    struct kvt_tables tables;
    struct kvt_fit fit;
    struct kvt_err err;
    CHECK_FAILS(fit_text("op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,64,64,1\n", &tables,
                         &fit, &err),
                err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "csv:2: sglang 1.2 gemm bfloat16: want at least 24 different rows", "");
    kvt_fit_release(&fit);
    kvt_tables_release(&tables);
    static const struct {
        double scale;
        bool same_time, same_size;
        const char *message;
    } rows[] = {{1e3, true, false, "the fit is singular: every row takes the same"},
                {1e3, false, true, "the fit is singular: want rows of different sizes"},
                {1e6, false, false, "want times in milliseconds"},
                {1e0, false, false, "want times in milliseconds"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct text text;
        text_begin(&text, gemm_header);
        for (int m = 1; m <= 32 && rows[i].same_time; m++)
            fprintf(text.file, "1.2,gemm,x,bfloat16,%d,4096,4096,0.02\n", m * 16);
        for (int m = 1; m <= 32 && rows[i].same_size; m++)
            fprintf(text.file, "1.2,gemm,x,bfloat16,%d,16384,16384,%g\n", m, 0.2 + 1e-3 * m);
        if (!rows[i].same_time && !rows[i].same_size)
            gemm_rows(text.file, 0.01, rows[i].scale);
        CHECK_FAILS(fit_text(text_end(&text), &tables, &fit, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, "");
        CHECK_HOLDS(err.text, "csv:2: sglang 1.2 gemm bfloat16: ", "where");
        kvt_fit_release(&fit);
        kvt_tables_release(&tables);
        free(text.bytes);
    }
}

static void impossible_rows_are_left_out_and_bad_tables_not_used(void)
{
    for (int bad = 0; bad <= 2; bad++) {
        struct text text;
        text_begin(&text, gemm_header);
        struct kvt_tables tables;
        struct kvt_fit fit;
        struct kvt_err err;
        gemm_rows(text.file, 0.02, 1e3);
        for (int m = 1; m <= (bad == 0 ? 10 : 200); m++) /* 2.1 GB in 100 us: 21 TB/s */
            fprintf(text.file, "1.2,gemm,x,bfloat16,%d,32768,32768,0.1\n", m * 3);
        if (bad == 2) { /* launches only */
            text_end(&text);
            free(text.bytes);
            text_begin(&text, gemm_header);
            for (int n = 64; n <= 65536; n *= 2)
                for (int k = 64; k <= 4096; k *= 2)
                    fprintf(text.file, "1.2,gemm,x,bfloat16,16,%d,%d,%g\n", n, k,
                            0.15 + 1e-9 * n + 1e-8 * k);
        }
        CHECK_OK(fit_text(text_end(&text), &tables, &fit, &err), err);
        CHECK_NOTE(fit.bad == (bad > 0), "bad when more than a tenth is impossible, or flat");
        CHECK_I64(fit.excluded, bad == 0 ? 10 : 0, "rows left out");
        CHECK_HOLDS(fit.trouble,
                    bad == 2   ? "flat in size"
                    : bad == 1 ? "200 of 592 rows are faster than the memory of h200-sxm"
                               : "10 of 402 rows left out: faster than the memory",
                    "");
        struct kvt_calibration c;
        CHECK_OK(
            kvt_calibration_build(&c, &fit, 1, &(struct kvt_build_wishes){.gpu = "h200-sxm"}, &err),
            err);
        CHECK_I64(c.law_count, bad == 0, "what is bad is not written");
        CHECK_TEXT(c.name, "h200-sglang", "");
        kvt_calibration_release(&c);
        kvt_fit_release(&fit);
        kvt_tables_release(&tables);
        free(text.bytes);
    }
}

static void a_fit_reads_back_as_it_was_written_and_in_any_order_of_rows(void)
{
    char *printed[2] = {NULL};
    for (int turn = 0; turn < 2; turn++) {
        struct text text;
        text_begin(&text, gemm_header);
        struct kvt_tables tables;
        struct kvt_fit fit;
        struct kvt_calibration built, read;
        struct kvt_err err;
        gemm_rows(text.file, 0.04, 1e3);
        text_end(&text);
        if (turn == 1) { /* the last row first */
            char *last = strrchr(text.bytes, '\n');
            *last = '\0';
            last = strrchr(text.bytes, '\n') + 1;
            char *header = strdup(gemm_header), *moved = malloc(text.count + 2);
            size_t head = strlen(header) + 1;
            snprintf(moved, text.count + 2, "%s\n%s\n%.*s", header, last,
                     (int)((size_t)(last - text.bytes) - head), text.bytes + head);
            free(header);
            free(text.bytes);
            text.bytes = moved;
        }
        CHECK_OK(fit_text(text.bytes, &tables, &fit, &err), err);
        CHECK_OK(kvt_calibration_build(
                     &built, &fit, 1,
                     &(struct kvt_build_wishes){.gpu = "h200-sxm", .stack = "sglang"}, &err),
                 err);
        printed[turn] = cost_print(&built);
        CHECK_OK(kvt_calibration_parse(&read, "cal.yaml", printed[turn], strlen(printed[turn]),
                                       &cost_gpu, NULL, &err),
                 err);
        struct kvt_work w = {.bytes = 3e8, .flops = 1e12};
        w.dim[KVT_DIM_M] = 100, w.dim[KVT_DIM_N] = 5000, w.dim[KVT_DIM_K] = 7168;
        const struct kvt_law *law = kvt_calibration_law(&read, KVT_FAMILY_GEMM_BF16, &w);
        CHECK_NOTE(!law->guess && law->surface != NULL && law->unseen.rows > 0, "all is there");
        CHECK_CLOSE(kvt_calibration_time(&read, law, &w, NULL), kvt_fit_time(&fit, &w), 2e-4, "");
        kvt_calibration_release(&read);
        kvt_calibration_release(&built);
        kvt_fit_release(&fit);
        kvt_tables_release(&tables);
        free(text.bytes);
    }
    CHECK_TEXT(printed[0], printed[1], "the order of rows does not matter");
    free(printed[0]);
    free(printed[1]);
}

static void shipped_calibrations_print_as_they_read(void)
{
    static const char *const names[] = {"h200-sglang",        "h200-vllm",   "h100-sglang",
                                        "h100-vllm",          "b200-sglang", "b200-vllm",
                                        "h200-published-best"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct kvt_calibration c, again;
        struct kvt_gpu g;
        struct kvt_err err = {0};
        char name[16];
        snprintf(name, sizeof name, "%.4s-sxm", names[i]);
        CHECK_OK(kvt_gpu_load(&g, name, -1.0, &err), err);
        CHECK_OK(kvt_calibration_load(&c, names[i], &g, "sglang", NULL, &err), err);
        char *first = cost_print(&c);
        CHECK_OK(kvt_calibration_parse(&again, names[i], first, strlen(first), &g, NULL, &err),
                 err);
        char *second = cost_print(&again);
        CHECK_TEXT(second, first, names[i]);
        CHECK_I64(again.law_count, c.law_count, names[i]);
        for (int32_t k = 0; k < c.law_count; k++) {
            CHECK_CLOSE(again.laws[k].t0, c.laws[k].t0, 1e-4, names[i]);
            CHECK_CLOSE(again.laws[k].bandwidth, c.laws[k].bandwidth, 1e-4, names[i]);
            CHECK_NOTE(memcmp(again.laws[k].when, c.laws[k].when, sizeof c.laws[k].when) == 0, "");
        }
        free(first);
        free(second);
        kvt_calibration_release(&again);
        kvt_calibration_release(&c);
    }
}

static void a_surface_is_linear_in_logarithms_and_flat_outside(void)
{
    static const char text[] = "calibration: mine\ngpu: h200-sxm\nstack: sglang\nsource: test\n"
                               "laws:\n- family: gemm-bf16\n  law: roofline\n  t0: 1 us\n"
                               "  surface:\n    axes: [m, length]\n    m: [1, 16]\n"
                               "    length: [10, 100, 1000]\n    half_percent: >-\n"
                               "      0 20 40 80\n      -60 0\n  source: test\n";
    struct kvt_calibration c;
    struct kvt_err err = {0};
    CHECK_OK(kvt_calibration_parse(&c, "cal.yaml", text, strlen(text), &cost_gpu, NULL, &err), err);
    static const struct {
        double m, length, log_factor;
    } rows[] = {{1, 10, 0},
                {1, 100, 0.1},
                {16, 10, 0.4},
                {16, 1e9, 0.0},
                {4, 10, 0.2},
                {4, 1000, 0.1},
                {1, 316.22776601683796, 0.15},
                {0.1, 0, 0.0},
                {99, 100, -0.3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_work w = {.batch = 3, .context = 3 * rows[i].length};
        w.dim[KVT_DIM_M] = rows[i].m;
        CHECK_CLOSE(kvt_law_time(kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &w), &w, NULL),
                    1e-6 * exp(rows[i].log_factor), 1e-12, "");
    }
    kvt_calibration_release(&c);
}

/* 2048 is 0: "W0" is 2048, "V-" 2047, "00" and "--" the ends. */
static void packed_values_are_half_percents(void)
{
    static const char text[] = "calibration: mine\ngpu: h200-sxm\nstack: sglang\nsource: test\n"
                               "laws:\n- family: gemm-bf16\n  law: roofline\n  t0: 1 us\n"
                               "  surface:\n    axes: [m]\n    m: [1, 2, 4, 8, 16]\n"
                               "    packed: >-\n      W0V-W2\n      00--\n  source: test\n";
    static const double half_percents[] = {0, -1, 2, -2048, 2047};
    struct kvt_calibration c;
    struct kvt_err err = {0};
    CHECK_OK(kvt_calibration_parse(&c, "cal.yaml", text, strlen(text), &cost_gpu, NULL, &err), err);
    for (int i = 0; i < 5; i++) {
        struct kvt_work w = {0};
        w.dim[KVT_DIM_M] = 1 << i;
        CHECK_CLOSE(kvt_law_time(kvt_calibration_law(&c, KVT_FAMILY_GEMM_BF16, &w), &w, NULL),
                    1e-6 * exp(half_percents[i] / 200.0), 1e-12, "");
    }
    kvt_calibration_release(&c);
}

static void a_bad_surface_says_where(void)
{
    static const struct {
        const char *surface, *message;
    } rows[] = {
        {"12", "9:12: surface: want a mapping"},
        {"{m: [1], half_percent: 1}",
         "surface: want axes (a list of 1 to 5 sizes), knots for each"},
        {"{axes: [m], half_percent: 1}", "surface: want axes"},
        {"{axes: [mm], mm: [1], half_percent: 1}", "axes: unknown \"mm\""},
        {"{axes: [m], m: 1, half_percent: 1}", "m: want a list of 1 to 32 knots"},
        {"{axes: [m], m: [2, 1], half_percent: 1 1}", "m: want increasing numbers, got 1 after 2"},
        {"{axes: [m], m: [0, 1], half_percent: 1 1}", "m: want more than 0"},
        {"{axes: [m], m: [1, 2], half_percent: 1}",
         "half_percent: want 2 whole numbers from -20000 to "
         "20000, got 1"},
        {"{axes: [m], m: [1, 2], half_percent: 1 2.5}", "got 2 and then \".5\""},
        {"{axes: [m], m: [1, 2], packed: W0W}", "packed: want 4 digits of base 64, got 3"},
        {"{axes: [m], m: [1, 2], packed: W0W0W}", "packed: want 4 digits of base 64, got 5"},
        {"{axes: [m], m: [1, 2], packed: W0.0}", "got 2 and then \".0\""},
        {"{axes: [m], m: [1, 2], half_percent: 1 99999}", "got 1 and then \"99999\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        struct kvt_calibration c;
        struct kvt_err err = {0};
        snprintf(text, sizeof text,
                 "calibration: mine\ngpu: h200-sxm\nstack: sglang\nsource: test\n"
                 "laws:\n- family: gemm-bf16\n  law: roofline\n  t0: 1 us\n  surface: %s\n"
                 "  source: test\n",
                 rows[i].surface);
        CHECK_FAILS(
            kvt_calibration_parse(&c, "cal.yaml", text, strlen(text), &cost_gpu, NULL, &err), err,
            KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, "");
        CHECK_HOLDS(err.text, "cal.yaml:9:", "the line");
    }
}

/* What serving needs most, on the public tables: median and mean of held-out rows. */
static void public_gemm_tables_fit_within_the_figures(void)
{
    static const struct {
        const char *dtype;
        double median, mean;
    } rows[] = {{"bfloat16", 0.055, 0.09}, {"fp8", 0.07, 0.13}, {"fp8_block", 0.10, 0.16}};
    const char *name = check_shared("silicon/h200_sxm-sglang-0.5.14-gemm_perf.csv.gz");
    struct kvt_tables tables = {0};
    struct kvt_err err = {0};
    if (name == NULL)
        return;
    CHECK_OK(kvt_tables_read(&tables, name, NULL, NULL, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int32_t s = 0; s < tables.series_count; s++) {
            struct kvt_fit fit;
            if (strcmp(tables.series[s].dtype, rows[i].dtype) != 0)
                continue;
            CHECK_OK(kvt_fit_series(&fit, &tables.series[s], &tables, &cost_gpu, &err), err);
            CHECK_NOTE(fit.held.median <= rows[i].median, rows[i].dtype);
            CHECK_NOTE(fit.held.mean <= rows[i].mean, rows[i].dtype);
            CHECK_NOTE(fit.unseen.median <= 1.5 * rows[i].median, rows[i].dtype);
            CHECK_NOTE(fit.unseen.mean <= 1.5 * rows[i].mean, rows[i].dtype);
            CHECK_NOTE(fit.coverage >= 0.85 && fit.coverage <= 0.95, rows[i].dtype);
            kvt_fit_release(&fit);
        }
    }
    kvt_tables_release(&tables);
}

/* clang-format off */
const struct check_test check_fit[] = {
    {"known parameters come back", known_parameters_come_back, false},
    {"decode attention comes back", decode_attention_comes_back, false},
    {"repeats are averaged and set the floor", repeats_are_averaged_and_set_the_floor, false},
    {"bad tables are refused with their place", bad_tables_are_refused_with_their_place, false},
    {"a calibration is for one GPU", a_calibration_is_for_one_gpu, false},
    {"what cannot be fitted says why", what_cannot_be_fitted_says_why, false},
    {"impossible rows are left out and bad tables not used",
     impossible_rows_are_left_out_and_bad_tables_not_used, false},
    {"a fit reads back as it was written and in any order of rows",
     a_fit_reads_back_as_it_was_written_and_in_any_order_of_rows, false},
    {"shipped calibrations print as they read", shipped_calibrations_print_as_they_read, false},
    {"a surface is linear in logarithms and flat outside",
     a_surface_is_linear_in_logarithms_and_flat_outside, false},
    {"packed values are half percents", packed_values_are_half_percents, false},
    {"a bad surface says where", a_bad_surface_says_where, false},
    {"public GEMM tables fit within the figures", public_gemm_tables_fit_within_the_figures, true},
    {NULL, NULL, false},
};
/* clang-format on */
