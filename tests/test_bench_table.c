/* Tables of kvtwin bench: small grids give laws whose parameters come back inside their intervals,
 * a small model finds a law for each of its kernels, and what is wrong with a table is said. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/calibration_print.h"
#include "sim/cost/ceilings.h"
#include "sim/cost/fit_calibration.h"
#include "sim/cost/step.h"
#include "tests/check.h"

static const struct kvt_gpu cpu = {
    .name = "test-cpu", .memory_visible = 16e9, .bandwidth = 60e9, .flops_bf16 = 1e12};
static const char header[] =
    "backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,"
    "fraction_of_ceiling,status\n";
#define MACHINE "cpu,\"Some CPU, 2 threads\","

struct table {
    char *text;
    size_t count;
    FILE *out;
    uint64_t seed, rows; /* of noise and outliers */
    double spread;       /* of ln(time), evenly */
    uint64_t outliers;   /* one row in so many takes three times as long; 0: none */
};

static void table_begin(struct table *t, uint64_t seed, double spread, uint64_t outliers)
{
    *t = (struct table){.seed = seed, .spread = spread, .outliers = outliers};
    t->out = open_memstream(&t->text, &t->count);
    fputs(header, t->out);
}

static uint64_t hash_of(uint64_t x)
{
    x = (x + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 32;
}

static void table_row(struct table *t, const char *family, const char *variant, const char *shape,
                      double seconds, double bytes, double flops)
{
    uint64_t x = hash_of(t->seed * 1000003 + t->rows++);
    double time = seconds * exp(t->spread * ((double)(x >> 11) / 0x1p53 * 2.0 - 1.0));
    if (t->outliers > 0 && hash_of(x) % t->outliers == 0)
        time *= 3.0;
    fprintf(t->out, MACHINE "%s,%s,%s,%.9g,1,7,%.0f,%.0f,%.9g,57,0.5,ok\n", family, variant, shape,
            1e9 * time, bytes, flops, 1e-9 * bytes / time);
}

static enum kvt_status parse(struct kvt_tables *tables, const char *text, struct kvt_err *err)
{
    *tables = (struct kvt_tables){0};
    *err = (struct kvt_err){0};
    return kvt_tables_parse(tables, "own.csv", text, strlen(text), "test-cpu", NULL, err);
}

/* ---- the truth behind the tables ---- */

static const struct kvt_law true_gemm = {
    .kind = KVT_LAW_ROOFLINE, .t0 = 8e-6, .bandwidth = 50e9, .flops = 600e9, .p = 3.0};
static const struct kvt_law true_decode = {
    .kind = KVT_LAW_DECODE, .t0 = 9e-6, .bandwidth = 30e9, .flops = 300e9, .tokens = 120, .p = 3.0};
static const struct kvt_law true_tags = {
    .kind = KVT_LAW_ROOFLINE, .t0 = 4e-6, .bandwidth = 19e9, .p = 3.0};

static void gemm_rows(struct table *t, const char *family, const char *variant, double bits)
{
    static const int sizes[][2] = {{512, 512},   {1024, 4096}, {4096, 1024},
                                   {4096, 4096}, {256, 8192},  {14336, 4096}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int m = 1; m <= 1024; m *= 4) {
            double n = sizes[i][0], k = sizes[i][1];
            struct kvt_work w = {.bytes = bits / 8 * n * k + 2 * m * (n + k),
                                 .flops = 2 * m * n * k};
            char shape[96];
            snprintf(shape, sizeof shape, "m=%d n=%.0f k=%.0f threads=2", m, n, k);
            table_row(t, family, variant, shape, kvt_law_time(&true_gemm, &w, NULL), w.bytes,
                      w.flops);
        }
}

static void decode_rows(struct table *t, bool latent, const char *variant, double token_bytes)
{
    for (int heads = 4; heads <= 32; heads *= 2)
        for (int b = 1; b <= 16; b *= 4)
            for (int s = 128; s <= 8192; s *= 8) {
                double kv = heads == 4 ? 2.0 : 8.0;
                struct kvt_work w = {.batch = b,
                                     .context = (double)b * s,
                                     .token_bytes = latent ? token_bytes : token_bytes * kv * 256,
                                     .token_flops = 2.0 * heads * (latent ? 1088.0 : 256.0)};
                char shape[96];
                if (latent)
                    snprintf(shape, sizeof shape, "batch=%d context=%d heads=%d", b, s, heads);
                else
                    snprintf(shape, sizeof shape,
                             "batch=%d context=%d heads=%d kv_heads=%.0f head_dim=128", b, s, heads,
                             kv);
                table_row(t, latent ? "mla-decode" : "gqa-decode", variant, shape,
                          kvt_law_time(&true_decode, &w, NULL), w.context * w.token_bytes,
                          w.context * w.token_flops);
            }
}

static void tag_rows(struct table *t)
{
    for (int pages = 16; pages <= 65536; pages *= 2) {
        struct kvt_work w = {.bytes = 48.0 * pages};
        char shape[64];
        snprintf(shape, sizeof shape, "pages=%d bits=64", pages);
        table_row(t, "tag-check", "side", shape, kvt_law_time(&true_tags, &w, NULL), 8.0 * pages,
                  0);
    }
}

static void ceiling_rows(struct table *t)
{
    double spread = t->spread;
    uint64_t outliers = t->outliers;
    t->spread = 0;
    t->outliers = 0;
    table_row(t, "read", "", "mib=512", 0.01, 0.57e9, 0);
    table_row(t, "read", "", "mib=512", 0.02, 0.57e9, 0); /* a slow repeat */
    table_row(t, "copy", "", "mib=512", 0.02, 1.08e9, 0);
    table_row(t, "gemm-peak", "bf16", "m=1024 n=1024 k=1024", 0.01, 0, 9.3e9);
    table_row(t, "launch", "", "threads=2", 3e-6, 0, 0);
    t->spread = spread;
    t->outliers = outliers;
}

static void other_rows(struct table *t)
{
    for (int n = 1; n <= 4096; n *= 4) {
        char shape[96];
        snprintf(shape, sizeof shape, "tokens=%d kv_heads=8 head_dim=128", n);
        table_row(t, "append", "bf16", shape, 6e-6 + n * 8192 / 20e9, n * 4096, 0);
        snprintf(shape, sizeof shape, "tokens=%d latent=512 rope=64", n);
        table_row(t, "append", "fp8-plain", shape, 6e-6 + n * 1728 / 15e9, n * 576, 0);
        snprintf(shape, sizeof shape, "tokens=%d hidden=2048", n);
        table_row(t, "elementwise", "bf16", shape, 5e-6 + n * 8192 / 40e9, n * 8192, 0);
    }
}

/* ---- fits ---- */

/* Fit a table with one series and count which of its true parameters lie inside their intervals. */
static void count_inside(struct table *t, const struct kvt_law *truth, int *inside, int *known,
                         int *all)
{
    const struct {
        const char *name;
        double value;
    } values[] = {{"t0", truth->t0},
                  {"bandwidth", truth->bandwidth},
                  {"flops", truth->flops},
                  {"tokens", truth->tokens}};
    struct kvt_tables tables;
    struct kvt_fit fit = {0};
    struct kvt_err err;
    fclose(t->out);
    CHECK_OK(parse(&tables, t->text, &err), err);
    CHECK_I64(tables.series_count, 1, "one series");
    CHECK_OK(kvt_fit_series(&fit, &tables.series[0], &tables, &cpu, &err), err);
    CHECK_NOTE(!fit.bad && fit.law_count == 1 && fit.laws[0].surface == NULL, "a law alone");
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
        for (int32_t p = 0; p < fit.parameter_count; p++) {
            const struct kvt_fit_parameter *got = &fit.parameters[p];
            if (strcmp(got->name, values[v].name) != 0)
                continue;
            *known += got->known;
            *inside += values[v].value >= got->low && values[v].value <= got->high;
            *all += 1;
        }
    kvt_fit_release(&fit);
    kvt_tables_release(&tables);
    free(t->text);
}

static void known_parameters_lie_inside_their_intervals(void)
{
    int inside = 0, known = 0, all = 0;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct table t;
        table_begin(&t, seed, 0.08, 25);
        gemm_rows(&t, "gemm", "bf16", 16);
        count_inside(&t, &true_gemm, &inside, &known, &all);
        table_begin(&t, seed + 100, 0.08, 25);
        decode_rows(&t, false, "bf16", 2);
        count_inside(&t, &true_decode, &inside, &known, &all);
        table_begin(&t, seed + 200, 0.05, 25);
        tag_rows(&t);
        count_inside(&t, &true_tags, &inside, &known, &all);
    }
    CHECK_I64(all, 25 * (3 + 4 + 2), "each parameter of each law, and no other");
    char note[64];
    snprintf(note, sizeof note, "%d of %d; 95 %% are meant, %d are known", inside, all, known);
    CHECK_NOTE(inside >= all * 90 / 100, note);
    CHECK_NOTE(known >= all * 90 / 100, note); /* the others are wider than a factor of two */
}

