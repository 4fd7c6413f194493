/*
 * kv_append_isa.h - what an instruction set has to do for append and convert on the CPU
 *
 * kv_append_<isa>.c defines the three functions that kv_write.h wants, and exports its two loops
 * here. kv_append.c shares the work between threads and stamps the
 * pages when all is written.
 */
#ifndef KVT_KERNELS_CPU_KV_APPEND_ISA_H
#define KVT_KERNELS_CPU_KV_APPEND_ISA_H

#include "kernels/kv_append.h"

struct kvt_kv_append_isa {
    int32_t (*tokens)(const struct kvt_kv_append *append, int32_t first, int32_t last);
    void (*page)(const struct kvt_kv_convert *convert, int32_t i);
};

extern const struct kvt_kv_append_isa kvt_kv_append_portable, kvt_kv_append_avx2,
    kvt_kv_append_avx512;

#endif
