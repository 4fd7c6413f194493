#include "sim/cost/freeze.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/assert.h"

#define SECONDS_MAX     1e5 /* no step takes longer; keeps sums of a step's parts in 64 bits */
#define FAR_TOKENS      (INT64_C(1) << 20) /* per request: where the last slope is measured */
#define PROMPT_TOKENS   (INT64_C(1) << 20) /* the last knot of tokens(m) */
#define KNOTS_MAX       512
#define KNOT_ERROR      0.0025
#define SLOPE_ERROR     0.003
#define HOST_COPY_SHARE 0.75 /* of the host link's rate that long copies reach */

/* What a freeze works with; the step is too large for the stack. */
struct freezer {
    const struct kvt_model *model;
    const struct kvt_step_shape *shape;
    const struct kvt_calibration *calibration;
    struct kvt_kernel_list *step;
};

/* Not below zero: gaps that are overlap (layer-* drawn negative) could be more than all kernels of
 * a model too small for its GPU. */
static kvt_ticks ticks(double seconds)
{
    double most = seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
    return kvt_ticks_from_seconds(most > 0.0 ? most : 0.0);
}

static double time_of(struct freezer *f, const struct kvt_step_work *work, enum kvt_step_part part)
{
    kvt_step_list(f->step, f->model, f->shape, f->calibration, work, part);
    return f->step->kernel_time;
}

static double law_constant(const struct freezer *f, enum kvt_family family)
{
    return kvt_step_constant(f->model, f->shape, f->calibration, family);
}

/* Where per-request context bends the time: at the split term of the attention that matters most.
 * Its knots at these multiples of split_tokens keep the chord within 4 % of that term. */
static const double bends[] = {0.25, 1.0, 3.0, 10.0, 40.0, 160.0};
/* With a surface it may bend anywhere; in tokens. */
static const double surface_bends[] = {256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0};
enum { BENDS = sizeof bends / sizeof bends[0] };

static double bend_tokens(struct freezer *f, bool *surface)
{
    struct kvt_step_work work = {.decodes = 1.0, .context = 1.0};
    double most = 0.0, tokens = 0.0;
    time_of(f, &work, KVT_STEP_BY_CONTEXT);
    *surface = false;
    for (int32_t i = 0; i < f->step->count; i++) {
        const struct kvt_kernel *kernel = &f->step->kernels[i];
        *surface = *surface || kernel->law->surface != NULL;
        double weight = kernel->law->split * kernel->count;
        if (weight > most && kernel->work.context > 0.0)
            most = weight, tokens = kernel->law->split_tokens;
    }
    return tokens;
}

/* line(b, .) from its times at the knots: whole slopes, values that follow from them. */
static void row_segments(struct kvt_cost_row *row, const int64_t at[], const kvt_ticks time[],
                         int32_t count)
{
    kvt_assert(count >= 2);
    row->segments = count - 1;
    row->value[0] = time[0];
    for (int32_t s = 0; s < row->segments; s++) {
        int64_t width = at[s + 1] - at[s], rise = time[s + 1] - row->value[s];
        row->start[s] = at[s];
        row->slope[s] = rise <= 0 ? 0 : (rise + width / 2) / width;
        if (s + 1 < row->segments)
            row->value[s + 1] = row->value[s] + row->slope[s] * width;
    }
}

/* Raise a row to the host's floor: part of it in base, and line stays at its first value until the
 * attention has used up the rest. */
static void row_floor(struct kvt_cost_row *row, kvt_ticks floor)
{
    kvt_ticks lack = floor - row->base - row->value[0];
    if (lack <= 0)
        return;
    row->base += lack;
    int32_t s = 0; /* the segment in which line has risen by lack */
    while (s + 1 < row->segments && row->value[s + 1] - row->value[0] <= lack)
        s++;
    if (row->slope[s] == 0) { /* it never does */
        row->segments = 1;
        row->slope[0] = 0;
        return;
    }
    struct kvt_cost_row from = *row;
    int64_t cut = from.start[s] + (lack - (from.value[s] - from.value[0])) / from.slope[s];
    row->segments = 1 + from.segments - s;
    kvt_assert(row->segments <= KVT_COSTS_SEGMENTS);
    row->slope[0] = 0;
    for (int32_t k = 1; k < row->segments; k++) {
        row->start[k] = k == 1 ? (cut > 0 ? cut : 1) : from.start[s + k - 1];
        row->slope[k] = from.slope[s + k - 1];
        row->value[k] = row->value[k - 1] + row->slope[k - 1] * (row->start[k] - row->start[k - 1]);
    }
}

