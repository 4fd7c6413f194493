#define _DEFAULT_SOURCE /* syscall */

#include "kernels/cpu/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef KVT_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const names[KVT_ISA_COUNT] = {"portable", "avx2", "avx512", "amx"};

static atomic_int chosen = -1;

#if defined KVT_X86 && defined __linux__

/* Tiles are 8 KB of state a thread: Linux wants to be asked before it saves them. */
static bool tiles_are_granted(void)
{
    enum { REQUEST_XCOMP_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    bool has_bf16 = (d >> 22 & 1) != 0, has_tiles = (d >> 24 & 1) != 0;
    return has_bf16 && has_tiles &&
           syscall(SYS_arch_prctl, REQUEST_XCOMP_PERMISSION, TILE_DATA) == 0;
}

static enum kvt_isa best(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return KVT_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vnni") ||
        !__builtin_cpu_supports("avx512bf16"))
        return KVT_ISA_AVX2;
    return tiles_are_granted() ? KVT_ISA_AMX : KVT_ISA_AVX512;
}

#else

static enum kvt_isa best(void)
{
    return KVT_ISA_PORTABLE;
}

#endif

/* *isa is set in any case: to the best that can be had when KVTWIN_ISA asks for something else. */
static enum kvt_status choose(enum kvt_isa *isa, struct kvt_err *err)
{
    const char *wanted = getenv("KVTWIN_ISA");
    enum kvt_isa most = best(), named = KVT_ISA_PORTABLE;
    *isa = most;
    if (wanted == NULL || wanted[0] == '\0')
        return KVT_OK;
    while (named < KVT_ISA_COUNT && strcmp(wanted, names[named]) != 0)
        named++;
    if (named == KVT_ISA_COUNT)
        return kvt_err_set(err, KVT_EUSAGE,
                           "KVTWIN_ISA: want portable, avx2, avx512 or amx, got \"%s\"", wanted);
    if (named > most)
        return kvt_err_set(err, KVT_EUSAGE,
                           "KVTWIN_ISA: want at most %s, which this machine has, got %s",
                           names[most], wanted);
    *isa = named;
    return KVT_OK;
}

enum kvt_status kvt_isa_init(struct kvt_err *err)
{
    enum kvt_isa isa;
    enum kvt_status status = choose(&isa, err);
    atomic_store(&chosen, (int)isa);
    return status;
}

enum kvt_isa kvt_isa(void)
{
    int isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (isa >= 0)
        return (enum kvt_isa)isa;
    kvt_isa_init(NULL);
    return (enum kvt_isa)atomic_load_explicit(&chosen, memory_order_relaxed);
}

bool kvt_isa_set(enum kvt_isa isa)
{
    if (isa > best())
        return false;
    atomic_store(&chosen, (int)isa);
    return true;
}

const char *kvt_isa_name(enum kvt_isa isa)
{
    return names[isa];
}
