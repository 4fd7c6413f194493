/* Rows of kvtwin bench (table.h has the families). Bytes and FLOPs are counted as step.c counts
 * them, whatever the row says of itself, so that law and step speak of the same work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/spelling.h"
#include "sim/base/units.h"
#include "sim/cost/fit.h"
#include "sim/cost/table_row.h"
#include "sim/model/weights.h"

#define TAG_PAGE_BYTES 48.0 /* that a step counts for the check of one page */
#define UNIT_FACTOR    2.0  /* gb_per_s and bytes / time_ns agree within this, or a unit is wrong */

/* clang-format off */
#define KEYS(X)                                                                                    \
    X(m) X(n) X(k) X(group) X(batch) X(context) X(heads) X(kv_heads) X(head_dim) X(latent)         \
    X(rope) X(nope) X(tokens) X(hidden) X(inter) X(experts) X(topk) X(hit) X(pages)
/* clang-format on */
#define X(name) KEY_##name,
enum key { KEYS(X) KEY_COUNT };
#undef X
#define X(name) #name,
static const char *const key_names[KEY_COUNT] = {KEYS(X)};
#undef X

/* clang-format off */
#define VARIANTS(X)                                                                                \
    X(BF16, "bf16") X(FP8, "fp8") X(FP8_PLAIN, "fp8-plain") X(FP8_SCALED, "fp8-scaled")            \
    X(G32, "g32") X(G128, "g128") X(SIDE, "side") X(HEADER, "header") X(WARM, "warm")              \
    X(NORM, "norm") X(SILU, "silu") X(ROPE, "rope") X(ARGMAX, "argmax")
/* clang-format on */
#define X(name, text) VARIANT_##name,
enum variant { VARIANTS(X) VARIANT_COUNT };
#undef X
#define X(name, text) text,
static const char *const variant_names[VARIANT_COUNT] = {VARIANTS(X)};
#undef X

/* One row on its way in. */
struct bench_row {
    struct kvt_row *row;
    double key[KEY_COUNT]; /* 0: not given */
    double apart;          /* of keys that no law knows */
    bool variant;          /* of two families that are read alike: int4 weights, latent attention */
    bool is[VARIANT_COUNT];
    double time, bytes, flops; /* s; as the row says */
};

static double number(struct kvt_row *row, enum kvt_column column)
{
    const char *text = row->field[column];
    struct kvt_err why = {0};
    double value = 0.0;
    if (text == NULL) /* no such column */
        return 0.0;
    if (text[0] != '\0' && kvt_double_parse(text, &value, &why) != KVT_OK)
        KVT_ROW_FAIL(row, "%s: %s", kvt_column_names[column], why.text);
    else if (!(value >= 0.0))
        KVT_ROW_FAIL(row, "%s: want at least 0, got %g", kvt_column_names[column], value);
    return value;
}

/* ---- shape and variant ---- */

static void read_pair(struct bench_row *b, const char *pair, size_t count)
{
    char text[64];
    int64_t value;
    struct kvt_err why = {0};
    snprintf(text, sizeof text, "%.*s", (int)(count < 63 ? count : 63), pair);
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        KVT_ROW_FAIL(b->row, "shape: want key=value with spaces between, got \"%s\"", text);
        return;
    }
    *equals = '\0';
    if (kvt_int_parse(equals + 1, 0, INT64_C(1) << 50, &value, &why) != KVT_OK) {
        KVT_ROW_FAIL(b->row, "shape: %s: %s", text, why.text);
        return;
    }
    for (int i = 0; i < KEY_COUNT; i++) {
        if (strcmp(text, key_names[i]) != 0)
            continue;
        b->key[i] = (double)value;
        return;
    }
    for (const char *at = text; *at != '\0'; at++)
        b->apart = fmod(b->apart * 31.0 + (double)(unsigned char)*at, 1e9);
    b->apart += (double)value;
}