/* Where line(b, .) bends, in tokens per request, the same for every b; and one b's times there. */
struct bends {
    int32_t count;
    double tokens[BENDS + 3]; /* from 0 to FAR_TOKENS; the window is one of them */
};
struct row_times {
    double fixed;
    double line[BENDS + 3]; /* with windows as full as the contexts, less window_slope for each */
};

static void bends_add(struct bends *b, double tokens)
{
    if (tokens > b->tokens[b->count - 1] && tokens * 2 <= (double)FAR_TOKENS)
        b->tokens[b->count++] = tokens;
}

static struct bends bends_of(struct freezer *f, double window)
{
    struct bends b = {.count = 1};
    bool surface, windowed = false;
    double bend = bend_tokens(f, &surface);
    for (int32_t k = 0; k < BENDS; k++) {
        double tokens = surface ? surface_bends[k] : ceil(bends[k] * bend);
        if (!windowed && window > 0.0 && window <= tokens) {
            bends_add(&b, window);
            windowed = true;
        }
        bends_add(&b, tokens);
    }
    if (!windowed && window > 0.0)
        bends_add(&b, window);
    b.tokens[b.count++] = (double)FAR_TOKENS;
    return b;
}

/* Seconds of attention of batch requests of so many tokens each, all inside one window or all
 * filling it. */
static double uniform_time(struct freezer *f, int32_t batch, double tokens, double window)
{
    struct kvt_step_work work = {
        .decodes = batch, .context = tokens * batch, .windowed = fmin(tokens, window) * batch};
    return time_of(f, &work, KVT_STEP_BY_CONTEXT);
}

static struct row_times row_times_at(struct freezer *f, const struct bends *b, int32_t batch,
                                     double window, double window_slope)
{
    struct row_times row;
    struct kvt_step_work work = {.decodes = batch};
    row.fixed = time_of(f, &work, KVT_STEP_FIXED);
    for (int32_t k = 0; k < b->count; k++)
        row.line[k] = uniform_time(f, batch, b->tokens[k], window) -
                      window_slope * fmin(b->tokens[k], window) * batch;
    return row;
}

/* Seconds per token inside the windows, for all batches alike: as much as leaves no row shorter
 * with more context, but for SLOPE_ERROR of the step where attention hardly depends on it. */
static double window_seconds(struct freezer *f, double window, int32_t batch_max)
{
    double slope = HUGE_VAL;
    for (int32_t batch = 1; batch <= batch_max; batch *= 2) {
        struct kvt_step_work work = {.decodes = batch};
        double empty = uniform_time(f, batch, 0.0, window);
        double full = uniform_time(f, batch, window, window);
        double slack = SLOPE_ERROR * (time_of(f, &work, KVT_STEP_FIXED) + full);
        slope = fmin(slope, (full - empty + slack) / (window * batch));
        if (batch > batch_max / 2)
            slope = fmin(slope, (full - empty) / (window * batch));
    }
    return fmax(slope, 0.0);
}

static void row_freeze(struct kvt_cost_row *row, const struct bends *b, int32_t batch,
                       const struct row_times *low, const struct row_times *high, double share)
{
    int64_t at[BENDS + 3];
    kvt_ticks time[BENDS + 3];
    for (int32_t k = 0; k < b->count; k++) {
        at[k] = (int64_t)b->tokens[k] * batch;
        time[k] = ticks(low->line[k] + share * (high->line[k] - low->line[k]));
    }
    row->base = ticks(low->fixed + share * (high->fixed - low->fixed));
    row_segments(row, at, time, b->count);
}

