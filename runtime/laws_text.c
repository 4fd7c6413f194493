#include "runtime/laws_text.h"

#include <gsl/gsl_linalg.h>
#include <gsl/gsl_statistics.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/planned.h"
#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/cost/laws.h"

#define POINTS_MAX 96
#define TERMS_MAX  3

struct point {                       /* one size of step */
    int32_t requests, prior, tokens; /* as make_step takes them */
    bool prompt;
    struct kvt_step_load load;
    double rows, outputs, pages;
    double parts[KVT_PART_COUNT][KVT_LAW_ROUNDS], checks[KVT_LAW_ROUNDS]; /* s */
    double part[KVT_PART_COUNT];                                          /* s, medians */
    double check; /* s of the tag check of `pages` pages */
};

struct laws {
    struct kvt_runtime *runtime;
    struct kvt_real_replica *real;
    const struct kvt_model *model;
    struct point points[POINTS_MAX];
    int32_t count;
    FILE *out;
};

/* ---- steps that nobody asked for ------------------------------------------------------------ */

/* Requests of `prior` tokens that add `tokens` each; pages are handed out scattered over the pool,
 * as they are after a while of serving. False when the pool or the arrays are too small. */
static bool make_step(struct laws *laws, int32_t requests, int32_t prior, int32_t tokens,
                      bool prompt, struct point *point)
{
    struct kvt_real_replica *real = laws->real;
    struct kvt_rows *rows = &real->rows;
    int32_t size = real->layout.page_tokens, pages = real->pool.pages;
    int64_t each = ((int64_t)prior + tokens + size - 1) / size;
    if (each * requests > pages || each * requests > rows->table_max ||
        (int64_t)requests * tokens > rows->rows_max)
        return false;
    int32_t stride = pages / 2 | 1, n = 0, at = 0;
    while (stride > 1 && pages % stride == 0)
        stride -= 2;
    rows->table_size = rows->outputs = 0;
    for (int32_t r = 0; r < requests; r++) {
        int32_t begin = rows->table_size;
        for (int64_t i = 0; i < each; i++, at++)
            rows->page_table[rows->table_size++] =
                kvt_pool_page((int32_t)((int64_t)at * stride % pages));
        for (int32_t i = 0; i < tokens; i++, n++) {
            int32_t position = prior + i;
            rows->token[n] = (int32_t)(((uint32_t)n * 2654435761u) % (uint32_t)laws->model->vocab);
            rows->position[n] = position;
            rows->context[n] = position + 1;
            rows->row_pages[n] = begin;
            rows->slot[n] =
                (int64_t)rows->page_table[begin + position / size] * size + position % size;
            rows->stamp[n] = 1;
        }
        rows->output_row[rows->outputs++] = n - 1;
    }
    rows->rows = n;
    rows->prompt_rows = prompt ? n : 0;
    int64_t p = prior, t = tokens;
    *point = (struct point){.rows = n, .outputs = requests, .pages = at};
    if (prompt)
        point->load = (struct kvt_step_load){.prompt_tokens = n,
                                             .pairs = requests * (t * p + t * (t + 1) / 2),
                                             .prompt_ends = requests};
    else
        point->load = (struct kvt_step_load){.decodes = n, .context = (int64_t)n * (prior + 1)};
    return true;
}

/* Seconds of checking the pages of the step, with what comes and goes. */
static enum kvt_status time_check(struct kvt_real_replica *real, double *time, struct kvt_err *err)
{
    struct kvt_tag_batch *check = &real->check;
    size_t pages = (size_t)real->rows.table_size;
    check->begin[0] = 0;
    check->begin[1] = real->rows.table_size;
    memcpy(check->page, real->rows.page_table, pages * sizeof *check->page);
    double start = kvt_device_now();
    kvt_tag_batch_check(check, &real->pool, 1);
    KVT_TRY(real->device.ops->wait(&real->device, err));
    *time = kvt_device_now() - start;
    return KVT_OK;
}

/* Note a size of step, if the replica can hold one. */
static void want(struct laws *laws, int32_t requests, int32_t prior, int32_t tokens, bool prompt)
{
    struct point *point = &laws->points[laws->count];
    if (laws->count == POINTS_MAX || !make_step(laws, requests, prior, tokens, prompt, point))
        return;
    point->requests = requests;
    point->prior = prior;
    point->tokens = tokens;
    point->prompt = prompt;
    laws->count++;
}

