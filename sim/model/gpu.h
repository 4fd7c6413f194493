/*
 * gpu.h - a GPU: memory, rates and links
 *
 * Rates are the vendor's dense numbers; what kernels reach of them is the calibration's business
 * (sim/cost). memory_visible is what a driver reports before anything is loaded.
 */
#ifndef KVT_MODEL_GPU_H
#define KVT_MODEL_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/spelling.h"
#include "sim/base/status.h"

struct kvt_gpu {
    char name[64];
    char aliases[16][64];
    int32_t alias_count;
    char source[160];
    double memory_nominal; /* bytes, as marketed */
    double memory_visible; /* bytes, as the driver reports in total (nvidia-smi) */
    double memory_usable;  /* bytes, as a program is told in total (cudaMemGetInfo) */
    double memory_context; /* bytes of one process's context before weights */
    double memory_peers;   /* bytes more as soon as it talks to other GPUs (NCCL buffers) */
    double bandwidth;      /* bytes/s of HBM */
    double flops_bf16, flops_fp8, flops_fp4; /* dense FLOP/s; 0: no such units */
    double link_bandwidth;                   /* bytes/s per direction, scale-up (NVLink) */
    double nic_bandwidth;                    /* bytes/s per direction, scale-out, of one GPU */
    double host_bandwidth;                   /* bytes/s per direction to host memory */
    int32_t sms;
    double usd_per_hour; /* < 0: not known */
};

/* One of ours by name or alias ("H200", "NVIDIA H100 80GB HBM3"), or a YAML file. capacity >= 0
 * replaces the memory size. A name that is not known is accepted when capacity is given: rates are
 * then 0, so that it has capacity but no speed. */
enum kvt_status kvt_gpu_load(struct kvt_gpu *gpu, const char *name_or_path, double capacity,
                             struct kvt_err *err);

/* The shipped GPU of that name, of the memory size nearest to nominal (bytes, as marketed: 80e9);
 * one by memory size when the name is not known or no such GPU has about that much memory. */
enum kvt_status kvt_gpu_known(struct kvt_gpu *gpu, const char *name, double nominal,
                              struct kvt_err *err);

/* Whether a shipped GPU has that name or alias. When none has, hint ends the message about it (""
 * when none is near). Reads every shipped file, but where one is called just so. */
enum kvt_status kvt_gpu_find(const char *name, bool *found, char hint[KVT_HINT_BYTES],
                             struct kvt_err *err);

/* Whether name is the GPU's own or one of its aliases, in any spelling: "H200 SXM" of h200-sxm. */
bool kvt_gpu_is_named(const struct kvt_gpu *gpu, const char *name);

#endif