static void read_shape(struct bench_row *b)
{
    const char *at = b->row->field[KVT_COLUMN_shape];
    while (*(at += strspn(at, " ")) != '\0' && !b->row->failed) {
        size_t count = strcspn(at, " ");
        read_pair(b, at, count);
        at += count;
    }
}

static void read_variant(struct bench_row *b)
{
    const char *at = b->row->field[KVT_COLUMN_variant];
    while (*at != '\0' && !b->row->failed) {
        char text[32];
        size_t count = strcspn(at, "+");
        snprintf(text, sizeof text, "%.*s", (int)(count < 31 ? count : 31), at);
        int v = 0;
        while (v < VARIANT_COUNT && strcmp(text, variant_names[v]) != 0)
            v++;
        if (v < VARIANT_COUNT) {
            b->is[v] = true;
        } else {
            char hint[KVT_HINT_BYTES];
            KVT_ROW_FAIL(b->row, "variant: unknown \"%s\"%s", text,
                         kvt_nearest_hint(text, variant_names, VARIANT_COUNT, hint));
        }
        at += count + (at[count] == '+');
    }
}

/* A size that the family needs. */
static double size(struct bench_row *b, enum key key)
{
    if (b->key[key] < 1.0 && !b->row->failed)
        KVT_ROW_FAIL(b->row, "shape: %s: wanted for %s and at least 1, got \"%.100s\"",
                     key_names[key], b->row->field[KVT_COLUMN_family],
                     b->row->field[KVT_COLUMN_shape]);
    return b->key[key] < 1.0 ? 1.0 : b->key[key];
}

static double size_or(const struct bench_row *b, enum key key, double otherwise)
{
    return b->key[key] < 1.0 ? otherwise : b->key[key];
}

/* ---- families ---- */

static bool is_fp8(const struct bench_row *b)
{
    return b->is[VARIANT_FP8] || b->is[VARIANT_FP8_PLAIN] || b->is[VARIANT_FP8_SCALED];
}

static void want_variant(struct bench_row *b, bool holds, const char *wanted)
{
    if (!holds && !b->row->failed)
        KVT_ROW_FAIL(b->row, "variant: %s: want %s, got \"%.40s\"",
                     b->row->field[KVT_COLUMN_family], wanted, b->row->field[KVT_COLUMN_variant]);
}

/* What the row's family cannot do without, though other families can. */
static void want_measure(struct bench_row *b, double value, enum kvt_column column)
{
    const char *got = b->row->field[column];
    if (value <= 0.0 && !b->row->failed)
        KVT_ROW_FAIL(b->row, "%s: wanted for %s and more than 0, got \"%.20s\"",
                     kvt_column_names[column], b->row->field[KVT_COLUMN_family],
                     got != NULL ? got : "");
}

#define FINISH(b, more, ...) KVT_ROW_FINISH((b)->row, more, (b)->apart, __VA_ARGS__)

static enum kvt_weight_dtype int4_of(struct bench_row *b)
{
    double group = b->is[VARIANT_G32] ? 32.0 : b->is[VARIANT_G128] ? 128.0 : b->key[KEY_group];
    want_variant(b, group == 32.0 || group == 128.0, "g32 or g128");
    return group == 32.0 ? KVT_WEIGHTS_INT4_G32 : KVT_WEIGHTS_INT4_G128;
}