/* More requests of the same length are never faster, not even where slopes were rounded. */
static void row_raise(const struct kvt_costs *costs, struct kvt_cost_row *rows, int32_t batch,
                      const struct bends *b)
{
    kvt_ticks lack = rows[batch - 1].base - rows[batch].base;
    for (int32_t k = 0; k < b->count; k++) {
        int64_t tokens = (int64_t)b->tokens[k];
        kvt_ticks before =
            rows[batch - 1].base + kvt_costs_line(costs, batch - 1, tokens * (batch - 1));
        kvt_ticks now = rows[batch].base + kvt_costs_line(costs, batch, tokens * batch);
        lack = before - now > lack ? before - now : lack;
    }
    rows[batch].base += lack > 0 ? lack : 0;
}

/* Every batch up to EVERY_BATCH by the laws, then one in 32 per doubling, straight between them. */
static void freeze_rows(struct freezer *f, struct kvt_costs *costs, struct kvt_cost_row *rows)
{
    enum { EVERY_BATCH = 128 };
    struct bends b = bends_of(f, costs->window);
    double own = f->shape->host_floor;
    kvt_ticks floor = ticks(own > 0.0 ? own : law_constant(f, KVT_FAMILY_HOST_FLOOR));
    double slope = 0.0;
    if (costs->window > 0)
        slope = window_seconds(f, costs->window, costs->batch_max);
    costs->window_slope = ticks(slope);
    slope = kvt_seconds_from_ticks(costs->window_slope);
    struct row_times low = {0}, high = {0};
    int32_t low_batch = 0, high_batch = 0;
    for (int32_t batch = 1; batch <= costs->batch_max; batch++) {
        if (batch > high_batch) {
            int32_t octave = EVERY_BATCH;
            while (octave * 2 <= batch)
                octave *= 2;
            low = high, low_batch = high_batch;
            high_batch = batch < EVERY_BATCH ? batch : batch + octave / 32 - 1;
            high_batch = high_batch > costs->batch_max ? costs->batch_max : high_batch;
            high = row_times_at(f, &b, high_batch, costs->window, slope);
            for (int32_t k = 0; k < b.count; k++) /* more requests are never faster */
                high.line[k] = fmax(high.line[k], low.line[k]);
        }
        double share = (double)(batch - low_batch) / (double)(high_batch - low_batch);
        row_freeze(&rows[batch], &b, batch, &low, &high, share);
        if (batch > 1)
            row_raise(costs, rows, batch, &b);
    }
    for (int32_t batch = 1; batch <= costs->batch_max; batch++) {
        kvt_ticks sent = costs->host_request * batch;
        row_floor(&rows[batch], sent > floor ? sent : floor);
    }
}

struct knots {
    struct freezer *f;
    double pair_time; /* s per pair */
    int64_t at[KNOTS_MAX];
    double time[KNOTS_MAX];
    int32_t count;
};

static double prompt_time(struct freezer *f, int64_t tokens, double pairs, double ends)
{
    struct kvt_step_work work = {
        .prompt_tokens = (double)tokens, .pairs = pairs, .prompt_ends = ends};
    return time_of(f, &work, KVT_STEP_WHOLE);
}

/* A whole prompt, without what the slope in pairs says of it. */
static double own_time(struct freezer *f, int64_t tokens, double pair_time)
{
    double pairs = 0.5 * (double)tokens * (double)(tokens + 1);
    return prompt_time(f, tokens, pairs, 0.0) - pair_time * pairs;
}

/* Whether the middle lies on the chord, and so do the places half way to it. */
static bool on_chord(struct knots *k, int64_t low, double low_time, int64_t high, double high_time,
                     int64_t middle, double time)
{
    const int64_t at[] = {middle, (low + middle) / 2, (middle + high) / 2};
    for (int i = 0; i < 3; i++) {
        double own = i == 0 ? time : own_time(k->f, at[i], k->pair_time);
        double share = (double)(at[i] - low) / (double)(high - low);
        double chord = low_time + share * (high_time - low_time);
        if (fabs(chord - own) > KNOT_ERROR * own)
            return false;
    }
    return true;
}

/* Knots inside (low, high] by halving on a log scale until the middle lies on the chord. */
static void knots_add(struct knots *k, int64_t low, double low_time, int64_t high, double high_time)
{
    int64_t middle = (int64_t)(sqrt((double)low) * sqrt((double)high) + 0.5);
    if (middle > low && middle < high && k->count + 1 < KNOTS_MAX) {
        double time = own_time(k->f, middle, k->pair_time);
        if (high > 4 * low || !on_chord(k, low, low_time, high, high_time, middle, time)) {
            knots_add(k, low, low_time, middle, time);
            knots_add(k, middle, time, high, high_time);
            return;
        }
    }
    if (k->count < KNOTS_MAX) {
        k->at[k->count] = high;
        k->time[k->count++] = high_time;
    }
}