static enum kvt_status run_point(struct laws *laws, int32_t i, int32_t round, struct kvt_err *err)
{
    struct kvt_real_replica *real = laws->real;
    struct point *point = &laws->points[i], same;
    if (kvt_stop_asked(laws->runtime->want.stop))
        return kvt_err_set(err, KVT_EINTR, "interrupted while kernels were measured");
    make_step(laws, point->requests, point->prior, point->tokens, point->prompt, &same);
    KVT_TRY(time_check(real, &point->checks[round], err));
    KVT_TRY(kvt_forward_step(&real->forward, &real->rows, err));
    for (int p = 0; p < KVT_PART_COUNT; p++)
        point->parts[p][round] = real->forward.spent[p];
    return KVT_OK;
}

/* All sizes in turn, some times over: a moment in which the machine is slow then falls on one
 * repeat of many sizes, not on all of one; and each finds the caches as another step left them. */
static enum kvt_status measure_all(struct laws *laws, int32_t rounds, struct kvt_err *err)
{
    if (laws->count > 0)
        KVT_TRY(run_point(laws, laws->count - 1, 0, err)); /* code, threads, first touch */
    for (int32_t round = 0; round < rounds; round++)
        for (int32_t i = 0; i < laws->count; i++)
            KVT_TRY(run_point(laws, i, round, err));
    for (int32_t i = 0; i < laws->count; i++) {
        struct point *point = &laws->points[i];
        for (int p = 0; p < KVT_PART_COUNT; p++)
            point->part[p] = gsl_stats_median(point->parts[p], 1, (size_t)rounds);
        point->check = gsl_stats_median(point->checks, 1, (size_t)rounds);
    }
    return KVT_OK;
}