/* The weights of a GEMM or of experts, and which of the four families they make. */
static enum kvt_weight_dtype weights_of(struct bench_row *b, bool int4, enum kvt_family bf16)
{
    static const int after[KVT_WEIGHT_DTYPE_COUNT] = {
        [KVT_WEIGHTS_FP8] = KVT_FAMILY_GEMM_FP8 - KVT_FAMILY_GEMM_BF16,
        [KVT_WEIGHTS_INT4_G32] = KVT_FAMILY_GEMM_INT4 - KVT_FAMILY_GEMM_BF16,
        [KVT_WEIGHTS_INT4_G128] = KVT_FAMILY_GEMM_INT4 - KVT_FAMILY_GEMM_BF16};
    enum kvt_weight_dtype weights = KVT_WEIGHTS_BF16;
    if (int4) {
        weights = int4_of(b);
        b->row->series.weight_bits = kvt_weight_bits(weights);
        b->row->sample.work.dim[KVT_DIM_WEIGHT_BITS] = kvt_weight_bits(weights);
        b->row->op = bf16 == KVT_FAMILY_GEMM_BF16 ? "int4-gemm" : "int4-experts";
    } else {
        want_variant(b, b->is[VARIANT_BF16] || b->is[VARIANT_FP8], "bf16 or fp8");
        weights = b->is[VARIANT_FP8] ? KVT_WEIGHTS_FP8 : KVT_WEIGHTS_BF16;
    }
    b->row->series.family = (int32_t)bf16 + after[weights];
    return weights;
}

static void row_gemm(struct bench_row *b)
{
    bool int4 = b->variant;
    struct kvt_work *w = &b->row->sample.work;
    enum kvt_weight_dtype weights = weights_of(b, int4, KVT_FAMILY_GEMM_BF16);
    bool vector = strcmp(b->row->field[KVT_COLUMN_family], "int4-gemv") == 0;
    double m = vector ? size_or(b, KEY_m, 1.0) : size(b, KEY_m);
    double n = size(b, KEY_n), k = size(b, KEY_k);
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_N] = n;
    w->dim[KVT_DIM_K] = k;
    w->bytes = kvt_weight_bits(weights) / 8.0 * n * k + 2.0 * m * (n + k);
    w->flops = 2.0 * m * n * k;
    FINISH(b, 0.0, KVT_DIM_N, KVT_DIM_K);
}

static void row_experts(struct bench_row *b)
{
    bool int4 = b->variant;
    struct kvt_work *w = &b->row->sample.work;
    enum kvt_weight_dtype weights = weights_of(b, int4, KVT_FAMILY_EXPERTS_BF16);
    double m = size_or(b, KEY_tokens, size_or(b, KEY_m, 0.0));
    double experts = size(b, KEY_experts), topk = size(b, KEY_topk);
    m = m < 1.0 ? size(b, KEY_tokens) : m;
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_HIDDEN] = size(b, KEY_hidden);
    w->dim[KVT_DIM_INTER] = size(b, KEY_inter);
    w->dim[KVT_DIM_EXPERTS] = experts;
    w->dim[KVT_DIM_TOPK] = topk;
    w->dim[KVT_DIM_RANKS] = 1.0;
    if (topk > experts && !b->row->failed)
        KVT_ROW_FAIL(b->row, "shape: want topk of at most experts (%g), got %g", experts, topk);
    double random = experts * -expm1(m * log1p(-topk / experts));
    double hit = fmin(size_or(b, KEY_hit, topk < experts ? random : experts), experts);
    double matrix = 3.0 * w->dim[KVT_DIM_HIDDEN] * w->dim[KVT_DIM_INTER];
    w->bytes = hit * matrix * kvt_weight_bits(weights) / 8.0;
    w->flops = 2.0 * m * topk * matrix;
    w->tile_flops = 2.0 * hit * matrix;
    FINISH(b, 0.0, KVT_DIM_HIDDEN, KVT_DIM_INTER, KVT_DIM_EXPERTS, KVT_DIM_TOPK);
}

/* KV of one token in one layer: values, bytes as stored, and bits of a value. */
struct token_kv {
    double values, bytes, bits;
};

static struct token_kv token_kv(struct bench_row *b, bool latent)
{
    bool fp8 = is_fp8(b);
    struct token_kv t = {.bits = fp8 ? 8.0 : 16.0};
    want_variant(b, fp8 || b->is[VARIANT_BF16], "the dtype of the KV (bf16, fp8 ...)");
    if (!latent) {
        t.values = 2.0 * size(b, KEY_kv_heads) * size(b, KEY_head_dim);
        t.bytes = t.values * t.bits / 8.0;
        if (b->is[VARIANT_FP8_SCALED]) /* a scale of k and one of v */
            t.bytes += 8.0 * size(b, KEY_kv_heads);
        return t;
    }
    double kv = size_or(b, KEY_latent, 512.0), rope = size_or(b, KEY_rope, 64.0);
    t.values = kv + rope;
    t.bytes = b->is[VARIANT_FP8_SCALED] ? kv + 4.0 * ceil(kv / 128.0) + 2.0 * rope
                                        : t.values * t.bits / 8.0;
    return t;
}

