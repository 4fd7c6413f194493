#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "sim/base/random.h"
#include "sim/trace/generate.h"
#include "sim/trace/stats.h"
#include "sim/trace/trace.h"
#include "tests/check.h"

static struct kvt_lengths_spec lognormal(double mean, double p99)
{
    return (struct kvt_lengths_spec){
        .kind = KVT_LENGTHS_LOGNORMAL, .mean = mean, .p99 = p99, .min = -1, .max = -1, .cv = -1};
}

static struct kvt_trace_spec spec_of(enum kvt_gaps_kind gaps)
{
    return (struct kvt_trace_spec){.where = {.file = "s", .line = 4},
                                   .seed = 7,
                                   .rate = 5.53,
                                   .requests = 20000,
                                   .until = -1,
                                   .gaps = gaps,
                                   .cv = 2,
                                   .shape = 0.7,
                                   .on = 3,
                                   .off = 6,
                                   .input = lognormal(1155, 4142),
                                   .output = lognormal(211, 601)};
}

static void gaps_have_the_rate_and_burstiness_asked_for(void)
{
    /* Tolerances: 4 standard errors of n = 20000. cv of Weibull k = 0.7 is 1.4624. */
    static const struct {
        const char *note;
        enum kvt_gaps_kind gaps;
        double cv, rate_rel, cv_rel;
    } rows[] = {
        {"poisson", KVT_GAPS_POISSON, 1, 0.03, 0.05},
        {"gamma", KVT_GAPS_GAMMA, 2, 0.06, 0.12},
        {"weibull", KVT_GAPS_WEIBULL, 1.4624, 0.045, 0.1},
        {"constant", KVT_GAPS_CONSTANT, 0, 1e-4, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_trace_spec spec = spec_of(rows[i].gaps);
        struct kvt_trace trace;
        struct kvt_trace_stats stats;
        struct kvt_err err = {0};
        CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
        CHECK_OK(kvt_trace_measure(&trace, &stats, &err), err);
        CHECK_I64(trace.arrival[0], 0, rows[i].note);
        CHECK_CLOSE(stats.rate, 5.53, rows[i].rate_rel, rows[i].note);
        CHECK_CLOSE(stats.gap_cv + 1, rows[i].cv + 1, rows[i].cv_rel + 1e-9, rows[i].note);
        kvt_trace_release(&trace);
    }
}

/* On times of mean 3 s with 16.59 requests/s, off times of mean 6 s: the rate stays 5.53, and gaps
 * longer than a second (16 gaps of an on time) are nearly all off times: one a cycle of 9 s. */
static void on_off_arrivals_keep_the_rate_and_pause(void)
{
    struct kvt_trace_spec spec = spec_of(KVT_GAPS_ON_OFF);
    spec.requests = 200000;
    struct kvt_trace trace;
    struct kvt_err err = {0};
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    double duration = kvt_seconds_from_ticks(trace.arrival[trace.count - 1]);
    CHECK_CLOSE(trace.count / duration, 5.53, 0.06, "rate");
    int32_t pauses = 0;
    for (int32_t i = 1; i < trace.count; i++)
        pauses += trace.arrival[i] - trace.arrival[i - 1] > KVT_TICKS_PER_S;
    /* P(off > ~1 s) = exp(-1/6) and on times without a request merge neighbours (2 %). */
    CHECK_CLOSE(pauses / (duration / 9), 0.85, 0.05, "pauses a cycle");
    kvt_trace_release(&trace);
    spec.on = 0.2; /* three gaps long: what is left of an on time after a gap matters */
    spec.off = 0.4;
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    duration = kvt_seconds_from_ticks(trace.arrival[trace.count - 1]);
    CHECK_CLOSE(trace.count / duration, 5.53, 0.03, "rate with short phases");
    kvt_trace_release(&trace);
}

static void lognormal_lengths_hit_mean_and_p99(void)
{
    static const struct {
        double mean, p99;
    } rows[] = {{1155, 4142}, {211, 601}, {12035, 85401}, {343, 1118}, {500, 500}, {5, 15}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kvt_trace_spec spec = spec_of(KVT_GAPS_POISSON);
        spec.requests = 200000;
        spec.input = lognormal(rows[i].mean, rows[i].p99);
        struct kvt_trace trace;
        struct kvt_trace_stats stats;
        struct kvt_err err = {0};
        CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
        CHECK_OK(kvt_trace_measure(&trace, &stats, &err), err);
        CHECK_CLOSE(stats.input.mean, rows[i].mean, 0.015, "mean");
        CHECK_CLOSE(stats.input.p99, rows[i].p99, 0.04, "p99");
        kvt_trace_release(&trace);
    }
}

static void other_lengths_are_what_was_asked(void)
{
    static const int32_t sample[] = {3, 1000, 77};
    struct kvt_trace_spec spec = spec_of(KVT_GAPS_POISSON);
    struct kvt_trace trace;
    struct kvt_trace_stats stats;
    struct kvt_err err = {0};
    spec.input = (struct kvt_lengths_spec){.kind = KVT_LENGTHS_UNIFORM, .min = 10, .max = 13};
    spec.output = (struct kvt_lengths_spec){
        .kind = KVT_LENGTHS_EMPIRICAL, .min = 4, .max = -1, .sample = sample, .sample_count = 3};
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    int64_t inputs[14] = {0}, outputs[1001] = {0};
    for (int32_t i = 0; i < trace.count; i++) {
        inputs[trace.input[i]]++;
        outputs[trace.output[i]]++;
    }
    for (int tokens = 10; tokens <= 13; tokens++)
        CHECK_CLOSE((double)inputs[tokens], 5000, 0.05, "uniform over 10..13");
    CHECK_CLOSE((double)outputs[4], 6667, 0.05, "3 of the sample, clipped to 4");
    CHECK_CLOSE((double)outputs[77], 6667, 0.05, "77 of the sample");
    CHECK_I64(outputs[4] + outputs[77] + outputs[1000], trace.count, "nothing else");
    kvt_trace_release(&trace);

    spec.input = (struct kvt_lengths_spec){
        .kind = KVT_LENGTHS_LOGNORMAL, .mean = 100, .cv = 0.5, .p99 = -1, .min = 20, .max = 300};
    spec.output =
        (struct kvt_lengths_spec){.kind = KVT_LENGTHS_FIXED, .mean = 128, .min = -1, .max = -1};
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    CHECK_OK(kvt_trace_measure(&trace, &stats, &err), err);
    CHECK_CLOSE(stats.input.mean, 100, 0.02, "mean");
    CHECK_CLOSE(stats.input.p50, 89.44, 0.02, "median of a lognormal: mean / sqrt(1 + cv^2)");
    CHECK_CLOSE(stats.input.max, 300, 0, "clipped");
    CHECK_I64(stats.output.total, 128 * 20000, "fixed");
    kvt_trace_release(&trace);
}

/* Common random numbers: what one stream draws leaves the others alone. */
static void streams_do_not_disturb_each_other(void)
{
    struct kvt_trace_spec spec = spec_of(KVT_GAPS_POISSON);
    spec.requests = 1000;
    struct kvt_trace plain, bursty, other;
    struct kvt_err err = {0};
    CHECK_OK(kvt_trace_generate(&plain, &spec, &err), err);
    spec.gaps = KVT_GAPS_ON_OFF;
    CHECK_OK(kvt_trace_generate(&bursty, &spec, &err), err);
    spec.gaps = KVT_GAPS_POISSON;
    spec.input = (struct kvt_lengths_spec){.kind = KVT_LENGTHS_UNIFORM, .min = 1, .max = 9};
    CHECK_OK(kvt_trace_generate(&other, &spec, &err), err);
    CHECK(memcmp(plain.input, bursty.input, 1000 * sizeof *plain.input) == 0);
    CHECK(memcmp(plain.arrival, bursty.arrival, 1000 * sizeof *plain.arrival) != 0);
    CHECK(memcmp(plain.arrival, other.arrival, 1000 * sizeof *plain.arrival) == 0);
    CHECK(memcmp(plain.output, other.output, 1000 * sizeof *plain.output) == 0);

    struct kvt_lengths lengths; /* request 612 of a closed loop has the lengths of an open one */
    gsl_rng *rng = gsl_rng_alloc(kvt_rng_type);
    CHECK_OK(kvt_lengths_init(&lengths, &spec.output, KVT_PURPOSE_OUTPUT, spec.seed, spec.where,
                              "output", &err),
             err);
    CHECK_I64(kvt_lengths_at(&lengths, 612, rng), plain.output[612], "random access");
    gsl_rng_free(rng);
    kvt_trace_release(&plain);
    kvt_trace_release(&bursty);
    kvt_trace_release(&other);
}

static void requests_and_until_both_end_a_trace(void)
{
    struct kvt_trace_spec spec = spec_of(KVT_GAPS_CONSTANT);
    struct kvt_trace trace;
    struct kvt_err err = {0};
    spec.rate = 10;
    spec.until = 3;
    spec.requests = -1;
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    CHECK_I64(trace.count, 30, "arrivals at 0, 0.1 .. 2.9: the one at 3 s is left out");
    kvt_trace_release(&trace);
    spec.requests = 12;
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    CHECK_I64(trace.count, 12, "requests end it first");
    CHECK_I64(trace.arrival[11], 11 * KVT_TICKS_PER_S / 10, "");
    kvt_trace_release(&trace);
    spec.stamp = 0.5;
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    CHECK_I64(trace.arrival[4], 0, "a coarse clock");
    CHECK_I64(trace.arrival[5], KVT_TICKS_PER_S / 2, "a coarse clock");
    kvt_trace_release(&trace);
    spec.rate = 0;
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    CHECK_I64(trace.arrival[11], 0, "closed: all at 0");
    kvt_trace_release(&trace);
}

static void prefixes_share_whole_blocks(void)
{
    struct kvt_trace_spec spec = spec_of(KVT_GAPS_POISSON);
    spec.input =
        (struct kvt_lengths_spec){.kind = KVT_LENGTHS_FIXED, .mean = 1000, .min = -1, .max = -1};
    spec.prefix_groups = 10;
    spec.prefix_share = 0.4;
    spec.prefix_tokens = 640 + 63;
    spec.block_tokens = 64;
    struct kvt_trace trace;
    struct kvt_trace_stats stats;
    struct kvt_err err = {0};
    CHECK_OK(kvt_trace_generate(&trace, &spec, &err), err);
    CHECK_OK(kvt_trace_measure(&trace, &stats, &err), err);
    CHECK_I64(stats.blocks, 16 * 20000, "ceil(1000 / 64) each");
    /* 40 % of the requests share 10 of 16 blocks, but the first of each group pays. */
    CHECK_CLOSE(stats.reuse, 0.4 * 10 / 16, 0.04, "reuse");
    int64_t private_first = 0;
    for (int32_t i = 0; i < trace.count; i++)
        private_first += trace.hashes[trace.hash_begin[i]] >= 100;
    CHECK_CLOSE((double)private_first, 12000, 0.03, "requests that share nothing");
    kvt_trace_release(&trace);
}

static void impossible_descriptions_are_refused(void)
{
    struct kvt_trace trace;
    struct kvt_trace_spec s;
#define REFUSES(change, want)                                                                      \
    do {                                                                                           \
        struct kvt_err err_ = {0};                                                                 \
        s = spec_of(KVT_GAPS_POISSON);                                                             \
        change;                                                                                    \
        CHECK_FAILS(kvt_trace_generate(&trace, &s, &err_), err_, KVT_ECONFIG);                     \
        CHECK_HOLDS(err_.text, want, #change);                                                     \
        CHECK(trace.arrival == NULL && trace.input == NULL);                                       \
    } while (0)
    REFUSES(s.rate = -1, "s:4: want a rate of 1e-6 to 1e9 requests/s, got -1");
    REFUSES(s.requests = 0, "want at least 1 request, got 0");
    REFUSES(s.requests = -1, "want at least 1 request, got 0");
    REFUSES(s.until = 0, "want at least 1 request, got 0");
    REFUSES(s.until = 9e6, "want arrivals for at most 100 days (8640000 s), got 9e+06");
    REFUSES(s.rate = 1e-5, "want requests that arrive within 100 days; the rate is too low");
    REFUSES((s.gaps = KVT_GAPS_GAMMA, s.cv = 0), "want gamma gaps with a cv of 1e-6 to 100, got 0");
    REFUSES((s.gaps = KVT_GAPS_WEIBULL, s.shape = -1), "want weibull gaps with a shape");
    REFUSES((s.gaps = KVT_GAPS_ON_OFF, s.on = 0), "want on times of a mean over 0 s");
    REFUSES((s.gaps = KVT_GAPS_ON_OFF, s.off = -1), "want off times of a mean of 0 s to 1e6 s");
    REFUSES(s.stamp = -1, "want stamps of 0 s to 86400 s, got -1");
    REFUSES(s.rate = 2e9, "want a rate of 1e-6 to 1e9 requests/s, got 2e+09");
    REFUSES((s.requests = -1, s.until = 9, s.rate = 0), "want at least 1 request, got 0");
    REFUSES((s.gaps = KVT_GAPS_GAMMA, s.cv = 101), "to 100, got 101");
    REFUSES((s.gaps = KVT_GAPS_WEIBULL, s.shape = 101), "to 100, got 101");
    REFUSES((s.gaps = KVT_GAPS_ON_OFF, s.on = 2e6), "up to 1e6 s, got 2e+06");
    REFUSES((s.gaps = KVT_GAPS_ON_OFF, s.off = 2e6), "to 1e6 s, got 2e+06");
    REFUSES(s.stamp = 90000, "want stamps of 0 s to 86400 s, got 90000");
    REFUSES(s.prefix_groups = 2000000000, "want 0 to 1e9 prefix groups, got 2e+09");
    REFUSES((s.prefix_groups = 1, s.prefix_share = -0.5), "want a prefix share of 0 to 1, got");
    REFUSES((s.prefix_groups = 1, s.prefix_tokens = 1 << 27), "2^26 tokens, got 1.34218e+08");
    REFUSES(s.input.max = 1e8, "max <= 67108864, got 1 and 1e+08");
    REFUSES((s.input.kind = KVT_LENGTHS_UNIFORM, s.input.min = 3), "want the min and the max of a");
    REFUSES((s.input.kind = KVT_LENGTHS_EMPIRICAL, s.input.sample = (const int32_t[]){1}),
            "want lengths to draw from, got none");
    REFUSES(s.input.p99 = 1000,
            "s:4: input: want the p99 of a lognormal between its mean of 1155 and");
    REFUSES(s.output.p99 = 99999, "output: want the p99 of a lognormal between its mean of 211 and "
                                  "3158.");
    REFUSES(s.output.p99 = -1, "output: want the p99 or the cv of a lognormal, got none");
    REFUSES(s.input.mean = 0, "input: want a mean of 1 to 67108864 tokens, got 0");
    REFUSES(s.input.min = 0, "input: want lengths with 1 <= min <= max <= 67108864, got 0 and");
    REFUSES((s.input.min = 9, s.input.max = 8), "got 9 and 8");
    REFUSES((s.input.min = 8.2, s.input.max = 8.8), "want a whole number between 8.2 and 8.8");
    REFUSES(s.input.kind = KVT_LENGTHS_UNIFORM, "want the min and the max of a uniform length");
    REFUSES(s.input.kind = KVT_LENGTHS_EMPIRICAL, "want lengths to draw from, got none");
    REFUSES(s.prefix_groups = -1, "want 0 to 1e9 prefix groups, got -1");
    REFUSES((s.prefix_groups = 1, s.prefix_share = 2), "want a prefix share of 0 to 1, got 2");
    REFUSES(s.prefix_groups = 1, "want a prefix of 1 to 2^26 tokens, got 0");
    REFUSES((s.prefix_groups = 1, s.prefix_tokens = 1), "want hashes of at least 1 token, got 0");
#undef REFUSES
}

static bool traces_are_equal(const struct kvt_trace *a, const struct kvt_trace *b)
{
    size_t n = (size_t)a->count;
    if (a->count != b->count || a->block_tokens != b->block_tokens || a->tenants != b->tenants)
        return false;
    if (memcmp(a->arrival, b->arrival, n * sizeof *a->arrival) != 0 ||
        memcmp(a->input, b->input, n * sizeof *a->input) != 0 ||
        memcmp(a->output, b->output, n * sizeof *a->output) != 0)
        return false;
    if ((a->tenant != NULL) != (b->tenant != NULL) ||
        (a->tenant != NULL && memcmp(a->tenant, b->tenant, n * sizeof *a->tenant) != 0))
        return false;
    if ((a->hash_begin != NULL) != (b->hash_begin != NULL))
        return false;
    return a->hash_begin == NULL ||
           (memcmp(a->hash_begin, b->hash_begin, (n + 1) * sizeof *a->hash_begin) == 0 &&
            memcmp(a->hashes, b->hashes, (size_t)a->hash_begin[n] * sizeof *a->hashes) == 0);
}

static void a_written_trace_reads_back_the_same(void)
{
    struct kvt_trace_spec spec = spec_of(KVT_GAPS_GAMMA);
    spec.requests = 500;
    spec.prefix_groups = 9;
    spec.prefix_share = 0.5;
    spec.prefix_tokens = 700;
    spec.block_tokens = 64;
    struct kvt_trace made, read;
    struct kvt_err err = {0};
    CHECK_OK(kvt_trace_generate(&made, &spec, &err), err);
    char path[64], zipped[80];
    snprintf(path, sizeof path, "/tmp/kvt-trace-%ld.csv", (long)getpid());
    snprintf(zipped, sizeof zipped, "%s.gz", path);
    made.tenant = calloc((size_t)made.count, sizeof *made.tenant);
    CHECK(made.tenant != NULL);
    made.tenant[3] = 41;
    made.tenants = 42;
    CHECK_OK(kvt_trace_write(&made, path, &err), err);
    CHECK_OK(kvt_trace_read(&read, path, 1, &err), err);
    CHECK(traces_are_equal(&made, &read));
    kvt_trace_release(&read);

    char bytes[65536]; /* the same through gzip */
    FILE *plain = fopen(path, "rb");
    gzFile out = gzopen(zipped, "wb");
    CHECK(plain != NULL && out != NULL);
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, plain)) > 0;)
        CHECK(gzwrite(out, bytes, (unsigned)got) == (int)got);
    fclose(plain);
    gzclose(out);
    CHECK_OK(kvt_trace_read(&read, zipped, 1, &err), err);
    CHECK(traces_are_equal(&made, &read));
    kvt_trace_release(&read);
    kvt_trace_release(&made);
    unlink(path);
    unlink(zipped);
}

const struct check_test check_generate[] = {
    {"gaps have the rate and burstiness asked for", gaps_have_the_rate_and_burstiness_asked_for,
     false},
    {"on/off arrivals keep the rate and pause", on_off_arrivals_keep_the_rate_and_pause, false},
    {"lognormal lengths hit mean and p99", lognormal_lengths_hit_mean_and_p99, false},
    {"other lengths are what was asked", other_lengths_are_what_was_asked, false},
    {"streams do not disturb each other", streams_do_not_disturb_each_other, false},
    {"requests and until both end a trace", requests_and_until_both_end_a_trace, false},
    {"prefixes share whole blocks", prefixes_share_whole_blocks, false},
    {"impossible descriptions are refused", impossible_descriptions_are_refused, false},
    {"a written trace reads back the same, plain and gzip", a_written_trace_reads_back_the_same,
     false},
    {NULL, NULL, false},
};
