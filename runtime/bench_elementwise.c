/* The small kernels between the large ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/bench_pool.h"

#define DIM        4096
#define HEAD_DIM   128
#define ROWS_MOST  256
#define COPIES     32
#define CHECK_ROWS 3

enum kind { NORM, SILU, ROPE, ARGMAX, KINDS };
static const char *const kind_names[KINDS] = {"norm", "silu", "rope", "argmax"};

struct small {
    struct kvt_bench_memory memory;
    enum kind kind;
    int32_t rows;
    struct kvt_bench_array x, in, weight, out, position, token; /* x and in in rotating copies */
};

static struct kvt_rope rope_of(const struct small *s, kvt_bf16 *x, const int32_t *position)
{
    return (struct kvt_rope){.x = x,
                             .position = position,
                             .rows = s->rows,
                             .heads = DIM / HEAD_DIM,
                             .dim = HEAD_DIM,
                             .row_stride = DIM,
                             .head_stride = HEAD_DIM,
                             .base = 10000.0};
}

static void call_small(const struct kvt_bench_job *job, int64_t turn)
{
    const struct small *s = job->data;
    struct kvt_device *device = &job->bench->device;
    const struct kvt_device_ops *ops = device->ops;
    int64_t at = turn % COPIES * ROWS_MOST * DIM;
    float *x = (float *)s->x.device + at;
    kvt_bf16 *in = (kvt_bf16 *)s->in.device + 2 * at;
    struct kvt_rope rope = rope_of(s, in, s->position.device);
    switch (s->kind) {
    case NORM:
        ops->add_norm(device, x, in, s->weight.device, 1e-6f, s->rows, DIM, s->out.device);
        return;
    case SILU:
        ops->silu_mul(device, in, s->rows, DIM, s->out.device);
        return;
    case ROPE:
        ops->rope(device, &rope);
        return;
    case ARGMAX:
        ops->argmax(device, in, s->rows, DIM, s->token.device);
        return;
    case KINDS:
        return;
    }
}

static double bytes_of(const struct small *s)
{
    static const double per_element[KINDS] = {4 + 4 + 2 + 2, 4 + 2, 2 + 2, 2};
    return (double)s->rows * DIM * per_element[s->kind];
}

static enum kvt_status take(struct small *s, struct kvt_err *err)
{
    int64_t cells = (int64_t)ROWS_MOST * DIM;
    KVT_TRY(kvt_bench_take(&s->memory, 4 * cells * COPIES, &s->x, err));
    KVT_TRY(kvt_bench_take(&s->memory, 4 * cells * COPIES, &s->in, err));
    KVT_TRY(kvt_bench_take(&s->memory, 2 * DIM, &s->weight, err));
    KVT_TRY(kvt_bench_take(&s->memory, 2 * cells, &s->out, err));
    KVT_TRY(kvt_bench_take(&s->memory, 4 * ROWS_MOST, &s->position, err));
    KVT_TRY(kvt_bench_take(&s->memory, 4 * ROWS_MOST, &s->token, err));
    kvt_bench_noise(s->in.host, 2 * cells * COPIES, 1.0f);
    kvt_bench_noise(s->weight.host, DIM, 1.0f);
    for (int32_t i = 0; i < ROWS_MOST; i++)
        ((int32_t *)s->position.host)[i] = 100 * i;
    kvt_bench_up(&s->memory, &s->in);
    kvt_bench_up(&s->memory, &s->weight);
    kvt_bench_up(&s->memory, &s->position);
    return s->memory.bench->device.ops->wait(&s->memory.bench->device, err);
}

static bool is_close(const kvt_bf16 *got, const kvt_bf16 *want, int64_t count, double of)
{
    for (int64_t i = 0; i < count; i++) {
        double a = (double)kvt_bf16_to_float(got[i]), b = (double)kvt_bf16_to_float(want[i]);
        if (!(fabs(a - b) <= fmax(of, fabs(b)) / 128)) /* both are rounded */
            return false;
    }
    return true;
}

/* A few rows of copy 0; rope rotates in place, so that it goes up again. */
static enum kvt_status is_right(struct small *s, bool *right, struct kvt_err *err)
{
    struct kvt_bench_job job = {.bench = s->memory.bench, .data = s};
    static kvt_bf16 want[CHECK_ROWS * DIM];
    int32_t token[CHECK_ROWS];
    int64_t count = CHECK_ROWS * DIM;
    kvt_bf16 *in = s->in.host;
    s->rows = CHECK_ROWS;
    memset(s->x.host, 0, (size_t)count * 4);
    kvt_bench_up(&s->memory, &s->x);
    kvt_bench_up(&s->memory, &s->in);
    struct kvt_rope rope = rope_of(s, want, s->position.host);
    switch (s->kind) {
    case NORM:
        kvt_ref_add_norm(s->x.host, in, s->weight.host, 1e-6f, CHECK_ROWS, DIM, want);
        break;
    case SILU:
        kvt_ref_silu_mul(in, CHECK_ROWS, DIM, want);
        break;
    case ROPE:
        memcpy(want, in, sizeof want);
        kvt_ref_rope(&rope);
        break;
    case ARGMAX:
        kvt_ref_argmax(in, CHECK_ROWS, DIM, token);
        break;
    case KINDS:
        break;
    }
    call_small(&job, 0);
    KVT_TRY(kvt_bench_down(&s->memory, &s->out, err));
    KVT_TRY(kvt_bench_down(&s->memory, &s->token, err));
    KVT_TRY(kvt_bench_down(&s->memory, &s->in, err));
    const kvt_bf16 *got = s->kind == ROPE ? s->in.host : s->out.host;
    *right = s->kind == ARGMAX ? memcmp(s->token.host, token, sizeof token) == 0
                               : is_close(got, want, count, s->kind == ROPE ? 1.5 : 1e-3);
    return KVT_OK;
}

enum kvt_status kvt_bench_elementwise(struct kvt_bench *bench, struct kvt_err *err)
{
    static const int32_t rows[] = {16, ROWS_MOST, 1, 4, 64, 128};
    struct small s = {.memory = {.bench = bench}};
    if (!kvt_bench_wants(bench, "elementwise"))
        return KVT_OK;
    enum kvt_status status = take(&s, err);
    for (int kind = 0; status == KVT_OK && kind < KINDS; kind++) {
        bool right = false;
        s.kind = (enum kind)kind;
        status = is_right(&s, &right, err);
        for (int i = 0; status == KVT_OK && i < (bench->quick ? 2 : 6); i++) {
            s.rows = rows[i];
            struct kvt_bench_job job = {.bench = bench,
                                        .family = "elementwise",
                                        .variant = kind_names[kind],
                                        .bytes = bytes_of(&s),
                                        .copies = kind == NORM || kind == ROPE,
                                        .right = right,
                                        .call = call_small,
                                        .data = &s};
            status = kvt_bench_measure(&job, err, "rows=%d dim=%d", rows[i], DIM);
        }
    }
    kvt_bench_release(&s.memory);
    return status;
}