static void row_decode(struct bench_row *b)
{
    bool latent = b->variant;
    struct kvt_work *w = &b->row->sample.work;
    struct token_kv kv = token_kv(b, latent);
    double heads = size(b, KEY_heads);
    w->batch = size(b, KEY_batch);
    w->context = w->windowed = w->batch * size(b, KEY_context);
    w->dim[KVT_DIM_M] = w->batch;
    w->dim[KVT_DIM_HEADS] = heads;
    w->token_bytes = kv.bytes;
    w->token_flops =
        2.0 * heads *
        (latent ? kv.values + size_or(b, KEY_latent, 512.0) : 2.0 * size(b, KEY_head_dim));
    if (!latent) {
        w->dim[KVT_DIM_KV_HEADS] = size(b, KEY_kv_heads);
        w->dim[KVT_DIM_HEAD_DIM] = size(b, KEY_head_dim);
    }
    bool fp8 = is_fp8(b);
    b->row->series.kind = KVT_LAW_DECODE;
    b->row->series.family = latent ? (fp8 ? KVT_FAMILY_MLA_DECODE_FP8 : KVT_FAMILY_MLA_DECODE_BF16)
                                   : (fp8 ? KVT_FAMILY_GQA_DECODE_FP8 : KVT_FAMILY_GQA_DECODE_BF16);
    FINISH(b, kv.values, KVT_DIM_HEADS, KVT_DIM_KV_HEADS, KVT_DIM_HEAD_DIM);
}

static void row_prefill(struct bench_row *b)
{
    bool latent = b->variant;
    struct kvt_work *w = &b->row->sample.work;
    double n = size(b, KEY_tokens), before = b->key[KEY_context], heads = size(b, KEY_heads);
    double pairs = n * before + 0.5 * n * (n + 1.0);
    double nope = size_or(b, KEY_nope, 128.0), rope = size_or(b, KEY_rope, 64.0);
    w->dim[KVT_DIM_M] = n;
    w->dim[KVT_DIM_HEADS] = heads;
    w->batch = 1.0; /* the axis "length": twice the keys that a token sees */
    w->context = w->windowed = 2.0 * pairs / n;
    if (latent) {
        w->bytes = 2.0 * n * heads * (2.0 * (nope + rope) + 2.0 * nope);
        w->flops = 2.0 * heads * (2.0 * nope + rope) * pairs;
    } else {
        double kv = size(b, KEY_kv_heads), d = size(b, KEY_head_dim);
        w->dim[KVT_DIM_KV_HEADS] = kv;
        w->dim[KVT_DIM_HEAD_DIM] = d;
        w->bytes = 2.0 * n * (heads + kv) * 2.0 * d;
        w->flops = 4.0 * heads * d * pairs;
    }
    b->row->series.family = latent ? KVT_FAMILY_MLA_PREFILL : KVT_FAMILY_GQA_PREFILL;
    FINISH(b, 0.0, KVT_DIM_HEADS, KVT_DIM_KV_HEADS, KVT_DIM_HEAD_DIM);
}

static void row_bmm(struct bench_row *b)
{
    struct kvt_work *w = &b->row->sample.work;
    double m = size_or(b, KEY_m, size_or(b, KEY_tokens, 0.0)), heads = size(b, KEY_heads);
    double nope = size_or(b, KEY_nope, 128.0), kv = size_or(b, KEY_latent, 512.0);
    m = m < 1.0 ? size(b, KEY_m) : m;
    w->dim[KVT_DIM_M] = m;
    w->dim[KVT_DIM_HEADS] = heads;
    w->bytes = 2.0 * heads * nope * kv + 2.0 * heads * m * (nope + kv);
    w->flops = 2.0 * heads * m * nope * kv;
    b->row->series.family = KVT_FAMILY_MLA_BMM;
    FINISH(b, nope * kv, KVT_DIM_HEADS);
}