static void a_small_grid_says_how_far_it_is_off(void)
{
    struct table t;
    struct kvt_tables tables;
    struct kvt_fit fit;
    struct kvt_err err;
    table_begin(&t, 3, 0.08, 0);
    gemm_rows(&t, "int4-gemm", "g32", 4.5);
    fclose(t.out);
    CHECK_OK(parse(&tables, t.text, &err), err);
    CHECK_TEXT(tables.series[0].name, "own cpu int4-gemm g32", "stack, backend, family, variant");
    CHECK_OK(kvt_fit_series(&fit, &tables.series[0], &tables, &cpu, &err), err);
    CHECK_I64(fit.held.rows, 36, "every row is held out once");
    CHECK_NOTE(fit.held.mean > 0.03 && fit.held.mean < 0.06, "the noise is 4 % in the mean");
    CHECK_NOTE(fit.low > 0.90 && fit.low < 0.97 && fit.high > 1.03 && fit.high < 1.10, "interval");
    CHECK_NOTE(fit.coverage > 0.7, "half of the rows cover the others");
    CHECK_CLOSE(fit.laws[0].grid[KVT_DIM_N].max, 14336, 0, "the grid");
    CHECK_CLOSE(fit.laws[0].grid[KVT_DIM_M].min, 1, 0, "the grid");
    kvt_fit_release(&fit);
    kvt_tables_release(&tables);
    free(t.text);
}

