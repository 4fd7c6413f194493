/* INT4 of routed experts: gate and up, then down, as a step runs them. */
#include <math.h>
#include <stdlib.h>

#include "runtime/bench_job.h"

#define EXPERTS     32
#define TOPK        4
#define TOKENS_MOST 128

struct experts {
    struct kvt_bench_memory memory;
    int32_t hidden, inter, group, tokens, hit;
    int64_t each[2], copies; /* bytes of all experts: gate and up, down */
    struct kvt_bench_array a, wide, narrow, out, w[2], row_begin;
};

static struct kvt_int4_experts part_of(const struct experts *x, int down, int64_t turn)
{
    return (struct kvt_int4_experts){.experts = EXPERTS,
                                     .n = down ? x->hidden : 2 * x->inter,
                                     .k = down ? x->inter : x->hidden,
                                     .group = x->group,
                                     .row_begin = x->row_begin.device,
                                     .a = down ? x->narrow.device : x->a.device,
                                     .w = (uint8_t *)x->w[down].device +
                                          turn % x->copies * x->each[down],
                                     .out = down ? x->out.device : x->wide.device};
}

static void call_experts(const struct kvt_bench_job *job, int64_t turn)
{
    const struct experts *x = job->data;
    for (int down = 0; down < 2; down++) {
        struct kvt_int4_experts part = part_of(x, down, turn);
        job->bench->device.ops->int4_experts(&job->bench->device, &part);
    }
}

/* tokens choose TOPK different experts each, at random; rows sorted by expert. */
static void route(struct experts *x, int32_t tokens)
{
    int32_t count[EXPERTS] = {0}, *begin = x->row_begin.host;
    uint32_t state = 1;
    x->tokens = tokens;
    x->hit = 0;
    for (int32_t t = 0; t < tokens; t++) {
        uint32_t taken = 0;
        for (int32_t i = 0; i < TOPK;) {
            state = state * 1664525u + 1013904223u;
            uint32_t expert = state >> 27;
            if ((taken >> expert & 1) != 0)
                continue;
            taken |= 1u << expert;
            count[expert]++;
            i++;
        }
    }
    begin[0] = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
        begin[e + 1] = begin[e] + count[e];
        x->hit += count[e] > 0;
    }
    kvt_bench_up(&x->memory, &x->row_begin);
}

static enum kvt_status pack(struct experts *x, int down, const struct kvt_int4_plain *plain,
                            struct kvt_err *err)
{
    struct kvt_device *device = &x->memory.bench->device;
    int64_t one = (int64_t)device->ops->int4_bytes(plain->n, plain->k, plain->group);
    x->each[down] = EXPERTS * one;
    KVT_TRY(kvt_bench_take_device(&x->memory, x->each[down] * x->copies, &x->w[down], err));
    device->ops->int4_pack(device, plain, x->w[down].device);
    kvt_bench_repeat(x->memory.bench, x->w[down].device, one, x->each[down] * x->copies);
    return device->ops->wait(device, err);
}

/* All experts have the same weights, at places of their own. */
static enum kvt_status take(struct experts *x, uint32_t *nibbles, kvt_bf16 *scales,
                            struct kvt_err *err)
{
    int64_t rows = (int64_t)TOKENS_MOST * TOPK;
    KVT_TRY(kvt_bench_take(&x->memory, 2 * rows * x->hidden, &x->a, err));
    KVT_TRY(kvt_bench_take(&x->memory, 4 * rows * x->inter, &x->wide, err));
    KVT_TRY(kvt_bench_take(&x->memory, 2 * rows * x->inter, &x->narrow, err));
    KVT_TRY(kvt_bench_take(&x->memory, 2 * rows * x->hidden, &x->out, err));
    KVT_TRY(kvt_bench_take(&x->memory, 4 * (EXPERTS + 1), &x->row_begin, err));
    kvt_bench_noise(x->a.host, rows * x->hidden, 1.0f);
    kvt_bench_noise(x->narrow.host, rows * x->inter, 1.0f);
    kvt_bench_up(&x->memory, &x->a);
    kvt_bench_up(&x->memory, &x->narrow);
    for (int down = 0; down < 2; down++) {
        struct kvt_int4_plain plain = {.n = down ? x->hidden : 2 * x->inter,
                                       .k = down ? x->inter : x->hidden,
                                       .group = x->group,
                                       .nibbles = nibbles,
                                       .scales = scales};
        KVT_TRY(pack(x, down, &plain, err));
    }
    return KVT_OK;
}

