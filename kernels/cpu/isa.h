/*
 * isa.h - which instruction set the CPU kernels use
 *
 *   portable   plain C, any processor
 *   avx2       AVX2, FMA, F16C
 *   avx512     AVX-512 F, BW, DQ, VL, VBMI, VNNI and BF16
 *   amx        that, and AMX tiles with BF16; Linux must grant them to the process
 *
 * Each level includes those before it; a kernel without a version for a level uses the next lower.
 * The first call of kvt_isa() chooses the highest that processor and system have. The environment
 * variable KVTWIN_ISA names a lower one; a name that is unknown or not there is told by
 * kvt_isa_init, and ignored where nobody asks. Results differ between levels by rounding only,
 * where a kernel's contract allows that.
 */
#ifndef KVT_KERNELS_CPU_ISA_H
#define KVT_KERNELS_CPU_ISA_H

#include <stdbool.h>

#include "sim/base/status.h"

enum kvt_isa { KVT_ISA_PORTABLE, KVT_ISA_AVX2, KVT_ISA_AVX512, KVT_ISA_AMX, KVT_ISA_COUNT };

/* Choose as above; KVT_EUSAGE for a KVTWIN_ISA that cannot be had. Call it before threads start. */
enum kvt_status kvt_isa_init(struct kvt_err *err);

/* The level in use. */
enum kvt_isa kvt_isa(void);

/* Use another one from now on: false, and no change, when the machine lacks it. For tests. */
bool kvt_isa_set(enum kvt_isa isa);

/* The versions of something for the levels, as an initialiser. Only x86 has more than one: the
 * Makefile defines KVT_X86 there, and leaves out files for other levels elsewhere. */
#ifdef KVT_X86
#define KVT_ISA_VERSIONS(portable, avx2, avx512, amx)                                              \
    {                                                                                              \
        portable, avx2, avx512, amx                                                                \
    }
#else
#define KVT_ISA_VERSIONS(portable, avx2, avx512, amx)                                              \
    {                                                                                              \
        portable, portable, portable, portable                                                     \
    }
#endif

/* "portable", ... */
const char *kvt_isa_name(enum kvt_isa isa);

#endif