static void a_large_grid_gets_a_surface(void)
{
    struct table t;
    struct kvt_tables tables;
    struct kvt_fit fit;
    struct kvt_err err;
    table_begin(&t, 3, 0.03, 0);
    for (int n = 256; n <= 16384; n *= 2)
        for (int k = 256; k <= 16384; k *= 2)
            for (int m = 1; m <= 256; m *= 4) {
                struct kvt_work w = {.bytes = 2.0 * n * k + 2.0 * m * (n + k),
                                     .flops = 2.0 * m * n * k};
                char shape[64];
                snprintf(shape, sizeof shape, "m=%d n=%d k=%d", m, n, k);
                table_row(&t, "gemm", "bf16", shape, kvt_law_time(&true_gemm, &w, NULL), w.bytes,
                          w.flops);
            }
    fclose(t.out);
    CHECK_OK(parse(&tables, t.text, &err), err);
    CHECK_OK(kvt_fit_series(&fit, &tables.series[0], &tables, &cpu, &err), err);
    CHECK_NOTE(fit.laws[0].surface != NULL && fit.parameter_count > 0, "law x surface");
    CHECK_CLOSE(fit.laws[0].bandwidth, true_gemm.bandwidth, 0.05, "bandwidth");
    kvt_fit_release(&fit);
    kvt_tables_release(&tables);
    free(t.text);
}

