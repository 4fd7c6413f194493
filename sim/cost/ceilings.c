#include "sim/cost/ceilings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/cost/guess.h"

#define LEAST_SHARE   0.25 /* of the data sheet's bandwidth, or it is another machine */
#define MOST_SHARE    1.25
#define CPU_FACTOR    30.0 /* that one CPU is from another */
#define NOISE         1.05 /* a row may be faster than the best of the ceilings by this much */
#define SMALL_KERNEL  4e-6 /* s that guess.c takes for one: its constants over this are a count */
#define LAYER_KERNELS 12.0 /* launches of a layer in a step with prompt tokens */

enum kvt_status kvt_ceilings_apply(const struct kvt_bench_facts *facts, struct kvt_gpu *gpu,
                                   bool *surprising, struct kvt_err *err)
{
    double best = fmax(facts->read, facts->copy);
    double share = best > 0.0 && gpu->bandwidth > 0.0 ? best / gpu->bandwidth : 1.0;
    bool explained =
        strcmp(facts->backend, "cpu") == 0 && share > 1.0 / CPU_FACTOR && share < CPU_FACTOR;
    *surprising = share < LEAST_SHARE || share > MOST_SHARE;
    if (*surprising && !explained)
        return kvt_err_set(err, KVT_ECONFIG,
                           "the read and copy ceilings of %s reach %.4g GB/s, GPU \"%s\" has %.4g "
                           "GB/s: want the table of this GPU, times in nanoseconds, or another "
                           "--gpu",
                           facts->device, 1e-9 * best, gpu->name, 1e-9 * gpu->bandwidth);
    if (best > 0.0)
        gpu->bandwidth = NOISE * best;
    if (facts->flops > 0.0) {
        gpu->flops_bf16 = NOISE * facts->flops;
        gpu->flops_fp8 = gpu->flops_fp4 = 0.0;
    }
    return KVT_OK;
}

static bool has_family(const struct kvt_calibration *c, enum kvt_family family)
{
    for (int32_t i = 0; i < c->law_count; i++)
        if (c->laws[i].family == family)
            return true;
    return false;
}

/* Families that one device does not run by itself, or that no ceiling says anything of. */
static bool is_apart(enum kvt_family family)
{
    return family == KVT_FAMILY_ALL_REDUCE || family == KVT_FAMILY_ALL_GATHER ||
           family == KVT_FAMILY_REDUCE_SCATTER || family == KVT_FAMILY_DISPATCH_LL ||
           family == KVT_FAMILY_DISPATCH || family == KVT_FAMILY_SEND ||
           family == KVT_FAMILY_APPEND ||
           (family >= KVT_FAMILY_SPARSE_DECODE_BF16 && family <= KVT_FAMILY_INDEX_PREFILL);
}

/* A runtime that attends to a prompt row by row reaches the matrix rate of its decode attention:
 * the best of those fitted, 0 where none says. */
static double attention_flops(const struct kvt_calibration *c, bool latent)
{
    double best = 0.0;
    for (int32_t i = 0; i < c->law_count; i++) {
        enum kvt_family f = c->laws[i].family;
        bool mla = f == KVT_FAMILY_MLA_DECODE_BF16 || f == KVT_FAMILY_MLA_DECODE_FP8;
        bool gqa = f == KVT_FAMILY_GQA_DECODE_BF16 || f == KVT_FAMILY_GQA_DECODE_FP8;
        if ((latent ? mla : gqa) && c->laws[i].error_rows > 0) /* measured */
            best = fmax(best, c->laws[i].flops);
    }
    return best;
}

static struct kvt_law from_ceilings(enum kvt_family family, const struct kvt_bench_facts *facts,
                                    const struct kvt_gpu *gpu,
                                    const struct kvt_calibration *calibration)
{
    struct kvt_law law = kvt_law_guess(family, gpu);
    double launches = 1.0;
    law.guess = false;
    if (law.kind != KVT_LAW_CONSTANT) {
        law.t0 = facts->launch;
        snprintf(law.source, sizeof law.source,
                 "not measured: 80 %% of the memory and 70 %% of the matrix ceiling (half of it "
                 "for experts) of %s, after one launch",
                 facts->device);
        bool latent = family == KVT_FAMILY_MLA_PREFILL;
        double flops = attention_flops(calibration, latent);
        if ((latent || family == KVT_FAMILY_GQA_PREFILL) && flops > 0.0) {
            law.flops = flops;
            snprintf(law.source, sizeof law.source,
                     "not measured: the matrix rate of decode attention and 80 %% of the memory "
                     "ceiling of %s, after one launch",
                     facts->device);
        }
        return law;
    }
    if (kvt_family_is_gap(family))
        launches = law.t0 / SMALL_KERNEL;
    else if (family == KVT_FAMILY_PREFILL_LAYER)
        launches = LAYER_KERNELS;
    else if (family == KVT_FAMILY_PREFILL_STEP || family == KVT_FAMILY_REQUEST ||
             family == KVT_FAMILY_HOST_REQUEST)
        launches = 0.0;
    law = (struct kvt_law){
        .family = family, .kind = KVT_LAW_CONSTANT, .p = 3.0, .t0 = launches * facts->launch};
    snprintf(law.source, sizeof law.source,
             "not measured: %.0f launches of %.3g us on %s, no server around the kernels", launches,
             1e6 * facts->launch, facts->device);
    return law;
}

int32_t kvt_ceilings_fill(const struct kvt_bench_facts *facts, const struct kvt_gpu *gpu,
                          struct kvt_calibration *calibration)
{
    int32_t added = 0, room = KVT_CALIBRATION_LAWS - KVT_FAMILY_COUNT;
    for (int f = 0; f < KVT_FAMILY_COUNT && facts->launch > 0.0; f++) {
        enum kvt_family family = (enum kvt_family)f;
        if (is_apart(family) || has_family(calibration, family) || calibration->law_count == room)
            continue;
        calibration->laws[calibration->law_count++] =
            from_ceilings(family, facts, gpu, calibration);
        added++;
    }
    return added;
}