static enum kvt_status freeze_prompts(struct freezer *f, struct kvt_costs *costs,
                                      struct kvt_arena *arena, struct kvt_err *err)
{
    double far = (double)(INT64_C(1) << 40); /* pairs, where every surface is flat */
    struct knots k = {.f = f, .count = 2};
    k.pair_time =
        (prompt_time(f, PROMPT_TOKENS, 2.0 * far, 0.0) - prompt_time(f, PROMPT_TOKENS, far, 0.0)) /
        far;
    k.at[1] = 1;
    k.time[0] = k.time[1] = own_time(f, 1, k.pair_time);
    knots_add(&k, 1, k.time[1], PROMPT_TOKENS, own_time(f, PROMPT_TOKENS, k.pair_time));
    int64_t *at;
    kvt_ticks *time;
    size_t count = (size_t)k.count;
    KVT_TRY(kvt_arena_get(arena, count, sizeof *at, "step times of prompts", &at, err));
    KVT_TRY(kvt_arena_get(arena, count, sizeof *time, "step times of prompts", &time, err));
    for (int32_t i = 0; i < k.count; i++) {
        at[i] = k.at[i];
        time[i] = ticks(k.time[i]);
        if (i > 0 && time[i] < time[i - 1])
            time[i] = time[i - 1];
    }
    costs->token_knots = k.count;
    costs->token_at = at;
    costs->token_time = time;
    costs->pair_slope = ticks(k.pair_time * (1 << 20));
    costs->row_cost = ticks(prompt_time(f, 1, 0.0, 1.0) - prompt_time(f, 1, 0.0, 0.0));
    costs->prefill_base = ticks(law_constant(f, KVT_FAMILY_PREFILL_STEP));
    costs->prefill_floor = ticks(kvt_step_prefill_floor(f->model, f->shape, f->calibration));
    return KVT_OK;
}

enum kvt_status kvt_costs_freeze(struct kvt_costs *costs, struct kvt_arena *arena,
                                 const struct kvt_model *model, const struct kvt_gpu *gpu,
                                 const struct kvt_calibration *calibration,
                                 const struct kvt_step_shape *shape, int32_t batch_max,
                                 bool overlap, struct kvt_err *err)
{
    struct freezer f = {.model = model, .shape = shape, .calibration = calibration};
    struct kvt_cost_row *rows;
    kvt_assert(batch_max >= 1);
    KVT_TRY(kvt_step_check(model, shape, err));
    KVT_TRY(kvt_arena_get(arena, (size_t)batch_max + 1, sizeof *rows, "step times", &rows, err));
    f.step = malloc(sizeof *f.step);
    if (f.step == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a list of kernels");
    *costs =
        (struct kvt_costs){.batch_max = batch_max, .rows = rows, .window = kvt_step_window(model)};
    costs->host_request = ticks(law_constant(&f, KVT_FAMILY_HOST_REQUEST));
    freeze_rows(&f, costs, rows);
    enum kvt_status status = freeze_prompts(&f, costs, arena, err);
    costs->host_ticks = overlap ? 0 : ticks(law_constant(&f, KVT_FAMILY_HOST_STEP));
    costs->request_latency = ticks(law_constant(&f, KVT_FAMILY_REQUEST));
    if (gpu->host_bandwidth > 0.0)
        costs->copy_slope =
            ticks(kvt_step_token_bytes(model, shape) / (HOST_COPY_SHARE * gpu->host_bandwidth));
    if (shape->guards.zero) {
        struct kvt_work work = {.bytes = 1e9};
        const struct kvt_law *law = kvt_calibration_law(calibration, KVT_FAMILY_ELEMENTWISE, &work);
        costs->zero_slope = ticks(kvt_step_token_bytes(model, shape) * 1e-9 *
                                  kvt_calibration_time(calibration, law, &work, NULL));
    }
    free(f.step);
    return status;
}