/* Every kernel that a step lists rests on a law of the calibration, none on a data sheet. */
static void check_laws(const struct kvt_calibration *c, const char *name, enum kvt_kv_dtype kv)
{
    static struct kvt_kernel_list step;
    struct kvt_model model;
    struct kvt_err err = {0};
    struct kvt_step_shape shape = {
        .kv = kv, .layout = {1, 1, 1, 1, 1}, .skew = -1, .tag_page_tokens = 16};
    struct kvt_step_work works[] = {
        {.decodes = 4, .context = 4096},
        {.prompt_tokens = 512, .pairs = 131328, .prompt_ends = 1},
    };
    CHECK_OK(kvt_model_load(&model, name, &err), err);
    for (int i = 0; i < 2; i++) {
        bool append = false;
        kvt_step_list(&step, &model, &shape, c, &works[i], KVT_STEP_WHOLE);
        for (int32_t k = 0; k < step.count; k++) {
            CHECK_NOTE(!step.kernels[k].law->guess, step.kernels[k].name);
            append = append || step.kernels[k].law->family == KVT_FAMILY_APPEND;
        }
        CHECK_NOTE(append, "KV is written by a kernel of its own");
        CHECK_NOTE(step.host_floor < 0.01, "no server around it");
    }
}

static void a_small_model_finds_a_law_for_each_kernel(void)
{
    struct table t;
    struct kvt_tables tables;
    struct kvt_fit fits[16] = {0};
    struct kvt_calibration built, read;
    struct kvt_err err;
    struct kvt_gpu gpu = cpu;
    bool surprising;
    table_begin(&t, 5, 0.02, 0);
    ceiling_rows(&t);
    gemm_rows(&t, "gemm", "bf16", 16);
    gemm_rows(&t, "int4-gemm", "g128", 4.125);
    decode_rows(&t, false, "bf16", 2);
    decode_rows(&t, true, "fp8-plain", 576);
    tag_rows(&t);
    other_rows(&t);
    fclose(t.out);
    CHECK_OK(parse(&tables, t.text, &err), err);
    CHECK_CLOSE(tables.bench.read, 57e9, 1e-6, "the best row");
    CHECK_CLOSE(tables.bench.launch, 3e-6, 1e-6, "");
    CHECK_TEXT(tables.bench.device, "Some CPU, 2 threads", "");
    CHECK_OK(kvt_ceilings_apply(&tables.bench, &gpu, &surprising, &err), err);
    for (int32_t i = 0; i < tables.series_count; i++) {
        CHECK_OK(kvt_fit_series(&fits[i], &tables.series[i], &tables, &gpu, &err), err);
        CHECK_NOTE(!fits[i].bad, fits[i].trouble);
    }
    struct kvt_build_wishes wishes = {.gpu = "test-cpu"};
    CHECK_OK(kvt_calibration_build(&built, fits, tables.series_count, &wishes, &err), err);
    CHECK_TEXT(built.stack, "own", "");
    CHECK_TEXT(built.version, "cpu", "");
    CHECK_NOTE(kvt_ceilings_fill(&tables.bench, &gpu, &built) > 0, "what was not measured");
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    kvt_calibration_print(&built, "note", out);
    fclose(out);
    CHECK_OK(kvt_calibration_parse(&read, "own.yaml", text, count, &cpu, NULL, &err), err);
    check_laws(&read, "qwen3-0.6b", KVT_KV_BF16);
    check_laws(&read, "deepseek-v2-lite", KVT_KV_FP8_PLAIN);
    const struct kvt_law *law =
        kvt_calibration_law(&read, KVT_FAMILY_TAG_CHECK, &(struct kvt_work){0});
    CHECK_CLOSE(law->t0, true_tags.t0, 0.1, "tag check");
    struct kvt_work int4 = {0};
    int4.dim[KVT_DIM_WEIGHT_BITS] = 4.5;
    CHECK_NOTE(kvt_calibration_law(&read, KVT_FAMILY_GEMM_INT4, &int4)->guess,
               "groups of 32 were not measured");
    int4.dim[KVT_DIM_WEIGHT_BITS] = 4.125;
    CHECK_NOTE(!kvt_calibration_law(&read, KVT_FAMILY_GEMM_INT4, &int4)->guess, "of 128 were");
    free(text);
    kvt_calibration_release(&read);
    kvt_calibration_release(&built);
    for (int32_t i = 0; i < tables.series_count; i++)
        kvt_fit_release(&fits[i]);
    kvt_tables_release(&tables);
    free(t.text);
}

