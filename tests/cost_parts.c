#include "tests/cost_parts.h"

#include <stdio.h>

#include "sim/cost/calibration_print.h"

const struct kvt_gpu cost_gpu = {.name = "h200-sxm",
                                 .alias_count = 1,
                                 .aliases = {"h200"},
                                 .bandwidth = 4.8e12,
                                 .flops_bf16 = 989.4e12,
                                 .flops_fp8 = 1978.9e12,
                                 .link_bandwidth = 450e9,
                                 .nic_bandwidth = 50e9,
                                 .host_bandwidth = 64e9};

struct kvt_gpu cost_gpu_of(const char *calibration)
{
    struct kvt_gpu gpu;
    struct kvt_err err = {0};
    char name[32];
    snprintf(name, sizeof name, "%.4s-sxm", calibration);
    CHECK_OK(kvt_gpu_load(&gpu, name, -1.0, &err), err);
    return gpu;
}

struct kvt_calibration cost_shipped(const char *name)
{
    struct kvt_calibration calibration;
    struct kvt_err err = {0};
    struct kvt_gpu gpu = cost_gpu_of(name);
    CHECK_OK(kvt_calibration_load(&calibration, name, &gpu, "sglang", NULL, &err), err);
    return calibration;
}

struct kvt_step_shape cost_tensor_parallel(int32_t tp, enum kvt_kv_dtype kv)
{
    struct kvt_step_shape shape = {.kv = kv, .layout = {tp, 1, 1, 1, 1}, .skew = -1.0};
    return shape;
}

void cost_freeze(struct frozen *f, const struct kvt_model *model,
                 const struct kvt_step_shape *shape, const struct kvt_calibration *c,
                 int32_t batch_max)
{
    struct kvt_err err = {0};
    struct kvt_gpu gpu = cost_gpu_of("h200");
    CHECK_OK(kvt_arena_init(&f->arena, 16 << 20, &err), err);
    CHECK_OK(kvt_costs_freeze(&f->costs, &f->arena, model, &gpu, c, shape, batch_max, true, &err),
             err);
}

char *cost_print(const struct kvt_calibration *c)
{
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    kvt_calibration_print(c, "note", out);
    fclose(out);
    return text;
}