static void row_append(struct bench_row *b)
{
    struct kvt_work *w = &b->row->sample.work;
    struct token_kv kv = token_kv(b, b->key[KEY_kv_heads] < 1.0 && b->key[KEY_head_dim] < 1.0);
    double rows = size(b, KEY_tokens);
    w->dim[KVT_DIM_M] = rows;
    w->dim[KVT_DIM_WEIGHT_BITS] = kv.bits;
    w->bytes = rows * (2.0 * kv.values + kv.bytes);
    b->row->series.weight_bits = kv.bits;
    b->row->series.family = KVT_FAMILY_APPEND;
    FINISH(b, kv.values, KVT_DIM_M);
}

static void row_tag_check(struct bench_row *b)
{
    struct kvt_work *w = &b->row->sample.work;
    w->dim[KVT_DIM_M] = size(b, KEY_pages);
    w->bytes = TAG_PAGE_BYTES * w->dim[KVT_DIM_M];
    b->row->series.family = KVT_FAMILY_TAG_CHECK;
    FINISH(b, 0.0, KVT_DIM_M);
}

static void row_elementwise(struct bench_row *b)
{
    want_measure(b, b->bytes, KVT_COLUMN_bytes);
    b->row->sample.work.bytes = b->bytes;
    b->row->series.family = KVT_FAMILY_ELEMENTWISE;
    b->row->series.rank = b->is[VARIANT_SILU] + 2 * b->is[VARIANT_ROPE] + 3 * b->is[VARIANT_ARGMAX];
    FINISH(b, b->bytes, KVT_DIM_M);
}

/* ---- one row ---- */

static bool is_ceiling(struct bench_row *b, struct kvt_bench_facts *facts)
{
    const char *family = b->row->field[KVT_COLUMN_family];
    double *best = strcmp(family, "read") == 0 ? &facts->read : &facts->copy;
    if (strcmp(family, "read") == 0 || strcmp(family, "copy") == 0) {
        want_measure(b, b->bytes, KVT_COLUMN_bytes);
        *best = fmax(*best, b->bytes / b->time);
    } else if (strcmp(family, "gemm-peak") == 0) {
        want_measure(b, b->flops, KVT_COLUMN_flops);
        facts->flops = fmax(facts->flops, b->flops / b->time);
    } else if (strcmp(family, "vector-peak") == 0) /* of which no law speaks */
        return true;
    else if (strcmp(family, "launch") == 0)
        facts->launch = facts->launch > 0.0 ? fmin(facts->launch, b->time) : b->time;
    else
        return false;
    return true;
}

/* All tables of kvtwin bench in one fit are of one machine. */
static void check_device(struct kvt_row *row, struct kvt_bench_facts *facts)
{
    const char *backend = row->field[KVT_COLUMN_backend], *device = row->field[KVT_COLUMN_device];
    if (strcmp(backend, "cpu") != 0 && strcmp(backend, "cuda") != 0) {
        KVT_ROW_FAIL(row, "backend: want cpu or cuda, got \"%.40s\"", backend);
        return;
    }
    if (facts->backend[0] == '\0') {
        snprintf(facts->backend, sizeof facts->backend, "%.15s", backend);
        snprintf(facts->device, sizeof facts->device, "%.95s", device);
    }
    if (strcmp(facts->backend, backend) != 0 || strncmp(facts->device, device, 95) != 0)
        KVT_ROW_FAIL(row,
                     "device: is \"%.60s\" (%s), the rows before are of \"%.60s\" (%s); one "
                     "calibration is for one device",
                     device, backend, facts->device, facts->backend);
}