/* ---- what is wrong ---- */

static void bad_bench_tables_are_refused_with_their_place(void)
{
    static const struct {
        const char *rows, *message;
    } cases[] = {
        {"gemm,bf16,m=1 n=4 k=4,nan,1,1,8,8,1,1,1,ok", "own.csv:2: time_ns: "},
        {"gemm,bf16,m=1 n=4 k=4,0,1,1,8,8,1,1,1,ok", "own.csv:2: time_ns: want a time above 0"},
        {"gemm,bf16,m=1 n=4 k=4,-5,1,1,8,8,1,1,1,ok",
         "own.csv:2: time_ns: want at least 0, got -5"},
        {"gemm,bf16,m=1 n=4 k=4,1e13,1,1,8,8,,1,1,ok", "own.csv:2: time_ns: want a time above 0"},
        {"gemm,bf16,m=1 n=4096 k=4096,671,1,1,33554432,8,50,1,1,ok",
         "own.csv:2: time_ns: want nanoseconds: 3.35544e+07 bytes in 671 ns are 5.001e+04 GB/s, "
         "gb_per_s says 50"},
        {"gemm,bf16,m=1 n=4,9,1,1,0,0,0,1,1,ok",
         "own.csv:2: shape: k: wanted for gemm and at least 1, got \"m=1 n=4\""},
        {"gemm,bf16,m=1 n=4 k=4.5,9,1,1,0,0,0,1,1,ok", "own.csv:2: shape: k: "},
        {"gemm,bf16,m 1,9,1,1,0,0,0,1,1,ok", "own.csv:2: shape: want key=value with spaces"},
        {"gemm,bf61,m=1 n=4 k=4,9,1,1,0,0,0,1,1,ok",
         "own.csv:2: variant: unknown \"bf61\"; did you mean \"bf16\"?"},
        {"int4-gemm,bf16,m=1 n=4 k=4,9,1,1,0,0,0,1,1,ok",
         "own.csv:2: variant: int4-gemm: want g32 or g128, got \"bf16\""},
        {"gqa-decode,side,batch=1 context=1 heads=1 kv_heads=1 head_dim=1,9,1,1,0,0,0,1,1,ok",
         "own.csv:2: variant: gqa-decode: want the dtype of the KV"},
        {"int4-experts,g32,tokens=1 hidden=8 inter=8 experts=2 topk=4,9,1,1,0,0,0,1,1,ok",
         "own.csv:2: shape: want topk of at most experts (2), got 4"},
        {"elementwise,bf16,tokens=4,9,1,1,0,0,0,1,1,ok",
         "own.csv:2: bytes: wanted for elementwise"},
        {"gemm,bf16", "own.csv:2: want 14 fields as in the header, got 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        struct kvt_tables tables;
        struct kvt_err err;
        snprintf(text, sizeof text, "%s" MACHINE "%s\n", header, cases[i].rows);
        CHECK_FAILS(parse(&tables, text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, cases[i].message, "");
        kvt_tables_release(&tables);
    }
    static const struct {
        const char *text, *message;
    } whole[] = {
        {"family,variant,shape,time_ns\ngemm,bf16,m=1,5\n",
         "own.csv:1: column \"backend\": wanted in a table of kvtwin bench, not found"},
        {"backend,device,family,variant,time_ns,bytes,flops,status\na,b,c,d,5,1,1,ok\n",
         "own.csv:1: column \"shape\": wanted"},
        {"backend,device,family,variant,shape,time_ns\ncpu,b,elementwise,norm,n=4,5\n",
         "own.csv:2: bytes: wanted for elementwise and more than 0, got \"\""},
        {"backend,device,family,variant,shape,time_ns,bytes\ncpu,b,gemm-peak,,,5,9\n",
         "own.csv:2: flops: wanted for gemm-peak and more than 0, got \"\""},
        {"backend,device,family,variant,shape,time_ns,bytes,flops,status\ngpu,b,c,d,e,5,1,1,ok\n",
         "own.csv:2: backend: want cpu or cuda, got \"gpu\""},
        {"backend,device,family,variant,shape,time_ns,bytes,flops,status\n"
         "cpu,b,tag-check,side,pages=4,5,1,1,ok\ncpu,c,tag-check,side,pages=4,5,1,1,ok\n",
         "own.csv:3: device: is \"c\" (cpu), the rows before are of \"b\" (cpu)"},
    };
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        struct kvt_tables tables;
        struct kvt_err err;
        CHECK_FAILS(parse(&tables, whole[i].text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, whole[i].message, "");
        kvt_tables_release(&tables);
    }
}

static void rows_that_are_not_ok_are_counted_and_left_out(void)
{
    static const char rows[] =
        MACHINE "tag-check,side,pages=4 bits=64,50,1,1,8,8,,1,1,ok\n" MACHINE
                "tag-check,side,pages=8 bits=64,,,0,8,8,,1,1,preempted\n" MACHINE
                "tag-chek,side,pages=8 bits=64,9,,0,8,8,,1,1,ok\n";
    char text[1024];
    struct kvt_tables tables;
    struct kvt_err err;
    snprintf(text, sizeof text, "%s%s", header, rows);
    CHECK_OK(parse(&tables, text, &err), err);
    CHECK_I64(tables.series[0].rows, 1, "one row is left");
    CHECK_I64(tables.bench.left_out, 2, "");
    CHECK_TEXT(tables.bench.left_out_why, "own.csv:3: status is \"preempted\"", "the first");
    kvt_tables_release(&tables);
}

static void what_cannot_be_fitted_says_why(void)
{
    static const struct {
        int rows;
        double seconds, more; /* time of row i: seconds + more * i */
        bool same_size;
        const char *message;
    } cases[] = {
        {1, 1e-5, 0, false, "own.csv:2: own cpu tag-check side: want at least 6 different rows"},
        {12, 1e-5, 0, false, "the fit is singular: every row takes the same"},
        {12, 1e-5, 1e-6, true, "want at least 6 different rows to fit, got 1"},
        {12, 1e-2, 1e-3, false, "want times in nanoseconds"},
        {12, 1e-9, 1e-10, false, "want times in nanoseconds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct table t;
        struct kvt_tables tables;
        struct kvt_fit fit = {0};
        struct kvt_err err;
        table_begin(&t, 1, 0, 0);
        for (int r = 0; r < cases[i].rows; r++) {
            char shape[64];
            snprintf(shape, sizeof shape, "pages=%d", cases[i].same_size ? 64 : 64 << (r % 12));
            table_row(&t, "tag-check", "side", shape, cases[i].seconds + cases[i].more * r, 0, 0);
        }
        fclose(t.out);
        CHECK_OK(parse(&tables, t.text, &err), err);
        CHECK_FAILS(kvt_fit_series(&fit, &tables.series[0], &tables, &cpu, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, cases[i].message, "");
        kvt_fit_release(&fit);
        kvt_tables_release(&tables);
        free(t.text);
    }
}

/* The bytes of a token are those of the step (sim/cost/step_attention.c). */
static void scales_of_gqa_are_counted(void)
{
    struct table t;
    struct kvt_tables tables;
    struct kvt_err err;
    const char *shape = "batch=2 context=100 heads=32 kv_heads=8 head_dim=128";
    table_begin(&t, 7, 0, 0);
    table_row(&t, "gqa-decode", "fp8-scaled", shape, 1e-4, 200 * 8 * (256 + 8), 0);
    table_row(&t, "gqa-decode", "fp8", shape, 1e-4, 200 * 8 * 256, 0);
    fclose(t.out);
    CHECK_OK(parse(&tables, t.text, &err), err);
    CHECK_I64(tables.series_count, 2, "two layouts");
    if (tables.series_count == 2) {
        CHECK_CLOSE(tables.series[0].samples[0].work.token_bytes, 8 * (256 + 8), 1e-12, "with");
        CHECK_CLOSE(tables.series[1].samples[0].work.token_bytes, 8 * 256, 1e-12, "without");
    }
    kvt_tables_release(&tables);
    free(t.text);
}

static void ceilings_of_another_machine_are_refused(void)
{
    struct kvt_gpu h200 = {.name = "h200-sxm", .bandwidth = 4.8e12, .flops_bf16 = 1e15};
    struct kvt_gpu own = cpu;
    struct kvt_bench_facts facts = {
        .given = true, .backend = "cpu", .device = "Some CPU", .read = 57e9};
    struct kvt_err err = {0};
    bool surprising;
    CHECK_FAILS(kvt_ceilings_apply(&facts, &h200, &surprising, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "Some CPU reach 57 GB/s, GPU \"h200-sxm\" has 4800 GB/s", "");
    CHECK_OK(kvt_ceilings_apply(&facts, &own, &surprising, &err), err);
    CHECK_CLOSE(own.bandwidth, 57e9, 0.06, "what was read stands for the data sheet");
    CHECK(!surprising);
    facts.read = 5 * cpu.bandwidth;
    own = cpu;
    CHECK_OK(kvt_ceilings_apply(&facts, &own, &surprising, &err), err);
    CHECK_CLOSE(own.bandwidth, facts.read, 0.06, "a CPU's file stands for many machines");
    CHECK_NOTE(surprising, "and that is said");
    snprintf(facts.backend, sizeof facts.backend, "cuda");
    own = cpu;
    CHECK_FAILS(kvt_ceilings_apply(&facts, &own, &surprising, &err), err, KVT_ECONFIG);
    snprintf(facts.backend, sizeof facts.backend, "cpu");
    facts.read = 57e12;
    own = cpu;
    CHECK_FAILS(kvt_ceilings_apply(&facts, &own, &surprising, &err), err, KVT_ECONFIG);
}

/* clang-format off */
const struct check_test check_bench_table[] = {
    {"known parameters lie inside their intervals", known_parameters_lie_inside_their_intervals,
     false},
    {"a small grid says how far it is off", a_small_grid_says_how_far_it_is_off, false},
    {"a large grid gets a surface", a_large_grid_gets_a_surface, false},
    {"a small model finds a law for each kernel", a_small_model_finds_a_law_for_each_kernel, false},
    {"bad bench tables are refused with their place",
     bad_bench_tables_are_refused_with_their_place, false},
    {"rows that are not ok are counted and left out",
     rows_that_are_not_ok_are_counted_and_left_out, false},
    {"what cannot be fitted says why", what_cannot_be_fitted_says_why, false},
    {"scales of GQA pages are bytes of a token", scales_of_gqa_are_counted, false},
    {"ceilings of another machine are refused", ceilings_of_another_machine_are_refused, false},
    {NULL, NULL, false},
};
/* clang-format on */
