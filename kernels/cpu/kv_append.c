#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_append_isa.h"

/* Tokens a thread takes at a time: a page's worth, so that few lines of scales are shared. */
#define STRIP 64

static const struct kvt_kv_append_isa *isa_in_use(void)
{
    static const struct kvt_kv_append_isa *const all[KVT_ISA_COUNT] = KVT_ISA_VERSIONS(
        &kvt_kv_append_portable, &kvt_kv_append_avx2, &kvt_kv_append_avx512, &kvt_kv_append_avx512);
    return all[kvt_isa()];
}

void kvt_cpu_kv_append(const struct kvt_kv_append *append)
{
    const struct kvt_kv_append_isa *isa = isa_in_use();
    int32_t tokens = append->tokens, poisoned = 0;
#pragma omp parallel for schedule(static) reduction(+ : poisoned) if (tokens > STRIP)
    for (int32_t first = 0; first < tokens; first += STRIP)
        poisoned += isa->tokens(append, first, first + STRIP < tokens ? first + STRIP : tokens);
    if (append->poisoned != NULL)
        *append->poisoned += poisoned;
    kvt_kv_append_stamp(append);
}

void kvt_cpu_kv_convert(const struct kvt_kv_convert *convert)
{
    const struct kvt_kv_append_isa *isa = isa_in_use();
#pragma omp parallel for schedule(static)
    for (int32_t i = 0; i < convert->pages; i++)
        isa->page(convert, i);
    kvt_kv_convert_stamp(convert);
}