static bool leave_out(struct kvt_row *row, struct kvt_bench_facts *facts, const char *what,
                      const char *got, const char *hint)
{
    if (facts->left_out++ == 0)
        snprintf(facts->left_out_why, sizeof facts->left_out_why, "%.60s:%d: %s \"%.30s\"%s",
                 row->where.file, row->where.line, what, got, hint);
    return false;
}

static void read_measures(struct bench_row *b)
{
    struct kvt_row *row = b->row;
    double ns = number(row, KVT_COLUMN_time_ns);
    b->time = 1e-9 * ns;
    b->bytes = number(row, KVT_COLUMN_bytes);
    b->flops = number(row, KVT_COLUMN_flops);
    double rate = number(row, KVT_COLUMN_gb_per_s);
    if (!row->failed && !(ns > 0.0 && b->time < KVT_FIT_SECONDS_MAX))
        KVT_ROW_FAIL(row, "time_ns: want a time above 0 and below %g s, got %g ns",
                     KVT_FIT_SECONDS_MAX, ns);
    if (row->failed || rate <= 0.0 || b->bytes <= 0.0)
        return;
    double ratio = b->bytes / ns / rate;
    if (ratio > UNIT_FACTOR || ratio < 1.0 / UNIT_FACTOR)
        KVT_ROW_FAIL(
            row, "time_ns: want nanoseconds: %g bytes in %g ns are %.4g GB/s, gb_per_s says %.4g",
            b->bytes, ns, b->bytes / ns, rate);
}

bool kvt_bench_row_sample(struct kvt_row *row, struct kvt_bench_facts *facts)
{
    static const struct {
        const char *family;
        void (*read)(struct bench_row *);
        bool variant;
    } families[] = {
        {"gemm", row_gemm, false},
        {"int4-gemv", row_gemm, true},
        {"int4-gemm", row_gemm, true},
        {"experts", row_experts, false},
        {"int4-experts", row_experts, true},
        {"gqa-decode", row_decode, false},
        {"mla-decode", row_decode, true},
        {"gqa-prefill", row_prefill, false},
        {"mla-prefill", row_prefill, true},
        {"mla-bmm", row_bmm, true},
        {"append", row_append, false},
        {"tag-check", row_tag_check, false},
        {"elementwise", row_elementwise, false},
    };
    enum { FAMILIES = sizeof families / sizeof families[0] };
    const char *names[FAMILIES], *family = row->field[KVT_COLUMN_family];
    const char *status = row->field[KVT_COLUMN_status];
    struct bench_row b = {.row = row};
    char hint[KVT_HINT_BYTES];
    int at = FAMILIES;
    row->sample = (struct kvt_sample){0};
    row->series = (struct kvt_series){.family = KVT_SERIES_NONE, .kind = KVT_LAW_ROOFLINE};
    row->series.own = true;
    row->op = family;
    check_device(row, facts);
    if (!row->failed && status != NULL && strcmp(status, "ok") != 0)
        return leave_out(row, facts, "status is", status, "");
    read_measures(&b);
    if (row->failed || is_ceiling(&b, facts))
        return false;
    for (int i = 0; i < FAMILIES; i++) {
        names[i] = families[i].family;
        at = strcmp(family, families[i].family) == 0 ? i : at;
    }
    if (at == FAMILIES)
        return leave_out(row, facts, "no step asks for family", family,
                         kvt_nearest_hint(family, names, FAMILIES, hint));
    read_shape(&b);
    read_variant(&b);
    if (row->failed)
        return false;
    snprintf(row->dtype, sizeof row->dtype, "%.60s", row->field[KVT_COLUMN_variant]);
    b.variant = families[at].variant;
    families[at].read(&b);
    row->sample.time = b.time;
    row->series.rank += b.is[VARIANT_HEADER] + 2 * b.is[VARIANT_WARM] +
                        (families[at].read != row_tag_check && b.is[VARIANT_SIDE]);
    return !row->failed;
}
