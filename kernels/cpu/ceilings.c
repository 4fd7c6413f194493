#include "kernels/cpu/ceilings.h"

#include "kernels/cpu/isa.h"

#define PART ((size_t)4 << 20) /* bytes that a thread takes at a time */

static const struct kvt_ceilings_isa *isa_in_use(void)
{
    static const struct kvt_ceilings_isa *const all[KVT_ISA_COUNT] = KVT_ISA_VERSIONS(
        &kvt_ceilings_portable, &kvt_ceilings_avx2, &kvt_ceilings_avx512, &kvt_ceilings_amx);
    return all[kvt_isa()];
}

static size_t part_at(size_t at, size_t bytes)
{
    return bytes - at < PART ? bytes - at : PART;
}

uint32_t kvt_cpu_ceiling_read(const void *from, size_t bytes)
{
    const struct kvt_ceilings_isa *isa = isa_in_use();
    uint32_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (size_t at = 0; at < bytes; at += PART)
        sum += isa->read((const uint8_t *)from + at, part_at(at, bytes));
    return sum;
}

void kvt_cpu_ceiling_copy(void *to, const void *from, size_t bytes)
{
    const struct kvt_ceilings_isa *isa = isa_in_use();
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < bytes; at += PART)
        isa->copy((uint8_t *)to + at, (const uint8_t *)from + at, part_at(at, bytes));
}

double kvt_cpu_ceiling_multiply(bool tiles, int32_t rounds)
{
    const struct kvt_ceilings_isa *isa = isa_in_use();
    double (*multiply)(int32_t) = tiles ? isa->tiles : isa->vectors;
    double flops = 0;
    if (multiply == NULL)
        return 0;
#pragma omp parallel reduction(+ : flops)
    flops += multiply(rounds);
    return flops;
}