/* Of the rows of all tokens against the plain definition. */
static enum kvt_status is_right(struct experts *x, uint32_t *nibbles, kvt_bf16 *scales, bool *right,
                                struct kvt_err *err)
{
    struct kvt_bench_job job = {.bench = x->memory.bench, .data = x};
    struct kvt_int4_plain plain[EXPERTS];
    double error = 0, size = 0;
    route(x, 9);
    call_experts(&job, 0);
    KVT_TRY(kvt_bench_down(&x->memory, &x->out, err));
    struct kvt_int4_experts part = part_of(x, 1, 0);
    int64_t count = (int64_t)9 * TOPK * x->hidden;
    kvt_bf16 *got = x->out.host, *want = malloc((size_t)count * 2);
    if (want == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory to check experts");
    part.a = x->narrow.host;
    part.row_begin = x->row_begin.host;
    part.out = want;
    for (int e = 0; e < EXPERTS; e++)
        plain[e] = (struct kvt_int4_plain){
            .n = x->hidden, .k = x->inter, .group = x->group, .nibbles = nibbles, .scales = scales};
    kvt_ref_int4_experts(&part, plain);
    for (int64_t i = 0; i < count; i++) {
        error += fabs((double)kvt_bf16_to_float(got[i]) - (double)kvt_bf16_to_float(want[i]));
        size += fabs((double)kvt_bf16_to_float(want[i]));
    }
    *right = error < 4e-3 * size;
    free(want);
    return KVT_OK;
}

static enum kvt_status measure(struct experts *x, const char *variant, bool right,
                               struct kvt_err *err)
{
    static const int32_t tokens[] = {1, 16, 2, 4, 8, 32, 48, 64, TOKENS_MOST};
    double matrix = 3.0 * x->hidden * x->inter;
    for (int i = 0; i < (x->memory.bench->quick ? 2 : 9); i++) {
        route(x, tokens[i]);
        struct kvt_bench_job job = {.bench = x->memory.bench,
                                    .family = "int4-experts",
                                    .variant = variant,
                                    .bytes = x->hit * matrix * (4 + 16.0 / x->group) / 8,
                                    .flops = 2.0 * tokens[i] * TOPK * matrix,
                                    .right = right,
                                    .call = call_experts,
                                    .data = x};
        KVT_TRY(kvt_bench_measure(&job, err,
                                  "tokens=%d hidden=%d inter=%d experts=%d topk=%d hit=%d",
                                  tokens[i], x->hidden, x->inter, EXPERTS, TOPK, x->hit));
    }
    return KVT_OK;
}

enum kvt_status kvt_bench_experts(struct kvt_bench *bench, struct kvt_err *err)
{
    enum kvt_status status = KVT_OK;
    bool host = bench->device.ops->host_memory;
    for (int32_t group = 32;
         status == KVT_OK && group <= 128 && kvt_bench_wants(bench, "int4-experts"); group *= 4) {
        struct experts x = {.memory = {.bench = bench},
                            .hidden = host ? 2048 : 7168,
                            .inter = host ? 768 : 2048,
                            .group = group,
                            .copies = host ? bench->cold / ((int64_t)80 << 20) + 1 : 2};
        size_t count = (size_t)x.hidden * (size_t)x.inter * 2;
        uint32_t *nibbles = malloc(count / 2), state = 3;
        kvt_bf16 *scales = malloc(count / (size_t)group * 2);
        bool right = false;
        if (nibbles == NULL || scales == NULL)
            status = kvt_err_set(err, KVT_ENOMEM, "no memory for experts");
        for (size_t i = 0; status == KVT_OK && i < count / 8; i++)
            nibbles[i] = state = state * 1664525u + 1013904223u;
        for (size_t i = 0; status == KVT_OK && i < count / (size_t)group; i++)
            scales[i] = kvt_bf16_from_float(0.01f + 0.0001f * (float)(i % 97));
        if (status == KVT_OK)
            status = take(&x, nibbles, scales, err);
        if (status == KVT_OK)
            status = is_right(&x, nibbles, scales, &right, err);
        if (status == KVT_OK)
            status = measure(&x, group == 32 ? "g32" : "g128", right, err);
        kvt_bench_release(&x.memory);
        free(nibbles);
        free(scales);
    }
    return status;
}