/* The sizes that this replica will see: batches up to the most that run, prompts up to a chunk. */
static void want_all(struct laws *laws, const struct kvt_replica_spec *spec, int32_t longest)
{
    static const int32_t batches[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
    static const int32_t prompts[] = {1, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    const size_t batch_count = sizeof batches / sizeof batches[0];
    const size_t prompt_count = sizeof prompts / sizeof prompts[0];
    int32_t size = spec->page_tokens;
    for (size_t i = 0; i < batch_count && spec->role != KVT_ROLE_PREFILL; i++) {
        if (batches[i] > spec->max_running)
            break;
        int32_t fair = (int32_t)((int64_t)spec->pages / batches[i] * size) - 1;
        int32_t most = fair < longest ? fair : longest - 1;
        want(laws, batches[i], most, 1, false);
        want(laws, batches[i], most / 2, 1, false);
        want(laws, batches[i], size - 1, 1, false);
    }
    for (size_t i = 0; i < prompt_count && spec->role != KVT_ROLE_DECODE; i++) {
        int32_t n = prompts[i];
        if (n > spec->chunk_tokens && n > spec->batch_tokens)
            break;
        want(laws, 1, 0, n, true);
        if (n >= 64 && n <= 256)
            want(laws, 4, 0, n / 4, true);
        if (n >= 16 && n <= 128 && longest > 2 * n)
            want(laws, 1, longest / 2 / size * size, n, true);
    }
}

/* ---- laws ----------------------------------------------------------------------------------- */

/* x of least |a x - b|, of rows x columns; what the rows do not tell is 0. a is overwritten. By QR
 * with pivots, which needs no memory: the SVD of GSL's own fit crashes where there is none. */
static void least_squares(double a[], const double b[], size_t rows, size_t columns, double x[])
{
    double tau[TERMS_MAX], norm[TERMS_MAX], rest[POINTS_MAX];
    size_t order[TERMS_MAX];
    int sign;
    gsl_matrix_view qr = gsl_matrix_view_array(a, rows, columns);
    gsl_vector_const_view right = gsl_vector_const_view_array(b, rows);
    gsl_vector_view found = gsl_vector_view_array(x, columns);
    gsl_vector_view left = gsl_vector_view_array(rest, rows);
    gsl_vector_view t = gsl_vector_view_array(tau, columns);
    gsl_vector_view n = gsl_vector_view_array(norm, columns);
    gsl_permutation pivots = {.size = columns, .data = order};
    gsl_linalg_QRPT_decomp(&qr.matrix, &t.vector, &pivots, &sign, &n.vector);
    size_t rank = gsl_linalg_QRPT_rank(&qr.matrix, -1.0);
    gsl_linalg_QRPT_lssolve2(&qr.matrix, &t.vector, &pivots, &right.vector, rank, &found.vector,
                             &left.vector);
}

/* Coefficients >= 0 of y ~ sum of term * coefficient, errors relative to y. */
static void fit(double term[][TERMS_MAX], const double y[], int32_t count, int32_t terms,
                double coefficient[TERMS_MAX])
{
    bool used[TERMS_MAX];
    for (int32_t t = 0; t < TERMS_MAX; t++) {
        coefficient[t] = 0;
        used[t] = t < terms;
    }
    for (int32_t round = 0; round < terms; round++) {
        int32_t column[TERMS_MAX], columns = 0, worst = -1;
        for (int32_t t = 0; t < terms; t++)
            if (used[t])
                column[columns++] = t;
        if (columns == 0 || count < columns)
            return;
        double one[POINTS_MAX], scaled[POINTS_MAX * TERMS_MAX], found[TERMS_MAX];
        for (int32_t i = 0; i < count; i++) {
            one[i] = 1;
            for (int32_t j = 0; j < columns; j++)
                scaled[i * columns + j] = term[i][column[j]] / y[i];
        }
        least_squares(scaled, one, (size_t)count, (size_t)columns, found);
        double least = 0;
        for (int32_t j = 0; j < columns; j++) {
            coefficient[column[j]] = found[j];
            if (found[j] < least) {
                least = found[j];
                worst = column[j];
            }
        }
        if (worst < 0)
            return;
        used[worst] = false;
        for (int32_t t = 0; t < terms; t++)
            coefficient[t] = 0;
    }
}

static void say_rate(FILE *out, const char *key, double amount, double seconds, const char *unit,
                     double scale)
{
    if (seconds > 0)
        fprintf(out, "  %s: %.9g %s\n", key, amount / seconds / scale, unit);
}

static void begin_law(FILE *out, const char *family, const char *law)
{
    fprintf(out, "- family: %s\n  law: %s\n", family, law);
}

static void end_law(FILE *out)
{
    fputs("  source: measured in place\n", out);
}

static const char *gemm_family(enum kvt_weight_dtype dtype)
{
    return dtype == KVT_WEIGHTS_BF16  ? "gemm-bf16"
           : dtype == KVT_WEIGHTS_FP8 ? "gemm-fp8"
                                      : "gemm-int4";
}

/* Times of one linear by the rows it had, one knot for each number of rows. */
static void write_linear(struct laws *laws, enum kvt_kernel_part part,
                         const struct kvt_linear *linear, int32_t layers)
{
    double at[KVT_LAW_POINTS], time[KVT_LAW_POINTS], seen[KVT_LAW_POINTS];
    int32_t knots = 0;
    if (linear->packed == NULL || layers == 0)
        return;
    for (int32_t i = 0; i < laws->count; i++) {
        const struct point *point = &laws->points[i];
        double m = part == KVT_PART_HEAD ? point->outputs : point->rows;
        double t = point->part[part] / layers;
        int32_t k = 0;
        while (k < knots && at[k] < m)
            k++;
        if (k < knots && at[k] == m) { /* seen before, with another context: the mean */
            time[k] += (t - time[k]) / ++seen[k];
            continue;
        }
        if (knots == KVT_LAW_POINTS || t <= 0)
            continue;
        memmove(at + k + 1, at + k, sizeof(double) * (size_t)(knots - k));
        memmove(time + k + 1, time + k, sizeof(double) * (size_t)(knots - k));
        memmove(seen + k + 1, seen + k, sizeof(double) * (size_t)(knots - k));
        at[k] = m;
        time[k] = t;
        seen[k] = 1;
        knots++;
    }
    if (knots == 0)
        return;
    begin_law(laws->out, gemm_family(linear->dtype), "buckets");
    fprintf(laws->out, "  when: {n: [%d, %d], k: [%d, %d]}\n  at: [", linear->n, linear->n,
            linear->k, linear->k);
    for (int32_t k = 0; k < knots; k++)
        fprintf(laws->out, "%s%.9g", k > 0 ? ", " : "", at[k]);
    fputs("]\n  time: [", laws->out);
    for (int32_t k = 0; k < knots; k++)
        fprintf(laws->out, "%s%.9g us", k > 0 ? ", " : "", 1e6 * time[k]);
    fputs("]\n  rate: [", laws->out); /* the time is that of this matrix: nothing to scale */
    for (int32_t k = 0; k < knots; k++)
        fprintf(laws->out, "%s1e9 TB/s", k > 0 ? ", " : "");
    fputs("]\n", laws->out);
    end_law(laws->out);
}

/* Points of a part with their terms; returns how many. */
static int32_t gather(const struct laws *laws, enum kvt_kernel_part part, double y[],
                      double term[][TERMS_MAX],
                      void (*terms)(const struct laws *, const struct point *, double[TERMS_MAX]))
{
    int32_t count = 0;
    for (int32_t i = 0; i < laws->count; i++) {
        if (laws->points[i].part[part] <= 0)
            continue;
        y[count] = laws->points[i].part[part] / laws->model->layers;
        terms(laws, &laws->points[i], term[count]);
        count++;
    }
    return count;
}

static void decode_terms(const struct laws *laws, const struct point *point, double t[TERMS_MAX])
{
    (void)laws;
    t[0] = 1;
    t[1] = (double)point->load.context;
    t[2] = point->load.decodes;
}

static void prefill_terms(const struct laws *laws, const struct point *point, double t[TERMS_MAX])
{
    (void)laws;
    t[0] = 1;
    t[1] = point->rows;
    t[2] = (double)point->load.pairs;
}

static void row_terms(const struct laws *laws, const struct point *point, double t[TERMS_MAX])
{
    (void)laws;
    t[0] = 1;
    t[1] = point->rows;
    t[2] = 0;
}

static void write_decode(struct laws *laws)
{
    double y[POINTS_MAX] = {0}, term[POINTS_MAX][TERMS_MAX], c[TERMS_MAX];
    int32_t count = gather(laws, KVT_PART_DECODE, y, term, decode_terms);
    const struct kvt_page_layout *layout = &laws->real->layout;
    bool mla = kvt_page_format_is_mla((enum kvt_page_format)layout->format);
    bool fp8 = kvt_page_format_is_fp8((enum kvt_page_format)layout->format);
    if (count < 3)
        return;
    fit(term, y, count, 3, c);
    double token = c[1] > 0 ? c[1] : 1e-15;
    /* The law's own bytes of a token are the list's; the runtime's format has the same. */
    double bytes = (double)layout->page_bytes / layout->page_tokens;
    if (mla)
        bytes = layout->token_bytes;
    begin_law(laws->out,
              mla ? (fp8 ? "mla-decode-fp8" : "mla-decode-bf16")
                  : (fp8 ? "gqa-decode-fp8" : "gqa-decode-bf16"),
              "decode");
    fprintf(laws->out, "  t0: %.9g us\n  tokens: %.9g\n", 1e6 * c[0], c[2] / token);
    say_rate(laws->out, "bandwidth", bytes, token, "GB/s", 1e9);
    end_law(laws->out);
}

static void write_prefill(struct laws *laws)
{
    double y[POINTS_MAX] = {0}, term[POINTS_MAX][TERMS_MAX], c[TERMS_MAX];
    int32_t count = gather(laws, KVT_PART_PREFILL, y, term, prefill_terms);
    const struct kvt_attention *a = &laws->model->groups[0].attention;
    bool mla = a->kind == KVT_ATTENTION_MLA;
    if (count < 3)
        return;
    fit(term, y, count, 3, c);
    double h = a->heads, latent = 2.0 * KVT_MLA_LATENT + KVT_MLA_ROPE;
    double row_bytes = mla ? 2 * h * latent : 2 * (h + a->kv_heads) * 2.0 * a->head_dim;
    double pair_flops = mla ? 2 * h * latent : 4 * h * a->head_dim;
    begin_law(laws->out, mla ? "mla-prefill" : "gqa-prefill", "roofline");
    fprintf(laws->out, "  t0: %.9g us\n  p: 1\n", 1e6 * c[0]);
    say_rate(laws->out, "bandwidth", row_bytes, c[1], "GB/s", 1e9);
    say_rate(laws->out, "flops", pair_flops, c[2], "TFLOP/s", 1e12);
    end_law(laws->out);
}

static void write_bmm(struct laws *laws)
{
    double y[POINTS_MAX] = {0}, term[POINTS_MAX][TERMS_MAX], c[TERMS_MAX];
    int32_t count = gather(laws, KVT_PART_BMM, y, term, row_terms);
    const struct kvt_attention *a = &laws->model->groups[0].attention;
    if (count < 2)
        return;
    fit(term, y, count, 2, c);
    double row_flops = 2.0 * a->heads * KVT_MLA_LATENT * (a->nope + a->v_dim);
    begin_law(laws->out, "mla-bmm", "roofline");
    fprintf(laws->out, "  t0: %.9g us\n  p: 1\n", 1e6 * c[0] / 2); /* absorbed q, absorbed v */
    say_rate(laws->out, "flops", row_flops, c[1], "TFLOP/s", 1e12);
    end_law(laws->out);
}

static const struct kvt_layer_weights *moe_layer(const struct laws *laws, int32_t *layers)
{
    const struct kvt_layer_weights *found = NULL;
    *layers = 0;
    for (int32_t l = 0; l < laws->model->layers; l++) {
        const struct kvt_layer_weights *layer = &laws->real->weights.layers[l];
        if (layer->group->mlp.experts == 0)
            continue;
        found = layer;
        ++*layers;
    }
    return found;
}

static double experts_hit(const struct kvt_mlp *mlp, double tokens)
{
    return mlp->experts * -expm1(tokens * log1p(-(double)mlp->topk / mlp->experts));
}

static void write_experts(struct laws *laws)
{
    double y[POINTS_MAX] = {0}, term[POINTS_MAX][TERMS_MAX], c[TERMS_MAX];
    int32_t layers, count = 0;
    const struct kvt_layer_weights *layer = moe_layer(laws, &layers);
    if (layer == NULL)
        return;
    const struct kvt_mlp *mlp = &layer->group->mlp;
    enum kvt_weight_dtype dtype = layer->expert_gate_up.dtype;
    double matrix = 3.0 * laws->model->hidden * mlp->expert_inter;
    double bits = dtype == KVT_WEIGHTS_BF16  ? 16
                  : dtype == KVT_WEIGHTS_FP8 ? 8
                                             : 4 + 16.0 / layer->expert_gate_up.group;
    for (int32_t i = 0; i < laws->count; i++) {
        double m = laws->points[i].rows;
        if (laws->points[i].part[KVT_PART_EXPERTS] <= 0) /* where the clock went back */
            continue;
        y[count] = laws->points[i].part[KVT_PART_EXPERTS] / layers;
        term[count][0] = 1;
        term[count][1] = experts_hit(mlp, m) * matrix * bits / 8;
        term[count++][2] = 2 * m * mlp->topk * matrix;
    }
    fit(term, y, count, 3, c);
    begin_law(laws->out,
              dtype == KVT_WEIGHTS_BF16  ? "experts-bf16"
              : dtype == KVT_WEIGHTS_FP8 ? "experts-fp8"
                                         : "experts-int4",
              "roofline");
    fprintf(laws->out, "  t0: %.9g us\n  p: 1\n", 1e6 * c[0]);
    say_rate(laws->out, "bandwidth", 1, c[1], "GB/s", 1e9);
    say_rate(laws->out, "flops", 1, c[2], "TFLOP/s", 1e12);
    end_law(laws->out);
}

static void write_small(struct laws *laws)
{
    static const char *const families[] = {"layer-gqa-dense", "layer-gqa-moe", "layer-mla-dense",
                                           "layer-mla-moe"};
    double y[POINTS_MAX] = {0}, term[POINTS_MAX][TERMS_MAX], c[TERMS_MAX], bytes = 0;
    int32_t count = gather(laws, KVT_PART_SMALL, y, term, row_terms);
    fit(term, y, count, 2, c);
    for (int32_t g = 0; g < laws->model->group_count; g++) { /* as kvt_step_list counts them */
        const struct kvt_mlp *mlp = &laws->model->groups[g].mlp;
        double inter = mlp->experts > 0 ? mlp->shared_inter : mlp->inter;
        bytes += laws->model->groups[g].count * 2.0 * (12.0 * laws->model->hidden + 3.0 * inter);
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        begin_law(laws->out, families[i], "constant");
        fprintf(laws->out, "  t0: %.9g us\n", 1e6 * c[0]);
        end_law(laws->out);
    }
    begin_law(laws->out, "elementwise", "roofline");
    fputs("  t0: 0 us\n", laws->out);
    say_rate(laws->out, "bandwidth", bytes / laws->model->layers, c[1], "GB/s", 1e9);
    end_law(laws->out);
}

static void write_linears(struct laws *laws)
{
    const struct kvt_model_weights *w = &laws->real->weights;
    int32_t all = laws->model->layers, moe, dense = 0;
    const struct kvt_layer_weights *experts = moe_layer(laws, &moe), *plain = NULL;
    for (int32_t l = 0; l < all; l++) {
        if (w->layers[l].group->mlp.experts > 0)
            continue;
        plain = &w->layers[l];
        dense++;
    }
    write_linear(laws, KVT_PART_QKV, &w->layers[0].qkv, all);
    write_linear(laws, KVT_PART_Q_B, &w->layers[0].q_b, all);
    write_linear(laws, KVT_PART_O, &w->layers[0].o, all);
    if (plain != NULL) {
        write_linear(laws, KVT_PART_GATE_UP, &plain->gate_up, dense);
        write_linear(laws, KVT_PART_DOWN, &plain->down, dense);
    }
    if (experts != NULL) {
        write_linear(laws, KVT_PART_ROUTER, &experts->router, moe);
        write_linear(laws, KVT_PART_SHARED_UP, &experts->shared_gate_up, moe);
        write_linear(laws, KVT_PART_SHARED_DOWN, &experts->shared_down, moe);
    }
    write_linear(laws, KVT_PART_HEAD, &w->head, 1);
}

static void fit_check(const struct laws *laws, double *call, double *page)
{
    double y[POINTS_MAX] = {0}, term[POINTS_MAX][TERMS_MAX], c[TERMS_MAX];
    for (int32_t i = 0; i < laws->count; i++) {
        y[i] = fmax(laws->points[i].check, 1e-9);
        term[i][0] = 1;
        term[i][1] = laws->points[i].pages;
        term[i][2] = 0;
    }
    fit(term, y, laws->count, 2, c);
    *call = c[0];
    *page = c[1];
}

/* Checks pass, as in serving. */
static enum kvt_status set_tags(struct kvt_real_replica *real, struct kvt_err *err)
{
    size_t count = (size_t)real->pool.pages + 1;
    struct kvt_page_tag *tags = malloc(count * sizeof *tags);
    if (tags == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the tags of %zu pages", count);
    for (size_t i = 0; i < count; i++)
        tags[i] = (struct kvt_page_tag){1, 1};
    for (int32_t i = 0; i < real->check.pages_max; i++)
        real->check.want[i] = 1;
    real->device.ops->copy(&real->device, real->pool.tags, tags, count * sizeof *tags);
    free(tags);
    return KVT_OK;
}

enum kvt_status kvt_laws_measure(struct kvt_runtime *runtime, int32_t replica, int32_t rounds,
                                 char **text, double *tag_call, double *tag_page,
                                 struct kvt_err *err)
{
    struct kvt_real_replica *real = &runtime->replicas[replica];
    const struct kvt_replica_spec *spec = &runtime->core->replicas[replica].spec;
    const struct kvt_trace *trace = runtime->trace;
    struct laws *laws = calloc(1, sizeof *laws);
    size_t bytes;
    *text = NULL;
    if (laws == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to measure kernels");
    laws->runtime = runtime;
    laws->real = real;
    laws->model = real->weights.model;
    enum kvt_status status = set_tags(real, err);
    int32_t longest = 1;
    for (int32_t r = 0; r < trace->count; r++) {
        int32_t most = trace->input[r] + (spec->role == KVT_ROLE_PREFILL ? 0 : trace->output[r]);
        longest = most > longest ? most : longest;
    }
    want_all(laws, spec, longest);
    if (status == KVT_OK)
        status = measure_all(laws, rounds, err);
    laws->out = status == KVT_OK ? kvt_memory_open(text, &bytes) : NULL;
    if (status == KVT_OK && laws->out == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to write laws");
    if (status == KVT_OK) {
        fprintf(laws->out,
                "calibration: measured\ngpu: %s\nstack: own\nversion: here\nskew: 1\n"
                "source: kernels of one replica, measured in place\nlaws:\n",
                runtime->plans[real->role].gpu.name);
        write_linears(laws);
        write_experts(laws);
        write_decode(laws);
        write_prefill(laws);
        write_bmm(laws);
        write_small(laws);
        fit_check(laws, tag_call, tag_page);
        if (!kvt_memory_close(laws->out, text))
            status = kvt_err_set(err, KVT_ENOMEM, "no memory to write laws");
    }
    free(laws);
    return status;
}
