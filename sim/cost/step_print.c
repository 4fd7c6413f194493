/* A step's list for people and for programs. */
#include <inttypes.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/cost/step.h"

static void print_shape(const struct kvt_kernel *kernel, char *out, size_t bytes)
{
    const struct kvt_work *w = &kernel->work;
    if (w->dim[KVT_DIM_N] > 0.0)
        snprintf(out, bytes, "%.0f x %.0f x %.0f", w->dim[KVT_DIM_M], w->dim[KVT_DIM_N],
                 w->dim[KVT_DIM_K]);
    else if (kernel->by_context && w->batch > 0.0)
        snprintf(out, bytes, "%.0f x %.0f", w->batch, w->context / w->batch);
    else if (w->dim[KVT_DIM_EXPERTS] > 0.0)
        snprintf(out, bytes, "%.0f of %.0f hit",
                 w->tile_flops / (w->flops / (w->dim[KVT_DIM_M] * w->dim[KVT_DIM_TOPK])),
                 w->dim[KVT_DIM_EXPERTS]);
    else
        out[0] = '\0';
}

void kvt_step_print(const struct kvt_kernel_list *step, const struct kvt_calibration *calibration,
                    FILE *out)
{
    bool used[KVT_CALIBRATION_LAWS] = {false};
    fprintf(out, "%-28s %-18s %20s %5s %10s %10s %6s %10s %10s %-7s %s\n", "kernel", "family",
            "shape", "calls", "one us", "all ms", "share", "one MB", "one GFLOP", "limit", "law");
    for (int32_t i = 0; i < step->count; i++) {
        const struct kvt_kernel *k = &step->kernels[i];
        char shape[64];
        print_shape(k, shape, sizeof shape);
        used[k->law - calibration->laws] = true;
        fprintf(out, "%-28s %-18s %20s %5.0f %10.2f %10.3f %5.1f%% %10.3f %10.3f %-7s ", k->name,
                kvt_family_names[k->law->family], shape, k->count, k->time * 1e6,
                k->time * k->count * 1e3, 100.0 * k->time * k->count / step->kernel_time,
                k->bytes / 1e6, k->flops / 1e9, kvt_limit_names[k->limit]);
        if (k->law->guess)
            fprintf(out, "guess\n");
        else
            fprintf(out, "line %" PRId32 "\n", k->law->line);
    }
    fprintf(out, "\nkernels %.3f ms, host floor %.3f ms, step %.3f ms\n", step->kernel_time * 1e3,
            step->host_floor * 1e3, step->time * 1e3);
    fprintf(out, "calibration %s (%s, %s %s): %s\n", calibration->name, calibration->gpu,
            calibration->stack, calibration->version, calibration->source);
    for (int32_t i = 0; i < calibration->law_count; i++) {
        const struct kvt_law *law = &calibration->laws[i];
        if (!used[i])
            continue;
        if (law->guess)
            fprintf(out, "  guess     %s: %s\n", kvt_family_names[law->family], law->source);
        else
            fprintf(out, "  line %-4" PRId32 " %s: %s\n", law->line, kvt_family_names[law->family],
                    law->source);
    }
}

static json_t *kernel_json(const struct kvt_kernel *k)
{
    json_t *shape = json_object();
    for (int d = 0; d < KVT_DIM_COUNT; d++)
        if (k->work.dim[d] > 0.0)
            json_object_set_new(shape, kvt_dim_names[d], json_real(k->work.dim[d]));
    if (k->work.batch > 0.0) {
        json_object_set_new(shape, "batch", json_real(k->work.batch));
        json_object_set_new(shape, "context", json_real(k->work.context));
    }
    json_t *law =
        json_pack("{s:s, s:s, s:b, s:s}", "family", kvt_family_names[k->law->family], "law",
                  kvt_law_names[k->law->kind], "guess", k->law->guess, "source", k->law->source);
    if (!k->law->guess)
        json_object_set_new(law, "line", json_integer(k->law->line));
    return json_pack("{s:s, s:i, s:o, s:f, s:f, s:f, s:f, s:s, s:o}", "name", k->name, "group",
                     (int)k->group, "shape", shape, "calls", k->count, "time_us", k->time * 1e6,
                     "bytes", k->bytes, "flops", k->flops, "limit", kvt_limit_names[k->limit],
                     "law", law);
}

enum kvt_status kvt_step_json(const struct kvt_kernel_list *step,
                              const struct kvt_calibration *calibration, FILE *out,
                              struct kvt_err *err)
{
    kvt_json_begin();
    json_t *kernels = json_array();
    for (int32_t i = 0; i < step->count; i++)
        json_array_append_new(kernels, kernel_json(&step->kernels[i]));
    json_t *root =
        json_pack("{s:f, s:f, s:f, s:{s:s, s:s, s:s, s:s, s:s}, s:o}", "time_ms", step->time * 1e3,
                  "kernels_ms", step->kernel_time * 1e3, "host_floor_ms", step->host_floor * 1e3,
                  "calibration", "name", calibration->name, "gpu", calibration->gpu, "stack",
                  calibration->stack, "version", calibration->version, "source",
                  calibration->source, "kernels", kernels);
    return kvt_json_print(root, 9, out, err);
}
